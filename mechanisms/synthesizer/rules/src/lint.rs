//! Findings about one rule set: rules that decide about no packet, rules whose removal changes nothing, and
//! conflicts between rules.
//!
//! The kinds of conflicts are those of Al-Shaer and Hamed, "Firewall Policy Advisor for Anomaly Discovery and
//! Rule Editing", IM 2003. A rule is needed if some packet would have another fate without it. For most
//! rules, a random packet shows this. Otherwise the packets of the rule are compared, as diagrams, with those
//! of the rules that overlap with it. Rules that are found to be needless are left out when the next rules
//! are judged, so all of them can be removed together.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use verify::model::unions::Unions;

use crate::fields::FieldValues;
use crate::model::{FilterRule, RuleAction, RuleSet};
use crate::overlap::{RuleBounds, contains_each};
use crate::product::FieldSets;
use crate::space::{DiagramsExhausted, PacketSpace};

/// The number of random packets that are tried per rule.
const WITNESSES: usize = 16;

/// The most other rules that a finding names.
pub const MOST_NAMED: usize = 4;

/// The most other rules among whose packets a packet is looked for that shows that a rule is needed.
const MOST_TRIED: usize = 256;

/// The most earlier rules that are looked for which together take the packets of a rule.
const MOST_TAKERS: usize = 64;

/// The kind of a finding about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleFindingKind {
    /// No packet matches the rule.
    Never,
    /// Earlier rules take all packets of the rule, and at least one of them has another action.
    Shadowed,
    /// Without the rule, all packets have the same fate: earlier or later rules, or the default, do the same.
    Redundant,
    /// An earlier rule with another action matches some packets of the rule, and each of the two rules also
    /// matches other packets. So the order of the two decides about the packets that they have in common.
    Correlates,
    /// The rule matches all packets of an earlier rule with another action, which is an exception to it. This
    /// is often meant.
    Generalises,
}

impl RuleFindingKind {
    /// All kinds, the most serious one first.
    pub const ALL: [RuleFindingKind; 5] = [
        RuleFindingKind::Never,
        RuleFindingKind::Shadowed,
        RuleFindingKind::Redundant,
        RuleFindingKind::Correlates,
        RuleFindingKind::Generalises,
    ];

    /// Returns the name of the kind, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            RuleFindingKind::Never => "never",
            RuleFindingKind::Shadowed => "shadowed",
            RuleFindingKind::Redundant => "redundant",
            RuleFindingKind::Correlates => "correlates",
            RuleFindingKind::Generalises => "generalises",
        }
    }
}

/// A finding about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// The kind of the finding.
    pub kind: RuleFindingKind,
    /// The index of the rule.
    pub rule: usize,
    /// The indices of the other rules that the finding is about, in ascending order; at most [`MOST_NAMED`].
    pub others: Vec<usize>,
    /// The number of further rules that the finding is about.
    pub more: usize,
    /// For a shadowed rule, the first of the named earlier rules that has another action.
    pub elsewhere: Option<usize>,
    /// True if the default takes packets of a redundant rule, if the rule is removed.
    pub has_default: bool,
}

impl RuleFinding {
    fn new(kind: RuleFindingKind, rule: usize, mut others: Vec<usize>) -> RuleFinding {
        others.sort_unstable();
        let more = others.len().saturating_sub(MOST_NAMED);
        others.truncate(MOST_NAMED);
        RuleFinding { kind, rule, others, more, elsewhere: None, has_default: false }
    }
}

/// Finds rules that decide about no packet, needless rules and conflicts. The findings are in the order of
/// the rules.
///
/// # Errors
/// If time or memory is not enough.
pub fn lint(set: &RuleSet, space: &PacketSpace) -> Result<Vec<RuleFinding>, DiagramsExhausted> {
    let mut linter = Linter::new(set, space);
    // A written rule can only be removed with all its uses. So if one of them is needed, all of them are
    // there when the other rules are judged.
    let mut kept = HashSet::new();
    let mut findings = loop {
        let findings = linter.removable(&kept)?;
        let mixed = linter.partly_needed();
        if mixed.is_empty() {
            break findings;
        }
        kept.extend(mixed);
    };
    // Without actions of their own, rules do not conflict: the order alone decides.
    let has_actions = set.rules.iter().any(|rule| !matches!(rule.action, RuleAction::Other(_)));
    if has_actions {
        for rule in 0..set.rules.len() {
            space.check()?;
            findings.extend(linter.conflicts(rule)?);
        }
    }
    // A rule that is needed in one of its uses is needed.
    let uses = set.rules.iter().zip(&linter.is_needed).filter(|(_, is_needed)| **is_needed);
    let needed: HashSet<usize> = uses.map(|(rule, _)| rule.origin).collect();
    findings.retain(|finding| {
        finding.kind > RuleFindingKind::Redundant || !needed.contains(&set.rules[finding.rule].origin)
    });
    findings.sort_by_key(|finding| (finding.rule, finding.kind));
    let mut known = HashSet::new();
    findings.retain(|finding| known.insert((set.rules[finding.rule].origin, finding.kind)));
    Ok(findings)
}

