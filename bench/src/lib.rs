//! Benchmarks of Tidegate, and the evaluations of the papers ([`evaluation`]).
//!
//! The machine is noisy, and memory limits the speed. So the cost of packets from memory is compared with the
//! `floor` of the same run: the cost to take packets from memory, read their headers and return them. Runs of
//! a benchmark and of the floor alternate. Reported figures are medians; the ratio is the median of the
//! ratios of neighbouring runs.
//!
//! | file | holds |
//! | --- | --- |
//! | `list.rs` | [`ALL`]: the benchmarks, each with the function that runs it, in a file of its subject |
//! | `runner.rs`, `floor.rs` | how a configuration is measured, and the floor |
//! | `open_loop.rs` | how latency is measured, with packets that arrive at a rate |
//! | `frames.rs`, `headers.rs`, `source.rs` | the packets that pass a configuration |
//! | `instructions.rs` | [`drive_only`]: a run without measurement, to count instructions |

mod arrivals;
mod balancing;
mod by_hand;
mod classify;
mod devices;
mod elements;
mod ethernet;
pub mod evaluation;
mod exit;
mod floor;
mod forwarding;
mod frames;
mod functions;
mod headers;
mod instructions;
mod juggling;
mod language;

mod list;
mod locality;
mod lpm;
mod meters;
mod monitoring;
mod offloading;
mod open_loop;
pub mod origin;
mod reframing;
mod reloading;
mod routing;
mod runner;
mod sessions;
mod skip;
mod slicing;
pub mod soak;
mod source;
mod spraying;
mod synthesis;
mod timers;
mod trains;
mod translation;
mod workers;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// The amount of measurement, and the inputs of benchmarks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of runs of each row, which alternate with runs of the floor. 1 means a small run, which
    /// only shows that the benchmark works.
    pub repeats: usize,
    /// The number of packets in memory.
    pub packets: usize,
    /// The smallest number of packets in a run.
    pub per_run: usize,
    /// A file with a rule set in ClassBench's form (for `synthesizer` also a configuration), in place of
    /// generated rules.
    pub rules: Option<PathBuf>,
    /// A file with a prefix on each line, optionally compressed with gzip, in place of generated prefixes.
    pub routes: Option<PathBuf>,
    /// A file to which the headers or addresses that are looked up are written, with the results; for
    /// `juggler`, a folder for captures of the packets.
    pub asked: Option<PathBuf>,
    /// The number of rounds in benchmarks that measure all variants once per round, such as `devices`.
    pub rounds: usize,
    /// The time of one measurement in benchmarks that measure all variants once per round. In `devices`, one
    /// measurement is one kind of traffic through one device.
    pub window: Duration,
    /// The time limit for all rounds of such a benchmark together. The first round always runs; a further
    /// round begins only if a round of average length still fits.
    pub time: Duration,
    /// The time for measuring all cases of the benchmark `soak` together.
    pub soak: Duration,
    /// The number of entries of the tables of `soak`; None for the default of each class.
    pub capacity: Option<u64>,
    /// The listener that is told the name of each measurement of `soak` and `reload`.
    pub progress: Progress,
}

/// A function that shows the name of the current measurement to the user.
pub type Show = dyn Fn(&str) + Send + Sync;

/// A listener for the names of measurements; None if there is no listener.
#[derive(Clone, Default)]
pub struct Progress(pub Option<Arc<Show>>);

