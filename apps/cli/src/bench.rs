//! `tidegate bench`: cost per packet.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench::{ALL, Benchmark, Row, Settings, table, unsteady};
use indicatif::ProgressBar;

use crate::analyze::{can_write, is_stream, save};
use crate::origin::{self, UNSTEADY};
use crate::{FAILURE, print};

/// Arguments of `bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0, or 4 if the machine was so busy that rows must not be quoted (marked !), 1 if something failed, 2 for wrong \
usage.")]
pub(crate) struct Args {
    /// Benchmarks to run; all of them if none is named. `list` lists them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Write the rows as JSON, with program, machine, load and inputs; `-` for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rules for `classify`, `firewall` and `synthesizer`, in ClassBench's form; for the last one, a configuration with an
    /// IPFilter (FILE.click) will do too
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Prefixes for `lpm`, a line each; may be packed with gzip
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Write the headers of `classify` or the addresses of `lpm`, and what was found, for another program; for `juggler`,
    /// captures of its packets into a folder
    #[arg(long, value_name = "FILE")]
    asked: Option<PathBuf>,
    /// Measure more often, for figures to be quoted
    #[arg(long, conflicts_with = "small")]
    full: bool,
    /// Measure once and little: for counting instructions with callgrind
    #[arg(long)]
    small: bool,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    if args.names == ["list"] {
        let lines = ALL.iter().map(|b| format!("{:14} {}\n", b.name, b.about));
        return print(&lines.collect::<String>());
    }
    let mut chosen: Vec<&Benchmark> = Vec::new();
    for name in &args.names {
        match ALL.iter().find(|b| b.name == name) {
            Some(benchmark) => chosen.push(benchmark),
            None => {
                crate::tell(format_args!("there is no benchmark '{name}'; `tidegate bench list` lists them"));
                return ExitCode::from(2);
            }
        }
    }
    if chosen.is_empty() {
        chosen = ALL.iter().collect();
    }
    let given = [("--rules", &args.rules), ("--routes", &args.routes), ("--asked", &args.asked)];
    for (option, _) in given.into_iter().filter(|(_, value)| value.is_some()) {
        let takers = bench::takers(option);
        if !chosen.iter().any(|benchmark| takers.contains(&benchmark.name)) {
            crate::tell(format_args!("{option} has no effect here: it is for {}", takers.join(", ")));
            return ExitCode::from(2);
        }
    }
    if !can_write(&args.json) {
        return ExitCode::from(2);
    }
    let amount = match (args.full, args.small) {
        (true, _) => Settings::FULL,
        (_, true) => Settings::SMALL,
        _ => Settings::USUAL,
    };
    let (rules, routes, asked) = (args.rules.clone(), args.routes.clone(), args.asked.clone());
    let settings = Settings { rules, routes, asked, ..amount };
    let begun = origin::begin(None);
    let mut rows = Vec::new();
    // Only drawn on a terminal.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(250));
    for (i, benchmark) in chosen.iter().enumerate() {
        progress.set_message(format!("{} ({} of {})", benchmark.name, i + 1, chosen.len()));
        match (benchmark.run)(&settings) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                progress.finish_and_clear();
                crate::tell(format_args!("{}: {error}", benchmark.name));
                return ExitCode::from(FAILURE);
            }
        }
    }
    progress.finish_and_clear();
    let json_to_output = args.json.as_deref().is_some_and(is_stream);
    if !json_to_output {
        print(&table(&rows));
    }
    let code = match unsteady(&rows) {
        Some(text) => {
            if json_to_output {
                crate::tell(format_args!("{}", text.trim_end()));
            }
            ExitCode::from(UNSTEADY)
        }
        None => ExitCode::SUCCESS,
    };
    let Some(path) = &args.json else { return code };
    let origin = origin::made_of(&begun, args.rules.iter().chain(&args.routes));
    let written = origin::json(&Rows { rows }, &origin).and_then(|text| match json_to_output {
        true => {
            print(&text);
            Ok(())
        }
        false => save(path, &text),
    });
    match written {
        Ok(()) => code,
        Err(error) => {
            crate::tell(format_args!("{error}"));
            ExitCode::from(FAILURE)
        }
    }
}

/// What is written as JSON.
#[derive(serde::Serialize)]
struct Rows {
    rows: Vec<Row>,
}
