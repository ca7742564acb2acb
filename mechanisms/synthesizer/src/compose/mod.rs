//! The front end of the compiler (SNF paper, "Service chain synthesizer"): it finds the regions of a chain
//! and turns each into a program.
//!
//! A region begins at each output from which packets can be followed: the output of a source, or of an
//! element that must stay. All packets that enter there are followed through the region at once
//! ([`mod@walk`]). Conditions of elements ([`formula`]) are expressed in terms of the input packet
//! ([`packet`]), and the changes of successive elements are combined ([`step`]). Rule sets with many rules
//! stay together ([`rules`]), and decisions of stateful elements are leased ([`walk::leased`]). If the
//! further processing of some packets is not known at compile time, they go to the element that they have
//! reached, with all earlier changes applied. Each path ends in an exit state ([`leaf`]), which becomes a
//! class. The questions form a decision graph ([`diagram`]). In this graph no path asks a question twice,
//! unless such a graph would be too large.
//!
//! Invariants:
//! - A program does to a packet in one operation what the elements on its path do.
//! - A packet for which this is not possible goes to the element itself; no configuration is refused.
//! - The method is independent of the verifier's (`tidegate-verify`): sets of intervals here, binary
//!   decision diagrams there.

pub mod diagram;
pub mod formula;
pub mod leaf;
pub mod packet;
pub mod rules;
pub mod step;
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};

use element::Base;
use element::effects::{Action, Effects, Field, Value};

use leaf::Destination;
use packet::SymbolicPacket;
use program::chain::{Chain, Port};
use program::location::{ByteLocation, ByteValue, IPV4};
use program::machine_code::MachineCode;
use program::metadata::headers_of;
use program::{Exit, OrderedRules, Passed, Program, Step, TrafficClass, cost, text};
use walk::{Handed, PathLimits, TooMany, Walked, walk};

/// A region of a chain, and the program that replaces it.
#[derive(Clone, Debug)]
pub struct Region {
    /// The entry of the region: an element that stays, and its output, at which the program is inserted.
    pub from: Port,
    /// The input to which the entry, an output of the element that stays, was connected.
    pub to: Port,
    /// The program that replaces the region.
    pub program: Program,
    /// For each output of the program, the input that it leads to.
    pub outputs: Vec<Port>,
    /// The inputs of elements at which packets are handed over, with the reasons.
    pub handed: Handed,
    /// The elements that packets of some class bypass, and the elements whose rules are lists of the program,
    /// by index in the chain.
    pub passed: BTreeSet<usize>,
}

impl Region {
    /// Adds outputs to which no class leads at present, so that a program that is composed again after a
    /// change of elements can have the same outputs. The added outputs lead to all inputs of elements in the
    /// region and to the inputs at which the region ends, because after a change any element may have to
    /// process packets itself.
    pub fn add_outputs(&mut self, chain: &Chain, limits: &PathLimits) {
        for port in walk::inputs(chain, self.to, limits) {
            if !self.outputs.contains(&port) {
                self.outputs.push(port);
            }
        }
        self.program.outputs = self.outputs.len();
    }

    /// Gives the program the outputs `outputs`, each with the input of an element that it leads to. Returns
    /// false, and changes nothing, if packets leave the region at an input that none of these outputs leads
    /// to.
    pub fn set_outputs(&mut self, outputs: &[Port]) -> bool {
        let number = |port: &Port| outputs.iter().position(|other| other == port);
        let Some(numbers) = self.outputs.iter().map(number).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        let program = &mut self.program;
        program.otherwise = numbers[program.otherwise];
        let steps = program.steps.iter_mut().map(|step| &mut step.before);
        for class in program.classes.iter_mut().chain(steps) {
            if let Exit::Output(output) = &mut class.exit {
                *output = numbers[*output];
            }
        }
        program.outputs = outputs.len();
        self.outputs = outputs.to_vec();
        true
    }
}

