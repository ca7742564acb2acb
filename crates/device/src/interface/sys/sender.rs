//! A packet socket that sends packets to an interface, many with each call (`sendmmsg`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, iovec, mmsghdr};
use packet::Packet;

use super::{VIRTIO, ring, set_option, socket, virtio_bytes};

/// The largest number of packets per call of `sendmmsg`.
pub(crate) const MOST: usize = 64;
/// The largest number of memory areas per call. A packet of 64 KiB consists of 32 areas.
const PIECES: usize = 1024;

/// A packet socket for sending, with the arrays for `sendmmsg`, which are reused.
pub(crate) struct Sender {
    socket: OwnedFd,
    offloads: bool,
    messages: Vec<mmsghdr>,
    pieces: Vec<iovec>,
    headers: Vec<[u8; VIRTIO]>,
}

// SAFETY: the pointers in messages and pieces are used only inside of `send`, which writes all of them
// again.
unsafe impl Send for Sender {}

impl Sender {
    /// Opens a socket that sends to the interface with the index `index`. With `offloads`, each packet is
    /// sent with a virtio-net header, which tells the device about unfinished checksums and segmentation.
    /// With `bypass`, packets bypass the queueing discipline, and programs that watch the interface do not
    /// see them. On an error, returns the name of the step that failed and the reason.
    pub(crate) fn open(
        index: c_int,
        offloads: bool,
        bypass: bool,
    ) -> Result<Sender, (&'static str, io::Error)> {
        let step = |what: &'static str| move |error| (what, error);
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(step("socket"))?;
        let set = |name: c_int| set_option::<c_int>(socket.as_fd(), libc::SOL_PACKET, name, &1);
        if offloads {
            set(libc::PACKET_VNET_HDR).map_err(step("PACKET_VNET_HDR"))?;
        }
        if bypass {
            set(libc::PACKET_QDISC_BYPASS).map_err(step("PACKET_QDISC_BYPASS"))?;
        }
        ring::bind(socket.as_fd(), index, 0).map_err(step("bind"))?;
        Ok(Sender {
            socket,
            offloads,
            messages: Vec::with_capacity(MOST),
            pieces: Vec::with_capacity(PIECES),
            headers: Vec::with_capacity(MOST),
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the index of the interface to which the socket is bound; -1 after the interface was removed.
    pub(crate) fn bound(&self) -> c_int {
        ring::bound(self.socket.as_fd())
    }

    /// Sends as many of the first packets as one call can. Returns the number of packets that the interface
    /// took.
    ///
    /// # Errors
    /// The kernel's error for the first packet, or `EMSGSIZE` if the first packet consists of too many memory
    /// areas. No packet was sent in either case.
    pub(crate) fn send<'a>(&mut self, packets: impl Iterator<Item = &'a Packet>) -> io::Result<usize> {
        self.messages.clear();
        self.pieces.clear();
        self.headers.clear();
        for packet in packets.take(MOST) {
            let first = self.pieces.len();
            // Adding a packet must not make the arrays grow, because the messages hold pointers into them.
            if PIECES - first <= packet.chunks().count() {
                if first == 0 {
                    return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
                }
                break;
            }
            if self.offloads {
                self.headers.push(virtio_bytes(&packet.annotations().virtio));
                let header =
                    self.headers.last_mut().map_or(std::ptr::null_mut(), |header| header.as_mut_ptr());
                self.pieces.push(iovec { iov_base: header.cast(), iov_len: VIRTIO });
            }
            let piece =
                |chunk: &[u8]| iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() };
            self.pieces.extend(packet.chunks().map(piece));
            // SAFETY: the structure is plain data, for which all zeros are a valid value.
            let mut message: mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = self.pieces[first..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = self.pieces.len() - first;
            self.messages.push(message);
        }
        if self.messages.is_empty() {
            return Ok(0);
        }
        // SAFETY: the messages point to pieces, and these to headers and packets, all of which live through
        // the call. The kernel writes only to the messages. The lists have not moved since they were filled.
        let sent = unsafe {
            let (first, count) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
            libc::sendmmsg(self.socket.as_raw_fd(), first, count, libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
