//! # RecordTimestamp
//! Records the time at which each packet passes, for TimestampDiff.
//!
//! Times are stored by the number that NumberPacket has written into the packet, or by the number of
//! packets that passed before.
//!
//! Without an input, it records nothing. FastClick's element can then get the times at which a card sent
//! packets (TXDEV), which are not available here.
//!
//! ## Usage
//! `RecordTimestamp([KEYWORDS])`
//!
//! ## Arguments
//! - `N`: the number of times for which there is room.
//! - `OFFSET`: the offset of the number in bytes; if not given or negative, packets are counted instead.
//! - `DYNAMIC`: if true, room is made for larger numbers; otherwise times of packets with such numbers are
//!   not recorded.
//! - `NET_ORDER`: if true, numbers are in network byte order. A TimestampDiff that names this element reads
//!   them in the same order.
//! - `SAMPLE`: with OFFSET, only the times of packets with a multiple of this number are recorded, and N is
//!   the room for these times only.
//! - `COUNTER`: the NumberPacket that writes the numbers; its NET_ORDER counts in place of this element's.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, LENGTH 60) -> NumberPacket -> r :: RecordTimestamp(OFFSET 40) -> Queue -> Unqueue
//!     -> TimestampDiff(r) -> Discard
//! ```
//!
//! ## See also
//! NumberPacket, TimestampDiff

use std::any::Any;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use element::args::ElementRef;
use element::class::{ArgInfo, ConfigurePhase};
use element::effects::{Counting, Field, State, StateAccess};
use element::{Batch, Class, Cx, Effects, Element, StatePart, Timestamp, manual};

use super::{ByteOrder, number_at, number_field};

/// The element class `RecordTimestamp`.
pub static CLASS: Class = Class {
    name: "RecordTimestamp",
    ports: "0-1/=",
    processing: "h/h",
    manual: manual!("record_timestamp.rs"),
    args: &[
        ArgInfo::keyword("N", "unsigned", "65536"),
        ArgInfo::keyword("OFFSET", "int", "-1"),
        ArgInfo::keyword("DYNAMIC", "bool", "false"),
        ArgInfo::keyword("NET_ORDER", "bool", "false"),
        ArgInfo::keyword("SAMPLE", "unsigned", "1"),
        ArgInfo::keyword("COUNTER", "element", ""),
    ],
    state: &[StatePart::kept("times", &[])],
    samples: &["", "-> 1/1", "OFFSET 20, N 10 -> 1/1", "OFFSET 20, SAMPLE 3 -> 1/1"],
    phase: ConfigurePhase::Service,
    build: |args| {
        let room = args.value::<u32>("N") as usize;
        let offset = args.value::<i32>("OFFSET");
        let dynamic = args.value::<bool>("DYNAMIC");
        let net_order = args.value::<bool>("NET_ORDER");
        let sample = args.value::<u32>("SAMPLE").max(1);
        let counter = args.get("COUNTER").map(|ElementRef(counter)| args.setup.service::<ByteOrder>(counter));
        if matches!(counter, Some(None)) {
            args.error("COUNTER must be a valid NumberPacket element");
        }
        args.finish()?;
        let net_order = counter.flatten().map_or(net_order, |order| order.is_network);
        let room = if room == 0 { 65_536 } else { room };
        // The number of packets that will be counted is not known in advance, so room is made for more than
        // N of them.
        let grows = dynamic || offset < 0;
        let sample = if offset < 0 { 1 } else { sample };
        let times = Arc::new(Times { net_order, ..Times::new(room, grows, sample.into()) });
        args.setup.publish(args.id(), Arc::clone(&times));
        let offset = usize::try_from(offset).ok();
        Ok(Box::new(RecordTimestamp { times, offset, count: 0, refused: false }))
    },
    ..Class::DEFAULT
};

/// The number of times in a block of memory, which is 512 KiB.
const BLOCK: usize = 1 << 16;
/// The maximum number of blocks; the times of packets with numbers from 2^28 on are not recorded.
const MOST_BLOCKS: usize = 1 << 12;
/// The maximum number of blocks that are allocated at the start, 32 MiB; further blocks are allocated when
/// the first time is stored in them.
const MOST_AT_ONCE: usize = 64;
/// The value that means that no time is stored.
const NONE: i64 = i64::MIN;

/// The times at which packets passed, by the packets' numbers. RecordTimestamp stores them, and a
/// TimestampDiff takes them out. Blocks of memory are allocated at the start or when they are first needed,
/// and do not move, so both elements can share the times without a lock.
pub(super) struct Times {
    blocks: Vec<OnceLock<Box<[AtomicI64]>>>,
    most: usize,
    /// Only times of numbers that are multiples of this are stored.
    sample: u64,
    /// True if the numbers in packets are in network byte order.
    pub(super) net_order: bool,
}

