//! The IR of the synthesized function (SNF paper, "The Synthesized network function"): one classifier, then
//! one write per field.
//!
//! A [`Program`] is a decision graph over questions about the input packet ([`question`]), whose leaves are
//! classes. A [`Class`] is the paper's traffic class with its operation: the difference between the input
//! packet and the output packet, and the exit. Large rule sets are single questions of the graph, for the
//! outcome of a [`List`]. So are the effects of stateful elements on a packet's flow: all of them together
//! are one mapping, which takes one look-up (Properties 1 and 2 of the paper).

pub(crate) mod balance;
mod computed;
pub(crate) mod cost;
pub mod declare;
pub mod flows;
pub mod groups;
mod lane;
pub(crate) mod leaving;
pub mod machine;
pub mod operation;
pub mod question;
pub mod run;
pub mod text;
mod trail;
pub mod unfold;

use std::collections::BTreeMap;

use classify::filter::Condition;
use element::DropReason;
use element::effects::Header;

use crate::compose::packet::Place;
use machine::Making;
use question::{Question, Sum};

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Where headers are marked on the packets that it is for, from the start of each: link, network, transport.
    pub layout: [Option<i32>; 3],
    /// Whether it matters where the link header is.
    pub needs_link: bool,
    /// Whether all packets that come are laid out like that.
    pub is_certain: bool,
    /// The output for packets that are laid out otherwise.
    pub otherwise: usize,
    /// Questions; each leads to later ones only.
    pub nodes: Vec<Node>,
    /// Where to begin.
    pub start: Next,
    /// Rule sets.
    pub lists: Vec<List>,
    /// Elements with state that flows are leased from, each behind the one that packets pass before.
    pub steps: Vec<Step>,
    /// What becomes of packets.
    pub classes: Vec<Class>,
    /// Names of elements that packets would have passed.
    pub elements: Vec<String>,
    /// How many outputs there are.
    pub outputs: usize,
    /// When there is machine code for it.
    pub machine_code: Making,
    /// True if it takes packets and flows whatever that costs.
    pub always: bool,
}

/// Where an answer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Next {
    /// To another question.
    Node(u32),
    /// To a class.
    Class(u32),
}

impl Default for Next {
    fn default() -> Next {
        Next::Class(0)
    }
}

/// A question, and where its answers lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The question.
    pub question: Question,
    /// Ranges of answers by their last one, lowest first; the last one ends where answers do.
    pub parts: Vec<(u128, Next)>,
}

/// Rules, the first that holds counts.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The element whose rules these are, by place in [`Program::elements`], and the input.
    pub element: u32,
    /// The input.
    pub input: usize,
    /// Where the network and the transport header start for its conditions; that of the link starts with the packet.
    pub headers: [i32; 2],
    /// Where the packet ends by then, if not where it did when it came in: what lies behind is not seen.
    pub end: Option<Sum>,
    /// The rules. One of them always holds.
    pub rules: Vec<Rule>,
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// When it holds.
    pub condition: Condition,
    /// The answer.
    pub outcome: u32,
    /// The case of the element's declaration.
    pub case: usize,
}

/// A place where an element with state would decide about packets: what it does to those of a flow is asked once, when the
/// flow is taken on lease ([`element::lease`]). A flow of which one step is not to be had is not on lease at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The element, by place in [`Program::elements`].
    pub element: u32,
    /// The input.
    pub input: usize,
    /// The case of its declaration that is for packets of flows that it knows.
    pub case: usize,
    /// The step that packets have passed before.
    pub after: Option<u16>,
    /// What they have become when they come to the element; the exit is none.
    pub before: Class,
}

