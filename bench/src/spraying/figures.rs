//! Simulated figures of Sprayer, for more workers than this machine has, with measured costs: the rate over
//! the amount of work per packet and over the number of connections (6a, 7a), latency (8) and fairness (9).
//! Two workers are simulated as well, for comparison with the measurements.

use sprayer::Policy;

use element::Timestamp;

use super::simulation::{Costs, Outcome, Packets, Setting, simulate};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// The numbers of simulated workers.
pub(super) const WORKERS: [u64; 2] = [8, 64];
/// The amounts of work per packet, in processor cycles, that are simulated with one connection (`CYCLES`),
/// and the numbers of connections that are simulated with the largest amount of work (`CONNECTIONS`).
pub(super) const CYCLES: [u64; 7] = [0, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000];
pub(super) const CONNECTIONS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// The rates of arriving packets at which latency is simulated, in percent of the highest rate of a single
/// worker.
pub(super) const LOADS: [u64; 6] = [10, 30, 50, 70, 90, 200];
/// The rate of arriving packets at which fairness is simulated, as a fraction of the rate that all workers
/// sustain.
const FAIR_LOAD: f64 = 0.9;
/// The pauses in microseconds after which a connection may continue at another worker (`GAPS`), and the rate
/// of packets that arrive in this simulation, as a fraction of the highest rate of a single worker
/// (`GAPS_LOAD`).
const GAPS: [u64; 6] = [0, 2, 5, 10, 20, 50];
const GAPS_LOAD: f64 = 0.7;
/// The simulated policies: the name in rows, and the policy that spreads packets, if any.
pub(super) const VARIANTS: [(&str, Option<Policy>); 3] =
    [("rss", None), ("spray", Some(Policy::Spray)), ("auto", Some(Policy::Auto))];

/// The simulated time of a run in nanoseconds (`TIME`), and the largest number of packets of a run (`MOST`).
const TIME: f64 = 60e6;
const MOST: usize = 2_000_000;

/// The parameters of a simulated run: workers, cycles of work per packet, and connections. Rows have the same
/// parameters.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) workers: u64,
    pub(super) cycles: u64,
    pub(super) connections: u16,
}

/// The result for one connection with the largest amount of work, whose packets are spread over a part of the
/// workers, or whose bursts are spread over all workers.
pub(crate) struct Part {
    pub(crate) workers: u64,
    /// The number of workers over which packets are spread; None if bursts are spread.
    pub(crate) cores: Option<u64>,
    /// The pause in microseconds that separates bursts; None if packets are spread.
    pub(crate) gap: Option<u64>,
    /// The millions of packets per second that were processed. If bursts are spread, packets arrive at this
    /// rate.
    pub(crate) mpps: f64,
    /// The 99th percentile of the latency in microseconds; NaN at full rate.
    pub(crate) p99_us: f64,
    /// The number of packets, of a thousand, that leave after a packet of the same connection with a higher
    /// number.
    pub(crate) reordered: f64,
}

/// The simulated figures and the inputs of the simulation.
pub(super) struct Figures {
    pub(super) costs: Costs,
    /// The duration of a processor cycle in nanoseconds. Work per packet is given in cycles.
    pub(super) cycle: f64,
    /// The cost of the floor in the measurements, in nanoseconds.
    pub(super) floor: f64,
    stock: Packets,
    most: usize,
}

impl Figures {
    pub(super) fn new(settings: &Settings, costs: Costs, cycle: f64, floor: f64) -> Result<Figures, String> {
        let stock = Packets::new(CONNECTIONS[CONNECTIONS.len() - 1])?;
        Ok(Figures { costs, cycle, floor, stock, most: MOST.min(settings.per_run) })
    }

