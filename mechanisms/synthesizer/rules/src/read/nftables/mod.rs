//! The JSON of `nft -j list ruleset` (libnftables-json(5)): the chains of one base chain of type `filter`.

mod matching;

use std::collections::BTreeMap;

use classify::IntervalSet;
use serde_json::Value;

use super::RuleError;
use super::chains::{ChainRule, ChainStep, RuleChains, flatten};
use crate::fields::PacketField;
use crate::model::{REJECTS, RuleAction, RulePlace, RuleSet};
use crate::product::{FieldSets, meet};
use matching::{Matching, NamedSets, changing_of};

/// Statements that do not decide about packets, and change nothing that rules here test.
const PASSING: [&str; 5] = ["counter", "log", "comment", "last", "set"];

/// Statements that depend on time or on earlier packets.
const CHANGING: [&str; 5] = ["limit", "quota", "meter", "ct count", "connlimit"];

/// Reads a base chain of type `filter`, with the chains that it calls. `chain` is its name, or its family,
/// table and name; it is not needed if there is only one with rules.
///
/// # Errors
/// If the text is not such JSON, or rules have no exact meaning here.
pub fn read(file: &str, text: &str, chain: Option<&str>) -> Result<RuleSet, Vec<RuleError>> {
    let error = |name: String, text: String| RuleError {
        place: RulePlace { file: file.into(), line: None, name },
        text,
    };
    let json: Value = serde_json::from_str(text).map_err(|wrong| {
        let place = RulePlace { file: file.into(), line: Some(wrong.line()), name: String::new() };
        vec![RuleError { place, text: format!("this is not JSON: {wrong}; write `nft -j list ruleset`") }]
    })?;
    let Some(objects) = json.get("nftables").and_then(Value::as_array) else {
        return Err(vec![error(
            String::new(),
            "there is no list 'nftables'; write `nft -j list ruleset`".into(),
        )]);
    };
    let all = Objects::of(objects);
    let base = all.base(chain).map_err(|text| vec![error(String::new(), text)])?;
    let mut chains = RuleChains::new();
    for chain in all.chains.iter().filter(|chain| chain.table == base.table) {
        chains.insert(chain.name.clone(), Vec::new());
    }
    let mut errors = Vec::new();
    let mut others = 0;
    for (origin, rule) in all.rules.iter().enumerate().filter(|(_, rule)| rule.table == base.table) {
        let name = format!("{} {} handle {}", rule.table, rule.chain, rule.handle);
        let place = RulePlace { file: file.into(), line: None, name: name.clone() };
        match steps(rule.expressions, &Matching { sets: &all.sets, table: &rule.table }) {
            Ok(Steps { is_other_version: true, .. }) => others += 1,
            Ok(Steps { steps, .. }) => {
                let text = rule.comment.to_string();
                let rules = steps.into_iter().map(|(products, step)| ChainRule {
                    products,
                    step,
                    place: place.clone(),
                    origin,
                    text: text.clone(),
                });
                chains.entry(rule.chain.clone()).or_default().extend(rules);
            }
            Err(text) => errors.push(error(name, text)),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let name = format!("{file} {} {}", base.table, base.name);
    let mut set = flatten(&chains, &base.name, base.policy.clone(), name)?;
    set.hook = Some(base.hook.clone()).filter(|hook| !hook.is_empty());
    // The comment of a rule says what it is for; the packets are described from the rule itself.
    set.rules.iter_mut().for_each(|rule| rule.text.clear());
    if others > 0 {
        set.notes.push(format!("{file}: rules that match no IPv4 packets were left out: {others}"));
    }
    Ok(set)
}

/// A chain of the JSON; a base chain has a policy.
struct NftChain {
    /// The family and the name of the table.
    table: String,
    name: String,
    /// True if the kernel calls the chain, and it only accepts or drops packets.
    is_filter: bool,
    policy: RuleAction,
    /// The hook at which the kernel calls the chain.
    hook: String,
}

struct NftRule<'j> {
    table: String,
    chain: String,
    handle: u64,
    comment: &'j str,
    expressions: &'j [Value],
}

/// The objects of the JSON by kind.
struct Objects<'j> {
    chains: Vec<NftChain>,
    rules: Vec<NftRule<'j>>,
    sets: NamedSets<'j>,
}

