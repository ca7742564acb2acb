//! Reframer's Figures 4 and 20: cost and latency of network functions over the SLF.

use std::time::Duration;

use super::{FRAME, SLF, amount};
use crate::evaluation::figures::{find, floor, series, value, word};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::frames::Start;
use crate::open_loop::OpenLoop;
use crate::runner::{measure_in_turns, worker_with};
use crate::serde_params::Param;
use crate::translation::NAT;
use crate::{Settings, classify, median};

/// The number of rules of the firewall.
const RULES: usize = 20_000;
/// The load while latency is measured, as a fraction of the rate that each function reaches at SLF 1.
const LOAD: f64 = 0.8;

/// Returns the measured network functions: their names and elements.
fn all() -> [(&'static str, String); 4] {
    let rules = classify::mostly_permitting(&classify::made(RULES));
    [
        ("translator", NAT.into()),
        ("firewall", format!("IPFilter({rules} allow all) -> Discard")),
        ("firewall, rule cache", format!("IPFilter(CACHING true, {rules} allow all) -> Discard")),
        ("chain", crate::functions::functions()),
    ]
}

pub(in super::super) fn functions(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let (packets, flows) = amount(run);
    let settings = Settings { packets, ..run.settings.clone() };
    let mut rows = Vec::new();
    let mut latencies = Table::new(&["function", "slf", "offered_mpps", "mean_us", "median_us", "p99_us"]);
    let mut means: Vec<Series> = Vec::new();
    for (name, chain) in all() {
        let mut contenders = Vec::new();
        for slf in run.some(&SLF) {
            run.step(&format!("{name}, {slf} of a flow in a row"))?;
            let params = vec![("function", Param::Word(name)), ("slf", Param::Number(slf as u64))];
            contenders.push((params, worker_with(packets, (flows, slf), FRAME, Start::Ethernet, &chain)?));
        }
        let measured = measure_in_turns("reframer-4", &settings, FRAME, contenders)?;
        let rate = LOAD * 1e9 / measured[0].ns_per_packet;
        let metered = metered_last(&chain);
        let mut points = Vec::new();
        for slf in run.some(&SLF) {
            run.step(&format!("latency of {name}, {slf} of a flow in a row"))?;
            let frames = format!("BenchmarkFrames({packets}, {flows}, {FRAME}, 0, {slf})");
            let all = latencies_of(run, &frames, &metered, rate)?;
            points.push(Point { x: slf as f64, y: all[0], quartiles: None });
            let cells: [Cell; 3] = [name.into(), slf.into(), (rate / 1e6).into()];
            latencies.push(cells.into_iter().chain(all.map(Cell::from)));
        }
        means.push(Series::new(name, points));
        rows.extend(measured);
    }
    let costs = series(&rows, |row| (word(row, "function"), row.point(value(row, "slf"))));
    let mut fitted = Vec::new();
    let mut said = Vec::new();
    for costs in &costs {
        let (a, b) = fit(&costs.points);
        let points = SLF.map(|slf| (slf as f64, a / slf as f64 + b));
        fitted.push(Series::guide(format!("{}: {a:.0} / SLF + {b:.0}", costs.name), points));
        let of = |slf: &str| find(&rows, &[("function", &costs.name), ("slf", slf)]);
        let (one, many) = (of("1")?.ns_per_packet, of("32")?.ns_per_packet);
        said.push(format!("{} {one:.0} to {many:.0} ns ({a:.0} / SLF + {b:.0})", costs.name));
    }
    let floor = floor(rows.iter().map(|row| (value(row, "slf"), row)));
    // The paper's values were measured at another load.
    means.push(Series::of_paper("Reframer paper, translator", [(1.0, 103.0), (32.0, 74.0)]));
    let cost = Panel {
        title: "Cost, and a / SLF + b that is closest to it".into(),
        x: Axis::log("packets of a flow in a row (SLF)"),
        y: Axis::linear("cost, ns per packet").less_is_better(),
        series: costs.into_iter().chain(fitted).chain([floor]).collect(),
    };
    let latency = Panel {
        title: "Mean latency, with 80 % of the capacity at SLF 1".into(),
        x: Axis::log("packets of a flow in a row (SLF)"),
        y: Axis::log("latency, µs").less_is_better(),
        series: means,
    };
    let finding = Finding {
        paper: "cost falls as a / SLF + b for a translator and firewalls of 20,000 rules (fastest with a rule cache), and \
                 for the chain; the translator's latency falls from 103 to 74 µs."
            .into(),
        here: format!("from SLF 1 to 32: {}.", said.join("; ")),
        bound: "the look-ups of a batch are done together, so that their waiting for memory overlaps even if no two \
                neighbours are of one flow: order can save less than in the paper."
            .into(),
    };
    let mut table = Table::of_costs(&rows);
    table.join(latencies, &["function", "slf"]);
    Ok(FigureResults { table, panels: vec![cost, latency], finding })
}

/// Returns the chain with an element `latency :: BenchmarkLatency` upstream of its last Discard.
pub(super) fn metered_last(chain: &str) -> String {
    match chain.rsplit_once("Discard") {
        Some((front, back)) => format!("{front}latency :: BenchmarkLatency -> Discard{back}"),
        None => chain.into(),
    }
}

/// Returns the mean, the median and the 99th percentile of the latency in microseconds, with packets that
/// arrive at `rate` per second. Each of the three values is the median over several runs.
fn latencies_of(run: &FigureRun<'_>, frames: &str, chain: &str, rate: f64) -> Result<[f64; 3], String> {
    let time = Duration::from_millis(if run.is_small() { 5 } else { 200 });
    let mut open_loop = OpenLoop::new(frames, Start::Ethernet, 32, chain)?;
    let mut all = [(); 3].map(|()| Vec::new());
    for _ in 0..run.settings.repeats.min(5) {
        open_loop.drive(rate, time, &["latency"])?;
        let latencies = open_loop.latencies("latency")?;
        let figures = [latencies.mean, latencies.median, latencies.p99];
        all.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
    }
    open_loop.finish()?;
    Ok(all.map(median))
}

/// Fits the curve a / x + b to the points by least squares, and returns a and b.
fn fit(points: &[Point]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (u, y) = (mean(&|point| 1.0 / point.x), mean(&|point| point.y));
    let together = mean(&|point| (1.0 / point.x - u) * (point.y - y));
    let alone = mean(&|point| (1.0 / point.x - u).powi(2));
    let a = if alone > 0.0 { together / alone } else { 0.0 };
    (a, y - a * u)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fitted_is_what_it_was() {
        let points = SLF.map(|slf| Point { x: slf as f64, y: 40.0 / slf as f64 + 25.0, quartiles: None });
        let (a, b) = fit(&points);
        assert!((a - 40.0).abs() < 1e-9 && (b - 25.0).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn packets_come_to_the_end_of_the_chain() {
        let frames = "BenchmarkFrames(1000, 1000, 64, 0, 1)";
        let chain = metered_last(&crate::functions::functions());
        let mut open_loop = OpenLoop::new(frames, Start::Ethernet, 32, &chain).unwrap();
        open_loop.drive(1e4, Duration::from_millis(100), &["latency"]).unwrap();
        let all = open_loop.read("latency", "all").unwrap();
        let passed: f64 = all.split(' ').next().unwrap().parse().unwrap();
        assert!(passed > 700.0, "{passed} of 1000");
    }

    #[test]
    fn the_meter_stands_at_the_last_end() {
        let chain = metered_last("rt[1] => Discard; rt -> IPFilter(allow all) -> Discard");
        assert_eq!(
            chain,
            "rt[1] => Discard; rt -> IPFilter(allow all) -> latency :: BenchmarkLatency -> Discard"
        );
    }
}
