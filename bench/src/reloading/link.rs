//! A simulated link, on which packets arrive at a given rate, and a watch, which records the pause of each
//! worker in a reload.

use std::any::Any;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use element::class::{ArgInfo, Notes, Task};
use element::effects::Hold;
use element::{Class, Cx, DropReason, Effects, Element};
use packet::Store;

use crate::source;

/// The capacity of the link's ring, as a time: a packet that would wait longer than this is lost and counted
/// as missed.
const RING: Duration = Duration::from_millis(20);

/// The size of a frame in bytes.
const FRAME: usize = 64;

/// The time between two batches from which on the link also reads how long the thread has waited for a
/// processor.
const LONG: Duration = Duration::from_micros(20);

/// The observations of all links of a run, and the rate at which packets arrive. The links of the old and the
/// new graphs share the watch, so that it outlives reloads.
pub(super) struct Watch {
    /// The number of flows on the link. Each flow has one packet, which is sent again and again.
    flows: usize,
    /// The packets per second that arrive at each worker; 0 for as many as the worker takes.
    rate: AtomicU64,
    pub(super) seats: Vec<Seat>,
}

/// The observations of one worker.
#[derive(Default)]
pub(super) struct Seat {
    /// The number of packets that the worker has taken so far (`taken`), and the number of packets that were
    /// lost because the ring was full (`missed`).
    pub(super) taken: AtomicU64,
    pub(super) missed: AtomicU64,
    /// The longest time between the starts of two batches since the last reset, in nanoseconds, without the
    /// time for which the thread waited for a processor.
    gap: AtomicU64,
    silences: Mutex<Vec<Silence>>,
}

/// The time for which a worker stood still in a reload: from the start of its last batch in the old graph to
/// the start of its first batch in the new graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) passed: Duration,
    /// The part of `passed` for which the thread waited for a processor.
    pub(super) waited: Duration,
}

impl Seat {
    fn silences(&self) -> MutexGuard<'_, Vec<Silence>> {
        self.silences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of reloads after which the worker has run a batch in the new graph.
    pub(super) fn reloads(&self) -> usize {
        self.silences().len()
    }

    /// Returns the silences so far, and forgets them.
    pub(super) fn take_silences(&self) -> Vec<Silence> {
        std::mem::take(&mut self.silences())
    }

    /// Returns the longest time between the starts of two batches since the last call of this function.
    pub(super) fn take_gap(&self) -> Duration {
        Duration::from_nanos(self.gap.swap(0, Ordering::Relaxed))
    }
}

/// The watches of this process, by their number. A link has the number of its watch as the argument WATCH.
static WATCHES: LazyLock<Mutex<HashMap<u64, Arc<Watch>>>> = LazyLock::new(Mutex::default);

fn watches() -> MutexGuard<'static, HashMap<u64, Arc<Watch>>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Makes a watch for links with one packet of each of `flows` flows. Returns its number, by which links
    /// find it, and the watch.
    pub(super) fn new(flows: usize, workers: usize) -> (u64, Arc<Watch>) {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let seats = (0..workers).map(|_| Seat::default()).collect();
        let watch = Arc::new(Watch { flows, rate: AtomicU64::new(0), seats });
        watches().insert(number, Arc::clone(&watch));
        (number, watch)
    }

    /// Forgets a watch, so that its memory is released with the last link.
    pub(super) fn forget(number: u64) {
        watches().remove(&number);
    }

    /// Lets packets arrive at this rate per second at each worker; 0 for as many as the worker takes.
    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Returns the number of packets that all workers have taken so far, and the number of packets that found
    /// a ring full.
    pub(super) fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Seat) -> &AtomicU64| -> u64 {
            self.seats.iter().map(|seat| of(seat).load(Ordering::Relaxed)).sum()
        };
        (sum(|seat| &seat.taken), sum(|seat| &seat.missed))
    }
}

/// The class of a simulated link. At each worker, packets of the flows that this worker owns arrive, at the
/// rate that the watch has.
pub(super) static LINK: Class = Class {
    name: "BenchmarkLink",
    ports: "0/1",
    processing: "h",
    args: &[ArgInfo::required("WATCH", "unsigned")],
    notes: Notes { has_queues: true, task: Task::Always, ..Notes::NONE },
    build: |args| {
        let number: u64 = args.required("WATCH");
        args.finish()?;
        let Some(watch) = watches().get(&number).cloned() else {
            args.error("there is no such watch");
            return Err(element::Invalid);
        };
        Ok(Box::new(Link { watch, line: None }))
    },
    ..Class::DEFAULT
};

