//! The intermediate representation (IR) of the synthesized function (SNF paper, "The Synthesized network
//! function"): one classifier, then one write per field.
//!
//! A [`Program`] is a decision graph over questions about the input packet ([`question`]), whose leaves are
//! classes. A [`TrafficClass`] is the paper's traffic class with its operation: the difference between the
//! input packet and the output packet, and the output or drop reason. A large rule set is a single question
//! of the graph: its answer is the outcome of a list of [`OrderedRules`]. The effects of all stateful
//! elements on a packet's flow are one mapping, found by one look-up (Properties 1 and 2 of the paper);
//! questions ask for parts of the mapping ([`Step`]).
//!
//! - [`text`]: the text form, which the element `Synthesized` takes as its arguments
//! - [`declare`]: a program as the declaration of one element; [`unfold`]: a program as a chain of
//!   declarations, for the verifier
//! - [`validate`]: the conditions under which a program can be run; [`cost`]: the cost model
//! - [`chain`]: the graph of a configuration with the declarations of its elements: the compiler's and the
//!   verifier's input
//!
//! This crate executes nothing. The compiler, the runtime and the verifier use this crate, and do not
//! depend on each other.

pub mod chain;
pub mod cost;
pub mod declare;
pub mod hex;
pub mod location;
pub mod machine_code;
pub mod metadata;
pub mod question;
pub mod text;
pub mod unfold;
mod valid;

use std::collections::BTreeMap;

use classify::filter::Condition;
use element::DropReason;
use element::effects::HeaderKind;

use crate::location::ByteLocation;
use machine_code::MachineCode;
use question::{AnswerSum, Question};

pub use valid::validate;

/// The name of the element class that runs synthesized programs ([`Program`]).
pub const CLASS_NAME: &str = "Synthesized";

/// A synthesized program: a decision graph with classes as its leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The offsets of the link, network and transport header, from the packet's start, that a packet must be
    /// marked with for the program to accept it; `None` for a header that must not be marked. The link header
    /// counts only if `needs_link`.
    pub layout: [Option<i32>; 3],
    /// True if the mark of the link header has to be as `layout` says; if false, only the marks of the
    /// network and the transport header are checked.
    pub needs_link: bool,
    /// True if all packets that arrive at the program have the layout `layout`, so that no packet has to be
    /// checked for it.
    pub is_certain: bool,
    /// The output of the program for packets that leave unchanged: packets with another layout than `layout`,
    /// and packets that the program leaves to the elements.
    pub otherwise: usize,
    /// The inner nodes of the decision graph. Each node leads only to classes and to nodes with a higher
    /// index, so that every path ends.
    pub nodes: Vec<Node>,
    /// The node at which each packet starts; a class if the program asks no question.
    pub start: Next,
    /// The rule sets. [`Question::List`] holds an index in this table.
    pub lists: Vec<OrderedRules>,
    /// The steps: the points on the paths of packets at which the program uses a lease of a stateful element.
    /// `after` of a step names the step before it on the path, which has a lower index.
    pub steps: Vec<Step>,
    /// The classes: the leaves of the decision graph, which [`Next::Class`] names by their index.
    pub classes: Vec<TrafficClass>,
    /// The names of the elements that the program replaces, and which its packets bypass.
    pub elements: Vec<String>,
    /// The number of outputs of the program.
    pub outputs: usize,
    /// The time at which machine code is made for frequent paths and operations of the program.
    pub machine_code: MachineCode,
    /// True if the program processes all packets and leases flows from their first packets on, even if the
    /// replaced elements would cost less.
    pub always: bool,
}

/// The destination of an edge of the decision graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Next {
    /// The index of a node in [`Program::nodes`].
    Node(u32),
    /// The index of a class in [`Program::classes`].
    Class(u32),
}

impl Default for Next {
    fn default() -> Next {
        Next::Class(0)
    }
}

/// A node of the decision graph: a question, and an edge for each range of answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The question that is asked about a packet at this node.
    pub question: Question,
    /// The ranges of answers in ascending order: the last answer of each range, and the node or class that
    /// the range leads to. A range begins after the last answer of the previous range; the last range extends
    /// to the highest possible answer.
    pub parts: Vec<(u128, Next)>,
}