/// An operation, and where packets go then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Where the packet starts then.
    pub start: i32,
    /// Where it ends then, if not where it did.
    pub end: Option<Sum>,
    /// Where headers are marked then (link, network, transport), if not where they were.
    pub headers: [Option<Option<i32>>; 3],
    /// The packet type, if it is set.
    pub kind: Option<u8>,
    /// The input that packets are said to have come from, if that is set.
    pub port: Option<u8>,
    /// Whether they are Ethernet frames then, whatever they were.
    pub framed: bool,
    /// Whether they get a new time stamp.
    pub stamped: bool,
    /// What is written; values are those that came in, and places do not overlap.
    pub writes: Vec<Write>,
    /// What becomes of the checksum of the IPv4 header.
    pub checksum: Option<Checksum>,
    /// What becomes of that of TCP or UDP.
    pub transport_checksum: Option<TransportChecksum>,
    /// Where the packet goes.
    pub exit: Exit,
    /// The way that it would have gone: elements, for whoever counts.
    pub path: Vec<Passed>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Where.
    pub place: Place,
    /// What.
    pub value: Value,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// These bytes.
    Constant(Vec<u8>),
    /// Bytes that stood elsewhere.
    Copy(Place, u8),
    /// A number of so many bytes (1 to 8) that stood there, plus something; it wraps around.
    Plus(Place, u8, i64),
    /// A byte that stood there, with bits cleared and set.
    Masked(Place, u8, u8),
}

/// What becomes of the checksum of an IPv4 header without options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// It accounts for what was written to these 16-bit words (RFC 1624).
    Updated {
        /// Where the header starts.
        header: i32,
        /// Where the words start.
        words: Vec<i32>,
    },
    /// It is computed afresh.
    Recomputed {
        /// Where the header starts.
        header: i32,
    },
}

/// An update of the checksum of TCP or UDP: it accounts for what was written to these words (RFC 1624). UDP's zero stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportChecksum {
    /// Of which protocol.
    pub protocol: Header,
    /// Where the header starts.
    pub header: i32,
    /// Where the words start, addresses among them.
    pub words: Vec<i32>,
}

/// Where packets of a class go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// By an output.
    Output(usize),
    /// They end at the last element of the path.
    Drop(DropReason),
}

/// An element that packets would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// By place in [`Program::elements`].
    pub element: u32,
    /// The input.
    pub input: usize,
    /// The case of its declaration.
    pub case: usize,
    /// Where the packet started when it came there: its length follows from that.
    pub start: i32,
    /// Whether it ended by then where it ends at last, rather than where it did when it came in.
    pub cut: bool,
}

impl TransportChecksum {
    /// Where it stands.
    pub fn place(&self) -> i32 {
        self.header + if self.protocol == Header::Tcp { 16 } else { 6 }
    }
}

impl Checksum {
    /// Where the header starts.
    pub fn header(&self) -> i32 {
        let (Checksum::Updated { header, .. } | Checksum::Recomputed { header }) = self;
        *header
    }
}

impl Value {
    /// How many bytes.
    pub fn length(&self) -> usize {
        match self {
            Value::Constant(bytes) => bytes.len(),
            Value::Copy(_, length) | Value::Plus(_, length, _) => usize::from(*length),
            Value::Masked(..) => 1,
        }
    }

    /// What it is made from, and how many bytes that are.
    pub fn from(&self) -> Option<(Place, usize)> {
        match self {
            Value::Constant(_) => None,
            Value::Copy(from, length) | Value::Plus(from, length, _) => Some((*from, usize::from(*length))),
            Value::Masked(from, ..) => Some((*from, 1)),
        }
    }
}

impl Class {
    /// The first byte that has to be part of the packet while it is written: where it came in, where it leaves, where it started
    /// on its way, or where something is written that is taken off again.
    pub fn front(&self) -> i32 {
        let written = self.writes.iter().map(|write| match write.place {
            Place::Byte(place) => place,
            Place::Annotation(_) | Place::Leased(..) => 0,
        });
        let passed = self.path.iter().map(|passed| passed.start);
        written.chain(passed).chain([self.start, 0]).min().unwrap_or_default()
    }
}

impl Node {
    /// Where an answer leads.
    pub fn next(&self, answer: u128) -> Next {
        let part = self.parts.partition_point(|(last, _)| *last < answer);
        self.parts.get(part).or(self.parts.last()).map_or(Next::default(), |(_, next)| *next)
    }
}

impl Program {
    /// How often each question is asked anywhere in the graph.
    pub fn questions(&self) -> BTreeMap<&Question, usize> {
        let mut questions = BTreeMap::new();
        for node in &self.nodes {
            *questions.entry(&node.question).or_insert(0) += 1;
        }
        questions
    }
}
