//! The number of packets of a flow within a time window: the batches that waiting would make (Reframer,
//! figures 9, 22 and 23).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Accumulator;
use crate::histogram::{Histogram, ratio};
use crate::packet::{Intact, Member, Packet};
use wire::tcp::flags;

/// The lengths of the windows, in microseconds.
pub const WINDOWS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// The largest number of packets of a batch in figure 9.
pub const CAP: u32 = 32;

/// Sizes of per-flow batches for one window length. Every batch has weight one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BatchSize {
    /// The number of batches.
    pub batches: u64,
    /// The mean number of packets.
    pub mean: f64,
    /// First quartile.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// Third quartile.
    pub p75: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest batch.
    pub max: u64,
}

impl BatchSize {
    fn of(sizes: &Histogram) -> BatchSize {
        let [p25, p50, p75, p99, max] = [25, 50, 75, 99, 100].map(|percent| sizes.percentile(percent));
        BatchSize { batches: sizes.count(), mean: sizes.mean(), p25, p50, p75, p99, max }
    }
}

/// A flow's open batches.
#[derive(Clone, Copy, Default)]
enum Flow {
    /// No packet has arrived yet.
    #[default]
    New,
    /// The batches of all windows hold a single packet, which arrived at this time.
    Single(i64),
    /// The batches of the windows differ; the index in `open`.
    Open(u32),
}

/// The open batches of all windows; each holds at least one packet.
#[derive(Clone, Copy)]
struct Open {
    start: [i64; WINDOWS.len()],
    size: [u32; WINDOWS.len()],
}

/// Collects packets into batches, for all windows at once.
///
/// A batch opens at its first packet. It takes packets of the flow that arrive less than the window later,
/// until it is full; the next packet opens another batch. A packet with an earlier time stamp is in the
/// window, too.
///
/// With many flows, most packets come long after the previous packet of their flow; such a packet costs a
/// single access to 16 bytes.
pub struct Batcher {
    cap: u32,
    flows: Vec<Flow>,
    open: Vec<Open>,
    /// Free indices in `open`.
    free: Vec<u32>,
    /// The number of batches of one packet, closed in all windows, that are not in `closed` yet.
    singles: u64,
    closed: [Histogram; WINDOWS.len()],
}

const fn nanoseconds(window: u32) -> i64 {
    window as i64 * 1000
}

const LONGEST: i64 = nanoseconds(WINDOWS[WINDOWS.len() - 1]);

impl Batcher {
    /// Makes a batcher with a largest batch size of at least 2.
    pub fn new(cap: u32) -> Batcher {
        let (flows, open, free) = (Vec::new(), Vec::new(), Vec::new());
        Batcher { cap, flows, open, free, singles: 0, closed: Default::default() }
    }

    /// Prefetches the state of a flow.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        super::prefetch(&self.flows, flow);
    }

    /// Adds a packet of a flow.
    #[inline]
    pub fn take(&mut self, flow: u32, time: i64) {
        let state = super::entry(&mut self.flows, flow);
        match *state {
            Flow::New => *state = Flow::Single(time),
            Flow::Single(start) if time.saturating_sub(start) >= LONGEST => {
                self.singles += 1;
                *state = Flow::Single(time);
            }
            Flow::Single(start) => {
                let open = Open { start: [start; WINDOWS.len()], size: [1; WINDOWS.len()] };
                let place = match self.free.pop() {
                    Some(place) => {
                        self.open[place as usize] = open;
                        place
                    }
                    None => {
                        self.open.push(open);
                        self.open.len() as u32 - 1
                    }
                };
                *state = Flow::Open(place);
                self.add(place, time);
            }
            Flow::Open(place) => {
                if self.add(place, time) {
                    self.free.push(place);
                    self.flows[flow as usize] = Flow::Single(time);
                }
            }
        }
    }

    /// Adds a packet to batches that differ. True if the packet is now alone in all of them.
    #[inline]
    fn add(&mut self, place: u32, time: i64) -> bool {
        let open = &mut self.open[place as usize];
        let batches = open.start.iter_mut().zip(&mut open.size);
        let mut alone = true;
        for ((&window, closed), (start, size)) in WINDOWS.iter().zip(&mut self.closed).zip(batches) {
            if *size < self.cap && time.saturating_sub(*start) < nanoseconds(window) {
                *size += 1;
                alone = false;
                continue;
            }
            closed.add(u64::from(*size));
            (*start, *size) = (time, 1);
        }
        alone
    }

    /// Closes all batches: the next packet of each flow opens another.
    pub fn restart(&mut self) {
        for flow in &mut self.flows {
            match std::mem::take(flow) {
                Flow::New => {}
                Flow::Single(_) => self.singles += 1,
                Flow::Open(place) => {
                    let sizes = self.open[place as usize].size;
                    self.closed.iter_mut().zip(sizes).for_each(|(closed, size)| closed.add(size.into()));
                    self.free.push(place);
                }
            }
        }
    }

    /// Returns the batch sizes by window, in microseconds. Batches that are still open count.
    pub fn finish(mut self) -> BTreeMap<u32, BatchSize> {
        self.restart();
        if self.singles > 0 {
            self.closed.iter_mut().for_each(|closed| closed.add_many(1, self.singles));
        }
        WINDOWS.into_iter().zip(self.closed.iter().map(BatchSize::of)).collect()
    }
}

