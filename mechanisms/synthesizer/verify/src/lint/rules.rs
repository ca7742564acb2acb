//! Idle rules: rules of an element that decide about no packet, because earlier rules take every packet
//! that they match, or no packet matches them.

use element::effects::{Effects, Written};

use crate::model::arrival::Waiting;
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::functions::Functions;
use crate::model::step::Unit;
use crate::model::unions::Unions;
use program::chain::ChainNode;

/// The maximum number of earlier rules that are recorded, per arriving symbolic packet, as the rules that
/// together take all packets of an idle rule.
const MOST_COVERS: usize = 64;

/// The number of random packets that are tried per rule. If a tried packet shows that the rule decides about
/// packets, the slower test with diagrams is not needed.
const WITNESSES: usize = 8;

/// The maximum number of covering rules that a report names.
pub const MOST_NAMED: usize = 4;

/// A rule that decides about no packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRule {
    /// The number of the element that has the rule.
    pub node: usize,
    /// The rule, with its place in the configuration.
    pub rule: Written,
    /// Earlier rules that take packets that match the idle rule; at most [`MOST_NAMED`], so there may be
    /// more. Empty if no packet that arrives matches the rule.
    pub covered_by: Vec<Written>,
    /// The first earlier rule that takes some of the idle rule's packets and does something else with them
    /// than the idle rule would: another destination or other changes. `None` if there is no such rule: the
    /// idle rule is redundant, or no packet matches it.
    pub elsewhere: Option<Written>,
}

/// The use of one element's rules (the cases of its declaration) by all packets that arrive.
pub struct Usage {
    /// For each case, true if it has decided about a packet.
    decides: Vec<bool>,
    /// For each case, the earlier cases that took its packets, without duplicates; at most [`MOST_COVERS`]
    /// per arrival, the last case of an arrival first.
    covers: Vec<Vec<usize>>,
    /// For each case, the first earlier case that takes some of its packets and treats them in another way.
    elsewhere: Vec<Option<usize>>,
}

impl Usage {
    /// Returns an empty record for the cases of a declaration.
    pub fn new(effects: &Effects) -> Usage {
        let n = effects.cases.len();
        Usage { decides: vec![false; n], covers: vec![Vec::new(); n], elsewhere: vec![None; n] }
    }

    /// Records the use of the rules by the packets that wait at the element.
    pub fn see(&mut self, d: &Diagrams, node: &ChainNode, waiting: &Waiting) {
        for (&input, arrivals) in waiting {
            for arrival in arrivals {
                let functions = Functions::default();
                let unit = Unit::of(node, &functions, 0, input);
                let Some(mut cases) = unit.conditions(d, &arrival.condition, &arrival.packet) else {
                    // Nothing is known of the packets that arrive, or of the element, so each rule may decide
                    // about them.
                    self.decides.fill(true);
                    return;
                };
                cases.retain(|(_, when)| !d.is_never(when));
                self.compare(d, &node.effects, &cases);
            }
        }
    }

    /// Records which of `cases` decide about a packet. For each other case, records the earlier cases that
    /// take its packets. Each case is given by its index and by the packets that its filter accepts. Cases
    /// that the user has not written as rules are not recorded.
    fn compare(&mut self, d: &Diagrams, effects: &Effects, cases: &[(usize, Bit)]) {
        let unions = Unions::new(d, cases.iter().map(|(_, when)| when.clone()).collect());
        let mut random = fastrand::Rng::with_seed(1);
        for (place, (case, when)) in cases.iter().enumerate() {
            if effects.cases[*case].written.is_none() {
                continue;
            }
            // For most rules that decide, a random packet that they accept and no earlier rule does is
            // found at once.
            self.decides[*case] |= (0..WITNESSES).any(|_| {
                let witness = d.witness(when, &mut || random.bool());
                witness.is_some_and(|values| !unions.take(d, place, &values))
            });
            if self.decides[*case] {
                continue;
            }
            let mut rest = when.clone();
            let mut before = place;
            let mut covers = Vec::new();
            while !d.is_never(&rest) && covers.len() < MOST_COVERS {
                let Some(last) = unions.last_needed(d, before, &rest) else {
                    // The earlier rules together do not take all packets that this rule matches, so this rule
                    // decides about some packets.
                    self.decides[*case] = covers.is_empty();
                    break;
                };
                covers.push(cases[last].0);
                rest = d.and_not(&rest, &cases[last].1);
                before = last;
            }
            if !self.decides[*case] {
                let fate = |case: usize| (&effects.cases[case].to, &effects.cases[case].actions);
                let mut takers = unions.takers(d, place, when).map(|taker| cases[taker].0);
                let other = takers.find(|&taker| fate(taker) != fate(*case));
                self.elsewhere[*case] = self.elsewhere[*case].or(other);
            }
            for cover in covers {
                if !self.covers[*case].contains(&cover) {
                    self.covers[*case].push(cover);
                }
            }
        }
    }

    /// Returns the rules that have decided about no packet. `node` is the number of the element, `effects`
    /// its declaration.
    pub fn idle(self, node: usize, effects: &Effects) -> Vec<IdleRule> {
        let Usage { decides, covers, elsewhere } = self;
        let idle = (0..decides.len()).filter(|&case| !decides[case]);
        idle.filter_map(|case| {
            let rule = effects.cases[case].written?;
            let named = covers[case].iter().filter_map(|&cover| effects.cases[cover].written);
            let covered_by = named.take(MOST_NAMED).collect();
            let elsewhere = elsewhere[case].and_then(|other| effects.cases[other].written);
            Some(IdleRule { node, rule, covered_by, elsewhere })
        })
        .collect()
    }
}
