//! # AggregateFilter
//! Sorts packets by their aggregate annotation.
//!
//! Each pattern is an action and the aggregates that it is for: numbers, ranges `A-B`, or `all` (also `-`). The action
//! is an output, `allow` for output 0, or `drop` or `deny`. The first pattern that has a packet's aggregate decides;
//! packets in no pattern are dropped.
//!
//! ## Usage
//! `AggregateFilter(ACTION AGGREGATES, ...)`
//!
//! ## Arguments
//! - `PATTERN`: an action and aggregates, separated by spaces.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> f :: AggregateFilter(0 60-100, 1 all) -> Discard; f[1] -> Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateCounter

use element::args::parse_integer;
use element::class::ArgInfo;
use element::effects::{Case, Filter, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, manual};

use super::{AGGREGATE, aggregate_of};
use crate::sorting::{Fate, Sorter};

/// The class.
pub static CLASS: Class = Class {
    name: "AggregateFilter",
    ports: "1/-",
    processing: "h",
    manual: manual!("aggregate_filter.rs"),
    args: &[ArgInfo::rest("PATTERN", "action aggregates")],
    samples: &["allow 0-0x1ffffff -> 1/1", "1 16843009 33554432, drop 2-5, 0 all -> 1/2"],
    build: |args| {
        let mut patterns = Vec::new();
        for (i, text) in args.rest().iter().enumerate() {
            patterns.extend(Pattern::parse(args, i, text));
        }
        warn_of_repeats(args, &patterns);
        args.finish()?;
        Ok(Box::new(AggregateFilter { patterns, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

/// Aggregates, in order, and where they go.
struct Pattern {
    /// `None` to drop.
    output: Option<usize>,
    ranges: Vec<(u32, u32)>,
}

fn number(text: &str) -> Option<u32> {
    parse_integer(text).ok().and_then(|n| u32::try_from(n).ok())
}

impl Pattern {
    fn parse(args: &mut Args<'_>, i: usize, text: &str) -> Option<Pattern> {
        let mut words = text.split_whitespace();
        let Some(action) = words.next() else {
            args.error(format!("empty pattern {i}"));
            return None;
        };
        let output = match action {
            "allow" => Some(0),
            "drop" | "deny" => None,
            port => match number(port).map(|port| port as usize) {
                Some(port) => Some(port),
                None => {
                    args.error(format!("pattern {i}: expected a port number"));
                    return None;
                }
            },
        };
        if let Some(port) = output.filter(|port| *port >= args.outputs()) {
            args.error(format!("pattern {i}: there is no output {port}"));
        }
        let mut ranges = Vec::new();
        for word in words {
            let range = match word {
                "all" | "-" => Some((0, u32::MAX)),
                word => match word.split_once('-') {
                    Some((from, to)) => number(from).zip(number(to)).filter(|(from, to)| from <= to),
                    None => number(word).map(|number| (number, number)),
                },
            };
            match range {
                Some(range) => ranges.push(range),
                None => args.error(format!("pattern {i}: bad aggregate number '{word}'")),
            }
        }
        if text.split_whitespace().count() == 1 {
            args.error(format!("pattern {i} has no aggregates"));
        }
        Some(Pattern { output, ranges })
    }
}

/// Says what can never match, because something before it does.
fn warn_of_repeats(args: &mut Args<'_>, patterns: &[Pattern]) {
    for (i, pattern) in patterns.iter().enumerate() {
        let before = &patterns[..i];
        if before.iter().any(|before| before.ranges.contains(&(0, u32::MAX))) {
            args.warn(format!("pattern {i} matches no packets"));
            continue;
        }
        for &(from, to) in pattern.ranges.iter().filter(|(from, to)| from == to) {
            let holds =
                |before: &&Pattern| before.ranges.iter().any(|&(first, last)| first <= from && to <= last);
            if let Some(before) = before.iter().find(holds) {
                let output = before.output.map_or(-1, |output| output as i64);
                args.warn(format!("pattern {i}: aggregate {from} already filtered to output {output}"));
            }
        }
    }
}

struct AggregateFilter {
    patterns: Vec<Pattern>,
    sorter: Sorter,
}

impl Element for AggregateFilter {
    fn effects(&self) -> Effects {
        let mut cases: Vec<Case> = Vec::new();
        for pattern in &self.patterns {
            let to = pattern.output.map_or(Target::Drop(DropReason::Denied), Target::Output);
            // Annotations are in the machine's byte order, so that ranges of them are none of the field.
            let when = Filter::Opaque { about: "aggregate", reads: vec![AGGREGATE] };
            cases.push(Case::new(when, to));
        }
        cases.push(Case::new(Filter::Any, Target::Drop(DropReason::Denied)));
        Effects::cases(cases)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let patterns = &self.patterns;
        self.sorter.send(cx, batch, |_, packet| {
            let aggregate = aggregate_of(packet);
            let has = |p: &&Pattern| p.ranges.iter().any(|&(from, to)| (from..=to).contains(&aggregate));
            let output = patterns.iter().find(has).and_then(|pattern| pattern.output);
            output.map_or(Fate::Drop(DropReason::Denied), Fate::Output)
        })
    }
}
