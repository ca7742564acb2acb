//! System calls on AF_XDP sockets (af_xdp.rst): opens a socket whose memory is the packet pool, maps its
//! rings, and binds it to a queue of an interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, sockaddr_xdp, xdp_desc, xdp_mmap_offsets, xdp_options, xdp_statistics, xdp_umem_reg};
use packet::{Pool, SLOT_STRIDE};

use super::ring::{Consumer, Producer};
use crate::interface::sys::{self, Plain, checked, option, set_option};

// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for xdp_umem_reg {}
// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for xdp_mmap_offsets {}
// SAFETY: the structure consists of numbers, without padding, so that any bytes are a value.
unsafe impl Plain for xdp_statistics {}
// SAFETY: the structure consists of one number, so that any bytes are a value.
unsafe impl Plain for xdp_options {}

/// The number of low bits of an AF_XDP address that hold the offset of a slot in the pool. The 16 bits
/// above hold the offset in the slot (unaligned chunks).
const SLOT_BITS: u32 = 48;

/// An open socket and its four rings.
pub(crate) struct Opened {
    pub(crate) socket: OwnedFd,
    /// The ring of free slots, into which the kernel is to write received packets.
    pub(crate) fill: Producer<u64>,
    /// The ring of received packets.
    pub(crate) receive: Consumer<xdp_desc>,
    /// The ring of packets to be sent.
    pub(crate) transmit: Producer<xdp_desc>,
    /// The ring of slots whose packets have been sent, so that they are free again.
    pub(crate) completed: Consumer<u64>,
}

/// Opens a socket whose memory is the pool's device area, with rings of `size` entries each. The socket
/// receives nothing until [`bind`]. On an error, returns the name of the step that failed and the reason.
pub(crate) fn open(pool: &Pool, size: u32) -> Result<Opened, (&'static str, io::Error)> {
    let step = |what: &'static str| move |error| (what, error);
    let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(step("AF_XDP socket"))?;
    let fd = socket.as_fd();
    let (start, length) = pool.device_area();
    // No further headroom is requested: the kernel itself leaves 256 bytes before each frame, as much as
    // the pool does.
    let memory = xdp_umem_reg {
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        chunk_size: SLOT_STRIDE as u32,
        headroom: 0,
        tx_metadata_len: 0,
        addr: start as u64,
        len: length as u64,
    };
    // The kernel writes only to slots that it finds in the ring `fill`, and only until it returns them by
    // the ring `receive`. The pool has handed all of them out. The kernel reads the slots in the ring
    // `transmit` until it returns them by the ring `completed`.
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &memory).map_err(step("XDP_UMEM_REG"))?;
    for (name, what) in [
        (libc::XDP_UMEM_FILL_RING, "XDP_UMEM_FILL_RING"),
        (libc::XDP_UMEM_COMPLETION_RING, "XDP_UMEM_COMPLETION_RING"),
        (libc::XDP_RX_RING, "XDP_RX_RING"),
        (libc::XDP_TX_RING, "XDP_TX_RING"),
    ] {
        set_option(fd, libc::SOL_XDP, name, &size).map_err(step(what))?;
    }
    // The socket's send buffer has room for a full ring of packets that the kernel has copied. With the
    // default limit, the kernel would send fewer packets at once.
    let room = size as c_int * 4096;
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room);
    let places: xdp_mmap_offsets =
        option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(step("XDP_MMAP_OFFSETS"))?;
    let failed = step("mmap");
    let fill = Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, places.fr, size).map_err(failed)?;
    let completed =
        Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, places.cr, size).map_err(failed)?;
    let receive = Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, places.rx, size).map_err(failed)?;
    let transmit = Producer::map(fd, libc::XDP_PGOFF_TX_RING as u64, places.tx, size).map_err(failed)?;
    Ok(Opened { socket, fill, receive, transmit, completed })
}

/// Opens the socket of a guest, by which a worker receives from the queue of another worker. The socket only
/// receives, into the memory of the socket to which [`bind_guest`] binds it. Its receive ring has `size`
/// entries. On an error, returns the name of the step that failed and the reason.
pub(crate) fn open_guest(size: u32) -> Result<(OwnedFd, Consumer<xdp_desc>), (&'static str, io::Error)> {
    let step = |what: &'static str| move |error| (what, error);
    let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(step("AF_XDP socket"))?;
    let fd = socket.as_fd();
    set_option(fd, libc::SOL_XDP, libc::XDP_RX_RING, &size).map_err(step("XDP_RX_RING"))?;
    let places: xdp_mmap_offsets =
        option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(step("XDP_MMAP_OFFSETS"))?;
    let receive = Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, places.rx, size).map_err(step("mmap"))?;
    Ok((socket, receive))
}

