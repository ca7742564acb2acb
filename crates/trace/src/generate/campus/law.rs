//! The law of the sizes of flows: many small flows, and few that have most of the packets.

use fastrand::Rng;

/// The properties of the sizes of a group of flows. The size of a flow is its number of packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The share of the flows that have a single packet.
    pub(super) single: f64,
    /// The median of the sizes of all flows.
    pub(super) median: f64,
    /// The mean of the sizes of all flows.
    pub(super) mean: f64,
    /// The size of the largest flow, divided by the number of flows.
    pub(super) largest: f64,
}

/// The sizes of a number of flows by their rank, 1 for the largest. Small flows follow a log-normal law.
/// The sizes of large flows fall with a power of their rank. The power is chosen such that the mean is as
/// requested, so that it is met with any number of flows.
#[derive(Debug, Clone)]
pub(super) struct Law {
    flows: u64,
    shape: Shape,
    /// The exponent of the power law by which the sizes of large flows fall with their rank.
    power: f64,
}

/// The standard deviation of the natural logarithm of the sizes of small flows.
const DEVIATION: f64 = 0.7;

/// The share of the flows, the largest ones, whose sizes fall with a power of their rank, unless the
/// log-normal law of small flows gives a larger size.
const LARGE: f64 = 0.4;

impl Law {
    pub(super) fn new(flows: u64, shape: Shape) -> Law {
        let mut law = Law { flows, shape, power: 0.5 };
        let (mut low, mut high) = (0.5, 8.0);
        let wanted = shape.mean * flows as f64;
        for _ in 0..50 {
            law.power = (low + high) / 2.0;
            match law.packets() > wanted {
                true => low = law.power,
                false => high = law.power,
            }
        }
        law
    }

    /// Returns the number of packets of the flow with this rank.
    pub(super) fn size(&self, rank: f64) -> f64 {
        let Shape { single, median, largest, .. } = self.shape;
        let flows = self.flows as f64;
        let share = rank / flows;
        if share > 1.0 - single {
            return 1.0;
        }
        // The last factor falls to 0 at the share `LARGE` of the ranks, so that only larger flows follow the
        // power of the rank.
        let tail = largest * flows * rank.powf(-self.power) * (1.0 - share / LARGE).max(0.0);
        // Flows of one packet are the smallest, so the median of all flows is a lower quantile, not the
        // median, of the flows with more than one packet.
        let among = |share: f64| quantile(1.0 - share / (1.0 - single));
        let small = median * (DEVIATION * (among(share) - among(0.5))).exp();
        tail.max(small).max(2.0).round()
    }

    /// Returns the sum of the numbers of packets of all flows, with an error of about one percent, because
    /// each flow of a group counts with the size at the middle rank of the group.
    pub(super) fn packets(&self) -> f64 {
        self.groups()
            .map(|(first, count)| self.size(first as f64 + (count - 1) as f64 / 2.0) * count as f64)
            .sum()
    }

    /// Returns groups of flows of similar size, each as its lowest rank and its number of flows.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        /// The number of flows of a group, divided by the lowest rank of the group. Below rank 2 divided by
        /// this share, each flow is a group of its own.
        const WIDTH: f64 = 0.05;
        let flows = self.flows;
        let mut next = 1;
        std::iter::from_fn(move || {
            let first = next;
            let count = ((first as f64 * WIDTH) as u64).max(1).min((flows + 1).checked_sub(first)?);
            next += count;
            (count > 0).then_some((first, count))
        })
    }
}

/// Returns the quantile of the normal law with mean 0 and standard deviation 1 for a probability, by Tukey's
/// lambda law. The error is at most 0.7 % for probabilities from 0.001 to 0.999; outside, the result is too
/// near to 0, by 10 % at a distance of 10^-6 from 0 or 1.
fn quantile(probability: f64) -> f64 {
    const LAMBDA: f64 = 0.135;
    let p = probability.clamp(1e-12, 1.0 - 1e-12);
    (p.powf(LAMBDA) - (1.0 - p).powf(LAMBDA)) / 0.1975
}

/// Draws from the exponential law with this mean.
pub(super) fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}
