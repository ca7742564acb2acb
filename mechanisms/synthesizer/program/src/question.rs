//! The questions that a program asks about the input packet, sums over the answers, and the sets of numbers
//! that lie in a given set after a mask or an addition.

use std::fmt;

use classify::IntervalSet;
use classify::linear::Linear;

/// A question about the input packet. The answer is an unsigned number of [`bits`](Question::bits) bits.
///
/// The compiler orders the questions on each path by these variants, unless the graph would become too large:
/// first the questions about the length and bytes of the packet, last those that need computation or
/// look-ups.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// The length of the packet in bytes.
    Length,
    /// Consecutive bytes of the packet (1 to 16), as a big-endian number. The answer is zero if the packet
    /// does not have all of these bytes.
    Bytes {
        /// The offset of the first byte in the input packet.
        offset: i32,
        /// The number of bytes.
        length: u8,
    },
    /// The packet type (Click's packet type annotation).
    Kind,
    /// Consecutive annotation bytes, as a big-endian number.
    Annotation {
        /// The offset of the first byte in the annotations.
        offset: u8,
        /// The number of bytes.
        length: u8,
    },
    /// True (1) if a sum of other answers is zero or more, else 0.
    AtLeastZero(AnswerSum),
    /// True (1) if the checksum of the IPv4 header is correct, else 0.
    RightChecksum {
        /// The offset of the IPv4 header in the input packet.
        offset: i32,
    },
    /// The outcome of a list of rules ([`super::OrderedRules`]) for the packet. The number is the index of
    /// the list in the program.
    List(u32),
    /// A property of the packet's flow that the stateful element of a step ([`super::Step`]) has leased to
    /// the program.
    Leased {
        /// The index of the step in the program.
        step: u16,
        /// The property of the flow that is asked for.
        what: LeasedProperty,
    },
}

/// A property of a flow that a stateful element has leased to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeasedProperty {
    /// The number of the element's output by which packets of the flow leave, plus one; zero if the flow is
    /// not leased.
    Output,
    /// Bytes of the values that the element writes to the flow's packets, such as new addresses and ports,
    /// as a big-endian number.
    Bytes {
        /// The index of the first byte among all values of the element.
        offset: u8,
        /// The number of bytes.
        length: u8,
    },
}

/// A linear combination of answers: a constant plus multiples of (parts of) answers.
pub type AnswerSum = Linear<Question>;

impl Question {
    /// Returns the number of bits of the answer, at most 128.
    pub fn bits(&self) -> u32 {
        match self {
            Question::Length => 32,
            Question::Bytes { length, .. } | Question::Annotation { length, .. } => 8 * u32::from(*length),
            Question::Kind => 8,
            Question::AtLeastZero(_) | Question::RightChecksum { .. } => 1,
            Question::List(_) => 32,
            Question::Leased { what: LeasedProperty::Output, .. } => 16,
            Question::Leased { what: LeasedProperty::Bytes { length, .. }, .. } => 8 * u32::from(*length),
        }
    }

    /// Returns the set of all answers.
    pub fn all(&self) -> IntervalSet {
        IntervalSet::full(self.bits())
    }
}

/// The maximum number of intervals of a set that [`preimage`] returns, and of mask values that it tries. A
/// question with more intervals would take too long to answer.
const MOST_INTERVALS: usize = 4096;

/// Returns the set of all `bits`-bit numbers that lie in `set` after they are masked with `mask`. Returns
/// `None` if zero bits between the one bits of `mask` would make more than `MOST_INTERVALS` intervals, or if
/// the one bits above the lowest such zero bit have more than `MOST_INTERVALS` values, which are tried one by
/// one.
pub fn preimage(mask: u128, set: &IntervalSet, bits: u32) -> Option<IntervalSet> {
    let all = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    let mask = mask & all;
    if mask == all {
        return Some(set.intersection(&IntervalSet::full(bits)));
    }
    if mask == 0 {
        return Some(if set.contains(0) { IntervalSet::full(bits) } else { IntervalSet::empty() });
    }
    // Bits lower than the lowest set bit of the mask are arbitrary: each value under the mask becomes an
    // interval of 2^`low` numbers.
    let low = mask.trailing_zeros();
    let run = (1u128 << low) - 1;
    // From bit `low` on, the mask has `ones` set bits without a gap; an interval of values of these bits
    // stays an interval.
    let ones = (mask >> low).trailing_ones();
    let contiguous = if low + ones >= 128 { u128::MAX } else { (1u128 << (low + ones)) - 1 };
    let free_above = all & !mask & !run;
    let mut pieces: Vec<(u128, u128)> = Vec::new();
    let upper = mask & !contiguous;
    let mut add = |fixed: u128, set: &IntervalSet| {
        // Adds the intervals of the numbers whose mask bits above the contiguous part have the value `fixed`,
        // and whose masked value lies in the set.
        for &(first, last) in set.intervals() {
            let (bottom, top) = (fixed, fixed | contiguous & mask);
            let (first, last) = (first.max(bottom), last.min(top));
            if first > last {
                continue;
            }
            let first = first.checked_add(run).map_or(u128::MAX, |n| n) & !run;
            let last = last & !run;
            if first <= last && first >= bottom {
                pieces.push((first, last | run));
            }
        }
    };
    // Tries all values of the mask's bits above the contiguous part, one by one.
    let combinations = 1usize.checked_shl(upper.count_ones()).filter(|n| *n <= MOST_INTERVALS)?;
    for number in 0..combinations {
        add(spread(number as u128, upper), set);
    }
    // Each bit above bit `low` that is not in the mask may be 0 or 1, which doubles the number of intervals.
    if pieces.len().checked_shl(free_above.count_ones()).is_none_or(|n| n > MOST_INTERVALS) {
        return None;
    }
    let mut all_pieces = Vec::new();
    for number in 0..1u128 << free_above.count_ones() {
        let more = spread(number, free_above);
        all_pieces.extend(pieces.iter().map(|&(low, high)| (low | more, high | more)));
    }
    Some(all_pieces.into_iter().collect())
}

