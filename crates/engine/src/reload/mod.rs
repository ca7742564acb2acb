//! Replaces the running configuration by another one, on all workers, while packets flow (Click's
//! hot-swapping).
//!
//! ```text
//!  first worker          builds a thread of its own        other workers
//!  ────────────          ──────────────────────────        ─────────────
//!  hotconfig ──────────▶ parse, configure: a copy of
//!                        the new graph for each worker,
//!                        connected by rings
//!  announces the reload ◀────────┘
//!  asks one worker after the other ───────────────────────▶ initialises its copy
//!  initialises its own copy ◀─────────────────────────────── done, or an error: all copies are closed
//!  decides ────────────────────────────────────────────────▶ each changes over between two batches
//!  runs packets of the old generation to their end           as well
//! ```
//!
//! - The first worker leads a reload (`lead.rs`). The new graph is built by a thread of its own while packets
//!   flow. Errors go to the caller, and the old graph runs on.
//! - Each worker initialises its copy of the new graph, and changes over to it between two batches
//!   (`switch.rs`). Elements hand their state, including packets that they hold, on to elements of the same
//!   name and class: their *heirs*. An exception is state that cannot be handed on (`Fate::Ends`). No worker
//!   waits for another one, unless an element moves to another worker, the order of packets that are spread
//!   is kept, or an element (such as a Script) waits for the result of the reload.
//! - Each generation of the graph has rings of its own between the workers. So a worker never gets a packet
//!   of a generation that it does not have yet. Packets that other workers have handed over before they
//!   changed over are processed by the old generation (`retire.rs`). As soon as such a packet comes to an
//!   element that has an heir, the packet goes on in the new generation, because the heir has the state.
//!
//! A worker has its part of a reload ([`Reloads`]) and calls the functions of this module between two
//! batches. The functions exchange all parts of a worker that belong to a graph. So this module,
//! `generation.rs`, `team.rs` and `worker.rs` use each other.

mod lead;
mod retire;
mod switch;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use element::{ElementId, Random};

use crate::generation::Generation;
use crate::options::Rebuild;
use crate::problem::Problem;
use crate::quiet::Quiet;
use crate::team::Team;

pub(crate) use lead::Caller;
use lead::Lead;
pub(crate) use retire::Retiring;
use switch::SavedState;

/// The part of a worker that takes part in reloads.
pub(crate) struct Reloads {
    /// The function that makes graphs. `None` if the graph cannot be replaced.
    rebuild: Option<Rebuild>,
    /// The stage of the reload that this worker leads. Only the first worker leads reloads.
    lead: Lead,
    /// The previous reload, while packets of the generation that it replaced are left at any worker.
    ending: Option<Arc<Reload>>,
    /// The caller that gets the result of the reload.
    caller: Option<Caller>,
    /// The reload that this worker takes part in, until the worker has changed over.
    reload: Option<Arc<Reload>>,
    /// This worker's copy of the next generation, once it is initialised.
    next: Option<Box<Generation>>,
    /// The random numbers of the present generation, while the next one has seeded its own.
    random: Option<Random>,
    /// For each element of the generation before the current one, by its number, its heir: the element of the
    /// current generation that continues with its state.
    heirs: Vec<Option<ElementId>>,
    /// The state of old elements that is being handed on while this worker changes over.
    saved: Vec<SavedState>,
    /// The time for which this worker stood still in its last reload, if it is the only worker. With several
    /// workers, the team has this time for each.
    pub(crate) silence: Silence,
}

