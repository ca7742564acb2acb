//! # StoreData
//! Overwrites bytes of each packet.
//!
//! Bytes that do not fit are left out; packets that end before the first byte pass unchanged. In packets
//! that are longer than a slot, only the first slot is changed.
//!
//! ## Usage
//! `StoreData(OFFSET, DATA [, MASK, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the first byte.
//! - `DATA`: the bytes; `\<hex>` denotes any byte.
//! - `MASK`: the bits that are overwritten; all bits of the bytes after its end.
//! - `GROW`: if true, a packet becomes longer if the bytes do not fit.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> StoreData(12, \<0800>) -> Discard
//! ```
//!
//! ## See also
//! MoveData, Clipboard, StoreIPAddress

use element::args::Bytes;
use element::class::ArgInfo;
use element::effects::{Action, Field, Value};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use packet::MAX_PACKET;

use crate::editing::{append_zeros, bytes, otherwise};

/// The element class `StoreData`.
pub static CLASS: Class = Class {
    name: "StoreData",
    manual: manual!("store_data.rs"),
    args: &[
        ArgInfo::required("OFFSET", "unsigned"),
        ArgInfo::required("DATA", "bytes"),
        ArgInfo::positional("MASK", "bytes", ""),
        ArgInfo::keyword("GROW", "bool", "false"),
    ],
    samples: &["12, \\<0800>", "40, abcdef, \\<0ff0>", "30, abcdefghij, GROW true"],
    build: |args| {
        let offset: u32 = args.required("OFFSET");
        let Bytes(data) = args.required("DATA");
        let Bytes(mut mask) = args.get("MASK").unwrap_or_default();
        let grow = args.value::<bool>("GROW");
        if mask.len() > data.len() {
            args.error("MASK must be no longer than DATA");
        }
        if data.len() > MAX_PACKET {
            args.error(format!("DATA: longer than {MAX_PACKET} bytes"));
        }
        args.finish()?;
        mask.resize(data.len(), 0xff);
        Ok(Box::new(StoreData { offset: offset as usize, data, mask, grow }))
    },
    ..Class::DEFAULT
};

struct StoreData {
    offset: usize,
    data: Vec<u8>,
    /// For each byte of `data`, a mask of the bits that are stored in the packet; other bits of the packet
    /// stay as they are.
    mask: Vec<u8>,
    grow: bool,
}

impl StoreData {
    fn store(&self, packet: &mut Packet) {
        let room = packet.data_mut().get_mut(self.offset..).unwrap_or_default();
        for ((to, byte), mask) in room.iter_mut().zip(&self.data).zip(&self.mask) {
            *to = *to & !mask | byte & mask;
        }
    }
}

impl Element for StoreData {
    fn effects(&self) -> Effects {
        let place = bytes(Base::Data, self.offset, u16::try_from(self.data.len()).unwrap_or(u16::MAX));
        // The write is declared for all bytes, although bytes after the end of the packet are not written:
        // no element can read them.
        let store = Value::Bits { mask: self.mask.clone(), value: self.data.clone() };
        let mut actions = vec![Action::Set(place, store)];
        actions.extend(self.grow.then(|| Action::Resize(vec![Field::Length])));
        Effects::cases(vec![otherwise(actions)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.grow {
            batch.iter_mut().for_each(|packet| self.store(packet));
            return;
        }
        batch.replace_each(|mut packet| {
            let end = self.offset + self.data.len();
            if packet.len() > self.offset && packet.len() < end {
                let missing = end - packet.len();
                packet = append_zeros(cx, packet, missing)?;
            }
            self.store(&mut packet);
            Some(packet)
        });
    }
}
