//! `tidegate run`: runs a configuration on captures or interfaces.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use element::{Class, ElementId};
use engine::{
    ClockKind, Configured, Inspector, Options, Plan, Problem, Rebuild, RebuildRequest, Rebuilt, Recomposer,
    Stamp, StandardStreams, Workers,
};
use indicatif::{ProgressBar, ProgressStyle};
use lang::{Severity, Span};

use crate::analyze::{can_write, is_stream, save};
use crate::control::ControlOptions;
use crate::http::HttpOptions;
use crate::load::{BURST, Input, Loaded, Texts, click_path, parse, rendered, start_dpdk};
use crate::memory::{self, parse_size};
use crate::messages::say;
use crate::numbers::whole;
use crate::origin;
use crate::sandbox::{Folders, SandboxOptions};
use crate::status::{Failure, SUCCESS, Status};
use crate::steering::{Steering, parse_time};
use crate::successors::{Successor, Successors};
use crate::synthesize::{PutIn, Which};
use crate::warnings::Warnings;
use crate::{captures, explain, handlers, interrupt, messages, print, service, state, synthesize, table};

const SIGNALS: &str = "Signals: INT and TERM end the run, with its table; USR1 writes the table so far to standard error; HUP reads \
    the configuration again, like `tidegate reload`; USR2 only writes a message.";

/// The arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = SIGNALS)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The source of time
    #[arg(long, value_enum, default_value_t = Clock::Real, help_heading = "Time")]
    clock: Clock,
    /// With `--clock trace`: the longest gap between two packets in which timers run
    ///
    /// In a longer gap, which a wrong time stamp makes, the clock jumps to the next packet.
    #[arg(
        long, value_name = "TIME", default_value = "86400s", help_heading = "Time",
        value_parser = parse_time, allow_hyphen_values = true
    )]
    max_gap: Duration,
    /// The time before held packets have to leave during which a worker does not sleep
    ///
    /// Sleeps end late. With 0, a worker sleeps until packets in a Reframer, a Juggler or a shaper are due,
    /// and the packets leave late.
    #[arg(
        long, value_name = "TIME", default_value = "200us", help_heading = "Time",
        value_parser = parse_time, allow_hyphen_values = true
    )]
    spin: Duration,
    /// Poll for packets without ever sleeping
    ///
    /// The delay is the lowest, but each worker uses a whole core even when idle.
    #[arg(long, help_heading = "Time")]
    busy_poll: bool,
    /// The number of worker threads
    ///
    /// Each worker has a core and a copy of the graph of its own. Elements that need a single place, such as
    /// files and shapers, run on the first worker.
    #[arg(
        long, value_name = "N", default_value_t = 1, help_heading = "Workers",
        value_parser = whole::<u16>(1..=64), allow_negative_numbers = true
    )]
    threads: u16,
    /// The elements that get the last worker for themselves: names of classes or of elements
    ///
    /// The sources of their packets run on this worker, too. With `--threads 2 --offload Reframer`, one
    /// worker receives and holds packets, and the other worker processes them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Workers")]
    offload: Vec<String>,
    #[command(flatten)]
    steering: Steering,
    #[command(flatten)]
    control: ControlOptions,
    /// Let clients of control sockets install any configuration of this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Control")]
    config_dir: Option<String>,
    /// Let clients of Unix sockets install any configuration, which can have any file read and written
    #[arg(long, help_heading = "Control")]
    allow_config: bool,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    sandbox: SandboxOptions,
    #[command(flatten)]
    state: state::StateOptions,
    /// Print the value of a handler at the end; may be given several times
    ///
    /// The value is read before elements release the packets that they hold; the table counts these packets,
    /// too.
    #[arg(short = 'H', long = "handler", value_name = "ELEMENT.HANDLER", help_heading = "Results")]
    handlers: Vec<String>,
    /// Write the final report as JSON; `-` for standard output
    ///
    /// With `-`, the output of scripts and elements and the values of handlers go to standard error.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
    /// Print no table at the end
    #[arg(short, long, help_heading = "Results")]
    quiet: bool,
    /// Check the options and the configuration, open nothing, and end
    #[arg(long, help_heading = "Results")]
    dry_run: bool,
    /// Replace regions of elements by programs (see `tidegate synthesize`)
    ///
    /// A program has one classification and one write per field; handlers and counts do not change. A region
    /// stays as it is if its proof is neither kept nor found within 20 seconds, or if its program costs more
    /// than its elements (unless WHICH is `all`).
    #[arg(
        long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true,
        default_missing_value = "paying", help_heading = "Engine"
    )]
    synthesize: Option<Which>,
    /// The most memory for packets, such as 512M or 8G [default: 4G, at most half of the available memory]
    ///
    /// Packets in transit and held packets of all workers count; tables of elements are extra and have their
    /// own bounds. Memory is allocated as needed; when it is full, no packets are received. A size above the
    /// available memory is refused.
    #[arg(
        long, value_name = "SIZE", help_heading = "Engine",
        value_parser = parse_size, allow_hyphen_values = true
    )]
    memory: Option<usize>,
    /// The most packets per batch
    #[arg(
        long, value_name = "N", default_value_t = BURST as u16, help_heading = "Engine",
        value_parser = whole::<u16>(1..=256), allow_negative_numbers = true
    )]
    burst: u16,
    /// The seed of random numbers
    #[arg(
        long, value_name = "N", default_value_t = 1, help_heading = "Engine",
        value_parser = whole(0..=u64::MAX), allow_negative_numbers = true
    )]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// The machine's clock
    Real,
    /// The time stamps of the captures: the same capture gives the same result
    Trace,
}

