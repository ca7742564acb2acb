//! The measurement of a configuration: the configuration is built around a replay of packets from memory, and
//! a worker runs it alternately with the measurement of the floor.

use std::sync::Arc;
use std::time::Instant;

use element::steering::Spreading;
use element::{Class, OutputStream, Registry};
use engine::{Configured, Options, Plan, Worker};

use crate::by_hand::TEN_ROUTERS;
use crate::exit::EXIT;
use crate::floor::Floor;
use crate::frames::{FRAMES, Start};
use crate::headers::HEADERS;
use crate::serde_params::Param;
use crate::skip::SKIP;
use crate::{Pair, Row, Settings, arrivals};

/// A destination for the elements' messages that discards them.
pub(crate) struct Silence;

impl engine::Sink for Silence {
    fn write(&mut self, _stream: OutputStream, _text: std::fmt::Arguments<'_>) {}

    fn flush(&mut self) {}
}

/// Creates a worker with an endless replay of `packets` packets of at most as many flows, followed by
/// `chain`. The worker is initialized and can be driven.
pub(crate) fn worker(packets: usize, frame: usize, start: Start, chain: &str) -> Result<Worker, String> {
    worker_with(packets, (packets, 1), frame, start, chain)
}

/// Like [`worker`], with `flows` flows, whose packets come in runs of `slf` packets.
pub(crate) fn worker_with(
    packets: usize,
    (flows, slf): (usize, usize),
    frame: usize,
    start: Start,
    chain: &str,
) -> Result<Worker, String> {
    worker_of(&frames(packets, (flows, slf), frame, start), start, chain)
}

/// Returns the text of a source element that supplies `packets` packets of `flows` flows in runs of `slf`
/// packets.
pub(crate) fn frames(packets: usize, (flows, slf): (usize, usize), frame: usize, start: Start) -> String {
    let kind = match start {
        Start::Frame | Start::Ethernet | Start::Ip => 0,
        Start::Tcp => 1,
        Start::Ip6 => 2,
    };
    format!("BenchmarkFrames({packets}, {flows}, {frame}, {kind}, {slf})")
}

/// Like [`worker`], with the packets of a source `frames`, which is pulled until it is empty.
pub(crate) fn worker_of(frames: &str, start: Start, chain: &str) -> Result<Worker, String> {
    running(text_of(frames, start, chain), Options::default())
}

/// Returns the configuration that [`worker_of`] runs.
pub(crate) fn text_of(frames: &str, start: Start, chain: &str) -> String {
    text_in_bursts(frames, start, BURST, chain)
}

/// The usual number of packets that a replay emits at once.
pub(crate) const BURST: usize = 32;

/// Like [`text_of`], with a replay that emits `burst` packets at once.
pub(crate) fn text_in_bursts(frames: &str, start: Start, burst: usize, chain: &str) -> String {
    let marks = start.marks();
    format!("{frames} {marks} -> replay :: ReplayUnqueue(STOP -1, BURST {burst}) -> {chain}")
}

/// Creates a worker for a whole configuration and initializes it, so that it can be driven.
pub(crate) fn running(text: String, options: Options) -> Result<Worker, String> {
    running_with(&[], text, options)
}

/// Like [`running`], for a configuration with elements of `classes`.
pub(crate) fn running_with(
    classes: &[&'static Class],
    text: String,
    options: Options,
) -> Result<Worker, String> {
    let (plan, mut copies) = configured(text, 1, None, &registry().with(classes))?;
    let only = copies.pop().ok_or("no worker")?;
    let mut worker = Worker::new(plan, only, Box::new(Silence), options).map_err(|e| e.to_string())?;
    worker.initialize().map_err(|problem| problem.diagnostic.message)?;
    Ok(worker)
}

/// Parses a configuration of elements of `registry`, and configures a copy of its elements for each worker.
/// With `spreading`, packets of one flow are spread over the workers by this policy.
pub(crate) fn configured(
    text: String,
    workers: usize,
    spreading: Option<&Arc<dyn Spreading>>,
    registry: &Registry,
) -> Result<(Arc<Plan>, Vec<Configured>), String> {
    offloading(text, workers, spreading, registry, &[])
}

/// Like [`configured`], with the elements and classes `offloaded` offloaded to the last worker.
pub(crate) fn offloading(
    text: String,
    workers: usize,
    spreading: Option<&Arc<dyn Spreading>>,
    registry: &Registry,
    offloaded: &[&str],
) -> Result<(Arc<Plan>, Vec<Configured>), String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("benchmark", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if let Some(diagnostic) = diagnostics.first() {
        return Err(diagnostic.render(&sources));
    }
    let first = |problems: Vec<engine::Problem>| {
        problems.first().map_or_else(|| "no reason given".into(), |problem| problem.render(&sources))
    };
    let mut plan = Plan::new(graph, registry).map_err(first)?;
    let offloaded: Vec<_> = offloaded.iter().map(ToString::to_string).collect();
    plan.offload(&offloaded).map_err(|name| format!("no element and no class '{name}'"))?;
    let plan = Arc::new(plan);
    let copies = plan.configure_all(None, workers, spreading).map_err(first)?;
    Ok((plan, copies))
}

/// Returns a registry of all classes of Tidegate, and of the sources, sinks and meters that several
/// benchmarks use. A benchmark adds further elements of its own.
pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(nf::CLASSES)
        .with(device::CLASSES)
        .with(reframer::CLASSES)
        .with(juggler::CLASSES)
        .with(slicer::CLASSES)
        .with(synthesizer::CLASSES)
        .with(runtime::CLASSES)
        .with(&[&FRAMES, &HEADERS, &EXIT, &SKIP, &TEN_ROUTERS])
        .with(arrivals::CLASSES)
}

/// Runs a worker until the element `replay` has emitted at least `packets` more packets. Returns the
/// nanoseconds per packet; an error if the configuration stops or has no element `replay`.
pub(crate) fn drive(worker: &mut Worker, packets: usize) -> Result<f64, String> {
    drive_by(worker, packets, 256)
}

/// Drives a worker as [`drive`] does, with `tasks` task executions per step of the worker. The last step may
/// emit more packets than remain.
pub(crate) fn drive_by(worker: &mut Worker, packets: usize, tasks: usize) -> Result<f64, String> {
    let replay = worker.plan().graph.find("replay").ok_or("no replay")?;
    let sent = |worker: &Worker| worker.core().counters[replay].emitted;
    let before = sent(worker);
    let start = Instant::now();
    while sent(worker) - before < packets as u64 {
        if !worker.step(tasks) {
            return Err("the benchmark stopped by itself".into());
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / (sent(worker) - before) as f64)
}

/// Measures the cost per packet of a chain downstream of a replay of packets of `frame` bytes from memory.
/// `name` is the name in the row.
///
/// # Errors
/// If the chain is invalid or stops.
pub fn measure_chain(name: &str, settings: &Settings, frame: usize, chain: &str) -> Result<Row, String> {
    measure(name, settings, frame, chain, &[("frame", Param::Number(frame as u64))])
}

/// Like [`measure_chain`], with `flows` flows and their IP headers marked. `param` is the parameter of the
/// row.
pub(crate) fn measure_flows(
    name: &str,
    settings: &Settings,
    flows: usize,
    chain: &str,
    param: (&'static str, Param),
) -> Result<Row, String> {
    let worker = worker_with(settings.packets, (flows, 1), 64, Start::Ethernet, chain)?;
    measure_worker(name, settings, 64, worker, &[param])
}

/// Like [`measure_chain`], with the parameters `params` in the row.
pub(crate) fn measure(
    name: &str,
    settings: &Settings,
    frame: usize,
    chain: &str,
    params: &[(&'static str, Param)],
) -> Result<Row, String> {
    measure_worker(name, settings, frame, worker(settings.packets, frame, Start::Frame, chain)?, params)
}

/// Measures a worker and finishes it. `frame` is the length of its packets in bytes.
pub(crate) fn measure_worker(
    name: &str,
    settings: &Settings,
    frame: usize,
    mut worker: Worker,
    params: &[(&'static str, Param)],
) -> Result<Row, String> {
    let row = measure_of(name, settings, frame, &mut worker, params)?;
    worker.finish().map_err(|errors| errors.join("; "))?;
    Ok(row)
}

/// Like [`measure_worker`], for a worker that is still used afterwards, for example to read its counters.
pub(crate) fn measure_of(
    name: &str,
    settings: &Settings,
    frame: usize,
    worker: &mut Worker,
    params: &[(&'static str, Param)],
) -> Result<Row, String> {
    let mut floor = Floor::new(settings.packets, frame).map_err(|e| e.to_string())?;
    // A first run loads the packets, touches all memory, and lets the clock calibrate itself.
    drive(worker, settings.packets.max(settings.per_run / 2))?;
    floor.measure(settings.packets);
    let mut pairs = Vec::with_capacity(settings.repeats);
    for _ in 0..settings.repeats {
        let cost = drive(worker, settings.per_run)?;
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    Ok(Row::new(name, params, &pairs))
}

/// A worker to be measured alternately with other workers, and the parameters of its row.
pub(crate) type Contender = (Vec<(&'static str, Param)>, Worker);

/// Measures several workers alternately, so that disturbances of the machine affect all of them. Returns a
/// row for each worker.
pub(crate) fn measure_in_turns(
    name: &str,
    settings: &Settings,
    frame: usize,
    mut contenders: Vec<Contender>,
) -> Result<Vec<Row>, String> {
    let mut floor = Floor::new(settings.packets, frame).map_err(|e| e.to_string())?;
    floor.measure(settings.packets);
    for (_, worker) in &mut contenders {
        drive(worker, settings.packets.max(settings.per_run / 2))?;
    }
    let mut pairs = vec![Vec::with_capacity(settings.repeats); contenders.len()];
    for _ in 0..settings.repeats {
        for ((_, worker), pairs) in contenders.iter_mut().zip(&mut pairs) {
            let cost = drive(worker, settings.per_run)?;
            pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
        }
    }
    let rows = contenders.into_iter().zip(pairs).map(|((params, mut worker), pairs)| {
        worker.finish().map_err(|errors| errors.join("; "))?;
        Ok(Row::new(name, &params, &pairs))
    });
    rows.collect()
}
