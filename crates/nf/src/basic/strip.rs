//! # Strip
//! Removes bytes from the front of each packet.
//!
//! Header annotations keep pointing at their headers, and Unstrip restores the bytes. A packet with fewer
//! bytes becomes empty. A packet that is longer than a slot is dropped if more bytes are to be removed than
//! its first slot has.
//!
//! ## Usage
//! `Strip(LENGTH)`
//!
//! ## Arguments
//! - `LENGTH`: the number of bytes to remove.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Strip(14) -> Discard
//! ```
//!
//! ## See also
//! Unstrip, EtherEncap

use element::class::ArgInfo;
use element::effects::{Action, Case, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};

/// The element class `Strip`.
pub static CLASS: Class = Class {
    name: "Strip",
    aliases: &["FlowStrip"],
    manual: manual!("strip.rs"),
    args: &[ArgInfo::required("LENGTH", "unsigned")],
    samples: &["14", "0", "100000"],
    build: |args| {
        let length: u32 = args.required("LENGTH");
        args.finish()?;
        Ok(Box::new(Strip { length: length as usize }))
    },
    ..Class::DEFAULT
};

struct Strip {
    length: usize,
}

impl Element for Strip {
    fn effects(&self) -> Effects {
        let strip = Action::Strip(i32::try_from(self.length).unwrap_or(i32::MAX));
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(strip)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let length = self.length;
        batch.sift(
            |packet| {
                if packet.strip(length) || strip_all(packet) { Ok(()) } else { Err(DropReason::HeadersSplit) }
            },
            |packet, reason| cx.drop(packet, reason),
        );
    }
}

/// Empties a packet that has fewer bytes than are to be removed, and returns true. Returns false, and
/// changes nothing, if the packet has several slots: then the bytes to remove extend beyond the first slot,
/// and the packet is dropped.
#[cold]
fn strip_all(packet: &mut Packet) -> bool {
    if packet.is_large() {
        return false;
    }
    packet.truncate(0);
    true
}
