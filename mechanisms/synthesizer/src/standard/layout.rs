//! Data-flow analysis of header marks in a chain: the offsets at which headers are marked in all packets
//! that leave an output.
//!
//! A program accepts packets with headers at certain offsets. No element of Click tests header marks, so
//! the marks have to be known for all packets. They are derived from declarations, starting at the sources.

use std::collections::BTreeMap;

use element::Base;
use element::effects::{Action, Case, Field, Number, Value};

use crate::compose::{Region, given, leads_to};
use program::chain::{Chain, ChainNode};
use program::location::IPV4;

/// The test that packets have to pass before they enter the elements of a program; other packets go to the
/// original elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// No test: all packets have the program's layout.
    Nothing,
    /// A test that the IPv4 header at this offset has no options.
    Plain(i32),
}

/// The mark of one kind of header (link, network or transport) on all packets at some point of a chain.
/// Offsets are from the start of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The header is not marked.
    Off,
    /// The header is marked at this offset.
    At(i32),
    /// The transport header is marked at the end of the marked IPv4 header, wherever its length field says;
    /// it is not marked if the packet is too short.
    Behind,
    /// The header may be marked at different offsets.
    Unknown,
}

/// The marks of the link, network and transport header.
type Marks = [Mark; 3];

const UNKNOWN: Marks = [Mark::Unknown; 3];

/// For each output of each element, the header marks of packets that leave there; `None` if no packets leave
/// there. Empty if the analysis could not be made for the chain.
pub(super) struct Layouts(Vec<Vec<Option<Marks>>>);

impl Layouts {
    /// Finds the marks of all packets of a chain.
    pub(super) fn new(chain: &Chain) -> Layouts {
        if chain.nodes.iter().any(|node| node.class == program::CLASS_NAME) {
            // Packets of an existing program take other connections through the elements, which this
            // analysis does not know.
            return Layouts(Vec::new());
        }
        let outputs = |node: &ChainNode| vec![None; node.forward.len()];
        let mut layouts = Layouts(chain.nodes.iter().map(outputs).collect());
        let mut incoming: Vec<BTreeMap<usize, Marks>> = vec![BTreeMap::new(); chain.nodes.len()];
        let mut work: Vec<usize> =
            (0..chain.nodes.len()).filter(|&node| chain.nodes[node].inputs == 0).collect();
        // In each iteration marks only become less certain, so the loop terminates.
        while let Some(number) = work.pop() {
            let node = &chain.nodes[number];
            for (output, to) in node.forward.iter().enumerate() {
                let marks = match node.inputs {
                    0 => Some(given(&node.effects).map_or(UNKNOWN, |packet| packet.headers.map(at))),
                    _ => leaving(node, &incoming[number], output),
                };
                layouts.0[number][output] = marks;
                let Some(marks) = marks else { continue };
                for &(next, input) in to {
                    let before = incoming[next].get(&input).copied();
                    let after = before.map_or(marks, |before| joined(before, marks));
                    if before != Some(after) {
                        incoming[next].insert(input, after);
                        work.push(next);
                    }
                }
            }
        }
        layouts
    }

    /// Returns the test that packets need before they enter the program of a region. Returns `None` if
    /// packets may have another layout even if they pass a test.
    pub(super) fn front(&self, region: &Region) -> Option<Front> {
        let program = &region.program;
        if program.is_certain {
            return Some(Front::Nothing);
        }
        let (node, output) = region.from;
        let marks = self.0.get(node)?.get(output).copied().flatten()?;
        let is_same = |base: usize| marks[base] == at(program.layout[base]);
        if program.needs_link && !is_same(0) || !is_same(1) {
            return None;
        }
        match (marks[2], program.layout) {
            (Mark::Behind, [_, Some(network @ 0..), Some(transport)]) if transport == network + IPV4 => {
                Some(Front::Plain(network))
            }
            _ => is_same(2).then_some(Front::Nothing),
        }
    }
}

fn at(place: Option<i32>) -> Mark {
    place.map_or(Mark::Off, Mark::At)
}

fn joined(a: Marks, b: Marks) -> Marks {
    std::array::from_fn(|base| if a[base] == b[base] { a[base] } else { Mark::Unknown })
}

