//! Tests of overload, when the rings between workers are full: no worker waits forever, every packet is
//! counted, and after the overload all packets pass again. Times are not checked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Filter, State, StateAccess, Target};
use element::five_tuple::READS;
use element::steering::{LinkType, Spreading};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Timestamp};
use sprayer::SpreadSettings;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};

/// The elements of these tests, which produce overload and observe it.
static CLASSES: &[&Class] = &[
    &Class {
        name: "Flood",
        ports: "0/1",
        processing: "h",
        args: &[ArgInfo::required("PACKETS", "unsigned"), ArgInfo::required("SYN", "bool")],
        notes: Notes { is_live: true, ..Notes::TASK },
        build: build_flood,
        ..Class::DEFAULT
    },
    &Class {
        name: "Slow",
        processing: "h",
        args: &[ArgInfo::required("WORKER", "unsigned"), ArgInfo::required("PACKETS", "unsigned")],
        build: build_slow,
        ..Class::DEFAULT
    },
    &Class {
        name: "Gate",
        processing: "h",
        args: &[ArgInfo::required("SHUTS", "bool")],
        build: build_gate,
        ..Class::DEFAULT
    },
    &Class {
        name: "Last",
        ports: "1/0",
        processing: "h",
        table: &OF_LAST,
        // With `has_queues`, each worker has a copy of this element; without, or if order is kept, only one
        // worker has.
        notes: Notes { has_queues: true, ..Notes::NONE },
        build: |args| Ok(Box::new(Last { pace: pace(args), later: 0 })),
        ..Class::DEFAULT
    },
    &Class { name: "Home", processing: "h", build: |_| Ok(Box::new(Home)), ..Class::DEFAULT },
];

/// The state of a test, which all elements of its configuration share on all workers: whether gates are
/// open, and the numbers of packets that have arrived and that were dropped.
#[derive(Default)]
struct Pace {
    /// True if the gates are open. While they are shut, packets that reach a gate at a worker other than the
    /// first wait there.
    is_open: AtomicBool,
    /// The number of packets that have arrived at `Last`.
    ended: AtomicU64,
    /// The number of packets that were dropped after they had left a gate, by element id of the gate and by
    /// worker.
    lost: [[AtomicU64; 4]; 8],
    /// True if the overload is over and the later packets are sent.
    is_later: AtomicBool,
}

fn pace(args: &Args<'_>) -> Arc<Pace> {
    // The state is stored under the fixed number `usize::MAX`, so that all elements of a configuration get
    // the same state.
    args.setup.common.get_or_make(usize::MAX, Pace::default)
}

/// A source that sends `first` packets of one connection while the gate is shut, even if there is no room.
/// Then it opens the gate. When all these packets have arrived or been dropped, it sends [`LATER`] more,
/// each when the previous one has arrived at the end.
struct Flood {
    pace: Arc<Pace>,
    connection: u16,
    flags: u8,
    first: u64,
    sent: u64,
    /// The number of calls of `run` in which the source sent nothing, but waited for packets to arrive at the
    /// end.
    vain: u64,
}

/// The number of packets that are sent after the overload.
const LATER: u64 = 200;

/// The number of waiting calls after which the source gives up, so that the test fails.
const PATIENCE: u64 = 20_000_000;

fn build_flood(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let first: u64 = args.required("PACKETS");
    let flags = if args.required("SYN") { SYN } else { ACK };
    args.finish()?;
    Ok(Box::new(Flood { pace: pace(args), connection: 0, flags, first, sent: 0, vain: 0 }))
}

impl Flood {
    /// True if all packets that the source has emitted have arrived at the end, or were dropped on the way.
    fn has_gone(&self, cx: &Cx<'_>) -> bool {
        let lost: u64 = self.pace.lost.iter().flatten().map(|lost| lost.load(Ordering::Acquire)).sum();
        // `lost` counts packets that were dropped downstream of a gate. Packets that the engine drops
        // upstream of the first gate need not be added, because the engine subtracts them from `emitted`.
        self.pace.ended.load(Ordering::Acquire) + lost == cx.counters().emitted
    }
}

