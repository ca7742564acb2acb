//! Packets that arrive at a given rate, independent of the receiver, and the latency of each packet.
//!
//! A configuration that is driven at full rate has no latency, because packets come when it asks for them.
//! Here, packet n arrives n / rate after the start and waits in a ring, as in an interface, until it is
//! taken. The latency is the time from the arrival to the end of the chain, waiting included (an open
//! loop).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use element::class::{ArgInfo, HandlerInfo, Notes, Task};
use element::effects::Hold;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Timestamp};
use engine::{Options, Worker};
use hdrhistogram::Histogram;
use packet::Store;

use crate::graph::{Start, running};

/// The elements of these measurements.
pub(crate) static CLASSES: &[&Class] = &[&ARRIVALS, &LATENCY];

/// The most packets that wait; packets that arrive while the ring is full are missed.
const RING: u64 = 4096;

/// A source of packets at a given rate.
static ARRIVALS: Class = Class {
    name: "BenchmarkArrivals",
    ports: "1/1",
    processing: "l/h",
    args: &[ArgInfo::positional("BURST", "unsigned", "32")],
    notes: Notes { task: Task::Always, ..Notes::NONE },
    handlers: &[HandlerInfo::count("count"), HandlerInfo::count("missed"), HandlerInfo::both("rate")],
    build: |args| {
        let burst = args.value::<usize>("BURST").clamp(1, packet::BATCH_CAPACITY);
        args.finish()?;
        Ok(Box::new(Arrivals { burst, ..Arrivals::default() }))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct Arrivals {
    burst: usize,
    store: Option<Box<Store>>,
    next: usize,
    /// The packets per second; 0 stops arrivals.
    rate: f64,
    /// The time when the first packet arrived.
    start: i64,
    /// The number of packets that have been taken or missed since then.
    number: u64,
    count: u64,
    missed: u64,
}

/// Pulls all packets of the source into memory.
fn load(cx: &mut Cx<'_>) -> Store {
    let mut store = cx.store();
    loop {
        let mut batch = cx.pull(0, packet::BATCH_CAPACITY);
        if batch.is_empty() {
            return store;
        }
        while let Some(packet) = batch.pop() {
            cx.keep(&mut store, packet);
        }
    }
}

/// Returns the clock of this machine, in nanoseconds.
fn clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_nanos() as i64)
}

impl Element for Arrivals {
    fn effects(&self) -> Effects {
        Effects { hold: Hold::Replay, ..Effects::pass() }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        cx.schedule();
        let store = self.store.get_or_insert_with(|| Box::new(load(cx)));
        if self.rate <= 0.0 {
            return false;
        }
        let due = ((clock() - self.start) as f64 * self.rate / 1e9) as u64;
        let waiting = due.saturating_sub(self.number);
        let missed = waiting.saturating_sub(RING);
        self.missed += missed;
        self.number += missed;
        let most = (waiting - missed).min(self.burst as u64) as usize;
        if most == 0 {
            return false;
        }
        let mut batch = cx.batch();
        let end = (self.next + most).min(store.len());
        let lent = cx.lend_into(store, self.next..end, &mut batch);
        self.next = if self.next + lent == store.len() { 0 } else { self.next + lent };
        for (place, packet) in batch.iter_mut().enumerate() {
            let arrival = (self.number + place as u64) as f64 * 1e9 / self.rate;
            packet.set_time(Timestamp(self.start + arrival as i64));
        }
        self.number += lent as u64;
        self.count += lent as u64;
        cx.emit(0, batch);
        lent > 0
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut store) = self.store.take() {
            cx.release(&mut store, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.len())
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(match name {
            "count" => self.count.to_string(),
            "missed" => self.missed.to_string(),
            _ => self.rate.to_string(),
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, value: &str) -> Result<(), String> {
        self.rate = value.trim().parse().map_err(|_| "a rate in packets per second")?;
        (self.start, self.number, self.count, self.missed) = (clock(), 0, 0, 0);
        Ok(())
    }
}

/// A meter that records the time since the arrival of packets.
static LATENCY: Class = Class {
    name: "BenchmarkLatency",
    handlers: &[HandlerInfo::read("all"), HandlerInfo::write("reset")],
    build: |args| {
        args.finish()?;
        Ok(Box::new(Latency { nanoseconds: histogram() }))
    },
    ..Class::DEFAULT
};

/// Creates a histogram of up to ten seconds, with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("these bounds are in order")
}

struct Latency {
    nanoseconds: Histogram<u64>,
}

impl Element for Latency {
    fn effects(&self) -> Effects {
        Effects::pass().depending_on(element::effects::Depends::Time).counting(element::effects::Counts::Own)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = clock();
        for packet in batch.iter() {
            self.nanoseconds.saturating_record((now - packet.time().0).max(1) as u64);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        let all = &self.nanoseconds;
        let of = |quantile| all.value_at_quantile(quantile);
        Ok(format!(
            "{} {} {} {} {} {} {} {}",
            all.len(),
            of(0.25),
            of(0.5),
            of(0.75),
            of(0.99),
            of(0.999),
            all.mean(),
            all.stdev()
        ))
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, _value: &str) -> Result<(), String> {
        self.nanoseconds.reset();
        Ok(())
    }
}

/// The latencies of packets in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) quartiles: [f64; 2],
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// Returns the configuration of a chain with packets that arrive at a rate.
pub(crate) fn text(frames: &str, start: Start, burst: usize, chain: &str) -> String {
    format!("{frames} {} -> arrivals :: BenchmarkArrivals({burst}) -> {chain}", start.marks())
}

/// A running configuration with packets that arrive at a rate.
pub(crate) struct OpenLoop {
    worker: Worker,
}

impl OpenLoop {
    /// Creates a configuration. `frames` supplies the packets once; each `BenchmarkLatency` of the chain
    /// measures the packets that pass it.
    pub(crate) fn new(frames: &str, start: Start, burst: usize, chain: &str) -> Result<OpenLoop, String> {
        OpenLoop::of(text(frames, start, burst, chain))
    }

