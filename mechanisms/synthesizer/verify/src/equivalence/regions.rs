//! Translation validation of single programs, without following packets through the whole chain.
//!
//! This is possible if the second chain is the first with programs inserted, and all elements of the first
//! chain are still there. It then suffices to prove the following for each program and each packet that
//! arrives: equal packets reach equal inputs downstream of the region, from the program and from the
//! elements that it replaces. The results of the elements downstream follow from the packet and their
//! state. Therefore program and elements are interchangeable wherever packets come from, even on loops. A
//! packet that the program hands over continues through the elements themselves, to the end of the region.
//! Packets made of such a packet are made by the same elements as without the program. They leave by
//! outputs that are unchanged, or that lead to programs which are proven separately.
//!
//! Elements from which a program leases flows have state, which depends on all packets that arrive there.
//! Therefore equal packets have to arrive at each of these elements, too; packets that bypass the program
//! are equal in any case. Other stateful elements, and elements that hold packets, end a region. If an
//! element makes several packets of one, directly after each other, the proof of the whole chain is needed.
//! The reason is the order of these packets downstream: it depends on the element that separates them,
//! which may be inside the region.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use element::Base;
use element::effects::{Action, Case, Field, Hold, Target};

use super::{Comparison, Conclusion, Verifier, leases};
use crate::model::arrival::Arrival;
use crate::model::branches::BranchHistory;
use crate::model::diagrams::Diagrams;
use crate::model::explore::Ends;
use crate::model::packet::{PacketModel, incoming};
use crate::model::streams::{are_same_at, come_twice};
use program::chain::{Chain, ChainNode, Port, ReplacedRegion};

/// A program in the second chain, and the connection of the first chain (without programs) in which the
/// program was inserted.
#[derive(Clone, Copy)]
pub(super) struct Replaced {
    /// The element and output whose packets the program receives.
    from: Port,
    /// The element and input to which the output `from` leads without the program: the first element of the
    /// region.
    to: Port,
    /// The number of the element that runs the program, in the second chain.
    program: usize,
}

/// Returns the programs of chain `b`, if `b` is chain `a` with programs inserted, else `None`. If
/// `with_leases` is false, programs that lease flows are left out of the list.
pub(super) fn replaced([a, b]: [&Chain; 2], with_leases: bool) -> Option<Vec<Replaced>> {
    if !a.same_scripts(b) || a.calls || b.calls {
        return None;
    }
    let is_program = |node: &ChainNode| node.class == program::CLASS_NAME;
    let number: HashMap<&str, usize> =
        b.nodes.iter().enumerate().map(|(number, node)| (node.name.as_str(), number)).collect();
    let elements = b.nodes.iter().filter(|node| !is_program(node)).count();
    if elements != a.nodes.len() || number.len() != b.nodes.len() || a.nodes.iter().any(is_program) {
        return None;
    }
    let ways_to =
        |program: usize| b.nodes.iter().flat_map(ChainNode::leads).filter(|(to, _)| *to == program).count();
    let mut all = Vec::new();
    for original in &a.nodes {
        let here = *number.get(original.name.as_str())?;
        let node = &b.nodes[here];
        if node.function != original.function || node.forward.len() != original.forward.len() {
            return None;
        }
        for (output, (ports, originals)) in node.forward.iter().zip(&original.forward).enumerate() {
            let originals = originals
                .iter()
                .map(|&(to, input)| Some((*number.get(a.nodes[to].name.as_str())?, input)))
                .collect::<Option<Vec<Port>>>()?;
            match (&ports[..], &originals[..]) {
                _ if *ports == originals => {}
                // Exactly one connection may lead to a program: packets from another output could have
                // another layout.
                (&[(program, 0)], &[to]) if is_program(&b.nodes[program]) && ways_to(program) == 1 => {
                    let leases = b.nodes[program].region.as_ref()?.leases;
                    let replaced = Replaced { from: (here, output), to, program };
                    all.extend((with_leases || !leases).then_some(replaced));
                }
                _ => return None,
            }
        }
    }
    Some(all)
}