/// Shows the number of packets that have been read, on a terminal, and updates the display until the returned
/// bar is finished. `count` is the number, which the run increases.
fn progress(count: &Arc<AtomicU64>) -> ProgressBar {
    follow(ProgressBar::new_spinner(), "{spinner} {pos} packets, {per_sec}, {elapsed}", count)
}

/// Shows the number of packets that have been read as a share of `packets`, on a terminal, and updates it
/// until the bar is finished.
pub(crate) fn progress_of(count: &Arc<AtomicU64>, packets: u64, message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(packets).with_message(message);
    follow(bar, "{bar:40} {percent} %, {elapsed}, {eta} left ({msg})", count)
}

fn follow(spinner: ProgressBar, style: &str, count: &Arc<AtomicU64>) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(style) {
        spinner.set_style(style);
    }
    if !spinner.is_hidden() {
        let (spinner, count) = (spinner.downgrade(), Arc::clone(count));
        std::thread::spawn(move || {
            // The thread ends when the progress bar is finished or dropped.
            while let Some(spinner) = spinner.upgrade() {
                std::thread::sleep(Duration::from_millis(250));
                if spinner.is_finished() {
                    return;
                }
                spinner.set_position(count.load(Ordering::Relaxed));
            }
        });
    }
    spinner
}

/// The settings by which a configuration is built, at the start of the run and at each reload.
struct Recipe {
    input: Input,
    steering: Steering,
    synthesize: Option<Which>,
    threads: usize,
    offload: Vec<String>,
    burst: usize,
    clock: Clock,
    /// The arguments of the control socket, if the run has one.
    control: Option<String>,
    quiet: bool,
}

/// A configuration that can be run: the plan, a copy of the elements for each worker, and the function that
/// composes its synthesized programs again when handlers change elements.
struct Built {
    plan: Arc<Plan>,
    copies: Vec<Configured>,
    recomposer: Option<Arc<Recomposer>>,
}

/// The element name of the control socket of `--control`.
const SOCKET: &str = "tidegate@@control";

impl Recipe {
    /// Returns the recipe of a run. `control` has the arguments of the control socket, if the run has one.
    fn new(args: &Args, control: Option<String>) -> Recipe {
        Recipe {
            input: args.input.clone(),
            steering: args.steering.clone(),
            synthesize: args.synthesize,
            threads: usize::from(args.threads),
            offload: args.offload.clone(),
            burst: usize::from(args.burst),
            clock: args.clock,
            control,
            quiet: args.quiet,
        }
    }

