//! Keeps the order of packets whose flows are spread over workers. Packets get numbers where they are spread,
//! and wait in windows where they come together again.
//!
//! The worker that spreads packets (the *giver*) numbers them. Rings keep their order, so a worker that has
//! processed a number has processed all smaller numbers that it was given. It publishes the last such number
//! after each batch. An element that works on one worker only gets the packets of all workers. So packets
//! wait in the *window* of its worker until all workers have processed the smaller numbers that they were
//! given. A packet with a smaller number that is still missing then was dropped, or an element holds it. So
//! packets never wait for a packet that does not come, and a gap in the numbers costs the time of the slowest
//! worker's batch. If a worker is stuck for [`LONGEST`] while packets come from interfaces, packets no longer
//! wait for it.
//!
//! Packets that are sent home (to the worker that owns the state of their flow; the code calls this *aside*)
//! keep their number. The worker that sends them home counts them as processed only when the other worker has
//! processed them. The other worker may hand them on from an element further downstream. So each element at
//! which packets can be sent home has a *level*, and the counts of a level depend only on levels further
//! downstream. A worker publishes its counts level by level, the most downstream level first. So no worker
//! ever waits for a worker that waits for it.
//!
//! Packets that elements have made have no number. They leave the window directly after the packet that
//! came before them from the same worker.
//!
//! A ticket is the giver and the number of a packet, stored in the packet's flow mark. Flow marks have no
//! other use where the order of spread packets is kept.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::{Batch, ElementId, Packet, Timestamp};

use crate::graph_copy::Target;
use crate::placement::Way;

/// The longest time that packets wait for a stuck worker if packets come from interfaces. If all sources
/// can wait, the limit is `LONGEST_OF_CAPTURES`: only a fault could take that long.
pub(crate) const LONGEST: Timestamp = Timestamp(10_000_000);
const LONGEST_OF_CAPTURES: Timestamp = Timestamp(10_000_000_000);

/// The number of consecutive packet numbers of one giver (a worker that spreads packets) for which a window
/// has room if packets come from interfaces. A packet with a larger number does not wait. If all sources can
/// wait, there is no limit.
const WIDEST: usize = 1 << 15;

/// The number of low bits of a ticket that hold the packet's number. A ticket is the flow mark of a spread
/// packet. Its bits above these hold the giver (the worker that has spread the packet). The highest bit is
/// always set, because a flow mark must have a bit set in its upper half.
const NUMBER_BITS: u32 = 56;
const IS_TICKET: u64 = 1 << 63;

/// The counts of packets that one worker publishes, so that all workers can keep order. No other worker
/// writes them.
#[derive(Default)]
#[repr(align(64))]
struct Row {
    /// The last number that this worker has given to a packet.
    given: AtomicU64,
    /// For each worker, the last number of a packet that this worker has given to it.
    given_to: Vec<AtomicU64>,
    /// For each giver (the worker that has spread a packet), the last of its numbers that this worker has
    /// processed.
    done: Vec<AtomicU64>,
    /// For each level (an element at which packets can be sent home, see [`Tickets::levels`]) and each
    /// worker, the number of packets that the worker has sent home at this element and that the worker of
    /// this row has processed.
    taken_aside: Vec<AtomicU64>,
}

/// The state for keeping order that all workers share.
pub(crate) struct Tickets {
    rows: Vec<Row>,
    /// For each element at which packets can be sent home, its level, indexed by element number. Elements
    /// further downstream have larger levels.
    levels: Vec<usize>,
    /// The number of levels, which is the number of elements at which packets can be sent home.
    count: usize,
    longest: Timestamp,
    widest: usize,
}

impl Tickets {
    /// Makes the shared state of `workers` workers. `aside` are the elements at which packets can be sent
    /// home, upstream elements first. `waits` is true if all sources can wait.
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