/// Returns the chain with the original connections in place of the programs `replaced`.
pub(super) fn without(chain: &Chain, replaced: &[Replaced]) -> Chain {
    let mut without = chain.clone();
    for one in replaced {
        without.lead(one.from, one.to);
        without.end(one.program);
    }
    without.arrange();
    without
}

/// Calls `attempt` for each program until one is not proven equivalent. Returns the verdict for all
/// programs, with the assumptions of all attempts.
pub(super) fn verify(replaced: &[Replaced], mut attempt: impl FnMut(&Replaced) -> Comparison) -> Comparison {
    let mut all = Comparison { verdict: Conclusion::Equivalent, assumptions: Vec::new(), nodes: 0 };
    for one in replaced {
        let outcome = attempt(one);
        all.nodes = all.nodes.max(outcome.nodes);
        for assumption in outcome.assumptions {
            if !all.assumptions.contains(&assumption) {
                all.assumptions.push(assumption);
            }
        }
        if !matches!(outcome.verdict, Conclusion::Equivalent) {
            all.verdict = outcome.verdict;
            break;
        }
    }
    all
}

impl Replaced {
    /// Proves that this program does what the elements that it replaces do. The first chain of the verifier
    /// has to be its second chain without programs. The verdict is never "different", only "equivalent" or
    /// "undecided".
    pub(super) fn verdict(&self, verifier: &mut Verifier<'_>) -> Conclusion {
        let same = self.compare(verifier).and_then(|()| match verifier.d.equates_zeros() {
            true => Err("checksums of 0000 and ffff are compared as equal".to_string()),
            false => Ok(()),
        });
        match same {
            Ok(()) => Conclusion::Equivalent,
            Err(reason) => {
                let from = &verifier.chains[0].nodes[self.from.0].name;
                Conclusion::Undecided { element: None, reason: format!("after {from}: {reason}") }
            }
        }
    }

    /// Compares the program with the elements that it replaces, for each layout of packets that arrives.
    /// `Err` has the reason why they are not proven equal.
    fn compare(&self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        let (d, [without, with]) = (verifier.d, verifier.chains);
        let Some(region) = &with.nodes[self.program].region else {
            return Err("its program cannot be read".into());
        };
        if region.otherwise != [self.to] {
            return Err("packets that its program does not accept leave to another element".into());
        }
        let source = &without.nodes[self.from.0];
        if makes_several(source, self.from.1) {
            return Err("one packet may arrive as several packets".into());
        }
        let names: BTreeSet<&str> = region.elements.iter().map(String::as_str).collect();
        let own = &with.nodes[self.program].name;
        // Packets are also followed through other programs, because a program inserted inside the region
        // leads to elements of the region.
        let is_program = |node: &ChainNode| node.class == program::CLASS_NAME && !leases(node);
        let is_followed = |node: &ChainNode| {
            names.contains(node.name.as_str()) || node.is_of_program(own) || is_program(node)
        };
        let ends: Vec<Option<usize>> =
            with.nodes.iter().map(|node| (!is_followed(node)).then_some(0)).collect();
        let followed: Vec<&ChainNode> = with.nodes.iter().filter(|node| is_followed(node)).collect();
        if let Some(node) = followed.iter().find(|node| node.effects.hold != Hold::None) {
            return Err(format!("'{}' holds packets", node.name));
        }
        // Some elements search the graph downstream for other elements. With the program they find the same
        // elements only if the program leads to no element that cannot be reached from the replaced elements.
        let behind = reached(without, self.to.0);
        let is_of_it = |node: &&ChainNode| node.is_of_program(own);
        let mut outputs = with.nodes.iter().filter(is_of_it).flat_map(ChainNode::leads);
        if outputs.any(|(to, _)| with.nodes[to].class != program::CLASS_NAME && !behind.contains(&to)) {
            return Err("its program sends packets to an element that its elements do not reach".into());
        }
        let packets = packets(d, source, region, &followed)?;
        let orders = verifier.chains.map(|chain| chain.order_of(&|node| ends[node].is_none()));
        for packet in packets {
            let from: [&[Port]; 2] = [&[self.to], &[(self.program, 0)]];
            let ends = verifier.explore(from, [&packet, &packet], [&ends, &ends], orders.each_ref());
            compare_ends(verifier, &ends, region.leases)?;
        }
        Ok(())
    }
}

