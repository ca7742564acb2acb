//! The IR of the synthesized function (SNF paper, "The Synthesized network function"): one classifier, then
//! one write per field.
//!
//! A [`Program`] is a decision graph over questions about the input packet ([`question`]), whose leaves are
//! classes. A [`Class`] is the paper's traffic class with its operation: the difference between the input
//! packet and the output packet, and the exit. Large rule sets are single questions of the graph, for the
//! outcome of a [`List`]. So are the effects of stateful elements on a packet's flow: all of them together
//! are one mapping, which takes one look-up (Properties 1 and 2 of the paper).
//!
//! - [`text`]: the text form, which the element `Synthesized` takes as its arguments
//! - [`declare`]: a program as one declaration; [`unfold`]: as a chain of declarations, for the verifier
//! - [`validate`]: the conditions under which a program can be run; [`cost`]: the cost model
//! - [`chain`]: the graph of a configuration with the declarations of its elements: the compiler's and the
//!   verifier's input
//!
//! This crate executes nothing. The compiler, the runtime and the verifier know each other only by it.

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
use element::effects::Header;

use crate::location::Location;
use machine_code::MachineCode;
use question::{Question, Sum};

pub use valid::validate;

/// The name of the class of elements that run programs.
pub const CLASS_NAME: &str = "Synthesized";

/// A synthesized program: a decision graph with classes as its leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The offsets of marked headers on packets that the program accepts, from the packet's start: link,
    /// network, transport.
    pub layout: [Option<i32>; 3],
    /// True if the program handles only packets whose link header, too, starts where `layout` says.
    pub needs_link: bool,
    /// True if all packets that arrive have this layout, so that no packet has to be checked for it.
    pub is_certain: bool,
    /// The output for packets with another layout.
    pub otherwise: usize,
    /// The nodes of the graph. The answers of each node lead only to classes and to nodes with higher
    /// numbers.
    pub nodes: Vec<Node>,
    /// The first question, or the only class.
    pub start: Next,
    /// The rule sets.
    pub lists: Vec<List>,
    /// The stateful elements from which flows are leased. The predecessor of a step has a lower number.
    pub steps: Vec<Step>,
    /// The classes: the leaves of the graph.
    pub classes: Vec<Class>,
    /// The names of the elements that packets bypass.
    pub elements: Vec<String>,
    /// The number of outputs.
    pub outputs: usize,
    /// The time at which machine code is made.
    pub machine_code: MachineCode,
    /// True if the program takes packets and flows regardless of cost.
    pub always: bool,
}

/// The destination of an edge of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Next {
    /// A node.
    Node(u32),
    /// A class.
    Class(u32),
}

impl Default for Next {
    fn default() -> Next {
        Next::Class(0)
    }
}

/// A node of the graph: a question, and an edge for each range of answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The question.
    pub question: Question,
    /// The ranges of answers, each by its last answer and with its destination, in ascending order. The
    /// last range extends to the highest answer.
    pub parts: Vec<(u128, Next)>,
}

/// An ordered list of rules: the first rule that matches decides.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The element that the rules are from: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element.
    pub input: usize,
    /// The offsets of the network and the transport header, to which the rules' conditions refer. The link
    /// header starts at offset 0.
    pub headers: [i32; 2],
    /// The end of the packet at the list, if it differs from the end of the input packet. Conditions do not
    /// see bytes after this end.
    pub end: Option<Sum>,
    /// The rules. At least one rule always matches.
    pub rules: Vec<Rule>,
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The condition under which the rule matches.
    pub condition: Condition,
    /// The number of the outcome: the answer to [`Question::List`].
    pub outcome: u32,
    /// The case of the element's declaration that the rule belongs to.
    pub case: usize,
}

/// A point at which a stateful element would decide about packets. The element is asked once per flow, when
/// the flow is leased ([`element::lease`]). If the element of one step refuses, the flow is leased from no
/// element.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The element: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element.
    pub input: usize,
    /// The case of the element's declaration for packets of known flows.
    pub case: usize,
    /// The previous step on the path; `None` for a first step.
    pub after: Option<u16>,
    /// The packet as it arrives at the element; the exit has no meaning here.
    pub before: Class,
}

