//! The program that hands frames to sockets, attached to an interface for as long as somebody has it open (bpf(2)).
//!
//! It asks a map of sockets for the one of the frame's queue, or for that of one of the workers that share the queue; a frame
//! without a socket goes to the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_int;

use flow::rss::Key;

use crate::interface::steering::Steering;
use crate::interface::sys::bpf::{
    self, ATTACH_XDP, CALL, EXIT, KIND_XDP, LOAD_MAP, LOAD_WORD, MOVE, bpf, own, step,
};

/// Most queues of an interface.
pub(crate) const MOST_QUEUES: u32 = 256;

/// Commands, kinds and bits of `linux/bpf.h` and `linux/if_link.h`.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const KIND_XSKMAP: u32 = 17;
const BY_SOFTWARE: u32 = 1 << 1;
const BY_DRIVER: u32 = 1 << 2;

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The driver, before the kernel has made anything of a frame.
    Driver,
    /// The kernel, on its own packets (`skb`).
    Kernel,
}

/// Attributes of the commands in use; the kernel takes what is missing as zero.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The program for queues that are not shared: `return redirect_map(map, frame.rx_queue_index, XDP_PASS)`.
fn by_queue(map: c_int) -> Vec<u64> {
    vec![
        step(LOAD_WORD, 2, 1, 16, 0),
        // A constant of two instructions' size; source 1 says that it stands for a map.
        step(LOAD_MAP, 1, 1, 0, map),
        0,
        step(MOVE, 3, 0, 0, 2),
        step(CALL, 0, 0, 0, 51),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// A program on an interface. When the last descriptor is closed, also by the death of the process, it is gone.
pub(crate) struct Program {
    map: OwnedFd,
    program: OwnedFd,
    link: Option<OwnedFd>,
    /// Sockets that each queue may have.
    of_queue: u32,
}

impl Program {
    /// Loads the program. It runs from [`attach`](Self::attach) on. With a steering, each of so many workers has a socket at
    /// each queue.
    pub(crate) fn load(shared: Option<(Steering, usize, Key)>) -> Result<Program, (&'static str, io::Error)> {
        let of_queue = shared.map_or(1, |(_, workers, _)| workers as u32);
        let entries = MOST_QUEUES.saturating_mul(of_queue);
        let create = MapCreate { kind: KIND_XSKMAP, key_size: 4, value_size: 4, entries };
        // SAFETY: the command's attribute, without pointers. It returns a new descriptor.
        let map = unsafe { own(bpf(MAP_CREATE, &create)) }.map_err(|error| ("BPF_MAP_CREATE", error))?;
        let instructions = match shared {
            Some((steering, workers, key)) => steering.redirecting(workers, &key, map.as_raw_fd()),
            None => by_queue(map.as_raw_fd()),
        };
        let program = bpf::load(KIND_XDP, &instructions).map_err(|error| ("BPF_PROG_LOAD", error))?;
        Ok(Program { map, program, link: None, of_queue })
    }

    /// Gives all frames of a queue to a socket.
    pub(crate) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        (0..self.of_queue as usize).try_for_each(|worker| self.serve_worker(queue, worker, socket))
    }

    /// Gives a worker's frames of a queue to a socket.
    pub(crate) fn serve_worker(&self, queue: u32, worker: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        let key = queue * self.of_queue + worker as u32;
        let value = socket.as_raw_fd() as u32;
        let update = MapUpdate {
            map: self.map.as_fd().as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: the command's attribute; key and value have the map's sizes and live through the call.
        unsafe { bpf(MAP_UPDATE, &update) }.map(drop)
    }

    /// Lets the program run on what the interface receives.
    pub(crate) fn attach(&mut self, index: c_int, runner: Runner) -> io::Result<()> {
        let flags = if runner == Runner::Driver { BY_DRIVER } else { BY_SOFTWARE };
        self.link = Some(bpf::link(self.program.as_fd(), index, ATTACH_XDP, flags)?);
        Ok(())
    }
}
