//! # InMemoryNic
//! Emits the packets of a capture from memory, as an interface with receive queues for each worker does.
//!
//! The capture is read once, before the run, and each packet is put into the receive queue of a worker.
//! Every worker then takes its packets as fast as it can, or at a rate. Thus the speed of several workers
//! can be measured without a packet generator as a bottleneck. Packets are lent, not copied: bytes that
//! downstream elements changed are restored before the next round.
//!
//! With RATE, packets arrive even if they are not taken: up to RING packets wait for each worker, and further
//! packets are missed.
//!
//! ## Usage
//! `InMemoryNic(FILENAME [, KEYWORDS])`
//!
//! ## Arguments
//! - `FILENAME`: the capture.
//! - `LOOPS`: the number of times that the packets are emitted; -1 for no end.
//! - `STEERING`: the worker that gets a packet: `rss`, the worker that the packet's flow belongs to; `spray`,
//!   the worker whose number is the packet's TCP checksum modulo the number of workers (as with `rss` for
//!   other packets, fragments, and segments that open or close connections); `turn`, all workers in turn;
//!   `next`, the worker after the flow's worker, so that all packets have to be handed over.
//! - `RATE`: packets per second that arrive at all queues together; 0 for as many as can be taken.
//! - `RING`: the largest number of packets that wait for each worker, with RATE.
//! - `QUEUES`: the number of receive queues of each worker, over which flows are spread. The queues are
//!   polled in turn. With many queues, each burst has packets of few flows, so that packets of a flow are
//!   closer together.
//! - `BURST`: the largest number of packets per turn.
//!
//! ## Handlers
//! - `count`: packets emitted.
//! - `missed`: packets that arrived while RING packets were waiting.
//! - `packets`: the number of packets of one round, in the queues of this worker.
//! - `rate`: the rate.
//!
//! ## Example
//! ```click
//! InMemoryNic(capture.pcap, LOOPS 10) -> Counter -> Discard
//! ```
//!
//! ## See also
//! FromDump, ReplayUnqueue

use std::ops::Range;

use capture::Reader;
use element::args::parse_integer;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Hold, Leaves};
use element::{
    Base, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual, steering,
};
use packet::{BATCH_CAPACITY, Store};
use wire::{FromBytes, Layers, LinkType, ip_protocol, tcp};

