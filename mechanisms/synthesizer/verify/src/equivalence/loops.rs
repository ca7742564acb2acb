//! Loops of a configuration that are equal in two chains, so that the comparison need not follow packets on
//! them.
//!
//! A packet on a loop may reach the same element any number of times, so following it need not terminate.
//! It is not necessary if the elements of the loop and the connections between them are equal in both
//! chains. The behaviour of the loop, with all its state and packets, then follows from the packets that
//! enter it. Its elements do the same as long as equal packets arrive at each. Every packet that arrives at
//! one of them has entered the loop from outside, or came earlier from another element of the loop. So it
//! suffices to prove, for each packet and each start, that equal packets enter the loop at the same inputs.
//! Equal packets then leave it by the same outputs, including packets that its elements make, whatever
//! these packets are. Downstream of the loop, exploration continues with an arbitrary packet of each layout
//! that may leave there.
//!
//! A loop here is a strongly connected component of the graph. The whole component has to be equal: one
//! additional element or connection would be another path for packets. The chain outside of the loop need
//! not be equal, since no packet that leaves the loop comes back. Two cases are not covered, and remain
//! undecided. If two packets from one input packet enter a loop, their order may matter there, and it
//! depends on the elements upstream. The same is true of a stateful element that receives packets from a
//! loop among packets from elsewhere.

use std::collections::{BTreeMap, HashMap};

use crate::model::arrival::Waiting;
use crate::model::diagrams::{Diagrams, Term};
use crate::model::explore::made;
use crate::model::functions::Functions;
use crate::model::packet::PacketModel;
use crate::model::step::{To, Unit};
use crate::model::streams::{are_same, come_twice};
use program::chain::{Chain, Port};

/// The maximum number of packet layouts (offsets of start and headers) that are distinguished at one input of
/// a loop. If packets move a header each time they go round the loop, the number of layouts is unlimited.
/// Beyond this maximum, the packet is assumed to have an unknown layout.
const MOST_LAYOUTS: usize = 32;

/// The loops that are equal in both of two compared chains, numbered from 0.
pub(super) struct Loops {
    /// For each of the two chains, for each element: the number of the loop that it is on; `None` if it is on
    /// no loop that is equal in both chains.
    of: [Vec<Option<usize>>; 2],
    /// For each loop: the pairs of corresponding elements, in the first and in the second chain.
    elements: Vec<Vec<[usize; 2]>>,
}

/// The packets that enter one loop from outside, by the element of the loop that they reach first.
pub(super) type Entering = BTreeMap<usize, Waiting>;

/// The packets that may leave one loop, as [`Loops::leaving`] computes them.
#[derive(Default)]
pub(super) struct Leaving {
    /// An arbitrary packet for each layout, with the element and output of the first chain by which it
    /// leaves.
    pub(super) packets: Vec<(Port, PacketModel)>,
    /// The queues on the loop that were assumed never to be full, as indices of elements in the first chain.
    pub(super) queues: Vec<usize>,
}

impl Loops {
    /// Returns an empty set of loops: the comparison then follows packets on every loop, round by round.
    pub(super) fn none(chains: [&Chain; 2]) -> Loops {
        Loops { of: chains.map(|chain| vec![None; chain.nodes.len()]), elements: Vec::new() }
    }

