//! # FlowNAPTLoadBalancerReverse
//! Translates the packets that come back to a FlowNAPTLoadBalancer.
//!
//! By the mappings of a FlowNAPTLoadBalancer, a packet gets the addresses and ports that answer the flow as
//! it came to the balancer; checksums are updated, and the destination annotation is set. Packets without a
//! mapping are dropped. Header annotations must be set.
//!
//! ## Usage
//! `FlowNAPTLoadBalancerReverse(LB)`
//!
//! ## Arguments
//! - `LB`: a FlowNAPTLoadBalancer.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader
//!     -> lb :: FlowNAPTLoadBalancer(DST 10.1.0.1, SIP 10.2.0.1) -> Discard;
//! Idle -> FlowNAPTLoadBalancerReverse(lb) -> Discard
//! ```
//!
//! ## See also
//! FlowNAPTLoadBalancer, IPRewriter

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::reverse;

/// The element class `FlowNAPTLoadBalancerReverse`.
pub static CLASS: Class = Class {
    name: "FlowNAPTLoadBalancerReverse",
    processing: "h/h",
    manual: manual!("flow_napt_load_balancer_reverse.rs"),
    args: &[ArgInfo::required("LB", "element")],
    state: &[StatePart::kept("mappings", &[])],
    samples: &[],
    build: |args| reverse::build(args, "LB", "FlowNAPTLoadBalancer"),
    ..Class::DEFAULT
};
