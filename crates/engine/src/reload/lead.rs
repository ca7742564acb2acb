//! The first worker's part of a reload: has the new graph built, has all workers initialise their copies,
//! and decides if they change over.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use element::{CallOrigin, Core, ElementId, OutputStream, background};
use lang::{Diagnostic, Severity, Span};

use super::switch::moved;
use super::{Decision, Reload, locked};
use crate::generation::Generation;
use crate::host::WorkerHost;
use crate::inspect::Reply;
use crate::options::{RebuildRequest, Rebuilt, Tell};
use crate::problem::Problem;
use crate::team::{Request, Team};
use crate::worker::Worker;

/// The stages of a reload at the worker that leads it.
pub(crate) enum Lead {
    /// No reload is under way.
    Idle,
    /// A graph is being initialised, or the stage is being changed.
    Busy,
    /// A thread builds the new graph.
    Building(Receiver<Result<Built, String>>),
    /// The workers initialise their copies, one after the other.
    Initialising(Box<Initialising>),
}

/// The new graph as a thread has built it.
#[allow(clippy::vec_box, reason = "copies change places, and a box is one word to move")]
pub(crate) struct Built {
    /// The copies of the new graph, one for each worker, by worker number, connected by rings.
    copies: Vec<Box<Generation>>,
    tell: Tell,
    ended: Sender<Box<Generation>>,
}

/// The state of a reload while the workers initialise their copies.
#[allow(clippy::vec_box, reason = "copies change places, and a box is one word to move")]
pub(crate) struct Initialising {
    reload: Arc<Reload>,
    /// The copies of the new graph whose workers have not been asked to initialise them yet, by worker
    /// number.
    copies: Vec<Box<Generation>>,
    /// The worker that initialises its copy now, if there is one.
    asked: Option<usize>,
    tell: Tell,
}

/// The caller that gets the result of a reload later.
pub(crate) enum Caller {
    /// An element, and the token that it gave with its call, by which it recognises the result.
    Element(ElementId, u32),
    /// An element at another worker, which waits for the result.
    Worker(Request),
    /// A signal. The result is written as a message.
    Signal,
    /// A thread that is no worker's.
    Outside(Reply<Result<String, String>>),
}

/// The error for a reload that is asked for during another one.
const UNDER_WAY: &str = "another configuration is being installed already";

/// The time to sleep before a caller that waits for the result of a reload checks again if the result is
/// there.
const LOOK: Duration = Duration::from_micros(200);

