//! The Internet checksum (RFC 1071): the complement of the one's complement sum of all 16-bit words.
//!
//! - [`Sum`] adds up bytes, in one piece or in chunks of any length;
//! - [`Delta`] updates a checksum when a field changes, without reading the rest (RFC 1624);
//! - [`PseudoHeader`] has the IP addresses that the checksums of TCP, UDP and ICMPv6 include;
//! - functions named `fill_*` write the checksum field of a protocol, and functions named `*_valid` check it.

mod delta;
mod protocols;

pub use delta::{Delta, FoldedDelta};
pub use protocols::{
    PseudoHeader, decrement_ttl, fill_icmp, fill_icmpv6, fill_ipv4, fill_ipv4_plain, fill_tcp, fill_udp,
    icmp_valid, icmpv6_valid, ipv4_plain_valid, ipv4_valid, tcp_packet_valid, tcp_valid, udp_valid,
};

/// The one's complement sum of the bytes added so far. A method that adds data takes the sum and returns the
/// new sum.
///
/// ```
/// use wire::checksum::Sum;
///
/// let whole = Sum::new().bytes(&[1, 2, 3, 4, 5]).checksum();
/// let parts = Sum::new().bytes(&[1, 2, 3]).bytes(&[4]).bytes(&[5]).checksum();
/// assert_eq!(whole, parts);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The sum of 16-bit words in the machine's byte order; only the final result has to be swapped (RFC
    /// 1071, 2 (B)). A carry out of the 64 bits is added at the bottom again, so that no number of words
    /// overflows.
    words: u64,
    /// True if an odd number of bytes has been added: the next byte is the second byte of a 16-bit word.
    odd: bool,
}

impl Sum {
    /// Returns the sum of no bytes, to which data are added.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes that follow the bytes added so far. The number of bytes may be odd: the next call
    /// continues in the middle of a word.
    #[inline]
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        // After an odd number of bytes, the chunk starts in the middle of a word. It is summed as if it
        // started a word, then the two bytes of the sum are swapped (RFC 1071, 2 (B)).
        let words = if self.odd { u64::from(fold(sum_words(bytes)).swap_bytes()) } else { sum_words(bytes) };
        self = self.add(words);
        self.odd ^= !bytes.len().is_multiple_of(2);
        self
    }

    /// Adds the sum `other` of the bytes that follow, which was computed separately.
    #[inline]
    #[must_use]
    pub fn followed_by(mut self, other: Sum) -> Self {
        self = self.add(if self.odd { fold(other.words).swap_bytes().into() } else { other.words });
        self.odd ^= other.odd;
        self
    }

    /// Returns the sum of the first `length` bytes, given that this is the sum of them and of the bytes that
    /// follow, whose sum is `other`.
    #[inline]
    #[must_use]
    pub fn before(self, length: usize, other: Sum) -> Self {
        let odd = !length.is_multiple_of(2);
        let other = fold(other.words);
        let other = if odd { other.swap_bytes() } else { other };
        Sum { odd, ..self.add((!other).into()) }
    }

    /// Returns the sum of the next `length` bytes, without reading them, given that the checksum over the
    /// bytes added so far and these bytes is right: then the two sums together are 0xffff. The number of
    /// bytes added so far must be even.
    #[inline]
    #[must_use]
    pub fn complement(self, length: usize) -> Self {
        debug_assert!(!self.odd);
        Sum { words: (!fold(self.words)).into(), odd: !length.is_multiple_of(2) }
    }

    /// Adds 16-bit words that are already summed. A carry out of the top bit is added as 1, because 2^64
    /// modulo 0xffff is 1, as 2^16 is.
    #[inline]
    fn add(mut self, words: u64) -> Self {
        let (sum, carry) = self.words.overflowing_add(words);
        // The sum after an overflow is at most 2^64 - 2, so that adding the carry cannot overflow again.
        self.words = sum + u64::from(carry);
        self
    }

    /// Adds a 16-bit number in network byte order. The number of bytes added so far must be even.
    #[inline]
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        debug_assert!(!self.odd);
        self.add(u16::from_ne_bytes(word.to_be_bytes()).into())
    }

    /// Adds a 32-bit number in network byte order. The number of bytes added so far must be even.
    #[inline]
    #[must_use]
    pub fn word32(self, words: u32) -> Self {
        debug_assert!(!self.odd);
        self.add(u32::from_ne_bytes(words.to_be_bytes()).into())
    }

    /// Returns the sum of the 20 bytes of an IPv4 header without options.
    #[inline]
    #[must_use]
    fn of_20(bytes: &[u8; 20]) -> Self {
        let words: [u32; 5] = zerocopy::transmute!(*bytes);
        let pair = |i: usize| u64::from(words[i]) | u64::from(words[i + 1]) << 32;
        Sum { words: pair(0), odd: false }.add(pair(2)).add(words[4].into())
    }

    /// Returns the one's complement sum in 16 bits, not complemented; 0xffff if the bytes contain a correct
    /// checksum.
    #[inline]
    pub fn folded(self) -> u16 {
        u16::from_be_bytes(fold(self.words).to_ne_bytes())
    }

    /// True if the one's complement sum is 0xffff, which means that the bytes contain a correct checksum.
    ///
    /// Folding a number does not change its remainder modulo 0xffff, so a multiplication by the inverse of
    /// 0xffff modulo 2^64 replaces the folding. It turns a multiple of 0xffff into its quotient, and any
    /// other number into a number that is larger than each quotient.
    #[inline]
    pub fn is_valid(self) -> bool {
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const { assert!(INVERSE.wrapping_mul(0xffff) == 1) };
        self.words.wrapping_mul(INVERSE).wrapping_sub(1) < u64::MAX / 0xffff
    }

    /// Returns the checksum of the bytes, to be written to the checksum field; the field must have been
    /// zero while it was added.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Returns the checksum as [`checksum`](Self::checksum) does, for UDP: a computed 0 becomes 0xffff,
    /// because 0 means that there is no checksum (RFC 768).
    #[inline]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// Returns the sum of the bytes as words in the machine's byte order, not folded. A last single byte is the
