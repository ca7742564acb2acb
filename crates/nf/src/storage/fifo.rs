//! The common element of all queue classes: packets in order, a capacity, counts, and signals to pullers
//! and sources. A `Policy` has the differences between the classes.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Hold, Order, Predicate, Target};
use element::metrics;
use element::{Args, Batch, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, Signal, StatePart};
use packet::BATCH_CAPACITY;

/// The arguments of all queue classes except CPUQueue.
pub(super) const ARGS: &[ArgInfo] = &[
    ArgInfo::positional("CAPACITY", "unsigned", "1000"),
    ArgInfo::keyword("BLOCKING", "bool", "false"),
    ArgInfo::keyword("NOUSELESS", "bool", "false"),
];

/// The number of packets that an element stores, and the maximum number. Queues and LinkUnqueue publish it
/// as a service, for elements such as Unqueue2 whose decisions depend on it.
#[derive(Debug)]
pub struct Occupancy {
    length: AtomicUsize,
    capacity: AtomicUsize,
}

/// An element that stores no packets and has no maximum number.
impl Default for Occupancy {
    fn default() -> Self {
        Occupancy { length: AtomicUsize::new(0), capacity: AtomicUsize::new(usize::MAX) }
    }
}

impl Occupancy {
    /// Makes the occupancy of an empty element that stores at most `capacity` packets.
    fn of(capacity: usize) -> Occupancy {
        Occupancy { capacity: AtomicUsize::new(capacity), ..Occupancy::default() }
    }

    /// Returns the number of stored packets.
    pub fn get(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Returns the number of packets that can be added before the maximum is reached.
    pub fn room(&self) -> usize {
        self.capacity.load(Ordering::Relaxed).saturating_sub(self.get())
    }

    /// Sets the number of stored packets.
    pub fn set(&self, length: usize) {
        self.length.store(length, Ordering::Relaxed);
    }

    /// Sets the maximum number of stored packets.
    pub fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }
}

/// The condition under which a queue signals to pullers that it is empty, so that they sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalsEmpty {
    Never,
    /// Signals after [`EMPTY_PULLS_BEFORE_SIGNAL`] pulls in a row that found the queue empty. An immediate
    /// signal would put pullers to sleep, and wake them again, in every short gap between packets.
    Lazily,
    AtOnce,
}

/// The packet that is dropped, or sent to output 1, when a packet arrives on input 0 of a full queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenFull {
    DropsNewest,
    DropsOldest,
}

/// The differences between the classes of queues. If `signals_full` is true (the queue signals to sources
/// when it is full), the class must declare this by `signals_room` in its `Notes`, too.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    pub(super) signals_empty: SignalsEmpty,
    pub(super) signals_full: bool,
    pub(super) when_full: WhenFull,
    /// True if packets that do not fit may leave by output 1. A warning is then printed about the first of
    /// them (again after a reset of the count), unless the capacity is 0.
    pub(super) spills: bool,
}

/// The policy of Queue.
pub(super) const DEFAULT: Policy = Policy {
    signals_empty: SignalsEmpty::Lazily,
    signals_full: true,
    when_full: WhenFull::DropsNewest,
    spills: true,
};

/// The number of pulls in a row that find the queue empty, after which a queue with [`SignalsEmpty::Lazily`]
/// signals that it is empty.
const EMPTY_PULLS_BEFORE_SIGNAL: u32 = 10;

/// A queue. Packets that arrive on input 0 are put at its end, packets that arrive on input 1 at its front.
pub(super) struct Fifo {
    policy: Policy,
    packets: VecDeque<Packet>,
    capacity: usize,
    highwater: usize,
    drops: u64,
    /// The number of empty pulls since a packet was last pulled.
    empty_pulls: u32,
    occupancy: Arc<Occupancy>,
    has_front: bool,
}

/// The state that a queue takes over from the queue that it replaces in a reload.
struct State {
    packets: VecDeque<Packet>,
    drops: u64,
    highwater: usize,
}

