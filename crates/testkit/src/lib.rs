//! Helpers for tests that run configurations and single elements.
//!
//! [`Run`] runs the text of a configuration. [`elements`] are sources and sinks that send packets and
//! record the packets that arrive. [`corpus`] has packets of every kind, [`found`](mod@found) captures and
//! rules from other sources. [`example`] is the element that a document explains. [`timed`] sends packets
//! at given times; [`plain`] makes IP packets between given ends. [`stand_in`] is an element that does the
//! work of others. [`chains`] are read from text, run and compared. [`samples`] configures each class for the
//! generic tests.

pub mod chains;
pub mod checker;
pub mod corpus;
mod declared;
pub mod elements;
pub mod example;
pub mod found;
pub mod generic;
pub mod liars;
pub mod plain;
pub mod samples;
pub mod stand_in;
pub mod timed;

use std::fmt;
use std::sync::{Arc, Mutex};

use element::steering::Spreading;
use element::{Class, Registry, Stream, Timestamp};
use engine::{ClockKind, Configured, End, Options, Plan, Report, Sink, Worker, Workers};

/// Returns all classes of the product.
pub fn classes() -> impl Iterator<Item = &'static Class> {
    nf::CLASSES
        .iter()
        .chain(device::CLASSES)
        .chain(reframer::CLASSES)
        .chain(juggler::CLASSES)
        .chain(slicer::CLASSES)
        .chain(synthesizer::CLASSES)
        .chain(runtime::CLASSES)
        .copied()
}

/// Returns the registry of the product's classes and the classes for tests.
pub fn registry() -> Registry {
    let all: Vec<_> = classes().collect();
    let own = [&example::CLASS, &stand_in::CLASS];
    Registry::new().with(&all).with(elements::CLASSES).with(liars::CLASSES).with(&own)
}

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The source of time.
    pub clock: ClockKind,
    /// Packets per batch; `None` for Click's defaults with a burst of one.
    pub burst: Option<usize>,
    /// The number of workers; more than one only under the real and the trace clock.
    pub workers: usize,
    /// The spreading of packets of one flow over the workers; `None` keeps each flow on one worker.
    pub spreading: Option<fn() -> Arc<dyn Spreading>>,
    /// Classes in addition to the product's and the tests' classes.
    pub classes: &'static [&'static Class],
}

/// Returns a run with simulated time that moves by a microsecond with each task, and a burst of 32.
impl Default for Run {
    fn default() -> Self {
        let start = Timestamp::from_secs(1_000_000_000);
        let clock = ClockKind::Simulated { start, tick: Timestamp(1_000) };
        Run { clock, burst: Some(32), workers: 1, spreading: None, classes: &[] }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The reason for the end.
    pub end: End,
    /// The counts of packets.
    pub report: Report,
    /// The text of the output stream.
    pub output: String,
    /// The text of the message stream.
    pub messages: String,
    /// Errors when closing.
    pub errors: Vec<String>,
    /// The values of the requested handlers.
    pub values: Vec<Result<String, String>>,
}

/// A sink that collects the text of a run.
#[derive(Clone, Default)]
struct Collector {
    texts: Arc<Mutex<(String, String)>>,
}

impl Sink for Collector {
    fn write(&mut self, stream: Stream, text: fmt::Arguments<'_>) {
        let mut texts = self.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let to = if stream == Stream::Output { &mut texts.0 } else { &mut texts.1 };
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(to, text);
    }

