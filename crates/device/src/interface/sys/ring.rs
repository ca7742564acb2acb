//! A packet socket whose received packets are in memory that the kernel shares: a ring of blocks,
//! `TPACKET_V3` (packet(7), packet_mmap.rst).
//!
//! Each block belongs to the kernel or to Tidegate, as its status word says. The kernel fills a block with
//! successive packets, and hands it over when it is full or a millisecond has passed. Tidegate reads the
//! packets, and then gives the block back.
//!
//! If packets arrive faster than they are processed, all blocks are full. If packets then arrive more slowly,
//! the kernel uses up each block that becomes free within a millisecond. It loses the packets that arrive
//! until the next block is free. That would last for as long as the backlog is processed. Therefore, after
//! all blocks were full, blocks whose packets have waited for more than a quarter of a second are skipped.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libc::{c_int, c_void, sockaddr_ll, tpacket_req3, tpacket3_hdr};
use packet::VirtioNet;

use super::fanout;
use super::{VIRTIO, checked, parse_virtio, set_option, socket};

/// The length of a block in bytes: room for the longest frame with ordinary offloads (64 KiB) and its
/// headers. Segments of up to almost 128 KiB (BIG TCP) fit, too.
const BLOCK: usize = 1 << 17;
/// The largest and the smallest number of blocks of a ring. The kernel uses up a block in each millisecond
/// in which packets arrive, even few. Thus the number of blocks is also the number of milliseconds for
/// which the ring need not be read.
const BLOCKS: [usize; 2] = [256, 4];
/// The largest number of blocks that all rings of an element together request (`BLOCKS_OF_ALL`), and the
/// smallest number that each ring requests first, even if the rings together then request more than that
/// (`SHARE`).
const BLOCKS_OF_ALL: usize = 1024;
const SHARE: usize = 64;
/// The number of packets after which the kernel is asked for its counts. The counts have 32 bits and
/// restart at zero each time that they are read, so they must be read before they overflow.
const UNASKED: u64 = 1 << 20;
/// The time in milliseconds after which the kernel hands over a block that is not full: the shortest
/// possible.
const PATIENCE: u32 = 1;

/// The longest time that packets may have waited in a ring that was full; older packets are skipped.
const LATE: Duration = Duration::from_millis(250);

/// The offsets in bytes of fields in a block's header (`struct tpacket_block_desc`).
mod block {
    pub(super) const STATUS: usize = 8;
    pub(super) const PACKETS: usize = 12;
    pub(super) const FIRST: usize = 16;
    /// The time of the block's last packet: 32 bits of seconds, and 32 bits of nanoseconds.
    pub(super) const TIME: usize = 40;
}

/// A received packet in the ring.
pub(crate) struct Frame<'a> {
    /// The packet's bytes from the link header on, without a VLAN tag that was taken out.
    pub(crate) bytes: &'a [u8],
    /// The packet's length on the wire in bytes; more than `bytes` if the kernel has cut the packet.
    pub(crate) length: usize,
    /// The time of reception, in nanoseconds since 1970.
    pub(crate) time: i64,
    /// The packet type that the kernel gives the packet: `PACKET_HOST`, `PACKET_OUTGOING` and so on.
    pub(crate) kind: u8,
    /// The protocol after the link header (Ethernet type).
    pub(crate) protocol: u16,
    /// The VLAN tag that the device or the kernel took out of the packet: protocol and control information.
    pub(crate) vlan: Option<(u16, u16)>,
    /// The checksum and segmentation that the sender has left to a device, and whether the checksum was
    /// found right.
    pub(crate) virtio: VirtioNet,
}

/// A packet socket, and its ring of blocks in memory.
pub(crate) struct Ring {
    socket: OwnedFd,
    map: NonNull<u8>,
    blocks: usize,
    /// The index of the block that is read now or next.
    current: usize,
    /// The number of packets in the block `current` that have not been read, and the offset of the next
    /// packet in the block. `None` if reading of the block has not begun.
    left: Option<(u32, usize)>,
    offloads: bool,
    /// True if all blocks were full, and all blocks since then were skipped, because their packets had waited
    /// for longer than [`LATE`].
    is_full: bool,
    /// Numbers of packets: `came` packets have arrived at the socket; `lost` of them were lost for lack of
    /// room, or skipped; `read` of them were read.
    came: u64,
    lost: u64,
    read: u64,
    /// The value of `read` when the kernel was last asked for its counts.
    read_before: u64,
    /// A warning for the user that the kernel gave less memory than wanted.
    pub(crate) remark: Option<String>,
}