    /// Builds the plan and the copies of the elements for a configuration, with synthesized programs if
    /// asked. Adds the problems that it finds to those of the configuration. Returns `None` if there are
    /// errors.
    fn build(&self, loaded: &mut Loaded) -> Option<Built> {
        if let Some(config) = &self.control {
            let source = loaded.sources.add("--control", "");
            loaded.graph.add(SOCKET, "ControlSocket", config, Span { source, start: 0, end: 0 });
        }
        let mut recomposer = None;
        if let Some(which) = self.synthesize
            && !loaded.has_errors()
        {
            let plain = loaded.copied();
            let PutIn { done, left, declarations } = synthesize::insert_programs(loaded, which);
            if !self.quiet && !done.is_empty() {
                crate::tell(format_args!("{}: {done}", loaded.name));
            }
            // The reasons why regions were not synthesized are printed even with `--quiet`, because the user
            // has asked for synthesis.
            left.iter().for_each(|line| crate::tell(format_args!("{}: {line}", loaded.name)));
            recomposer = Some(synthesize::recomposer(plain, loaded.graph.clone(), which, declarations));
        }
        let spreading = self.steering.spreading();
        let built = loaded.build_copies(Some(self.burst), self.threads, spreading.as_ref(), &self.offload);
        if let Some((plan, copies)) = &built {
            let warning =
                copies.first().and_then(|copy| explain::warn_of_fragments(plan, copy, self.threads));
            loaded.problems.extend(warning);
            loaded.problems.extend(copies.first().map(|copy| plan.unknown_calls(copy)).unwrap_or_default());
        }
        let (plan, copies) = built.filter(|_| !loaded.has_errors())?;
        Some(Built { plan, copies, recomposer })
    }

    /// Checks that a graph can be run with the given values of `--steering` and `--clock`.
    ///
    /// # Errors
    /// If it cannot: the message for the user.
    fn check(&self, plan: &Plan, copies: &[Configured]) -> Result<(), String> {
        if let Some(text) = copies.first().and_then(|copy| self.steering.refusal(plan, copy)) {
            return Err(text);
        }
        if let (Some(id), Clock::Trace) = (plan.live(), self.clock) {
            let name = plan.declaration(id);
            return Err(format!(
                "{name}: --clock trace is the time of captures; leave it out for interfaces"
            ));
        }
        Ok(())
    }
}

/// Returns the function that makes the graph for the handlers `hotconfig` and `reload` and for SIGHUP.
/// `warnings` are the warnings about the configuration that the run starts with; they are not shown again.
fn rebuild(recipe: Recipe, successors: Successors, warnings: Warnings) -> Rebuild {
    let warnings = Arc::new(warnings);
    Arc::new(move |request: &RebuildRequest| {
        let own = recipe.input.own_file();
        let mut loaded = match &request.value {
            None if own.is_some() => recipe.input.load(true)?,
            _ => {
                let Successor { name, text, file } = successors.requested(request, own)?;
                let texts = Texts { file: file.as_deref(), ..Texts::of(&name, text) };
                parse(texts, &recipe.input.values()?, true)
            }
        };
        loaded.check_has_elements()?;
        let built = recipe.build(&mut loaded);
        let new_warnings = warnings.remove_known(&mut loaded.problems);
        let Loaded { sources, problems, text, .. } = loaded;
        let said = rendered(&problems, &sources);
        let Some(Built { plan, copies, recomposer }) = built else { return Err(said.trim_end().to_string()) };
        recipe.check(&plan, &copies)?;
        say(Severity::Warning, &said);
        let (warnings, before) = (Arc::clone(&warnings), warnings.replace(new_warnings));
        let tell = move |problem: &Problem| {
            warnings.replace(before.clone());
            problem.render(&sources).trim_end().to_string()
        };
        Ok(Rebuilt { plan, copies, text, tell: Box::new(tell), recomposer })
    })
}

/// Checks that `--offload` fits the other options.
///
/// # Errors
/// If it does not: the message for the user.
fn check_offload(args: &Args) -> Result<(), String> {
    match args.offload.is_empty() {
        _ if args.offload.iter().any(|name| name.trim().is_empty()) => {
            Err("--offload takes names of elements or classes, such as Reframer".into())
        }
        false if args.threads < 2 => {
            Err("--offload takes a worker of its own: give --threads 2 or more".into())
        }
        false if args.steering.spreading().is_some() => {
            Err("--offload is for --steering rss; `spray`, `flowlet` and `auto` use all workers".into())
        }
        _ => Ok(()),
    }
}

