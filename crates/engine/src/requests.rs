//! Requests from outside that do not end a run, made by the signals USR1, HUP and USR2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use element::Stream;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use crate::report::Report;
use crate::worker::Worker;

/// A function that makes the text of a report.
pub type Render = Arc<dyn Fn(&Report) -> String + Send + Sync>;

/// Flags that signal handlers raise, and the function that renders reports. If an element waits for one of
/// these signals, the element is called instead.
#[derive(Clone, Default)]
pub struct Requests {
    /// The flag of USR1. The report so far is written to standard error.
    pub report: Arc<AtomicBool>,
    /// The flag of HUP. A message says that the configuration cannot be read again.
    pub reload: Arc<AtomicBool>,
    /// The flag of USR2. A message says that the signal does nothing.
    pub nothing: Arc<AtomicBool>,
    /// The function that renders a report. Without it, no report is written.
    pub render: Option<Render>,
}

impl Requests {
    /// Clears the flag of a signal that an element handles.
    pub(crate) fn take_back(&self, number: i32) {
        let flag = match number {
            SIGUSR1 => &self.report,
            SIGHUP => &self.reload,
            SIGUSR2 => &self.nothing,
            _ => return,
        };
        flag.store(false, Ordering::Relaxed);
    }
}

/// The time that other workers have for their part of a report.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time to sleep between two checks for reports of other workers.
const LOOK: Duration = Duration::from_micros(200);

impl Worker {
    /// Does what signals have asked for.
    #[inline]
    pub(crate) fn serve_requests(&mut self) {
        let Requests { report, reload, nothing, .. } = &self.options.requests;
        if [report, reload, nothing].iter().any(|flag| flag.load(Ordering::Relaxed)) {
            self.serve_raised();
        }
    }

    #[cold]
    fn serve_raised(&mut self) {
        let requests = self.options.requests.clone();
        let is_raised = |flag: &AtomicBool, number: i32| {
            // A signal that an element waits for has raised the element's flag too.
            flag.swap(false, Ordering::Relaxed) && !self.wakeups.os_signals.awaits(number)
        };
        let [report, reload, nothing] = [
            is_raised(&requests.report, SIGUSR1),
            is_raised(&requests.reload, SIGHUP),
            is_raised(&requests.nothing, SIGUSR2),
        ];
        if report && let Some(render) = requests.render {
            let text = render(&self.report_of_all());
            self.control.sink.write(Stream::Messages, format_args!("{text}"));
        }
        let told = [
            (reload, "SIGHUP: the configuration cannot be read again while it runs; the run goes on\n"),
            (nothing, "SIGUSR2: nothing waits for this signal; the run goes on\n"),
        ];
        for (_, text) in told.into_iter().filter(|(is_raised, _)| *is_raised) {
            self.control.sink.write(Stream::Messages, format_args!("{text}"));
        }
        self.control.sink.flush();
    }

    /// Returns the report of all workers while they run. Workers that do not answer in time are left out.
    fn report_of_all(&mut self) -> Report {
        let own = self.report();
        let Some(team) = self.team.clone() else { return own };
        let me = self.graph.worker();
        let others = (0..team.len()).filter(|&worker| worker != me);
        if team.in_turn {
            let others = others.filter_map(|number| {
                let mut other = team.take_waiting(number)?;
                let report = other.report();
                team.let_wait(number, other);
                Some(report)
            });
            return Report::sum([own].into_iter().chain(others));
        }
        others.for_each(|worker| team.ask_for_report(worker));
        let end = Instant::now() + PATIENCE;
        while team.awaits_reports() && Instant::now() < end {
            // Another worker may be waiting for an answer of this worker.
            let (core, mut host) = self.host();
            host.answer(core);
            std::thread::sleep(LOOK);
        }
        Report::sum([own].into_iter().chain(team.take_reports()))
    }
}
