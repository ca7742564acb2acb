//! The tables that machine code is made from, and that the interpreter reads where there is no machine code:
//! conditions on the bytes of packets, and writes to them.

/// The number of bytes that are stored with a leased flow: values are read from them.
pub const ROW: usize = 24;

/// The required values of some bits of sixteen bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exactly {
    /// The offset of the first byte.
    pub place: usize,
    /// The bits that are tested, in the machine's byte order.
    pub mask: u128,
    /// The required values of these bits.
    pub bits: u128,
}

impl Exactly {
    /// Returns the bits that differ from the required values.
    #[inline(always)]
    pub fn differs(&self, bytes: Option<&[u8; 16]>) -> u128 {
        bytes.map_or(u128::MAX, |bytes| (u128::from_ne_bytes(*bytes) ^ self.bits) & self.mask)
    }
}

/// A condition on up to eight bytes as a big-endian number: after a shift and a mask, the number is in a
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The offset of the first byte.
    pub place: u16,
    /// The number of bits to the right of the number, which are shifted out.
    pub shift: u8,
    /// The bits that are tested.
    pub mask: u64,
    /// The lowest number of the range.
    pub low: u64,
    /// The difference between the highest and the lowest number of the range.
    pub span: u64,
}

impl Check {
    /// True if the number of these bytes is in the range.
    #[inline(always)]
    pub fn holds(&self, bytes: Option<&[u8; 8]>) -> bool {
        let number = bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        ((number >> self.shift) & self.mask).wrapping_sub(self.low) <= self.span
    }
}

/// Eight bytes of the packet. Bytes of the slot after the packet's end may be included; they remain
/// unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    /// The offset from the start of the packet during the writes.
    pub place: usize,
    /// The bits that keep their value.
    pub keep: u64,
    /// The bits that are taken from the sum.
    pub sum: u64,
    /// The constant that is added to the eight bytes to compute the sum.
    pub add: u64,
    /// The bits that are set to one.
    pub put: u64,
    /// The bits that come from values.
    pub take: u64,
    /// The index of the eight bytes that the values are read from.
    pub from: usize,
    /// The number of bits by which these bytes are rotated to the left.
    pub turn: u32,
    /// True if the values are gathered values; false if they are read from the row of a flow.
    pub is_gathered: bool,
    /// The bits that the checksums of the IPv4 and of the transport header account for.
    pub covers: [u64; 2],
}

/// Eight bytes of which some are set to constants. Most lanes are of this kind.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The offset from the start of the packet during the writes.
    pub place: usize,
    /// The bits that keep their value, in the machine's byte order.
    pub keep: u64,
    /// The bits that are set to one, in the machine's byte order.
    pub put: u64,
}

impl Lane {
    /// Returns the eight bytes after the write, given the bytes before the write and the values.
    #[inline(always)]
    pub fn written(&self, old: u64, values: u64) -> u64 {
        old & self.keep | old.wrapping_add(self.add) & self.sum | self.put | values & self.take
    }

    /// Returns the values, rotated to their position in the lane.
    #[inline(always)]
    pub fn values(&self, from: &[u8]) -> u64 {
        let values = from.get(self.from..).and_then(|values| values.first_chunk());
        values.map_or(0, |bytes| u64::from_be_bytes(*bytes)).rotate_left(self.turn)
    }
}