    /// Returns a number up to which no packet that the worker `giver` has spread is under way any more. Each
    /// packet up to it has come to the window where packets wait or into a ring to the window's worker, was
    /// dropped, or is held by an element.
    fn passed(&self, giver: usize) -> u64 {
        let Some(row) = self.rows.get(giver) else { return u64::MAX };
        // This load is first, so that all numbers up to `given` are visible in the loads of `given_to`
        // after it.
        let given = row.given.load(Ordering::Acquire);
        let behind = row.given_to.iter().zip(&self.rows).filter_map(|(given_to, row)| {
            let done = row.done.get(giver).map_or(0, |done| done.load(Ordering::Acquire));
            (done < given_to.load(Ordering::Acquire)).then_some(done)
        });
        behind.min().map_or(given, |done| done.min(given))
    }
}

/// The state of one worker for keeping order: the numbers of the packets that it spreads, the counts of the
/// packets that it processes, and the window in which packets wait.
pub(crate) struct Order {
    me: usize,
    tickets: Arc<Tickets>,
    /// `given` is the number of the last packet that this worker has spread. `given_to` has, for each worker,
    /// the number of the last packet spread to that worker.
    given: u64,
    given_to: Vec<u64>,
    /// For each other worker, the number of the last packet spread to it that was not lost for lack of room
    /// in the ring.
    arrived: Vec<u64>,
    /// For each level (an element at which packets can be sent home) and each worker, the number of packets
    /// that this worker has sent home to that worker at this element.
    handed_aside: Vec<u64>,
    /// The counts that other workers wait for. For each level (an element at which packets can be sent home),
    /// they are the numbers of packets that each worker has sent home to this worker and that this worker has
    /// taken. The last entry has, for each worker that spreads packets, the number of its last packet that
    /// this worker has taken.
    accounts: Vec<Account>,
    window: Window,
    /// The number of packets that came to the window too late, or with a number too far ahead, and so left
    /// out of order ([`Comes::Late`]).
    late: u64,
    /// For each giver (a worker that spreads packets), the number up to which its packets may leave the
    /// window; see [`Order::release`].
    passed: Vec<u64>,
}

/// Counts of packets that this worker has processed. The counts may be published once other workers have
/// processed the packets that this worker had sent home to them (`handed`).
struct Account {
    /// For each worker that packets come from, the present count of its packets (see [`Order::accounts`]).
    now: Vec<u64>,
    /// The counts that will be published to the other workers at the next publication; equal to `told` if
    /// none will.
    next: Vec<u64>,
    /// The counts that were published last.
    told: Vec<u64>,
    /// The value of [`Order::handed_aside`] when `next` was set. Before `next` is published, other workers
    /// must have processed packets that had been sent home to them at that time: for the counts of a level,
    /// the packets sent home at levels further downstream; for the last entry of [`Order::accounts`], all of
    /// them.
    handed: Vec<u64>,
}

/// The packets that wait at a worker, upstream of the elements that work on this worker only. All these
/// elements share one window, because packets of one flow may come to several of them.
struct Window {
    /// The waiting packets, for each giver (the worker that has spread the packets).
    lanes: Vec<Lane>,
    /// The inputs that packets go to, each with the last ticket (giver and number of a packet) that has come
    /// from each worker. A packet that an element made takes this ticket.
    ends: Vec<(Target, Vec<Option<NonZeroU64>>)>,
    /// The number of consecutive packet numbers of one giver for which the window has room; see [`WIDEST`].
    widest: usize,
}

/// A packet, and the index in `ends` of the input that it goes to.
struct Held {
    end: u32,
    packet: Packet,
}

/// The packets in a window that one worker (their giver) has spread.
struct Lane {
    /// The packet number of the first slot in `waiting`.
    next: u64,
    /// A slot for each number from `next` on; `None` while its packet has not come.
    waiting: VecDeque<Option<Held>>,
    /// Further packets, in order of their numbers: copies of packets, which have the numbers of these
    /// packets, and packets that elements made, which have the number of the packet that came before them.
    copies: VecDeque<(u64, Held)>,
    /// The time from which on the wait of the first of these packets counts: the time at which a packet came
    /// into the empty lane or, if later, the last time at which the lane moved on to its next number without
    /// a packet having waited too long.
    since: Timestamp,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.copies.is_empty()
    }
}

