//! Overload: rings between workers that are full, and what becomes of it. Nobody waits for ever, every packet is counted, and
//! when it is over everything runs as before. How long it takes is not asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use element::class::{ArgInfo, HandlerInfo, Notes};
use element::effects::{Access, Case, Filter, State, Target};
use element::five_tuple::READS;
use element::steering::{LinkType, Spreading};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Timestamp};
use testkit::elements::{Input, Seen, collect, offer};
use testkit::{Outcome, Run};
use tidegate_sprayer::Settings;
use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};

/// Elements that make it so.
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
        handlers: &[HandlerInfo::count("later")],
        // Where order is not kept, every worker has one.
        notes: Notes { has_queues: true, ..Notes::NONE },
        build: |args| Ok(Box::new(Last { pace: pace(args), later: 0 })),
        ..Class::DEFAULT
    },
    &Class { name: "Home", processing: "h", build: |_| Ok(Box::new(Home)), ..Class::DEFAULT },
];

/// What the copies of these elements at all workers have in common.
#[derive(Default)]
struct Pace {
    /// Whether packets may pass the gate at workers but the first one.
    is_open: AtomicBool,
    /// Packets that have come to the end.
    ended: AtomicU64,
    /// Packets that were lost behind gates, by element and worker.
    lost: [[AtomicU64; 4]; 8],
    /// Whether the flood is over.
    is_later: AtomicBool,
}

fn pace(args: &Args<'_>) -> Arc<Pace> {
    // There is one in a configuration: whoever asks, it is kept under the same number.
    args.setup.common.get_or_make(usize::MAX, Pace::default)
}

/// Sends so many packets while the gate is shut, whether there is room or not; then opens it and, when all of them have gone,
/// sends [`LATER`] more, each when the one before has come to the end.
struct Flood {
    pace: Arc<Pace>,
    connection: u16,
    flags: u8,
    first: u64,
    sent: u64,
    /// Turns in which it has waited in vain.
    vain: u64,
}

/// Packets that come when the overload is over.
const LATER: u64 = 200;

/// More turns in vain mean that something is stuck.
const PATIENCE: u64 = 20_000_000;

fn build_flood(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let first: u64 = args.required("PACKETS");
    let flags = if args.required("SYN") { SYN } else { ACK };
    args.finish()?;
    Ok(Box::new(Flood { pace: pace(args), connection: 0, flags, first, sent: 0, vain: 0 }))
}

impl Flood {
    /// Whether all that was sent has come to the end, or was lost on its way.
    fn has_gone(&self, cx: &Cx<'_>) -> bool {
        let lost: u64 = self.pace.lost.iter().flatten().map(|lost| lost.load(Ordering::Acquire)).sum();
        // What was lost in front of the gate was not emitted, as it turned out.
        self.pace.ended.load(Ordering::Acquire) + lost == cx.counters().emitted
    }
}

impl Element for Flood {
    fn effects(&self) -> Effects {
        Effects::source("flood")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // One that belongs to a worker that stands still.
        let owner = |connection| cx.worker_of(&segment(connection, 0, ACK), LinkType::RawIp);
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

/// Lets nothing pass while it is shut, but at the first worker: another one stands still there. Tells what was lost behind it.
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
        // What it has let pass has been handed over by now, or was lost.
        self.pace.lost[cx.id()][cx.worker().0].store(cx.counters().dropped(), Ordering::Release);
    }
}

/// Where packets end.
struct Last {
    pace: Arc<Pace>,
    later: u64,
}

impl Element for Last {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Send)])
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

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.later.to_string())
    }
}

/// One worker takes long over its first packets.
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

/// Has every packet at the worker that its flow belongs to.
struct Home;

impl Element for Home {
    fn effects(&self) -> Effects {
        let (key, access) = (READS.to_vec(), Access::EveryPacket);
        let state = State { table: "flows", key, both_directions: true, access };
        Effects { state: vec![state], ..Effects::pass() }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        assert!(batch.iter().all(|packet| cx.owner_of(packet) == cx.worker().0));
    }
}

