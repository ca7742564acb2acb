//! The order of the variables of decision diagrams, which decides how large the diagrams grow.
//!
//! A question about a few bits is cheap if its variables are above the variables of a rule set. If its
//! variables are below them, it is expensive, because each path through the diagram of the rule set then ends
//! in a copy of the question. Therefore the variables that rule sets do not test come first: values of
//! functions, packet type, time to live, lengths. The fields of rules follow. Among these, protocol and
//! destination port come before the addresses, which makes diagrams of rule sets up to ten times smaller
//! (rule sets `fw1` of ClassBench).
//!
//! Quantities that are compared with each other are adjacent bit by bit: the packet's length and the length
//! fields of headers. The length of an IP header decides the offset of the next header. If headers have byte
//! regions of their own, the variables of this header length are among the variables of lengths, because only
//! checks for missing bytes depend on them. If the execution forks for each offset, they come before the
//! variables of all lengths.

use std::collections::BTreeSet;
use std::ops::Range;

use element::Base;
use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, HeaderKind, Number, Predicate, Value};
use packet::Annotations;

use super::diagrams::{Diagrams, Symbol};
use super::offsets::{ANYWHERE_BITS, ETHERNET, behind_ipv4, start_of};
use super::packet::LENGTH_BITS;
use program::chain::Chain;
use program::metadata::{KIND, Metadata};

/// The number of variables reserved at the top of the variable order for values of uninterpreted functions.
/// Further functions get variables at the end of the order.
const FUNCTIONS: u32 = 64;

/// The number of variables that are reserved per action. For an action that sets a value that only an element
/// knows (an offset of a transport header, or a value that may be a length), this number of variables is
/// reserved for each bit weight. For an action that replaces the payload, this number is reserved next to
/// each bit of the input packet. For an action that changes the length of the packet by an unknown amount,
/// both are reserved.
const PLACES_EACH: u32 = 2;
/// The maximum number of variables that are reserved, per bit weight, for offsets of transport headers that
/// only an element knows. As many may be reserved for values that only an element knows and that may be
/// lengths.
const MOST_PLACES: u32 = 16;

/// The maximum number of variables reserved next to each bit of the input packet for bytes that functions
/// compute from it.
const MOST_REWRITTEN: u32 = 8;

/// The offset in bytes of the time to live in an IPv4 header.
const TTL: i32 = 8;

/// The offset in bytes of the total length in an IPv4 header.
const TOTAL_LENGTH: i32 = 2;

/// Returns the index of a byte of a four-byte number that is stored in annotations at `offset`, in the byte
/// order of the machine. `weight` is the index of the byte from the least significant byte on.
fn native(offset: usize, weight: u8) -> Metadata {
    offset as Metadata + if cfg!(target_endian = "little") { weight } else { 3 - weight }
}

/// Returns at most four offsets in the frame at which IP headers may be. They follow from the declarations of
/// sources and of elements that mark headers or strip bytes. [`ETHERNET`] if no declaration has one.
fn networks(chains: &[&Chain]) -> Vec<i32> {
    let (mut at_start, mut marked, mut stripped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in chains.iter().flat_map(|chain| &chain.nodes) {
        let is_ip = |header: Option<HeaderKind>| matches!(header, Some(HeaderKind::Ipv4 | HeaderKind::Ipv6));
        let makes_ip = node.effects.emits.iter().any(|emit| is_ip(emit.starts));
        at_start.extend(makes_ip.then_some(0));
        for action in node.effects.cases.iter().flat_map(|case| &case.actions) {
            match action {
                Action::Strip(n) if *n > 0 => {
                    stripped.insert(*n);
                }
                action => {
                    let place = if node.inputs == 0 { &mut at_start } else { &mut marked };
                    place.extend(marks_network(action));
                }
            }
        }
    }
    // A header that is marked at offset 0 of a packet after a Strip is in the frame at the offset that equals
    // the number of stripped bytes.
    if marked.remove(&0) {
        marked.extend(if stripped.is_empty() { BTreeSet::from([0]) } else { stripped });
    }
    let all = marked.into_iter().chain(at_start).filter(|place| (0..64).contains(place));
    let mut networks: Vec<i32> = all.collect::<BTreeSet<_>>().into_iter().take(4).collect();
    if networks.is_empty() {
        networks.push(ETHERNET);
    }
    networks
}

/// Returns the constant offset, from the packet's start, at which an action marks the network header;
/// `None` for other actions.
fn marks_network(action: &Action) -> Option<i32> {
    match action {
        Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(bytes)) if !bytes.is_empty() => {
            Some(bytes.iter().fold(0, |n, &byte| n << 8 | i32::from(byte)))
        }
        _ => None,
    }
}

