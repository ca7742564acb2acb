//! A discrete-event simulation of the engine's loop, for numbers of workers that this machine does not have.
//! It calls the policies' real code in virtual time. Each simulated action takes the time that was measured
//! for it.
//!
//! Each worker acts like a worker of the engine: it takes batches out of its rings, at most 16 from each.
//! Then it polls its source for batches. If a policy spreads packets, the worker does not poll while a ring
//! from it to another worker is half full, or while all rings to it together have half as many packets as one
//! ring holds. Of the scheduled actions of all workers, the earliest one is performed next. Packets and the
//! loads that workers report are visible to other workers from their time on.
//!
//! Caches, memory and hardware threads that share a core are not simulated; they affect the simulation only
//! by the measured costs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use element::steering::{Dispatch, Rss, Spread, Work, WorkerLoad};
use element::{Batch, Packet, Timestamp};
use packet::Pool;
use sprayer::{Policy, SpreadSettings};
use wire::tcp::flags::ACK;

use super::traffic::segment;

/// Constants of the engine, the first four from crates/engine/src/exchange and driver.rs: the slots of a ring
/// (`CAPACITY`), the batches taken out of each ring in a round of the driver (`MOST_BATCHES`), the batches of
/// a source in a round (`TASKS`) and the time limit for them in nanoseconds (`ROUND`), the packets in a batch
/// (`BURST`), and the slots of an interface's queue (`QUEUE`).
const CAPACITY: usize = 4096;
const MOST_BATCHES: usize = 16;
const TASKS: usize = 128;
const ROUND: f64 = 10e6;
const BURST: usize = 32;
const QUEUE: usize = 1024;
/// The time in nanoseconds that a worker waits before it polls its source again, if a ring from it or to it
/// is too full.
const PAUSE: f64 = 1_000.0;

/// The costs that are the input of the simulation, in nanoseconds per packet unless a field says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// The cost of a packet at the worker that owns its connection, from the source to the end of the chain,
    /// without added work.
    pub(crate) own: f64,
    /// The part of `own` that is spent at the source, before the packet may be handed over.
    pub(crate) source: f64,
    /// The additional cost of a packet at a worker that does not own its connection, because this worker has
    /// to read the connection's state, which the owner has written.
    pub(crate) foreign: f64,
    /// The cost to give a packet to a ring.
    pub(crate) give: f64,
    /// The cost to take a packet from a ring.
    pub(crate) take: f64,
    /// The cost of a decision of the policy `spray`, which gives packets to the workers in turn.
    pub(crate) spray: f64,
    /// The cost of a decision of the policy `auto` while it spreads packets.
    pub(crate) auto: f64,
    /// The cost of the policy `auto` for each batch while it does not spread packets, in nanoseconds.
    pub(crate) rest: f64,
}

/// The parameters of a simulated run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) workers: usize,
    /// The policy that spreads packets; None if each packet is processed by the worker that received it.
    pub(crate) policy: Option<Policy>,
    /// The number of workers over which packets of one connection are spread; 0 for all workers.
    pub(crate) cores: usize,
    pub(crate) connections: u16,
    /// The number of packets of the run, over all connections.
    pub(crate) packets: usize,
    /// The work per packet in nanoseconds.
    pub(crate) work: f64,
    /// The number of packets that arrive per nanosecond, at random times, over all connections. None means
    /// full rate: packets always wait at the sources.
    pub(crate) rate: Option<f64>,
}

/// The result of a simulated run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The time from the start until the last packet had passed the chain, in nanoseconds.
    pub(crate) time: f64,
    /// The number of packets of each connection that have passed the chain. All other packets were dropped at
    /// a full queue.
    pub(crate) done: Vec<u64>,
    /// The latencies, from arrival to the end of the chain, of all packets that have passed it, in
    /// nanoseconds, smallest first. Empty at full rate.
    pub(crate) latencies: Vec<f64>,
    /// For each packet of connection 0, the time at which it had passed the chain, and its number within the
    /// connection.
    first: Vec<(f64, u32)>,
}

impl Outcome {
    /// Returns the fraction of the packets of connection 0 that passed the end of the chain after a packet
    /// with a higher number (RFC 4737, type-P-reordered).
    pub(crate) fn reordered(&self) -> f64 {
        let mut all = self.first.clone();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut last = 0;
        let is_late = |&&(_, number): &&(f64, u32)| {
            let is_late = number < last;
            last = last.max(number);
            is_late
        };
        all.iter().filter(is_late).count() as f64 / all.len().max(1) as f64
    }
}

