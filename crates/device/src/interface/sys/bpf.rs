//! The kernel's programs (bpf(2)): loads a program, and attaches it to an interface for as long as a
//! descriptor of the link is open.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};

use super::checked;

/// Commands of `linux/bpf.h`.
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
/// Kinds of programs.
pub(crate) const KIND_TRAFFIC: u32 = 3;
pub(crate) const KIND_XDP: u32 = 6;
/// The places where programs are attached.
pub(crate) const ATTACH_XDP: u32 = 37;
pub(crate) const ATTACH_INGRESS: u32 = 46;

/// The attribute of a command. The kernel takes missing fields as zero.
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

/// Runs a command of the kernel on programs and maps.
///
/// # Safety
/// The attribute must belong to the command, and the memory that it points to must live through the call.
pub(crate) unsafe fn bpf<T>(command: c_int, attribute: &T) -> io::Result<c_int> {
    let attribute: *const T = attribute;
    // SAFETY: guaranteed by the caller; the kernel reads the attribute only.
    let result = unsafe { libc::syscall(libc::SYS_bpf, c_long::from(command), attribute, size_of::<T>()) };
    checked(result as c_int)
}

/// Takes ownership of the descriptor that a command has returned.
///
/// # Safety
/// The descriptor must have no other owner.
pub(crate) unsafe fn own(result: io::Result<c_int>) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Encodes an instruction: code, registers (target, source), offset, constant.
pub(crate) const fn step(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), constant.to_ne_bytes());
    u64::from_ne_bytes([code, from << 4 | to, a, b, c, d, e, f])
}

/// Codes of instructions.
pub(crate) const LOAD_WORD: u8 = 0x61;
pub(crate) const LOAD_MAP: u8 = 0x18;
pub(crate) const MOVE: u8 = 0xb7;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;

/// Loads a program.
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
    // SAFETY: the command's attribute; instructions and license live through the call. It returns a new
    // descriptor.
    unsafe { own(bpf(PROGRAM_LOAD, &load)) }
}

/// Runs a program on packets that an interface receives, until the link is closed, also by the death of the
/// process.
pub(crate) fn link(program: BorrowedFd<'_>, index: c_int, attach: u32, flags: u32) -> io::Result<OwnedFd> {
    let create = LinkCreate { program: program.as_raw_fd() as u32, interface: index as u32, attach, flags };
    // SAFETY: the command's attribute, without pointers. It returns a new descriptor.
    unsafe { own(bpf(LINK_CREATE, &create)) }
}

/// Runs a program once on a frame, without any interface. Returns the program's result.
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
    // SAFETY: the command's attribute, to which the kernel writes; the frame lives through the call, and
    // there is no output.
    let done = unsafe { libc::syscall(libc::SYS_bpf, c_long::from(TEST_RUN), &raw mut test, size) };
    checked(done as c_int).map(|_| test.result)
}
