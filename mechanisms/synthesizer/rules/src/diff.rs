//! The packets that two rule sets treat differently.
//!
//! Rules that both lists have, in the same order, decide alike about packets that no other rule matches. So
//! only the packets of the other rules have to be compared. After a small change of a long list these are
//! few, and only rules that overlap with them enter the diagrams.

use std::collections::{BTreeMap, HashMap};

use verify::model::diagrams::Bit;

use crate::model::{FilterRule, RuleAction, RuleSet};
use crate::overlap::RuleBounds;
use crate::product::{FieldSets, bounded};
use crate::regions::{PacketRegions, cover};
use crate::space::{DiagramsExhausted, PacketSpace};

/// Packets that two rule sets treat differently: one has the first action for them, the other the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDifference {
    /// The action of the first and of the second rule set.
    pub actions: [RuleAction; 2],
    /// The packets.
    pub regions: PacketRegions,
    /// For each region, and for each of the rule sets, the rules that decide about its packets; `None` for
    /// the default.
    pub deciders: Vec<[Vec<Option<usize>>; 2]>,
}

/// Returns the packets that two rule sets treat differently, by the pairs of actions. At most `most` regions
/// are returned for each pair.
///
/// # Errors
/// If time or memory is not enough.
pub fn diff(
    sets: [&RuleSet; 2],
    space: &PacketSpace,
    most: usize,
) -> Result<Vec<PolicyDifference>, DiagramsExhausted> {
    diff_within(sets, &FieldSets::ALL, space, most)
}

/// Returns the packets of a set `within` that two rule sets treat differently, as [`diff`] does for all
/// packets.
///
/// # Errors
/// If time or memory is not enough.
pub fn diff_within(
    sets: [&RuleSet; 2],
    within: &FieldSets,
    space: &PacketSpace,
    most: usize,
) -> Result<Vec<PolicyDifference>, DiagramsExhausted> {
    let compared =
        compared_packets(sets).iter().filter_map(|product| product.and(within)).collect::<Vec<_>>();
    let d = space.diagrams();
    let inside = space.union(&compared);
    let bounds = sets.map(|set| RuleBounds::new(&set.rules));
    let [one, other] = [0, 1].map(|side| {
        let set = sets[side];
        let rules: Vec<usize> = bounds[side].overlapping(&set.rules, &compared, 0..set.rules.len()).collect();
        by_action(space, set, &rules, &inside)
    });
    space.check()?;
    let mut differences = Vec::new();
    for (action, packets) in &one {
        let mut rest = match other.get(action) {
            Some(same) => d.and_not(packets, same),
            None => packets.clone(),
        };
        for (other_action, other_packets) in &other {
            if d.is_never(&rest) {
                break;
            }
            if action == other_action {
                continue;
            }
            let both = d.and(&rest, other_packets);
            if d.is_never(&both) {
                continue;
            }
            rest = d.and_not(&rest, &both);
            let difference = Found { space, sets, bounds: &bounds, compared: &compared, packets: both };
            differences.push(difference.described([action.clone(), other_action.clone()], most)?);
        }
    }
    space.check()?;
    Ok(differences)
}

/// Returns a union of products that has all packets that the two sets may treat differently.
fn compared_packets(sets: [&RuleSet; 2]) -> Vec<FieldSets> {
    if sets[0].default != sets[1].default {
        return vec![FieldSets::ALL];
    }
    let is_shared = shared(sets.map(|set| &set.rules[..]));
    let own = sets.into_iter().zip(&is_shared).flat_map(|(set, is_shared)| {
        let rules = set.rules.iter().zip(is_shared).filter(|(_, is_shared)| !**is_shared);
        rules.flat_map(|(rule, _)| rule.products.iter().cloned())
    });
    bounded(own).unwrap_or_else(|_| vec![FieldSets::ALL])
}

/// Returns, for each rule of the two lists, true if it belongs to a common sequence of the lists: the common
/// beginning, the common end, and in between as many as possible of the rules that each list has once.
fn shared(lists: [&[FilterRule]; 2]) -> [Vec<bool>; 2] {
    let mut is_shared = lists.map(|list| vec![false; list.len()]);
    let shorter = lists[0].len().min(lists[1].len());
    let same = |a: usize, b: usize| lists[0][a].is_same_as(&lists[1][b]);
    let start = (0..shorter).take_while(|&at| same(at, at)).count();
    let is_same_at_end = |&at: &usize| same(lists[0].len() - 1 - at, lists[1].len() - 1 - at);
    let end = (0..shorter - start).take_while(is_same_at_end).count();
    for (list, is_shared) in lists.iter().zip(&mut is_shared) {
        is_shared[..start].fill(true);
        is_shared[list.len() - end..].fill(true);
    }
    let mut places: HashMap<(&RuleAction, &[FieldSets]), [Vec<usize>; 2]> = HashMap::new();
    for (side, list) in lists.iter().enumerate() {
        for at in start..list.len() - end {
            places.entry((&list[at].action, &list[at].products[..])).or_default()[side].push(at);
        }
    }
    let pairs = places.into_values().filter_map(|[a, b]| match (&a[..], &b[..]) {
        (&[a], &[b]) => Some((a, b)),
        _ => None,
    });
    let mut pairs: Vec<(usize, usize)> = pairs.collect();
    pairs.sort_unstable();
    for (a, b) in increasing(&pairs) {
        is_shared[0][a] = true;
        is_shared[1][b] = true;
    }
    is_shared
}

