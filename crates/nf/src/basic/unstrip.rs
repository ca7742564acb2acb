//! # Unstrip
//! Restores bytes at the front of each packet.
//!
//! Bytes that Strip removed get their old values; other bytes are zero. Packets without enough headroom are
//! dropped.
//!
//! ## Usage
//! `Unstrip(LENGTH)`
//!
//! ## Arguments
//! - `LENGTH`: the number of bytes to restore, at most 256.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Strip(14) -> Unstrip(14) -> Discard
//! ```
//!
//! ## See also
//! Strip

use element::class::ArgInfo;
use element::effects::{Action, Case, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::HEADROOM;

use crate::editing::each;
use crate::stripping::give_back;

/// The element class `Unstrip`.
pub static CLASS: Class = Class {
    name: "Unstrip",
    aliases: &["FlowUnstrip"],
    manual: manual!("unstrip.rs"),
    args: &[ArgInfo::required("LENGTH", "unsigned")],
    samples: &["14", "256"],
    build: |args| {
        let length: u32 = args.required("LENGTH");
        if length as usize > HEADROOM {
            args.too_large("LENGTH", HEADROOM);
        }
        args.finish()?;
        Ok(Box::new(Unstrip { length: length as usize }))
    },
    ..Class::DEFAULT
};

struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    fn effects(&self) -> Effects {
        let unstrip = Action::Strip(-(self.length as i32));
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(unstrip)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let length = self.length;
        each(cx, batch, |packet| give_back(packet, length));
    }
}
