//! The benchmark `workers`: the benefit of a second worker, and the cost of handing packets over to it.

use std::sync::Arc;
use std::time::Instant;

use element::Class;
use element::steering::Spreading;
use engine::{Configured, Options, Plan, Workers};

use crate::floor::Floor;
use crate::forwarding::FORWARD;
use crate::functions::{FUNCTIONS_FLOWS, functions};
use crate::runner::{Silence, configured, registry};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median, source};

/// Measures chains on one worker and on two workers, and the handing over of packets between two workers.
/// Returns a row for each chain and number of workers, and a row in which no packets are handed over and a
/// row in which all are.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").map_err(|e| e.to_string())?;
    source::write_capture(file.as_file(), settings.packets, FUNCTIONS_FLOWS, FRAME)
        .map_err(|e| e.to_string())?;
    let text = |steering: &str, chain: &str| {
        let loops = RUNS * settings.per_run.div_ceil(settings.packets);
        format!(
            "nic :: InMemoryNic({}, LOOPS {loops}, STEERING {steering}) -> {chain}",
            file.path().display()
        )
    };
    let mut floor = Floor::new(settings.packets, FRAME).map_err(|e| e.to_string())?;
    floor.measure(settings.packets);
    let chain = functions();
    let mut rows = Vec::new();
    for (name, chain) in [("forward", FORWARD), ("functions", chain.as_str())] {
        let text = text("rss", chain);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for _ in 0..settings.repeats {
            let beside = floor.measure(settings.per_run);
            one.push(Pair { cost: once(&[], &text, 1, None)?, floor: beside });
            two.push(Pair { cost: once(&[], &text, 2, None)?, floor: beside });
        }
        let speedup = median(one.iter().zip(&two).map(|(one, two)| one.cost / two.cost).collect());
        for (threads, pairs, speedup) in [(1, one, None), (2, two, Some(speedup))] {
            let params = [("chain", Param::Word(name)), ("threads", Param::Number(threads))];
            rows.push(Row { speedup, ..Row::new("workers", &params, &pairs) });
        }
    }
    // With RSS, each packet arrives at the worker that owns its flow; with `next`, at the other worker, which
    // hands it over. The cost is the sum of the times of both workers.
    let texts = [text("rss", FLOWS), text("next", FLOWS)];
    let mut pairs = [Vec::new(), Vec::new()];
    for _ in 0..settings.repeats {
        let beside = floor.measure(settings.per_run);
        for (text, pairs) in texts.iter().zip(&mut pairs) {
            pairs.push(Pair { cost: 2.0 * once(&[], text, 2, None)?, floor: beside });
        }
    }
    for (handed, pairs) in ["none", "all"].into_iter().zip(pairs) {
        let params = [("handed", Param::Word(handed)), ("threads", Param::Number(2))];
        rows.push(Row::new("handover", &params, &pairs));
    }
    Ok(rows)
}

/// The factor by which a run is longer than usual, so that its start matters less: then, elements do not know
/// the flows, and memory has not been used.
const RUNS: usize = 5;

/// The size of a frame in bytes.
const FRAME: usize = 64;

/// A chain of an element with state per flow, so that each packet has to be processed by the worker that owns
/// its flow.
const FLOWS: &str = "MarkIPHeader(14) -> FlowCounter -> Discard";

/// Runs a configuration with a source `nic` to its end, on `threads` workers. Returns the wall-clock
/// nanoseconds of the run per packet. `spreading` is the policy that spreads packets of one flow over the
/// workers, if any. `classes` are added to the known classes.
pub(crate) fn once(
    classes: &[&'static Class],
    text: &str,
    threads: usize,
    spreading: Option<&Arc<dyn Spreading>>,
) -> Result<f64, String> {
    let (plan, copies) = configured(text.to_string(), threads, spreading, &registry().with(classes))?;
    Ok(run_to_the_end(&plan, copies)?.cost)
}

/// The results of a run on one worker or several.
pub(crate) struct Finished {
    /// The wall-clock time of the run per packet, in nanoseconds.
    pub(crate) cost: f64,
    /// The time per packet for which the first worker was busy, in nanoseconds. 0 with one worker, which does
    /// not measure its work.
    pub(crate) busy: f64,
}

/// Runs a configuration, whose source is named `nic`, until the run ends. `copies` has a copy of the elements
/// for each worker.
pub(crate) fn run_to_the_end(plan: &Arc<Plan>, copies: Vec<Configured>) -> Result<Finished, String> {
    let mut workers = Workers::new(plan, copies, Box::new(Silence), Options::default())?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    let start = Instant::now();
    workers.run();
    let passed = start.elapsed().as_nanos() as f64;
    let count = workers.read(plan.graph.find("nic"), "count", "")?;
    let count: f64 = count.parse().map_err(|_| "no count".to_string())?;
    let busy = workers.report().workers.first().map_or(0, |worker| worker.busy_ns) as f64;
    workers.finish().map_err(|errors| errors.join("; "))?;
    Ok(Finished { cost: passed / count, busy: busy / count })
}
