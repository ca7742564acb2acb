//! The driver: chooses the task or timer that runs next, sets the time, and ends the run.
//!
//! With a real or simulated clock, `run_live` runs a loop. A round checks for stop requests, receives packets
//! of other workers, runs up to `TASKS_PER_ROUND` tasks, and runs the timers that are due. If no task is
//! scheduled then and no packet came, it sleeps, at most until the next timer (in simulated time, it jumps to
//! the timer), or ends the run. Under the trace clock, `trace_time.rs` runs the loop instead.

use std::sync::Arc;
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

/// The maximum number of tasks that run in one round of the driver's loop, before the driver checks stop
/// requests again.
const TASKS_PER_ROUND: usize = 128;
/// The real time after which no further task runs in a round of the driver's loop. So stop requests and files
/// do not wait long if tasks are slow. Each task counts with at most `MOST_OF_TASK`, because another thread
/// may have had the core for the rest of the time.
const ROUND: Timestamp = Timestamp(10_000_000);
const MOST_OF_TASK: Timestamp = Timestamp(1_000_000);
/// The maximum number of timers that run in a row before the driver checks stop requests.
const TIMERS_PER_ROUND: usize = 1024;
/// The number of rounds of the driver's loop between two updates of the progress counter.
const ROUNDS_PER_REPORT: u64 = 256;
/// The number of rounds of the driver's loop between two checks of the files that elements wait for, while
/// there is other work. A round that begins more than [`LOOK`] after the last check also checks them.
const ROUNDS_PER_LOOK: u64 = 16;
const LOOK: Timestamp = Timestamp(10_000_000);
/// The maximum number of times that a driver script is asked, and may refuse to stop, for one request to
/// stop.
const MOST_CONSULTATIONS: usize = 1000;
/// The run count after an interrupt: no driver script can raise it above zero.
const INTERRUPTED: i64 = i64::MIN / 2;

/// The maximum number of timers that one call of [`Worker::drain`] runs. A periodic timer must not keep the
/// run from ending while some element holds packets for ever.
const MOST_LAST_TIMERS: usize = 1_000_000;

