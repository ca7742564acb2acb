//! Keeps the order of packets whose flows are spread over workers: gives them tickets where they are
//! spread, and holds them in windows where they come together.
//!
//! The worker that spreads packets (the *giver*) numbers them. Rings keep their order, so a worker that has
//! processed a number has processed all smaller numbers that it was given. It publishes the last such
//! number after each batch. Ahead of an element that has one place, packets wait in the *window* of its
//! worker until all workers have passed their number. A packet with a smaller number that has not come
//! until then was dropped, or an element holds it. So packets never wait for a packet that does not come,
//! and a gap in the numbers costs the time of the slowest worker's batch. If a worker is stuck for
//! [`LONGEST`] while packets come from interfaces, packets no longer wait for it.
//!
//! Packets that are sent home (handed over *aside*, to the worker that owns the state of their flow) keep
//! their number. The worker that sends them home counts them as processed only when the other worker has
//! processed them. The other worker may hand them on from an element further downstream. So each element at
//! which packets can be sent home has a *level*, and the counts of a level depend only on levels further
//! downstream. A worker publishes its counts level by level, the most downstream level first. So no worker
//! ever waits for a worker that waits for it.
//!
//! Packets that elements have made have no number. They stay after the packet that came before them from
//! the same worker.
//!
//! A ticket is stored in the packet's flow mark. Flow marks have no other use where packets are spread.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::{Batch, ElementId, Packet, Timestamp};

use crate::graph_copy::Target;
use crate::placement::Way;

/// The longest time that a packet waits for others where there are interfaces. Where all sources can
/// wait, the limit is `LONGEST_OF_CAPTURES`: there, only a fault could take that long.
pub(crate) const LONGEST: Timestamp = Timestamp(10_000_000);
const LONGEST_OF_CAPTURES: Timestamp = Timestamp(10_000_000_000);

/// The largest span of numbers in a window where there are interfaces. Sources that can wait do not get
/// that far ahead.
const WIDEST: usize = 1 << 15;

/// The number of bits of a ticket that hold the packet's number. The bits above hold the giver. The
/// highest bit is set, because a flow mark must have a bit set in its upper half.
const NUMBER_BITS: u32 = 56;
const IS_TICKET: u64 = 1 << 63;

/// The progress of one worker, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Row {
    /// The last number that this worker has given.
    given: AtomicU64,
    /// For each worker, the last number that this worker has given to it.
    given_to: Vec<AtomicU64>,
    /// For each giver, the last of its numbers that this worker has processed.
    done: Vec<AtomicU64>,
    /// For each level and worker, the packets that came aside from that worker and have been processed.
    taken_aside: Vec<AtomicU64>,
}

/// The state that all workers share.
pub(crate) struct Tickets {
    rows: Vec<Row>,
    /// The level of each element at which packets can be handed over aside, by element number. Elements
    /// further downstream have larger levels.
    levels: Vec<usize>,
    /// The number of levels.
    count: usize,
    longest: Timestamp,
    widest: usize,
}

impl Tickets {
    /// Makes the shared state of `workers` workers. `aside` are the elements that packets can be handed
    /// over to aside, upstream elements first. `waits` is true if all sources can wait.
    pub(crate) fn new(workers: usize, aside: &[ElementId], waits: bool) -> Tickets {
        let mut levels = vec![0; aside.iter().max().map_or(0, |&last| last + 1)];
        for (level, &id) in aside.iter().enumerate() {
            levels[id] = level;
        }
        let zeros = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        let row = |_| Row {
            given: AtomicU64::new(0),
            given_to: zeros(workers),
            done: zeros(workers),
            taken_aside: zeros(workers * aside.len()),
        };
        let (longest, widest) = if waits { (LONGEST_OF_CAPTURES, usize::MAX) } else { (LONGEST, WIDEST) };
        Tickets { rows: (0..workers).map(row).collect(), levels, count: aside.len(), longest, widest }
    }

    fn level(&self, to: Target) -> usize {
        self.levels.get(to.element as usize).copied().unwrap_or(0)
    }

