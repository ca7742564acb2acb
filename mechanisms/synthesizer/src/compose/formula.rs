//! Conditions on the input packet, and the path condition: the answers that are still possible on a path.

use std::collections::BTreeMap;
use std::rc::Rc;

use classify::IntervalSet;
use classify::linear::masked;

use program::question::{AnswerSum, Question, preimage};

/// The maximum size of a set of answers that is enumerated to find equal bits.
const MOST_LOOKED_THROUGH: u128 = 256;

/// A condition on the input packet, expressed by the answers to questions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// A condition that holds for all packets (true) or for none (false).
    Constant(bool),
    /// A condition that cannot be expressed by questions; only the element itself can evaluate it.
    Unknown,
    /// The condition that the answer to a question is in a set.
    Is(Question, Rc<IntervalSet>),
    /// The negation of a condition.
    Not(Box<Formula>),
    /// The conjunction of conditions.
    All(Vec<Formula>),
    /// The disjunction of conditions.
    One(Vec<Formula>),
}

/// The path condition (in the paper: the packet filter): the answers that are still possible for packets on
/// a path, for each question that is restricted.
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
    /// `None`. Sets with more than 256 possible answers give `None`, because they are not enumerated.
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

impl Formula {
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
        Formula::Is(question, Rc::new(set))
    }

    /// Returns the condition that a sum is zero or more. A sum of a single answer becomes a set of answers
    /// to that question.
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
                    return Formula::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1));
                }
                match preimage(*mask, &values, question.bits()) {
                    Some(set) => Formula::is(question.clone(), set),
                    None => Formula::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1)),
                }
            }
            _ => Formula::is(Question::AtLeastZero(sum), IntervalSet::one(1, 1)),
        }
    }

    /// Returns the negation of the condition.
    #[must_use]
    pub fn negated(self) -> Formula {
        match self {
            Formula::Constant(value) => Formula::Constant(!value),
            Formula::Not(inner) => *inner,
            other => Formula::Not(Box::new(other)),
        }
    }

    /// Returns the conjunction of conditions, without constants and nested conjunctions.
    pub fn all(parts: impl IntoIterator<Item = Formula>) -> Formula {
        let mut rest = Vec::new();
        for part in parts {
            match part {
                Formula::Constant(true) => {}
                Formula::Constant(false) => return Formula::Constant(false),
                Formula::All(inner) => rest.extend(inner),
                other => rest.push(other),
            }
        }
        match rest.len() {
            0 => Formula::Constant(true),
            1 => rest.remove(0),
            _ => Formula::All(rest),
        }
    }

    /// Returns the disjunction of conditions, without constants and nested disjunctions.
    pub fn one(parts: impl IntoIterator<Item = Formula>) -> Formula {
        let mut rest = Vec::new();
        for part in parts {
            match part {
                Formula::Constant(false) => {}
                Formula::Constant(true) => return Formula::Constant(true),
                Formula::One(inner) => rest.extend(inner),
                other => rest.push(other),
            }
        }
        match rest.len() {
            0 => Formula::Constant(false),
            1 => rest.remove(0),
            _ => Formula::One(rest),
        }
    }

    /// Returns what remains of the condition for packets that meet a path condition.
    #[must_use]
    pub fn under(&self, known: &PathCondition) -> Formula {
        match self {
            Formula::Constant(_) | Formula::Unknown => self.clone(),
            Formula::Is(Question::AtLeastZero(sum), set) => {
                // Answers in the sum, or bounds of answers, may be known.
                let sum = known.substitute(sum);
                let asked = match bounds(&sum, known) {
                    (least, _) if least >= 0 => Formula::Constant(true),
                    (_, most) if most < 0 => Formula::Constant(false),
                    _ => Formula::at_least_zero(sum),
                };
                let asked = if set.contains(1) { asked } else { asked.negated() };
                match asked {
                    Formula::Is(question, set) => narrowed(question, &set, known),
                    Formula::Not(inner) => match *inner {
                        Formula::Is(question, set) => narrowed(question, &set, known).negated(),
                        other => other.negated(),
                    },
                    other => other,
                }
            }
            Formula::Is(question, set) => narrowed(question.clone(), set, known),
            Formula::Not(inner) => inner.under(known).negated(),
            Formula::All(parts) => Formula::all(parts.iter().map(|part| part.under(known))),
            Formula::One(parts) => Formula::one(parts.iter().map(|part| part.under(known))),
        }
    }

    /// Returns the first question that the condition depends on; `None` if there is none.
    pub fn question(&self) -> Option<&Question> {
        match self {
            Formula::Constant(_) | Formula::Unknown => None,
            Formula::Is(question, _) => Some(question),
            Formula::Not(inner) => inner.question(),
            Formula::All(parts) | Formula::One(parts) => parts.iter().find_map(Formula::question),
        }
    }

    /// Adds each set that the condition compares the answer to a question with. The condition cannot
    /// distinguish answers that are in the same of these sets.
    pub fn sets<'f>(&'f self, question: &Question, sets: &mut Vec<&'f Rc<IntervalSet>>) {
        match self {
            Formula::Constant(_) | Formula::Unknown => {}
            Formula::Is(other, set) => {
                if other == question && !sets.contains(&set) {
                    sets.push(set);
                }
            }
            Formula::Not(inner) => inner.sets(question, sets),
            Formula::All(parts) | Formula::One(parts) => {
                parts.iter().for_each(|part| part.sets(question, sets))
            }
        }
    }
}

