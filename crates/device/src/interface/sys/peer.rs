//! The user of the process at the other end of a Unix socket (`SO_PEERCRED`, unix(7)).

use std::io;
use std::os::fd::BorrowedFd;

use super::{Plain, option};

// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for libc::ucred {}

/// Returns the number of the user as whom this process runs (the effective user).
pub(crate) fn own_user() -> u32 {
    // SAFETY: the call has no pointers, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the number of the user of the process at the other end of a connected stream: the user at the
/// time when that process began to listen.
pub(crate) fn user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option::<libc::ucred>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED).map(|peer| peer.uid)
}
