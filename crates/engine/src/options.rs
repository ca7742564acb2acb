//! The options of a run, and the functions and flags by which the owner of a run takes part in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use element::CallOrigin;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use crate::capturing::Captures;
use crate::clock::ClockKind;
use crate::configure::Configured;
use crate::inspect::Inspector;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::recompose::Recomposer;
use crate::report::RunReport;
use crate::saving::{SavedRun, Saving};
use crate::tracing::Traces;

/// The default of [`Options::spin`]. Most sleeps end less than 200 us late.
const SPIN: Duration = Duration::from_micros(200);

/// The options of a run. With several workers, each worker has a copy.
pub struct Options {
    /// The source of time.
    pub clock: ClockKind,
    /// The maximum number of packets in a batch that a source makes.
    pub burst: usize,
    /// The size of the packet pool's address space, in bytes. Memory is allocated as packets need it. Of
    /// several workers, each has an equal part.
    pub memory: usize,
    /// The seed of random numbers, to which worker N adds N. The first worker has the number 0.
    pub seed: u64,
    /// True if idle workers poll for work and never sleep. The latency is lowest, but each worker
    /// occupies a core even when idle.
    pub busy_poll: bool,
    /// The longest time for which a worker stays awake before a timer is due, because sleeps end late. With
    /// zero, the worker sleeps until the timer is due, and the timer runs late.
    pub spin: Duration,
    /// Under the trace clock, the longest time for which timers run between two packets of captures. In a
    /// longer gap, such as a damaged time stamp causes, time then jumps to the next packet.
    pub max_gap: Duration,
    /// True if a run ends when no task is scheduled, no timer but background timers is set, and no watched
    /// file keeps it running. If false, the run waits, as with Click's own driver. Under the trace clock, the
    /// flag has no effect.
    pub ends_when_idle: bool,
    /// A flag that is set from outside (by a signal handler) to end the run.
    pub interrupt: Arc<AtomicBool>,
    /// Flags by which signals request an action without ending the run.
    pub requests: Requests,
    /// True to report errors and warnings of the handler `config` in Click's words, as under Click's driver.
    pub clicks_words: bool,
    /// The text of the configuration, for the handler `config`. If empty, the handler returns the flat
    /// configuration.
    pub text: String,
    /// The function that makes the graph for the handlers `hotconfig` and `reload`, and for SIGHUP. Without
    /// the function, the handlers do not exist.
    pub rebuild: Option<Rebuild>,
    /// The function that composes the synthesized programs of the graph again when handlers have changed
    /// elements that they replace.
    pub recomposer: Option<Arc<Recomposer>>,
    /// The number of packets that have entered the graph so far. The driver updates it now and then, for a
    /// progress display.
    pub progress: Arc<AtomicU64>,
    /// The traces of packets, for the handler `trace`. If packets are ordered before the run, they are traced
    /// from its start. Without it, the handler does not exist.
    pub traces: Option<Arc<Traces>>,
    /// The captures of packets, for the handler `capture`. Without it, the handler does not exist.
    pub captures: Option<Arc<Captures>>,
    /// The access of other threads, such as a server for metrics, to the workers.
    pub inspector: Option<Inspector>,
    /// The way by which workers give their state to the thread that saves it, if there is one.
    pub saving: Option<Saving>,
    /// The saved state of an earlier run, with which elements continue.
    pub saved: Option<Arc<SavedRun>>,
    /// The secret from which the key of the hash follows that gives flows to workers. `None` for a new
    /// secret. With the secret of an earlier run and as many workers, each flow comes to the worker that it
    /// came to then.
    pub steering_secret: Option<u64>,
}

impl Options {
    /// Returns a copy of the options for one worker, without the text and the `rebuild` function, which the
    /// caller sets.
    pub(crate) fn clone_for_copy(&self) -> Options {
        Options {
            clock: self.clock,
            burst: self.burst,
            memory: self.memory,
            seed: self.seed,
            busy_poll: self.busy_poll,
            spin: self.spin,
            max_gap: self.max_gap,
            ends_when_idle: self.ends_when_idle,
            interrupt: Arc::clone(&self.interrupt),
            requests: self.requests.clone(),
            clicks_words: self.clicks_words,
            text: String::new(),
            rebuild: None,
            recomposer: self.recomposer.clone(),
            progress: Arc::clone(&self.progress),
            traces: self.traces.clone(),
            captures: self.captures.clone(),
            inspector: self.inspector.clone(),
            saving: self.saving.clone(),
            saved: self.saved.clone(),
            steering_secret: self.steering_secret,
        }
    }
}

/// The default of [`Options::max_gap`]. Longer gaps between packets of captures are reported.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: ClockKind::Real,
            burst: 32,
            memory: 4 << 30,
            seed: 1,
            busy_poll: false,
            spin: SPIN,
            max_gap: DAY,
            ends_when_idle: true,
            interrupt: Arc::default(),
            requests: Requests::default(),
            clicks_words: false,
            text: String::new(),
            rebuild: None,
            recomposer: None,
            progress: Arc::default(),
            traces: None,
            captures: None,
            inspector: None,
            saving: None,
            saved: None,
            steering_secret: None,
        }
    }
}

/// A function that renders a report as text.
pub type Render = Arc<dyn Fn(&RunReport) -> String + Send + Sync>;

/// Flags that signal handlers set, and the function that renders reports. If an element waits for one of
/// these signals, the element is called instead.
#[derive(Clone, Default)]
pub struct Requests {
    /// Set by SIGUSR1: the report so far is to be written to standard error.
    pub report: Arc<AtomicBool>,
    /// Set by SIGHUP: the file of the configuration is to be read again. Without [`Options::rebuild`], a
    /// message is to say that this cannot be done.
    pub reload: Arc<AtomicBool>,
    /// Set by SIGUSR2: a message is to say that the signal does nothing.
    pub nothing: Arc<AtomicBool>,
    /// The function that renders the report for SIGUSR1. Without the function, no report is written.
    pub render: Option<Render>,
}

impl Requests {
    /// Clears the flag of a signal that an element handles. Has no effect for signals without a flag.
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

/// A function that makes the graph that is to replace the running graph. Its error lists the errors of the
/// configuration, or says why the configuration is not accepted from this origin. It is called on a thread of
/// its own while the run goes on.
pub type Rebuild = Arc<dyn Fn(&RebuildRequest) -> Result<Rebuilt, String> + Send + Sync>;

/// A request to make another graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildRequest {
    /// The value of the handler `hotconfig`: a text, or the name of a file. `None` if the file of the running
    /// configuration is to be read again.
    pub value: Option<String>,
    /// The origin of the request, which decides about texts and files that are accepted.
    pub origin: CallOrigin,
}

/// A function that returns the message about a problem of a graph, for the caller of a reload.
pub type Tell = Box<dyn Fn(&Problem) -> String + Send>;

/// A graph that has been made to replace the running graph.
pub struct Rebuilt {
    /// The plan of the graph.
    pub plan: Arc<Plan>,
    /// A copy of the elements for each worker, configured but not initialised.
    pub copies: Vec<Configured>,
    /// The text of the configuration, for the handler `config`.
    pub text: String,
    /// The function that returns the message if an element cannot be initialised.
    pub tell: Tell,
    /// The function that composes the synthesized programs of the new graph again when elements have changed.
    pub recomposer: Option<Arc<Recomposer>>,
}
