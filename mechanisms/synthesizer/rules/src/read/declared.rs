//! Rules of an element of a configuration, from the declaration of the element.

use element::effects::{Case, Effects, Target, Written};

use super::RuleError;
use crate::conditions::filter_products;
use crate::model::{FilterRule, RuleAction, RulePlace, RuleSet};

/// The number of rules that an element's declaration has: the cases that the user has written.
pub fn rules_of(effects: &Effects) -> usize {
    effects.cases.iter().filter(|case| case.written.is_some()).count()
}

/// Returns the rules that an element declares. `place` returns the place and the text of a rule.
///
/// # Errors
/// If rules test what rules here cannot test, or do something other than choosing an output or dropping.
pub fn read(
    name: String,
    effects: &Effects,
    place: impl Fn(Written) -> (RulePlace, String),
) -> Result<RuleSet, Vec<RuleError>> {
    let written = || effects.cases.iter().filter_map(|case| Some((case, case.written?)));
    // If the element drops packets, its first output is for the packets that it accepts.
    let outputs = written().filter_map(|(case, _)| output(case)).collect::<Vec<_>>();
    let drops = written().any(|(case, _)| matches!(case.to, Target::Drop(_)));
    let has_accept = drops || outputs.iter().all(|output| *output == 0);
    let mut rules = Vec::new();
    let mut errors = Vec::new();
    for (case, written) in written() {
        let (place, text) = place(written);
        let action = match &case.to {
            Target::Output(0) if has_accept => Some(RuleAction::Accept),
            Target::Output(number) => Some(RuleAction::Output(*number)),
            Target::Drop(_) => Some(RuleAction::Drop),
            _ => None,
        };
        let action = action.filter(|_| case.actions.is_empty());
        let products = match action {
            Some(_) => filter_products(&case.when).map_err(|refusal| refusal.to_string()),
            None => Err("it changes packets, and does not only sort them".into()),
        };
        match (products, action) {
            (Ok(products), Some(action)) => {
                rules.push(FilterRule { products, action, place, origin: rules.len(), text });
            }
            (products, _) => errors.extend(products.err().map(|text| RuleError { place, text })),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(RuleSet { name, rules, default: RuleAction::Drop, notes: Vec::new(), hook: None })
}

fn output(case: &Case) -> Option<usize> {
    match case.to {
        Target::Output(number) => Some(number),
        _ => None,
    }
}