/// Returns the folders that a run needs in a sandbox: those from which it reads configurations again, and
/// those in which it writes its state and its report.
fn folders(args: &Args) -> Folders {
    let folder = |file: &Path| match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let libraries = std::env::split_paths(&click_path()).collect::<Vec<_>>();
    // The file may be a link to a file in another folder.
    let file = args.input.file.as_deref();
    let files = file.into_iter().map(Path::to_path_buf).chain(file.and_then(|file| file.canonicalize().ok()));
    let read = files.map(|file| folder(&file)).chain(args.config_dir.as_ref().map(PathBuf::from));
    let written = args.state.path().into_iter().chain(args.json.as_deref().filter(|file| !is_stream(file)));
    let written = written.map(folder).chain(args.control.given_files().map(Path::to_path_buf));
    Folders { read: read.chain(libraries).collect(), written: written.collect() }
}

pub(crate) fn run(args: &Args) -> Status {
    let check = args.steering.check();
    let check = check.and_then(|()| check_offload(args));
    let check = check.and_then(|()| args.sandbox.check(args.input.dpdk.is_some()));
    let check = check.and_then(|()| args.control.check());
    check.map_err(|text| Failure::usage(format!("{text}; see `tidegate run --help`")))?;
    can_write(&args.json)?;
    let token = args.http.token()?;
    let requests = interrupt::requests();
    let successors = Successors::new(args.config_dir.as_deref(), args.allow_config)?;
    let mut loaded = args.input.load(true)?;
    let control = match loaded.has_errors() || args.dry_run {
        true => None,
        false => args.control.open(args.input.own_file(), loaded.is_live())?,
    };
    let recipe = Recipe::new(args, control.as_ref().map(|control| control.config.clone()));
    let built = recipe.build(&mut loaded);
    loaded.show();
    let Some(Built { plan, copies, recomposer }) = built else {
        return Err(Failure::shown());
    };
    let files = copies.first().map(|copy| copy.setup.inputs.clone()).unwrap_or_default();
    recipe.check(&plan, &copies)?;
    if plan.is_empty() {
        crate::warn(format_args!("{}: configuration has no elements", loaded.name));
    }
    if args.dry_run {
        return Ok(SUCCESS);
    }
    let live = plan.live();
    let mut state = args.state.open()?;
    let inspector = Inspector::new(copies.len());
    let http = args.http.bind(token, &inspector)?;
    let watchdog = service::watchdog();
    let interrupt = Arc::default();
    let progress_count = Arc::new(AtomicU64::new(0));
    let packet_captures = Arc::new(captures::captures());
    let mut options = Options {
        clock: match args.clock {
            Clock::Real => ClockKind::Real,
            Clock::Trace => ClockKind::Trace,
        },
        burst: usize::from(args.burst),
        text: loaded.text.clone(),
        memory: args.memory.unwrap_or_else(memory::for_packets),
        seed: args.seed,
        busy_poll: args.busy_poll,
        spin: args.spin,
        max_gap: args.max_gap,
        ends_when_idle: true,
        interrupt: Arc::clone(&interrupt),
        requests,
        rebuild: Some(rebuild(recipe, successors, Warnings::of(&loaded.problems))),
        recomposer,
        progress: Arc::clone(&progress_count),
        traces: Some(Arc::default()),
        inspector: (http.is_some() || watchdog.is_some() || args.sandbox.is_wanted())
            .then(|| inspector.clone()),
        captures: Some(Arc::clone(&packet_captures)),
        ..Options::default()
    };
    let is_real = args.clock == Clock::Real;
    let saver = state.as_ref().and_then(|state| state.connect(&mut options, copies.len(), is_real));
    let _dpdk = start_dpdk(args.input.dpdk.as_deref())?;
    let json_to_output = args.json.as_deref().is_some_and(is_stream);
    if let Some(id) = writes_output(&plan).filter(|_| json_to_output) {
        let name = plan.declaration(id);
        let text = "'-' and --json - both write to standard output; write one of the two to a file";
        return Err(format!("{name}: {text}").into());
    }
    let stamp = stamp(plan.classes.iter().any(|class| has_interface(class)));
    let streams = StandardStreams::new(stamp).yielding_output(json_to_output);
    let mut workers =
        Workers::new(&plan, copies, Box::new(streams), options).map_err(|error| error.to_string())?;
    let missing = handlers::missing(&workers, &args.handlers);
    if !missing.is_empty() {
        return Err(missing.join("\n").into());
    }
    if let Err(problem) = workers.initialize() {
        workers.flush();
        loaded.problems = vec![*problem];
        loaded.show();
        return Err(Failure::shown());
    }
    if args.sandbox.is_wanted() {
        args.sandbox.enter(&folders(args), |work| workers.on_threads(&inspector, work))?;
    }
    let spinner = progress(&progress_count);
    // From here on, an interrupt asks the run to end. Before, it ends the program immediately, even while
    // an element waits during initialisation.
    interrupt::listen(&interrupt);
    if let Some(state) = &mut state {
        state.begin(workers.plan(), saver, args.quiet);
    }
    let serving = http.map(|http| http.start(&loaded.name)).transpose()?;
    let (started, begun) = (Instant::now(), origin::begin(Some(args.seed)));
    let watching = watchdog.map(|limit| service::watch(limit, inspector)).transpose()?;
    service::ready();
    workers.run();
    service::stopping();
    drop(watching);
    drop(serving);
    let elapsed = started.elapsed();
    spinner.finish_and_clear();
    let time = (!is_real).then(|| workers.first().core().now);
    let saved = state.map_or(Ok(()), |state| state.end(&mut workers, time));
    // As in Click, handlers are read before elements release the packets that they hold.
    let (values, mut errors) = handlers::read_all(&mut workers, &args.handlers);
    errors.extend(saved.err());
    errors.extend(workers.finish().err().unwrap_or_default());
    packet_captures.finish();
    let report = workers.report();
    if !args.quiet {
        crate::show(format_args!("{}", table::render(&report, elapsed, live.is_some())));
    }
    match json_to_output {
        true => crate::show(format_args!("{values}")),
        false => errors.extend(print(&values).err().map(|failure| failure.to_string())),
    }
    if let Some(path) = &args.json {
        // The origin of the result names these files as inputs: the configuration, the files that it
        // requires, files of rules, and captures.
        let texts = loaded.sources.ids().map(|id| PathBuf::from(loaded.sources.name(id)));
        let inputs: Vec<PathBuf> = texts.chain(files).chain(captures(&mut workers)).collect();
        let origin = origin::made_of(&begun, &inputs);
        let written =
            origin::json(&report, &origin).map_err(Failure::from).and_then(|text| save(path, &text));
        errors.extend(written.err().map(|failure| failure.to_string()));
    }
    if !report.balances() {
        errors.push("packets are unaccounted for: in is not out + held + dropped; this is a bug".into());
    }
    match errors.is_empty() {
        true => Ok(SUCCESS),
        false => Err(errors.join("\n").into()),
    }
}

