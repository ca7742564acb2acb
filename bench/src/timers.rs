//! The benchmark `timers`: the times for which elements hold packets that should be held for microseconds,
//! on an idle worker and on a worker with a busy source. Also the regularity of a source with a rate, and
//! the delay of the machine's own sleep.
//!
//! Wall-clock time includes the time that other programs took of the core. With the busy source, the worker
//! never sleeps, so that its processor time shows the hold time without other programs. On an idle worker,
//! the median of the wall-clock time shows the hold time without other programs.

use std::fmt;
use std::time::{Duration, Instant};

use element::class::ArgInfo;
use element::effects::{Action, Case, Counting, Depends, Field, Filter, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element, Handler};
use engine::Options;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::runner::running_with;
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, quantile};

/// The classes of elements that these measurements add.
pub(crate) static CLASSES: &[&Class] = &[&ENTRANCE, &DEPARTURE];

/// The configured hold time in nanoseconds.
const DELAY: f64 = 64_000.0;
/// The packets per second in measurements with a busy source.
const RATE: u64 = 10_000;
/// The offset in bytes, in a packet that starts with its IPv4 header, at which times are written: after the
/// headers of IPv4 and UDP.
const PLACE: usize = 28;
const CLOCKS: usize = 2;
/// The number of packets that the busy source makes in one task.
const BURST: u64 = 32;

/// The times for which packets were held, and the processor time of the worker that held them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Holding {
    /// The median and the 99th percentile of the hold time in wall-clock time, in microseconds. In the rows
    /// of RatedSource, it is the time between packets; in the row `sleep`, the time slept.
    pub wall_us: [f64; 2],
    /// The median and the 99th percentile of the hold time in processor time of the worker, in
    /// microseconds. Only with a busy source, because otherwise the worker sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_us: Option<[f64; 2]>,
    /// The microseconds of one task of the busy source, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_us: Option<f64>,
    /// The share of a core that the worker took, from 0 to 1.
    pub core: f64,
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holding { wall_us: [p50, p99], thread_us, task_us, core } = self;
        write!(f, "p50 {p50:.0} us, p99 {p99:.0} us")?;
        if let Some([p50, p99]) = thread_us {
            write!(f, "; in thread time {p50:.0} and {p99:.0}")?;
        }
        if let Some(task) = task_us {
            write!(f, "; a task {task:.0} us")?;
        }
        write!(f, "; {:.0} % of a core", core * 100.0)
    }
}

/// The element class BenchmarkEntrance, which writes the wall-clock time and the processor time of its thread
/// into each packet.
static ENTRANCE: Class = Class {
    name: "BenchmarkEntrance",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Entrance))
    },
    ..Class::DEFAULT
};

struct Entrance;

/// Returns the wall-clock time and the processor time of this thread, in nanoseconds.
fn times() -> [i64; CLOCKS] {
    [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_THREAD_CPUTIME_ID]
        .map(|clock| clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec()))
}

impl Element for Entrance {
    fn effects(&self) -> Effects {
        let place = Field::Bytes { base: Base::Data, offset: PLACE as i32, length: 8 * CLOCKS as u16 };
        let write = Case::new(Filter::TRUE, Target::Output(0))
            .with(Action::Set(place, Value::Pure { name: "times", reads: Vec::new() }));
        Effects::cases(vec![write]).depending_on(Depends::Time)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let times = times().map(i64::to_be_bytes).concat();
        for packet in batch.iter_mut() {
            if let Some(place) = packet.data_mut().get_mut(PLACE..PLACE + times.len()) {
                place.copy_from_slice(&times);
            }
        }
    }
}

/// The class of an element that measures the time that each packet has needed since the element
/// BenchmarkEntrance; with `GAPS true`, the time since the previous packet.
static DEPARTURE: Class = Class {
    name: "BenchmarkDeparture",
    args: &[ArgInfo::positional("GAPS", "bool", "false")],
    table: &HANDLERS,
    build: |args| {
        let is_gaps = args.value::<bool>("GAPS");
        args.finish()?;
        Ok(Box::new(Departure { is_gaps, last: None, held: Default::default() }))
    },
    ..Class::DEFAULT
};

struct Departure {
    is_gaps: bool,
    last: Option<[i64; CLOCKS]>,
    held: [Vec<f64>; CLOCKS],
}

impl Element for Departure {
    fn effects(&self) -> Effects {
        Effects::pass().depending_on(Depends::Time).counting(Counting::Own).observing(&[Field::Payload])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = times();
        for packet in batch.iter() {
            let Some((since, _)) = packet.data().get(PLACE..).and_then(|data| data.split_at_checked(16))
            else {
                continue;
            };
            let came: [i64; CLOCKS] = std::array::from_fn(|clock| {
                since[clock * 8..][..8].iter().fold(0, |number, &byte| number << 8 | i64::from(byte))
            });
            let since = if self.is_gaps { self.last.replace(now).unwrap_or(now) } else { came };
            for (clock, held) in self.held.iter_mut().enumerate() {
                held.push((now[clock] - since[clock]) as f64);
            }
        }
    }
}

const HANDLERS: &[Handler<Departure>] = &[Handler::get("held", |e| {
    let figures = e.held.iter().flat_map(|held| [0.5, 0.99].map(|part| quantile(held.clone(), part)));
    figures.map(|figure| figure.to_string()).collect::<Vec<_>>().join(" ")
})];

