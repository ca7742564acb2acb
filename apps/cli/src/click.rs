//! `tidegate click`: the options of Click's own driver.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use element::Timestamp;
use engine::{ClockKind, Options, Problem, StandardStreams, Worker};
use lang::{Severity, Sources};

use crate::load::{parse, read_text};
use crate::{FAILURE, handlers, print, run};

const HELP: &str = "\
Usage: click [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Runs a configuration as Click's user-level driver does.

Options:
  -f, --file FILE             read the configuration from FILE (- for standard input)
  -e, --expression TEXT       take TEXT as the configuration
  -h, --handler [ELEMENT.]H   print a handler's value when the driver has stopped
  -x, --exit-handler H        take the exit status from a handler's value
  -o, --output FILE           write the flat configuration to FILE
  -q, --quit                  do not run the driver
  -t, --time                  print how long it took
  -w, --no-warnings           do not print the driver's warnings
  -j, --threads N             one thread for now; N is accepted
  -C, --clickpath PATH        accepted
      --simtime[=SECONDS]     run in simulated time
      --simtick N             nanoseconds that pass with each look at simulated time
  -v, --version               print the version
      --help                  print this
";

/// What the command line asks for.
#[derive(Default)]
struct Asked {
    text: Option<(String, String, Option<PathBuf>)>,
    defines: Vec<(String, String)>,
    handlers: Vec<String>,
    exit_handler: Option<String>,
    output: Option<String>,
    quit: bool,
    time: bool,
    quiet: bool,
    simulated: Option<Timestamp>,
    tick: i64,
}

/// What ends the program before it runs anything.
enum Early {
    Usage(String),
    Failure(String),
    Text(&'static str),
}

/// Click starts simulated time here.
const SIMULATION_START: i64 = 1_000_000_000;

pub(crate) fn main(args: Vec<String>) -> ExitCode {
    match read_args(args) {
        Ok(asked) => start(asked),
        Err(Early::Text(text)) => print(text),
        Err(Early::Failure(text)) => {
            crate::tell(format_args!("{text}"));
            ExitCode::from(FAILURE)
        }
        Err(Early::Usage(text)) => {
            crate::tell(format_args!(
                "{text}\nUsage: click [OPTION]... [ROUTERFILE]\nTry 'click --help' for more information."
            ));
            ExitCode::from(FAILURE)
        }
    }
}

fn read_args(args: Vec<String>) -> Result<Asked, Early> {
    let mut asked = Asked { tick: 1_000, ..Asked::default() };
    let mut words = args.into_iter();
    let mut only_files = false;
    while let Some(word) = words.next() {
        if only_files || word == "-" || !word.starts_with('-') {
            positional(&mut asked, word)?;
            continue;
        }
        if word == "--" {
            only_files = true;
            continue;
        }
        let (option, mut inline) = match word.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (format!("--{name}"), Some(value.to_string())),
                None => (word.clone(), None),
            },
            // `-efoo` is `-e foo`.
            None => {
                let (short, rest) = word.split_at(word.char_indices().nth(2).map_or(word.len(), |(i, _)| i));
                (short.to_string(), (!rest.is_empty()).then(|| rest.to_string()))
            }
        };
        let mut value = |asked_for: &str| {
            let value = inline.take().or_else(|| words.next());
            value.ok_or_else(|| Early::Usage(format!("'{asked_for}' expects an argument")))
        };
        match option.as_str() {
            "-f" | "--file" => {
                let file = value(&option)?;
                open(&mut asked, file)?;
            }
            "-e" | "--expression" => {
                let text = value(&option)?;
                set_text(&mut asked, "config".into(), text, None)?;
            }
            "-h" | "--handler" => asked.handlers.push(value(&option)?),
            "-x" | "--exit-handler" if asked.exit_handler.is_some() => {
                return Err(Early::Usage("--exit-handler specified twice".into()));
            }
            "-x" | "--exit-handler" => asked.exit_handler = Some(value(&option)?),
            "-o" | "--output" if asked.output.is_some() => {
                return Err(Early::Usage("output file specified twice".into()));
            }
            "-o" | "--output" => asked.output = Some(value(&option)?),
            "-q" | "--quit" => asked.quit = true,
            "-t" | "--time" => asked.time = true,
            "-w" | "--no-warnings" => asked.quiet = true,
            "--warnings" => asked.quiet = false,
            "-j" | "--threads" => {
                let number = value(&option)?;
                if number.parse::<u32>().is_err() {
                    return Err(Early::Usage(format!("'{option}' expects an integer, not '{number}'")));
                }
            }
            "-C" | "--clickpath" => drop(value(&option)?),
            "--simtime" | "--simulation-time" => {
                let start = match inline.take() {
                    None => Timestamp::from_secs(SIMULATION_START),
                    Some(text) => element::args::parse_seconds(&text)
                        .ok_or_else(|| Early::Usage(format!("'--simtime' expects a time, not '{text}'")))?,
                };
                asked.simulated = Some(start);
            }
            "--simtick" => {
                let number = value(&option)?;
                asked.tick = number
                    .parse()
                    .map_err(|_| Early::Usage(format!("'--simtick' expects an integer, not '{number}'")))?;
            }
            "-v" | "--version" => {
                return Err(Early::Text(concat!("click (Tidegate) ", env!("CARGO_PKG_VERSION"), "\n")));
            }
            "--help" => return Err(Early::Text(HELP)),
            other => return Err(Early::Usage(format!("unrecognized option '{other}'"))),
        }
    }
    if asked.text.is_none() {
        open(&mut asked, "-".into())?;
    }
    Ok(asked)
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
    open(asked, word)
}

