//! Loops that are equal in two chains.
//!
//! Packets on a loop may reach the same element any number of times, so following them need not terminate.
//! But if the elements of a loop and their connections with each other are equal in both chains, packets
//! need not be followed on the loop. The behaviour of such a loop, with all its state and packets, follows
//! from the packets that enter it: its elements do the same as long as equal packets arrive at each, and
//! every packet that arrives at an element entered the loop from outside or came from another element of
//! the loop, earlier. So if it is proven for each packet and each start that equal packets enter the loop
//! at the same inputs, then equal packets leave it by the same outputs, including packets that its elements
//! make, whatever these packets are. Downstream of the loop, exploration continues with an arbitrary packet
//! of each layout that may leave there.
//!
//! All of that loop (a strongly connected component) has to be equal: a single additional element or
//! connection would be another path for packets. The rest of the chain need not be equal, since no packet
//! that leaves the loop comes back. The order of two packets from one input packet may matter on the loop,
//! and depends on the elements upstream; so it is then not enough that both arrive. Nor is it enough for a
//! stateful element that receives packets from a loop among other packets.

use std::collections::{BTreeMap, HashMap};

use crate::model::diagrams::{Diagrams, Term};
use crate::model::explore::{Waiting, made};
use crate::model::functions::Functions;
use crate::model::packet::Packet;
use crate::model::step::{To, Unit};
use crate::model::streams::{are_same, come_twice};
use program::chain::{Chain, Port};

/// The maximum number of layouts at one input. Where each round moves a header, there are more; then the
/// packet is unknown.
const MOST_LAYOUTS: usize = 32;

/// The loops that are equal in both of two chains.
pub(super) struct Loops {
    /// The number of the loop that each element is on, by chain and element.
    of: [Vec<Option<usize>>; 2],
    /// The elements of each loop in both chains.
    elements: Vec<Vec<[usize; 2]>>,
}

/// The packets that enter a loop from outside, by element.
pub(super) type Entering = BTreeMap<usize, Waiting>;

/// The packets that may leave a loop.
#[derive(Default)]
pub(super) struct Leaving {
    /// An arbitrary packet of each layout, by element and output of the first chain.
    pub(super) packets: Vec<(Port, Packet)>,
    /// Queues of the first chain that were assumed never to be full.
    pub(super) queues: Vec<usize>,
}

impl Loops {
    /// Returns no loops: packets are followed round by round.
    pub(super) fn none(chains: [&Chain; 2]) -> Loops {
        Loops { of: chains.map(|chain| vec![None; chain.nodes.len()]), elements: Vec::new() }
    }

    /// Finds the equal loops of two chains.
    pub(super) fn of_both(chains: [&Chain; 2]) -> Loops {
        let mut loops = Loops::none(chains);
        let [a, _] = chains;
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, node) in a.nodes.iter().enumerate() {
            if let Some(circle) = node.circle {
                all.entry(circle).or_default().push(number);
            }
        }
        for elements in all.into_values() {
            let pairs = counterparts(chains, &elements);
            if pairs.len() == elements.len() && are_alike(chains, &pairs) {
                for pair in &pairs {
                    for (of, &element) in loops.of.iter_mut().zip(pair) {
                        of[element] = Some(loops.elements.len());
                    }
                }
                loops.elements.push(pairs);
            }
        }
        loops
    }

    /// True if there are no loops.
    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the loop of each element of a chain.
    pub(super) fn in_chain(&self, chain: usize) -> &[Option<usize>] {
        &self.of[chain]
    }

    /// Returns the elements of a loop in both chains.
    pub(super) fn elements(&self, circle: usize) -> &[[usize; 2]] {
        &self.elements[circle]
    }

    /// True if equal packets enter a loop in both chains, without copies.
    pub(super) fn get_the_same(&self, d: &Diagrams, circle: usize, entering: [&Entering; 2]) -> bool {
        let twice = entering.iter().any(|entering| {
            let all = entering.values().flat_map(|waiting| waiting.values().flatten());
            come_twice(d, all)
        });
        let same = |[x, y]: &[usize; 2]| match (entering[0].get(x), entering[1].get(y)) {
            (None, None) => true,
            (Some(a), Some(b)) => are_same(d, a, b),
            _ => false,
        };
        !twice && self.elements[circle].iter().all(same)
    }

    /// Returns the counterpart in the second chain of an element of the first, if the element is on such a
    /// loop.
    pub(super) fn other(&self, element: usize) -> Option<usize> {
        let pairs = self.elements.get(self.of[0][element]?)?;
        pairs.iter().find(|[x, _]| *x == element).map(|[_, y]| *y)
    }

    /// Returns the packets that may leave a loop that these packets enter: arbitrary packets of each
    /// possible layout.
    pub(super) fn leaving(&self, d: &Diagrams, chain: &Chain, circle: usize, entering: &Entering) -> Leaving {
        let (mut leaving, functions) = (Leaving::default(), Functions::default());
        // Returns an unknown packet if the layout is not known.
        let like = |packet: &Packet| packet.any_like(d).unwrap_or_else(|| anything(d));
        let mut seen: Vec<(Port, Packet)> = Vec::new();
        let come = |port: Port, packet: Packet, seen: &mut Vec<(Port, Packet)>| {
            let before = seen.iter().filter(|(other, _)| *other == port).count();
            let packet = if before < MOST_LAYOUTS { packet } else { anything(d) };
            let coming = (port, packet);
            if !seen.contains(&coming) {
                seen.push(coming);
            }
        };
        for (&element, inputs) in entering {
            for (&input, arrivals) in inputs {
                arrivals.iter().for_each(|arrival| come((element, input), like(&arrival.packet), &mut seen));
            }
        }
        let mut next = 0;
        while let Some((port, packet)) = seen.get(next).cloned() {
            next += 1;
            let (number, input) = port;
            let element = &chain.nodes[number];
            let outcome = Unit::of(element, &functions, 0, input).step(d, &d.yes(), &packet);
            if outcome.ignores_full_queues && !leaving.queues.contains(&number) {
                leaving.queues.push(number);
            }
            let mut out: Vec<(usize, Packet)> = Vec::new();
            for packet in outcome.leaving {
                if let To::Output(output) = packet.to {
                    out.push((output, like(&packet.packet)));
                }
            }
            for derived in outcome.derived {
                let packet = like(&made(d, derived.starts));
                match derived.output {
                    Some(output) => out.push((output, packet)),
                    None => out.extend((0..element.forward.len()).map(|output| (output, packet.clone()))),
                }
            }
            for (output, packet) in out {
                let ports = element.forward.get(output).map(Vec::as_slice).unwrap_or_default();
                for &port in ports.iter().filter(|port| self.of[0][port.0] == Some(circle)) {
                    come(port, packet.clone(), &mut seen);
                }
                let left = ((number, output), packet);
                if ports.iter().any(|port| self.of[0][port.0] != Some(circle))
                    && !leaving.packets.contains(&left)
                {
                    leaving.packets.push(left);
                }
            }
        }
        leaving
    }
}

