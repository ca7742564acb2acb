//! The benefit of order for downstream elements: a chain with state per flow, larger than the caches, with
//! and without an upstream element that holds packets.
//!
//! Traffic comes in trains: 64 flows at a time send 8 packets each, in turns, so that neighbouring packets
//! are never of the same flow; then 64 other flows follow. So 512 packets in a row contain all packets that
//! can be grouped. For each packet, the chain reads several cache lines of its flow, one after the other.
//! The address of each line is only known from the previous line, as with look-ups of several functions.
//! The chain does so for each packet, as most functions do, or once for each run of packets of one flow,
//! like functions that cache the last flow.

use element::class::ArgInfo;
use element::effects::{Access, Action, Case, Depends, Field, Filter, State, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element};

use crate::graph::{Start, measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The elements of this benchmark.
pub(crate) static CLASSES: &[&Class] = &[&TRAINS, &STATE];

/// The flows that send at the same time.
const TOGETHER: usize = 64;
/// The packets that each of them sends.
const LENGTH: usize = 8;
/// The number of flows, and of cache lines that are read for each flow.
const SIZES: [(usize, usize); 3] = [(100_000, 8), (100_000, 64), (1_000_000, 8)];
/// The limit on runs. There are many rows, so that each row takes less time than elsewhere.
const REPEATS: usize = 5;
const PER_RUN: usize = 200_000;
/// The bits of the source address that identify a flow.
const FLOW: Field = Field::Bytes { base: Base::Data, offset: 26, length: 4 };

/// Measures the chain without an upstream element, with packets held per flow, and with packets held in
/// batches of all flows.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let settings = &Settings {
        repeats: settings.repeats.min(REPEATS),
        per_run: settings.per_run.min(PER_RUN),
        ..settings.clone()
    };
    let mut rows = Vec::new();
    for (flows, lines) in SIZES {
        // The number is reduced in a run that only shows that everything works.
        let flows = if settings.repeats > 1 { flows } else { settings.packets.min(flows) };
        for per in ["packet", "run"] {
            let mut add = |held: &'static str, delay: u64, front: String| {
                let runs = per == "run";
                let chain = format!(
                    "BenchmarkTrains({flows}) -> {front} BenchmarkState({flows}, {lines}, {runs}) -> Discard"
                );
                // All frames are of one flow, until the first element assigns them to many flows.
                let worker = worker_with(settings.packets, (1, 1), 64, Start::Frame, &chain)?;
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
                add("flows", delay, format!("Reframer({delay}, BYPASS none, CAPACITY 1250000) ->"))?;
            }
            add("batches", 64, "Batcher(64, 256) ->".into())?;
        }
    }
    Ok(rows)
}

/// An element that sets the addresses of packets to flows that come in trains.
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
        let case = Case::new(Filter::Any, Target::Output(0)).with(Action::Set(FLOW, value));
        Effects::cases(vec![case]).depending_on(Depends::Counter)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let train = self.number / (TOGETHER * LENGTH) * TOGETHER + self.number % TOGETHER;
            // Flows are far apart in memory, in a random order.
            let flow = ((train as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.flows;
            self.number += 1;
            if let Some(address) = packet.data_mut().get_mut(26..30) {
                address.copy_from_slice(&(0x0a00_0000 | flow as u32).to_be_bytes());
            }
        }
    }
}

/// An element that reads a number of cache lines of a packet's flow.
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
        // The next function stores the same flow at another position.
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

/// A table for each function, with a line for each flow.
struct PerFlow {
    tables: Vec<Vec<Line>>,
    /// True if packets of the same flow as the previous packet need no look-up.
    runs: bool,
    last: u32,
}

impl Element for PerFlow {
    fn effects(&self) -> Effects {
        let state =
            State { table: "flows", key: vec![FLOW], both_directions: false, access: Access::EveryPacket };
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
