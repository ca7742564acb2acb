//! Configurations driven by packets from memory.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use element::class::{ArgInfo, Notes};
use element::steering::Spreading;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Registry, Signal, Stream};
use engine::{Configured, Options, Plan, Worker};

use crate::by_hand::TEN_ROUTERS;
use crate::exit::EXIT;
use crate::floor::Floor;
use crate::lifetimes::Traffic;
use crate::serde_params::Param;
use crate::synthesis::Form;
use crate::{
    Pair, Row, Settings, classify, evaluation, juggling, lifetimes, locality, sessions, soak, source,
    spraying, synthesis, timers,
};

pub(crate) fn forward(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("forward", settings, FORWARD)
}

pub(crate) fn edit(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("edit", settings, EDIT)
}

pub(crate) fn tee(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("tee", settings, TEE)
}

pub(crate) fn queue(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("queue", settings, QUEUE)
}

/// Measures a router with four interfaces, and routes for parts of the network that the packets go to.
pub(crate) fn router(settings: &Settings) -> Result<Vec<Row>, String> {
    [200, 100_000]
        .into_iter()
        .map(|count| {
            let params = [("frame", Param::Number(64)), ("routes", Param::Number(count.into()))];
            measure("router", settings, 64, &router_of(count), &params)
        })
        .collect()
}

fn router_of(count: u32) -> String {
    format!(
        "Classifier(12/0800) -> CheckIPHeader(14) -> rt :: RadixIPLookup({}0/0 10.0.0.1 0);
        rt[0], rt[1], rt[2], rt[3] => DecIPTTL, DecIPTTL, DecIPTTL, DecIPTTL
        => Discard, Discard, Discard, Discard",
        routes(count, 4)
    )
}

/// Measures a router with 200 routes, over several numbers of flows.
pub(crate) fn router_flows(settings: &Settings) -> Result<Vec<Row>, String> {
    [1, 100, 10_000, 1_000_000]
        .into_iter()
        .map(|flows| {
            let packets = if settings.repeats > 1 { settings.packets.max(flows) } else { settings.packets };
            let worker = worker_with(packets, (flows, 1), 64, Start::Ethernet, &router_of(200))?;
            measure_worker("router-flows", settings, 64, worker, &[("flows", Param::Number(flows as u64))])
        })
        .collect()
}

/// Measures meters that let all packets pass, and meters that colour packets.
pub(crate) fn meter(settings: &Settings) -> Result<Vec<Row>, String> {
    let meters = [
        ("Meter", "m :: Meter(4000000); m[0], m[1] => Discard, Discard"),
        ("BandwidthMeter", "m :: BandwidthMeter(4MBps); m[0], m[1] => Discard, Discard"),
        ("SrTCM", "m :: SrTCM(1GBps, 100000, 100000); m[0], m[1], m[2] => Discard, Discard, Discard"),
        ("TrTCM", "m :: TrTCM(1GBps, 100000, 2GBps, 100000); m[0], m[1], m[2] => Discard, Discard, Discard"),
    ];
    meters.into_iter().map(|(class, chain)| of_class("meter", settings, class, chain)).collect()
}

/// Measures forwarders that read Ethernet addresses. Packets pass the switch in both directions, because it
/// learns hosts only from packets that they send.
pub(crate) fn ethernet(settings: &Settings) -> Result<Vec<Row>, String> {
    let forwarders = [
        ("EtherMirror", "EtherMirror -> Discard"),
        ("EtherSwitch", "[0] s :: EtherSwitch; s[1] -> EtherMirror -> [1] s; s[0] -> Discard"),
    ];
    forwarders.into_iter().map(|(class, chain)| of_class("l2", settings, class, chain)).collect()
}

fn of_class(
    name: &'static str,
    settings: &Settings,
    class: &'static str,
    chain: &str,
) -> Result<Row, String> {
    let worker = worker_with(settings.packets, (10_000, 1), 64, Start::Ethernet, chain)?;
    measure_worker(name, settings, 64, worker, &[("class", Param::Word(class))])
}

