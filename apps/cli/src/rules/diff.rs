//! `tidegate rules diff`: the packets that two rule sets treat differently.

use std::fmt::Write;
use std::path::PathBuf;

use rules::diff::{PolicyDifference, diff_within};
use rules::fields::PacketField;
use rules::model::RuleSet;
use rules::phrase::{first_fragments, phrase, whole_phrase};
use rules::product::FieldSets;
use serde_json::{Value, json};

use super::source::Source;
use super::{FOUND, Limits, decider, decider_json, print_json, tell_notes};
use crate::numbers::whole;
use crate::print;
use crate::status::{SUCCESS, Status};

/// The arguments of `rules diff`.
#[derive(clap::Args)]
#[command(after_help = "\
The rule sets may have different formats. Actions are compared by their names: accept (output 0 of an IPFilter), drop, \
reject with its error, output N. In ClassBench's format, each rule is an action of its own.

Exit status: 0 no differences, 1 differences, 2 an error.")]
pub(super) struct Args {
    /// The first rule set
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second rule set
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The most regions that are shown for each pair of actions
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<usize>(1..=100_000), allow_negative_numbers = true)]
    regions: usize,
    /// Leave out fragments other than the first, which formats treat differently
    #[arg(long)]
    without_fragments: bool,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    limits: Limits,
}

/// The most pairs of actions that are shown.
const MOST_PAIRS: usize = 100;

pub(super) fn run(args: &Args) -> Status {
    let [a, b] = args.source.read_both([&args.a, &args.b])?;
    tell_notes(&a);
    tell_notes(&b);
    let space = args.limits.space();
    let first = FieldSets::of(PacketField::Fragment, first_fragments());
    let within = first.filter(|_| args.without_fragments).unwrap_or(FieldSets::ALL);
    let differences =
        diff_within([&a, &b], &within, &space, args.regions).map_err(|error| args.limits.exhausted(error))?;
    let status = if differences.is_empty() { SUCCESS } else { FOUND };
    if args.json {
        let all: Vec<Value> = differences.iter().flat_map(|one| regions_json([&a, &b], one)).collect();
        let has_more = differences.iter().any(|one| one.regions.has_more);
        print_json(&json!({ "a": a.name, "b": b.name, "differences": all, "has_more": has_more }))?;
        return Ok(status);
    }
    if differences.is_empty() {
        print(&format!("{} and {} treat all packets alike\n", a.name, b.name))?;
        return Ok(status);
    }
    let mut text = String::new();
    for difference in differences.iter().take(MOST_PAIRS) {
        let [first, second] = &difference.actions;
        let _ = writeln!(text, "{} has {first}, {} has {second}:", a.name, b.name);
        for (region, deciders) in difference.regions.products.iter().zip(&difference.deciders) {
            let [one, other] = [(&a, 0), (&b, 1)].map(|(set, side)| {
                let places: Vec<String> = deciders[side].iter().map(|rule| decider(set, *rule)).collect();
                places.join(", ")
            });
            let _ = writeln!(text, "  {}\n      {one} - {other}", phrase(region));
        }
        if difference.regions.has_more {
            let _ = writeln!(text, "  and further packets; --regions shows more");
        }
    }
    if differences.len() > MOST_PAIRS {
        let _ = writeln!(
            text,
            "and {} more pairs of actions; --json has all of them",
            differences.len() - MOST_PAIRS
        );
    }
    print(&text)?;
    Ok(status)
}

fn regions_json(sets: [&RuleSet; 2], difference: &PolicyDifference) -> Vec<Value> {
    let regions = difference.regions.products.iter().zip(&difference.deciders);
    let region = |(region, deciders): (_, &[Vec<Option<usize>>; 2])| {
        let rules = [0, 1].map(|side| {
            deciders[side].iter().map(|rule| decider_json(sets[side], *rule)).collect::<Vec<_>>()
        });
        json!({
            "packets": whole_phrase(region),
            "a": { "action": difference.actions[0].to_string(), "rules": rules[0] },
            "b": { "action": difference.actions[1].to_string(), "rules": rules[1] },
        })
    };
    regions.map(region).collect()
}
