//! A slot: its size, and the values that describe the packet in it.

use crate::time::Timestamp;

/// The number of free bytes before the data of a new packet, into which elements can prepend headers.
pub const HEADROOM: usize = 256;
/// The distance from one slot to the next, in bytes: 37 cache lines. An odd number of cache lines spreads the
/// first lines of neighbouring packets over all cache sets; with a power of two, they would share a few sets.
pub const SLOT_STRIDE: usize = 2368;
/// The largest offset in a slot at which a device may have put a packet: a store restores up to 128 bytes
/// from the start of a packet on.
pub(crate) const LAST_START: usize = SLOT_STRIDE - 128;
/// The number of bytes that a slot can hold after its headroom; longer packets are lists of slots.
pub const SLOT_CAPACITY: usize = SLOT_STRIDE - HEADROOM;
/// The length of the longest packet in bytes: the largest record that captures may contain.
pub const MAX_PACKET: usize = 262_144;
/// The value that a header offset in the metadata has while the offset is not set.
pub const NO_OFFSET: u16 = u16::MAX;

/// The pcap link type number of Ethernet.
pub(crate) const ETHERNET: u16 = 1;

pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Owner marks: the values of a byte in the metadata of each slot, which says where the slot goes when its
/// packet ends.
pub(crate) mod owner {
    /// The slot belongs to the pool: it is free, or goes there when its packet ends.
    pub(crate) const POOL: u8 = 0;
    /// The slot belongs to a [`Store`](crate::Store), which has lent the packet; the packet has not ended
    /// yet.
    pub(crate) const STORE_OUT: u8 = 1;
    /// The slot belongs to a [`Store`](crate::Store), and the packet is not on loan.
    pub(crate) const STORE_HOME: u8 = 2;
    /// The smallest owner mark of a device that owns slots itself. Each device has its own mark, from this
    /// value to 255.
    pub(crate) const DEVICE: u8 = 3;
}

/// The destination or origin of a packet on the link layer (Click's packet type annotation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// The packet is for this host. Packets whose destination is not known have this type, too.
    #[default]
    Host,
    /// The packet is for all hosts.
    Broadcast,
    /// The packet is for a multicast group.
    Multicast,
    /// The packet is for another host.
    OtherHost,
    /// The packet was sent by this host.
    Outgoing,
    /// The packet was sent by this host to itself.
    Loopback,
}

impl PacketKind {
    /// Returns broadcast or multicast by the destination address of an Ethernet frame. A frame to a single
    /// host, or shorter than an address, is taken as a frame to this host.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> PacketKind {
        match frame.first_chunk() {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketKind::Broadcast,
            Some([first, ..]) if first & 1 != 0 => PacketKind::Multicast,
            _ => PacketKind::Host,
        }
    }

    /// Returns the packet type with this number in Click's annotation; [`Host`](Self::Host) for unknown
    /// numbers.
    pub fn from_number(number: u8) -> PacketKind {
        match number {
            1 => PacketKind::Broadcast,
            2 => PacketKind::Multicast,
            3 => PacketKind::OtherHost,
            4 => PacketKind::Outgoing,
            5 => PacketKind::Loopback,
            _ => PacketKind::Host,
        }
    }
}

/// The position in a packet from which an offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The first byte of the packet's data, as it is now.
    Data,
    /// The start of the link header, if its annotation is set.
    Mac,
    /// The start of the network header, if its annotation is set.
    Network,
    /// The start of the transport header, if its annotation is set.
    Transport,
}

/// The metadata that describes a packet of one slot, in half a cache line. A store restores a packet
/// without a flow mark by copying these values and the length.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Values {
    pub(crate) time: Timestamp,
    /// The upper half of the packet's flow mark; 0 if the packet has no flow mark.
    pub(crate) flow: u32,
    /// The packet's run ([`Packet::run`](crate::Packet::run)); 0 if it is not known.
    pub(crate) run: u32,
    /// The offset in the slot of the first byte of the packet's data.
    pub(crate) start: u16,
    /// The number of bytes of the packet's data that lie in this slot.
    pub(crate) head: u16,
    /// The offset in the slot of the first byte that has ever been part of the packet. Bytes from here to
    /// `start` are stripped bytes; earlier bytes are meaningless.
    pub(crate) own: u16,
    /// The offset of the link header in the slot, or [`NO_OFFSET`]. This offset and the following two
    /// (network and transport header) count from the start of the slot, so that stripping bytes does not
    /// change them.
    pub(crate) mac: u16,
    pub(crate) network: u16,
    pub(crate) transport: u16,
    /// The pcap link type number of the header with which the packet started when it was received or made, or
    /// when an element last added an Ethernet header. Stripping bytes does not change the number. It is 1
    /// (Ethernet) by default.
    pub(crate) link: u16,
    pub(crate) port: u8,
    /// The number of the packet type, and the bit [`RIGHT_CHECKSUM`].
    pub(crate) kind: u8,
}

/// The bit of [`Values::kind`] that says that the packet's transport checksum is right.
pub(crate) const RIGHT_CHECKSUM: u8 = 0x80;

impl Values {
    /// Returns the values of a packet without bytes.
    #[inline]
    pub(crate) fn fresh() -> Values {
        Values {
            time: Timestamp::ZERO,
            flow: 0,
            run: 0,
            start: HEADROOM as u16,
            head: 0,
            own: HEADROOM as u16,
            mac: NO_OFFSET,
            network: NO_OFFSET,
            transport: NO_OFFSET,
            link: ETHERNET,
            port: 0,
            kind: PacketKind::Host as u8,
        }
    }

    /// Returns the offset in the slot at which the header of `base` starts; [`NO_OFFSET`] if it is not set.
    #[inline]
    pub(crate) fn place(&self, base: Base) -> u16 {
        match base {
            Base::Data => self.start,
            Base::Mac => self.mac,
            Base::Network => self.network,
            Base::Transport => self.transport,
        }
    }
}

/// The known content of a slot's annotations. Code that knows the content need not access the annotations'
/// cache line, for example to clear annotations that are clear already. A destination annotation that is
/// newer than the annotations lies in the metadata, and does not change this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    /// The annotations equal [`Annotations::CLEAR`](crate::Annotations::CLEAR).
    Clear,
    /// The annotations equal those with which the packet was inserted into its store.
    Stored,
    /// The annotations may have been written, so that nothing is known about them.
    Any,
}
