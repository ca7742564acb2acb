//! The driver: chooses the task or timer that runs next, sets the time, and ends the run.
//!
//! With a real or simulated clock, a round of the loop in `run_live` checks for stop requests, receives
//! packets of other workers, runs up to `TASKS_PER_ROUND` tasks, and runs the timers that are due. If
//! there was no work, it sleeps until the next timer, or ends the run. Under the trace clock,
//! `trace_time.rs` runs the loop instead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use element::{Class, ElementId, Timestamp};

use crate::clock::ClockKind;
use crate::control::End;
use crate::graph_copy::GraphCopy;
use crate::problem::Problem;
use crate::trace_time::{TurnTakers, run_trace};
use crate::wakeups::OsSignals;
use crate::worker::{MOST_WORK, Worker};

/// The number of tasks that run before the driver looks at stop requests and files again, if no timer
/// is due before.
const TASKS_PER_ROUND: usize = 128;
/// The longest real time that the tasks of one round may take, so that requests and files do not wait
/// long where packets take long. Each task counts with at most `MOST_OF_TASK`, because other threads may
/// have had the core meanwhile.
const ROUND: Timestamp = Timestamp(10_000_000);
const MOST_OF_TASK: Timestamp = Timestamp(1_000_000);
/// The number of timers that run in a row before the driver looks at stop requests.
const TIMERS_PER_ROUND: usize = 1024;
/// The number of rounds between two reports of progress.
const ROUNDS_PER_REPORT: u64 = 256;
/// The number of rounds between two looks at the files that elements wait for, while there is other
/// work. The driver looks at least once in each period [`LOOK`].
const ROUNDS_PER_LOOK: u64 = 16;
const LOOK: Timestamp = Timestamp(10_000_000);
/// The number of times that a driver script may be consulted about one stop.
const MOST_CONSULTATIONS: usize = 1000;
/// The run count after an interrupt: no driver script can raise it above zero.
const INTERRUPTED: i64 = i64::MIN / 2;

/// The maximum number of timers that run at the end of a run. A periodic timer must not keep the run
/// from ending while some element holds packets for ever.
const MOST_LAST_TIMERS: usize = 1_000_000;

impl Worker {
    /// Initialises every element, in the order of their phases. Under the trace clock, captures are
    /// initialised first, and time starts with their first packet, so that the timers of other elements
    /// count from there. Stops at the first failure, after closing the elements.
    ///
    /// # Errors
    /// If an element cannot be initialised: the problem that it reports.
    pub fn initialize(&mut self) -> Result<(), Box<Problem>> {
        let result = self.begin();
        if result.is_err() {
            // Errors of closing are ignored: the user has to see the first failure.
            let _ = self.finish();
        }
        result
    }

    /// Like [`initialize`](Self::initialize), but after a failure the caller has to call
    /// [`finish`](Self::finish).
    pub(crate) fn begin(&mut self) -> Result<(), Box<Problem>> {
        let mut order: Vec<ElementId> = self.graph.placed().collect();
        let trace = self.options.clock == ClockKind::Trace;
        let is_late = |class: &Class| trace && !class.notes.follows_captures;
        order.sort_by_key(|&id| {
            let class = self.graph.plan.classes[id];
            (is_late(class), class.phase)
        });
        let mut captures_known = false;
        for id in order {
            if is_late(self.graph.plan.classes[id]) && !std::mem::replace(&mut captures_known, true) {
                let first = self.sources().map(|(at, _)| at).min();
                self.core.now = self.core.now.max(first.unwrap_or(self.core.now));
            }
            let result = self.call(id, |element, cx| element.initialize(cx));
            if let Some(Err(text)) = result {
                return Err(Box::new(self.graph.plan.initialization_failed(id, text)));
            }
        }
        self.settle();
        Ok(())
    }

    /// Runs until an element or script stops the driver, no work is left, or the user interrupts. Call
    /// [`initialize`](Self::initialize) before and [`finish`](Self::finish) afterwards.
    pub fn run(&mut self) -> End {
        let end = match self.options.clock {
            ClockKind::Trace => run_trace(&mut TurnTakers::One(self)),
            _ => self.run_live(),
        };
        self.control.sink.flush();
        end
    }

    /// Runs at most `tasks` tasks and the timers that are due, for tests and benchmarks that drive a
    /// worker themselves. Returns false if the driver was stopped or no task is scheduled.
    pub fn step(&mut self, tasks: usize) -> bool {
        self.run_tasks(tasks);
        self.run_timers(self.core.now);
        self.control.goes_on() && !self.wakeups.tasks.is_empty()
    }