    fn flush(&mut self) {}
}

/// Makes an initialised worker, for tests that drive it themselves.
///
/// # Errors
/// The first fault, rendered.
pub fn worker(text: &str, run: Run) -> Result<Worker, String> {
    prepare(text, run, |plan, mut copies, options| {
        let only = copies.pop().ok_or("no copy")?;
        let mut worker =
            Worker::new(plan, only, Box::new(Collector::default()), options).map_err(|e| e.to_string())?;
        match worker.initialize() {
            Ok(()) => Ok(Ok(worker)),
            Err(problem) => Ok(Err(problem)),
        }
    })
}

/// Makes all workers of a run, initialised.
///
/// # Errors
/// The first fault, rendered.
pub fn workers(text: &str, run: Run, sink: Box<dyn Sink>) -> Result<Workers, String> {
    prepare(text, run, |plan, copies, options| {
        let mut workers = Workers::new(&plan, copies, sink, options)?;
        match workers.initialize() {
            Ok(()) => Ok(Ok(workers)),
            Err(problem) => Ok(Err(problem)),
        }
    })
}

/// Returns the faults of a configuration, rendered with Click's words where Click has the same error; empty
/// if there are none.
pub fn in_clicks_words(text: &str) -> String {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    let problems = match diagnostics.is_empty() {
        true => Plan::new(graph, &registry()).and_then(|plan| plan.configure_all(None, 1, None)).err(),
        false => Some(diagnostics.into_iter().map(engine::Problem::new).collect()),
    };
    let render = |mut problem: engine::Problem| {
        problem.diagnostic.message = problem.diagnostic.in_clicks_words().to_string();
        problem.render(&sources)
    };
    problems.into_iter().flatten().map(render).collect()
}

type Initialized<T> = Result<Result<T, Box<engine::Problem>>, String>;

fn prepare<T>(
    text: &str,
    run: Run,
    start: impl FnOnce(Arc<Plan>, Vec<Configured>, Options) -> Initialized<T>,
) -> Result<T, String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if !diagnostics.is_empty() {
        return Err(diagnostics.iter().map(|d| d.render(&sources)).collect());
    }
    let all =
        |problems: Vec<engine::Problem>| problems.iter().map(|p| p.render(&sources)).collect::<String>();
    let plan = Arc::new(Plan::new(graph, &registry().with(run.classes)).map_err(all)?);
    let spreading = run.spreading.map(|make| make());
    let copies = plan.configure_all(run.burst, run.workers, spreading.as_ref()).map_err(all)?;
    let options = Options {
        clock: run.clock,
        burst: run.burst.unwrap_or(1),
        memory: run.workers * (256 << 20),
        ..Options::default()
    };
    start(plan, copies, options)?.map_err(|problem| problem.render(&sources))
}

impl Run {
    /// Returns a run under the trace clock.
    pub fn trace() -> Run {
        Run { clock: ClockKind::Trace, ..Run::default() }
    }

    /// Returns this run with another number of workers.
    #[must_use]
    pub fn on(self, workers: usize) -> Run {
        Run { workers, ..self }
    }

    /// Returns this run with packets of one flow spread over the workers.
    #[must_use]
    pub fn spread(self, spreading: fn() -> Arc<dyn Spreading>) -> Run {
        Run { spreading: Some(spreading), ..self }
    }

    /// Returns this run with further classes.
    #[must_use]
    pub fn with(self, classes: &'static [&'static Class]) -> Run {
        Run { classes, ..self }
    }

    /// Returns a run on the real clock.
    pub fn real() -> Run {
        Run { clock: ClockKind::Real, ..Run::default() }
    }

    /// Runs a configuration to its end. Handlers are read before it is closed.
    ///
    /// # Errors
    /// The faults of the configuration, rendered.
    pub fn text(self, text: &str, handlers: &[&str]) -> Result<Outcome, String> {
        let collector = Collector::default();
        let mut workers = workers(text, self, Box::new(collector.clone()))?;
        let end = workers.run();
        let values = handlers.iter().map(|name| read(&mut workers, name)).collect();
        let errors = workers.finish().err().unwrap_or_default();
        let report = workers.report();
        drop(workers);
        let texts = collector.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (output, messages) = texts.clone();
        Ok(Outcome { end, report, output, messages, errors, values })
    }
}

/// Reads `element.handler`, `worker N element.handler` of one worker's copy, or a `handler` of the graph.
fn read(workers: &mut Workers, name: &str) -> Result<String, String> {
    if let Some(of_one) = name.strip_prefix("worker ") {
        return workers.read(None, "worker", of_one);
    }
    let Some((element, handler)) = name.split_once('.') else { return workers.read(None, name, "") };
    let id = workers.plan().graph.find(element).ok_or_else(|| format!("no element {element}"))?;
    workers.read(Some(id), handler, "")
}
