//! `tidegate advise`: estimates the gain of each mechanism for the traffic of a trace, and writes a
//! configuration with the mechanisms that pay.

mod judge;
mod measure;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bench::origin::Origin;

use self::judge::{Advice, Assumptions, DELAYS, ELEPHANTS, Row};
use self::measure::{Outcome, Trial};
use crate::analyze::{self, is_stream};
use crate::numbers::whole;
use crate::origin;
use crate::print;
use crate::status::{FAILURE, Failure, SUCCESS, Status};

/// The arguments of `advise`.
#[derive(clap::Args)]
#[command(after_help = "\
The capture is read up to four times: once for the analysis, and up to three times through Reframers on the trace \
clock, so that the element itself is measured. docs/advise.md describes the measured figures, the assumptions and the \
JSON report.")]
pub(crate) struct Args {
    /// The capture: pcap or pcapng, plain, gzip or zstd
    #[arg(value_name = "TRACE", required_unless_present = "json")]
    trace: Option<PathBuf>,
    /// Write all figures as JSON; without FILE, to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the configuration to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The assumed cost of a flow switch in the downstream chain, in nanoseconds
    ///
    /// The default is measured with a chain of four functions. A chain with more state per flow than the
    /// second-level cache keeps waits about 100 for each cache line.
    #[arg(long, value_name = "NS", default_value_t = judge::SWITCH_NS, value_parser = nanoseconds, allow_hyphen_values = true)]
    flow_cost: f64,
    /// The longest delay to advise, in microseconds
    #[arg(
        long, value_name = "US", default_value_t = 512,
        value_parser = whole(16..=u32::MAX), allow_negative_numbers = true
    )]
    max_delay: u32,
    /// The number of cores that packets could be spread over
    #[arg(
        long, value_name = "N", default_value_t = 8,
        value_parser = whole::<u32>(1..=1024), allow_negative_numbers = true
    )]
    cores: u32,
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e9).contains(number));
    number.ok_or_else(|| "give nanoseconds, from 0 to 1000000000".into())
}

pub(crate) fn run(mut args: Args) -> Status {
    if args.trace.is_none() {
        args.trace = analyze::claim(&mut args.json);
    }
    let Some(trace) = args.trace.clone() else {
        return Err(Failure::usage("there is no TRACE; `tidegate advise --help` shows the usage"));
    };
    if trace.is_dir() {
        return Err(Failure::usage(format!("{}: this is a folder; name a capture", trace.display())));
    }
    if is_stream(&trace) || (trace.exists() && !trace.is_file()) {
        let name = trace.display();
        let text = format!("{name}: a stream cannot be read several times; save it to a file first");
        return Err(Failure::usage(text));
    }
    analyze::can_write(args.json.iter().chain(&args.output))?;
    if let (Some(output), Some(json)) = (&args.output, &args.json)
        && is_same(output, json)
    {
        let name = output.display();
        return Err(Failure::usage(format!("{name}: -o and --json name the same file; name two files")));
    }
    let begun = origin::begin(None);
    let advice = advise(&trace, &args)?;
    write(&args, &advice, &begun.origin([trace.as_path()]))?;
    Ok(if advice.complete { SUCCESS } else { FAILURE })
}

/// True if two names are names of the same file. Neither file need exist.
fn is_same(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let found = path.canonicalize().ok();
        found.or_else(|| Some(folder?.join(path.file_name()?))).unwrap_or(path)
    };
    a == b || (!is_stream(a) && !is_stream(b) && whole(a) == whole(b))
}

/// Returns the CAPACITY (the largest number of flows in the Reframer's table) with which Reframers are tried,
/// for a trace with this number of flows.
fn capacity(flows: u64) -> u64 {
    flows.next_power_of_two().clamp(1 << 16, 1 << 18)
}

