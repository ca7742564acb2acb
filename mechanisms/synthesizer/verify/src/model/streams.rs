//! Numbers for the packet streams that arrive at stateful elements: equal streams have equal numbers, in
//! both of two chains.
//!
//! The outcome of a stateful element for a packet follows from the earlier packets and from the packet. The
//! element therefore does the same in two chains if equal streams arrive. The partition of a stream into
//! paths does not matter, nor how its packets were modified: streams are compared as packets are at the
//! exits of chains.

use std::collections::HashMap;

use super::diagrams::{Bit, Diagrams, Term};
use super::explore::{Arrival, Waiting};
use super::functions::Functions;
use super::packet::Packet;
use super::step::remembers;
use program::chain::Chain;

/// The streams of packets that start at one input, in all chains that are compared.
#[derive(Default)]
pub struct Streams {
    /// The streams that have arrived at elements, by the function of the element.
    known: HashMap<String, Known>,
    /// The number of elements of the current chain that have received each stream so far.
    alike: HashMap<Term, i64>,
    /// The uninterpreted functions of these packets.
    pub(super) functions: Functions,
}

/// The streams that have arrived at elements of one function.
#[derive(Default)]
struct Known {
    all: Vec<Waiting>,
    /// Stream numbers by input and arrival condition. Only streams with equal keys can be equal.
    by_packets: HashMap<Vec<(usize, Bit)>, Vec<usize>>,
}

impl Known {
    /// Returns the number of a stream: the number of an equal stream, or a new number.
    fn number(&mut self, d: &Diagrams, inputs: &Waiting) -> usize {
        let packets = inputs.iter().map(|(&input, arrivals)| (input, any(d, arrivals))).collect();
        let alike = self.by_packets.entry(packets).or_default();
        let equal = alike.iter().copied().find(|&number| are_same(d, &self.all[number], inputs));
        equal.unwrap_or_else(|| {
            self.all.push(inputs.clone());
            alike.push(self.all.len() - 1);
            self.all.len() - 1
        })
    }
}

/// Returns the condition that any of the packets arrives.
fn any(d: &Diagrams, arrivals: &[Arrival]) -> Bit {
    arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition))
}

impl Streams {
    /// Starts the next chain.
    pub fn begin(&mut self) {
        self.alike.clear();
    }

    /// Returns the number of the stream that arrives at a stateful element, and true if an input packet can
    /// arrive as several copies. Returns `None` for elements whose outcome depends on the current packet
    /// alone.
    pub(super) fn number(
        &mut self,
        d: &Diagrams,
        chain: &Chain,
        node: usize,
        inputs: &Waiting,
        salt: [i64; 2],
    ) -> Option<(u32, bool)> {
        let element = &chain.nodes[node];
        let effects = &element.effects;
        let lost = inputs.values().flatten().any(|arrival| arrival.packet.lost.is_some());
        if effects.opaque.is_none() && !remembers(effects) && !lost {
            return None;
        }
        // Packets that a program forwards to this element's input count like other packets.
        let mut own = Waiting::new();
        for (&input, arrivals) in inputs {
            own.entry(element.through(input).0).or_default().extend(arrivals.iter().cloned());
        }
        let inputs = &own;
        let mut term = Term { name: format!("stream to {}", element.function), ..Term::default() };
        let copies = come_twice(d, inputs.values().flatten());
        if element.circle.is_some() {
            // On a loop, later arrivals are not known yet, so the stream is equal to no other.
            term.numbers.extend(salt);
            term.numbers.push(node as i64);
        } else if !copies {
            let known = self.known.entry(element.function.clone()).or_default();
            term.numbers.push(known.number(d, inputs) as i64);
        } else {
            in_order(d, chain.upstream(node), inputs, &mut term);
        }
        // Among several elements with equal streams, the first element corresponds to the first element of
        // the other chain.
        let number = self.alike.entry(term.clone()).or_insert(0);
        *number += 1;
        term.numbers.push(*number);
        Some((d.term(term), copies))
    }
}

/// Adds copies in arrival order: which of two copies comes first depends on the elements upstream.
fn in_order(d: &Diagrams, upstream: i64, inputs: &Waiting, term: &mut Term) {
    // The number -1 differs from all stream numbers without copies.
    term.numbers.extend([-1, upstream]);
    for (&input, arrivals) in inputs {
        for arrival in arrivals {
            let digest = arrival.packet.digest(d);
            term.numbers.push(input as i64);
            term.numbers.extend(digest.numbers);
            term.bits.extend(digest.bits.iter().map(|bit| d.and(bit, &arrival.condition)));
            term.bits.push(arrival.condition.clone());
        }
    }
}

/// True if an input packet can arrive as several copies.
pub fn come_twice<'a>(d: &Diagrams, arrivals: impl IntoIterator<Item = &'a Arrival>) -> bool {
    let mut before = d.no();
    arrivals.into_iter().any(|arrival| {
        let is_copy = d.overlap(&before, &arrival.condition);
        before = d.or(&before, &arrival.condition);
        is_copy
    })
}

/// True if equal packets arrive at equal inputs, without copies among them.
pub fn are_same(d: &Diagrams, a: &Waiting, b: &Waiting) -> bool {
    let inputs = || a.keys().chain(b.keys());
    inputs().all(|input| match (a.get(input), b.get(input)) {
        (Some(x), Some(y)) => are_same_at(d, x, y),
        _ => false,
    })
}

/// True if equal packets arrive at one input, without copies among them.
pub fn are_same_at(d: &Diagrams, x: &[Arrival], y: &[Arrival]) -> bool {
    any(d, x) == any(d, y)
        && x.iter().all(|left| {
            y.iter().all(|right| {
                let both = d.and(&left.condition, &right.condition);
                d.is_never(&both) || Packet::are_same(d, &both, &left.packet, &right.packet)
            })
        })
}
