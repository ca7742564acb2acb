//! `tidegate rules`: answers about rule sets, such as access lists and firewalls.

mod ask;
mod convert;
mod diff;
mod lint;
mod source;

use std::time::{Duration, Instant};

use clap::Subcommand;
use rules::model::{FilterRule, RuleSet};
use rules::phrase::phrase;
use rules::space::{DiagramsExhausted, PacketSpace};
use serde_json::{Value, json};
use verify::model::diagrams::nodes_in;

use crate::memory::{self, parse_diagrams};
use crate::numbers::{MOST_SECONDS, whole};
use crate::print;
use crate::status::{Failure, Status};

/// The arguments of `rules`.
#[derive(clap::Args)]
#[command(
    subcommand_value_name = "ACTION",
    subcommand_help_heading = "Actions",
    disable_help_subcommand = true,
    after_help = "\
FILE is a configuration with an IPFilter or IPClassifier, a list of rules of IPFilter, a rule set in ClassBench's \
format, the JSON of `nft -j list ruleset`, or the output of iptables-save. The answers are about IPv4 packets; what \
cannot be answered exactly is an error.

Exit status: 0 nothing found, 1 findings or differences, 2 an error."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Find rules that never decide, rules that are not needed, conflicts, and rules that can be one rule
    Lint(lint::Args),
    /// Show the packets that two rule sets treat differently
    Diff(diff::Args),
    /// Show which rules decide about packets, such as 'tcp to 10.0.0.0/8 port 22'
    Ask(ask::Args),
    /// Write the rules in another format
    Convert(convert::Args),
}

/// The exit status if there are findings or differences.
const FOUND: u8 = 1;
/// The exit status if a rule set has an error, or if any other error prevents the answer.
const ERROR: u8 = 2;

pub(crate) fn run(args: &Args) -> Status {
    let status = match &args.action {
        Action::Lint(args) => lint::run(args),
        Action::Diff(args) => diff::run(args),
        Action::Ask(args) => ask::run(args),
        Action::Convert(args) => convert::run(args),
    };
    status.map_err(|failure| failure.with_status(ERROR))
}

/// The limits of an analysis.
#[derive(clap::Args)]
struct Limits {
    /// The number of seconds after which the analysis is given up
    #[arg(
        long, value_name = "N", default_value_t = 120,
        value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true
    )]
    seconds: u64,
    /// The most memory for decision diagrams, such as 256M [default: 1G, at most half of the available
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_diagrams, allow_hyphen_values = true)]
    memory: Option<usize>,
}

impl Limits {
    fn space(&self) -> PacketSpace {
        let nodes = nodes_in(self.memory.unwrap_or_else(memory::for_diagrams));
        PacketSpace::new(nodes, Some(Instant::now() + Duration::from_secs(self.seconds)))
    }

    /// Returns the failure of an analysis that ran out of time or memory.
    fn exhausted(&self, error: DiagramsExhausted) -> Failure {
        format!("{error}; --seconds ({}) gives more time, --memory more memory up to 900M", self.seconds)
            .into()
    }
}

/// Prints the remarks of a reader on standard error.
fn tell_notes(set: &RuleSet) {
    set.notes.iter().for_each(|note| crate::tell(format_args!("note: {note}")));
}

/// The longest text of a rule in a message.
const LONGEST_TEXT: usize = 100;

/// Returns a rule in words: its text as it was written, or its action and packets.
fn words(rule: &FilterRule) -> String {
    let text = match rule.text.is_empty() {
        false => rule.text.clone(),
        true => match &rule.products[..] {
            [] => format!("{} nothing", rule.action),
            products => {
                let phrases: Vec<String> = products.iter().take(3).map(phrase).collect();
                let more = if products.len() > 3 { " or more" } else { "" };
                format!("{} {}{more}", rule.action, phrases.join(" or "))
            }
        },
    };
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Returns a rule as JSON.
fn rule_json(rule: &FilterRule) -> Value {
    json!({
        "file": rule.place.file,
        "line": rule.place.line,
        "name": rule.place.name,
        "text": words(rule),
        "action": rule.action.to_string(),
        "packets": rule.products.iter().map(rules::phrase::whole_phrase).collect::<Vec<_>>(),
    })
}

/// Returns the place and the words of the rule that decides, or of the default.
fn decider(set: &RuleSet, rule: Option<usize>) -> String {
    match rule.and_then(|rule| set.rules.get(rule)) {
        Some(rule) => rule.place.to_string(),
        None => format!("{} (no rule matches)", set.name),
    }
}

fn decider_json(set: &RuleSet, rule: Option<usize>) -> Value {
    rule.and_then(|rule| set.rules.get(rule)).map_or(Value::Null, rule_json)
}

/// Prints JSON with line breaks.
fn print_json(value: &Value) -> Status {
    print(&format!("{value:#}\n"))
}
