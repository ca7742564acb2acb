//! # TruncateFCS
//! Removes the frame check sequence: the last four bytes of each packet.
//!
//! The element does not examine these bytes. A packet of which bytes have been cut before (extra length
//! annotation) has lost its check sequence already: the annotation is reduced by 4, and the packet passes
//! unchanged. Packets of less than four bytes become empty.
//!
//! ## Usage
//! `TruncateFCS([KEYWORDS])`
//!
//! ## Arguments
//! - `EXTRA_LENGTH`: if false, the extra length annotation is neither read nor written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetCRC32 -> TruncateFCS -> Discard
//! ```
//!
//! ## See also
//! SetCRC32, CheckCRC32, Truncate

use element::class::ArgInfo;
use element::effects::{EXTRA_LENGTH, Field};
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::Annotations;

use crate::editing::{otherwise, pure};

/// The element class `TruncateFCS`.
pub static CLASS: Class = Class {
    name: "TruncateFCS",
    manual: manual!("truncate_fcs.rs"),
    args: &[ArgInfo::keyword("EXTRA_LENGTH", "bool", "true")],
    samples: &["", "EXTRA_LENGTH false"],
    reconfigures: true,
    build: |args| {
        let extra = args.value("EXTRA_LENGTH");
        args.finish()?;
        Ok(Box::new(TruncateFcs { extra }))
    },
    ..Class::DEFAULT
};

/// The length of a frame check sequence in bytes.
const FCS: u32 = 4;

struct TruncateFcs {
    extra: bool,
}

impl Element for TruncateFcs {
    fn effects(&self) -> Effects {
        let mut reads = vec![Field::Length];
        reads.extend(self.extra.then_some(EXTRA_LENGTH));
        let mut actions = vec![pure(Field::Length, "without check sequence", &reads)];
        actions.extend(self.extra.then(|| pure(EXTRA_LENGTH, "cut bytes", &[EXTRA_LENGTH])));
        Effects::cases(vec![otherwise(actions)])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let cut = if self.extra { packet.annotations().u32(Annotations::EXTRA_LENGTH) } else { 0 };
            if cut > FCS {
                packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, cut - FCS);
            } else {
                packet.truncate(packet.len().saturating_sub(FCS as usize));
            }
        }
    }
}
