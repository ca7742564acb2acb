//! Timers of one worker.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use element::{ElementId, Timestamp};

/// Which timer of which element.
pub(crate) type Key = (ElementId, u32);

/// Timers ordered by time; equal times run in the order in which they were set.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Key)>>,
    /// The setting that counts; entries of the heap with another number are out of date.
    current: HashMap<Key, u64>,
    settings: u64,
}

/// With room for the timers of most graphs, so that one that is first set late allocates nothing.
impl Default for Timers {
    fn default() -> Self {
        Timers { heap: BinaryHeap::with_capacity(64), current: HashMap::with_capacity(64), settings: 0 }
    }
}

impl Timers {
    pub(crate) fn set(&mut self, key: Key, at: Option<Timestamp>) {
        match at {
            Some(at) => {
                self.settings += 1;
                self.current.insert(key, self.settings);
                self.heap.push(Reverse((at, self.settings, key)));
            }
            None => {
                self.current.remove(&key);
            }
        }
    }

    /// Whether an element waits for any timer.
    pub(crate) fn is_waiting(&self, element: ElementId) -> bool {
        self.current.keys().any(|(of, _)| *of == element)
    }

    /// When the next timer is due.
    pub(crate) fn next(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((at, setting, key))) = self.heap.peek() {
            if self.current.get(key) == Some(setting) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next timer if it is due by `now`.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<(Timestamp, Key)> {
        let at = self.next().filter(|&at| at <= now)?;
        let Reverse((_, _, key)) = self.heap.pop()?;
        self.current.remove(&key);
        Some((at, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_run_in_order_and_can_be_moved() {
        let mut timers = Timers::default();
        timers.set((1, 0), Some(Timestamp(30)));
        timers.set((2, 0), Some(Timestamp(20)));
        timers.set((3, 0), Some(Timestamp(20)));
        timers.set((1, 0), Some(Timestamp(10)));
        timers.set((2, 0), None);
        assert!(timers.is_waiting(1) && !timers.is_waiting(2));
        assert_eq!(timers.take(Timestamp(5)), None);
        assert_eq!(timers.take(Timestamp(50)), Some((Timestamp(10), (1, 0))));
        assert_eq!(timers.take(Timestamp(50)), Some((Timestamp(20), (3, 0))));
        assert_eq!(timers.take(Timestamp(50)), None);
    }
}
