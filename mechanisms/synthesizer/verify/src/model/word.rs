//! Integers whose value depends on the packet: lengths and offsets, as vectors of Boolean functions.

use super::diagrams::{Bit, Diagrams};

/// The width of a word in bits. It suffices for fields of four bytes, with a sign and room for multiples.
/// Bits that are equal for all packets need no diagram nodes.
const WIDTH: usize = 40;

/// A number with a sign, in two's complement, least significant bit first.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Word(Vec<Bit>);

impl Word {
    /// Returns a word with the same value for every packet.
    pub fn constant(d: &Diagrams, value: i64) -> Word {
        Word((0..WIDTH).map(|bit| d.constant(value >> bit & 1 == 1)).collect())
    }

    /// Makes a non-negative word of unsigned bits, most significant first. Bits beyond the width are
    /// discarded.
    pub fn from_bits(d: &Diagrams, bits: &[Bit]) -> Word {
        let mut word: Vec<Bit> = bits.iter().rev().take(WIDTH - 1).cloned().collect();
        word.resize(WIDTH, d.no());
        Word(word)
    }

    /// Makes a word of all its bits, in the order of [`bits`](Self::bits).
    pub fn from_all_bits(bits: Vec<Bit>) -> Word {
        Word(bits)
    }

    /// Returns the lowest `n` bits, most significant first, as they are stored in a field.
    pub fn to_bits(&self, d: &Diagrams, n: usize) -> Vec<Bit> {
        let sign = self.0.last().cloned().unwrap_or_else(|| d.no());
        (0..n).rev().map(|bit| self.0.get(bit).unwrap_or(&sign).clone()).collect()
    }

    /// Returns all bits, least significant first; the last one is the sign.
    pub fn bits(&self) -> &[Bit] {
        &self.0
    }

    /// Returns the number if it is equal for every packet, else `None`.
    pub fn known(&self, d: &Diagrams) -> Option<i64> {
        let mut value = 0;
        for (place, bit) in self.0.iter().enumerate() {
            value |= i64::from(d.known(bit)?) << place;
        }
        Some(value << (64 - WIDTH) >> (64 - WIDTH))
    }

    /// Returns the sum of both numbers. As with all operations, an overflow of the width is discarded.
    #[must_use]
    pub fn plus(&self, d: &Diagrams, other: &Word) -> Word {
        let mut carry = d.no();
        let mut sum = Vec::with_capacity(WIDTH);
        for (a, b) in self.0.iter().zip(&other.0) {
            let half = d.xor(a, b);
            sum.push(d.xor(&half, &carry));
            carry = d.choose(&half, &carry, a);
        }
        Word(sum)
    }

    /// Returns the number with the opposite sign.
    #[must_use]
    pub fn negated(&self, d: &Diagrams) -> Word {
        let opposite = Word(self.0.iter().map(|bit| d.not(bit)).collect());
        opposite.plus(d, &Word::constant(d, 1))
    }

    /// Returns this number minus `other`.
    #[must_use]
    pub fn minus(&self, d: &Diagrams, other: &Word) -> Word {
        self.plus(d, &other.negated(d))
    }

    /// Returns this number times the constant `factor`.
    #[must_use]
    pub fn times(&self, d: &Diagrams, factor: i64) -> Word {
        let mut product = Word::constant(d, 0);
        for bit in (0..WIDTH).filter(|bit| factor.unsigned_abs() >> bit & 1 == 1) {
            let mut shifted = vec![d.no(); bit];
            shifted.extend_from_slice(&self.0[..WIDTH - bit]);
            product = product.plus(d, &Word(shifted));
        }
        if factor < 0 { product.negated(d) } else { product }
    }

    /// Returns the condition on the packet that `self` is less than or equal to `other`.
    pub fn at_most(&self, d: &Diagrams, other: &Word) -> Bit {
        // Goes from the lowest bit to the highest, so that the highest bit in which the numbers differ
        // decides.
        let mut at_most = d.yes();
        for (place, (a, b)) in self.0.iter().zip(&other.0).enumerate() {
            // The highest bit is the sign: if it is set, the number is negative.
            let less = if place + 1 == WIDTH { d.and_not(a, b) } else { d.and_not(b, a) };
            at_most = d.choose(&d.xor(a, b), &less, &at_most);
        }
        at_most
    }

    /// Returns the condition on the packet that the number is from `low` to `high`, both included.
    pub fn within(&self, d: &Diagrams, low: i64, high: i64) -> Bit {
        let (low, high) = (Word::constant(d, low), Word::constant(d, high));
        d.and(&low.at_most(d, self), &self.at_most(d, &high))
    }

    /// Returns the word that is `then` for packets of the condition, and `otherwise` for all others.
    #[must_use]
    pub fn choose(d: &Diagrams, condition: &Bit, then: &Word, otherwise: &Word) -> Word {
        Word(then.0.iter().zip(&otherwise.0).map(|(a, b)| d.choose(condition, a, b)).collect())
    }

