//! `tidegate bench`: runs benchmarks of the engine and the mechanisms, prints their results as a table, and
//! writes them as JSON if asked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench::{ALL, Benchmark, Progress, Row, Settings, table, unsteady};
use indicatif::ProgressBar;

use crate::analyze::{can_write, is_stream, save};
use crate::numbers::whole;
use crate::origin::{self, UNSTEADY};
use crate::print;
use crate::status::{Failure, SUCCESS, Status};

const STATUS: &str = "\
Exit status: 0 success, 4 figures that must not be quoted because the machine was busy (marked !) or memory that \
grows in `soak`, 1 an error, 2 wrong usage.";

/// The arguments of `bench`.
#[derive(clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Args {
    /// The benchmarks to run, by default all; `list` lists them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Write the rows as JSON; `-` for standard output
    ///
    /// The program, the machine, its load and the inputs are part of the result.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rules for `classify`, `firewall` and `synthesizer`
    ///
    /// The rules are in ClassBench's format; `synthesizer` also takes a configuration with an IPFilter
    /// (FILE.click).
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Prefixes for `lpm`, one per line; may be compressed with gzip
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Write the headers of `classify`, the addresses of `lpm`, or the packets of `juggler`
    ///
    /// Headers and addresses are written with their results, as input for another program; for `juggler`,
    /// FILE is a folder for captures.
    #[arg(long, value_name = "FILE")]
    asked: Option<PathBuf>,
    /// For `soak`: the minutes in total [default: 1]
    ///
    /// The time for filling the tables is extra.
    #[arg(long, value_name = "N", value_parser = parse_minutes, allow_hyphen_values = true, conflicts_with = "small")]
    minutes: Option<f64>,
    /// For `soak`: the capacity of all tables, instead of each table's default
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX), allow_negative_numbers = true)]
    capacity: Option<u64>,
    /// Run one case of `soak`, with JSON on standard output; the program calls itself with this option
    #[arg(long, hide = true, requires = "milliseconds")]
    case: Option<usize>,
    /// The time for `--case`, in milliseconds
    #[arg(long, hide = true)]
    milliseconds: Option<u64>,
    /// Measure more often, for figures that are to be quoted
    #[arg(long, conflicts_with = "small")]
    full: bool,
    /// Measure once with few packets, for counting instructions with callgrind
    #[arg(long)]
    small: bool,
}

/// The capacity of the tables that `soak` fills with `--small` and without `--capacity`. It is small because
/// `--small` only checks that the benchmark works.
const SMALL_CAPACITY: u64 = 1000;

/// Parses a number of minutes, with or without a fraction, greater than 0 and at most a year.
fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|&minutes| minutes > 0.0 && minutes <= 60.0 * 24.0 * 365.0);
    minutes.ok_or_else(|| "give a number of minutes, such as 10 or 0.5".into())
}

pub(crate) fn run(args: &Args) -> Status {
    if let (Some(case), Some(milliseconds)) = (args.case, args.milliseconds) {
        return print(&format!("{}\n", bench::soak::one(case, milliseconds, args.capacity)?));
    }
    if args.names == ["list"] {
        let lines = ALL.iter().map(|b| format!("{:14} {}\n", b.name, b.about));
        return print(&lines.collect::<String>());
    }
    let mut chosen: Vec<&Benchmark> = Vec::new();
    for name in &args.names {
        let found = ALL.iter().find(|benchmark| benchmark.name == name);
        chosen.push(found.ok_or_else(|| unknown(name))?);
    }
    if chosen.is_empty() {
        chosen = ALL.iter().collect();
    }
    let given = [
        ("--rules", args.rules.is_some()),
        ("--routes", args.routes.is_some()),
        ("--asked", args.asked.is_some()),
        ("--minutes", args.minutes.is_some()),
        ("--capacity", args.capacity.is_some()),
    ];
    for (option, _) in given.into_iter().filter(|(_, given)| *given) {
        let takers = bench::takers(option);
        if !chosen.iter().any(|benchmark| takers.contains(&benchmark.name)) {
            let text = format!("{option} has no effect here: it is for {}", takers.join(", "));
            return Err(Failure::usage(text));
        }
    }
    can_write(&args.json)?;
    let amount = match (args.full, args.small) {
        (true, _) => Settings::FULL,
        (_, true) => Settings::SMALL,
        _ => Settings::USUAL,
    };
    let (rules, routes, asked) = (args.rules.clone(), args.routes.clone(), args.asked.clone());
    let begun = origin::begin(None);
    // The spinner is drawn only on a terminal.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(250));
    let shown = progress.clone();
    let soak = Duration::from_secs_f64(args.minutes.unwrap_or(1.0) * 60.0);
    let settings = Settings {
        rules,
        routes,
        asked,
        soak: if args.small { amount.soak } else { soak },
        // With `--small`, filling tables of a million entries would take longer than all other benchmarks
        // together.
        capacity: args.capacity.or(args.small.then_some(SMALL_CAPACITY)),
        progress: Progress(Some(Arc::new(move |text: &str| shown.set_message(text.to_string())))),
        ..amount
    };
    let mut rows = Vec::new();
    for (i, benchmark) in chosen.iter().enumerate() {
        progress.set_message(format!("{} ({} of {})", benchmark.name, i + 1, chosen.len()));
        match (benchmark.run)(&settings) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                progress.finish_and_clear();
                return Err(format!("{}: {error}", benchmark.name).into());
            }
        }
    }
    progress.finish_and_clear();
    let json_to_output = args.json.as_deref().is_some_and(is_stream);
    if !json_to_output {
        print(&table(&rows))?;
    }
    let grows = rows.iter().filter_map(|row| row.soak.as_ref()).any(|soaked| soaked.grows);
    let unsteady = unsteady(&rows);
    if let Some(text) = unsteady.as_ref().filter(|_| json_to_output) {
        crate::tell(format_args!("{}", text.trim_end()));
    }
    let status = if grows || unsteady.is_some() { UNSTEADY } else { SUCCESS };
    let Some(path) = &args.json else { return Ok(status) };
    let origin = origin::made_of(&begun, args.rules.iter().chain(&args.routes));
    save(path, &origin::json(&Rows { rows }, &origin)?)?;
    Ok(status)
}

/// Returns the failure for the name of a benchmark that does not exist, with the nearest name.
fn unknown(name: &str) -> Failure {
    let near = lang::nearest(name, ALL.iter().map(|benchmark| benchmark.name));
    let guess = near.map_or(";".into(), |near| format!("; did you mean {near}?"));
    Failure::usage(format!("there is no benchmark '{name}'{guess} `tidegate bench list` lists them"))
}

/// The rows of all benchmarks that have run, for JSON.
#[derive(serde::Serialize)]
struct Rows {
    rows: Vec<Row>,
}