impl Times {
    fn new(room: usize, grows: bool, sample: u64) -> Times {
        let limit = BLOCK * MOST_BLOCKS;
        let most = if grows { limit } else { room.min(limit) };
        let blocks = (0..most.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        let times = Times { blocks, most, sample, net_order: false };
        // The blocks for N times are allocated now, up to `MOST_AT_ONCE`, so that the allocation does not
        // delay packets.
        times.blocks.iter().take(room.div_ceil(BLOCK).min(MOST_AT_ONCE)).for_each(|block| {
            Times::block(block);
        });
        times
    }

    fn block(block: &OnceLock<Box<[AtomicI64]>>) -> &[AtomicI64] {
        block.get_or_init(|| (0..BLOCK).map(|_| AtomicI64::new(NONE)).collect())
    }

    /// Returns the place of the time for a number; `None` if times of such numbers are not recorded.
    fn place(&self, number: u64) -> Option<u64> {
        number.is_multiple_of(self.sample).then(|| number / self.sample)
    }

    /// Stores the time for a number, if such numbers are recorded; returns false if there is no room for it.
    fn set(&self, number: u64, time: Timestamp) -> bool {
        self.place(number).is_none_or(|place| self.set_at(place, time))
    }

    fn set_at(&self, place: u64, time: Timestamp) -> bool {
        let Some(place) = usize::try_from(place).ok().filter(|&n| n < self.most) else { return false };
        Times::block(&self.blocks[place / BLOCK])[place % BLOCK].store(time.0, Ordering::Relaxed);
        true
    }

    /// Stores the times that the element which is replaced in a reload has recorded, as far as there is room
    /// for their numbers and they are still recorded.
    fn copy(&self, others: &Times) {
        for (block, number) in others.blocks.iter().zip((0..).step_by(BLOCK)) {
            let known = block.get().into_iter().flat_map(|times| times.iter()).zip(number..);
            for (time, number) in known.filter(|(time, _)| time.load(Ordering::Relaxed) != NONE) {
                self.set(number * others.sample, Timestamp(time.load(Ordering::Relaxed)));
            }
        }
    }

    /// Removes and returns the time that is stored for a number; `None` if there is none.
    pub(super) fn take(&self, number: u64) -> Option<Timestamp> {
        let place = usize::try_from(self.place(number)?).ok()?;
        let block = self.blocks.get(place / BLOCK)?.get()?;
        let time = block[place % BLOCK].swap(NONE, Ordering::Relaxed);
        (time != NONE).then_some(Timestamp(time))
    }
}

struct RecordTimestamp {
    times: Arc<Times>,
    offset: Option<usize>,
    count: u64,
    /// True if a warning has been printed about a number for which there is no room.
    refused: bool,
}

impl Element for RecordTimestamp {
    fn effects(&self) -> Effects {
        let state = State {
            table: "times",
            key: Vec::new(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        let effects = Effects { state: vec![state], counts: Counting::Own, ..Effects::pass() };
        match self.offset {
            Some(offset) => effects.observing(&[number_field(offset), Field::Length]),
            None => effects,
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        let mut refused = false;
        for packet in batch.iter() {
            let number = match self.offset {
                Some(offset) => number_at(packet, offset, self.times.net_order),
                None => Some(self.count),
            };
            self.count += 1;
            refused |= number.is_some_and(|number| !self.times.set(number, now));
        }
        if refused && !std::mem::replace(&mut self.refused, true) {
            cx.warn(format_args!("DYNAMIC is not set and there is no room for a number; use N to make more"));
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((Arc::clone(&self.times), self.count)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let times: Arc<Times>;
        (times, self.count) = *state.downcast().map_err(|_| "the state of another class")?;
        self.times.copy(&times);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_once_and_room_is_kept_to() {
        let times = Times::new(10, false, 1);
        assert!(times.set(9, Timestamp(5)) && !times.set(10, Timestamp(5)));
        assert_eq!((times.take(9), times.take(9), times.take(1 << 40)), (Some(Timestamp(5)), None, None));
        let times = Times::new(1, true, 1);
        assert!(times.set(1_000_000, Timestamp(0)) && !times.set(u64::MAX, Timestamp(0)));
        assert_eq!(times.take(1_000_000), Some(Timestamp(0)));
        let times = Times::new(10, false, 4);
        assert!(times.set(36, Timestamp(5)) && times.set(7, Timestamp(6)) && !times.set(40, Timestamp(7)));
        assert_eq!((times.take(36), times.take(7), times.take(9)), (Some(Timestamp(5)), None, None));
    }
}