    /// Returns the number up to which all packets of a giver have come, or will not come in time.
    fn passed(&self, giver: usize) -> u64 {
        let Some(row) = self.rows.get(giver) else { return u64::MAX };
        // Loaded first, so that the numbers given to each worker up to here are visible.
        let given = row.given.load(Ordering::Acquire);
        let behind = row.given_to.iter().zip(&self.rows).filter_map(|(given_to, row)| {
            let done = row.done.get(giver).map_or(0, |done| done.load(Ordering::Acquire));
            (done < given_to.load(Ordering::Acquire)).then_some(done)
        });
        behind.min().map_or(given, |done| done.min(given))
    }
}

/// The state of one worker for keeping order.
pub(crate) struct Order {
    me: usize,
    tickets: Arc<Tickets>,
    /// The last number that this worker has given, and for each worker the last number given to it.
    given: u64,
    given_to: Vec<u64>,
    /// For each worker, the last of the numbers given to it that got into its ring.
    arrived: Vec<u64>,
    /// For each element at which packets can be sent home, and each worker, the number of packets that were
    /// sent home to that worker at that element.
    handed_aside: Vec<u64>,
    /// The counts that other workers wait for: for each level, the packets taken from each worker; and
    /// as the last entry, the last number of each giver that this worker has processed.
    accounts: Vec<Account>,
    window: Window,
    /// The number of packets that left after packets with larger numbers.
    late: u64,
    /// For each giver, the number up to which packets may leave; see [`Order::release`].
    passed: Vec<u64>,
}

/// Counts that may be published when other workers have processed what was handed over to them.
struct Account {
    /// By worker: the current counts, the counts to be published next, and the counts published last.
    now: Vec<u64>,
    next: Vec<u64>,
    told: Vec<u64>,
    /// The value of `handed_aside` when `next` was set.
    handed: Vec<u64>,
}

/// The packets that wait at a worker, upstream of the elements that have their place there. All such
/// elements share one window, because packets of one flow may come to several of them.
struct Window {
    /// The waiting packets, by giver.
    lanes: Vec<Lane>,
    /// The inputs that packets go to, each with the last ticket that has come from each worker.
    ends: Vec<(Target, Vec<Option<NonZeroU64>>)>,
    /// The largest span of numbers in a lane.
    widest: usize,
}

/// A packet, and the index in `ends` of the input that it goes to.
struct Held {
    end: u32,
    packet: Packet,
}

/// The waiting packets of one giver.
struct Lane {
    /// The number of the first slot in `waiting`.
    next: u64,
    /// A slot for each number.
    waiting: VecDeque<Option<Held>>,
    /// Further packets with the same numbers, in order: copies, and packets that elements made after
    /// them.
    copies: VecDeque<(u64, Held)>,
    /// The time since which the first packet has waited.
    since: Timestamp,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.copies.is_empty()
    }
}

/// The result of putting a packet into a window.
enum Comes {
    /// The packet waits.
    InTime,
    /// Packets with larger numbers have left already.
    Late(Packet),
    /// The packet has no number, and the packet that it follows has left.
    Freely(Packet),
}

impl Order {
    /// Makes the state of the worker `me`.
    pub(crate) fn new(me: usize, tickets: Arc<Tickets>) -> Order {
        let zeros = vec![0; tickets.rows.len()];
        let widest = tickets.widest;
        let handed_aside = vec![0; tickets.rows.len() * tickets.count];
        let account = |_| Account {
            now: zeros.clone(),
            next: zeros.clone(),
            told: zeros.clone(),
            handed: handed_aside.clone(),
        };
        Order {
            me,
            given: 0,
            given_to: zeros.clone(),
            arrived: zeros.clone(),
            accounts: (0..=tickets.count).map(account).collect(),
            tickets,
            handed_aside,
            window: Window::new(zeros.len(), widest),
            late: 0,
            passed: zeros,
        }
    }

    // At the worker that spreads packets.

