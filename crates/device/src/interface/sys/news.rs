//! The kernel's messages about interfaces that were added, removed or changed (rtnetlink(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, sockaddr_nl};

use super::{checked, socket};

/// The size in bytes of the buffer for messages, which has room for more than one message about an
/// interface.
const ROOM: usize = 16 * 1024;
/// The length in bytes of a message's header (`HEADER`), and of the part after the header with which the body
/// of a message about an interface begins (`LINK`).
const HEADER: usize = 16;
const LINK: usize = 16;

/// A socket that receives the kernel's messages about all interfaces of this process's network namespace.
#[derive(Debug)]
pub(crate) struct News(OwnedFd);

/// The result of reading all messages that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// True if there was a message about any interface, or messages were lost.
    pub(crate) something: bool,
    /// True if the interface that the caller asked about was removed, or moved to another namespace.
    pub(crate) was_removed: bool,
}

impl News {
    pub(crate) fn open() -> io::Result<News> {
        let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        // SAFETY: the structure is plain data, for which all zeros are a valid value.
        let mut address: sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        let length = size_of::<sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the address lives through the call, and its length is right.
        checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(News(socket))
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Reads all messages that have arrived. `index` is the interface whose removal the result reports.
    pub(crate) fn take(&self, index: c_int) -> Heard {
        let mut heard = Heard::default();
        let mut buffer = [0u8; ROOM];
        loop {
            // SAFETY: the kernel writes at most `ROOM` bytes, the size of the buffer.
            let n = unsafe {
                libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), ROOM, libc::MSG_DONTWAIT)
            };
            match usize::try_from(n) {
                Ok(0) => return heard,
                Ok(n) => {
                    heard.something = true;
                    heard.read(&buffer[..n.min(ROOM)], index);
                }
                Err(_) => match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Messages were lost because the buffer of the socket was full. The caller has to check
                    // for changes itself.
                    Some(libc::ENOBUFS) => heard.something = true,
                    _ => return heard,
                },
            }
        }
    }
}

impl Heard {
    fn read(&mut self, mut bytes: &[u8], index: c_int) {
        while let Some((length, kind, number)) = first_message(bytes) {
            self.was_removed |= kind == libc::RTM_DELLINK && number == Some(index);
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Parses the first message in `bytes`. Returns its length in bytes, its type, and the index of its interface
/// if it is about one. Returns `None` if the message is not complete, or its length is not valid.
fn first_message(bytes: &[u8]) -> Option<(usize, u16, Option<c_int>)> {
    let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..)?.first_chunk().copied() };
    let length = u32::from_ne_bytes(word(0)?) as usize;
    if length < HEADER || length > bytes.len() {
        return None;
    }
    let [a, b, ..] = word(4)?;
    // In the message's body, the index of the interface follows the family and the hardware type.
    let number = word(HEADER + 4).filter(|_| length >= HEADER + LINK).map(c_int::from_ne_bytes);
    Some((length, u16::from_ne_bytes([a, b]), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, index: c_int, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.next_multiple_of(4)];
        bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[20..24].copy_from_slice(&index.to_ne_bytes());
        bytes
    }

    #[test]
    fn messages_behind_each_other_are_read() {
        let all = [message(libc::RTM_NEWLINK, 7, 33), message(libc::RTM_DELLINK, 9, 32)].concat();
        let read = |bytes: &[u8], index| {
            let mut heard = Heard::default();
            heard.read(bytes, index);
            heard
        };
        assert!(read(&all, 9).was_removed && !read(&all, 7).was_removed);
        // If the bytes end within a message, only the messages before it are read.
        for length in 0..all.len() {
            assert!(!read(&all[..length], 9).was_removed, "{length}");
        }
        assert_eq!(read(&[0; 64], 0), Heard::default());
    }
}
