//! The back end for Click and FastClick: it replaces regions by elements that both Click and FastClick have;
//! only the mask of StoreData needs FastClick. All questions come first, then each field is written once.
//!
//! This back end is for configurations that run elsewhere; [`insert`](crate::insert) is for runs with
//! Tidegate. A question becomes a Classifier, a CheckLength, a CheckIPHeader and so on (`build`), rules
//! become an IPFilter ([`filter`]), and a class becomes a short chain of elements (`operation`). Elements
//! that no packet reaches any more are removed (`sweep`).
//!
//! Invariants:
//! - Packets whose processing cannot be expressed in these elements are left to the elements of the region:
//!   they enter it unmodified. No configuration is refused.
//! - Only elements of the classes in [`ELEMENTS`] are inserted.
//! - The result is not trusted: the verifier reads the generated configuration by the declarations of its
//!   elements.

mod build;
mod check;
mod facts;
pub mod filter;
mod layout;
mod operation;
mod patterns;
mod sweep;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use element::DropReason;
use element::effects::Sliced;
use lang::Graph;

use crate::compose::diagram::Diagram;
use crate::compose::{Region, Synthesis, given};
use build::Builder;
use layout::Layouts;
use operation::MetadataFacts;
use program::chain::Chain;
use program::location::ByteValue;
use program::question::{AnswerSum, Question};
use program::{Exit, Next, Program, TrafficClass};

/// The classes of the elements that this back end inserts. Click has them with the same arguments, except
/// for the mask of StoreData, which only FastClick has.
pub const ELEMENTS: [&str; 21] = [
    "CheckIPHeader",
    "CheckLength",
    "CheckPaint",
    "Classifier",
    "DecIPTTL",
    "Discard",
    "DropBroadcasts",
    "EtherEncap",
    "GetIPAddress",
    "Idle",
    "IPFilter",
    "MarkIPHeader",
    "MarkMACHeader",
    "Paint",
    "SetIPAddress",
    "SetIPChecksum",
    "SetPacketType",
    "SetTimestamp",
    "StoreData",
    "Strip",
    "Unstrip",
];

/// A generated configuration, and a report of the packets that its original elements still process.
pub struct Standard {
    /// The configuration with the inserted elements.
    pub graph: Graph,
    /// For each region of which some packets are left to the original elements, the number of their classes,
    /// and the reasons why they are left.
    pub left: Vec<LeftPackets>,
}

/// A report of the packets of a region that are left to the original elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftPackets {
    /// The title of the element at whose output the region begins
    /// ([`ChainNode::title`](program::chain::ChainNode::title)).
    pub from: String,
    /// The number of classes of which at least some packets are left to the original elements.
    pub classes: usize,
    /// The number of classes of the region's program; classes with equal operations count once, and so do all
    /// drops.
    pub of: usize,
    /// The reasons why packets are left to the original elements, without duplicates.
    pub why: BTreeSet<Why>,
}

/// The reason why packets are left to the original elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Unknown header marks: packets may arrive with headers marked at different offsets.
    Layout,
    /// No standard element can answer a question of the program.
    Question,
    /// A question of the program about a packet needs too many patterns of a Classifier, or too many
    /// comparisons.
    Patterns,
    /// IPFilter cannot express a rule of a list.
    Rules,
    /// Payloads are parked or joined again upstream (slices), so that elements that look at packet lengths
    /// cannot be used.
    Sliced,
    /// The program leases flows from a translator, which standard elements cannot do.
    Leased,
    /// Packets would pass as many standard elements as original elements, or more.
    Gain,
    /// No standard element performs a write of the class.
    Write,
    /// No standard element updates a checksum as the class does.
    Checksum,
    /// No standard element cuts packets to the end that the class sets.
    Length,
    /// No standard element marks headers as the class does.
    Marks,
    /// No standard element sets an annotation as the class does.
    Annotation,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Layout => "the positions of headers in arriving packets are not certain",
            Why::Question => "a question that no element asks",
            Why::Patterns => "a question of too many patterns",
            Why::Rules => "a rule that IPFilter does not know",
            Why::Sliced => "payloads are parked",
            Why::Leased => "flows on lease",
            Why::Gain => "packets would pass no fewer elements",
            Why::Write => "a write that no element does",
            Why::Checksum => "a checksum that no element updates so",
            Why::Length => "packets that are cut where no element cuts them",
            Why::Marks => "headers that are marked where no element marks them",
            Why::Annotation => "an annotation that no element sets so",
        })
    }
}

impl fmt::Display for LeftPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftPackets { from, classes, of, why } = self;
        let why: Vec<String> = why.iter().map(Why::to_string).collect();
        write!(f, "after {from}, {classes} of {of} classes are left to the elements: {}", why.join("; "))
    }
}

/// Returns the configuration with standard elements in place of each region. With `only_gains`, regions
/// stay in which packets would not pass fewer elements. `chain` is the chain that was synthesized: all of
/// the graph, or the part that packets pass.
pub fn standard(graph: &Graph, chain: &Chain, synthesis: &Synthesis, only_gains: bool) -> Standard {
    let mut made = graph.clone();
    let layouts = Layouts::new(chain);
    let mut left = Vec::new();
    for region in &synthesis.regions {
        left.extend(insert_region(&mut made, chain, region, &layouts, only_gains));
    }
    Standard { graph: sweep::sweep(&made, graph), left }
}