impl Element for Flood {
    fn effects(&self) -> Effects {
        Effects::source("flood")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // Finds a connection that worker 1 owns, because the gate makes worker 1 stall.
        let owner = |connection| cx.workers().worker_of(&segment(connection, 0, ACK), LinkType::RawIp);
        self.connection = (0..).find(|&connection| owner(connection) == 1).ok_or("no such connection")?;
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_later = self.sent >= self.first;
        self.pace.is_open.store(is_later, Ordering::Release);
        if is_later && !self.has_gone(cx) {
            self.vain += 1;
            std::thread::yield_now();
            if self.vain < PATIENCE {
                cx.schedule();
            }
            return true;
        }
        self.pace.is_later.store(is_later, Ordering::Release);
        let mut batch = cx.batch();
        for _ in 0..if is_later { 1 } else { cx.burst() } {
            let Some(mut packet) = cx.packet(&segment(self.connection, self.sent as u32, self.flags)) else {
                break;
            };
            packet.set_headers(0, 20);
            self.sent += 1;
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        cx.emit(0, batch);
        if self.sent < self.first + LATER {
            cx.schedule();
        }
        true
    }
}

/// An element in which workers other than the first stall while the gate is shut (if `shuts`). Records the
/// number of packets that were dropped after they had left the gate.
struct Gate {
    pace: Arc<Pace>,
    shuts: bool,
}

fn build_gate(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let gate = Gate { pace: pace(args), shuts: args.required("SHUTS") };
    args.finish()?;
    Ok(Box::new(gate))
}

impl Element for Gate {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        while self.shuts && cx.worker().0 > 0 && !self.pace.is_open.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        cx.emit(0, batch);
        cx.come_back(0);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        // When this timer runs, the packets that the gate passed on have been handed over or dropped
        // downstream.
        self.pace.lost[cx.id()][cx.worker().0].store(cx.counters().dropped(), Ordering::Release);
    }
}

/// The element at which packets end. It counts the packets that arrive after the overload.
struct Last {
    pace: Arc<Pace>,
    later: u64,
}

impl Element for Last {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)])
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let count = batch.len() as u64;
        if self.pace.is_later.load(Ordering::Acquire) {
            self.later += count;
        }
        cx.sent(batch);
        self.pace.ended.fetch_add(count, Ordering::AcqRel);
        None
    }
}

const OF_LAST: &[Handler<Last>] = &[Handler::count("later", |e| e.later)];

/// An element in which one worker needs long for its first packets.
struct Slow {
    worker: usize,
    left: u64,
}

fn build_slow(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let slow = Slow { worker: args.required("WORKER"), left: args.required("PACKETS") };
    args.finish()?;
    Ok(Box::new(slow))
}

impl Element for Slow {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if cx.worker().0 == self.worker {
            let slow = self.left.min(batch.len() as u64);
            self.left -= slow;
            (0..slow * 5_000).for_each(|n| _ = std::hint::black_box(n));
        }
    }
}

/// An element that requires every packet at the worker that owns its flow, and asserts that this holds.
struct Home;

impl Element for Home {
    fn effects(&self) -> Effects {
        let (key, access) = (READS.to_vec(), StateAccess::EveryPacket);
        let state = State { table: "flows", key, both_directions: true, access };
        Effects { state: vec![state], ..Effects::pass() }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        assert!(batch.iter().all(|packet| cx.workers().owner_of(packet) == cx.worker().0));
    }
}

/// Returns a segment of a connection; its payload is the number of the connection and the number of the
/// packet.
fn segment(connection: u16, number: u32, flags: u8) -> Vec<u8> {
    let from = ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection);
    let builder = Builder::tcp(from.into(), ([198, 51, 100, 7], 80).into(), flags);
    builder.build(&[u32::from(connection).to_be_bytes(), number.to_be_bytes()].concat()).unwrap()
}

