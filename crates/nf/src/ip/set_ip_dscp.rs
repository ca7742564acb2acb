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

use element::args::{Place, Raw, read_value};
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Args, Batch, Class, Complaint, Cx, Effects, Element, Handler, Invalid, Packet, manual};

use super::service_type;
use crate::editing::{Fate, each};

/// The class.
pub static CLASS: Class = Class {
    name: "SetIPDSCP",
    manual: manual!("set_ip_dscp.rs"),
    build: |args| SetDscp::<V4>::build(args),
    ..DESCRIPTION
};

/// The common part of SetIPDSCP and SetIP6DSCP.
pub(super) const DESCRIPTION: Class = Class {
    args: &[ArgInfo::required("DSCP", "0-63")],
    table: &SetDscp::<V4>::HANDLERS,
    samples: &["46"],
    reconfigures: true,
    ..Class::DEFAULT
};

/// A version of IP, whose header has a code point.
pub(super) trait Version: Send + 'static {
    /// Returns the effects of an element that sets these bits of the byte with the code point and ECN; see
    /// [`Element::effects`].
    fn effects(mask: u8, bits: u8) -> Effects;

    /// Changes the byte that contains the code point and ECN.
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
    /// The code point, shifted to its position in the byte.
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

/// Parses a code point, and shifts it to its position in the byte.
fn parse(text: &str, place: &Place<'_>) -> Result<u8, Complaint> {
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
    /// The handlers.
    pub(super) const HANDLERS: &'static [Handler<Self>] = &[Handler::data(
        "dscp",
        |e| e.text.clone(),
        |e, cx, value| {
            e.bits = parse(value, &cx.place())?;
            e.text = value.trim().to_string();
            Ok(())
        },
    )];
}
