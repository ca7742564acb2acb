//! Reframer's Figures 12, 15 and 16: the chain of router, translator, firewall and statistics under
//! increasing load, with a Reframer on another machine upstream of the chain, or in the chain.

use std::time::Duration;

use super::captures::{flows_and_slf, frames, held, reframer};
use super::workload::{Load, WINDOWS, Workload};
use crate::Settings;
use crate::evaluation::figures::{first, floor, panels, relative, value};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::frames::Start;
use crate::functions::functions;
use crate::open_loop::{Latencies, OpenLoop};
use crate::runner::{measure_in_turns, worker_of};
use crate::serde_params::Param;

/// The times in microseconds for which the Reframer holds packets, as in the paper's Figure 12.
const HELD: [u64; 3] = [16, 64, 128];
/// The times in microseconds for which the Reframer holds packets in Figures 15 and 16.
const SWEEP: [u64; 6] = [16, 32, 64, 128, 256, 512];

/// Returns the chain with a meter of latency upstream of its last Discard.
fn metered() -> String {
    super::functions::metered_last(&functions())
}

/// The results of the chain, for packets that a Reframer has held for one of the hold times, at one load.
struct Measured {
    slf: f64,
    /// The cost in nanoseconds per packet at full rate, when packets never have to be waited for.
    cost: crate::Row,
    /// The throughput of the chain in Gb/s when packets arrive at the rate of the load.
    taken: f64,
    /// The latencies in the chain when packets arrive at the rate of the load.
    latencies: Latencies,
}

/// The hold times in microseconds for which the paper gives values; 0 means the original order, without
/// holding.
const PAPER: [f64; 4] = [0.0, 16.0, 64.0, 128.0];

