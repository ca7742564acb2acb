//! # AggregateFilter
//! Sends packets to outputs by their aggregate annotation.
//!
//! Each pattern is an action and a list of aggregates: numbers, ranges `A-B`, or `all` (also `-`). The
//! action is an output, `allow` for output 0, or `drop` or `deny`. The first pattern that contains a
//! packet's aggregate decides. Packets that match no pattern are dropped.
//!
//! ## Usage
//! `AggregateFilter(ACTION AGGREGATES, ...)`
//!
//! ## Arguments
//! - `PATTERN`: an action and aggregates, separated by spaces.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> f :: AggregateFilter(0 60-100, 1 all) -> Discard; f[1] ->
//! Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateCounter

use classify::IntervalSet;
use element::args::parse_integer;
use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

use super::aggregate_of;
use crate::sorting::{Fate, Sorter};

/// The element class `AggregateFilter`.
pub static CLASS: Class = Class {
    name: "AggregateFilter",
    ports: "1/-",
    processing: "h",
    manual: manual!("aggregate_filter.rs"),
    args: &[ArgInfo::rest("PATTERN", "action aggregates")],
    samples: &["allow 0-0x1ffffff -> 1/1", "1 16843009 33554432, drop 2-5, 0 all -> 1/2"],
    build: |args| {
        let mut patterns = Vec::new();
        args.each_of_rest(|args, i, text| patterns.extend(Pattern::parse(args, i, text)));
        warn_of_repeats(args, &patterns);
        args.finish()?;
        Ok(Box::new(AggregateFilter { patterns, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

/// A pattern: ranges of aggregates, both ends included, and the output of packets whose aggregate is in one
/// of them.
struct Pattern {
    /// The output for packets that match; `None` drops them.
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

/// Warns of patterns after a pattern for all aggregates, because they match no packets, and of single
/// aggregates that an earlier pattern contains.
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

/// Returns byte `number` of the aggregate, 0 for the most significant byte, as a field. Annotations are in
/// the machine's byte order, so the field's offset depends on the machine.
fn byte(number: usize) -> Field {
    let place = if cfg!(target_endian = "little") { 3 - number } else { number };
    Field::Annotation { offset: (Annotations::AGGREGATE + place) as u8, length: 1 }
}

/// Returns a filter for aggregates from `from` to `to`, both included. The filter compares byte by byte
/// from the most significant byte, because filters read fields in network byte order and annotations are in
/// the machine's.
fn within(from: u32, to: u32) -> Filter {
    fn is_in(number: usize, from: u8, to: u8) -> Filter {
        Filter::Leaf(Predicate::In {
            field: byte(number),
            mask: 0xff,
            set: IntervalSet::one(from.into(), to.into()),
        })
    }
    /// Returns a filter for the last bytes of the aggregate, from byte `number` on. As one number, they
    /// must be at least the last bytes of `from` and at most the last bytes of `to`; `None` means no bound.
    fn rest(number: usize, from: Option<[u8; 4]>, to: Option<[u8; 4]>) -> Filter {
        if number == 4 || (from, to) == (None, None) {
            return Filter::TRUE;
        }
        let [low, high] = [from.map_or(0, |from| from[number]), to.map_or(u8::MAX, |to| to[number])];
        let at = |value, from, to| Filter::All(vec![is_in(number, value, value), rest(number + 1, from, to)]);
        if low == high {
            return at(low, from, to);
        }
        let mut parts = vec![at(low, from, None), at(high, None, to)];
        if high - low > 1 {
            parts.push(is_in(number, low + 1, high - 1));
        }
        Filter::Any(parts)
    }
    match (from, to) {
        (0, u32::MAX) => Filter::TRUE,
        _ => rest(0, Some(from.to_be_bytes()), Some(to.to_be_bytes())),
    }
}

struct AggregateFilter {
    patterns: Vec<Pattern>,
    sorter: Sorter,
}

impl Element for AggregateFilter {
    fn effects(&self) -> Effects {
        let cases = self.patterns.iter().map(|pattern| {
            let to = pattern.output.map_or(Target::Drop(DropReason::Denied), Target::Output);
            let ranges = pattern.ranges.iter().map(|&(from, to)| within(from, to));
            Case::new(Filter::Any(ranges.collect()), to)
        });
        let others = Case::new(Filter::TRUE, Target::Drop(DropReason::Denied));
        Effects::cases(cases.chain([others]).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(filter: &Filter, aggregate: u32) -> bool {
        filter.holds(&|leaf| match leaf {
            Predicate::In { field: Field::Annotation { offset, length: 1 }, set, .. } => {
                let bytes = aggregate.to_ne_bytes();
                set.contains(bytes[usize::from(*offset) - Annotations::AGGREGATE].into())
            }
            _ => panic!("{filter:?}"),
        })
    }

    #[test]
    fn ranges_are_told_from_their_bytes() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut near = |number: u32| number.wrapping_add_signed(random.i32(-2..3));
        let ends = [0, 1, 255, 256, 0x1ff, 0x0100_0000, 0x01ff_ffff, 0x7f00_00ff, u32::MAX - 1, u32::MAX];
        for from in ends.map(&mut near) {
            for to in ends.map(&mut near).into_iter().filter(|to| from <= *to) {
                let filter = within(from, to);
                for number in [from, to].into_iter().chain(ends).flat_map(|end| [near(end), end]) {
                    assert_eq!(
                        holds(&filter, number),
                        (from..=to).contains(&number),
                        "{number} in {from}-{to}"
                    );
                }
            }
        }
    }
}