impl<'j> Objects<'j> {
    fn of(objects: &'j [Value]) -> Objects<'j> {
        let mut all = Objects { chains: Vec::new(), rules: Vec::new(), sets: BTreeMap::new() };
        for object in objects.iter().filter_map(Value::as_object) {
            let Some((kind, value)) = object.iter().next() else { continue };
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let table = format!("{} {}", text("family"), text("table"));
            match kind.as_str() {
                "chain" => all.chains.push(NftChain {
                    table,
                    name: text("name").into(),
                    is_filter: text("type") == "filter" && !["ip6", "arp"].contains(&text("family")),
                    policy: if text("policy") == "drop" { RuleAction::Drop } else { RuleAction::Accept },
                    hook: text("hook").into(),
                }),
                "rule" => all.rules.push(NftRule {
                    table,
                    chain: text("chain").into(),
                    handle: value.get("handle").and_then(Value::as_u64).unwrap_or_default(),
                    comment: text("comment"),
                    expressions: value.get("expr").and_then(Value::as_array).map_or(&[], Vec::as_slice),
                }),
                "set" | "map" => {
                    all.sets.insert((table, text("name").to_string()), value);
                }
                _ => {}
            }
        }
        all
    }

    /// Returns the base chain to read: the given one, or the only one with rules.
    fn base(&self, wanted: Option<&str>) -> Result<&NftChain, String> {
        let bases = self.chains.iter().filter(|chain| chain.is_filter);
        let whole = |chain: &NftChain| format!("{} {}", chain.table, chain.name);
        let list =
            |chains: &[&NftChain]| chains.iter().map(|chain| whole(chain)).collect::<Vec<_>>().join(", ");
        let bases: Vec<&NftChain> = bases.collect();
        let fits = |chain: &&NftChain| match wanted {
            Some(name) => chain.name == name || whole(chain) == name,
            None => self.rules.iter().any(|rule| rule.table == chain.table && rule.chain == chain.name),
        };
        let fitting: Vec<&NftChain> = bases.iter().copied().filter(fits).collect();
        match (&fitting[..], wanted) {
            ([only], _) => Ok(*only),
            ([], _) if bases.is_empty() => {
                Err("there is no base chain of type filter for IPv4; IPv6 and NAT are not analysed".into())
            }
            ([], Some(name)) => {
                Err(format!("there is no base chain {name} of type filter; there are: {}", list(&bases)))
            }
            ([], None) => Err(format!("no base chain has rules; there are: {}", list(&bases))),
            (several, _) => {
                Err(format!("several chains are possible; write --chain with one of: {}", list(several)))
            }
        }
    }
}

/// The meaning of one rule: packets with their fates, in order.
#[derive(Default)]
struct Steps {
    steps: Vec<(Vec<FieldSets>, ChainStep)>,
    /// True if the rule is only about packets that are not IPv4.
    is_other_version: bool,
}

/// Returns the meaning of the statements of a rule.
fn steps(expressions: &[Value], matching: &Matching<'_>) -> Result<Steps, String> {
    let mut products = vec![FieldSets::ALL];
    let mut found = Steps::default();
    for expression in expressions {
        let (kind, value) = parts(expression).ok_or_else(|| format!("a statement is wrong: {expression}"))?;
        match kind {
            "match" => match matching.products(value)? {
                Some(matched) => products = meet(&products, &matched).map_err(|many| many.to_string())?,
                None => return Ok(Steps { is_other_version: true, ..Steps::default() }),
            },
            "vmap" => {
                let key = value.get("key").ok_or("a verdict map has no key")?;
                let data = value.get("data").ok_or("a verdict map has no data")?;
                for (element, verdict) in matching.map_elements(data)? {
                    let Some(matched) = matching.equal(key, element)? else { continue };
                    // Elements for other versions of IP are left out.
                    if matched.is_empty() {
                        continue;
                    }
                    let packets = meet(&products, &matched).map_err(|many| many.to_string())?;
                    let step = parts(verdict).and_then(step).ok_or_else(|| unknown(verdict))?;
                    found.steps.extend(step.map(|step| (packets, step)));
                }
            }
            "mangle" if is_mark(value) => {}
            "set" if let Some(statement) = value.get("stmt").and_then(changing_of) => {
                return Err(format!(
                    "the statement '{statement}' in a 'set' depends on time or on earlier packets; remove the rule to \
                     analyse the others"
                ));
            }
            "reject" if value.get("type").and_then(Value::as_str) == Some("icmpv6") => {
                return Ok(Steps { is_other_version: true, ..Steps::default() });
            }
            kind if PASSING.contains(&kind) => {}
            kind if CHANGING.contains(&kind) => {
                return Err(format!(
                    "the statement '{kind}' depends on time or on earlier packets; remove the rule to analyse the others"
                ));
            }
            _ => {
                let step = step((kind, value)).ok_or_else(|| unknown(expression))?;
                // nftables adds a condition for TCP to a rule that answers with a reset.
                if step == Some(ChainStep::Decide(RuleAction::Reject("tcp-reset".into()))) {
                    let tcp = FieldSets::of(PacketField::Protocol, IntervalSet::one(6, 6));
                    let tcp: Vec<FieldSets> = tcp.into_iter().collect();
                    products = meet(&products, &tcp).map_err(|many| many.to_string())?;
                }
                found.steps.extend(step.map(|step| (products.clone(), step)));
                // What follows a verdict is never executed.
                break;
            }
        }
    }
    Ok(found)
}

/// Returns the name and the parameters of a statement. Some statements without parameters are texts.
fn parts(statement: &Value) -> Option<(&str, &Value)> {
    match statement {
        Value::String(name) => Some((name, &Value::Null)),
        statement => statement.as_object()?.iter().next().map(|(name, value)| (name.as_str(), value)),
    }
}

fn unknown(statement: &Value) -> String {
    let name = parts(statement).map_or("?", |(name, _)| name);
    format!(
        "the statement '{name}' has no meaning for `tidegate rules`; remove the rule to analyse the others"
    )
}

/// True if a statement sets a mark of the packet or connection, which rules here cannot test.
fn is_mark(value: &Value) -> bool {
    let key = value.get("key");
    let of = |kind: &str| key.and_then(|key| key.get(kind)?.get("key")?.as_str());
    of("meta").or(of("ct")) == Some("mark")
}

/// Returns the effect of a verdict; `Some(None)` for `continue`, and `None` for other statements.
fn step((kind, value): (&str, &Value)) -> Option<Option<ChainStep>> {
    let target = || Some(value.get("target")?.as_str()?.to_string());
    Some(Some(match kind {
        "accept" => ChainStep::Decide(RuleAction::Accept),
        "drop" => ChainStep::Decide(RuleAction::Drop),
        "reject" => ChainStep::Decide(RuleAction::Reject(reject(value)?)),
        "queue" => ChainStep::Decide(RuleAction::Other("queue".into())),
        "return" => ChainStep::Return,
        "jump" => ChainStep::Jump(target()?),
        "goto" => ChainStep::Goto(target()?),
        "continue" => return Some(None),
        _ => return None,
    }))
}

/// Returns the name of the error that a reject statement sends, as iptables names it; `None` if the error is
/// not known.
fn reject(value: &Value) -> Option<String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match (text("type"), text("expr")) {
        (Some("tcp reset"), _) => Some("tcp-reset".into()),
        (_, Some("no-route")) => Some("icmp-net-unreachable".into()),
        (_, Some("prot-unreachable")) => Some("icmp-proto-unreachable".into()),
        (_, Some(error)) => Some(format!("icmp-{error}")).filter(|name| REJECTS.contains(&name.as_str())),
        _ => Some("icmp-port-unreachable".into()),
    }
}

#[cfg(test)]
mod tests;