/// Drops the generations that workers send through the channel `ended`, until no worker takes part in the
/// reload any more. The thread sleeps between two looks, because a worker that wakes a thread stands still
/// for about 20 microseconds.
fn drop_all(ended: &Receiver<Box<Generation>>) {
    const LOOK: Duration = Duration::from_millis(2);
    loop {
        match ended.try_recv() {
            Ok(generation) => drop(generation),
            Err(TryRecvError::Empty) => thread::sleep(LOOK),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

impl Lead {
    /// True if the first worker can go on with the reload at once: it waits for no answer of another worker,
    /// and not for the thread that builds the new graph.
    pub(super) fn can_go_on(&self) -> bool {
        matches!(self, Lead::Initialising(all) if all.asked.is_none())
    }

    /// True while a reload is under way in which the first worker has something to do, such as to look for
    /// the answer of another worker.
    pub(super) fn is_at_work(&self) -> bool {
        !matches!(self, Lead::Idle | Lead::Busy)
    }
}

impl WorkerHost<'_> {
    /// Replaces the graph, and waits until the workers have initialised their copies of the new graph.
    ///
    /// # Errors
    /// If the new graph cannot be built or initialised: its errors. Also if another reload is under way.
    /// The old graph then continues to run.
    pub(crate) fn reload(&mut self, core: &mut Core, request: RebuildRequest) -> Result<(), String> {
        self.check_end()?;
        self.begin_reload(core, request)?;
        loop {
            if let Some(result) = self.continue_reload(core) {
                return result;
            }
            // Another worker may wait for an answer of this worker, and would not initialise its copy.
            self.answer(core);
            thread::sleep(LOOK);
        }
    }

    /// Begins a reload whose result the caller gets later. Returns the caller and the error if the graph
    /// cannot be replaced now.
    pub(crate) fn begin_reload_for(
        &mut self,
        core: &Core,
        caller: Caller,
        request: RebuildRequest,
    ) -> Option<(Caller, String)> {
        // An element at another worker waits for the result of this reload, and its worker cannot end the
        // previous reload meanwhile. So the previous reload must have ended at all workers.
        let may_begin = match caller {
            Caller::Worker(_) => self.check_end(),
            Caller::Element(..) | Caller::Signal | Caller::Outside(_) => Ok(()),
        };
        match may_begin.and_then(|()| self.begin_reload(core, request)) {
            Ok(()) => {
                self.reloads.caller = Some(caller);
                None
            }
            Err(error) => Some((caller, error)),
        }
    }

    /// Checks that the previous reload has ended: every worker has changed over, and none has packets of an
    /// earlier generation left.
    ///
    /// # Errors
    /// If the previous reload has not ended at a worker: a message for the user.
    fn check_end(&mut self) -> Result<(), String> {
        if let Some(reload) = &self.reloads.ending {
            if !reload.quiet.is_quiet() {
                return Err(UNDER_WAY.into());
            }
            self.reloads.ending = None;
            self.team.iter().for_each(|team| team.set_reload(None));
        }
        Ok(())
    }

    /// Begins a reload: starts the thread that builds the new graph.
    fn begin_reload(&mut self, core: &Core, request: RebuildRequest) -> Result<(), String> {
        let (Lead::Idle, Some(rebuild)) = (&self.reloads.lead, self.reloads.rebuild.clone()) else {
            return Err(UNDER_WAY.into());
        };
        let (give, take) = mpsc::sync_channel(1);
        let (team, seed) = (self.team.clone(), core.hash_seed);
        let build = move || {
            let (ended, to_drop) = mpsc::channel();
            let built = rebuild(&request).map(|rebuilt| Built::new(rebuilt, team.as_deref(), seed, ended));
            // Sending fails only if the receiver is gone, because the run has ended.
            let _ = give.send(built);
            if let Some(team) = team {
                team.bells[0].ring();
            }
            drop_all(&to_drop);
        };
        background::spawn("reload", build)
            .map_err(|error| format!("no thread to build the configuration: {error}"))?;
        self.reloads.lead = Lead::Building(take);
        Ok(())
    }

    /// Takes the next steps of a reload, as far as they are possible now. Returns the result once it is
    /// known: `Ok` if all workers change over.
    fn continue_reload(&mut self, core: &mut Core) -> Option<Result<(), String>> {
        // A reload goes on only after the previous reload has ended at all workers.
        if self.check_end().is_err() {
            return None;
        }
        match std::mem::replace(&mut self.reloads.lead, Lead::Busy) {
            Lead::Building(take) => {
                let error = match take.try_recv() {
                    Ok(Ok(built)) => match self.announce(built) {
                        Ok(initialising) => {
                            self.reloads.lead = Lead::Initialising(initialising);
                            return None;
                        }
                        Err(error) => error,
                    },
                    Ok(Err(error)) => error,
                    Err(TryRecvError::Empty) => {
                        self.reloads.lead = Lead::Building(take);
                        return None;
                    }
                    Err(TryRecvError::Disconnected) => "building the configuration has failed".into(),
                };
                self.reloads.lead = Lead::Idle;
                Some(Err(error))
            }
            Lead::Initialising(initialising) => self.initialise_copies(core, initialising),
            other => {
                self.reloads.lead = other;
                None
            }
        }
    }

    /// Gives the copies of the new graph the number of the next generation, and announces the reload to the
    /// workers.
    ///
    /// # Errors
    /// If an element would move to another worker although workers take turns.
    fn announce(&mut self, built: Built) -> Result<Box<Initialising>, String> {
        let Built { mut copies, tell, ended } = built;
        let number = self.graph.generation + 1;
        copies.iter_mut().for_each(|copy| copy.graph.generation = number);
        let moved = copies.first().and_then(|copy| moved(self.graph, &copy.graph));
        let in_turn = self.team.as_ref().is_some_and(|team| team.in_turn);
        if let Some(id) = moved.filter(|_| in_turn) {
            let name = self.graph.plan.declaration(id);
            return Err(format!("{name}: an element cannot move to another worker under the trace clock"));
        }
        let spreading = self.graph.setup.spreading.as_ref();
        let keeps_order = spreading.is_some_and(|spreading| spreading.keeps_order());
        let gathers = moved.is_some() || keeps_order && !in_turn;
        let reload = Arc::new(Reload::new(number, copies.len(), gathers, ended));
        self.team.iter().for_each(|team| team.set_reload(Some(Arc::clone(&reload))));
        Ok(Box::new(Initialising { reload, copies, asked: None, tell }))
    }

    /// Has the workers initialise their copies, the last worker first. The first worker comes last, as at
    /// the start of a run.
    fn initialise_copies(
        &mut self,
        core: &mut Core,
        mut all: Box<Initialising>,
    ) -> Option<Result<(), String>> {
        loop {
            let result = match (all.asked, all.copies.pop()) {
                (Some(worker), copy) => {
                    all.copies.extend(copy);
                    let result = locked(&all.reload.seats[worker].result).take();
                    match result {
                        Some(result) => result,
                        None => {
                            self.reloads.lead = Lead::Initialising(all);
                            return None;
                        }
                    }
                }
                (None, Some(copy)) if all.copies.len() == self.graph.worker() => {
                    self.reloads.reload = Some(Arc::clone(&all.reload));
                    self.initialise_copy(core, &all.reload, copy)
                }
                (None, Some(copy)) => {
                    let worker = all.copies.len();
                    match self.ask_to_initialise(&all.reload, worker, copy) {
                        Some(result) => result,
                        None => {
                            all.asked = Some(worker);
                            continue;
                        }
                    }
                }
                (None, None) => {
                    all.reload.decide(Decision::Go, self.team.as_deref());
                    self.reloads.lead = Lead::Idle;
                    self.reloads.ending = Some(all.reload);
                    return Some(Ok(()));
                }
            };
            all.asked = None;
            if let Err(problem) = result {
                all.reload.decide(Decision::GiveUp, self.team.as_deref());
                self.give_up_reload(core);
                self.reloads.lead = Lead::Idle;
                return Some(Err((all.tell)(&problem)));
            }
        }
    }

    /// Has another worker initialise its copy. If the workers take turns, returns the result. Otherwise, the
    /// worker gives the result later.
    fn ask_to_initialise(
        &mut self,
        reload: &Arc<Reload>,
        worker: usize,
        copy: Box<Generation>,
    ) -> Option<Result<(), Box<Problem>>> {
        let team = self.team.as_ref()?;
        let waiting = team.take_waiting(worker);
        if team.in_turn && waiting.is_none() {
            let text = format!("worker {worker} is being called, and cannot change its configuration");
            return Some(Err(Box::new(Problem::new(Diagnostic::error(Span::default(), text)))));
        }
        *locked(&reload.seats[worker].copy) = Some(copy);
        team.tell_of_reload(worker);
        // If workers do not take turns, no other worker waits here. It hears of the reload on its own thread.
        let mut other = waiting?;
        other.take_part_in_reload();
        team.let_wait(worker, other);
        locked(&reload.seats[worker].result).take()
    }
}

impl Built {
    /// Makes a generation of a new graph for each worker, and connects them by rings. `seed` is the seed of
    /// the workers' hashes.
    fn new(rebuilt: Rebuilt, team: Option<&Team>, seed: u64, ended: Sender<Box<Generation>>) -> Built {
        let Rebuilt { plan, copies, text, tell, recomposer } = rebuilt;
        let generation = |configured| {
            let mut generation = Generation::new(Arc::clone(&plan), configured, text.clone());
            generation.control.recomposer.clone_from(&recomposer);
            Box::new(generation)
        };
        let mut copies: Vec<_> = copies.into_iter().map(generation).collect();
        if let (Some(team), Some(first)) = (team, copies.first()) {
            let sides = team.connect(&first.graph, seed);
            copies.iter_mut().zip(sides).for_each(|(copy, side)| copy.exchange = Some(side));
        }
        Built { copies, tell, ended }
    }
}

impl Worker {
    /// Takes the next steps of a reload that this worker leads, and gives the result to the caller.
    #[cold]
    pub(crate) fn lead_reload(&mut self) {
        let (core, mut host) = self.host();
        let Some(result) = host.continue_reload(core) else { return };
        match self.reloads.caller.take() {
            Some(Caller::Element(id, token)) => {
                self.call(id, |element, cx| element.answered(cx, token, result));
                self.settle();
            }
            Some(Caller::Worker(request)) => request.answer(result.map(|()| String::new())),
            Some(Caller::Signal) => self.tell_result(&result),
            Some(Caller::Outside(reply)) => reply(result.map(|()| String::new())),
            // The element that has asked for the reload has no heir, so the result goes to no element.
            None => {}
        }
    }

    /// Begins to read the file of the running configuration again. The result is written as a message.
    pub(crate) fn reload_for_signal(&mut self) {
        let request = RebuildRequest { value: None, origin: CallOrigin::Configuration };
        let (core, mut host) = self.host();
        if let Some((_, error)) = host.begin_reload_for(core, Caller::Signal, request) {
            self.tell_result(&Err(error));
        }
    }

    /// Takes part in a reload that another worker leads, except for changing over.
    pub(crate) fn take_part_in_reload(&mut self) {
        let (core, mut host) = self.host();
        host.take_part_in_reload(core);
    }

    /// Writes the result of a reload that a signal has asked for as a message.
    fn tell_result(&mut self, result: &Result<(), String>) {
        let (severity, text) = match result {
            Ok(()) => (Severity::Note, "SIGHUP: the configuration has been replaced".to_string()),
            Err(error) => {
                let text = "SIGHUP: the configuration stays as it is, and the run goes on";
                (Severity::Warning, format!("{text}: {error}"))
            }
        };
        self.control.sink.write(OutputStream::Log(severity), format_args!("{text}\n"));
        self.control.sink.flush();
    }
}
