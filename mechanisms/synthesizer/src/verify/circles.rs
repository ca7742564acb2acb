//! Circles that are the same in two chains.
//!
//! Packets that are led round and back may come to the same element any number of times, so that following them does not end
//! by itself. But where the elements of a circle are the same in both chains, and are connected to each other in the same
//! way, nothing needs to be followed on it. What such a circle does, with all the state and the packets in it, follows from
//! what has come to it from outside: its elements do the same as long as the same has come to each, and what has come to one
//! of them came from outside or from another one, before. So if it is proven for each packet and each start that the same
//! comes to the same inputs of the circle from outside, the same leaves it by the same outputs, what its elements make
//! included, whatever that is. From there on it is followed as any packet that is laid out in one of the ways in which
//! packets may leave there.
//!
//! All of that circle (a strongly connected component) has to be the same: a single element or connection more would be a way
//! for other packets to come. What is outside does not, since nothing that leaves comes back. Which of two packets
//! that come of one comes first may matter on the circle, and depends on what is in front of it, so that it is not enough then
//! that both come; nor is it for an element with state to which what has left a circle comes beside other packets.

use std::collections::{BTreeMap, HashMap};

use crate::model::chain::{Chain, Port};
use crate::model::diagrams::{Diagrams, Term};
use crate::model::explore::{Waiting, made};
use crate::model::functions::Functions;
use crate::model::packet::Packet;
use crate::model::step::{To, Unit};
use crate::model::streams::{are_same, come_twice};
use crate::synthesized;

/// Layouts at one input that are told apart. More come about where each round moves a header; then nothing is known.
const MOST_LAYOUTS: usize = 32;

/// Circles that are the same in both of two chains.
pub(super) struct Circles {
    /// By chain and element: the number of the circle that it is on.
    of: [Vec<Option<usize>>; 2],
    /// Their elements in both chains.
    elements: Vec<Vec<[usize; 2]>>,
}

/// What comes to a circle from outside, by element.
pub(super) type Entering = BTreeMap<usize, Waiting>;

/// What may leave a circle.
#[derive(Default)]
pub(super) struct Leaving {
    /// By element and output of the first chain: any packet of each layout.
    pub(super) packets: Vec<(Port, Packet)>,
    /// Queues of the first chain that were taken as never full.
    pub(super) queues: Vec<usize>,
}

impl Circles {
    /// None: packets are followed round by round.
    pub(super) fn none(chains: [&Chain; 2]) -> Circles {
        Circles { of: chains.map(|chain| vec![None; chain.nodes.len()]), elements: Vec::new() }
    }

    /// Those of two chains.
    pub(super) fn of_both(chains: [&Chain; 2]) -> Circles {
        let mut circles = Circles::none(chains);
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
                    for (of, &element) in circles.of.iter_mut().zip(pair) {
                        of[element] = Some(circles.elements.len());
                    }
                }
                circles.elements.push(pairs);
            }
        }
        circles
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// By element of a chain: the circle that it is on.
    pub(super) fn in_chain(&self, chain: usize) -> &[Option<usize>] {
        &self.of[chain]
    }

    /// The elements of a circle in both chains.
    pub(super) fn elements(&self, circle: usize) -> &[[usize; 2]] {
        &self.elements[circle]
    }

    /// Whether the same comes to a circle from outside in both chains.
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

    /// An element of the first chain in the second one, if it is on such a circle.
    pub(super) fn other(&self, element: usize) -> Option<usize> {
        let pairs = self.elements.get(self.of[0][element]?)?;
        pairs.iter().find(|[x, _]| *x == element).map(|[_, y]| *y)
    }

    /// What may leave a circle to which this comes: any packets that are laid out as packets there may be.
    pub(super) fn leaving(&self, d: &Diagrams, chain: &Chain, circle: usize, entering: &Entering) -> Leaving {
        let (mut leaving, functions) = (Leaving::default(), Functions::default());
        // One of which nothing is known if it cannot be said how it is laid out.
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

/// Elements of a circle of the first chain with what corresponds to them in the second one: first by a name, then along
/// connections, by which all of a circle is reached.
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

/// Whether pairs of elements are the same and connected with each other in the same way, and are all of a circle in both
/// chains.
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
            && left.class != synthesized::CLASS.name
            && left.function == right.function
            && (left.inputs, left.forward.len()) == (right.inputs, right.forward.len())
            && !a.is_exit(x)
            && left.forward.iter().zip(&right.forward).all(same_connections)
    })
}
