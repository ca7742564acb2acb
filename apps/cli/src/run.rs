//! `tidegate run`: runs a configuration on captures or interfaces.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::origin::Origin;
use clap::ValueEnum;
use element::{Class, ElementId};
use engine::{ClockKind, Options, Plan, Stamp, StandardStreams, Workers};
use indicatif::{ProgressBar, ProgressStyle};

use crate::analyze::{can_write, is_stream, save};
use crate::load::{Input, start_dpdk};
use crate::memory::{self, parse_size};
use crate::numbers::whole;
use crate::origin;
use crate::steering::{Steering, parse_time};
use crate::synthesize::{PutIn, Which};
use crate::{FAILURE, explain, handlers, interrupt, print, synthesize, table};

/// The most packets per batch, unless `--burst` is given.
pub(crate) const BURST: usize = 32;

const SIGNALS: &str = "Signals: INT and TERM end the run, with its table; USR1 writes the table so far to standard error. HUP and \
    USR2 only write a message.";

/// The arguments of `run`.
#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = SIGNALS)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The source of time: the machine's clock, or the time stamps of the captures
    #[arg(long, value_enum, default_value_t = Clock::Real)]
    clock: Clock,
    /// The number of worker threads, each on its own core with a copy of the graph. Elements that need a
    /// single place, such as files and shapers, run on the first worker
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = whole::<u16>(1..=64), allow_negative_numbers = true
    )]
    threads: u16,
    #[command(flatten)]
    steering: Steering,
    /// Poll for packets without ever sleeping: the lowest delay, but each worker uses a whole core even
    /// when idle
    #[arg(long)]
    busy_poll: bool,
    /// The time before held packets have to leave (Reframer, Juggler, shapers) during which a worker stays
    /// awake, because sleeps end late; with 0, the worker sleeps until they are due, and packets leave late
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = parse_time, allow_hyphen_values = true)]
    spin: Duration,
    /// With `--clock trace`: the longest time for which timers run between two packets of a capture. In a
    /// longer gap, which a wrong time stamp makes, the clock then jumps to the next packet
    #[arg(long, value_name = "TIME", default_value = "86400s", value_parser = parse_time, allow_hyphen_values = true)]
    max_gap: Duration,
    /// Print the value of a handler at the end, before elements release the packets that they hold (the
    /// table counts these packets, too); may be given several times
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    handlers: Vec<String>,
    /// Write the final report as JSON; `-` for standard output. Then the output of scripts and elements and
    /// the values of handlers go to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The most memory for packets that are in transit or held, such as 512M or 8G, for all workers
    /// together; tables of elements are extra and have their own bounds. It is allocated as needed; when it
    /// is full, no packets are received. A size above the available memory is refused [default: 4G, at most
    /// half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    memory: Option<usize>,
    /// The seed of random numbers
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = whole(0..=u64::MAX), allow_negative_numbers = true
    )]
    seed: u64,
    /// The most packets per batch
    #[arg(
        long, value_name = "N", default_value_t = BURST as u16,
        value_parser = whole::<u16>(1..=256), allow_negative_numbers = true
    )]
    burst: u16,
    /// Replace regions of elements by programs with one classification and one write per field (see
    /// `tidegate synthesize`); handlers and counts do not change. A region stays as it is if its proof is
    /// neither kept nor found within 20 seconds, or if its program costs more than its elements (unless
    /// WHICH is `all`)
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "paying")]
    synthesize: Option<Which>,
    /// Print no table at the end
    #[arg(short, long)]
    quiet: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// The machine's clock
    Real,
    /// The time stamps of the captures: the same capture gives the same result
    Trace,
}

/// Shows the number of packets that have been read, on a terminal, if a run takes longer than a moment.
fn progress(count: &Arc<AtomicU64>) -> ProgressBar {
    follow(ProgressBar::new_spinner(), "{spinner} {pos} packets, {per_sec}, {elapsed}", count)
}

/// Shows the number of packets that have been read, as [`progress`] does, as a share of `packets`.
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
            // The thread ends with the spinner.
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

