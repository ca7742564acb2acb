//! Questions whose answers need computation: the sign of a sum of other answers, and the correctness of an
//! IPv4 checksum. The element `CheckIPHeader` corresponds to both questions, so a program that begins with it
//! asks them for each packet.

use element::Packet;

use crate::ask::{Ask, answer, is_right, plain, value};
use program::question::{AnswerSum, Question};

/// A compiled question that needs computation or several reads.
pub(super) enum Computed {
    /// The answer is 1 if a sum is zero or more, else 0.
    AtLeastZero(Total),
    /// The answer is 1 if the checksum of the IPv4 header at this offset in the packet is correct, else 0.
    RightChecksum(usize),
    /// Any other question; [`answer`] evaluates it.
    Other(Question),
}

/// A compiled sum of answers.
#[derive(Clone, Debug)]
pub(super) enum Total {
    /// A sum whose terms are all answered by a single read each.
    Plain(Plain),
    /// A sum with any other terms; it is evaluated by its definition.
    Other(AnswerSum),
}

/// A sum whose terms are all answered by a single read of at most 32 bits each.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    constant: i64,
    terms: Vec<Term>,
}

/// A term of a sum: a factor, a question, and the mask of the bits of its answer that count. The answer is
/// shifted down so that the lowest of these bits has the value one.
#[derive(Clone, Copy, Debug)]
struct Term {
    factor: i64,
    ask: Ask,
    mask: u64,
    shift: u32,
}

impl Computed {
    pub(super) fn new(question: &Question) -> Computed {
        let other = || Computed::Other(question.clone());
        match question {
            Question::AtLeastZero(sum) => Computed::AtLeastZero(Total::new(sum)),
            Question::RightChecksum { offset } => {
                usize::try_from(*offset).map_or_else(|_| other(), Computed::RightChecksum)
            }
            _ => other(),
        }
    }

    /// Returns the offset and the number of the packet bytes that the question reads; `None` for a question
    /// that does not read 1 to 8 consecutive bytes.
    pub(super) fn place(&self) -> Option<(usize, usize)> {
        match self {
            Computed::Other(Question::Bytes { offset, length: length @ 1..=8 }) => {
                Some((usize::try_from(*offset).ok()?, usize::from(*length)))
            }
            _ => None,
        }
    }

