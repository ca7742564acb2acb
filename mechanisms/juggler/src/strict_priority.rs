//! # StrictPriority
//! Sends packets over a link of limited bandwidth, the most urgent queue first.
//!
//! The paint annotation selects the queue of a packet: the greater the paint, the more urgent. Packets
//! without paint are least urgent, and a paint beyond the last queue selects the last queue, the most
//! urgent. When the link becomes free, the first packet of the most urgent non-empty queue is sent. The
//! transmission of a packet is not interrupted. Packets leave when their last bit has been sent: exactly
//! under the trace clock, otherwise after the running task. A packet that finds its queue full is dropped.
//! At the end of a run all packets leave.
//!
//! ## Usage
//! `StrictPriority(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: the bandwidth of the link.
//! - `QUEUES`: the number of queues, up to 256.
//! - `CAPACITY`: the maximum number of packets in each queue, besides the packet that is being sent.
//! - `ANNO`: the annotation that selects the queue, by name or offset.
//!
//! ## Handlers
//! - `rate`: the bandwidth in bytes per second. A new rate applies from the next packet on.
//! - `lengths`: lines with the number of a queue and the number of packets that wait in it.
//! - `packets`: lines with the number of a queue and the number of packets that have left it.
//! - `drops`: lines with the number of a queue and the number of packets that found no room in it.
//! - `reset_counts`: sets the counts to zero.
//!
//! ## Example
//! ```click
//! link :: StrictPriority(40Gbps) -> Discard;
//! InfiniteSource(LIMIT 10) -> Paint(1) -> link; InfiniteSource(LIMIT 100) -> link
//! ```
//!
//! ## See also
//! PriorityMarker, Paint, PrioSched, LinkUnqueue, RandomPath

use std::any::Any;
use std::collections::VecDeque;

use element::args::{AnnotationOffset, ArgType, Bandwidth};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Hold, Order, Predicate, Target};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};

/// The element class `StrictPriority`.
pub static CLASS: Class = Class {
    name: "StrictPriority",
    processing: "h/h",
    manual: manual!("strict_priority.rs"),
    args: &[
        ArgInfo::required("RATE", "bandwidth"),
        ArgInfo::keyword("QUEUES", "unsigned", "2"),
        ArgInfo::keyword("CAPACITY", "unsigned", "1000"),
        ArgInfo::keyword("ANNO", "annotation", "PAINT"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("packets", &["lengths"]).with_tables(&["link"]),
        StatePart::kept("counts", &["packets", "drops"]),
    ],
    samples: &["1Gbps", "10Mbps, QUEUES 3, CAPACITY 2", "1Mbps, CAPACITY 0, ANNO 20"],
    reconfigures: true,
    build: |args| {
        let rate = args.required("RATE");
        let (queues, capacity): (u32, u32) = (args.value("QUEUES"), args.value("CAPACITY"));
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        if let Err(reason) = check(rate) {
            args.error(format!("RATE: {reason}"));
        }
        if !(1..=256).contains(&queues) {
            args.error("QUEUES: must be between 1 and 256");
        }
        args.finish()?;
        let capacity = capacity as usize;
        Ok(Box::new(StrictPriority {
            rate: rate.0,
            place,
            capacity,
            queues: (0..queues).map(|_| Queue::new(capacity)).collect(),
            sent: None,
            free: Timestamp::ZERO,
            carry: 0,
        }))
    },
    ..Class::DEFAULT
};

/// Rejects rates below 100 bytes per second: slower links would hold packets for unreasonably long times.
fn check(Bandwidth(rate): Bandwidth) -> Result<(), &'static str> {
    if rate < 100 { Err("too small, minimum 100Bps") } else { Ok(()) }
}

struct Queue {
    waiting: VecDeque<Packet>,
    packets: u64,
    drops: u64,
}

impl Queue {
    fn new(capacity: usize) -> Queue {
        // At most 1024 places are reserved at once: a longer queue grows when packets wait in it.
        Queue { waiting: VecDeque::with_capacity(capacity.min(1024)), packets: 0, drops: 0 }
    }
}

struct StrictPriority {
    /// The bandwidth in bytes per second.
    rate: u64,
    /// The offset in bytes of the annotation that selects the queue.
    place: usize,
    /// The maximum number of packets in each queue, without the packet that is being sent.
    capacity: usize,
    /// The queues in order of urgency, the most urgent last. The paint of a packet is the index of its queue;
    /// a paint beyond the last queue selects the last queue.
    queues: Vec<Queue>,
    /// The packet that is being sent; `None` while the link is idle.
    sent: Option<Packet>,
    /// The time at which the last bit of `sent` leaves and the link is free.
    free: Timestamp,
    /// The remainder of the last division by the rate. It is added to the next dividend, so that rounding
    /// loses no bandwidth; 0 after the link was idle.
    carry: u64,
}

