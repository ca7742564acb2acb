//! Loads eBPF programs into the kernel (bpf(2)) and attaches them to interfaces. A program stays attached
//! while the file descriptor of its link is open.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};

use super::checked;

/// Numbers of the commands of bpf(2) (`linux/bpf.h`).
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
/// Types of programs (`linux/bpf.h`): for packets of the traffic control, and for XDP.
pub(crate) const KIND_TRAFFIC: u32 = 3;
pub(crate) const KIND_XDP: u32 = 6;
/// The points at which programs are attached (`linux/bpf.h`).
pub(crate) const ATTACH_XDP: u32 = 37;
pub(crate) const ATTACH_INGRESS: u32 = 46;

/// The attribute of the command `PROGRAM_LOAD`: the first fields of the kernel's structure. The kernel
/// takes the missing fields as zero.
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

/// Executes a command of bpf(2) with its attribute. Returns the command's result, often a file descriptor.
///
/// # Safety
/// The attribute must belong to the command, and the memory that it points to must live through the call.
pub(crate) unsafe fn bpf<T>(command: c_int, attribute: &T) -> io::Result<c_int> {
    let attribute: *const T = attribute;
    // SAFETY: guaranteed by the caller; the kernel reads the attribute only.
    let result = unsafe { libc::syscall(libc::SYS_bpf, c_long::from(command), attribute, size_of::<T>()) };
    checked(result as c_int)
}

/// Takes ownership of the file descriptor that a command has returned.
///
/// # Safety
/// The descriptor must have no other owner.
pub(crate) unsafe fn own(result: io::Result<c_int>) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Encodes an instruction of 64 bits: its code, its target and source register, an offset, and a constant.
pub(crate) const fn step(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), constant.to_ne_bytes());
    u64::from_ne_bytes([code, from << 4 | to, a, b, c, d, e, f])
}

/// Codes of eBPF instructions: loads of a word and of a map's descriptor, a move, a call, and the exit.
pub(crate) const LOAD_WORD: u8 = 0x61;
pub(crate) const LOAD_MAP: u8 = 0x18;
pub(crate) const MOVE: u8 = 0xb7;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;

/// Loads a program of the type `kind` into the kernel, which checks that it is safe. Returns its file
/// descriptor.
pub(crate) fn load(kind: u32, instructions: &[u64]) -> io::Result<OwnedFd> {
    let load = ProgramLoad {
        kind,
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
    // SAFETY: the attribute belongs to the command; instructions and license live through the call. The
    // command returns a new descriptor.
    unsafe { own(bpf(PROGRAM_LOAD, &load)) }
}

/// Attaches a program to the interface with the index `index`, at the point `attach`. The program runs on
/// each packet that the interface receives until the returned file descriptor is closed, also by the death of
/// the process.
pub(crate) fn link(program: BorrowedFd<'_>, index: c_int, attach: u32, flags: u32) -> io::Result<OwnedFd> {
    let create = LinkCreate { program: program.as_raw_fd() as u32, interface: index as u32, attach, flags };
    // SAFETY: the attribute belongs to the command and has no pointers. The command returns a new
    // descriptor.
    unsafe { own(bpf(LINK_CREATE, &create)) }
}

/// Runs a loaded program once on a frame, without an interface, and returns the program's result.
#[cfg(test)]
pub(crate) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    const TEST_RUN: c_int = 10;

    #[repr(C)]
    struct TestRun {
        program: u32,
        result: u32,
        input_size: u32,
        output_size: u32,
        input: u64,
        output: u64,
        repeat: u32,
        duration: u32,
    }

    let mut test = TestRun {
        program: program.as_raw_fd() as u32,
        result: 0,
        input_size: frame.len() as u32,
        output_size: 0,
        input: frame.as_ptr() as u64,
        output: 0,
        repeat: 1,
        duration: 0,
    };
    let size = size_of::<TestRun>();
    // SAFETY: the attribute belongs to the command, and the kernel writes its answer into it; the frame
    // lives through the call, and no output buffer is given.
    let done = unsafe { libc::syscall(libc::SYS_bpf, c_long::from(TEST_RUN), &raw mut test, size) };
    checked(done as c_int).map(|_| test.result)
}
