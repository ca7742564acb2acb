//! `tidegate rules lint`: findings about one rule set.

use std::fmt::Write;
use std::path::PathBuf;

use rules::lint::{RuleFinding, RuleFindingKind, lint};
use rules::merge::{JoinedRule, merge};
use rules::model::RuleSet;
use rules::phrase::phrase;
use rules::write::lacks_actions;
use serde_json::{Value, json};

use super::source::Source;
use super::{FOUND, Limits, print_json, rule_json, tell_notes, words};
use crate::print;
use crate::status::{SUCCESS, Status};

/// The arguments of `rules lint`.
#[derive(clap::Args)]
#[command(after_help = "\
Kinds of findings, of which --only selects some:
  never        no packet matches the rule
  shadowed     earlier rules take all its packets, with another action
  redundant    without the rule, all packets have the same fate
  correlates   an earlier rule with another action has some packets in common with it (a note)
  generalises  an earlier rule with another action is an exception to it (a note)
  mergeable    the rule and others can be one rule; this is proven for all of these rules together

Notes are often meant: they count as findings only with --only.

Exit status: 0 nothing found but notes, 1 findings, 2 an error.")]
pub(super) struct Args {
    /// The rule set
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Report these kinds only, separated by commas
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    only: Vec<String>,
    /// Show all findings of a kind, not only the first ones
    #[arg(long)]
    all: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    limits: Limits,
}

/// The kind of the finding that several rules can be one.
const MERGEABLE: &str = "mergeable";

/// The most findings of a kind that are shown without `--all`.
const MOST_SHOWN: usize = 20;

fn kinds() -> impl Iterator<Item = &'static str> {
    RuleFindingKind::ALL.into_iter().map(RuleFindingKind::name).chain([MERGEABLE])
}

fn kind(name: &str) -> Result<String, String> {
    match kinds().any(|kind| kind == name) {
        true => Ok(name.into()),
        false => {
            Err(format!("there is no kind '{name}'; there are: {}", kinds().collect::<Vec<_>>().join(", ")))
        }
    }
}

/// A finding in words.
struct Message {
    rule: usize,
    kind: &'static str,
    text: String,
    json: Value,
}

pub(super) fn run(args: &Args) -> Status {
    let set = args.source.read(&args.file)?;
    tell_notes(&set);
    let space = args.limits.space();
    let findings = lint(&set, &space).map_err(|error| args.limits.exhausted(error))?;
    let is_wanted = |kind: &str| args.only.is_empty() || args.only.iter().any(|only| only == kind);
    let mut messages: Vec<Message> = findings.iter().map(|finding| of_finding(&set, finding)).collect();
    // Rules without actions of their own have nothing to join.
    if is_wanted(MERGEABLE) && !lacks_actions(&set) {
        let shorter = merge(&set, &findings, &space).map_err(|error| args.limits.exhausted(error))?;
        if !shorter.is_proven {
            return Err("the proof that joined rules do the same has failed; please report this".into());
        }
        messages.extend(shorter.joined.iter().map(|joined| of_joined(&set, joined)));
    }
    messages.retain(|message| is_wanted(message.kind));
    messages.sort_by_key(|message| message.rule);
    let notes = [RuleFindingKind::Correlates, RuleFindingKind::Generalises].map(RuleFindingKind::name);
    let is_note = |message: &Message| args.only.is_empty() && notes.contains(&message.kind);
    let status = if messages.iter().all(is_note) { SUCCESS } else { FOUND };
    if args.json {
        let findings: Vec<Value> = messages.into_iter().map(|message| message.json).collect();
        print_json(&json!({ "file": set.name, "rules": set.rules.len(), "findings": findings }))?;
        return Ok(status);
    }
    let mut text = String::new();
    for kind in kinds() {
        let of_kind = messages.iter().filter(|message| message.kind == kind);
        let most = if args.all { usize::MAX } else { MOST_SHOWN };
        for message in of_kind.clone().take(most) {
            let _ = writeln!(text, "{}: {kind}: {}", set.rules[message.rule].place, message.text);
        }
        let more = of_kind.count().saturating_sub(most);
        if more > 0 {
            let _ = writeln!(text, "{}: {kind}: and {more} more; --all shows them", set.name);
        }
    }
    let counts = kinds().filter_map(|kind| {
        let count = messages.iter().filter(|message| message.kind == kind).count();
        (count > 0).then(|| format!("{count} {kind}"))
    });
    let counts: Vec<String> = counts.collect();
    let found = if counts.is_empty() { "nothing found".into() } else { counts.join(", ") };
    let rules = if set.rules.len() == 1 { "rule" } else { "rules" };
    let _ = writeln!(text, "{}: {} {rules}: {found}", set.name, set.rules.len());
    print(&text)?;
    Ok(status)
}