fn advise(trace: &Path, args: &Args) -> Result<Advice, String> {
    let bar = analyze::progress(&[trace.to_path_buf()]);
    let report =
        trace::analyze(&[trace.to_path_buf()], trace::Options::default(), |path| analyze::open(path, &bar));
    bar.finish_and_clear();
    let report = report.map_err(|error| error.to_string())?;
    let assumed = Assumptions {
        flow_cost_ns: args.flow_cost,
        hold_packet_ns: judge::HOLD_NS.0,
        hold_burst_ns: judge::HOLD_NS.1,
        max_delay_us: args.max_delay,
        cores: args.cores,
    };
    let room = capacity(report.flows);
    let trial = |longest_us: f64, arguments: String| Trial {
        arguments: format!("{arguments}, CAPACITY {room}"),
        longest_us,
    };
    let through = |message: &'static str, trials: Vec<Trial>| {
        let count = Arc::new(AtomicU64::new(0));
        // Each trial gets a copy of each packet. The progress bar counts all copies.
        let bar = crate::run::progress_of(&count, report.packets * trials.len() as u64, message);
        let outcomes = measure::run(trace, &trials, &count);
        bar.finish_and_clear();
        outcomes
    };
    let delays = DELAYS.iter().map(|&delay| trial(delay.into(), format!("DELAY {delay}us"))).collect();
    let outcomes = through("delays", delays)?;
    let reframer = judge::reframing(&report, &assumed, &outcomes);
    // COMPRESS and REORDER may pay even if no delay pays. If no delay was chosen, they are tried with the
    // longest allowed delay.
    let delay = reframer.delay_us.unwrap_or_else(|| judge::longest(&assumed));
    let waits = f64::from(delay);
    let others = ["COMPRESS", "REORDER"];
    let mut trials: Vec<_> =
        others.map(|keyword| trial(waits, format!("DELAY {delay}us, {keyword} true"))).into();
    if reframer.verdict.is_worth_a_try() {
        let slo = judge::slo_for(delay);
        trials.push(trial(judge::longest_under(slo), format!("SLO {slo}us")));
        let heavy = ELEPHANTS.iter().map(|packets| format!("DELAY {delay}us, ELEPHANTS {packets}"));
        trials.extend(heavy.map(|arguments| trial(waits, arguments)));
    }
    let outcomes = through("ways of holding", trials)?;
    let (compress, reorder, others) = match &outcomes[..] {
        [compress, reorder, others @ ..] => (compress, reorder, others),
        _ => return Err("a trial has no outcome; this is a bug".into()),
    };
    let (slo, heavy) = others.split_first().map_or((None, others), |(slo, heavy)| (Some(slo), heavy));
    let mut advice = Advice {
        trace: trace.display().to_string(),
        complete: report.traces.iter().all(|trace| trace.complete),
        notes: judge::notes(&report),
        packets: report.packets,
        duration_s: report.duration_s,
        packets_per_s: report.packets_per_s,
        bits_per_s: report.bits_per_s,
        flows: report.flows,
        slf: report.slf,
        assumptions: assumed,
        elephants: judge::elephants(&report, &assumed, &reframer, heavy),
        slo: judge::slo(&report, &assumed, &reframer, slo),
        ack_coalescing: judge::acks(&report, delay, compress),
        sorting: judge::sorting(&report, delay, reorder),
        slicing: judge::slicing(&report),
        spraying: judge::spraying(&report, args.cores),
        reframer,
        configured: None,
        configuration: String::new(),
    };
    let arguments = advice.arguments(delay);
    if let Some((arguments, row)) = &arguments {
        let longest_us = if row.slo_us > 0.0 { judge::longest_under(row.slo_us as u32) } else { waits };
        // The advised arguments were tried in separate Reframers before. Only this trial measures them
        // together.
        let outcomes = through("the configuration", vec![trial(longest_us, arguments.clone())])?;
        let found = outcomes.first().map(|outcome: &Outcome| judge::row(&report, &assumed, outcome));
        let Row { delay_us, elephants, slo_us, .. } = *row;
        advice.configured = found.map(|found| Row { delay_us, elephants, slo_us, ..found });
    }
    advice.configuration = advice.configuration(trace, arguments.map(|(text, _)| text), room);
    Ok(advice)
}

fn write(args: &Args, advice: &Advice, origin: &Origin) -> Status {
    if let Some(path) = &args.output {
        analyze::save(path, &advice.configuration)?;
    }
    if let Some(path) = &args.json {
        analyze::save(path, &origin::json(advice, origin)?)?;
    }
    match args.output.iter().chain(&args.json).any(|path| is_stream(path)) {
        true => Ok(SUCCESS),
        false => print(&advice.to_string()),
    }
}
