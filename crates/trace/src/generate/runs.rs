//! The schedule of a generated trace: the flow of each run.

use fastrand::Rng;

/// Assigns a flow to each run, so that two runs of the same flow do not follow each other while another flow
/// has runs left.
///
/// The number of runs of each flow is fixed in advance: one, plus its share of the remaining runs by Zipf's
/// law. With several flows, no flow has more than half of all runs (rounded up). The next flow is drawn at
/// random from the flows other than the last one. The probability of a flow is proportional to the number of
/// its remaining runs. But a flow with more than half of the remaining runs comes next, unless it was the
/// last one. A Fenwick tree finds the drawn flow in logarithmic time.
pub(super) struct Runs {
    /// A table by flow: the number of runs that remain.
    left: Vec<u64>,
    /// Sums of ranges of `left`, as a Fenwick tree. Index 0 is not used.
    sums: Vec<u64>,
    /// Maxima of ranges of `left`, as a binary tree in an array. Index 1 has the maximum of all flows;
    /// indices 2n and 2n + 1 have the maxima of the two halves of the range at index n.
    most: Vec<u64>,
    total: u64,
    last: Option<usize>,
}

impl Runs {
    /// Distributes `runs` runs over `flows` flows by Zipf's law with exponent `zipf`. Requires 1 <= `flows`
    /// <= `runs`.
    pub(super) fn new(flows: usize, runs: u64, zipf: f64) -> Runs {
        let left = shares(flows, runs, zipf);
        let mut sums = vec![0; flows + 1];
        for (place, &count) in (1..).zip(&left) {
            sums[place] += count;
            let parent = place + (place & place.wrapping_neg());
            if parent <= flows {
                let sum = sums[place];
                sums[parent] += sum;
            }
        }
        let width = flows.next_power_of_two();
        let mut most = vec![0; 2 * width];
        most[width..width + flows].copy_from_slice(&left);
        for place in (1..width).rev() {
            most[place] = most[2 * place].max(most[2 * place + 1]);
        }
        Runs { left, sums, most, total: runs, last: None }
    }

    /// Draws the flow of the next run and removes the run from the schedule. `None` after the last run.
    pub(super) fn next(&mut self, random: &mut Rng) -> Option<usize> {
        if self.total == 0 {
            return None;
        }
        let flow = self.draw(random);
        self.left[flow] -= 1;
        self.total -= 1;
        self.last = Some(flow);
        let mut place = flow + 1;
        while let Some(sum) = self.sums.get_mut(place) {
            *sum -= 1;
            place += place & place.wrapping_neg();
        }
        let mut place = self.most.len() / 2 + flow;
        self.most[place] -= 1;
        while place > 1 {
            place /= 2;
            self.most[place] = self.most[2 * place].max(self.most[2 * place + 1]);
        }
        Some(flow)
    }

    /// True if runs of this flow remain.
    pub(super) fn has_more(&self, flow: usize) -> bool {
        self.left.get(flow).is_some_and(|left| *left > 0)
    }

    fn draw(&self, random: &mut Rng) -> usize {
        // A flow that has more remaining runs than all others together must be next. Otherwise two of its
        // runs would follow each other at the end.
        if let Some(flow) = self.dominant()
            && self.last != Some(flow)
        {
            return flow;
        }
        let (before, own) = match self.last {
            Some(last) => (self.sum_before(last), self.left[last]),
            None => (0, 0),
        };
        if own == self.total {
            // Only the last flow has runs left, so its next run follows its last one, and both become one
            // run.
            return self.last.unwrap_or(0);
        }
        let drawn = random.u64(..self.total - own);
        self.find(if drawn < before { drawn } else { drawn + own })
    }

    /// Returns the flow that has more remaining runs than all other flows together; `None` if there is
    /// none.
    fn dominant(&self) -> Option<usize> {
        let most = self.most[1];
        if most <= self.total - most {
            return None;
        }
        let width = self.most.len() / 2;
        let mut place = 1;
        while place < width {
            place *= 2;
            place += usize::from(self.most[place] < most);
        }
        Some(place - width)
    }