/// Parses the arguments, makes a queue, and publishes its [`Occupancy`].
pub(super) fn build(args: &mut Args<'_>, policy: Policy) -> Result<Box<dyn Element>, Invalid> {
    let capacity = args.value::<u32>("CAPACITY") as usize;
    // The arguments BLOCKING and NOUSELESS of FastClick are accepted without effect. BLOCKING cannot work: a
    // push cannot wait until the queue has room, because the same worker must pull from the queue.
    if policy.spills {
        args.value::<bool>("BLOCKING");
        args.value::<bool>("NOUSELESS");
    }
    args.finish()?;
    // A queue that replaces another queue in a reload takes over its occupancy, the object that other
    // elements watch. The occupancy gets the new capacity when the new queue is initialised.
    let occupancy = args.setup.service(args.id()).unwrap_or_else(|| Arc::new(Occupancy::of(capacity)));
    args.setup.publish(args.id(), Arc::clone(&occupancy));
    Ok(Box::new(Fifo {
        policy,
        // Reserve memory for all packets if the capacity is at most 4096; longer queues grow as they fill.
        packets: VecDeque::with_capacity(capacity.min(4096)),
        capacity,
        highwater: 0,
        drops: 0,
        empty_pulls: 0,
        occupancy,
        has_front: args.inputs() > 1,
    }))
}

impl Fifo {
    #[cold]
    fn overflow(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.drops == 0 && self.capacity > 0 && self.policy.spills {
            cx.warn(format_args!("overflow"));
        }
        self.drops += 1;
        match self.policy.spills {
            true => cx.emit_one(1, packet, DropReason::QueueFull),
            false => cx.drop(packet, DropReason::QueueFull),
        }
    }

    fn insert(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        let front = port == 1;
        if self.packets.len() >= self.capacity {
            let victim = match (front, self.policy.when_full) {
                (true, _) => self.packets.pop_back(),
                (false, WhenFull::DropsOldest) => self.packets.pop_front(),
                (false, WhenFull::DropsNewest) => None,
            };
            match victim {
                Some(victim) => self.overflow(cx, victim),
                None => return self.overflow(cx, packet),
            }
        }
        // If no memory can be reserved for another packet, the queue counts as full.
        if self.packets.len() == self.packets.capacity() && self.packets.try_reserve(1).is_err() {
            return self.overflow(cx, packet);
        }
        match front {
            true => self.packets.push_front(packet),
            false => self.packets.push_back(packet),
        }
    }

    /// Drops packets for `reason` until the queue has at most `length` packets: from its front if the class
    /// drops the oldest packets, otherwise from its end.
    fn shorten(&mut self, cx: &mut Cx<'_>, length: usize, reason: DropReason) {
        while self.packets.len() > length {
            let packet = match self.policy.when_full {
                WhenFull::DropsNewest => self.packets.pop_back(),
                WhenFull::DropsOldest => self.packets.pop_front(),
            };
            let Some(packet) = packet else { break };
            cx.drop(packet, reason);
        }
        self.tell_length();
    }

    fn tell_length(&self) {
        self.occupancy.set(self.packets.len());
    }

    fn tell_room(&self, cx: &mut Cx<'_>) {
        if self.policy.signals_full {
            cx.set_signal(Signal::Room, self.packets.len() < self.capacity);
        }
    }
}