pub(crate) fn main(args: Args) -> ExitCode {
    if let Err(text) = args.steering.check() {
        crate::tell(format_args!("{text}; see `tidegate run --help`"));
        return ExitCode::from(2);
    }
    if !can_write(&args.json) {
        return ExitCode::from(2);
    }
    let requests = interrupt::requests();
    let mut loaded = match args.input.load(true) {
        Ok(loaded) => loaded,
        Err(text) => {
            crate::tell(format_args!("{text}"));
            return ExitCode::from(FAILURE);
        }
    };
    if let Some(which) = args.synthesize
        && !loaded.has_errors()
    {
        match synthesize::insert_programs(&mut loaded, which) {
            Ok(PutIn { done, left }) => {
                if !args.quiet && !done.is_empty() {
                    crate::tell(format_args!("{}: {done}", loaded.name));
                }
                // These lines are printed with `--quiet`, too, because a region was not synthesized
                // although that was asked for.
                left.iter().for_each(|line| crate::tell(format_args!("{}: {line}", loaded.name)));
            }
            Err(text) => {
                crate::tell(format_args!("{text}"));
                return ExitCode::from(FAILURE);
            }
        }
    }
    let spreading = args.steering.spreading();
    let (burst, threads) = (usize::from(args.burst), usize::from(args.threads));
    let built = loaded.build_copies(Some(burst), threads, spreading.as_ref());
    if let Some((plan, copies)) = &built {
        let warning = copies.first().and_then(|copy| explain::warn_of_fragments(plan, copy, threads));
        loaded.problems.extend(warning);
        loaded.problems.extend(copies.first().map(|copy| plan.unknown_calls(copy)).unwrap_or_default());
    }
    loaded.show();
    let Some((plan, copies)) = built.filter(|_| !loaded.has_errors()) else {
        return ExitCode::from(FAILURE);
    };
    let files = copies.first().map(|copy| copy.setup.inputs.clone()).unwrap_or_default();
    if let Some(text) = copies.first().and_then(|copy| args.steering.refusal(&plan, copy)) {
        crate::tell(format_args!("{text}"));
        return ExitCode::from(FAILURE);
    }
    if plan.is_empty() {
        crate::tell(format_args!("{}: configuration has no elements", loaded.name));
    }
    let live = plan.live();
    if let (Some(id), Clock::Trace) = (live, args.clock) {
        let name = plan.declaration(id);
        crate::tell(format_args!(
            "{name}: --clock trace is the time of captures; leave it out for interfaces"
        ));
        return ExitCode::from(FAILURE);
    }
    let interrupt = Arc::default();
    let progress_count = Arc::new(AtomicU64::new(0));
    let options = Options {
        clock: match args.clock {
            Clock::Real => ClockKind::Real,
            Clock::Trace => ClockKind::Trace,
        },
        burst,
        text: loaded.text.clone(),
        memory: args.memory.unwrap_or_else(memory::for_packets),
        seed: args.seed,
        busy_poll: args.busy_poll,
        spin: args.spin,
        max_gap: args.max_gap,
        ends_when_idle: true,
        interrupt: Arc::clone(&interrupt),
        requests,
        rebuild: None,
        progress: Arc::clone(&progress_count),
    };
    let _dpdk = match start_dpdk(args.input.dpdk.as_deref()) {
        Ok(running) => running,
        Err(text) => {
            crate::tell(format_args!("{text}"));
            return ExitCode::from(FAILURE);
        }
    };
    let json_to_output = args.json.as_deref().is_some_and(is_stream);
    if let Some(id) = writes_output(&plan).filter(|_| json_to_output) {
        let name = plan.declaration(id);
        crate::tell(format_args!(
            "{name}: '-' and --json - both write to standard output; write one of the two to a file"
        ));
        return ExitCode::from(FAILURE);
    }
    let stamp = stamp(plan.classes.iter().any(|class| has_interface(class)));
    let streams = StandardStreams::new(stamp).yielding_output(json_to_output);
    let mut workers = match Workers::new(&plan, copies, Box::new(streams), options) {
        Ok(workers) => workers,
        Err(error) => {
            crate::tell(format_args!("{error}"));
            return ExitCode::from(FAILURE);
        }
    };
    let missing = handlers::missing(&workers, &args.handlers);
    if !missing.is_empty() {
        missing.iter().for_each(|text| crate::tell(format_args!("{text}")));
        return ExitCode::from(FAILURE);
    }
    let spinner = progress(&progress_count);
    if let Err(problem) = workers.initialize() {
        workers.flush();
        loaded.problems = vec![*problem];
        loaded.show();
        return ExitCode::from(FAILURE);
    }
    // Until here, a signal ends the program immediately, whatever it is waiting for.
    interrupt::listen(&interrupt);
    let (started, begun) = (Instant::now(), origin::begin(Some(args.seed)));
    workers.run();
    let elapsed = started.elapsed();
    spinner.finish_and_clear();
    // Handlers are read before elements release the packets that they hold, as in Click.
    let (values, mut errors) = handlers::read_all(&mut workers, &args.handlers);
    errors.extend(workers.finish().err().unwrap_or_default());
    let report = workers.report();
    if !args.quiet {
        crate::show(format_args!("{}", table::render(&report, elapsed, live.is_some())));
    }
    let mut code = ExitCode::SUCCESS;
    match json_to_output {
        true => crate::show(format_args!("{values}")),
        false => code = print(&values),
    }
    if let Some(path) = &args.json {
        // The inputs are the configuration, its libraries, files of rules, and captures.
        let texts = loaded.sources.ids().map(|id| PathBuf::from(loaded.sources.name(id)));
        let inputs: Vec<PathBuf> = texts.chain(files).chain(captures(&mut workers)).collect();
        let origin = origin::made_of(&begun, &inputs);
        errors.extend(write_json(path, &report, &origin).err());
    }
    if !report.balances() {
        errors.push("packets are unaccounted for: in is not out + held + dropped; this is a bug".into());
    }
    for error in &errors {
        crate::tell(format_args!("{error}"));
        code = ExitCode::from(FAILURE);
    }
    code
}

