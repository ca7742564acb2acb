//! # IPClassifier
//! Sends each IP packet to the output of the first pattern that it matches.
//!
//! There is one pattern per output; packets that match no pattern are dropped. Patterns are expressions
//! like tcpdump's, about the headers that the packet's header annotations point to (CheckIPHeader and
//! MarkIPHeader set them). A pattern consists of questions:
//!
//! - `ip proto PROTO`: the protocol, by name or number.
//! - `[SRCORDST] host ADDRESS`: an address; SRCORDST is `src`, `dst`, `src and dst` or `src or dst`; the
//!   default is `src or dst`.
//! - `[SRCORDST] net PREFIX`: `10.0.0.0/8` or `10.0.0.0 mask 255.0.0.0`.
//! - `[SRCORDST] [tcp | udp] port PORT`: a port, by name or number, of TCP or UDP or either.
//! - `ip vers N`, `ip hl N`, `ip tos N`, `ip dscp N`, `ip id N`, `ip len N`, `ip ttl N`: header fields.
//! - `ip ect`, `ip ce`: the packet is ECN capable; the packet has experienced congestion.
//! - `ip frag`, `ip unfrag`: the packet is a fragment; the packet is whole.
//! - `tcp opt FLAG`: the flag (`syn`, `fin`, `ack`, `rst`, `psh`, `urg`, or bits by number) is set.
//! - `tcp win N`, `icmp type TYPE`: fields of transport headers.
//! - `ip[POS:LEN] N`, `tcp[POS:LEN] N`, `transp[POS:LEN] N`: one to four bytes within an aligned word;
//!   `[POS]` is one byte.
//! - `[SRCORDST] ether host ADDRESS`: an Ethernet address, of the MAC header annotation.
//! - `true`, `false`; a pattern `-`, `any` or `all` matches everything.
//!
//! Values can follow `==`, `!=` and, for numbers, `<`, `>`, `<=`, `>=`; `& MASK` can precede these.
//! Questions are combined by `and`, `or`, `not` (`&&`, `||`, `!`; two questions without a word between them
//! mean `and`), parentheses, and `CONDITION ? A : B` with spaces around the colon; CONDITION may contain
//! such a choice again, up to four deep. Most words can be omitted (`tcp`, `www`, `syn`, `10.0.0.0/24`,
//! `unfrag`), and so can words that are repeated from the previous question (`src port 80 or 81`).
//!
//! A question is false if the packet lacks the bytes, also with `!=`; a question about ports, flags,
//! `icmp type` or a transport header is false for other protocols and for all fragments but the first.
//! `not` inverts this: `not port 80` matches ICMP, `port != 80` does not. Without a direction,
//! `port != 80`, `port < 80` and `port <= 80` must hold for both ports, because they are the opposites of
//! `==`, `>=` and `>`.
//!
//! For IPv6, `ip6` precedes `host`, `net`, `proto`, `port`, a transport protocol, `vers` or `[POS:LEN]`:
//! `ip6 src host 2001:db8::1`, `ip6 tcp port 80`, `ip6[7] 64`. Addresses do not need it. These questions
//! also check for version 6, and read the transport protocol from the first next header field; all other
//! questions do not check the version.
//!
//! Each pattern can be read and written at run time, by the handlers `pattern0`, `pattern1` and so on.
//!
//! A reload keeps the counts of patterns at the start and at the end of the list that have not changed.
//!
//! ## Usage
//! `IPClassifier(PATTERN, ...)`
//!
//! ## Arguments
//! - `PATTERN`: one pattern for each output.
//!
//! ## Handlers
//! - `program`: the patterns as a decision tree over 32-bit words, whose offsets count from 256 in the IP
//!   header and from 512 in the transport header.
//! - `rule_counts`: a line for each pattern that decided about packets, with its number from 0 on and the
//!   number of packets; `-` for packets that matched no pattern.
//! - `reset_rule_counts`: sets these counts to 0 when written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14)
//!     -> c :: IPClassifier(dst tcp port www or https, udp and not dst port < 1024, -);
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard
//! ```
//!
//! ## See also
//! IPFilter, Classifier, CheckIPHeader, MarkIPHeader, AddressInfo

use std::any::Any;
use std::sync::Arc;