/// Binds a socket to a queue of the interface with the index `index`. With `copy`, the kernel copies
/// packets between its own buffers and the slots, even if the driver could access the slots itself.
pub(crate) fn bind(socket: BorrowedFd<'_>, index: c_int, queue: u32, copy: bool) -> io::Result<()> {
    let flags = libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 };
    bind_to(socket, index, queue, (flags, 0))
}

/// Binds the socket of a guest to the queue of another worker's socket, the owner's, and lets it use the
/// owner's memory. Only the owner gives the kernel free slots.
pub(crate) fn bind_guest(
    socket: BorrowedFd<'_>,
    index: c_int,
    queue: u32,
    owner: BorrowedFd<'_>,
) -> io::Result<()> {
    bind_to(socket, index, queue, (libc::XDP_SHARED_UMEM, owner.as_raw_fd() as u32))
}

fn bind_to(socket: BorrowedFd<'_>, index: c_int, queue: u32, (flags, owner): (u16, u32)) -> io::Result<()> {
    let address = sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index as u32,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: owner,
    };
    let length = size_of::<sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the address lives through the call, and its length is right.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(result).map(drop)
}

/// True if the kernel copies received packets into the slots, because the driver cannot write there or MODE
/// forbids it. Also true if the kernel does not report this.
pub(crate) fn is_copied(socket: BorrowedFd<'_>) -> bool {
    let options = option::<xdp_options>(socket, libc::SOL_XDP, libc::XDP_OPTIONS);
    options.map_or(true, |options| options.flags & libc::XDP_OPTIONS_ZEROCOPY == 0)
}

/// Makes the kernel send the packets that were submitted to the send ring.
///
/// # Errors
/// The kernel's error; some errors, such as `EAGAIN`, only mean that packets are left in the ring.
pub(crate) fn kick(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call passes no bytes and no address, so that the kernel accesses no memory of this
    // process.
    let result = unsafe {
        libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    };
    checked(result as c_int).map(drop)
}

/// Wakes a kernel that has found no free slot in the fill ring, so that it looks there again.
pub(crate) fn wake(socket: BorrowedFd<'_>) {
    let (nothing, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the call passes no bytes and no address, so that the kernel accesses no memory of this
    // process.
    unsafe { libc::recvfrom(socket.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, none, std::ptr::null_mut()) };
}

/// Returns the kernel's counters for a socket, or `None` if the kernel does not report them.
pub(crate) fn statistics(socket: BorrowedFd<'_>) -> Option<xdp_statistics> {
    option(socket, libc::SOL_XDP, libc::XDP_STATISTICS).ok()
}

/// Returns the AF_XDP address of a slot's first byte, for the ring of free slots.
pub(crate) fn address(slot: u32) -> u64 {
    u64::from(slot) * SLOT_STRIDE as u64
}

/// Returns the descriptor of a packet to be sent: `length` bytes at the offset `start` of a slot.
pub(crate) fn descriptor(slot: u32, start: u16, length: u16) -> xdp_desc {
    xdp_desc { addr: address(slot) | u64::from(start) << SLOT_BITS, len: length.into(), options: 0 }
}

/// Splits an AF_XDP address into the slot's number and the offset in the slot, in bytes.
pub(crate) fn parse(address: u64) -> (u32, usize) {
    let (base, offset) = (address & ((1 << SLOT_BITS) - 1), address >> SLOT_BITS);
    let stride = SLOT_STRIDE as u64;
    // An address outside of the pool gives the number of a slot that does not exist, which the pool
    // refuses.
    (u32::try_from(base / stride).unwrap_or(u32::MAX), (base % stride + offset) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn descriptors_round_trip(slot in 0u32..1 << 24, start in 0u16..SLOT_STRIDE as u16, length: u16) {
            let descriptor = descriptor(slot, start, length);
            prop_assert_eq!(parse(descriptor.addr), (slot, usize::from(start)));
            prop_assert_eq!(descriptor.len, u32::from(length));
            prop_assert_eq!(parse(address(slot)), (slot, 0));
            // Some drivers put the sum of the slot's offset and the offset in the slot into the lower bits.
            prop_assert_eq!(parse(address(slot) + u64::from(start)), (slot, usize::from(start)));
        }

        #[test]
        fn no_address_panics(address: u64) {
            parse(address);
        }
    }
}