/// Returns the places of the rules that a finding names.
fn others(set: &RuleSet, finding: &RuleFinding) -> String {
    let mut places: Vec<String> =
        finding.others.iter().map(|&other| set.rules[other].place.to_string()).collect();
    if finding.more > 0 {
        places.push(format!("{} more", finding.more));
    }
    if finding.has_default {
        places.push("the default".into());
    }
    list(&places)
}

fn list(places: &[String]) -> String {
    match places {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn of_finding(set: &RuleSet, finding: &RuleFinding) -> Message {
    let rule = &set.rules[finding.rule];
    let others = others(set, finding);
    let is_one = finding.others.len() + finding.more + usize::from(finding.has_default) == 1;
    let verb = |one: &'static str, several: &'static str| if is_one { one } else { several };
    let what = format!("'{}'", words(rule));
    let action = |other: usize| &set.rules[other].action;
    let text = match finding.kind {
        RuleFindingKind::Never => format!("{what} matches no packet"),
        RuleFindingKind::Shadowed => {
            let elsewhere = finding.elsewhere.unwrap_or_default();
            let takes = verb("matches", "match");
            let also = match is_one {
                true => format!("with the action {}", action(elsewhere)),
                false => format!("{} with the action {}", set.rules[elsewhere].place, action(elsewhere)),
            };
            format!("{what} never decides: {others} {takes} all its packets, {also}")
        }
        RuleFindingKind::Redundant if finding.others.iter().any(|&other| other > finding.rule) => {
            format!("{what} is not needed: {others} {} the same with its packets", verb("does", "do"))
        }
        RuleFindingKind::Redundant if finding.has_default => {
            format!("{what} is not needed: the default does the same with its packets")
        }
        RuleFindingKind::Redundant => format!(
            "{what} never decides: {others} {} all its packets, with the same action",
            verb("matches", "match")
        ),
        RuleFindingKind::Correlates => format!(
            "{what} has packets in common with {others}, which {} another action; the order decides about them",
            verb("has", "have")
        ),
        RuleFindingKind::Generalises => {
            format!("{what} has {} to it: {others}", verb("an exception", "exceptions"))
        }
    };
    let json = json!({
        "kind": finding.kind.name(),
        "rule": rule_json(rule),
        "others": finding.others.iter().map(|&other| rule_json(&set.rules[other])).collect::<Vec<_>>(),
        "more": finding.more,
        "default": finding.has_default,
        "text": text,
    });
    Message { rule: finding.rule, kind: finding.kind.name(), text, json }
}

fn of_joined(set: &RuleSet, joined: &JoinedRule) -> Message {
    let first = joined.from.first().copied().unwrap_or_default();
    let rest = joined.from.iter().skip(1);
    let mut places: Vec<String> =
        rest.clone().take(4).map(|&rule| set.rules[rule].place.to_string()).collect();
    if rest.len() > 4 {
        places.push(format!("{} more", rest.len() - 4));
    }
    let products: Vec<String> = joined.rule.products.iter().map(phrase).collect();
    let rule = format!("{} {}", joined.rule.action, products.join(" or "));
    let text = format!("'{}' and {} can be one rule: {rule}", words(&set.rules[first]), list(&places));
    let json = json!({
        "kind": MERGEABLE,
        "rule": rule_json(&set.rules[first]),
        "others": joined.from.iter().skip(1).map(|&rule| rule_json(&set.rules[rule])).collect::<Vec<_>>(),
        "merged": rule,
        "text": text,
    });
    Message { rule: first, kind: MERGEABLE, text, json }
}
