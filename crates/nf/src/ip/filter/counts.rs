//! The counts of rules: for each rule of a list, the number of packets about which it decided.

use std::mem;

/// The number of counts from before a reload that are added to the new counts with each batch. There can be
/// thousands of counts; to add all at once would delay a batch.
const PER_BATCH: usize = 64;

/// The number of packets about which each rule of a list has decided, by the rule's index. The last count is
/// the number of packets that matched no rule.
#[derive(Default)]
pub(super) struct RuleCounts {
    counts: Vec<u64>,
    /// Counts from before a reload that have not all been added to `counts`.
    old: Option<OldCounts>,
}

/// The counts that a list of rules had before a reload. The present list has some of these rules at its start
/// or at its end.
struct OldCounts {
    counts: Vec<u64>,
    /// The number of rules at the start, and the number of counts at the end (rules, and the count of packets
    /// that matched no rule), that are the same in the old and the present list. Only their counts are added.
    in_common: [usize; 2],
    /// The index in `counts` of the first old count that has not been added to the present counts yet.
    next: usize,
}

impl OldCounts {
    /// Returns the old count of the rule with the index `rule` in the present list, if this count has not
    /// been added to the present counts yet; otherwise 0. `rules` is the number of counts of the present
    /// list.
    fn left(&self, rule: usize, rules: usize) -> u64 {
        let [start, end] = self.in_common;
        let index = match rule {
            rule if rule < start => Some(rule),
            rule if rule + end >= rules => (rule + self.counts.len()).checked_sub(rules),
            _ => None,
        };
        let index = index.filter(|&index| index >= self.next);
        index.and_then(|index| self.counts.get(index)).copied().unwrap_or(0)
    }
}

impl RuleCounts {
    /// Makes the counts of `rules` rules, and of packets that match none of them.
    pub(super) fn new(rules: usize) -> RuleCounts {
        RuleCounts { counts: vec![0; rules + 1], old: None }
    }

    /// Counts a packet about which a rule has decided.
    #[inline]
    pub(super) fn count(&mut self, rule: usize) {
        self.add(rule, 1);
    }

    /// Counts packets about which a rule has decided.
    #[inline]
    pub(super) fn add(&mut self, rule: usize, packets: u64) {
        if let Some(count) = self.counts.get_mut(rule) {
            *count += packets;
        }
    }

    /// Returns the counts of all rules, in order, and of packets that matched no rule.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let rules = self.counts.len();
        let old = move |rule| self.old.as_ref().map_or(0, |old| old.left(rule, rules));
        self.counts.iter().enumerate().map(move |(rule, count)| count + old(rule))
    }

    /// Sets all counts to zero.
    pub(super) fn reset(&mut self) {
        self.counts.fill(0);
        self.old = None;
    }

    /// Takes all counts out, for the element that replaces this one in a reload. Packets that are counted
    /// here afterwards are lost.
    pub(super) fn take(&mut self) -> RuleCounts {
        mem::take(self)
    }

    /// Continues with the counts that a list of rules had before a reload. `start` and `end` are the numbers
    /// of rules at the start and at the end that are equal in both lists. The old counts are added later, by
    /// [`catch_up`](Self::catch_up).
    pub(super) fn go_on(&mut self, mut old: RuleCounts, [start, end]: [usize; 2]) {
        while old.is_behind() {
            old.catch_up();
        }
        // The last count, of the packets that matched no rule, continues too: it counts as one more common
        // rule at the end of both lists.
        self.old = Some(OldCounts { counts: old.counts, in_common: [start, end + 1], next: 0 });
    }

    /// True if counts from before a reload are still to be added.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.old.is_some()
    }

    /// Adds up to [`PER_BATCH`] counts from before a reload to the present counts. When no old count is left
    /// to add, returns the memory of the old counts, so that the caller can dispose of it.
    #[cold]
    pub(super) fn catch_up(&mut self) -> Option<Vec<u64>> {
        let mut old = self.old.take()?;
        let [start, end] = old.in_common;
        let len = old.counts.len();
        for _ in 0..PER_BATCH {
            if old.next == start {
                old.next = len.saturating_sub(end).max(start);
            }
            let Some(&count) = old.counts.get(old.next) else { return Some(old.counts) };
            let rule = if old.next < start { old.next } else { self.counts.len() + old.next - len };
            self.add(rule, count);
            old.next += 1;
        }
        self.old = Some(old);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of a list in which rule N has decided about `first` + N packets.
    fn counts(rules: usize, first: u64) -> RuleCounts {
        let mut counts = RuleCounts::new(rules);
        (0..=rules).for_each(|rule| counts.add(rule, first + rule as u64));
        counts
    }

    #[test]
    fn counts_are_complete_at_any_time_after_a_reload() {
        for (rules, old, start, end) in [
            (200, 200, 200, 0),
            (201, 200, 0, 200),
            (150, 300, 100, 50),
            (3, 0, 0, 0),
            (0, 200, 0, 0),
            (130, 131, 0, 0),
        ] {
            let mut new = RuleCounts::new(rules);
            new.go_on(counts(old, 5), [start, end]);
            new.count(rules);
            let expected = |rule: usize| match rule {
                rule if rule < start => 5 + rule as u64,
                rule if rule + end >= rules => 5 + (rule + old - rules) as u64 + u64::from(rule == rules),
                _ => 0,
            };
            let mut steps = 0;
            loop {
                assert!(new.iter().eq((0..=rules).map(expected)), "{rules} {old} after {steps} steps");
                if !new.is_behind() {
                    break;
                }
                new.catch_up();
                steps += 1;
            }
            assert!(steps >= (start + end + 1) / PER_BATCH, "{steps}");
        }
    }

    #[test]
    fn a_reload_before_all_counts_have_been_added_loses_none() {
        let mut second = RuleCounts::new(300);
        second.go_on(counts(300, 1), [300, 0]);
        second.catch_up();
        let mut third = RuleCounts::new(301);
        third.go_on(second.take(), [0, 300]);
        let expected = std::iter::once(0).chain((0..=300).map(|rule| rule + 1));
        assert!(third.iter().eq(expected));
        third.reset();
        assert!(third.iter().all(|count| count == 0));
        assert!(!third.is_behind());
    }
}
