//! Helpers for tests that run configurations and single elements.
//!
//! [`TestRun`] runs the text of a configuration. [`elements`] are sources and sinks that send packets and
//! record the packets that arrive. [`corpus`] has packets of many kinds, [`found`](mod@found) captures and
//! rules from other sources. [`example`] is the element that a document explains. [`timed`] sends packets at
//! given times; [`plain`] makes IP packets between given endpoints. [`stand_in`] is an element that does the
//! work of others. [`cases`] runs configurations that stand in files with packets and expected results.
//! [`chains`] reads configurations from text, runs single packets through them and compares them with the
//! verifier. [`generic`] has the generic tests, for which [`samples`] configures each class and [`liars`] are
//! elements that must fail. [`reload`] compares classes with the state that they declare to keep on a reload,
//! [`save`] with the state that they declare to keep on a restart. [`checker`] checks checksums of packets.

pub mod cases;
pub mod chains;
pub mod checker;
pub mod corpus;
mod declared;
pub mod elements;
pub mod example;
pub mod found;
pub mod generic;
pub mod liars;
pub mod offloads;
pub mod plain;
pub mod reload;
pub mod samples;
pub mod save;
pub mod stand_in;
pub mod timed;

use std::fmt;
use std::sync::{Arc, Mutex};

use element::steering::Spreading;
use element::{Class, OutputStream, Registry, Timestamp};
use engine::{
    ClockKind, Configured, End, Options, Plan, RebuildRequest, Rebuilt, RunReport, Sink, TraceOrder, Traces,
    Worker, Workers,
};

/// Returns all element classes of the product, from all crates that have elements.
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

/// Returns the registry with the product's classes and the classes for tests (of [`elements`], [`liars`],
/// [`example`] and [`stand_in`]).
pub fn registry() -> Registry {
    let all: Vec<_> = classes().collect();
    let own = [&example::CLASS, &stand_in::CLASS];
    Registry::new().with(&all).with(elements::CLASSES).with(liars::CLASSES).with(&own)
}

/// The settings with which a test runs a configuration.
#[derive(Clone, Copy, Debug)]
pub struct TestRun {
    /// The clock from which elements read the time.
    pub clock: ClockKind,
    /// The burst of the run: the number of packets that a source makes per call if its argument BURST is not
    /// given. `None` for the defaults of Click, where most elements have a burst of one.
    pub burst: Option<usize>,
    /// The number of workers. More than one worker is possible only with the real and the trace clock.
    pub workers: usize,
    /// Makes the spreading that distributes packets over the workers, possibly packets of one flow; `None`
    /// keeps each flow on one worker.
    pub spreading: Option<fn() -> Arc<dyn Spreading>>,
    /// The elements whose work the last worker does ([`Plan::offload`]).
    pub offloaded: &'static [&'static str],
    /// True to trace the first packets from the start of the run, as many as one order can have. Otherwise
    /// the handler `trace` can order packets.
    pub traced: bool,
    /// Element classes that are available in addition to [`registry`]'s.
    pub classes: &'static [&'static Class],
}

/// Returns one worker with a burst of 32, in simulated time that advances by a microsecond each time the
/// driver reads it.
impl Default for TestRun {
    fn default() -> Self {
        let start = Timestamp::from_secs(1_000_000_000);
        let clock = ClockKind::Simulated { start, tick: Timestamp(1_000) };
        TestRun {
            clock,
            burst: Some(32),
            workers: 1,
            spreading: None,
            offloaded: &[],
            traced: false,
            classes: &[],
        }
    }
}

/// The results of a run of a configuration.
#[derive(Debug)]
pub struct RunResults {
    /// The reason why the run ended.
    pub end: End,
    /// The packets in, out, held and dropped, in total and for each element.
    pub report: RunReport,
    /// The text that elements wrote to the output stream.
    pub output: String,
    /// The text that elements wrote to the message stream.
    pub messages: String,
    /// The errors that elements reported when they were closed.
    pub errors: Vec<String>,
    /// The values of the requested handlers at the end of the run, in the order of the request.
    pub values: Vec<Result<String, String>>,
}

/// A sink of text that collects what elements write during a run: output, and messages.
#[derive(Clone, Default)]
struct Collector {
    texts: Arc<Mutex<(String, String)>>,
}

impl Sink for Collector {
    fn write(&mut self, stream: OutputStream, text: fmt::Arguments<'_>) {
        let mut texts = self.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let to = if stream == OutputStream::Output { &mut texts.0 } else { &mut texts.1 };
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(to, text);
    }

    fn flush(&mut self) {}
}

/// Makes an initialized worker, for tests that drive the worker themselves. Its output is discarded. The
/// configuration can be replaced by the handler `hotconfig`.
///
/// # Errors
/// The errors of the configuration, or the first error of an initialization, as text.
pub fn worker(text: &str, run: TestRun) -> Result<Worker, String> {
    prepare(text, run, |plan, mut copies, mut options| {
        let only = copies.pop().ok_or("no copy")?;
        options.rebuild = Some(Arc::new(move |request: &RebuildRequest| rebuild(request, run)));
        let mut worker =
            Worker::new(plan, only, Box::new(Collector::default()), options).map_err(|e| e.to_string())?;
        match worker.initialize() {
            Ok(()) => Ok(Ok(worker)),
            Err(problem) => Ok(Err(problem)),
        }
    })
}

/// Makes the graph that a write to `hotconfig` installs.
fn rebuild(request: &RebuildRequest, run: TestRun) -> Result<Rebuilt, String> {
    let text = request.value.as_deref().ok_or("there is no file to read again")?;
    let (plan, copies, sources) = configure(text, run)?;
    let tell = Box::new(move |problem: &engine::Problem| problem.render(&sources));
    Ok(Rebuilt { plan, copies, text: text.to_string(), tell, recomposer: None })
}

