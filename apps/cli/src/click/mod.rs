//! `tidegate click`: runs a configuration with the options, messages and exit statuses of Click's own
//! driver.

mod options;

use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use element::Timestamp;
use element::args::{parse_bool, parse_integer};
use engine::{ClockKind, Options, Problem, Rebuild, RebuildRequest, Rebuilt, StandardStreams, Workers};
use lang::{Severity, Sources, Span};

use crate::analyze::save;
use crate::load::{Loaded, Texts, check_values, parse, read_text, rendered, start_dpdk};
use crate::status::{FAILURE, Failure, SUCCESS, Status};
use crate::successors::{Successor, Successors};
use crate::warnings::Warnings;
use crate::{handlers, interrupt, memory, origin, print};
use options::{Item, host_and_port};

const HELP: &str = "\
Runs a configuration as Click's own driver does: mistakes go to standard error,
and the run goes on until a script, an element or an interrupt ends it.

Usage: click [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Options:
  -f, --file FILE               Read the configuration from FILE ('-': standard
                                input, as without any of -f, -e, ROUTERFILE).
  -e, --expression EXPR         Use EXPR as the configuration.
  -j, --threads N               Run N threads (one in simulated time). Packets go to
                                the thread that has the state of their flow.
  -a, --affinity[=N]            For compatibility, no effect.
  -p, --port [IPADDRESS:]PORT   Listen for control connections on a TCP port of the
                                loopback address, or of this one (0.0.0.0: all).
  -u, --unix-socket FILE        Listen for control connections on a Unix socket.
      --socket FD               Take an open connection as a control connection.
  -R, --allow-reconfigure       Let the configuration be replaced: a script writes the
                                text of another one to the handler hotconfig; the
                                handler reload and HUP read its file again.
      --config-dir DIR          Let anybody replace it by a file below DIR: clients
                                of control sockets write its name to hotconfig.
      --allow-config            Let clients of Unix sockets write the text of another
                                one to hotconfig, which can have any file written.
  -h, --handler ELEMENT.H       Print a read handler's value after the run.
  -x, --exit-handler ELEMENT.H  Take the exit status from a handler's value.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Do not run the driver.
  -t, --time                    Print how long the driver took.
  -w, --no-warnings             Do not print the driver's warnings.
      --simtime[=SECONDS]       Run in simulated time.
      --simtick N               Nanoseconds that pass with each look at it.
      --memory SIZE             Memory for packets, such as 512M or 8G (usually 4G).
      --dpdk ARGUMENT... --     Start DPDK with these arguments.
  -C, --clickpath PATH          Look for libraries in these folders, not in those
                                of CLICKPATH.
      --help                    Print this message and exit.
  -v, --version                 Print the version and exit.
";

/// The values that the command line gives to the driver's options.
#[derive(Default)]
struct Asked {
    configuration: Option<Configuration>,
    defines: Vec<(String, String)>,
    handlers: Vec<String>,
    exit_handler: Option<String>,
    output: Option<String>,
    quit: bool,
    reconfigures: bool,
    /// The folder of configurations that clients may name, as it was given.
    config_folder: Option<String>,
    /// True if clients of Unix sockets may send configurations.
    takes_configs: bool,
    time: bool,
    quiet: bool,
    /// The number of threads; 0 if it was not given.
    threads: usize,
    simulated: Option<Timestamp>,
    tick: i64,
    /// The most bytes for packets; `None` for the default.
    memory: Option<usize>,
    ports: Vec<String>,
    sockets: Vec<String>,
    /// The folders for files that the configuration requires, separated by colons, instead of the folders in
    /// CLICKPATH.
    folders: Option<String>,
    /// File descriptors of open connections that the program was started with, to be used as control
    /// connections.
    files: Vec<String>,
    /// The arguments for DPDK; `None` if DPDK is not to be started.
    dpdk: Option<Vec<String>>,
}

/// The source of the configuration. It is read only after the whole command line has been checked.
enum Configuration {
    Text(String),
    /// A file; standard input if the name is empty or a dash.
    File(String),
}

impl Asked {
    /// Returns the number of threads that run. Simulated time is for one thread.
    fn workers(&self) -> usize {
        if self.simulated.is_some() { 1 } else { self.threads.max(1) }
    }
}

impl Configuration {
    /// Returns the name of the configuration in messages, its text, and its file if it has one.
    fn read(self) -> Result<(String, String, Option<PathBuf>), String> {
        match self {
            Configuration::Text(text) => Ok(("config".into(), text, None)),
            Configuration::File(file) => {
                let path = PathBuf::from(if file.is_empty() { "-" } else { &file });
                let (name, text) = read_text(&path)?;
                Ok((name, text, Some(path)))
            }
        }
    }
}

/// The reason why the program ends before it runs a configuration: wrong usage, or an option that only prints
/// a text, such as the help.
enum Early {
    Usage(Vec<String>),
    Text(String),
}

/// The element name of the control sockets that the driver adds; further sockets get a number at the end.
const SOCKET: &str = "click_driver@@ControlSocket";

/// The file name in messages about elements that the driver adds, which are in no configuration.
const DRIVER: &str = "click";

/// Click's last line about a configuration that is not wrong by its syntax, but cannot be used.
const NOT_INITIALIZED: &str = "Router could not be initialized!";

/// The default start of simulated time, as in Click, in seconds since 1970.
const SIMULATION_START: i64 = 1_000_000_000;

/// The largest number of threads, as of `tidegate run`.
const MOST_THREADS: usize = 64;

pub(crate) fn run(args: Vec<String>) -> Status {
    match read_args(args) {
        Ok(asked) => start(asked),
        Err(Early::Text(text)) => print(&text),
        Err(Early::Usage(lines)) => {
            let usage = "Usage: click [OPTION]... [ROUTERFILE]\nTry 'click --help' for more information.";
            let lines = lines.iter().map(String::as_str).chain([usage]);
            Err(lines.collect::<Vec<_>>().join("\n").into())
        }
    }
}

fn usage(line: &str) -> Early {
    Early::Usage(vec![line.to_string()])
}

fn read_args(args: Vec<String>) -> Result<Asked, Early> {
    let mut asked = Asked { tick: 1, ..Asked::default() };
    let (items, wrong) = match options::read(args) {
        Ok(items) => (items, None),
        Err((items, lines)) => (items, Some(lines)),
    };
    // Options ahead of the first mistake are applied, because `--help` may be among them.
    for item in items {
        match item {
            Item::Word(word) => positional(&mut asked, word)?,
            Item::Dpdk(arguments) => asked.dpdk = Some(arguments),
            Item::Option { name, negated, value } => option(&mut asked, name, negated, value)?,
        }
    }
    if let Some(lines) = wrong {
        return Err(Early::Usage(lines.into_iter().map(|line| format!("click: {line}")).collect()));
    }
    Ok(asked)
}

fn option(asked: &mut Asked, name: &str, negated: bool, value: Option<String>) -> Result<(), Early> {
    let given = value.is_some();
    let value = value.unwrap_or_default();
    let once = |before: &Option<String>, text| if before.is_some() { Err(usage(text)) } else { Ok(()) };
    match name {
        "file" => configure(asked, Configuration::File(value))?,
        "expression" => configure(asked, Configuration::Text(value))?,
        "handler" => asked.handlers.push(value),
        "exit-handler" => {
            once(&asked.exit_handler, "--exit-handler specified twice")?;
            asked.exit_handler = Some(value);
        }
        "output" => {
            once(&asked.output, "output file specified twice")?;
            asked.output = Some(value);
        }
        "quit" => asked.quit = true,
        "time" => asked.time = true,
        "" => asked.quiet = true,
        "warnings" => asked.quiet = negated,
        "port" => asked.ports.push(value),
        "unix-socket" => asked.sockets.push(value),
        "socket" => asked.files.push(value),
        "simtime" => {
            let start = if given { element::args::parse_seconds(&value) } else { None };
            asked.simulated = Some(start.unwrap_or(Timestamp::from_secs(SIMULATION_START)));
        }
        "simtick" => {
            let tick = element::args::parse_integer(&value).ok().and_then(|n| i64::try_from(n).ok());
            asked.tick = tick.unwrap_or(asked.tick);
        }
        "memory" => {
            let size =
                memory::parse_size(&value).map_err(|why| usage(&format!("--memory {value}: {why}")))?;
            asked.memory = Some(size);
        }
        "version" => {
            return Err(Early::Text(format!("click (Tidegate) {}\n", origin::version())));
        }
        "clickpath" => asked.folders = Some(value),
        "help" => return Err(Early::Text(HELP.into())),
        "allow-reconfigure" => asked.reconfigures = !negated,
        "config-dir" => {
            once(&asked.config_folder, "--config-dir specified twice")?;
            (asked.config_folder, asked.reconfigures) = (Some(value), true);
        }
        "allow-config" => (asked.takes_configs, asked.reconfigures) = (true, true),
        "threads" => {
            let threads = parse_integer(&value).ok().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            if threads > MOST_THREADS {
                return Err(usage(&format!("--threads {value}: at most {MOST_THREADS} threads")));
            }
            asked.threads = threads;
        }
        // The option for affinity has no effect.
        _ => {}
    }
    Ok(())
}

fn positional(asked: &mut Asked, word: String) -> Result<(), Early> {
    if let Some((name, value)) = word.split_once('=')
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    {
        if asked.defines.iter().any(|(n, _)| n == name) {
            crate::tell(format_args!("parameter '{name}' multiply defined"));
        } else {
            asked.defines.push((name.to_string(), value.to_string()));
        }
        return Ok(());
    }
    configure(asked, Configuration::File(word))
}

fn configure(asked: &mut Asked, configuration: Configuration) -> Result<(), Early> {
    match asked.configuration.replace(configuration) {
        Some(_) => Err(usage("router configuration specified twice")),
        None => Ok(()),
    }
}

fn start(mut asked: Asked) -> Status {
    let configuration = asked.configuration.take().unwrap_or(Configuration::File("-".into()));
    let successors = Successors::new(asked.config_folder.as_deref(), asked.takes_configs)?;
    let (name, text, file) = configuration.read()?;
    let own = file.clone();
    let (file, folders) = (file.as_deref(), asked.folders.as_deref());
    let texts = Texts { name, text, file, folders, allows_circles: true };
    let mut loaded = parse(texts, &asked.defines, true);
    let parsed = !loaded.has_errors();
    // Click does not check the names of parameters, so a wrong name is only a warning.
    let parameters = loaded.graph.parameters.clone();
    check_values(&mut loaded, &asked.defines, &parameters, Severity::Warning);
    add_control_sockets(&mut loaded, &control_sockets(&asked));
    let built = loaded.build_copies(None, asked.workers(), None, &[]);
    crate::show(format_args!("{}", clicks_words(&loaded.problems, &loaded.sources)));
    let Some((plan, copies)) = built else {
        if parsed {
            crate::tell(format_args!("{NOT_INITIALIZED}"));
        }
        return Err(Failure::shown());
    };
    let empty = plan.is_empty();
    let clock = match asked.simulated {
        Some(start) => ClockKind::Simulated { start, tick: Timestamp(asked.tick) },
        None => ClockKind::Real,
    };
    let interrupt = Arc::default();
    let options = Options {
        clock,
        burst: 1,
        memory: asked.memory.unwrap_or_else(memory::for_packets),
        text: loaded.text.clone(),
        ends_when_idle: false,
        clicks_words: true,
        interrupt: Arc::clone(&interrupt),
        requests: interrupt::requests(),
        rebuild: asked.reconfigures.then(|| rebuild(&asked, successors, own, Warnings::of(&loaded.problems))),
        ..Options::default()
    };
    let _dpdk = start_dpdk(asked.dpdk.as_deref())?;
    let streams = Box::new(StandardStreams::default());
    let mut workers = Workers::new(&plan, copies, streams, options).map_err(|error| error.to_string())?;
    let started = std::time::Instant::now();
    if let Err(problem) = workers.initialize() {
        workers.flush();
        crate::show(format_args!("{}", clicks_words(&[*problem], &loaded.sources)));
        return Err(NOT_INITIALIZED.into());
    }
    if !asked.quiet {
        tell_ports(&mut workers, &asked.ports);
    }
    let mut failed = false;
    let mut told = |failure: &dyn Display| {
        crate::tell(format_args!("{failure}"));
        failed = true;
    };
    if let Some(path) = &asked.output {
        let written = save(Path::new(path), &lang::flatten(&plan.graph));
        written.err().iter().for_each(|failure| told(failure));
    }
    if !asked.quit {
        if empty {
            if !asked.quiet {
                let name = &loaded.name;
                crate::tell(format_args!("warning: {name}: configuration has no elements, exiting"));
            }
        } else {
            // From here on, an interrupt asks the run to end. Before, it ends the program immediately, even
            // while an element waits during initialisation.
            interrupt::listen(&interrupt);
            workers.run();
        }
    }
    workers.flush();
    if asked.time {
        print(&time_line(started.elapsed()))?;
    }
    let (values, errors) = handlers::read_all(&mut workers, &asked.handlers);
    workers.flush();
    print(&values).err().iter().for_each(|failure| told(failure));
    errors.iter().for_each(|error| told(error));
    let status = asked.exit_handler.map(|handler| exit_status(&mut workers, &handler));
    workers.finish().err().iter().flatten().for_each(|error| told(error));
    Ok(status.unwrap_or(if failed { FAILURE } else { SUCCESS }))
}

/// Returns the arguments of the ControlSockets that the driver adds to each configuration: first those of TCP
/// sockets, then of Unix sockets, then of connections that were open when the driver was started.
fn control_sockets(asked: &Asked) -> Vec<String> {
    let tcp = asked.ports.iter().map(|port| {
        let (host, port) = host_and_port(port);
        format!("TCP, {host}:{port}")
    });
    let unix = asked.sockets.iter().map(|path| format!("UNIX, {}", lang::args::quote(path)));
    let given = asked.files.iter().map(|file| format!("SOCKET, {file}"));
    tcp.chain(unix).chain(given).collect()
}

/// Prints the addresses of the control sockets for `--port PORT+`, which may have got a later port than PORT.
/// A socket that still waits for its address has the port 0 and is left out.
fn tell_ports(workers: &mut Workers, ports: &[String]) {
    let plan = workers.plan();
    let own = plan.graph.elements.iter().enumerate().filter(|(_, element)| element.name.starts_with(SOCKET));
    // The control sockets for `--port` were added ahead of those for Unix sockets and open connections, so
    // the first sockets belong to the entries of `ports`, in order.
    let own: Vec<_> = own.map(|(id, _)| id).zip(ports).collect();
    for (id, asked) in own {
        let (host, wanted) = host_and_port(asked);
        if let Ok(port) = workers.read(Some(id), "port", "")
            && port != "0"
            && port != wanted
        {
            crate::tell(format_args!("click: listening for control connections on {host}:{port}"));
        }
    }
}

fn add_control_sockets(loaded: &mut Loaded, sockets: &[String]) {
    for config in sockets {
        let source = loaded.sources.add(DRIVER, "");
        let span = Span { source, start: 0, end: 0 };
        loaded.graph.add(SOCKET, "ControlSocket", config, span);
    }
}

/// Returns the function that makes the graph for the handlers `hotconfig` and `reload`. `own` is the file of
/// the configuration that the run was started with; `None` if it was given as a text. `warnings` are the
/// warnings about the running configuration; they are not shown again for the new graph.
fn rebuild(asked: &Asked, successors: Successors, own: Option<PathBuf>, warnings: Warnings) -> Rebuild {
    let warnings = Arc::new(warnings);
    let (defines, sockets, folders) = (asked.defines.clone(), control_sockets(asked), asked.folders.clone());
    let workers = asked.workers();
    Arc::new(move |request: &RebuildRequest| {
        let Successor { name, text, file } = successors.requested(request, own.as_deref())?;
        let texts =
            Texts { name, text, file: file.as_deref(), folders: folders.as_deref(), allows_circles: true };
        let mut loaded = parse(texts, &defines, true);
        loaded.check_has_elements()?;
        let parsed = !loaded.has_errors();
        add_control_sockets(&mut loaded, &sockets);
        let built = loaded.build_copies(None, workers, None, &[]);
        let new_warnings = warnings.remove_known(&mut loaded.problems);
        let Loaded { sources, problems, text, .. } = loaded;
        // For a configuration given as text, errors have Click's form, without columns, because Click takes
        // only texts. For a file, they have Tidegate's form.
        let is_text = file.is_none();
        let words = move |problems: &[Problem]| match is_text {
            true => clicks_words(problems, &sources),
            false => rendered(problems, &sources),
        };
        let mut said = words(&problems);
        let Some((plan, copies)) = built else {
            if is_text && parsed {
                said.push_str(NOT_INITIALIZED);
            }
            return Err(said.trim_end().to_string());
        };
        crate::show(format_args!("{said}"));
        let (warnings, before) = (Arc::clone(&warnings), warnings.replace(new_warnings));
        let tell = move |problem: &Problem| {
            warnings.replace(before.clone());
            let end = if is_text { NOT_INITIALIZED } else { "" };
            format!("{}{end}", words(slice::from_ref(problem))).trim_end().to_string()
        };
        Ok(Rebuilt { plan, copies, text, tell: Box::new(tell), recomposer: None })
    })
}

/// Returns the exit status that `--exit-handler` takes from a handler's value. An integer is the status
/// itself, modulo 256; true is 0 and false is 1. For anything else, and for errors, a message is printed and
/// the status is 255.
fn exit_status(workers: &mut Workers, handler: &str) -> u8 {
    let handler = handler.trim();
    let (handler, param) = handler.split_once(char::is_whitespace).unwrap_or((handler, ""));
    let (value, errors) = match handlers::read_one(workers, handler, param.trim()) {
        Ok(value) => (value, None),
        Err(error) => (String::new(), Some(error)),
    };
    errors.iter().for_each(|error| crate::tell(format_args!("{error}")));
    match (parse_integer(&value), parse_bool(&value)) {
        _ if errors.is_some() => 255,
        (Ok(number), _) => number.rem_euclid(256) as u8,
        (Err(_), Some(good)) => u8::from(!good),
        _ => {
            crate::tell(format_args!("exit handler value should be integer"));
            255
        }
    }
}

/// Returns problems in Click's form: `FILE:LINE: message` with the line of the element. The context of
/// consecutive messages about one element is written once, with the place of the element, before them; the
/// messages are indented and have no place. Problems for which Click has no message are left out.
fn clicks_words(problems: &[Problem], sources: &Sources) -> String {
    let mut text = String::new();
    let mut context: Option<&str> = None;
    for problem in problems {
        let diagnostic = &problem.diagnostic;
        let own = problem.context_span.unwrap_or(diagnostic.span);
        let words = diagnostic.in_clicks_words().lines().map(|line| (Some(own), line));
        let lines = diagnostic.clicks_lines.iter().map(|(place, line)| (*place, line.as_str()));
        let lines: Vec<_> =
            if diagnostic.clicks_lines.is_empty() { words.collect() } else { lines.collect() };
        if lines.is_empty() {
            continue;
        }
        if problem.context.as_deref() != context {
            context = problem.context.as_deref();
            if let Some(context) = context {
                let _ = writeln!(text, "{}{context}:", clicks_place(own, sources));
            }
        }
        // Click's words of warnings contain `warning: `.
        let is_marked = diagnostic.severity != Severity::Warning || diagnostic.clicks_words.is_some();
        let warning = if is_marked { "" } else { "warning: " };
        for (place, line) in lines {
            let start = match (context, place) {
                (Some(_), _) => "  ".to_string(),
                (None, Some(place)) => clicks_place(place, sources),
                (None, None) => String::new(),
            };
            let _ = writeln!(text, "{start}{warning}{line}");
        }
    }
    text
}

/// Returns the place of a message in Click's form, `FILE:LINE: `.
fn clicks_place(span: Span, sources: &Sources) -> String {
    let location = sources.locate(span);
    // Elements that the driver adds, such as control sockets, are in no file, so their messages name no line.
    match sources.text(span.source) {
        "" if location.file == DRIVER => format!("{DRIVER}: "),
        _ => format!("{}:{}: ", location.file, location.line),
    }
}

fn time_line(elapsed: std::time::Duration) -> String {
    let (user, system) = processor_time().unwrap_or_default();
    let wall = elapsed.as_secs_f64();
    format!("{user:.3}u {system:.3}s {}:{:05.2}\n", (wall / 60.0) as u64, wall % 60.0)
}

/// Returns the user time and the system time of this process, in seconds, as the kernel counts them.
fn processor_time() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 14 and 15 of `/proc/self/stat` are the user and the system time. Field 2, in parentheses, may
    // contain any characters, so fields are counted from the end of field 2.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok());
    // The kernel shows processor times in hundredths of a second to every program.
    Some((ticks(11)? / 100.0, ticks(12)? / 100.0))
}
