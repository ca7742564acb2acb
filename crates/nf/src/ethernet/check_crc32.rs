//! # CheckCRC32
//! Checks the CRC-32 that SetCRC32 appends, and removes it.
//!
//! Packets with a wrong CRC are dropped, each with a message.
//!
//! ## Usage
//! `CheckCRC32`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetCRC32 -> CheckCRC32 -> Discard
//! ```
//!
//! ## See also
//! SetCRC32

use element::effects::{Action, Case, Field, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, Severity, manual};
use wire::crc32;

use crate::editing::otherwise;

/// The element class `CheckCRC32`.
pub static CLASS: Class = Class {
    name: "CheckCRC32",
    manual: manual!("check_crc32.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(CheckCrc32))
    },
    ..Class::DEFAULT
};

/// The length in bytes of the CRC at the end of the packet.
const LENGTH: usize = 4;

struct CheckCrc32;

/// True if the last four bytes of the packet are the CRC of all bytes ahead of them. False for shorter
/// packets.
fn is_right(packet: &Packet) -> bool {
    let Some(mut left) = packet.len().checked_sub(LENGTH) else { return false };
    let mut appended = [0; LENGTH];
    packet.read_at(left, &mut appended);
    let crc = packet.chunks().fold(crc32::START, |crc, chunk| {
        let step = chunk.len().min(left);
        left -= step;
        crc32::update(crc, &chunk[..step])
    });
    crc == u32::from_le_bytes(appended)
}

impl Element for CheckCrc32 {
    fn effects(&self) -> Effects {
        let right = Filter::Leaf(Predicate::Opaque {
            about: "right CRC",
            reads: vec![Field::Payload, Field::Length],
        });
        let wrong = Case::new(Filter::Not(Box::new(right)), Target::Drop(DropReason::BadCrc));
        Effects::cases(vec![wrong, otherwise(vec![Action::Resize(vec![Field::Length])])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let check = |packet: &mut Packet| {
            if !is_right(packet) {
                return Err(());
            }
            packet.truncate(packet.len() - LENGTH);
            Ok(())
        };
        batch.sift(check, |packet, ()| {
            cx.messages().remark(Severity::Warning, format_args!("CRC32 failed, len {}", packet.len()));
            cx.drop(packet, DropReason::BadCrc);
        });
    }
}
