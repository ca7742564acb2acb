//! How many packets of a flow come within a time window: the batches that waiting would make (Reframer, figures 9, 22
//! and 23).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Accumulator;
use crate::histogram::{Histogram, ratio};
use crate::packet::Packet;
use wire::tcp::flags;

/// The windows, in microseconds.
pub const WINDOWS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// The most packets of a batch in figure 9.
pub const CAP: u32 = 32;

/// Sizes of per-flow batches for one window. Every batch has weight one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BatchSize {
    /// Number of batches.
    pub batches: u64,
    /// Mean number of packets.
    pub mean: f64,
    /// First quartile.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// Third quartile.
    pub p75: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest batch.
    pub max: u64,
}

impl BatchSize {
    fn of(sizes: &Histogram) -> BatchSize {
        let [p25, p50, p75, p99, max] = [25, 50, 75, 99, 100].map(|percent| sizes.percentile(percent));
        BatchSize { batches: sizes.count(), mean: sizes.mean(), p25, p50, p75, p99, max }
    }
}

/// A flow's open batch of each window; without packets there is none.
#[derive(Clone, Copy, Default)]
struct Open {
    start: [i64; WINDOWS.len()],
    size: [u32; WINDOWS.len()],
}

/// Builds batches of the packets that it is given, for all windows at once.
///
/// A batch opens at its first packet and takes packets of the flow while they come less than the window after it and
/// there is room; the next packet opens the next one. An earlier time stamp is less than the window after it.
pub struct Batcher {
    cap: u32,
    open: Vec<Open>,
    closed: [Histogram; WINDOWS.len()],
}

impl Batcher {
    /// With a largest size.
    pub fn new(cap: u32) -> Batcher {
        Batcher { cap, open: Vec::new(), closed: Default::default() }
    }

    /// Adds a packet of a flow.
    #[inline]
    pub fn take(&mut self, flow: u32, time: i64) {
        let open = super::entry(&mut self.open, flow);
        let batches = open.start.iter_mut().zip(&mut open.size);
        for ((window, closed), (start, size)) in WINDOWS.iter().zip(&mut self.closed).zip(batches) {
            let in_time = time.saturating_sub(*start) < i64::from(*window) * 1000;
            if *size > 0 && *size < self.cap && in_time {
                *size += 1;
                continue;
            }
            if *size > 0 {
                closed.add(u64::from(*size));
            }
            (*start, *size) = (time, 1);
        }
    }

    /// By window, in microseconds. Batches that are still open count.
    pub fn finish(mut self) -> BTreeMap<u32, BatchSize> {
        for open in &self.open {
            for (closed, size) in self.closed.iter_mut().zip(open.size).filter(|(_, size)| *size > 0) {
                closed.add(u64::from(size));
            }
        }
        WINDOWS.into_iter().zip(self.closed.iter().map(BatchSize::of)).collect()
    }
}

/// Batches of the packets of TCP flows.
pub struct Batches(Batcher);

impl Batches {
    /// With a largest size.
    pub fn new(cap: u32) -> Batches {
        Batches(Batcher::new(cap))
    }
}

impl Accumulator for Batches {
    type Result = BTreeMap<u32, BatchSize>;

    #[inline]
    fn observe(&mut self, packet: &Packet<'_>) {
        if let Some(flow) = packet.flow.filter(|flow| flow.is_tcp()) {
            self.0.take(flow.ordinal, packet.time);
        }
    }

    fn finish(self) -> BTreeMap<u32, BatchSize> {
        self.0.finish()
    }
}

/// What coalescing ACKs could bring for one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AckBatch {
    /// Batches of packets with the ACK flag, as figure 22 counts them.
    #[serde(flatten)]
    pub all: BatchSize,
    /// Packets that only acknowledge: ACK without SYN, FIN, RST, PSH or URG, and no payload.
    pub pure_acks: u64,
    /// Batches of these alone.
    pub pure_batches: u64,
    /// The share of pure ACKs that others of their batch could stand for: an upper bound, as SACK, duplicates and
    /// window updates have to stay.
    pub removable: f64,
}

/// Batches of acknowledgments, at most [`CAP`] each.
pub struct Acks {
    all: Batcher,
    pure: Batcher,
    count: u64,
}

impl Default for Acks {
    fn default() -> Acks {
        Acks { all: Batcher::new(CAP), pure: Batcher::new(CAP), count: 0 }
    }
}

impl Accumulator for Acks {
    type Result = BTreeMap<u32, AckBatch>;

    #[inline]
    fn observe(&mut self, packet: &Packet<'_>) {
        let Some(flow) = packet.flow else { return };
        let Some(segment) = flow.segment().filter(|segment| segment.flags & flags::ACK != 0) else { return };
        self.all.take(flow.ordinal, packet.time);
        const MORE: u8 = flags::SYN | flags::FIN | flags::RST | flags::PSH | flags::URG;
        if flow.payload == 0 && segment.flags & MORE == 0 {
            self.count += 1;
            self.pure.take(flow.ordinal, packet.time);
        }
    }

    fn finish(self) -> BTreeMap<u32, AckBatch> {
        let pure_acks = self.count;
        let both = self.all.finish().into_iter().zip(self.pure.finish().into_values());
        let row = |all, pure: BatchSize| AckBatch {
            all,
            pure_acks,
            pure_batches: pure.batches,
            removable: ratio((pure_acks - pure.batches) as f64, pure_acks as f64),
        };
        both.map(|((window, all), pure)| (window, row(all, pure))).collect()
    }
}