fn open(asked: &mut Asked, file: String) -> Result<(), Early> {
    let path = PathBuf::from(&file);
    let (name, text) = read_text(&path).map_err(Early::Failure)?;
    set_text(asked, name, text, path.parent().map(PathBuf::from))
}

fn set_text(asked: &mut Asked, name: String, text: String, folder: Option<PathBuf>) -> Result<(), Early> {
    if asked.text.is_some() {
        return Err(Early::Usage("router configuration specified twice".into()));
    }
    asked.text = Some((name, text, folder));
    Ok(())
}

fn start(asked: Asked) -> ExitCode {
    let Some((name, text, folder)) = asked.text else { return ExitCode::from(FAILURE) };
    let mut loaded = parse(name, text, folder.as_deref(), &asked.defines, true);
    let parsed = !loaded.has_errors();
    let built = loaded.build(None);
    crate::show(format_args!("{}", clicks_words(&loaded.problems, &loaded.sources)));
    let Some((plan, configured)) = built else {
        if parsed {
            crate::tell(format_args!("Router could not be initialized!"));
        }
        return ExitCode::from(FAILURE);
    };
    let empty = plan.is_empty();
    let clock = match asked.simulated {
        Some(start) => ClockKind::Simulated { start, tick: Timestamp(asked.tick) },
        None => ClockKind::Real,
    };
    let options = Options {
        clock,
        burst: 1,
        ends_when_idle: false,
        interrupt: run::interrupt_flag(),
        ..Options::default()
    };
    let mut worker =
        match Worker::new(Arc::clone(&plan), configured, Box::new(StandardStreams::default()), options) {
            Ok(worker) => worker,
            Err(error) => {
                crate::tell(format_args!("{error}"));
                return ExitCode::from(FAILURE);
            }
        };
    let started = std::time::Instant::now();
    if let Err(problem) = worker.initialize() {
        worker.flush();
        crate::show(format_args!("{}", clicks_words(&[*problem], &loaded.sources)));
        crate::tell(format_args!("Router could not be initialized!"));
        return ExitCode::from(FAILURE);
    }
    let mut failed = false;
    if let Some(path) = &asked.output {
        let text = lang::flatten(&plan.graph);
        failed |= match path.as_str() {
            "-" => print(&text) != ExitCode::SUCCESS,
            path => std::fs::write(path, text)
                .inspect_err(|error| crate::tell(format_args!("{path}: {error}")))
                .is_err(),
        };
    }
    if !asked.quit {
        if empty {
            if !asked.quiet {
                crate::tell(format_args!("{}: configuration has no elements, exiting", loaded.name));
            }
        } else {
            worker.run();
        }
    }
    worker.flush();
    if asked.time {
        print(&time_line(started.elapsed()));
    }
    let (values, errors) = handlers::read_all(&mut worker, &asked.handlers);
    worker.flush();
    print(&values);
    errors.iter().for_each(|error| crate::tell(format_args!("{error}")));
    failed |= !errors.is_empty();
    let status = asked.exit_handler.map(|handler| exit_status(&mut worker, &handler));
    for error in worker.finish().err().unwrap_or_default() {
        crate::tell(format_args!("{error}"));
    }
    match status {
        Some(status) => ExitCode::from(status),
        None if failed => ExitCode::from(FAILURE),
        None => ExitCode::SUCCESS,
    }
}

/// An integer is the status, true is 0 and false is 1, anything else is an error.
fn exit_status(worker: &mut Worker, handler: &str) -> u8 {
    let (value, errors) = handlers::read_all(worker, &[handler.to_string()]);
    errors.iter().for_each(|error| crate::tell(format_args!("{error}")));
    match (value.trim().parse::<i64>(), value.trim()) {
        _ if !errors.is_empty() => 255,
        (Ok(number), _) => number.rem_euclid(256) as u8,
        (Err(_), "true") => 0,
        (Err(_), "false") => 1,
        _ => {
            crate::tell(format_args!("exit handler value should be integer"));
            255
        }
    }
}

/// Click's format: `FILE:LINE: message`, with the element's context once before its messages.
fn clicks_words(problems: &[Problem], sources: &Sources) -> String {
    let mut text = String::new();
    let mut context: Option<&str> = None;
    for problem in problems {
        let diagnostic = &problem.diagnostic;
        let location = sources.locate(diagnostic.span);
        let place = format!("{}:{}", location.file, location.line);
        if problem.context.as_deref() != context {
            context = problem.context.as_deref();
            if let Some(context) = context {
                let _ = writeln!(text, "{place}: {context}:");
            }
        }
        let indent = if context.is_some() { "  " } else { "" };
        let warning = if diagnostic.severity == Severity::Warning { "warning: " } else { "" };
        for line in diagnostic.message.lines() {
            let _ = writeln!(text, "{place}: {indent}{warning}{line}");
        }
    }
    text
}

fn time_line(elapsed: std::time::Duration) -> String {
    let (user, system) = processor_time().unwrap_or_default();
    let wall = elapsed.as_secs_f64();
    format!("{user:.3}u {system:.3}s {}:{:05.2}\n", (wall / 60.0) as u64, wall % 60.0)
}

/// User and system time of this process in seconds, as the kernel has counted them.
fn processor_time() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 14 and 15; the second one, in parentheses, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok());
    // The kernel shows ticks of a hundredth of a second to every program.
    Some((ticks(11)? / 100.0, ticks(12)? / 100.0))
}
