//! # MoveData
//! Copies bytes of each packet to another offset.
//!
//! Packets that have no further byte after the bytes to copy pass unchanged. In packets that are longer
//! than a slot, only the first slot is changed.
//!
//! ## Usage
//! `MoveData(DST_OFFSET, SRC_OFFSET, LENGTH [, KEYWORDS])`
//!
//! ## Arguments
//! - `DST_OFFSET`: the offset to which bytes are copied. If it is negative, bytes are copied to the place
//!   before the packet, where Unstrip finds them; packets whose slot has too little room there are dropped.
//! - `SRC_OFFSET`: the offset from which bytes are copied.
//! - `LENGTH`: the number of bytes.
//! - `GROW`: if true, a packet becomes longer if the bytes do not fit; if false, it passes unchanged.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MoveData(0, 6, 6) -> Discard
//! ```
//!
//! ## See also
//! StoreData, Clipboard

use element::class::ArgInfo;
use element::effects::{Action, Case, Field, Number, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::{HEADROOM, MAX_PACKET};

use crate::editing::{append_zeros, bytes, otherwise, pure};

/// The element class `MoveData`.
pub static CLASS: Class = Class {
    name: "MoveData",
    manual: manual!("move_data.rs"),
    args: &[
        ArgInfo::required("DST_OFFSET", "int"),
        ArgInfo::required("SRC_OFFSET", "unsigned"),
        ArgInfo::required("LENGTH", "unsigned"),
        ArgInfo::keyword("GROW", "bool", "true"),
    ],
    samples: &["0, 6, 6", "50, 0, 20", "50, 0, 20, GROW false", "-4, 10, 2", "-4, 10, 6"],
    build: |args| {
        let to = args.required::<i32>("DST_OFFSET");
        if to < -(HEADROOM as i32) {
            args.error(format!("DST_OFFSET: at least -{HEADROOM}"));
        } else if to > MAX_PACKET as i32 {
            args.too_large("DST_OFFSET", MAX_PACKET);
        }
        let mut number = |name| {
            let number: u32 = args.required(name);
            if number as usize > MAX_PACKET {
                args.too_large(name, MAX_PACKET);
            }
            number as usize
        };
        let (from, length) = (number("SRC_OFFSET"), number("LENGTH"));
        let grow = args.value::<bool>("GROW");
        args.finish()?;
        let before = usize::try_from(-to).unwrap_or(0);
        let to = usize::try_from(to).unwrap_or(0);
        Ok(Box::new(MoveData { before, to, from: from + before, length, grow }))
    },
    ..Class::DEFAULT
};

struct MoveData {
    /// The number of bytes before the packet that belong to it while bytes are copied.
    before: usize,
    /// The offset to which bytes are copied, with the bytes before the packet.
    to: usize,
    /// The offset from which bytes are copied, with the bytes before the packet.
    from: usize,
    length: usize,
    grow: bool,
}

impl MoveData {
    fn copy(&self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        if packet.len() + self.before <= self.from + self.length {
            return Some(packet);
        }
        let missing = (self.to + self.length).saturating_sub(packet.len() + self.before);
        if missing > 0 {
            if !self.grow {
                return Some(packet);
            }
            packet = append_zeros(cx, packet, missing)?;
        }
        if !packet.unstrip(self.before) {
            cx.drop(packet, DropReason::NoHeadroom);
            return None;
        }
        let data = packet.data_mut();
        let source = self.from..self.from + self.length;
        if data.len() >= source.end && data.len() >= self.to + self.length {
            data.copy_within(source, self.to);
        }
        // The first slot has the bytes that were added above.
        if packet.strip(self.before) {
            return Some(packet);
        }
        cx.drop(packet, DropReason::HeadersSplit);
        None
    }
}

impl Element for MoveData {
    fn effects(&self) -> Effects {
        let length = u16::try_from(self.length).unwrap_or(u16::MAX);
        let to = bytes(Base::Data, self.to, length);
        // Values are those before the packet's start moves.
        let from = bytes(Base::Data, self.from - self.before, length);
        let reaches = |end: usize| {
            Predicate::at_most(Number::constant(end as i64 - self.before as i64), Number::of(Field::Length))
        };
        let has = reaches(self.from + self.length + 1);
        let fits = has.clone().and([reaches(self.to + self.length)]);
        let copy = Action::Set(to.clone(), Value::Copy(from.clone()));
        let around = |case: Case, copy| match self.before as i32 {
            0 => case.with(copy),
            before => case.with(Action::Strip(-before)).with(copy).with(Action::Strip(before)),
        };
        let mut cases = vec![around(Case::new(fits, Target::Output(0)), copy)];
        if self.grow {
            let copy = pure(to, "copy after the end", &[from, Field::Length]);
            let grown = Action::Resize(vec![Field::Length]);
            cases.push(around(Case::new(has, Target::Output(0)), copy).with(grown));
        }
        cases.push(otherwise(Vec::new()));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.copy(cx, packet));
    }
}
