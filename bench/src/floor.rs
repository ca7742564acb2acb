//! The floor: the smallest possible cost of a packet that is read from memory, without an engine. The costs
//! of packets in benchmarks are compared with it.
//!
//! Batches of 32 packets are taken from the packets in memory (100,000 in a usual run), prefetched 16 packets
//! ahead. For each packet, the first 64 bytes are restored, addresses and ports are read, and the number of
//! its slot is returned to a free list.
//!
//! The code shares nothing with the engine's packet pool (except a processor instruction that prefetches a
//! cache line), so that a slow layout of the pool becomes visible. Like the pool, it uses huge pages: a
//! floor that includes the cost of address translation would be too high.

use std::hint::black_box;
use std::time::Instant;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::serde_params::Param;
use crate::{Pair, Row, Settings, source};

const BATCH: usize = 32;
const AHEAD: usize = 16;
const LINE: usize = 64;
const HEADROOM: usize = 256;
/// The number of cache lines (64 bytes each) of the longest packet that is copied.
const LINES: usize = 16;
const COPIED_AHEAD: usize = 2;

/// The layout of packets and their metadata in memory.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    /// The number of bytes from the start of a slot to the start of the next slot.
    stride: usize,
    /// True if the metadata of packets is in a separate array, with a cache line per packet. False if it is
    /// at the start of each packet's slot.
    dense: bool,
}

impl Layout {
    /// Returns the index of the cache line, in the array of slots, in which the data of packet `number`
    /// starts.
    #[inline]
    fn line(self, number: usize) -> usize {
        (number * self.stride + HEADROOM) / LINE
    }

    /// Returns the index of the cache line, in the array of slots, with the metadata of packet `number`. Only
    /// for layouts whose metadata is in the slots.
    #[inline]
    fn metadata(self, number: usize) -> usize {
        number * self.stride / LINE
    }
}

/// The layout of the engine's packet pool.
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

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

impl Line {
    /// Stores the metadata of a packet in its cache line: the index of its first data line, and its length in
    /// bytes.
    #[inline]
    fn set_metadata(&mut self, start: u32, length: u32) {
        self.0[..4].copy_from_slice(&start.to_ne_bytes());
        self.0[4..8].copy_from_slice(&length.to_ne_bytes());
    }

    #[inline]
    fn start(&self) -> usize {
        u32::from_ne_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]) as usize
    }
}

/// An array of cache lines, on huge pages if the kernel provides them.
struct Lines(memmap2::MmapMut);

impl Lines {
    fn new(count: usize) -> std::io::Result<Lines> {
        let map = memmap2::MmapMut::map_anon(count.max(1) * LINE)?;
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Lines(map))
    }

    #[inline]
    fn all(&mut self) -> &mut [Line] {
        <[Line]>::mut_from_bytes(&mut self.0).expect("a mapping starts at a page and holds whole lines")
    }
}

pub(crate) struct Floor {
    layout: Layout,
    slots: Lines,
    metadata: Lines,
    /// A copy of the first cache line (64 bytes) of each packet, from which the packet is restored before it
    /// is processed again.
    kept: Lines,
    free: Vec<u32>,
    lengths: Vec<u16>,
    next: usize,
}

impl Floor {
    pub(crate) fn new(packets: usize, frame: usize) -> std::io::Result<Floor> {
        Floor::with_layout(packets, frame, POOLS)
    }

    fn with_layout(packets: usize, frame: usize, layout: Layout) -> std::io::Result<Floor> {
        let mut floor = Floor {
            layout,
            slots: Lines::new(packets * layout.stride / LINE)?,
            metadata: Lines::new(if layout.dense { packets } else { 0 })?,
            kept: Lines::new(packets)?,
            free: Vec::with_capacity(packets),
            lengths: Vec::with_capacity(packets),
            next: 0,
        };
        for number in 0..packets {
            let bytes = source::frame(number, packets, frame);
            let slot = &mut floor.slots.all()[layout.line(number)..];
            for (line, part) in slot.iter_mut().zip(bytes.chunks(LINE)) {
                line.0[..part.len()].copy_from_slice(part);
            }
            floor.kept.all()[number] = slot[0];
            floor.lengths.push(bytes.len() as u16);
        }
        Ok(floor)
    }

