//! `tidegate analyze`: prints figures about captures, or writes them as JSON or as a page. Other commands
//! use its functions for files and progress.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use bench::origin::Begun;
use capture::Reader;
use element::Setup;
use element::args::PlaceNames;
use element::args::Scope;
use indicatif::{ProgressBar, ProgressStyle};
use trace::{Options, Selection, TraceReport};

use crate::numbers::whole;
use crate::origin;
use crate::print;
use crate::status::{FAILURE, Failure, SUCCESS, Status};

/// The arguments of `analyze`.
#[derive(clap::Args)]
#[command(after_help = "\
Several captures count as one trace, in the order given. A flow is a directed five-tuple of unfragmented TCP or UDP. \
A damaged capture counts up to its damage, and the exit status is 1. docs/analyze.md defines every figure.")]
pub(crate) struct Args {
    /// The captures: pcap or pcapng, plain, gzip or zstd; `-` for standard input
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Write all figures as JSON; without FILE, to standard output
    ///
    /// A capture is never overwritten: if FILE is a capture, it is analysed.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a page with plots, which needs no other files
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Analyse only packets that match an expression, such as 'tcp port 80 && src net 10/8'
    ///
    /// The language is IPFilter's; terms are about IPv4 unless they start with ip6.
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Describe the N addresses with the most TCP flows
    #[arg(
        long, value_name = "N", default_value_t = 0,
        value_parser = whole::<u16>(0..=1000), allow_negative_numbers = true
    )]
    top_ips: u16,
}

pub(crate) fn run(mut args: Args) -> Status {
    if let Some(capture) = claim(&mut args.json) {
        args.traces.insert(0, capture);
    }
    can_write(args.json.iter().chain(&args.html))?;
    if args.traces.is_empty() {
        return Err(Failure::usage(
            "there is no TRACE to analyse; `tidegate analyze --help` shows the usage",
        ));
    }
    // A wrong capture is reported now, not after an hour of reading. Pipes are not checked here, because
    // they can be opened only once.
    let files = args.traces.iter().filter(|path| !is_stream(path) && (!path.exists() || path.is_file()));
    if let Some(error) = files.filter_map(|path| Reader::open(path).err()).next() {
        return Err(error.to_string().into());
    }
    let selection = select(args.filter.as_deref())?;
    let options = Options { selection, top_addresses: args.top_ips };
    let begun = origin::begin(None);
    let progress = progress(&args.traces);
    let mut opened = 0;
    let result = trace::analyze(&args.traces, options, |path| {
        if opened == args.traces.len() {
            progress.set_message("(second pass)");
            progress.set_position(0);
        }
        opened += 1;
        open(path, &progress)
    });
    progress.finish_and_clear();
    let report = result.map_err(|error| error.to_string())?;
    write(&args, &report, &begun)?;
    Ok(if report.traces.iter().all(|trace| trace.complete) { SUCCESS } else { FAILURE })
}

/// Returns the selection of packets that the expression of `--filter` describes; all packets without an
/// expression. The expression can use names of services, but no names that a configuration declares.
fn select(filter: Option<&str>) -> Result<Selection, Failure> {
    let Some(text) = filter else { return Ok(Selection::default()) };
    let setup = Setup::default();
    match Selection::parse(text, &PlaceNames(Scope::new(&setup, 0))) {
        Ok((selection, warnings)) => {
            warnings.iter().for_each(|warning| crate::tell(format_args!("--filter: warning: {warning}")));
            Ok(selection)
        }
        Err(errors) => {
            let lines: Vec<String> = errors.iter().map(|error| format!("--filter: {error}")).collect();
            Err(Failure::usage(lines.join("\n")))
        }
    }
}

/// True if a name means standard input or output (`-`).
pub(crate) fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// True if a path is a file with a capture. Pipes and terminals are not opened, because reading them may
/// block.
fn is_capture(path: &Path) -> bool {
    path.is_file() && Reader::open(path).is_ok()
}