/// Returns the marks of packets that leave an element by an output; `None` if no packets do. `incoming` has
/// the marks on arrival, by input.
fn leaving(node: &ChainNode, incoming: &BTreeMap<usize, Marks>, output: usize) -> Option<Marks> {
    let effects = &node.effects;
    if effects.opaque.is_some() || effects.emits.iter().any(|emit| emit.output == Some(output)) {
        return Some(UNKNOWN);
    }
    let one = |(input, marks): (&usize, &Marks)| {
        let cases = effects.cases.iter().filter(|case| leads_to(case.to, output));
        let here = cases.filter(|case| case.input.is_none_or(|only| only == *input));
        here.map(|case| after(case, *marks)).reduce(|a, b| {
            let [link, network, transport] = joined(a, b);
            // An element that marks IPv4 headers marks no transport header on packets that are too short.
            // Such an element has two cases, with and without a transport header, which together are
            // `Mark::Behind`.
            let is_perhaps = matches!((a[2], b[2]), (Mark::Behind, Mark::Off) | (Mark::Off, Mark::Behind));
            [link, network, if is_perhaps { Mark::Behind } else { transport }]
        })
    };
    incoming.iter().filter_map(one).reduce(joined)
}

/// Returns the marks of a packet after a case of an element. `marks` are the marks before the case.
fn after(case: &Case, mut marks: Marks) -> Marks {
    for action in &case.actions {
        match action {
            Action::Strip(n) => {
                for mark in &mut marks {
                    if let Mark::At(place) = mark {
                        *place -= n;
                    }
                }
            }
            Action::Set(Field::HeaderOffset(base), value) => {
                let mark = match value {
                    Value::Constant(bytes) => {
                        let place = bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte));
                        at((!bytes.is_empty()).then_some(place))
                    }
                    Value::Number(number) if *base == Base::Transport && is_behind(number, marks[1]) => {
                        Mark::Behind
                    }
                    _ => Mark::Unknown,
                };
                match base {
                    Base::Data => return UNKNOWN,
                    Base::Mac => marks[0] = mark,
                    Base::Transport => marks[2] = mark,
                    Base::Network => {
                        let is_moved = marks[1] != mark || mark == Mark::Unknown;
                        marks[1] = mark;
                        if is_moved && marks[2] == Mark::Behind {
                            marks[2] = Mark::Unknown;
                        }
                    }
                }
            }
            // A write to the first byte of the IPv4 header may change its length, and so the end of the
            // header.
            Action::Set(Field::Bytes { base, offset, length }, _) if marks[2] == Mark::Behind => {
                let place = |base: Base| match base {
                    Base::Data => Mark::At(0),
                    Base::Mac => marks[0],
                    Base::Network => marks[1],
                    Base::Transport => Mark::Unknown,
                };
                let is_behind = *base == Base::Transport && *offset >= 0;
                let is_apart = match (place(*base), marks[1]) {
                    _ if is_behind => true,
                    (Mark::At(start), Mark::At(header)) => {
                        let first = start.saturating_add(*offset);
                        !(first..first.saturating_add((*length).into())).contains(&header)
                    }
                    _ => false,
                };
                if !is_apart {
                    marks[2] = Mark::Unknown;
                }
            }
            Action::Set(Field::Payload, _) | Action::Resize(_) if marks[2] == Mark::Behind => {
                marks[2] = Mark::Unknown;
            }
            Action::Start(_) => return UNKNOWN,
            _ => {}
        }
    }
    marks
}

/// True if a number of a declaration is the offset of the end of the IPv4 header, for an IPv4 header with the
/// mark `network`.
fn is_behind(number: &Number, network: Mark) -> bool {
    let Mark::At(place) = network else { return false };
    let first = |base, offset| Field::Bytes { base, offset, length: 1 };
    let from_start = Number::constant(place.into()).plus(4, first(Base::Data, place), 0x0f);
    let from_header = Number::of(Field::HeaderOffset(Base::Network)).plus(4, first(Base::Network, 0), 0x0f);
    *number == from_start || *number == from_header
}
