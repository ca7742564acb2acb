//! # SetIP6Address
//! Sets the destination address annotation to an IPv6 address.
//!
//! ## Usage
//! `SetIP6Address(IPADDR)`
//!
//! ## Arguments
//! - `IPADDR`: the address.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetIP6Address(2001:db8::1) -> Discard
//! ```
//!
//! ## See also
//! GetIP6Address, LookupIP6Route, SetIPAddress

use std::net::Ipv6Addr;

use element::class::ArgInfo;
use element::effects::DST_IP6;
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::Annotations;

use crate::editing::{constant, missing, otherwise};

/// The element class `SetIP6Address`.
pub static CLASS: Class = Class {
    name: "SetIP6Address",
    manual: manual!("set_ip6_address.rs"),
    args: &[ArgInfo::required("IPADDR", "IPv6 address")],
    samples: &["2001:db8::1"],
    build: |args| {
        let address: Option<Ipv6Addr> = args.get("IPADDR");
        let Some(address) = address else { return missing(args, "IPADDR") };
        args.finish()?;
        Ok(Box::new(SetIp6Address { address: address.octets() }))
    },
    ..Class::DEFAULT
};

struct SetIp6Address {
    address: [u8; 16],
}

impl Element for SetIp6Address {
    fn effects(&self) -> Effects {
        Effects::cases(vec![otherwise(vec![constant(DST_IP6, &self.address)])])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet.annotations_mut().set_array(Annotations::DST_IP, self.address);
        }
    }
}