impl Element for Fifo {
    fn effects(&self) -> Effects {
        let full = Filter::Leaf(Predicate::Opaque { about: "queue full", reads: Vec::new() });
        let overflow =
            if self.policy.spills { Target::Output(1) } else { Target::Drop(DropReason::QueueFull) };
        Effects {
            hold: Hold::Fifo { may_drop: true },
            order: if self.has_front { Order::MayReorder } else { Order::Keeps },
            ..Effects::cases(vec![
                Case::new(full, overflow).or_drop(DropReason::QueueFull),
                Case::new(Filter::TRUE, Target::Hold(0)),
            ])
        }
        .depending_on(Depends::Handler)
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.occupancy.set_capacity(self.capacity);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            self.insert(cx, port, packet);
        }
        cx.recycle(batch);
        self.highwater = self.highwater.max(self.packets.len());
        self.tell_length();
        if !self.packets.is_empty() && self.policy.signals_empty != SignalsEmpty::Never {
            cx.set_signal(Signal::Packets, true);
        }
        if self.packets.len() >= self.capacity {
            self.tell_room(cx);
        }
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.batch();
        let n = max.min(self.packets.len()).min(BATCH_CAPACITY);
        for packet in self.packets.drain(..n) {
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::QueueFull);
            }
        }
        if n > 0 {
            self.empty_pulls = 0;
            self.tell_length();
            self.tell_room(cx);
        } else {
            self.empty_pulls = self.empty_pulls.saturating_add(1);
        }
        let signals_empty = match self.policy.signals_empty {
            SignalsEmpty::Never => false,
            SignalsEmpty::Lazily => self.empty_pulls >= EMPTY_PULLS_BEFORE_SIGNAL,
            SignalsEmpty::AtOnce => self.packets.is_empty(),
        };
        if signals_empty {
            cx.set_signal(Signal::Packets, false);
        }
        batch
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.shorten(cx, 0, DropReason::Stop);
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let packets = std::mem::take(&mut self.packets);
        self.tell_length();
        Some(Box::new(State { packets, drops: self.drops, highwater: self.highwater }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let mut state: State = *state.downcast().map_err(|_| "not the state of a queue")?;
        state.packets.append(&mut self.packets);
        self.packets = state.packets;
        (self.drops, self.highwater) = (state.drops, state.highwater);
        self.shorten(cx, self.capacity, DropReason::QueueFull);
        self.highwater = self.highwater.max(self.packets.len());
        self.tell_length();
        if self.policy.signals_empty != SignalsEmpty::Never {
            cx.set_signal(Signal::Packets, true);
        }
        self.tell_room(cx);
        Ok(())
    }
}

/// The state of queues that a reload keeps, with the handlers that show it; for all queue classes with the
/// handler `highwater_length`.
pub(super) const STATE: &[StatePart] =
    &[StatePart::kept("packets", &["length"]), StatePart::kept("counts", &["drops", "highwater_length"])];

/// The handlers of all queue classes except CPUQueue.
pub(super) const HANDLERS: &[Handler<Fifo>] = &[
    Handler::count("length", |e| e.packets.len() as u64),
    Handler::<Fifo>::get("highwater_length", |e| e.highwater.to_string())
        .most()
        .metric(metrics::QUEUE_HIGHWATER),
    Handler::<Fifo>::argument("capacity", "CAPACITY", Fifo::show_capacity, |e, cx, value| {
        let capacity = u32::parse(value, &cx.place()).map_err(|error| format!("CAPACITY: {error}"))?;
        e.capacity = capacity as usize;
        e.occupancy.set_capacity(e.capacity);
        e.shorten(cx, e.capacity, DropReason::Reset);
        e.tell_room(cx);
        Ok(())
    })
    .metric(metrics::QUEUE_CAPACITY),
    DROPS,
    Handler::act("reset_counts", |e| (e.drops, e.highwater) = (0, e.packets.len())),
    Handler::set("reset", |e, cx, _| {
        while let Some(packet) = e.packets.pop_front() {
            cx.emit_one(1, packet, DropReason::Reset);
        }
        e.highwater = 0;
        e.tell_length();
        e.tell_room(cx);
        Ok(())
    }),
];

const DROPS: Handler<Fifo> = Handler::count("drops", |e| e.drops);

/// The handlers of CPUQueue.
pub(super) const OF_CPU_QUEUE: &[Handler<Fifo>] =
    &[Handler::<Fifo>::get("capacity", Fifo::show_capacity).metric(metrics::QUEUE_CAPACITY), DROPS];

impl Fifo {
    fn show_capacity(&self) -> String {
        self.capacity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use element::Setup;

    use super::*;
    use crate::storage::queue::CLASS;

    fn build(setup: &mut Setup, argument: &str) {
        let mut args = Args::new(setup, &CLASS, 0, (1, 1), true, vec![argument.into()]);
        assert!((CLASS.build)(&mut args).is_ok());
    }

    /// A reload builds the new queue with its new capacity first, and can still be refused. So building a
    /// queue must not change the occupancy that the running queue shares with it.
    #[test]
    fn a_queue_that_is_only_built_does_not_change_the_occupancy() {
        let mut setup = Setup::new(None);
        build(&mut setup, "4");
        let occupancy = setup.service::<Occupancy>(0).unwrap();
        build(&mut setup, "9");
        assert_eq!(occupancy.room(), 4);
    }
}
