//! `tidegate rules ask`: the rules that decide about packets.

use std::fmt::Write;
use std::path::PathBuf;

use rules::ask::{RuleAnswer, ask};
use rules::phrase::{phrase, whole_phrase};
use rules::question::question;
use serde_json::{Value, json};

use super::source::Source;
use super::{Limits, decider, decider_json, print_json, tell_notes, words};
use crate::numbers::whole;
use crate::print;
use crate::status::{Failure, SUCCESS, Status};

/// The arguments of `rules ask`.
#[derive(clap::Args)]
#[command(after_help = "\
PACKETS are words such as 'tcp from 10.0.0.0/8 to any port 22', 'udp to {192.0.2.1, 192.0.2.7} port 53-60', 'icmp from \
any to any icmp type echo', 'ip from any to any in eth0 state new', or an expression of IPFilter such as 'src net 10/8 \
&& tcp port 80'. Without a port, a state or an interface, the answer is for all of them.

Exit status: 0 answered, 2 an error.")]
pub(super) struct Args {
    /// The rule set
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The packets, as words or as an expression
    #[arg(value_name = "PACKETS", required = true)]
    packets: Vec<String>,
    /// The most regions that are shown for each rule
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>(1..=100_000), allow_negative_numbers = true)]
    regions: usize,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    limits: Limits,
}

pub(super) fn run(args: &Args) -> Status {
    let packets = args.packets.join(" ");
    let asked = question(&packets).map_err(|error| Failure::usage(format!("'{packets}': {error}")))?;
    if asked.is_empty() {
        return Err(Failure::usage(format!("'{packets}': no IPv4 packet is like this")));
    }
    let set = args.source.read(&args.file)?;
    tell_notes(&set);
    let space = args.limits.space();
    let answers = ask(&set, &space, &asked, args.regions).map_err(|error| args.limits.exhausted(error))?;
    if args.json {
        let answer = |answer: &RuleAnswer| {
            let regions = answer.regions.as_ref();
            json!({
                "action": set.action(answer.rule).to_string(),
                "rule": decider_json(&set, answer.rule),
                "packets": regions.map(|regions| regions.products.iter().map(whole_phrase).collect::<Vec<_>>()),
                "has_more": regions.is_some_and(|regions| regions.has_more),
            })
        };
        let all: Vec<Value> = answers.iter().map(answer).collect();
        print_json(&json!({ "file": set.name, "question": packets, "answers": all }))?;
        return Ok(SUCCESS);
    }
    let mut text = String::new();
    for RuleAnswer { rule, regions } in &answers {
        let action = set.action(*rule);
        let rule_words = rule.map(|rule| format!("  '{}'", words(&set.rules[rule]))).unwrap_or_default();
        let _ = writeln!(text, "{}: {action}{rule_words}", decider(&set, *rule));
        let Some(regions) = regions else { continue };
        regions.products.iter().for_each(|region| text += &format!("    {}\n", phrase(region)));
        if regions.has_more {
            text += "    and further packets; --regions shows more\n";
        }
    }
    print(&text)?;
    Ok(SUCCESS)
}
