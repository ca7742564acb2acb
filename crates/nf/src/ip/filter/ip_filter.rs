//! # IPFilter
//! Passes, drops or sends IP packets to outputs, by a list of rules.
//!
//! A rule is an action and a pattern in the language of IPClassifier; the first rule whose pattern matches
//! a packet decides, and packets that match no rule are dropped. Actions are output numbers, `allow`
//! (output 0), and `drop` or `deny`. An action alone applies to all packets. `file NAME` inserts the rules
//! of a file, one per line.
//!
//! Rules of ClassBench (`@192.0.2.0/24 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF`) are patterns too; the flags
//! at the end of rules in some sets are ignored, and ports mean any protocol. Lines of a file that begin
//! with `@` have no action: their action precedes `file`, as in `drop file NAME`, and is `allow` by
//! default.
//!
//! The network and transport header annotations must be set, as CheckIPHeader and MarkIPHeader do;
//! questions about bytes that a packet does not have are false.
//!
//! Rules can change at run time (`config`); packets wait until the new rules are ready.
//!
//! A reload keeps the counts of rules at the start and at the end of the list that have not changed.
//!
//! ## Usage
//! `IPFilter([CACHING,] ACTION PATTERN, ...)`
//!
//! ## Arguments
//! - `RULE`: an action and a pattern.
//! - `CACHING`: if true, a packet of the same flow (addresses, ports, protocol) as the previous packet, not
//!   counting packets with fewer than 4 bytes after the IP header, matches the same rule without a look-up,
//!   which saves time if traffic comes in bursts. It does not change what the rules decide: if a rule reads
//!   any other field, all packets are looked up, and the flows are only counted.
//!
//! ## Handlers
//! - `program`: the rules as a decision tree over 32-bit words, as in IPClassifier.
//! - `cache_hits_count`, `cache_misses_count`, `cache_total_count`: with CACHING, the number of packets of
//!   the same flow as the previous packet (see CACHING), of other packets, and of all packets; -1 without.
//! - `cache_hits_ratio`, `cache_misses_ratio`: hits and misses in percent of all packets.
//! - `rule_counts`: a line for each rule that decided about packets, with its number from 0 on and the
//!   number of packets; `-` for packets that matched no rule.
//! - `reset_rule_counts`: sets these counts to 0 when written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14)
//!     -> IPFilter(deny src net 192.168.0.0/16, allow tcp && dst port www, allow udp, drop all)
//!     -> Discard
//! ```
//!
//! ## See also
//! IPClassifier, Classifier, CheckIPHeader, MarkIPHeader, AddressInfo

use std::any::Any;
use std::path::PathBuf;

use classify::filter::{Recent, Shadows, action, is_classbench, shadows};
use element::args::{PlaceNames, filter_condition, parse_integer};
use element::class::ArgInfo;
use element::effects::{Counting, State, StateAccess, Written, wire_field};
use element::{
    Args, Batch, Class, Complaint, Cx, DropReason, Effects, Element, Handler, StatePart, Tally, manual,
};
use lang::args::unquote;

use super::{Rule, Rules, Tables};
use crate::sorting::Fate;

