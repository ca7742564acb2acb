//! All answers about small random rule sets are compared with the decisions about every kind of packet.

use classify::IntervalSet;
use proptest::prelude::*;
use rules::ask::ask;
use rules::diff::diff;
use rules::fields::{FIELDS, FieldValues, PacketField};
use rules::lint::{RuleFindingKind, lint};
use rules::merge::merge;
use rules::model::{FilterRule, RuleAction, RulePlace, RuleSet};
use rules::product::FieldSets;
use rules::read::chains::{ChainRule, ChainStep, RuleChains, flatten};
use rules::regions::PacketRegions;
use rules::space::PacketSpace;

/// The fields that the rules restrict, to values below [`VALUES`]. The value `VALUES` stands for all others.
const USED: [PacketField; 3] =
    [PacketField::Protocol, PacketField::Destination, PacketField::DestinationPort];
const VALUES: u128 = 5;

/// Returns a packet of each kind that the rules can tell apart.
fn packets() -> Vec<FieldValues> {
    let mut all = Vec::new();
    for a in 0..=VALUES {
        for b in 0..=VALUES {
            for c in 0..=VALUES {
                let mut packet = [0; FIELDS];
                for (field, value) in USED.into_iter().zip([a, b, c]) {
                    packet[field as usize] = value;
                }
                all.push(packet);
            }
        }
    }
    all
}

fn product() -> impl Strategy<Value = FieldSets> {
    prop::collection::vec((0usize..3, 0..VALUES, 0u128..3), 0..4).prop_map(|ranges| {
        ranges.into_iter().fold(FieldSets::ALL, |product, (field, low, size)| {
            let set = IntervalSet::one(low, (low + size).min(VALUES - 1));
            product.with(USED[field], &set).unwrap_or(product)
        })
    })
}

fn rule_set() -> impl Strategy<Value = RuleSet> {
    let action = prop_oneof![Just(RuleAction::Accept), Just(RuleAction::Drop), Just(RuleAction::Output(1))];
    let rule = (prop::collection::vec(product(), 0..3), action);
    prop::collection::vec(rule, 0..8).prop_map(|rules| {
        let rule = |(origin, (products, action))| {
            let place = RulePlace { file: "rules".into(), line: Some(origin + 1), name: String::new() };
            FilterRule { products, action, place, origin, text: String::new() }
        };
        let rules = rules.into_iter().enumerate().map(rule).collect();
        RuleSet { name: "rules".into(), rules, default: RuleAction::Drop, notes: Vec::new(), hook: None }
    })
}

fn has(regions: &PacketRegions, packet: &FieldValues) -> bool {
    regions.products.iter().any(|product| product.has(packet))
}

fn action<'s>(set: &'s RuleSet, packet: &FieldValues) -> &'s RuleAction {
    set.action(set.decider(packet))
}

fn without(set: &RuleSet, removed: &[usize]) -> RuleSet {
    let kept = set.rules.iter().enumerate().filter(|(index, _)| !removed.contains(index));
    RuleSet { rules: kept.map(|(_, rule)| rule.clone()).collect(), ..set.clone() }
}

/// Generates three chains, of which each can call those after it.
fn chains() -> impl Strategy<Value = RuleChains> {
    let step = prop_oneof![
        3 => Just(ChainStep::Decide(RuleAction::Accept)),
        3 => Just(ChainStep::Decide(RuleAction::Drop)),
        1 => Just(ChainStep::Return),
        3 => (0usize..2).prop_map(|ahead| ChainStep::Jump(ahead.to_string())),
        1 => (0usize..2).prop_map(|ahead| ChainStep::Goto(ahead.to_string())),
    ];
    let rule = (prop::collection::vec(product(), 1..3), step);
    prop::collection::vec(prop::collection::vec(rule, 0..6), 3).prop_map(|chains| {
        let mut origin = 0;
        let mut all = RuleChains::new();
        for (number, rules) in chains.into_iter().enumerate() {
            let mut chain = Vec::new();
            for (products, step) in rules {
                let target = |ahead: &str| (number + 1 + ahead.parse::<usize>().unwrap()).to_string();
                let step = match step {
                    ChainStep::Jump(ahead) if target(&ahead).as_str() < "3" => {
                        ChainStep::Jump(target(&ahead))
                    }
                    ChainStep::Goto(ahead) if target(&ahead).as_str() < "3" => {
                        ChainStep::Goto(target(&ahead))
                    }
                    ChainStep::Jump(_) | ChainStep::Goto(_) => ChainStep::Decide(RuleAction::Accept),
                    step => step,
                };
                chain.push(ChainRule {
                    products,
                    step,
                    place: RulePlace::default(),
                    origin,
                    text: String::new(),
                });
                origin += 1;
            }
            all.insert(number.to_string(), chain);
        }
        all
    })
}

