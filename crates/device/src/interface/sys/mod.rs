//! System calls on network interfaces and packet sockets that no library in use wraps. In the sources of this
//! crate, unsafe code is only here, in `xdp/sys`, in `dpdk/sys`, and in `given` of `control_socket`.
#![allow(unsafe_code)]

pub(crate) mod address;
pub(crate) mod barrier;
pub(crate) mod bpf;
pub(crate) mod fanout;
pub(crate) mod link;
pub(crate) mod news;
pub(crate) mod peer;
pub(crate) mod ring;
pub(crate) mod rss;
pub(crate) mod sender;
pub(crate) mod tun;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void, socklen_t};
use packet::VirtioNet;

/// The length in bytes of a virtio-net header, without the field for the number of buffers.
pub(crate) const VIRTIO: usize = 10;

/// Returns the result of a system call; -1 becomes the error that the system has set.
pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a new socket, whose operations do not block. The socket is closed in programs that this process
/// starts (close-on-exec).
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers; the descriptor that it returns has no other owner.
    unsafe {
        let fd = checked(libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A type that the kernel reads or writes as plain memory.
///
/// # Safety
/// Any bytes must be a value of the type, and it must have no padding.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: the type consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for c_int {}
// SAFETY: the type consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for u32 {}
// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for libc::tpacket_stats_v3 {}

/// Sets the option `name` of a socket, at the given level, to a value.
pub(crate) fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the value lives through the call, and its length is right.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast::<c_void>(), length)
    };
    checked(result).map(drop)
}

/// Reads the option `name` of a socket, at the given level. Bytes that the kernel does not write are zero.
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    checked(result)?;
    // SAFETY: all zeros are a value of a `Plain` type, and so are any bytes that the kernel has written
    // over them.
    Ok(unsafe { value.assume_init() })
}

/// Takes the pending error out of a socket; `None` if there is none, or it cannot be read.
pub(crate) fn take_error(socket: BorrowedFd<'_>) -> Option<io::Error> {
    let number = option::<c_int>(socket, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
    (number != 0).then(|| io::Error::from_raw_os_error(number))
}

/// Parses a virtio-net header as a packet socket or a TAP interface writes it, in the machine's byte order.
/// Of the flags, only those of partial and of verified checksums are kept.
pub(crate) fn parse_virtio(bytes: &[u8; VIRTIO]) -> VirtioNet {
    let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    VirtioNet {
        flags: bytes[0] & (VirtioNet::NEEDS_CHECKSUM | VirtioNet::DATA_VALID),
        gso_type: bytes[1],
        header_length: word(2),
        gso_size: word(4),
        checksum_start: word(6),
        checksum_offset: word(8),
    }
}

/// Returns the bytes of a virtio-net header, in the form that [`parse_virtio`] parses, for a packet that is
/// sent.
pub(crate) fn virtio_bytes(fields: &VirtioNet) -> [u8; VIRTIO] {
    let mut bytes = [0; VIRTIO];
    bytes[0] = fields.flags & VirtioNet::NEEDS_CHECKSUM;
    bytes[1] = fields.gso_type;
    let words = [fields.header_length, fields.gso_size, fields.checksum_start, fields.checksum_offset];
    for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtio_headers_round_trip() {
        let fields = VirtioNet {
            flags: 1,
            gso_type: 4,
            header_length: 86,
            gso_size: 1428,
            checksum_start: 54,
            checksum_offset: 16,
        };
        assert_eq!(parse_virtio(&virtio_bytes(&fields)), fields);
        assert_eq!(virtio_bytes(&VirtioNet::default()), [0; VIRTIO]);
        // The kernel says of received packets that it has verified the checksum (2), and other things.
        let verified = parse_virtio(&[0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(verified, VirtioNet { flags: VirtioNet::DATA_VALID, ..VirtioNet::default() });
        assert_eq!(virtio_bytes(&verified), [0; VIRTIO]);
    }
}
