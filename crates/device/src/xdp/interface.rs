//! What all elements of a graph, at all workers, share of an interface: one program that hands frames to their sockets.
//!
//! It is attached when the last of them has its queues, so that an interface is served whole or, if one of them fails, not
//! at all; and taken off when the first of them ends.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::{Cx, ElementId, Setup};
use libc::c_int;

use super::port::explain;
use super::sys::program::{Program, Runner};
use super::{Mode, Wanted};

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
    program: Option<Program>,
    runner: Option<Runner>,
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

    /// Lets the program hand frames to the sockets of an element's copy, for these queues. The last copy of all elements
    /// attaches it.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn serve<'a>(
        &self,
        cx: &Cx<'_>,
        wanted: &Wanted,
        index: c_int,
        sockets: impl Iterator<Item = (u32, BorrowedFd<'a>)>,
    ) -> Result<(), String> {
        let failed = |step: &str, error: &io::Error| explain(wanted, step, error);
        let mut state = lock(&self.state);
        let State { receivers, ready, program, runner } = &mut *state;
        let program = match program {
            Some(program) => program,
            None => program.insert(Program::load(None).map_err(|(step, error)| failed(step, &error))?),
        };
        for (queue, socket) in sockets {
            program.serve(queue, socket).map_err(|error| failed("BPF_MAP_UPDATE_ELEM", &error))?;
        }
        *ready += 1;
        if *ready == receivers.iter().map(|&(id, _)| cx.copies(id)).sum() {
            let attached = attach(program, index, wanted.mode).map_err(|error| failed("attach", &error))?;
            *runner = Some(attached);
        }
        Ok(())
    }

    /// Takes the program off: nothing more comes.
    pub(super) fn detach(&self) {
        lock(&self.state).program = None;
    }

    /// Who runs the program, once it is there.
    pub(super) fn runner(&self) -> Option<Runner> {
        lock(&self.state).runner
    }

    /// Whether the user has to be told that frames are too long; once.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
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