// SAFETY: the mapping belongs to the ring alone, and can be used from any one thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a socket, which is one of `rings` sockets of an element. With `offloads`, the kernel adds a
    /// virtio-net header to each packet. The socket receives nothing before [`bind`](Self::bind). On an
    /// error, returns the name of the step that failed and the reason.
    pub(crate) fn open(offloads: bool, rings: usize) -> Result<Ring, (&'static str, io::Error)> {
        let step = |what: &'static str| move |error| (what, error);
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(step("socket"))?;
        let set = |name: c_int, value: c_int| set_option(socket.as_fd(), libc::SOL_PACKET, name, &value);
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(libc::PACKET_VERSION, version).map_err(step("PACKET_VERSION"))?;
        if offloads {
            set(libc::PACKET_VNET_HDR, 1).map_err(step("PACKET_VNET_HDR"))?;
        }
        let most = (BLOCKS_OF_ALL / rings.max(1)).clamp(SHARE, BLOCKS[0]);
        let mut blocks = most;
        let refused = loop {
            let request = tpacket_req3 {
                tp_block_size: BLOCK as u32,
                tp_block_nr: blocks as u32,
                tp_frame_size: 2048,
                tp_frame_nr: (blocks * BLOCK / 2048) as u32,
                tp_retire_blk_tov: PATIENCE,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            };
            match set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request) {
                Ok(()) => break blocks < most,
                Err(_) if blocks > BLOCKS[1] => blocks /= 2,
                Err(error) => return Err(("ring", error)),
            }
        };
        let length = blocks * BLOCK;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: this makes a new mapping, at an address that the kernel chooses.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, socket.as_raw_fd(), 0) };
        if map == libc::MAP_FAILED {
            return Err(("mmap", io::Error::last_os_error()));
        }
        let Some(map) = NonNull::new(map.cast()) else { return Err(("mmap", io::ErrorKind::Other.into())) };
        let remark =
            refused.then(|| format!("the kernel gave only {} KiB of memory for receiving", length >> 10));
        Ok(Ring {
            socket,
            map,
            blocks,
            current: 0,
            left: None,
            offloads,
            is_full: false,
            came: 0,
            lost: 0,
            read: 0,
            read_before: 0,
            remark,
        })
    }

    /// Binds the socket to the interface with this index, so that it receives the interface's packets.
    pub(crate) fn bind(&self, index: c_int) -> io::Result<()> {
        bind(self.socket.as_fd(), index, libc::ETH_P_ALL as u16)
    }

    /// Returns the index of the interface to which the socket is bound; -1 after the interface was removed.
    pub(crate) fn bound(&self) -> c_int {
        bound(self.socket.as_fd())
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Adds the numbers of packets that have arrived and were lost since the last reading of the kernel's
    /// counts to `came` and `lost`. The kernel resets its counts at each reading.
    fn look(&mut self) {
        let (came, lost) = fanout::counts(self.socket());
        self.came += u64::from(came);
        self.lost += u64::from(lost);
        self.read_before = self.read;
    }

    /// Returns the number of packets that were lost because the ring was full, or skipped because they had
    /// waited for too long.
    pub(crate) fn lost(&mut self) -> u64 {
        self.look();
        self.lost
    }

    /// True if packets have arrived that have not been read, even if the kernel has not handed their block
    /// over yet.
    pub(crate) fn has_rest(&mut self) -> bool {
        self.look();
        self.came > self.lost + self.read
    }

    fn block(&self, number: usize) -> *mut u8 {
        // SAFETY: no number is greater than the number of the last mapped block.
        unsafe { self.map.as_ptr().add(number % self.blocks * BLOCK) }
    }

    fn status(&self, number: usize) -> &AtomicU32 {
        // SAFETY: every block starts with its header, which is aligned and lives as long as the mapping;
        // the kernel accesses this word as atomically as this code does.
        unsafe { &*self.block(number).add(block::STATUS).cast::<AtomicU32>() }
    }

    /// True if the block with this index belongs to Tidegate. Larger indexes wrap around.
    fn is_ours(&self, number: usize) -> bool {
        // Acquire: what the kernel wrote into the block before is visible.
        self.status(number).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// True if there is a packet, or an empty block, to read. Gives the block that was read last back to the
    /// kernel if all its packets have been read, and skips blocks that have waited for too long.
    pub(crate) fn is_ready(&mut self) -> bool {
        loop {
            if let Some((0, _)) = self.left {
                self.left = None;
                // The previous block was given back before this one was read. If it is full already, the
                // kernel has no free block.
                self.is_full |= self.is_ours(self.current + self.blocks - 1);
                // Release: the whole block has been read before the kernel writes to it again.
                self.status(self.current).store(libc::TP_STATUS_KERNEL, Ordering::Release);
                self.current = (self.current + 1) % self.blocks;
                if self.read - self.read_before > UNASKED {
                    self.look();
                }
            }
            if self.left.is_some() {
                return true;
            }
            if !self.is_ours(self.current) {
                return false;
            }
            let word = |at: usize| {
                // SAFETY: the word is inside the block's header, and the block belongs to Tidegate now.
                unsafe { self.block(self.current).add(at).cast::<u32>().read() }
            };
            let (packets, first) = (word(block::PACKETS), word(block::FIRST));
            let came = Duration::new(word(block::TIME).into(), word(block::TIME + 4) % 1_000_000_000);
            self.is_full &= is_late(came);
            if !self.is_full {
                self.left = Some((packets, first as usize));
                return true;
            }
            self.lost += u64::from(packets);
            self.left = Some((0, 0));
        }
    }

    /// Returns the next packet; `None` if there is none at the moment. The rest of a malformed block is
    /// skipped.
    pub(crate) fn next(&mut self) -> Option<Frame<'_>> {
        // Blocks may be empty, so the search continues until a block has a packet.
        loop {
            if !self.is_ready() {
                return None;
            }
            let (packets, at) = self.left?;
            if packets == 0 {
                continue;
            }
            // SAFETY: the block is ours until its status is set, which needs `&mut self`.
            let bytes = unsafe { slice::from_raw_parts(self.block(self.current), BLOCK) };
            match parse(bytes, at, self.offloads) {
                Some((frame, next)) => {
                    self.left = Some((packets - 1, at.saturating_add(next)));
                    self.read += 1;
                    return Some(frame);
                }
                None => self.left = Some((0, 0)),
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast::<c_void>(), self.blocks * BLOCK) };
    }
}