    /// Creates an open loop from a whole configuration.
    pub(crate) fn of(text: String) -> Result<OpenLoop, String> {
        let mut open_loop = OpenLoop { worker: running(text, Options::default())? };
        // The first step takes the packets into memory.
        open_loop.spend(Duration::from_millis(1))?;
        Ok(open_loop)
    }

    /// Lets packets arrive at `rate` per second for `time`, after a warm-up of a tenth of it. Returns the
    /// million packets per second that were taken; the other packets found the ring full. The run is
    /// extended, up to a hundred times, while a meter has no packet: a busy machine may not schedule this
    /// thread during a short run.
    pub(crate) fn drive(&mut self, rate: f64, time: Duration, meters: &[&str]) -> Result<f64, String> {
        self.write("arrivals", "rate", &rate.to_string())?;
        self.spend(time / 10)?;
        for meter in meters {
            self.write(meter, "reset", "")?;
        }
        let start = Instant::now();
        let before = self.count()?;
        for _ in 0..100 {
            self.spend(time)?;
            let mut missing = false;
            for meter in meters {
                missing |= self.read(meter, "all")?.starts_with("0 ");
            }
            if !missing {
                break;
            }
        }
        Ok((self.count()? - before) / start.elapsed().as_secs_f64() / 1e6)
    }

    fn spend(&mut self, time: Duration) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < time {
            if !self.worker.step(256) {
                return Err("the measurement stopped by itself".into());
            }
        }
        Ok(())
    }

    /// Returns the latencies that a meter has recorded since the last run began.
    pub(crate) fn latencies(&mut self, meter: &str) -> Result<Latencies, String> {
        let text = self.read(meter, "all")?;
        let figures: Vec<f64> = text.split(' ').filter_map(|figure| figure.parse().ok()).collect();
        let &[count, lower, median, upper, p99, p999, mean, deviation] = &figures[..] else {
            return Err(format!("{meter} says {text}"));
        };
        if count == 0.0 {
            return Err(format!("no packet has come to '{meter}'"));
        }
        let [lower, median, upper, p99, p999, mean, deviation] =
            [lower, median, upper, p99, p999, mean, deviation].map(|nanoseconds| nanoseconds / 1e3);
        Ok(Latencies { quartiles: [lower, upper], median, p99, p999, mean, deviation })
    }

    fn count(&mut self) -> Result<f64, String> {
        self.read("arrivals", "count")?.parse().map_err(|_| "no count".into())
    }

    pub(crate) fn read(&mut self, element: &str, name: &str) -> Result<String, String> {
        let id = self.worker.plan().graph.find(element).ok_or(format!("no {element}"))?;
        self.worker.read(Some(id), name, "")
    }

    fn write(&mut self, element: &str, name: &str, value: &str) -> Result<(), String> {
        let id = self.worker.plan().graph.find(element).ok_or(format!("no {element}"))?;
        self.worker.write(Some(id), name, value)
    }

    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.worker.finish().map_err(|errors| errors.join("; "))
    }
}
