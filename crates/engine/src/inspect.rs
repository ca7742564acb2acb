//! Questions of other threads to the workers of a run, such as those of the server for metrics.
//!
//! ```text
//!   another thread                     worker N, between two rounds of its loop
//!   ──────────────                     ────────────────────────────────────────
//!   Inspector::ask_sign(N, reply) ───▶ calls `reply`
//!   Inspector::ask_part(N, reply) ───▶ makes its part of a snapshot, gives it to `reply`
//!   Inspector::read, write ──────────▶ (worker 0) calls the handler, gives the result to `reply`
//! ```
//!
//! A worker looks for questions once per round, which costs one load, and answers one question in a round.
//! Each worker gives only what it has itself, so no worker waits for another one for a snapshot. The thread
//! that has asked puts the parts together ([`Snapshot::of`](crate::Snapshot::of)). Handlers are called by the
//! first worker in the same way as for an element of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use element::{ElementId, Rights};
use serde::Serialize;

use crate::plan::Plan;
use crate::report::{RunReport, WorkerReport};

/// The most questions that wait for a worker. Further questions are refused.
const MOST_WAITING: usize = 64;

/// A function that gets an answer, on the thread of the worker that answers. It has to return quickly. If the
/// run ends before the answer, the function is dropped without a call.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// The access of other threads to the workers of a run.
#[derive(Clone)]
pub struct Inspector {
    seats: Arc<[Seat]>,
}

/// The questions that wait for one worker, on cache lines of their own.
#[repr(align(64))]
struct Seat {
    is_asked: AtomicBool,
    /// The waiting questions; `None` after the end of the run.
    questions: Mutex<Option<VecDeque<Question>>>,
}

/// A question to a worker.
pub(crate) enum Question {
    Sign(Reply<()>),
    Part(Reply<SnapshotPart>),
    Call(HandlerCall, Reply<Result<String, String>>),
}

/// A handler call of another thread.
#[derive(Clone, Debug)]
pub struct HandlerCall {
    /// The name of the element; `None` for a handler of the graph.
    pub element: Option<String>,
    /// The name of the handler, without the element's name.
    pub handler: String,
    /// The value to write, or the parameter to read with.
    pub value: String,
    /// The rights of the caller if the call writes; `None` if it reads.
    pub writes: Option<Rights>,
}

/// The reason why a question is not taken: too many questions wait for the worker, or the run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The part of one worker in a [`Snapshot`](crate::Snapshot).
pub struct SnapshotPart {
    pub(crate) generation: u64,
    pub(crate) plan: Arc<Plan>,
    pub(crate) report: RunReport,
    pub(crate) worker: WorkerState,
    pub(crate) values: Vec<(ElementId, &'static str, String)>,
}

/// The state of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerState {
    /// The number of the worker.
    pub worker: usize,
    /// The packets of this worker and its working time.
    #[serde(flatten)]
    pub report: WorkerReport,
    /// The number of packets that wait in the rings from other workers.
    pub in_rings: u64,
    /// The number of packet buffers in use.
    pub buffers_used: u64,
    /// The largest number of packet buffers that the worker can have.
    pub buffers: u64,
}

impl Inspector {
    /// Makes the access to a run with this number of workers. The run gets a copy by
    /// [`Options::inspector`](crate::Options::inspector).
    pub fn new(workers: usize) -> Inspector {
        let seat =
            |_| Seat { is_asked: AtomicBool::new(false), questions: Mutex::new(Some(VecDeque::new())) };
        Inspector { seats: (0..workers.max(1)).map(seat).collect() }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.seats.len()
    }

    /// Asks a worker for a sign that it goes on. As with [`ask_part`](Self::ask_part), the first worker is
    /// asked last.
    ///
    /// # Errors
    /// If too many questions wait for the worker, or the run has ended.
    pub fn ask_sign(&self, worker: usize, reply: Reply<()>) -> Result<(), Refused> {
        self.ask(worker, Question::Sign(reply))
    }

    /// Asks a worker for its part of a snapshot. The first worker wakes the others, so it is asked last.
    ///
    /// # Errors
    /// If too many questions wait for the worker, or the run has ended.
    pub fn ask_part(&self, worker: usize, reply: Reply<SnapshotPart>) -> Result<(), Refused> {
        self.ask(worker, Question::Part(reply))
    }

    /// Has the first worker call a handler. The result of a write is an empty text. A write of `hotconfig` or
    /// `reload` is answered when the new configuration is ready or has turned out to be wrong.
    ///
    /// # Errors
    /// If too many questions wait for the worker, or the run has ended.
    pub fn call(&self, call: HandlerCall, reply: Reply<Result<String, String>>) -> Result<(), Refused> {
        self.ask(0, Question::Call(call, reply))
    }

    fn ask(&self, worker: usize, question: Question) -> Result<(), Refused> {
        let seat = self.seats.get(worker).ok_or(Refused)?;
        let mut questions = seat.lock();
        let waiting = questions.as_mut().filter(|waiting| waiting.len() < MOST_WAITING).ok_or(Refused)?;
        waiting.push_back(question);
        seat.is_asked.store(true, Ordering::Release);
        Ok(())
    }

    /// Refuses all questions from now on, because the run has ended, and drops those that wait.
    pub fn close(&self) {
        self.seats.iter().for_each(|seat| *seat.lock() = None);
    }

    #[inline]
    pub(crate) fn is_asked(&self, worker: usize) -> bool {
        self.seats.get(worker).is_some_and(|seat| seat.is_asked.load(Ordering::Relaxed))
    }

    pub(crate) fn next(&self, worker: usize) -> Option<Question> {
        let seat = self.seats.get(worker)?;
        let mut questions = seat.lock();
        let waiting = questions.as_mut()?;
        let next = waiting.pop_front();
        seat.is_asked.store(!waiting.is_empty(), Ordering::Release);
        next
    }
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Question>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
