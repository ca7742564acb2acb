//! # SetIPECN
//! Sets the explicit congestion notification bits of IPv4 headers, and updates the checksum.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIPECN(ECN)`
//!
//! ## Arguments
//! - `ECN`: 0 to 3; or `no` or `-` (0), `ect1` or `ECT(1)` (1), `ect2` or `ECT(0)` (2), `ce` or `CE` (3).
//!
//! ## Handlers
//! - `ecn`: the value, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> SetIPECN(ect1) -> Discard
//! ```
//!
//! ## See also
//! SetIPDSCP, SetIP6ECN, MarkIPCE

use std::marker::PhantomData;

use element::args::Raw;
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Args, Batch, Class, Cx, Effects, Element, Handler, Invalid, manual};

use super::set_ip_dscp::{V4, Version};
use crate::editing::each;

/// The element class `SetIPECN`.
pub static CLASS: Class = Class {
    name: "SetIPECN",
    manual: manual!("set_ip_ecn.rs"),
    build: |args| SetEcn::<V4>::build(args),
    ..DESCRIPTION
};

/// The fields of the class that SetIPECN and SetIP6ECN have in common.
pub(super) const DESCRIPTION: Class = Class {
    args: &[ArgInfo::required("ECN", "0-3 or a name")],
    table: &SetEcn::<V4>::HANDLERS,
    samples: &["ce", "1"],
    reconfigures: true,
    ..Class::DEFAULT
};

const BAD: &str = "bad ECN argument";

pub(super) struct SetEcn<V> {
    ecn: u8,
    text: String,
    version: PhantomData<V>,
}

impl<V: Version> SetEcn<V> {
    pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        let Raw(text) = args.required("ECN");
        args.finish()?;
        let ecn = parse(&text);
        if ecn.is_none() {
            args.error(BAD);
        }
        args.finish()?;
        Ok(Box::new(SetEcn::<V> { ecn: ecn.unwrap_or_default(), text, version: PhantomData }))
    }
}

fn parse(text: &str) -> Option<u8> {
    match text.trim() {
        "0" | "no" | "-" => Some(0),
        "1" | "ect1" | "ECT(1)" => Some(1),
        "2" | "ect2" | "ECT(0)" => Some(2),
        "3" | "ce" | "CE" => Some(3),
        _ => None,
    }
}

impl<V: Version> Element for SetEcn<V> {
    fn effects(&self) -> Effects {
        V::effects(3, self.ecn).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let ecn = self.ecn;
        each(cx, batch, |packet| V::change(packet, |byte| byte & !3 | ecn));
    }
}

impl<V: Version> SetEcn<V> {
    /// The handlers: a single handler, which reads and writes the ECN bits.
    pub(super) const HANDLERS: &'static [Handler<Self>] = &[Handler::argument(
        "ecn",
        "ECN",
        |e| e.text.clone(),
        |e, _, value| {
            e.ecn = parse(value).ok_or(BAD)?;
            e.text = value.trim().to_string();
            Ok(())
        },
    )];
}
