//! The driver's loop under the trace clock, where time follows the time stamps of captures, so that the
//! same captures give the same result.
//!
//! Several workers take turns on one thread, so that their order does not depend on the machine.

use std::sync::Arc;

use element::{ElementId, OutputStream, Timestamp};

use crate::control::End;
use crate::graph_copy::GraphCopy;
use crate::options::DAY;
use crate::team::Team;
use crate::worker::Worker;

/// The maximum number of rounds of tasks, and of timers in a row, at one time of the clock. Then a capture
/// continues all the same, so that an endless source or timer does not keep time from passing.
const ROUNDS_PER_STEP: usize = 1024;
/// The number of timers in a row, after the captures' end, that may run without moving a packet. After
/// that, held packets are assumed to stay, and the run ends.
const MOST_STILL: usize = 1_000;

/// Counts the timers in a row that have moved no packet. To detect movement, it stores how many packets were
/// held and how many had been emitted after the last timer.
#[derive(Default)]
struct Stillness {
    timers: usize,
    held: usize,
    gone: u64,
}

/// The maximum number of long gaps between packets of captures that are reported.
const MOST_GAPS_TOLD: usize = 5;

/// The gap since the last packet of a capture.
struct Gap {
    /// The latest time of a packet so far, or the start of the run if that is later or there was no packet.
    last: Timestamp,
    /// The longest time for which timers run without a packet
    /// ([`Options::max_gap`](crate::Options::max_gap)).
    most: Timestamp,
    /// The number of long gaps that have been reported.
    told: usize,
}

impl Gap {
    fn new(worker: &Worker) -> Gap {
        let most = i64::try_from(worker.options.max_gap.as_nanos()).unwrap_or(i64::MAX);
        Gap { last: worker.core.now, most: Timestamp(most), told: 0 }
    }

    /// True if a timer is due more than the time `most` after the last packet. The next packet then comes
    /// before the timer, even if the packet's time is later.
    fn is_over(&self, timer: Timestamp) -> bool {
        timer > self.last + self.most
    }

    /// Ends the gap with a packet at the time `at` in the capture of the element `id`. Reports a gap of more
    /// than a day, because a wrong time stamp is often the cause. Only the first [`MOST_GAPS_TOLD`] gaps are
    /// reported.
    fn end(&mut self, worker: &mut Worker, id: ElementId, at: Timestamp) {
        let length = at - self.last;
        self.last = self.last.max(at);
        if length.as_secs_f64() <= DAY.as_secs_f64() || self.told == MOST_GAPS_TOLD {
            return;
        }
        self.told += 1;
        let element = &worker.graph.plan.graph.elements[id];
        let stops = match length > self.most {
            true => format!("; timers ran for the first {} s of that (--max-gap)", self.most.parts().0),
            false => String::new(),
        };
        let more = if self.told == MOST_GAPS_TOLD { "; further gaps are not reported" } else { "" };
        worker.control.sink.write(
            OutputStream::Messages,
            format_args!(
                "{} :: {}: the time stamp of the next packet, {at}, is {:.1} days later{stops}{more}\n",
                element.name,
                element.class,
                length.as_secs_f64() / DAY.as_secs_f64()
            ),
        );
    }
}

/// The workers that take turns.
pub(crate) enum TurnTakers<'a> {
    /// A single worker, which always has its turn.
    One(&'a mut Worker),
    /// Several workers, by number. While one of them has its turn, the team keeps the others, so that their
    /// handlers can be called.
    Several(Vec<Option<Box<Worker>>>, Arc<Team>),
}

