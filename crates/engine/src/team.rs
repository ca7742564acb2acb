//! The state that the workers of one graph share: which of them are idle, their handler calls to each
//! other, and the end of the run.
//!
//! If workers take turns, the team keeps the workers that wait, and each worker refers to its team. So the
//! modules `team` and `worker` use each other. The worker whose turn it is must be able to read handlers and
//! reports of the others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};

use element::context::secret;
use element::steering::{Dispatch, Rss, STEERING_KEY, key_of};
use element::{ElementId, Rights};

use crate::exchange::{self, Bell, Board, Exchange};
use crate::graph_copy::GraphCopy;
use crate::inspect::SnapshotPart;
use crate::quiet::Quiet;
use crate::reload::{Reload, Silence};
use crate::worker::Worker;

/// The state that all workers of a graph share.
pub(crate) struct Team {
    pub(crate) bells: Arc<[Bell]>,
    /// The rule by which workers choose a packet's home: the worker that owns the state of the packet's flow.
    pub(crate) dispatch: Arc<dyn Dispatch>,
    /// True if the workers take turns on one thread (under the trace clock).
    pub(crate) in_turn: bool,
    /// The workers that wait for their turn, by number, if workers take turns. The worker whose turn it
    /// is can call them.
    waiting: Vec<Mutex<Option<Box<Worker>>>>,
    members: Vec<Member>,
    /// Records which workers are idle and how many packets they have exchanged, so that the end of all work
    /// is noticed.
    pub(crate) quiet: Quiet,
    /// The displacement at all workers (the largest number of packets by which a packet of each worker was
    /// overtaken), and its limit. Set only if packets of flows are spread without keeping order.
    displacement: Mutex<Option<(Arc<Board>, Option<u64>)>>,
    /// The reload that is under way.
    reload: Mutex<Option<Arc<Reload>>>,
    /// True if the run is over, so that workers leave their loops.
    over: AtomicBool,
    failed: AtomicBool,
    /// The number of requests to stop that the first worker has not handled yet.
    stops: AtomicI64,
}

/// The state of one worker that other workers read, on cache lines of its own.
#[derive(Default)]
#[repr(align(64))]
struct Member {
    /// The number of packets that have entered the graph at this worker, for the progress display.
    made: AtomicU64,
    /// True while the worker's thread answers handler calls.
    answers: AtomicBool,
    has_requests: AtomicBool,
    /// True while there is news of a reload that the worker has not seen: a copy of the new graph, a
    /// decision, or the state of elements.
    has_word_of_reload: AtomicBool,
    /// True from the time when the worker's report is asked for until the worker has given it.
    wants_report: AtomicBool,
    /// The report that the worker has given, until it is taken.
    report: Mutex<Option<SnapshotPart>>,
    requests: Mutex<VecDeque<Request>>,
    silence: Silence,
}

/// A handler call that one worker has sent to another worker.
pub(crate) struct Request {
    /// The generation of the graph in which the element has the number `element`.
    pub(crate) generation: u64,
    pub(crate) element: Option<ElementId>,
    pub(crate) handler: String,
    /// The value to write, or the parameter to read with.
    pub(crate) value: String,
    /// The rights of the caller if the call writes; `None` if it reads.
    pub(crate) writes: Option<Rights>,
    reply: Sender<Result<String, String>>,
}

impl Request {
    pub(crate) fn answer(self, result: Result<String, String>) {
        // An error means that the worker that asked does not wait any more.
        let _ = self.reply.send(result);
    }
}

