//! # SetIP6FlowLabel
//! Sets the flow label of IPv6 headers.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIP6FlowLabel(FLOW)`
//!
//! ## Arguments
//! - `FLOW`: 0 to 1048575.
//!
//! ## Handlers
//! - `flowlabel`: the flow label, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> SetIP6FlowLabel(0x12345) -> Discard
//! ```
//!
//! ## See also
//! SetIP6Hlim, SetIP6DSCP, SetIP6ECN

use element::args::{Scope, read_value};
use element::class::ArgInfo;
use element::effects::{Action, Value};
use element::{Base, Class, Complaint, manual};
use wire::ipv6;

use super::set_ip6_hlim::{Field, SetField};
use crate::editing::bytes;

/// The element class `SetIP6FlowLabel`.
pub static CLASS: Class = Class {
    name: "SetIP6FlowLabel",
    manual: manual!("set_ip6_flow_label.rs"),
    args: &[ArgInfo::required("FLOW", "0-1048575")],
    table: &SetField::<FlowLabel>::HANDLERS,
    samples: &["0x12345", "1048575"],
    reconfigures: true,
    build: |args| SetField::<FlowLabel>::build(args, "FLOW"),
    ..Class::DEFAULT
};

struct FlowLabel;

/// The largest flow label: a flow label has 20 bits.
const ALL: u32 = 0xf_ffff;

impl Field for FlowLabel {
    const HANDLER: &'static str = "flowlabel";

    fn parse(text: &str, place: &Scope<'_>) -> Result<u32, Complaint> {
        let label: u32 = read_value("FLOW", text, place)?;
        if label <= ALL { Ok(label) } else { Err("flow label out of range".into()) }
    }

    fn action(value: u32) -> Action {
        // The flow label begins in the lower half of the second byte.
        let three = |bits: u32| bits.to_be_bytes()[1..].to_vec();
        let value = Value::Bits { mask: three(ALL), value: three(value) };
        Action::Set(bytes(Base::Network, 1, 3), value)
    }

    #[inline]
    fn set(ip: &mut ipv6::Header, value: u32) {
        ip.set_flow_label(value);
    }
}
