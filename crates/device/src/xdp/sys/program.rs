//! The program that hands frames to sockets, attached to an interface for as long as somebody has it open (bpf(2)).
//!
//! It asks a map of sockets for the one of the frame's queue; a frame of a queue without a socket goes to the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};

use crate::interface::sys::checked;

/// Most queues of an interface.
pub(crate) const MOST_QUEUES: u32 = 256;

/// Commands, kinds and bits of `linux/bpf.h` and `linux/if_link.h`.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const KIND_XSKMAP: u32 = 17;
const KIND_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
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

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// One of the kernel's commands on programs and maps.
///
/// # Safety
/// The attribute is the command's, and what it points to lives through the call.
unsafe fn bpf<T>(command: c_int, attribute: &T) -> io::Result<c_int> {
    let attribute: *const T = attribute;
    // SAFETY: the caller's word; the kernel reads the attribute only.
    let result = unsafe { libc::syscall(libc::SYS_bpf, c_long::from(command), attribute, size_of::<T>()) };
    checked(result as c_int)
}

/// An instruction: code, registers (target, source), offset, constant.
const fn step(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), constant.to_ne_bytes());
    u64::from_ne_bytes([code, from << 4 | to, a, b, c, d, e, f])
}

/// The program for a map: `return redirect_map(map, frame.rx_queue_index, XDP_PASS)`.
fn instructions(map: c_int) -> [u64; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_MAP: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
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
}

/// What came back is a descriptor that belongs to nobody else.
fn own(result: io::Result<c_int>) -> io::Result<OwnedFd> {
    // SAFETY: the commands that this is used for return a new descriptor.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Program {
    /// Loads the program. It runs from [`attach`](Self::attach) on.
    pub(crate) fn load() -> Result<Program, (&'static str, io::Error)> {
        let create = MapCreate { kind: KIND_XSKMAP, key_size: 4, value_size: 4, entries: MOST_QUEUES };
        // SAFETY: the command's attribute, without pointers.
        let map = own(unsafe { bpf(MAP_CREATE, &create) }).map_err(|error| ("BPF_MAP_CREATE", error))?;
        let instructions = instructions(map.as_raw_fd());
        let load = ProgramLoad {
            kind: KIND_XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: *b"tidegate\0\0\0\0\0\0\0\0",
        };
        // SAFETY: the command's attribute; instructions and license live through the call.
        let program = own(unsafe { bpf(PROGRAM_LOAD, &load) }).map_err(|error| ("BPF_PROG_LOAD", error))?;
        Ok(Program { map, program, link: None })
    }

    /// Gives frames of a queue to a socket.
    pub(crate) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let update = MapUpdate {
            map: self.map.as_fd().as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: the command's attribute; key and value have the map's sizes and live through the call.
        unsafe { bpf(MAP_UPDATE, &update) }.map(drop)
    }

    /// Lets the program run on what the interface receives.
    pub(crate) fn attach(&mut self, index: c_int, runner: Runner) -> io::Result<()> {
        let create = LinkCreate {
            program: self.program.as_raw_fd() as u32,
            interface: index as u32,
            attach: ATTACH_XDP,
            flags: if runner == Runner::Driver { BY_DRIVER } else { BY_SOFTWARE },
        };
        // SAFETY: the command's attribute, without pointers.
        self.link = Some(own(unsafe { bpf(LINK_CREATE, &create) })?);
        Ok(())
    }
}