impl Team {
    /// Makes a team of `workers` workers, which take turns on one thread if `in_turn`. Flows belong to the
    /// first `owners` of them. If the workers do not take turns, the
    /// key of the hash that gives packets to workers follows from the secret `known`, or from a new secret.
    /// So an attacker cannot choose the worker of packets.
    ///
    /// # Errors
    /// If the system refuses an event, for example because the process has no file descriptor left.
    pub(crate) fn new(workers: usize, owners: usize, in_turn: bool, known: Option<u64>) -> nix::Result<Team> {
        let key = if in_turn { STEERING_KEY } else { key_of(known.unwrap_or_else(secret)) };
        Ok(Team {
            dispatch: Arc::new(Rss::with_key(owners, key)),
            in_turn,
            waiting: (0..workers).map(|_| Mutex::new(None)).collect(),
            bells: (0..workers).map(|_| Bell::new()).collect::<nix::Result<_>>()?,
            members: (0..workers).map(|_| Member::default()).collect(),
            quiet: Quiet::new(workers),
            displacement: Mutex::new(None),
            reload: Mutex::new(None),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            stops: AtomicI64::new(0),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Stores a worker that waits for its turn, so that the worker whose turn it is can call it.
    pub(crate) fn let_wait(&self, number: usize, worker: Box<Worker>) {
        *lock(&self.waiting[number]) = Some(worker);
    }

    /// Takes a worker that waits for its turn. Returns `None` if it does not wait, or is being called
    /// already.
    pub(crate) fn take_waiting(&self, number: usize) -> Option<Box<Worker>> {
        lock(&self.waiting[number]).take()
    }

    /// True if the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Notes that a worker's thread has panicked, and wakes the first worker, which ends the run.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.bells[0].ring();
    }

    /// True if a worker's thread has panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Sets or clears the flag that the run is over, and wakes all workers.
    pub(crate) fn set_over(&self, over: bool) {
        self.over.store(over, Ordering::Release);
        self.ring_all();
    }

    /// Asks the first worker `times` times to stop the run. The first worker subtracts the number from its
    /// run count.
    pub(crate) fn ask_to_stop(&self, times: i64) {
        self.stops.fetch_add(times, Ordering::AcqRel);
        self.bells[0].ring();
    }

    /// Returns the number of requests to stop since the last call, and resets it.
    pub(crate) fn take_stops(&self) -> i64 {
        match self.stops.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.stops.swap(0, Ordering::AcqRel),
        }
    }

    /// Notes that a worker is idle, and the numbers of packets that it has handed over and taken, and wakes
    /// the first worker. Has no effect if the worker was idle before.
    pub(crate) fn begin_idle(&self, me: usize, moved: (u64, u64)) {
        if self.quiet.begin_idle(me, moved) && me != 0 {
            self.bells[0].ring();
        }
    }

    /// Notes the number of packets that have entered the graph at a worker. Returns the sum for all
    /// workers.
    pub(crate) fn note_made(&self, me: usize, made: u64) -> u64 {
        self.members[me].made.store(made, Ordering::Relaxed);
        self.members.iter().map(|member| member.made.load(Ordering::Relaxed)).sum()
    }

    /// Notes that a worker answers handler calls, or that it no longer does. When it stops, calls that it has
    /// not answered end with an error at their callers.
    pub(crate) fn set_answers(&self, me: usize, answers: bool) {
        self.members[me].answers.store(answers, Ordering::SeqCst);
        if !answers {
            self.requests(me).clear();
        }
    }

    fn requests(&self, me: usize) -> MutexGuard<'_, VecDeque<Request>> {
        lock(&self.members[me].requests)
    }