impl Worker {
    /// Initialises every element of this worker, ordered by the phases of their classes. Under the trace
    /// clock, elements that read captures are initialised first. Time then starts with their first packet, so
    /// that the timers of other elements count from there. Stops at the first failure, and then drains and
    /// closes the elements.
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
        let mut order = self.graph.placed.to_vec();
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
        self.load_saved();
        Ok(())
    }

    /// Runs until an element or script stops the driver, no work is left, or the user interrupts, and
    /// returns which of these happened. Call [`initialize`](Self::initialize) before and
    /// [`finish`](Self::finish) afterwards.
    pub fn run(&mut self) -> End {
        let end = match self.options.clock {
            ClockKind::Trace => run_trace(&mut TurnTakers::One(self)),
            _ => self.run_live(),
        };
        self.control.sink.flush();
        self.control.is_asked_to_stop = false;
        end
    }

    /// Runs at most `tasks` tasks and the timers that are due, and answers a question of another thread. It
    /// is for tests and benchmarks that drive a worker themselves. Returns false if the driver was stopped
    /// or no task is scheduled.
    pub fn step(&mut self, tasks: usize) -> bool {
        self.serve_inspector();
        self.run_tasks(tasks);
        self.run_timers(self.core.now);
        self.control.goes_on() && !self.wakeups.tasks.is_empty()
    }

    /// Drains and closes every element of this worker.
    ///
    /// # Errors
    /// If elements report errors when they are closed, for example that output could not be written: the
    /// messages of all these elements.
    pub fn finish(&mut self) -> Result<(), Vec<String>> {
        if self.team.is_none() {
            self.end_reload();
        }
        self.drain();
        self.graph.settle_stand_ins(&mut self.core);
        let mut errors = Vec::new();
        for &id in &*Arc::clone(&self.graph.placed) {
            if let Some(Err(text)) = self.call(id, |element, cx| element.close(cx)) {
                errors.push(text);
            }
        }
        self.control.sink.flush();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Drains every element of this worker, upstream elements first. Repeats this until no packet is held or
    /// no packet moves any more, at most once more than there are elements. Under the trace clock, timers run
    /// after each repetition while packets are held.
    pub(crate) fn drain(&mut self) {
        drop(std::mem::take(&mut self.reserve));
        self.drain_all();
    }

    /// Like [`drain`](Self::drain), but does not release the memory that is kept for the end of the run
    /// (`Worker::reserve`).
    pub(crate) fn drain_all(&mut self) {
        let order = Arc::clone(&self.graph.upstream_first);
        let mut timers = MOST_LAST_TIMERS;
        // A path through the graph has at most `order.len()` elements. Packets that still move after as
        // many rounds go in circles, and are dropped at the next element.
        for round in 0..=order.len() {
            let before = self.traces();
            for &id in &*order {
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

    /// Runs timers at the end of a run, as long as an element that held packets at the call still holds some,
    /// which a timer may release. Runs at most `most` timers, and subtracts the number of timers that ran
    /// from `most`.
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

    /// Returns the number of held packets and the number of packets emitted so far. If both are unchanged, no
    /// held packet has moved.
    pub(crate) fn traces(&self) -> (usize, u64) {
        let held = self.graph.elements.iter().flatten().map(|element| element.held()).sum();
        (held, self.core.counters.iter().map(|counters| counters.emitted).sum())
    }

    /// Runs the driver's loop with the real or the simulated clock, and returns the reason for its end.
    fn run_live(&mut self) -> End {
        self.ask_for_short_sleeps();
        // Timers that are already due, such as a script's, run before the first packet. Simulated time is
        // left out: it advances with each reading of the clock, and Click runs a task first.
        if self.options.clock == ClockKind::Real && self.control.goes_on() {
            self.run_timers(self.core.now);
        }
        loop {
            if let Some(end) = self.stop_check() {
                return end;
            }
            let saves = self.save_some();
            let came = self.receive(false);
            if came && self.has_timer_due() {
                self.run_timers(self.core.now);
            }
            self.run_tasks(TASKS_PER_ROUND);
            if !self.control.goes_on() {
                continue;
            }
            self.run_timers(self.core.now);
            let can_rest = !self.reloads.can_go_on() && !self.graph.has_unasked();
            let goes_on = self.control.goes_on() && can_rest;
            if self.wakeups.tasks.is_empty() && goes_on && !came && !saves {
                let is_over = !self.wakeups.timers.keep_going()
                    && self.options.ends_when_idle
                    && !self.is_awaited(self.options.clock);
                match (self.wakeups.timers.next(), self.options.clock) {
                    _ if is_over => {
                        if self.is_team_idle() && self.end_idle() {
                            return End::Idle;
                        }
                    }
                    (Some(_), ClockKind::Real) => self.wait_for_timer(),
                    (Some(at), _) => self.core.now = self.core.now.max(at),
                    (None, _) => self.nap(),
                }
            }
        }
    }

    /// Runs the next timer, which is due at `at`, and delivers what its element emits. If `counts` is false
    /// for the element, the timer is cleared without a call.
    pub(crate) fn run_next_timer_of(
        &mut self,
        at: Timestamp,
        counts: impl Fn(&GraphCopy, ElementId) -> bool,
    ) {
        if let Some((_, (id, token))) = self.wakeups.timers.take(at)
            && counts(&self.graph, id)
        {
            // A timer runs at the time for which it was set, or at the current time if that is later.
            self.core.now = self.core.now.max(at);
            self.call(id, |element, cx| element.timer(cx, token));
            self.settle();
        }
    }

    /// Returns the elements that have packets of a capture left, each with the time of its next packet, in
    /// the order of the graph.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (Timestamp, ElementId)> + '_ {
        self.captures.iter().filter_map(|&id| Some((self.next_time(id)?, id)))
    }

    pub(crate) fn next_time(&self, id: ElementId) -> Option<Timestamp> {
        self.graph.elements[id].as_ref()?.next_time()
    }

    /// Runs each scheduled task once, except tasks that follow a capture, which stay scheduled. Returns early
    /// if the driver is stopped. True if any task had work.
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

    /// Runs at most `most` tasks. Returns earlier if the driver is stopped, no task is scheduled, or the
    /// tasks have taken [`ROUND`]. Also returns when the next task is a source that has to wait. Also returns
    /// when a timer is due, so that elements that hold packets for microseconds do not wait for other tasks.
    fn run_tasks(&mut self, most: usize) {
        let mut spent = Timestamp::ZERO;
        self.look_at_clock();
        for _ in 0..most {
            // After a stop request, no further task runs, as in Click.
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

    /// True if a timer may be due now. Always false under the trace clock, whose loop runs timers when time
    /// reaches them, not between tasks.
    #[inline]
    pub(crate) fn has_timer_due(&self) -> bool {
        self.options.clock != ClockKind::Trace && self.wakeups.timers.may_be_due(self.core.now)
    }

    /// True if an element is a source that has to wait until other workers have processed more packets.
    /// Sources that read interfaces never wait, because their packets would be lost.
    #[inline]
    fn has_to_wait(&self, id: ElementId) -> bool {
        let plan = &self.graph.plan;
        let can_wait = || plan.inputs[id].is_empty() && !plan.classes[id].notes.is_live;
        self.exchange.as_ref().is_some_and(|exchange| can_wait() && !exchange.is_clear())
    }

    /// True if there is one worker, or if this is the first worker and all workers are idle. Otherwise sleeps
    /// ([`nap`](Self::nap)). While packets of an old generation of the graph are left at this worker, returns
    /// false without sleep.
    fn is_team_idle(&mut self) -> bool {
        let Some(team) = self.team.clone() else { return true };
        if self.retiring.is_some() {
            return false;
        }
        self.set_idle(true);
        let is_idle = self.graph.worker() == 0 && team.quiet.is_quiet();
        if !is_idle {
            self.nap();
        }
        is_idle
    }

    /// Answers the handler calls that other workers have sent to this worker.
    #[cold]
    #[inline(never)]
    fn answer(&mut self) {
        self.set_idle(false);
        let (core, mut host) = self.host();
        host.answer(core);
        self.settle();
    }

    /// Handles what other workers ask of this worker: handler calls, its part in a reload, its report,
    /// requests to stop. True if the run is over for this worker.
    fn attend(&mut self) -> bool {
        let me = self.graph.worker();
        if self.team.as_ref().is_some_and(|team| team.is_asked(me)) {
            self.answer();
        }
        let Some(team) = self.team.clone() else { return false };
        if team.is_told_of_reload(me) {
            self.take_part_in_reload();
        }
        if team.is_asked_for_report(me) {
            let (core, mut host) = self.host();
            team.give_report(me, host.part(core));
        }
        if me == 0 {
            self.control.stop(team.take_stops());
            return team.has_failed();
        }
        // Only the first worker decides about the end of the run and asks the driver script. So this worker
        // passes its requests to stop to the first worker.
        if !self.control.goes_on() {
            team.ask_to_stop(1 - self.control.runcount);
            self.control.runcount = 1;
        }
        team.is_over()
    }

    fn run_timers(&mut self, by: Timestamp) {
        // Runs timers that are due by the time `by`. A timer that another timer sets for a later time runs in
        // a later round, after a check of stop requests.
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
                let passed = self.core.now - before;
                if let Some(exchange) = &mut self.exchange {
                    exchange.worked(if has_worked { passed } else { Timestamp::ZERO }, self.core.now);
                } else if has_worked {
                    self.busy += passed.0.max(0) as u64;
                }
            }
            ClockKind::Simulated { tick, .. } => self.core.now = self.core.now + tick,
            ClockKind::Trace => {}
        }
    }

    /// Does the periodic work of a round of the driver's loop: a step of a reload, the progress counter, the
    /// requests of other workers and of users, files and signals. Returns the reason for the end if the run
    /// was interrupted, if a worker failed, or if the run was stopped and no driver script refuses.
    pub(crate) fn stop_check(&mut self) -> Option<End> {
        self.rounds = self.rounds.wrapping_add(1);
        // One step of a reload in each round, so that packets wait for one step at most.
        if self.reloads.is_ready() {
            self.switch();
        } else if self.reloads.is_leading() {
            self.lead_reload();
        }
        if self.rounds.is_multiple_of(ROUNDS_PER_REPORT) {
            self.show_progress();
        }
        if self.team.is_some() && self.attend() {
            return Some(End::Stopped);
        }
        self.serve_inspector();
        let is_due = self.rounds.is_multiple_of(ROUNDS_PER_LOOK) || self.core.now - self.looked > LOOK;
        if is_due && !self.wakeups.files.is_empty() {
            self.looked = self.core.now;
            self.serve_files();
        }
        if !self.wakeups.os_signals.is_empty() {
            self.deliver_os_signals();
        }
        // Elements whose effects may have changed are asked for them again now, because no element is being
        // called between two rounds.
        if self.graph.has_unasked() {
            self.host().1.ask_again();
        }
        if self.graph.worker() != 0 {
            return None;
        }
        self.serve_requests();
        self.recompose_some();
        // If an element waits for the signal that has set the interrupt flag, the element handles it, and the
        // run is not interrupted.
        let interrupt = &self.options.interrupt;
        if interrupt.load(Ordering::Relaxed) && !OsSignals::take_interrupt(interrupt) {
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

    /// Treats an idle graph as a request to stop, which a driver script may refuse. True if the run is
    /// over.
    pub(crate) fn end_idle(&mut self) -> bool {
        self.control.runcount = 0;
        if self.consult() {
            return true;
        }
        if self.wakeups.tasks.is_empty() && !self.wakeups.timers.keep_going() {
            // A driver script may refuse to stop although nothing can happen any more. It must not keep a
            // core busy.
            self.nap();
        }
        false
    }

    /// Asks each driver script whether the run may end. Each refusal adds one to the run count. Returns false
    /// as soon as the count is positive: the run goes on. True if the run is over.
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

    /// True if input may still come from a file that an element waits for. Always false with another clock
    /// than the machine's, which does not wait for input.
    fn is_awaited(&self, clock: ClockKind) -> bool {
        clock == ClockKind::Real && self.wakeups.files.keep_running()
    }

    /// Calls the elements that wait for operating-system signals that have come. An interrupt that an
    /// element handles does not end the run.
    fn deliver_os_signals(&mut self) {
        for (id, number) in self.wakeups.os_signals.take() {
            if OsSignals::INTERRUPTS.contains(&number) {
                // A signal sets the element's flag and the flag that ends the run, one after the other,
                // perhaps on another thread. After this sleep both flags are set, so that the second flag
                // can be cleared.
                std::thread::sleep(Duration::from_millis(1));
                OsSignals::answer_interrupt(number, &self.options.interrupt);
            }
            self.options.requests.take_back(number);
            self.call(id, |element, cx| element.os_signal(cx, number));
            self.settle();
        }
    }
}