impl Progress {
    fn tell(&self, text: &str) {
        if let Some(show) = &self.0 {
            show(text);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress" } else { "no Progress" })
    }
}

impl Settings {
    /// The usual amount of measurement, with which most benchmarks take a few seconds.
    pub const USUAL: Settings = Settings {
        repeats: 11,
        packets: 100_000,
        per_run: 2_000_000,
        rules: None,
        routes: None,
        asked: None,
        rounds: 3,
        window: Duration::from_millis(400),
        time: Duration::from_secs(110),
        soak: Duration::from_secs(60),
        capacity: None,
        progress: Progress(None),
    };
    /// A larger amount of measurement, for the figures in the documentation.
    pub const FULL: Settings = Settings {
        repeats: 31,
        rounds: 5,
        window: Duration::from_secs(2),
        time: Duration::from_secs(3600),
        ..Settings::USUAL
    };
    /// The smallest amount of measurement, which only shows that a benchmark works. Its number of packets is
    /// also used for counting instructions.
    pub const SMALL: Settings = Settings {
        repeats: 1,
        packets: 10_000,
        per_run: 100_000,
        rounds: 1,
        window: Duration::from_millis(100),
        soak: Duration::from_secs(1),
        ..Settings::USUAL
    };
}

/// The result of a benchmark for one set of parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the benchmark; variants, such as simulations, have a longer name.
    pub name: String,
    /// The parameters by name; their values distinguish the rows of a benchmark.
    pub params: BTreeMap<&'static str, serde_params::Param>,
    /// The median cost in nanoseconds per packet (or per `unit`). It includes the floor unless
    /// `excludes_floor`.
    pub ns_per_packet: f64,
    /// The median cost of the floor in the same run, in nanoseconds. Benchmarks without a floor put another
    /// cost in its place, such as the cost with one worker, or 0.
    pub floor_ns: f64,
    /// The quartiles of `floor_ns`. If they are far apart, the machine was busy.
    pub floor_quartiles_ns: [f64; 2],
    /// The median ratio of the cost to the floor, each from two neighbouring runs.
    pub ratio: f64,
    /// The million packets per second (or `unit`s) that the median cost allows.
    pub mpps: f64,
    /// The smallest and the largest cost among the runs, in nanoseconds.
    pub spread_ns: [f64; 2],
    /// The lower and the upper quartile of the costs of the runs, in nanoseconds.
    pub quartiles_ns: [f64; 2],
    /// The quartiles of the ratios.
    pub ratio_quartiles: [f64; 2],
    /// True if the cost does not include reading packets from memory, so that the ratio is no multiple of
    /// the floor.
    pub excludes_floor: bool,
    /// The unit of the costs, such as a packet or a look-up.
    pub unit: &'static str,
    /// The throughput divided by the throughput with one worker, for rows with several workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// The million packets per second that were offered, for devices that may not forward all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_mpps: Option<f64>,
    /// The median and the 99th percentile of the latency, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<[f64; 2]>,
    /// Jain's index of the rates of flows: 1 if all rates are equal, 1/n if only one of n flows gets
    /// anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// The gigabits of data per second over one TCP connection: first from left to right, and then from
    /// right to left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbps: Option<[f64; 2]>,
    /// Three values: the gigabits of data per second over all TCP connections together; and, of a thousand
    /// segments that arrived, the number of retransmitted segments and the number of segments after a gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<[f64; 3]>,
    /// The results of the kernel's TCP on a network that reorders, for `reordering`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
    /// The results of packets that crossed to a network function in another namespace, for `boundary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
    /// The number of packets that an element receives per packet that it sends, if it merges packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<f64>,
    /// The times for which elements held packets, for `timers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<Holding>,
    /// The memory of a table under a flood, for `soak`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<soak::Soaked>,
    /// The pauses of workers while the graph is replaced, for `reload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reloaded: Option<Reloaded>,
}

/// The values of the parameters of rows.
pub mod serde_params {
    use serde::Serialize;

    /// A value of a parameter.
    #[derive(Clone, Debug, Serialize)]
    #[serde(untagged)]
    pub enum Param {
        /// A number.
        Number(u64),
        /// A mean, shown with two digits after the point.
        Mean(f64),
        /// A word.
        Word(&'static str),
    }

    impl std::fmt::Display for Param {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match self {
                Param::Number(n) => n.fmt(f),
                Param::Mean(mean) => write!(f, "{mean:.2}"),
                Param::Word(word) => word.fmt(f),
            }
        }
    }
}

pub use devices::{Crossing, Receiving};
pub use instructions::drive_only;
pub use list::{ALL, Benchmark, OF_PROGRAM, takers};
pub use reloading::Reloaded;
pub use runner::measure_chain;
use serde_params::Param;
pub use sessions::{SessionPhase, measure_sessions};
pub use timers::Holding;

