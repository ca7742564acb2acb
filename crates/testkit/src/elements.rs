//! Sources that send the packets of a test into a configuration, and sinks that record the packets that
//! arrive. Test and elements exchange packets by a number: [`offer`], then a run, then [`collect`].

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Field, Filter, Support, Target};
use element::runs::Runs;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, Signal, Timestamp};

/// A packet that a test source sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// The bytes of the packet.
    pub bytes: Vec<u8>,
    /// The time stamp of the packet.
    pub time: Timestamp,
    /// The annotation bytes.
    pub annotations: [u8; 48],
    /// The offsets of link, network and transport header, in bytes from the packet's first byte; `None` if
    /// not marked.
    pub headers: [Option<isize>; 3],
}

/// A packet that arrived at a test sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number of the sink (its argument NUMBER).
    pub sink: usize,
    /// The number of the input packet that this packet is or was copied from: 1 plus its index at input 0,
    /// plus 100,000 for each further input. Zero for packets that an element has made.
    pub id: u32,
    /// The bytes of the packet.
    pub bytes: Vec<u8>,
    /// The offset in the slot of the packet's first byte.
    pub start: usize,
    /// The time stamp of the packet.
    pub time: Timestamp,
    /// The annotation bytes.
    pub annotations: [u8; 48],
    /// The offsets of link, network and transport header, in bytes from the packet's first byte; `None` if
    /// not marked.
    pub headers: [Option<isize>; 3],
}

/// The packets of one test: the packets to send, for each source, and the packets that have arrived. Sources
/// and sinks find an exchange by its number.
#[derive(Default)]
struct Exchange {
    inputs: Vec<Vec<TestPacket>>,
    seen: Vec<Seen>,
}

static EXCHANGES: LazyLock<Mutex<HashMap<u64, Exchange>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

fn exchanges() -> MutexGuard<'static, HashMap<u64, Exchange>> {
    EXCHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Makes the packets of a test available to its sources: `inputs[i]` to `TestSource(number, i)`. Returns
/// the number of the exchange, which the configuration has to contain.
pub fn offer(inputs: Vec<Vec<TestPacket>>) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    exchanges().insert(number, Exchange { inputs, seen: Vec::new() });
    number
}

/// Returns the packets that sinks have recorded in an exchange, in order of arrival, and removes the
/// exchange.
pub fn collect(number: u64) -> Vec<Seen> {
    exchanges().remove(&number).map(|exchange| exchange.seen).unwrap_or_default()
}

/// Returns the number of packets that sinks have recorded in an exchange so far.
pub fn arrived(number: u64) -> usize {
    exchanges().get(&number).map_or(0, |exchange| exchange.seen.len())
}

/// The headers whose offsets packets are annotated with, in the order of [`TestPacket::headers`].
pub const BASES: [Base; 3] = [Base::Mac, Base::Network, Base::Transport];

/// The element classes for tests: sources and sinks, push and pull, an element that passes all packets to
/// worker 0, an element that sets wrong runs, and an element that stops the driver.
pub static CLASSES: &[&Class] =
    &[&TEST_SOURCE, &TEST_PULL_SOURCE, &TEST_SINK, &TEST_PULL_SINK, &TEST_FIRST, &TEST_STALE, &TEST_STOP];

const ARGS: &[ArgInfo] = &[
    ArgInfo::required("EXCHANGE", "unsigned"),
    ArgInfo::required("NUMBER", "unsigned"),
    ArgInfo::keyword("ROUNDS", "unsigned", "1"),
    ArgInfo::keyword("RECORD", "bool", "true"),
    ArgInfo::keyword("HEADROOM", "unsigned", "256"),
    ArgInfo::keyword("SINGLE", "bool", "false"),
];

/// The class `TestSource(EXCHANGE, NUMBER [, ROUNDS n, HEADROOM h, SINGLE s])`. It pushes the packets that
/// the exchange has for this number, `n` times. Packets of one slot have `h` bytes of headroom, at most 256.
/// If `s` is true, each packet is a run of its own.
pub static TEST_SOURCE: Class = Class {
    name: "TestSource",
    ports: "0/1",
    processing: "h",
    args: ARGS,
    notes: Notes::TASK,
    build: build_source,
    ..Class::DEFAULT
};