/// Returns routes to several outputs in turn, distributed like the flows, 16 to 28 bits long. A few of them
/// are equal.
fn routes(count: u32, outputs: u32) -> String {
    let route = |number: u32| {
        let address = 0x0b00_0000 | number.wrapping_mul(0x9e37_79b1) >> 8;
        let (length, output) = (16 + number % 13, number % outputs);
        format!("{}/{length} 10.0.{output}.1 {output}, ", Ipv4Addr::from_bits(address))
    };
    (0..count).map(route).collect()
}

/// Measures a translator over several numbers of flows, none of which ends.
pub(crate) fn nat(settings: &Settings) -> Result<Vec<Row>, String> {
    [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .map(|flows| {
            let packets = if settings.repeats > 1 { settings.packets.max(flows) } else { settings.packets };
            let worker = worker_with(packets, (flows, 1), 64, Start::Ethernet, NAT)?;
            let params = [("flows", Param::Number(flows as u64))];
            measure_worker("nat", settings, 64, worker, &params)
        })
        .collect()
}

/// Measures the Reframer paper's chain: router, translator, firewall with 10,000 rules, statistics of
/// flows. The first rows end after each of the first three functions. Further rows vary the SLF, and add a
/// Reframer that makes runs.
pub(crate) fn chain(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut measure = |front: &str, slf, functions: &[String], params: &[(&'static str, Param)]| {
        let chain = format!("{front} {}", connected(functions));
        let worker = worker_with(settings.packets, (FUNCTIONS_FLOWS, slf), 64, Start::Ethernet, &chain)?;
        rows.push(measure_worker("chain", settings, 64, worker, params)?);
        Ok::<_, String>(())
    };
    let functions = each_function();
    for (number, last) in ["router", "translator", "firewall"].into_iter().enumerate() {
        measure("", 1, &functions[..=number], &[("to", Param::Word(last)), ("slf", Param::Number(1))])?;
    }
    for (held, front) in [("no", ""), ("flows", "Reframer(64us, BYPASS none) ->")] {
        for slf in [1, 4, 16] {
            let params = [("held", Param::Word(held)), ("slf", Param::Number(slf as u64))];
            measure(front, slf, &functions, &params)?;
        }
    }
    Ok(rows)
}

/// The number of flows for the chain of functions.
pub(crate) const FUNCTIONS_FLOWS: usize = 10_000;

/// Returns the chain of router, translator, firewall with 10,000 rules, and statistics of flows.
pub(crate) fn functions() -> String {
    connected(&each_function())
}

/// Returns the functions of the chain one by one.
fn each_function() -> [String; 4] {
    [
        format!(
            "CheckIPHeader(14) -> rt :: RadixIPLookup({}0/0 10.0.0.1 0); rt[1], rt[2], rt[3] => Discard, Discard, Discard;
            rt -> DecIPTTL",
            routes(200, 1)
        ),
        "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)".into(),
        format!("IPFilter({} allow all)", classify::mostly_permitting(&classify::made(10_000))),
        "FlowCounter".into(),
    ]
}

fn connected(functions: &[String]) -> String {
    format!("{} -> Discard", functions.join(" -> "))
}

/// Measures a load balancer over flows that it knows.
pub(crate) fn balancer(settings: &Settings) -> Result<Vec<Row>, String> {
    [1_000, 10_000, 100_000]
        .into_iter()
        .map(|flows| {
            let chain =
                "FlowIPLoadBalancer(VIP 11.0.0.1, DST 10.2.0.1, DST 10.2.0.2, DST 10.2.0.3) -> Discard";
            let worker = worker_with(settings.packets, (flows, 1), 64, Start::Ethernet, chain)?;
            measure_worker("balancer", settings, 64, worker, &[("flows", Param::Number(flows as u64))])
        })
        .collect()
}

/// Measures Reframer alone, over flows with SLF 1, 2 and 4.
pub(crate) fn reframer(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flows in [1_000, 10_000, 100_000, 1_000_000] {
        for slf in [1, 2, 4] {
            // Each flow has to occur at least once in a round.
            let packets = if settings.repeats > 1 { settings.packets.max(flows) } else { settings.packets };
            let chain = format!("Reframer(64us, BYPASS none, CAPACITY {}) -> Discard", flows + flows / 4);
            let worker = worker_with(packets, (flows, slf), 64, Start::Frame, &chain)?;
            let params = [("flows", Param::Number(flows as u64)), ("slf", Param::Number(slf as u64))];
            rows.push(measure_worker("reframer", settings, 64, worker, &params)?);
        }
    }
    Ok(rows)
}

const REFRAMER: &str = "Reframer(64us, BYPASS none) -> Discard";
pub(crate) const FORWARD: &str = "Classifier(12/0800) -> CheckIPHeader(14) -> Counter -> Discard";
const EDIT: &str = "Classifier(12/0800) -> CheckIPHeader(14) -> DecIPTTL -> SetTimestamp
    -> EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4) -> Counter -> Discard";
pub(crate) const NAT: &str = "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard";
const TEE: &str = "t :: Tee; t[0] -> Discard; t[1] -> Discard";
const QUEUE: &str = "Queue(1024) -> Unqueue(32) -> Discard";

fn both_frames(name: &'static str, settings: &Settings, chain: &str) -> Result<Vec<Row>, String> {
    [64, 1024].into_iter().map(|frame| measure_chain(name, settings, frame, chain)).collect()
}

/// A source of frames to be replayed, each of them once.
static FRAMES: Class = Class {
    name: "BenchmarkFrames",
    ports: "0/1",
    processing: "l/l",
    args: &[
        ArgInfo::required("PACKETS", "unsigned"),
        ArgInfo::required("FLOWS", "unsigned"),
        ArgInfo::required("FRAME", "unsigned"),
        ArgInfo::positional("START", "unsigned", "0"),
        ArgInfo::positional("SLF", "unsigned", "1"),
    ],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    build: |args| {
        let frames = Frames {
            left: args.required("PACKETS"),
            flows: args.required("FLOWS"),
            frame: args.required("FRAME"),
            start: match args.value("START") {
                0 => Start::Frame,
                1 => Start::Tcp,
                _ => Start::Ip6,
            },
            slf: args.value("SLF"),
        };
        args.finish()?;
        Ok(Box::new(frames))
    },
    ..Class::DEFAULT
};

struct Frames {
    left: usize,
    flows: usize,
    frame: usize,
    start: Start,
    /// The packets in a row that belong to one flow.
    slf: usize,
}

impl Element for Frames {
    fn effects(&self) -> Effects {
        Effects::source("frame")
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        give(cx, max, || {
            self.left = self.left.checked_sub(1)?;
            let number = source::in_runs(self.left, self.slf);
            Some(match self.start {
                Start::Tcp => source::tcp_frame(number, self.flows, self.frame),
                Start::Ip6 => source::ip6_frame(number, self.flows, self.frame),
                Start::Frame | Start::Ethernet | Start::Ip => source::frame(number, self.flows, self.frame),
            })
        })
    }
}

/// Returns packets of the frames that `next` supplies, until it returns None.
pub(crate) fn give(cx: &mut Cx<'_>, max: usize, mut next: impl FnMut() -> Option<Vec<u8>>) -> Batch {
    let mut batch = cx.batch();
    while batch.len() < max {
        let Some(bytes) = next() else {
            cx.set_signal(Signal::Packets, false);
            break;
        };
        if let Some(packet) = cx.packet(&bytes)
            && let Err(packet) = batch.push(packet)
        {
            cx.drop(packet, DropReason::NoBuffer);
        }
    }
    batch
}

/// The start of replayed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The Ethernet header, with nothing else marked.
    Frame,
    /// The Ethernet header; the IP header is marked.
    Ethernet,
    /// The IP header, which is marked.
    Ip,
    /// The Ethernet header; the IP header is marked, and TCP follows.
    Tcp,
    /// The Ethernet header of IPv6; the IPv6 header is marked.
    Ip6,
}