/// The element class InMemoryNic.
pub static CLASS: Class = Class {
    name: "InMemoryNic",
    ports: "0/1",
    processing: "h",
    manual: manual!("in_memory_nic.rs"),
    notes: Notes { has_queues: true, task: Task::Always, ..Notes::NONE },
    args: &[
        ArgInfo::required("FILENAME", "file"),
        ArgInfo::keyword("LOOPS", "int", "1"),
        ArgInfo::keyword("STEERING", "rss, spray, turn or next", "rss"),
        ArgInfo::keyword("RATE", "unsigned", "0"),
        ArgInfo::keyword("RING", "unsigned", "1024"),
        ArgInfo::keyword("QUEUES", "unsigned", "1"),
        ArgInfo::keyword("BURST", "unsigned", "").computed("the burst of the run"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count"]),
        StatePart::lost(
            "position",
            "the capture is loaded again, for the elements of the new configuration",
            &[],
        ),
    ],
    samples: &[
        "$CAPTURE",
        "$CAPTURE, LOOPS 3, STEERING turn, BURST 7",
        "$CAPTURE, STEERING spray",
        "$CAPTURE, LOOPS 2, QUEUES 5, BURST 4",
    ],
    build: |args| {
        let nic = InMemoryNic {
            filename: args.required("FILENAME"),
            loops: args.value::<i64>("LOOPS"),
            steering: match args.value::<String>("STEERING").as_str() {
                "rss" => Steering::Rss,
                "spray" => Steering::Spray,
                "turn" => Steering::Turn,
                "next" => Steering::Next,
                _ => {
                    args.error("STEERING is rss, spray, turn or next");
                    Steering::Rss
                }
            },
            rate: args.value::<u64>("RATE"),
            ring: args.value::<u64>("RING"),
            burst: args.get::<usize>("BURST").map(|n| n.clamp(1, BATCH_CAPACITY)),
            queues: args.value::<usize>("QUEUES").clamp(1, MOST_QUEUES),
            store: None,
            ends: Vec::new(),
            left: Vec::new(),
            polled: 0,
            count: 0,
            missed: 0,
            filled: Timestamp::ZERO,
            waiting: 0,
            part: 0,
        };
        args.finish()?;
        Ok(Box::new(nic))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Steering {
    Rss,
    Spray,
    Turn,
    Next,
}

struct InMemoryNic {
    filename: String,
    /// The number of rounds that are left, the current one included; negative for no end. In a round, all
    /// packets of the capture are emitted once.
    loops: i64,
    steering: Steering,
    /// The number of packets per second that arrive for all workers together; 0 for no limit.
    rate: u64,
    ring: u64,
    burst: Option<usize>,
    queues: usize,
    /// The packets of this worker, sorted by queue.
    store: Option<Box<Store>>,
    /// For each queue of this worker, the index in `store` after its last packet.
    ends: Vec<usize>,
    /// For each queue of this worker, the indexes in `store` of the packets that have not been emitted in
    /// this round (one pass over the capture).
    left: Vec<Range<usize>>,
    /// The index of the queue that is polled in the next turn.
    polled: usize,
    count: u64,
    missed: u64,
    /// The state of the arrivals, if there is a rate: `filled` is the time until which arrivals have been
    /// computed, `waiting` is the number of packets that have arrived and not been emitted, and `part` is the
    /// fraction of the next packet that has arrived. `part` grows by `rate` in each nanosecond; 10^9 times
    /// the number of working copies of the element is a whole packet.
    filled: Timestamp,
    waiting: u64,
    part: u128,
}

/// Returns the index of the queue, among `queues` queues of a worker, to which a packet's flow belongs.
fn queue_of(packet: &Packet, queues: usize) -> usize {
    // With STEERING rss, the lowest bits of the hash have chosen the worker, so they are similar for all its
    // packets. The multiplication mixes the bits, and the high bits of the product choose the queue.
    let hash = steering::hash(packet).unwrap_or(0).wrapping_mul(0x9e37_79b1);
    ((u64::from(hash) * queues as u64) >> 32) as usize
}

/// Returns the checksum of a whole TCP segment that neither opens nor closes a connection; `None` for other
/// packets. Interfaces can spread segments over queues by these almost random bits.
fn checksum(frame: &[u8], link: LinkType) -> Option<u16> {
    let layers = Layers::locate(frame, link);
    let is_segment = layers.fragment.is_none() && layers.protocol == Some(ip_protocol::TCP);
    let segment = frame.get(layers.l4.filter(|_| is_segment)?..)?;
    let (header, _) = tcp::Header::ref_from_prefix(segment).ok()?;
    let is_regular = header.flags & (tcp::flags::SYN | tcp::flags::FIN | tcp::flags::RST) == 0;
    is_regular.then(|| header.checksum.get())
}

/// The largest number of queues of a worker; larger values of QUEUES are reduced to it.
const MOST_QUEUES: usize = 4096;

/// The time until the next turn if no packet has arrived at the rate.
const PAUSE: Timestamp = Timestamp(20_000);

impl InMemoryNic {
    /// Reads the capture, puts the packets of this worker's queues into a store, and begins the first
    /// round.
    ///
    /// # Errors
    /// If the capture cannot be read or does not fit into the packet pool.
    fn load(&mut self, cx: &mut Cx<'_>) -> Result<Store, String> {
        let mut reader = Reader::open(&self.filename).map_err(|error| error.to_string())?;
        let mut queues: Vec<Vec<Packet>> = (0..self.queues).map(|_| Vec::new()).collect();
        let (me, copies) = cx.workers().copy();
        let mut number = 0;
        while let Some(record) = reader.next().map_err(|error| error.to_string())? {
            let queue = match self.steering {
                Steering::Rss => cx.workers().worker_of(record.data, record.link),
                Steering::Spray => match checksum(record.data, record.link) {
                    Some(checksum) => usize::from(checksum) % copies,
                    None => cx.workers().worker_of(record.data, record.link),
                },
                Steering::Turn => number % copies,
                Steering::Next => (cx.workers().worker_of(record.data, record.link) + 1) % copies,
            };
            number += 1;
            if queue != me && copies > 1 {
                continue;
            }
            let (time, link) = (record.time, record.link);
            let Some(mut packet) = cx.packet(record.data) else {
                return Err(format!("{} does not fit into the memory for packets (--memory)", self.filename));
            };
            packet.set_time(Timestamp(time));
            packet.set_link(link.number());
            let base = if link == LinkType::RawIp { Base::Network } else { Base::Mac };
            packet.set_offset(base, Some(0));
            queues[queue_of(&packet, self.queues)].push(packet);
        }
        if let Some(warning) = reader.warning().filter(|_| me == 0) {
            cx.messages().message(format_args!("{warning}\n"));
        }
        let mut store = cx.stores().store();
        for queue in queues {
            self.ends.push(store.len() + queue.len());
            for packet in queue {
                cx.stores().keep(&mut store, packet);
            }
        }
        self.begin();
        Ok(store)
    }

    /// Begins a new round, in which all packets of this worker's queues are emitted once more.
    fn begin(&mut self) {
        let mut start = 0;
        self.left.clear();
        self.left.extend(self.ends.iter().map(|&end| std::mem::replace(&mut start, end)..end));
        self.polled = 0;
    }

    /// Computes the number of packets that have arrived at the rate until `now`. Each of the `copies` working
    /// copies of the element gets an equal part of them. Returns the number of packets that can be emitted in
    /// this turn, at most `most`.
    fn arrived(&mut self, now: Timestamp, copies: usize, most: usize) -> usize {
        if self.rate == 0 {
            return most;
        }
        if self.filled.is_set() {
            let passed = (now - self.filled).0.max(0) as u128;
            self.part += passed * u128::from(self.rate);
        }
        self.filled = now;
        let one = 1_000_000_000 * copies as u128;
        self.waiting += (self.part / one) as u64;
        self.part %= one;
        self.missed += self.waiting.saturating_sub(self.ring);
        self.waiting = self.waiting.min(self.ring);
        self.waiting.min(most as u64) as usize
    }
}

impl Element for InMemoryNic {
    fn effects(&self) -> Effects {
        let leaves = match self.steering {
            Steering::Rss => Leaves::AtHome,
            Steering::Spray => Leaves::Spread,
            Steering::Turn | Steering::Next => Leaves::Here,
        };
        Effects { hold: Hold::Replay, leaves, ..Effects::source("packet of the capture") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let store = self.load(cx)?;
        if !store.is_empty() && self.loops != 0 {
            cx.schedule();
        }
        self.store = Some(Box::new(store));
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let burst = self.burst.unwrap_or(cx.burst());
        let most = self.arrived(cx.now(), cx.workers().copy().1, burst);
        let Some(store) = &mut self.store else { return false };
        if most == 0 {
            cx.set_coarse_timer(0, cx.now() + PAUSE);
            return false;
        }
        let mut batch = cx.batch();
        let queues = self.left.len();
        let left = &mut self.left[self.polled];
        let end = left.end.min(left.start + most);
        // Fewer packets are lent if packets of the last round are still downstream. Those packets come back
        // soon.
        let lent = cx.stores().lend_into(store, left.start..end, &mut batch);
        left.start += lent;
        self.polled = if self.polled + 1 == queues { 0 } else { self.polled + 1 };
        self.count += lent as u64;
        self.waiting = self.waiting.saturating_sub(lent as u64);
        if Range::is_empty(left) && self.left.iter().all(Range::is_empty) {
            self.begin();
            self.loops -= i64::from(self.loops > 0);
        }
        if self.loops != 0 {
            cx.schedule();
        }
        cx.emit(0, batch);
        lent > 0
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.schedule();
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut store) = self.store.take() {
            cx.stores().release(&mut store, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.len())
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<InMemoryNic>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("missed", |e| e.missed),
    Handler::count("packets", |e| e.held() as u64),
    Handler::data(
        "rate",
        |e| e.rate.to_string(),
        |e, _, value| {
            e.rate = parse_integer(value).ok().and_then(|n| u64::try_from(n).ok()).ok_or("bad RATE")?;
            Ok(())
        },
    ),
];
