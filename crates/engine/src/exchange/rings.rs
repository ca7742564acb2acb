//! The rings between one worker and all others, each with one producer and one consumer.
//!
//! A ring keeps the order of its packets, so packets of a flow that take the same way stay in order. Captures
//! and generators wait while a ring of their worker has many packets ([`Rings::are_below`]). If a ring is
//! full, packets that are already on their way wait in a queue next to the ring. In a graph with interfaces,
//! whose packets cannot wait, such packets are dropped and counted instead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::{Batch, Packet};

use super::bell::Bell;
use crate::graph_copy::Target;

/// The number of packets that a ring can hold.
pub(super) const CAPACITY: usize = 4096;

/// A packet on its way to another worker, with the input that it goes to.
pub(super) struct Handed {
    pub(super) packet: Packet,
    to: Target,
    /// The number of this packet for `displacement.rs`: the count of packets that the giving worker has
    /// spread, up to and including this packet. Without meaning if the packet was not spread, or displacement
    /// is not measured.
    pub(super) number: u64,
}

/// The ends of the rings between one worker and all other workers.
pub(super) struct Rings {
    me: usize,
    /// The sending side towards each worker. `None` for this worker itself.
    lanes: Vec<Option<Lane>>,
    /// The receiving end of the ring from each worker. `None` for this worker itself.
    arrivals: Vec<Option<rtrb::Consumer<Handed>>>,
    /// For each worker, true if nothing is taken out of the ring from it.
    shut: Vec<bool>,
    bells: Arc<[Bell]>,
    /// True if packets that find a full ring wait in a queue. If false, they are dropped.
    pub(super) waits: bool,
    /// For each worker, a counter that shows if packets that the worker hands over are still outside of the
    /// rings.
    pub(super) unfinished: Arc<[Unfinished]>,
    /// `handed` is the number of packets handed over to other workers so far; `taken` is the number of
    /// packets taken from other workers.
    pub(super) handed: u64,
    pub(super) taken: u64,
}

/// The sending side towards one other worker.
struct Lane {
    ring: rtrb::Producer<Handed>,
    /// Packets of the current batch that go to the other worker but are not in the ring yet.
    staged: Vec<Handed>,
    /// Packets that the ring had no room for, in their order.
    waiting: VecDeque<Handed>,
}

/// The description of packets that [`Rings::take`] has taken out of a ring.
pub(super) struct Taken {
    pub(super) to: Target,
    /// The numbers of the first and the last packet; see [`Handed::number`].
    pub(super) numbers: (u64, u64),
}

/// A counter that is odd while its worker has packets to hand over that are not all in rings yet. Each such
/// period has another value.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Unfinished(AtomicU64);

impl Unfinished {
    /// Begins or ends a period in which packets are outside of the rings. Only the worker that owns the
    /// counter may call this.
    #[inline]
    pub(super) fn set(&self, unfinished: bool) {
        let number = self.0.load(Ordering::Relaxed);
        if (number % 2 == 1) != unfinished {
            // Release: a worker that sees the end of the period also sees the packets in the rings.
            self.0.store(number + 1, Ordering::Release);
        }
    }

    /// Returns the current value of the counter.
    pub(super) fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// True if the period in which `number` was read has ended, or if `number` was read between two
    /// periods.
    pub(super) fn has_ended(&self, number: u64) -> bool {
        number.is_multiple_of(2) || self.number() != number
    }
}

impl Rings {
    /// Makes the rings between all workers. Returns one [`Rings`] for each worker; `bells` has one bell for
    /// each worker. If `waits` is false, packets that find a full ring are dropped.
    pub(super) fn connect(bells: &Arc<[Bell]>, waits: bool) -> Vec<Rings> {
        let workers = bells.len();
        let unfinished: Arc<[Unfinished]> = (0..workers).map(|_| Unfinished::default()).collect();
        let mut all: Vec<_> = (0..workers)
            .map(|me| Rings {
                me,
                lanes: (0..workers).map(|_| None).collect(),
                arrivals: (0..workers).map(|_| None).collect(),
                shut: vec![false; workers],
                bells: Arc::clone(bells),
                waits,
                unfinished: Arc::clone(&unfinished),
                handed: 0,
                taken: 0,
            })
            .collect();
        for from in 0..workers {
            for to in (0..workers).filter(|&to| to != from) {
                let (producer, consumer) = rtrb::RingBuffer::new(CAPACITY);
                let staged = Vec::with_capacity(packet::BATCH_CAPACITY);
                all[from].lanes[to] = Some(Lane { ring: producer, staged, waiting: VecDeque::new() });
                all[to].arrivals[from] = Some(consumer);
            }
        }
        all
    }