    /// Processes one batch of packets. Returns a sum over their addresses and ports, so that the compiler
    /// cannot omit reading them.
    #[inline]
    fn batch(&mut self) -> u32 {
        let layout = self.layout;
        let (slots, metadata, kept) = (self.slots.all(), self.metadata.all(), self.kept.all());
        let packets = self.lengths.len();
        let mut handles = [0u32; BATCH];
        for handle in &mut handles {
            let number = self.next;
            self.next = if number + 1 == packets { 0 } else { number + 1 };
            let ahead = (number + AHEAD) % packets;
            packet::prefetch_line(slots[layout.line(ahead)].0.as_ptr());
            let line = layout.line(number);
            let place =
                if layout.dense { &mut metadata[number] } else { &mut slots[layout.metadata(number)] };
            place.set_metadata(line as u32, u32::from(self.lengths[number]));
            slots[line] = kept[number];
            *handle = number as u32;
        }
        let mut sum = 0u32;
        for &handle in &handles {
            let number = handle as usize;
            let place = if layout.dense { &metadata[number] } else { &slots[layout.metadata(number)] };
            let data = &slots[place.start()].0;
            for word in data[26..38].chunks_exact(4) {
                sum = sum.wrapping_add(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            }
        }
        // The numbers of the slots are pushed onto a stack of free slots and popped again, as in a packet
        // pool.
        self.free.extend_from_slice(&handles);
        let left = self.free.len() - BATCH;
        self.free.truncate(left);
        sum
    }

    /// Measures about `packets` packets and returns the nanoseconds per packet.
    pub(crate) fn measure(&mut self, packets: usize) -> f64 {
        self.measure_with(packets, |_| ())
    }

    /// Measures as [`measure`](Self::measure) does, and also copies each packet. The copies go to memory that
    /// stays in the cache, like slots that are reused at once.
    fn measure_copies(&mut self, packets: usize, to: &mut [[Line; LINES]; BATCH]) -> f64 {
        self.measure_with(packets, |floor| floor.copy_batch(to))
    }

    /// Copies the packets of the last batch. While a packet is copied, lines of a packet further ahead in the
    /// batch are prefetched.
    fn copy_batch(&mut self, to: &mut [[Line; LINES]; BATCH]) {
        let packets = self.lengths.len();
        let first = self.next + packets - BATCH;
        let layout = self.layout;
        let slots = self.slots.all();
        for (i, to) in to.iter_mut().enumerate() {
            let of = |i: usize| layout.line((first + i) % packets);
            let lines = self.lengths[(first + i) % packets] as usize / LINE;
            if i + COPIED_AHEAD < BATCH {
                for line in 0..lines {
                    packet::prefetch_line(slots[of(i + COPIED_AHEAD) + line].0.as_ptr());
                }
            }
            to[..lines].copy_from_slice(&slots[of(i)..][..lines]);
        }
        black_box(to);
    }

    fn measure_with(&mut self, packets: usize, mut more: impl FnMut(&mut Floor)) -> f64 {
        let batches = packets.div_ceil(BATCH);
        let start = Instant::now();
        for _ in 0..batches {
            black_box(self.batch());
            more(self);
        }
        start.elapsed().as_nanos() as f64 / (batches * BATCH) as f64
    }
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    [64, 1024].into_iter().map(|frame| rows(settings, frame, POOLS)).collect()
}

/// Measures the benchmark `floor-copy`: the floor with a copy of each packet, which is the lower bound of
/// `tee`.
pub(crate) fn run_copies(settings: &Settings) -> Result<Vec<Row>, String> {
    [64, 1024].into_iter().map(|frame| copies(settings, frame)).collect()
}

fn copies(settings: &Settings, frame: usize) -> Result<Row, String> {
    let mut floor = Floor::new(settings.packets, frame).map_err(|e| e.to_string())?;
    let mut places = Box::new([[Line([0; LINE]); LINES]; BATCH]);
    let mut pairs = Vec::new();
    for _ in 0..settings.repeats {
        let cost = floor.measure_copies(settings.per_run, &mut places);
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    Ok(Row::new("floor-copy", &[("frame", Param::Number(frame as u64))], &pairs))
}

pub(crate) fn run_layouts(settings: &Settings) -> Result<Vec<Row>, String> {
    OTHERS.iter().map(|&layout| rows(settings, 64, layout)).collect()
}

/// Measures a layout of packets in memory, alternately with the layout of the engine's packet pool, whose
/// cost is the floor of the returned row.
fn rows(settings: &Settings, frame: usize, layout: Layout) -> Result<Row, String> {
    let new = |layout| Floor::with_layout(settings.packets, frame, layout).map_err(|e| e.to_string());
    let mut floor = new(POOLS)?;
    let mut other = new(layout)?;
    let mut pairs = Vec::new();
    for _ in 0..settings.repeats {
        let cost = other.measure(settings.per_run);
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    let params = [("frame", Param::Number(frame as u64)), ("stride", Param::Number(layout.stride as u64))];
    Ok(Row::new(layout.name, &params, &pairs))
}