/// Returns the decision of a chain about a packet, rule by rule, without the rules with some origins.
fn interpreted(
    chains: &RuleChains,
    name: &str,
    packet: &FieldValues,
    removed: &[usize],
) -> Option<RuleAction> {
    for rule in chains[name].iter().filter(|rule| !removed.contains(&rule.origin)) {
        if !rule.products.iter().any(|product| product.has(packet)) {
            continue;
        }
        match &rule.step {
            ChainStep::Decide(action) => return Some(action.clone()),
            ChainStep::Return => return None,
            ChainStep::Goto(target) => return interpreted(chains, target, packet, removed),
            ChainStep::Jump(target) => {
                if let Some(action) = interpreted(chains, target, packet, removed) {
                    return Some(action);
                }
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Chains that are called from several places decide as their rules do one after another, also without
    /// the rules that are found to be needless.
    #[test]
    fn chains_decide_as_their_rules_one_after_another(chains in chains()) {
        let set = flatten(&chains, "0", RuleAction::Drop, "set".into()).unwrap();
        let space = PacketSpace::new(1 << 16, None);
        let findings = lint(&set, &space).unwrap();
        let needless = findings.iter().filter(|finding| finding.kind <= RuleFindingKind::Redundant);
        let removed: Vec<usize> = needless.map(|finding| set.rules[finding.rule].origin).collect();
        for packet in packets() {
            let expected = interpreted(&chains, "0", &packet, &[]).unwrap_or(RuleAction::Drop);
            prop_assert_eq!(action(&set, &packet), &expected);
            let shorter = interpreted(&chains, "0", &packet, &removed).unwrap_or(RuleAction::Drop);
            prop_assert_eq!(shorter, expected);
        }
        let mut kinds: Vec<_> = findings.iter().map(|f| (set.rules[f.rule].origin, f.kind)).collect();
        kinds.sort();
        prop_assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "each finding once: {kinds:?}");
        prop_assert!(merge(&set, &findings, &space).unwrap().is_proven);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The rules that are found to be needless can be removed together, and each of the others is needed
    /// then, except for rules for all packets, which state the default.
    #[test]
    fn needless_rules_are_those_whose_removal_changes_nothing(set in rule_set()) {
        let space = PacketSpace::new(1 << 16, None);
        let findings = lint(&set, &space).unwrap();
        let needless = findings.iter().filter(|finding| finding.kind <= RuleFindingKind::Redundant);
        let removed: Vec<usize> = needless.map(|finding| finding.rule).collect();
        let shorter = without(&set, &removed);
        let packets = packets();
        for packet in &packets {
            prop_assert_eq!(action(&set, packet), action(&shorter, packet));
        }
        for index in 0..shorter.rules.len() {
            let rest = without(&shorter, &[index]);
            let is_needed = packets.iter().any(|packet| action(&shorter, packet) != action(&rest, packet));
            prop_assert!(is_needed || shorter.rules[index].is_for_all(), "{:?} of {:?}", index, shorter);
        }
        for finding in findings.iter().filter(|finding| finding.kind == RuleFindingKind::Shadowed) {
            // The named rule does something else, and matches packets of the rule.
            let rule = &set.rules[finding.rule];
            let elsewhere = &set.rules[finding.elsewhere.unwrap()];
            prop_assert!(finding.elsewhere < Some(finding.rule) && elsewhere.action != rule.action);
            prop_assert!(packets.iter().any(|packet| rule.has(packet) && elsewhere.has(packet)));
        }
    }

    #[test]
    fn conflicts_are_those_of_pairs(set in rule_set()) {
        let space = PacketSpace::new(1 << 16, None);
        let findings = lint(&set, &space).unwrap();
        let packets = packets();
        for finding in findings.iter().filter(|finding| finding.kind > RuleFindingKind::Redundant) {
            let rule = &set.rules[finding.rule];
            for &other in &finding.others {
                let other = &set.rules[other];
                let both = packets.iter().filter(|packet| rule.has(packet) && other.has(packet)).count();
                let only_other = packets.iter().any(|packet| other.has(packet) && !rule.has(packet));
                prop_assert!(both > 0 && rule.action != other.action);
                prop_assert_eq!(only_other, finding.kind == RuleFindingKind::Correlates);
            }
        }
    }

    #[test]
    fn differences_are_the_packets_with_other_actions(a in rule_set(), b in rule_set(), edit in 0usize..4) {
        // In most cases, the second set is the first one with a change.
        let b = match edit {
            0 => b,
            1 => without(&a, &[0]),
            2 => RuleSet { rules: a.rules.iter().cloned().chain(b.rules.first().cloned()).collect(), ..a.clone() },
            _ => RuleSet { rules: a.rules.iter().rev().cloned().collect(), ..a.clone() },
        };
        let space = PacketSpace::new(1 << 16, None);
        let differences = diff([&a, &b], &space, 100).unwrap();
        for packet in packets() {
            let actions = [action(&a, &packet).clone(), action(&b, &packet).clone()];
            let found: Vec<_> = differences.iter().filter(|found| has(&found.regions, &packet)).collect();
            prop_assert_eq!(found.len(), usize::from(actions[0] != actions[1]));
            prop_assert!(found.iter().all(|found| found.actions == actions));
        }
        prop_assert!(differences.iter().all(|found| !found.regions.has_more));
    }

    #[test]
    fn answers_name_the_rules_that_decide(set in rule_set(), question in product()) {
        let space = PacketSpace::new(1 << 16, None);
        let answers = ask(&set, &space, std::slice::from_ref(&question), 100).unwrap();
        for packet in packets().into_iter().filter(|packet| question.has(packet)) {
            let fits = |answer: &&rules::ask::RuleAnswer| {
                answer.regions.as_ref().is_none_or(|regions| has(regions, &packet))
            };
            let found: Vec<_> = answers.iter().filter(fits).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].rule, set.decider(&packet));
        }
    }

    #[test]
    fn shorter_rules_do_the_same(set in rule_set()) {
        let space = PacketSpace::new(1 << 16, None);
        let findings = lint(&set, &space).unwrap();
        let shorter = merge(&set, &findings, &space).unwrap();
        prop_assert!(shorter.is_proven);
        prop_assert!(shorter.set.rules.len() + shorter.removed.len() <= set.rules.len());
        for packet in packets() {
            prop_assert_eq!(action(&set, &packet), action(&shorter.set, &packet));
        }
    }
}

/// A rule whose uses are not all needless is no finding, and none of its uses is taken to be gone.
#[test]
fn a_rule_that_one_call_needs_is_needed() {
    let text = "*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n-A INPUT -s 10.0.0.0/24 -j DROP\n\
                -A INPUT -s 10.0.0.0/24 -j web\n-A INPUT -s 10.1.0.0/24 -j web\n\
                -A web -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let set = rules::read::iptables::read("fw", text, None).unwrap();
    let space = PacketSpace::new(1 << 16, None);
    let findings = lint(&set, &space).unwrap();
    assert!(findings.iter().all(|finding| finding.kind > RuleFindingKind::Redundant), "{findings:?}");
    assert!(merge(&set, &findings, &space).unwrap().is_proven);
}

#[test]
fn findings_end_at_the_deadline() {
    // No diagram is needed for these rules.
    let text: String = (1..100).map(|port| format!("allow dst tcp port {port}\n")).collect();
    let set = rules::read::lines::list("rules", &text).unwrap();
    let wait = std::time::Duration::from_millis(20);
    let space = PacketSpace::new(1 << 16, Some(std::time::Instant::now() + wait));
    std::thread::sleep(2 * wait);
    assert!(lint(&set, &space).is_err());
}
