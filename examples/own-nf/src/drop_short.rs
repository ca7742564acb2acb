//! # DropShort
//! Drops packets that have fewer bytes than LENGTH.
//!
//! ## Usage
//! `DropShort(LENGTH)`
//!
//! ## Arguments
//! - `LENGTH`: the length in bytes of the shortest packet that passes.
//!
//! ## Example
//! ```click
//! FromDump(configs/data/quickstart.pcap) -> DropShort(64) -> Discard
//! ```

use element::class::ArgInfo;
use element::effects::{Case, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};

/// The element class `DropShort`.
pub static CLASS: Class = Class {
    name: "DropShort",
    manual: manual!("drop_short.rs"),
    args: &[ArgInfo::required("LENGTH", "unsigned")],
    samples: &["64"],
    build: |args| {
        let element = DropShort { length: args.required("LENGTH") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct DropShort {
    length: usize,
}

impl Element for DropShort {
    fn effects(&self) -> Effects {
        // A minimal declaration: packets go to output 0 or are dropped, and nothing else is declared.
        let any = Case::new(Filter::TRUE, Target::Output(0)).or_drop(DropReason::TooShort);
        Effects { opaque: Some("what it reads is not declared yet"), ..Effects::cases(vec![any]) }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let is_long = |length| if length < self.length { Err(DropReason::TooShort) } else { Ok(()) };
        batch.sift(|packet| is_long(packet.len()), |packet, reason| cx.drop(packet, reason));
    }
}
