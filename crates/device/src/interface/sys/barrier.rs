//! A barrier at an interface: the machine's own network stack gets none of the packets that the interface
//! receives, but packet sockets do.
//!
//! A program of the traffic control (TCX, Linux 6.6 and later) drops all packets. The program runs after
//! packet sockets have got the packets, and before the rest of the network stack. The kernel removes the
//! program when the process ends, whereas firewall rules would stay.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libc::c_int;

use super::bpf::{self, ATTACH_INGRESS, EXIT, KIND_TRAFFIC, MOVE, step};

/// The instructions of the program: `return TCX_DROP`.
const DROP_ALL: [u64; 2] = [step(MOVE, 0, 0, 0, 2), step(EXIT, 0, 0, 0, 0)];
/// A flag that puts the program ahead of other TCX programs at the interface (BPF_F_BEFORE), which could
/// let packets pass.
const BEFORE: u32 = 1 << 3;

/// The barriers of this process, each with the index of its interface.
static BARRIERS: Mutex<Vec<(c_int, Weak<Barrier>)>> = Mutex::new(Vec::new());

/// A barrier at an interface. When this value is dropped, the barrier is removed.
#[derive(Debug)]
pub(crate) struct Barrier {
    _link: OwnedFd,
}

impl Barrier {
    /// Returns the barrier at the interface with this index, and attaches one if there is none. The
    /// elements of a new configuration so continue with the barrier of the configuration that they replace.
    /// On an error, returns the name of the step that failed and the reason.
    pub(crate) fn at(index: c_int) -> Result<Arc<Barrier>, (&'static str, io::Error)> {
        let mut barriers = BARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
        barriers.retain(|(_, barrier)| barrier.strong_count() > 0);
        let listed = barriers.iter().find(|(of, _)| *of == index);
        if let Some(barrier) = listed.and_then(|(_, barrier)| barrier.upgrade()) {
            return Ok(barrier);
        }
        let program = bpf::load(KIND_TRAFFIC, &DROP_ALL).map_err(|error| ("BPF_PROG_LOAD", error))?;
        let link = bpf::link(program.as_fd(), index, ATTACH_INGRESS, BEFORE);
        let barrier = Arc::new(Barrier { _link: link.map_err(|error| ("BPF_LINK_CREATE", error))? });
        barriers.push((index, Arc::downgrade(&barrier)));
        Ok(barrier)
    }
}