/// The parameters of a row.
struct Setting {
    /// The element under test.
    element: &'static str,
    /// The packets per second.
    rate: u64,
    /// The amount of work of the busy source for each packet (W of WorkPackage); None if there is no busy
    /// source.
    work: Option<u64>,
    /// The time before a timer is due during which the worker does not sleep but polls, so that the timer is
    /// not late.
    spin: Duration,
}

/// Returns a row for the machine's own sleep, a row for each combination of element, rate and spin time on an
/// idle worker, and a row for each combination of element and amount of work of a busy source.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = vec![sleeps(settings)];
    let spin = Options::default().spin;
    for element in ["Reframer", "Batcher", "DelayUnqueue", "RatedSource"] {
        // At a higher rate, a RatedSource makes several packets at once, so that the gaps have no meaning.
        let rates: &[u64] = if element == "RatedSource" { &[1_000, RATE] } else { &[1_000, RATE, 100_000] };
        for &rate in rates {
            for spin in [Duration::ZERO, spin] {
                rows.push(measure(settings, &Setting { element, rate, work: None, spin })?);
            }
        }
        for work in [0, 100, 1000] {
            rows.push(measure(settings, &Setting { element, rate: RATE, work: Some(work), spin })?);
        }
    }
    Ok(rows)
}

/// Returns the number of packets of a measurement: the packets of one second, or of 20 ms in a small run,
/// but at least 50.
fn count(settings: &Settings, rate: u64) -> u64 {
    let seconds = if settings.repeats > 1 { 1.0 } else { 0.02 };
    ((rate as f64 * seconds) as u64).max(50)
}

fn measure(settings: &Settings, case: &Setting) -> Result<Row, String> {
    let Setting { element, rate, work, spin } = *case;
    let limit = count(settings, rate);
    let held = match element {
        "Reframer" => "Reframer(64us, BYPASS none, MIN_BURST 0)",
        "Batcher" => "Batcher(64us, 256)",
        "DelayUnqueue" => "SetTimestamp -> Queue -> DelayUnqueue(64us)",
        _ => "Null",
    };
    let is_source = element == "RatedSource";
    let mut text = format!(
        "RatedSource(LENGTH 60, RATE {rate}, LIMIT {limit}, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
        -> BenchmarkEntrance -> {held} -> out :: BenchmarkDeparture({is_source}) -> Discard;"
    );
    if let Some(work) = work {
        text +=
            &format!("InfiniteSource(BURST {BURST}) -> WorkPackage(W {work}) -> busy :: Counter -> Discard;");
    }
    let options = Options { spin, ..Options::default() };
    let mut worker = running_with(CLASSES, text, options)?;
    let before = times();
    worker.run();
    let after = times();
    let [passed, taken] = [0, 1].map(|clock| (after[clock] - before[clock]) as f64);
    let mut read = |element: &str, handler: &str| {
        let id = worker.plan().graph.find(element).ok_or("no such element")?;
        worker.read(Some(id), handler, "")
    };
    let figures = read("out", "held")?;
    let figures: Vec<f64> = figures.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [p50, p99, thread_p50, thread_p99] = figures[..] else { return Err("no packet came through".into()) };
    let busy: u64 = work.map_or(Ok("0".into()), |_| read("busy", "count"))?.trim().parse().unwrap_or(0);
    let tasks = busy / BURST;
    worker.finish().map_err(|errors| errors.join("; "))?;
    let us = |nanoseconds: f64| nanoseconds / 1e3;
    let bound = if is_source { 1e9 / rate as f64 } else { DELAY };
    let params = [
        ("element", Param::Word(element)),
        ("rate", Param::Number(rate)),
        ("work", work.map_or(Param::Word("none"), Param::Number)),
        ("spin", Param::Number(spin.as_micros() as u64)),
    ];
    Ok(Row {
        excludes_floor: true,
        unit: "packet held",
        holding: Some(Holding {
            wall_us: [p50, p99].map(us),
            thread_us: work.map(|_| [thread_p50, thread_p99].map(us)),
            task_us: (tasks > 0).then(|| us(taken / tasks as f64)),
            core: taken / passed,
        }),
        ..Row::new("timers", &params, &[Pair { cost: p50.max(1.0), floor: bound }])
    })
}

/// Measures how long the thread sleeps if it asks for [`DELAY`], the time for which elements should hold
/// packets in the other measurements.
fn sleeps(settings: &Settings) -> Row {
    let before = times();
    let sleep = |_| {
        let start = Instant::now();
        std::thread::sleep(Duration::from_nanos(DELAY as u64));
        start.elapsed().as_nanos() as f64
    };
    let slept: Vec<f64> = (0..count(settings, RATE) / 8).map(sleep).collect();
    let after = times();
    let [p50, p99] = [0.5, 0.99].map(|part| quantile(slept.clone(), part));
    let holding = Holding {
        wall_us: [p50 / 1e3, p99 / 1e3],
        thread_us: None,
        task_us: None,
        core: (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64,
    };
    let params = [("element", Param::Word("sleep"))];
    Row {
        excludes_floor: true,
        unit: "sleep",
        holding: Some(holding),
        ..Row::new("timers", &params, &[Pair { cost: p50, floor: DELAY }])
    }
}
