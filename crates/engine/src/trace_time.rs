//! Runs under the captures' time: the same capture, the same result.
//!
//! Several workers take turns on one thread, so that who comes first does not depend on the machine.

use element::{ElementId, Timestamp};

use crate::driver::End;
use crate::host::Inner;
use crate::worker::Worker;

/// Rounds in which other tasks may run before a capture goes on although they still want to: an endless source beside
/// a capture must not keep time from passing.
const ROUNDS_PER_STEP: usize = 1024;
/// Timers after the captures' end that move no packet, before what is held is taken to stay where it is.
const MOST_STILL: usize = 1_000;

/// For how many timers no packet has moved.
#[derive(Default)]
struct Stillness {
    timers: usize,
    held: usize,
    gone: u64,
}

/// An element of a worker.
type At = (usize, ElementId);

/// Runs until the first worker says that it is over. Sources that know when their next packet is due wait until
/// everybody else has nothing to do; then the earliest timer or packet is next.
pub(crate) fn run_trace(workers: &mut [Worker]) -> End {
    let has_captures = workers.iter().any(|worker| !worker.captures.is_empty());
    // Timers that have run since time moved or a capture gave a packet.
    let mut timers_in_a_row = 0;
    // Whether the last capture that was asked gave nothing, because packet memory is full.
    let mut stalled = false;
    let mut still = Stillness::default();
    loop {
        for worker in workers.iter_mut().rev() {
            // The first one comes last, and decides.
            if let Some(end) = worker.stop_check() {
                return end;
            }
        }
        // At this time: everybody who has something to do.
        let mut busy = true;
        for _ in 0..ROUNDS_PER_STEP {
            busy = workers[0].inner.runcount > 0 && run_others(workers);
            if !busy {
                break;
            }
        }
        if workers[0].inner.runcount <= 0 || workers[0].inner.next.is_some() {
            continue;
        }
        // Then the next time at which something happens.
        let pushes = sources(workers)
            .filter(|&(_, (worker, id))| workers[worker].inner.tasks.is_scheduled(id))
            .min_by_key(|&(at, _)| at);
        let timer = next_timer(workers);
        // A driver script that was asked and wants to wait gets its time; so do timers until then.
        let waits = |worker: &Worker| worker.manager.is_some_and(|id| worker.inner.timers.is_waiting(id));
        let goes_on = !has_captures || sources(workers).next().is_some() || workers.iter().any(waits);
        let tail = !goes_on && is_moving(workers, &mut still);
        let now = workers[0].core.now;
        match (pushes, timer) {
            // A timer that sets itself for now, over and over, must not keep captures from going on.
            (Some((at, _)), Some((timer, worker)))
                if stalled || (timer <= at.max(now) && timers_in_a_row < ROUNDS_PER_STEP) =>
            {
                timers_in_a_row = if timer > now { 0 } else { timers_in_a_row + 1 };
                stalled = false;
                run_timer(workers, (timer, worker), |_, _| true);
            }
            // Nobody is left who could free memory.
            (Some(_), None) if stalled => {
                if workers[0].end_idle() {
                    return End::Idle;
                }
            }
            (Some((at, (worker, source))), _) => {
                move_to(workers, at);
                let worker = &mut workers[worker];
                worker.inner.tasks.unschedule(source);
                stalled = !worker.fire(source) && worker.next_time(source) == Some(Timestamp(i64::MIN));
                timers_in_a_row = 0;
            }
            (None, Some(timer)) if goes_on => run_timer(workers, timer, |_, _| true),
            (None, Some(timer)) if tail => run_timer(workers, timer, |inner, id| {
                // What makes packets by itself stops with the captures; what holds some goes on.
                !inner.plan.inputs[id].is_empty() || inner.plan.classes[id].notes.manages_driver
            }),
            // Only their turn is over: they still have work.
            (None, _) if busy => {}
            // The captures are over, or there is nothing else to wait for.
            (None, timer) => {
                if workers[0].end_idle() {
                    return End::Idle;
                }
                // A driver script wants to go on, so time does too.
                if let Some(timer) = timer {
                    run_timer(workers, timer, |_, _| true);
                }
            }
        }
    }
}

/// Lets each worker take in packets and run its tasks that follow no capture; whether any had something to do.
fn run_others(workers: &mut [Worker]) -> bool {
    workers.iter_mut().fold(false, |busy, worker| worker.import() | worker.run_other_tasks() | busy)
}

/// Elements that have packets of a capture, and when the next one is due.
fn sources(workers: &[Worker]) -> impl Iterator<Item = (Timestamp, At)> + '_ {
    let of_one = |(number, worker): (usize, &'_ Worker)| {
        worker.sources().map(move |(at, id)| (at, (number, id))).collect::<Vec<_>>()
    };
    workers.iter().enumerate().flat_map(of_one)
}

/// When the next timer of any worker is due, and whose it is.
fn next_timer(workers: &mut [Worker]) -> Option<(Timestamp, usize)> {
    let each =
        workers.iter_mut().enumerate().filter_map(|(n, worker)| Some((worker.inner.timers.next()?, n)));
    each.min()
}

fn run_timer(
    workers: &mut [Worker],
    (at, worker): (Timestamp, usize),
    counts: impl Fn(&Inner, ElementId) -> bool,
) {
    move_to(workers, at);
    workers[worker].run_next_timer_of(at, counts);
}

/// Time moves, for all.
fn move_to(workers: &mut [Worker], at: Timestamp) {
    for worker in workers {
        worker.core.now = worker.core.now.max(at);
    }
}

/// After the captures' end: whether packets are held that timers still move.
fn is_moving(workers: &[Worker], still: &mut Stillness) -> bool {
    let add = |(held, gone), (more, further)| (held + more, gone + further);
    let (held, gone) = workers.iter().map(Worker::traces).fold((0, 0), add);
    still.timers = if (still.held, still.gone) == (held, gone) { still.timers + 1 } else { 0 };
    (still.held, still.gone) = (held, gone);
    held > 0 && still.timers < MOST_STILL
}