/// The state that a new instance takes over when the graph is changed: the held packets, the counts, and the
/// time at which the link is free.
struct Inherited {
    queues: Vec<Queue>,
    sent: Option<Packet>,
    free: Timestamp,
}

impl StrictPriority {
    /// Starts sending the next packet at time `at`: the first of the most urgent non-empty queue. If all
    /// queues are empty, the link becomes idle.
    fn start(&mut self, at: Timestamp) {
        let next = self.queues.iter_mut().rev().find_map(|queue| {
            let packet = queue.waiting.pop_front()?;
            queue.packets += 1;
            Some(packet)
        });
        if let Some(packet) = &next {
            let work = packet.len() as u128 * 1_000_000_000 + u128::from(self.carry);
            let rate = u128::from(self.rate);
            self.free = at + Timestamp((work / rate) as i64);
            self.carry = (work % rate) as u64;
        }
        self.sent = next;
    }

    /// Emits the packets whose last bit leaves at `until` or before; each is followed by the next packet at
    /// once.
    fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp) {
        while self.free <= until
            && let Some(packet) = self.sent.take()
        {
            cx.emit_one(0, packet, DropReason::NoOutput);
            self.start(self.free);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let urgency = usize::from(packet.annotations().u8(self.place)).min(self.queues.len() - 1);
        let queue = &mut self.queues[urgency];
        let is_full = self.sent.is_some() && queue.waiting.len() >= self.capacity;
        if is_full || queue.waiting.try_reserve(1).is_err() {
            queue.drops += 1;
            return cx.drop(packet, DropReason::QueueFull);
        }
        queue.waiting.push_back(packet);
        if self.sent.is_none() {
            self.carry = 0;
            self.start(cx.now());
        }
    }

    fn lines(&self, count: impl Fn(&Queue) -> u64) -> String {
        self.queues.iter().enumerate().map(|(number, queue)| format!("{number} {}\n", count(queue))).collect()
    }
}

impl Element for StrictPriority {
    fn effects(&self) -> Effects {
        let paint = Field::Annotation { offset: self.place as u8, length: 1 };
        let full = Filter::Leaf(Predicate::Opaque { about: "queue full", reads: vec![paint, Field::Length] });
        let cases = vec![
            Case::new(full, Target::Drop(DropReason::QueueFull)),
            Case::new(Filter::TRUE, Target::Hold(0)),
        ];
        let hold = Hold::Fifo { may_drop: true };
        Effects { hold, order: Order::MayReorder, ..Effects::cases(cases) }
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
            .sharing("link")
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        // The link first sends up to the present: the packets whose transmission has begun until now were
        // chosen before the packets of this batch arrived.
        self.let_go(cx, cx.now());
        let was_idle = self.sent.is_none();
        for packet in batch.drain() {
            self.take(cx, packet);
        }
        cx.recycle(batch);
        if was_idle && self.sent.is_some() {
            cx.set_timer(0, self.free);
        }
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.let_go(cx, cx.now());
        if self.sent.is_some() {
            cx.set_timer(0, self.free);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx, Timestamp::MAX);
        cx.clear_timer(0);
    }

    fn held(&self) -> usize {
        usize::from(self.sent.is_some()) + self.queues.iter().map(|queue| queue.waiting.len()).sum::<usize>()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Inherited {
            queues: std::mem::take(&mut self.queues),
            sent: self.sent.take(),
            free: self.free,
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = *state.downcast::<Inherited>().map_err(|_| "not the state of a StrictPriority")?;
        (self.sent, self.free) = (state.sent, state.free);
        let last = self.queues.len() - 1;
        for (number, queue) in state.queues.into_iter().enumerate() {
            // Packets of a queue that the new configuration does not have go to its most urgent queue.
            let heir = &mut self.queues[number.min(last)];
            heir.packets += queue.packets;
            heir.drops += queue.drops;
            heir.waiting.extend(queue.waiting);
        }
        if self.sent.is_some() {
            cx.set_timer(0, self.free);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<StrictPriority>] = &[
    Handler::data(
        "rate",
        |e| e.rate.to_string(),
        |e, cx, value| {
            let rate = Bandwidth::parse(value, &cx.place())?;
            check(rate)?;
            // The remainder belongs to the old rate, so it is discarded.
            (e.rate, e.carry) = (rate.0, 0);
            Ok(())
        },
    ),
    Handler::<StrictPriority>::get("lengths", |e| e.lines(|queue| queue.waiting.len() as u64)).summed(),
    Handler::<StrictPriority>::get("packets", |e| e.lines(|queue| queue.packets)).summed(),
    Handler::<StrictPriority>::get("drops", |e| e.lines(|queue| queue.drops)).summed(),
    Handler::act("reset_counts", |e| {
        e.queues.iter_mut().for_each(|queue| (queue.packets, queue.drops) = (0, 0));
    }),
];