/// The changes to a packet by those inserted elements that it has passed. Some elements that answer questions
/// also mark headers, cut the packet and set annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    /// The offset, from the start of the input packet, of the IPv4 header that an element has marked; `None`
    /// if the marks are unchanged.
    marked: Option<i32>,
    /// The offset, from the start of the input packet, of the IPv4 header that a CheckIPHeader has checked.
    /// The element has cut the packet to the header's total length, and set the destination address
    /// annotation. `None` if there was no such element.
    cut: Option<i32>,
    /// True if a CheckIPHeader has found the checksum of the IPv4 header correct.
    is_right: bool,
}

impl State {
    /// Returns the offset, from the start of the input packet, at which the packet ends in this state; `None`
    /// if it ends where the input packet ends.
    fn end(self) -> Option<AnswerSum> {
        self.cut.map(|header| {
            AnswerSum::of(Question::Bytes { offset: header + 2, length: 2 }).plus_constant(header.into())
        })
    }
}

/// Inserts standard elements for a region. Returns a report of the packets that are left to the original
/// elements; `None` if none are, or if the entry of the region is not in the graph.
fn insert_region(
    graph: &mut Graph,
    chain: &Chain,
    region: &Region,
    layouts: &Layouts,
    only_gains: bool,
) -> Option<LeftPackets> {
    let port =
        |graph: &Graph, (node, port): (usize, usize)| Some((graph.find(&chain.nodes[node].name)?, port));
    let from = port(graph, region.from)?;
    let place = graph.connections.iter().position(|connection| connection.from == from)?;
    let span = graph.connections[place].span;
    let rest = graph.connections[place].to;
    let outputs: Vec<_> = region.outputs.iter().map(|to| port(graph, *to)).collect();
    let program = reduced(&region.program);
    let left = |classes: usize, why: BTreeSet<Why>| LeftPackets {
        from: chain.nodes[region.from.0].title().to_string(),
        classes,
        of: program.classes.len(),
        why,
    };
    let none = |why: Why| Some(left(program.classes.len(), BTreeSet::from([why])));
    if is_behind_slices(chain, region.from.0) {
        return none(Why::Sliced);
    }
    let Some(front) = layouts.front(region) else { return none(Why::Layout) };
    let given = given(&chain.nodes[region.from.0].effects).filter(|_| program.is_certain);
    let came = given.iter().flat_map(|packet| &packet.annotations).filter_map(|(place, byte)| match byte {
        ByteValue::Constant(byte) => Some((*place, *byte)),
        _ => None,
    });
    let metadata = MetadataFacts { observed_metadata: chain.observed_metadata(), came: came.collect() };
    let mut builder = Builder::new(graph, &program, &metadata, rest, &outputs, span);
    let start = builder.start(front);
    let depth = builder.depth(start);
    let (classes, why) = builder.left();
    // The number of original elements is counted as in `compose::synthesize`: the elements of the longest
    // path, plus the rule lists.
    let longest = region.program.classes.iter().map(|class| class.path.len()).max().unwrap_or_default();
    if only_gains && depth >= longest + region.program.lists.len() {
        return none(Why::Gain);
    }
    graph.connections[place].to = start;
    (!why.is_empty()).then(|| left(classes.len(), why))
}

/// True if the element `to` parks payloads or joins them again, or if packets may reach it from such an
/// element.
fn is_behind_slices(chain: &Chain, to: usize) -> bool {
    let mut seen = BTreeSet::new();
    let is_slice = |node: &usize| chain.nodes[*node].effects.support.sliced != Sliced::default();
    let mut work: Vec<usize> = (0..chain.nodes.len()).filter(is_slice).collect();
    while let Some(node) = work.pop() {
        if seen.insert(node) {
            work.extend(chain.nodes[node].forward.iter().flatten().map(|(next, _)| *next));
        }
    }
    seen.contains(&to)
}

/// Returns the program without the data that only the counters of bypassed elements need. Classes with equal
/// operations then become one class, and so do all classes that drop packets.
fn reduced(program: &Program) -> Program {
    let mut classes: Vec<TrafficClass> = Vec::new();
    let mut numbers: HashMap<TrafficClass, u32> = HashMap::new();
    let mut number = |class: &TrafficClass| {
        let class = match class.exit {
            Exit::Output(_) => TrafficClass { path: Vec::new(), ..class.clone() },
            Exit::Drop(_) => {
                let exit = Exit::Drop(DropReason::Discard);
                TrafficClass { start: 0, end: None, exit, path: Vec::new(), ..class.clone() }
            }
        };
        *numbers.entry(class).or_insert_with_key(|class| {
            classes.push(class.clone());
            classes.len() as u32 - 1
        })
    };
    let numbers: Vec<u32> = program.classes.iter().map(&mut number).collect();
    let to = |next: Next| match next {
        Next::Class(class) => Next::Class(numbers.get(class as usize).copied().unwrap_or_default()),
        node => node,
    };
    let mut nodes = program.nodes.clone();
    nodes.iter_mut().flat_map(|node| &mut node.parts).for_each(|(_, next)| *next = to(*next));
    let mut diagram = Diagram::default();
    let start = diagram.load(&nodes, to(program.start));
    let (nodes, start) = diagram.finish(start);
    Program { nodes, start, classes, ..program.clone() }
}