/// The class `TestPullSource`: like [`TEST_SOURCE`], but packets are pulled from it.
pub static TEST_PULL_SOURCE: Class = Class {
    name: "TestPullSource",
    ports: "0/1",
    processing: "l",
    args: ARGS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    build: build_source,
    ..Class::DEFAULT
};

/// The class `TestSink(EXCHANGE, NUMBER [, RECORD false])`. It records the packets pushed to it in the
/// exchange, or only counts them as sent.
pub static TEST_SINK: Class = Class {
    name: "TestSink",
    ports: "1/0",
    processing: "h",
    args: ARGS,
    build: build_sink,
    ..Class::DEFAULT
};

/// The class `TestPullSink`: like [`TEST_SINK`], but it pulls packets.
pub static TEST_PULL_SINK: Class = Class {
    name: "TestPullSink",
    ports: "1/0",
    processing: "l",
    args: ARGS,
    notes: Notes::TASK,
    build: build_sink,
    ..Class::DEFAULT
};

/// The class `TestFirst`. Each worker's copy hands its packets over to the copy on worker 0, which passes
/// them on.
pub static TEST_FIRST: Class =
    Class { name: "TestFirst", processing: "h", build: |_| Ok(Box::new(TestFirst)), ..Class::DEFAULT };

/// The class `TestStale`. It gives all packets the same run, although they may be of different flows, so
/// elements downstream must not rely on runs.
pub static TEST_STALE: Class =
    Class { name: "TestStale", build: |_| Ok(Box::new(TestStale)), ..Class::DEFAULT };

struct TestStale;

impl Element for TestStale {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("test packets"), ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_run(1));
    }
}

/// The class `TestStop`. It stops the driver before any task of its graph runs.
pub static TEST_STOP: Class =
    Class { name: "TestStop", ports: "0/0", build: |_| Ok(Box::new(TestStop)), ..Class::DEFAULT };

struct TestStop;

impl Element for TestStop {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.stop();
        Ok(())
    }
}

struct TestFirst;

impl Element for TestFirst {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if cx.worker().0 == 0 {
            return Some(batch);
        }
        cx.hand_over(0, 0, batch);
        None
    }
}

fn build_source(args: &mut element::Args<'_>) -> Result<Box<dyn Element>, element::Invalid> {
    let (exchange, number): (u64, usize) = (args.required("EXCHANGE"), args.required("NUMBER"));
    let rounds = args.value::<usize>("ROUNDS");
    let headroom = args.value::<usize>("HEADROOM");
    let single = args.value::<bool>("SINGLE");
    args.finish()?;
    publish_occupancy(args);
    let inputs = exchanges().get(&exchange).and_then(|e| e.inputs.get(number).cloned()).unwrap_or_default();
    let first = 1 + 100_000 * number as u32;
    Ok(Box::new(TestSource { inputs, rounds, headroom, single, next: 0, first }))
}

/// Publishes the service that queues publish, with an occupancy of ten packets. So elements that watch
/// queues can be tested between a source and a sink.
fn publish_occupancy(args: &mut element::Args<'_>) {
    let occupancy = nf::storage::fifo::Occupancy::default();
    occupancy.set(10);
    args.setup.publish(args.id(), Arc::new(occupancy));
}

struct TestSource {
    inputs: Vec<TestPacket>,
    rounds: usize,
    headroom: usize,
    single: bool,
    next: usize,
    /// The number of the source's first packet, as sinks record it ([`Seen::id`]).
    first: u32,
}