    /// Simulates the run of a measured row with all policies, for comparison with the measured rows.
    /// `packets` is the number of packets in the measurement, and `work` the measured nanoseconds of work per
    /// packet.
    pub(super) fn compared(&mut self, place: Place, packets: usize, work: f64) -> Vec<Row> {
        VARIANTS.map(|(name, policy)| self.rate(place, (name, policy), packets, work)).into()
    }

    /// Simulates the figures 6a to 9 and returns their rows.
    pub(super) fn rows(&mut self) -> Vec<Row> {
        let most = CYCLES[CYCLES.len() - 1];
        let mut rows = Vec::new();
        for workers in WORKERS {
            let with_work = CYCLES.map(|cycles| Place { workers, cycles, connections: 1 });
            let with_more = CONNECTIONS.map(|connections| Place { workers, cycles: most, connections });
            for place in with_work.into_iter().chain(with_more.into_iter().skip(1)) {
                rows.extend(self.rates(place));
            }
            for load in LOADS {
                rows.extend(VARIANTS.map(|way| self.latency(with_more[0], way, load)));
            }
            for place in with_more {
                rows.extend(VARIANTS.map(|way| self.fairness(place, way)));
            }
        }
        rows
    }

    /// Simulates one connection in two ways: its packets are spread over a part of the workers at full rate,
    /// and it is spread burst by burst at a rate that a single worker sustains.
    pub(super) fn parts(&mut self) -> Vec<Part> {
        let cycles = CYCLES[CYCLES.len() - 1];
        let work = cycles as f64 * self.cycle;
        let mut parts = Vec::new();
        for workers in WORKERS {
            let place = Place { workers, cycles, connections: 1 };
            let part = |outcome: &Outcome, cores, gap| {
                let p99 = outcome.latencies.get(outcome.latencies.len() * 99 / 100);
                Part {
                    workers,
                    cores,
                    gap,
                    mpps: 1e3 * outcome.done.iter().sum::<u64>() as f64 / outcome.time,
                    p99_us: p99.map_or(f64::NAN, |time| time / 1e3),
                    reordered: 1e3 * outcome.reordered(),
                }
            };
            for cores in (0..).map(|power| 1 << power).take_while(|cores| *cores <= workers) {
                let packets = self.packets(cores, work);
                let way = (Some(Policy::Spray), cores as usize);
                let outcome = self.simulate(place, way, packets, work, None);
                parts.push(part(&outcome, Some(cores), None));
            }
            for gap in GAPS {
                let rate = GAPS_LOAD / (self.costs.own + work);
                let packets = ((TIME * rate) as usize).clamp(256, self.most);
                let way = (Some(Policy::Flowlets(Timestamp(1000 * gap as i64))), 0);
                let outcome = self.simulate(place, way, packets, work, Some(rate));
                parts.push(part(&outcome, None, Some(gap)));
            }
        }
        parts
    }

    /// Simulates a run at full rate with each policy.
    fn rates(&mut self, place: Place) -> [Row; VARIANTS.len()] {
        let work = place.cycles as f64 * self.cycle;
        let packets = self.packets(place.workers, work);
        VARIANTS.map(|way| self.rate(place, way, packets, work))
    }

    /// Returns a row for each cost that is an input of the simulation.
    pub(super) fn cost_rows(&self) -> Vec<Row> {
        let costs = self.costs;
        let parts = [
            ("own", costs.own),
            ("source", costs.source),
            ("foreign", costs.foreign),
            ("give", costs.give),
            ("take", costs.take),
            ("spray", costs.spray),
            ("auto", costs.auto),
            ("rest, per batch", costs.rest),
        ];
        let row = |(part, cost)| {
            let pair = Pair { cost, floor: self.floor };
            let row = Row::new("simulated-sprayer-cost", &[("part", Param::Word(part))], &[pair]);
            Row { excludes_floor: true, ..row }
        };
        parts.map(row).into()
    }

    fn packets(&self, workers: u64, work: f64) -> usize {
        let each = self.costs.own + work;
        ((workers as f64 * TIME / each) as usize).clamp(usize::from(CONNECTIONS[8]), self.most.max(256))
    }