fn anything(d: &Diagrams) -> Packet {
    Packet::lost(d, d.term(Term { name: "whatever is on a circle".into(), ..Term::default() }))
}

/// Returns pairs of a loop's elements in the first chain and their counterparts in the second: the first
/// pair by name, the others along connections, which reach all of the loop.
fn counterparts([a, b]: [&Chain; 2], elements: &[usize]) -> Vec<[usize; 2]> {
    let find = |&x: &usize| {
        let (node, mut others) = (&a.nodes[x], (0..b.nodes.len()).filter(|&y| b.nodes[y].circle.is_some()));
        let is_named = !node.name.contains('@');
        let y = others.find(|&y| is_named && b.nodes[y].name == node.name)?;
        Some([x, y])
    };
    let Some(first) = elements.iter().find_map(find) else { return Vec::new() };
    let inside = |chain: &Chain, element: usize, output: usize| -> Vec<Port> {
        let node = &chain.nodes[element];
        let ports = node.forward.get(output).into_iter().flatten();
        ports.filter(|port| chain.nodes[port.0].circle == node.circle).copied().collect()
    };
    let mut pairs = vec![first];
    let mut next = 0;
    while let Some(&[x, y]) = pairs.get(next) {
        next += 1;
        for output in 0..a.nodes[x].forward.len() {
            for ((x, _), (y, _)) in inside(a, x, output).into_iter().zip(inside(b, y, output)) {
                if !pairs.iter().any(|pair| pair[0] == x || pair[1] == y) {
                    pairs.push([x, y]);
                }
            }
        }
    }
    pairs
}

/// True if the elements of each pair are equal and have equal connections with each other, and the pairs
/// are a whole loop in both chains.
fn are_alike([a, b]: [&Chain; 2], pairs: &[[usize; 2]]) -> bool {
    let Some(&[first, other]) = pairs.first() else { return false };
    let (mine, theirs) = (a.nodes[first].circle, b.nodes[other].circle);
    if theirs.is_none() || b.nodes.iter().filter(|node| node.circle == theirs).count() != pairs.len() {
        return false;
    }
    let partner: HashMap<usize, usize> = pairs.iter().map(|&[x, y]| (x, y)).collect();
    pairs.iter().all(|&[x, y]| {
        let (left, right) = (&a.nodes[x], &b.nodes[y]);
        let inside = |ports: &[Port], chain: &Chain, circle| -> Vec<Port> {
            ports.iter().filter(|port| chain.nodes[port.0].circle == circle).copied().collect()
        };
        let same_connections = |(mine_to, theirs_to): (&Vec<Port>, &Vec<Port>)| {
            let to = inside(mine_to, a, mine).into_iter();
            let to: Vec<Port> = to.filter_map(|(x, input)| Some((*partner.get(&x)?, input))).collect();
            to == inside(theirs_to, b, theirs)
        };
        right.circle == theirs
            // Programs and their steps are not elements of one function.
            && left.class != program::CLASS_NAME
            && left.function == right.function
            && (left.inputs, left.forward.len()) == (right.inputs, right.forward.len())
            && !a.is_exit(x)
            && left.forward.iter().zip(&right.forward).all(same_connections)
    })
}