struct Linter<'a> {
    rules: &'a [FilterRule],
    default: &'a RuleAction,
    space: &'a PacketSpace,
    bounds: RuleBounds,
    /// For each rule, true if it was not found to be needless.
    is_needed: Vec<bool>,
    /// The packets of the rules, which are needed for the rules about which random packets say nothing.
    unions: OnceCell<Unions>,
    random: fastrand::Rng,
}

impl<'a> Linter<'a> {
    fn new(set: &'a RuleSet, space: &'a PacketSpace) -> Linter<'a> {
        Linter {
            rules: &set.rules,
            default: &set.default,
            space,
            bounds: RuleBounds::new(&set.rules),
            is_needed: vec![true; set.rules.len()],
            unions: OnceCell::new(),
            random: fastrand::Rng::with_seed(1),
        }
    }

    /// Finds the rules that decide about no packet and the needless ones. Rules with the origins in `kept`
    /// are taken to be needed.
    fn removable(&mut self, kept: &HashSet<usize>) -> Result<Vec<RuleFinding>, DiagramsExhausted> {
        self.is_needed.fill(true);
        let mut findings = Vec::new();
        let count = self.rules.len();
        // From the last rule to the first in the second round: then all earlier rules are still there when
        // a rule is judged.
        for (rule, is_second) in
            (0..count).map(|rule| (rule, false)).chain((0..count).rev().map(|r| (r, true)))
        {
            self.space.check()?;
            if kept.contains(&self.rules[rule].origin) {
                continue;
            }
            findings.extend(if is_second { self.needless(rule)? } else { self.hidden(rule)? });
        }
        Ok(findings)
    }

    /// Returns the origins of which some uses are needed, and others, which match packets, are not.
    fn partly_needed(&self) -> HashSet<usize> {
        let uses = || self.rules.iter().zip(&self.is_needed).filter(|(rule, _)| !rule.products.is_empty());
        let of = |wanted: bool| -> HashSet<usize> {
            uses().filter(|(_, needed)| **needed == wanted).map(|(rule, _)| rule.origin).collect()
        };
        of(true).intersection(&of(false)).copied().collect()
    }

    /// Makes a finding. Of the uses of one written rule, it names the first.
    fn finding(&self, kind: RuleFindingKind, rule: usize, mut others: Vec<usize>) -> RuleFinding {
        others.sort_unstable();
        let origin = |rule: usize| self.rules[rule].origin;
        let mut known = HashSet::from([origin(rule)]);
        let distinct: Vec<usize> =
            others.iter().copied().filter(|&other| known.insert(origin(other))).collect();
        RuleFinding::new(kind, rule, if distinct.is_empty() { others } else { distinct })
    }

    /// Returns the needed rules in a range that overlap with a rule.
    fn overlapping(&self, rule: usize, range: Range<usize>) -> Vec<usize> {
        let products = &self.rules[rule].products;
        let all = self.bounds.overlapping(self.rules, products, range);
        all.filter(|&other| self.is_needed[other]).collect()
    }

    /// Tries random packets of a rule. Returns true if `shows` is true for one of them.
    fn is_shown(&mut self, rule: usize, shows: impl Fn(&FieldValues) -> bool) -> bool {
        let products = &self.rules[rule].products;
        (0..WITNESSES).any(|_| {
            let product = &products[self.random.usize(0..products.len())];
            shows(&product.random_packet(&mut self.random))
        })
    }

    /// Tries random packets of a rule that another rule matches, too. Returns true if `shows` is true for one
    /// of them.
    fn is_shown_within(&mut self, rule: usize, other: usize, shows: impl Fn(&FieldValues) -> bool) -> bool {
        let pairs = self.rules[rule]
            .products
            .iter()
            .flat_map(|product| self.rules[other].products.iter().filter_map(|other| product.and(other)));
        let both: Vec<FieldSets> = pairs.take(4).collect();
        both.iter().any(|product| (0..4).any(|_| shows(&product.random_packet(&mut self.random))))
    }

    fn unions(&self) -> &Unions {
        self.unions.get_or_init(|| {
            let conditions = self.rules.iter().map(|rule| self.space.union(&rule.products));
            Unions::new(self.space.diagrams(), conditions.collect())
        })
    }

    /// Returns the finding that a rule decides about no packet, if this is so.
    fn hidden(&mut self, rule: usize) -> Result<Option<RuleFinding>, DiagramsExhausted> {
        let rules = self.rules;
        if rules[rule].products.is_empty() {
            self.is_needed[rule] = false;
            return Ok(Some(self.finding(RuleFindingKind::Never, rule, Vec::new())));
        }
        let earlier = self.overlapping(rule, 0..rule);
        if earlier.is_empty() || self.is_shown(rule, |packet| !earlier.iter().any(|&e| rules[e].has(packet)))
        {
            return Ok(None);
        }
        let is_other = |taker: &usize| rules[*taker].action != rules[rule].action;
        let contains = |other: &&usize| contains_each(&rules[**other].products, &rules[rule].products);
        // A single rule that contains the rule says most about it.
        let mut takers: Vec<usize> = earlier.iter().find(contains).copied().into_iter().collect();
        if takers.is_empty() {
            let d = self.space.diagrams();
            let unions = self.unions();
            let packets = unions.condition(rule);
            let is_hidden = d.is_never(&unions.left(d, rule, packets));
            self.space.check()?;
            if !is_hidden {
                return Ok(None);
            }
            takers = unions.takers(d, rule, packets).take(MOST_TAKERS).collect();
            self.space.check()?;
        }
        let elsewhere = takers.iter().copied().find(is_other);
        self.is_needed[rule] = false;
        let kind = if elsewhere.is_some() { RuleFindingKind::Shadowed } else { RuleFindingKind::Redundant };
        Ok(Some(RuleFinding { elsewhere, ..self.finding(kind, rule, takers) }))
    }

    /// Returns the finding that later rules and the default do the same as a rule, if this is so. A rule for
    /// all packets is not reported, because it states the default.
    fn needless(&mut self, rule: usize) -> Result<Option<RuleFinding>, DiagramsExhausted> {
        let rules = self.rules;
        if !self.is_needed[rule] || rules[rule].is_for_all() {
            return Ok(None);
        }
        let action = &rules[rule].action;
        let later = self.overlapping(rule, rule + 1..rules.len());
        if later.is_empty() && self.default != action {
            return Ok(None);
        }
        let earlier = self.overlapping(rule, 0..rule);
        let default = self.default;
        let shows = |packet: &FieldValues| {
            let next = later.iter().find(|&&later| rules[later].has(packet));
            let next = next.map_or(default, |&later| &rules[later].action);
            next != action && !earlier.iter().any(|&e| rules[e].has(packet))
        };
        // Few random packets of a wide rule are packets of later rules with another action, so such packets
        // are also tried.
        let others = later.iter().copied().filter(|&later| rules[later].action != *action);
        let others: Vec<usize> = others.take(MOST_TRIED).collect();
        if self.is_shown(rule, shows) || others.iter().any(|&other| self.is_shown_within(rule, other, shows))
        {
            return Ok(None);
        }
        if others.is_empty() && default == action {
            self.is_needed[rule] = false;
            let finding = self.finding(RuleFindingKind::Redundant, rule, later);
            let has_default = !finding
                .others
                .iter()
                .any(|&other| contains_each(&rules[other].products, &rules[rule].products));
            return Ok(Some(RuleFinding { has_default, ..finding }));
        }
        // The packets of the rule for which later rules or the default have another action.
        let d = self.space.diagrams();
        let mut rest = self.space.union(&rules[rule].products);
        let mut different = d.no();
        let mut takers = Vec::new();
        for other in later {
            let matched = self.space.union(&rules[other].products);
            let taken = d.and(&rest, &matched);
            if d.is_never(&taken) {
                continue;
            }
            rest = d.and_not(&rest, &matched);
            if rules[other].action == *action {
                takers.push(other)
            } else {
                different = d.or(&different, &taken)
            }
            if d.is_never(&rest) {
                break;
            }
        }
        let has_default = !d.is_never(&rest) && default == action;
        if default != action {
            different = d.or(&different, &rest);
        }
        let is_same = d.is_never(&different) || d.is_never(&self.unions().left(d, rule, &different));
        self.space.check()?;
        if !is_same {
            return Ok(None);
        }
        self.is_needed[rule] = false;
        Ok(Some(RuleFinding { has_default, ..self.finding(RuleFindingKind::Redundant, rule, takers) }))
    }

    /// Returns the conflicts of a rule with earlier rules: at most one finding of each kind.
    fn conflicts(&mut self, rule: usize) -> Result<Vec<RuleFinding>, DiagramsExhausted> {
        let rules = self.rules;
        if !self.is_needed[rule] || rules[rule].is_for_all() {
            return Ok(Vec::new());
        }
        let (mut contained, mut crossing) = (Vec::new(), Vec::new());
        for other in self.overlapping(rule, 0..rule) {
            if rules[other].action == rules[rule].action {
                continue;
            }
            let is_contained = contains_each(&rules[rule].products, &rules[other].products)
                || rules[rule].products.len() > 1 && {
                    let [outer, inner] = [rule, other].map(|rule| self.space.union(&rules[rule].products));
                    let d = self.space.diagrams();
                    d.is_never(&d.and_not(&inner, &outer))
                };
            if is_contained { contained.push(other) } else { crossing.push(other) }
        }
        self.space.check()?;
        let kinds = [(RuleFindingKind::Correlates, crossing), (RuleFindingKind::Generalises, contained)];
        let some = kinds.into_iter().filter(|(_, others)| !others.is_empty());
        Ok(some.map(|(kind, others)| self.finding(kind, rule, others)).collect())
    }
}