    /// Returns the number of remaining runs of all flows with a smaller index than `flow`.
    fn sum_before(&self, flow: usize) -> u64 {
        let (mut place, mut sum) = (flow, 0);
        while place > 0 {
            sum += self.sums[place];
            place &= place - 1;
        }
        sum
    }

    /// Returns the first flow for which the sum of remaining runs, up to and including this flow, exceeds
    /// `target`.
    fn find(&self, mut target: u64) -> usize {
        let mut place = 0;
        let mut step = self.left.len().next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.sums.get(place + step)
                && sum <= target
            {
                place += step;
                target -= sum;
            }
            step /= 2;
        }
        place.min(self.left.len() - 1)
    }
}

/// Returns the number of runs of each flow, by falling share; rounding can exchange neighbours that differ by
/// one run. With several flows, no flow has more than half of all runs (rounded up), because its runs could
/// not be kept apart.
fn shares(flows: usize, runs: u64, zipf: f64) -> Vec<u64> {
    let weight = |rank: usize| ((rank + 1) as f64).powf(-zipf);
    let all: f64 = (0..flows).map(weight).sum();
    let spare = (runs - flows as u64) as f64;
    let most = runs.div_ceil(2);
    // The cumulated shares are rounded, not each share, so that the sum of the rounded shares is right.
    let (mut sum, mut given, mut excess) = (0.0, 0u64, 0u64);
    let mut left = Vec::with_capacity(flows);
    for rank in 0..flows {
        sum += weight(rank);
        let until = if rank + 1 == flows { spare } else { (spare * sum / all).min(spare) };
        let share = (until.round() as u64).saturating_sub(given);
        given += share;
        let wanted = 1 + share + excess;
        // Runs above the limit of a flow go to the next flow.
        let count = if flows > 1 { wanted.min(most) } else { wanted };
        excess = wanted - count;
        left.push(count);
    }
    // Runs may be left, because the last flows have reached the limit. They go to earlier flows, backwards,
    // each of which takes runs up to the limit.
    for count in left.iter_mut().rev() {
        let more = excess.min(most.saturating_sub(*count));
        *count += more;
        excess -= more;
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(flows: usize, more: u64, zipf: f64, seed: u64) {
        let runs = flows as u64 + more;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut schedule = Runs::new(flows, runs, zipf);
        let wanted = schedule.left.clone();
        assert_eq!(wanted.iter().sum::<u64>(), runs);
        assert!(wanted.iter().all(|count| (1..=runs.div_ceil(2)).contains(count)));
        let order: Vec<usize> = std::iter::from_fn(|| schedule.next(&mut random)).collect();
        for (flow, wanted) in wanted.iter().enumerate() {
            assert_eq!(order.iter().filter(|other| **other == flow).count() as u64, *wanted);
        }
        let merged = order.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(merged <= 1, "{merged} runs follow another of their flow");
    }

    proptest! {
        #[test]
        fn all_runs_are_given_out_and_none_follows_itself(
            flows in 2usize..60, more in 0u64..500, zipf in 0.0f64..3.0, seed: u64,
        ) {
            check(flows, more, zipf, seed);
        }
    }

    #[test]
    fn any_flow_may_have_the_most_in_the_end() {
        // A schedule in which the flow with the most remaining runs at the end is not one of the first
        // flows.
        check(34, 338, 0.36414253364418797, 11869746169257562263);
    }

    #[test]
    fn zipf_by_hand() {
        // Of 1103 runs, each flow gets one first. By the Zipf weights 1, 1/2 and 1/3, divided by their sum
        // 11/6, the other 1100 runs are shared as 600, 300 and 200. No flow may have more than half of all
        // runs, so 49 runs of the first flow go to the second flow.
        assert_eq!(shares(3, 1103, 1.0), [552, 350, 201]);
        assert_eq!(shares(4, 4004, 0.0), [1001; 4]);
        assert_eq!(shares(2, 10, 3.0), [5, 5]);
        assert_eq!(shares(1, 1, 1.0), [1]);
    }
}
