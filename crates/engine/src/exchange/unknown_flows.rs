//! Finds packets of unknown flows, where the packets of one flow are spread over workers.
//!
//! A packet that is spread, and whose flow no element's table has, is sent home. So it is handed over
//! twice, and looked up twice. If there are many such packets, as in a flood, they are sent to their home
//! at once. [`Known`] tells at low cost whether a flow is known, but the look-up is of no use while nearly
//! all flows are. So one window of packets in [`CYCLE`] is spread without look-ups, and the part of it that
//! is sent home decides whether packets of the other windows are looked up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::Packet;
use element::steering::{Known, flow_number};

/// The number of packets in a window: several times as many as may be under way.
const WINDOW: u64 = 4096;
/// The number of windows of a cycle, of which the first is spread without look-ups.
const CYCLE: u32 = 64;
/// The divisor of the limit: packets are looked up if more than one in this number is sent home.
const PART: u64 = 8;

/// The packets that a worker has counted while packets are spread. Other workers only read the counts.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Count {
    /// The packets that it has spread without look-ups.
    spread: AtomicU64,
    /// The packets that others have spread, and that it has sent home.
    home: AtomicU64,
}

/// The state of one worker, by which it decides whether to look packets up.
pub(crate) struct Unknown {
    me: usize,
    known: Arc<Known>,
    counts: Arc<[Count]>,
    /// The number of packets until the window ends.
    left: u64,
    /// The number of windows with look-ups until the next window without. 0 in a window without look-ups.
    looks: u32,
    /// The sums of all counts when the last window without look-ups began.
    began: [u64; 2],
}

impl Unknown {
    /// Makes the state of each worker.
    pub(crate) fn of_all(known: &Arc<Known>, workers: usize) -> impl Iterator<Item = Unknown> + use<> {
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

    /// True if the packets of a batch that is to be spread are to be looked up. Counts the packets.
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

    /// True if the flow of a packet may be known.
    #[inline]
    pub(crate) fn may_know(&self, packet: &Packet) -> bool {
        flow_number(packet, self.known.seed()).is_some_and(|number| self.known.has(number))
    }

    /// Counts packets that this worker sends home.
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

/// Adds to a number that no other thread writes.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the first of two workers spread `batches` batches, of which the other worker sends a part home.
    /// Returns the number of packets that were looked up.
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
        // At most the rest of a cycle.
        let behind = looked_at(&mut workers, 100_000, |_| 0);
        assert!(behind <= WINDOW * u64::from(CYCLE), "{behind}");
        assert_eq!(looked_at(&mut workers, 10_000, |_| 0), 0);
    }
}
