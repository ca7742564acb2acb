//! Chains of rules that call each other, as in nftables and iptables, as one list of rules.
//!
//! A rule of a called chain matches the packets that reach the chain and match the rule. Packets that leave a
//! chain early (`return`, `goto`) are taken out of the packets of its later rules.

use std::collections::{BTreeMap, HashSet};

use super::RuleError;
use crate::model::{FilterRule, RuleAction, RulePlace, RuleSet};
use crate::product::{FieldSets, meet, minus};

/// The most chains that are being called at a time.
const DEEPEST_CALL: usize = 16;

/// The most calls of chains.
const MOST_CALLS: usize = 1 << 16;

/// The most rules of the list.
const MOST_RULES: usize = 1 << 20;

/// The effect of a rule in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainStep {
    /// The rule decides about packets.
    Decide(RuleAction),
    /// Packets go through another chain, and come back if it does not decide.
    Jump(String),
    /// Packets go through another chain, and then on as if this chain had ended.
    Goto(String),
    /// Packets leave the chain.
    Return,
}

/// A rule in a chain: packets, and what happens to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainRule {
    /// The packets that match the rule.
    pub products: Vec<FieldSets>,
    /// The effect of the rule.
    pub step: ChainStep,
    /// The place of the rule.
    pub place: RulePlace,
    /// The number of the written rule; see [`FilterRule::origin`].
    pub origin: usize,
    /// The text of the rule.
    pub text: String,
}

/// Chains by their names.
pub type RuleChains = BTreeMap<String, Vec<ChainRule>>;

/// Returns the rules of a chain and of all chains that it calls, as one list. Packets about which no rule
/// decides get the action `policy`.
///
/// # Errors
/// If a chain does not exist, chains call each other in a circle, or the list would be too long.
pub fn flatten(
    chains: &RuleChains,
    start: &str,
    policy: RuleAction,
    name: String,
) -> Result<RuleSet, Vec<RuleError>> {
    let mut flattening = Flattening {
        chains,
        rules: Vec::new(),
        never: BTreeMap::new(),
        calls: Vec::new(),
        called: 0,
        seen: 0,
    };
    flattening.chain(start, vec![FieldSets::ALL]).map_err(|error| vec![error])?;
    let Flattening { mut rules, never, .. } = flattening;
    // A rule that no packet reaches in any call of its chain is kept once, so that it is reported.
    let mut known: HashSet<usize> = rules.iter().map(|rule| rule.origin).collect();
    rules.extend(never.into_values().filter(|rule| known.insert(rule.origin)));
    Ok(RuleSet { name, rules, default: policy, notes: Vec::new(), hook: None })
}

struct Flattening<'c> {
    chains: &'c RuleChains,
    rules: Vec<FilterRule>,
    /// Rules that no packet reached in a call, one for each written rule.
    never: BTreeMap<usize, FilterRule>,
    /// The names of the chains that are being called.
    calls: Vec<String>,
    /// The number of calls so far.
    called: usize,
    /// The number of rules of all calls so far.
    seen: usize,
}

