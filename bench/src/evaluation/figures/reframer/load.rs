//! Reframer's Figures 12, 15 and 16: the chain of router, translator, firewall and statistics under
//! increasing load, with a Reframer on another machine upstream of the chain, or in the chain.

use std::time::Duration;

use super::captures::{flows_and_slf, frames, held, reframer};
use super::workload::{Load, WINDOWS, Workload};
use crate::evaluation::figures::{first, floor, panels, relative, value};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::frames::Start;
use crate::functions::functions;
use crate::open_loop::{Latencies, OpenLoop};
use crate::runner::{measure_in_turns, worker_of};
use crate::serde_params::Param;
use crate::{Row, Settings};

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
    cost: Row,
    /// The throughput of the chain in Gb/s when packets arrive at the rate of the load.
    taken: f64,
    /// The latencies in the chain when packets arrive at the rate of the load.
    latencies: Latencies,
}

/// The hold times in microseconds for which the paper gives values; 0 means the original order, without
/// holding.
const PAPER: [f64; 4] = [0.0, 16.0, 64.0, 128.0];

/// The results of Figure 12 with one trace.
struct OfTraffic {
    rows: Vec<Row>,
    /// Cost, throughput and latency, each with a series over the load for each hold time.
    panels: [Vec<Series>; 3],
    /// The throughput and the SLF at the highest load, as points over the hold time.
    rates: Vec<Point>,
    slf: Vec<Point>,
}

/// Measures Figure 12: packets are held upstream of the chain, on another machine.
pub(in super::super) fn outside(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let columns = [
        "traffic",
        "windows",
        "held_us",
        "offered_gbps",
        "slf",
        "taken_gbps",
        "mean_us",
        "median_us",
        "p99_us",
    ];
    let mut table = Table::new(&columns);
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let (mut rates, mut slf, mut said) = (Vec::new(), Vec::new(), Vec::new());
    let titles = [
        ("Cost of the chain", Axis::linear("cost, ns per packet").less_is_better()),
        ("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Mean latency, holding included", Axis::log("latency, µs").less_is_better()),
    ];
    let workloads = Workload::all(run)?;
    for workload in &workloads {
        let name = workload.name;
        let of_traffic = outside_with(run, workload, &mut table)?;
        if let [plain, .., most] = &of_traffic.rates[..] {
            said.push(format!(
                "{name}: {:.0} ns in the original order, and {:.0} ns in the order of a Reframer that holds for {} µs \
                 ({:+.0} % throughput)",
                1.0 / plain.y,
                1.0 / most.y,
                most.x,
                100.0 * (most.y / plain.y - 1.0)
            ));
        }
        let measured = Series::new(name, of_traffic.rates);
        rates.push(relative(&[measured], first).remove(0));
        slf.push(Series::new(name, of_traffic.slf));
        rows.extend(of_traffic.rows);
        all.push(of_traffic.panels);
    }
    let of_paper = |points: [f64; 4]| Series::of_paper("Reframer paper", PAPER.into_iter().zip(points));
    rates.push(of_paper([33.6, 48.0, 64.0, 64.0].map(|gbps| gbps / 33.6)));
    slf.push(of_paper([1.2, 1.9, 2.9, 3.3]));
    let finding = Finding {
        paper: "SLF rises from 1.2 to 1.9, 2.9 and 3.3 with 16, 64 and 128 µs, throughput at high load by 84 to 100 %.".into(),
        here: format!("at {WINDOWS} windows a packet costs the chain, with the traffic {}.", said.join("; ")),
        bound: "look-ups of a batch overlap here, so that order saves less; the packets are in the order of a \
                Reframer on the trace clock, as if on another machine."
            .into(),
    };
    let mut costs = Table::of_costs(&rows);
    costs.join(table, &["traffic", "windows", "held_us"]);
    // The panels of all traces with the same axis are side by side.
    let x = Axis::linear("windows at the same time");
    let mut panels = Vec::new();
    for (number, (title, y)) in titles.into_iter().enumerate() {
        for (workload, all) in workloads.iter().zip(&mut all) {
            let series = std::mem::take(&mut all[number]);
            let title = format!("{title}: {}", workload.name);
            panels.push(Panel { title, x: x.clone(), y: y.clone(), series });
        }
    }
    let at_most = [
        (
            "Throughput at the highest load, as it comes = 1",
            Axis::linear("throughput, as it comes = 1").more_is_better(),
        ),
        (
            "Packets of a flow in a row, at the highest load",
            Axis::linear("packets of a flow in a row (SLF)").more_is_better(),
        ),
    ];
    panels.extend(super::super::panels(&Axis::linear("held, µs"), at_most, [rates, slf]));
    Ok(FigureResults { table: costs, panels, finding })
}