/// Returns the number of variables to reserve, per bit weight, for offsets of transport headers that only an
/// element knows. Several are reserved per element, because different packets may arrive at it.
fn unknown_places(chains: &[&Chain]) -> u32 {
    let cases = chains.iter().flat_map(|chain| &chain.nodes).flat_map(|node| &node.effects.cases);
    let is_unknown = |action: &&Action| {
        matches!(action, Action::Set(Field::HeaderOffset(Base::Transport), Value::Pure { .. }))
    };
    let unknown = cases.flat_map(|case| &case.actions).filter(is_unknown).count() as u32;
    (unknown * PLACES_EACH).min(MOST_PLACES)
}

/// Returns the number of variables to reserve, per bit weight, for values of functions that may be lengths.
fn unknown_lengths(chains: &[&Chain]) -> u32 {
    let cases = chains.iter().flat_map(|chain| &chain.nodes).flat_map(|node| &node.effects.cases);
    let is_unknown = |action: &&Action| match action {
        Action::Set(field, Value::Pure { .. }) => {
            matches!(field, Field::Bytes { length: 2.., .. } | Field::Length) || *field == EXTRA_LENGTH
        }
        Action::Resize(_) => true,
        _ => false,
    };
    let unknown = cases.flat_map(|case| &case.actions).filter(is_unknown).count() as u32;
    (unknown * PLACES_EACH).min(MOST_PLACES)
}

/// Returns the number of variables to reserve next to each bit of the input packet, for packets all of
/// whose bytes a function has written.
fn rewritten(chains: &[&Chain]) -> u32 {
    let cases = chains.iter().flat_map(|chain| &chain.nodes).flat_map(|node| &node.effects.cases);
    let writes_all = |action: &&Action| matches!(action, Action::Resize(_) | Action::Set(Field::Payload, _));
    let rewritten = cases.flat_map(|case| &case.actions).filter(writes_all).count() as u32;
    (rewritten * PLACES_EACH).min(MOST_REWRITTEN)
}

/// Returns the offsets, from the start of an IP header, of two-byte fields that conditions compare with
/// lengths.
fn lengths(chains: &[&Chain]) -> BTreeSet<i32> {
    let mut lengths = BTreeSet::from([TOTAL_LENGTH]);
    for case in chains.iter().flat_map(|chain| &chain.nodes).flat_map(|node| &node.effects.cases) {
        collect_lengths(case, &case.when, &mut lengths);
    }
    lengths
}

fn collect_lengths(case: &Case, filter: &Filter, lengths: &mut BTreeSet<i32>) {
    let offset = |number: &Number| {
        let told = number.terms.iter().map(|(_, field, _)| field);
        let offset = told.filter_map(|field| match *field {
            Field::Bytes { base: Base::Network, offset, length: 2 } => Some(offset),
            // The header may be marked only after the test. Then the test reads the field at an offset from
            // the packet's start.
            Field::Bytes { base: Base::Data, offset, length: 2 } => {
                Some(offset - case.actions.iter().find_map(marks_network)?)
            }
            _ => None,
        });
        offset.filter(|offset| (0..20).contains(offset)).collect::<Vec<_>>()
    };
    for leaf in filter.leaves() {
        if let Predicate::AtMost(a, b) = leaf {
            lengths.extend([a, b].into_iter().flat_map(offset));
        }
    }
}

