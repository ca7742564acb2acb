//! The state of an interface that all FromXDP elements of a graph share, at all workers: the XDP program,
//! which redirects frames to their sockets. On a reload, the elements of the new graph continue with the
//! state of the running graph (`seat.rs`).
//!
//! Each copy of an element opens its queues and registers them ([`Interface::serve`]). The last copy attaches
//! the program, so that all queues are received from or, if a copy fails, none. If workers share queues, the
//! last copy also opens the sockets of guests, and rings a bell for the workers that already run. The first
//! copy of an element that ends without a successor ends the reception of the element; with the last element,
//! the program is detached. If the interface is removed, all copies close their queues in stages, and open
//! them again at another interface of the same name.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use element::{Cx, ElementId, Setup};
use flow::rss::ToeplitzKey;
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

/// All interfaces that FromXDP and ToXDP elements of a graph name.
#[derive(Default)]
pub(super) struct Interfaces(Mutex<Vec<Arc<Interface>>>);

/// The interfaces that copies of elements of this process have opened or are opening. An entry is valid as
/// long as an element has the interface.
static OPENED: Mutex<Vec<Weak<Interface>>> = Mutex::new(Vec::new());

/// An interface, by the name in the configuration, and its state.
#[derive(Default)]
pub(super) struct Interface {
    device: String,
    state: Mutex<State>,
    /// True if the user has been warned that frames are longer than a slot.
    told: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The elements that receive from the interface. Elsewhere, an element is named by its index in this
    /// list, because its successors in other graphs may have other names.
    receivers: Vec<Reception>,
    /// The index that the interface had in the kernel when a worker's copy of an element last opened it.
    index: c_int,
    /// The number of copies of the elements in `receivers` that have opened and registered their queues.
    ready: usize,
    /// The registered queues (`queues`), and the copies that share their queues (`members`), until the last
    /// copy has registered; then both lists are emptied.
    queues: Vec<Queue>,
    members: Vec<Member>,
    /// The open guest sockets, by which copies receive from queues of other copies, until they are fetched;
    /// each with the element and the worker that will fetch it.
    guests: Vec<(usize, usize, Receiver)>,
    program: Option<Program>,
    key: Option<SecretKey>,
    runner: Option<Runner>,
    /// The number of times that all copies have closed their queues, after a removal or a failed opening.
    round: u32,
    /// The number of copies that have closed their guest sockets at the queues of other copies in this round.
    left: usize,
    /// The number of copies that have closed their own queues in this round.
    closed: usize,
}

/// An element that receives from the interface.
struct Reception {
    /// The element's number in the graph that has opened the interface.
    element: ElementId,
    wanted: Wanted,
    /// The number of the element's copies; 0 until a copy has opened its queues.
    copies: usize,
    /// The number of copies that have the interface open. When a graph replaces another one, a copy and its
    /// successor count once.
    open: usize,
    /// True if a copy has ended without a successor.
    is_over: bool,
}

/// A queue that a copy of an element owns.
struct Queue {
    element: usize,
    worker: usize,
    number: u32,
    port: Arc<Port>,
    shared: Option<Arc<Shared>>,
}

/// A copy of an element that also receives from the queues of the element's other copies, as their guest.
struct Member {
    element: usize,
    worker: usize,
    /// The rule by which the program chooses the worker that gets a frame.
    steering: Steering,
    key: ToeplitzKey,
    bell: Arc<EventFd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Interface {
    /// Returns the state of the interface named `device`, which all elements of the graph that is being
    /// built share. Creates the state at the first call.
    pub(super) fn of(setup: &Setup, device: &str) -> Arc<Interface> {
        let all = setup.common.get_or_make(0, Interfaces::default);
        let mut all = lock(&all.0);
        let found = all.iter().find(|interface| interface.device == device).cloned();
        found.unwrap_or_else(|| {
            all.push(Arc::new(Interface { device: device.into(), ..Interface::default() }));
            Arc::clone(&all[all.len() - 1])
        })
    }

    /// Registers an element that will receive, with its arguments; each copy may call this.
    ///
    /// # Errors
    /// If the element's MODE differs from the MODE of another element of the interface: both share one
    /// program.
    pub(super) fn expect(&self, element: ElementId, wanted: &Wanted) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.receivers.iter().any(|other| other.wanted.mode != wanted.mode) {
            return Err(format!(
                "MODE: conflicts with another FromXDP on {}; give both the same MODE",
                self.device
            ));
        }
        if state.number(element).is_none() {
            let wanted = wanted.clone();
            state.receivers.push(Reception { element, wanted, copies: 0, open: 0, is_over: false });
        }
        Ok(())
    }

    /// Returns the index by which the interface knows the element with this number in the graph that opens
    /// the interface.
    pub(super) fn number(&self, element: ElementId) -> usize {
        lock(&self.state).number(element).unwrap_or_default()
    }

