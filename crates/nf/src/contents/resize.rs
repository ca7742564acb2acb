//! # Resize
//! Adds bytes to both ends of packets, or removes them.
//!
//! New bytes at the front are the bytes that were stripped there, or zeros; new bytes at the end are zeros. A
//! packet with fewer bytes than are to be removed becomes empty. A packet that is longer than a slot is
//! dropped if more bytes are to be removed at the front than its first slot has. Packets without enough
//! headroom, and packets that would become too long, are dropped, too. Header annotations keep pointing at
//! their headers.
//!
//! ## Usage
//! `Resize([HEAD, TAIL])`
//!
//! ## Arguments
//! - `HEAD`: the number of bytes to add at the front; negative to remove.
//! - `TAIL`: the number of bytes to add at the end; negative to remove.
//!
//! ## Handlers
//! - `head`, `tail`: the numbers of bytes.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Resize(-14, 4) -> Discard
//! ```
//!
//! ## See also
//! Strip, Unstrip, Pad, Truncate

use element::class::ArgInfo;
use element::effects::{Action, Depends, Field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use packet::MAX_PACKET;

use crate::editing::{append_zeros, otherwise, pure, value};
use crate::stripping::move_start;

/// The element class `Resize`.
pub static CLASS: Class = Class {
    name: "Resize",
    manual: manual!("resize.rs"),
    args: &[ArgInfo::positional("HEAD", "integer", "0"), ArgInfo::positional("TAIL", "integer", "0")],
    table: &HANDLERS,
    samples: &["", "-14, 4", "14, -4", "-5000, -5000"],
    reconfigures: true,
    build: |args| {
        let element = Resize { head: args.value::<i32>("HEAD"), tail: args.value::<i32>("TAIL") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct Resize {
    head: i32,
    tail: i32,
}

impl Resize {
    fn resize(&self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let most = packet.len() as isize;
        let back = isize::try_from(-i64::from(self.head)).unwrap_or(0).min(most);
        if let Err(reason) = move_start(&mut packet, back) {
            cx.drop(packet, reason);
            return None;
        }
        let added = usize::try_from(self.tail).unwrap_or(0);
        if added == 0 {
            packet.truncate(packet.len().saturating_sub(self.tail.unsigned_abs() as usize));
        }
        if packet.len().saturating_add(added) > MAX_PACKET {
            cx.drop(packet, DropReason::TooLong);
            return None;
        }
        append_zeros(cx, packet, added)
    }
}

impl Element for Resize {
    fn effects(&self) -> Effects {
        let start = pure(Field::HeaderOffset(Base::Data), "moved start", &[Field::Length]);
        let effects = Effects::cases(vec![otherwise(vec![start, Action::Resize(vec![Field::Length])])]);
        effects.depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.resize(cx, packet));
    }
}

const HANDLERS: &[Handler<Resize>] = &[
    Handler::data(
        "head",
        |e| e.head.to_string(),
        |e, cx, text| {
            e.head = value(cx, text, "expected integer")?;
            Ok(())
        },
    ),
    Handler::data(
        "tail",
        |e| e.tail.to_string(),
        |e, cx, text| {
            e.tail = value(cx, text, "expected integer")?;
            Ok(())
        },
    ),
];
