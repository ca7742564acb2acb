//! # StoreTimestamp
//! Writes each packet's time stamp into the packet.
//!
//! The time stamp takes eight bytes: the nanoseconds since 1970 in the machine's byte order, as in Click at
//! user level. A packet that ends before them becomes longer; new bytes between its old end and the time
//! stamp are zero.
//!
//! ## Usage
//! `StoreTimestamp(OFFSET)`, `StoreTimestamp(TAIL true)`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the time stamp from the start of the packet.
//! - `TAIL`: if true, the time stamp is appended to the packet, instead of OFFSET.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetTimestamp -> StoreTimestamp(14) -> Discard
//! ```
//!
//! ## See also
//! SetTimestamp, StoreData

use element::class::ArgInfo;
use element::effects::{Action, Field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::MAX_PACKET;

use crate::editing::{append_zeros, bytes, otherwise, pure};

/// The element class `StoreTimestamp`.
pub static CLASS: Class = Class {
    name: "StoreTimestamp",
    manual: manual!("store_timestamp.rs"),
    args: &[ArgInfo::positional("OFFSET", "int", ""), ArgInfo::keyword("TAIL", "bool", "false")],
    samples: &["14", "TAIL true", "70"],
    reconfigures: true,
    build: |args| {
        let offset = args.get::<i32>("OFFSET").and_then(|offset| usize::try_from(offset).ok());
        let tail = args.value::<bool>("TAIL");
        if offset.is_some() == tail {
            args.error("supply exactly one of 'OFFSET' and 'TAIL'");
        }
        args.finish()?;
        Ok(Box::new(StoreTimestamp { offset }))
    },
    ..Class::DEFAULT
};

/// The length of a stored time stamp in bytes.
const LENGTH: usize = 8;

struct StoreTimestamp {
    /// The offset of the time stamp; `None` to append it to the packet.
    offset: Option<usize>,
}

impl StoreTimestamp {
    fn store(&self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let offset = self.offset.unwrap_or(packet.len());
        if offset.saturating_add(LENGTH) > MAX_PACKET {
            cx.drop(packet, DropReason::TooLong);
            return None;
        }
        if let Some(missing) = (offset + LENGTH).checked_sub(packet.len()).filter(|&missing| missing > 0) {
            packet = append_zeros(cx, packet, missing)?;
        }
        packet.write_at(offset, &packet.time().0.to_ne_bytes());
        Some(packet)
    }
}

impl Element for StoreTimestamp {
    fn effects(&self) -> Effects {
        let reads = [Field::TimeStamp, Field::Length];
        let place = match self.offset {
            Some(offset) => bytes(Base::Data, offset, LENGTH as u16),
            None => Field::Payload,
        };
        let store = pure(place, "time stamp", &reads);
        Effects::cases(vec![otherwise(vec![Action::Resize(vec![Field::Length]), store])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.store(cx, packet));
    }
}