    /// Registers that a copy of an element opens the interface with the index `index` in the kernel, for the
    /// graph that this state was made for.
    ///
    /// # Errors
    /// If elements of another graph, which this graph replaces, have the interface. The new elements can only
    /// continue with what is open.
    pub(super) fn begin_open(self: &Arc<Self>, index: c_int) -> Result<(), String> {
        let mut all = lock(&OPENED);
        all.retain(|other| other.strong_count() > 0);
        let others = all.iter().filter_map(Weak::upgrade).filter(|other| !Arc::ptr_eq(other, self));
        for other in others {
            let state = lock(&other.state);
            if state.index == index && state.receivers.iter().any(|reception| reception.open > 0) {
                return Err(format!(
                    "{}: the running configuration receives from it by other FromXDP elements, and a reload cannot change \
                     their QUEUE, MODE, RING or RSS_KEY, their workers, or their number; stop the run and start it again",
                    self.device
                ));
            }
        }
        lock(&self.state).index = index;
        if !all.iter().any(|other| Weak::as_ptr(other) == Arc::as_ptr(self)) {
            all.push(Arc::downgrade(self));
        }
        Ok(())
    }

    /// True if a configuration means this interface by `device`, which is the name of the interface with the
    /// index `index` in the kernel if there is one. After a removal of the interface, its name decides.
    pub(super) fn is(&self, device: &str, index: Option<c_int>) -> bool {
        let own = lock(&self.state).index;
        index == Some(own) || (self.device == device && link::name_of(own).is_err())
    }

    /// Registers that a copy of an element has the interface open. Successors of the copy need not call
    /// this.
    pub(super) fn begin(&self, number: usize) {
        if let Some(reception) = lock(&self.state).receivers.get_mut(number) {
            reception.open += 1;
        }
    }

    /// Registers that a copy of an element has closed its queues for good and has no successor.
    pub(super) fn end(&self, number: usize) {
        let mut state = lock(&self.state);
        if let Some(reception) = state.receivers.get_mut(number) {
            reception.open = reception.open.saturating_sub(1);
        }
    }

    /// True if some element receives from the queue with this number.
    pub(super) fn receives(&self, queue: u32) -> bool {
        let receives = |reception: &Reception| reception.wanted.queue.is_none_or(|only| only == queue);
        lock(&self.state).receivers.iter().any(receives)
    }

    /// Registers the queues of an element's copy. The last copy of all elements loads and attaches the
    /// program, opens the guest sockets by which copies receive from each other's queues, and sets a secret
    /// key. Copies that share their queues pass `shares`: the steering by which the program chooses the
    /// worker of a frame, and a bell, which rings when the copy's guest sockets are open.
    ///
    /// # Errors
    /// If the kernel refuses one of the last copy's steps; if only the key is refused, the user is warned.
    pub(super) fn serve(
        &self,
        cx: &mut Cx<'_>,
        (element, wanted): (usize, &Wanted),
        index: c_int,
        receivers: &[Receiver],
        shares: Option<(Steering, &Arc<EventFd>)>,
    ) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.receivers.iter().all(|reception| reception.copies == 0) {
            // This is the first copy of the graph that opens the interface, so the numbers of elements in
            // `receivers` are numbers in its graph.
            for reception in &mut state.receivers {
                reception.copies = cx.workers().copies(reception.element);
            }
        }
        let ((worker, workers), key) = (cx.workers().copy(), cx.workers().steering_key());
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
        if state.ready == state.copies() {
            let mut queues: Vec<u32> = state.queues.iter().map(|queue| queue.number).collect();
            let attached = state.attach(index, workers, wanted.mode);
            attached.map_err(|(step, error)| explain(wanted, step, &error))?;
            queues.sort_unstable();
            queues.dedup();
            state.hide_key(cx, &self.device, queues.len());
        }
        Ok(())
    }

    /// Returns the guest sockets that were opened for a copy of an element, by which it receives from queues
    /// of other copies. A second call returns none, because the caller owns them.
    pub(super) fn guests_of(&self, element: usize, worker: usize) -> Vec<Receiver> {
        let is_its = |guest: &mut (usize, usize, Receiver)| (guest.0, guest.1) == (element, worker);
        lock(&self.state).guests.extract_if(.., is_its).map(|(.., guest)| guest).collect()
    }

    /// Ends the reception of an element, of which a copy ends without a successor: no more frames are
    /// received by its queues. With the last element of the interface, the program is detached, and the
    /// interface's own key is restored.
    pub(super) fn detach(&self, number: usize) {
        let mut state = lock(&self.state);
        let Some(reception) = state.receivers.get_mut(number) else { return };
        let is_first = !std::mem::replace(&mut reception.is_over, true);
        let queue = reception.wanted.queue;
        if state.receivers.iter().all(|reception| reception.is_over || reception.open == 0) {
            state.detach();
        } else if let (true, Some(queue), Some(program)) = (is_first, queue, &state.program) {
            program.end_queue(queue);
        }
    }

    /// Registers that the interface was removed or could not be opened, and that a copy of an element has
    /// closed its guest sockets at the queues of other copies. Detaches the program. Returns the number of
    /// the round, for [`is_over`](Self::is_over).
    pub(super) fn leave(&self) -> u32 {
        let mut state = lock(&self.state);
        state.detach();
        state.ready = 0;
        state.members.clear();
        state.left += 1;
        state.round
    }

    /// True if a copy has left the interface, which was removed or could not be opened, so that all copies
    /// have to leave it.
    pub(super) fn is_being_left(&self) -> bool {
        lock(&self.state).left > 0
    }

    /// True if all copies have closed their guest sockets at the queues of other copies, so that each copy
    /// can close its own queues.
    pub(super) fn have_left(&self) -> bool {
        let state = lock(&self.state);
        state.left >= state.copies()
    }

    /// Registers that a copy has closed its own queues. The last copy to do so ends the round.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed += 1;
        if state.closed >= state.copies() {
            (state.left, state.closed) = (0, 0);
            state.round += 1;
        }
    }

    /// True if all copies have closed their queues in this round, so that each copy can open them at
    /// another interface.
    pub(super) fn is_over(&self, round: u32) -> bool {
        lock(&self.state).round != round
    }

    /// Returns the part of the system that runs the program; `None` if no program has been attached yet.
    pub(super) fn runner(&self) -> Option<Runner> {
        lock(&self.state).runner
    }

    /// True if a secret key is set, by which the interface spreads frames over its queues.
    pub(super) fn has_secret_key(&self) -> bool {
        lock(&self.state).key.is_some()
    }

    /// Returns true at the first call only, for the copy that warns the user that frames are longer than a
    /// slot.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