/// The result of the synthesis of a chain: the regions with their programs, and the parts of the chain that
/// stay as they are, with the reasons.
#[derive(Clone, Debug, Default)]
pub struct Synthesis {
    /// The regions that programs replace, regions of upstream elements first.
    pub regions: Vec<Region>,
    /// The elements at which regions end, because their forks would lead to more classes than the limit;
    /// each with its number of forks.
    pub multiplied: Vec<(usize, usize)>,
    /// The elements that process all packets of some region themselves, except packets of leased flows and
    /// packets that the program drops; with the reasons.
    pub alone: BTreeMap<usize, String>,
    /// The regions that are not replaced, because a program would cost more than the elements. Each has its
    /// entry, and the number of elements on its longest path.
    pub unprofitable: Vec<(Port, usize)>,
}

impl Synthesis {
    /// Returns the synthesis with another time at which machine code is made for its programs.
    #[must_use]
    pub fn with_machine_code(mut self, making: MachineCode) -> Synthesis {
        for region in &mut self.regions {
            region.program.machine_code = making;
        }
        self
    }
}

/// Finds the regions of a chain and composes their programs. `is_pushed` returns true if packets are pushed
/// out of an output. Where packets are pulled, elements stay, because a program cannot pull.
pub fn synthesize(chain: &Chain, limits: &PathLimits, is_pushed: &dyn Fn(Port) -> bool) -> Synthesis {
    let mut alone = limits.alone.clone();
    let mut synthesis = Synthesis::default();
    let mut work: Vec<Start> = Vec::new();
    let mut begun = BTreeSet::new();
    let mut begin = |work: &mut Vec<Start>, start: Start| {
        if is_pushed(start.from) && begun.insert(start.from) {
            work.push(start);
        }
    };
    for node in chain.entries() {
        for output in 0..chain.nodes[node].forward.len() {
            let Some(packet) = given(&chain.nodes[node].effects) else { continue };
            if !is_pushed((node, output)) {
                // Packets are pulled out of this output. A region may begin at outputs of the element
                // downstream that pulls.
                for &(next, _) in &chain.nodes[node].forward[output] {
                    behind(
                        chain,
                        next,
                        &BTreeSet::from([packet.headers]),
                        is_pushed,
                        &mut |from, headers| begin(&mut work, Start::behind(from, headers, true)),
                    );
                }
            }
            let is_certain = chain.nodes[node].inputs == 0;
            begin(&mut work, Start { from: (node, output), packet, is_certain, leases: true });
        }
    }
    let mut next = 0;
    while next < work.len() {
        let Start { from, packet, is_certain, leases } = work[next].clone();
        let mut limits =
            PathLimits { leases: leases && limits.leases, alone: alone.clone(), ..limits.clone() };
        next += 1;
        let Some(&[to]) = chain.nodes[from.0].forward.get(from.1).map(Vec::as_slice) else { continue };
        let walked = loop {
            match walk(chain, to, packet.clone(), &limits) {
                Ok(walked) => break walked,
                // The limit of classes applies to each region. The element that forks most often becomes
                // the end of the region, and the region is explored again.
                Err(TooMany { elements }) => match elements.first() {
                    Some(&(node, parts)) if limits.alone.insert(node) => {
                        alone.insert(node);
                        synthesis.multiplied.push((node, parts))
                    }
                    _ => break walk_nowhere(to, &packet),
                },
            }
        };
        for (port, layouts) in handed_to(&walked) {
            let node = port.0;
            if chain.is_exit(node) {
                continue;
            }
            let Some(why) = walked.why_alone(port) else { continue };
            synthesis.alone.entry(node).or_insert_with(|| why.to_string());
            // If this element leases flows, packets that it processes itself belong to flows that have not
            // been leased. So no flows are leased in the regions downstream of it, because a flow is leased
            // at all steps or at none.
            let leases = leases && walked.steps.iter().all(|step| step.port.0 != node);
            behind(chain, node, &layouts, is_pushed, &mut |from, headers| {
                begin(&mut work, Start::behind(from, headers, leases));
            });
        }
        let Some(mut region) = region(chain, from, to, &packet, is_certain, walked) else { continue };
        region.program.always = limits.least.is_some();
        let longest = region.program.classes.iter().map(|class| class.path.len()).max().unwrap_or_default();
        if let Some(why) = refusal(&region.program) {
            synthesis.alone.entry(to.0).or_insert(why);
        } else {
            let is_worth_it = match limits.least {
                Some(least) => longest + region.program.lists.len() >= least,
                None => cost::pays(&region.program),
            };
            if is_worth_it {
                synthesis.regions.push(region);
            } else if limits.least.is_none() {
                synthesis.unprofitable.push((from, longest));
            }
        }
    }
    synthesis.regions.sort_by_key(|region| chain.rank(region.from.0));
    synthesis
}