/// The element class `IPFilter`.
pub static CLASS: Class = Class {
    name: "IPFilter",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("ip_filter.rs"),
    args: &[ArgInfo::rest("RULE", "action pattern"), ArgInfo::keyword("CACHING", "bool", "false")],
    table: &HANDLERS,
    state: &[
        StatePart::kept("rule counts", &["rule_counts"]),
        StatePart::lost(
            "cache",
            "the rules may have changed",
            &[
                "cache_hits_count",
                "cache_misses_count",
                "cache_total_count",
                "cache_hits_ratio",
                "cache_misses_ratio",
            ],
        ),
    ],
    samples: &[
        "drop all",
        "allow udp, 1 tcp dst port 80 or 443, deny src 10.0.0.1, 0 - -> 1/2",
        "CACHING true, allow ip ttl > 1 && not ip frag, drop -, 1 all -> 1/2",
    ],
    reconfigures: true,
    build: |args| {
        let caching = args.value::<bool>("CACHING");
        let texts = args.rest();
        // If a keyword is wrong, Click reports only this error. Errors in the rules are then reported in
        // Tidegate's words, without Click's.
        let goes_on = args.finish().is_ok();
        let outputs = args.outputs();
        let mut reader = Reader {
            names: PlaceNames(args.place()),
            outputs,
            rules: Vec::new(),
            issues: Vec::new(),
            files: Vec::new(),
        };
        for (number, (argument, text)) in texts.iter().enumerate() {
            reader.argument(number, *argument, &unquote(text));
        }
        let Reader { rules, issues, files, .. } = reader;
        args.setup.inputs.extend(files);
        for Issue { argument, complaint, is_warning } in issues {
            let complaint = if goes_on { complaint } else { complaint.without_clicks_words() };
            if is_warning { args.warn_in(argument, complaint) } else { args.error_in(argument, complaint) }
        }
        args.finish()?;
        warn_of_hidden(args, &rules);
        let cache = caching.then(Recent::default);
        let tables = args.setup.common.get_or_make(args.id(), Tables::default);
        Ok(Box::new(IpFilter { rules: Rules::new(rules, outputs, &tables), cache }))
    },
    ..Class::DEFAULT
};

/// The largest number of rules that a warning about hidden rules names: rules that never decide, because
/// earlier rules match all their packets.
const NAMED: usize = 5;

/// Warns of hidden rules: rules that never decide about a packet, because earlier rules match all packets
/// that the hidden rules match.
fn warn_of_hidden(args: &mut Args<'_>, rules: &[Rule]) {
    let conditions: Vec<_> = rules.iter().map(|rule| rule.condition.clone()).collect();
    let Shadows { hidden, compared } = shadows(&conditions);
    let name = |number: usize| match rules[number].written.line {
        Some(line) => format!("{number} (line {line} of its file)"),
        None => number.to_string(),
    };
    if let Some(text) = what_is_hidden(&hidden, name) {
        args.warn(Complaint::from(text).without_clicks_words());
    }
    if compared < rules.len() {
        let later = rules.len() - compared;
        let text = format!("too many rules: whether earlier ones hide the last {later} was not looked at");
        args.warn(Complaint::from(text).without_clicks_words());
    }
}

/// Returns a text that names hidden rules, and for each hidden rule the earlier rules that match all its
/// packets. `hidden` has the index of each hidden rule with the indexes of these earlier rules, and `name`
/// returns the name of a rule. `None` if no rule is hidden.
fn what_is_hidden(hidden: &[(usize, Vec<usize>)], name: impl Fn(usize) -> String) -> Option<String> {
    let names = |numbers: &[usize]| numbers.iter().map(|&number| name(number)).collect::<Vec<_>>().join(", ");
    let mut named = hidden.iter().take(NAMED);
    let (first, by) = named.next()?;
    let takes = match by.len() {
        1 => format!("rule {} takes", names(by)),
        _ => format!("rules {} take", names(by)),
    };
    let mut text = format!("rule {} never decides: {takes} all its packets", name(*first));
    named.for_each(|(next, by)| text += &format!("; nor does {}, after {}", name(*next), names(by)));
    if let Some(more) = hidden.len().checked_sub(NAMED).filter(|&more| more > 0) {
        text += &format!("; and so on for {more} more");
    }
    Some(text)
}

/// A reader of rules from arguments and files. It collects errors and warnings, so that all of them are
/// reported at once.
struct Reader<'p> {
    names: PlaceNames<'p>,
    outputs: usize,
    rules: Vec<Rule>,
    issues: Vec<Issue>,
    /// The paths of the files that were read, for reports.
    files: Vec<PathBuf>,
}

/// An error or a warning about a rule.
struct Issue {
    /// The index of the argument that contains the rule, or that names the rule's file.
    argument: usize,
    complaint: Complaint,
    is_warning: bool,
}

