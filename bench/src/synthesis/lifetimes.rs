//! A part of the benchmark `synthesizer`: synthesized chains with short-lived flows, measured from the first
//! packet of each flow on, for several numbers of packets per flow and of flows at the same time.
//!
//! Long-lived flows are the best case of a program with a flow cache, but most flows of the Internet have few
//! packets. So each run begins with a worker that has seen no flow. A first round of packets, which are
//! dropped ahead of the chain, loads the packets into memory and warms the caches.

use engine::{Options, Worker};

use super::{Case, Forms};
use crate::floor::Floor;
use crate::runner::{BURST, drive_by, running};
use crate::serde_params::Param;

use crate::{Pair, Row, Settings};

/// The measured numbers of packets per flow.
const PER_FLOW: [usize; 4] = [4, 10, 30, 100];

/// The approximate number of packets in memory. It is also the larger one of the two measured numbers of
/// flows that send at the same time; the smaller one is `FEW`.
const IN_MEMORY: usize = 30_000;
const FEW: usize = 300;

/// The largest number of runs of each form. It is small, because each run needs a new worker.
const MOST_RUNS: usize = 5;

/// Measures each chain, in its original and its synthesized form, with each traffic of short-lived flows.
/// Returns a row for each combination of chain, form and traffic.
pub(crate) fn rows(settings: &Settings, cases: &[Case]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for case in cases {
        let memory = settings.packets.min(IN_MEMORY);
        for at_a_time in [FEW, memory] {
            // A small run uses only the shortest flows.
            let lengths = if settings.repeats > 1 { &PER_FLOW[..] } else { &PER_FLOW[..1] };
            let traffic = lengths.iter().map(|&per_flow| Traffic { memory, at_a_time, per_flow });
            for traffic in traffic {
                rows.extend(traffic.measure(settings, case)?);
            }
        }
    }
    Ok(rows)
}

/// Traffic of short-lived flows: `at_a_time` flows send in turns until each has sent `per_flow` packets; then
/// other flows send. The replay has about `memory` packets in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    memory: usize,
    at_a_time: usize,
    per_flow: usize,
}

impl Traffic {
    /// Parses a word such as `300x4`: 300 flows at the same time with 4 packets each. None if the word has
    /// another form or a number is 0.
    pub(crate) fn read(text: &str) -> Option<Traffic> {
        let (at_a_time, per_flow) = text.split_once('x')?;
        let [at_a_time, per_flow] = [at_a_time.parse().ok()?, per_flow.parse().ok()?];
        let traffic = Traffic { memory: IN_MEMORY, at_a_time, per_flow };
        (traffic.at_a_time > 0 && traffic.per_flow > 0).then_some(traffic)
    }

    /// Returns the number of packets of each flow that are in memory: all packets, or one if memory has no
    /// room for all. In this case, the packet is replayed as often as its flow has packets.
    fn in_memory(self) -> usize {
        if self.at_a_time * self.per_flow > self.memory { 1 } else { self.per_flow }
    }

    /// Returns the number of packets in memory, a multiple of the number of packets that a group of
    /// concurrent flows has in memory.
    fn packets(self) -> usize {
        let at_a_time = self.at_a_time * self.in_memory();
        self.memory.div_ceil(at_a_time) * at_a_time
    }

    /// Returns the number of packets of a run: the packets in memory, as often as they are replayed.
    pub(crate) fn per_run(self) -> usize {
        self.packets() * (self.per_flow / self.in_memory())
    }

    /// Returns the original and the synthesized configuration of a chain, with a source of this traffic.
    pub(crate) fn forms(self, case: &Case) -> Result<Forms, String> {
        let (packets, at_a_time, in_memory) = (self.packets(), self.at_a_time, self.in_memory());
        case.with_patterns(|patterns| {
            format!(
                "BenchmarkHeaders({packets}, {patterns}, {}, {at_a_time}, {in_memory})
                -> replay :: ReplayUnqueue(STOP -1, BURST {BURST}) -> BenchmarkSkip({packets})
                -> {} -> BenchmarkExit",
                case.frame, case.chain
            )
        })
    }

    /// Drives a worker through the first round of packets, which BenchmarkSkip drops.
    pub(crate) fn skip(self, worker: &mut Worker) -> Result<(), String> {
        drive_by(worker, self.packets(), 1).map(drop)
    }

    /// Drives a worker through the packets of a run, after [`skip`](Self::skip). Returns the nanoseconds
    /// per packet.
    pub(crate) fn drive(self, worker: &mut Worker) -> Result<f64, String> {
        drive_by(worker, self.per_run(), 1)
    }

    fn measure(self, settings: &Settings, case: &Case) -> Result<Vec<Row>, String> {
        let mut floor = Floor::new(self.packets(), case.frame).map_err(|error| error.to_string())?;
        floor.measure(self.packets());
        let Forms { texts, _patterns } = self.forms(case)?;
        let runs = settings.repeats.min(MOST_RUNS);
        let mut pairs = vec![Vec::with_capacity(runs); texts.len()];
        for _ in 0..runs {
            for ((_, text), pairs) in texts.iter().zip(&mut pairs) {
                let mut worker = running(text.clone(), Options::default())?;
                self.skip(&mut worker)?;
                let cost = self.drive(&mut worker)?;
                worker.finish().map_err(|errors| errors.join("; "))?;
                pairs.push(Pair { cost, floor: floor.measure(self.per_run()) });
            }
        }
        let rows = texts.iter().zip(pairs).map(|((form, _), pairs)| {
            let mut params = case.params(form);
            params.retain(|(name, _)| *name != "flows");
            params.extend([
                ("at-a-time", Param::Number(self.at_a_time as u64)),
                ("per-flow", Param::Number(self.per_flow as u64)),
            ]);
            Row::new("synthesizer", &params, &pairs)
        });
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_as_many_packets_as_it_is_to_have() {
        for (at_a_time, per_flow) in [(300, 4), (300, 100), (30_000, 4), (30_000, 100)] {
            let traffic = Traffic { memory: IN_MEMORY, at_a_time, per_flow };
            assert_eq!(traffic.per_run() % (at_a_time * per_flow), 0, "{traffic:?}");
            assert!((IN_MEMORY..=IN_MEMORY + at_a_time * per_flow).contains(&traffic.packets()));
        }
        assert_eq!(Traffic::read("300x4"), Some(Traffic { memory: IN_MEMORY, at_a_time: 300, per_flow: 4 }));
        assert!(["300", "0x4", "x", "3x0"].iter().all(|text| Traffic::read(text).is_none()));
    }
}