/// An ordered list of rules: the first rule that matches a packet decides the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedRules {
    /// The element that has the rules: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element at which the packets would arrive.
    pub input: usize,
    /// The offsets of the network and the transport header, in the input packet of the program, to which
    /// the rules' conditions refer. The link header starts at offset 0.
    pub headers: [i32; 2],
    /// The offset, in the program's input packet, of the packet's end when it would reach the element; `None`
    /// if the end is still that of the input packet. A test of bytes beyond this end is false.
    pub end: Option<AnswerSum>,
    /// The rules in the order of precedence. The compiler makes lists of which at least one rule matches each
    /// packet. If no rule matches, the runtime takes the last rule.
    pub rules: Vec<Rule>,
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The condition on the packet under which the rule matches.
    pub condition: Condition,
    /// The outcome of the list if this rule decides: the answer to [`Question::List`]. Rules with the same
    /// effect share an outcome.
    pub outcome: u32,
    /// The case of the element's declaration that corresponds to the rule: an index in its `cases`, for the
    /// element's counters.
    pub case: usize,
}

/// A point at which a stateful element, for example a translator, would decide about packets. The element
/// is asked once per flow, when the flow is leased ([`element::lease`]). If the element of one step
/// refuses, the flow is leased from none of the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The stateful element: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element at which the packets would arrive.
    pub input: usize,
    /// The case of the element's declaration that applies to packets of known flows: an index in its
    /// `cases`.
    pub case: usize,
    /// The step before this step on the path of the packets: an index in [`Program::steps`]; `None` if no
    /// stateful element precedes.
    pub after: Option<u16>,
    /// The changes to the packet until it arrives at the element, as an operation on the input packet. The
    /// `exit` of this class has no meaning.
    pub before: TrafficClass,
}

/// A traffic class: the operation on its packets, and their output or drop reason. All offsets are counted
/// from the start of the input packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrafficClass {
    /// The offset at which the output packet starts, from the start of the input packet; negative if bytes
    /// are prepended.
    pub start: i32,
    /// The offset at which the output packet ends, from the start of the input packet; `None` if it ends
    /// where the input packet ends.
    pub end: Option<AnswerSum>,
    /// The offsets, from the start of the input packet, of the link, network and transport header that are
    /// marked on the output packet; `None` for a header whose mark does not change, `Some(None)` for a header
    /// whose mark is removed.
    pub headers: [Option<Option<i32>>; 3],
    /// The packet type that is set (Click's packet type annotation); `None` if the type does not change.
    pub kind: Option<u8>,
    /// The number of the input port that is recorded in the packet; `None` if the record does not change.
    pub port: Option<u8>,
    /// True if the packet's link type is set to Ethernet.
    pub framed: bool,
    /// True if the time stamp of the packet is set to the present time.
    pub stamped: bool,
    /// The writes to bytes of the packet and its annotations. All values are computed from the input packet
    /// and from leased values, and no two writes overlap, so the order of the writes does not matter.
    pub writes: Vec<Write>,
    /// The operation on the checksum of the IPv4 header; `None` if that checksum is not changed.
    pub checksum: Option<ChecksumOperation>,
    /// The operation on the checksum of the TCP or UDP header; `None` if that checksum is not changed.
    pub transport_checksum: Option<TransportChecksum>,
    /// The output by which packets of the class leave, or the reason for which they are dropped.
    pub exit: Exit,
    /// The elements that packets of the class bypass, in the order in which packets would pass them. Their
    /// counters are updated as if the packets had passed.
    pub path: Vec<Passed>,
}

/// A write to consecutive bytes of the packet or its annotations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The location of the first byte that is written.
    pub place: ByteLocation,
    /// The value that is written.
    pub value: WrittenValue,
}

/// A value that a class writes, computed from the input packet or from leased values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WrittenValue {
    /// Constant bytes.
    Constant(Vec<u8>),
    /// A copy of bytes of the input: the location of the first byte, and the number of bytes.
    Copy(ByteLocation, u8),
    /// A big-endian number of the input plus a constant: the location of the number, its length of 1 to 8
    /// bytes, and the constant. The sum wraps around.
    Plus(ByteLocation, u8, i64),
    /// The byte of the input at a location, with some bits changed: the location, the mask of the bits that
    /// are kept, and the bits that are set.
    Masked(ByteLocation, u8, u8),
}

/// The operation on the checksum of an IPv4 header without options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumOperation {
    /// The checksum is updated incrementally (RFC 1624) for the change of these 16-bit words.
    Updated {
        /// The offset of the IPv4 header from the start of the input packet.
        header: i32,
        /// The offsets, in the input packet, of the 16-bit words of the header for whose change the checksum
        /// is updated.
        words: Vec<i32>,
    },
    /// The checksum is computed from scratch.
    Recomputed {
        /// The offset of the IPv4 header from the start of the input packet; negative in prepended bytes.
        header: i32,
    },
}

