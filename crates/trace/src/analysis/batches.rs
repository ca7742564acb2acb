//! Sizes of the batches that holding packets would produce: the number of packets of one flow that arrive
//! within a time window (Reframer, figures 9, 22 and 23).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Accumulator;
use crate::flows::{entry, prefetch};
use crate::histogram::{Histogram, ratio};
use crate::packet::{Intact, Member, TracePacket};
use wire::tcp::flags;

/// The lengths of the windows in which packets are collected, in microseconds. Each length is analyzed
/// separately.
pub const WINDOWS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// The largest number of packets of a batch in Reframer's figure 9. A full batch takes no more packets, even
/// if its window has not ended.
pub const CAP: u32 = 32;

/// The distribution of the sizes, in packets, of per-flow batches for one window length. Every batch has the
/// same weight, whatever its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BatchSize {
    /// The number of batches.
    pub batches: u64,
    /// The mean number of packets per batch.
    pub mean: f64,
    /// The first quartile of the number of packets.
    pub p25: u64,
    /// The median number of packets.
    pub p50: u64,
    /// The third quartile of the number of packets.
    pub p75: u64,
    /// The 99th percentile of the number of packets.
    pub p99: u64,
    /// The number of packets of the largest batch.
    pub max: u64,
}

impl BatchSize {
    fn of(sizes: &Histogram) -> BatchSize {
        let [p25, p50, p75, p99] = [25, 50, 75, 99].map(|percent| sizes.percentile(percent));
        BatchSize { batches: sizes.count(), mean: sizes.mean(), p25, p50, p75, p99, max: sizes.max() }
    }
}

/// The state of a flow: its open batch for each window length, in a compact form for flows with rare
/// packets.
#[derive(Clone, Copy, Default)]
enum Flow {
    /// No packet has arrived yet.
    #[default]
    New,
    /// The open batch of each window length holds only one packet, the same for all lengths. It arrived at
    /// this time, in nanoseconds.
    Single(i64),
    /// The open batch of at least one window length has several packets; this is the index of the [`Open`]
    /// for all window lengths in [`Batcher::open`].
    Open(u32),
}

/// A flow's open batch for each window length: the time of its first packet in nanoseconds, and its number
/// of packets, which is at least 1.
#[derive(Clone, Copy)]
struct Open {
    start: [i64; WINDOWS.len()],
    size: [u32; WINDOWS.len()],
}

/// Sorts the packets of each flow into batches, for all window lengths at once.
///
/// A batch opens at its first packet. It takes the packets of the flow that arrive less than the window
/// length later, until it is full. The next packet of the flow closes this batch and opens another. A packet
/// whose time is before the start of the open batch goes into this batch, too, unless it is full.
///
/// With many flows, the time since the previous packet of the flow is mostly longer than the longest window.
/// Such a packet mostly costs a single access to the 16 bytes of the flow's state.
pub struct Batcher {
    cap: u32,
    flows: Vec<Flow>,
    open: Vec<Open>,
    /// Unused indices in `open`, which are used again before `open` grows.
    free: Vec<u32>,
    /// The number of one-packet batches that were closed for all window lengths at once. `finish` adds them
    /// to each histogram in `closed`.
    singles: u64,
    closed: [Histogram; WINDOWS.len()],
}

const fn nanoseconds(window: u32) -> i64 {
    window as i64 * 1000
}

const LONGEST: i64 = nanoseconds(WINDOWS[WINDOWS.len() - 1]);

impl Batcher {
    /// Makes a batcher without flows, whose batches hold at most `cap` packets; `cap` is at least 2.
    pub fn new(cap: u32) -> Batcher {
        let (flows, open, free) = (Vec::new(), Vec::new(), Vec::new());
        Batcher { cap, flows, open, free, singles: 0, closed: Default::default() }
    }

    /// Prefetches the state of flow number `flow`, whose packet will be passed to [`take`](Self::take)
    /// soon.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        prefetch(&self.flows, flow);
    }

    /// Adds a packet of flow number `flow` that arrived at `time`, in nanoseconds.
    #[inline]
    pub fn take(&mut self, flow: u32, time: i64) {
        let state = entry(&mut self.flows, flow);
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

    /// Adds a packet to the open batches at index `place` in `open`. Batches that are full or whose window
    /// has passed are closed, and the packet opens another batch in their place. True if it did so for all
    /// window lengths, so that the flow needs no `Open` any more.
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

    /// Closes all open batches, so that the next packet of each flow opens a new batch. Called where time
    /// goes back.
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

    /// Returns the batch sizes as a map from window length, in microseconds. Batches that are still open
    /// are closed first and count.
    pub fn finish(mut self) -> BTreeMap<u32, BatchSize> {
        self.restart();
        if self.singles > 0 {
            self.closed.iter_mut().for_each(|closed| closed.add_many(1, self.singles));
        }
        WINDOWS.into_iter().zip(self.closed.iter().map(BatchSize::of)).collect()
    }
}

/// The accumulator for batches of the packets of TCP flows. Other packets are ignored.
pub struct Batches(Batcher);

impl Batches {
    /// Makes an accumulator without packets, whose batches hold at most `cap` packets.
    pub fn new(cap: u32) -> Batches {
        Batches(Batcher::new(cap))
    }

    /// Closes all open batches; see [`Batcher::restart`].
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
    fn observe(&mut self, packet: &TracePacket) {
        if let Some(flow) = packet.flow.filter(|flow| flow.is_tcp()) {
            self.0.take(flow.ordinal, packet.time);
        }
    }

    fn finish(self) -> BTreeMap<u32, BatchSize> {
        self.0.finish()
    }
}

/// The result for one window length if acknowledgments of a flow are merged (ACK coalescing).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AckBatch {
    /// The sizes of batches of the packets with the ACK flag, with or without payload, as in Reframer's
    /// figure 22.
    #[serde(flatten)]
    pub all: BatchSize,
    /// The number of pure ACKs: packets that only acknowledge, with ACK but without SYN, FIN, RST, PSH or
    /// URG, and without payload. It does not depend on the window length.
    pub pure_acks: u64,
    /// The number of pure ACKs whose checksums are wrong or cannot be verified because bytes were not
    /// captured.
    pub pure_damaged: u64,
    /// The number of batches if only pure ACKs are sorted into batches.
    pub pure_batches: u64,
    /// The share of the pure ACKs that is saved if each batch of pure ACKs becomes one ACK. It is an upper
    /// bound, because ACKs with SACK, duplicate ACKs and window updates must not be merged.
    pub removable: f64,
}

/// The accumulator for batches of acknowledgments, with at most [`CAP`] packets in each batch.
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
    /// Closes all open batches; see [`Batcher::restart`].
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
    fn observe(&mut self, packet: &TracePacket) {
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