/// The offsets of the marked link, network and transport header from the start of the packet; `None` for a
/// header without a mark.
type Layout = [Option<i32>; 3];

/// Calls `begin` for each possible entry of a region downstream of an element that stays: its outputs, or,
/// where packets are pulled out of them, the next outputs out of which packets are pushed. `layouts` has
/// the layouts of packets that arrive at the element.
fn behind(
    chain: &Chain,
    node: usize,
    layouts: &BTreeSet<Layout>,
    is_pushed: &dyn Fn(Port) -> bool,
    begin: &mut dyn FnMut(Port, Layout),
) {
    let mut seen = BTreeSet::new();
    let mut work = vec![(node, layouts.clone())];
    while let Some((node, layouts)) = work.pop() {
        if !seen.insert(node) {
            continue;
        }
        for (output, to) in chain.nodes[node].forward.iter().enumerate() {
            let known =
                layouts.iter().filter_map(|layout| moved(*layout, &chain.nodes[node].effects, output));
            let known: BTreeSet<Layout> = known.collect();
            // Packets may arrive here with several layouts. The program is made for the layout with the most
            // header marks, because most packets have that layout.
            let Some(headers) = known.iter().max_by_key(|layout| layout.iter().flatten().count()) else {
                continue;
            };
            match is_pushed((node, output)) {
                true => begin((node, output), *headers),
                false => work.extend(to.iter().map(|&(next, _)| (next, known.clone()))),
            }
        }
    }
}

#[derive(Clone)]
struct Start {
    from: Port,
    packet: SymbolicPacket,
    /// True if all packets that enter the region have their headers marked as in `packet`.
    is_certain: bool,
    /// True if flows may be leased in this region.
    leases: bool,
}

impl Start {
    /// Makes the start of a region at an element's output, for packets with headers at the offsets `headers`.
    /// Packets with other headers may arrive there, too.
    fn behind(from: Port, headers: Layout, leases: bool) -> Start {
        Start { from, packet: SymbolicPacket::incoming(headers), is_certain: false, leases }
    }
}

/// Returns the symbolic packet that a source emits, according to its declaration. Returns `None` if only
/// the source knows the offsets of its headers.
pub(crate) fn given(source: &Effects) -> Option<SymbolicPacket> {
    let mut packet = SymbolicPacket::incoming(headers_of(source.emits.first().and_then(|emit| emit.starts)));
    packet.annotations = (0..48).map(|place| (place, ByteValue::Constant(0))).collect();
    for action in source.cases.iter().flat_map(|case| &case.actions) {
        match action {
            Action::Set(Field::HeaderOffset(base), Value::Constant(bytes)) => {
                let offset = bytes.iter().fold(0, |n, &byte| n << 8 | i32::from(byte));
                packet.mark(*base, (!bytes.is_empty()).then_some(offset));
            }
            Action::Set(Field::HeaderOffset(_), _) => return None,
            Action::Set(Field::Annotation { offset, length }, value) => {
                for (index, place) in (*offset..offset.saturating_add(*length)).enumerate() {
                    let byte = match value {
                        Value::Constant(bytes) => ByteValue::Constant(*bytes.get(index)?),
                        _ => ByteValue::Came(ByteLocation::Annotation(place)),
                    };
                    packet.write(ByteLocation::Annotation(place), [byte]);
                }
            }
            _ => {}
        }
    }
    Some(packet)
}

/// Returns, for each input at which packets leave a region, the layouts of these packets.
fn handed_to(walked: &Walked) -> BTreeMap<Port, BTreeSet<Layout>> {
    let mut layouts: BTreeMap<Port, BTreeSet<Layout>> = BTreeMap::new();
    for leaf in walked.leaves.iter() {
        if let Destination::Port(port) = leaf.to {
            let headers = leaf.packet.headers.map(|place| place.map(|place| place - leaf.packet.start));
            layouts.entry(port).or_default().insert(headers);
        }
    }
    layouts
}