/// Compares the ends of one packet with and without the program: the packets that reach inputs downstream,
/// the packets that elements make and, if the options say so, the drop reasons. `has_state` is true if the
/// program leases flows; then the streams of packets that arrive at stateful elements have to be equal. If
/// `has_state` is false, no packet may reach a stateful element.
fn compare_ends(verifier: &Verifier<'_>, ends: &[Ends; 2], has_state: bool) -> Result<(), String> {
    let (d, nodes) = (verifier.d, &verifier.chains[0].nodes);
    for ends in ends {
        if let Some((node, _)) = ends.round.keys().next() {
            return Err(format!("packets return to '{}' without end", nodes[*node].name));
        }
        let with_state = ends.streams.keys().filter(|_| !has_state);
        if let Some(&node) = with_state.chain(ends.out.keys()).chain(&ends.queues).next() {
            let name = &nodes[node].name;
            return Err(format!("the fate of packets at '{name}' does not depend on the packets alone"));
        }
    }
    let [mine, theirs] = ends.each_ref().map(|ends| &ends.streams);
    for (node, stream) in mine.iter().chain(theirs) {
        if [mine, theirs].iter().any(|streams| streams.get(node).map(|other| other.0) != Some(stream.0)) {
            let name = &nodes[*node].name;
            return Err(format!("the packets to '{name}', which keeps state, are not proven to be the same"));
        }
    }
    let [mine, theirs] = ends.each_ref().map(places);
    for place in mine.keys().chain(theirs.keys()) {
        let [mine, theirs] =
            [&mine, &theirs].map(|places| places.get(place).map(Vec::as_slice).unwrap_or_default());
        if !get_the_same(d, mine, theirs) {
            let (Place::Input(node, _) | Place::Made(node, ..)) = *place;
            return Err(format!("the packets to '{}' are not proven to be the same", nodes[node].name));
        }
    }
    let mut candidates = Vec::new();
    if verifier.options.reasons {
        verifier.compare_reasons(ends, &mut candidates);
    }
    match candidates.first() {
        Some(candidate) => Err(format!("{} is not proven to be the same", candidate.what)),
        None => Ok(()),
    }
}

/// A place at which exploration of a region ends.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place<'e> {
    /// An input downstream of the region: element and input.
    Input(usize, usize),
    /// A declared emission, by which an element makes a packet: element, output and name of the emission.
    Made(usize, usize, &'e str),
}

/// Groups the packets by the place at which their exploration ends.
fn places(ends: &Ends) -> BTreeMap<Place<'_>, Vec<&Arrival>> {
    let mut places: BTreeMap<Place<'_>, Vec<&Arrival>> = BTreeMap::new();
    for (&node, inputs) in ends.loops.values().flatten() {
        for (&input, arrivals) in inputs {
            places.entry(Place::Input(node, input)).or_default().extend(arrivals);
        }
    }
    for made in &ends.made {
        places.entry(Place::Made(made.node, made.output, made.name)).or_default().push(&made.arrival);
    }
    places
}

