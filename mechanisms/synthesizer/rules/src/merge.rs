//! Makes a rule set shorter: removes needless rules, and joins rules of one action that are one rule
//! together. The result is compared with the original before it is returned.

use std::collections::{HashMap, HashSet};

use classify::IntervalSet;

use crate::diff::diff;
use crate::fields::PacketField;
use crate::lint::{RuleFinding, RuleFindingKind};
use crate::model::{FilterRule, RuleAction, RuleSet};
use crate::overlap::RuleBounds;
use crate::product::FieldSets;
use crate::space::{DiagramsExhausted, PacketSpace};

/// A rule that several rules of the original set were joined to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedRule {
    /// The rule.
    pub rule: FilterRule,
    /// The indices of the rules in the original set, in ascending order.
    pub from: Vec<usize>,
}

/// A shorter rule set that treats all packets as the original does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShorterRules {
    /// The shorter rule set.
    pub set: RuleSet,
    /// The rules that were joined.
    pub joined: Vec<JoinedRule>,
    /// The indices of the needless rules that were removed, in the original set.
    pub removed: Vec<usize>,
    /// True if the comparison with the original has shown that all packets have the same fate. False would be
    /// an error of this module.
    pub is_proven: bool,
}

/// A rule with the original rules that it was made of.
#[derive(Clone)]
struct Joining {
    products: Vec<FieldSets>,
    from: Vec<usize>,
}

/// Removes the needless rules of a set and joins rules, and proves that the result treats all packets as
/// before. `findings` are the findings of [`lint`](crate::lint::lint) about the set.
///
/// # Errors
/// If time or memory is not enough.
pub fn merge(
    set: &RuleSet,
    findings: &[RuleFinding],
    space: &PacketSpace,
) -> Result<ShorterRules, DiagramsExhausted> {
    let is_needless = |kind| {
        matches!(kind, RuleFindingKind::Never | RuleFindingKind::Shadowed | RuleFindingKind::Redundant)
    };
    // A finding stands for all uses of a written rule.
    let needless = findings.iter().filter(|finding| is_needless(finding.kind));
    let origins: HashSet<usize> = needless.map(|finding| set.rules[finding.rule].origin).collect();
    let removed: Vec<usize> =
        (0..set.rules.len()).filter(|&rule| origins.contains(&set.rules[rule].origin)).collect();
    // A written rule with several uses cannot be joined in one of them.
    let mut uses: HashMap<usize, usize> = HashMap::new();
    set.rules.iter().for_each(|rule| *uses.entry(rule.origin).or_default() += 1);
    let mut slots: Vec<Option<Joining>> = set
        .rules
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let is_kept = removed.binary_search(&index).is_err();
            is_kept.then(|| Joining { products: rule.products.clone(), from: vec![index] })
        })
        .collect();
    let bounds = RuleBounds::new(&set.rules);
    while join_once(set, &uses, &bounds, &mut slots) > 0 {}
    let mut rules = Vec::new();
    let mut joined = Vec::new();
    for (index, slot) in slots.into_iter().enumerate() {
        let Some(Joining { products, mut from }) = slot else { continue };
        let original = &set.rules[index];
        if let [_] = from[..] {
            rules.push(original.clone());
            continue;
        }
        from.sort_unstable();
        let rule = FilterRule { products, text: String::new(), ..original.clone() };
        rules.push(rule.clone());
        joined.push(JoinedRule { rule, from });
    }
    let shorter = RuleSet { rules, ..set.clone() };
    let is_proven = diff([set, &shorter], space, 1)?.is_empty();
    Ok(ShorterRules { set: shorter, joined, removed, is_proven })
}

/// Joins pairs of rules. Returns the number of pairs that were joined.
fn join_once(
    set: &RuleSet,
    uses: &HashMap<usize, usize>,
    bounds: &RuleBounds,
    slots: &mut [Option<Joining>],
) -> usize {
    let mut joined = 0;
    for field in PacketField::ALL {
        // Rules that differ in this field only, with their values of the field.
        let mut groups: HashMap<(&RuleAction, FieldSets), Vec<(IntervalSet, usize)>> = HashMap::new();
        for (index, slot) in slots.iter().enumerate() {
            if let Some(Joining { products, .. }) = slot
                && uses.get(&set.rules[index].origin) == Some(&1)
                && let [product] = &products[..]
                && let Some(values) = product.set(field)
            {
                let key = (&set.rules[index].action, product.without(field));
                groups.entry(key).or_default().push((values.clone(), index));
            }
        }
        let mut groups: Vec<_> = groups.into_iter().filter(|(_, rules)| rules.len() > 1).collect();
        groups.sort_by_key(|(_, rules)| rules[0].1);
        for ((_, rest), mut rules) in groups {
            rules.sort();
            let mut at = 0;
            while at + 1 < rules.len() {
                let union = rules[at].0.union(&rules[at + 1].0);
                let (first, second) = (rules[at].1.min(rules[at + 1].1), rules[at].1.max(rules[at + 1].1));
                if !is_readable(field, &union) || !may_meet(set, bounds, slots, [first, second]) {
                    at += 1;
                    continue;
                }
                let Some(product) = union_of(&rest, field, &union) else { break };
                let (Some(one), Some(other)) = (slots[first].take(), slots[second].take()) else { break };
                let from = [one.from, other.from].concat();
                slots[first] = Some(Joining { products: vec![product], from });
                rules[at] = (union, first);
                rules.remove(at + 1);
                joined += 1;
            }
        }
    }
    joined
}

fn union_of(rest: &FieldSets, field: PacketField, union: &IntervalSet) -> Option<FieldSets> {
    rest.with(field, union)
}

/// True if a set of values of a field is written as one value: a single prefix of addresses, a single range
/// of ports.
fn is_readable(field: PacketField, set: &IntervalSet) -> bool {
    match (set.intervals(), field) {
        (&[(low, high)], PacketField::Source | PacketField::Destination) => {
            let size = high - low + 1;
            size.is_power_of_two() && low % size == 0
        }
        ([_], PacketField::SourcePort | PacketField::DestinationPort | PacketField::TotalLength) => true,
        ([_], PacketField::TimeToLive) => true,
        _ => false,
    }
}

/// True if the second rule can be moved to the place of the first: no rule between them has another action
/// and matches packets of the second rule.
fn may_meet(
    set: &RuleSet,
    bounds: &RuleBounds,
    slots: &[Option<Joining>],
    [first, second]: [usize; 2],
) -> bool {
    let Some(moved) = &slots[second] else { return false };
    // The bounds are those of the original rules. A joined rule contains the original rule at its place, and
    // has packets of later rules besides, which had no conflict with the rules between. These rules are also
    // looked at, at their original places, as long as they are in the range.
    let originals = bounds.overlapping(&set.rules, &moved.products, first + 1..second);
    let mut between = originals.filter(|&other| slots[other].is_some());
    let action = &set.rules[second].action;
    if between.any(|other| set.rules[other].action != *action) {
        return false;
    }
    let joined = (first + 1..second).filter_map(|other| slots[other].as_ref().map(|slot| (other, slot)));
    let mut joined = joined.filter(|(_, slot)| slot.from.len() > 1);
    !joined.any(|(other, slot)| {
        let overlaps = slot.products.iter().any(|a| moved.products.iter().any(|b| a.and(b).is_some()));
        overlaps && set.rules[other].action != *action
    })
}
