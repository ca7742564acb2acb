//! Bounds and measures displacement: the number of packets that overtake a packet. It is for runs that spread
//! the packets of one flow over workers and keep no order.
//!
//! Each worker that spreads packets (the giver) numbers them. Rings keep their order, so a worker that has
//! processed a packet has processed all earlier packets of the same giver that it was given. After each batch
//! it publishes the number of the last packet that it has processed. So a giver knows its oldest packet that
//! is not processed yet. It knows it even if the worker of that packet is stuck and its ring never fills.
//! When too many packets have been spread after this oldest packet, sources that can wait do so. Spreading
//! policies can also leave a flow at the worker where its packets still are ([`Outstanding`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::Timestamp;
use element::steering::Outstanding;

/// The number of regions (ranges of packet numbers) that a worker remembers of the packets that it has spread
/// to one other worker. If there are more, the last region is extended. Its packets then count as given at
/// the time of its first packet. So they may be taken for older than they are, never for newer.
const REGIONS: usize = 64;

/// A number on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// The counts of packets that all workers share. Each number is written by one worker, except `stuck`.
pub(crate) struct Board {
    /// For each giver and taker, the number of the last packet of the giver that the taker has processed. A
    /// giver spreads packets, and a taker processes them.
    done: Vec<Line>,
    /// For each giver (a worker that spreads packets), the largest number of its packets that any worker has
    /// processed.
    reached: Vec<Line>,
    /// For each worker, the largest number of packets by which a packet that it has processed was
    /// overtaken.
    largest: Vec<Line>,
    /// The number of workers that have spread too many packets since their oldest unprocessed packet. While
    /// it is not 0, all sources that can wait do so.
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

/// A range of packet numbers that holds all packets which a worker was given in one call, or in several calls
/// if [`REGIONS`] were exceeded. Other packets with numbers in the range may have gone to other workers.
struct Region {
    first: u64,
    last: u64,
    /// The time at which the worker was given the first of the packets.
    at: Timestamp,
}

/// The displacement as one worker sees it: as the giver of the packets that it spreads, and as the taker of
/// the packets that it processes.
pub(crate) struct Displacement {
    me: usize,
    pub(crate) board: Arc<Board>,
    /// The number of the last packet that this worker has spread.
    given: u64,
    /// The number of the last spread packet that this worker has kept for itself.
    stayed: u64,
    /// For each worker, the packets that this worker has given to that worker and that, as far as this worker
    /// knows, are not processed yet.
    under_way: Vec<VecDeque<Region>>,
    /// True if, at the last look, any worker had not processed all packets that this worker has given to it,
    /// or if packets were given since.
    has_some: bool,
    /// `span` is the number of packets that this worker has spread since its oldest unprocessed packet,
    /// including that packet. `limit` is the value of `span` from which on sources have to wait, and
    /// `is_stuck` is true if it is reached.
    span: u64,
    limit: u64,
    is_stuck: bool,
    /// The packets of another worker that this worker is processing: their giver, and their first and last
    /// number.
    taken: Option<(usize, u64, u64)>,
    /// The largest number of packets by which a packet that this worker has processed was overtaken.
    pub(crate) largest: u64,
}

impl Displacement {
    fn new(me: usize, board: &Arc<Board>, limit: u64) -> Displacement {
        let workers = board.reached.len();
        Displacement {
            me,
            board: Arc::clone(board),
            given: 0,
            stayed: 0,
            under_way: (0..workers).map(|_| VecDeque::with_capacity(REGIONS)).collect(),
            has_some: false,
            span: 0,
            limit,
            is_stuck: false,
            taken: None,
            largest: 0,
        }
    }

    /// Makes the states of `workers` workers. Sources wait while a worker has spread `limit` or more packets
    /// since its oldest unprocessed packet.
    pub(crate) fn of_all(workers: usize, limit: u64) -> Vec<Displacement> {
        let board = Arc::new(Board::new(workers));
        (0..workers).map(|me| Displacement::new(me, &board, limit)).collect()
    }

    /// Returns the number of the last packet that this worker has spread.
    #[inline]
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Counts packets that this worker is about to spread. `stayed` is the number of the last of them that
    /// stays at this worker, or 0 if none stays.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, stayed: u64) {
        self.given += packets;
        self.stayed = self.stayed.max(stayed);
        if self.has_some {
            self.span += packets;
            self.judge();
        }
    }

    /// Compares `span` with the limit, and publishes to all workers if sources have to wait, or may go on.
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

    /// True if this worker has spread too many packets since its oldest unprocessed packet.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// True if sources have to wait, because any worker has spread too many packets since its oldest
    /// unprocessed packet. The sources of all workers wait, because their packets may come to that worker and
    /// be spread.
    #[inline]
    pub(crate) fn holds_sources(&self) -> bool {
        self.board.stuck.0.load(Ordering::Relaxed) > 0
    }

    /// True if, at the last look, other workers had not processed all packets that this worker has spread, or
    /// if packets were given since.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some
    }

    /// Reads up to which number each other worker has processed the packets that this worker has spread.
    /// Updates `span`, which counts from the oldest of them that is not processed, and publishes the largest
    /// number of those that any worker, including this one, has processed.
    pub(crate) fn look(&mut self) {
        // Packets that stay at this worker are processed before the next call of this function, so they count
        // as processed.
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

    /// Writes, for each worker, the time at which this worker has given it the oldest packet that it has not
    /// processed yet. `None` if there is no such packet.
    pub(crate) fn show(&self, waiting: &mut [Outstanding]) {
        for (waiting, regions) in waiting.iter_mut().zip(&self.under_way) {
            waiting.since = regions.front().map(|region| region.at);
        }
    }

    /// Notes that a worker was given the packets with these numbers at the time `at`.
    pub(crate) fn give(&mut self, worker: usize, (first, last): (u64, u64), at: Timestamp) {
        let Some(regions) = self.under_way.get_mut(worker) else { return };
        let is_full = regions.len() >= REGIONS;
        match regions.back_mut() {
            Some(region) if is_full => region.last = last,
            _ => regions.push_back(Region { first, last, at }),
        }
        self.has_some = true;
        self.span = self.span.max(self.given + 1 - first);
    }

    /// Notes that this worker begins to process packets with these numbers, which the worker `from` has
    /// given to it.
    #[inline]
    pub(crate) fn take(&mut self, from: usize, (first, last): (u64, u64)) {
        self.taken = Some((from, first, last));
    }

    /// Publishes that the packets of the last [`take`](Self::take) have been processed. Measures an upper
    /// bound of the number of packets that have overtaken the first of them.
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

    /// Lets `giver` spread the next `packets` packets, all to one worker.
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
        // The limit of 300 packets is reached, so sources at all workers wait.
        assert!(all[0].is_stuck() && all.iter().all(Displacement::holds_sources));
        let mut waiting = [Outstanding::default(); 3];
        all[0].show(&mut waiting);
        assert_eq!(waiting.map(|waiting| waiting.since), [None, Some(AT), None]);
        // The other worker takes the packet out of the ring, but has not finished it.
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