    /// Drains and closes every element.
    ///
    /// # Errors
    /// If an element cannot write all of its output: the messages of all such elements.
    pub fn finish(&mut self) -> Result<(), Vec<String>> {
        self.drain();
        self.graph.settle_stand_ins(&mut self.core);
        let mut errors = Vec::new();
        for id in self.graph.placed().collect::<Vec<_>>() {
            if let Some(Err(text)) = self.call(id, |element, cx| element.close(cx)) {
                errors.push(text);
            }
        }
        self.control.sink.flush();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Drains every element, upstream elements first, and repeats this while packets are held and still
    /// move. Under the trace clock, timers run between the rounds.
    pub(crate) fn drain(&mut self) {
        drop(std::mem::take(&mut self.reserve));
        let mut order = self.graph.plan.order();
        order.retain(|&id| self.graph.placement.is_at(id, self.graph.worker()));
        let mut timers = MOST_LAST_TIMERS;
        // A path through the graph has at most `order.len()` elements. Packets that still move after
        // that many rounds go in circles, and are dropped at the next element.
        for round in 0..=order.len() {
            let before = self.traces();
            for &id in &order {
                self.call(id, |element, cx| element.drain(cx));
                self.settle_within(if round < order.len() { MOST_WORK } else { 0 });
            }
            if self.options.clock == ClockKind::Trace {
                self.run_timers_while_held(&mut timers);
            }
            let after = self.traces();
            if after.0 == 0 || after == before {
                break;
            }
        }
    }

    /// Runs timers after a capture has ended, while an element holds packets that a timer may release.
    /// Runs at most `most` timers, and subtracts their number from it.
    fn run_timers_while_held(&mut self, most: &mut usize) {
        let graph = &self.graph;
        let mut holders: Vec<ElementId> = (0..graph.plan.len()).filter(|&id| graph.held(id) > 0).collect();
        while *most > 0 && !holders.is_empty() {
            let Some(at) = self.wakeups.timers.next() else { return };
            *most -= 1;
            self.run_next_timer_of(at, |_, _| true);
            holders.retain(|&id| self.graph.held(id) > 0);
        }
    }

    /// Returns two numbers that show whether packets have moved: the packets held, and the packets emitted
    /// so far.
    pub(crate) fn traces(&self) -> (usize, u64) {
        let held = self.graph.elements.iter().flatten().map(|element| element.held()).sum();
        (held, self.core.counters.iter().map(|counters| counters.emitted).sum())
    }

    /// Runs the driver's loop with real or simulated time.
    fn run_live(&mut self) -> End {
        self.ask_for_short_sleeps();
        // Timers that are due at once, such as a script's, run before the first packet. Simulated time
        // advances with each look at the clock, and keeps Click's order.
        if self.options.clock == ClockKind::Real && self.control.goes_on() {
            self.run_timers(self.core.now);
        }
        loop {
            if let Some(end) = self.stop_check() {
                return end;
            }
            let came = self.receive(false);
            if came && self.has_timer_due() {
                self.run_timers(self.core.now);
            }
            self.run_tasks(TASKS_PER_ROUND);
            if !self.control.goes_on() {
                continue;
            }
            self.run_timers(self.core.now);
            let goes_on = self.control.goes_on() && self.control.next.is_none();
            if self.wakeups.tasks.is_empty() && goes_on && !came {
                match (self.wakeups.timers.next(), self.options.clock) {
                    (Some(_), ClockKind::Real) => self.wait_for_timer(),
                    (Some(at), _) => self.core.now = self.core.now.max(at),
                    (None, clock) if self.options.ends_when_idle && !self.is_awaited(clock) => {
                        if self.is_team_idle() && self.end_idle() {
                            return End::Idle;
                        }
                    }
                    (None, _) => self.nap(),
                }
            }
        }
    }

    /// Runs the next timer, which is due at `at`. If `counts` is false for the timer's element, the
    /// timer is cleared instead.
    pub(crate) fn run_next_timer_of(
        &mut self,
        at: Timestamp,
        counts: impl Fn(&GraphCopy, ElementId) -> bool,
    ) {
        if let Some((_, (id, token))) = self.wakeups.timers.take(at)
            && counts(&self.graph, id)
        {
            // Each timer runs at its own time.
            self.core.now = self.core.now.max(at);
            self.call(id, |element, cx| element.timer(cx, token));
            self.settle();
        }
    }

    /// Returns the elements that have packets of a capture, each with the time of its next packet, in
    /// the order of the graph.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (Timestamp, ElementId)> + '_ {
        self.captures.iter().filter_map(|&id| Some((self.next_time(id)?, id)))
    }

