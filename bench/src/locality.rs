//! The benchmark `locality`: the benefit of packets in the order of flows for a chain with state per flow
//! that is larger than the caches. The chain is measured with an element upstream of it that holds packets to
//! restore this order, and without such an element.
//!
//! Traffic comes in trains: 64 flows send 8 packets each, one packet in turn, so that neighbouring packets
//! are hardly ever of the same flow. Then 64 other flows send. So each group of 64 flows is a train, and each
//! train of 512 packets contains all packets that can be grouped.
//!
//! For each packet, the chain reads several cache lines of the packet's flow, one after the other. The
//! address of each line is only known from the previous line, as with the look-ups of several functions.
//! The chain does so for each packet, as most functions do, or once for each run, like functions that
//! remember the flow of the previous packet.

use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, State, StateAccess, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element};
use engine::Options;

use crate::frames::Start;
use crate::runner::{frames, measure_worker, running_with, text_of};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The classes of elements that this benchmark adds.
pub(crate) static CLASSES: &[&Class] = &[&TRAINS, &STATE];

/// The number of flows that send at the same time.
const TOGETHER: usize = 64;
/// The number of packets that each flow sends before other flows follow.
const LENGTH: usize = 8;
/// The sizes of the chain's state: the number of flows, and the number of cache lines that are read for each
/// flow.
const SIZES: [(usize, usize); 3] = [(100_000, 8), (100_000, 64), (1_000_000, 8)];
/// Limits on the number of runs and their packets, lower than in other benchmarks because there are many
/// rows.
const REPEATS: usize = 5;
const PER_RUN: usize = 200_000;
/// The bytes that identify a flow: the IPv4 source address in a frame.
const FLOW: Field = Field::Bytes { base: Base::Data, offset: 26, length: 4 };

/// Measures the chain in three ways: without an element upstream, with packets held per flow (Reframer),
/// and with packets held in batches of mixed flows (Batcher).
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let settings = &Settings {
        repeats: settings.repeats.min(REPEATS),
        per_run: settings.per_run.min(PER_RUN),
        ..settings.clone()
    };
    let mut rows = Vec::new();
    for (flows, lines) in SIZES {
        // A small run has fewer flows.
        let flows = if settings.repeats > 1 { flows } else { settings.packets.min(flows) };
        for per in ["packet", "run"] {
            let mut add = |held: &'static str, delay: u64, front: String| {
                let runs = per == "run";
                let chain = format!(
                    "BenchmarkTrains({flows}) -> {front} BenchmarkState({flows}, {lines}, {runs}) -> Discard"
                );
                // All frames in memory have the same addresses. The element BenchmarkTrains writes source
                // addresses, and so assigns packets to flows.
                let worker = running_with(
                    CLASSES,
                    text_of(&frames(settings.packets, (1, 1), 64, Start::Frame), Start::Frame, &chain),
                    Options::default(),
                )?;
                let params = [
                    ("flows", Param::Number(flows as u64)),
                    ("lines", Param::Number(lines as u64)),
                    ("per", Param::Word(per)),
                    ("held", Param::Word(held)),
                    ("delay_us", Param::Number(delay)),
                ];
                rows.push(measure_worker("locality", settings, 64, worker, &params)?);
                Ok::<(), String>(())
            };
            add("no", 0, String::new())?;
            for delay in [16, 64, 256, 512] {
                add(
                    "flows",
                    delay,
                    format!("Reframer({delay}, BYPASS none, MIN_BURST 0, CAPACITY 1250000) ->"),
                )?;
            }
            add("batches", 64, "Batcher(64, 256) ->".into())?;
        }
    }
    Ok(rows)
}

/// The class of an element that sets the source addresses of packets, such that their flows come in trains.
static TRAINS: Class = Class {
    name: "BenchmarkTrains",
    args: &[ArgInfo::required("FLOWS", "unsigned")],
    build: |args| {
        let flows = args.required("FLOWS");
        args.finish()?;
        Ok(Box::new(Trains { flows, number: 0 }))
    },
    ..Class::DEFAULT
};

struct Trains {
    flows: usize,
    number: usize,
}

impl Element for Trains {
    fn effects(&self) -> Effects {
        let value = Value::Pure { name: "flow in turn", reads: Vec::new() };
        let case = Case::new(Filter::TRUE, Target::Output(0)).with(Action::Set(FLOW, value));
        Effects::cases(vec![case]).depending_on(Depends::Counter)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let train = self.number / (TOGETHER * LENGTH) * TOGETHER + self.number % TOGETHER;
            // The flows of a train are scattered over the table, so that their lines are far apart in
            // memory.
            let flow = ((train as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.flows;
            self.number += 1;
            if let Some(address) = packet.data_mut().get_mut(26..30) {
                address.copy_from_slice(&(0x0a00_0000 | flow as u32).to_be_bytes());
            }
        }
    }
}

/// The class of an element that reads LINES cache lines of a packet's flow. With RUNS true, it reads no lines
/// for a packet of the same flow as the preceding packet.
static STATE: Class = Class {
    name: "BenchmarkState",
    args: &[
        ArgInfo::required("FLOWS", "unsigned"),
        ArgInfo::required("LINES", "unsigned"),
        ArgInfo::required("RUNS", "bool"),
    ],
    build: |args| {
        let (flows, lines): (usize, usize) = (args.required("FLOWS"), args.required("LINES"));
        let runs = args.required("RUNS");
        args.finish()?;
        // Each line contains the index of its flow's line in the next table, so that this index is known only
        // when the line has been read. For nearly all flows, it differs from table to table.
        let next = |place: usize| ((place as u64).wrapping_mul(0x9e37_79b9) % flows.max(1) as u64) as u32;
        let table = || (0..flows).map(|place| Line { next: next(place), packets: 0 }).collect();
        Ok(Box::new(PerFlow { tables: (0..lines).map(|_| table()).collect(), runs, last: u32::MAX }))
    },
    ..Class::DEFAULT
};

#[repr(align(64))]
struct Line {
    next: u32,
    packets: u32,
}

/// The state of flows: a table for each simulated function, with a line for each flow.
struct PerFlow {
    tables: Vec<Vec<Line>>,
    /// True if no lines are read for a packet of the same flow as the preceding packet.
    runs: bool,
    last: u32,
}

impl Element for PerFlow {
    fn effects(&self) -> Effects {
        let state = State {
            table: "flows",
            key: vec![FLOW],
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        Effects { state: vec![state], ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            let Some(&address) = packet.data().get(26..).and_then(|bytes| bytes.first_chunk()) else {
                continue;
            };
            let mut flow = u32::from_be_bytes(address) & 0xff_ffff;
            if flow == std::mem::replace(&mut self.last, flow) && self.runs {
                continue;
            }
            for table in &mut self.tables {
                if let Some(line) = table.get_mut(flow as usize) {
                    line.packets = line.packets.wrapping_add(1);
                    flow = line.next;
                }
            }
        }
    }
}
