//! What all elements of a graph, at all workers, share of an interface: one program that hands frames to their sockets.
//!
//! It is attached when the last of them has its queues, so that an interface is served whole or, if one of them fails, not
//! at all; and taken off when the first of them ends. Where the interface is removed, all of them close their queues in steps, and
//! open them again at another one of its name. Where workers share queues, the last one also opens the sockets of
//! guests; workers that are at work by then hear of it by a bell.

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

/// An interface that elements of a graph have queues of.
#[derive(Default)]
pub(super) struct Interface {
    device: String,
    state: Mutex<State>,
    /// Whether the user knows that frames are too long.
    told: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Elements that receive, and what they want.
    receivers: Vec<(ElementId, Wanted)>,
    /// Copies of theirs that have their queues.
    ready: usize,
    /// These queues, and the copies that can be guests, until the last one has come.
    queues: Vec<Queue>,
    members: Vec<Member>,
    /// Guests that nobody has fetched.
    guests: Vec<(ElementId, usize, Receiver)>,
    program: Option<Program>,
    key: Option<SecretKey>,
    runner: Option<Runner>,
    /// How often all copies have closed their queues, because the interface was removed.
    round: u32,
    /// Copies that have left the queues of others in this round, and those that have closed their own.
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

/// A worker's copy of an element that shares its queues with the other ones.
struct Member {
    element: ElementId,
    worker: usize,
    /// Which of them gets a frame.
    steering: Steering,
    key: Key,
    bell: Arc<EventFd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Interface {
    /// The one of this name in the graph that is being built.
    pub(super) fn of(setup: &Setup, device: &str) -> Arc<Interface> {
        let all = setup.common.get_or_make(0, Interfaces::default);
        let mut all = lock(&all.0);
        let found = all.iter().find(|interface| interface.device == device).cloned();
        found.unwrap_or_else(|| {
            all.push(Arc::new(Interface { device: device.into(), ..Interface::default() }));
            Arc::clone(&all[all.len() - 1])
        })
    }

    /// Remembers that an element wants to receive.
    ///
    /// # Errors
    /// What does not go together with the others.
    pub(super) fn expect(&self, element: ElementId, wanted: &Wanted) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.receivers.iter().any(|(_, other)| other.mode != wanted.mode) {
            return Err(format!("MODE: another FromXDP({}) has another", self.device));
        }
        if !state.receivers.iter().any(|&(id, _)| id == element) {
            state.receivers.push((element, wanted.clone()));
        }
        Ok(())
    }

    /// Whether some element receives from a queue.
    pub(super) fn receives(&self, queue: u32) -> bool {
        lock(&self.state).receivers.iter().any(|(_, wanted)| wanted.queue.is_none_or(|only| only == queue))
    }

    /// Lets the program hand frames to the sockets of an element's copy. The last copy of all elements attaches it. Copies
    /// that share their queues say which of them gets a frame, and have a bell, which rings when they can be guests.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn serve(
        &self,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
        index: c_int,
        receivers: &[Receiver],
        shares: Option<(Steering, &Arc<EventFd>)>,
    ) -> Result<(), String> {
        let mut state = lock(&self.state);
        let (element, (worker, workers), key) = (cx.id(), cx.worker(), cx.steering_key());
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

    /// The guests' sockets of an element's copy, once.
    pub(super) fn guests_of(&self, element: ElementId, worker: usize) -> Vec<Receiver> {
        let is_its = |guest: &mut (ElementId, usize, Receiver)| (guest.0, guest.1) == (element, worker);
        lock(&self.state).guests.extract_if(.., is_its).map(|(.., guest)| guest).collect()
    }

    /// Takes the program off: nothing more comes.
    pub(super) fn detach(&self) {
        lock(&self.state).detach();
    }

    /// The interface was removed, and a copy of an element has closed its sockets at the queues of others. Returns the round.
    pub(super) fn leave(&self) -> u32 {
        let mut state = lock(&self.state);
        state.detach();
        state.ready = 0;
        state.members.clear();
        state.left += 1;
        state.round
    }

    /// True if some copy has left: then all have to.
    pub(super) fn is_being_left(&self) -> bool {
        lock(&self.state).left > 0
    }

    /// True if all copies have left the queues of others, so that each can close its own.
    pub(super) fn have_left(&self, cx: &Cx<'_>) -> bool {
        let state = lock(&self.state);
        state.left >= state.copies(cx)
    }

    /// A copy has closed its own queues.
    pub(super) fn close(&self, cx: &Cx<'_>) {
        let mut state = lock(&self.state);
        state.closed += 1;
        if state.closed >= state.copies(cx) {
            (state.left, state.closed) = (0, 0);
            state.round += 1;
        }
    }

    /// True if all copies have closed their queues in this round, so that each can open them again.
    pub(super) fn is_over(&self, round: u32) -> bool {
        lock(&self.state).round != round
    }

    /// Who runs the program, once it is there.
    pub(super) fn runner(&self) -> Option<Runner> {
        lock(&self.state).runner
    }

    /// True if the interface spreads frames over its queues by a secret key.
    pub(super) fn has_secret_key(&self) -> bool {
        lock(&self.state).key.is_some()
    }

    /// Whether the user has to be told that frames are too long; once.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

impl State {
    /// How many copies of elements receive from the interface.
    fn copies(&self, cx: &Cx<'_>) -> usize {
        self.receivers.iter().map(|&(id, _)| cx.copies(id)).sum()
    }

    /// Takes the program off: nothing more comes.
    fn detach(&mut self) {
        self.program = None;
        self.key = None;
        // Whoever owns a queue has to be the last one that has it.
        self.queues.clear();
        self.guests.clear();
    }

    /// Opens the sockets of guests, and lets the program hand frames to all of them.
    fn begin(&mut self, index: c_int, workers: usize, mode: Mode) -> Result<(), (&'static str, io::Error)> {
        let in_map = |error| ("BPF_MAP_UPDATE_ELEM", error);
        // All elements that share queues are steered by what the engine has been told.
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
            // A counter that is full has woken it already.
            let _ = member.bell.write(1);
        }
        Ok(())
    }

    /// Lets the interface spread frames over its queues by a secret key, if all of them are ours, of which there are so many.
    /// Where others have some, it is theirs too.
    fn hide_key(&mut self, cx: &mut Cx<'_>, device: &str, queues: usize) {
        let keeps = self.receivers.iter().any(|(_, wanted)| wanted.keeps_key);
        let are_all = || link::receive_queues(device).is_ok_and(|all| all as usize == queues);
        if keeps || queues < 2 || cx.interface_key(0).is_none() || !are_all() {
            return;
        }
        match SecretKey::set(device, |length| cx.interface_key(length)) {
            Ok(key) => self.key = key,
            Err(error) => {
                cx.warn(format_args!("{}", rss_key::refusal(device, &crate::reason(&error))));
            }
        }
    }
}

/// Attaches the program in one of the ways that are allowed.
fn attach(program: &mut Program, index: c_int, mode: Mode) -> io::Result<Runner> {
    let first = if mode == Mode::Kernel { Runner::Kernel } else { Runner::Driver };
    match program.attach(index, first) {
        Ok(()) => Ok(first),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => Err(error),
        Err(_) if mode == Mode::Auto => program.attach(index, Runner::Kernel).map(|()| Runner::Kernel),
        Err(error) => Err(error),
    }
}
