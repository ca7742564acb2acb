//! Questions about bytes as patterns of Classifier.

use classify::IntervalSet;

use crate::openflow::ranges::prefixes;

/// Most pairs of prefixes that are looked at to make one of two.
const MOST_PREFIXES: usize = 256;

/// Bytes that have to be so: a clause of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// The first byte.
    offset: i32,
    /// How many.
    length: u8,
    value: u128,
    mask: u128,
}

/// Clauses one of which holds where the number of so many bytes there lies in a set; no other one does. `None` without any
/// means that it always does.
pub(super) fn clauses(offset: i32, length: u8, set: &IntervalSet) -> Vec<Option<Clause>> {
    let cubes = merged(prefixes(set, 8 * u32::from(length)));
    let clause = |(value, mask): (u128, u128)| (mask != 0).then_some(Clause { offset, length, value, mask });
    cubes.into_iter().map(clause).collect()
}

/// The same numbers in fewer cubes: two that differ in one bit are one.
fn merged(mut cubes: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    if cubes.len() > MOST_PREFIXES {
        return cubes;
    }
    let mut first = 0;
    while first < cubes.len() {
        let (value, mask) = cubes[first];
        let is_twin = |other: &(u128, u128)| other.1 == mask && (other.0 ^ value).count_ones() == 1;
        match cubes.iter().position(is_twin) {
            Some(second) => {
                let bit = cubes[second].0 ^ value;
                cubes[first] = (value & !bit, mask & !bit);
                cubes.remove(second);
                // It may be the twin of one that was looked at before.
                first = 0;
            }
            None => first += 1,
        }
    }
    cubes
}

/// A pattern.
pub(super) fn text(clauses: &[Clause]) -> String {
    if clauses.is_empty() {
        return "-".to_string();
    }
    clauses.iter().map(Clause::text).collect::<Vec<_>>().join(" ")
}

impl Clause {
    /// Bytes that do not count are left out at both ends.
    fn text(&self) -> String {
        let Clause { offset, length, value, mask } = *self;
        let bytes = |number: u128| number.to_be_bytes()[16 - usize::from(length.min(16))..].to_vec();
        let (value, mask) = (bytes(value), bytes(mask));
        let first = mask.iter().position(|byte| *byte != 0).unwrap_or(0);
        let end = mask.iter().rposition(|byte| *byte != 0).map_or(mask.len(), |last| last + 1);
        let digits = |bytes: &[u8]| crate::verify::run::digits(&bytes[first..end]);
        let place = i64::from(offset) + first as i64;
        match mask[first..end].iter().all(|byte| *byte == 0xff) {
            true => format!("{place}/{}", digits(&value)),
            false => format!("{place}/{}%{}", digits(&value), digits(&mask)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_clause_holds_for_each_number_of_a_set(bounds in prop::collection::vec(any::<u16>(), 2..8), numbers: [u16; 40]) {
            let set: IntervalSet = bounds.chunks_exact(2).map(|b| (b[0].min(b[1]).into(), b[0].max(b[1]).into())).collect();
            let found = clauses(20, 2, &set);
            for number in numbers.into_iter().chain(bounds.iter().flat_map(|b| [*b, b.wrapping_add(1), b.wrapping_sub(1)])) {
                let holds = |clause: &&Option<Clause>| {
                    clause.as_ref().is_none_or(|clause| u128::from(number) & clause.mask == clause.value)
                };
                let holding = found.iter().filter(holds).count();
                prop_assert_eq!(holding, usize::from(set.contains(number.into())));
            }
        }
    }

    #[test]
    fn usual_questions_are_short() {
        let texts = |offset, length, set: &IntervalSet| {
            clauses(offset, length, set).iter().flatten().map(Clause::text).collect::<Vec<_>>()
        };
        assert_eq!(texts(12, 2, &IntervalSet::one(0x0800, 0x0800)), ["12/0800"]);
        let plain = (0..=0x0f).map(|high| (high << 4 | 5, high << 4 | 5)).collect();
        assert_eq!(texts(14, 1, &plain), ["14/05%0f"]);
        let first = (0..8).map(|high| (high << 13, high << 13)).collect();
        assert_eq!(texts(20, 2, &first), ["20/0000%1fff"]);
        assert_eq!(texts(26, 4, &IntervalSet::one(0x0a00_0000, 0x0aff_ffff)), ["26/0a"]);
    }
}
