//! Conditions on the input packet, and the path condition: the answers that are still possible on a path.

use std::collections::BTreeMap;
use std::rc::Rc;

use classify::linear::masked;
use classify::{IntervalSet, Tree};

use program::question::{AnswerSum, Question, preimage};

/// The maximum size of a set of answers that is enumerated to find equal bits.
const MOST_LOOKED_THROUGH: u128 = 256;

/// A condition on the input packet, expressed by the answers to questions.
pub type Formula = Tree<AnswerTest>;

/// A test of the answer to one question about the input packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnswerTest {
    /// A condition that cannot be expressed by questions; only the element itself can evaluate it.
    Unknown,
    /// The condition that the answer to a question is in a set.
    Is(Question, Rc<IntervalSet>),
}

/// The condition that only an element itself can evaluate.
pub const UNKNOWN: Formula = Tree::Leaf(AnswerTest::Unknown);

/// The path condition (in the SNF paper: the packet filter): the answers that are still possible for
/// packets on a path, for each question that is restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathCondition(BTreeMap<Question, Rc<IntervalSet>>);

impl PathCondition {
    /// Returns the answers to a question that are still possible; all answers if it is not restricted.
    pub fn of(&self, question: &Question) -> Rc<IntervalSet> {
        self.0.get(question).cloned().unwrap_or_else(|| Rc::new(question.all()))
    }

    /// Returns the path condition in which the possible answers to a question are replaced by `answers`.
    #[must_use]
    pub fn with(&self, question: &Question, answers: IntervalSet) -> PathCondition {
        let mut more = self.clone();
        more.0.insert(question.clone(), Rc::new(answers));
        more
    }

    /// Iterates over the restricted questions and their possible answers.
    pub fn iter(&self) -> impl Iterator<Item = (&Question, &IntervalSet)> {
        self.0.iter().map(|(question, answers)| (question, &**answers))
    }

    /// Returns the bits of an answer under a mask, if they are equal for all possible answers; otherwise
    /// `None`. A question without a restriction, and a set of more than 256 possible answers, give `None`,
    /// because the answers are not enumerated.
    pub fn bits(&self, question: &Question, mask: u128) -> Option<u128> {
        let set = self.0.get(question)?;
        let is_short = set
            .intervals()
            .iter()
            .map(|(low, high)| (high - low).saturating_add(1))
            .try_fold(0u128, |sum, n| Some(sum.saturating_add(n)).filter(|sum| *sum <= MOST_LOOKED_THROUGH));
        is_short?;
        let mut values = set.intervals().iter().flat_map(|&(low, high)| low..=high);
        let first = masked(values.next()?, mask);
        values.all(|value| masked(value, mask) == first).then_some(first)
    }

    /// Returns a condition simplified for packets that meet this path condition: parts that are decided
    /// become constants.
    #[must_use]
    pub fn remaining(&self, formula: &Formula) -> Formula {
        formula.replace(&mut |test| test.under(self))
    }

    /// Returns a sum in which the terms whose value is known are replaced by constants.
    pub fn substitute(&self, sum: &AnswerSum) -> AnswerSum {
        let mut rest = AnswerSum::constant(sum.constant);
        for (factor, question, mask) in &sum.terms {
            let term = match self.bits(question, *mask).and_then(|value| i64::try_from(value).ok()) {
                Some(value) => AnswerSum::constant(value),
                None => AnswerSum { constant: 0, terms: vec![(1, question.clone(), *mask)] },
            };
            rest = rest.plus_times(*factor, &term);
        }
        rest
    }
}

impl AnswerTest {
    /// Returns the condition that the answer to a question is in a set. A set of all answers or of none
    /// gives a constant.
    pub fn is(question: Question, set: IntervalSet) -> Formula {
        if set.is_empty() {
            return Formula::Constant(false);
        }
        let all = question.all();
        if set.intersection(&all) == all {
            return Formula::Constant(true);
        }
        Tree::Leaf(AnswerTest::Is(question, Rc::new(set)))
    }

    /// Returns the condition that a sum is zero or more. A sum of a single answer becomes a set of answers to
    /// that question, unless the mask of the answer omits its lowest bit, or the set would have too many
    /// intervals.
    pub fn at_least_zero(sum: AnswerSum) -> Formula {
        match &sum.terms[..] {
            [] => Formula::Constant(sum.constant >= 0),
            [(factor, question, mask)] => {
                // Solves constant + factor * value >= 0 for the value.
                let (constant, factor) = (i128::from(sum.constant), i128::from(*factor));
                let values = if factor > 0 {
                    // For a positive factor: value >= -constant / factor, rounded up.
                    let least =
                        (-constant).div_euclid(factor) + i128::from((-constant).rem_euclid(factor) != 0);
                    IntervalSet::one(least.max(0) as u128, u128::MAX)
                } else if constant < 0 {
                    IntervalSet::empty()
                } else {
                    IntervalSet::one(0, (constant / -factor) as u128)
                };
                let shift = if *mask == 0 { 0 } else { mask.trailing_zeros() };
                if shift > 0 {
                    return AnswerTest::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1));
                }
                match preimage(*mask, &values, question.bits()) {
                    Some(set) => AnswerTest::is(question.clone(), set),
                    None => AnswerTest::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1)),
                }
            }
            _ => AnswerTest::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1)),
        }
    }

    /// Returns the question whose answer is tested; `None` for [`AnswerTest::Unknown`].
    pub fn question(&self) -> Option<&Question> {
        match self {
            AnswerTest::Unknown => None,
            AnswerTest::Is(question, _) => Some(question),
        }
    }

    /// Returns the test simplified for packets that meet the path condition `known`: a constant if the test
    /// is decided.
    fn under(&self, known: &PathCondition) -> Formula {
        match self {
            AnswerTest::Unknown => UNKNOWN,
            AnswerTest::Is(Question::AtLeastZero(sum), set) => {
                // If answers in the sum, or their bounds, are known, the sign of the sum may be known, too.
                let sum = known.substitute(sum);
                let asked = match bounds(&sum, known) {
                    (least, _) if least >= 0 => Formula::TRUE,
                    (_, most) if most < 0 => Formula::FALSE,
                    _ => AnswerTest::at_least_zero(sum),
                };
                let asked = if set.contains(1) { asked } else { asked.not() };
                asked.replace(&mut |test| match test {
                    AnswerTest::Unknown => UNKNOWN,
                    AnswerTest::Is(question, set) => narrowed(question.clone(), set, known),
                })
            }
            AnswerTest::Is(question, set) => narrowed(question.clone(), set, known),
        }
    }
}

