//! # SetIP6Hlim
//! Sets the hop limit of IPv6 headers.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIP6Hlim(HLIM)`
//!
//! ## Arguments
//! - `HLIM`: 0 to 255.
//!
//! ## Handlers
//! - `hopLimit`: the hop limit, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> SetIP6Hlim(64) -> Discard
//! ```
//!
//! ## See also
//! DecIP6HLIM, SetIP6FlowLabel, SetIP6DSCP, SetIP6ECN

use std::marker::PhantomData;

use element::args::{Raw, Scope, read_value};
use element::class::ArgInfo;
use element::effects::{Action, Depends, HeaderKind};
use element::{Args, Base, Batch, Class, Complaint, Cx, Effects, Element, Handler, Invalid, manual};
use wire::ipv6;

use super::ip6_mirror::ipv6 as header;
use crate::editing::{bytes, constant, each, needs, otherwise};

/// The element class `SetIP6Hlim`.
pub static CLASS: Class = Class {
    name: "SetIP6Hlim",
    manual: manual!("set_ip6_hlim.rs"),
    args: &[ArgInfo::required("HLIM", "0-255")],
    table: &SetField::<HopLimit>::HANDLERS,
    samples: &["64"],
    reconfigures: true,
    build: |args| SetField::<HopLimit>::build(args, "HLIM"),
    ..Class::DEFAULT
};

/// A field of IPv6 headers that an element sets to a number.
pub(super) trait Field: Send + 'static {
    /// The name of the handler that reads and writes the number to which the field is set.
    const HANDLER: &'static str;

    /// Parses the number from the text of an argument or of a write handler.
    ///
    /// # Errors
    /// If the text is not a number, or the number is too large for the field.
    fn parse(text: &str, place: &Scope<'_>) -> Result<u32, Complaint>;

    /// Returns the action that declares that the field is set to `value`.
    fn action(value: u32) -> Action;

    fn set(ip: &mut ipv6::Header, value: u32);
}

struct HopLimit;

impl Field for HopLimit {
    const HANDLER: &'static str = "hopLimit";

    fn parse(text: &str, place: &Scope<'_>) -> Result<u32, Complaint> {
        read_value::<u8>("HLIM", text, place).map(u32::from)
    }

    fn action(value: u32) -> Action {
        constant(bytes(Base::Network, 7, 1), &[value as u8])
    }

    #[inline]
    fn set(ip: &mut ipv6::Header, value: u32) {
        ip.hop_limit = value as u8;
    }
}

/// An element that sets a [`Field`] of IPv6 headers to a number.
pub(super) struct SetField<F> {
    value: u32,
    text: String,
    field: PhantomData<F>,
}

impl<F: Field> SetField<F> {
    /// Makes the element from its argument `name`, which is the number.
    pub(super) fn build(args: &mut Args<'_>, name: &'static str) -> Result<Box<dyn Element>, Invalid> {
        let Raw(text) = args.required(name);
        args.finish()?;
        let parsed = F::parse(&text, &args.place());
        if let Err(reason) = &parsed {
            args.error(reason.clone());
        }
        args.finish()?;
        Ok(Box::new(SetField::<F> { value: parsed.unwrap_or_default(), text, field: PhantomData }))
    }
}

impl<F: Field> Element for SetField<F> {
    fn effects(&self) -> Effects {
        let cases = vec![needs(HeaderKind::Ipv6), otherwise(vec![F::action(self.value)])];
        Effects::cases(cases).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let value = self.value;
        each(cx, batch, |packet| {
            F::set(header(packet)?, value);
            Ok(())
        });
    }
}

impl<F: Field> SetField<F> {
    /// The handlers: a single handler, which reads and writes the number.
    pub(super) const HANDLERS: &'static [Handler<Self>] = &[Handler::data(
        F::HANDLER,
        |e| e.text.clone(),
        |e, cx, value| {
            e.value = F::parse(value, &cx.place())?;
            e.text = value.trim().to_string();
            Ok(())
        },
    )];
}
