//! # SetCRC32
//! Appends a CRC-32 of the whole packet, four bytes, least significant byte first.
//!
//! CheckCRC32 checks this CRC. It differs from Ethernet's frame check sequence: its most significant bit is
//! first, and it has no final complement.
//!
//! ## Usage
//! `SetCRC32`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetCRC32 -> CheckCRC32 -> Discard
//! ```
//!
//! ## See also
//! CheckCRC32

use element::effects::{Action, Field};
use element::{Batch, Class, Cx, Effects, Element, manual};
use wire::crc32;

use crate::editing::{otherwise, pure};

/// The element class `SetCRC32`.
pub static CLASS: Class = Class {
    name: "SetCRC32",
    manual: manual!("set_crc32.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetCrc32))
    },
    ..Class::DEFAULT
};

struct SetCrc32;

impl Element for SetCrc32 {
    fn effects(&self) -> Effects {
        let crc = pure(Field::Payload, "append CRC-32", &[Field::Payload, Field::Length]);
        Effects::cases(vec![otherwise(vec![crc, Action::Resize(vec![Field::Length])])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| {
            let crc = packet.chunks().fold(crc32::START, crc32::update);
            cx.append(packet, &crc.to_le_bytes())
        });
    }
}
