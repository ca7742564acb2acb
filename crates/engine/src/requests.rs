//! Requests from outside that do not end a run, made by the signals USR1, HUP and USR2.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use element::{Core, OutputStream};
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use crate::host::WorkerHost;
use crate::inspect::SnapshotPart;
use crate::options::Requests;
use crate::report::RunReport;
use crate::snapshot::Snapshot;
use crate::wakeups::OsSignals;
use crate::worker::Worker;

/// The time to wait for the reports of other workers. A worker that needs longer is left out.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time to sleep between two checks for the reports of other workers.
const LOOK: Duration = Duration::from_micros(200);

impl Worker {
    /// Handles the signals USR1, HUP and USR2 that have come since the last round of the driver. Without a
    /// signal, this costs three loads.
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
            // If an element waits for the signal, the signal has also set the flag that the element waits
            // for. Then the element handles the signal, and the driver does not.
            flag.swap(false, Ordering::Relaxed) && !OsSignals::is_awaited(number)
        };
        let [report, reload, nothing] = [
            is_raised(&requests.report, SIGUSR1),
            is_raised(&requests.reload, SIGHUP),
            is_raised(&requests.nothing, SIGUSR2),
        ];
        if report && let Some(render) = requests.render {
            let (core, mut host) = self.host();
            let reports = host.parts_of_all(core).into_iter().map(|part| part.report);
            let text = render(&RunReport::sum(reports));
            self.control.sink.write(OutputStream::Messages, format_args!("{text}"));
        }
        if reload && self.reloads.can_reload() {
            self.reload_for_signal();
        }
        let told = [
            (
                reload && !self.reloads.can_reload(),
                "SIGHUP: the configuration cannot be read again while it runs; the run goes on\n",
            ),
            (nothing, "SIGUSR2: nothing waits for this signal; the run goes on\n"),
        ];
        for (_, text) in told.into_iter().filter(|(is_raised, _)| *is_raised) {
            self.control.sink.write(OutputStream::Messages, format_args!("{text}"));
        }
        self.control.sink.flush();
    }
}

impl WorkerHost<'_> {
    /// Returns the report so far as an object in JSON, for the handler `report`.
    ///
    /// # Errors
    /// If a reload is under way at some workers.
    pub(crate) fn report_text(&mut self, core: &mut Core) -> Result<String, String> {
        let snapshot = Snapshot::of(self.parts_of_all(core)).ok_or("the configuration is being replaced")?;
        serde_json::to_string(&snapshot.object()).map_err(|error| error.to_string())
    }

    /// Returns the parts of a snapshot of all workers while they run. Workers that do not give theirs within
    /// [`PATIENCE`] are left out.
    fn parts_of_all(&mut self, core: &mut Core) -> Vec<SnapshotPart> {
        let own = self.part(core);
        let Some(team) = self.team.clone() else { return vec![own] };
        let me = self.graph.worker();
        let others = (0..team.len()).filter(|&worker| worker != me);
        if team.in_turn {
            let others = others.filter_map(|number| {
                let mut other = team.take_waiting(number)?;
                let (core, mut host) = other.host();
                let part = host.part(core);
                team.let_wait(number, other);
                Some(part)
            });
            return [own].into_iter().chain(others).collect();
        }
        others.for_each(|worker| team.ask_for_report(worker));
        let end = Instant::now() + PATIENCE;
        while team.awaits_reports() && Instant::now() < end {
            // Another worker may be waiting for an answer of this worker, and would then not give its
            // report.
            self.answer(core);
            if team.is_asked_for_report(me) {
                team.give_report(me, self.part(core));
            }
            std::thread::sleep(LOOK);
        }
        [own].into_iter().chain(team.take_reports()).collect()
    }
}
