//! Finds out whether several workers have come to rest: all are idle, and no packet is on its way between
//! them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters by which all workers note when they are idle, and how many packets they have exchanged by
/// then.
pub(crate) struct Quiet {
    seats: Vec<Seat>,
}

/// The counters of one worker, on cache lines of its own.
#[derive(Default)]
#[repr(align(64))]
struct Seat {
    /// The number of times that the worker has become idle or ceased to be idle. It is odd while the worker
    /// is idle.
    idle: AtomicU64,
    /// The number of packets that the worker had handed over to other workers when it last became idle. The
    /// field `taken` has the number of packets that it had taken from other workers until that time.
    handed: AtomicU64,
    taken: AtomicU64,
}

impl Quiet {
    /// Makes the counters for `workers` workers, none of which is idle.
    pub(crate) fn new(workers: usize) -> Quiet {
        Quiet { seats: (0..workers).map(|_| Seat::default()).collect() }
    }

    /// Notes that a worker is idle, and the numbers of packets that it has handed over and taken. True if
    /// the worker was not idle before; otherwise nothing changes.
    pub(crate) fn begin_idle(&self, me: usize, (handed, taken): (u64, u64)) -> bool {
        let seat = &self.seats[me];
        let begins = seat.idle.load(Ordering::Relaxed).is_multiple_of(2);
        if begins {
            seat.handed.store(handed, Ordering::SeqCst);
            seat.taken.store(taken, Ordering::SeqCst);
            seat.idle.fetch_add(1, Ordering::SeqCst);
        }
        begins
    }

    /// Notes that a worker is not idle any more. Must be called before the worker does any work.
    pub(crate) fn end_idle(&self, me: usize) {
        let seat = &self.seats[me];
        if !seat.idle.load(Ordering::Relaxed).is_multiple_of(2) {
            seat.idle.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// True if all workers are idle and no packet is on its way between them. A worker works only after it
    /// has called [`end_idle`](Self::end_idle). Suppose that all workers were idle for the whole time between
    /// two readings of their counts, and as many packets were taken as were handed over. Then no worker can
    /// get work from another worker any more.
    pub(crate) fn is_quiet(&self) -> bool {
        let all = || self.seats.iter().map(|seat| seat.idle.load(Ordering::SeqCst));
        let before: Vec<u64> = all().collect();
        let sum = |of: fn(&Seat) -> &AtomicU64| {
            self.seats.iter().map(|seat| of(seat).load(Ordering::SeqCst)).fold(0, u64::wrapping_add)
        };
        before.iter().all(|n| !n.is_multiple_of(2))
            && sum(|seat| &seat.handed) == sum(|seat| &seat.taken)
            && all().eq(before.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_quiet_when_all_are_idle_and_nothing_is_on_its_way() {
        let quiet = Quiet::new(2);
        quiet.begin_idle(0, (5, 0));
        assert!(!quiet.is_quiet(), "one works");
        quiet.begin_idle(1, (0, 4));
        assert!(!quiet.is_quiet(), "a packet is on its way");
        quiet.end_idle(1);
        assert!(quiet.begin_idle(1, (0, 5)) && !quiet.begin_idle(1, (0, 6)));
        assert!(quiet.is_quiet());
    }
}
