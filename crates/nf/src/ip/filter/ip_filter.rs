//! # IPFilter
//! Lets IP packets pass, drops them or sends them to outputs, by a list of rules.
//!
//! A rule is an action and a pattern in the language of IPClassifier; the first rule whose pattern matches a packet
//! decides, and packets that match no rule are dropped. Actions are output numbers, `allow` (output 0), and `drop`
//! or `deny`. An action alone is for all packets. `file NAME` stands for the rules of a file, one per line.
//!
//! The network and transport header annotations must be set, as CheckIPHeader and MarkIPHeader do; questions about
//! bytes that a packet does not have are false.
//!
//! ## Usage
//! `IPFilter([CACHING,] ACTION PATTERN, ...)`
//!
//! ## Arguments
//! - `RULE`: an action and a pattern.
//! - `CACHING`: whether to count how often a packet is of the same flow as the one before it. It does not change
//!   what the rules decide.
//!
//! ## Handlers
//! - `program`: the rules as a decision tree over 32-bit words, as in IPClassifier.
//! - `cache_hits_count`, `cache_misses_count`, `cache_total_count`: with CACHING, packets of the same flow as the one
//!   before, other packets, and both; -1 without.
//! - `cache_hits_ratio`, `cache_misses_ratio`: the same in percent of all.
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

use classify::filter::{Headers, action};
use element::args::{PlaceNames, filter_condition, parse_integer};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Access, State, Written, wire_field};
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};
use lang::args::unquote;

use super::{Rule, Rules};
use crate::sorting::Fate;

/// The class.
pub static CLASS: Class = Class {
    name: "IPFilter",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("ip_filter.rs"),
    args: &[ArgInfo::rest("RULE", "action pattern"), ArgInfo::keyword("CACHING", "bool", "false")],
    handlers: &[
        HandlerInfo::read("program"),
        HandlerInfo::read("cache_hits_count"),
        HandlerInfo::read("cache_misses_count"),
        HandlerInfo::read("cache_total_count"),
        HandlerInfo::read("cache_hits_ratio"),
        HandlerInfo::read("cache_misses_ratio"),
    ],
    samples: &[
        "drop all",
        "allow udp, 1 tcp dst port 80 or 443, deny src 10.0.0.1, 0 - -> 1/2",
        "CACHING true, allow ip ttl > 1 && not ip frag, drop -, 1 all -> 1/2",
    ],
    reconfigures: true,
    build: |args| {
        let caching = args.or("CACHING", false);
        let texts = args.numbered_rest();
        args.finish()?;
        let outputs = args.outputs();
        let mut reader =
            Reader { names: PlaceNames(args.place()), outputs, rules: Vec::new(), issues: Vec::new() };
        for (number, (argument, text)) in texts.iter().enumerate() {
            reader.argument(number, *argument, &unquote(text));
        }
        let Reader { rules, issues, .. } = reader;
        for (text, is_warning) in issues {
            if is_warning { args.warn(text) } else { args.error(text) }
        }
        args.finish()?;
        let cache = caching.then(Cache::default);
        Ok(Box::new(IpFilter { rules: Rules::new(rules, outputs), cache }))
    },
    ..Class::DEFAULT
};

/// Reads rules and collects what there is to say about them.
struct Reader<'p> {
    names: PlaceNames<'p>,
    outputs: usize,
    rules: Vec<Rule>,
    issues: Vec<(String, bool)>,
}

impl Reader<'_> {
    fn argument(&mut self, number: usize, argument: usize, text: &str) {
        let prefix = format!("pattern {number}: ");
        match action(text) {
            ("", _) => self.issues.push((format!("empty pattern {number}"), false)),
            ("file", name) => {
                let name = name.trim();
                if name.is_empty() || name.contains(char::is_whitespace) {
                    let text = format!("{prefix}file must have a single argument, the filename");
                    return self.issues.push((text, false));
                }
                match std::fs::read(name) {
                    Ok(bytes) => self.file(argument, name, &String::from_utf8_lossy(&bytes)),
                    Err(error) => {
                        self.issues.push((format!("{prefix}Could not open file {name}: {error}"), false));
                    }
                }
            }
            (action, pattern) => {
                self.rule(Written { argument, line: None }, &prefix, action, pattern);
            }
        }
    }

    fn file(&mut self, argument: usize, name: &str, text: &str) {
        let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
        for (number, (text, line)) in lines.enumerate() {
            let text = unquote(text);
            let (action, pattern) = action(&text);
            let written = Written { argument, line: Some(line) };
            self.rule(written, &format!("file {name}/pattern {number}: "), action, pattern);
        }
    }

    fn rule(&mut self, written: Written, prefix: &str, action: &str, pattern: &str) {
        let fate = match action {
            "allow" if self.outputs == 0 => {
                Err("'allow' is meaningless, element has zero outputs".to_string())
            }
            "allow" => Ok(Fate::Output(0)),
            "deny" | "drop" => Ok(Fate::Drop(DropReason::Denied)),
            slot => match parse_integer(slot) {
                Ok(number) => match usize::try_from(number) {
                    Ok(output) if output < self.outputs => Ok(Fate::Output(output)),
                    _ => Err(format!("slot '{number}' out of range")),
                },
                Err(_) => Err(format!("unknown slot ID '{slot}'")),
            },
        };
        let (condition, issues) = filter_condition(pattern, &self.names);
        self.issues.extend(issues.into_iter().map(|(text, w)| (format!("{prefix}{text}"), w)));
        match fate {
            Ok(fate) => self.rules.push(Rule { condition, fate, written }),
            Err(text) => self.issues.push((format!("{prefix}{text}"), false)),
        }
    }
}

/// Counts packets of the flow of the one before.
#[derive(Default)]
struct Cache {
    last: Option<[u8; 13]>,
    hits: u64,
    misses: u64,
}

impl Cache {
    fn see(&mut self, headers: &Headers<'_>) {
        let flow = flow_of(headers);
        if flow.is_some() && flow == self.last {
            self.hits += 1;
        } else {
            self.misses += 1;
            // Packets without ports leave the flow as it is.
            self.last = flow.or(self.last);
        }
    }
}

/// Addresses, ports and protocol.
fn flow_of(headers: &Headers<'_>) -> Option<[u8; 13]> {
    let mut flow = [0; 13];
    flow[..8].copy_from_slice(headers.network.get(12..20)?);
    flow[8..12].copy_from_slice(headers.transport.get(..4)?);
    flow[12] = *headers.network.get(9)?;
    Some(flow)
}

struct IpFilter {
    rules: Rules,
    cache: Option<Cache>,
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
        // Only counts depend on it.
        let state = State { table: "cache", key: Vec::new(), both_directions: false, access: Access::Soft };
        Effects { state: vec![state], ..effects }.observing(&key)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        match &mut self.cache {
            None => self.rules.push(cx, batch, |_| {}),
            Some(cache) => self.rules.push(cx, batch, |headers| cache.see(headers)),
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        if name == "program" {
            return Ok(self.rules.listing().to_string());
        }
        let Some(Cache { hits, misses, .. }) = self.cache else { return Ok("-1".into()) };
        let total = hits + misses;
        let ratio = |part: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 };
        Ok(match name {
            "cache_hits_count" => hits.to_string(),
            "cache_misses_count" => misses.to_string(),
            "cache_hits_ratio" => ratio(hits).to_string(),
            "cache_misses_ratio" => ratio(misses).to_string(),
            _ => total.to_string(),
        })
    }
}
