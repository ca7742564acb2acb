//! Order where packets of a flow are spread over workers: tickets where they are spread, windows where they come together.
//!
//! Whoever spreads packets gives each the next of its numbers. Rings keep their order, so a worker that has dealt with a number
//! has dealt with all smaller ones that it was given; it says how far it is after each batch. Before an element that has one
//! place, packets wait in a window until all workers are past their number: whatever has a smaller one and has not come by
//! then was dropped, or is held by some element. So nobody waits for what does not come, and a gap costs the time of the
//! slowest worker's batch. Should a worker stand still for [`LONGEST`], nobody waits for it any longer.
//!
//! Packets that are handed over aside, to the worker that their flow belongs to, keep their number; whoever hands them over says
//! that it has dealt with it only when the other one has.
//!
//! A ticket stands where packets have marks of flows else, which are not used then.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::{Batch, Packet, Timestamp};

use crate::host::Target;
use crate::placement::Way;

/// How long a packet waits for others at most.
pub(crate) const LONGEST: Timestamp = Timestamp(10_000_000);

/// Numbers that a window spans at most.
const WIDEST: usize = 1 << 15;

/// Bits of a ticket that are the number; those above say who gave it, and the first is set, as a mark has to have something
/// in its upper half.
const NUMBER_BITS: u32 = 56;
const IS_TICKET: u64 = 1 << 63;

/// How far one worker is, on a line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Row {
    /// The last number that this worker has given.
    given: AtomicU64,
    /// The last of them that it has given to each worker.
    given_to: Vec<AtomicU64>,
    /// Of each worker's numbers, the last that this one has dealt with.
    done: Vec<AtomicU64>,
    /// Packets that have come from each worker aside, and been dealt with.
    taken_aside: Vec<AtomicU64>,
}

/// What all workers see.
pub(crate) struct Tickets {
    rows: Vec<Row>,
}

impl Tickets {
    pub(crate) fn new(workers: usize) -> Tickets {
        let zeros = || (0..workers).map(|_| AtomicU64::new(0)).collect();
        let row =
            |_| Row { given: AtomicU64::new(0), given_to: zeros(), done: zeros(), taken_aside: zeros() };
        Tickets { rows: (0..workers).map(row).collect() }
    }

    /// Every packet with a number up to this one of a worker's has come, or will not come in time.
    fn passed(&self, giver: usize) -> u64 {
        let Some(row) = self.rows.get(giver) else { return u64::MAX };
        // First, so that what was given to each up to here is seen.
        let given = row.given.load(Ordering::Acquire);
        let behind = row.given_to.iter().zip(&self.rows).filter_map(|(given_to, row)| {
            let done = row.done.get(giver).map_or(0, |done| done.load(Ordering::Acquire));
            (done < given_to.load(Ordering::Acquire)).then_some(done)
        });
        behind.min().map_or(given, |done| done.min(given))
    }
}

/// One worker's part in keeping order.
pub(crate) struct Order {
    me: usize,
    tickets: Arc<Tickets>,
    /// The last number that was given, and to each worker.
    given: u64,
    given_to: Vec<u64>,
    /// The last of each worker's numbers that this one has dealt with, but for what is aside, and whether all know.
    done: Vec<u64>,
    is_told: bool,
    /// Packets handed over to each worker aside, and taken from each.
    handed_aside: Vec<u64>,
    taken_aside: Vec<u64>,
    windows: Vec<Window>,
    /// Packets that have left behind others with larger numbers.
    late: u64,
    /// See [`Order::release`].
    passed: Vec<u64>,
}

/// Packets that wait in front of an element.
struct Window {
    to: Target,
    /// By giver.
    lanes: Vec<Lane>,
}

/// Of one giver.
struct Lane {
    /// The number of the first place.
    next: u64,
    /// A place for each number.
    waiting: VecDeque<Option<Packet>>,
    /// Further packets with the same number: copies.
    copies: VecDeque<(u64, Packet)>,
    /// Since when the first one has waited.
    since: Timestamp,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.copies.is_empty()
    }
}

