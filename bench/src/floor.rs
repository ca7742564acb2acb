//! The floor: the least that a packet costs, without an engine.
//!
//! A batch of 32 packets is taken from 100,000 in memory, prefetched 16 ahead; their first 64 bytes are put
//! back as they were; addresses and ports are read; the slots are given back. The code shares nothing with the
//! engine's pool (but the one processor instruction that asks for a cache line), so that a slow layout of the
//! pool shows.

use std::hint::black_box;
use std::time::Instant;

use crate::serde_params::Param;
use crate::{Pair, Row, Settings, source};

const BATCH: usize = 32;
const AHEAD: usize = 16;
const LINE: usize = 64;
const HEADROOM: usize = 256;

/// Where packets and their metadata lie.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    /// Bytes from slot to slot.
    stride: usize,
    /// Whether metadata stand in an array of their own, or at the start of each slot.
    dense: bool,
}

/// As the pool has it.
const POOLS: Layout = Layout { name: "floor", stride: 2368, dense: true };

const OTHERS: &[Layout] = &[
    Layout { name: "layout-dense", stride: 2368, dense: true },
    Layout { name: "layout-dense", stride: 2304, dense: true },
    Layout { name: "layout-dense", stride: 2048, dense: true },
    Layout { name: "layout-dense", stride: 4096, dense: true },
    Layout { name: "layout-in-slot", stride: 2368, dense: false },
    Layout { name: "layout-in-slot", stride: 2304, dense: false },
    Layout { name: "layout-in-slot", stride: 2048, dense: false },
    Layout { name: "layout-in-slot", stride: 4096, dense: false },
];

/// One line of metadata.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Metadata {
    start: u32,
    length: u32,
}

/// A line of packet bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bytes([u8; LINE]);

pub(crate) struct Floor {
    layout: Layout,
    slots: Vec<Bytes>,
    metadata: Vec<Metadata>,
    /// The first line of each packet, as it was.
    kept: Vec<Bytes>,
    free: Vec<u32>,
    lengths: Vec<u16>,
    next: usize,
}

impl Floor {
    pub(crate) fn new(packets: usize, frame: usize) -> Floor {
        Floor::with_layout(packets, frame, POOLS)
    }

    fn with_layout(packets: usize, frame: usize, layout: Layout) -> Floor {
        let lines = layout.stride / LINE;
        let mut floor = Floor {
            layout,
            slots: vec![Bytes([0; LINE]); packets * lines],
            metadata: vec![Metadata::default(); if layout.dense { packets } else { 0 }],
            kept: Vec::with_capacity(packets),
            free: Vec::with_capacity(packets),
            lengths: Vec::with_capacity(packets),
            next: 0,
        };
        for number in 0..packets {
            let bytes = source::frame(number, packets, frame);
            let start = floor.line(number);
            for (i, part) in bytes.chunks(LINE).enumerate() {
                floor.slots[start + i].0[..part.len()].copy_from_slice(part);
            }
            floor.kept.push(floor.slots[start]);
            floor.lengths.push(bytes.len() as u16);
        }
        floor
    }

    /// The line where the data of a packet start.
    #[inline]
    fn line(&self, number: usize) -> usize {
        (number * self.layout.stride + HEADROOM) / LINE
    }

    /// One batch; something computed from the headers, so that they have to be read.
    #[inline]
    fn batch(&mut self) -> u32 {
        let packets = self.kept.len();
        let mut handles = [0u32; BATCH];
        for handle in &mut handles {
            let number = self.next;
            self.next = if number + 1 == packets { 0 } else { number + 1 };
            let ahead = (number + AHEAD) % packets;
            packet::prefetch_line(self.slots[self.line(ahead)].0.as_ptr());
            let line = self.line(number);
            let metadata = Metadata { start: line as u32, length: u32::from(self.lengths[number]) };
            if self.layout.dense {
                self.metadata[number] = metadata;
            } else {
                let place = &mut self.slots[number * self.layout.stride / LINE].0;
                place[..4].copy_from_slice(&metadata.start.to_ne_bytes());
                place[4..8].copy_from_slice(&metadata.length.to_ne_bytes());
            }
            self.slots[line] = self.kept[number];
            *handle = number as u32;
        }
        let mut sum = 0u32;
        for &handle in &handles {
            let line = if self.layout.dense {
                self.metadata[handle as usize].start
            } else {
                let place = &self.slots[handle as usize * self.layout.stride / LINE].0;
                u32::from_ne_bytes([place[0], place[1], place[2], place[3]])
            };
            let data = &self.slots[line as usize].0;
            for word in data[26..38].chunks_exact(4) {
                sum = sum.wrapping_add(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            }
        }
        // Giving back and taking again is a stack of numbers, as in any pool.
        self.free.extend_from_slice(&handles);
        let left = self.free.len() - BATCH;
        self.free.truncate(left);
        sum
    }

    /// Nanoseconds per packet over about `packets` packets.
    pub(crate) fn measure(&mut self, packets: usize) -> f64 {
        let batches = packets.div_ceil(BATCH);
        let start = Instant::now();
        for _ in 0..batches {
            black_box(self.batch());
        }
        start.elapsed().as_nanos() as f64 / (batches * BATCH) as f64
    }
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    Ok([64, 1024].map(|frame| rows(settings, frame, POOLS)).into())
}

pub(crate) fn run_layouts(settings: &Settings) -> Result<Vec<Row>, String> {
    Ok(OTHERS.iter().map(|&layout| rows(settings, 64, layout)).collect())
}

/// A layout beside the pool's.
fn rows(settings: &Settings, frame: usize, layout: Layout) -> Row {
    let mut floor = Floor::new(settings.packets, frame);
    let mut other = Floor::with_layout(settings.packets, frame, layout);
    let mut pairs = Vec::new();
    for _ in 0..settings.repeats {
        let cost = other.measure(settings.per_run);
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    let params = [("frame", Param::Number(frame as u64)), ("stride", Param::Number(layout.stride as u64))];
    Row::new(layout.name, &params, &pairs)
}