    /// Finds loops that are equal in both chains. Loops with an exit or a program are not found, nor loops
    /// without an element that has a name from the configuration.
    pub(super) fn of_both(chains: [&Chain; 2]) -> Loops {
        let mut loops = Loops::none(chains);
        let [a, _] = chains;
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, node) in a.nodes.iter().enumerate() {
            if let Some(loop_id) = node.loop_id {
                all.entry(loop_id).or_default().push(number);
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

    /// True if no loop is equal in both chains, or none was sought ([`none`](Self::none)).
    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns, for each element of the first (0) or second (1) chain, the number of the equal loop that it
    /// is on; `None` for an element on none.
    pub(super) fn in_chain(&self, chain: usize) -> &[Option<usize>] {
        &self.of[chain]
    }

    /// Returns the pairs of corresponding elements on the loop with number `loop_id`.
    pub(super) fn elements(&self, loop_id: usize) -> &[[usize; 2]] {
        &self.elements[loop_id]
    }

    /// True if equal packets enter the loop with number `loop_id` at equal inputs in both chains, and no
    /// input packet leads to more than one packet that enters the loop.
    pub(super) fn get_the_same(&self, d: &Diagrams, loop_id: usize, entering: [&Entering; 2]) -> bool {
        let twice = entering.iter().any(|entering| {
            let all = entering.values().flat_map(|waiting| waiting.values().flatten());
            come_twice(d, all)
        });
        let same = |[x, y]: &[usize; 2]| match (entering[0].get(x), entering[1].get(y)) {
            (None, None) => true,
            (Some(a), Some(b)) => are_same(d, a, b),
            _ => false,
        };
        !twice && self.elements[loop_id].iter().all(same)
    }

    /// Returns the element of the second chain that corresponds to `element` of the first; `None` if
    /// `element` is on no loop that is equal in both chains.
    pub(super) fn other(&self, element: usize) -> Option<usize> {
        let pairs = self.elements.get(self.of[0][element]?)?;
        pairs.iter().find(|[x, _]| *x == element).map(|[_, y]| *y)
    }

    /// Computes which packets may leave the loop with number `loop_id` if the packets `entering` enter it.
    /// Only the layouts of packets are followed around the loop; the contents of packets that leave are
    /// arbitrary. `chain` is the first chain.
    pub(super) fn leaving(
        &self,
        d: &Diagrams,
        chain: &Chain,
        loop_id: usize,
        entering: &Entering,
    ) -> Leaving {
        let (mut leaving, functions) = (Leaving::default(), Functions::default());
        // Returns a packet that represents all packets with this layout: its contents are arbitrary. If the
        // layout is not known, nothing is known of the packet.
        let like = |packet: &PacketModel| packet.any_like(d).unwrap_or_else(|| anything(d));
        let mut seen: Vec<(Port, PacketModel)> = Vec::new();
        let come = |port: Port, packet: PacketModel, seen: &mut Vec<(Port, PacketModel)>| {
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
            let mut out: Vec<(usize, PacketModel)> = Vec::new();
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
                for &port in ports.iter().filter(|port| self.of[0][port.0] == Some(loop_id)) {
                    come(port, packet.clone(), &mut seen);
                }
                let left = ((number, output), packet);
                if ports.iter().any(|port| self.of[0][port.0] != Some(loop_id))
                    && !leaving.packets.contains(&left)
                {
                    leaving.packets.push(left);
                }
            }
        }
        leaving
    }
}

fn anything(d: &Diagrams) -> PacketModel {
    PacketModel::lost(d, d.term(Term { name: "whatever is on a circle".into(), ..Term::default() }))
}

/// Returns pairs of corresponding elements of a loop. `elements` are the elements of the loop in chain `a`.
/// The first pair is found by an equal name, the other pairs by following corresponding connections from
/// there. Empty if no element of the loop has a name from the configuration that an element on a loop of
/// chain `b` has, too.
fn counterparts([a, b]: [&Chain; 2], elements: &[usize]) -> Vec<[usize; 2]> {
    let find = |&x: &usize| {
        let (node, mut others) = (&a.nodes[x], (0..b.nodes.len()).filter(|&y| b.nodes[y].loop_id.is_some()));
        let is_named = !node.name.contains('@');
        let y = others.find(|&y| is_named && b.nodes[y].name == node.name)?;
        Some([x, y])
    };
    let Some(first) = elements.iter().find_map(find) else { return Vec::new() };
    let inside = |chain: &Chain, element: usize, output: usize| -> Vec<Port> {
        let node = &chain.nodes[element];
        let ports = node.forward.get(output).into_iter().flatten();
        ports.filter(|port| chain.nodes[port.0].loop_id == node.loop_id).copied().collect()
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

/// True if the elements of each pair have equal functions and equal connections with each other. The pairs
/// have to be all elements of the loop in both chains. False if the loop contains an exit of the chain or an
/// element that runs a program.
fn are_alike([a, b]: [&Chain; 2], pairs: &[[usize; 2]]) -> bool {
    let Some(&[first, other]) = pairs.first() else { return false };
    let (mine, theirs) = (a.nodes[first].loop_id, b.nodes[other].loop_id);
    if theirs.is_none() || b.nodes.iter().filter(|node| node.loop_id == theirs).count() != pairs.len() {
        return false;
    }
    let partner: HashMap<usize, usize> = pairs.iter().map(|&[x, y]| (x, y)).collect();
    pairs.iter().all(|&[x, y]| {
        let (left, right) = (&a.nodes[x], &b.nodes[y]);
        let inside = |ports: &[Port], chain: &Chain, loop_id| -> Vec<Port> {
            ports.iter().filter(|port| chain.nodes[port.0].loop_id == loop_id).copied().collect()
        };
        let same_connections = |(mine_to, theirs_to): (&Vec<Port>, &Vec<Port>)| {
            let to = inside(mine_to, a, mine).into_iter();
            let to: Vec<Port> = to.filter_map(|(x, input)| Some((*partner.get(&x)?, input))).collect();
            to == inside(theirs_to, b, theirs)
        };
        right.loop_id == theirs
            // A loop with an element that runs a program never counts as equal, because two such elements may
            // do different things although their class is the same.
            && left.class != program::CLASS_NAME
            && left.function == right.function
            && (left.inputs, left.forward.len()) == (right.inputs, right.forward.len())
            && !a.is_exit(x)
            && left.forward.iter().zip(&right.forward).all(same_connections)
    })
}
