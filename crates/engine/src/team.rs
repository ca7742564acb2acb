//! What the workers of one graph know of each other: who is idle, what they ask each other, and when it is over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use element::context::secret;
use element::steering::{Dispatch, Rss, STEERING_KEY, key_of};
use element::{ElementId, Rights};

use crate::displacement::Board;
use crate::handover::Bell;
use crate::report::Report;
use crate::worker::Worker;

/// All workers.
pub(crate) struct Team {
    pub(crate) bells: Arc<[Bell]>,
    /// Which worker packets belong to.
    pub(crate) dispatch: Arc<dyn Dispatch>,
    /// Whether they take turns on one thread.
    pub(crate) in_turn: bool,
    /// Those that wait for their turn, if they do; whoever has it can ask them.
    waiting: Vec<Mutex<Option<Box<Worker>>>>,
    members: Vec<Member>,
    /// Where packets of flows are spread without their order: how far they are displaced, and how far they may be.
    pub(crate) displacement: OnceLock<(Arc<Board>, Option<u64>)>,
    /// The run is over.
    over: AtomicBool,
    failed: AtomicBool,
    /// Requests to stop that the first worker has not heard of yet.
    stops: AtomicI64,
}

/// What others know of one worker.
#[derive(Default)]
#[repr(align(64))]
struct Member {
    /// How often it has begun or stopped to be idle: odd while it is.
    idle: AtomicU64,
    /// Packets handed over and taken, as of when it became idle.
    handed: AtomicU64,
    taken: AtomicU64,
    /// Packets that have entered the graph at it.
    made: AtomicU64,
    /// Whether its thread answers requests.
    answers: AtomicBool,
    has_requests: AtomicBool,
    /// True while its report is asked for.
    wants_report: AtomicBool,
    /// The report that it has given.
    report: Mutex<Option<Report>>,
    requests: Mutex<VecDeque<Request>>,
}

/// A handler call from another worker.
pub(crate) struct Request {
    pub(crate) element: Option<ElementId>,
    pub(crate) handler: String,
    /// The parameter or the value.
    pub(crate) value: String,
    /// For a value to write: what may be done.
    pub(crate) writes: Option<Rights>,
    reply: Sender<Result<String, String>>,
}

impl Request {
    pub(crate) fn answer(self, result: Result<String, String>) {
        // Whoever asked may have given up.
        let _ = self.reply.send(result);
    }
}

impl Team {
    /// Makes a team of so many workers. Under the real clock, nobody knows the key by which packets belong to them.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub(crate) fn new(workers: usize, in_turn: bool) -> nix::Result<Team> {
        let key = if in_turn { STEERING_KEY } else { key_of(secret()) };
        Ok(Team {
            dispatch: Arc::new(Rss::with_key(workers, key)),
            in_turn,
            waiting: (0..workers).map(|_| Mutex::new(None)).collect(),
            bells: (0..workers).map(|_| Bell::new()).collect::<nix::Result<_>>()?,
            members: (0..workers).map(|_| Member::default()).collect(),
            displacement: OnceLock::new(),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            stops: AtomicI64::new(0),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Puts a worker where others can ask it until its turn comes.
    pub(crate) fn let_wait(&self, number: usize, worker: Box<Worker>) {
        *lock(&self.waiting[number]) = Some(worker);
    }

    /// Takes a worker that waits; `None` if it does not, or somebody asks it already.
    pub(crate) fn take_waiting(&self, number: usize) -> Option<Box<Worker>> {
        lock(&self.waiting[number]).take()
    }

    /// Whether the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// A worker's thread has panicked.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.bells[0].ring();
    }

    /// Whether a worker's thread has panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Begins or ends a run.
    pub(crate) fn set_over(&self, over: bool) {
        self.over.store(over, Ordering::Release);
        self.bells.iter().for_each(Bell::ring);
    }

    /// Asks the first worker to stop the run.
    pub(crate) fn ask_to_stop(&self, times: i64) {
        self.stops.fetch_add(times, Ordering::AcqRel);
        self.bells[0].ring();
    }

    /// Requests to stop since the last look.
    pub(crate) fn take_stops(&self) -> i64 {
        match self.stops.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.stops.swap(0, Ordering::AcqRel),
        }
    }

    /// Says that a worker has nothing to do, and how many packets it has handed over and taken.
    pub(crate) fn begin_idle(&self, me: usize, handed: u64, taken: u64) {
        let member = &self.members[me];
        if member.idle.load(Ordering::Relaxed).is_multiple_of(2) {
            member.handed.store(handed, Ordering::SeqCst);
            member.taken.store(taken, Ordering::SeqCst);
            member.idle.fetch_add(1, Ordering::SeqCst);
            if me != 0 {
                self.bells[0].ring();
            }
        }
    }

