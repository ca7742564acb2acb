//! Annotations: 48 bytes of scratch memory per packet, laid out as in Click, the virtio-net fields of
//! offloads, and the length of a parked payload.

/// The annotations of a packet, in one cache line. The offsets of Click's annotations are the offsets in
/// its `packet_anno.hh`. Several annotations share bytes, in Click and here, so that a configuration can
/// use only one of them at a time. Multi-byte numbers are stored in the machine's byte order, except for
/// the VLAN tag; addresses are stored in network order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    bytes: [u8; Annotations::SIZE],
    /// The virtio-net header fields of a packet that came from, or goes to, a device that offloads
    /// checksums or segmentation; all zero if nothing is offloaded.
    pub virtio: VirtioNet,
    /// The number of payload bytes that are parked in a table elsewhere while this packet travels as a
    /// slice; 0 for a whole packet.
    pub parked: u32,
}

/// The header that describes offloads of a packet: `struct virtio_net_hdr` without `num_buffers` (virtio
/// 1.2, section 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VirtioNet {
    /// Flag bits. Bit 0 ([`NEEDS_CHECKSUM`](Self::NEEDS_CHECKSUM)): the transport checksum is partial. Bit
    /// 7 ([`CONSTANT_ID`](Self::CONSTANT_ID)), which is never passed to a device: all segments have the
    /// same IPv4 identification.
    pub flags: u8,
    /// The kind of segments into which the packet is to be cut: 0 none, 1 TCP over IPv4, 3 UDP fragments, 4
    /// TCP over IPv6, 5 UDP datagrams (USO). Bit 7 is [`ECN`](Self::ECN).
    pub gso_type: u8,
    /// The length of all headers (link, network and transport) in bytes.
    pub header_length: u16,
    /// The number of payload bytes in each segment but the last.
    pub gso_size: u16,
    /// The offset in bytes, from the start of the frame, of the first byte that the checksum covers.
    pub checksum_start: u16,
    /// The offset in bytes, from `checksum_start`, at which the checksum is stored.
    pub checksum_offset: u16,
}

impl VirtioNet {
    /// Bit of `flags`: the checksum field holds only the sum of the pseudo-header, and the device completes
    /// it.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Bit of `flags` that a device sets: the transport checksum was found right. Packets have a bit of their
    /// own for it ([`Packet::has_right_checksum`](crate::Packet::has_right_checksum)).
    pub const DATA_VALID: u8 = 2;
    /// Bit of `flags`: all segments get the IPv4 identification of the large packet, which is not
    /// incremented from segment to segment. Virtio has no flag for this, so it is never passed to a device.
    pub const CONSTANT_ID: u8 = 0x80;
    /// Value of `gso_type`: TCP over IPv4.
    pub const TCP_V4: u8 = 1;
    /// Value of `gso_type`: TCP over IPv6.
    pub const TCP_V6: u8 = 4;
    /// Value of `gso_type`: UDP datagrams, over IPv4 or IPv6.
    pub const UDP: u8 = 5;
    /// Bit of `gso_type`: the TCP header has the flag CWR (explicit congestion notification), which only
    /// the first segment may carry.
    pub const ECN: u8 = 0x80;
}

impl Annotations {
    /// The size in bytes of Click's annotation area, which elements address by offset.
    pub const SIZE: usize = 48;

