//! Requests from outside that do not end a run: what USR1, HUP and USR2 ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use element::Stream;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use crate::report::Report;
use crate::worker::Worker;

/// Makes text of a report.
pub type Render = Arc<dyn Fn(&Report) -> String + Send + Sync>;

/// Flags that signal handlers raise, and how reports are written. An element that waits for one of these signals hears of it, and
/// nothing else is done.
#[derive(Clone, Default)]
pub struct Requests {
    /// Raised by USR1: the report so far is written to standard error.
    pub report: Arc<AtomicBool>,
    /// Raised by HUP: the configuration cannot be read again yet, which is said.
    pub reload: Arc<AtomicBool>,
    /// Raised by USR2: that it does nothing is said.
    pub nothing: Arc<AtomicBool>,
    /// Makes text of a report; without it none is written.
    pub render: Option<Render>,
}

impl Requests {
    /// Forgets the request of a signal that an element has taken for itself.
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

/// The sleep between looks at whether they have given it.
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
            flag.swap(false, Ordering::Relaxed) && !self.inner.os_signals.awaits(number)
        };
        let [report, reload, nothing] = [
            is_raised(&requests.report, SIGUSR1),
            is_raised(&requests.reload, SIGHUP),
            is_raised(&requests.nothing, SIGUSR2),
        ];
        if report && let Some(render) = requests.render {
            let text = render(&self.report_of_all());
            self.inner.sink.write(Stream::Messages, format_args!("{text}"));
        }
        let told = [
            (reload, "SIGHUP: the configuration cannot be read again while it runs; the run goes on\n"),
            (nothing, "SIGUSR2: nothing waits for this signal; the run goes on\n"),
        ];
        for (_, text) in told.into_iter().filter(|(is_raised, _)| *is_raised) {
            self.inner.sink.write(Stream::Messages, format_args!("{text}"));
        }
        self.inner.sink.flush();
    }

    /// The report of all workers while they run. Those that do not answer in time are left out.
    fn report_of_all(&mut self) -> Report {
        let own = self.report();
        let Some(team) = self.inner.team.clone() else { return own };
        let me = self.inner.worker();
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
            // One of them may be waiting for an answer of this one.
            self.inner.answer(&mut self.core);
            std::thread::sleep(LOOK);
        }
        Report::sum([own].into_iter().chain(team.take_reports()))
    }
}
