//! # MarkIPHeader
//! Sets the network and transport header annotations of IPv4 packets, without checking that there is an IP
//! header.
//!
//! If a packet ends ahead of the IP header, its transport header annotation is cleared.
//!
//! ## Usage
//! `MarkIPHeader([OFFSET])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the IP header.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader

use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::{constant, header_at, header_behind, ipv4_header_length};

/// The element class `MarkIPHeader`.
pub static CLASS: Class = Class {
    name: "MarkIPHeader",
    manual: manual!("mark_ip_header.rs"),
    args: &[ArgInfo::positional("OFFSET", "unsigned", "0")],
    samples: &["", "14", "100000"],
    build: |args| {
        let offset = args.value::<u32>("OFFSET") as usize;
        if offset > packet::MAX_PACKET {
            args.too_large("OFFSET", packet::MAX_PACKET);
        }
        args.finish()?;
        Ok(Box::new(MarkIpHeader { offset }))
    },
    ..Class::DEFAULT
};

struct MarkIpHeader {
    offset: usize,
}

impl Element for MarkIpHeader {
    fn effects(&self) -> Effects {
        let behind = ipv4_header_length(Base::Data, self.offset).plus_constant(self.offset as i64);
        let mark = |when, transport| {
            let case = Case::new(when, Target::Output(0)).with(header_at(Base::Network, self.offset));
            case.with(transport)
        };
        let there = Predicate::reaches(Base::Data, self.offset as i32, 1);
        let unmarked = constant(Field::HeaderOffset(Base::Transport), &[]);
        Effects::cases(vec![
            mark(there, header_behind(Base::Transport, behind)),
            mark(Filter::TRUE, unmarked),
        ])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            // Without the first byte of the header, the header's length is unknown. The transport header
            // annotation is then cleared.
            let header_length = packet.data().get(self.offset).map(|first| usize::from(first & 15) * 4);
            packet.set_offset(Base::Network, Some(self.offset as isize));
            packet.set_offset(Base::Transport, header_length.map(|n| (self.offset + n) as isize));
        }
    }
}
