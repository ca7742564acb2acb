//! # SetIP6DSCP
//! Sets the differentiated services code point of IPv6 headers.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIP6DSCP(DSCP)`
//!
//! ## Arguments
//! - `DSCP`: 0 to 63. The ECN bits are not changed.
//!
//! ## Handlers
//! - `dscp`: the code point, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> SetIP6DSCP(46) -> Discard
//! ```
//!
//! ## See also
//! SetIPDSCP, SetIP6ECN, DecIP6HLIM

use element::effects::{Action, HeaderKind, Value};
use element::{Base, Class, Effects, Packet, manual};

use super::ip6_mirror::ipv6;
use super::set_ip_dscp::{DESCRIPTION, SetDscp, Version};
use crate::editing::{Fate, bytes, needs, otherwise};

/// The element class `SetIP6DSCP`.
pub static CLASS: Class = Class {
    name: "SetIP6DSCP",
    manual: manual!("set_ip6_dscp.rs"),
    table: &SetDscp::<V6>::HANDLERS,
    build: |args| SetDscp::<V6>::build(args),
    ..DESCRIPTION
};

pub(super) struct V6;

impl Version for V6 {
    fn effects(mask: u8, bits: u8) -> Effects {
        // The traffic class is split: its upper half is in the first byte of the header, and its lower half
        // in the second.
        let across = |byte: u8| vec![byte >> 4, byte << 4];
        let value = Value::Bits { mask: across(mask), value: across(bits) };
        let set = Action::Set(bytes(Base::Network, 0, 2), value);
        Effects::cases(vec![needs(HeaderKind::Ipv6), otherwise(vec![set])])
    }

    #[inline]
    fn change(packet: &mut Packet, new: impl FnOnce(u8) -> u8) -> Fate {
        let ip = ipv6(packet)?;
        ip.set_traffic_class(new(ip.traffic_class()));
        Ok(())
    }
}
