//! Numbers for the packet streams that arrive at stateful elements, such that equal streams have equal
//! numbers in all compared chains.
//!
//! The outcome of a stateful element for a packet follows from the packet and from the packets that arrived
//! before it. So an element does the same in two chains if equal streams of packets arrive at it. Streams are
//! compared as packets are compared at the exits of chains; it does not matter into which paths a stream is
//! partitioned, nor how its packets were modified upstream.

use std::collections::HashMap;

use super::arrival::{Arrival, Waiting};
use super::diagrams::{Bit, Diagrams, Term};
use super::functions::Functions;
use super::packet::PacketModel;
use super::step::remembers;
use program::chain::Chain;

/// The streams made of packets that are followed from one output, in all compared chains.
#[derive(Default)]
pub struct Streams {
    /// The streams that have arrived at elements so far, by the function of the element
    /// ([`ChainNode::function`](program::chain::ChainNode::function)).
    known: HashMap<String, Known>,
    /// For each stream, the number of elements of the current chain at which it has arrived so far.
    alike: HashMap<Term, i64>,
    /// The applications of uninterpreted functions to packets of these streams.
    pub(super) functions: Functions,
}

/// The streams that have arrived at elements with equal functions, numbered by their index in `all`.
#[derive(Default)]
struct Known {
    all: Vec<Waiting>,
    /// The numbers of the streams, by input and condition of the packets that arrive there. Only streams with
    /// an equal key can be equal, so only the streams of one key are compared in full.
    by_packets: HashMap<Vec<(usize, Bit)>, Vec<usize>>,
}

impl Known {
    /// Returns the number of the stream with the packets `inputs`: the number of an equal stream if there
    /// is one, else a new number.
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

/// Returns the condition on the input packets that any of the packets arrives.
fn any(d: &Diagrams, arrivals: &[Arrival]) -> Bit {
    arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition))
}

impl Streams {
    /// Starts with the next chain: the elements at which each stream arrives are counted from zero again.
    pub fn begin(&mut self) {
        self.alike.clear();
    }

    /// Returns the number of the stream `inputs` that arrives at the element `node`, and true if several
    /// packets of it may come from one input packet. Returns `None` for an element whose outcome depends on
    /// the current packet alone, unless nothing is known of a packet. `salt` makes the numbers of streams on
    /// loops different: it differs for each chain and visit.
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
        // If an input stands for a passage of a program, its packets count as arriving at the input of the
        // element itself that the passage leads to.
        let mut own = Waiting::new();
        for (&input, arrivals) in inputs {
            own.entry(element.through(input).0).or_default().extend(arrivals.iter().cloned());
        }
        let inputs = &own;
        let mut term = Term { name: format!("stream to {}", element.function), ..Term::default() };
        let copies = come_twice(d, inputs.values().flatten());
        if element.loop_id.is_some() {
            // On a loop, it is not known yet which packets will arrive later, so this stream of packets
            // counts as different from all others.
            term.numbers.extend(salt);
            term.numbers.push(node as i64);
        } else if !copies {
            let known = self.known.entry(element.function.clone()).or_default();
            term.numbers.push(known.number(d, inputs) as i64);
        } else {
            in_order(d, chain.upstream(node), inputs, &mut term);
        }
        // If several elements receive equal streams, the first of these elements in one chain corresponds to
        // the first in the other chain, the second to the second, and so on. The ordinal number of the
        // element distinguishes the streams.
        let number = self.alike.entry(term.clone()).or_insert(0);
        *number += 1;
        term.numbers.push(*number);
        Some((d.term(term), copies))
    }
}

/// Adds to `term` the packets of a stream in which several packets may come from one input packet, in the
/// order of arrival. `upstream` identifies the elements upstream, which decide the order of these packets.
fn in_order(d: &Diagrams, upstream: i64, inputs: &Waiting, term: &mut Term) {
    // The number -1 distinguishes the term from the terms of streams without copies, which start with a
    // number from 0 on.
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

/// True if two of these packets may come from one input packet.
pub fn come_twice<'a>(d: &Diagrams, arrivals: impl IntoIterator<Item = &'a Arrival>) -> bool {
    let mut before = d.no();
    arrivals.into_iter().any(|arrival| {
        let is_copy = d.overlap(&before, &arrival.condition);
        before = d.or(&before, &arrival.condition);
        is_copy
    })
}

/// True if equal packets arrive at equal inputs of an element in `a` and `b`. False if two different packets
/// come from one input packet.
pub fn are_same(d: &Diagrams, a: &Waiting, b: &Waiting) -> bool {
    let inputs = || a.keys().chain(b.keys());
    inputs().all(|input| match (a.get(input), b.get(input)) {
        (Some(x), Some(y)) => are_same_at(d, x, y),
        _ => false,
    })
}

/// True if the arrivals of `x` and of `y` are the same: for each input packet, packets arrive in both or in
/// neither, and each packet of `x` equals each packet of `y`.
pub fn are_same_at(d: &Diagrams, x: &[Arrival], y: &[Arrival]) -> bool {
    any(d, x) == any(d, y)
        && x.iter().all(|left| {
            y.iter().all(|right| {
                let both = d.and(&left.condition, &right.condition);
                d.is_never(&both) || PacketModel::are_same(d, &both, &left.packet, &right.packet)
            })
        })
}