#[allow(clippy::vec_box, reason = "workers change places, and a box is one word to move")]
impl TurnTakers<'_> {
    pub(crate) fn several(workers: Vec<Box<Worker>>, team: Arc<Team>) -> TurnTakers<'static> {
        TurnTakers::Several(workers.into_iter().map(Some).collect(), team)
    }

    pub(crate) fn into_workers(self) -> Vec<Box<Worker>> {
        match self {
            TurnTakers::One(_) => Vec::new(),
            TurnTakers::Several(workers, _) => workers.into_iter().flatten().collect(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Worker> {
        let (one, several) = match self {
            TurnTakers::One(worker) => (Some(&**worker), &[][..]),
            TurnTakers::Several(workers, _) => (None, &workers[..]),
        };
        one.into_iter().chain(several.iter().filter_map(Option::as_deref))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        let (one, several) = match self {
            TurnTakers::One(worker) => (Some(&mut **worker), &mut [][..]),
            TurnTakers::Several(workers, _) => (None, &mut workers[..]),
        };
        one.into_iter().chain(several.iter_mut().filter_map(Option::as_deref_mut))
    }

    fn count(&self) -> usize {
        self.iter().count()
    }

    /// Returns the first worker, which decides about the end of the run.
    fn first(&self) -> &Worker {
        match self {
            TurnTakers::One(worker) => worker,
            TurnTakers::Several(workers, _) => {
                workers[0].as_deref().unwrap_or_else(|| unreachable!("no worker has a turn"))
            }
        }
    }

    /// Calls `work` with one worker. During the call, the team keeps the other workers, so that this worker
    /// can call their handlers.
    fn turn<T>(&mut self, number: usize, work: impl FnOnce(&mut Worker) -> T) -> T {
        let (workers, team) = match self {
            TurnTakers::One(worker) => return work(worker),
            TurnTakers::Several(workers, team) => (workers, team),
        };
        let others = |other: &usize| *other != number;
        for other in (0..workers.len()).filter(others) {
            if let Some(worker) = workers[other].take() {
                team.let_wait(other, worker);
            }
        }
        let result = match workers[number].as_deref_mut() {
            Some(worker) => work(worker),
            None => unreachable!("the worker that had a turn is back"),
        };
        for other in (0..workers.len()).filter(others) {
            workers[other] = team.take_waiting(other);
        }
        result
    }
}

/// Runs the loop until a worker finds that the run is over, and returns the reason. Captures continue only
/// when all workers are idle at the current time, or have used up [`ROUNDS_PER_STEP`]. Then, as a rule, the
/// earliest timer or packet is next.
pub(crate) fn run_trace(crew: &mut TurnTakers<'_>) -> End {
    let has_captures = crew.iter().any(|worker| !worker.captures.is_empty());
    // The number of timers that have run in a row without a change of time, since a capture last ran.
    let mut timers_in_a_row = 0;
    // True if the capture that ran last gave no packet because the packet memory was full. Then timers run
    // first, which may free memory.
    let mut stalled = false;
    let mut still = Stillness::default();
    let mut gap = Gap::new(crew.first());
    loop {
        for number in (0..crew.count()).rev() {
            // The first worker comes last, because it decides if the run goes on.
            if let Some(end) = crew.turn(number, Worker::stop_check) {
                return end;
            }
        }
        // At the current time, all workers run their tasks until none has work, for a limited number of
        // rounds.
        let mut busy = true;
        for _ in 0..ROUNDS_PER_STEP {
            busy = crew.first().control.goes_on() && run_others(crew);
            if !busy {
                break;
            }
        }
        if !crew.first().control.goes_on() || crew.first().reloads.is_ready() {
            continue;
        }
        // Then time moves to the next packet or timer.
        let pushes = sources(crew).filter(|source| source.is_scheduled).min_by_key(|source| source.at);
        let timer = next_timer(crew);
        // After the captures' end, the run goes on while a driver script waits for a timer.
        let waits = |worker: &Worker| worker.manager.is_some_and(|id| worker.wakeups.timers.is_waiting(id));
        let goes_on = !has_captures || sources(crew).next().is_some() || crew.iter().any(waits);
        let tail = !goes_on && is_moving(crew, &mut still);
        let now = crew.first().core.now;
        match (pushes, timer) {
            // A timer that sets itself for the current time again and again must not keep captures from
            // continuing.
            (Some(Source { at, .. }), Some((timer, worker)))
                if stalled
                    || (timer <= at.max(now) && timers_in_a_row < ROUNDS_PER_STEP && !gap.is_over(timer)) =>
            {
                timers_in_a_row = if timer > now { 0 } else { timers_in_a_row + 1 };
                stalled = false;
                run_timer(crew, (timer, worker), |_, _| true);
            }
            // No timer is left that could free packet memory.
            (Some(_), None) if stalled => {
                if crew.turn(0, Worker::end_idle) {
                    return End::Idle;
                }
            }
            (Some(Source { at, worker, id, .. }), _) => {
                move_to(crew, at);
                stalled = crew.turn(worker, |worker| {
                    gap.end(worker, id, at);
                    worker.wakeups.tasks.unschedule(id);
                    !worker.run_task(id) && worker.next_time(id) == Some(Timestamp(i64::MIN))
                });
                timers_in_a_row = 0;
            }
            // As under other clocks, the run does not go on for background timers alone.
            (None, Some(timer)) if goes_on && crew.iter_mut().any(|w| w.wakeups.timers.keep_going()) => {
                run_timer(crew, timer, |_, _| true);
            }
            (None, Some(timer)) if tail => run_timer(crew, timer, |graph, id| {
                // After the captures' end, elements that make packets by themselves stop. Timers run for
                // elements with inputs, which may hold packets, and for driver scripts.
                !graph.plan.inputs[id].is_empty() || graph.plan.classes[id].notes.manages_driver
            }),
            // The rounds at this time are used up, but tasks still have work: the loop goes on at the same
            // time.
            (None, _) if busy => {}
            // No capture is scheduled to continue, and no timer is set, or the timers do not keep the run
            // going.
            (None, timer) => {
                if crew.turn(0, Worker::end_idle) {
                    return End::Idle;
                }
                // A driver script has refused to stop, so time goes on to the next timer.
                if let Some(timer) = timer {
                    run_timer(crew, timer, |_, _| true);
                }
            }
        }
    }
}

/// Lets each worker process the packets handed over to it, and run the tasks of elements that do not read
/// captures. True if any worker had work.
fn run_others(crew: &mut TurnTakers<'_>) -> bool {
    let mut busy = false;
    for number in 0..crew.count() {
        busy |= crew.turn(number, |worker| worker.receive(false) | worker.run_other_tasks());
    }
    busy
}

/// An element with a capture that has packets left.
struct Source {
    /// The time stamp of the next packet.
    at: Timestamp,
    worker: usize,
    id: ElementId,
    is_scheduled: bool,
}

fn sources(crew: &TurnTakers<'_>) -> impl Iterator<Item = Source> {
    crew.iter().enumerate().flat_map(|(number, worker)| {
        worker.sources().map(move |(at, id)| Source {
            at,
            worker: number,
            id,
            is_scheduled: worker.wakeups.tasks.is_scheduled(id),
        })
    })
}

/// Returns the earliest time at which a timer of any worker is due, and the number of that worker. `None`
/// if no timer is set.
fn next_timer(crew: &mut TurnTakers<'_>) -> Option<(Timestamp, usize)> {
    let each = crew.iter_mut().enumerate();
    each.filter_map(|(number, worker)| Some((worker.wakeups.timers.next()?, number))).min()
}

fn run_timer(
    crew: &mut TurnTakers<'_>,
    (at, worker): (Timestamp, usize),
    counts: impl Fn(&GraphCopy, ElementId) -> bool,
) {
    move_to(crew, at);
    crew.turn(worker, |worker| worker.run_next_timer_of(at, counts));
}

/// Moves the time of all workers forward to `at`. It never goes back.
fn move_to(crew: &mut TurnTakers<'_>, at: Timestamp) {
    for worker in crew.iter_mut() {
        worker.core.now = worker.core.now.max(at);
    }
}

/// True, after the captures' end, if packets are held and the last [`MOST_STILL`] timers have moved any
/// packet.
fn is_moving(crew: &TurnTakers<'_>, still: &mut Stillness) -> bool {
    let add = |(held, gone), (more, further)| (held + more, gone + further);
    let (held, gone) = crew.iter().map(Worker::traces).fold((0, 0), add);
    still.timers = if (still.held, still.gone) == (held, gone) { still.timers + 1 } else { 0 };
    (still.held, still.gone) = (held, gone);
    held > 0 && still.timers < MOST_STILL
}
