//! # EtherMirror
//! Swaps the source and destination addresses of the Ethernet header at the start of the packet.
//!
//! Packets that are too short for both addresses are dropped.
//!
//! ## Usage
//! `EtherMirror`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> EtherMirror -> Discard
//! ```
//!
//! ## See also
//! EtherRewrite, IPMirror

use element::effects::{Action, Case, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};

use crate::editing::{bytes, each, otherwise};

/// The element class `EtherMirror`.
pub static CLASS: Class = Class {
    name: "EtherMirror",
    manual: manual!("ether_mirror.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(EtherMirror))
    },
    ..Class::DEFAULT
};

struct EtherMirror;

impl Element for EtherMirror {
    fn effects(&self) -> Effects {
        let (destination, source) = (bytes(Base::Data, 0, 6), bytes(Base::Data, 6, 6));
        let short =
            Case::new(Predicate::reaches(Base::Data, 0, 12).not(), Target::Drop(DropReason::TooShort));
        // Actions of a case take effect together, so both copies read the addresses before the swap.
        let swap = vec![
            Action::Set(destination.clone(), Value::Copy(source.clone())),
            Action::Set(source, Value::Copy(destination)),
        ];
        Effects::cases(vec![short, otherwise(swap)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| {
            let addresses: &mut [u8; 12] = packet.header_chunk_mut(Base::Data).ok_or(DropReason::TooShort)?;
            addresses.rotate_left(6);
            Ok(())
        });
    }
}