/// Batches of the packets of TCP flows.
pub struct Batches(Batcher);

impl Batches {
    /// Makes an empty set of batches with a largest batch size.
    pub fn new(cap: u32) -> Batches {
        Batches(Batcher::new(cap))
    }

    /// Closes all batches.
    pub fn restart(&mut self) {
        self.0.restart();
    }
}

impl Accumulator for Batches {
    type Result = BTreeMap<u32, BatchSize>;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        if flow.is_tcp() {
            self.0.prefetch(flow.ordinal);
        }
    }

    #[inline]
    fn observe(&mut self, packet: &Packet) {
        if let Some(flow) = packet.flow.filter(|flow| flow.is_tcp()) {
            self.0.take(flow.ordinal, packet.time);
        }
    }

    fn finish(self) -> BTreeMap<u32, BatchSize> {
        self.0.finish()
    }
}

/// The gain of coalescing ACKs, for one window length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AckBatch {
    /// Batches of packets with the ACK flag, counted as in figure 22.
    #[serde(flatten)]
    pub all: BatchSize,
    /// Packets that only acknowledge: ACK without SYN, FIN, RST, PSH or URG, and no payload.
    pub pure_acks: u64,
    /// Pure ACKs whose checksums are wrong or were not captured.
    pub pure_damaged: u64,
    /// Batches of pure ACKs alone.
    pub pure_batches: u64,
    /// The share of pure ACKs that other ACKs of their batch could replace: an upper bound, because SACK,
    /// duplicates and window updates have to stay.
    pub removable: f64,
}

/// Batches of acknowledgments, at most [`CAP`] each.
pub struct Acks {
    all: Batcher,
    pure: Batcher,
    count: u64,
    damaged: u64,
}

impl Default for Acks {
    fn default() -> Acks {
        Acks { all: Batcher::new(CAP), pure: Batcher::new(CAP), count: 0, damaged: 0 }
    }
}

impl Acks {
    /// Closes all batches.
    pub fn restart(&mut self) {
        self.all.restart();
        self.pure.restart();
    }
}

impl Accumulator for Acks {
    type Result = BTreeMap<u32, AckBatch>;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        if flow.is_tcp() {
            self.all.prefetch(flow.ordinal);
            self.pure.prefetch(flow.ordinal);
        }
    }

    #[inline]
    fn observe(&mut self, packet: &Packet) {
        let Some(flow) = packet.flow else { return };
        let Some(segment) = flow.segment().filter(|segment| segment.flags & flags::ACK != 0) else { return };
        self.all.take(flow.ordinal, packet.time);
        if let Some(Intact(intact)) = segment.acknowledges {
            self.count += 1;
            self.damaged += u64::from(!intact);
            self.pure.take(flow.ordinal, packet.time);
        }
    }

    fn finish(self) -> BTreeMap<u32, AckBatch> {
        let (pure_acks, pure_damaged) = (self.count, self.damaged);
        let both = self.all.finish().into_iter().zip(self.pure.finish().into_values());
        let row = |all, pure: BatchSize| AckBatch {
            all,
            pure_acks,
            pure_damaged,
            pure_batches: pure.batches,
            removable: ratio((pure_acks - pure.batches) as f64, pure_acks as f64),
        };
        both.map(|((window, all), pure)| (window, row(all, pure))).collect()
    }
}