    /// Gives the next number to a packet that goes to a worker.
    pub(crate) fn give(&mut self, packet: &mut Packet, worker: usize) {
        self.given += 1;
        if let Some(given_to) = self.given_to.get_mut(worker) {
            *given_to = self.given;
        }
        packet.set_flow_mark(NonZeroU64::new(IS_TICKET | (self.me as u64) << NUMBER_BITS | self.given));
    }

    /// Publishes the numbers that were given. Must be called before any of the packets is handed over.
    pub(crate) fn show(&self) {
        let Some(row) = self.tickets.rows.get(self.me) else { return };
        for (shown, &given_to) in row.given_to.iter().zip(&self.given_to) {
            shown.store(given_to, Ordering::Release);
        }
        row.given.store(self.given, Ordering::Release);
    }

    // At the worker that processes packets.

    /// Returns the ticket of a packet: the giver, and the number.
    fn ticket(packet: &Packet) -> Option<(usize, u64)> {
        let ticket = packet.flow_mark()?.get() ^ IS_TICKET;
        Some(((ticket >> NUMBER_BITS) as usize, ticket & ((1 << NUMBER_BITS) - 1)))
    }

    /// Notes that packets are on their way to a worker. `last` is the last of them that was spread;
    /// packets after it were lost.
    pub(crate) fn hand_over(&mut self, worker: usize, to: Target, packets: usize, last: Option<&Packet>) {
        match to.way {
            Way::Spread => {
                if let Some((_, number)) = last.and_then(Order::ticket) {
                    self.arrived[worker] = number;
                }
            }
            Way::Stay | Way::ToOwner => {
                let level = self.tickets.level(to);
                if let Some(handed) = self.handed_aside.get_mut(level * self.arrived.len() + worker) {
                    *handed += packets as u64;
                }
            }
            Way::Here | Way::To(_) => {}
        }
    }

    /// Notes that the last packets that were given numbers for a worker were lost, so that no packet
    /// waits for them.
    pub(crate) fn lose(&mut self, worker: usize) {
        self.given_to[worker] = self.arrived[worker];
        self.show();
    }

    /// Notes that the packets of a batch that came from a worker are about to be processed.
    pub(crate) fn take(&mut self, from: usize, to: Target, batch: &Batch) {
        let (level, count) = (self.tickets.level(to), self.tickets.count);
        match to.way {
            Way::Spread => {
                // Numbers come in order.
                let last = batch.iter().filter_map(Order::ticket).map(|(_, number)| number).next_back();
                if let (Some(done), Some(last)) = (self.accounts[count].now.get_mut(from), last) {
                    *done = last;
                }
            }
            Way::Stay | Way::ToOwner => {
                if let Some(taken) = self.accounts[level].now.get_mut(from).filter(|_| level < count) {
                    *taken += batch.len() as u64;
                }
            }
            Way::Here | Way::To(_) => {}
        }
    }

    /// Publishes that the packets that were taken, and those that this worker has kept for itself, have
    /// been processed and handed on. With `has_waiting`, some packets still wait for room in a ring, and no
    /// new counts are published.
    pub(crate) fn tell(&mut self, has_waiting: bool) {
        let Order { me, tickets, given_to, handed_aside, accounts, .. } = self;
        let (me, count, workers) = (*me, tickets.count, given_to.len());
        let Some(row) = tickets.rows.get(me) else { return };
        accounts[count].now[me] = given_to[me];
        // The most downstream level first: the levels upstream depend on it.
        for level in (0..count).rev().chain([count]) {
            // Packets taken at a level can have been handed on only to levels further downstream.
            let first = if level == count { 0 } else { (level + 1) * workers };
            let account = &mut accounts[level];
            // Once for the counts in `next`, and once for the counts added since.
            for _ in 0..2 {
                if account.next == account.told {
                    if account.now == account.told || has_waiting {
                        break;
                    }
                    account.next.copy_from_slice(&account.now);
                    account.handed.copy_from_slice(handed_aside);
                }
                let is_taken = |(at, &handed): (usize, &u64)| {
                    handed == 0
                        || tickets.rows[at % workers].taken_aside[at - at % workers + me]
                            .load(Ordering::Acquire)
                            >= handed
                };
                if !account.handed.iter().enumerate().skip(first).all(is_taken) {
                    break;
                }
                let told = if level == count {
                    &row.done[..]
                } else {
                    &row.taken_aside[level * workers..][..workers]
                };
                for (told, &next) in told.iter().zip(&account.next) {
                    told.store(next, Ordering::Release);
                }
                account.told.copy_from_slice(&account.next);
            }
        }
    }

