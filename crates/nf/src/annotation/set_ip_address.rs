//! # SetIPAddress
//! Sets the destination address annotation to a constant.
//!
//! ## Usage
//! `SetIPAddress(IPADDR [, ANNO])`
//!
//! ## Arguments
//! - `IPADDR`: the address.
//! - `ANNO`: the annotation to set, by name or offset.
//!
//! ## Handlers
//! - `addr`: the address.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetIPAddress(10.0.0.1) -> Discard
//! ```
//!
//! ## See also
//! GetIPAddress, StoreIPAddress, SetRandIPAddress

use std::net::Ipv4Addr;

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};

use super::set_address;
use crate::editing::{annotation, constant, otherwise, value};

/// The element class `SetIPAddress`.
pub static CLASS: Class = Class {
    name: "SetIPAddress",
    manual: manual!("set_ip_address.rs"),
    args: &[ArgInfo::required("IPADDR", "address"), ArgInfo::keyword("ANNO", "annotation", "DST_IP")],
    table: &HANDLERS,
    samples: &["10.0.0.1", "10.0.0.1, ANNO 20"],
    reconfigures: true,
    build: |args| {
        let address: Option<Ipv4Addr> = args.get("IPADDR");
        let AnnotationOffset::<4>(place) = args.value("ANNO");
        let Some(address) = address else { return crate::editing::missing(args, "IPADDR") };
        args.finish()?;
        Ok(Box::new(SetIpAddress { address, place, wanted: true }))
    },
    ..Class::DEFAULT
};

struct SetIpAddress {
    address: Ipv4Addr,
    place: usize,
    /// True if some element reads the annotation that this element sets. If none does, the annotation is not
    /// set, which saves time.
    wanted: bool,
}

impl Element for SetIpAddress {
    fn effects(&self) -> Effects {
        let set = constant(annotation(self.place, 4), &self.address.octets());
        Effects::cases(vec![otherwise(vec![set])]).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.wanted = cx.graph().facts().annotation_read(self.place, 4);
        Ok(())
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.wanted {
            let address = self.address.octets();
            batch.iter_mut().for_each(|packet| set_address(packet, self.place, address));
        }
    }
}

const HANDLERS: &[Handler<SetIpAddress>] = &[Handler::data(
    "addr",
    |e| e.address.to_string(),
    |e, cx, text| {
        e.address = value(cx, text, "expected IP address")?;
        Ok(())
    },
)];
