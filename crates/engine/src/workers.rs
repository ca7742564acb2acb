//! All workers of a graph. Each has a copy of the graph and a thread. The threads of several workers are
//! pinned to cores if there are enough cores. Under the trace clock, the workers take turns on one thread
//! instead.
//!
//! The first worker runs on the caller's thread. It decides when the run is over, handles interrupts and asks
//! the driver script. Elements that work on one worker only work on the first worker, unless the user assigns
//! elements to other workers.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use element::chatter::Chatter;
use element::{ElementId, background};
use lang::Diagnostic;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use packet::PoolError;

use crate::clock::ClockKind;
use crate::configure::Configured;
use crate::control::End;
use crate::handlers::WORKER;
use crate::inspect::Inspector;
use crate::merge::merge;
use crate::options::Options;
use crate::placement::{ElementWorkers, Placement};
use crate::plan::Plan;
use crate::problem::Problem;
use crate::report::RunReport;
use crate::streams::{Shared, Sink};
use crate::team::Team;
use crate::trace_time::{TurnTakers, run_trace};
use crate::worker::{MOST_WORK, Worker};

/// A function that is called on the threads of workers. Its error is a message for the user.
pub type ThreadWork = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The longest time to wait for the answer of a worker.
const ANSWER: Duration = Duration::from_secs(30);

/// A configured graph on one or several workers.
#[allow(clippy::vec_box, reason = "workers change places, and a box is one word to move")]
pub struct Workers {
    /// The workers that are not on a thread of their own now. These are the first worker, and others before
    /// their threads start or after their threads have ended.
    pub(crate) here: Vec<Box<Worker>>,
    /// The threads of the other workers while they run. Each returns its worker at its end.
    threads: Vec<JoinHandle<Option<Box<Worker>>>>,
    /// The set of cores that the caller's thread could run on before it was pinned, to be restored.
    allowed: Option<CpuSet>,
    team: Option<Arc<Team>>,
}

impl Workers {
    /// Makes a worker for each copy of a configured graph (see [`Plan::configure_all`]). Each has a packet
    /// pool, with an equal part of the memory, and a clock; all share the sink for text. With one copy, the
    /// result acts like a single [`Worker`].
    ///
    /// # Errors
    /// If the memory is too small, if the system refuses memory or an event, or if several workers are to use
    /// simulated time.
    pub fn new(
        plan: &Arc<Plan>,
        copies: Vec<Configured>,
        sink: Box<dyn Sink>,
        mut options: Options,
    ) -> Result<Workers, String> {
        let count = copies.len().max(1);
        let in_turn = match options.clock {
            ClockKind::Real => false,
            ClockKind::Trace => true,
            ClockKind::Simulated { .. } if count == 1 => true,
            ClockKind::Simulated { .. } => return Err("simulated time is for one worker".into()),
        };
        let team = match count {
            1 => None,
            _ => {
                let team = Team::new(count, plan.owners(count), in_turn, options.steering_secret)
                    .map_err(|error| format!("no event for a worker: {error}"));
                Some(Arc::new(team?))
            }
        };
        let sink = Shared::new(sink);
        let memory = options.memory / count;
        let mut here = Vec::with_capacity(count);
        let rebuild = options.rebuild.take();
        let text = std::mem::take(&mut options.text);
        for configured in copies {
            let options =
                Options { memory, text: text.clone(), rebuild: rebuild.clone(), ..options.clone_for_copy() };
            let worker = Worker::new(Arc::clone(plan), configured, Box::new(sink.clone()), options);
            here.push(Box::new(worker.map_err(|error| of_all(error, count).to_string())?));
        }
        let chatter: Arc<Chatter> = Arc::default();
        here.iter_mut().for_each(|worker: &mut Box<Worker>| worker.core.chatter = Arc::clone(&chatter));
        let mut workers = Workers { here, threads: Vec::new(), allowed: None, team };
        workers.connect();
        Ok(workers)
    }