fn told(seen: &Seen) -> (u32, u32) {
    let number = |back: usize| {
        let at = seen.bytes.len() - back;
        u32::from_be_bytes(seen.bytes[at..at + 4].try_into().unwrap())
    };
    (number(8), number(4))
}

/// Returns `count` packets of `connections` connections in rotation, one per microsecond.
fn packets(count: u32, connections: u16, flags: u8) -> Vec<TestPacket> {
    let packet = |number: u32| TestPacket {
        bytes: segment((number % u32::from(connections)) as u16, number, flags),
        time: Timestamp(1_000_000_000 + i64::from(number) * 1000),
        annotations: [0; 48],
        headers: [Some(0), Some(0), Some(20)],
    };
    (0..count).map(packet).collect()
}

/// Spreading without and with order kept.
const WAYS: [fn() -> Arc<dyn Spreading>; 2] = [
    || SpreadSettings::default().spreading(),
    || SpreadSettings { keeps_order: true, ..SpreadSettings::default() }.spreading(),
];

fn ways(clocks: &[TestRun]) -> impl Iterator<Item = TestRun> + '_ {
    clocks.iter().flat_map(|clock| {
        [2, 4].into_iter().flat_map(move |workers| {
            WAYS.into_iter().map(move |spreading| clock.with(CLASSES).on(workers).spread(spreading))
        })
    })
}

/// Runs a configuration to its end. Asserts that all packets are accounted for, that packets handed over
/// were taken, and that no element holds packets.
fn run(how: TestRun, text: &str, handlers: &[&str]) -> RunResults {
    let _guard = guard(format!("{how:?}"));
    let outcome = how.text(text, handlers).unwrap_or_else(|error| panic!("{error}"));
    let report = &outcome.report;
    assert!(report.balances(), "{how:?}: {report:?}");
    assert!(report.elements.iter().all(|element| element.held == 0), "{how:?}: {report:?}");
    let sum = |of: fn(&engine::WorkerReport) -> u64| report.workers.iter().map(of).sum::<u64>();
    assert_eq!(sum(|worker| worker.handed), sum(|worker| worker.taken), "{how:?}");
    outcome
}

/// Ends the test process with an error if the sender that is returned is not dropped within five minutes. A
/// run takes about a second.
fn guard(what: String) -> Sender<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        if receiver.recv_timeout(Duration::from_secs(300)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("stuck: {what}");
            std::process::exit(1);
        }
    });
    sender
}

fn drops(outcome: &RunResults) -> u64 {
    outcome.report.totals.drops.values().sum()
}

/// Makes one worker far slower than the others at first, and then as fast. Packets come from a source that
/// can wait, so none is dropped.
#[test]
fn one_slow_worker() {
    const PACKETS: u32 = 12_000;
    for how in ways(&[TestRun::trace(), TestRun::real()]) {
        for slow in [0, 1] {
            let exchange = offer(vec![packets(PACKETS, 3, ACK)]);
            let text = format!("TestSource({exchange}, 0) -> Slow({slow}, 2000) -> TestSink({exchange}, 0)");
            let outcome = run(how, &text, &[]);
            let seen = collect(exchange);
            assert_eq!((seen.len(), drops(&outcome)), (PACKETS as usize, 0), "{how:?}");
            let late: u64 = outcome.report.workers.iter().map(|worker| worker.late).sum();
            let keeps_order = how.spreading.is_some_and(|spreading| spreading().keeps_order());
            let mut next = HashMap::new();
            for (connection, number) in seen.iter().map(told) {
                let last = next.insert(connection, number);
                // With order kept, other workers wait for a late worker for a fixed time only. Then packets
                // may leave out of order, and are counted in `late`.
                assert!(!keeps_order || late > 0 || last < Some(number), "{how:?}");
            }
        }
    }
}

