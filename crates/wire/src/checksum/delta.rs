//! Incremental update of a checksum when fields change, without reading the other data (RFC 1624, equation
//! 3).

use std::ops::Add;

use super::{Sum, fold};

/// The change of a checksum when fields change: `HC' = ~(~HC + ~m + m')` for the checksum `HC` and a 16-bit
/// word that changes from `m` to `m'`.
///
/// A delta can cover several fields and can be applied to several checksums, as a NAT needs it:
///
/// ```
/// use wire::checksum::Delta;
///
/// # let (mut ip_checksum, mut tcp_checksum) = (0x1234, 0x5678);
/// let address = Delta::u32(0x0a000001, 0xc0a80001);
/// let port = Delta::u16(1024, 80);
/// ip_checksum = address.apply(ip_checksum);
/// tcp_checksum = (address + port).apply(tcp_checksum);
/// ```
///
/// Fields must start at an even offset of the summed bytes. The result equals a full computation over data
/// that are not all zero: it is never the "negative zero" 0xffff, not even if nothing changes. So several
/// updates give the same result as one update by the sum of their changes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delta(
    /// The sum of ~m + m' over all changed words, folded to 16 bits by [`folded`](Self::folded). Each change
    /// adds less than 2^34, so that 2^30 changes fit.
    u64,
);

impl Delta {
    /// Returns the delta of a 16-bit field that changes from `old` to `new`.
    #[inline]
    pub fn u16(old: u16, new: u16) -> Self {
        Delta(u64::from(!old) + u64::from(new))
    }

    /// Returns the delta of a 32-bit field that changes from `old` to `new`.
    #[inline]
    pub fn u32(old: u32, new: u32) -> Self {
        let words = |number: u32| u64::from(number >> 16) + u64::from(number & 0xffff);
        Delta(words(!old) + words(new))
    }

    /// Returns the delta of an 8-byte field that changes from `old` to `new`, given as big-endian numbers.
    #[inline]
    pub fn u64(old: u64, new: u64) -> Self {
        // Modulo 0xffff, 2^16 equals 1, so the sum of 32-bit halves equals the sum of their words.
        let halves = |number: u64| (number >> 32) + (number & 0xffff_ffff);
        Delta(halves(!old) + halves(new))
    }

    /// Returns the delta of bytes that change from `old` to `new`, for example of an IPv6 address. They
    /// start at an even offset of the summed data.
    #[inline]
    pub fn bytes(old: &[u8], new: &[u8]) -> Self {
        Delta(u64::from(Sum::new().bytes(old).checksum()) + u64::from(Sum::new().bytes(new).folded()))
    }

    /// True if applying the delta does not change the value of a checksum: no field changes, or the changes
    /// add up to zero.
    #[inline]
    pub fn is_nothing(self) -> bool {
        matches!(fold(self.0), 0 | 0xffff)
    }

    /// Returns the checksum of the changed data, given the checksum before the change. The result is never
    /// 0xffff.
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        u16::from_be_bytes(self.folded().apply(checksum.to_be_bytes()))
    }

    /// Returns the delta in 16 bits, for use with many checksums.
    #[inline]
    pub fn folded(self) -> FoldedDelta {
        match fold(self.0) {
            0 => FoldedDelta::NOTHING,
            change => FoldedDelta(change.to_be()),
        }
    }

    /// Applies the delta as [`apply`](Self::apply) does, but if the changes add up to zero, the checksum is
    /// returned as it is, even 0xffff.
    #[inline]
    pub fn apply_to_any(self, checksum: u16) -> u16 {
        if checksum == 0xffff && self.is_nothing() { checksum } else { self.apply(checksum) }
    }

    /// Returns the checksum of a changed UDP datagram, given the checksum before the change. 0 (no
    /// checksum) stays 0, and a computed 0 is written as 0xffff (RFC 768).
    #[inline]
    pub fn apply_udp(self, checksum: u16) -> u16 {
        u16::from_be_bytes(self.folded().apply_udp(checksum.to_be_bytes()))
    }
}

/// A [`Delta`] in 16 bits, which gives the same results and is applied to a checksum in few instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldedDelta(
    /// The sum of ~m + m' over all changed words, as a number whose bytes in memory are in network order. It
    /// is never 0, which would be another form of 0xffff.
    u16,
);

impl FoldedDelta {
    /// The delta if nothing changes.
    pub const NOTHING: FoldedDelta = FoldedDelta(0xffff);

    /// Returns the delta as a number for storage. It is never 0.
    #[inline]
    pub fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns the delta for a number that [`to_bits`](Self::to_bits) has returned.
    #[inline]
    pub const fn from_bits(bits: u16) -> FoldedDelta {
        debug_assert!(bits != 0);
        FoldedDelta(bits)
    }

    /// Returns the checksum of the changed data, given the checksum before the change, both in network order.
    /// The result is never 0xffff.
    #[inline]
    pub fn apply(self, checksum: [u8; 2]) -> [u8; 2] {
        // The sum does not depend on the byte order (RFC 1071, 2 (B)). It is not 0, because the delta is not
        // 0 and the carry is added.
        let (sum, carry) = (!u16::from_ne_bytes(checksum)).overflowing_add(self.0);
        (!sum.wrapping_add(carry.into())).to_ne_bytes()
    }