/// Makes the variables for packets and functions in the usual order. `chains` are analyzed together with
/// these diagrams. Has to be called before any other variable is made.
pub fn order_variables(d: &Diagrams, chains: &[&Chain]) {
    let networks = networks(chains);
    let lengths = lengths(chains);
    let lengths: Vec<i32> =
        networks.iter().flat_map(|network| lengths.iter().map(move |length| network + length)).collect();
    // With several possible IP header offsets, the same byte may be a length field in one header and another
    // field in the other header. Such a byte gets its variables among those of the lengths.
    let is_length = |place: i32| lengths.iter().any(|length| (0..2).contains(&(place - length)));
    let early = |place: i32| {
        if place >= 0 && !is_length(place) {
            d.input(place);
        }
    };
    // Unless offsets are exact, the transport header is in the byte region of its IP header, which is made
    // below.
    let transport = |region: usize| if d.is_exact() { networks[region] + 20 } else { start_of(region) };
    d.reserve_for_functions(FUNCTIONS);
    d.reserve_for_rewritten(rewritten(chains));
    (0..8).rev().for_each(|bit| drop(d.symbol(Symbol::Metadata(KIND, bit))));
    for &network in &networks {
        early(network + TTL);
        if d.is_exact() {
            early(network);
        }
    }
    d.set_lengths(lengths.iter().copied());
    let places = unknown_places(chains);
    let weights = places + unknown_lengths(chains);
    (u32::from(LENGTH_BITS)..ANYWHERE_BITS).rev().for_each(|weight| d.reserve_for_weight(weight, places));
    for bit in (0..LENGTH_BITS).rev() {
        d.reserve_for_weight(bit.into(), weights);
        if bit == 5 {
            // The first byte of an IP header has the header's length. A header has up to 60 bytes, so this
            // length affects the bits 0 to 5 of offsets after it.
            networks.iter().for_each(|&network| drop(d.input(network)));
        }
        d.symbol(Symbol::Length(bit));
        // Elements that truncate packets add the number of removed bytes to this annotation.
        d.symbol(Symbol::Metadata(native(Annotations::EXTRA_LENGTH, bit / 8), bit % 8));
        for &length in &lengths {
            match bit {
                8..16 => d.symbol(Symbol::Input(length, bit - 8)),
                0..8 => d.symbol(Symbol::Input(length + 1, bit)),
                _ => continue,
            };
        }
        for region in 0..networks.len() {
            // Makes the variable of the bit that has the same weight in the length field of a UDP header in
            // this byte region.
            match bit {
                8..16 => d.symbol(Symbol::Input(transport(region) + 4, bit - 8)),
                0..8 => d.symbol(Symbol::Input(transport(region) + 5, bit)),
                _ => continue,
            };
        }
    }
    for &network in &networks {
        (network - 2..network).for_each(early);
    }
    // Protocol and fragment offset come first, since they decide if there are ports. The fields for which
    // rules are most specific, such as source addresses, come last.
    let fields: [&dyn Fn(usize) -> Range<i32>; 6] = [
        &|region| networks[region] + 9..networks[region] + 10,
        &|region| networks[region] + 6..networks[region] + 8,
        &|region| transport(region) + 2..transport(region) + 4,
        &|region| networks[region] + 16..networks[region] + 20,
        &|region| networks[region] + 12..networks[region] + 16,
        &|region| transport(region)..transport(region) + 2,
    ];
    for field in fields {
        (0..networks.len()).for_each(|region| field(region).for_each(early));
    }
    for &network in networks.iter().filter(|_| !d.is_exact()) {
        behind_ipv4(d, network);
    }
    d.reserve_for_rewritten(0);
}
