//! # Splice
//! Puts payloads that Slice has parked back behind the headers that come from a network function.
//!
//! A packet whose token belongs to a payload in the table gets it, its length, its DSCP and its sequence number back, and is what
//! the network function would have made of the whole packet, byte for byte: checksums are those that came, changed by what
//! the network function has changed. ICMP errors that quote a sliced packet quote the original afterwards. Packets without a
//! token pass. What is marked as sliced and has no token of ours, or one whose payload has left or expired, is dropped.
//!
//! Packets that the network function has put into tunnels are joined there, and lengths and checksums around them are right
//! afterwards: IP in IP of both versions, GRE, VXLAN, VXLAN-GPE, GENEVE, GTP-U, GUE, LISP, EtherIP, L2TPv3, IP in UDP, MPLS, PPPoE, PPTP, NSH and
//! provider backbone headers, one inside of the other too. An outer DSCP that has been copied from the mark is the packet's own
//! again. A sliced packet that can be seen where it cannot be joined is dropped: in fragments, under AH or MACsec, at the end of
//! anything else. What is encrypted or compressed cannot be seen: it leaves without its payload, and PayloadTable's `missing` counts
//! it. Such packets must reach the network function whole.
//!
//! The network function does not see how long the packet is, so that it neither fragments what does not fit into its
//! interface nor says that it is too big. Where that matters, MTU is that interface's: packets that are longer without their
//! link header leave by output 1, for IPFragmenter and ICMPError behind it; without that output they are dropped. So do
//! packets in tunnels whose outermost IP header is IPv4's and allows fragments. In other tunnels, whoever has sent the inner
//! packet should send shorter ones: the packet that it has sent leaves by output 2 in place of the one in the tunnel, for ICMPError;
//! without that output, or if it may be fragmented, it is dropped. Slice's LONGEST lets the network function do that instead.
//!
//! A payload that another worker has waits there; the packet is handed over to it.
//!
//! ## Usage
//! `Splice(TABLE)`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable.
//! - `MTU`: bytes of the longest packet that leaves by output 0, without its link header; 0 for any.
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
use element::effects::Sliced;
use element::{Args, Batch, Class, Cx, Effects, Element, ElementId, Invalid, manual};

use crate::payloads::Payloads;
use crate::slice::{named_table, table_state};
use crate::splicing::Splicing;

/// The class.
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

/// The argument of everybody who splices.
pub(crate) const MTU: ArgInfo = ArgInfo::keyword("MTU", "unsigned", "0");

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = named_table(args);
    let mtu = args.or("MTU", 0u32);
    args.finish()?;
    let (id, payloads) = table.ok_or(Invalid)?;
    Ok(Box::new(Splice { table: id, payloads, splicing: Splicing::new(mtu, 1) }))
}

struct Splice {
    table: ElementId,
    payloads: Arc<Payloads>,
    splicing: Splicing,
}

impl Element for Splice {
    fn effects(&self) -> Effects {
        let is_whole = !self.payloads.open().leaves_rest;
        Effects {
            state: vec![table_state()],
            sliced: Sliced { parks: None, joins: Some((0, self.table)), marks: self.payloads.settings.marks },
            ..Effects::cases(self.splicing.cases(0, 0, is_whole))
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.splicing.splice_all(cx, &self.payloads, port, &mut batch);
        Some(batch)
    }
}