    /// The offset in the annotation area of the IP address to which the packet is sent next, its destination
    /// or a gateway: 4 bytes for IPv4, 16 for IPv6, in network order.
    pub const DST_IP: usize = 0;
    /// The offset in the annotation area of the paint, 1 byte: a number that elements such as Paint set, and
    /// by which elements such as PaintSwitch choose an output.
    pub const PAINT: usize = 16;
    /// The offset in the annotation area of the byte that names the byte of the IP header which caused an
    /// ICMP parameter problem.
    pub const ICMP_PARAM: usize = 17;
    /// The offset in the annotation area of the byte that is nonzero if FixIPSrc is to replace the source
    /// address of the packet.
    pub const FIX_IP_SRC: usize = 19;
    /// The offset in the annotation area of the VLAN tag control information, 2 bytes in network order, which
    /// share their place with the aggregate number.
    pub const VLAN_TCI: usize = 20;
    /// The offset in the annotation area of the aggregate number, 4 bytes: the number of the flow, prefix or
    /// other group to which an element has assigned the packet.
    pub const AGGREGATE: usize = 20;
    /// The offset in the annotation area of the number of other packets that this packet represents, 4 bytes:
    /// 0 for an ordinary packet.
    pub const EXTRA_PACKETS: usize = 24;
    /// The offset in the annotation area of the number of bytes that were on the wire but are not in the
    /// packet, 4 bytes.
    pub const EXTRA_LENGTH: usize = 28;
    /// The offset in the annotation area of the time stamp of the first packet of an aggregate, 8 bytes of
    /// nanoseconds.
    pub const FIRST_TIMESTAMP: usize = 32;

    /// Annotations that are all zero, as in a new packet of a pool that clears annotations.
    pub const CLEAR: Annotations = Annotations {
        bytes: [0; Annotations::SIZE],
        virtio: VirtioNet {
            flags: 0,
            gso_type: 0,
            header_length: 0,
            gso_size: 0,
            checksum_start: 0,
            checksum_offset: 0,
        },
        parked: 0,
    };

    /// Returns the annotation area, for elements that copy or print ranges of it.
    pub fn bytes(&self) -> &[u8; Annotations::SIZE] {
        &self.bytes
    }

    /// Returns the annotation area, for elements that write ranges of it.
    pub fn bytes_mut(&mut self) -> &mut [u8; Annotations::SIZE] {
        &mut self.bytes
    }

    /// Returns the byte at `offset`; zero if `offset` is outside the annotation area.
    pub fn u8(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// Sets the byte at `offset`. Does nothing outside the annotation area: elements check offsets when
    /// they read their configuration.
    pub fn set_u8(&mut self, offset: usize, value: u8) {
        if let Some(byte) = self.bytes.get_mut(offset) {
            *byte = value;
        }
    }

    /// Returns the four bytes at `offset` in the order in which they are stored, for addresses; zeros outside
    /// the annotation area.
    pub fn array4(&self, offset: usize) -> [u8; 4] {
        self.array(offset)
    }

    /// Stores four bytes at `offset` in the given order, for addresses; does nothing outside the annotation
    /// area.
    pub fn set_array4(&mut self, offset: usize, value: [u8; 4]) {
        self.set_array(offset, value);
    }

    /// Returns the `N` bytes from `offset` on; all zero if they extend outside the annotation area.
    pub fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(|b| b.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Stores `N` bytes from `offset` on; does nothing if they extend outside the annotation area.
    pub fn set_array<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(offset..).and_then(|b| b.first_chunk_mut()) {
            *place = value;
        }
    }

    /// Returns the number in the four bytes at `offset`, which are in the machine's byte order; zero outside
    /// the annotation area.
    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.array4(offset))
    }

    /// Stores a number in the four bytes at `offset`, in the machine's byte order; does nothing outside the
    /// annotation area.
    pub fn set_u32(&mut self, offset: usize, value: u32) {
        self.set_array4(offset, value.to_ne_bytes());
    }
}

impl Default for Annotations {
    fn default() -> Self {
        Annotations::CLEAR
    }
}

const _: () = assert!(size_of::<Annotations>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_outside_are_harmless() {
        let mut annotations = Annotations::CLEAR;
        annotations.set_u32(46, 7);
        annotations.set_u8(48, 7);
        assert_eq!(annotations, Annotations::CLEAR);
        assert_eq!(annotations.u32(46), 0);
        annotations.set_u32(Annotations::AGGREGATE, 0xdead_beef);
        assert_eq!(annotations.u32(20), 0xdead_beef);
    }
}