/// Measures Figure 12: packets are held upstream of the chain, on another machine.
pub(in super::super) fn outside(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let workload = Workload::new(run)?;
    let columns =
        ["windows", "held_us", "offered_gbps", "slf", "taken_gbps", "mean_us", "median_us", "p99_us"];
    let mut table = Table::new(&columns);
    let mut rows = Vec::new();
    // `rates` is the throughput and `runs` the SLF at the highest load, as points over the hold time.
    let (mut rates, mut runs) = (Vec::new(), Vec::new());
    let ways: Vec<u64> = [0].into_iter().chain(run.some(&HELD)).collect();
    let name =
        |micros: u64| if micros == 0 { "as it comes".into() } else { format!("held for {micros} µs") };
    let mut all: [Vec<Series>; 3] =
        std::array::from_fn(|_| ways.iter().map(|&way| Series::new(name(way), [])).collect());
    for windows in run.some(&[1, 4, 8, 16, 24, WINDOWS]) {
        run.step(&format!("{windows} windows: order"))?;
        let load = workload.load(windows)?;
        let measured = at_load(run, &workload, &load, &ways)?;
        for (number, (&micros, measured)) in ways.iter().zip(measured).enumerate() {
            let Measured { slf, cost, taken, latencies } = measured;
            // The time in the Reframer on the other machine is added to the mean latency. It is at most the
            // hold time, which is what is added.
            let mean = latencies.mean + micros as f64;
            let x = windows as f64;
            all[0][number].points.push(cost.point(x));
            all[1][number].points.push(Point { x, y: taken, quartiles: None });
            all[2][number].points.push(Point { x, y: mean, quartiles: None });
            let figures = [load.gbps(), slf, taken, mean, latencies.median, latencies.p99];
            let cells: [Cell; 2] = [windows.into(), micros.into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
            if windows == WINDOWS {
                let x = micros as f64;
                let rate = |ns: f64| 1.0 / ns;
                let [low, high] = cost.quartiles_ns.map(rate);
                rates.push(Point { x, y: rate(cost.ns_per_packet), quartiles: Some([high, low]) });
                runs.push(Point { x, y: slf, quartiles: None });
            }
            rows.push(cost);
        }
    }
    let last = |way: usize| all[0][way].points.last().map_or(f64::NAN, |point| point.y);
    let (plain, most) = (last(0), last(ways.len() - 1));
    let here = format!(
        "at {WINDOWS} windows a packet costs the chain {plain:.0} ns in the original order and {most:.0} ns in the \
         order of a Reframer that holds for {} µs ({:+.0} % throughput).",
        ways[ways.len() - 1],
        100.0 * (plain / most - 1.0)
    );
    all[0].push(floor(rows.iter().map(|row| (value(row, "windows"), row))));
    let titles = [
        ("Cost of the chain", Axis::linear("cost, ns per packet").less_is_better()),
        ("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Mean latency, holding included", Axis::log("latency, µs").less_is_better()),
    ];
    let finding = Finding {
        paper: "SLF rises from 1.2 to 1.9, 2.9 and 3.3 with 16, 64 and 128 µs, throughput at high load by 84 to 100 %.".into(),
        here,
        bound: "look-ups of a batch overlap here, so that order saves less; the packets are in the order of a \
                Reframer on the trace clock, as if on another machine."
            .into(),
    };
    let mut costs = Table::of_costs(&rows);
    costs.join(table, &["windows", "held_us"]);
    let mut panels = panels(&Axis::linear("windows at the same time"), titles, all);
    let at_most = |title: &str, y, here, of_paper: [f64; 4]| Panel {
        title: title.into(),
        x: Axis::linear("held, µs"),
        y,
        series: vec![here, Series::of_paper("Reframer paper", PAPER.into_iter().zip(of_paper))],
    };
    panels.push(at_most(
        "Throughput at the highest load, as it comes = 1",
        Axis::linear("throughput, as it comes = 1").more_is_better(),
        relative(&[Series::new("measured here", rates)], first).remove(0),
        [33.6, 48.0, 64.0, 64.0].map(|gbps| gbps / 33.6),
    ));
    panels.push(at_most(
        "Packets of a flow in a row, at the highest load",
        Axis::linear("packets of a flow in a row (SLF)").more_is_better(),
        Series::new("measured here", runs),
        [1.2, 1.9, 2.9, 3.3],
    ));
    Ok(FigureResults { table: costs, panels, finding })
}

/// Measures the chain with one load, whose packets are in the original order or have been held for each hold
/// time in `ways` (in microseconds).
fn at_load(
    run: &FigureRun<'_>,
    workload: &Workload,
    load: &Load,
    ways: &[u64],
) -> Result<Vec<Measured>, String> {
    let mut orders = Vec::new();
    for &micros in ways {
        orders.push(match micros {
            0 => (load.capture.clone(), flows_and_slf(&load.capture)?[1]),
            _ => held(&load.capture, micros, workload.file(&format!("held-{micros}.pcap")))?,
        });
    }
    let settings = Settings { packets: load.packets, ..run.settings.clone() };
    let chain = functions();
    let mut contenders = Vec::new();
    for (&micros, (capture, _)) in ways.iter().zip(&orders) {
        run.step(&format!("{:.0} Gb/s, held for {micros} µs: cost", load.gbps()))?;
        let params =
            vec![("windows", Param::Number(load.windows as u64)), ("held_us", Param::Number(micros))];
        contenders.push((params, worker_of(&frames(capture), Start::Ethernet, &chain)?));
    }
    let rows = measure_in_turns("reframer-12", &settings, load.mean() as usize, contenders)?;
    let chain = metered();
    let mut all = Vec::new();
    for ((capture, slf), cost) in orders.into_iter().zip(rows) {
        run.step(&format!("{:.0} Gb/s: latency", load.gbps()))?;
        let mut open_loop = OpenLoop::new(&frames(&capture), Start::Ethernet, 32, &chain)?;
        let (taken, latencies) = offered(run, &mut open_loop, load.rate)?;
        open_loop.finish()?;
        all.push(Measured { slf, cost, taken: taken * load.mean() * 8.0 / 1e3, latencies });
    }
    Ok(all)
}

/// Lets packets arrive at `rate` per second, in several runs. Returns, from the run with the median
/// throughput, the millions of packets per second that the chain took, and their latencies.
fn offered(run: &FigureRun<'_>, open_loop: &mut OpenLoop, rate: f64) -> Result<(f64, Latencies), String> {
    let time = Duration::from_millis(if run.is_small() { 5 } else { 200 });
    let mut all = Vec::new();
    for _ in 0..run.settings.repeats.min(5) {
        let taken = open_loop.drive(rate, time, &["latency"])?;
        all.push((taken, open_loop.latencies("latency")?));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all[all.len() / 2])
}

/// Measures Figures 15 and 16: packets are held in the chain itself, per flow or in batches of mixed flows.
pub(in super::super) fn in_chain(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    /// The number of windows of the trace that, played at the same time, fully load the chain.
    const FULL: usize = 24;
    let workload = Workload::new(run)?;
    run.step("traffic")?;
    let load = workload.load(FULL)?;
    let chain = metered();
    let mut ways = vec![("as it comes", 0, String::new())];
    for micros in run.some(&SWEEP) {
        ways.push(("flows", micros, format!("{} -> ", reframer(micros, ""))));
    }
    for micros in run.some(&SWEEP) {
        ways.push(("batches", micros, format!("Batcher({micros}us, 256) -> ")));
    }
    // The rate that the chain sustains without holding, measured with an offered rate far above it.
    let mut plain = OpenLoop::new(&frames(&load.capture), Start::Ethernet, 32, &chain)?;
    let (borne, _) = offered(run, &mut plain, 1e9)?;
    plain.finish()?;
    let mut table = Table::new(&[
        "held",
        "micros",
        "ns_per_packet",
        "gbps",
        "offered_mpps",
        "mean_us",
        "median_us",
        "p999_us",
    ]);
    let mut all: [Vec<Series>; 4] = Default::default();
    let mut base = [f64::NAN; 4];
    let mut best: Option<([f64; 4], u64)> = None;
    for (held, micros, front) in &ways {
        run.step(&format!("{held}, {micros} µs"))?;
        let mut open_loop =
            OpenLoop::new(&frames(&load.capture), Start::Ethernet, 32, &format!("{front}{chain}"))?;
        let (full, _) = offered(run, &mut open_loop, 1e9)?;
        let (_, latencies) = offered(run, &mut open_loop, 0.9e6 * borne)?;
        open_loop.finish()?;
        let figures = [1e3 / full, full * load.mean() * 8.0 / 1e3, latencies.mean, latencies.p999];
        let cells: [Cell; 2] = [(*held).into(), (*micros).into()];
        let [ns, gbps, mean, p999] = figures;
        table.push(
            cells.into_iter().chain([ns, gbps, 0.9 * borne, mean, latencies.median, p999].map(Cell::from)),
        );
        if *micros == 0 {
            base = figures;
            continue;
        }
        if *held == "flows" && best.as_ref().is_none_or(|(best, _)| figures[1] > best[1]) {
            best = Some((figures, *micros));
        }
        for (series, y) in all.iter_mut().zip(figures) {
            let point = Point { x: *micros as f64, y, quartiles: None };
            match series.iter_mut().find(|series: &&mut Series| series.name == *held) {
                Some(series) => series.points.push(point),
                None => series.push(Series::new(*held, [point])),
            }
        }
    }
    for (series, y) in all.iter_mut().zip(base) {
        let points = run.some(&SWEEP).into_iter().map(|x| Point { x: x as f64, y, quartiles: None });
        series.insert(0, Series::new("as it comes", points));
    }
    let titles = [
        ("Cost, source and chain", Axis::linear("cost, ns per packet").less_is_better()),
        ("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Mean latency at 90 % of the capacity", Axis::log("latency, µs").less_is_better()),
        ("99.9th percentile of latency", Axis::log("latency, µs").less_is_better()),
    ];
    let gain = |panel: usize, of_paper: f64| {
        let mut gains = relative(&all[panel], |_| base[panel]);
        gains.push(Series::of_paper("Reframer paper, flows", [(64.0, of_paper)]));
        gains
    };
    let gains = [
        (
            "Throughput, as it comes = 1",
            Axis::linear("throughput, as it comes = 1").more_is_better(),
            gain(1, 1.6),
        ),
        (
            "Mean latency, as it comes = 1",
            Axis::log("latency, as it comes = 1").less_is_better(),
            gain(2, 0.54),
        ),
    ];
    let (best, micros) = best.ok_or("nothing was measured")?;
    let finding = Finding {
        paper: "in the chain 64 µs bring 60 % throughput and 46 % less latency; batches of mixed flows 4 %."
            .into(),
        here: format!(
            "without holding {:.0} Gb/s, held per flow at best {:.0} Gb/s (with {micros} µs: {:+.0} %); mean latency \
             {:.0} and {:.0} µs.",
            base[1],
            best[1],
            100.0 * (best[1] / base[1] - 1.0),
            base[2],
            best[2]
        ),
        bound:
            "holding costs a flow look-up, a list and a second pass over each packet, on the same core; the \
                chain's own look-ups are batched, so that they gain less from order than this costs."
                .into(),
    };
    let x = Axis::log("held, µs");
    let mut panels = panels(&x, titles, all);
    panels.extend(gains.map(|(title, y, series)| Panel { title: title.into(), x: x.clone(), y, series }));
    Ok(FigureResults { table, panels, finding })
}
