//! # MarkIP6Header
//! Sets the network header annotation, and the transport header annotation 40 bytes after it, without
//! checking that there is an IPv6 header.
//!
//! ## Usage
//! `MarkIP6Header([OFFSET])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the IPv6 header.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIP6Header(14) -> Discard
//! ```
//!
//! ## See also
//! CheckIP6Header, MarkIPHeader

use element::class::ArgInfo;
use element::{Base, Batch, Class, Cx, Effects, Element, manual};
use wire::ipv6;

use crate::editing::{header_at, otherwise};

/// The element class `MarkIP6Header`.
pub static CLASS: Class = Class {
    name: "MarkIP6Header",
    manual: manual!("mark_ip6_header.rs"),
    args: &[ArgInfo::positional("OFFSET", "unsigned", "0")],
    samples: &["", "14"],
    build: |args| {
        let offset = args.value::<u32>("OFFSET") as usize;
        args.finish()?;
        Ok(Box::new(MarkIp6Header { offset }))
    },
    ..Class::DEFAULT
};

struct MarkIp6Header {
    offset: usize,
}

impl Element for MarkIp6Header {
    fn effects(&self) -> Effects {
        let behind = self.offset + ipv6::Header::LEN;
        Effects::cases(vec![otherwise(vec![
            header_at(Base::Network, self.offset),
            header_at(Base::Transport, behind),
        ])])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let offset = self.offset as isize;
        for packet in batch.iter_mut() {
            packet.set_offset(Base::Network, Some(offset));
            packet.set_offset(Base::Transport, Some(offset + ipv6::Header::LEN as isize));
        }
    }
}