    /// Sends a handler call to a worker. The answer comes through the returned channel. Returns `None` if
    /// the worker does not answer calls now.
    pub(crate) fn ask(
        &self,
        worker: usize,
        (generation, element): (u64, Option<ElementId>),
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
            requests.push_back(Request {
                generation,
                element,
                handler,
                value,
                writes: writes.cloned(),
                reply,
            });
        }
        member.has_requests.store(true, Ordering::Release);
        self.bells[worker].ring();
        Some(answer)
    }

    /// Returns the time for which a worker stood still when it changed over to the new graph in its last
    /// reload.
    pub(crate) fn silence(&self, worker: usize) -> &Silence {
        &self.members[worker].silence
    }

    /// True if handler calls wait for a worker.
    #[inline]
    pub(crate) fn is_asked(&self, me: usize) -> bool {
        self.members[me].has_requests.load(Ordering::Relaxed)
    }

    /// True if a worker has something to do for the team: handler calls, a reload, its report, or the end of
    /// the run. The first worker also has requests to stop and panics of other workers.
    pub(crate) fn has_word_for(&self, me: usize) -> bool {
        let for_first = || self.stops.load(Ordering::Relaxed) != 0 || self.has_failed();
        self.is_asked(me)
            || self.is_told_of_reload(me)
            || self.is_asked_for_report(me)
            || self.is_over()
            || (me == 0 && for_first())
    }

    /// Returns the displacement at all workers, the numbers of packets by which packets were overtaken, and
    /// its limit. `None` unless packets of flows are spread without keeping order.
    pub(crate) fn displacement(&self) -> Option<(Arc<Board>, Option<u64>)> {
        lock(&self.displacement).clone()
    }

    pub(crate) fn set_displacement(&self, displacement: Option<(Arc<Board>, Option<u64>)>) {
        *lock(&self.displacement) = displacement;
    }

    /// Wakes all workers.
    pub(crate) fn ring_all(&self) {
        self.bells.iter().for_each(Bell::ring);
    }

    /// Sets the reload that is under way.
    pub(crate) fn set_reload(&self, reload: Option<Arc<Reload>>) {
        *lock(&self.reload) = reload;
    }

    /// Notes that there is something about the reload that a worker has not seen, and wakes the worker.
    pub(crate) fn tell_of_reload(&self, worker: usize) {
        self.members[worker].has_word_of_reload.store(true, Ordering::Release);
        self.bells[worker].ring();
    }

    /// True if there is news of a reload that worker `me` has not seen.
    #[inline]
    pub(crate) fn is_told_of_reload(&self, me: usize) -> bool {
        self.members[me].has_word_of_reload.load(Ordering::Relaxed)
    }

    /// Returns the reload that is under way, if there is something about it that the worker has not seen.
    pub(crate) fn hear_of_reload(&self, me: usize) -> Option<Arc<Reload>> {
        let is_told = self.members[me].has_word_of_reload.swap(false, Ordering::Acquire);
        lock(&self.reload).clone().filter(|_| is_told)
    }

    /// Makes the exchange between the workers for a graph, one side for each worker. `graph` is the copy of
    /// one of them, and `seed` the seed of the hash by which known flows are found.
    pub(crate) fn connect(&self, graph: &GraphCopy, seed: u64) -> Vec<Exchange> {
        // Packets that come from interfaces are not held back until a ring has room, because more packets
        // come meanwhile. Only without such sources does a worker wait for room.
        let waits = graph.plan.live().is_none();
        let spreading = graph.setup.spreading.clone();
        let aside = graph.placement.aside(&graph.plan);
        let known = spreading.as_ref().map(|_| {
            let known = graph.setup.known();
            known.set_seed(seed);
            known
        });
        let spreading = spreading.as_ref().zip(known.as_ref());
        exchange::connect(&self.bells, &self.dispatch, spreading, &aside, waits)
    }

    /// Asks a worker for its report, if the worker answers handler calls now.
    pub(crate) fn ask_for_report(&self, worker: usize) {
        let member = &self.members[worker];
        if member.answers.load(Ordering::SeqCst) {
            member.wants_report.store(true, Ordering::Release);
            self.bells[worker].ring();
        }
    }

    /// True if a worker's report is asked for and has not been given yet.
    pub(crate) fn is_asked_for_report(&self, me: usize) -> bool {
        self.members[me].wants_report.load(Ordering::Acquire)
    }

    /// Stores the report of a worker, so that [`take_reports`](Self::take_reports) finds it.
    pub(crate) fn give_report(&self, me: usize, report: SnapshotPart) {
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

    /// Takes the reports that have been given, in the order of the workers.
    pub(crate) fn take_reports(&self) -> Vec<SnapshotPart> {
        self.members.iter().filter_map(|member| lock(&member.report).take()).collect()
    }

    /// Takes the next handler call for a worker out of its queue. Calls of generations of the graph after
    /// `generation` stay in the queue.
    pub(crate) fn next_request(&self, me: usize, generation: u64) -> Option<Request> {
        let mut requests = self.requests(me);
        let next = requests.iter().position(|request| request.generation <= generation);
        let next = next.and_then(|next| requests.remove(next));
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
    fn requests_find_an_answer_or_nobody() {
        let team = Team::new(2, 2, false, None).unwrap();
        assert!(team.ask(1, (0, None), "version", "", None).is_none());
        team.set_answers(1, true);
        let answer = team.ask(1, (0, None), "version", "", None).unwrap();
        assert!(team.is_asked(1));
        team.next_request(1, 0).unwrap().answer(Ok("1".into()));
        assert!(!team.is_asked(1));
        assert_eq!(answer.recv().unwrap(), Ok("1".into()));
        let answer = team.ask(1, (0, None), "version", "", None).unwrap();
        team.set_answers(1, false);
        assert!(answer.recv().is_err(), "reports that no worker answers");
    }

    #[test]
    fn nobody_knows_the_key_but_where_runs_are_to_be_repeated() {
        let key = |in_turn| *Team::new(2, 2, in_turn, None).unwrap().dispatch.key();
        assert_eq!(key(true), STEERING_KEY);
        assert!(key(false) != STEERING_KEY && key(false) != key(false));
        let known = || *Team::new(2, 2, false, Some(7)).unwrap().dispatch.key();
        assert!(known() == known() && known() != STEERING_KEY);
    }
}