/// The cost of a run and of the run of the floor next to it, in nanoseconds per packet.
#[derive(Clone, Copy, Debug)]
struct Pair {
    cost: f64,
    floor: f64,
}

impl Row {
    fn new(name: &str, params: &[(&'static str, Param)], pairs: &[Pair]) -> Row {
        let costs: Vec<f64> = pairs.iter().map(|p| p.cost).collect();
        let floors: Vec<f64> = pairs.iter().map(|p| p.floor).collect();
        let ratios: Vec<f64> = pairs.iter().map(|p| p.cost / p.floor).collect();
        let cost = median(costs.clone());
        Row {
            name: name.to_string(),
            params: params.iter().cloned().collect(),
            ns_per_packet: cost,
            floor_ns: median(floors.clone()),
            floor_quartiles_ns: quartiles(floors),
            ratio: median(ratios.clone()),
            mpps: 1000.0 / cost,
            spread_ns: [
                costs.iter().copied().fold(f64::INFINITY, f64::min),
                costs.iter().copied().fold(0.0, f64::max),
            ],
            quartiles_ns: quartiles(costs),
            ratio_quartiles: quartiles(ratios),
            excludes_floor: false,
            unit: "packet",
            speedup: None,
            offered_mpps: None,
            latency_us: None,
            jain: None,
            gbps: None,
            tcp: None,
            receiving: None,
            crossing: None,
            merged: None,
            holding: None,
            soak: None,
            reloaded: None,
        }
    }

    /// True if the floor varied by more than a third ([`varies`]), so that the row must not be quoted.
    pub fn is_unsteady(&self) -> bool {
        varies(self.floor_quartiles_ns)
    }
}

/// True if the upper quartile of a floor's cost is more than a third above the lower quartile, which means
/// that the machine was busy.
pub fn varies([lower, upper]: [f64; 2]) -> bool {
    upper > lower * 4.0 / 3.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Returns the lower and the upper quartile; NaN without values.
fn quartiles(values: Vec<f64>) -> [f64; 2] {
    [0.25, 0.75].map(|part| quantile(values.clone(), part))
}

/// Returns the quantile `part`, from 0 (the smallest value) to 1 (the largest), interpolated between
/// neighbouring values. NaN without values.
fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = part * values.len().saturating_sub(1) as f64;
    match (values.get(place.floor() as usize), values.get(place.ceil() as usize)) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

/// Formats rows as text: rows of `sprayer` as the tables of docs/sprayer.md, rows of `soak` and of `reload`
/// in tables of their own, and all others in one table. A warning follows if the machine was busy.
pub fn table(rows: &[Row]) -> String {
    let (soaked, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.soak.is_some());
    let (reloaded, others): (Vec<&Row>, Vec<&Row>) =
        others.into_iter().partition(|row| row.reloaded.is_some());
    let (spraying, others): (Vec<&Row>, Vec<&Row>) =
        others.into_iter().partition(|row| spraying::is_one_of(row));
    let lines = if others.is_empty() { String::new() } else { lines(&others) };
    let spraying = if spraying.is_empty() { String::new() } else { spraying::tables(&spraying) };
    let warning = unsteady(rows).unwrap_or_default();
    format!("{lines}{spraying}{}{}{warning}", soak::table(&soaked), reloading::table(&reloaded))
}

/// Returns a warning that names the rows whose floor varied too much; None if there are none.
pub fn unsteady(rows: &[Row]) -> Option<String> {
    let unsteady: Vec<&Row> = rows.iter().filter(|row| row.is_unsteady()).collect();
    let worst = unsteady.iter().max_by(|a, b| {
        let times = |row: &Row| row.floor_quartiles_ns[1] / row.floor_quartiles_ns[0];
        times(a).total_cmp(&times(b))
    })?;
    let [lower, upper] = worst.floor_quartiles_ns;
    Some(format!(
        "The machine was busy: the floor of {} of {} rows (!) varied by more than a third, that of {} between {lower:.1} and \
         {upper:.1} ns. Do not quote these rows; measure again on an idle machine.\n",
        unsteady.len(),
        rows.len(),
        worst.name
    ))
}

/// Returns a table with a line for each row.
fn lines(rows: &[&Row]) -> String {
    let params = |row: &Row| {
        let params: Vec<String> = row.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        params.join(" ")
    };
    let width = rows.iter().map(|row| params(row).len()).max().unwrap_or(0).max("parameters".len());
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:26} {:width$} {:>9} {:>10} {:>7} {:>8}  spread",
        "benchmark", "parameters", "ns", "floor ns", "ratio", "Mpps"
    );
    for row in rows {
        let [low, high] = row.spread_ns;
        let unit = if row.unit == "packet" { String::new() } else { format!(" per {}", row.unit) };
        let mut notes = String::new();
        if let Some(times) = row.speedup {
            let _ = write!(notes, ", {times:.2} times one worker");
        }
        if let Some(offered) = row.offered_mpps {
            let _ = write!(notes, ", of {offered:.2} Mpps offered");
        }
        if let Some([there, back]) = row.gbps {
            let _ = write!(notes, ", {there:.1} Gb/s there, {back:.1} back");
        }
        if let Some([rate, again, behind_gap]) = row.tcp {
            let _ = write!(
                notes,
                ", {rate:.2} Gb/s, of 1000 segments {again:.1} sent again, {behind_gap:.0} after a gap"
            );
        }
        if let Some(receiving) = &row.receiving {
            let _ = write!(notes, ", {receiving}");
        }
        if let Some(crossing) = &row.crossing {
            let _ = write!(notes, ", {crossing}");
        }
        if let Some(merged) = row.merged {
            let _ = write!(notes, ", {merged:.2} made one");
        }
        if let Some(holding) = &row.holding {
            let _ = write!(notes, ", {holding}");
        }
        let _ = writeln!(
            text,
            "{:26} {:width$} {:9.1} {:9.1}{} {:7.2} {:8.2}  {low:.1}-{high:.1}{unit}{notes}",
            row.name,
            params(row),
            row.ns_per_packet,
            row.floor_ns,
            if row.is_unsteady() { '!' } else { ' ' },
            row.ratio,
            row.mpps
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_runs_and_gives_rows() {
        let settings = Settings { repeats: 1, packets: 2_000, per_run: 4_000, ..Settings::USUAL };
        for benchmark in ALL.iter().filter(|benchmark| !OF_PROGRAM.contains(&benchmark.name)) {
            let rows = (benchmark.run)(&settings).unwrap();
            assert!(!rows.is_empty(), "{}", benchmark.name);
            let text = table(&rows);
            assert!(rows.iter().all(|r| r.ns_per_packet > 0.0 && r.ratio > 0.0), "{text}");
            serde_json::to_string(&rows).unwrap();
        }
    }

    #[test]
    fn sessions_come_and_go_and_leave_nothing_behind() {
        let phases = measure_sessions(1).unwrap();
        let sessions: Vec<usize> = phases.iter().map(|phase| phase.sessions).collect();
        assert_eq!(sessions, [0, 64_512, 0, 64_512, 0]);
        assert!(phases.iter().all(|phase| phase.failures == 0));
    }

    #[test]
    fn rows_of_a_busy_machine_are_marked() {
        let pairs = |floors: [f64; 5]| floors.map(|floor| Pair { cost: 2.0 * floor, floor });
        let steady = Row::new("steady", &[], &pairs([9.0, 9.5, 10.0, 10.2, 93.0]));
        let busy = Row::new("busy", &[], &pairs([9.0, 11.0, 37.0, 53.0, 53.5]));
        assert!(!steady.is_unsteady() && busy.is_unsteady());
        let text = table(&[steady.clone(), busy]);
        assert!(text.contains("37.0! ") && text.contains("of 1 of 2 rows (!) varied"), "{text}");
        assert!(text.contains("that of busy between 11.0 and 53.0 ns"), "{text}");
        assert!(!table(&[steady]).contains("busy"));
    }

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(quartiles(vec![5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 4.0]);
        assert_eq!(quartiles(vec![1.0, 2.0]), [1.25, 1.75]);
        assert_eq!(quartiles(vec![7.0]), [7.0, 7.0]);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
    }
}