/// Returns the index of the interface to which a packet socket is bound; -1 after the interface was
/// removed.
pub(super) fn bound(socket: BorrowedFd<'_>) -> c_int {
    // SAFETY: the structure is plain data, for which all zeros are a valid value.
    let mut address: sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of::<sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call, and the kernel writes no more than its length.
    let result = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
    if result == 0 { address.sll_ifindex } else { -1 }
}

/// True if packets that arrived at this time, measured since 1970, have waited for more than a quarter of a
/// second.
fn is_late(came: Duration) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(came) > LATE
}

/// Parses the packet at the offset `at` of a block. Returns the packet, and the distance in bytes from it
/// to the next packet; `None` if it is malformed. With `offloads`, a virtio-net header precedes the packet.
fn parse(block: &[u8], at: usize, offloads: bool) -> Option<(Frame<'_>, usize)> {
    let slot = block.get(at..)?;
    if slot.len() < size_of::<tpacket3_hdr>() {
        return None;
    }
    // SAFETY: the slice is long enough for a header, as checked above, and any bytes are a value.
    let header: tpacket3_hdr = unsafe { slot.as_ptr().cast::<tpacket3_hdr>().read_unaligned() };
    let start = usize::from(header.tp_mac);
    let bytes = slot.get(start..start.checked_add(header.tp_snaplen as usize)?)?;
    // `TP_STATUS_CSUM_VALID` says nothing more. Before Linux 6.1, it was also set if the interface had
    // computed a sum that was not compared.
    let virtio = match start.checked_sub(VIRTIO).filter(|_| offloads) {
        Some(at) => parse_virtio(slot.get(at..)?.first_chunk()?),
        None => VirtioNet::default(),
    };
    // The packet's address (`sockaddr_ll`) follows its header, which is padded to a multiple of 16 bytes.
    let address = slot.get(size_of::<tpacket3_hdr>().next_multiple_of(16)..)?;
    if address.len() < size_of::<sockaddr_ll>() {
        return None;
    }
    // SAFETY: the slice is long enough for an address, as checked above, and any bytes are a value.
    let address: sockaddr_ll = unsafe { address.as_ptr().cast::<sockaddr_ll>().read_unaligned() };
    let is = |bit: u32| header.tp_status & bit != 0;
    let protocol = if is(libc::TP_STATUS_VLAN_TPID_VALID) { header.hv1.tp_vlan_tpid } else { 0x8100 };
    let frame = Frame {
        bytes,
        length: header.tp_len as usize,
        time: i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
        kind: address.sll_pkttype,
        protocol: u16::from_be(address.sll_protocol),
        vlan: is(libc::TP_STATUS_VLAN_VALID).then_some((protocol, header.hv1.tp_vlan_tci as u16)),
        virtio,
    };
    // The distance after the last packet in a block is zero, but is not used: the block's number of packets
    // ends the reading.
    Some((frame, header.tp_next_offset as usize))
}