/// Measures Figure 12 with one trace, and adds rows to `table`.
fn outside_with(run: &FigureRun<'_>, workload: &Workload, table: &mut Table) -> Result<OfTraffic, String> {
    let traffic = workload.name;
    let mut rows = Vec::new();
    let (mut rates, mut runs) = (Vec::new(), Vec::new());
    let ways: Vec<u64> = [0].into_iter().chain(run.some(&HELD)).collect();
    let name =
        |micros: u64| if micros == 0 { "as it comes".into() } else { format!("held for {micros} µs") };
    let mut panels: [Vec<Series>; 3] =
        std::array::from_fn(|_| ways.iter().map(|&way| Series::new(name(way), [])).collect());
    for windows in run.some(&[1, 4, 8, 16, 24, WINDOWS]) {
        run.step(&format!("{traffic}, {windows} windows: order"))?;
        let load = workload.load(windows)?;
        let measured = at_load(run, workload, &load, &ways)?;
        for (number, (&micros, measured)) in ways.iter().zip(measured).enumerate() {
            let Measured { slf, cost, taken, latencies } = measured;
            // The time in the Reframer on the other machine is added to the mean latency. It is at most the
            // hold time, which is what is added.
            let mean = latencies.mean + micros as f64;
            let x = windows as f64;
            panels[0][number].points.push(cost.point(x));
            panels[1][number].points.push(Point { x, y: taken, quartiles: None });
            panels[2][number].points.push(Point { x, y: mean, quartiles: None });
            let figures = [load.gbps(), slf, taken, mean, latencies.median, latencies.p99];
            let cells: [Cell; 3] = [traffic.into(), windows.into(), micros.into()];
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
    panels[0].push(floor(rows.iter().map(|row| (value(row, "windows"), row))));
    Ok(OfTraffic { rows, panels, rates, slf: runs })
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
        let params = vec![
            ("traffic", Param::Word(workload.name)),
            ("windows", Param::Number(load.windows as u64)),
            ("held_us", Param::Number(micros)),
        ];
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
    let mut table = Table::new(&[
        "traffic",
        "held",
        "micros",
        "ns_per_packet",
        "gbps",
        "offered_mpps",
        "mean_us",
        "median_us",
        "p999_us",
    ]);
    let mut all: [Vec<Series>; 6] = Default::default();
    let mut said = Vec::new();
    for workload in Workload::all(run)? {
        let base = in_chain_with(run, &workload, &mut table, &mut all)?;
        let flows = workload.legend("flows");
        // The hold time with the highest throughput: its place among the points of each panel.
        let rates = all[1].iter().find(|series| series.name == flows);
        let rates = rates.ok_or("nothing was measured")?.points.iter().enumerate();
        let (place, best) = rates.max_by(|a, b| a.1.y.total_cmp(&b.1.y)).ok_or("nothing was measured")?;
        let latency = all[2]
            .iter()
            .find(|series| series.name == flows)
            .map_or(f64::NAN, |series| series.points.get(place).map_or(f64::NAN, |point| point.y));
        said.push(format!(
            "{}: without holding {:.0} Gb/s, held per flow at best {:.0} Gb/s (with {} µs: {:+.0} %); mean latency {:.0} \
             and {latency:.0} µs",
            workload.name,
            base[1],
            best.y,
            best.x,
            100.0 * (best.y / base[1] - 1.0),
            base[2],
        ));
    }
    let titles = [
        ("Cost, source and chain", Axis::linear("cost, ns per packet").less_is_better()),
        ("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Mean latency at 90 % of the capacity", Axis::log("latency, µs").less_is_better()),
        ("99.9th percentile of latency", Axis::log("latency, µs").less_is_better()),
        ("Throughput, as it comes = 1", Axis::linear("throughput, as it comes = 1").more_is_better()),
        ("Mean latency, as it comes = 1", Axis::log("latency, as it comes = 1").less_is_better()),
    ];
    for (all, of_paper) in all[4..].iter_mut().zip([1.6, 0.54]) {
        all.push(Series::of_paper("Reframer paper, flows", [(64.0, of_paper)]));
    }
    let finding = Finding {
        paper: "in the chain 64 µs bring 60 % throughput and 46 % less latency; batches of mixed flows 4 %."
            .into(),
        here: format!("{}.", said.join("; ")),
        bound:
            "holding costs a flow look-up, a list and a second pass over each packet, on the same core; the \
                chain's own look-ups are batched, so that they gain less from order than this costs."
                .into(),
    };
    Ok(FigureResults { table, panels: panels(&Axis::log("held, µs"), titles, all), finding })
}

/// Measures Figures 15 and 16 with one trace, and adds rows to `table`. Adds series over the hold time to
/// `all`: cost, throughput, mean latency, 99.9th percentile of the latency; then throughput and mean latency
/// as multiples of what they are without holding. Returns the first four values without holding.
fn in_chain_with(
    run: &FigureRun<'_>,
    workload: &Workload,
    table: &mut Table,
    all: &mut [Vec<Series>; 6],
) -> Result<[f64; 4], String> {
    /// The number of windows of the trace that, played at the same time, fully load the chain.
    const FULL: usize = 24;
    let traffic = workload.name;
    run.step(traffic)?;
    let load = workload.load(FULL)?;
    let chain = metered();
    // The rate that the chain sustains without holding, measured with an offered rate far above it.
    let mut plain = OpenLoop::new(&frames(&load.capture), Start::Ethernet, 32, &chain)?;
    let (borne, _) = offered(run, &mut plain, 1e9)?;
    plain.finish()?;
    let mut measure = |held: &str, micros: u64, front: &str| {
        run.step(&format!("{traffic}, {held}, {micros} µs"))?;
        let mut open_loop =
            OpenLoop::new(&frames(&load.capture), Start::Ethernet, 32, &format!("{front}{chain}"))?;
        let (full, _) = offered(run, &mut open_loop, 1e9)?;
        let (_, latencies) = offered(run, &mut open_loop, 0.9e6 * borne)?;
        open_loop.finish()?;
        let figures = [1e3 / full, full * load.mean() * 8.0 / 1e3, latencies.mean, latencies.p999];
        let [ns, gbps, mean, p999] = figures;
        let cells: [Cell; 3] = [traffic.into(), held.into(), micros.into()];
        let numbers = [ns, gbps, 0.9 * borne, mean, latencies.median, p999].map(Cell::from);
        table.push(cells.into_iter().chain(numbers));
        Ok::<_, String>(figures)
    };
    let base = measure("as it comes", 0, "")?;
    let times = run.some(&SWEEP);
    let level = times.iter().map(|&micros| (micros, base)).collect();
    let mut ways = vec![("as it comes", level)];
    for (held, front) in [
        ("flows", (|micros| format!("{} -> ", reframer(micros, ""))) as fn(u64) -> String),
        ("batches", |micros| format!("Batcher({micros}us, 256) -> ")),
    ] {
        let measured = times.iter().map(|&micros| Ok((micros, measure(held, micros, &front(micros))?)));
        ways.push((held, measured.collect::<Result<Vec<_>, String>>()?));
    }
    for (panel, all) in all.iter_mut().enumerate() {
        // The last two panels have multiples of the throughput and of the mean latency without holding.
        let (figure, unit) = match panel {
            4 => (1, base[1]),
            5 => (2, base[2]),
            figure => (figure, 1.0),
        };
        let is_relative = panel >= 4;
        all.extend(ways.iter().filter(|(held, _)| !is_relative || *held != "as it comes").map(
            |(held, measured)| {
                let point =
                    |(x, y): &(u64, [f64; 4])| Point { x: *x as f64, y: y[figure] / unit, quartiles: None };
                Series::new(workload.legend(held), measured.iter().map(point))
            },
        ));
    }
    Ok(base)
}
