//! # FlowIPNATReverse
//! Translates the packets that come back to a FlowIPNAT.
//!
//! By the mappings of a FlowIPNAT, the destination address and port of a packet are set to the source of the
//! flow that it answers; checksums are updated, and the destination annotation is set. Packets without a
//! mapping are dropped. Header annotations must be set.
//!
//! ## Usage
//! `FlowIPNATReverse(NAT)`
//!
//! ## Arguments
//! - `NAT`: a FlowIPNAT.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> nat :: FlowIPNAT(192.0.2.1) -> Discard;
//! Idle -> FlowIPNATReverse(nat) -> Discard
//! ```
//!
//! ## See also
//! FlowIPNAT, IPRewriter

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::reverse;

/// The element class `FlowIPNATReverse`.
pub static CLASS: Class = Class {
    name: "FlowIPNATReverse",
    processing: "h/h",
    manual: manual!("flow_ip_nat_reverse.rs"),
    args: &[ArgInfo::required("NAT", "element")],
    state: &[StatePart::kept("mappings", &[])],
    samples: &[],
    build: |args| reverse::build(args, "NAT", "FlowIPNAT"),
    ..Class::DEFAULT
};