/// Real packets, a batch of each connection, with which the simulation asks the policies. They are used again
/// and again.
pub(crate) struct Packets {
    pool: Pool,
    of: Vec<Vec<Packet>>,
}

impl Packets {
    /// Creates the packets of `connections` connections.
    ///
    /// # Errors
    /// If their memory cannot be allocated.
    pub(crate) fn new(connections: u16) -> Result<Packets, String> {
        let mut pool = Pool::new(64 << 20).map_err(|error| error.to_string())?;
        let mut of = Vec::new();
        for connection in 0..connections {
            let frame = segment(connection, ACK, 0).map_err(|error| error.to_string())?;
            let packets = (0..BURST).filter_map(|_| pool.packet(&frame));
            of.push(packets.collect());
        }
        Ok(Packets { pool, of })
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        for packet in self.of.drain(..).flatten() {
            self.pool.free(packet);
        }
    }
}

/// A packet of the simulation, on its way from the source to the end of the chain.
#[derive(Clone, Copy)]
struct Handed {
    connection: u16,
    /// The number of the packet in its connection, counted from 0.
    number: u32,
    /// The time from which the other worker can take the packet out of the ring, in nanoseconds.
    at: f64,
    /// The time at which the packet arrived at the source, in nanoseconds.
    came: f64,
}

/// The next action of a simulated worker.
#[derive(Clone, Copy)]
enum Next {
    /// Take a batch out of the ring whose giver is worker `.0`, from which `.1` batches have been taken in
    /// this round of the worker.
    Take(usize, usize),
    /// Poll the source, until the time `.0` at the latest; the source has been polled `.1` times in this
    /// round of the worker.
    Ask(f64, usize),
}

struct Worker {
    next: Next,
    rings: Vec<VecDeque<Handed>>,
    /// The number of packets in all rings from other workers to this worker.
    arrived: usize,
    /// The state of the worker's source. At full rate: the connections that the worker owns (`connections`),
    /// the index of the last packet's connection in this list (`turn`), and the number of packets left
    /// (`left`). At a given rate: the time and the connection of each packet that will arrive (`coming`).
    connections: Vec<u16>,
    turn: usize,
    left: usize,
    coming: VecDeque<(f64, u16)>,
    spread: Option<Box<dyn Spread>>,
    /// The time in nanoseconds that the worker has worked (`busy`), and the number of packets that it has
    /// processed (`packets`), both up to the end of its current action.
    busy: f64,
    packets: u64,
    is_asleep: bool,
}

struct Simulation<'a> {
    setting: Setting,
    costs: Costs,
    owner: Rss,
    stock: &'a mut Packets,
    workers: Vec<Worker>,
    loads: Arc<[WorkerLoad]>,
    /// The scheduled actions: the time (as the bits of the floating-point number, which sort like it), and
    /// the index of the worker. `Reverse` makes the heap return the earliest action first.
    events: BinaryHeap<Reverse<(u64, usize)>>,
    /// The number of packets of each connection that sources have supplied so far. It is the number of the
    /// next packet.
    came: Vec<u32>,
    outcome: Outcome,
}

/// The time at which simulations start, in nanoseconds. It is not 0, because a timestamp of 0 means an
/// unknown time.
const START: f64 = 1e9;

