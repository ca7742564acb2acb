//! Recognises packets of unknown flows where the packets of one flow are spread over workers.
//!
//! If a packet is spread and no element's table has its flow, it is sent home, to the worker that owns the
//! flow. So it is handed over twice, and looked up twice. If there are many such packets, as in a flood, each
//! is sent home at once instead. [`KnownFlows`] tells at low cost whether a flow is known, but this look-up
//! is wasted while nearly all flows are known. So packets are spread without look-ups, window by window,
//! until many packets of a window are sent home. Then the packets of the next windows are looked up, and one
//! window in [`CYCLE`] is again spread without look-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::Packet;
use element::steering::{KnownFlows, flow_number};

/// The number of packets in a window. For each window of the packets that it spreads, a worker decides if it
/// looks up their flows.
const WINDOW: u64 = 4096;
/// The number of windows in a cycle: one window that is spread without look-ups, and the windows with
/// look-ups after it.
const CYCLE: u32 = 64;
/// The divisor of the limit above which look-ups begin. The packets of the next windows are looked up if more
/// than 1/8 of the packets that were spread in a window without look-ups were sent home.
const PART: u64 = 8;

/// The packet counters of one worker, from which all workers decide about look-ups of flows. Other workers
/// only read them.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Count {
    /// The number of packets that this worker has spread without look-ups.
    spread: AtomicU64,
    /// The number of packets that were spread to this worker and that it has sent home, to the workers that
    /// own their flows.
    home: AtomicU64,
}

/// The state by which one worker decides whether it looks up the flows of the packets that it is about to
/// spread over the workers.
pub(crate) struct Unknown {
    me: usize,
    known: Arc<KnownFlows>,
    counts: Arc<[Count]>,
    /// The number of packets until the current window ends. Within a window, this worker looks up the flows
    /// of all packets that it spreads, or of none.
    left: u64,
    /// The number of windows ([`WINDOW`]) with look-ups until the next window without look-ups. 0 in a window
    /// without look-ups.
    looks: u32,
    /// The sums over all workers of the packets that were spread without look-ups, and of the packets that
    /// were sent home, when the last window without look-ups began.
    began: [u64; 2],
}

impl Unknown {
    /// Makes one state per worker, for `workers` workers, which all read each other's counts.
    pub(crate) fn of_all(known: &Arc<KnownFlows>, workers: usize) -> impl Iterator<Item = Unknown> + use<> {
        let counts: Arc<[Count]> = (0..workers).map(|_| Count::default()).collect();
        let known = Arc::clone(known);
        (0..workers).map(move |me| Unknown {
            me,
            known: Arc::clone(&known),
            counts: Arc::clone(&counts),
            left: WINDOW,
            looks: 0,
            began: [0; 2],
        })
    }

    /// True if the packets of a batch that is about to be spread are to be looked up with
    /// [`may_know`](Self::may_know). Counts the packets towards the end of the current window ([`WINDOW`]).
    #[inline]
    pub(crate) fn looks(&mut self, packets: usize) -> bool {
        let packets = packets as u64;
        let looks = self.looks > 0;
        if !looks {
            add(&self.counts[self.me].spread, packets);
        }
        match self.left.checked_sub(packets) {
            Some(left) => self.left = left,
            None => self.turn(),
        }
        looks
    }

    /// True if the flow of a packet may be in a table of a worker. False if it is certainly unknown, or the
    /// packet has no flow.
    #[inline]
    pub(crate) fn may_know(&self, packet: &Packet) -> bool {
        flow_number(packet, self.known.seed()).is_some_and(|number| self.known.has(number))
    }

    /// Counts packets that were spread to this worker, and that it sends home, to the workers that own their
    /// flows.
    pub(crate) fn send_home(&self, packets: u64) {
        add(&self.counts[self.me].home, packets);
    }

    #[cold]
    fn turn(&mut self) {
        self.left = WINDOW;
        if self.looks > 0 {
            self.looks -= 1;
            if self.looks == 0 {
                self.began = self.sums();
            }
            return;
        }
        let [spread, home] = self.sums();
        let (spread, home) = (spread - self.began[0], home - self.began[1]);
        self.began = [self.began[0] + spread, self.began[1] + home];
        if home.saturating_mul(PART) > spread {
            self.looks = CYCLE - 1;
        }
    }

    fn sums(&self) -> [u64; 2] {
        let sum = |of: fn(&Count) -> &AtomicU64| {
            self.counts.iter().map(|count| of(count).load(Ordering::Relaxed)).sum()
        };
        [sum(|count| &count.spread), sum(|count| &count.home)]
    }
}

/// Adds `more` to a counter. Only this thread writes the counter, so a load and a store are enough.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the first of two workers spread `batches` batches of 32 packets. Of each batch without look-ups,
    /// the other worker sends `home(batch)` packets to the workers that own their flows. Returns the number
    /// of packets that were looked up.
    fn looked_at(workers: &mut [Unknown], batches: u64, home: impl Fn(u64) -> u64) -> u64 {
        let mut looked_at = 0;
        for batch in 0..batches {
            if workers[0].looks(32) {
                looked_at += 32;
            } else {
                workers[1].send_home(home(batch));
            }
        }
        looked_at
    }

    #[test]
    fn packets_are_looked_at_while_many_come_home() {
        let mut workers: Vec<_> = Unknown::of_all(&Arc::default(), 2).collect();
        assert_eq!(looked_at(&mut workers, 10_000, |_| 0), 0);
        assert_eq!(looked_at(&mut workers, 10_000, |batch| u64::from(batch % 10 == 0)), 0);
        let share = |workers: &mut _, home| looked_at(workers, 100_000, home) as f64 / 3_200_000.0;
        let in_flood = share(&mut workers, |_| 32);
        assert!((0.97..0.99).contains(&in_flood), "{in_flood}");
        // Once no packets are sent home any more, look-ups go on until the current cycle ends.
        let behind = looked_at(&mut workers, 100_000, |_| 0);
        assert!(behind <= WINDOW * u64::from(CYCLE), "{behind}");
        assert_eq!(looked_at(&mut workers, 10_000, |_| 0), 0);
    }
}