/// first half of its word.
///
/// The 8-byte words are added modulo 2^64, and their upper halves are also added in a sum of their own.
/// Subtracting that sum from the first leaves the sum of the lower halves. So no carry has to be handled, and
/// the compiler vectorises the loop.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut whole, mut upper) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        whole = whole.wrapping_add(word);
        upper += word >> 32;
    }
    let mut sum = whole.wrapping_sub(upper << 32) + upper;
    let (fours, rest) = rest.as_chunks::<4>();
    let (twos, rest) = rest.as_chunks::<2>();
    sum += fours.first().map_or(0, |word| u64::from(u32::from_ne_bytes(*word)));
    sum += twos.first().map_or(0, |word| u64::from(u16::from_ne_bytes(*word)));
    sum + rest.first().map_or(0, |&byte| u64::from(u16::from_ne_bytes([byte, 0])))
}

/// Folds a sum to 16 bits: adds the bits above the lower 16 to the lower 16 until none are left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Computes the folded sum word by word, as RFC 1071 defines it, to compare with.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from);
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_rfcs_example() {
        // The example of RFC 1071, section 3.
        assert_eq!(Sum::new().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).folded(), 0xddf2);
    }

    #[test]
    fn nothing_sums_to_zero_and_ones_stay_ones() {
        assert_eq!(Sum::new().folded(), 0);
        assert_eq!(Sum::new().bytes(&[0; 64]).checksum(), 0xffff);
        assert_eq!(Sum::new().bytes(&vec![0xff; 262_144]).folded(), 0xffff);
    }

    #[test]
    fn folding_keeps_the_residue() {
        for sum in [
            0,
            1,
            0xffff,
            0x1_0000,
            0xffff_ffff,
            0x1_0000_0000,
            u64::MAX,
            u64::MAX - 1,
            0xffff_0000_ffff_0001,
        ] {
            let folded = u64::from(fold(sum));
            assert_eq!(folded % 0xffff, sum % 0xffff, "{sum:#x}");
            assert_eq!(folded == 0, sum == 0, "{sum:#x}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition_and_etherparse(bytes in vec(prop_oneof![any::<u8>(), Just(0xff)], 0..200)) {
            let own = Sum::new().bytes(&bytes);
            prop_assert_eq!(own.folded(), plain(&bytes));
            let oracle = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes).ones_complement();
            prop_assert_eq!(own.checksum(), u16::from_be(oracle));
        }

        #[test]
        fn chunks_do_not_matter(bytes in vec(any::<u8>(), 0..200), cuts in vec(0usize..200, 0..6)) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort();
            let mut sum = Sum::new();
            let mut start = 0;
            for cut in cuts {
                sum = sum.bytes(&bytes[start..cut]);
                start = cut;
            }
            prop_assert_eq!(sum.bytes(&bytes[start..]).folded(), plain(&bytes));
        }

        #[test]
        fn the_sum_of_the_front_is_the_difference(front in vec(any::<u8>(), 0..50), rest in vec(any::<u8>(), 0..50)) {
            let (one, two) = (Sum::new().bytes(&front), Sum::new().bytes(&rest));
            let difference = one.followed_by(two).before(front.len(), two);
            prop_assert_eq!(difference.odd, one.odd);
            prop_assert_eq!(difference.folded() % 0xffff, one.folded() % 0xffff);
        }

        #[test]
        fn words_are_their_bytes(start in prop_oneof![any::<u64>(), Just(u64::MAX)], word in prop_oneof![any::<u16>(), Just(0xffff)], two in prop_oneof![any::<u32>(), Just(u32::MAX)]) {
            let sum = Sum { words: start, odd: false };
            prop_assert_eq!(sum.word(word).folded(), sum.bytes(&word.to_be_bytes()).folded());
            prop_assert_eq!(sum.word32(two).folded(), sum.bytes(&two.to_be_bytes()).folded());
        }

        #[test]
        fn validity_is_a_sum_of_ones(words in prop_oneof![
            any::<u64>(),
            (0..=u64::MAX / 0xffff).prop_map(|n| n * 0xffff),
            0..4u64,
        ]) {
            prop_assert_eq!(Sum { words, odd: false }.is_valid(), fold(words) == 0xffff);
        }

        #[test]
        fn twenty_bytes_at_once(bytes: [u8; 20]) {
            prop_assert_eq!(Sum::of_20(&bytes).folded(), plain(&bytes));
        }
    }
}