/// Returns a longest sequence of pairs, given in the order of their first numbers, whose second numbers
/// increase, too (patience sorting).
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the index of the pair with the lowest second number that ends a sequence of this
    // length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (index, pair) in pairs.iter().enumerate() {
        let at = ends.partition_point(|&end| pairs[end].1 < pair.1);
        before[index] = at.checked_sub(1).map(|last| ends[last]);
        if at == ends.len() { ends.push(index) } else { ends[at] = index }
    }
    let mut sequence = Vec::new();
    let mut next = ends.last().copied();
    while let Some(index) = next {
        sequence.push(pairs[index]);
        next = before[index];
    }
    sequence.reverse();
    sequence
}

/// Returns the packets of `inside` for each action that a set has for any of them. `rules` are the indices of
/// the rules that match any of them.
fn by_action(space: &PacketSpace, set: &RuleSet, rules: &[usize], inside: &Bit) -> BTreeMap<RuleAction, Bit> {
    let d = space.diagrams();
    let Block { matched, mut actions } = block(space, set, rules, inside);
    let rest = d.and_not(inside, &matched);
    if !d.is_never(&rest) {
        let packets = actions.entry(set.default.clone()).or_insert_with(|| d.no());
        *packets = d.or(packets, &rest);
    }
    actions
}

/// Consecutive rules: the packets that any of them matches, and the packets of each action.
struct Block {
    matched: Bit,
    actions: BTreeMap<RuleAction, Bit>,
}

/// Returns the packets of `inside` that some rules match. Both halves of the rules are looked at separately
/// first, because their diagrams are smaller than those of all rules together.
fn block(space: &PacketSpace, set: &RuleSet, rules: &[usize], inside: &Bit) -> Block {
    let d = space.diagrams();
    match rules {
        [] => Block { matched: d.no(), actions: BTreeMap::new() },
        [rule] => {
            let rule = &set.rules[*rule];
            let matched = d.and(inside, &space.union(&rule.products));
            Block { matched: matched.clone(), actions: BTreeMap::from([(rule.action.clone(), matched)]) }
        }
        rules => {
            let (first, second) = rules.split_at(rules.len() / 2);
            let mut first = block(space, set, first, inside);
            let second = block(space, set, second, inside);
            for (action, packets) in second.actions {
                let left = d.and_not(&packets, &first.matched);
                if !d.is_never(&left) {
                    let packets = first.actions.entry(action).or_insert_with(|| d.no());
                    *packets = d.or(packets, &left);
                }
            }
            Block { matched: d.or(&first.matched, &second.matched), actions: first.actions }
        }
    }
}

/// Packets that the two sets treat differently, with what is needed to describe them.
struct Found<'a> {
    space: &'a PacketSpace,
    sets: [&'a RuleSet; 2],
    bounds: &'a [RuleBounds; 2],
    /// The packets that were compared.
    compared: &'a [FieldSets],
    packets: Bit,
}

/// The most products that are tried as the beginning of a region.
const MOST_SEEDS: usize = 64;

/// The most rules that are named as deciding about a region, for each set.
const MOST_DECIDERS: usize = 3;

impl Found<'_> {
    fn described(
        &self,
        actions: [RuleAction; 2],
        most: usize,
    ) -> Result<PolicyDifference, DiagramsExhausted> {
        let regions = cover(self.space, &self.packets, &self.seeds(), most)?;
        let deciders = regions.products.iter().map(|region| [0, 1].map(|side| self.deciders(region, side)));
        let deciders = deciders.collect();
        Ok(PolicyDifference { actions, regions, deciders })
    }

    /// Returns the first rules that decide about a region.
    fn deciders(&self, region: &FieldSets, side: usize) -> Vec<Option<usize>> {
        let d = self.space.diagrams();
        let mut rest = self.space.product(region);
        let mut deciders = Vec::new();
        let (set, region) = (self.sets[side], std::slice::from_ref(region));
        for rule in self.bounds[side].overlapping(&set.rules, region, 0..set.rules.len()) {
            let left = d.and_not(&rest, &self.space.union(&set.rules[rule].products));
            if left != rest {
                deciders.push(Some(rule));
                rest = left;
            }
            if d.is_never(&rest) || deciders.len() >= MOST_DECIDERS {
                return deciders;
            }
        }
        deciders.push(None);
        deciders
    }

    /// Returns the products of the rules that the sets do not share, and what pairs of them have in common.
    fn seeds(&self) -> Vec<FieldSets> {
        let d = self.space.diagrams();
        let overlaps = |product: &&FieldSets| d.overlap(&self.space.product(product), &self.packets);
        let single: Vec<&FieldSets> = self.compared.iter().take(4 * MOST_SEEDS).filter(overlaps).collect();
        let pairs = single
            .iter()
            .enumerate()
            .flat_map(|(at, one)| single[at + 1..].iter().filter_map(move |other| one.and(other)));
        single.iter().map(|product| (*product).clone()).chain(pairs).take(MOST_SEEDS).collect()
    }
}
