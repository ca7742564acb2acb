//! The law of the sizes of flows: many small flows, and few that have most of the packets.

use fastrand::Rng;

/// The properties of the sizes of a group of flows, all in packets.
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
    /// The power with which sizes fall with the rank.
    power: f64,
}

/// The standard deviation of the natural logarithm of the sizes of small flows.
const DEVIATION: f64 = 0.7;

/// The share of the flows whose sizes fall with a power of their rank, unless they are larger by the
/// log-normal law.
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
        // Only the larger flows follow the power of the rank.
        let tail = largest * flows * rank.powf(-self.power) * (1.0 - share / LARGE).max(0.0);
        // The median of all flows is a lower quantile of the flows with more than one packet.
        let among = |share: f64| quantile(1.0 - share / (1.0 - single));
        let small = median * (DEVIATION * (among(share) - among(0.5))).exp();
        tail.max(small).max(2.0).round()
    }

    /// Returns the number of packets of all flows, up to about one percent.
    pub(super) fn packets(&self) -> f64 {
        self.groups()
            .map(|(first, count)| self.size(first as f64 + (count - 1) as f64 / 2.0) * count as f64)
            .sum()
    }

    /// Returns groups of flows of similar size, each as its lowest rank and its number of flows.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        /// The number of ranks below which each flow is a group of its own is 1 divided by this share.
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

/// Returns the quantile of the normal law with mean 0 and deviation 1, up to 0.5 % (Tukey's lambda law).
fn quantile(probability: f64) -> f64 {
    const LAMBDA: f64 = 0.135;
    let p = probability.clamp(1e-12, 1.0 - 1e-12);
    (p.powf(LAMBDA) - (1.0 - p).powf(LAMBDA)) / 0.1975
}

/// Draws from the exponential law with this mean.
pub(super) fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}