    pub(crate) fn next_time(&self, id: ElementId) -> Option<Timestamp> {
        self.graph.elements[id].as_ref()?.next_time()
    }

    /// Runs each scheduled task once, except tasks that follow a capture. True if any of them had work.
    pub(crate) fn run_other_tasks(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..self.wakeups.tasks.len() {
            if !self.control.goes_on() {
                break;
            }
            let Some(id) = self.wakeups.tasks.take_next() else { break };
            if self.graph.plan.classes[id].notes.follows_captures {
                self.wakeups.tasks.schedule(id);
            } else {
                worked |= self.run_task(id);
            }
        }
        worked
    }

    /// Runs at most `most` tasks. Stops when a timer is due, so that elements that hold packets for
    /// microseconds do not wait for other tasks.
    fn run_tasks(&mut self, most: usize) {
        let mut spent = Timestamp::ZERO;
        self.look_at_clock();
        for _ in 0..most {
            // A stop request suspends all other tasks at once, as in Click.
            if !self.control.goes_on() || spent > ROUND {
                return;
            }
            let Some(id) = self.wakeups.tasks.take_next() else { return };
            if self.has_to_wait(id) {
                self.wakeups.tasks.schedule(id);
                std::thread::yield_now();
                return;
            }
            let before = self.core.now;
            self.run_task(id);
            self.look_at_clock();
            if self.options.clock == ClockKind::Real {
                spent = spent + (self.core.now - before).min(MOST_OF_TASK);
            }
            if self.has_timer_due() {
                return;
            }
        }
    }

    /// True if a timer is due. Under the trace clock, timers run when time reaches them, and not
    /// between tasks.
    #[inline]
    pub(crate) fn has_timer_due(&self) -> bool {
        self.options.clock != ClockKind::Trace && self.wakeups.timers.may_be_due(self.core.now)
    }

    /// True if a source has to wait until other workers have caught up. Sources that read interfaces
    /// never wait.
    #[inline]
    fn has_to_wait(&self, id: ElementId) -> bool {
        let plan = &self.graph.plan;
        let can_wait = || plan.inputs[id].is_empty() && !plan.classes[id].notes.is_live;
        self.exchange.as_ref().is_some_and(|exchange| can_wait() && !exchange.is_clear())
    }

    /// True if all workers are idle, as the first worker sees it, or if there is one worker. Otherwise
    /// sleeps for a short time.
    fn is_team_idle(&mut self) -> bool {
        let Some(team) = self.team.clone() else { return true };
        self.set_idle(true);
        let is_idle = self.graph.worker() == 0 && team.is_idle();
        if !is_idle {
            self.nap();
        }
        is_idle
    }

    /// Answers the questions of other workers.
    #[cold]
    #[inline(never)]
    fn answer(&mut self) {
        self.set_idle(false);
        let (core, mut host) = self.host();
        host.answer(core);
        self.settle();
    }

    /// Does what other workers ask for. True if the run is over for this worker.
    fn attend(&mut self) -> bool {
        let me = self.graph.worker();
        if self.team.as_ref().is_some_and(|team| team.is_asked(me)) {
            self.answer();
        }
        let Some(team) = self.team.clone() else { return false };
        if team.is_asked_for_report(me) {
            team.give_report(me, self.report());
        }
        if me == 0 {
            self.control.stop(team.take_stops());
            return team.has_failed();
        }
        // The first worker decides about the end of the run, and asks the driver script.
        if !self.control.goes_on() {
            team.ask_to_stop(1 - self.control.runcount);
            self.control.runcount = 1;
        }
        team.is_over()
    }

    fn run_timers(&mut self, by: Timestamp) {
        // Timers that other timers set for now run in the next round, after a look at stop requests.
        for _ in 0..TIMERS_PER_ROUND {
            if !self.control.goes_on() {
                return;
            }
            let Some((_, (id, token))) = self.wakeups.timers.take(by) else { return };
            self.look_at_clock();
            self.wakeups.runs_timer = true;
            self.call(id, |element, cx| element.timer(cx, token));
            self.wakeups.runs_timer = false;
            self.settle();
        }
    }

