//! # Clipboard
//! Copies byte ranges of packets on input 0 into packets on input 1.
//!
//! Packets from input 0 leave by output 0, packets from input 1 by output 1. The pasted bytes are from the
//! last packet on input 0 that was long enough for all ranges; before there was one, packets on input 1 pass
//! unchanged. So do packets on input 1 that are too short. In packets that are longer than a slot, only the
//! first slot is read and changed.
//!
//! ## Usage
//! `Clipboard(OFFSET/LENGTH, ...)`
//!
//! ## Arguments
//! - `RANGE`: the offset and the length of a range, in bytes.
//!
//! ## Example
//! ```click
//! c :: Clipboard(0/6);
//! InfiniteSource(DATA "abcdef", LIMIT 1) -> [0] c [0] -> Discard;
//! InfiniteSource(DATA "000000", LIMIT 1) -> [1] c [1] -> Discard
//! ```
//!
//! ## See also
//! StoreData, MoveData

use std::any::Any;
use std::ops::Range;

use element::args::parse_integer;
use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, State, StateAccess, Target};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, StatePart, manual};
use packet::MAX_PACKET;

use crate::editing::{bytes, pure};

/// The element class `Clipboard`.
pub static CLASS: Class = Class {
    name: "Clipboard",
    ports: "2/2",
    flow: "#/#",
    manual: manual!("clipboard.rs"),
    args: &[ArgInfo::rest("RANGE", "offset/length")],
    state: &[StatePart::kept("clipboard", &[])],
    samples: &["0/6, 20/4 -> 2/2"],
    reconfigures: true,
    build: |args| {
        let mut ranges = Vec::new();
        args.each_of_rest(|args, number, text| match parse(text) {
            Ok(range) => ranges.push(range),
            Err(reason) => args.error(format!("range {number}: {reason}")),
        });
        args.finish()?;
        let copied = vec![0; ranges.iter().map(Range::len).sum()];
        Ok(Box::new(Clipboard { ranges, copied, full: false }))
    },
    ..Class::DEFAULT
};

fn parse(text: &str) -> Result<Range<usize>, &'static str> {
    let (offset, length) = text.split_once('/').ok_or("expected '/' between offset and length")?;
    let number = |text| parse_integer(text).ok().and_then(|n| usize::try_from(n).ok());
    let valid = |n: &usize| *n <= MAX_PACKET;
    match (number(offset).filter(valid), number(length).filter(valid)) {
        (Some(offset), Some(length)) => Ok(offset..offset + length),
        _ => Err("invalid offset or length"),
    }
}

struct Clipboard {
    ranges: Vec<Range<usize>>,
    /// The bytes to paste: the contents of all ranges, one after another, from the last packet that was
    /// copied.
    copied: Vec<u8>,
    /// True if a packet has been copied; until then, nothing is pasted.
    full: bool,
}

impl Clipboard {
    fn end(&self) -> usize {
        self.ranges.iter().map(|range| range.end).max().unwrap_or(0)
    }

    fn copy(&mut self, packet: &Packet) {
        let data = packet.data();
        if data.len() < self.end() {
            return;
        }
        let mut to = &mut self.copied[..];
        for range in &self.ranges {
            let (place, rest) = to.split_at_mut(range.len());
            place.copy_from_slice(&data[range.clone()]);
            to = rest;
        }
        self.full = true;
    }

    fn paste(&self, packet: &mut Packet) {
        let data = packet.data_mut();
        if !self.full || data.len() < self.end() {
            return;
        }
        let mut from = &self.copied[..];
        for range in &self.ranges {
            let (bytes, rest) = from.split_at(range.len());
            data[range.clone()].copy_from_slice(bytes);
            from = rest;
        }
    }

    fn handle(&mut self, port: usize, batch: &mut Batch) {
        match port {
            0 => batch.iter().for_each(|packet| self.copy(packet)),
            _ => batch.iter_mut().for_each(|packet| self.paste(packet)),
        }
    }
}

impl Element for Clipboard {
    fn effects(&self) -> Effects {
        let at = |range: &Range<usize>| {
            bytes(Base::Data, range.start, u16::try_from(range.len()).unwrap_or(u16::MAX))
        };
        let mut paste = Case::new(Filter::TRUE, Target::Output(1)).on(1);
        for range in &self.ranges {
            paste = paste.with(pure(at(range), "paste", &[Field::Length]));
        }
        let mut effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).on(0), paste]);
        effects.state = vec![State {
            table: "clipboard",
            key: self.ranges.iter().map(at).collect(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        }];
        effects.opaque = Some("writes bytes of other packets");
        effects
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.handle(port, &mut batch);
        cx.pass_on(port, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let mut batch = cx.pull(port, max);
        self.handle(port, &mut batch);
        batch
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.ranges.clone(), std::mem::take(&mut self.copied), self.full)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let ranges: Vec<Range<usize>>;
        let (copied, full);
        (ranges, copied, full) = *state.downcast().map_err(|_| "the state of another class")?;
        if ranges == self.ranges {
            (self.copied, self.full) = (copied, full);
        }
        Ok(())
    }
}
