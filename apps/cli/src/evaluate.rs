//! `tidegate evaluate`: measures the figures of the papers and writes their tables, plots and conclusions.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bench::Settings;
use bench::evaluation::results::{NotMade, Results};
use bench::evaluation::{ALL, Figure, FigureRun, INTERRUPTED, MISSING};
use indicatif::{ProgressBar, ProgressStyle};

use crate::origin::{self, UNSTEADY};
use crate::print;
use crate::status::{FAILURE, Failure, SUCCESS, Status};

/// The arguments of `evaluate`.
#[derive(clap::Args)]
#[command(after_help = "\
Without a name, lists the figures. For each figure, writes NAME.csv with all measurements, NAME.svg with a plot and \
NAME.json with the conclusion into the folder; evaluation.md has all figures, and the reason for each figure that is \
missing. A figure of the same program and the same amount that is in the folder is not measured again: an interrupted \
evaluation continues with the next figure. A figure during which the floor varied by more than a third is marked, has \
no conclusion, and is measured again next time.

Exit status: 0 success, 4 the machine was too busy for a figure, 1 a figure failed or was interrupted, 2 wrong usage.")]
pub(crate) struct Args {
    /// The figures to measure, such as snf-7; `snf` means all figures of that paper
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Measure all figures, which takes about 90 minutes
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The folder for results
    #[arg(long, value_name = "FOLDER", default_value = "evaluation")]
    into: PathBuf,
    /// A capture as load of Reframer's chain (figures 11 to 18)
    ///
    /// Without the option, the load is generated.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Repeat each measurement more often
    #[arg(long, conflicts_with = "small")]
    full: bool,
    /// Measure each figure once with few packets, to check that it can be made
    #[arg(long)]
    small: bool,
    /// Measure figures again whose results are in the folder
    #[arg(long)]
    again: bool,
}

pub(crate) fn run(args: &Args) -> Status {
    if args.names.is_empty() && !args.all {
        return print(&list());
    }
    let chosen = chosen(&args.names)?;
    if let Some(trace) = &args.trace {
        if !chosen.iter().any(|figure| figure.takes_trace()) {
            let text = "--trace has no effect here: it is for figures reframer-11 to reframer-18";
            return Err(Failure::usage(text));
        }
        // A wrong capture is reported now, not after an hour of measuring other figures.
        capture::Reader::open(trace).map_err(|error| error.to_string())?;
    }
    evaluate(args, &chosen)
}

/// Returns the list of all figures, each with its measured quantity and its requirements, and of the
/// figures that are missing.
fn list() -> String {
    let mut text = String::new();
    for figure @ Figure { name, paper, about, .. } in ALL {
        let needs = figure.needs();
        let needs = if needs.is_empty() { needs } else { format!("; needs {needs}") };
        text += &format!("{name:20} {paper}: {about}{needs}\n");
    }
    for (figures, reason) in MISSING {
        text += &format!("{:20} {figures}: not there; {reason}\n", "-");
    }
    text
}

/// Returns the figures with these names, or of the papers with these names. Without names, returns all
/// figures.
fn chosen(names: &[String]) -> Result<Vec<&'static Figure>, Failure> {
    let mut chosen: Vec<&Figure> = Vec::new();
    for name in names {
        let of_paper = |figure: &&Figure| figure.name.split('-').next() == Some(name);
        let before = chosen.len();
        chosen.extend(ALL.iter().filter(|figure| figure.name == name || of_paper(figure)));
        if chosen.len() == before {
            let near = lang::nearest(name, ALL.iter().map(|figure| figure.name));
            let guess = near.map_or(";".into(), |near| format!("; did you mean {near}?"));
            let text = format!("there is no figure '{name}'{guess} `tidegate evaluate` lists them");
            return Err(Failure::usage(text));
        }
    }
    if names.is_empty() {
        chosen = ALL.iter().collect();
    }
    Ok(chosen)
}

fn evaluate(args: &Args, chosen: &[&'static Figure]) -> Status {
    let (settings, amount) = match (args.full, args.small) {
        (true, _) => (Settings { repeats: Settings::FULL.repeats, ..Settings::EVALUATION }, "--full"),
        (_, true) => (Settings::GLANCE, "--small"),
        _ => (Settings::EVALUATION, ""),
    };
    let trace = args.trace.as_ref().map(|trace| format!("--trace {}", trace.display()));
    let options: Vec<&str> =
        [amount].into_iter().chain(trace.as_deref()).filter(|part| !part.is_empty()).collect();
    let results = Results::new(&args.into, &options.join(" "))?;
    let is_over = Arc::default();
    crate::interrupt::listen(&is_over);
    let bar = ProgressBar::new(chosen.len() as u64).with_style(style());
    bar.enable_steady_tick(Duration::from_millis(250));
    let mut left = Vec::new();
    let (mut failed, mut is_unsteady) = (false, false);
    for figure in chosen {
        if is_over.load(Ordering::Relaxed) {
            left.push(NotMade { name: figure.name, reason: INTERRUPTED.into() });
            continue;
        }
        if !args.again && results.has(figure) {
            tell(&bar, &format!("{}: is in the folder", figure.name));
        } else if let Some(lack) = figure.lacks() {
            tell(&bar, &format!("{}: {lack}", figure.name));
            // With `--all`, a figure that cannot be measured here is skipped. If it was named, the command
            // fails.
            failed |= !args.all;
            left.push(NotMade { name: figure.name, reason: lack });
        } else {
            let begun = origin::begin(None);
            let progress = |what: &str| {
                bar.set_message(format!("{}: {what}", figure.name));
                !is_over.load(Ordering::Relaxed)
            };
            let run = FigureRun::new(settings.clone(), args.trace.clone(), &progress);
            match (figure.run)(&run) {
                Ok(outcome) => {
                    let here = outcome.finding.here.clone();
                    let origin = origin::made_of(&begun, args.trace.iter().filter(|_| figure.takes_trace()));
                    let warning = results.keep(figure, outcome, run.floor_quartiles()?, origin)?;
                    is_unsteady |= warning.is_some();
                    tell(&bar, &format!("{}: {}", figure.name, warning.unwrap_or(here)));
                }
                Err(error) => {
                    let error = if is_over.load(Ordering::Relaxed) { INTERRUPTED.into() } else { error };
                    failed |= error != INTERRUPTED;
                    tell(&bar, &format!("{}: {error}", figure.name));
                    left.push(NotMade { name: figure.name, reason: error });
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let file = results.report(&left)?;
    print(&format!("{}\n", file.display()))?;
    let is_whole = !failed && !is_over.load(Ordering::Relaxed);
    Ok(match (is_whole, is_unsteady) {
        (false, _) => FAILURE,
        (true, true) => UNSTEADY,
        (true, false) => SUCCESS,
    })
}

/// Prints a line above the progress bar on a terminal, or to standard error elsewhere.
fn tell(bar: &ProgressBar, line: &str) {
    if std::io::stderr().is_terminal() {
        bar.println(line);
    } else {
        crate::tell(format_args!("{line}"));
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} {wide_msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}