impl Start {
    /// Returns the elements that mark the header, each after its arrow.
    pub(crate) fn marks(self) -> &'static str {
        match self {
            Start::Frame => "",
            Start::Ethernet | Start::Tcp => "-> MarkIPHeader(14)",
            Start::Ip => "-> Strip(14) -> MarkIPHeader",
            Start::Ip6 => "-> MarkIP6Header(14)",
        }
    }
}

/// A sink that discards all text.
pub(crate) struct Silence;

impl engine::Sink for Silence {
    fn write(&mut self, _stream: Stream, _text: std::fmt::Arguments<'_>) {}

    fn flush(&mut self) {}
}

/// Creates a worker for a chain downstream of an endless replay, ready to be driven.
pub(crate) fn worker(packets: usize, frame: usize, start: Start, chain: &str) -> Result<Worker, String> {
    worker_with(packets, (packets, 1), frame, start, chain)
}

/// Like [`worker`], with packets of `flows` flows, in runs of `slf` packets.
pub(crate) fn worker_with(
    packets: usize,
    (flows, slf): (usize, usize),
    frame: usize,
    start: Start,
    chain: &str,
) -> Result<Worker, String> {
    let kind = match start {
        Start::Frame | Start::Ethernet | Start::Ip => 0,
        Start::Tcp => 1,
        Start::Ip6 => 2,
    };
    worker_of(&format!("BenchmarkFrames({packets}, {flows}, {frame}, {kind}, {slf})"), start, chain)
}

/// Like [`worker`], with packets of any source, which is pulled until it is empty.
pub(crate) fn worker_of(frames: &str, start: Start, chain: &str) -> Result<Worker, String> {
    running(text_of(frames, start, chain), Options::default())
}

/// Returns the configuration of [`worker_of`].
pub(crate) fn text_of(frames: &str, start: Start, chain: &str) -> String {
    text_in_bursts(frames, start, BURST, chain)
}

/// The default number of packets that are taken together.
pub(crate) const BURST: usize = 32;

/// Like [`text_of`], with `burst` packets at a time.
pub(crate) fn text_in_bursts(frames: &str, start: Start, burst: usize, chain: &str) -> String {
    let marks = start.marks();
    format!("{frames} {marks} -> replay :: ReplayUnqueue(STOP -1, BURST {burst}) -> {chain}")
}

/// Creates a worker for a configuration, ready to be driven.
pub(crate) fn running(text: String, options: Options) -> Result<Worker, String> {
    let (plan, mut copies) = configured(text, 1)?;
    let only = copies.pop().ok_or("no worker")?;
    let mut worker = Worker::new(plan, only, Box::new(Silence), options).map_err(|e| e.to_string())?;
    worker.initialize().map_err(|problem| problem.diagnostic.message)?;
    Ok(worker)
}

/// Returns a configuration with elements for each worker.
pub(crate) fn configured(text: String, workers: usize) -> Result<(Arc<Plan>, Vec<Configured>), String> {
    configured_spread(text, workers, None)
}

/// Like [`configured`], with packets of one flow spread over the workers.
pub(crate) fn configured_spread(
    text: String,
    workers: usize,
    spreading: Option<&Arc<dyn Spreading>>,
) -> Result<(Arc<Plan>, Vec<Configured>), String> {
    configured_of(text, workers, spreading, &registry())
}

/// Like [`configured_spread`], with the classes of `registry`.
pub(crate) fn configured_of(
    text: String,
    workers: usize,
    spreading: Option<&Arc<dyn Spreading>>,
    registry: &Registry,
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
    let plan = Arc::new(Plan::new(graph, registry).map_err(first)?);
    let copies = plan.configure_all(None, workers, spreading).map_err(first)?;
    Ok((plan, copies))
}

/// Returns all classes of the product and of the benchmarks.
pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(nf::CLASSES)
        .with(device::CLASSES)
        .with(reframer::CLASSES)
        .with(juggler::CLASSES)
        .with(slicer::CLASSES)
        .with(synthesizer::CLASSES)
        .with(&[&FRAMES, &EXIT, &TEN_ROUTERS, &sessions::FLOWS, &lifetimes::SKIP, &soak::FLOOD])
        .with(juggling::CLASSES)
        .with(locality::CLASSES)
        .with(spraying::CLASSES)
        .with(timers::CLASSES)
        .with(classify::CLASSES)
        .with(evaluation::CLASSES)
}

