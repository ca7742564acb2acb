//! Bounds and measures the displacement of packets that are spread over workers where no order is kept: the
//! number of packets that overtake a packet.
//!
//! Each worker that spreads packets (the giver) numbers them. Rings keep their order, so a worker that has
//! processed a packet has processed all packets that it was given before. It publishes the number of the
//! last processed packet after each batch. So a giver knows the oldest packet that is not processed yet,
//! even if that packet's worker is stuck and its ring never fills. Sources that can wait do so when too
//! many packets have been spread after it, and spreading policies can leave a flow at the worker where its
//! packets still are ([`Waiting`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::Timestamp;
use element::steering::Waiting;

/// The number of regions that are remembered for each worker. If there are more, the last region grows.
/// Then a packet may be taken for older than it is, and never for newer.
const REGIONES: usize = 64;

/// A number that only one worker writes, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// The state that all workers share.
pub(crate) struct Board {
    /// For each giver and taker, the number of the last packet of the giver that the taker has processed.
    done: Vec<Line>,
    /// For each giver, the number of the last of its packets that any worker has processed.
    reached: Vec<Line>,
    /// For each worker, the largest number of packets by which a packet that it has processed was
    /// overtaken.
    largest: Vec<Line>,
    /// The number of givers that have spread too many packets after the oldest unprocessed packet. While
    /// there are any, all sources have to wait.
    stuck: Line,
}

impl Board {
    /// Makes the shared state of `workers` workers.
    pub(crate) fn new(workers: usize) -> Board {
        let lines = |count| (0..count).map(|_| Line::default()).collect();
        Board {
            done: lines(workers * workers),
            reached: lines(workers),
            largest: lines(workers),
            stuck: Line::default(),
        }
    }

    /// Returns the largest number of packets by which a packet was overtaken, at any worker.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.iter().map(|line| line.0.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    fn done(&self, giver: usize, taker: usize) -> Option<&AtomicU64> {
        self.done.get(giver * self.reached.len() + taker).map(|line| &line.0)
    }
}

/// Packets that a worker was given at once, by their numbers.
struct Region {
    first: u64,
    last: u64,
    /// The time at which they were given.
    at: Timestamp,
}

/// The state of one worker.
pub(crate) struct Displacement {
    me: usize,
    pub(crate) board: Arc<Board>,
    /// The number of the last packet that was spread.
    given: u64,
    /// The number of the last packet that has stayed at this worker.
    stayed: u64,
    /// For each worker, the packets that it has not processed yet, as far as is known.
    under_way: Vec<VecDeque<Region>>,
    /// True if a worker has packets that it has not processed.
    has_some: bool,
    /// The number of packets since the oldest unprocessed packet, including it; the number that is too
    /// large; and true if it is reached.
    span: u64,
    limit: u64,
    is_stuck: bool,
    /// The packets that are being processed: their giver, and the first and the last number.
    taken: Option<(usize, u64, u64)>,
    /// The largest number of packets by which a packet that was processed here was overtaken.
    pub(crate) largest: u64,
}

impl Displacement {
    /// Makes the state of one worker.
    fn new(me: usize, board: &Arc<Board>, limit: u64) -> Displacement {
        let workers = board.reached.len();
        Displacement {
            me,
            board: Arc::clone(board),
            given: 0,
            stayed: 0,
            under_way: (0..workers).map(|_| VecDeque::with_capacity(REGIONES)).collect(),
            has_some: false,
            span: 0,
            limit,
            is_stuck: false,
            taken: None,
            largest: 0,
        }
    }

    /// Makes the states of `workers` workers. Sources wait while `limit` or more packets have been spread
    /// since the oldest unprocessed packet.
    pub(crate) fn of_all(workers: usize, limit: u64) -> Vec<Displacement> {
        let board = Arc::new(Board::new(workers));
        (0..workers).map(|me| Displacement::new(me, &board, limit)).collect()
    }