/// Returns the capture that stands after `--json`, and sends the JSON to standard output instead: a user who
/// writes `--json TRACE` wants the trace to be analysed. `None` without `--json FILE`, or if FILE is no
/// capture.
pub(crate) fn claim(json: &mut Option<PathBuf>) -> Option<PathBuf> {
    let json = json.as_mut().filter(|json| is_capture(json))?;
    Some(std::mem::replace(json, PathBuf::from("-")))
}

/// Checks that a file can be written, before a long run at whose end the file is opened. Refuses a capture,
/// so that it is not overwritten. The error is the reason for a refusal, as a text for the user.
pub(crate) fn unwritable(path: &Path) -> Result<(), String> {
    if !is_stream(path) && is_capture(path) {
        let name = path.display();
        return Err(format!("{name}: this is a capture, which is not overwritten; name another file"));
    }
    no_place(path)
}

/// Checks that a file can be written; a capture may be overwritten. The error is the reason why the file
/// cannot be written, as a text for the user.
pub(crate) fn no_place(path: &Path) -> Result<(), String> {
    if is_stream(path) {
        return Ok(());
    }
    let name = path.display();
    if path.is_dir() {
        return Err(format!("{name}: this is a folder; name a file"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("{name}: there is no folder {}", folder.display()));
    }
    let refused = |error: std::io::Error| format!("{name}: {}", crate::reason(&error));
    if path.is_file() {
        OpenOptions::new().append(true).open(path).map_err(refused)?;
    } else if !path.exists() && !path.is_symlink() {
        // Only an attempt shows if a file can be created in the folder.
        OpenOptions::new().write(true).create_new(true).open(path).map_err(refused)?;
        std::fs::remove_file(path).map_err(refused)?;
    }
    // Pipes and devices are not opened, because opening may block until there is a reader.
    Ok(())
}

/// Checks that files can be written, before the run whose results they are to hold. The failure is a usage
/// error.
pub(crate) fn can_write<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Failure> {
    files.into_iter().try_for_each(|path| unwritable(path)).map_err(Failure::usage)
}

/// Returns a progress bar over the bytes of all captures, drawn only on a terminal. If a capture is a pipe,
/// whose size is not known, the bar has no end.
pub(crate) fn progress(traces: &[PathBuf]) -> ProgressBar {
    let size =
        |path: &PathBuf| std::fs::metadata(path).ok().filter(|data| data.is_file()).map(|data| data.len());
    let (bar, style) = match traces.iter().map(size).sum::<Option<u64>>() {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left {msg}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {elapsed} {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

pub(crate) fn open(path: &Path, progress: &ProgressBar) -> Result<Reader, capture::Error> {
    if is_stream(path) {
        return Reader::from_read(progress.wrap_read(std::io::stdin()), "standard input");
    }
    match File::open(path) {
        Ok(file) => Reader::from_read(progress.wrap_read(file), path.display().to_string()),
        // `Reader::open` opens the file again, for its error message.
        Err(_) => Reader::open(path),
    }
}

/// Writes a text to a file, or to standard output if the name is `-`.
pub(crate) fn save(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stream(path) {
        return print(text).map(|_| ());
    }
    std::fs::write(path, text).map_err(|error| format!("{}: {}", path.display(), crate::reason(&error)))?;
    Ok(())
}

fn write(args: &Args, report: &TraceReport, begun: &Begun) -> Status {
    for note in &report.notes {
        crate::tell(format_args!("{note}"));
    }
    let files: Vec<&PathBuf> = args.html.iter().chain(&args.json).collect();
    if !files.is_empty() {
        let origin = origin::made_of(begun, &args.traces);
        if let Some(path) = &args.html {
            save(path, &trace::html::page(report, &origin.lines()))?;
        }
        if let Some(path) = &args.json {
            save(path, &origin::json(report, &origin)?)?;
        }
    }
    match files.iter().any(|path| is_stream(path)) {
        true => Ok(SUCCESS),
        false => print(&report.to_string()),
    }
}