    /// Returns each value that the word takes for packets of `condition`, with the condition for that
    /// value. `None` if there are more than `most` values.
    pub fn values(&self, d: &Diagrams, condition: &Bit, most: usize) -> Option<Vec<(i64, Bit)>> {
        let mut parts = vec![(0i64, condition.clone())];
        for (place, bit) in self.0.iter().enumerate() {
            let mut finer = Vec::with_capacity(parts.len());
            for (value, part) in parts {
                for (is_set, half) in [(false, d.and_not(&part, bit)), (true, d.and(&part, bit))] {
                    if !d.is_never(&half) {
                        finer.push((value | i64::from(is_set) << place, half));
                    }
                }
            }
            if finer.len() > most {
                return None;
            }
            parts = finer;
        }
        Some(parts.into_iter().map(|(value, part)| (value << (64 - WIDTH) >> (64 - WIDTH), part)).collect())
    }
}

/// Returns the condition that the number with these unsigned bits, most significant first, is less than or
/// equal to `bound`.
fn bits_at_most(d: &Diagrams, bits: &[Bit], bound: u128) -> Bit {
    let mut at_most = d.yes();
    for (place, bit) in bits.iter().rev().enumerate() {
        let bound = place < 128 && bound >> place & 1 == 1;
        at_most = if bound { d.or(&d.not(bit), &at_most) } else { d.and_not(&at_most, bit) };
    }
    at_most
}

/// Returns the condition that the number with these unsigned bits, most significant first, is in `set`. The
/// halves of a large set are combined recursively, so that the diagram of each interval is combined with
/// few others.
pub fn bits_in(d: &Diagrams, bits: &[Bit], set: &classify::IntervalSet) -> Bit {
    let largest = if bits.len() >= 128 { u128::MAX } else { (1 << bits.len()) - 1 };
    let intervals = set.intervals();
    let within = intervals.partition_point(|(low, _)| *low <= largest);
    bits_in_any(d, bits, &intervals[..within], largest)
}

fn bits_in_any(d: &Diagrams, bits: &[Bit], intervals: &[(u128, u128)], largest: u128) -> Bit {
    match intervals {
        [] => d.no(),
        &[(low, high)] => {
            let below_high = if high >= largest { d.yes() } else { bits_at_most(d, bits, high) };
            match low.checked_sub(1) {
                None => below_high,
                Some(before) => d.and_not(&below_high, &bits_at_most(d, bits, before)),
            }
        }
        several => {
            let (first, second) = several.split_at(several.len() / 2);
            d.or(&bits_in_any(d, bits, first, largest), &bits_in_any(d, bits, second, largest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::diagrams::Symbol;
    use classify::IntervalSet;
    use proptest::prelude::*;

    /// Returns a word whose lowest byte is the input byte at `place`, which may have any value. Also returns
    /// a function that gives the condition for one value of that byte.
    fn free(d: &Diagrams, place: i32) -> (Word, impl Fn(u8) -> Bit) {
        let bits = d.input(place).to_vec();
        let word = Word::from_bits(d, &bits);
        let when = move |value: u8| {
            let bits = bits.iter().enumerate();
            bits.fold(d.yes(), |all, (i, bit)| match value >> (7 - i) & 1 {
                1 => d.and(&all, bit),
                _ => d.and_not(&all, bit),
            })
        };
        (word, when)
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_numbers(a: u8, b: u8, c in -3000i64..3000, factor in -9i64..9) {
            let d = Diagrams::new(1 << 20);
            let ((x, x_is), (y, y_is)) = (free(&d, 0), free(&d, 1));
            let case = d.and(&x_is(a), &y_is(b));
            let sum = x.times(&d, factor).plus(&d, &y).minus(&d, &Word::constant(&d, c));
            let expected = i64::from(a) * factor + i64::from(b) - c;
            prop_assert_eq!(sum.values(&d, &case, 1).unwrap()[0].0, expected);
            let at_most = d.and(&case, &x.times(&d, factor).at_most(&d, &Word::constant(&d, c)));
            prop_assert_eq!(!d.is_never(&at_most), i64::from(a) * factor <= c);
        }

        #[test]
        fn sets_are_what_they_say(value: u8, bounds in prop::collection::vec(0u128..300, 1..6)) {
            let d = Diagrams::new(1 << 20);
            let (word, is) = free(&d, 0);
            let pieces = bounds.chunks(2).map(|pair| IntervalSet::one(pair[0], pair[pair.len() - 1]));
            let set = pieces.fold(IntervalSet::empty(), |all, piece| all.union(&piece));
            let inside = bits_in(&d, &word.to_bits(&d, 8), &set);
            prop_assert_eq!(d.overlap(&inside, &is(value)), set.contains(value.into()));
        }
    }

    #[test]
    fn constants_are_known() {
        let d = Diagrams::new(1 << 16);
        for value in [0, 1, -1, 1000, -70_000] {
            assert_eq!(Word::constant(&d, value).known(&d), Some(value));
        }
        let (word, _) = free(&d, 0);
        assert_eq!(word.known(&d), None);
        assert_eq!(word.values(&d, &d.yes(), 300).map(|v| v.len()), Some(256));
        assert!(word.values(&d, &d.yes(), 200).is_none());
        assert_eq!(
            d.known(&Word::from_bits(&d, &[d.yes(), d.no()]).at_most(&d, &Word::constant(&d, 2))),
            Some(true)
        );
        assert!(d.symbol(Symbol::Input(0, 7)) == d.input(0)[0]);
    }
}
