//! # MarkMACHeader
//! Sets the MAC header annotation, and the network header annotation if the length is given.
//!
//! ## Usage
//! `MarkMACHeader([OFFSET, LENGTH])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the MAC header.
//! - `LENGTH`: the length of the MAC header, after which the network header starts; with 0, the network
//!   header annotation does not change.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkMACHeader(0, 14) -> Discard
//! ```
//!
//! ## See also
//! MarkIPHeader

use element::class::ArgInfo;
use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::{header_at, otherwise};

/// The element class `MarkMACHeader`.
pub static CLASS: Class = Class {
    name: "MarkMACHeader",
    manual: manual!("mark_mac_header.rs"),
    args: &[ArgInfo::positional("OFFSET", "unsigned", "0"), ArgInfo::positional("LENGTH", "unsigned", "0")],
    samples: &["", "2, 14"],
    reconfigures: true,
    build: |args| {
        let (offset, length) = (args.value::<u32>("OFFSET"), args.value::<u32>("LENGTH"));
        args.finish()?;
        Ok(Box::new(MarkMacHeader { offset: offset as usize, length: length as usize }))
    },
    ..Class::DEFAULT
};

struct MarkMacHeader {
    offset: usize,
    length: usize,
}

impl Element for MarkMacHeader {
    fn effects(&self) -> Effects {
        let mut actions = vec![header_at(Base::Mac, self.offset)];
        if self.length > 0 {
            actions.push(header_at(Base::Network, self.offset + self.length));
        }
        Effects::cases(vec![otherwise(actions)])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let offset = self.offset as isize;
        for packet in batch.iter_mut() {
            packet.set_offset(Base::Mac, Some(offset));
            if self.length > 0 {
                packet.set_offset(Base::Network, Some(offset + self.length as isize));
            }
        }
    }
}
