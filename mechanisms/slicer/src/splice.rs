//! # Splice
//! Joins payloads that Slice has parked to the headers that return from a network function.
//!
//! A packet whose token belongs to a payload in the table gets back the payload, its length, its sequence
//! number and, unless the network function has written another, its DSCP. It then equals the packet that the
//! network function would have made of the whole packet, byte for byte: the sender's checksums are kept, with
//! the changes of the network function. ICMP errors that quote a sliced packet quote the original afterwards.
//! Packets without a token pass. Packets that are marked and may be sliced packets, but have no valid token,
//! are dropped, and so are packets with a token whose payload has left or expired.
//!
//! Packets that the network function has put into tunnels are joined there, and lengths and checksums
//! around them are corrected: IP in IP of both versions, GRE, VXLAN, VXLAN-GPE, GENEVE, GTP-U, GUE, LISP,
//! EtherIP, L2TPv3, IP in UDP, MPLS, PPPoE, PPTP, NSH and provider backbone headers, also nested. Where a
//! tunnel has copied the mark to the DSCP of its header, that DSCP becomes the packet's original DSCP. A
//! sliced packet that can be seen where it cannot be joined is dropped: in fragments, under AH or MACsec,
//! at the end of other packets. Encrypted or compressed packets cannot be seen: they leave without their
//! payloads, and PayloadTable's `missing` counts them. Such packets must reach the network function whole.
//!
//! The network function does not see the original length of a packet. So it does not fragment packets that
//! do not fit into its interface, and does not report that they are too big. Where that matters, set MTU to
//! the MTU of that interface: joined packets that are longer without their link header leave by output 1,
//! for IPFragmenter and ICMPError downstream; without that output they are dropped. Packets in tunnels whose
//! outermost IP header is IPv4 and allows fragments leave by output 1, too. In other tunnels, the sender of
//! the inner packet should send shorter packets: the packet that it has sent leaves by output 2 in place of
//! the packet in the tunnel, for ICMPError. Without that output, or if the inner packet may be fragmented,
//! it is dropped. With Slice's LONGEST the network function does all this instead.
//!
//! A large segment that was parked as one leaves as one, if the elements downstream accept large segments;
//! otherwise it is cut. If it returns in a tunnel, each part gets a copy of the tunnel's headers, and Slice
//! cuts large segments from then on.
//!
//! If the payload of a packet is in the table of another worker, the packet is handed over to that worker.
//!
//! ## Usage
//! `Splice(TABLE)`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable.
//! - `MTU`: the maximum length in bytes of joined packets that leave by output 0, without the link header; 0
//!   for any. Of a large segment, the length of its packets on the wire counts. Packets without a token are
//!   not checked.
//!
//! ## Handlers
//! None; the PayloadTable counts.
//!
//! ## Example
//! ```click
//! t :: PayloadTable;
//! InfiniteSource(LENGTH 1000, LIMIT 3) -> Slice(t) -> Splice(t) -> Discard
//! ```
//!
//! ## See also
//! Slice, Slicer, PayloadTable

use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Sliced, Support};
use element::{Args, Batch, Class, Cx, Effects, Element, ElementId, Invalid, manual};

use crate::effects::{ETHERNET_START, table_state};
use crate::offloads::Offloads;
use crate::payloads::Payloads;
use crate::slice::named_table;
use crate::splicing::Splicing;

/// The element class `Splice`.
pub static CLASS: Class = Class {
    name: "Splice",
    ports: "1/1-3",
    processing: "h/h",
    manual: manual!("splice.rs"),
    args: &[ArgInfo::required("TABLE", "element"), MTU],
    samples: &[],
    build,
    ..Class::DEFAULT
};

/// The argument MTU of all elements that splice.
pub(crate) const MTU: ArgInfo = ArgInfo::keyword("MTU", "unsigned", "0");

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = named_table(args);
    let mtu = args.value::<u32>("MTU");
    args.finish()?;
    let (id, payloads) = table.ok_or(Invalid)?;
    let (splicing, offloads) = (Splicing::new(mtu, 1), Offloads::default());
    Ok(Box::new(Splice { table: id, payloads, splicing, offloads }))
}

struct Splice {
    table: ElementId,
    payloads: Arc<Payloads>,
    splicing: Splicing,
    offloads: Offloads,
}

impl Element for Splice {
    fn effects(&self) -> Effects {
        let is_whole = !self.payloads.open().leaves_rest;
        Effects {
            state: vec![table_state()],
            support: Support {
                sliced: Sliced {
                    parks: None,
                    joins: Some((0, self.table)),
                    marks: self.payloads.settings.marks,
                },
                offloads: Some(ETHERNET_START),
                ..Support::default()
            },
            ..Effects::cases(self.splicing.cases(0, 0, is_whole))
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.offloads = Offloads::new(cx.graph());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.splicing.splice_all(cx, &self.payloads, (&mut self.offloads, 0), port, &mut batch);
        Some(batch)
    }
}
