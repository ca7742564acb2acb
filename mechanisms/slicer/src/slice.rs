//! # Slice
//! Parks the payloads of packets in a PayloadTable and lets short packets with their headers go on.
//!
//! For network functions that read headers only, where packets cross something that copies them: an interface to a namespace,
//! a container, a virtual machine or another program. Splice puts the payloads back behind it, wherever that is. Packets with
//! at least THRESHOLD bytes lose the payload of TCP or UDP; its bytes stay where they are and are not touched. In its place
//! stands a token of 16 bytes. What is left is a valid packet: lengths are right, and checksums as far as they were. A segment of TCP is presented as its
//! own last bytes (its sequence number is larger), so that those who follow the connection see how far it has got.
//!
//! Packets over IPv4 and IPv6 are sliced, behind VLAN tags or without a link header. Fragments, other protocols, segments with
//! SYN, RST or urgent data, source routes and headers of more than 112 bytes pass whole, and so does everything when the table is
//! full. A sender's wrong checksum is right in the sliced packet, and as wrong as before when it is joined: whoever is in between
//! cannot find out.
//!
//! Elements between Slice and Splice must not look at payloads. Those that show or record packets may: they see what crosses.
//! Those that read a packet's length get the original one by the extra length annotation; those that do not know it, and
//! with `MARKER dscp` those that look at the DSCP, must not stand there either.
//!
//! ## Usage
//! `Slice(TABLE [, KEYWORDS])`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable.
//! - `THRESHOLD`: the length from which on packets are sliced, in bytes, link header included.
//! - `LONGEST`: the length up to which they are, in bytes from the IP header on; 0 for any. Longer ones pass whole, so that the
//!   network function sees that they do not fit into its next network, or into its tunnel, and fragments them or says so to whoever
//!   has sent them.
//! - `BYTES`: how many bytes of a payload are parked at most, from its start; the rest goes on behind the token.
//! - `FRACTION`: the part of a payload that is parked.
//! - `TAIL`: whether a segment of TCP is presented as its own last bytes. As its first ones, who follows the connection takes the
//!   receiver's ACKs for wrong: they are for bytes that it has not seen.
//!
//! ## Handlers
//! - `threshold`, `longest`, `bytes`, `fraction`, `tail`: the arguments.
//!
//! ## Example
//! ```click
//! t :: PayloadTable;
//! InfiniteSource(LENGTH 1000, LIMIT 3) -> Slice(t, THRESHOLD 200) -> Splice(t) -> Discard
//! ```
//!
//! ## See also
//! Splice, Slicer, PayloadTable

use std::sync::Arc;

use element::args::ElementRef;
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Access, Action, Case, EXTRA_LENGTH, Field, Filter, Sliced, State, Target, Value};
use element::{Args, Base, Batch, Class, Cx, Effects, Element, ElementId, Invalid, manual};

use crate::headers::HEADERS;
use crate::payloads::{Payloads, THRESHOLD};
use crate::slicing::Slicing;
use crate::token::TOKEN;

/// The class.
pub static CLASS: Class = Class {
    name: "Slice",
    manual: manual!("slice.rs"),
    args: &[
        ArgInfo::required("TABLE", "element"),
        SLICING[0],
        SLICING[1],
        SLICING[2],
        SLICING[3],
        SLICING[4],
    ],
    handlers: &HANDLERS,
    samples: &[],
    build,
    ..Class::DEFAULT
};

/// Arguments of everybody who slices.
pub(crate) const SLICING: [ArgInfo; 5] = [
    ArgInfo::keyword("THRESHOLD", "unsigned", "500"),
    ArgInfo::keyword("LONGEST", "unsigned", "0"),
    ArgInfo::keyword("BYTES", "unsigned", "65535"),
    ArgInfo::keyword("FRACTION", "double", "1"),
    ArgInfo::keyword("TAIL", "bool", "true"),
];