/// Returns an element that writes its file to standard output, or `None` if there is no such element.
fn writes_output(plan: &Plan) -> Option<ElementId> {
    let writes =
        |class: &Class| !class.ports.starts_with('0') && class.args.iter().any(|arg| arg.ty == "file");
    let is_output = |id: &ElementId| {
        let arguments = lang::args::split(&plan.graph.elements[*id].config);
        arguments.iter().any(|arg| arg.text.split_whitespace().next_back() == Some("-"))
    };
    (0..plan.classes.len()).filter(|&id| writes(plan.classes[id])).find(is_output)
}

/// True if a class uses a network interface of the machine.
fn has_interface(class: &Class) -> bool {
    class.notes.is_live || class.args.iter().any(|arg| arg.ty == "interface")
}

/// Returns the kind of stamp (such as the time) at the start of log lines. With interfaces (`is_live`), a run
/// takes long, so the time of a message matters.
fn stamp(is_live: bool) -> Stamp {
    match is_live {
        true if messages::is_journal() => Stamp::Priority,
        true => Stamp::Time,
        false => Stamp::None,
    }
}

/// Returns the captures that elements have read, by their handler `filename`.
fn captures(workers: &mut Workers) -> Vec<PathBuf> {
    let plan = workers.plan();
    let reads = |class: &Class| {
        class.ports.starts_with('0') && class.each_handler().any(|handler| handler.name == "filename")
    };
    let ids: Vec<ElementId> = (0..plan.classes.len()).filter(|&id| reads(plan.classes[id])).collect();
    ids.into_iter().filter_map(|id| workers.read(Some(id), "filename", "").ok()).map(PathBuf::from).collect()
}
