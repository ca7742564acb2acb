//! In which order the variables of diagrams stand.
//!
//! The order decides how large diagrams grow. A question about a few bits costs little in front of the diagram of a rule
//! set, and much behind it, where each of its paths ends in a copy. So what other elements ask comes first: values of
//! functions, packet type, time to live, lengths. What rules ask about follows. Among that, protocol and destination port
//! before the addresses make diagrams of rule sets up to ten times smaller (those of ClassBench's `fw1`).
//!
//! What is compared with each other stands side by side: the length of the packet and those that headers tell. What
//! decides where a header is stands with the lengths if headers have regions of their own, because only questions for
//! missing bytes depend on it; before everything else if cases are told apart.

use std::collections::BTreeSet;
use std::ops::Range;

use element::Base;
use element::effects::{Action, Field, Header, Value};
use packet::Annotations;

use super::chain::Chain;
use super::diagrams::{Diagrams, Symbol};
use super::packet::{KIND, LENGTH_BITS, Side};
use super::places::{ETHERNET, behind_ipv4, start_of};

/// Variables kept for values of functions; further ones stand last.
const FUNCTIONS: u32 = 64;

/// The offset of the time to live in an IP header.
const TTL: i32 = 8;

/// The byte with this weight of a number of four bytes in annotations.
fn native(offset: usize, weight: u8) -> Side {
    offset as Side + if cfg!(target_endian = "little") { weight } else { 3 - weight }
}

/// Where IP headers start in packets as they come into a chain or are made there, that of Ethernet if nothing says so.
fn networks(chains: &[&Chain]) -> Vec<i32> {
    let (mut at_start, mut marked, mut stripped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in chains.iter().flat_map(|chain| &chain.nodes) {
        let makes_ip = node.effects.emits.iter().any(|emit| emit.starts == Some(Header::Ipv4));
        at_start.extend(makes_ip.then_some(0));
        for action in node.effects.cases.iter().flat_map(|case| &case.actions) {
            match action {
                Action::Strip(n) if *n > 0 => {
                    stripped.insert(*n);
                }
                Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(bytes))
                    if !bytes.is_empty() =>
                {
                    let offset = bytes.iter().fold(0, |n, &byte| n << 8 | i32::from(byte));
                    if node.inputs == 0 {
                        at_start.insert(offset)
                    } else {
                        marked.insert(offset)
                    };
                }
                _ => {}
            }
        }
    }
    // A header at the start of what is left is one behind what was stripped.
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

/// Makes the usual variables, for chains that are to be looked at together.
pub fn order_variables(d: &Diagrams, chains: &[&Chain]) {
    let networks = networks(chains);
    // What is a length of one header may be something else of another one: lengths go before.
    let is_length = |place: i32| networks.iter().any(|network| (2..4).contains(&(place - network)));
    let early = |place: i32| {
        if place >= 0 && !is_length(place) {
            d.input(place);
        }
    };
    // The header behind is in a region that is made below.
    let transport = |region: usize| if d.is_exact() { networks[region] + 20 } else { start_of(region) };
    d.keep_for_functions(FUNCTIONS);
    (0..8).rev().for_each(|bit| drop(d.symbol(Symbol::Side(KIND, bit))));
    for &network in &networks {
        early(network + TTL);
        if d.is_exact() {
            early(network);
        }
    }
    for bit in (0..LENGTH_BITS).rev() {
        if bit == 5 {
            // An IP header has up to 60 bytes, so that its length counts from here on.
            networks.iter().for_each(|&network| drop(d.input(network)));
        }
        d.symbol(Symbol::Length(bit));
        // Elements that cut packets add up what they cut off.
        d.symbol(Symbol::Side(native(Annotations::EXTRA_LENGTH, bit / 8), bit % 8));
        for &network in &networks {
            match bit {
                8..16 => d.symbol(Symbol::Input(network + 2, bit - 8)),
                0..8 => d.symbol(Symbol::Input(network + 3, bit)),
                _ => continue,
            };
        }
        for region in 0..networks.len() {
            // That of UDP.
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
    // Protocol and fragment offset, without which there are no ports; then what rules name most exactly last.
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
}