/// What becomes of a packet that comes to a window.
enum Comes {
    /// It waits.
    InTime,
    /// Others behind it have left already.
    Late(Packet),
    /// It has no number.
    Freely(Packet),
}

impl Order {
    pub(crate) fn new(me: usize, tickets: Arc<Tickets>) -> Order {
        let zeros = vec![0; tickets.rows.len()];
        Order {
            me,
            tickets,
            given: 0,
            given_to: zeros.clone(),
            done: zeros.clone(),
            is_told: true,
            handed_aside: zeros.clone(),
            taken_aside: zeros.clone(),
            windows: Vec::new(),
            late: 0,
            passed: zeros,
        }
    }

    // Where packets are spread.

    /// Gives a packet that goes to a worker the next number.
    pub(crate) fn give(&mut self, packet: &mut Packet, worker: usize) {
        self.given += 1;
        if let Some(given_to) = self.given_to.get_mut(worker) {
            *given_to = self.given;
        }
        packet.set_flow_mark(NonZeroU64::new(IS_TICKET | (self.me as u64) << NUMBER_BITS | self.given));
    }

    /// Shows what was given, before any of it is handed over.
    pub(crate) fn show(&self) {
        let Some(row) = self.tickets.rows.get(self.me) else { return };
        for (shown, &given_to) in row.given_to.iter().zip(&self.given_to) {
            shown.store(given_to, Ordering::Release);
        }
        row.given.store(self.given, Ordering::Release);
    }

    // Where they are dealt with.

    /// The ticket of a packet: who gave it, and its number.
    fn ticket(packet: &Packet) -> Option<(usize, u64)> {
        let ticket = packet.flow_mark()?.get() ^ IS_TICKET;
        Some(((ticket >> NUMBER_BITS) as usize, ticket & ((1 << NUMBER_BITS) - 1)))
    }

    /// Packets were handed over to a worker aside.
    pub(crate) fn hand_aside(&mut self, worker: usize, packets: usize) {
        if let Some(handed) = self.handed_aside.get_mut(worker) {
            *handed += packets as u64;
        }
    }

    /// Some of them were lost: the ring had no room.
    pub(crate) fn lose_aside(&mut self, worker: usize, packets: usize) {
        if let Some(handed) = self.handed_aside.get_mut(worker) {
            *handed -= packets as u64;
        }
    }

    /// The packets of a batch that came from a worker, by that way, are about to be dealt with.
    pub(crate) fn take(&mut self, from: usize, way: Way, batch: &Batch) {
        match way {
            Way::Spread => {
                // Numbers come in order.
                let last = batch.iter().filter_map(Order::ticket).map(|(_, number)| number).next_back();
                if let (Some(done), Some(last)) = (self.done.get_mut(from), last) {
                    *done = last;
                }
            }
            Way::Stay | Way::ToOwner => {
                if let Some(taken) = self.taken_aside.get_mut(from) {
                    *taken += batch.len() as u64;
                }
            }
            Way::Here | Way::To(_) => return,
        }
        self.is_told = false;
    }

    /// What was taken, and what this worker has given to itself, has been dealt with and handed on; all but for packets that
    /// wait for room in a ring, if there are any.
    pub(crate) fn tell(&mut self, has_waiting: bool) {
        let Order { me, tickets, .. } = self;
        let (me, Some(row)) = (*me, tickets.rows.get(*me)) else { return };
        if self.done.get(me) != self.given_to.get(me) {
            self.done[me] = self.given_to[me];
            self.is_told = false;
        }
        if self.is_told || has_waiting {
            return;
        }
        for (told, &taken) in row.taken_aside.iter().zip(&self.taken_aside) {
            told.store(taken, Ordering::Release);
        }
        let taken = |(worker, &handed): (usize, &u64)| {
            handed == 0 || tickets.rows[worker].taken_aside[me].load(Ordering::Acquire) >= handed
        };
        if self.handed_aside.iter().enumerate().all(taken) {
            for (told, &done) in row.done.iter().zip(&self.done) {
                told.store(done, Ordering::Release);
            }
            self.is_told = true;
        }
    }

