//! Programs that stand for elements, one by one.
//!
//! Where a chain is another one with programs put in, all of whose elements stay, packets need not be followed from where they
//! come in to where they leave. It is enough that for each program, whatever comes to it, the same comes to the same inputs
//! behind its stretch as from the elements that it stands for: what these do follows from the packet and their state, so that
//! either may be in the place of the other one wherever packets come from, on circles, too. A packet that is handed over goes on
//! through the elements themselves, to where the stretch ends. What elements make of it is made by the same elements, and leaves
//! them by outputs that are the same, or whose programs are proven by themselves.
//!
//! Elements that a program leases flows from keep state, which follows from all that comes to them. So the same has to come to
//! each of them, too, as what comes from elsewhere is the same in any case. Other elements with state, and those that hold packets,
//! end a stretch. Packets that an element makes several of, one behind the other, are left to the proof of the whole chain: which
//! of these comes first behind a stretch that parts them depends on who parts them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use element::Base;
use element::effects::{Action, Case, Field, Hold, Target};

use super::{Outcome, Verdict, Verifier, leases};
use crate::model::chain::{Chain, Node, Port, Stretch};
use crate::model::diagrams::Diagrams;
use crate::model::explore::{Arrival, Ends};
use crate::model::packet::{Packet, incoming};
use crate::model::streams::{are_same_at, come_twice};
use crate::model::turns::Turns;
use crate::synthesized;

/// A program, and what it stands for.
#[derive(Clone, Copy)]
pub(super) struct Replaced {
    /// The output that packets come from.
    from: Port,
    /// Where they would go on.
    to: Port,
    /// The element that runs it.
    program: usize,
}

/// Programs of the second chain, if it is the first one with programs put in: all of them, or those that lease no flows.
pub(super) fn replaced([a, b]: [&Chain; 2], with_leases: bool) -> Option<Vec<Replaced>> {
    if !a.same_scripts(b) || a.calls || b.calls {
        return None;
    }
    let is_program = |node: &Node| node.class == synthesized::CLASS.name;
    let number: HashMap<&str, usize> =
        b.nodes.iter().enumerate().map(|(number, node)| (node.name.as_str(), number)).collect();
    let elements = b.nodes.iter().filter(|node| !is_program(node)).count();
    if elements != a.nodes.len() || number.len() != b.nodes.len() || a.nodes.iter().any(is_program) {
        return None;
    }
    let ways_to =
        |program: usize| b.nodes.iter().flat_map(Node::leads).filter(|(to, _)| *to == program).count();
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
                // What else came to it would have to be like what comes from there.
                (&[(program, 0)], &[to]) if is_program(&b.nodes[program]) && ways_to(program) == 1 => {
                    let leases = b.nodes[program].stretch.as_ref()?.leases;
                    let replaced = Replaced { from: (here, output), to, program };
                    all.extend((with_leases || !leases).then_some(replaced));
                }
                _ => return None,
            }
        }
    }
    Some(all)
}

/// A chain without these programs.
pub(super) fn without(chain: &Chain, replaced: &[Replaced]) -> Chain {
    let mut without = chain.clone();
    for one in replaced {
        without.lead(one.from, one.to);
        without.end(one.program);
    }
    without.arrange();
    without
}

/// Whether programs do what their elements do, each by itself.
pub(super) fn verify(replaced: &[Replaced], mut attempt: impl FnMut(&Replaced) -> Outcome) -> Outcome {
    let mut all = Outcome { verdict: Verdict::Equivalent, assumptions: Vec::new(), nodes: 0 };
    for one in replaced {
        let outcome = attempt(one);
        all.nodes = all.nodes.max(outcome.nodes);
        for assumption in outcome.assumptions {
            if !all.assumptions.contains(&assumption) {
                all.assumptions.push(assumption);
            }
        }
        if !matches!(outcome.verdict, Verdict::Equivalent) {
            all.verdict = outcome.verdict;
            break;
        }
    }
    all
}

