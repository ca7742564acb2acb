//! # Slice
//! Parks the payloads of packets in a PayloadTable and forwards short packets with their headers.
//!
//! The element is for network functions that read headers only, where packets cross a boundary at which they
//! are copied: an interface to a namespace, a container, a virtual machine or another program. Splice joins
//! the payloads again after the boundary. Packets of at least THRESHOLD bytes lose the payload of TCP or UDP;
//! its bytes stay where they are and are not touched. A token of 16 bytes takes the place of the payload. The
//! result is a valid packet: its lengths and its TCP or UDP checksum are right, and the checksum of its IPv4
//! header is if it was right before. A TCP segment is presented as its own last bytes (its sequence number is
//! larger), so that observers of the connection see its progress.
//!
//! Packets over IPv4 and IPv6 are sliced, after VLAN tags or without a link header. Fragments, other
//! protocols, and segments with SYN, RST or urgent data pass whole. So do packets with source routes, with
//! IPv6 extension headers that may hide the payload or change checksums, with headers of more than 112 bytes,
//! or to groups of hosts, and packets that find the next entry of the table in use or little room in the
//! packet pool. A wrong TCP or UDP checksum of the sender is right in the sliced packet, and as wrong as
//! before in the joined packet: the network function in between cannot detect it.
//!
//! A large TCP segment, which stands for many packets on the wire, is parked as one: one short packet leaves.
//! It is cut first if it cannot be parked, or if an element downstream cannot treat its packets alike (a
//! meter, for example). Checksums that are left to a device are complete in short packets.
//!
//! Elements between Slice and Splice must not read payloads. Elements that show or record packets may be
//! there: they see the sliced packets. Elements that read the length of a packet get the original length by
//! the extra length annotation. Elements that do not support this annotation must not be there, and with
//! `MARKER dscp` neither must elements that read the DSCP.
//!
//! ## Usage
//! `Slice(TABLE [, KEYWORDS])`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable.
//! - `THRESHOLD`: the minimum length of packets that are sliced, in bytes, link header included.
//! - `LONGEST`: the maximum length of packets that are sliced, in bytes from the IP header on; 0 for any. Of
//!   a large segment, the length of its packets on the wire counts.
//!   Longer packets pass whole, so that the network function sees that they do not fit into its next
//!   network, or into its tunnel, and fragments them or reports the error to the sender.
//! - `BYTES`: the maximum number of bytes of a payload that are parked, from its start; the rest follows
//!   the token.
//! - `FRACTION`: the part of a payload that is parked.
//! - `TAIL`: if true, a TCP segment is presented as its own last bytes. If false, as its first bytes;
//!   observers of the connection then take the receiver's ACKs for invalid, because these acknowledge bytes
//!   that were not seen.
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
use element::class::ArgInfo;
use element::effects::{Sliced, Support};
use element::{Args, Batch, Class, Cx, Effects, Element, ElementId, Handler, Invalid, manual};

use crate::effects::{ETHERNET_START, case, table_state};
use crate::offloads::Offloads;
use crate::payloads::Payloads;
use crate::slicing::Slicing;

/// The element class `Slice`.
pub static CLASS: Class = Class {
    name: "Slice",
    processing: "h/h",
    manual: manual!("slice.rs"),
    args: &[
        ArgInfo::required("TABLE", "element"),
        SLICING[0],
        SLICING[1],
        SLICING[2],
        SLICING[3],
        SLICING[4],
    ],
    table: &Slice::SLICING_HANDLERS,
    samples: &[],
    build,
    ..Class::DEFAULT
};

/// The arguments of all elements that slice: Slice and Slicer.
pub(crate) const SLICING: [ArgInfo; 5] = [
    ArgInfo::keyword("THRESHOLD", "unsigned", "500"),
    ArgInfo::keyword("LONGEST", "unsigned", "0"),
    ArgInfo::keyword("BYTES", "unsigned", "65535"),
    ArgInfo::keyword("FRACTION", "double", "1"),
    ArgInfo::keyword("TAIL", "bool", "true"),
];

/// An element that slices packets (parks their payloads and forwards their headers): Slice and Slicer.
pub(crate) trait Slices: Element + Sized {
    /// Returns the rules for slicing.
    fn slicing(&self) -> &Slicing;

    /// The handlers that show how packets are sliced.
    const SLICING_HANDLERS: &'static [Handler<Self>] = &[
        Handler::get("threshold", |e| e.slicing().threshold.to_string()),
        Handler::get("longest", |e| match e.slicing().longest {
            u32::MAX => "0".into(),
            longest => longest.to_string(),
        }),
        Handler::get("bytes", |e| e.slicing().bytes.to_string()),
        Handler::get("fraction", |e| e.slicing().fraction.to_string()),
        Handler::get("tail", |e| e.slicing().is_tail.to_string()),
    ];
}

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = named_table(args);
    let slicing = read_slicing(args);
    args.finish()?;
    let (id, payloads) = table.ok_or(Invalid)?;
    slicing.tell(&payloads);
    Ok(Box::new(Slice { table: id, payloads, slicing, offloads: Offloads::default() }))
}

/// Reads the argument TABLE, and returns the id of the PayloadTable that it names and its payloads. Errors
/// are reported to `args`.
pub(crate) fn named_table(args: &mut Args<'_>) -> Option<(ElementId, Arc<Payloads>)> {
    let element: Option<ElementRef> = args.get("TABLE");
    if !args.was_given("TABLE") {
        args.error("TABLE: required argument missing");
    }
    table_of(args, element?.0)
}

/// Returns the payloads of a PayloadTable, with its id. Another element is an error of the argument TABLE.
pub(crate) fn table_of(args: &mut Args<'_>, element: ElementId) -> Option<(ElementId, Arc<Payloads>)> {
    let found = args.setup.service::<Payloads>(element);
    if found.is_none() {
        args.error("TABLE: type mismatch, expected PayloadTable");
    }
    found.map(|payloads| (element, payloads))
}

/// Reads the arguments that control slicing; errors are reported to `args`.
pub(crate) fn read_slicing(args: &mut Args<'_>) -> Slicing {
    let fraction = args.value::<f64>("FRACTION");
    if !(0.0..=1.0).contains(&fraction) {
        args.error("FRACTION: must be between 0 and 1");
    }
    let longest = match args.value::<u32>("LONGEST") {
        0 => u32::MAX,
        longest => longest,
    };
    Slicing {
        threshold: args.value("THRESHOLD"),
        longest,
        bytes: args.value("BYTES"),
        fraction,
        is_tail: args.value("TAIL"),
    }
}

struct Slice {
    table: ElementId,
    payloads: Arc<Payloads>,
    slicing: Slicing,
    offloads: Offloads,
}

impl Slices for Slice {
    fn slicing(&self) -> &Slicing {
        &self.slicing
    }
}

impl Element for Slice {
    fn effects(&self) -> Effects {
        Effects {
            state: vec![table_state()],
            support: Support {
                sliced: Sliced {
                    parks: Some((0, self.table)),
                    joins: None,
                    marks: self.payloads.settings.marks,
                },
                offloads: self.slicing.is_whole().then_some(ETHERNET_START),
                finishes_offloads: true,
                ..Support::default()
            },
            ..Effects::cases(vec![case(0, 0, "sliced", self.slicing.is_whole())])
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.offloads = Offloads::new(cx.graph());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        self.slicing.slice_all(cx, &self.payloads, (&mut self.offloads, 0), &mut batch);
        Some(batch)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.payloads.look(cx);
    }
}
