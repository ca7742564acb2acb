//! Tests how far late packets of a connection are displaced where order is not kept and a worker stalls.
//! Each policy is tested, with a source that can wait (a capture) and a source that cannot (an interface).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Filter, Target};
use element::steering::{LinkType, Spreading};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Timestamp};
use sprayer::{Policy, SpreadSettings};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::tcp::flags::ACK;

static CLASSES: &[&Class] = &[
    &source("Capture", Notes::TASK),
    &source("Interface", Notes { is_live: true, ..Notes::TASK }),
    &Class {
        name: "Stall",
        processing: "h",
        args: &[ArgInfo::required("WAITS", "bool")],
        build: build_stall,
        ..Class::DEFAULT
    },
    &Class {
        name: "Log",
        ports: "1/0",
        processing: "h",
        // With `has_queues`, each worker has its own copy of this sink; other sinks work at one worker only.
        notes: Notes { has_queues: true, ..Notes::NONE },
        build: build_log,
        ..Class::DEFAULT
    },
];

const ARGS: &[ArgInfo] =
    &[ArgInfo::required("PACKETS", "unsigned"), ArgInfo::required("EXCHANGE", "unsigned")];

const fn source(name: &'static str, notes: Notes) -> Class {
    Class { name, ports: "0/1", processing: "h", args: ARGS, notes, build: build_source, ..Class::DEFAULT }
}

/// The state that all elements of a configuration share, at all workers.
#[derive(Default)]
struct Common {
    /// The numbers of the packets that have arrived at `Log`, in order of arrival.
    log: Mutex<Vec<u32>>,
    /// The number of packets that have arrived at `Log` (`ended`), and the number of packets that the source
    /// sends in all (`all`).
    ended: AtomicU64,
    all: AtomicU64,
    /// True if the second worker has begun to stall; it stalls only once.
    is_over: AtomicBool,
}

fn common(args: &Args<'_>) -> Arc<Common> {
    args.setup.common.get_or_make(usize::MAX, Common::default)
}

/// For each run that has ended, the number of its source (EXCHANGE) and the log of its packets.
static LOGS: Mutex<Vec<(u64, Vec<u32>)>> = Mutex::new(Vec::new());

/// A source that sends PACKETS packets of one connection, which the first worker owns, as fast as it can.
struct Source {
    common: Arc<Common>,
    connection: u16,
    packets: u32,
    sent: u32,
    exchange: u64,
}

fn build_source(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let (packets, exchange) = (args.required("PACKETS"), args.required("EXCHANGE"));
    args.finish()?;
    let common = common(args);
    common.all.store(u64::from(packets), Ordering::Release);
    Ok(Box::new(Source { common, connection: 0, packets, sent: 0, exchange }))
}

fn segment(connection: u16, number: u32) -> Vec<u8> {
    let from = ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection);
    let builder = Builder::tcp(from.into(), ([198, 51, 100, 7], 80).into(), ACK);
    builder.build(&number.to_be_bytes()).unwrap()
}

impl Element for Source {
    fn effects(&self) -> Effects {
        Effects::source("segments")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let owner = |connection| cx.workers().worker_of(&segment(connection, 0), LinkType::RawIp);
        self.connection = (0..).find(|&connection| owner(connection) == 0).ok_or("no such connection")?;
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.batch();
        for _ in 0..cx.burst().min((self.packets - self.sent) as usize) {
            let Some(mut packet) = cx.packet(&segment(self.connection, self.sent)) else { break };
            packet.set_headers(0, 20);
            self.sent += 1;
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        cx.emit(0, batch);
        if self.sent < self.packets {
            cx.schedule();
        }
        true
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        LOGS.lock().unwrap().push((self.exchange, std::mem::take(&mut self.common.log.lock().unwrap())));
        Ok(())
    }
}

/// An element in which the second worker stalls with its first packets until nearly all packets have arrived
/// at the end or, if `waits`, until no further packets arrive there.
struct Stall {
    common: Arc<Common>,
    waits: bool,
}

fn build_stall(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let waits = args.required("WAITS");
    args.finish()?;
    Ok(Box::new(Stall { common: common(args), waits }))
}

impl Element for Stall {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        // Processing takes so long that the policy Auto finds spreading worthwhile.
        (0..batch.len() * 1_000).for_each(|n| _ = std::hint::black_box(n));
        if cx.worker().0 != 1 || self.common.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        let ended = || self.common.ended.load(Ordering::Acquire);
        loop {
            let before = ended();
            (0..3_000).for_each(|_| std::thread::yield_now());
            if self.waits && ended() == before || ended() + 1_000 > self.common.all.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

/// The element at which packets end; it records their numbers in order of arrival.
struct Log(Arc<Common>);

fn build_log(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    args.finish()?;
    Ok(Box::new(Log(common(args))))
}

impl Element for Log {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)])
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.last_chunk().unwrap());
        self.0.log.lock().unwrap().extend(batch.iter().map(|packet| number(packet.data())));
        self.0.ended.fetch_add(batch.len() as u64, Ordering::AcqRel);
        cx.sent(batch);
        None
    }
}

