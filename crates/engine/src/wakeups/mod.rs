//! Everything that wakes an element: tasks, timers, signals of other elements, files, and signals of the
//! operating system.

mod files;
mod os_signals;
mod signals;
mod tasks;
mod timers;

use element::{ElementId, Setup, Signal};

use crate::plan::Plan;

pub(crate) use files::WatchedFiles;
pub(crate) use os_signals::OsSignals;
pub(crate) use signals::Signals;
pub(crate) use tasks::{MOST_TICKETS, Tasks};
pub(crate) use timers::Timers;

/// Everything that the elements of one worker wait for. The driver asks this state what runs next.
pub(crate) struct Wakeups {
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    /// True while an element is called because of a timer, in real or simulated time. Tasks that are
    /// scheduled during the call run ahead of other tasks, because they have waited for the timer.
    pub(crate) runs_timer: bool,
    /// The element whose task runs, and true if it has scheduled the task again. The task is queued when its
    /// packets have been delivered, behind tasks that these packets wake: in Click, an element delivers
    /// packets before it schedules its task again.
    running: Option<(ElementId, bool)>,
    pub(crate) signals: Signals,
    pub(crate) files: WatchedFiles,
    pub(crate) os_signals: OsSignals,
}

impl Wakeups {
    /// Makes the state for a graph: no task is scheduled and no timer or file is set. Each task has the
    /// tickets that the configuration gives to its element.
    pub(crate) fn new(plan: &Plan, setup: &Setup) -> Wakeups {
        let mut tasks = Tasks::new(plan.len());
        for id in (0..plan.len()).filter(|&id| plan.has_task(id)) {
            tasks.set_tickets(id, setup.tickets(&plan.graph.elements[id].name).min(MOST_TICKETS));
        }
        Wakeups {
            tasks,
            timers: Timers::default(),
            runs_timer: false,
            running: None,
            signals: Signals::new(plan),
            files: WatchedFiles::default(),
            os_signals: OsSignals::default(),
        }
    }

    /// Notes that the task of an element begins to run.
    pub(crate) fn begin_task(&mut self, element: ElementId) {
        self.running = Some((element, false));
    }

    /// Notes that the task has run and its packets have been delivered. Queues the task if it was scheduled
    /// again meanwhile.
    pub(crate) fn end_task(&mut self) {
        if let Some((element, true)) = self.running.take() {
            self.tasks.schedule(element);
        }
    }

    /// True if the task of an element is scheduled.
    pub(crate) fn is_scheduled(&self, element: ElementId) -> bool {
        self.tasks.is_scheduled(element) || self.running == Some((element, true))
    }

    /// Schedules the task of an element, or removes it from the schedule.
    pub(crate) fn schedule(&mut self, element: ElementId, on: bool) {
        if let Some((running, again)) = &mut self.running
            && *running == element
        {
            *again = on;
            if on {
                return;
            }
        }
        match (on, self.runs_timer) {
            (true, false) => self.tasks.schedule(element),
            (true, true) => self.tasks.schedule_first(element),
            (false, _) => self.tasks.unschedule(element),
        }
    }

    /// Turns a signal of an element on or off. If the signal was off and is now on, schedules the tasks of
    /// the elements that hear it.
    pub(crate) fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool) {
        for &listener in self.signals.set(element, signal, on) {
            match self.runs_timer {
                true => self.tasks.schedule_first(listener),
                false => self.tasks.schedule(listener),
            }
        }
    }
}
