//! # GTPEncap
//! Prepends a GTP-U header (3GPP TS 29.281) to each packet, the header of user data in mobile networks.
//!
//! The header has version 1, no optional fields, and type 255 (user data). The outer headers are not part
//! of it: UDPIPEncap with port 2152 prepends them.
//!
//! ## Usage
//! `GTPEncap(TEID)`
//!
//! ## Arguments
//! - `TEID`: the tunnel endpoint identifier; 0 for the number in each packet's aggregate annotation.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> GTPEncap(7)
//!     -> UDPIPEncap(192.0.2.1, 2152, 192.0.2.2, 2152) -> Discard
//! ```
//!
//! ## See also
//! GTPDecap, UDPIPEncap

use element::class::ArgInfo;
use element::effects::{Action, Field, Number, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

use crate::aggregate::AGGREGATE;
use crate::editing::{bytes, constant, each, otherwise, pure};

/// The element class `GTPEncap`.
pub static CLASS: Class = Class {
    name: "GTPEncap",
    manual: manual!("gtp_encap.rs"),
    args: &[ArgInfo::required("TEID", "unsigned")],
    samples: &["7", "0"],
    reconfigures: true,
    build: |args| {
        let endpoint = args.required("TEID");
        args.finish()?;
        Ok(Box::new(GtpEncap { endpoint }))
    },
    ..Class::DEFAULT
};

/// The length of a GTP-U header without optional fields.
pub(super) const LEN: usize = 8;
/// The first two bytes of the header: version 1, protocol type GTP, no options; and the type of user data.
const START: [u8; 2] = [0x30, 0xff];

struct GtpEncap {
    /// The tunnel endpoint identifier; 0 to take the aggregate annotation.
    endpoint: u32,
}

impl Element for GtpEncap {
    fn effects(&self) -> Effects {
        let endpoint = bytes(Base::Data, 4, 4);
        let length = Value::Number(Number::of(Field::Length));
        Effects::cases(vec![otherwise(vec![
            Action::Strip(-(LEN as i32)),
            constant(bytes(Base::Data, 0, 2), &START),
            Action::Set(bytes(Base::Data, 2, 2), length),
            match self.endpoint {
                0 => pure(endpoint, "aggregate", &[AGGREGATE]),
                number => constant(endpoint, &number.to_be_bytes()),
            },
        ])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let endpoint = self.endpoint;
        each(cx, batch, |packet| {
            // As in Click, the length field has the lower 16 bits of the length of a longer packet.
            let length = packet.len() as u16;
            let endpoint = match endpoint {
                0 => packet.annotations().u32(Annotations::AGGREGATE),
                number => number,
            };
            let mut header = [0; LEN];
            header[..2].copy_from_slice(&START);
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header[4..].copy_from_slice(&endpoint.to_be_bytes());
            if packet.prepend(&header) { Ok(()) } else { Err(DropReason::NoHeadroom) }
        });
    }
}