    /// Connects the workers by rings, if there are several.
    fn connect(&mut self) {
        let Some(team) = &self.team else { return };
        let Some(first) = self.here.first() else { return };
        let sides = team.connect(&first.graph, first.core.hash_seed);
        for (worker, side) in self.here.iter_mut().zip(sides) {
            team.set_displacement(side.board(worker.core.burst));
            worker.exchange = Some(side);
            worker.team = Some(Arc::clone(team));
        }
    }

    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        self.team.as_ref().map_or(1, |team| team.len())
    }

    /// Returns the first worker.
    pub fn first(&mut self) -> &mut Worker {
        &mut self.here[0]
    }

    /// Returns the plan of the graph.
    pub fn plan(&self) -> &Plan {
        self.here[0].plan()
    }

    /// Returns the placement: which workers do the work of each element.
    pub fn placement(&self) -> &Placement {
        &self.here[0].graph.placement
    }

    /// Initialises the elements of every worker and starts the threads. The first worker comes last, so that
    /// scripts find the others running. Under the trace clock, the first worker comes first, and no thread is
    /// started. At the first failure, drains and closes the elements of all workers that have begun.
    ///
    /// # Errors
    /// If an element cannot be initialised, or a thread cannot be started: the problem.
    pub fn initialize(&mut self) -> Result<(), Box<Problem>> {
        if self.team.as_ref().is_some_and(|team| team.in_turn) {
            return self.initialize_in_turn();
        }
        for number in (1..self.here.len()).rev() {
            if let Err(problem) = self.here[number].begin() {
                self.here.iter_mut().skip(number).for_each(|worker| drop(worker.finish()));
                return Err(problem);
            }
        }
        let result = self.start().and_then(|()| self.here[0].begin());
        if result.is_err() {
            // The threads end before elements are closed, so that no worker uses what another one has
            // closed.
            self.join();
            let _ = self.finish();
        }
        result
    }

    /// Initialises the elements of workers that take turns; no thread is started. No worker starts before the
    /// time of the first packet in the first worker's captures.
    fn initialize_in_turn(&mut self) -> Result<(), Box<Problem>> {
        for number in 0..self.here.len() {
            self.here[number].core.now = self.here[0].core.now;
            if let Err(problem) = self.here[number].begin() {
                self.here.iter_mut().take(number + 1).for_each(|worker| drop(worker.finish()));
                return Err(problem);
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Box<Problem>> {
        let Some(team) = self.team.clone() else { return Ok(()) };
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok();
        let cores = cores(allowed.as_ref(), team.len());
        // The processors that the process may use are noted now, for threads beside the workers, because the
        // first worker is bound to a single processor below.
        let _ = background::processors();
        pin(cores.first());
        self.allowed = allowed;
        // All workers are noted as answering before the first of them runs. Otherwise, a handler that one
        // worker writes at once would not be written at workers that are started later.
        (0..team.len()).for_each(|number| team.set_answers(number, true));
        for number in 1..team.len() {
            let core = cores.get(number).copied();
            let leaves = Leaves { team: Arc::clone(&team), worker: number };
            // The worker is sent to its thread once the thread runs. If the thread cannot be started, the
            // worker stays in `here`.
            let (give, take) = mpsc::sync_channel::<Box<Worker>>(1);
            let thread = thread::Builder::new().spawn(move || {
                let mut worker = take.recv().ok()?;
                pin(core.as_ref());
                worker.run();
                drop(leaves);
                Some(worker)
            });
            let thread = thread.map_err(|error| {
                (number..team.len()).for_each(|number| team.set_answers(number, false));
                self.no_thread(number, &error)
            })?;
            self.threads.push(thread);
            if let Err(mpsc::SendError(worker)) = give.send(self.here.remove(1)) {
                self.here.push(worker);
            }
        }
        Ok(())
    }

    #[cold]
    fn no_thread(&self, number: usize, error: &io::Error) -> Box<Problem> {
        let span = self.plan().graph.elements.first().map(|element| element.span).unwrap_or_default();
        let count = self.count();
        let text = format!(
            "no thread for worker {number} of {count}: {error}; ask for fewer with --threads, or see what `ulimit -u` \
             and the control group's pids.max allow"
        );
        Box::new(Problem::new(Diagnostic::error(span, text)))
    }

    /// Calls `work` on each thread that a worker has of its own, and waits for the results. The first worker
    /// has the caller's thread, for which `work` is not called. `inspector` is the access to this run.
    ///
    /// # Errors
    /// The first error of `work`; or that a worker does not answer.
    pub fn on_threads(&self, inspector: &Inspector, work: &ThreadWork) -> Result<(), String> {
        let Some(team) = self.team.as_ref().filter(|_| !self.threads.is_empty()) else { return Ok(()) };
        let (results, done) = mpsc::channel();
        for worker in 1..=self.threads.len() {
            let (work, results) = (Arc::clone(work), results.clone());
            let reply = Box::new(move |()| {
                let _ = results.send(work());
            });
            inspector.ask_sign(worker, reply).map_err(|_| format!("worker {worker} has ended"))?;
        }
        // The workers may sleep.
        team.ring_all();
        self.threads.iter().try_for_each(|_| {
            done.recv_timeout(ANSWER).unwrap_or_else(|_| Err("a worker does not answer".into()))
        })
    }

    /// Ends the threads, takes their workers back into `here`, and lifts the pinning of the caller's
    /// thread. A panic of a thread continues in the caller.
    fn join(&mut self) {
        let Some(team) = &self.team else { return };
        team.set_over(true);
        team.set_answers(0, false);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(worker) => self.here.extend(worker),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        team.set_over(false);
        if let Some(allowed) = self.allowed.take() {
            let _ = sched_setaffinity(Pid::from_raw(0), &allowed);
        }
    }

    /// Runs until an element or script stops the driver, no work is left, or the user interrupts, and
    /// returns which of these happened. Call [`initialize`](Self::initialize) before and
    /// [`finish`](Self::finish) afterwards.
    pub fn run(&mut self) -> End {
        if let Some(team) = self.team.clone().filter(|team| team.in_turn) {
            let mut crew = TurnTakers::several(std::mem::take(&mut self.here), team);
            let end = run_trace(&mut crew);
            self.here = crew.into_workers();
            self.end_decided_reload();
            self.flush();
            return end;
        }
        let end = self.here[0].run();
        self.join();
        self.end_decided_reload();
        end
    }

    /// Ends a reload for which some workers may have changed over already, because handlers that are read
    /// after the run need elements of the same graph at all workers.
    fn end_decided_reload(&mut self) {
        if self.here.iter().any(|worker| worker.reloads.is_ready() || worker.retiring.is_some()) {
            self.end_reload();
        }
    }

    /// Drains and closes every element of every worker.
    ///
    /// # Errors
    /// If elements cannot write all of their output: the messages of all such elements.
    pub fn finish(&mut self) -> Result<(), Vec<String>> {
        if self.team.is_some() {
            self.end_reload();
            // Packets that a worker drains may go on to another worker, so draining and receiving
            // alternate. A path through the graph has at most `most` elements; packets that are handed over
            // more often go in circles.
            let most = self.plan().len();
            let held: usize = self.here.iter().map(|worker| worker.core.pool.stats().in_use).sum();
            let bound = self.handed() + MOST_WORK + (held * most) as u64;
            for _ in 0..=most {
                self.here.iter_mut().for_each(|worker| worker.drain());
                let mut moves = false;
                loop {
                    let ends = self.handed() > bound;
                    let moved = self.here.iter_mut().filter_map(|worker| worker.receive(ends).then_some(()));
                    if moved.count() == 0 {
                        break;
                    }
                    moves = true;
                }
                if !moves {
                    break;
                }
            }
        }
        let errors: Vec<_> =
            self.here.iter_mut().flat_map(|worker| worker.finish().err().unwrap_or_default()).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Ends a reload that is under way: all workers change over if that has been decided, and otherwise close
    /// their copies of the new graph.
    pub(crate) fn end_reload(&mut self) {
        self.here.iter_mut().for_each(|worker| worker.end_reload());
        // A worker that has changed over keeps the old graph until no worker has packets of the old graph any
        // more.
        while self.here.iter().any(|worker| worker.retiring.is_some()) {
            self.here.iter_mut().for_each(|worker| worker.serve_retiring());
        }
    }

    /// Returns the number of packets that all workers have handed over so far.
    fn handed(&self) -> u64 {
        self.here
            .iter()
            .filter_map(|worker| worker.exchange.as_ref())
            .map(|exchange| exchange.moved().0)
            .sum()
    }

    /// Makes a report of all packets so far, with sums over all workers. Workers on a thread of their own are
    /// left out, so it is for the time before and after a run.
    pub fn report(&mut self) -> RunReport {
        RunReport::sum(self.here.iter_mut().map(|worker| worker.report()))
    }

    /// Reads a handler for a caller outside of the graph. The values of several workers are merged by the
    /// handler's rule.
    ///
    /// # Errors
    /// If the handler does not exist or cannot be read: a message for the user.
    pub fn read(&mut self, element: Option<ElementId>, handler: &str, param: &str) -> Result<String, String> {
        if !self.threads.is_empty() || self.here.len() == 1 {
            return self.here[0].read(element, handler, param);
        }
        if let (None, WORKER) = (element, handler) {
            let (worker, id, handler) = self.here[0].graph.of_worker(param)?;
            return self.here[worker].read_here(Some(id), handler, "");
        }
        let place = element.map_or(ElementWorkers::One(0), |id| self.placement().places[id]);
        match place {
            ElementWorkers::One(worker) => self.here[worker].read_here(element, handler, param),
            _ => {
                let values = self.here.iter_mut().map(|worker| worker.read_here(element, handler, param));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                Ok(merge(&values, self.here[0].graph.merging(element, handler)))
            }
        }
    }

    /// Returns true if a handler can be read, false if it can only be written, and `None` if it does not
    /// exist.
    pub fn can_read(&self, element: Option<ElementId>, handler: &str) -> Option<bool> {
        self.here[0].can_read(element, handler)
    }

    /// Writes out the text of messages, handlers and `Print` that the run's [`Sink`] still buffers.
    pub fn flush(&mut self) {
        self.here[0].flush();
    }
}

impl Drop for Workers {
    /// Ends threads that still run and drops their workers, for example after a panic of the caller.
    fn drop(&mut self) {
        if let Some(team) = &self.team {
            team.set_over(true);
        }
        for thread in self.threads.drain(..) {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

/// A guard on a worker's thread. When the thread ends, for any reason, the worker's unanswered handler
/// calls end with an error; after a panic, the whole run ends.
struct Leaves {
    team: Arc<Team>,
    worker: usize,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if thread::panicking() {
            self.team.fail();
        }
        self.team.set_answers(self.worker, false);
    }
}

/// Converts an error about one worker's part of the memory into an error about the memory of all workers.
/// That is the amount that the user has given.
fn of_all(error: PoolError, workers: usize) -> PoolError {
    match error {
        PoolError::TooSmall { asked, least } => {
            PoolError::TooSmall { asked: asked * workers, least: least * workers }
        }
        PoolError::Refused { asked, source } => PoolError::Refused { asked: asked * workers, source },
        PoolError::TooMany => PoolError::TooMany,
    }
}

/// Returns the numbers of the allowed cores, at least one for each worker. Returns no cores if they are fewer
/// than the workers or not known.
fn cores(allowed: Option<&CpuSet>, workers: usize) -> Vec<usize> {
    let Some(allowed) = allowed else { return Vec::new() };
    let cores: Vec<usize> = (0..CpuSet::count()).filter(|&core| allowed.is_set(core) == Ok(true)).collect();
    if cores.len() < workers { Vec::new() } else { cores }
}

/// Pins the current thread to a core. If there is no core or no permission, the thread runs on any core.
fn pin(core: Option<&usize>) {
    let mut set = CpuSet::new();
    if let Some(&core) = core
        && set.set(core).is_ok()
    {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