impl Flattening<'_> {
    fn chain(&mut self, name: &str, mut packets: Vec<FieldSets>) -> Result<(), RuleError> {
        let Some(chain) = self.chains.get(name) else { return Ok(()) };
        self.calls.push(name.to_string());
        for rule in chain {
            let error = |text: String| RuleError { place: rule.place.clone(), text };
            self.seen += 1;
            if self.seen > MOST_RULES {
                return Err(error(format!("the chains become more than {MOST_RULES} rules")));
            }
            let matched = meet(&packets, &rule.products).map_err(|many| error(many.to_string()))?;
            match &rule.step {
                ChainStep::Decide(action) => {
                    let is_never = matched.is_empty();
                    let rule = FilterRule {
                        products: matched,
                        action: action.clone(),
                        place: rule.place.clone(),
                        origin: rule.origin,
                        text: rule.text.clone(),
                    };
                    if is_never {
                        self.never.entry(rule.origin).or_insert(rule);
                    } else {
                        self.rules.push(rule);
                    }
                }
                ChainStep::Jump(target) | ChainStep::Goto(target) => {
                    if !self.chains.contains_key(target) {
                        return Err(error(format!("there is no chain {target}")));
                    }
                    if self.calls.contains(target) {
                        return Err(error(format!("the chain {target} calls itself")));
                    }
                    if self.calls.len() >= DEEPEST_CALL {
                        return Err(error(format!("more than {DEEPEST_CALL} chains call each other")));
                    }
                    self.called += 1;
                    if self.called > MOST_CALLS {
                        return Err(error(format!("chains are called more than {MOST_CALLS} times")));
                    }
                    if !matched.is_empty() {
                        self.chain(target, matched.clone())?;
                    }
                    if matches!(rule.step, ChainStep::Goto(_)) {
                        packets = minus(&packets, &matched).map_err(|many| error(many.to_string()))?;
                    }
                }
                ChainStep::Return => {
                    packets = minus(&packets, &matched).map_err(|many| error(many.to_string()))?;
                }
            }
        }
        self.calls.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrase::whole_phrase;
    use crate::question::question;

    fn rule(origin: usize, phrase: &str, step: ChainStep) -> ChainRule {
        let products = question(phrase).unwrap();
        ChainRule { products, step, place: RulePlace::default(), origin, text: String::new() }
    }

    fn flat(chains: &[(&str, Vec<ChainRule>)]) -> Result<Vec<(String, RuleAction)>, String> {
        let chains = chains.iter().map(|(name, rules)| (name.to_string(), rules.clone())).collect();
        let set = flatten(&chains, "input", RuleAction::Drop, "set".into());
        let set = set.map_err(|errors| errors[0].text.clone())?;
        let phrase =
            |rule: &FilterRule| rule.products.iter().map(whole_phrase).collect::<Vec<_>>().join(" or ");
        Ok(set.rules.iter().map(|rule| (phrase(rule), rule.action.clone())).collect())
    }

    fn jump(name: &str) -> ChainStep {
        ChainStep::Jump(name.into())
    }

    #[test]
    fn called_chains_have_the_packets_of_the_call() {
        let accept = || ChainStep::Decide(RuleAction::Accept);
        let services = vec![
            rule(3, "ip from 10.0.0.0/8 to any", ChainStep::Return),
            rule(4, "tcp to any port 22", accept()),
        ];
        let input = vec![rule(0, "tcp to 192.0.2.0/24", jump("services")), rule(1, "udp to any", accept())];
        let flat = flat(&[("input", input), ("services", services)]).unwrap();
        assert_eq!(flat[0].0, "tcp from any but 10.0.0.0/8 to 192.0.2.0/24 port 22");
        assert_eq!(flat[1].0, "udp from any to any");
    }

    #[test]
    fn goto_does_not_come_back() {
        let accept = || ChainStep::Decide(RuleAction::Accept);
        let input =
            vec![rule(0, "tcp to any", ChainStep::Goto("other".into())), rule(1, "ip to any", accept())];
        let flat = flat(&[("input", input), ("other", vec![])]).unwrap();
        assert_eq!(flat, [("any but tcp from any to any".to_string(), RuleAction::Accept)]);
    }

    #[test]
    fn rules_that_nothing_reaches_are_kept_once() {
        let accept = || ChainStep::Decide(RuleAction::Accept);
        let input = vec![rule(0, "tcp to any", jump("other")), rule(1, "udp to any", jump("other"))];
        let other = vec![rule(2, "icmp to any", accept()), rule(3, "udp to any", accept())];
        let flat = flat(&[("input", input), ("other", other)]).unwrap();
        assert_eq!(
            flat.iter().map(|(phrase, _)| phrase.as_str()).collect::<Vec<_>>(),
            ["udp from any to any", ""]
        );
    }

    #[test]
    fn the_rules_of_all_calls_are_bounded() {
        let accept = || ChainStep::Decide(RuleAction::Accept);
        let jumps = (0..2000).map(|number| rule(number, "tcp to any", jump("other")));
        let other = (0..1000).map(|number| rule(2000 + number, "udp to any", accept()));
        let flat = flat(&[("input", jumps.collect()), ("other", other.collect())]);
        assert_eq!(flat, Err(format!("the chains become more than {MOST_RULES} rules")));
    }

    #[test]
    fn wrong_calls_are_errors() {
        let to = |name: &str| vec![rule(0, "ip to any", jump(name))];
        assert_eq!(flat(&[("input", to("missing"))]), Err("there is no chain missing".into()));
        let circle = flat(&[("input", to("a")), ("a", to("b")), ("b", to("a"))]);
        assert_eq!(circle, Err("the chain a calls itself".into()));
    }
}