/// The time that a worker took to change over in its last reload. Other workers read it.
#[derive(Default)]
pub(crate) struct Silence {
    /// The number of the worker's last reload; 0 if there was none.
    reload: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Silence {
    fn set(&self, reload: u64, time: Duration) {
        self.nanoseconds.store(time.as_nanos() as u64, Ordering::Relaxed);
        self.reload.store(reload, Ordering::Release);
    }

    /// Returns the line of the handler `silence` for this worker: its number, the number of its last reload,
    /// and the time in microseconds.
    pub(crate) fn line(&self, worker: usize) -> String {
        let reload = self.reload.load(Ordering::Acquire);
        let microseconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e3;
        format!("{worker} {reload} {microseconds:.1}\n")
    }
}

/// The state of a reload that is under way, by which the workers tell each other how far they are.
pub(crate) struct Reload {
    /// The number of the new generation.
    number: u64,
    seats: Vec<Seat>,
    /// True if all workers wait for each other before they change over, until no packet is in a ring or waits
    /// for its order: an element moves to another worker with its state, and no packet may come to the
    /// element before its state; or the order of packets that are spread is kept, and no packet of the new
    /// graph may overtake one of the old graph.
    gathers: bool,
    /// The first worker's [`Decision`] about this reload, as a number.
    decision: AtomicU8,
    /// Records which workers have no packet left to process and wait for the others, before the state of
    /// elements moves to other workers.
    gathered: Quiet,
    /// Records which workers have no packet of the old generation left.
    quiet: Quiet,
    /// The channel to the thread that has built the new graph. This thread also drops generations that have
    /// ended. They may have large tables, so packets would have to wait if a worker dropped them.
    ended: Sender<Box<Generation>>,
}

/// The part of a reload that concerns one worker.
#[derive(Default)]
struct Seat {
    /// The worker's copy of the new graph, once the worker is to initialise it.
    copy: Mutex<Option<Box<Generation>>>,
    /// The result of initialising the copy.
    result: Mutex<Option<Result<(), Box<Problem>>>>,
    /// True once the worker has sent the state of all elements that move to other workers.
    has_sent: AtomicBool,
    /// True once the worker has changed over, and all packets that it had handed over before are in the
    /// rings.
    has_left: AtomicBool,
    /// The state of elements that this worker has from now on, sent by the workers that had the elements
    /// before.
    sent: Mutex<Vec<SavedState>>,
}

/// The decision about a reload, made by the first worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Decision {
    /// Some worker has not initialised its copy yet.
    Open,
    /// Each worker changes over.
    Go,
    /// A copy could not be initialised. Each worker closes its copy.
    GiveUp,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reload {
    fn new(number: u64, workers: usize, gathers: bool, ended: Sender<Box<Generation>>) -> Reload {
        Reload {
            number,
            gathers,
            ended,
            seats: (0..workers).map(|_| Seat::default()).collect(),
            decision: AtomicU8::new(Decision::Open as u8),
            gathered: Quiet::new(workers),
            quiet: Quiet::new(workers),
        }
    }

    /// Has the thread that has built the new graph drop a generation that has ended or never ran.
    fn dispose(&self, generation: Box<Generation>) {
        // If the thread has panicked, sending fails, and the generation is dropped by this worker.
        let _ = self.ended.send(generation);
    }

    fn decision(&self) -> Decision {
        match self.decision.load(Ordering::Acquire) {
            0 => Decision::Open,
            1 => Decision::Go,
            _ => Decision::GiveUp,
        }
    }

    fn decide(&self, decision: Decision, team: Option<&Team>) {
        self.decision.store(decision as u8, Ordering::Release);
        if let Some(team) = team {
            (0..team.len()).for_each(|worker| team.tell_of_reload(worker));
        }
    }
}

impl Reloads {
    /// Makes the part of a worker that takes part in reloads. Without the function that makes graphs, the
    /// graph cannot be replaced.
    pub(crate) fn new(rebuild: Option<Rebuild>) -> Reloads {
        Reloads {
            rebuild,
            lead: Lead::Idle,
            ending: None,
            caller: None,
            reload: None,
            next: None,
            random: None,
            heirs: Vec::new(),
            saved: Vec::new(),
            silence: Silence::default(),
        }
    }

    /// Makes the `Reloads` for a generation of the graph that is being initialised or closed. Its elements
    /// find the handlers that begin a reload if `of` can reload, but writing these handlers is an error.
    pub(crate) fn busy(of: &Reloads) -> Reloads {
        Reloads { lead: Lead::Busy, ..Reloads::new(of.rebuild.clone()) }
    }

    /// True if the graph can be replaced.
    pub(crate) fn can_reload(&self) -> bool {
        self.rebuild.is_some()
    }

    /// True if this worker changes over to the new graph before the next round of its loop.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.next.is_some() && self.reload.as_ref().is_some_and(|reload| reload.decision() == Decision::Go)
    }

    /// True if this worker can take its next step of a reload at once, so that it must not sleep.
    #[inline]
    pub(crate) fn can_go_on(&self) -> bool {
        self.is_ready() || self.lead.can_go_on()
    }

    /// True while the first worker has steps to take for a reload that it leads.
    #[inline]
    pub(crate) fn is_leading(&self) -> bool {
        self.lead.is_at_work() || self.ending.is_some()
    }

    /// Sets the heirs of the elements of the graph that this worker leaves. An element that waits for the
    /// result of the next reload, which may be under way already, goes on waiting as its heir.
    fn set_heirs(&mut self, heirs: Vec<Option<ElementId>>) {
        if let Some(Caller::Element(id, token)) = self.caller {
            let heir = heirs.get(id).copied().flatten();
            self.caller = heir.map(|heir| Caller::Element(heir, token));
        }
        self.heirs = heirs;
    }

    /// Returns the heir of an element of the generation before the current one.
    pub(crate) fn heir(&self, old: ElementId) -> Option<ElementId> {
        self.heirs.get(old).copied().flatten()
    }
}
