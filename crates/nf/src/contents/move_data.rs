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
//! - `DST_OFFSET`: the offset to which bytes are copied.
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
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use packet::MAX_PACKET;

use crate::editing::{append_zeros, bytes, otherwise, pure};

/// The element class `MoveData`.
pub static CLASS: Class = Class {
    name: "MoveData",
    manual: manual!("move_data.rs"),
    args: &[
        ArgInfo::required("DST_OFFSET", "unsigned"),
        ArgInfo::required("SRC_OFFSET", "unsigned"),
        ArgInfo::required("LENGTH", "unsigned"),
        ArgInfo::keyword("GROW", "bool", "true"),
    ],
    samples: &["0, 6, 6", "50, 0, 20", "50, 0, 20, GROW false"],
    build: |args| {
        let mut number = |name| {
            let number: u32 = args.required(name);
            if number as usize > MAX_PACKET {
                args.too_large(name, MAX_PACKET);
            }
            number as usize
        };
        let (to, from, length) = (number("DST_OFFSET"), number("SRC_OFFSET"), number("LENGTH"));
        let grow = args.value::<bool>("GROW");
        args.finish()?;
        Ok(Box::new(MoveData { to, from, length, grow }))
    },
    ..Class::DEFAULT
};

struct MoveData {
    to: usize,
    from: usize,
    length: usize,
    grow: bool,
}

impl MoveData {
    fn copy(&self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        if packet.len() <= self.from + self.length {
            return Some(packet);
        }
        let missing = (self.to + self.length).saturating_sub(packet.len());
        if missing > 0 {
            if !self.grow {
                return Some(packet);
            }
            packet = append_zeros(cx, packet, missing)?;
        }
        let data = packet.data_mut();
        let source = self.from..self.from + self.length;
        if data.len() >= source.end && data.len() >= self.to + self.length {
            data.copy_within(source, self.to);
        }
        Some(packet)
    }
}

impl Element for MoveData {
    fn effects(&self) -> Effects {
        let length = u16::try_from(self.length).unwrap_or(u16::MAX);
        let (to, from) = (bytes(Base::Data, self.to, length), bytes(Base::Data, self.from, length));
        let reaches =
            |end: usize| Predicate::at_most(Number::constant(end as i64), Number::of(Field::Length));
        let has = reaches(self.from + self.length + 1);
        let fits = has.clone().and([reaches(self.to + self.length)]);
        let copy = Action::Set(to.clone(), Value::Copy(from.clone()));
        let mut cases = vec![Case::new(fits, Target::Output(0)).with(copy)];
        if self.grow {
            let copy = pure(to, "copy after the end", &[from, Field::Length]);
            let grown = Action::Resize(vec![Field::Length]);
            cases.push(Case::new(has, Target::Output(0)).with(copy).with(grown));
        }
        cases.push(otherwise(Vec::new()));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.copy(cx, packet));
    }
}