/// Simulates a run and returns its result. `stock` must have packets of all connections.
pub(crate) fn simulate(setting: Setting, costs: Costs, stock: &mut Packets) -> Outcome {
    let owner = Rss::new(setting.workers);
    let loads: Arc<[WorkerLoad]> = (0..setting.workers).map(|_| WorkerLoad::default()).collect();
    let settings =
        |policy| SpreadSettings { policy, workers_per_flow: setting.cores, ..SpreadSettings::default() };
    let spreading = setting.policy.map(|policy| settings(policy).spreading());
    let worker = |me| Worker {
        next: Next::Take(0, 0),
        rings: vec![VecDeque::new(); setting.workers],
        arrived: 0,
        connections: Vec::new(),
        turn: 0,
        left: 0,
        coming: VecDeque::new(),
        spread: spreading.as_ref().map(|spreading| spreading.spread(me, &loads)),
        busy: 0.0,
        packets: 0,
        is_asleep: false,
    };
    let mut workers: Vec<Worker> = (0..setting.workers).map(worker).collect();
    let owner_of = |connection: u16| owner.worker_of(&stock.of[usize::from(connection)][0]);
    for connection in 0..setting.connections {
        workers[owner_of(connection)].connections.push(connection);
    }
    let each = setting.packets / usize::from(setting.connections);
    workers.iter_mut().for_each(|worker| worker.left = each * worker.connections.len());
    if let Some(rate) = setting.rate {
        let mut random = fastrand::Rng::with_seed(8);
        let mut at = START;
        for _ in 0..setting.packets {
            at += -(1.0 - random.f64()).ln() / rate;
            let connection = random.u16(0..setting.connections);
            workers[owner_of(connection)].coming.push_back((at, connection));
        }
    }
    let events = (0..setting.workers).map(|worker| Reverse((START.to_bits(), worker))).collect();
    let outcome = Outcome { done: vec![0; setting.connections.into()], ..Outcome::default() };
    let came = vec![0; setting.connections.into()];
    let mut simulation = Simulation { setting, costs, owner, stock, workers, loads, events, came, outcome };
    while let Some(Reverse((now, worker))) = simulation.events.pop() {
        simulation.step(worker, f64::from_bits(now));
    }
    simulation.outcome.time -= START;
    simulation.outcome.latencies.sort_by(f64::total_cmp);
    simulation.outcome
}