    /// True if this worker has processed packets and not published it yet.
    pub(crate) fn has_to_tell(&self) -> bool {
        let last = self.accounts.last();
        last.is_some_and(|account| account.now[self.me] != self.given_to[self.me])
            || self.accounts.iter().any(|account| account.now != account.told)
    }

    // At the worker where packets wait.

    /// Puts the packets of a batch that came from a worker, which may be this worker, into the window
    /// ahead of an element. Packets that need not wait stay in the batch.
    pub(crate) fn wait(&mut self, from: usize, to: Target, batch: &mut Batch, now: Timestamp) {
        let Order { window, late, .. } = self;
        let end = window.end(to);
        batch.replace_each(|packet| match window.put(from, end, packet, now) {
            Comes::InTime => None,
            Comes::Late(packet) => {
                *late += 1;
                Some(packet)
            }
            Comes::Freely(packet) => Some(packet),
        });
    }

    /// Returns the number of packets that left after packets with larger numbers.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// True if packets wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.window.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// Finds out up to which number the packets of each giver may leave. Must be called before packets
    /// from other workers are taken in: then all packets up to that number are among them.
    pub(crate) fn look(&mut self) {
        for (giver, passed) in self.passed.iter_mut().enumerate() {
            *passed = self.tickets.passed(giver);
        }
    }

    /// Takes packets that may leave out of the window, into an empty batch: as many as fit, all for one
    /// input, which it returns. If `at_end`, all packets may leave.
    pub(crate) fn release(&mut self, now: Timestamp, at_end: bool, batch: &mut Batch) -> Option<Target> {
        let longest = self.tickets.longest;
        let Window { lanes, ends, .. } = &mut self.window;
        lanes.iter_mut().zip(&self.passed).find_map(|(lane, &passed)| {
            let is_stuck = !lane.is_empty() && now - lane.since > longest;
            let end = lane.release(if at_end || is_stuck { u64::MAX } else { passed }, now, batch)?;
            ends.get(end as usize).map(|(to, _)| *to)
        })
    }
}

impl Window {
    fn new(workers: usize, widest: usize) -> Window {
        let lane =
            |_| Lane { next: 1, waiting: VecDeque::new(), copies: VecDeque::new(), since: Timestamp::ZERO };
        Window { lanes: (0..workers).map(lane).collect(), ends: Vec::new(), widest }
    }

    /// Returns the index in `ends` of an input that packets go to.
    fn end(&mut self, to: Target) -> u32 {
        let found = self.ends.iter().position(|(end, _)| *end == to);
        found.unwrap_or_else(|| {
            self.ends.push((to, vec![None; self.lanes.len()]));
            self.ends.len() - 1
        }) as u32
    }

