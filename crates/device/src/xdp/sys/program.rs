//! The XDP program that redirects frames of an interface to AF_XDP sockets. It stays attached to the
//! interface while a file descriptor of its link is open (bpf(2)).
//!
//! The program looks up a socket in a map: the socket of the queue by which the frame arrived or, if
//! workers share the queue, the socket of the worker that it has chosen. If the map has no such socket, the
//! frame goes to the kernel's network stack.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_int;

use flow::rss::ToeplitzKey;

use crate::interface::steering::Steering;
use crate::interface::sys::bpf::{
    self, ATTACH_XDP, CALL, EXIT, KIND_XDP, LOAD_MAP, LOAD_WORD, MOVE, bpf, own, step,
};

/// The largest number of queues of an interface that Tidegate supports.
pub(crate) const MOST_QUEUES: u32 = 256;

/// Constants of `linux/bpf.h` and `linux/if_link.h`: commands, the type of map for AF_XDP sockets, and
/// flags for attaching.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const MAP_DELETE: c_int = 3;
const KIND_XSKMAP: u32 = 17;
const BY_SOFTWARE: u32 = 1 << 1;
const BY_DRIVER: u32 = 1 << 2;

/// The part of the system that runs the XDP program on received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The driver, before the kernel has built a packet buffer for the frame: `native`.
    Driver,
    /// The kernel, on its own packet buffers: `skb`, slower, but possible with every interface.
    Kernel,
}

/// The attribute of the command `MAP_CREATE`: the first fields of the kernel's structure. The kernel takes
/// the missing fields as zero.
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

/// Returns the instructions of the program for queues that workers do not share: `return redirect_map(map,
/// frame.rx_queue_index, XDP_PASS)`.
fn by_queue(map: c_int) -> Vec<u64> {
    vec![
        step(LOAD_WORD, 2, 1, 16, 0),
        // The instruction loads a 64-bit constant and takes two words. The source register 1 marks the
        // constant as the descriptor of a map.
        step(LOAD_MAP, 1, 1, 0, map),
        0,
        step(MOVE, 3, 0, 0, 2),
        step(CALL, 0, 0, 0, 51),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// A loaded program and its map of sockets, attached to an interface or not. The kernel detaches and
/// removes the program when its last file descriptor is closed, also by the death of the process.
pub(crate) struct Program {
    map: OwnedFd,
    program: OwnedFd,
    link: Option<OwnedFd>,
    /// The number of sockets in the map for each queue: the number of workers if they share queues, else 1.
    of_queue: u32,
}

impl Program {
    /// Loads the program into the kernel; [`attach`](Self::attach) makes it run. With `shared`, each queue
    /// has a socket for each of the given number of workers. The program chooses the worker by the steering
    /// and the key. On an error, returns the name of the step that failed and the reason.
    pub(crate) fn load(
        shared: Option<(Steering, usize, ToeplitzKey)>,
    ) -> Result<Program, (&'static str, io::Error)> {
        let of_queue = shared.map_or(1, |(_, workers, _)| workers as u32);
        let entries = MOST_QUEUES.saturating_mul(of_queue);
        let create = MapCreate { kind: KIND_XSKMAP, key_size: 4, value_size: 4, entries };
        // SAFETY: the attribute belongs to the command and has no pointers. The command returns a new
        // descriptor.
        let map = unsafe { own(bpf(MAP_CREATE, &create)) }.map_err(|error| ("BPF_MAP_CREATE", error))?;
        let instructions = match shared {
            Some((steering, workers, key)) => steering.redirecting(workers, &key, map.as_raw_fd()),
            None => by_queue(map.as_raw_fd()),
        };
        let program = bpf::load(KIND_XDP, &instructions).map_err(|error| ("BPF_PROG_LOAD", error))?;
        Ok(Program { map, program, link: None, of_queue })
    }

    /// Redirects all frames of a queue to one socket, for whichever worker they are.
    /// [`serve_worker`](Self::serve_worker) then replaces the socket for one worker.
    pub(crate) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        (0..self.of_queue as usize).try_for_each(|worker| self.serve_worker(queue, worker, socket))
    }

    /// Redirects to a socket the frames of a queue for which the program chooses this worker.
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
        // SAFETY: the attribute belongs to the command; key and value have the map's sizes and live through
        // the call.
        unsafe { bpf(MAP_UPDATE, &update) }.map(drop)
    }

    /// Leaves the frames of a queue to the kernel's network stack.
    pub(crate) fn end_queue(&self, queue: u32) {
        for worker in 0..self.of_queue {
            let key = queue * self.of_queue + worker;
            let map = self.map.as_fd().as_raw_fd() as u32;
            let delete = MapUpdate { map, padding: 0, key: (&raw const key) as u64, value: 0, flags: 0 };
            // SAFETY: the attribute belongs to the command; the key has the map's size and lives through the
            // call. The command does not read the value. It fails only if the map has no such key.
            let _ = unsafe { bpf(MAP_DELETE, &delete) };
        }
    }

    /// Attaches the program to the interface with this index, so that it runs on each frame that the
    /// interface receives.
    ///
    /// # Errors
    /// If another XDP program is attached, or `runner` cannot run the program at this interface.
    pub(crate) fn attach(&mut self, index: c_int, runner: Runner) -> io::Result<()> {
        let flags = if runner == Runner::Driver { BY_DRIVER } else { BY_SOFTWARE };
        self.link = Some(bpf::link(self.program.as_fd(), index, ATTACH_XDP, flags)?);
        Ok(())
    }
}
