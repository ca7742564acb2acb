//! Approximate packet counts of flows, in memory that does not grow with the number of flows.
//!
//! The data structure is a count-min sketch with conservative update (Estan and Varghese, "New directions
//! in traffic measurement and accounting", 2002). It is divided into blocks of one cache line: all four
//! counters of a flow lie in one line (as in blocked Bloom filters), so that counting a packet accesses one
//! line. The estimate for a flow is the lowest of its four counters. Until [`Sketch::halve`] is called, the
//! estimate is never too low. It can be too high only if each of the four counters is shared with another
//! flow. The test `heavy_flows_are_found` measures the share of packets that are wrongly taken for packets
//! of heavy flows, and docs/reframer.md gives the results.

use crate::bucket::position;

/// The number of counters in a cache line.
const COUNTERS: usize = 16;
/// The number of counters of a flow, all in one line. The hash of a flow may choose the same counter more
/// than once.
const ROWS: u32 = 4;

#[derive(Clone)]
#[repr(align(64))]
struct Line([u32; COUNTERS]);

/// A count-min sketch of packets per flow; a flow is given by its hash.
pub struct Sketch {
    lines: Vec<Line>,
}

impl Sketch {
    /// Makes a sketch of `lines` cache lines of 64 bytes each; 0 is taken as 1. All counts are 0.
    pub fn new(lines: usize) -> Sketch {
        Sketch { lines: vec![Line([0; COUNTERS]); lines.max(1)] }
    }

    /// Counts a packet of the flow with this hash. Returns the estimated number of packets of the flow,
    /// including this packet.
    #[inline]
    pub fn add(&mut self, hash: u32) -> u32 {
        let place = position(hash, self.lines.len());
        let Some(Line(counters)) = self.lines.get_mut(place) else { return 0 };
        // The upper bits of the hash have chosen the line. Multiplication carries the lower bits into the
        // upper half, of which four bits each choose one counter.
        let choices = hash.wrapping_mul(0x9e37_79b9) >> 16;
        let chosen = |row: u32| (choices >> (4 * row)) as usize % COUNTERS;
        let least = (0..ROWS).map(|row| counters[chosen(row)]).min().unwrap_or(0);
        let count = least.saturating_add(1);
        for row in 0..ROWS {
            let counter = &mut counters[chosen(row)];
            *counter = (*counter).max(count);
        }
        count
    }

    /// Divides all counts by two to the power of `times`, rounded down, so that old packets have less
    /// weight than new packets.
    pub fn halve(&mut self, times: u32) {
        for Line(counters) in &mut self.lines {
            counters.iter_mut().for_each(|counter| *counter = counter.checked_shr(times).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_never_too_low(hashes in proptest::collection::vec(0u32..50, 0..400), lines in 1usize..4) {
            let (mut sketch, mut exact) = (Sketch::new(lines), HashMap::new());
            for hash in hashes {
                let hash = hash.wrapping_mul(0x85eb_ca6b);
                let count = exact.entry(hash).or_insert(0);
                *count += 1;
                prop_assert!(sketch.add(hash) >= *count);
            }
        }
    }

    #[test]
    fn halving_forgets() {
        let mut sketch = Sketch::new(8);
        (0..9).for_each(|_| _ = sketch.add(7));
        sketch.halve(1);
        assert_eq!(sketch.add(7), 5);
        sketch.halve(2);
        assert_eq!(sketch.add(7), 2);
        sketch.halve(u32::MAX);
        assert_eq!(sketch.add(7), 1);
    }

    /// Sends packets of Zipf-distributed flows, as in real traffic, through a sketch. Packets from a flow's
    /// 100th on must all be recognised as heavy. The share of packets that are wrongly taken for heavy must
    /// stay below a limit.
    #[test]
    fn heavy_flows_are_found() {
        let mut random = fastrand::Rng::with_seed(1);
        for (flows, lines, most_wrong) in [(10_000u32, 4096, 0.0001), (100_000, 4096, 0.01)] {
            let weights: Vec<f64> = (1..=flows).map(|rank| 1.0 / f64::from(rank)).collect();
            let total: f64 = weights.iter().sum();
            let mut sums = Vec::new();
            weights.iter().fold(0.0, |sum, weight| {
                sums.push(sum + weight / total);
                sum + weight / total
            });
            let (mut sketch, mut exact) = (Sketch::new(lines), HashMap::new());
            let (mut wrong, packets) = (0, 1_000_000);
            for _ in 0..packets {
                let flow = sums.partition_point(|&sum| sum < random.f64()) as u32;
                let hash = (u64::from(flow) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29;
                let count = exact.entry(flow).or_insert(0u32);
                *count += 1;
                let found = sketch.add(hash as u32) >= 100;
                assert!(found || *count < 100, "a heavy flow is missed");
                wrong += u32::from(found && *count < 100);
            }
            let share = f64::from(wrong) / f64::from(packets);
            println!(
                "{flows} flows, {lines} lines: {:.3} % of packets wrongly taken for heavy",
                100.0 * share
            );
            assert!(share <= most_wrong, "{share}");
        }
    }
}