/// Binds a packet socket to the interface with this index, for packets of an Ethernet protocol; with
/// protocol 0 it receives nothing and can only send.
pub(super) fn bind(socket: BorrowedFd<'_>, index: c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: the structure is plain data, for which all zeros are a valid value.
    let mut address: sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = size_of::<sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call, and its length is right.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns a packet with its headers, as the kernel writes it into a block. `next` is the distance to
    /// the next packet in bytes.
    fn written(bytes: &[u8], virtio: &VirtioNet, tag: Option<u16>, next: u32, has_sum: bool) -> Vec<u8> {
        let start = size_of::<tpacket3_hdr>().next_multiple_of(16)
            + size_of::<sockaddr_ll>().next_multiple_of(16)
            + 32;
        let mut slot = vec![0; start];
        let mut put = |at: usize, bytes: &[u8]| slot[at..at + bytes.len()].copy_from_slice(bytes);
        let length = bytes.len() as u32;
        let status = libc::TP_STATUS_USER
            | if tag.is_some() { libc::TP_STATUS_VLAN_VALID } else { 0 }
            | if has_sum { libc::TP_STATUS_CSUM_VALID } else { 0 };
        for (number, word) in [next, 7, 9, length, length + 5, status].into_iter().enumerate() {
            put(number * 4, &word.to_ne_bytes());
        }
        put(24, &(start as u16).to_ne_bytes());
        put(32, &u32::from(tag.unwrap_or(0)).to_ne_bytes());
        let address = size_of::<tpacket3_hdr>().next_multiple_of(16);
        put(address + 2, &0x0800u16.to_be_bytes());
        put(address + 10, &[libc::PACKET_OTHERHOST]);
        put(start - VIRTIO, &super::super::virtio_bytes(virtio));
        put(start - VIRTIO, &[virtio.flags]);
        slot.extend_from_slice(bytes);
        slot
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read(
            bytes in vec(any::<u8>(), 0..200), tag in proptest::option::of(1u16..), next in 0u32..9999, size: u16, offloads: bool,
            flags in 0u8..4, has_sum: bool,
        ) {
            let virtio = VirtioNet { flags, gso_type: 4, gso_size: size, ..VirtioNet::default() };
            let block = [vec![0xee; 48], written(&bytes, &virtio, tag, next, has_sum)].concat();
            let (frame, after) = parse(&block, 48, offloads).unwrap();
            prop_assert_eq!((frame.bytes, frame.length, after), (&bytes[..], bytes.len() + 5, next as usize));
            prop_assert_eq!(frame.vlan, tag.map(|tag| (0x8100, tag)));
            prop_assert_eq!((frame.time, frame.kind, frame.protocol), (7_000_000_009, libc::PACKET_OTHERHOST, 0x0800));
            let virtio = if offloads { virtio } else { VirtioNet::default() };
            prop_assert_eq!(frame.virtio, virtio);
        }

        #[test]
        fn no_block_panics(
            bytes in vec(any::<u8>(), 0..200), breaks in vec((0usize..400, any::<u8>()), 0..4), end in 0usize..400,
            at in 0usize..60, offloads: bool,
        ) {
            let mut block = written(&bytes, &VirtioNet::default(), None, 0, false);
            for (at, byte) in breaks {
                if let Some(place) = block.get_mut(at) {
                    *place = byte;
                }
            }
            block.truncate(end.max(at));
            for at in [0, at] {
                if let Some((frame, _)) = parse(&block, at, offloads) {
                    prop_assert!(frame.bytes.len() <= block.len());
                }
            }
        }
    }
}