/// The result of putting a packet into a window, where it waits for packets with smaller numbers. A packet
/// that does not wait is returned.
enum Comes {
    /// The packet waits.
    InTime,
    /// The packet has come after the window has passed its number, or too far ahead of it, so it leaves at
    /// once, out of order.
    Late(Packet),
    /// The packet leaves at once: it has no number and follows no waiting packet, or there is no memory to
    /// hold it.
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

    // Operations at the worker that spreads packets.

    /// Gives the next number to a packet that is going to `worker`, and stores the ticket (this worker and
    /// the number) in the packet.
    pub(crate) fn give(&mut self, packet: &mut Packet, worker: usize) {
        self.given += 1;
        if let Some(given_to) = self.given_to.get_mut(worker) {
            *given_to = self.given;
        }
        packet.set_flow_mark(NonZeroU64::new(IS_TICKET | (self.me as u64) << NUMBER_BITS | self.given));
    }

    /// Publishes the numbers that this worker has given to packets so far. Must be called before a packet
    /// with one of these numbers is handed over.
    pub(crate) fn show(&self) {
        let Some(row) = self.tickets.rows.get(self.me) else { return };
        for (shown, &given_to) in row.given_to.iter().zip(&self.given_to) {
            shown.store(given_to, Ordering::Release);
        }
        row.given.store(self.given, Ordering::Release);
    }

    // Operations at the worker that processes packets.

    /// Returns the giver and the number in a packet's ticket. `None` for a packet without a ticket, such as
    /// one that an element has made.
    fn ticket(packet: &Packet) -> Option<(usize, u64)> {
        let ticket = packet.flow_mark()?.get() ^ IS_TICKET;
        Some(((ticket >> NUMBER_BITS) as usize, ticket & ((1 << NUMBER_BITS) - 1)))
    }

