//! `tidegate advise`: what the mechanisms would bring for a trace.

mod judge;
mod measure;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use self::judge::{Advice, Assumptions, DELAYS, ELEPHANTS, HOLD_NS};
use self::measure::Trial;
use crate::analyze::{self, is_stream};
use crate::{FAILURE, print};

/// Arguments of `advise`.
#[derive(clap::Args)]
#[command(after_help = "\
The capture is read three times: once to analyse it, and twice through Reframers under its own clock, so that their \
figures are those of the element. docs/advise.md says what is measured, what is assumed and what the JSON holds.")]
pub(crate) struct Args {
    /// A capture: pcap or pcapng, plain, gzip or zstd
    #[arg(value_name = "TRACE", required_unless_present = "json")]
    trace: Option<PathBuf>,
    /// Write all figures as JSON; without a name to standard output, in place of the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the configuration to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What a flow switch costs the chain behind, in nanoseconds: a cache line from memory takes about 100
    #[arg(long, value_name = "NS", default_value_t = 300.0, value_parser = nanoseconds)]
    flow_cost: f64,
    /// The longest delay to advise, in microseconds
    #[arg(long, value_name = "US", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..))]
    max_delay: u32,
    /// Cores that packets could be spread over
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: u32,
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e9).contains(number));
    number.ok_or_else(|| "give nanoseconds, from 0 to 1000000000".into())
}

pub(crate) fn main(mut args: Args) -> ExitCode {
    if args.trace.is_none() {
        args.trace = analyze::claim(&mut args.json);
    }
    let Some(trace) = args.trace.clone() else {
        crate::tell(format_args!("there is no TRACE; `tidegate advise --help` shows the usage"));
        return ExitCode::from(2);
    };
    if is_stream(&trace) || (trace.exists() && !trace.is_file()) {
        let name = trace.display();
        crate::tell(format_args!("{name}: it has to be read several times; save it to a file first"));
        return ExitCode::from(2);
    }
    let saved = args.json.iter().chain(&args.output).filter(|path| !is_stream(path));
    if let Some(wrong) = saved.filter_map(|path| analyze::unwritable(path).err()).next() {
        crate::tell(format_args!("{wrong}"));
        return ExitCode::from(2);
    }
    let advice = match advise(&trace, &args) {
        Ok(advice) => advice,
        Err(error) => {
            crate::tell(format_args!("{}", error.trim_end()));
            return ExitCode::from(FAILURE);
        }
    };
    match write(&args, &advice) {
        Ok(code) if advice.complete => code,
        Ok(_) => ExitCode::from(FAILURE),
        Err(error) => {
            crate::tell(format_args!("{error}"));
            ExitCode::from(FAILURE)
        }
    }
}

/// Flows that a Reframer is given room for.
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
        hold_cost_ns: HOLD_NS,
        max_delay_us: args.max_delay,
        cores: args.cores,
    };
    let room = capacity(report.flows);
    let trial = |longest: u32, arguments: String| Trial {
        arguments: format!("{arguments}, CAPACITY {room}"),
        longest_us: longest.into(),
    };
    let through = |message: &'static str, trials: Vec<Trial>| {
        let count = Arc::new(AtomicU64::new(0));
        // Each trial has a copy of each packet, which counts as well.
        let bar = crate::run::progress_of(&count, report.packets * trials.len() as u64, message);
        let outcomes = measure::run(trace, &trials, &count);
        bar.finish_and_clear();
        outcomes
    };
    let delays = DELAYS.iter().map(|&delay| trial(delay, format!("DELAY {delay}us"))).collect();
    let outcomes = through("delays", delays)?;
    let reframer = judge::reframing(&report, &assumed, &outcomes);
    let delay = reframer.delay_us;
    let slo = judge::slo_for(delay);
    let heavy = ELEPHANTS.iter().map(|packets| format!("DELAY {delay}us, ELEPHANTS {packets}"));
    let mut trials = vec![trial(delay, format!("DELAY {delay}us, COMPRESS true"))];
    if reframer.verdict.is_worth_a_try() {
        // An eighth of the SLO is kept back.
        trials.push(trial(delay, format!("SLO {slo}us")));
        trials.extend(heavy.map(|arguments| trial(delay, arguments)));
    }
    let outcomes = through("ways of holding", trials)?;
    let mut outcomes = outcomes.iter();
    let compress = outcomes.next().ok_or("a trial has no outcome; this is a bug")?;
    let slo = outcomes.next();
    let heavy = outcomes.as_slice();
    let mut advice = Advice {
        trace: trace.display().to_string(),
        complete: report.traces.iter().all(|trace| trace.complete),
        notes: report.notes.clone(),
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
        sorting: judge::sorting(&report, delay),
        slicing: judge::slicing(&report),
        spraying: judge::spraying(&report, args.cores),
        reframer,
        configuration: String::new(),
    };
    advice.configuration = advice.configuration(trace, room);
    Ok(advice)
}

fn write(args: &Args, advice: &Advice) -> Result<ExitCode, String> {
    if let Some(path) = &args.output {
        if is_stream(path) {
            return Ok(print(&advice.configuration));
        }
        analyze::save(path, &advice.configuration)?;
    }
    let Some(path) = &args.json else { return Ok(print(&advice.to_string())) };
    let text = serde_json::to_string_pretty(advice).map_err(|error| error.to_string())? + "\n";
    if is_stream(path) {
        return Ok(print(&text));
    }
    analyze::save(path, &text)?;
    Ok(print(&advice.to_string()))
}