    /// Returns the number of workers.
    pub(super) fn workers(&self) -> usize {
        self.arrivals.len()
    }

    // Operations for packets to other workers.

    /// Keeps in the batch the packets for this worker, and stages the other packets for their rings.
    /// `worker_of` returns the worker of a packet, and the packet's number ([`Handed::number`]). Packets
    /// for a worker that does not exist go to `lost`.
    #[inline]
    pub(super) fn stage(
        &mut self,
        batch: &mut Batch,
        to: Target,
        mut worker_of: impl FnMut(&mut Packet) -> (usize, u64),
        mut lost: impl FnMut(Packet),
    ) {
        let Rings { me, lanes, .. } = self;
        batch.sift(
            |packet| match worker_of(packet) {
                (worker, _) if worker == *me => Ok(()),
                elsewhere => Err(elsewhere),
            },
            |packet, (worker, number)| match lanes.get_mut(worker).and_then(Option::as_mut) {
                Some(lane) => lane.staged.push(Handed { packet, to, number }),
                None => lost(packet),
            },
        );
    }

    /// Moves staged packets into the rings, or into the queues of full rings, and wakes the workers that get
    /// packets. Before that, calls `sends` for each such worker. Its arguments are the worker, the staged
    /// packets, and the number of them, from the first, that are not lost. Passes the lost packets to `lost`.
    #[inline]
    pub(super) fn push_staged(
        &mut self,
        mut sends: impl FnMut(usize, &[Handed], usize),
        mut lost: impl FnMut(Packet),
    ) {
        let unfinished = &self.unfinished[self.me];
        unfinished.set(true);
        let mut waits = false;
        for (worker, (lane, bell)) in self.lanes.iter_mut().zip(&*self.bells).enumerate() {
            let Some(lane) = lane.as_mut() else { continue };
            if lane.staged.is_empty() {
                waits |= !lane.waiting.is_empty();
                continue;
            }
            lane.push_waiting();
            let room = match lane.waiting.is_empty() {
                true => lane.ring.slots().min(lane.staged.len()),
                false => 0,
            };
            // If no memory can be allocated for the packets that find no room in the ring, these packets are
            // dropped.
            let may_wait = self.waits && lane.waiting.try_reserve(lane.staged.len()).is_ok();
            let kept = if may_wait { lane.staged.len() } else { room };
            self.handed += kept as u64;
            sends(worker, &lane.staged, kept);
            if let Ok(places) = lane.ring.write_chunk_uninit(room) {
                places.fill_from_iter(lane.staged.drain(..room));
            }
            match may_wait {
                true => lane.waiting.extend(lane.staged.drain(..)),
                false => lane.staged.drain(..).for_each(|handed| lost(handed.packet)),
            }
            waits |= !lane.waiting.is_empty();
            bell.ring();
        }
        unfinished.set(waits);
    }

    /// Moves packets that wait in queues into rings that have room again, and wakes the workers of these
    /// rings.
    pub(super) fn push_waiting(&mut self) {
        let mut moved = false;
        for (lane, bell) in self.lanes.iter_mut().zip(&*self.bells) {
            if let Some(lane) = lane
                && lane.push_waiting()
            {
                moved = true;
                bell.ring();
            }
        }
        if moved && !self.have_waiting() {
            self.unfinished[self.me].set(false);
        }
    }

    /// True if packets wait in the queue of a full ring.
    pub(super) fn have_waiting(&self) -> bool {
        self.lanes.iter().flatten().any(|lane| !lane.waiting.is_empty())
    }

