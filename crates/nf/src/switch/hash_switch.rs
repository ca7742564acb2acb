//! # HashSwitch
//! Chooses the output by the sum of LENGTH bytes of the packet.
//!
//! With 2, 4 or 8 outputs, the sum is folded once (sum XOR sum / 16), and its low bits are the number of the
//! output. With other numbers of outputs, the output is the remainder of the sum divided by their number.
//! Packets that end before the last of the bytes go to output 0.
//!
//! ## Usage
//! `HashSwitch(OFFSET, LENGTH [, MAX])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the first byte.
//! - `LENGTH`: the number of bytes, more than 0.
//! - `MAX`: the number of outputs that are used, the first ones.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: HashSwitch(16, 4); s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! Switch, RoundRobinSwitch, StrideSwitch, RandomSwitch

use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};

use crate::sorting::{Fate, Sorter};

/// The element class `HashSwitch`.
pub static CLASS: Class = Class {
    name: "HashSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("hash_switch.rs"),
    args: &[
        ArgInfo::required("OFFSET", "unsigned"),
        ArgInfo::required("LENGTH", "unsigned"),
        ArgInfo::keyword("MAX", "unsigned", "").computed("the number of outputs"),
    ],
    samples: &["26, 8 -> 1/4", "0, 3000 -> 1/3", "0, 1", "26, 8, MAX 3 -> 1/4"],
    build: |args| {
        let (offset, length): (u32, u32) = (args.required("OFFSET"), args.required("LENGTH"));
        let used = args.get::<usize>("MAX");
        args.finish()?;
        if length == 0 {
            args.error("length must be > 0");
        }
        let outputs = args.outputs();
        if used.is_some_and(|used| !(1..=outputs).contains(&used)) {
            args.error(format!("MAX must be from 1 to the number of outputs, {outputs}"));
        }
        args.finish()?;
        let (offset, length) = (offset as usize, length as usize);
        let (used, sorter) = (used.unwrap_or(outputs), Sorter::new(outputs));
        Ok(Box::new(HashSwitch { offset, length, used, sorter }))
    },
    ..Class::DEFAULT
};

struct HashSwitch {
    offset: usize,
    length: usize,
    /// The number of outputs that packets may go to.
    used: usize,
    sorter: Sorter,
}

fn add(bytes: &[u8]) -> usize {
    bytes.iter().map(|&byte| usize::from(byte)).sum()
}

/// Returns the sum of `length` bytes from `offset` on, or `None` if the packet ends before the last of
/// them.
#[inline]
fn sum(packet: &Packet, offset: usize, length: usize) -> Option<usize> {
    let end = offset.checked_add(length)?;
    if let Some(bytes) = packet.data().get(offset..end) {
        return Some(add(bytes));
    }
    (end <= packet.len()).then(|| sum_over_slots(packet, offset, end))
}

#[cold]
fn sum_over_slots(packet: &Packet, offset: usize, end: usize) -> usize {
    let (mut at, mut total) = (0, 0);
    for chunk in packet.chunks() {
        let range = offset.clamp(at, at + chunk.len()) - at..end.clamp(at, at + chunk.len()) - at;
        total += add(&chunk[range]);
        at += chunk.len();
    }
    total
}

/// Returns the number of the output for a sum of bytes.
fn fold(sum: usize, outputs: usize) -> usize {
    match outputs {
        2 | 4 | 8 => (sum ^ (sum >> 4)) & (outputs - 1),
        _ => sum % outputs,
    }
}

impl Element for HashSwitch {
    fn effects(&self) -> Effects {
        let bytes = match (i32::try_from(self.offset), u16::try_from(self.length)) {
            (Ok(offset), Ok(length)) => Field::Bytes { base: Base::Data, offset, length },
            _ => Field::Payload,
        };
        let hash =
            Filter::Leaf(Predicate::Opaque { about: "hash of bytes", reads: vec![bytes, Field::Length] });
        Effects::cases(vec![Case::new(hash, Target::SomeOutput), Case::new(Filter::TRUE, Target::Output(0))])
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let (offset, length, n) = (self.offset, self.length, self.used);
        let output = |packet: &Packet| sum(packet, offset, length).map_or(0, |sum| fold(sum, n));
        self.sorter.send_by(cx, batch, |_, packet| output(packet), Fate::Output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    #[test]
    fn sums_reach_over_slots_and_fold() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
        let packet = pool.packet(&bytes).unwrap();
        for (offset, length) in [(0, 1), (0, 5000), (2000, 2500), (4999, 1), (2100, 100)] {
            let expected = bytes[offset..offset + length].iter().map(|&b| b as usize).sum();
            assert_eq!(sum(&packet, offset, length), Some(expected), "{offset} {length}");
        }
        assert_eq!(sum(&packet, 4999, 2), None);
        assert_eq!(sum(&packet, usize::MAX, 2), None);
        pool.free(packet);
        assert_eq!([fold(0x35, 4), fold(0x35, 3), fold(7, 1)], [2, 2, 0]);
    }
}
