//! The case of a declaration that an element has applied to a packet.

use element::effects::{Case, Effects, Filter, Predicate, Target, UNSENT, accepts};
use element::{DropReason, Packet};
use lang::args;

use super::record::{CaseTaken, StepOutcome};

/// The cases of a declaration that may apply to a packet, in order. The last of them surely applies if no
/// case before it does, unless the declaration is incomplete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates(Vec<usize>);

impl Candidates {
    /// Finds the cases that may apply to a packet which comes in at `input`.
    pub(crate) fn of(effects: &Effects, input: usize, packet: &Packet) -> Candidates {
        let mut candidates = Vec::new();
        for (number, case) in effects.cases.iter().enumerate() {
            if case.input.is_some_and(|other| other != input) {
                continue;
            }
            let answer = accepts(&case.when, packet);
            if answer != Some(false) {
                candidates.push(number);
            }
            if answer == Some(true) {
                break;
            }
        }
        Candidates(candidates)
    }

    /// Returns the first of the cases that has this outcome. `config` has the arguments of the element.
    /// `None` if no case has the outcome.
    pub(crate) fn taken(&self, effects: &Effects, config: &str, outcome: &StepOutcome) -> Option<CaseTaken> {
        let cases = self.0.iter().map(|&number| &effects.cases[number]);
        let fitting: Vec<&Case> = cases.filter(|case| fits(case, outcome)).collect();
        let case = fitting.first()?;
        let rule = case
            .written
            .filter(|place| place.line.is_none())
            .and_then(|place| args::split(config).get(place.argument).map(|argument| argument.text.clone()));
        let (mut first, mut all) = (Vec::new(), Vec::new());
        states(&case.when, &mut first);
        fitting.iter().for_each(|case| states(&case.when, &mut all));
        let state = first.into_iter().map(|(table, hit)| {
            let is_certain = !all.contains(&(table, !hit));
            (table, is_certain.then_some(hit))
        });
        // Cases that no user wrote have no rule that another case could take the place of.
        let is_likely = case.written.is_some() && fitting.len() > 1;
        Some(CaseTaken { written: case.written, rule, state: state.collect(), is_likely })
    }
}

/// True if a packet of the case may have the outcome.
fn fits(case: &Case, outcome: &StepOutcome) -> bool {
    let is_dropped = |reason: DropReason| match outcome {
        StepOutcome::Dropped(reasons) => reasons.contains(&reason.as_str()),
        _ => false,
    };
    match (case.to, outcome) {
        (Target::Output(to), StepOutcome::Left { output, .. }) => to == *output,
        (Target::Output(_), _) => is_dropped(case.otherwise),
        (Target::AllOutputs | Target::SomeOutput, StepOutcome::Left { .. } | StepOutcome::HandedOver) => true,
        (Target::Hold(_), StepOutcome::Held | StepOutcome::HeldOrDropped(_) | StepOutcome::HandedOver) => {
            true
        }
        (Target::Hold(to), StepOutcome::Left { output, .. }) => to == *output,
        (Target::Drop(reason), _) => is_dropped(reason),
        (Target::Send, StepOutcome::Sent) => true,
        (Target::Send, _) => UNSENT.iter().any(|&reason| is_dropped(reason)),
        _ => false,
    }
}

/// Adds the questions about state that a filter asks, apart from those in negations.
fn states(filter: &Filter, found: &mut Vec<(&'static str, bool)>) {
    match filter {
        Filter::Leaf(Predicate::State { table, hit }) if !found.contains(&(*table, *hit)) => {
            found.push((table, *hit));
        }
        Filter::All(parts) | Filter::Any(parts) => parts.iter().for_each(|part| states(part, found)),
        _ => {}
    }
}