impl Replaced {
    /// Whether the program does what its elements do: these in the first chain, which is the second one without programs.
    pub(super) fn verdict(&self, verifier: &mut Verifier<'_>) -> Verdict {
        let same = self.compare(verifier).and_then(|()| match verifier.d.takes_zeros_for_one() {
            true => Err("checksums of 0000 and of ffff are taken for one".to_string()),
            false => Ok(()),
        });
        match same {
            Ok(()) => Verdict::Equivalent,
            Err(reason) => {
                let from = &verifier.chains[0].nodes[self.from.0].name;
                Verdict::Undecided { element: None, reason: format!("behind {from}: {reason}") }
            }
        }
    }

    /// The error is why it is not known.
    fn compare(&self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        let (d, [without, with]) = (verifier.d, verifier.chains);
        let Some(stretch) = &with.nodes[self.program].stretch else {
            return Err("its program cannot be read".into());
        };
        if stretch.otherwise != [self.to] {
            return Err("packets that its program is not for go elsewhere".into());
        }
        let source = &without.nodes[self.from.0];
        if makes_several(source, self.from.1) {
            return Err("several packets of one may come, one behind the other".into());
        }
        let names: BTreeSet<&str> = stretch.elements.iter().map(String::as_str).collect();
        let own = &with.nodes[self.program].name;
        // Other programs that stand in the stretch go on to elements of it.
        let is_program = |node: &Node| node.class == synthesized::CLASS.name && !leases(node);
        let is_followed =
            |node: &Node| names.contains(node.name.as_str()) || node.is_of_program(own) || is_program(node);
        let ends: Vec<Option<usize>> =
            with.nodes.iter().map(|node| (!is_followed(node)).then_some(0)).collect();
        let followed: Vec<&Node> = with.nodes.iter().filter(|node| is_followed(node)).collect();
        if let Some(node) = followed.iter().find(|node| node.effects.hold != Hold::None) {
            return Err(format!("'{}' holds packets", node.name));
        }
        // Who searches what is behind has to find the same.
        let behind = reached(without, self.to.0);
        let is_of_it = |node: &&Node| node.is_of_program(own);
        let mut outputs = with.nodes.iter().filter(is_of_it).flat_map(Node::leads);
        if outputs.any(|(to, _)| with.nodes[to].class != synthesized::CLASS.name && !behind.contains(&to)) {
            return Err("its program leads to where its elements do not".into());
        }
        let packets = packets(d, source, stretch, &followed)?;
        let orders = verifier.chains.map(|chain| chain.order_of(&|node| ends[node].is_none()));
        for packet in packets {
            let from: [&[Port]; 2] = [&[self.to], &[(self.program, 0)]];
            let ends = verifier.explore(from, [&packet, &packet], [&ends, &ends], orders.each_ref());
            compare_ends(verifier, &ends, stretch.leases)?;
        }
        Ok(())
    }
}

/// Whether packets end in the same way, as far as they are followed, and the same comes to elements with state, where the program
/// takes packets past such.
fn compare_ends(verifier: &Verifier<'_>, ends: &[Ends; 2], has_state: bool) -> Result<(), String> {
    let (d, nodes) = (verifier.d, &verifier.chains[0].nodes);
    for ends in ends {
        if let Some((node, _)) = ends.round.keys().next() {
            return Err(format!("packets come back to '{}' again and again", nodes[*node].name));
        }
        let with_state = ends.streams.keys().filter(|_| !has_state);
        if let Some(&node) = with_state.chain(ends.out.keys()).chain(&ends.queues).next() {
            let name = &nodes[node].name;
            return Err(format!("what becomes of packets at '{name}' does not follow from them alone"));
        }
    }
    let [mine, theirs] = ends.each_ref().map(|ends| &ends.streams);
    for (node, stream) in mine.iter().chain(theirs) {
        if [mine, theirs].iter().any(|streams| streams.get(node).map(|other| other.0) != Some(stream.0)) {
            let name = &nodes[*node].name;
            return Err(format!("what comes to '{name}', which keeps state, is not seen to be the same"));
        }
    }
    let [mine, theirs] = ends.each_ref().map(places);
    for place in mine.keys().chain(theirs.keys()) {
        let [mine, theirs] =
            [&mine, &theirs].map(|places| places.get(place).map(Vec::as_slice).unwrap_or_default());
        if !get_the_same(d, mine, theirs) {
            let (Place::Input(node, _) | Place::Made(node, ..)) = *place;
            return Err(format!("what comes to '{}' is not seen to be the same", nodes[node].name));
        }
    }
    let mut candidates = Vec::new();
    if verifier.options.reasons {
        verifier.compare_reasons(ends, &mut candidates);
    }
    match candidates.first() {
        Some(candidate) => Err(format!("{} is not seen to be the same", candidate.what)),
        None => Ok(()),
    }
}