    /// Puts a packet that came from a worker into the lane of its giver. A packet without a number gets the
    /// last ticket from that worker, so that it leaves after the packet that it follows.
    fn put(&mut self, from: usize, end: u32, mut packet: Packet, now: Timestamp) -> Comes {
        let Window { lanes, ends, widest } = self;
        let is_made = packet.flow_mark().is_none();
        if let Some(last) = ends.get_mut(end as usize).and_then(|(_, last)| last.get_mut(from)) {
            match is_made {
                true => packet.set_flow_mark(*last),
                false => *last = packet.flow_mark(),
            }
        }
        let Some((giver, number)) = Order::ticket(&packet) else { return Comes::Freely(packet) };
        let Some(lane) = lanes.get_mut(giver) else { return Comes::Freely(packet) };
        let place = number.checked_sub(lane.next).map(|place| place as usize);
        let Some(place) = place.filter(|place| place < widest) else {
            return if is_made { Comes::Freely(packet) } else { Comes::Late(packet) };
        };
        if lane.is_empty() {
            lane.since = now;
        }
        // If no memory can be allocated for waiting packets, the packet goes on at once.
        let more = (place + 1).saturating_sub(lane.waiting.len());
        if lane.waiting.try_reserve(more).is_err() || lane.copies.try_reserve(1).is_err() {
            return Comes::Freely(packet);
        }
        if more > 0 {
            lane.waiting.resize_with(place + 1, || None);
        }
        let held = Held { end, packet };
        match &mut lane.waiting[place] {
            Some(_) => {
                let behind = lane.copies.iter().rposition(|&(other, _)| other <= number);
                lane.copies.insert(behind.map_or(0, |at| at + 1), (number, held));
            }
            free => *free = Some(held),
        }
        Comes::InTime
    }
}