/// Handlers of everybody who slices.
pub(crate) const HANDLERS: [HandlerInfo; 5] = [
    HandlerInfo::read("threshold"),
    HandlerInfo::read("longest"),
    HandlerInfo::read("bytes"),
    HandlerInfo::read("fraction"),
    HandlerInfo::read("tail"),
];

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = named_table(args);
    let slicing = read_slicing(args);
    args.finish()?;
    let (id, payloads) = table.ok_or(Invalid)?;
    slicing.tell(&payloads);
    Ok(Box::new(Slice { table: id, payloads, slicing }))
}

/// The table that TABLE names.
pub(crate) fn named_table(args: &mut Args<'_>) -> Option<(ElementId, Arc<Payloads>)> {
    let ElementRef(element) = args.get("TABLE")?;
    table_of(args, element)
}

/// The table of an element that has been named.
pub(crate) fn table_of(args: &mut Args<'_>, element: ElementId) -> Option<(ElementId, Arc<Payloads>)> {
    let found = args.setup.service::<Payloads>(element);
    if found.is_none() {
        args.error("TABLE: type mismatch, expected PayloadTable");
    }
    found.map(|payloads| (element, payloads))
}

/// Reads the arguments that say what is sliced.
pub(crate) fn read_slicing(args: &mut Args<'_>) -> Slicing {
    let fraction = args.or("FRACTION", 1.0f64);
    if !(0.0..=1.0).contains(&fraction) {
        args.error("FRACTION: must be between 0 and 1");
    }
    let longest = match args.or("LONGEST", 0u32) {
        0 => u32::MAX,
        longest => longest,
    };
    Slicing {
        threshold: args.or("THRESHOLD", THRESHOLD),
        longest,
        bytes: args.or("BYTES", u32::from(u16::MAX)),
        fraction,
        is_tail: args.or("TAIL", true),
    }
}

/// Answers a read handler.
pub(crate) fn read(slicing: &Slicing, name: &str) -> String {
    match name {
        "threshold" => slicing.threshold.to_string(),
        "longest" if slicing.longest == u32::MAX => "0".into(),
        "longest" => slicing.longest.to_string(),
        "bytes" => slicing.bytes.to_string(),
        "tail" => slicing.is_tail.to_string(),
        _ => slicing.fraction.to_string(),
    }
}

/// The table, for declarations: one per worker, and whoever needs another worker's is handed over to it.
pub(crate) fn table_state() -> State {
    State { table: "payloads", key: Vec::new(), both_directions: false, access: Access::Shared }
}

/// What slicing or splicing does to packets that come in by an input and leave by an output.
pub(crate) fn case(input: usize, output: usize, name: &'static str, is_whole: bool) -> Case {
    let reads = vec![Field::Payload, Field::Length, Field::HeaderOffset(Base::Network)];
    let length = (HEADERS + TOKEN) as u16;
    let front = Field::Bytes { base: Base::Data, offset: 0, length };
    let change = || Value::Pure { name, reads: reads.clone() };
    let case = Case::new(Filter::Any, Target::Output(output))
        .on(input)
        .with(Action::Set(front, change()))
        .with(Action::Set(EXTRA_LENGTH, change()))
        .with(Action::Resize(reads.clone()));
    // A part of a payload moves; otherwise its bytes stay where they are.
    match is_whole {
        true => case,
        false => case.with(Action::Set(Field::Payload, change())),
    }
}

struct Slice {
    table: ElementId,
    payloads: Arc<Payloads>,
    slicing: Slicing,
}

impl Element for Slice {
    fn effects(&self) -> Effects {
        Effects {
            state: vec![table_state()],
            sliced: Sliced { parks: Some((0, self.table)), joins: None, marks: self.payloads.settings.marks },
            ..Effects::cases(vec![case(0, 0, "sliced", self.slicing.is_whole())])
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.slicing.slice_all(cx, &self.payloads, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.payloads.look(cx);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(read(&self.slicing, name))
    }
}
