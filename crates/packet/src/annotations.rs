//! Click's annotation area: 48 bytes beside each packet, at Click's offsets, and the virtio-net fields.

/// One cache line of annotations. Offsets are those of Click's `packet_anno.hh`; several names share bytes
/// there and here. Multi-byte annotations are stored in the machine's order except addresses, which are
/// kept in network order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    bytes: [u8; Annotations::SIZE],
    /// The fields of the virtio-net header of packets that came from or go to an offloading device.
    pub virtio: VirtioNet,
    /// Bytes of payload that have been left aside.
    pub parked: u32,
}

/// `struct virtio_net_hdr` without `num_buffers` (virtio 1.2, section 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VirtioNet {
    /// Bit 0: the checksum is partial. Bit 7, which is never told to a device: the identification is constant.
    pub flags: u8,
    /// 0 none, 1 TCPv4, 3 UDP, 4 TCPv6, 5 UDP L4.
    pub gso_type: u8,
    /// Length of all headers.
    pub header_length: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where checksumming starts, from the start of the frame.
    pub checksum_start: u16,
    /// Where the checksum stands, from `checksum_start`.
    pub checksum_offset: u16,
}

impl VirtioNet {
    /// Bit of `flags`: the checksum is partial.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Bit of `flags`: all segments have the identification of the large one, and do not count it up. Devices have no word for
    /// it.
    pub const CONSTANT_ID: u8 = 0x80;
    /// Kinds of segments.
    pub const TCP_V4: u8 = 1;
    /// TCP over IPv6.
    pub const TCP_V6: u8 = 4;
    /// Datagrams of UDP, over either.
    pub const UDP: u8 = 5;
    /// Bit of the kind: with congestion notification in the first segment.
    pub const ECN: u8 = 0x80;
}

impl Annotations {
    /// Bytes that elements may use.
    pub const SIZE: usize = 48;

    /// Destination IP address, 4 bytes in network order (16 for IPv6).
    pub const DST_IP: usize = 0;
    /// Paint, 1 byte.
    pub const PAINT: usize = 16;
    /// Where ICMP says the error is, 1 byte.
    pub const ICMP_PARAM: usize = 17;
    /// Asks FixIPSrc for a new source address, 1 byte.
    pub const FIX_IP_SRC: usize = 19;
    /// VLAN tag control information, 2 bytes in network order.
    pub const VLAN_TCI: usize = 20;
    /// Aggregate number (flow, prefix ...), 4 bytes.
    pub const AGGREGATE: usize = 20;
    /// Packets that this one stands for, minus one, 4 bytes.
    pub const EXTRA_PACKETS: usize = 24;
    /// Bytes that were on the wire but are not in the packet, 4 bytes.
    pub const EXTRA_LENGTH: usize = 28;
    /// Time stamp of the first packet of an aggregate, 8 bytes.
    pub const FIRST_TIMESTAMP: usize = 32;

    /// All zero.
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

    /// The bytes, for elements that copy or print ranges.
    pub fn bytes(&self) -> &[u8; Annotations::SIZE] {
        &self.bytes
    }

    /// The bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8; Annotations::SIZE] {
        &mut self.bytes
    }

    /// One byte; zero outside the area.
    pub fn u8(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// Sets one byte; ignored outside the area (configurations are checked when they are read).
    pub fn set_u8(&mut self, offset: usize, value: u8) {
        if let Some(byte) = self.bytes.get_mut(offset) {
            *byte = value;
        }
    }

    /// Four bytes as they stand, for addresses in network order.
    pub fn array4(&self, offset: usize) -> [u8; 4] {
        self.array(offset)
    }

    /// Sets four bytes as they stand.
    pub fn set_array4(&mut self, offset: usize, value: [u8; 4]) {
        self.set_array(offset, value);
    }

    /// Bytes as they stand; zero where they reach outside the area.
    pub fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(|b| b.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Sets bytes as they stand; ignored where they reach outside the area.
    pub fn set_array<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(offset..).and_then(|b| b.first_chunk_mut()) {
            *place = value;
        }
    }

    /// A number of four bytes in the machine's order.
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
