//! The tables of conditions on the bytes of packets, and of writes to these bytes. Machine code is made
//! from them, and the interpreter reads them where there is no machine code.

/// The number of bytes in the row of a flow: bytes that are stored with the flow's key, and from which
/// lanes take values.
pub const ROW: usize = 24;

/// A condition on sixteen consecutive bytes: some of their bits have required values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exactly {
    /// The offset of the first of the sixteen bytes from the packet's start.
    pub place: usize,
    /// The bits that are tested. The sixteen bytes are one number in the machine's byte order.
    pub mask: u128,
    /// The required values of the tested bits; other bits are zero.
    pub bits: u128,
}

impl Exactly {
    /// Returns the tested bits that differ from the required values; zero if the condition holds. Without
    /// bytes (`None`), returns all 128 bits, so that the condition does not hold.
    #[inline(always)]
    pub fn differs(&self, bytes: Option<&[u8; 16]>) -> u128 {
        bytes.map_or(u128::MAX, |bytes| (u128::from_ne_bytes(*bytes) ^ self.bits) & self.mask)
    }
}

/// A condition on a number of up to eight bytes in the packet: the number is in a range. Eight bytes are
/// read as a big-endian number, which is shifted and masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCheck {
    /// The offset, from the packet's start, of the first of the eight bytes that are read.
    pub place: u16,
    /// The number of bits of the eight bytes that are to the right of the tested number, and are shifted out.
    pub shift: u8,
    /// The mask of the bits of the shifted number that are tested.
    pub mask: u64,
    /// The lowest number of the required range.
    pub low: u64,
    /// The difference between the highest and the lowest number of the required range.
    pub span: u64,
}

impl RangeCheck {
    /// True if the number that is read from these eight bytes of the packet is in the range. If the packet
    /// does not have the bytes (`None`), the number counts as zero.
    #[inline(always)]
    pub fn holds(&self, bytes: Option<&[u8; 8]>) -> bool {
        let number = bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        ((number >> self.shift) & self.mask).wrapping_sub(self.low) <= self.span
    }
}

/// The writes to eight bytes of a packet, which are treated as one big-endian number. Bytes of the slot
/// after the packet's end may be included; they remain unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    /// The offset of the eight bytes from the packet's start during the writes. For the writes, the packet is
    /// extended to start at the offset [`front`](program::TrafficClass::front) of the input packet.
    pub place: usize,
    /// The mask of the bits of the eight bytes that keep their value.
    pub keep: u64,
    /// The mask of the bits that are taken from the sum of the eight bytes, as a number, and `add`.
    pub sum: u64,
    /// The constant that is added to the number that the eight bytes had before the writes.
    pub add: u64,
    /// The mask of the bits that are set to one. Bits that are in none of the masks become zero.
    pub put: u64,
    /// The mask of the bits that are taken from values: from the row of the flow, or from gathered values.
    pub take: u64,
    /// The index, in the row or in the gathered values, of the first of the eight bytes from which `take`
    /// selects bits.
    pub from: usize,
    /// The number of bits by which the eight bytes at `from` are rotated to the left, so that the values are
    /// at the position that they have in the lane.
    pub turn: u32,
    /// True if the values are gathered (computed from each packet before the writes); false if they are in
    /// the row of the flow.
    pub is_gathered: bool,
    /// For the checksum of the IPv4 header and of the transport header: the bits that the checksum covers.
    /// If the lane changes these bits, the checksum is updated for the change.
    pub covers: [u64; 2],
}

/// The writes of constants to some bits of eight bytes of a packet, for bytes that no checksum update
/// accounts for.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The offset of the eight bytes from the packet's start during the writes. For the writes, the packet is
    /// extended to start at the offset [`front`](program::TrafficClass::front) of the input packet.
    pub place: usize,
    /// The mask of the bits that keep their value, in the machine's byte order.
    pub keep: u64,
    /// The mask of the bits that are set to one, in the machine's byte order.
    pub put: u64,
}

impl Lane {
    /// Returns the eight bytes of the lane after the writes, as a big-endian number. `old` is this number
    /// before the writes; `values` is the result of [`Lane::values`].
    #[inline(always)]
    pub fn written(&self, old: u64, values: u64) -> u64 {
        old & self.keep | old.wrapping_add(self.add) & self.sum | self.put | values & self.take
    }

    /// Reads the lane's values from a row or from gathered values, and rotates them to their position in
    /// the lane.
    #[inline(always)]
    pub fn values(&self, from: &[u8]) -> u64 {
        let values = from.get(self.from..).and_then(|values| values.first_chunk());
        values.map_or(0, |bytes| u64::from_be_bytes(*bytes)).rotate_left(self.turn)
    }
}
