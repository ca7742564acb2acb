//! `tidegate check`, `flatten` and `dot`: describe a configuration without running it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use engine::Problem;

use crate::analyze::can_write;
use crate::load::{Input, Loaded};
use crate::memory::{self, parse_diagrams};
use crate::numbers::whole;
use crate::prove::MOST_SECONDS;
use crate::reasoning::Unread;
use crate::{FAILURE, explain, print, reasoning};

/// The arguments of `check`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    input: Input,
    /// Show each element and each rule that never does anything
    #[arg(long)]
    all: bool,
    /// Refuse elements that do not work on packets whose payload a Slice elsewhere has parked
    #[arg(long)]
    sliced: bool,
    /// The number of seconds after which the check of packets stops
    #[arg(
        long, value_name = "N", default_value_t = 10,
        value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true
    )]
    seconds: u64,
    /// The most memory for decision diagrams, such as 256M; they never use more than 900M. A size above the
    /// available memory is refused [default: 1G, at most half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_diagrams, allow_hyphen_values = true)]
    memory: Option<usize>,
}

/// The arguments of commands that print a configuration in another form.
#[derive(clap::Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    input: Input,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads a configuration, or prints the reason why it cannot be read.
fn load(input: &Input, checks_classes: bool) -> Result<Loaded, ExitCode> {
    input.load(checks_classes).map_err(|text| {
        crate::tell(format_args!("{text}"));
        ExitCode::from(FAILURE)
    })
}

pub(crate) fn check(args: CheckArgs) -> ExitCode {
    let mut loaded = match load(&args.input, true) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    // Errors of known classes are found even if other classes are unknown.
    let built = loaded.build(None);
    if let Some((plan, configured)) = &built {
        loaded.problems.extend(plan.unknown_calls(configured));
    }
    let reasoned = match reasoning::read(&args.input) {
        Ok(reasoned) => reasoned,
        Err(unread) => {
            // A build ends at unknown classes, so that other errors are found only here.
            if let Unread::Problems(other) = unread {
                let known: HashSet<&Problem> = loaded.problems.iter().collect();
                let new = other.problems.into_iter().filter(|problem| !known.contains(problem));
                let new: Vec<_> = new.collect();
                loaded.problems.extend(new);
            }
            loaded.show();
            return ExitCode::from(FAILURE);
        }
    };
    // Findings from the text alone are shown before the check of packets, which takes time.
    loaded.show();
    let graph = &loaded.graph;
    let (elements, connections) = (graph.elements.len(), graph.connections.len());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let findings = explain::find(&reasoned, end, args.memory.unwrap_or_else(memory::for_diagrams));
    let (mut found, more) = explain::idle(&reasoned, &findings, args.all);
    let refused = if args.sliced { explain::not_shallow(&reasoned, &findings) } else { Vec::new() };
    let is_right = built.is_some() && !loaded.has_errors() && refused.is_empty();
    found.extend(refused);
    found.extend(args.sliced.then(|| explain::out_of_sight(&reasoned)).flatten());
    loaded.problems = found;
    loaded.show();
    crate::show(format_args!("{more}"));
    let state = if is_right { "no errors" } else { "with errors" };
    let head = format!("{}: {elements} elements, {connections} connections, {state}\n", loaded.name);
    let workers = built.as_ref().map(|(plan, configured)| explain::workers(plan, configured));
    let mut is_printed = true;
    let mut give = |text: &str| is_printed = is_printed && print(text) == ExitCode::SUCCESS;
    give(&head);
    explain::describe(&reasoned, &findings, end, &mut give);
    give(&workers.unwrap_or_default());
    if is_right && is_printed { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) }
}

pub(crate) fn flatten(args: TextArgs) -> ExitCode {
    transform(&args, |loaded| lang::flatten(&loaded.graph))
}

pub(crate) fn dot(args: TextArgs) -> ExitCode {
    transform(&args, |loaded| lang::dot(&loaded.graph, &loaded.name))
}

fn transform(args: &TextArgs, form: impl Fn(&Loaded) -> String) -> ExitCode {
    if !can_write(&args.output) {
        return ExitCode::from(2);
    }
    let loaded = match load(&args.input, false) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    loaded.show();
    if loaded.has_errors() {
        return ExitCode::from(FAILURE);
    }
    print_or_write(&form(&loaded), args.output.as_deref())
}

/// Prints a text, or writes it to a file.
pub(crate) fn print_or_write(text: &str, file: Option<&Path>) -> ExitCode {
    match file {
        None => print(text),
        Some(path) => match std::fs::write(path, text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(format_args!("{}: {error}", path.display()));
                ExitCode::from(FAILURE)
            }
        },
    }
}