/// Drives the worker until at least `packets` more packets have been replayed. Returns nanoseconds per
/// packet.
pub(crate) fn drive(worker: &mut Worker, packets: usize) -> Result<f64, String> {
    drive_by(worker, packets, 256)
}

/// Like [`drive`], by `tasks` tasks at a time. The last of them may replay more than `packets` packets.
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

/// Drives `packets` packets through a benchmark's chain, another chain, or the floor, without measuring
/// time: for counting instructions and for profiling. `in_memory` sets the number of packets in memory; by
/// default it is small.
///
/// # Errors
/// If there is no such benchmark, or it fails.
pub fn drive_only(name: &str, packets: usize, in_memory: Option<usize>) -> Result<(), String> {
    let in_memory = in_memory.unwrap_or(Settings::SMALL.packets);
    let mut start = Start::Frame;
    let chain = match name {
        "floor" => {
            Floor::new(in_memory, 64).map_err(|e| e.to_string())?.measure(packets);
            return Ok(());
        }
        "forward" => FORWARD,
        "edit" => EDIT,
        "tee" => TEE,
        "queue" => QUEUE,
        "reframer" => REFRAMER,
        "nat" => {
            start = Start::Ethernet;
            NAT
        }
        // Any chain, to examine a single element.
        chain if chain.contains("->") => chain,
        other => {
            let form = synthesis::form_of(other)
                .ok_or_else(|| format!("no benchmark '{other}' to count instructions of"))?;
            return match form {
                Form::Lasting(worker) => drive_to_the_end(worker(in_memory)?, packets),
                Form::Passing(worker) => drive_passing(worker()?, packets),
            };
        }
    };
    drive_to_the_end(worker(in_memory, 64, start, chain)?, packets)
}

