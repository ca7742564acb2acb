//! What comes to elements whose outcome depends on all of it, as numbers: equal streams have equal ones, in both of two
//! chains.
//!
//! What an element with state does with a packet follows from what came before it and from the packet. So in two chains it
//! does the same if the same comes to it. In which parts packets come does not matter, nor how they came to be what they
//! are: streams are compared as packets are at the ends of chains.

use std::collections::HashMap;

use super::chain::Chain;
use super::diagrams::{Bit, Diagrams, Term};
use super::explore::{Arrival, Waiting};
use super::functions::Functions;
use super::packet::Packet;
use super::step::remembers;

/// Streams of packets that start at one place in all chains that are compared.
#[derive(Default)]
pub struct Streams {
    /// By the function of the element: those that have come to such elements.
    known: HashMap<String, Known>,
    /// How many elements of the chain got each one so far.
    alike: HashMap<Term, i64>,
    /// What only elements know of these packets.
    pub(super) functions: Functions,
}

/// Streams that have come to elements of one function.
#[derive(Default)]
struct Known {
    all: Vec<Waiting>,
    /// By input and the packets that come there: numbers of streams. Only these can be equal.
    by_packets: HashMap<Vec<(usize, Bit)>, Vec<usize>>,
}

impl Known {
    /// The number of a stream: that of an equal one, or a new one.
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

/// The packets of all arrivals.
fn any(d: &Diagrams, arrivals: &[Arrival]) -> Bit {
    arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition))
}

impl Streams {
    /// From now on elements are those of another chain.
    pub fn begin(&mut self) {
        self.alike.clear();
    }

    /// What arrives at an element whose outcome depends on that, and whether there are packets of which several arrive.
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
        // Packets that a program has brought come like others.
        let mut own = Waiting::new();
        for (&input, arrivals) in inputs {
            own.entry(element.through(input).0).or_default().extend(arrivals.iter().cloned());
        }
        let inputs = &own;
        let mut term = Term { name: format!("stream to {}", element.function), ..Term::default() };
        let copies = come_twice(d, inputs.values().flatten());
        if element.circle.is_some() {
            // Not everything that will arrive is known yet, so it is like no other.
            term.numbers.extend(salt);
            term.numbers.push(node as i64);
        } else if !copies {
            let known = self.known.entry(element.function.clone()).or_default();
            term.numbers.push(known.number(d, inputs) as i64);
        } else {
            in_order(d, chain.upstream(node), inputs, &mut term);
        }
        // Of several elements with equal streams the first one corresponds to the first one elsewhere.
        let number = self.alike.entry(term.clone()).or_insert(0);
        *number += 1;
        term.numbers.push(*number);
        Some((d.term(term), copies))
    }
}

/// Copies as they come: which of two comes first depends on what is in front.
fn in_order(d: &Diagrams, upstream: i64, inputs: &Waiting, term: &mut Term) {
    // No number of a stream without copies.
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

/// Whether there are packets of which several arrive.
pub fn come_twice<'a>(d: &Diagrams, arrivals: impl IntoIterator<Item = &'a Arrival>) -> bool {
    let mut before = d.no();
    arrivals.into_iter().any(|arrival| {
        let is_copy = d.overlap(&before, &arrival.condition);
        before = d.or(&before, &arrival.condition);
        is_copy
    })
}

/// Whether the same packets arrive at the same inputs, without copies among them.
pub fn are_same(d: &Diagrams, a: &Waiting, b: &Waiting) -> bool {
    let inputs = || a.keys().chain(b.keys());
    inputs().all(|input| match (a.get(input), b.get(input)) {
        (Some(x), Some(y)) => are_same_at(d, x, y),
        _ => false,
    })
}

/// Whether the same packets arrive at one place, without copies among them.
pub fn are_same_at(d: &Diagrams, x: &[Arrival], y: &[Arrival]) -> bool {
    any(d, x) == any(d, y)
        && x.iter().all(|left| {
            y.iter().all(|right| {
                let both = d.and(&left.condition, &right.condition);
                d.is_never(&both) || Packet::are_same(d, &both, &left.packet, &right.packet)
            })
        })
}
