//! # SetIPDSCP
//! Sets the differentiated services code point of IPv4 headers, and updates the checksum.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIPDSCP(DSCP)`
//!
//! ## Arguments
//! - `DSCP`: 0 to 63. The ECN bits are not changed.
//!
//! ## Handlers
//! - `dscp`: the code point, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> SetIPDSCP(46) -> Discard
//! ```
//!
//! ## See also
//! SetIP6DSCP, SetIPECN, MarkIPCE

use std::marker::PhantomData;

use element::args::{Raw, Scope, read_value};
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Args, Batch, Class, Complaint, Cx, Effects, Element, Handler, Invalid, Packet, manual};

use super::service_type;
use crate::editing::{Fate, each};

/// The element class `SetIPDSCP`.
pub static CLASS: Class = Class {
    name: "SetIPDSCP",
    manual: manual!("set_ip_dscp.rs"),
    build: |args| SetDscp::<V4>::build(args),
    ..DESCRIPTION
};

/// The fields of the class that SetIPDSCP and SetIP6DSCP have in common.
pub(super) const DESCRIPTION: Class = Class {
    args: &[ArgInfo::required("DSCP", "0-63")],
    table: &SetDscp::<V4>::HANDLERS,
    samples: &["46"],
    reconfigures: true,
    ..Class::DEFAULT
};

/// A version of IP, for elements that set the code point or the ECN bits. Both are in one byte: type of
/// service in IPv4, traffic class in IPv6.
pub(super) trait Version: Send + 'static {
    /// Declares an element that sets the bits in `mask` of the byte with code point and ECN bits to `bits`,
    /// for [`Element::effects`].
    fn effects(mask: u8, bits: u8) -> Effects;

    /// Changes the byte with code point and ECN bits of a packet to `new` of its old value. The error is the
    /// drop reason of a packet without a header of this version.
    fn change(packet: &mut Packet, new: impl FnOnce(u8) -> u8) -> Fate;
}

pub(super) struct V4;

impl Version for V4 {
    fn effects(mask: u8, bits: u8) -> Effects {
        service_type::effects(mask, bits)
    }

    #[inline]
    fn change(packet: &mut Packet, new: impl FnOnce(u8) -> u8) -> Fate {
        service_type::change(packet, new)
    }
}

pub(super) struct SetDscp<V> {
    /// The code point, shifted left by two bits, as it is in the byte with the ECN bits.
    bits: u8,
    text: String,
    version: PhantomData<V>,
}

impl<V: Version> SetDscp<V> {
    pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        let Raw(text) = args.required("DSCP");
        args.finish()?;
        let parsed = parse(&text, &args.place());
        if let Err(reason) = &parsed {
            args.error(reason.clone());
        }
        args.finish()?;
        Ok(Box::new(SetDscp::<V> { bits: parsed.unwrap_or_default(), text, version: PhantomData }))
    }
}

/// Parses a code point from 0 to 63, and shifts it left by two bits, as it is in the byte with the ECN bits.
fn parse(text: &str, place: &Scope<'_>) -> Result<u8, Complaint> {
    match read_value::<u32>("DSCP", text, place)? {
        dscp @ 0..=63 => Ok((dscp as u8) << 2),
        _ => Err("diffserv code point out of range".into()),
    }
}

impl<V: Version> Element for SetDscp<V> {
    fn effects(&self) -> Effects {
        V::effects(0xfc, self.bits).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let bits = self.bits;
        each(cx, batch, |packet| V::change(packet, |byte| bits | byte & 3));
    }
}

impl<V: Version> SetDscp<V> {
    /// The handlers: a single handler, which reads and writes the code point.
    pub(super) const HANDLERS: &'static [Handler<Self>] = &[Handler::argument(
        "dscp",
        "DSCP",
        |e| e.text.clone(),
        |e, cx, value| {
            e.bits = parse(value, &cx.place())?;
            e.text = value.trim().to_string();
            Ok(())
        },
    )];
}
