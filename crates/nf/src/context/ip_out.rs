//! # IPOut
//! Recomputes the checksum of the IPv4 header, at the end of a path that IPIn begins.
//!
//! Packets are changed or dropped as by SetIPChecksum. With `READONLY true` or `CHECKSUM false` they pass
//! unchanged.
//!
//! ## Usage
//! `IPOut([READONLY, KEYWORDS])`
//!
//! ## Arguments
//! - `READONLY`: true if the elements of the path change nothing.
//! - `CHECKSUM`: false to leave the checksum as it is.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> IPIn -> IPOut(CHECKSUM true) -> Discard
//! ```
//!
//! ## See also
//! IPIn, SetIPChecksum

use element::class::ArgInfo;
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};

use crate::ip::set_ip_checksum;

/// The element class `IPOut`.
pub static CLASS: Class = Class {
    name: "IPOut",
    processing: "a/ah",
    manual: manual!("ip_out.rs"),
    args: &[ArgInfo::positional("READONLY", "bool", "false"), ArgInfo::keyword("CHECKSUM", "bool", "true")],
    samples: &["", "READONLY true", "CHECKSUM false"],
    build: |args| {
        let is_readonly: bool = args.value("READONLY");
        let sets_checksum = args.value::<bool>("CHECKSUM") && !is_readonly;
        args.finish()?;
        Ok(Box::new(IpOut { sets_checksum }))
    },
    ..Class::DEFAULT
};

struct IpOut {
    sets_checksum: bool,
}

impl Element for IpOut {
    fn effects(&self) -> Effects {
        if self.sets_checksum { Effects::cases(set_ip_checksum::cases()) } else { Effects::pass() }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.sets_checksum {
            batch.sift(
                |packet| set_ip_checksum::set(packet).ok_or(DropReason::BadIpHeader),
                |packet, reason| cx.drop(packet, reason),
            );
        }
    }
}
