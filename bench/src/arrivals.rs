//! Elements for benchmarks in which packets arrive at a given rate, whether or not the program keeps up: a
//! source of such packets, and a meter of their latency ([`open_loop`]).
//!
//! [`open_loop`]: crate::open_loop

use std::time::{SystemTime, UNIX_EPOCH};

use element::class::{ArgInfo, Notes, Task};
use element::effects::Hold;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Timestamp};
use hdrhistogram::Histogram;
use packet::Store;

/// The classes of the elements BenchmarkArrivals and BenchmarkLatency.
pub(crate) static CLASSES: &[&Class] = &[&ARRIVALS, &LATENCY];

/// The largest number of packets that have arrived and wait to be taken, as in the ring of an interface.
/// Packets that arrive while the ring is full are lost, and counted as missed.
const RING: u64 = 4096;

/// The class of an element that pulls all packets of its input into memory and then replays them at a rate.
/// The time of each packet is its arrival time. Handler `rate` starts and stops the arrivals.
static ARRIVALS: Class = Class {
    name: "BenchmarkArrivals",
    ports: "1/1",
    processing: "l/h",
    args: &[ArgInfo::positional("BURST", "unsigned", "32")],
    notes: Notes { task: Task::Always, ..Notes::NONE },
    table: &HANDLERS,
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
    /// The packets per second that arrive; 0 means that none arrive.
    rate: f64,
    /// The time of the first arrival, in nanoseconds of the system clock.
    start: i64,
    /// The number of packets that have arrived since `start` and have been sent on or missed.
    number: u64,
    count: u64,
    missed: u64,
}

/// Pulls packets from the input until there are none, and keeps them in memory.
fn load(cx: &mut Cx<'_>) -> Store {
    let mut store = cx.stores().store();
    loop {
        let mut batch = cx.pull(0, packet::BATCH_CAPACITY);
        if batch.is_empty() {
            return store;
        }
        while let Some(packet) = batch.pop() {
            cx.stores().keep(&mut store, packet);
        }
    }
}

/// Returns the time of the system clock, in nanoseconds since 1970.
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
        let lent = cx.stores().lend_into(store, self.next..end, &mut batch);
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
            cx.stores().release(&mut store, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.len())
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

const HANDLERS: &[Handler<Arrivals>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("missed", |e| e.missed),
    Handler::data(
        "rate",
        |e| e.rate.to_string(),
        |e, _, value| {
            e.rate = value.trim().parse().map_err(|_| "a rate in packets per second")?;
            (e.start, e.number, e.count, e.missed) = (clock(), 0, 0, 0);
            Ok(())
        },
    ),
];

/// The class of a meter that records, for each packet, the time since its arrival. Handler `all` reads the
/// number of packets, and quartiles, further percentiles, mean and standard deviation of these times in
/// nanoseconds; `reset` clears them.
static LATENCY: Class = Class {
    name: "BenchmarkLatency",
    table: &OF_LATENCY,
    build: |args| {
        args.finish()?;
        Ok(Box::new(Latency { nanoseconds: histogram() }))
    },
    ..Class::DEFAULT
};

/// Creates a histogram of nanoseconds up to ten seconds, with three significant digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("these bounds are in order")
}

struct Latency {
    nanoseconds: Histogram<u64>,
}

impl Element for Latency {
    fn effects(&self) -> Effects {
        Effects::pass()
            .depending_on(element::effects::Depends::Time)
            .counting(element::effects::Counting::Own)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = clock();
        for packet in batch.iter() {
            self.nanoseconds.saturating_record((now - packet.time().0).max(1) as u64);
        }
    }
}

const OF_LATENCY: &[Handler<Latency>] = &[
    Handler::get("all", |e| {
        let all = &e.nanoseconds;
        let of = |quantile| all.value_at_quantile(quantile);
        format!(
            "{} {} {} {} {} {} {} {}",
            all.len(),
            of(0.25),
            of(0.5),
            of(0.75),
            of(0.99),
            of(0.999),
            all.mean(),
            all.stdev()
        )
    }),
    Handler::act("reset", |e| e.nanoseconds.reset()),
];
