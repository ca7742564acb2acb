//! `tidegate check`, `flatten` and `dot`: report the errors of a configuration, or print it in another
//! form, without running it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::analyze::{can_write, save};
use crate::load::{Input, Loaded};
use crate::memory::{self, parse_diagrams};
use crate::numbers::{MOST_SECONDS, whole};
use lang::PictureMarks;

use crate::status::{FAILURE, Failure, SUCCESS, Status};
use crate::{explain, print, reasoning};

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
    /// Print errors and warnings only
    #[arg(short, long)]
    quiet: bool,
    /// The number of seconds after which the check of packets stops
    #[arg(
        long, value_name = "N", default_value_t = 10,
        value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true
    )]
    seconds: u64,
    /// The most memory for decision diagrams, such as 256M [default: 1G, at most half of the available
    /// memory]
    ///
    /// Diagrams never use more than 900M. A size above the available memory is refused.
    #[arg(long, value_name = "SIZE", value_parser = parse_diagrams, allow_hyphen_values = true)]
    memory: Option<usize>,
}

/// The arguments of `flatten` and `dot`, which print a configuration in another form.
#[derive(clap::Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    input: Input,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn check(args: &CheckArgs) -> Status {
    let mut loaded = args.input.load(true)?;
    let built = loaded.build(None);
    if let Some((plan, configured)) = &built {
        loaded.problems.extend(plan.unknown_calls(configured));
    }
    // The build of the elements ends early if a class is unknown. The analysis of the declarations takes
    // elements of unknown classes as opaque, so it may find errors of other elements.
    let mut reasoned = reasoning::of(loaded).map_err(Loaded::into_failure)?;
    // Findings from the text alone are shown now, because the check of packets takes time.
    reasoned.loaded.show();
    let graph = &reasoned.loaded.graph;
    let (elements, connections) = (graph.elements.len(), graph.connections.len());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let findings = explain::find(&reasoned, end, args.memory.unwrap_or_else(memory::for_diagrams));
    let (mut found, more) = explain::idle(&reasoned, &findings, args.all);
    let refused = if args.sliced { explain::not_shallow(&reasoned, &findings) } else { Vec::new() };
    let is_right = built.is_some() && !reasoned.loaded.has_errors() && refused.is_empty();
    found.extend(refused);
    found.extend(args.sliced.then(|| explain::out_of_sight(&reasoned)).flatten());
    reasoned.loaded.problems = found;
    reasoned.loaded.show();
    crate::show(format_args!("{more}"));
    let status = if is_right { SUCCESS } else { FAILURE };
    if args.quiet {
        return Ok(status);
    }
    let state = if is_right { "no errors" } else { "with errors" };
    print(&format!("{}: {elements} elements, {connections} connections, {state}\n", reasoned.loaded.name))?;
    let mut printed = Ok(SUCCESS);
    explain::describe(&reasoned, &findings, end, &mut |text| {
        if printed.is_ok() {
            printed = print(text);
        }
    });
    printed?;
    let workers = built.as_ref().map(|(plan, configured)| explain::workers(plan, configured));
    print(&workers.unwrap_or_default())?;
    Ok(status)
}

pub(crate) fn flatten(args: &TextArgs) -> Status {
    transform(args, |loaded| lang::flatten(&loaded.graph))
}

pub(crate) fn dot(args: &TextArgs) -> Status {
    transform(args, |loaded| lang::dot(&loaded.graph, &loaded.name, &PictureMarks::default()))
}

fn transform(args: &TextArgs, form: impl Fn(&Loaded) -> String) -> Status {
    can_write(&args.output)?;
    let loaded = args.input.load(false)?;
    loaded.show();
    if loaded.has_errors() {
        return Err(Failure::shown());
    }
    print_or_write(&form(&loaded), args.output.as_deref())
}

/// Prints a text, or writes it to a file if one is given.
pub(crate) fn print_or_write(text: &str, file: Option<&Path>) -> Status {
    save(file.unwrap_or(Path::new("-")), text)?;
    Ok(SUCCESS)
}
