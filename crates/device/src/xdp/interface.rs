//! The state of an interface that all elements of a graph share, at all workers: one program that redirects
//! frames to their sockets.
//!
//! The program is attached when the last element has its queues, so that all queues of an interface are
//! received from or, if an element fails, none. It is detached when the first element ends. If the
//! interface is removed, all elements close their queues in steps, and open them again at another interface
//! of its name. If workers share queues, the last element also opens the sockets of guests; a bell notifies
//! workers that are already running.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::{Cx, ElementId, Setup};
use flow::rss::Key;
use libc::c_int;
use nix::sys::eventfd::EventFd;

use super::key::SecretKey;
use super::port::{Port, explain};
use super::receiver::Receiver;
use super::shared::Shared;
use super::sys::program::{Program, Runner};
use super::{Mode, Wanted};
use crate::interface::steering::Steering;
use crate::interface::sys::link;
use crate::rss_key;

/// The interfaces of a graph.
#[derive(Default)]
pub(super) struct Interfaces(Mutex<Vec<Arc<Interface>>>);

/// An interface of which elements of a graph have queues.
#[derive(Default)]
pub(super) struct Interface {
    device: String,
    state: Mutex<State>,
    /// True if the user has been notified that frames are too long.
    told: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The elements that receive, with their arguments.
    receivers: Vec<(ElementId, Wanted)>,
    /// The number of copies of these elements that have their queues.
    ready: usize,
    /// The queues of these copies, and the copies that can be guests, until the last copy has its queues.
    queues: Vec<Queue>,
    members: Vec<Member>,
    /// Guest sockets that their workers have not fetched yet.
    guests: Vec<(ElementId, usize, Receiver)>,
    program: Option<Program>,
    key: Option<SecretKey>,
    runner: Option<Runner>,
    /// The number of times that all copies have closed their queues because the interface was removed.
    round: u32,
    /// The number of copies that have left the queues of others in this round, and the number that have
    /// closed their own.
    left: usize,
    closed: usize,
}

/// A queue that a worker's copy of an element has.
struct Queue {
    element: ElementId,
    worker: usize,
    number: u32,
    port: Arc<Port>,
    shared: Option<Arc<Shared>>,
}

/// A worker's copy of an element that shares its queues with the other copies.
struct Member {
    element: ElementId,
    worker: usize,
    /// Selects the copy that gets a frame.
    steering: Steering,
    key: Key,
    bell: Arc<EventFd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Interface {
    /// Returns the interface of this name in the graph that is being built.
    pub(super) fn of(setup: &Setup, device: &str) -> Arc<Interface> {
        let all = setup.common.get_or_make(0, Interfaces::default);
        let mut all = lock(&all.0);
        let found = all.iter().find(|interface| interface.device == device).cloned();
        found.unwrap_or_else(|| {
            all.push(Arc::new(Interface { device: device.into(), ..Interface::default() }));
            Arc::clone(&all[all.len() - 1])
        })
    }

    /// Registers an element that receives.
    ///
    /// # Errors
    /// If its mode differs from the mode of another element of the interface.
    pub(super) fn expect(&self, element: ElementId, wanted: &Wanted) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.receivers.iter().any(|(_, other)| other.mode != wanted.mode) {
            return Err(format!(
                "MODE: conflicts with another FromXDP on {}; give both the same MODE",
                self.device
            ));
        }
        if !state.receivers.iter().any(|&(id, _)| id == element) {
            state.receivers.push((element, wanted.clone()));
        }
        Ok(())
    }

    /// True if some element receives from a queue.
    pub(super) fn receives(&self, queue: u32) -> bool {
        lock(&self.state).receivers.iter().any(|(_, wanted)| wanted.queue.is_none_or(|only| only == queue))
    }

    /// Makes the program redirect frames to the sockets of an element's copy. The last copy of all elements
    /// attaches the program. Copies that share their queues pass the steering that selects the copy that
    /// gets a frame, and a bell, which rings when they can be guests.
    ///
    /// # Errors
    /// If the kernel refuses a step.
    pub(super) fn serve(
        &self,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
        index: c_int,
        receivers: &[Receiver],
        shares: Option<(Steering, &Arc<EventFd>)>,
    ) -> Result<(), String> {
        let mut state = lock(&self.state);
        let (element, (worker, workers), key) = (cx.id(), cx.worker(), cx.workers().steering_key());
        let member = |(steering, bell): (Steering, &Arc<EventFd>)| Member {
            element,
            worker,
            steering,
            key,
            bell: Arc::clone(bell),
        };
        state.members.extend(shares.map(member));
        state.queues.extend(receivers.iter().filter_map(|receiver| {
            let (port, shared) = receiver.owned()?;
            let (port, shared) = (Arc::clone(port), shared.cloned());
            Some(Queue { element, worker, number: receiver.queue, port, shared })
        }));
        state.ready += 1;
        if state.ready == state.copies(cx) {
            let mut queues: Vec<u32> = state.queues.iter().map(|queue| queue.number).collect();
            let begun = state.begin(index, workers, wanted.mode);
            begun.map_err(|(step, error)| explain(wanted, step, &error))?;
            queues.sort_unstable();
            queues.dedup();
            state.hide_key(cx, &self.device, queues.len());
        }
        Ok(())
    }