/// Distributes the lowest bits of a number over the set bits of a mask, from the lowest bit up.
fn spread(mut number: u128, mask: u128) -> u128 {
    let mut rest = mask;
    let mut spread = 0;
    while rest != 0 {
        let bit = rest & rest.wrapping_neg();
        if number & 1 == 1 {
            spread |= bit;
        }
        number >>= 1;
        rest &= rest - 1;
    }
    spread
}

/// Returns the set of all `bits`-bit numbers `x` for which `x + plus`, modulo 2^`bits`, lies in `set`.
pub fn shifted(set: &IntervalSet, plus: i64, bits: u32) -> IntervalSet {
    let all = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    let back = |value: u128| value.wrapping_sub(plus as i128 as u128) & all;
    let pieces = set.intersection(&IntervalSet::full(bits));
    let moved = pieces.intervals().iter().flat_map(|&(low, high)| {
        let (first, last) = (back(low), back(high));
        if first <= last { vec![(first, last)] } else { vec![(first, all), (0, last)] }
    });
    moved.collect()
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Length => f.write_str("length"),
            Question::Bytes { offset, length } => write!(f, "{offset}/{length}"),
            Question::Kind => f.write_str("type"),
            Question::Annotation { offset, length } => write!(f, "anno{offset}/{length}"),
            Question::AtLeastZero(sum) => write!(f, "0<={sum}"),
            Question::RightChecksum { offset } => write!(f, "ipsum{offset}"),
            Question::List(number) => write!(f, "list{number}"),
            Question::Leased { step, what: LeasedProperty::Output } => write!(f, "step{step}"),
            Question::Leased { step, what: LeasedProperty::Bytes { offset, length } } => {
                write!(f, "step{step}.{offset}/{length}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn preimages_are_those_of_single_numbers(mask: u16, bounds in prop::collection::vec(0u128..70_000, 1..5)) {
            let set: IntervalSet = bounds.chunks(2).map(|pair| (pair[0].min(pair[pair.len() - 1]), pair[pair.len() - 1])).collect();
            if let Some(found) = preimage(mask.into(), &set, 16) {
                for value in (0..=u16::MAX).step_by(7) {
                    let expected = set.contains((value & mask).into());
                    prop_assert_eq!(found.contains(value.into()), expected, "{} under {:#x}", value, mask);
                }
            }
        }

        #[test]
        fn sums_modulo_a_power_are_undone(plus in -600i64..600, low: u8, high: u8) {
            let set = IntervalSet::one(low.min(high).into(), low.max(high).into());
            let found = shifted(&set, plus, 8);
            for value in 0..=u8::MAX {
                let moved = (i64::from(value) + plus).rem_euclid(256) as u128;
                prop_assert_eq!(found.contains(value.into()), set.contains(moved));
            }
        }
    }

    #[test]
    fn usual_masks_have_few_intervals() {
        let prefix = preimage(0xffff_ff00, &IntervalSet::one(0x0a00_0000, 0x0a00_0000), 32).unwrap();
        assert_eq!(prefix.intervals(), [(0x0a00_0000, 0x0a00_00ff)]);
        let first = preimage(0x1fff, &IntervalSet::one(0, 0), 16).unwrap();
        assert_eq!(first.intervals().len(), 8);
        let ihl = preimage(0x0f, &IntervalSet::one(5, 15), 8).unwrap();
        assert!(ihl.contains(0x45) && !ihl.contains(0x44));
    }
}