/// A segment of a connection; its payload says whose it is, and its number.
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

/// So many packets, of so many connections in turn.
fn packets(count: u32, connections: u16, flags: u8) -> Vec<Input> {
    let packet = |number: u32| Input {
        bytes: segment((number % u32::from(connections)) as u16, number, flags),
        time: Timestamp(1_000_000_000 + i64::from(number) * 1000),
        annotations: [0; 48],
        headers: [Some(0), Some(0), Some(20)],
    };
    (0..count).map(packet).collect()
}

/// With and without order.
const WAYS: [fn() -> Arc<dyn Spreading>; 2] = [
    || Settings::default().spreading(),
    || Settings { keeps_order: true, ..Settings::default() }.spreading(),
];

fn ways(clocks: &[Run]) -> impl Iterator<Item = Run> + '_ {
    clocks.iter().flat_map(|clock| {
        [2, 4].into_iter().flat_map(move |workers| {
            WAYS.into_iter().map(move |spreading| clock.with(CLASSES).on(workers).spread(spreading))
        })
    })
}

/// Runs it to its end. Whatever was made has gone, what was handed over was taken, and nobody holds anything.
fn run(how: Run, text: &str, handlers: &[&str]) -> Outcome {
    let _guard = guard(format!("{how:?}"));
    let outcome = how.text(text, handlers).unwrap_or_else(|error| panic!("{error}"));
    let report = &outcome.report;
    assert!(report.balances(), "{how:?}: {report:?}");
    assert!(report.elements.iter().all(|element| element.held == 0), "{how:?}: {report:?}");
    let sum = |of: fn(&engine::WorkerReport) -> u64| report.workers.iter().map(of).sum::<u64>();
    assert_eq!(sum(|worker| worker.handed), sum(|worker| worker.taken), "{how:?}");
    outcome
}

/// Ends the test if its run is stuck. It has had five minutes by then, for what takes a second.
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

fn drops(outcome: &Outcome) -> u64 {
    outcome.report.totals.drops.values().sum()
}

/// One worker is far slower than the others, and then as fast as they are. What comes from a capture waits for it.
#[test]
fn one_slow_worker() {
    const PACKETS: u32 = 12_000;
    for how in ways(&[Run::trace(), Run::real()]) {
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
                // Where order is kept, nobody is waited for longer than a while.
                assert!(!keeps_order || late > 0 || last < Some(number), "{how:?}");
            }
        }
    }
}

/// All packets open one connection, and so belong to one worker. Those of a capture wait.
#[test]
fn one_connection_that_opens_again_and_again() {
    const PACKETS: u32 = 12_000;
    for how in ways(&[Run::trace(), Run::real()]) {
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

/// Each worker has more for all others than the rings between them hold.
#[test]
fn rings_that_are_full_in_a_circle() {
    const PACKETS: u32 = 1500;
    const COPIES: usize = 12;
    for how in ways(&[Run::trace(), Run::real()]) {
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
        let outcome = run(Run { burst: Some(64), ..how }, &text, &["all.count"]);
        collect(exchange);
        let expected = PACKETS as usize * COPIES * sources;
        assert_eq!((&outcome.values[0], drops(&outcome)), (&Ok(expected.to_string()), 0), "{how:?}");
        // How many connections belong to which worker depends on the key of the run.
        let taken: u64 = outcome.report.workers.iter().map(|worker| worker.taken).sum();
        assert!(taken > 4096 * sources as u64, "the rings were never full: {how:?}");
    }
}

/// Interfaces do not wait: while workers stand still, what rings have no room for is dropped and counted. Afterwards every
/// packet passes.
#[test]
fn what_cannot_wait_is_dropped_and_counted() {
    for how in ways(&[Run::real()]) {
        // Twice what the rings hold, of a connection that belongs to a worker that stands still.
        let flood = 2 * 4096 * how.workers as u64;
        for (is_syn, way, loses) in [
            // Workers that stand still get no more than a few of these.
            (false, "Gate(true)", false),
            // All to its worker.
            (true, "Gate(true)", true),
            // First to all, and from there to its worker.
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