/// An incremental update (RFC 1624) of a TCP or UDP checksum for the change of some 16-bit words. A UDP
/// checksum of zero, which means "no checksum", stays zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportChecksum {
    /// The transport protocol: TCP or UDP.
    pub protocol: HeaderKind,
    /// The offset of the transport header from the start of the input packet.
    pub header: i32,
    /// The offsets, in the input packet, of the 16-bit words for whose change the checksum is updated; words
    /// of the IP addresses may be among them.
    pub words: Vec<i32>,
}

/// The output by which packets of a class leave a program, or the reason for which the program drops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// The packets leave by this output of the program.
    Output(usize),
    /// The program drops the packets for this reason. The last element of the class's path counts the drop
    /// if it is in the graph; if the path is empty, the element of the list whose rules lead to the class
    /// counts the drop. Otherwise the program's element counts it.
    Drop(DropReason),
}

/// An element that packets of a class bypass, and what its counters need to know about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// The bypassed element: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element at which the packets would arrive.
    pub input: usize,
    /// The case of the element's declaration that applies to the packets: an index in its `cases`.
    pub case: usize,
    /// The offset, from the start of the input packet, at which the packet would start on arrival at the
    /// element. The element's byte counter needs the length of the packet there.
    pub start: i32,
    /// True if the packet would have been cut to its final end ([`TrafficClass::end`]) before it arrives at
    /// the element; false if it would still have the end of the input packet on arrival.
    pub cut: bool,
}

impl TransportChecksum {
    /// Returns the offset of the checksum field (byte 16 of a TCP header, byte 6 of a UDP header) from the
    /// start of the input packet.
    pub fn place(&self) -> i32 {
        self.header + if self.protocol == HeaderKind::Tcp { 16 } else { 6 }
    }
}

impl ChecksumOperation {
    /// Returns the offset, from the start of the input packet, of the IPv4 header whose checksum is changed.
    pub fn header(&self) -> i32 {
        let (ChecksumOperation::Updated { header, .. } | ChecksumOperation::Recomputed { header }) = self;
        *header
    }
}

impl WrittenValue {
    /// Returns the number of bytes that are written.
    pub fn length(&self) -> usize {
        match self {
            WrittenValue::Constant(bytes) => bytes.len(),
            WrittenValue::Copy(_, length) | WrittenValue::Plus(_, length, _) => usize::from(*length),
            WrittenValue::Masked(..) => 1,
        }
    }

    /// Returns the location of the input bytes that the value is computed from, and their number; `None`
    /// for a constant.
    pub fn from(&self) -> Option<(ByteLocation, usize)> {
        match self {
            WrittenValue::Constant(_) => None,
            WrittenValue::Copy(from, length) | WrittenValue::Plus(from, length, _) => {
                Some((*from, usize::from(*length)))
            }
            WrittenValue::Masked(from, ..) => Some((*from, 1)),
        }
    }
}

impl TrafficClass {
    /// Returns the lowest offset, from the start of the input packet, that must be part of the packet during
    /// the writes: the minimum of all written offsets and of the offsets at which the packet starts on input,
    /// at each element of the path, and on output. Written bytes that are stripped afterwards count, too.
    pub fn front(&self) -> i32 {
        let written = self.writes.iter().map(|write| match write.place {
            ByteLocation::Byte(place) => place,
            ByteLocation::Annotation(_) | ByteLocation::Leased(..) => 0,
        });
        let passed = self.path.iter().map(|passed| passed.start);
        written.chain(passed).chain([self.start, 0]).min().unwrap_or_default()
    }
}

impl Node {
    /// Returns the node or class that an answer leads to. An answer above the last range counts as part of
    /// that range; a node without ranges leads to class 0.
    pub fn next(&self, answer: u128) -> Next {
        let part = self.parts.partition_point(|(last, _)| *last < answer);
        self.parts.get(part).or(self.parts.last()).map_or(Next::default(), |(_, next)| *next)
    }
}

impl Program {
    /// Returns the different questions of the decision graph, each with the number of nodes that ask it.
    pub fn questions(&self) -> BTreeMap<&Question, usize> {
        let mut questions = BTreeMap::new();
        for node in &self.nodes {
            *questions.entry(&node.question).or_insert(0) += 1;
        }
        questions
    }
}