    /// Returns the sum whose sign the question tests; `None` if the question tests no sum, or a sum that is
    /// not [`Plain`].
    pub(super) fn sum(&self) -> Option<&Plain> {
        match self {
            Computed::AtLeastZero(Total::Plain(plain)) => Some(plain),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn answer(&self, data: &[u8], packet: &Packet) -> u64 {
        match self {
            Computed::AtLeastZero(total) => u64::from(total.value(data, packet) >= 0),
            Computed::RightChecksum(start) => u64::from(data.get(*start..).is_some_and(is_right)),
            Computed::Other(question) => answer(question, packet) as u64,
        }
    }
}

impl Total {
    pub(super) fn new(sum: &AnswerSum) -> Total {
        let term = |(factor, question, mask): &(i64, Question, u128)| {
            let (ask, mask) = (Ask::plain(question)?, *mask as u64);
            Some(Term { factor: *factor, ask, mask, shift: mask.trailing_zeros() & 63 })
        };
        match sum.terms.iter().map(term).collect() {
            Some(terms) => Total::Plain(Plain { constant: sum.constant, terms }),
            None => Total::Other(sum.clone()),
        }
    }

    #[inline]
    pub(super) fn value(&self, data: &[u8], packet: &Packet) -> i64 {
        match self {
            Total::Plain(plain) => plain.value(data, packet),
            Total::Other(sum) => value(sum, packet),
        }
    }
}

impl Plain {
    #[inline]
    fn value(&self, data: &[u8], packet: &Packet) -> i64 {
        self.terms.iter().fold(self.constant, |sum, term| {
            sum.saturating_add(term.factor.saturating_mul(term.bits(plain(term.ask, data, packet))))
        })
    }

    /// Returns a range of numbers at one location in the packet: exactly for the numbers in the range, the
    /// sum is zero or more (or negative, if `is_at_least_zero` is false). The result is the offset of the
    /// number, its length in bytes, and the first and the last number of the range. `known` returns the mask
    /// of the known bits of a byte, and their values. Returns `None` unless all terms are about bytes and
    /// exactly one term has unknown bits. That term has to count all bits of its number, and its factor must
    /// not be zero. Also returns `None` if the range is empty.
    pub(super) fn decided_by(
        &self,
        is_at_least_zero: bool,
        known: impl Fn(usize) -> (u8, u8),
    ) -> Option<(usize, usize, u64, u64)> {
        let (mut constant, mut left) = (i128::from(self.constant), None);
        for term in &self.terms {
            let (place, length) = term.ask.place()?;
            let bytes = (place..place + length).map(&known);
            let (mask, bits) = bytes.fold((0, 0), |(mask, bits), (more, byte)| {
                (mask << 8 | u64::from(more), bits << 8 | u64::from(byte))
            });
            let all = (1u64 << (8 * length)) - 1;
            if term.mask & all & !mask == 0 {
                constant += i128::from(term.factor) * i128::from(term.bits(bits));
            } else if term.mask & all == all && left.is_none() {
                left = Some((place, length, i128::from(term.factor), i128::from(all)));
            } else {
                return None;
            }
        }
        let (place, length, factor, all) = left.filter(|(.., factor, _)| *factor != 0)?;
        // The sum changes its sign at the number `border`. With a positive factor, the sum is zero or more
        // for numbers from `border` on; with a negative factor, for numbers below it.
        let is_upper = (factor > 0) == is_at_least_zero;
        let border = match factor > 0 {
            true => (-constant).div_euclid(factor) + i128::from((-constant).rem_euclid(factor) != 0),
            false => constant.div_euclid(-factor) + 1,
        };
        let (low, high) = if is_upper { (border.max(0), all) } else { (0, (border - 1).min(all)) };
        (low <= high).then_some((place, length, low as u64, high as u64))
    }
}

impl Term {
    #[inline]
    fn bits(&self, answer: u64) -> i64 {
        i64::try_from((answer & self.mask) >> self.shift).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use packet::Pool;
    use proptest::prelude::*;

    use super::*;
    use wire::checksum::ipv4_valid;

    fn questions() -> impl Strategy<Value = Question> {
        prop_oneof![
            (0..24i32, prop_oneof![Just(1u8), Just(2), Just(3), Just(4), Just(12)])
                .prop_map(|(offset, length)| Question::Bytes { offset, length }),
            Just(Question::Length),
            Just(Question::Kind),
            (0..48u8).prop_map(|offset| Question::Annotation { offset, length: 1 }),
        ]
    }

    proptest! {
        /// Tests a sum of which all bytes but one are known. For each value of the open byte, the sum must
        /// be zero or more exactly if the value is in the range that `decided_by` returns.
        #[test]
        fn a_sum_is_decided_by_a_number(
            constant in -300i64..300,
            factor in prop_oneof![-4i64..0, 1i64..4],
            known in proptest::collection::vec((-3i64..4, 0i32..4, any::<u8>()), 0..3),
            bytes in proptest::array::uniform4(any::<u8>()),
            at_least_zero: bool,
        ) {
            let byte = |offset| Question::Bytes { offset, length: 1 };
            let terms = known.iter().map(|&(factor, offset, mask)| (factor, byte(offset), u128::from(mask)));
            let open = (factor, byte(9), 0xff);
            let sum = AnswerSum { constant, terms: terms.chain([open]).collect() };
            let Total::Plain(plain) = Total::new(&sum) else { panic!("bytes are plain") };
            let decided = plain.decided_by(at_least_zero, |place| match bytes.get(place) {
                Some(byte) => (0xff, *byte),
                None => (0, 0),
            });
            for number in 0..=255u8 {
                let value = sum.value(|question| match question {
                    Question::Bytes { offset: 9, .. } => number.into(),
                    Question::Bytes { offset, .. } => bytes[*offset as usize].into(),
                    _ => 0,
                });
                let is_among = decided.is_some_and(|(place, length, low, high)| {
                    (place, length) == (9, 1) && (low..=high).contains(&number.into())
                });
                prop_assert_eq!(is_among, (value >= 0) == at_least_zero, "{} {:?}", sum, decided);
            }
        }

        /// A compiled question must give the same answer as the question's definition, for random sums,
        /// packets and IPv4 headers.
        #[test]
        fn answers_are_those_of_questions(
            constant in -200i64..200,
            terms in proptest::collection::vec((-5i64..5, questions(), any::<u128>()), 0..4),
            start in 0i32..10,
            mut bytes in proptest::collection::vec(any::<u8>(), 0..60),
            first in prop_oneof![Just(None), (0x44u8..0x48).prop_map(Some)],
            is_filled: bool,
        ) {
            if let (Some(byte), Some(first)) = (bytes.get_mut(start as usize), first) {
                *byte = first;
                let length = usize::from(first & 15) * 4;
                if is_filled && let Some(header) = bytes[start as usize..].get_mut(..length) {
                    let _ = wire::checksum::fill_ipv4(header);
                }
            }
            let mut pool = Pool::new(64 << 20).unwrap();
            let mut packet = pool.packet(&bytes).unwrap();
            packet.annotations_mut().set_u8(7, 200);
            let at_least = Question::AtLeastZero(AnswerSum { constant, terms });
            let computed = |question| u128::from(Computed::new(question).answer(packet.data(), &packet));
            prop_assert_eq!(computed(&at_least), answer(&at_least, &packet), "{}", at_least);
            let header = bytes.get(start as usize..).unwrap_or_default();
            let length = header.first().map_or(0, |first| usize::from(first & 15) * 4);
            let is_right = header.get(..length).is_some_and(ipv4_valid);
            prop_assert_eq!(computed(&Question::RightChecksum { offset: start }), u128::from(is_right));
            pool.free(packet);
        }
    }
}