    /// Whether others do not know yet what this worker has dealt with.
    pub(crate) fn has_to_tell(&self) -> bool {
        !self.is_told || self.done.get(self.me) != self.given_to.get(self.me)
    }

    // Where they come together.

    /// Lets the packets of a batch wait in front of an element; those that nobody has to wait for stay in the batch.
    pub(crate) fn wait(&mut self, to: Target, batch: &mut Batch, now: Timestamp) {
        let workers = self.tickets.rows.len();
        let place = self.windows.iter().position(|window| window.to == to);
        let place = place.unwrap_or_else(|| {
            let lane = |_| Lane { next: 1, waiting: VecDeque::new(), copies: VecDeque::new(), since: now };
            self.windows.push(Window { to, lanes: (0..workers).map(lane).collect() });
            self.windows.len() - 1
        });
        let (window, late) = (&mut self.windows[place], &mut self.late);
        batch.replace_each(|packet| match window.put(packet, now) {
            Comes::InTime => None,
            Comes::Late(packet) => {
                *late += 1;
                Some(packet)
            }
            Comes::Freely(packet) => Some(packet),
        });
    }

    /// Packets that have left behind others with larger numbers.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Whether packets wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.windows.iter().flat_map(|window| &window.lanes).any(|lane| !lane.is_empty())
    }

    /// Finds out up to which number of each giver packets may leave. To be asked before what has come from others is taken in:
    /// that has all of them.
    pub(crate) fn look(&mut self) {
        for (giver, passed) in self.passed.iter_mut().enumerate() {
            *passed = self.tickets.passed(giver);
        }
    }

    /// Takes packets that may leave out of the windows, as many as fit, into an empty batch; where they go. `at_end`, all.
    pub(crate) fn release(&mut self, now: Timestamp, at_end: bool, batch: &mut Batch) -> Option<Target> {
        for window in &mut self.windows {
            for (lane, &passed) in window.lanes.iter_mut().zip(&self.passed) {
                let is_stuck = !lane.is_empty() && now - lane.since > LONGEST;
                lane.release(if at_end || is_stuck { u64::MAX } else { passed }, now, batch);
                if !batch.is_empty() {
                    return Some(window.to);
                }
            }
        }
        None
    }
}

impl Window {
    fn put(&mut self, packet: Packet, now: Timestamp) -> Comes {
        let Some((giver, number)) = Order::ticket(&packet) else { return Comes::Freely(packet) };
        let Some(lane) = self.lanes.get_mut(giver) else { return Comes::Freely(packet) };
        let Some(place) = number.checked_sub(lane.next).map(|place| place as usize) else {
            return Comes::Late(packet);
        };
        if place >= WIDEST {
            return Comes::Late(packet);
        }
        if lane.is_empty() {
            lane.since = now;
        }
        if lane.waiting.len() <= place {
            lane.waiting.resize_with(place + 1, || None);
        }
        match &mut lane.waiting[place] {
            Some(_) => lane.copies.push_back((number, packet)),
            free => *free = Some(packet),
        }
        Comes::InTime
    }
}