const BURST: u64 = 32;
/// A function that makes a spreading policy for a run.
type Way = fn() -> Arc<dyn Spreading>;
const SPRAY: Way = || SpreadSettings::default().spreading();
/// The connection may change its worker after each batch, because the gap is 1 ns.
const FLOWLETS: Way =
    || SpreadSettings { policy: Policy::Flowlets(Timestamp(1)), ..SpreadSettings::default() }.spreading();
const AUTO: Way = || SpreadSettings { policy: Policy::Auto, ..SpreadSettings::default() }.spreading();
const WAYS: [(&str, Way); 3] = [("spray", SPRAY), ("flowlet", FLOWLETS), ("auto", AUTO)];

/// Sends `packets` packets through the stalling element, on `workers` workers with the policy `way`. Returns
/// the largest displacement of a packet (the difference between its number and the largest number that left
/// before it), and the results of the run.
fn displaced(source: &str, packets: u64, (workers, way): (usize, Way)) -> (u64, RunResults) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let exchange = RUNS.fetch_add(1, Ordering::Relaxed);
    let how =
        TestRun { burst: Some(BURST as usize), ..TestRun::real().with(CLASSES).on(workers).spread(way) };
    let waits = source == "Capture";
    let text = format!("{source}({packets}, {exchange}) -> Stall({waits}) -> Log");
    let outcome = how.text(&text, &["displaced", "displaced_most"]).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let mut logs = LOGS.lock().unwrap();
    // The first copy of the source that is closed takes the log, so that the other copies add empty logs to
    // `LOGS`.
    let log = logs.extract_if(.., |(of, log)| *of == exchange && !log.is_empty()).next().unwrap().1;
    let (mut last, mut worst) = (0, 0);
    for &number in &log {
        worst = worst.max(last.max(number) - number);
        last = last.max(number);
    }
    assert_eq!(log.len() as u64 + outcome.report.totals.dropped, packets);
    (worst.into(), outcome)
}

#[test]
fn sources_that_can_wait_bound_how_late_a_packet_is() {
    const PACKETS: u64 = 30_000;
    for (name, way) in WAYS {
        for workers in [2, 4] {
            let (worst, outcome) = displaced("Capture", PACKETS, (workers, way));
            let bound = 128 * workers as u64 + BURST;
            assert!(worst <= bound, "{name}, {workers} workers: {worst}");
            assert!(name != "flowlet" || worst == 0, "{workers} workers: {worst}");
            assert_eq!(outcome.report.totals.out, PACKETS);
            for worker in &outcome.report.workers {
                assert_eq!(worker.displaced_most, Some(bound), "{name}");
                assert!(worker.displaced.unwrap() <= bound, "{name}: {worker:?}");
            }
            let largest = outcome.report.workers.iter().filter_map(|worker| worker.displaced).max().unwrap();
            assert_eq!(outcome.values, [Ok(largest.to_string()), Ok(bound.to_string())]);
        }
    }
}

#[test]
fn packets_of_interfaces_that_are_late_are_few() {
    for (name, way) in WAYS {
        for workers in [2, 4] {
            let (worst, outcome) = displaced("Interface", 30_000, (workers, way));
            for worker in &outcome.report.workers {
                // A source of the kind `Interface` does not wait for a stalled worker, so the packets in that
                // worker's ring are late without a bound. But there may be no more than 256 + BURST packets
                // in the ring.
                assert!(worker.waited < 256 + BURST, "{name}, {workers} workers: {worker:?}");
                assert_eq!(worker.displaced_most, None);
            }
            let seen = outcome.report.workers.iter().filter_map(|worker| worker.displaced).max();
            assert_eq!(outcome.values[1], Ok("none".into()));
            assert!(name != "spray" || worst > 1_000 && seen > Some(1_000), "{worst} {seen:?}");
            assert_eq!(outcome.report.totals.dropped, 0, "{name}, {workers} workers");
        }
    }
}

#[test]
fn a_flow_stays_where_its_packets_stand() {
    // 200 packets fit into the ring of a worker. So the connection need not leave the stalled worker,
    // although the stall is far longer than the gap, and no packet is displaced.
    for source in ["Capture", "Interface"] {
        for workers in [2, 4] {
            let (worst, _) = displaced(source, 200, (workers, FLOWLETS));
            assert_eq!(worst, 0, "{source}, {workers} workers");
        }
    }
}