impl TestSource {
    fn make(&mut self, cx: &mut Cx<'_>, most: usize) -> Batch {
        let mut batch = cx.batch();
        while batch.len() < most && self.next < self.inputs.len() * self.rounds {
            let place = self.next % self.inputs.len();
            let input = &self.inputs[place];
            self.next += 1;
            let Some(mut packet) = cx.packet(&input.bytes) else { continue };
            let unwanted = packet.headroom().saturating_sub(self.headroom);
            if unwanted > 0 && !packet.is_large() && packet.unstrip(unwanted) {
                let length = input.bytes.len();
                packet.data_mut()[..length].copy_from_slice(&input.bytes);
                packet.truncate(length);
            }
            packet.set_time(input.time);
            packet.annotations_mut().bytes_mut().copy_from_slice(&input.annotations);
            for (base, offset) in BASES.into_iter().zip(input.headers) {
                packet.set_offset(base, offset);
            }
            // The flow mark carries the packet's number to the sink. Elements set flow marks only if another
            // element asks for them; an element that removes the mark, such as IPReassembler, makes the
            // number 0.
            packet.set_flow_mark(NonZeroU64::new(1 << 32 | u64::from(self.first + place as u32)));
            if self.single {
                packet.set_run(self.next as u32);
            }
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        batch
    }
}

impl Element for TestSource {
    fn effects(&self) -> Effects {
        // The packets are arbitrary, so no mechanism may assume anything about them.
        Effects { opaque: Some("test packets"), ..Effects::source("test packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.graph().output_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = self.make(cx, cx.burst());
        send(cx, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let batch = self.make(cx, max);
        give(cx, batch)
    }
}

/// Emits the batch of a source's task, and schedules the task again. If the batch is empty, returns false
/// and does not schedule the task.
pub fn send(cx: &mut Cx<'_>, batch: Batch) -> bool {
    let worked = !batch.is_empty();
    cx.emit(0, batch);
    if worked {
        cx.schedule();
    }
    worked
}

/// Returns a pull source's batch. If it is empty, clears the packet signal, so that the puller sleeps.
pub fn give(cx: &mut Cx<'_>, batch: Batch) -> Batch {
    if batch.is_empty() {
        cx.set_signal(Signal::Packets, false);
    }
    batch
}

fn build_sink(args: &mut element::Args<'_>) -> Result<Box<dyn Element>, element::Invalid> {
    let sink = TestSink {
        exchange: args.required("EXCHANGE"),
        number: args.required("NUMBER"),
        records: args.value("RECORD"),
        fruitless: 0,
    };
    args.finish()?;
    publish_occupancy(args);
    Ok(Box::new(sink))
}

struct TestSink {
    exchange: u64,
    number: usize,
    records: bool,
    /// The number of pulls since the last pull that gave a packet.
    fruitless: u32,
}

/// The number of consecutive pulls without a packet after which a sink stops pulling. Without this limit, a
/// test would not end if an element never signals that it is empty.
const PATIENCE: u32 = 1000;

impl TestSink {
    fn record(&self, packet: &Packet) {
        let seen = Seen {
            sink: self.number,
            id: packet.flow_mark().map_or(0, |mark| mark.get() as u32),
            bytes: packet.chunks().collect::<Vec<_>>().concat(),
            start: packet.headroom(),
            time: packet.time(),
            annotations: *packet.annotations().bytes(),
            headers: BASES.map(|base| packet.offset(base)),
        };
        if let Some(exchange) = exchanges().get_mut(&self.exchange) {
            exchange.seen.push(seen);
        }
    }

    fn take(&self, cx: &mut Cx<'_>, mut batch: Batch) {
        // Debug builds fail if packets of different flows come as one run.
        cx.find_runs(&mut batch, &mut Runs::default());
        if self.records {
            batch.iter().for_each(|packet| self.record(packet));
        }
        cx.sent(batch);
    }
}

impl Element for TestSink {
    fn effects(&self) -> Effects {
        let seen = [Field::Payload, Field::Length, Field::Annotation { offset: 0, length: 48 }];
        let effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]).observing(&seen);
        Effects { support: Support { finds_runs: true, ..Support::default() }, ..effects }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !cx.graph().input_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.take(cx, batch);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = cx.pull(0, cx.burst());
        let worked = !batch.is_empty();
        self.take(cx, batch);
        self.fruitless = if worked { 0 } else { self.fruitless + 1 };
        if worked || (cx.may_pull(0) && self.fruitless < PATIENCE) {
            cx.schedule();
        }
        worked
    }
}