/// Finds an element that writes a file which is standard output.
fn writes_output(plan: &Plan) -> Option<ElementId> {
    let writes =
        |class: &Class| !class.ports.starts_with('0') && class.args.iter().any(|arg| arg.ty == "file");
    let is_output = |id: &ElementId| {
        let arguments = lang::args::split(&plan.graph.elements[*id].config);
        arguments.iter().any(|arg| arg.text.split_whitespace().next_back() == Some("-"))
    };
    (0..plan.classes.len()).filter(|&id| writes(plan.classes[id])).find(is_output)
}

/// True if a class uses an interface of the machine, or a port.
fn has_interface(class: &Class) -> bool {
    class.notes.is_live || class.args.iter().any(|arg| arg.ty == "interface")
}

/// Returns the stamp at the start of messages. A run on interfaces takes long, so that the time of a
/// message matters.
fn stamp(is_live: bool) -> Stamp {
    match is_live {
        // If standard error is the journal, systemd sets this variable (systemd.exec(5)).
        true if std::env::var_os("JOURNAL_STREAM").is_some() => Stamp::Priority,
        true => Stamp::Time,
        false => Stamp::None,
    }
}

/// Returns the captures that elements have read.
fn captures(workers: &mut Workers) -> Vec<PathBuf> {
    let plan = workers.plan();
    let reads = |class: &Class| {
        class.ports.starts_with('0') && class.each_handler().any(|handler| handler.name == "filename")
    };
    let ids: Vec<ElementId> = (0..plan.classes.len()).filter(|&id| reads(plan.classes[id])).collect();
    ids.into_iter().filter_map(|id| workers.read(Some(id), "filename", "").ok()).map(PathBuf::from).collect()
}

fn write_json(path: &Path, report: &engine::Report, origin: &Origin) -> Result<(), String> {
    let text = origin::json(report, origin)?;
    if is_stream(path) {
        print(&text);
        return Ok(());
    }
    save(path, &text)
}
