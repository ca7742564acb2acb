//! # Splice
//! Puts payloads that Slice has parked back behind the headers that come from a network function.
//!
//! A packet whose token belongs to a payload in the table gets it, its length, its DSCP and its sequence number back, and is what
//! the network function would have made of the whole packet, byte for byte: checksums are those that came, changed by what
//! the network function has changed. ICMP errors that quote a sliced packet quote the original afterwards. Packets without a
//! token pass. What is marked as sliced and has no token of ours, or one whose payload has left or expired, is dropped.
//!
//! A payload that another worker has waits there; the packet is handed over to it.
//!
//! ## Usage
//! `Splice(TABLE)`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable.
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
use crate::slice::{case, named_table, table_state};
use crate::splicing::Splicing;

/// The class.
pub static CLASS: Class = Class {
    name: "Splice",
    processing: "h/h",
    manual: manual!("splice.rs"),
    args: &[ArgInfo::required("TABLE", "element")],
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = named_table(args);
    args.finish()?;
    let (id, payloads) = table.ok_or(Invalid)?;
    Ok(Box::new(Splice { table: id, payloads, splicing: Splicing::default() }))
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
            ..Effects::cases(vec![case(0, 0, "spliced", is_whole)])
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.splicing.splice_all(cx, &self.payloads, port, &mut batch);
        Some(batch)
    }
}
