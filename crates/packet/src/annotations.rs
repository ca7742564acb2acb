//! Click's annotation area: 48 bytes per packet, at Click's offsets, and the virtio-net fields.

/// The annotations of a packet, in one cache line. Offsets are from Click's `packet_anno.hh`; several names
/// share bytes in Click and here. Multi-byte annotations are stored in the machine's byte order, except for
/// addresses, which are stored in network order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    bytes: [u8; Annotations::SIZE],
    /// The fields of the virtio-net header of packets that came from or go to an offloading device.
    pub virtio: VirtioNet,
    /// The number of payload bytes that are parked.
    pub parked: u32,
}

/// `struct virtio_net_hdr` without `num_buffers` (virtio 1.2, section 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VirtioNet {
    /// Bit 0: the checksum is partial. Bit 7, which is never passed to a device: the identification is
    /// constant.
    pub flags: u8,
    /// The kind of segments: 0 none, 1 TCPv4, 3 UDP, 4 TCPv6, 5 UDP L4.
    pub gso_type: u8,
    /// The length of all headers.
    pub header_length: u16,
    /// The number of payload bytes per segment.
    pub gso_size: u16,
    /// The offset at which checksumming starts, from the start of the frame.
    pub checksum_start: u16,
    /// The offset of the checksum, from `checksum_start`.
    pub checksum_offset: u16,
}

impl VirtioNet {
    /// Bit of `flags`: the checksum is partial.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Bit of `flags`: all segments have the identification of the large segment, which is not incremented.
    /// Devices have no flag for it.
    pub const CONSTANT_ID: u8 = 0x80;
    /// Kind of segments: TCP over IPv4.
    pub const TCP_V4: u8 = 1;
    /// Kind of segments: TCP over IPv6.
    pub const TCP_V6: u8 = 4;
    /// Kind of segments: UDP datagrams, over IPv4 or IPv6.
    pub const UDP: u8 = 5;
    /// Bit of the kind: the first segment has congestion notification.
    pub const ECN: u8 = 0x80;
}

impl Annotations {
    /// The number of bytes that elements may use.
    pub const SIZE: usize = 48;

    /// The destination IP address, 4 bytes in network order (16 for IPv6).
    pub const DST_IP: usize = 0;
    /// The paint, 1 byte.
    pub const PAINT: usize = 16;
    /// The offset at which ICMP reports the error, 1 byte.
    pub const ICMP_PARAM: usize = 17;
    /// The request to FixIPSrc for a new source address, 1 byte.
    pub const FIX_IP_SRC: usize = 19;
    /// The VLAN tag control information, 2 bytes in network order.
    pub const VLAN_TCI: usize = 20;
    /// The aggregate number (flow, prefix ...), 4 bytes.
    pub const AGGREGATE: usize = 20;
    /// The number of packets that this packet represents, minus one, 4 bytes.
    pub const EXTRA_PACKETS: usize = 24;
    /// The number of bytes that were on the wire but are not in the packet, 4 bytes.
    pub const EXTRA_LENGTH: usize = 28;
    /// The time stamp of the first packet of an aggregate, 8 bytes.
    pub const FIRST_TIMESTAMP: usize = 32;

    /// Annotations that are all zero.
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

    /// Returns the bytes, for elements that copy or print ranges.
    pub fn bytes(&self) -> &[u8; Annotations::SIZE] {
        &self.bytes
    }

    /// Returns the bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8; Annotations::SIZE] {
        &mut self.bytes
    }

    /// Returns one byte; zero outside the area.
    pub fn u8(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// Sets one byte. It is ignored outside the area (configurations are checked when they are read).
    pub fn set_u8(&mut self, offset: usize, value: u8) {
        if let Some(byte) = self.bytes.get_mut(offset) {
            *byte = value;
        }
    }

    /// Returns four bytes unchanged, for addresses in network order.
    pub fn array4(&self, offset: usize) -> [u8; 4] {
        self.array(offset)
    }

    /// Sets four bytes unchanged.
    pub fn set_array4(&mut self, offset: usize, value: [u8; 4]) {
        self.set_array(offset, value);
    }

    /// Returns bytes unchanged; zero if they extend outside the area.
    pub fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(|b| b.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Sets bytes unchanged; ignored if they extend outside the area.
    pub fn set_array<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(offset..).and_then(|b| b.first_chunk_mut()) {
            *place = value;
        }
    }

    /// Returns a number of four bytes in the machine's order.
    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.array4(offset))
    }

    /// Sets a number of four bytes in the machine's order.
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