impl Lane {
    /// Takes packets with numbers up to `up_to` out, in order, as many as a batch has room for and as
    /// go to the same input. Returns the index of that input.
    fn release(&mut self, up_to: u64, now: Timestamp, batch: &mut Batch) -> Option<u32> {
        let mut to = None;
        while batch.len() < packet::BATCH_CAPACITY {
            let is_other = |held: &Held| to.is_some_and(|to| to != held.end);
            // A copy leaves after the packet of the same number.
            let held = if self.copies.front().is_some_and(|(number, _)| *number < self.next) {
                if self.copies.front().is_some_and(|(_, held)| is_other(held)) {
                    break;
                }
                self.copies.pop_front().map(|(_, held)| held)
            } else if self.next > up_to
                || self.waiting.front().is_some_and(|place| place.as_ref().is_some_and(is_other))
            {
                break;
            } else if let Some(place) = self.waiting.pop_front() {
                self.next += 1;
                // If the first packet has waited too long, no packet after it waits either.
                if up_to != u64::MAX {
                    self.since = now;
                }
                place
            } else {
                // No packet with a smaller number will come in time.
                if up_to != u64::MAX {
                    self.next = up_to + 1;
                }
                break;
            };
            if let Some(Held { end, packet }) = held {
                to = Some(end);
                _ = batch.push(packet);
            }
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    const TO: Target = Target { element: 7, input: 0, way: Way::To(0) };
    const SPREAD: Target = Target { element: 3, input: 0, way: Way::Spread };

    /// Releases packets, and returns the first byte of each.
    fn leaves(order: &mut Order, pool: &mut Pool) -> Vec<u8> {
        let mut batch = Batch::new();
        order.look();
        let to = order.release(Timestamp(1), false, &mut batch);
        assert_eq!(to, (!batch.is_empty()).then_some(TO));
        batch.drain().map(|packet| take(pool, packet)).collect()
    }

    fn take(pool: &mut Pool, packet: Packet) -> u8 {
        let said = packet.data()[0];
        pool.free(packet);
        said
    }

    fn batch(packets: impl IntoIterator<Item = Packet>) -> Batch {
        let mut batch = Batch::new();
        packets.into_iter().for_each(|packet| batch.push(packet).unwrap());
        batch
    }

    #[test]
    fn packets_leave_when_all_workers_are_past_them() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let tickets = Arc::new(Tickets::new(2, &[], false));
        let [mut giver, mut other] = [0, 1].map(|me| Order::new(me, Arc::clone(&tickets)));
        // 0 and 2 go to the other worker, 1 and 3 stay; 2 is dropped there.
        let mut packets: Vec<_> = (0..4u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        for (packet, worker) in packets.iter_mut().zip([1, 0, 1, 0]) {
            giver.give(packet, worker);
        }
        giver.show();
        let [zero, one, two, three]: [Packet; 4] = packets.try_into().ok().unwrap();
        let mut own = batch([one, three]);
        giver.wait(0, TO, &mut own, Timestamp(1));
        assert!(own.is_empty() && giver.has_waiting());
        giver.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), [], "the other one has not said anything yet");
        other.take(0, SPREAD, &batch([]));
        let mut came = batch([zero]);
        other.take(0, SPREAD, &came);
        other.tell(false);
        giver.wait(1, TO, &mut came, Timestamp(1));
        assert_eq!(leaves(&mut giver, &mut pool), [0], "1 waits for what came with it");
        let mut came = batch([two]);
        other.take(0, SPREAD, &came);
        came.drain().for_each(|packet| pool.free(packet));
        assert_eq!(leaves(&mut giver, &mut pool), []);
        other.tell(true);
        assert_eq!(leaves(&mut giver, &mut pool), [], "something is on its way still");
        other.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), [1, 3]);
        assert!(!giver.has_waiting() && giver.late() == 0);
    }

    #[test]
    fn copies_leave_together_and_late_ones_at_once() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut order = Order::new(0, Arc::new(Tickets::new(1, &[], false)));
        let mut packets: Vec<_> = (0..3u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        packets.iter_mut().for_each(|packet| order.give(packet, 0));
        order.show();
        let mut copy = pool.packet(&[9; 60]).unwrap();
        copy.set_flow_mark(packets[1].flow_mark());
        let late = packets.remove(0);
        let mut others = batch(packets.into_iter().chain([copy]));
        order.wait(0, TO, &mut others, Timestamp(1));
        order.tell(false);
        assert_eq!(leaves(&mut order, &mut pool), [1, 9, 2]);
        let mut rest = batch([late, pool.packet(&[8; 60]).unwrap()]);
        order.wait(0, TO, &mut rest, Timestamp(1));
        assert_eq!(rest.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>(), [0, 8]);
        assert_eq!(order.late(), 1, "the other one has no number");
    }

    #[test]
    fn what_was_made_stays_behind_what_came_before_it() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut order = Order::new(0, Arc::new(Tickets::new(2, &[], false)));
        let mut packets: Vec<_> = (0..3u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        packets.iter_mut().for_each(|packet| order.give(packet, 0));
        order.show();
        let [zero, one, two]: [Packet; 3] = packets.try_into().ok().unwrap();
        let mut made = |n: u8| pool.packet(&[n; 60]).unwrap();
        let (of_one, of_two, of_nobody) = (made(11), made(12), made(13));
        let mut first = batch([of_nobody, two, of_two]);
        order.wait(1, TO, &mut first, Timestamp(1));
        assert_eq!(first.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>(), [13]);
        let mut last = batch([zero, one, of_one]);
        order.wait(0, TO, &mut last, Timestamp(1));
        assert!(last.is_empty());
        order.tell(false);
        assert_eq!(leaves(&mut order, &mut pool), [0, 1, 11, 2, 12], "also those of the last number");
        assert!(!order.has_waiting());
        let mut rest = batch([pool.packet(&[14; 60]).unwrap()]);
        order.wait(0, TO, &mut rest, Timestamp(1));
        assert_eq!(rest.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>(), [14]);
        assert_eq!(order.late(), 0);
    }

    #[test]
    fn packets_for_several_places_leave_in_one_order() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut order = Order::new(0, Arc::new(Tickets::new(1, &[], false)));
        let other = Target { element: 8, ..TO };
        let mut packets: Vec<_> = (0..5u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        packets.iter_mut().for_each(|packet| order.give(packet, 0));
        order.show();
        let mut copy = pool.packet(&[9; 60]).unwrap();
        copy.set_flow_mark(packets[2].flow_mark());
        let [zero, one, two, three, four]: [Packet; 5] = packets.try_into().ok().unwrap();
        for (to, packets) in [(other, vec![two, three]), (TO, vec![zero, one, copy, four])] {
            order.wait(0, to, &mut batch(packets), Timestamp(1));
        }
        order.tell(false);
        order.look();
        let mut left = Vec::new();
        let mut out = Batch::new();
        while let Some(to) = order.release(Timestamp(1), false, &mut out) {
            left.push((to.element, out.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>()));
        }
        let [to, other] = [TO.element, other.element];
        assert_eq!(
            left,
            [(to, vec![0, 1]), (other, vec![2]), (to, vec![9]), (other, vec![3]), (to, vec![4])]
        );
    }

    #[test]
    fn what_was_handed_on_twice_is_waited_for() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let [first, second] = [4, 5].map(|element| Target { element, input: 0, way: Way::Stay });
        let tickets = Arc::new(Tickets::new(3, &[4, 5], false));
        let [mut giver, mut middle, mut last] = [0, 1, 2].map(|me| Order::new(me, Arc::clone(&tickets)));
        let mut packets: Vec<_> = (0..2u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        packets.iter_mut().for_each(|packet| giver.give(packet, 0));
        giver.show();
        let [zero, one]: [Packet; 2] = packets.try_into().ok().unwrap();
        let mut own = batch([one]);
        giver.wait(0, TO, &mut own, Timestamp(1));
        let mut aside = batch([zero]);
        giver.hand_over(1, first, 1, None);
        giver.tell(false);
        // A packet that is handed over later is not waited for.
        giver.hand_over(1, first, 1, None);
        middle.take(0, first, &aside);
        middle.hand_over(2, second, 1, None);
        middle.tell(false);
        giver.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), []);
        last.take(1, second, &aside);
        giver.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), [], "the last one has not dealt with it");
        last.tell(false);
        middle.tell(false);
        giver.tell(false);
        giver.wait(2, TO, &mut aside, Timestamp(1));
        assert_eq!(leaves(&mut giver, &mut pool), [0, 1]);
    }

    #[test]
    fn nobody_waits_for_what_a_ring_had_no_room_for() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let tickets = Arc::new(Tickets::new(2, &[], false));
        let [mut giver, mut other] = [0, 1].map(|me| Order::new(me, Arc::clone(&tickets)));
        let mut packets: Vec<_> = (0..4u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        for (packet, worker) in packets.iter_mut().zip([1, 0, 1, 1]) {
            giver.give(packet, worker);
        }
        giver.show();
        let [zero, one, two, three]: [Packet; 4] = packets.try_into().ok().unwrap();
        giver.hand_over(1, SPREAD, 1, Some(&zero));
        giver.lose(1);
        let mut own = batch([one]);
        giver.wait(0, TO, &mut own, Timestamp(1));
        giver.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), []);
        let mut came = batch([zero]);
        other.take(0, SPREAD, &came);
        other.tell(false);
        giver.wait(1, TO, &mut came, Timestamp(1));
        assert_eq!(leaves(&mut giver, &mut pool), [0, 1]);
        [two, three].into_iter().for_each(|packet| pool.free(packet));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let tickets = Arc::new(Tickets::new(2, &[], false));
        let mut giver = Order::new(0, tickets);
        let mut packets: Vec<_> =
            (0..=255u8).chain(0..=100).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        for (n, packet) in packets.iter_mut().enumerate() {
            giver.give(packet, usize::from(n == 0));
        }
        giver.show();
        let mut rest = packets.split_off(1).into_iter();
        while rest.len() > 0 {
            giver.wait(0, TO, &mut batch(rest.by_ref().take(32)), Timestamp(1));
        }
        giver.tell(false);
        giver.look();
        let mut out = Batch::new();
        assert_eq!(giver.release(Timestamp(1) + LONGEST, false, &mut out), None);
        let mut left = Vec::new();
        while let Some(to) = giver.release(Timestamp(2) + LONGEST, false, &mut out) {
            assert_eq!(to, TO);
            left.extend(out.drain().map(|packet| take(&mut pool, packet)));
        }
        assert_eq!(left, (1..=255u8).chain(0..=100).collect::<Vec<_>>(), "more than a batch, at once");
        pool.free(packets.remove(0));
    }
}