/// Adds to `sets` each set of answers to `question` that a condition tests for. Answers that are in the same
/// ones of these sets make no difference to the condition.
pub fn collect_sets<'f>(formula: &'f Formula, question: &Question, sets: &mut Vec<&'f Rc<IntervalSet>>) {
    for leaf in formula.leaves() {
        if let AnswerTest::Is(other, set) = leaf
            && other == question
            && !sets.contains(&set)
        {
            sets.push(set);
        }
    }
}

/// Returns the condition that an answer is in a set, for packets that meet the path condition `known`. If
/// `known` restricts the question, and all or none of the possible answers are in the set, the condition is a
/// constant.
fn narrowed(question: Question, set: &Rc<IntervalSet>, known: &PathCondition) -> Formula {
    let Some(possible) = known.0.get(&question) else {
        return Tree::Leaf(AnswerTest::Is(question, set.clone()));
    };
    let both = possible.intersection(set);
    if both.is_empty() {
        Formula::Constant(false)
    } else if both == **possible {
        Formula::Constant(true)
    } else {
        Tree::Leaf(AnswerTest::Is(question, set.clone()))
    }
}

/// Returns a lower and an upper bound of a sum for packets that meet a path condition.
fn bounds(sum: &AnswerSum, known: &PathCondition) -> (i128, i128) {
    let mut bounds = (i128::from(sum.constant), i128::from(sum.constant));
    for (factor, question, mask) in &sum.terms {
        let set = known.of(question);
        let is_whole = *mask == u128::MAX;
        let least = if is_whole { set.intervals().first().map_or(0, |interval| interval.0) } else { 0 };
        let most = match set.intervals().last() {
            Some(interval) if is_whole => interval.1,
            _ => masked(question.all().intervals()[0].1, *mask),
        };
        let ends = [least, most]
            .map(|value| i128::from(*factor).saturating_mul(i128::try_from(value).unwrap_or(i128::MAX)));
        bounds.0 = bounds.0.saturating_add(ends[0].min(ends[1]));
        bounds.1 = bounds.1.saturating_add(ends[0].max(ends[1]));
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Question = Question::Length;
    const TOTAL: Question = Question::Bytes { offset: 16, length: 2 };

    #[test]
    fn sums_of_one_answer_are_intervals() {
        // The condition length - 34 >= 0.
        let enough = AnswerTest::at_least_zero(AnswerSum::of(LENGTH).plus_constant(-34));
        assert_eq!(
            enough,
            Tree::Leaf(AnswerTest::Is(LENGTH, Rc::new(IntervalSet::one(34, u32::MAX.into()))))
        );
        // The condition 1500 - total length >= 0.
        let fits = AnswerTest::at_least_zero(AnswerSum::constant(1500).plus_times(-1, &AnswerSum::of(TOTAL)));
        assert_eq!(fits, Tree::Leaf(AnswerTest::Is(TOTAL, Rc::new(IntervalSet::one(0, 1500)))));
        assert_eq!(AnswerTest::at_least_zero(AnswerSum::constant(-1)), Formula::Constant(false));
        // The condition that four times the low four bits of a byte are 20 or more.
        let header =
            AnswerSum { constant: -20, terms: vec![(4, Question::Bytes { offset: 14, length: 1 }, 0x0f)] };
        let Tree::Leaf(AnswerTest::Is(_, set)) = AnswerTest::at_least_zero(header) else {
            panic!("a question")
        };
        assert!(set.contains(0x45) && set.contains(0x4f) && !set.contains(0x44));
    }

    #[test]
    fn what_is_known_decides() {
        let sum = AnswerSum::of(LENGTH).plus_times(-1, &AnswerSum::of(TOTAL)).plus_constant(-14);
        let agrees = AnswerTest::at_least_zero(sum);
        assert!(matches!(agrees, Tree::Leaf(AnswerTest::Is(Question::AtLeastZero(_), _))));
        let long = PathCondition::default().with(&LENGTH, IntervalSet::one(2000, 3000));
        assert!(matches!(long.remaining(&agrees), Tree::Leaf(AnswerTest::Is(Question::AtLeastZero(_), _))));
        let small = long.with(&TOTAL, IntervalSet::one(20, 1500));
        assert_eq!(small.remaining(&agrees), Formula::Constant(true));
        let exact = PathCondition::default().with(&LENGTH, IntervalSet::one(60, 60));
        assert_eq!(
            exact.remaining(&agrees),
            Tree::Leaf(AnswerTest::Is(TOTAL, Rc::new(IntervalSet::one(0, 46))))
        );
        let known = PathCondition::default().with(&Question::Kind, IntervalSet::one(0x45, 0x45));
        assert_eq!(known.bits(&Question::Kind, 0x0f), Some(5));
    }
}