    /// Says that a worker has something to do, before it does it.
    pub(crate) fn end_idle(&self, me: usize) {
        let member = &self.members[me];
        if !member.idle.load(Ordering::Relaxed).is_multiple_of(2) {
            member.idle.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether nobody has anything to do and no packet is on its way. A worker has something to do only after it has
    /// said so; so if all were idle all the time between two looks, and as many packets were taken as were handed over,
    /// nothing can begin any more.
    pub(crate) fn is_idle(&self) -> bool {
        let all = || self.members.iter().map(|member| member.idle.load(Ordering::SeqCst));
        let before: Vec<u64> = all().collect();
        let sum = |of: fn(&Member) -> &AtomicU64| {
            self.members.iter().map(|member| of(member).load(Ordering::SeqCst)).fold(0, u64::wrapping_add)
        };
        before.iter().all(|n| !n.is_multiple_of(2))
            && sum(|member| &member.handed) == sum(|member| &member.taken)
            && all().eq(before.iter().copied())
    }

    /// Notes how many packets have entered the graph at a worker; how many at all of them.
    pub(crate) fn note_made(&self, me: usize, made: u64) -> u64 {
        self.members[me].made.store(made, Ordering::Relaxed);
        self.members.iter().map(|member| member.made.load(Ordering::Relaxed)).sum()
    }

    /// Says whether a worker answers requests. Those that it leaves are told so.
    pub(crate) fn set_answers(&self, me: usize, answers: bool) {
        self.members[me].answers.store(answers, Ordering::SeqCst);
        if !answers {
            self.requests(me).clear();
        }
    }

    fn requests(&self, me: usize) -> MutexGuard<'_, VecDeque<Request>> {
        lock(&self.members[me].requests)
    }

    /// Asks a worker; `None` if it does not answer now.
    pub(crate) fn ask(
        &self,
        worker: usize,
        element: Option<ElementId>,
        handler: &str,
        value: &str,
        writes: Option<&Rights>,
    ) -> Option<Receiver<Result<String, String>>> {
        let member = &self.members[worker];
        let (reply, answer) = mpsc::channel();
        let (handler, value) = (handler.to_string(), value.to_string());
        {
            let mut requests = self.requests(worker);
            if !member.answers.load(Ordering::SeqCst) {
                return None;
            }
            requests.push_back(Request { element, handler, value, writes: writes.cloned(), reply });
        }
        member.has_requests.store(true, Ordering::Release);
        self.bells[worker].ring();
        Some(answer)
    }

    /// Whether anybody asks a worker something.
    #[inline]
    pub(crate) fn is_asked(&self, me: usize) -> bool {
        self.members[me].has_requests.load(Ordering::Relaxed)
    }

    /// Whether a worker has to do something for the team: answer, stop, or decide that others stop.
    pub(crate) fn has_word_for(&self, me: usize) -> bool {
        let for_first = || self.stops.load(Ordering::Relaxed) != 0 || self.has_failed();
        self.is_asked(me) || self.is_asked_for_report(me) || self.is_over() || (me == 0 && for_first())
    }

    /// Asks a worker for its report, if it answers.
    pub(crate) fn ask_for_report(&self, worker: usize) {
        let member = &self.members[worker];
        if member.answers.load(Ordering::SeqCst) {
            member.wants_report.store(true, Ordering::Release);
            self.bells[worker].ring();
        }
    }

    /// True if a worker's report is asked for.
    pub(crate) fn is_asked_for_report(&self, me: usize) -> bool {
        self.members[me].wants_report.load(Ordering::Acquire)
    }

    /// Gives the report that a worker was asked for.
    pub(crate) fn give_report(&self, me: usize, report: Report) {
        *lock(&self.members[me].report) = Some(report);
        self.members[me].wants_report.store(false, Ordering::Release);
    }

    /// True while a worker that answers has not given the report that it was asked for.
    pub(crate) fn awaits_reports(&self) -> bool {
        let is_awaited = |member: &Member| {
            member.wants_report.load(Ordering::Acquire) && member.answers.load(Ordering::SeqCst)
        };
        self.members.iter().any(is_awaited)
    }

    /// The reports that have been given, in the order of the workers.
    pub(crate) fn take_reports(&self) -> Vec<Report> {
        self.members.iter().filter_map(|member| lock(&member.report).take()).collect()
    }

    /// The next request for a worker.
    pub(crate) fn next_request(&self, me: usize) -> Option<Request> {
        let mut requests = self.requests(me);
        let next = requests.pop_front();
        self.members[me].has_requests.store(!requests.is_empty(), Ordering::Release);
        next
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_is_idle_when_all_are_and_nothing_is_on_its_way() {
        let team = Team::new(2, false).unwrap();
        team.begin_idle(0, 5, 0);
        assert!(!team.is_idle(), "one works");
        team.begin_idle(1, 0, 4);
        assert!(!team.is_idle(), "a packet is on its way");
        team.end_idle(1);
        team.begin_idle(1, 0, 5);
        assert!(team.is_idle());
    }

    #[test]
    fn requests_find_an_answer_or_nobody() {
        let team = Team::new(2, false).unwrap();
        assert!(team.ask(1, None, "version", "", None).is_none());
        team.set_answers(1, true);
        let answer = team.ask(1, None, "version", "", None).unwrap();
        assert!(team.is_asked(1));
        team.next_request(1).unwrap().answer(Ok("1".into()));
        assert!(!team.is_asked(1));
        assert_eq!(answer.recv().unwrap(), Ok("1".into()));
        let answer = team.ask(1, None, "version", "", None).unwrap();
        team.set_answers(1, false);
        assert!(answer.recv().is_err(), "told that nobody answers");
    }

    #[test]
    fn nobody_knows_the_key_but_where_runs_are_to_be_repeated() {
        let key = |in_turn| *Team::new(2, in_turn).unwrap().dispatch.key();
        assert_eq!(key(true), STEERING_KEY);
        assert!(key(false) != STEERING_KEY && key(false) != key(false));
    }
}