/// True if equal packets arrive at one place with the program (`theirs`) and without it (`mine`). Branch
/// histories decide the order of packets that come from one input packet, so these have to be equal, too.
fn get_the_same(d: &Diagrams, mine: &[&Arrival], theirs: &[&Arrival]) -> bool {
    let mut history: Vec<&BranchHistory> = Vec::new();
    for arrival in mine.iter().chain(theirs) {
        if !history.contains(&&arrival.history) {
            history.push(&arrival.history);
        }
    }
    history.into_iter().all(|history| {
        let [mine, theirs] = [mine, theirs].map(|all| {
            all.iter().filter(|one| one.history == *history).map(|one| (*one).clone()).collect::<Vec<_>>()
        });
        !come_twice(d, &mine) && are_same_at(d, &mine, &theirs)
    })
}

/// True if an element may send several packets by the output `output` for one packet that it receives:
/// several packets that it makes, or the received packet and a packet that it makes. Copies do not count,
/// because they take equal paths. False for entries.
fn makes_several(element: &ChainNode, output: usize) -> bool {
    let effects = &element.effects;
    let made = effects.emits.iter().filter(|emit| !emit.is_copy());
    let made = made.filter(|emit| emit.output.is_none_or(|other| other == output)).count();
    let passes = effects.cases.iter().any(|case| matches!(case.to, Target::Output(other) if other == output));
    element.inputs > 0 && made + usize::from(passes) > 1
}

/// Returns all elements that packets can reach from the element `from`, and `from` itself.
fn reached(chain: &Chain, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([from]);
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        work.extend(chain.nodes[node].leads().map(|(to, _)| to).filter(|to| reached.insert(*to)));
    }
    reached
}

/// Returns symbolic packets that together represent all packets that a program accepts; `Err` if that is not
/// possible, with the reason. Two numbers of a packet's layout do not affect the result: the headroom and,
/// unless an element reads it, the offset of the link header. Elements keep such a number, or replace it by
/// another number, whatever its value. So two packets in which the number differs represent packets with all
/// its values.
fn packets(
    d: &Diagrams,
    source: &ChainNode,
    region: &ReplacedRegion,
    elements: &[&ChainNode],
) -> Result<Vec<PacketModel>, String> {
    if source.inputs == 0 {
        let packet = incoming(d, &source.effects);
        let is_for_all = !region.is_certain || packet.headers == region.layout;
        return match packet.lost.is_none() && is_for_all {
            true => Ok(vec![packet]),
            false => Err("its program does not accept all packets that arrive".into()),
        };
    }
    if region.is_certain {
        return Err("its program does not accept all packets that arrive".into());
    }
    let [link, network, transport] = region.layout;
    let other = match region.needs_link {
        true => link,
        false if elements.iter().any(|node| depends_on_link(node)) => {
            return Err("the result depends on the position of link headers".into());
        }
        false if link.is_some() => None,
        false => Some(0),
    };
    let with_room = PacketModel::incoming(d, region.layout).any_like(d);
    let without = PacketModel::incoming(d, [other, network, transport]).with_any_annotations(d);
    match with_room {
        Some(with_room) => Ok(vec![with_room, without]),
        None => Err("the layout of packets is not known".into()),
    }
}

/// True if an element's result depends on the offset of the link header that was marked upstream: the element
/// reads or writes relative to this header.
fn depends_on_link(element: &ChainNode) -> bool {
    let is_link = |field: &Field| match field {
        Field::Bytes { base, .. } | Field::HeaderOffset(base) => *base == Base::Mac,
        _ => false,
    };
    let is_written = |case: &Case| {
        let sets = |is: &dyn Fn(&Field) -> bool| {
            case.actions.iter().any(|action| matches!(action, Action::Set(field, _) if is(field)))
        };
        let is_marked = sets(&|field| *field == Field::HeaderOffset(Base::Mac));
        !is_marked && sets(&|field| matches!(field, Field::Bytes { base: Base::Mac, .. }))
    };
    element.looks_at().iter().any(is_link) || element.effects.cases.iter().any(is_written)
}
