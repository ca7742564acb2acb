//! # FlowIPLoadBalancerReverse
//! Sets the source address of servers' answers to the address that clients know.
//!
//! The source address is always set to the VIP of a FlowIPLoadBalancer, and so is the destination of the
//! packet that an ICMP error quotes. All checksums are updated. The network header annotation must be set;
//! for the checksum of the transport header, its annotation must be set, too. Packets without a network
//! header annotation are dropped.
//!
//! If the transport header annotation is set, the balancer is notified of FIN and RST of TCP connections. It
//! then remembers connections that are over no longer than its DONE_TIMEOUT. If servers close more than 1024
//! connections of one worker before the balancer gets the next packet there, further notices are lost, and
//! these connections are remembered longer.
//!
//! ## Usage
//! `FlowIPLoadBalancerReverse(LB)`
//!
//! ## Arguments
//! - `LB`: a FlowIPLoadBalancer.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> lb :: FlowIPLoadBalancer(VIP 10.0.0.1, DST 10.1.0.1) ->
//! Discard; InfiniteSource(LIMIT 9) -> MarkIPHeader -> FlowIPLoadBalancerReverse(lb) -> Discard
//! ```
//!
//! ## See also
//! FlowIPLoadBalancer, StoreIPAddress

use std::sync::Arc;

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Action, Case, Field, HeaderKind, State, StateAccess, Target, Value, wire_field};
use element::{Base, Batch, Class, Cx, Effects, Element, ElementId, manual};

use super::flow_ip_load_balancer::{Front, requote, requoted};
use super::notices::{ENDS, Watch};
use crate::editing::{each, needs, within};
use crate::ip::store_ip_address::{store, stored};

/// The element class `FlowIPLoadBalancerReverse`.
pub static CLASS: Class = Class {
    name: "FlowIPLoadBalancerReverse",
    aliases: &["IPLoadBalancerReverse"],
    processing: "h/h",
    manual: manual!("flow_ip_load_balancer_reverse.rs"),
    args: &[ArgInfo::required("LB", "element")],
    samples: &[],
    build: |args| {
        let lb = args.required_or("LB", ElementRef(0));
        args.finish()?;
        let ElementRef(lb) = lb;
        let Some(front) = args.setup.service::<Front>(lb) else {
            args.error("LB: element is not a FlowIPLoadBalancer");
            return Err(element::Invalid);
        };
        Ok(Box::new(FlowIpLoadBalancerReverse { lb, front, watch: Watch::new() }))
    },
    ..Class::DEFAULT
};

struct FlowIpLoadBalancerReverse {
    lb: ElementId,
    front: Arc<Front>,
    watch: Watch,
}

impl Element for FlowIpLoadBalancerReverse {
    fn effects(&self) -> Effects {
        let vip = Action::Set(wire_field::IP_SRC, Value::Constant(self.front.vip.octets().to_vec()));
        let error = requoted("an ICMP error", &[], std::slice::from_ref(&vip));
        let stored = stored(&[vip], |when| Case::new(when, Target::Output(0)));
        let mut cases = vec![needs(HeaderKind::Ipv4), error];
        // The first case of `stored` is for TCP packets. A copy of it, for packets with FIN or RST, is marked
        // as shown: these packets come to the element even if a program replaces it, because only the element
        // notifies the balancer of them.
        if let Some(tcp) = stored.first() {
            let flags = Field::Bytes { base: Base::Transport, offset: 13, length: 1 };
            let ends = within(flags, ENDS.into(), 1, ENDS.into());
            cases.push(Case { when: tcp.when.clone().and([ends]), ..tcp.clone() }.shown());
        }
        cases.extend(stored);
        let (key, access) = (Vec::new(), StateAccess::Soft);
        let state = State { table: "notices", key, both_directions: false, access };
        Effects { state: vec![state], ..Effects::cases(cases) }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let vip = self.front.vip;
        self.watch.look(cx, batch, (self.lb, vip), &self.front.notices);
        let vip = vip.octets();
        each(cx, batch, |packet| {
            requote(packet, |quotation| (quotation.source, u32::from_be_bytes(vip)));
            store(packet, vip, true)
        });
    }
}
