//! Prevents the machine's own network stack from getting the packets that an interface receives.
//!
//! A program after packet sockets and before everything else (TCX, Linux 6.6 and later) drops all packets.
//! It is removed with the process, whereas firewall rules would stay.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libc::c_int;

use super::bpf::{self, ATTACH_INGRESS, EXIT, KIND_TRAFFIC, MOVE, step};

/// `return TCX_DROP`.
const DROP_ALL: [u64; 2] = [step(MOVE, 0, 0, 0, 2), step(EXIT, 0, 0, 0, 0)];
/// Ahead of the programs of others (BPF_F_BEFORE), which could let packets pass.
const BEFORE: u32 = 1 << 3;

/// The barrier at an interface; it exists until this is dropped.
#[derive(Debug)]
pub(crate) struct Barrier {
    _link: OwnedFd,
}

impl Barrier {
    /// Attaches the barrier. On an error, returns the step that failed and the reason.
    pub(crate) fn new(index: c_int) -> Result<Barrier, (&'static str, io::Error)> {
        let program = bpf::load(KIND_TRAFFIC, &DROP_ALL).map_err(|error| ("BPF_PROG_LOAD", error))?;
        let link = bpf::link(program.as_fd(), index, ATTACH_INGRESS, BEFORE);
        Ok(Barrier { _link: link.map_err(|error| ("BPF_LINK_CREATE", error))? })
    }
}