impl Simulation<'_> {
    /// Schedules that worker `worker` performs its next action at the time `time`.
    fn at(&mut self, time: f64, worker: usize) {
        self.events.push(Reverse((time.to_bits(), worker)));
    }

    /// Performs the next action of worker `me` at the time `now`, when its previous action, pause or sleep
    /// ends.
    fn step(&mut self, me: usize, now: f64) {
        let worker = &mut self.workers[me];
        let work = Work { busy: worker.busy as u64, packets: worker.packets, waiting: worker.arrived as u64 };
        self.loads[me].say(work, Timestamp(now as i64));
        worker.is_asleep = false;
        let took = match worker.next {
            Next::Take(..) if worker.arrived == 0 => {
                worker.next = Next::Ask(now + ROUND, 0);
                self.ask(me, now)
            }
            Next::Take(from, batches) => self.take(me, now, from, batches),
            Next::Ask(..) => self.ask(me, now),
        };
        if let Some(took) = took {
            self.workers[me].busy += took;
            self.at(now + took, me);
        }
    }

    /// Takes a batch for worker `me` out of its rings, beginning with the ring whose giver is worker `from`,
    /// out of which `batches` batches have been taken in this round. Returns the time in nanoseconds that
    /// processing the batch takes, or 0 if no ring has a batch to take in this round.
    fn take(&mut self, me: usize, now: f64, mut from: usize, mut batches: usize) -> Option<f64> {
        let worker = &mut self.workers[me];
        loop {
            let ring = worker.rings.get_mut(from);
            let Some(ring) = ring else {
                worker.next = Next::Ask(now + ROUND, 0);
                return Some(0.0);
            };
            let count = ring.iter().take(BURST).take_while(|handed| handed.at <= now).count();
            if count == 0 || batches == MOST_BATCHES {
                (from, batches) = (from + 1, 0);
                continue;
            }
            worker.next = Next::Take(from, batches + 1);
            worker.arrived -= count;
            worker.packets += count as u64;
            let taken: Vec<Handed> = ring.drain(..count).collect();
            let costs = self.costs;
            let took =
                count as f64 * (costs.take + costs.own - costs.source + costs.foreign + self.setting.work);
            taken.into_iter().for_each(|handed| self.end(handed, now + took));
            return Some(took);
        }
    }

    /// Polls the source of worker `me`. Returns the time in nanoseconds that this takes; None if the worker
    /// pauses or sleeps instead.
    fn ask(&mut self, me: usize, now: f64) -> Option<f64> {
        let Next::Ask(until, batches) = self.workers[me].next else { return Some(0.0) };
        let count = self.waiting(me, now);
        if batches == TASKS || now > until || count == 0 {
            let worker = &mut self.workers[me];
            worker.next = Next::Take(0, 0);
            let arrived = worker.rings.iter().filter_map(|ring| ring.front()).map(|handed| handed.at);
            let next =
                arrived.chain(worker.coming.front().map(|coming| coming.0)).fold(f64::INFINITY, f64::min);
            if count == 0 && next > now {
                return self.sleep(me, next);
            }
            return Some(0.0);
        }
        if !self.is_clear(me) {
            self.workers[me].next = Next::Take(0, 0);
            self.at(now + PAUSE, me);
            return None;
        }
        self.workers[me].next = Next::Ask(until, batches + 1);
        Some(self.give(me, now, count.min(BURST)))
    }

    /// Puts worker `me` to sleep until the time `next`, or, if `next` is infinite, until another worker hands
    /// a packet over to it. Returns None.
    fn sleep(&mut self, me: usize, next: f64) -> Option<f64> {
        self.loads[me].rest();
        match next.is_finite() {
            true => self.at(next, me),
            false => self.workers[me].is_asleep = true,
        }
        None
    }

    /// Returns the number of packets that have arrived and wait at the source of worker `me`. Packets that
    /// have arrived while the queue was full are dropped.
    fn waiting(&mut self, me: usize, now: f64) -> usize {
        let worker = &mut self.workers[me];
        if self.setting.rate.is_none() {
            return worker.left;
        }
        let count = worker.coming.iter().take_while(|coming| coming.0 <= now).count();
        // The packets that have arrived after the queue became full are dropped.
        worker.coming.drain(QUEUE.min(count)..count);
        count.min(QUEUE)
    }

    fn is_clear(&self, me: usize) -> bool {
        let lanes = || self.workers.iter().map(|worker| worker.rings[me].len());
        self.setting.policy.is_none()
            || self.workers[me].arrived < CAPACITY / 2 && lanes().all(|len| len < CAPACITY / 2)
    }

    /// Takes `count` packets from the source of worker `me`, and spreads them as the policy decides. Packets
    /// that are not handed over pass the chain at this worker. Returns the time in nanoseconds that all this
    /// takes.
    fn give(&mut self, me: usize, now: f64, count: usize) -> f64 {
        let (mut batch, mut packets) = (Batch::new(), Vec::with_capacity(count));
        let worker = &mut self.workers[me];
        for _ in 0..count {
            let (came, connection) = match self.setting.rate {
                Some(_) => worker.coming.pop_front().unwrap_or((now, 0)),
                None => {
                    worker.turn = (worker.turn + 1) % worker.connections.len();
                    worker.left -= 1;
                    (now, worker.connections[worker.turn])
                }
            };
            let number = self.came[usize::from(connection)];
            self.came[usize::from(connection)] += 1;
            packets.push(Handed { connection, number, at: now, came });
            let packet = self.stock.of[usize::from(connection)].pop();
            if let Some(Err(packet)) = packet.map(|packet| batch.push(packet)) {
                self.stock.pool.free(packet);
            }
        }
        let (costs, time) = (self.costs, Timestamp(now as i64));
        let mut decision = 0.0;
        let mut to = vec![me; count];
        if let Some(spread) = &mut worker.spread {
            let is_auto = self.setting.policy == Some(Policy::Auto);
            decision = if is_auto { costs.rest } else { 0.0 };
            if spread.look(&batch, time, &self.owner) {
                decision += count as f64 * if is_auto { costs.auto } else { costs.spray };
                let worker_of = |packet: &Packet| spread.worker_of(packet, time, &self.owner);
                to = batch.iter().map(worker_of).collect();
            }
        }
        for (packet, handed) in batch.drain().zip(&packets) {
            self.stock.of[usize::from(handed.connection)].push(packet);
        }
        let given = to.iter().filter(|&&worker| worker != me).count();
        let handed_over = now + decision + given as f64 * (costs.source + costs.give);
        let took = handed_over - now + (count - given) as f64 * (costs.own + self.setting.work);
        self.workers[me].packets += (count - given) as u64;
        for (packet, to) in packets.into_iter().zip(to) {
            if to == me {
                self.end(packet, now + took);
                continue;
            }
            let other = &mut self.workers[to];
            other.rings[me].push_back(Handed { at: handed_over, ..packet });
            other.arrived += 1;
            if std::mem::take(&mut other.is_asleep) {
                self.at(handed_over, to);
            }
        }
        took
    }

    fn end(&mut self, packet: Handed, at: f64) {
        self.outcome.done[usize::from(packet.connection)] += 1;
        self.outcome.time = self.outcome.time.max(at);
        if self.setting.rate.is_some() {
            self.outcome.latencies.push(at - packet.came);
        }
        if packet.connection == 0 {
            self.outcome.first.push((at, packet.number));
        }
    }
}