    /// Returns, for each worker, the number of packets that this worker has handed over to it and that have
    /// not been taken yet.
    pub(super) fn filled(&self) -> impl Iterator<Item = usize> + '_ {
        self.lanes.iter().map(|lane| lane.as_ref().map_or(0, Lane::filled))
    }

    // Operations for packets from other workers.

    /// Takes nothing out of any ring from now on.
    pub(super) fn shut_all(&mut self) {
        self.shut.fill(true);
    }

    /// Takes packets out of the rings from these workers, or from all workers, from now on.
    pub(super) fn open(&mut self, workers: &[usize], all: bool) {
        workers.iter().for_each(|&worker| self.shut[worker] = false);
        if all {
            self.shut.fill(false);
        }
    }

    /// Returns the rings that packets are taken out of.
    fn open_rings(&self) -> impl Iterator<Item = &rtrb::Consumer<Handed>> {
        let open = self.arrivals.iter().zip(&self.shut).filter(|(_, shut)| !**shut);
        open.filter_map(|(ring, _)| ring.as_ref())
    }

    /// Returns the number of packets that can be taken out of the ring from a worker.
    pub(super) fn arrived_from(&self, from: usize) -> usize {
        let ring = self.arrivals.get(from).and_then(Option::as_ref).filter(|_| !self.shut[from]);
        ring.map_or(0, |ring| ring.slots())
    }

    /// Returns the number of packets that can be taken out of the rings from all workers.
    pub(super) fn arrived(&self) -> u64 {
        self.open_rings().map(|ring| ring.slots() as u64).sum()
    }

    /// True if packets can be taken out of the rings from other workers.
    pub(super) fn have_arrivals(&self) -> bool {
        self.open_rings().any(|ring| !ring.is_empty())
    }

    /// Takes at most `most` packets that came from the worker `from` and go to one input, into an empty
    /// batch. Returns `None` if the ring from that worker is empty.
    #[inline]
    pub(super) fn take(&mut self, from: usize, most: usize, batch: &mut Batch) -> Option<Taken> {
        let ring = self.arrivals.get_mut(from)?.as_mut()?;
        let chunk = ring.read_chunk(ring.slots().min(most)).ok()?;
        let (front, back) = chunk.as_slices();
        let (to, first) = front.first().map(|handed| (handed.to, handed.number))?;
        let same = front.iter().chain(back).take_while(|handed| handed.to == to).count();
        let last = front.iter().chain(back).nth(same - 1).map_or(first, |last| last.number);
        self.taken += same as u64;
        for handed in chunk.into_iter().take(same) {
            handed.packet.prefetch();
            // The push does not fail, because `most` is at most the capacity of a batch.
            if let Err(packet) = batch.push(handed.packet) {
                debug_assert!(false, "a batch has room for what is asked for");
                drop(packet);
            }
        }
        Some(Taken { to, numbers: (first, last) })
    }

    /// True if each ring, in both directions, has fewer than `most` packets. For the rings to other workers,
    /// packets in the queues of full rings count, too.
    pub(super) fn are_below(&self, most: usize) -> bool {
        self.lanes.iter().flatten().all(|lane| lane.filled() < most)
            && self.arrivals.iter().flatten().all(|ring| ring.slots() < most)
    }
}

impl Lane {
    /// Returns the number of packets in the ring and in its queue.
    fn filled(&self) -> usize {
        self.waiting.len() + CAPACITY - self.ring.slots()
    }

    /// Moves packets from the queue into the ring, as many as have room. True if any packet was moved.
    fn push_waiting(&mut self) -> bool {
        // The usual case, an empty queue. It does not read the other end of the ring, whose cache line
        // another worker writes.
        if self.waiting.is_empty() {
            return false;
        }
        let room = self.ring.slots().min(self.waiting.len());
        match self.ring.write_chunk_uninit(room) {
            Ok(places) if room > 0 => places.fill_from_iter(self.waiting.drain(..room)) > 0,
            _ => false,
        }
    }
}
