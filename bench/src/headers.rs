//! Headers that match rules, and the source of frames with such headers.
//!
//! For each header, a rule is drawn uniformly. The header is made to match this rule; bits and ports that the
//! rule leaves free are random. ClassBench's own generator does the same without locality. A rule ahead of
//! the drawn rule may match such a header as well.

use classify::Tree;
use classify::filter::{Condition, HeaderLayer, HeaderSlices, Test};
use element::args::{PlaceNames, filter_condition};
use element::class::{ArgInfo, Notes};
use element::{Batch, Class, Cx, Effects, Element};
use fastrand::Rng;

use crate::frames::give;
use crate::source;

/// The first 24 bytes of an IPv4 packet: the header without options, and the ports.
pub(crate) type Start24 = [u8; 24];

/// Generates `count` headers, each of which matches a rule drawn at random, unless this rule contradicts
/// itself, so that no header can match it.
pub(crate) fn headers(conditions: &[Condition], count: usize) -> Vec<Start24> {
    let mut random = Rng::with_seed(2);
    (0..count).map(|_| header(&conditions[random.usize(..conditions.len())], &mut random)).collect()
}

/// Generates `count` headers that belong to `flows` flows, in random order. Each rule has about the same
/// number of flows.
pub(crate) fn headers_of_flows(conditions: &[Condition], count: usize, flows: usize) -> Vec<Start24> {
    let mut random = Rng::with_seed(2);
    let flows: Vec<Start24> =
        conditions.iter().cycle().take(flows.max(1)).map(|rule| header(rule, &mut random)).collect();
    (0..count).map(|_| flows[random.usize(..flows.len())]).collect()
}

/// Generates `count` headers of short-lived flows: `at_a_time` flows send at the same time until each has
/// sent `per_flow` packets; then other flows send. The headers of each flow match a rule, and each rule has
/// about the same number of flows.
pub(crate) fn headers_of_passing_flows(
    conditions: &[Condition],
    count: usize,
    at_a_time: usize,
    per_flow: usize,
) -> Vec<Start24> {
    let mut random = Rng::with_seed(2);
    let at_a_time = at_a_time.max(1);
    let mut conditions = conditions.iter().cycle();
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let flows = conditions.by_ref().take(at_a_time).map(|rule| header(rule, &mut random));
        let mut flows: Vec<Start24> = flows.collect();
        for _ in 0..per_flow.max(1) {
            random.shuffle(&mut flows);
            all.extend_from_slice(&flows);
        }
    }
    all.truncate(count);
    all
}

fn header(condition: &Condition, random: &mut Rng) -> Start24 {
    /// The number of attempts to find values that satisfy a condition. A condition whose parts contradict
    /// one another cannot be satisfied; then the header of the last attempt is used, which does not match.
    const TRIES: usize = 40;
    let mut bytes = [0; 24];
    for _ in 0..TRIES {
        bytes.fill(0);
        (bytes[0], bytes[8], bytes[9]) = (0x45, 64, [6, 17][random.usize(..2)]);
        bytes[12..].fill_with(|| random.u8(..));
        satisfy(condition, &mut bytes, random);
        let headers = HeaderSlices { mac: &[], network: &bytes[..20], transport: &bytes[20..] };
        if condition.holds(&|test: &Test| test.holds(&headers)) {
            break;
        }
    }
    bytes
}

/// Writes fields of a header so that the condition's tests hold. If one of several alternatives is enough,
/// one is chosen at random. Values that a test excludes may occur, so the caller checks if the condition
/// holds.
fn satisfy(condition: &Condition, bytes: &mut Start24, random: &mut Rng) {
    match condition {
        Tree::All(parts) => parts.iter().for_each(|part| satisfy(part, bytes, random)),
        Tree::Any(parts) if !parts.is_empty() => satisfy(&parts[random.usize(..parts.len())], bytes, random),
        Tree::Leaf(test) if !test.outside => {
            let start = if test.header == HeaderLayer::Transport { 20 } else { 0 } + usize::from(test.offset);
            let Some(field) = bytes.get_mut(start..start + usize::from(test.length)) else { return };
            let old = field.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
            let new = old & !test.mask | random.u32(test.low..=test.high) & test.mask;
            field.copy_from_slice(&new.to_be_bytes()[4 - usize::from(test.length)..]);
        }
        _ => {}
    }
}

/// The class of a source of frames whose headers match the rules of a file. Each line of the file is a rule
/// in ClassBench's form or a pattern of IPFilter.
pub(crate) static HEADERS: Class = Class {
    name: "BenchmarkHeaders",
    ports: "0/1",
    processing: "l/l",
    args: &[
        ArgInfo::required("PACKETS", "unsigned"),
        ArgInfo::required("RULES", "filename"),
        ArgInfo::required("FRAME", "unsigned"),
        ArgInfo::positional("FLOWS", "unsigned", ""),
        // PER_FLOW is the number of packets of each flow: FLOWS flows send at the same time until each has
        // sent this number, and then other flows send. Without PER_FLOW, packets of all flows come in random
        // order.
        ArgInfo::positional("PER_FLOW", "unsigned", ""),
    ],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    build: |args| {
        let (packets, file, frame): (usize, String, usize) =
            (args.required("PACKETS"), args.required("RULES"), args.required("FRAME"));
        let (flows, per_flow): (Option<usize>, Option<usize>) = (args.get("FLOWS"), args.get("PER_FLOW"));
        args.finish()?;
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| {
            args.error(format!("{file}: {error}"));
            String::new()
        });
        let read = |pattern: &str| filter_condition(pattern, &PlaceNames(args.place()));
        let (conditions, issues): (Vec<Condition>, Vec<_>) = text.lines().map(read).unzip();
        issues
            .into_iter()
            .flatten()
            .filter(|(_, is_warning)| !is_warning)
            .for_each(|(issue, _)| args.error(issue));
        if conditions.is_empty() {
            args.error(format!("{file}: no rules"));
        }
        args.finish()?;
        let headers = match (flows, per_flow) {
            (Some(flows), Some(per_flow)) => headers_of_passing_flows(&conditions, packets, flows, per_flow),
            (Some(flows), None) => headers_of_flows(&conditions, packets, flows),
            (None, _) => headers(&conditions, packets),
        };
        Ok(Box::new(Matching { headers, frame }))
    },
    ..Class::DEFAULT
};

struct Matching {
    headers: Vec<Start24>,
    frame: usize,
}

impl Element for Matching {
    fn effects(&self) -> Effects {
        Effects::source("frame")
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        give(cx, max, || Some(source::frame_of(&self.headers.pop()?, self.frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_match_whatever_a_rule_asks_for() {
        let leaf = |header, offset, length, low, high| {
            Tree::Leaf(Test { header, offset, length, mask: u32::MAX, low, high, outside: false })
        };
        let ports = |offset| leaf(HeaderLayer::Transport, offset, 2, 1000, 2000);
        let protocol = |number| leaf(HeaderLayer::Network, 9, 1, number, number);
        let condition = Tree::All(vec![
            Tree::Any(vec![protocol(6), protocol(17)]),
            Tree::Any(vec![ports(0), ports(2)]),
            Tree::Not(Box::new(protocol(6))),
        ]);
        for bytes in headers(std::slice::from_ref(&condition), 100) {
            let headers = HeaderSlices { mac: &[], network: &bytes[..20], transport: &bytes[20..] };
            assert!(condition.holds(&|test: &Test| test.holds(&headers)), "{bytes:?}");
        }
    }
}