/// All packets are SYNs of one connection, and so belong to one worker. They come from a source that can
/// wait, so none is dropped.
#[test]
fn one_connection_that_opens_again_and_again() {
    const PACKETS: u32 = 12_000;
    for how in ways(&[TestRun::trace(), TestRun::real()]) {
        let exchange = offer(vec![packets(PACKETS, 1, SYN)]);
        let text = format!(
            "TestSource({exchange}, 0) -> CheckIPHeader
            -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop); Idle -> [1] nat [1] -> Discard;
            nat[0] -> Slow(0, 1000) -> Slow(1, 1000) -> TestSink({exchange}, 0)"
        );
        let outcome = run(how, &text, &["nat.size"]);
        assert_eq!((collect(exchange).len(), drops(&outcome)), (PACKETS as usize, 0), "{how:?}");
        assert_eq!(outcome.values, [Ok("1".to_string())]);
    }
}

/// Each worker hands more packets to all others than the rings between them hold, so that all may wait for
/// each other. No packet must be dropped, and the run must end.
#[test]
fn rings_that_are_full_in_a_circle() {
    const PACKETS: u32 = 1500;
    const COPIES: usize = 12;
    for how in ways(&[TestRun::trace(), TestRun::real()]) {
        let sources = how.workers;
        let exchange = offer(vec![packets(PACKETS, 64, ACK); sources]);
        let mut text = format!(
            "copies :: Tee({COPIES}); home :: Home -> all :: Counter -> TestSink({exchange}, 0, RECORD false);"
        );
        for source in 0..sources {
            text += &format!("s{source} :: TestSource({exchange}, {source}) -> copies;");
        }
        for copy in 0..COPIES {
            text += &format!("copies[{copy}] -> Slow({}, 100) -> home;", copy % sources);
        }
        let threads: Vec<_> = (0..sources).map(|source| format!("s{source} {source}")).collect();
        text += &format!("StaticThreadSched({})", threads.join(", "));
        let outcome = run(TestRun { burst: Some(64), ..how }, &text, &["all.count"]);
        collect(exchange);
        let expected = PACKETS as usize * COPIES * sources;
        assert_eq!((&outcome.values[0], drops(&outcome)), (&Ok(expected.to_string()), 0), "{how:?}");
        // The number of packets taken from rings depends on which connections each worker owns, and so on the
        // key of the run.
        let taken: u64 = outcome.report.workers.iter().map(|worker| worker.taken).sum();
        assert!(taken > 4096 * sources as u64, "the rings were never full: {how:?}");
    }
}

/// Sources that are interfaces do not wait: while workers stall, packets for which rings have no room are
/// dropped and counted. Afterwards every packet passes.
#[test]
fn what_cannot_wait_is_dropped_and_counted() {
    for how in ways(&[TestRun::real()]) {
        // The flood has twice as many packets as the rings between workers hold.
        let flood = 2 * 4096 * how.workers as u64;
        for (is_syn, way, loses) in [
            // Packets are spread over all workers, so few packets go to stalled workers, and none is dropped.
            (false, "Gate(true)", false),
            // SYNs all go to the worker that owns the connection, which stalls in the gate.
            (true, "Gate(true)", true),
            // Packets are spread first. Then the element `Home` sends them all to the worker that owns the
            // connection, which stalls in the second gate.
            (false, "Gate(false) -> Home -> Gate(true)", true),
        ] {
            let text = format!("Flood({flood}, {is_syn}) -> {way} -> last :: Last");
            let outcome = run(how, &text, &["last.later"]);
            let lost = drops(&outcome);
            assert_eq!(lost > 0, loses, "{way}: {how:?}");
            let busy = outcome.report.totals.drops.get("worker busy");
            assert_eq!(busy.copied().unwrap_or(0), lost, "{way}: {how:?}");
            assert_eq!(outcome.report.totals.out, flood + LATER - lost, "{way}: {how:?}");
            assert_eq!(outcome.values, [Ok(LATER.to_string())], "{way}: {how:?}");
        }
    }
}