/// Returns the layout of packets that leave an element by an output, for packets that arrive with `layout`.
/// Returns `None` if no packets leave there, or if the declaration of the element does not tell. If packets
/// leave with several layouts, returns the one with the most marks. A transport header at an offset that is
/// not constant is assumed 20 bytes after the network header.
fn moved(layout: Layout, effects: &Effects, output: usize) -> Option<Layout> {
    if effects.opaque.is_some() {
        return None;
    }
    if let Some(emit) = effects.emits.iter().find(|emit| emit.output == Some(output) && !emit.is_copy()) {
        return emit.starts.map(|header| headers_of(Some(header)));
    }
    let mut all = BTreeSet::new();
    for case in effects.cases.iter().filter(|case| leads_to(case.to, output)) {
        let mut packet = SymbolicPacket::incoming(layout);
        for action in &case.actions {
            match action {
                Action::Strip(n) => packet.start += n,
                Action::Start(_) => return None,
                Action::Set(Field::HeaderOffset(base), Value::Constant(bytes)) => {
                    let offset = bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte));
                    let place = (!bytes.is_empty()).then_some(packet.start + offset);
                    packet.mark(*base, place);
                }
                Action::Set(Field::HeaderOffset(Base::Transport), _) => {
                    packet.mark(Base::Transport, packet.headers[1].map(|network| network + IPV4));
                }
                Action::Set(Field::HeaderOffset(_), _) => return None,
                _ => {}
            }
        }
        all.insert(packet.headers.map(|place| place.map(|place| place - packet.start)));
    }
    all.into_iter().max_by_key(|layout| layout.iter().flatten().count())
}

pub(crate) fn leads_to(target: element::effects::Target, output: usize) -> bool {
    use element::effects::Target;
    match target {
        Target::Output(to) | Target::Hold(to) => to == output,
        Target::AllOutputs | Target::SomeOutput => true,
        Target::Drop(_) | Target::Send => false,
    }
}

/// Returns the result of a walk that hands over all packets at the entry, for a region that cannot be
/// explored.
fn walk_nowhere(to: Port, packet: &SymbolicPacket) -> Walked {
    let mut walked = Walked::default();
    let leaf = leaf::ExitState { packet: packet.clone(), to: Destination::Port(to), path: Vec::new() };
    walked.start = program::Next::Class(walked.leaves.add(leaf));
    walked
}

/// Returns the reason why a program cannot be written down, or run; for example, elements may be configured
/// to read offsets that no packet has. Returns `None` for a usable program.
fn refusal(program: &Program) -> Option<String> {
    let lines: Vec<String> =
        lang::args::split(&text::write(program)).into_iter().map(|line| line.text).collect();
    match text::read(&lines, program.outputs) {
        Ok(program) => Some(format!("its program cannot be run: {}", program::validate(&program).err()?)),
        Err(why) => Some(format!("its program cannot be written: {why}")),
    }
}