struct Link {
    watch: Arc<Watch>,
    /// The state of the link; None in a new graph until the link of the old graph has handed it over.
    line: Option<Box<Line>>,
}

/// The state of a link: its packets, the arrivals, and the clock of the gaps.
struct Line {
    store: Box<Store>,
    next: usize,
    /// The current rate of arrivals (`rate`), the time since which packets arrive at it (`start`), and the
    /// number of packets taken or missed since then (`number`).
    rate: u64,
    start: Instant,
    number: u64,
    /// The start of the last batch.
    last: Instant,
    /// The time for which the thread has waited for a processor, as it was read last.
    waited: Duration,
    /// True if the graph was replaced after the last batch.
    is_replaced: bool,
    waits: Option<File>,
}

impl Line {
    /// Makes the state of the link at a worker, with a packet of each flow that the worker owns.
    fn new(cx: &mut Cx<'_>, flows: usize) -> Line {
        let mut store = Box::new(cx.stores().store());
        let (me, workers) = cx.worker();
        for number in 0..flows {
            let Some(packet) = cx.packet(&source::frame(number, flows, FRAME)) else { break };
            if workers > 1 && cx.workers().owner_of(&packet) != me {
                cx.drop(packet, DropReason::Discard);
            } else {
                cx.stores().keep(&mut store, packet);
            }
        }
        let now = Instant::now();
        Line {
            store,
            next: 0,
            rate: 0,
            start: now,
            number: 0,
            last: now,
            waited: Duration::ZERO,
            is_replaced: false,
            waits: None,
        }
    }

    /// Returns the time for which this thread has waited for a processor so far; zero if the system does not
    /// report it.
    fn waited(&mut self) -> Duration {
        if self.waits.is_none() {
            self.waits = File::open("/proc/thread-self/schedstat").ok();
        }
        let mut bytes = [0; 64];
        let length = self.waits.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        let text = str::from_utf8(&bytes[..length]).unwrap_or_default();
        Duration::from_nanos(text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0))
    }

    /// Returns the number of packets that have arrived and wait, at most `most`, and the number of packets
    /// lost because the ring was full.
    fn arrived(&mut self, rate: u64, now: Instant, most: usize) -> (usize, u64) {
        if rate != self.rate {
            (self.rate, self.start, self.number) = (rate, now, 0);
        }
        if rate == 0 {
            return (most, 0);
        }
        let due = ((now - self.start).as_secs_f64() * rate as f64) as u64;
        let waiting = due.saturating_sub(self.number);
        let missed = waiting.saturating_sub((RING.as_secs_f64() * rate as f64) as u64);
        self.number += missed;
        ((waiting - missed).min(most as u64) as usize, missed)
    }

    /// Records the time between the previous batch and a batch that begins now, if it is longer than `LONG`
    /// or the graph was replaced in between.
    fn record(&mut self, seat: &Seat, now: Instant) {
        let passed = now - self.last;
        self.last = now;
        if self.is_replaced || passed > LONG {
            let before = self.waited;
            self.waited = self.waited();
            let waited = self.waited.saturating_sub(before).min(passed);
            if std::mem::take(&mut self.is_replaced) {
                seat.silences().push(Silence { passed, waited });
            }
            seat.gap.fetch_max((passed - waited).as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

impl Element for Link {
    fn effects(&self) -> Effects {
        Effects { hold: Hold::Replay, ..Effects::source("frame") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.predecessor().is_none() {
            self.line = Some(Box::new(Line::new(cx, self.watch.flows)));
        }
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        cx.schedule();
        let (me, _) = cx.worker();
        let (Some(line), Some(seat)) = (&mut self.line, self.watch.seats.get(me)) else { return false };
        let now = Instant::now();
        let (most, missed) = line.arrived(self.watch.rate.load(Ordering::Relaxed), now, cx.burst());
        seat.missed.fetch_add(missed, Ordering::Relaxed);
        if most == 0 {
            return false;
        }
        line.record(seat, now);
        let mut batch = cx.batch();
        let end = (line.next + most).min(line.store.len());
        let lent = cx.stores().lend_into(&mut line.store, line.next..end, &mut batch);
        line.next = if line.next + lent == line.store.len() { 0 } else { line.next + lent };
        line.number += lent as u64;
        seat.taken.fetch_add(lent as u64, Ordering::Relaxed);
        cx.emit(0, batch);
        lent > 0
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let mut line = self.line.take()?;
        line.is_replaced = true;
        Some(line)
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        self.line = Some(state.downcast().map_err(|_| "not the state of a link")?);
        Ok(())
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut line) = self.line.take() {
            cx.stores().release(&mut line.store, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.store.len())
    }

    fn missed(&self) -> u64 {
        0
    }
}