/// Returns the condition that an answer is in a set; a constant if all possible answers or none are in the
/// set.
fn narrowed(question: Question, set: &Rc<IntervalSet>, known: &PathCondition) -> Formula {
    let Some(possible) = known.0.get(&question) else { return Formula::Is(question, set.clone()) };
    let both = possible.intersection(set);
    if both.is_empty() {
        Formula::Constant(false)
    } else if both == **possible {
        Formula::Constant(true)
    } else {
        Formula::Is(question, set.clone())
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
        let enough = Formula::at_least_zero(AnswerSum::of(LENGTH).plus_constant(-34));
        assert_eq!(enough, Formula::Is(LENGTH, Rc::new(IntervalSet::one(34, u32::MAX.into()))));
        // The condition 1500 - total length >= 0.
        let fits = Formula::at_least_zero(AnswerSum::constant(1500).plus_times(-1, &AnswerSum::of(TOTAL)));
        assert_eq!(fits, Formula::Is(TOTAL, Rc::new(IntervalSet::one(0, 1500))));
        assert_eq!(Formula::at_least_zero(AnswerSum::constant(-1)), Formula::Constant(false));
        // The condition that four times the low four bits of a byte are 20 or more.
        let header =
            AnswerSum { constant: -20, terms: vec![(4, Question::Bytes { offset: 14, length: 1 }, 0x0f)] };
        let Formula::Is(_, set) = Formula::at_least_zero(header) else { panic!("a question") };
        assert!(set.contains(0x45) && set.contains(0x4f) && !set.contains(0x44));
    }

    #[test]
    fn what_is_known_decides() {
        let sum = AnswerSum::of(LENGTH).plus_times(-1, &AnswerSum::of(TOTAL)).plus_constant(-14);
        let agrees = Formula::at_least_zero(sum);
        assert!(matches!(agrees, Formula::Is(Question::AtLeastZero(_), _)));
        let long = PathCondition::default().with(&LENGTH, IntervalSet::one(2000, 3000));
        assert!(matches!(agrees.under(&long), Formula::Is(Question::AtLeastZero(_), _)));
        let small = long.with(&TOTAL, IntervalSet::one(20, 1500));
        assert_eq!(agrees.under(&small), Formula::Constant(true));
        let exact = PathCondition::default().with(&LENGTH, IntervalSet::one(60, 60));
        assert_eq!(agrees.under(&exact), Formula::Is(TOTAL, Rc::new(IntervalSet::one(0, 46))));
        let known = PathCondition::default().with(&Question::Kind, IntervalSet::one(0x45, 0x45));
        assert_eq!(known.bits(&Question::Kind, 0x0f), Some(5));
    }
}