    /// Notes that `packets` packets are on their way to a worker. `last` is the last of them; spread
    /// packets after it were lost for lack of room.
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
            Way::Here | Way::To(_) | Way::Heir => {}
        }
    }

    /// Notes that the packets with the last numbers given to a worker were lost, so that no packet waits
    /// for these numbers.
    pub(crate) fn lose(&mut self, worker: usize) {
        self.given_to[worker] = self.arrived[worker];
        self.show();
    }

    /// Notes that this worker is about to process a batch that came from the worker `from`.
    pub(crate) fn take(&mut self, from: usize, to: Target, batch: &Batch) {
        let (level, count) = (self.tickets.level(to), self.tickets.count);
        match to.way {
            Way::Spread => {
                // The ring has kept the order of the numbers, so the last number is the largest.
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
            Way::Here | Way::To(_) | Way::Heir => {}
        }
    }

    /// Publishes that the packets taken so far, and the packets that this worker has kept for itself, have
    /// been processed and handed on. The counts of these packets become [`Account::next`], and are published
    /// once other workers have processed packets that this worker has sent home (see [`Account::handed`]). If
    /// `has_waiting`, some packets still wait for room in a ring: then the counts in `next` may be published,
    /// but no new counts become `next`.
    pub(crate) fn tell(&mut self, has_waiting: bool) {
        let Order { me, tickets, given_to, handed_aside, accounts, .. } = self;
        let (me, count, workers) = (*me, tickets.count, given_to.len());
        let Some(row) = tickets.rows.get(me) else { return };
        accounts[count].now[me] = given_to[me];
        // The level of the most downstream element comes first, because the counts of each level depend on
        // the levels downstream of it.
        for level in (0..count).rev().chain([count]) {
            // Packets that were taken at the element of a level can have been sent home again only at
            // elements of levels further downstream.
            let first = if level == count { 0 } else { (level + 1) * workers };
            let account = &mut accounts[level];
            // The first pass publishes the counts that an earlier call has put into `next`; the second pass
            // publishes the counts added since.
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

    /// True if this worker has processed packets whose numbers it has not published yet.
    pub(crate) fn has_to_tell(&self) -> bool {
        let last = self.accounts.last();
        last.is_some_and(|account| account.now[self.me] != self.given_to[self.me])
            || self.accounts.iter().any(|account| account.now != account.told)
    }

    // Operations at the worker where packets wait.

    /// Puts the packets of a batch into the window ahead of an element. The batch came from the worker
    /// `from`, which may be this worker. Packets that need not wait stay in the batch.
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

    /// Returns the number of packets that left out of order ([`Comes::Late`]).
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// True if packets wait in the window.
    pub(crate) fn has_waiting(&self) -> bool {
        self.window.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// Reads up to which number the packets of each giver (a worker that spreads packets) may leave the
    /// window. Must be called before packets are taken out of the rings. Then all packets up to that number
    /// are in the window or among the taken packets, were dropped, or are held by an element, from which they
    /// come too late.
    pub(crate) fn look(&mut self) {
        for (giver, passed) in self.passed.iter_mut().enumerate() {
            *passed = self.tickets.passed(giver);
        }
    }

    /// Takes packets that may leave out of the window, into an empty batch: as many as fit, all spread by one
    /// worker and going to one input. Returns this input, or `None` if no packet may leave. If `at_end`, all
    /// packets may leave; so do the packets of a worker if its first packet has waited too long.
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

    /// Returns the index in `ends` of an input that packets go to, and adds the input if it is new.
    fn end(&mut self, to: Target) -> u32 {
        let found = self.ends.iter().position(|(end, _)| *end == to);
        found.unwrap_or_else(|| {
            self.ends.push((to, vec![None; self.lanes.len()]));
            self.ends.len() - 1
        }) as u32
    }

    /// Puts a packet that came from the worker `from` into the lane of its giver (the worker that has spread
    /// it). A packet without a ticket gets the last ticket from the worker `from`, so that it leaves after
    /// the packet that it follows. `end` is the index in `ends` of the input that the packet goes to.
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
    /// Takes packets with numbers up to `up_to` out of the lane, in order. Stops when the batch is full, or
    /// at a packet that goes to another input than the packets before it. Returns the index in `ends` of the
    /// input of the taken packets, or `None` if no packet left.
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
                // If `up_to` is the largest number, the first packet has waited too long or the run ends, and
                // no packet after it waits either. Otherwise the wait of the next packet counts from now.
                if up_to != u64::MAX {
                    self.since = now;
                }
                place
            } else {
                // No packet with a number up to `up_to` will come any more, so the lane continues with the
                // number after it.
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

    /// Releases the packets that may leave, and returns the first byte of each.
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
        // Packets 0 and 2 go to the other worker, and packet 2 is dropped there. Packets 1 and 3 stay.
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
        assert!(leaves(&mut giver, &mut pool).is_empty(), "the other one has not said anything yet");
        other.take(0, SPREAD, &batch([]));
        let mut came = batch([zero]);
        other.take(0, SPREAD, &came);
        other.tell(false);
        giver.wait(1, TO, &mut came, Timestamp(1));
        assert_eq!(leaves(&mut giver, &mut pool), [0], "1 waits for what came with it");
        let mut came = batch([two]);
        other.take(0, SPREAD, &came);
        came.drain().for_each(|packet| pool.free(packet));
        assert!(leaves(&mut giver, &mut pool).is_empty());
        other.tell(true);
        assert!(leaves(&mut giver, &mut pool).is_empty(), "something is on its way still");
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
        // A packet that is handed over after `tell` does not delay the counts that `tell` has chosen to
        // publish next.
        giver.hand_over(1, first, 1, None);
        middle.take(0, first, &aside);
        middle.hand_over(2, second, 1, None);
        middle.tell(false);
        giver.tell(false);
        assert!(leaves(&mut giver, &mut pool).is_empty());
        last.take(1, second, &aside);
        giver.tell(false);
        assert!(leaves(&mut giver, &mut pool).is_empty(), "the last one has not dealt with it");
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
        assert!(leaves(&mut giver, &mut pool).is_empty());
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