use element::args::{PlaceNames, Scope, filter_condition};
use element::class::ArgInfo;
use element::effects::{Depends, Written};
use element::{Batch, Class, Complaint, Cx, Effects, Element, Handler, StatePart, Tally, manual};
use lang::args::unquote;

use super::{Rule, Rules, Tables};
use crate::patterns;
use crate::sorting::Fate;

/// The element class `IPClassifier`.
pub static CLASS: Class = Class {
    name: "IPClassifier",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("ip_classifier.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    table: &HANDLERS,
    state: &[StatePart::kept("rule counts", &["rule_counts"])],
    samples: &[
        "- -> 1/1",
        "udp port 53 or src tcp port > 1023, ip ttl < 2 and not ip frag, icmp type echo -> 1/3",
        "src net 10.0.0.0/8 and (syn || udp) and ip[2:2] & 0xff > 20, tcp ? ack : ip hl != 5, all -> 1/3",
        "ether host 2:0:0:0:0:1 and not host 10.0.0.1, ip6 udp port 53, dst host != 10.0.1.2 -> 1/3",
    ],
    reconfigures: true,
    build: |args| {
        let (numbers, patterns): (Vec<_>, Vec<_>) = args.rest().into_iter().unzip();
        args.finish()?;
        let outputs = args.outputs();
        // If the number of patterns is wrong, Click reports only this error. Errors in the patterns are then
        // reported in Tidegate's words, without Click's.
        let goes_on = patterns::check_count(args, (patterns.len(), "pattern"), (outputs, "output"));
        let tables = args.setup.common.get_or_make(args.id(), Tables::default);
        let (rules, issues) = compile(&patterns, args.place(), &tables);
        for (pattern, complaint, is_warning) in issues {
            let complaint = if goes_on { complaint } else { complaint.without_clicks_words() };
            if is_warning {
                args.warn_in(numbers[pattern], complaint)
            } else {
                args.error_in(numbers[pattern], complaint)
            }
        }
        args.finish()?;
        for output in rules.listing().unused(outputs) {
            args.warn(format!("output {output} matches no packets"));
        }
        Ok(Box::new(IpClassifier { patterns, rules, tables }))
    },
    ..Class::DEFAULT
};

/// Compiles one pattern per output. Each complaint comes with the index of its pattern, and true if it is
/// only a warning.
fn compile(patterns: &[String], place: Scope<'_>, tables: &Tables) -> (Rules, Vec<(usize, Complaint, bool)>) {
    let names = PlaceNames(place);
    let mut complaints = Vec::new();
    let mut rules = Vec::with_capacity(patterns.len());
    for (number, pattern) in patterns.iter().enumerate() {
        let (condition, issues) = filter_condition(&unquote(pattern), &names);
        let prefix = format!("pattern {number}: ");
        complaints.extend(issues.into_iter().map(|(complaint, is_warning)| {
            let complaint = if is_warning { complaint.as_warning() } else { complaint };
            (number, complaint.behind(&prefix, &prefix), is_warning)
        }));
        let written = Written { argument: number, line: None };
        rules.push(Rule { condition, fate: Fate::Output(number), written });
    }
    (Rules::new(rules, patterns.len(), tables), complaints)
}

struct IpClassifier {
    /// The texts of the patterns, as configured or written by handlers.
    patterns: Vec<String>,
    rules: Rules,
    tables: Arc<Tables>,
}

impl Element for IpClassifier {
    fn effects(&self) -> Effects {
        self.rules.effects().depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.rules.push(cx, batch, None)
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

const HANDLERS: &[Handler<IpClassifier>] = &[
    Handler::get("program", |e| e.rules.listing().to_string()),
    Handler::<IpClassifier>::get("rule_counts", |e| e.rules.counts()).summed(),
    Handler::act("reset_rule_counts", |e| e.rules.reset_counts()),
    Handler::numbered(
        "pattern",
        |e| e.patterns.len(),
        |e, _, number| e.patterns[number].clone(),
        |e, cx, number, value| {
            let patterns = patterns::replaced(&e.patterns, number, value);
            let (rules, issues) = compile(&patterns, cx.place(), &e.tables);
            let errors: Vec<String> =
                issues.into_iter().filter(|issue| !issue.2).map(|issue| issue.1.text).collect();
            if !errors.is_empty() {
                return Err(errors.join("\n"));
            }
            (e.patterns, e.rules) = (patterns, rules);
            Ok(())
        },
    ),
];