/// Where packets are followed to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place<'e> {
    /// An input behind the stretch.
    Input(usize, usize),
    /// An element made them, for an output, as this.
    Made(usize, usize, &'e str),
}

/// Packets by where they are followed to.
fn places(ends: &Ends) -> BTreeMap<Place<'_>, Vec<&Arrival>> {
    let mut places: BTreeMap<Place<'_>, Vec<&Arrival>> = BTreeMap::new();
    for (&node, inputs) in ends.circles.values().flatten() {
        for (&input, arrivals) in inputs {
            places.entry(Place::Input(node, input)).or_default().extend(arrivals);
        }
    }
    for made in &ends.made {
        places.entry(Place::Made(made.node, made.output, made.name)).or_default().push(&made.arrival);
    }
    places
}

/// Whether the same packets come to a place. Of those that come of one, which is first follows from where they have parted, so
/// that this has to be the same, too.
fn get_the_same(d: &Diagrams, mine: &[&Arrival], theirs: &[&Arrival]) -> bool {
    let mut turns: Vec<&Turns> = Vec::new();
    for arrival in mine.iter().chain(theirs) {
        if !turns.contains(&&arrival.turns) {
            turns.push(&arrival.turns);
        }
    }
    turns.into_iter().all(|turns| {
        let [mine, theirs] = [mine, theirs].map(|all| {
            all.iter().filter(|one| one.turns == *turns).map(|one| (*one).clone()).collect::<Vec<_>>()
        });
        !come_twice(d, &mine) && are_same_at(d, &mine, &theirs)
    })
}

/// Whether several packets that are made of one, or it and others, may leave an element by one output. Copies take the same way.
fn makes_several(element: &Node, output: usize) -> bool {
    let effects = &element.effects;
    let made = effects.emits.iter().filter(|emit| !emit.is_copy());
    let made = made.filter(|emit| emit.output.is_none_or(|other| other == output)).count();
    let passes = effects.cases.iter().any(|case| matches!(case.to, Target::Output(other) if other == output));
    element.inputs > 0 && made + usize::from(passes) > 1
}

/// Elements that may get packets of one that gets some, with it.
fn reached(chain: &Chain, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([from]);
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        work.extend(chain.nodes[node].leads().map(|(to, _)| to).filter(|to| reached.insert(*to)));
    }
    reached
}

/// All packets that a program is for. How much room there is in front of them, and to some where the link header is marked, does
/// not matter: elements keep such a number, or put another one in its place, whatever it is, so that two different ones stand for
/// all.
fn packets(
    d: &Diagrams,
    source: &Node,
    stretch: &Stretch,
    elements: &[&Node],
) -> Result<Vec<Packet>, String> {
    if source.inputs == 0 {
        let packet = incoming(d, &source.effects);
        let is_for_all = !stretch.is_certain || packet.headers == stretch.layout;
        return match packet.lost.is_none() && is_for_all {
            true => Ok(vec![packet]),
            false => Err("its program is not for all packets that come".into()),
        };
    }
    if stretch.is_certain {
        return Err("its program is not for all packets that come".into());
    }
    let [link, network, transport] = stretch.layout;
    let other = match stretch.needs_link {
        true => link,
        false if elements.iter().any(|node| depends_on_link(node)) => {
            return Err("it matters where link headers are marked".into());
        }
        false if link.is_some() => None,
        false => Some(0),
    };
    let with_room = Packet::incoming(d, stretch.layout).any_like(d);
    let without = Packet::incoming(d, [other, network, transport]).with_any_annotations(d);
    match with_room {
        Some(with_room) => Ok(vec![with_room, without]),
        None => Err("it is not known how packets are laid out".into()),
    }
}

/// Whether something depends on where a link header was marked when packets came to an element.
fn depends_on_link(element: &Node) -> bool {
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