    #[inline]
    pub(crate) fn look_at_clock(&mut self) {
        match self.options.clock {
            ClockKind::Real => {
                let before = std::mem::replace(&mut self.core.now, self.clock.now());
                let has_worked = std::mem::take(&mut self.has_worked);
                if let Some(exchange) = &mut self.exchange {
                    let passed = self.core.now - before;
                    exchange.worked(if has_worked { passed } else { Timestamp::ZERO }, self.core.now);
                }
            }
            ClockKind::Simulated { tick, .. } => self.core.now = self.core.now + tick,
            ClockKind::Trace => {}
        }
    }

    /// Does the periodic work of a round: a switch to a new graph, the progress display, requests of
    /// other workers, files and signals. Returns an end if the run was stopped and no driver script
    /// objects.
    pub(crate) fn stop_check(&mut self) -> Option<End> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.control.next.is_some() {
            self.switch();
        }
        if self.rounds.is_multiple_of(ROUNDS_PER_REPORT) {
            self.show_progress();
        }
        if self.team.is_some() && self.attend() {
            return Some(End::Stopped);
        }
        let is_due = self.rounds.is_multiple_of(ROUNDS_PER_LOOK) || self.core.now - self.looked > LOOK;
        if is_due && !self.wakeups.files.is_empty() {
            self.looked = self.core.now;
            self.serve_files();
        }
        if !self.wakeups.os_signals.is_empty() {
            self.deliver_os_signals();
        }
        if self.graph.worker() != 0 {
            return None;
        }
        self.serve_requests();
        // A signal that an element waits for has also raised the interrupt flag. The element handles it
        // first.
        if self.options.interrupt.load(Ordering::Relaxed) && !self.wakeups.os_signals.has_come() {
            self.control.runcount = INTERRUPTED;
            self.consult();
            return Some(End::Interrupted);
        }
        (!self.control.goes_on() && self.consult()).then_some(End::Stopped)
    }

    fn show_progress(&self) {
        let made = self.core.counters.iter().map(|counters| counters.made).sum();
        let all = self.team.as_ref().map_or(made, |team| team.note_made(self.graph.worker(), made));
        if self.graph.worker() == 0 {
            self.options.progress.store(all, Ordering::Relaxed);
        }
    }

    /// Treats an idle graph as a request to stop. True if the run is over.
    pub(crate) fn end_idle(&mut self) -> bool {
        self.control.runcount = 0;
        if self.consult() {
            return true;
        }
        if self.wakeups.tasks.is_empty() && self.wakeups.timers.next().is_none() {
            // A driver script may continue although nothing can happen any more. It must not keep a core
            // busy.
            self.nap();
        }
        false
    }

    /// Asks the driver script, if there is one, whether the run may end. True if the run is over.
    fn consult(&mut self) -> bool {
        let manages = |id: &ElementId| self.graph.plan.classes[*id].notes.manages_driver;
        let managers: Vec<ElementId> = (0..self.graph.plan.len()).filter(manages).collect();
        for id in managers {
            for _ in 0..MOST_CONSULTATIONS {
                let ends = self.call(id, |element, cx| element.stop_requested(cx));
                self.settle();
                if ends == Some(false) {
                    self.manager = Some(id);
                    self.control.runcount += 1;
                    if self.control.goes_on() {
                        return false;
                    }
                } else {
                    break;
                }
            }
        }
        true
    }

    /// True if input may still come from a file. Simulated time does not wait for input.
    fn is_awaited(&self, clock: ClockKind) -> bool {
        clock == ClockKind::Real && self.wakeups.files.keep_running()
    }

    /// Calls the elements that wait for signals that have come. An interrupt that an element handles
    /// does not end the run.
    fn deliver_os_signals(&mut self) {
        for (id, number) in self.wakeups.os_signals.take() {
            if OsSignals::INTERRUPTS.contains(&number) {
                // The signal sets the flag that wakes this element and the flag that ends the run, one after
                // the other, perhaps on another thread. Both are set after this time, so that the second can
                // be cleared.
                std::thread::sleep(Duration::from_millis(1));
                self.options.interrupt.store(false, Ordering::Relaxed);
            }
            self.options.requests.take_back(number);
            self.call(id, |element, cx| element.os_signal(cx, number));
            self.settle();
        }
    }
}