/// Drives a worker through all of its flows. If `packets` is 0, it drives only the first round, which does
/// not reach the chain.
fn drive_passing((mut worker, traffic): (Worker, Traffic), packets: usize) -> Result<(), String> {
    traffic.skip(&mut worker)?;
    if packets > 0 {
        traffic.drive(&mut worker)?;
        println!("{} packets", traffic.per_run());
    }
    worker.finish().map_err(|errors| errors.join("; "))
}

fn drive_to_the_end(mut worker: Worker, packets: usize) -> Result<(), String> {
    drive(&mut worker, packets)?;
    worker.finish().map_err(|errors| errors.join("; "))
}

/// Measures the cost per packet of a chain of elements downstream of a replay of `frame`-byte packets from
/// memory.
///
/// # Errors
/// If the chain is invalid.
pub fn measure_chain(name: &str, settings: &Settings, frame: usize, chain: &str) -> Result<Row, String> {
    measure(name, settings, frame, chain, &[("frame", Param::Number(frame as u64))])
}

fn measure(
    name: &str,
    settings: &Settings,
    frame: usize,
    chain: &str,
    params: &[(&'static str, Param)],
) -> Result<Row, String> {
    measure_worker(name, settings, frame, worker(settings.packets, frame, Start::Frame, chain)?, params)
}

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

/// Like `measure_worker`, for a worker that is still in use afterwards.
pub(crate) fn measure_of(
    name: &str,
    settings: &Settings,
    frame: usize,
    worker: &mut Worker,
    params: &[(&'static str, Param)],
) -> Result<Row, String> {
    let mut floor = Floor::new(settings.packets, frame).map_err(|e| e.to_string())?;
    // Loads the packets, touches all memory, and lets the clock calibrate itself.
    drive(worker, settings.packets.max(settings.per_run / 2))?;
    floor.measure(settings.packets);
    let mut pairs = Vec::with_capacity(settings.repeats);
    for _ in 0..settings.repeats {
        let cost = drive(worker, settings.per_run)?;
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    Ok(Row::new(name, params, &pairs))
}

/// A worker to be measured, with the parameters of its row.
pub(crate) type Contender = (Vec<(&'static str, Param)>, Worker);

/// Measures rows of several workers in turns, so that disturbances on the machine affect all of them.
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