/// A traffic class: an operation, and the exit of the packets. All offsets are counted from the start of the
/// input packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The offset at which the output packet starts.
    pub start: i32,
    /// The offset at which the output packet ends, if it differs from the end of the input packet.
    pub end: Option<Sum>,
    /// The offsets of marked headers on the output packet (link, network, transport); `None` for a header
    /// whose mark does not change, `Some(None)` for a header whose mark is removed.
    pub headers: [Option<Option<i32>>; 3],
    /// The packet type, if it is set.
    pub kind: Option<u8>,
    /// The recorded input port of the packet, if it is set.
    pub port: Option<u8>,
    /// True if the packet is marked as an Ethernet frame, regardless of its former link type.
    pub framed: bool,
    /// True if the packet gets a new time stamp.
    pub stamped: bool,
    /// The writes. All values are computed from the input packet, and the written locations do not overlap.
    pub writes: Vec<Write>,
    /// The operation on the checksum of the IPv4 header.
    pub checksum: Option<Checksum>,
    /// The operation on the checksum of the TCP or UDP header.
    pub transport_checksum: Option<TransportChecksum>,
    /// The exit.
    pub exit: Exit,
    /// The elements that packets of the class bypass, in order; counters of these elements are updated.
    pub path: Vec<Passed>,
}

/// A write to one location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The location.
    pub place: Location,
    /// The value that is written.
    pub value: Value,
}

/// A value that is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Constant bytes.
    Constant(Vec<u8>),
    /// Input bytes from a location, with their number.
    Copy(Location, u8),
    /// An input number from a location, of 1 to 8 bytes, plus a constant. The sum wraps around.
    Plus(Location, u8, i64),
    /// An input byte from a location, of which the bits of the first mask are kept, and the bits of the
    /// second mask are set.
    Masked(Location, u8, u8),
}

/// The operation on the checksum of an IPv4 header without options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// The checksum is updated incrementally (RFC 1624) for writes to these 16-bit words.
    Updated {
        /// The offset of the header.
        header: i32,
        /// The offsets of the words.
        words: Vec<i32>,
    },
    /// The checksum is computed from scratch.
    Recomputed {
        /// The offset of the header.
        header: i32,
    },
}

/// An incremental update (RFC 1624) of a TCP or UDP checksum for writes to some words. A UDP checksum of
/// zero, which means "no checksum", stays zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportChecksum {
    /// The protocol.
    pub protocol: Header,
    /// The offset of the transport header.
    pub header: i32,
    /// The offsets of the written words, including words of the IP addresses.
    pub words: Vec<i32>,
}

/// The exit of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// An output of the program.
    Output(usize),
    /// No output: the last element of the path drops the packets.
    Drop(DropReason),
}

/// An element that packets bypass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// The element: an index in [`Program::elements`].
    pub element: u32,
    /// The input of the element.
    pub input: usize,
    /// The case of the element's declaration that applies to the packets.
    pub case: usize,
    /// The offset of the packet's start on arrival at the element. The element's byte counter needs it.
    pub start: i32,
    /// True if the packet already had its final end on arrival at the element, and not the end of the input
    /// packet.
    pub cut: bool,
}

impl TransportChecksum {
    /// Returns the offset of the checksum field.
    pub fn place(&self) -> i32 {
        self.header + if self.protocol == Header::Tcp { 16 } else { 6 }
    }
}

impl Checksum {
    /// Returns the offset of the header.
    pub fn header(&self) -> i32 {
        let (Checksum::Updated { header, .. } | Checksum::Recomputed { header }) = self;
        *header
    }
}

impl Value {
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        match self {
            Value::Constant(bytes) => bytes.len(),
            Value::Copy(_, length) | Value::Plus(_, length, _) => usize::from(*length),
            Value::Masked(..) => 1,
        }
    }

    /// Returns the location that the value is computed from, and the number of bytes there; `None` for a
    /// constant.
    pub fn from(&self) -> Option<(Location, usize)> {
        match self {
            Value::Constant(_) => None,
            Value::Copy(from, length) | Value::Plus(from, length, _) => Some((*from, usize::from(*length))),
            Value::Masked(from, ..) => Some((*from, 1)),
        }
    }
}

impl Class {
    /// Returns the lowest offset that must be part of the packet during the writes: the minimum of the
    /// start of the input packet, the start of the output packet, the starts on the path, and all offsets
    /// that are written, including bytes that are stripped afterwards.
    pub fn front(&self) -> i32 {
        let written = self.writes.iter().map(|write| match write.place {
            Location::Byte(place) => place,
            Location::Annotation(_) | Location::Leased(..) => 0,
        });
        let passed = self.path.iter().map(|passed| passed.start);
        written.chain(passed).chain([self.start, 0]).min().unwrap_or_default()
    }
}

impl Node {
    /// Returns the destination of an answer.
    pub fn next(&self, answer: u128) -> Next {
        let part = self.parts.partition_point(|(last, _)| *last < answer);
        self.parts.get(part).or(self.parts.last()).map_or(Next::default(), |(_, next)| *next)
    }
}

impl Program {
    /// Returns the questions of the graph, each with the number of nodes that ask it.
    pub fn questions(&self) -> BTreeMap<&Question, usize> {
        let mut questions = BTreeMap::new();
        for node in &self.nodes {
            *questions.entry(&node.question).or_insert(0) += 1;
        }
        questions
    }
}