/// The text with which Tidegate's messages about a rule begin, and the text with which Click's messages about
/// the rule begin.
struct Prefix {
    own: String,
    clicks: String,
}

impl Prefix {
    fn before(&self, complaint: Complaint) -> Complaint {
        complaint.behind(&self.own, &self.clicks)
    }
}

impl Reader<'_> {
    fn argument(&mut self, number: usize, argument: usize, text: &str) {
        let prefix = Prefix { own: format!("rule {number}: "), clicks: format!("pattern {number}: ") };
        let (first, rest) = action(text);
        match (first, action(rest)) {
            ("", _) => {
                let text = format!("rule {number} is empty; leave the comma out");
                self.error(argument, Complaint::new(text, format!("empty pattern {number}")));
            }
            ("file", _) => self.file(argument, &prefix, "allow", rest),
            (_, ("file", name)) => self.file(argument, &prefix, first, name),
            _ => self.rule(Written { argument, line: None }, &prefix, first, rest.trim()),
        }
    }

    /// Reads the rules of the file `name`, one per line. Rules of ClassBench have no action of their own and
    /// get the action `usual`.
    fn file(&mut self, argument: usize, prefix: &Prefix, usual: &str, name: &str) {
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            let clicks_words = "file must have a single argument, the filename";
            let complaint = Complaint::new("'file' needs the name of one file", clicks_words);
            return self.error(argument, prefix.before(complaint));
        }
        let text = match std::fs::read(name) {
            Ok(bytes) => {
                self.files.push(name.into());
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Err(error) => {
                let text = format!("file {name} cannot be read: {error}");
                let complaint = Complaint::new(text, format!("Could not open file {name}: {error}"));
                return self.error(argument, prefix.before(complaint));
            }
        };
        let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
        for (number, (text, line)) in lines.enumerate() {
            let text = unquote(text);
            let (action, pattern) = if is_classbench(&text) { (usual, &text[..]) } else { action(&text) };
            let written = Written { argument, line: Some(line) };
            let prefix = Prefix {
                own: format!("{name}, line {line}: "),
                clicks: format!("file {name}/pattern {number}: "),
            };
            self.rule(written, &prefix, action, pattern.trim());
        }
    }

    fn rule(&mut self, written: Written, prefix: &Prefix, action: &str, pattern: &str) {
        let fate = match action {
            "allow" if self.outputs == 0 => {
                let text = "'allow' leads to output 0, which is not connected";
                Err(Complaint::new(text, "'allow' is meaningless, element has zero outputs"))
            }
            "allow" => Ok(Fate::Output(0)),
            "deny" | "drop" => Ok(Fate::Drop(DropReason::Denied)),
            slot => match parse_integer(slot) {
                Ok(number) => match usize::try_from(number) {
                    Ok(output) if output < self.outputs => Ok(Fate::Output(output)),
                    _ => {
                        let text = format!("there is no output {number}; {}", self.which_outputs());
                        Err(Complaint::new(text, format!("slot '{number}' out of range")))
                    }
                },
                Err(_) => Err(Complaint::new(no_action(slot), format!("unknown slot ID '{slot}'"))),
            },
        };
        let (condition, issues) = filter_condition(pattern, &self.names);
        let argument = written.argument;
        let issue = |(complaint, is_warning): (Complaint, bool)| {
            let complaint = if is_warning { complaint.as_warning() } else { complaint };
            let complaint = prefix.before(complaint);
            Issue { argument, complaint, is_warning }
        };
        self.issues.extend(issues.into_iter().map(issue));
        match fate {
            Ok(fate) => self.rules.push(Rule { condition, fate, written }),
            Err(complaint) => self.error(argument, prefix.before(complaint)),
        }
    }

    fn error(&mut self, argument: usize, complaint: Complaint) {
        self.issues.push(Issue { argument, complaint, is_warning: false });
    }

    fn which_outputs(&self) -> String {
        match self.outputs {
            0 => "none is connected".into(),
            1 => "output 0 is the only one".into(),
            n => format!("outputs are 0 to {}", n - 1),
        }
    }
}

