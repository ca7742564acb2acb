//! # FlowIPLoadBalancerReverse
//! Gives answers of servers the address that clients know.
//!
//! The source address becomes the VIP of a FlowIPLoadBalancer, whatever it was, and so does the destination of the packet
//! that an ICMP error quotes. All checksums are updated. The network header annotation must be set, and that of the
//! transport header for its checksum; packets without the first are dropped.
//!
//! ## Usage
//! `FlowIPLoadBalancerReverse(LB)`
//!
//! ## Arguments
//! - `LB`: a FlowIPLoadBalancer.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> lb :: FlowIPLoadBalancer(VIP 10.0.0.1, DST 10.1.0.1) -> Discard;
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> FlowIPLoadBalancerReverse(lb) -> Discard
//! ```
//!
//! ## See also
//! FlowIPLoadBalancer, StoreIPAddress

use std::net::Ipv4Addr;

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Action, Case, Header, Target, Value, wire_field};
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::flow_ip_load_balancer::{VirtualAddress, requote, requoted};
use crate::editing::{each, needs};
use crate::ip::store_ip_address::{store, stored};

/// The class.
pub static CLASS: Class = Class {
    name: "FlowIPLoadBalancerReverse",
    processing: "h/h",
    manual: manual!("flow_ip_load_balancer_reverse.rs"),
    args: &[ArgInfo::required("LB", "element")],
    samples: &[],
    build: |args| {
        let lb = args.required_or("LB", ElementRef(0));
        args.finish()?;
        let ElementRef(lb) = lb;
        let Some(service) = args.setup.service::<VirtualAddress>(lb) else {
            args.error("LB: element is not a FlowIPLoadBalancer");
            return Err(element::Invalid);
        };
        Ok(Box::new(FlowIpLoadBalancerReverse { vip: service.0 }))
    },
    ..Class::DEFAULT
};

struct FlowIpLoadBalancerReverse {
    vip: Ipv4Addr,
}

impl Element for FlowIpLoadBalancerReverse {
    fn effects(&self) -> Effects {
        let vip = Action::Set(wire_field::IP_SRC, Value::Constant(self.vip.octets().to_vec()));
        let error = requoted("an ICMP error", &[], std::slice::from_ref(&vip));
        let mut cases = vec![needs(Header::Ipv4), error];
        cases.extend(stored(&[vip], |when| Case::new(when, Target::Output(0))));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let vip = self.vip.octets();
        each(cx, batch, |packet| {
            requote(packet, |quotation| (quotation.source, u32::from_be_bytes(vip)));
            store(packet, vip, true)
        });
    }
}