/// Makes all workers of a run, initialized. `sink` gets the text that elements write.
///
/// # Errors
/// The errors of the configuration, or the first error of an initialization, as text.
pub fn workers(text: &str, run: TestRun, sink: Box<dyn Sink>) -> Result<Workers, String> {
    prepare(text, run, |plan, copies, options| {
        let mut workers = Workers::new(&plan, copies, sink, options)?;
        match workers.initialize() {
            Ok(()) => Ok(Ok(workers)),
            Err(problem) => Ok(Err(problem)),
        }
    })
}

/// Returns the errors of a configuration as text, with Click's words where Click has the same error; empty
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

/// Makes the plan of a configuration and the elements of each worker, not initialized.
///
/// # Errors
/// The errors of the configuration as text.
fn configure(text: &str, run: TestRun) -> Result<(Arc<Plan>, Vec<Configured>, lang::Sources), String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if !diagnostics.is_empty() {
        return Err(diagnostics.iter().map(|d| d.render(&sources)).collect());
    }
    let all =
        |problems: Vec<engine::Problem>| problems.iter().map(|p| p.render(&sources)).collect::<String>();
    let mut plan = Plan::new(graph, &registry().with(run.classes)).map_err(all)?;
    let offloaded: Vec<_> = run.offloaded.iter().map(ToString::to_string).collect();
    plan.offload(&offloaded).map_err(|name| format!("no element and no class '{name}'"))?;
    let plan = Arc::new(plan);
    let spreading = run.spreading.map(|make| make());
    let copies = plan.configure_all(run.burst, run.workers, spreading.as_ref()).map_err(all)?;
    Ok((plan, copies, sources))
}

fn prepare<T>(
    text: &str,
    run: TestRun,
    start: impl FnOnce(Arc<Plan>, Vec<Configured>, Options) -> Initialized<T>,
) -> Result<T, String> {
    let (plan, copies, sources) = configure(text, run)?;
    let traces = Arc::new(Traces::default());
    if run.traced {
        traces.begin(TraceOrder::first());
    }
    let options = Options {
        clock: run.clock,
        traces: Some(traces),
        burst: run.burst.unwrap_or(1),
        memory: run.workers * (256 << 20),
        ..Options::default()
    };
    start(plan, copies, options)?.map_err(|problem| problem.render(&sources))
}

impl TestRun {
    /// Returns a run with default settings under the trace clock: the time comes from the packets of
    /// captures.
    pub fn trace() -> TestRun {
        TestRun { clock: ClockKind::Trace, ..TestRun::default() }
    }

    /// Returns this run with `workers` workers.
    #[must_use]
    pub fn on(self, workers: usize) -> TestRun {
        TestRun { workers, ..self }
    }

    /// Returns this run with another spreading of packets over the workers.
    #[must_use]
    pub fn spread(self, spreading: fn() -> Arc<dyn Spreading>) -> TestRun {
        TestRun { spreading: Some(spreading), ..self }
    }

    /// Returns this run with elements offloaded to the last worker.
    #[must_use]
    pub fn offload(self, offloaded: &'static [&'static str]) -> TestRun {
        TestRun { offloaded, ..self }
    }

    /// Returns this run with additional element classes; replaces the classes of an earlier call.
    #[must_use]
    pub fn with(self, classes: &'static [&'static Class]) -> TestRun {
        TestRun { classes, ..self }
    }

    /// Returns a run with default settings on the real clock.
    pub fn real() -> TestRun {
        TestRun { clock: ClockKind::Real, ..TestRun::default() }
    }

    /// Runs a configuration to its end. Reads `handlers` after the run, before the elements are closed.
    ///
    /// # Errors
    /// The errors of the configuration, or the first error of an initialization, as text.
    pub fn text(self, text: &str, handlers: &[&str]) -> Result<RunResults, String> {
        self.text_after(text, None, handlers)
    }

    /// Runs a configuration like [`text`](Self::text). If `write` has an element, a handler and a value, the
    /// value is written at the first worker before the run.
    ///
    /// # Errors
    /// The errors of [`text`](Self::text), or that the handler refuses the value.
    pub fn text_after(
        self,
        text: &str,
        write: Option<(&str, &str, &str)>,
        handlers: &[&str],
    ) -> Result<RunResults, String> {
        let collector = Collector::default();
        let mut workers = workers(text, self, Box::new(collector.clone()))?;
        if let Some((element, handler, value)) = write {
            let id = workers.plan().graph.find(element);
            workers.first().write(id, handler, value)?;
        }
        let end = workers.run();
        let values = handlers.iter().map(|name| read(&mut workers, name)).collect();
        let errors = workers.finish().err().unwrap_or_default();
        let report = workers.report();
        drop(workers);
        let texts = collector.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (output, messages) = texts.clone();
        Ok(RunResults { end, report, output, messages, errors, values })
    }
}

/// Reads a handler by its name: `element.handler`, `worker N element.handler` for the copy of one worker,
/// or a `handler` of the whole graph.
fn read(workers: &mut Workers, name: &str) -> Result<String, String> {
    if let Some(of_one) = name.strip_prefix("worker ") {
        return workers.read(None, "worker", of_one);
    }
    let Some((element, handler)) = name.split_once('.') else { return workers.read(None, name, "") };
    let id = workers.plan().graph.find(element).ok_or_else(|| format!("no element {element}"))?;
    workers.read(Some(id), handler, "")
}