/// Returns the error about a rule whose first word `word` is no action.
fn no_action(word: &str) -> String {
    let near = lang::nearest(word, ["allow", "deny", "drop", "file"].into_iter());
    let guess = near.map(|near| format!(". Did you mean {near}?")).unwrap_or_default();
    format!("'{word}' is no action; use allow, deny, drop or the number of an output{guess}")
}

struct IpFilter {
    rules: Rules,
    cache: Option<Recent>,
}

impl Element for IpFilter {
    fn effects(&self) -> Effects {
        let effects = self.rules.effects();
        if self.cache.is_none() {
            return effects;
        }
        let key = vec![
            wire_field::IP_SRC,
            wire_field::IP_DST,
            wire_field::SRC_PORT,
            wire_field::DST_PORT,
            wire_field::IP_PROTOCOL,
        ];
        // The fields of `key` only determine the cache's hits and misses, which are counted. The output or
        // drop of a packet does not depend on them through the cache.
        let mut effects = effects.observing(&key).counting(Counting::Own);
        effects.state.push(State {
            table: "cache",
            key: Vec::new(),
            both_directions: false,
            access: StateAccess::Soft,
        });
        effects
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.rules.push(cx, batch, self.cache.as_mut())
    }

    fn tally(&mut self, tally: &Tally) {
        self.rules.tally(tally);
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.rules.counted()))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        self.rules.go_on(*state.downcast().map_err(|_| "the state of another class")?);
        Ok(())
    }
}

impl IpFilter {
    /// Returns a value that is computed from the hits and misses of the cache; -1 without a cache.
    fn of_cache<T: ToString>(&self, value: impl Fn(u64, u64) -> T) -> String {
        self.cache.as_ref().map_or("-1".into(), |cache| value(cache.hits, cache.misses).to_string())
    }
}

/// Returns the percentage of `part` in `total`; 0 if `total` is zero.
fn percentage(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 }
}

const HANDLERS: &[Handler<IpFilter>] = &[
    Handler::get("program", |e| e.rules.listing().to_string()),
    Handler::<IpFilter>::get("cache_hits_count", |e| e.of_cache(|hits, _| hits)).summed(),
    Handler::<IpFilter>::get("cache_misses_count", |e| e.of_cache(|_, misses| misses)).summed(),
    Handler::<IpFilter>::get("cache_total_count", |e| e.of_cache(|hits, misses| hits + misses)).summed(),
    Handler::get("cache_hits_ratio", |e| e.of_cache(|hits, misses| percentage(hits, hits + misses))),
    Handler::get("cache_misses_ratio", |e| e.of_cache(|hits, misses| percentage(misses, hits + misses))),
    Handler::<IpFilter>::get("rule_counts", |e| e.rules.counts()).summed(),
    Handler::act("reset_rule_counts", |e| e.rules.reset_counts()),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rules_that_hide_another_one_are_named() {
        let text = |hidden: &[(usize, Vec<usize>)]| what_is_hidden(hidden, |number| number.to_string());
        assert_eq!(text(&[]), None);
        let one = [(2, vec![0])];
        assert_eq!(text(&one).as_deref(), Some("rule 2 never decides: rule 0 takes all its packets"));
        let several = [(2, vec![0, 1]), (4, vec![3]), (5, vec![0, 3])];
        assert_eq!(
            text(&several).as_deref(),
            Some(
                "rule 2 never decides: rules 0, 1 take all its packets; nor does 4, after 3; nor does 5, after 0, 3"
            )
        );
        let many: Vec<_> = (1..9).map(|number| (number, vec![0])).collect();
        assert!(text(&many).unwrap().ends_with("; nor does 5, after 0; and so on for 3 more"));
    }
}