    /// Returns the checksum of a changed UDP datagram, given the checksum before the change, both in network
    /// order. 0 (no checksum) stays 0, and a computed 0 is written as 0xffff (RFC 768).
    #[inline]
    pub fn apply_udp(self, checksum: [u8; 2]) -> [u8; 2] {
        // Compared as numbers, which takes one load.
        match u16::from_ne_bytes(checksum) {
            0 => checksum,
            _ => match u16::from_ne_bytes(self.apply(checksum)) {
                0 => [0xff; 2],
                updated => updated.to_ne_bytes(),
            },
        }
    }
}

impl Add for Delta {
    type Output = Delta;

    /// Returns the delta of both changes together.
    #[inline]
    fn add(self, other: Delta) -> Delta {
        Delta(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::array::uniform4;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn any_word() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0u16), Just(0xffff), Just(1), Just(0xfffe), any::<u16>()]
    }

    fn full(words: &[u16]) -> u16 {
        words.iter().fold(Sum::new(), |sum, word| sum.bytes(&word.to_be_bytes())).checksum()
    }

    proptest! {
        /// The data always contain a word that is not zero, as each IP header does (its version): the delta
        /// and a full computation differ only for data that are all zero.
        #[test]
        fn update_equals_recomputation(
            fixed in 1u16.., mut words in vec(any_word(), 3..8), new in any_word(), high in any_word(), low in any_word(),
        ) {
            words.insert(0, fixed);
            let mut checksum = full(&words);

            checksum = Delta::u16(words[1], new).apply(checksum);
            words[1] = new;
            prop_assert_eq!(checksum, full(&words));

            let join = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
            checksum = Delta::u32(join(words[2], words[3]), join(high, low)).apply(checksum);
            (words[2], words[3]) = (high, low);
            prop_assert_eq!(checksum, full(&words));
        }

        #[test]
        fn deltas_add_up(
            fixed in 1u16.., changes in vec((any_word(), any_word()), 1..40),
        ) {
            let words = |pick: fn(&(u16, u16)) -> u16| [vec![fixed], changes.iter().map(pick).collect()].concat();
            let (old, new) = (words(|c| c.0), words(|c| c.1));
            let delta = changes.iter().fold(Delta::default(), |sum, &(old, new)| sum + Delta::u16(old, new));
            prop_assert_eq!(delta.apply(full(&old)), full(&new));

            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            prop_assert_eq!(Delta::bytes(&bytes(&old), &bytes(&new)).apply(full(&old)), full(&new));
        }

        #[test]
        fn four_words_are_four_words(fixed in 1u16.., old in uniform4(any_word()), new in uniform4(any_word())) {
            let number = |words: [u16; 4]| words.iter().fold(0, |number, word| number << 16 | u64::from(*word));
            let one_by_one = old.iter().zip(new).fold(Delta::default(), |sum, (old, new)| sum + Delta::u16(*old, new));
            let at_once = Delta::u64(number(old), number(new));
            prop_assert_eq!(at_once.is_nothing(), one_by_one.is_nothing());
            if !at_once.is_nothing() {
                prop_assert_eq!(at_once.apply(fixed), one_by_one.apply(fixed));
            }
        }

        #[test]
        fn nothing_leaves_any_checksum_as_it_is(checksum in any_word(), old in any_word(), new in any_word()) {
            let change = Delta::u16(old, new);
            let expected = if change.is_nothing() { checksum } else { change.apply(checksum) };
            prop_assert_eq!(change.apply_to_any(checksum), expected);
            prop_assert_eq!((Delta::u16(old, new) + Delta::u16(new, old)).apply_to_any(checksum), checksum);
        }

        #[test]
        fn updates_one_by_one_are_one_update(checksum in any_word(), words in vec(any_word(), 2..9)) {
            let changes = || words.windows(2).map(|words| Delta::u16(words[0], words[1]));
            let one_by_one = changes().fold(checksum, |checksum, change| change.apply(checksum));
            let whole = changes().fold(Delta::default(), |sum, change| sum + change);
            prop_assert_eq!(one_by_one, whole.apply(checksum));
            prop_assert_eq!(one_by_one, (whole + Delta::default()).apply(Delta::default().apply(checksum)));
            let one_by_one = changes().fold(checksum, |checksum, change| change.apply_udp(checksum));
            prop_assert_eq!(one_by_one, whole.apply_udp(checksum));
        }

        #[test]
        fn udp_keeps_its_zero_rule(checksum: u16, old in any_word(), new in any_word()) {
            let updated = Delta::u16(old, new).apply_udp(checksum);
            prop_assert_eq!(updated == 0, checksum == 0);
        }
    }

    #[test]
    fn the_rfcs_example() {
        // Data from RFC 1624, section 4: equation 1 of RFC 1141 would give 0xffff here.
        assert_eq!(Delta::u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn what_adds_up_to_nothing_is_nothing() {
        let [there, back] = [Delta::u16(0x1234, 0xfedc), Delta::u16(0xfedc, 0x1234)];
        assert!(
            Delta::default().is_nothing() && Delta::u16(7, 7).is_nothing() && (there + back).is_nothing()
        );
        assert!(!there.is_nothing() && !back.is_nothing());
    }

    #[test]
    fn decrementing_ttl_below_the_wrap() {
        let mut words = [0x4500, 0x0100];
        let before = full(&words);
        words[1] = 0;
        assert_eq!(Delta::u16(0x0100, 0).apply(before), full(&words));
    }
}