/// Returns the region of a walk, with its program. `incoming` is the symbolic packet at the entry `from`;
/// `to` is the input that the entry was connected to. Returns `None` if packets bypass no element.
fn region(
    chain: &Chain,
    from: Port,
    to: Port,
    incoming: &SymbolicPacket,
    is_certain: bool,
    mut walked: Walked,
) -> Option<Region> {
    let start = walked.diagram.ordered(walked.start);
    let (nodes, start) = walked.diagram.finish(start);
    let mut used: Vec<u32> = nodes
        .iter()
        .flat_map(|node| node.parts.iter().map(|(_, next)| *next))
        .chain([start])
        .filter_map(|next| match next {
            program::Next::Class(class) => Some(class),
            program::Next::Node(_) => None,
        })
        .collect();
    used.sort_unstable();
    used.dedup();
    let mut elements = Names { chain, numbers: BTreeMap::new(), names: Vec::new() };
    // The output that most of the bypassed elements lead to comes first, because the engine's path for
    // output 0 is the shortest.
    let mut outputs: Vec<Port> = Vec::new();
    let mut often: BTreeMap<Port, usize> = BTreeMap::new();
    for class in &used {
        if let Destination::Port(port) = walked.leaves.get(*class).to {
            *often.entry(port).or_default() += walked.leaves.get(*class).path.len();
        }
    }
    outputs.extend(often.keys());
    outputs.sort_by_key(|port| std::cmp::Reverse(often[port]));
    // Packets with another layout go to the input that the entry was connected to, as without the program.
    if !outputs.contains(&to) {
        outputs.push(to);
    }
    let otherwise = outputs.iter().position(|port| *port == to)?;
    let mut passed = BTreeSet::new();
    let classes: Vec<TrafficClass> = used
        .iter()
        .map(|&class| {
            let leaf = walked.leaves.get(class);
            passed.extend(leaf.path.iter().map(|passed| passed.node));
            class_of(leaf, incoming, is_certain, &outputs, &mut elements)
        })
        .collect();
    passed.extend(walked.lists.iter().map(|list| list.element as usize));
    if passed.is_empty() {
        return None;
    }
    let renumber = |next| match next {
        program::Next::Class(class) => {
            program::Next::Class(used.binary_search(&class).unwrap_or_default() as u32)
        }
        node => node,
    };
    let nodes = nodes.into_iter().map(|mut node| {
        node.parts.iter_mut().for_each(|(_, next)| *next = renumber(*next));
        node
    });
    let lists: Vec<OrderedRules> = walked
        .lists
        .into_iter()
        .map(|list| OrderedRules { element: elements.number(list.element as usize), ..list })
        .collect();
    let steps: Vec<Step> = walked
        .steps
        .into_iter()
        .map(|step| {
            let leaf =
                leaf::ExitState { packet: step.packet, to: Destination::Port(step.port), path: Vec::new() };
            Step {
                element: elements.number(step.port.0),
                input: step.port.1,
                case: step.case,
                after: step.after,
                before: class_of(&leaf, incoming, is_certain, &outputs, &mut elements),
            }
        })
        .collect();
    let program = Program {
        layout: incoming.headers,
        needs_link: is_certain || incoming.is_link_asked(),
        is_certain,
        otherwise,
        nodes: nodes.collect(),
        start: renumber(start),
        lists,
        steps,
        classes,
        elements: elements.names,
        outputs: outputs.len(),
        machine_code: MachineCode::default(),
        always: false,
    };
    Some(Region { from, to, program, outputs, handed: walked.handed, passed })
}

struct Names<'c> {
    chain: &'c Chain,
    numbers: BTreeMap<usize, u32>,
    names: Vec<String>,
}

impl Names<'_> {
    fn number(&mut self, node: usize) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(node).or_insert_with(|| {
            self.names.push(self.chain.nodes[node].name.clone());
            next
        })
    }
}

fn class_of(
    leaf: &leaf::ExitState,
    incoming: &SymbolicPacket,
    is_certain: bool,
    outputs: &[Port],
    elements: &mut Names,
) -> TrafficClass {
    let packet = &leaf.packet;
    let is_dropped = matches!(leaf.to, Destination::Drop(_));
    let exit = match leaf.to {
        Destination::Port(port) => {
            Exit::Output(outputs.iter().position(|other| *other == port).unwrap_or_default())
        }
        Destination::Drop(reason) => Exit::Drop(reason),
    };
    let headers = std::array::from_fn(|base| {
        let is_other = packet.headers[base] != incoming.headers[base];
        // If packets with another mark of the link header may arrive, the program has to mark the link header
        // even if its offset is the same as in the layout.
        let is_new = is_other || base == 0 && packet.link_marked && !is_certain;
        (!is_dropped && is_new).then_some(packet.headers[base])
    });
    let path = leaf.path.iter().map(|passed| Passed {
        element: elements.number(passed.node),
        input: passed.input,
        case: passed.case,
        start: passed.start,
        cut: passed.cut,
    });
    TrafficClass {
        start: packet.start,
        end: leaf::end(packet),
        headers,
        kind: packet.kind,
        port: packet.port,
        framed: packet.framed,
        stamped: packet.stamped,
        writes: leaf::writes(packet, incoming),
        checksum: leaf::checksum(packet),
        transport_checksum: leaf::transport_checksum(packet),
        exit,
        path: path.collect(),
    }
}