impl Lane {
    /// Takes packets with numbers up to one out, in order, as many as a batch has room for.
    fn release(&mut self, up_to: u64, now: Timestamp, batch: &mut Batch) {
        while batch.len() < packet::BATCH_CAPACITY {
            if let Some(&(number, _)) = self.copies.front()
                && number < self.next
                && let Some((_, packet)) = self.copies.pop_front()
            {
                _ = batch.push(packet);
                continue;
            }
            // Behind the copies of the last one.
            if self.next > up_to {
                break;
            }
            let Some(place) = self.waiting.pop_front() else {
                // Nobody with a smaller number will come in time.
                if self.copies.is_empty() && up_to != u64::MAX {
                    self.next = up_to + 1;
                }
                if self.copies.is_empty() {
                    break;
                }
                self.next += 1;
                continue;
            };
            self.next += 1;
            self.since = now;
            if let Some(packet) = place {
                _ = batch.push(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    const TO: Target = Target { element: 7, input: 0, way: Way::To(0) };

    /// What leaves, by what the packets say.
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
        let tickets = Arc::new(Tickets::new(2));
        let [mut giver, mut other] = [0, 1].map(|me| Order::new(me, Arc::clone(&tickets)));
        // 0 and 2 go to the other worker, 1 and 3 stay; 2 is dropped there.
        let mut packets: Vec<_> = (0..4u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        for (packet, worker) in packets.iter_mut().zip([1, 0, 1, 0]) {
            giver.give(packet, worker);
        }
        giver.show();
        let [zero, one, two, three]: [Packet; 4] = packets.try_into().ok().unwrap();
        let mut own = batch([one, three]);
        giver.wait(TO, &mut own, Timestamp(1));
        assert!(own.is_empty() && giver.has_waiting());
        giver.tell(false);
        assert_eq!(leaves(&mut giver, &mut pool), [], "the other one has not said anything yet");
        other.take(0, Way::Spread, &batch([]));
        let mut came = batch([zero]);
        other.take(0, Way::Spread, &came);
        other.tell(false);
        giver.wait(TO, &mut came, Timestamp(1));
        assert_eq!(leaves(&mut giver, &mut pool), [0], "1 waits for what came with it");
        let mut came = batch([two]);
        other.take(0, Way::Spread, &came);
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
        let mut order = Order::new(0, Arc::new(Tickets::new(1)));
        let mut packets: Vec<_> = (0..3u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        packets.iter_mut().for_each(|packet| order.give(packet, 0));
        order.show();
        let mut copy = pool.packet(&[9; 60]).unwrap();
        copy.set_flow_mark(packets[1].flow_mark());
        let late = packets.remove(0);
        let mut others = batch(packets.into_iter().chain([copy]));
        order.wait(TO, &mut others, Timestamp(1));
        order.tell(false);
        assert_eq!(leaves(&mut order, &mut pool), [1, 9, 2]);
        let mut rest = batch([late, pool.packet(&[8; 60]).unwrap()]);
        order.wait(TO, &mut rest, Timestamp(1));
        assert_eq!(rest.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>(), [0, 8]);
        assert_eq!(order.late(), 1, "the other one has no number");
        // Nobody comes behind the last one.
        let mut last = pool.packet(&[7; 60]).unwrap();
        order.give(&mut last, 0);
        order.show();
        let copies: Vec<_> = (0..2).filter_map(|_| pool.copy(&last)).collect();
        let mark = last.flow_mark();
        let mut all = batch([last].into_iter().chain(copies).map(|mut packet| {
            packet.set_flow_mark(mark);
            packet
        }));
        order.wait(TO, &mut all, Timestamp(1));
        order.tell(false);
        assert_eq!(leaves(&mut order, &mut pool), [7, 7, 7]);
        assert!(!order.has_waiting());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let tickets = Arc::new(Tickets::new(2));
        let mut giver = Order::new(0, tickets);
        let mut packets: Vec<_> = (0..2u8).map(|n| pool.packet(&[n; 60]).unwrap()).collect();
        giver.give(&mut packets[0], 1);
        giver.give(&mut packets[1], 0);
        giver.show();
        let mut own = batch(packets.drain(1..));
        giver.wait(TO, &mut own, Timestamp(1));
        giver.tell(false);
        giver.look();
        let mut out = Batch::new();
        assert_eq!(giver.release(Timestamp(1) + LONGEST, false, &mut out), None);
        assert_eq!(giver.release(Timestamp(2) + LONGEST, false, &mut out), Some(TO));
        assert_eq!(out.drain().map(|packet| take(&mut pool, packet)).collect::<Vec<_>>(), [1]);
        pool.free(packets.remove(0));
    }
}