    fn simulate(
        &mut self,
        place: Place,
        (policy, cores): (Option<Policy>, usize),
        packets: usize,
        work: f64,
        rate: Option<f64>,
    ) -> Outcome {
        let (workers, connections) = (place.workers as usize, place.connections);
        let setting = Setting { workers, policy, cores, connections, packets, work, rate };
        simulate(setting, self.costs, &mut self.stock)
    }

    fn row(&self, name: &str, place: Place, way: &'static str, outcome: &Outcome) -> Row {
        let params = [
            ("steering", Param::Word(way)),
            ("threads", Param::Number(place.workers)),
            ("cycles", Param::Number(place.cycles)),
            ("flows", Param::Number(place.connections.into())),
        ];
        let cost = outcome.time / outcome.done.iter().sum::<u64>().max(1) as f64;
        Row::new(name, &params, &[Pair { cost, floor: self.floor }])
    }

    fn rate(
        &mut self,
        place: Place,
        (way, policy): (&'static str, Option<Policy>),
        packets: usize,
        work: f64,
    ) -> Row {
        let outcome = self.simulate(place, (policy, 0), packets, work, None);
        self.row("simulated-sprayer", place, way, &outcome)
    }

    fn latency(&mut self, place: Place, (way, policy): (&'static str, Option<Policy>), load: u64) -> Row {
        let work = place.cycles as f64 * self.cycle;
        let rate = load as f64 / 100.0 / (self.costs.own + work);
        let packets = ((TIME * rate) as usize).clamp(256, self.most);
        let outcome = self.simulate(place, (policy, 0), packets, work, Some(rate));
        let quantile = |part: f64| {
            let at = (part * outcome.latencies.len() as f64) as usize;
            outcome.latencies.get(at).map_or(f64::NAN, |time| time / 1e3)
        };
        let mut row = self.row("simulated-sprayer-latency", place, way, &outcome);
        row.params.insert("load", Param::Number(load));
        Row { latency_us: Some([quantile(0.5), quantile(0.99)]), ..row }
    }

    fn fairness(&mut self, place: Place, (way, policy): (&'static str, Option<Policy>)) -> Row {
        let work = place.cycles as f64 * self.cycle;
        let rate = FAIR_LOAD * place.workers as f64 / (self.costs.own + work);
        let outcome = self.simulate(place, (policy, 0), self.packets(place.workers, work), work, Some(rate));
        let row = self.row("simulated-sprayer-fairness", place, way, &outcome);
        Row { jain: Some(jain(&outcome.done)), ..row }
    }
}

/// Returns Jain's index of fairness: 1 if all shares are equal, 1/n if one of n has everything.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    sum * sum / (squares * shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs that were measured on a virtual machine with two cores.
    const RECORDED: Costs = Costs {
        own: 67.0,
        source: 15.0,
        foreign: 25.0,
        give: 20.0,
        take: 75.0,
        spray: 5.0,
        auto: 9.0,
        rest: 30.0,
    };
    const CYCLE: f64 = 0.3916;
    /// Measured nanoseconds per packet, from docs/sprayer.md: cycles of work per packet, number of
    /// connections, and the costs with one worker, with two workers and `rss`, and with two workers and
    /// `spray`.
    const MEASURED: [(u64, u16, [f64; 3]); 8] = [
        (0, 1, [49.0, 67.0, 76.0]),
        (1_000, 1, [488.0, 513.0, 298.0]),
        (3_000, 1, [1280.0, 1306.0, 697.0]),
        (10_000, 1, [3965.0, 3996.0, 2085.0]),
        (10_000, 2, [3961.0, 2034.0, 2074.0]),
        (10_000, 4, [3959.0, 2032.0, 2117.0]),
        (10_000, 16, [3965.0, 2609.0, 2218.0]),
        (10_000, 64, [3970.0, 2131.0, 2205.0]),
    ];

    fn figures() -> Figures {
        Figures::new(&Settings::USUAL, RECORDED, CYCLE, 10.0).unwrap()
    }

    #[test]
    fn two_workers_take_what_they_took() {
        let mut figures = figures();
        for (cycles, connections, [alone, rss, spray]) in MEASURED {
            let packets = (200_000_000 / (cycles + 300)).min(2_000_000) as usize;
            let place = Place { workers: 2, cycles, connections };
            let rows = figures.compared(place, packets, alone - MEASURED[0].2[0]);
            for (row, measured) in rows.iter().zip([rss, spray]) {
                let simulated = row.ns_per_packet;
                let off = simulated / measured - 1.0;
                assert!(
                    off.abs() < 0.1,
                    "{cycles} cycles, {connections} connections: {simulated} {measured}"
                );
            }
        }
    }

    #[test]
    fn auto_is_never_much_worse_than_the_better_way() {
        let mut figures = figures();
        let with_work = [0, 1_000, 3_000].map(|cycles| (8, cycles, 1));
        let with_more = [1, 8, 16, 64, 256].map(|connections| (8, 10_000, connections));
        let more_workers = [(64, 1_000, 1), (64, 10_000, 32), (64, 10_000, 64)];
        for (workers, cycles, connections) in with_work.into_iter().chain(with_more).chain(more_workers) {
            let [rss, spray, auto] = figures.rates(Place { workers, cycles, connections });
            let best = rss.mpps.max(spray.mpps);
            assert!(auto.mpps > 0.97 * best, "{:?}: {} of {best}", auto.params, auto.mpps);
        }
        // Without work, `auto`, which spreads only as many packets as make the workers equally busy, is
        // slower than `spray`. One of 64 workers spreads the packets for all others and does no other work,
        // and a decision of `auto` takes longer than a decision of `spray`.
        let [_, spray, auto] = figures.rates(Place { workers: 64, cycles: 0, connections: 1 });
        assert!(auto.mpps > 0.85 * spray.mpps, "{} of {}", auto.mpps, spray.mpps);
    }

    #[test]
    fn one_worker_and_long_pauses_keep_order() {
        let parts = figures().parts();
        let of = |workers: u64, cores, gap| {
            parts.iter().find(|part| (part.workers, part.cores, part.gap) == (workers, cores, gap)).unwrap()
        };
        for workers in WORKERS {
            let [one, two, all] = [1, 2, workers].map(|cores| of(workers, Some(cores), None));
            assert!(one.reordered == 0.0 && all.reordered > 0.0, "{} {}", one.reordered, all.reordered);
            assert!(two.mpps > 1.8 * one.mpps && all.mpps > two.mpps, "{} {}", one.mpps, two.mpps);
            let [none, short, long] = [0, 5, 50].map(|gap| of(workers, None, Some(gap)));
            assert!(short.reordered > 0.0 && long.reordered == 0.0, "{}", short.reordered);
            assert!(none.p99_us < long.p99_us, "{} {}", none.p99_us, long.p99_us);
        }
    }

    #[test]
    fn fairness_and_latency_are_those_of_queues() {
        assert_eq!((jain(&[3, 3, 3]), jain(&[9, 0, 0])), (1.0, 1.0 / 3.0));
        let mut figures = figures();
        let place = Place { workers: 8, cycles: 10_000, connections: 16 };
        let fair = VARIANTS.map(|way| figures.fairness(place, way).jain.unwrap());
        assert!(fair[0] < 0.95 && fair[1] > 0.99 && fair[2] > 0.98, "{fair:?}");
        let one = Place { connections: 1, ..place };
        let [rss, spray, _] = VARIANTS.map(|way| figures.latency(one, way, 70).latency_us.unwrap());
        assert!(spray[1] < rss[1], "{spray:?} {rss:?}");
    }
}