    /// Returns the number of the last packet that was spread.
    #[inline]
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Counts packets that are spread. `stayed` is the number of the last of them that stays here, or 0.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, stayed: u64) {
        self.given += packets;
        self.stayed = self.stayed.max(stayed);
        if self.has_some {
            self.span += packets;
            self.judge();
        }
    }

    /// Publishes to all workers that sources have to wait, or may go on.
    #[inline]
    fn judge(&mut self) {
        let is_stuck = self.span >= self.limit;
        if is_stuck != self.is_stuck {
            self.is_stuck = is_stuck;
            match is_stuck {
                true => self.board.stuck.0.fetch_add(1, Ordering::Relaxed),
                false => self.board.stuck.0.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// True if too many packets were spread here after the oldest unprocessed packet.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// True if sources have to wait, at any worker: packets from the source of another worker may also come
    /// here and be spread.
    #[inline]
    pub(crate) fn holds_sources(&self) -> bool {
        self.board.stuck.0.load(Ordering::Relaxed) > 0
    }

    /// True if other workers had packets that were not processed at the last look.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some
    }

    /// Finds out which packets other workers have processed, and publishes the last of them.
    pub(crate) fn look(&mut self) {
        // Packets that stay here are processed before anything else is done.
        let (mut reached, mut oldest) = (self.stayed, self.given + 1);
        for (worker, regions) in self.under_way.iter_mut().enumerate() {
            let done = self.board.done(self.me, worker).map_or(0, |done| done.load(Ordering::Acquire));
            reached = reached.max(done);
            while regions.front().is_some_and(|region| region.last <= done) {
                regions.pop_front();
            }
            if let Some(region) = regions.front_mut() {
                region.first = region.first.max(done + 1);
                oldest = oldest.min(region.first);
            }
        }
        self.span = self.given + 1 - oldest;
        self.has_some = self.span > 0;
        self.judge();
        if let Some(line) = self.board.reached.get(self.me) {
            line.0.store(reached, Ordering::Relaxed);
        }
    }

    /// Writes the time since which packets wait for each worker.
    pub(crate) fn show(&self, waiting: &mut [Waiting]) {
        for (waiting, regions) in waiting.iter_mut().zip(&self.under_way) {
            waiting.since = regions.front().map(|region| region.at);
        }
    }

    /// Notes that a worker was given packets.
    pub(crate) fn give(&mut self, worker: usize, (first, last): (u64, u64), at: Timestamp) {
        let Some(regions) = self.under_way.get_mut(worker) else { return };
        let is_full = regions.len() >= REGIONES;
        match regions.back_mut() {
            Some(region) if is_full => region.last = last,
            _ => regions.push_back(Region { first, last, at }),
        }
        self.has_some = true;
        self.span = self.span.max(self.given + 1 - first);
    }

    /// Notes that packets of another worker are being processed.
    #[inline]
    pub(crate) fn take(&mut self, from: usize, (first, last): (u64, u64)) {
        self.taken = Some((from, first, last));
    }

    /// Publishes that the packets of the last [`take`](Self::take) have been processed.
    #[inline]
    pub(crate) fn end(&mut self) {
        let Some((from, first, last)) = self.taken.take() else { return };
        let reached = self.board.reached.get(from).map_or(0, |line| line.0.load(Ordering::Relaxed));
        let late = reached.saturating_sub(first);
        if late > self.largest {
            self.largest = late;
            self.board.largest.get(self.me).inspect(|line| line.0.store(late, Ordering::Relaxed));
        }
        if let Some(done) = self.board.done(from, self.me) {
            // Release: a thread that sees the number sees the effects of processing the packets.
            done.store(last, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(7);

    /// Gives the next packets to a worker.
    fn give(giver: &mut Displacement, worker: usize, packets: u64) {
        let (first, last) = (giver.given + 1, giver.given + packets);
        giver.look();
        let stays = worker == giver.me;
        giver.count(packets, if stays { last } else { 0 });
        if !stays {
            giver.give(worker, (first, last), AT);
        }
    }

    #[test]
    fn a_packet_that_stands_still_is_known_and_measured() {
        let mut all = Displacement::of_all(3, 300);
        give(&mut all[0], 1, 1);
        for _ in 0..10 {
            give(&mut all[0], 0, 32);
        }
        assert_eq!(all[0].span, 321);
        all[0].look();
        assert_eq!((all[0].span, all[0].has_some()), (321, true));
        // Sources at other workers wait too.
        assert!(all[0].is_stuck() && all.iter().all(Displacement::holds_sources));
        let mut waiting = [Waiting::default(); 3];
        all[0].show(&mut waiting);
        assert_eq!(waiting.map(|waiting| waiting.since), [None, Some(AT), None]);
        // The packet is taken, and is processed for a long time.
        all[1].take(0, (1, 1));
        all[0].look();
        assert_eq!(all[0].span, 321, "it is not dealt with");
        all[1].end();
        assert_eq!((all[1].largest, all[0].board.largest()), (320, 320));
        all[0].look();
        assert_eq!((all[0].span, all[0].has_some()), (0, false));
        assert!(!all[0].is_stuck() && !all.iter().any(Displacement::holds_sources));
    }

    #[test]
    fn more_regions_than_are_remembered_make_none_younger() {
        let mut all = Displacement::of_all(2, 300);
        for _ in 0..1_000 {
            give(&mut all[0], 1, 1);
            give(&mut all[0], 0, 1);
        }
        all[0].look();
        assert_eq!(all[0].span, 2_000);
        for done in (1..2_000).step_by(2) {
            all[1].take(0, (done, done));
            all[1].end();
            all[0].look();
            let exact = if done == 1_999 { 0 } else { 2_000 - done - 1 };
            assert!((exact..=exact + 1).contains(&all[0].span), "{done}: {}", all[0].span);
        }
    }
}