impl State {
    /// Returns the index in `receivers` of the element with this number in the graph that has opened the
    /// interface.
    fn number(&self, element: ElementId) -> Option<usize> {
        self.receivers.iter().position(|reception| reception.element == element)
    }

    /// Returns the total number of copies of the elements that receive from the interface, except elements of
    /// which a copy has ended without a successor.
    fn copies(&self) -> usize {
        let receiving = self.receivers.iter().filter(|reception| !reception.is_over);
        receiving.map(|reception| reception.copies).sum()
    }

    /// Detaches the program from the interface, restores the interface's own key, and drops the registered
    /// queues, and the guest sockets (for receiving from queues of other copies) that no copy has fetched.
    fn detach(&mut self) {
        self.program = None;
        self.key = None;
        // The socket of a queue (its port) is closed when the last reference to it is dropped. So no
        // reference may stay in `queues` after the owners have closed their queues.
        self.queues.clear();
        self.guests.clear();
    }

    /// Loads the program, opens the guest sockets by which copies receive from each other's queues, enters
    /// all sockets into the program's map, attaches the program, and wakes all copies that share queues. On
    /// an error, returns the name of the step that failed and the reason.
    fn attach(&mut self, index: c_int, workers: usize, mode: Mode) -> Result<(), (&'static str, io::Error)> {
        let in_map = |error| ("BPF_MAP_UPDATE_ELEM", error);
        // All elements that share queues have the same steering, because the engine sets it.
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
            // The write fails only if the eventfd's counter is full; then the worker has been woken
            // already.
            let _ = member.bell.write(1);
        }
        Ok(())
    }

    /// Sets a secret key at the interface, of which the elements of this graph have `queues` queues. Does
    /// nothing if the engine gives no key: with one worker, or under the trace clock. Does nothing either
    /// with RSS_KEY own, with a single queue, or if the interface has further queues or does not report their
    /// number. Further queues may belong to other programs, whose frames the key spreads as well. If the
    /// interface refuses the key, the user is warned.
    fn hide_key(&mut self, cx: &mut Cx<'_>, device: &str, queues: usize) {
        let keeps = self.receivers.iter().any(|reception| reception.wanted.keeps_key);
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

/// Attaches the program with the part of the system that `mode` allows, and returns that part. With `auto`,
/// the kernel is tried if the driver refuses, unless another program is attached already or this process
/// lacks the permission.
fn attach(program: &mut Program, index: c_int, mode: Mode) -> io::Result<Runner> {
    let first = if mode == Mode::Kernel { Runner::Kernel } else { Runner::Driver };
    match program.attach(index, first) {
        Ok(()) => Ok(first),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => Err(error),
        Err(_) if mode == Mode::Auto => program.attach(index, Runner::Kernel).map(|()| Runner::Kernel),
        Err(error) => Err(error),
    }
}