    /// Returns the guest sockets of an element's copy, which are handed out once.
    pub(super) fn guests_of(&self, element: ElementId, worker: usize) -> Vec<Receiver> {
        let is_its = |guest: &mut (ElementId, usize, Receiver)| (guest.0, guest.1) == (element, worker);
        lock(&self.state).guests.extract_if(.., is_its).map(|(.., guest)| guest).collect()
    }

    /// Detaches the program: no more frames are received.
    pub(super) fn detach(&self) {
        lock(&self.state).detach();
    }

    /// Registers that the interface was removed and that a copy of an element has closed its sockets at the
    /// queues of others. Returns the round.
    pub(super) fn leave(&self) -> u32 {
        let mut state = lock(&self.state);
        state.detach();
        state.ready = 0;
        state.members.clear();
        state.left += 1;
        state.round
    }

    /// True if some copy has left: then all copies have to leave.
    pub(super) fn is_being_left(&self) -> bool {
        lock(&self.state).left > 0
    }

    /// True if all copies have left the queues of others, so that each copy can close its own.
    pub(super) fn have_left(&self, cx: &Cx<'_>) -> bool {
        let state = lock(&self.state);
        state.left >= state.copies(cx)
    }

    /// Registers that a copy has closed its own queues.
    pub(super) fn close(&self, cx: &Cx<'_>) {
        let mut state = lock(&self.state);
        state.closed += 1;
        if state.closed >= state.copies(cx) {
            (state.left, state.closed) = (0, 0);
            state.round += 1;
        }
    }

    /// True if all copies have closed their queues in this round, so that each copy can open them again.
    pub(super) fn is_over(&self, round: u32) -> bool {
        lock(&self.state).round != round
    }

    /// Returns the part of the system that runs the program, once the program is attached.
    pub(super) fn runner(&self) -> Option<Runner> {
        lock(&self.state).runner
    }

    /// True if the interface spreads frames over its queues by a secret key.
    pub(super) fn has_secret_key(&self) -> bool {
        lock(&self.state).key.is_some()
    }

    /// Returns true at the first call only: the user has to be notified that frames are too long.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

impl State {
    /// Returns the number of copies of elements that receive from the interface.
    fn copies(&self, cx: &Cx<'_>) -> usize {
        self.receivers.iter().map(|&(id, _)| cx.workers().copies(id)).sum()
    }

    /// Detaches the program: no more frames are received.
    fn detach(&mut self) {
        self.program = None;
        self.key = None;
        // The owner of a queue has to be the last holder of its port.
        self.queues.clear();
        self.guests.clear();
    }

    /// Opens the sockets of guests, and makes the program redirect frames to all sockets.
    fn begin(&mut self, index: c_int, workers: usize, mode: Mode) -> Result<(), (&'static str, io::Error)> {
        let in_map = |error| ("BPF_MAP_UPDATE_ELEM", error);
        // All elements that share queues have the same steering, which the engine sets.
        let shared = self.members.first().map(|member| (member.steering, workers, member.key));
        let program = self.program.insert(Program::load(shared)?);
        for Queue { element, worker, number, port, shared } in self.queues.drain(..) {
            program.serve(number, port.socket.as_fd()).map_err(in_map)?;
            let Some(shared) = shared else { continue };
            let is_other = |other: &&Member| other.element == element && other.worker != worker;
            for other in self.members.iter().filter(is_other) {
                let guest = Receiver::of_guest(number, index, Arc::clone(&port), Arc::clone(&shared))?;
                program.serve_worker(number, other.worker, guest.socket()).map_err(in_map)?;
                self.guests.push((element, other.worker, guest));
            }
        }
        self.runner = Some(attach(program, index, mode).map_err(|error| ("attach", error))?);
        for member in self.members.drain(..) {
            // If the counter is full, it has woken the worker already.
            let _ = member.bell.write(1);
        }
        Ok(())
    }

    /// Makes the interface spread frames over its queues by a secret key, if this graph has all queues of
    /// the interface. If other programs have some of the queues, the key is theirs too.
    fn hide_key(&mut self, cx: &mut Cx<'_>, device: &str, queues: usize) {
        let keeps = self.receivers.iter().any(|(_, wanted)| wanted.keeps_key);
        let are_all = || link::receive_queues(device).is_ok_and(|all| all as usize == queues);
        if keeps || queues < 2 || cx.workers().interface_key(0).is_none() || !are_all() {
            return;
        }
        match SecretKey::set(device, |length| cx.workers().interface_key(length)) {
            Ok(key) => self.key = key,
            Err(error) => {
                cx.warn(format_args!("{}", rss_key::refusal(device, &crate::reason(&error))));
            }
        }
    }
}

/// Attaches the program in one of the ways that the mode allows.
fn attach(program: &mut Program, index: c_int, mode: Mode) -> io::Result<Runner> {
    let first = if mode == Mode::Kernel { Runner::Kernel } else { Runner::Driver };
    match program.attach(index, first) {
        Ok(()) => Ok(first),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => Err(error),
        Err(_) if mode == Mode::Auto => program.attach(index, Runner::Kernel).map(|()| Runner::Kernel),
        Err(error) => Err(error),
    }
}
