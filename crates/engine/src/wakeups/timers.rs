//! The timers of one worker, and the order in which they run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use element::{ElementId, Precision, Timestamp};
use foldhash::fast::FixedState;

/// A timer: its element, and the token by which the element tells its timers apart.
pub(crate) type Key = (ElementId, u32);

/// Settings of timers, the earliest first: time, number of the setting, timer.
type Queue = BinaryHeap<Reverse<(Timestamp, u64, Key)>>;

/// Timers ordered by time. Of timers with equal times, exact timers run before coarse timers, and coarse
/// timers before background timers. Timers of one kind run in the order in which they were set.
pub(crate) struct Timers {
    exact: Queue,
    coarse: Queue,
    background: Queue,
    /// For each timer that is set, the number of its last setting. Entries of the queues with another
    /// number are out of date and are skipped. The hash is a fast one: there are several look-ups per
    /// timer, and no outsider can choose the keys.
    current: HashMap<Key, u64, FixedState>,
    settings: u64,
}

/// Allocates room for the timers of most graphs, so that setting a timer for the first time during a run
/// allocates nothing.
impl Default for Timers {
    fn default() -> Self {
        let [exact, coarse, background] = [64, 16, 16].map(Queue::with_capacity);
        let current = HashMap::with_capacity_and_hasher(64, FixedState::default());
        Timers { exact, coarse, background, current, settings: 0 }
    }
}

impl Timers {
    pub(crate) fn set(&mut self, key: Key, at: Option<(Timestamp, Precision)>) {
        match at {
            Some((at, precision)) => {
                self.settings += 1;
                self.current.insert(key, self.settings);
                let queue = match precision {
                    Precision::Exact => &mut self.exact,
                    Precision::Coarse => &mut self.coarse,
                    Precision::Background => &mut self.background,
                };
                queue.push(Reverse((at, self.settings, key)));
            }
            None => {
                self.current.remove(&key);
            }
        }
    }

    /// True if any timer of an element is set.
    pub(crate) fn is_waiting(&self, element: ElementId) -> bool {
        self.current.keys().any(|(of, _)| *of == element)
    }

    /// True if a timer may be due at the time `now`; entries that are out of date count, too. The check is
    /// cheap, because it is made after each task.
    #[inline]
    pub(crate) fn may_be_due(&self, now: Timestamp) -> bool {
        let is_due = |queue: &Queue| queue.peek().is_some_and(|Reverse((at, ..))| *at <= now);
        is_due(&self.exact) || is_due(&self.coarse) || is_due(&self.background)
    }

    /// Returns the time at which the next timer is due, or `None` if no timer is set.
    pub(crate) fn next(&mut self) -> Option<Timestamp> {
        self.first().into_iter().flatten().map(|(at, _)| at).min()
    }

    /// True if an exact or coarse timer is set. A run does not go on for background timers alone.
    pub(crate) fn keep_going(&mut self) -> bool {
        let [exact, coarse, _] = self.first();
        exact.or(coarse).is_some()
    }

    /// Returns the time at which a sleeping worker has to be awake. This is when the next coarse or
    /// background timer is due, or by `earlier` before the next exact timer is due. `None` if no timer is
    /// set.
    pub(crate) fn wake_up(&mut self, earlier: Timestamp) -> Option<Timestamp> {
        let [exact, others @ ..] = self.first();
        let exact = exact.map(|(at, _)| at - earlier);
        exact.into_iter().chain(others.into_iter().flatten().map(|(at, _)| at)).min()
    }

    /// Takes the next timer if it is due at the time `now`. Returns the time for which it was set, and the
    /// timer.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<(Timestamp, Key)> {
        let first = self.first().map(|next| next.map(|(at, _)| at));
        let at = first.into_iter().flatten().min()?;
        let queue = match first.iter().position(|next| *next == Some(at))? {
            0 => &mut self.exact,
            1 => &mut self.coarse,
            _ => &mut self.background,
        };
        if at > now {
            return None;
        }
        let Reverse((_, _, key)) = queue.pop()?;
        self.current.remove(&key);
        Some((at, key))
    }

    /// Returns the time and the number of the setting of the next timer in each queue: exact, coarse and
    /// background. Removes entries that are out of date.
    fn first(&mut self) -> [Option<(Timestamp, u64)>; 3] {
        let Timers { exact, coarse, background, current, .. } = self;
        [exact, coarse, background].map(|queue| {
            while let Some(Reverse((at, setting, key))) = queue.peek() {
                if current.get(key) == Some(setting) {
                    return Some((*at, *setting));
                }
                queue.pop();
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Precision::{Background, Coarse, Exact};

    #[test]
    fn timers_run_in_order_and_can_be_moved() {
        for [first, second] in [[Exact, Exact], [Exact, Coarse], [Coarse, Exact], [Coarse, Coarse]] {
            let mut timers = Timers::default();
            timers.set((1, 0), Some((Timestamp(30), second)));
            timers.set((2, 0), Some((Timestamp(20), first)));
            timers.set((3, 0), Some((Timestamp(20), second)));
            timers.set((4, 0), Some((Timestamp(20), first)));
            timers.set((1, 0), Some((Timestamp(10), first)));
            timers.set((2, 0), None);
            assert!(timers.is_waiting(1) && !timers.is_waiting(2));
            assert_eq!(timers.take(Timestamp(5)), None);
            assert_eq!(timers.take(Timestamp(50)), Some((Timestamp(10), (1, 0))));
            // Of timers with equal times, the exact one runs first, otherwise the one that was set first.
            let order = if (first, second) == (Exact, Coarse) { [4, 3] } else { [3, 4] };
            for element in order {
                assert_eq!(timers.take(Timestamp(50)), Some((Timestamp(20), (element, 0))));
            }
            assert_eq!(timers.take(Timestamp(50)), None);
            assert_eq!((timers.next(), timers.is_waiting(1)), (None, false));
        }
    }

    #[test]
    fn runs_go_on_for_timers_that_are_not_of_the_background() {
        let mut timers = Timers::default();
        timers.set((1, 0), Some((Timestamp(100), Background)));
        assert_eq!((timers.next(), timers.keep_going()), (Some(Timestamp(100)), false));
        timers.set((2, 0), Some((Timestamp(100), Coarse)));
        assert!(timers.keep_going());
        assert_eq!(timers.take(Timestamp(100)), Some((Timestamp(100), (2, 0))));
        assert_eq!(timers.take(Timestamp(100)), Some((Timestamp(100), (1, 0))));
        assert!(!timers.keep_going());
    }

    #[test]
    fn workers_wake_up_early_for_exact_timers_alone() {
        let (mut timers, earlier) = (Timers::default(), Timestamp(60));
        assert_eq!(timers.wake_up(earlier), None);
        timers.set((1, 0), Some((Timestamp(100), Coarse)));
        assert_eq!(timers.wake_up(earlier), Some(Timestamp(100)));
        timers.set((2, 0), Some((Timestamp(150), Exact)));
        assert_eq!(timers.wake_up(earlier), Some(Timestamp(90)));
        timers.set((1, 0), Some((Timestamp(80), Coarse)));
        assert_eq!((timers.wake_up(earlier), timers.next()), (Some(Timestamp(80)), Some(Timestamp(80))));
        assert!(!timers.may_be_due(Timestamp(79)) && timers.may_be_due(Timestamp(80)));
    }
}
