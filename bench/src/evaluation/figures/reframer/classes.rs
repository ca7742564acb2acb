//! Reframer's Figure 18: packets of large flows are held, packets of small flows are not.

use std::time::Duration;

use super::captures::{frames, reframer};
use super::workload::Workload;
use crate::evaluation::figures::{first, panels};
use crate::evaluation::plot::{Axis, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::frames::Start;
use crate::functions::functions;
use crate::median;
use crate::open_loop::OpenLoop;

/// The time in microseconds for which the Reframer holds packets.
const MICROS: u64 = 128;

/// Measures the latency of packets of small and of large flows in three variants: no packets are held, all
/// packets are held, or only packets of large flows are held.
pub(in super::super) fn differentiated(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let mut table = Table::new(&[
        "traffic",
        "windows",
        "held",
        "offered_gbps",
        "taken_gbps",
        "small_mean_us",
        "small_p99_us",
        "large_mean_us",
        "large_p99_us",
    ]);
    let mut all: [Vec<Series>; 3] = Default::default();
    let mut said = Vec::new();
    for workload in Workload::all(run)? {
        let of_traffic = of_traffic(run, &workload, &mut table)?;
        let [_, small, large] = of_traffic.each_ref().map(|ways| {
            let first: Vec<_> = ways.iter().map(|way| format!("{:.1}", first(way))).collect();
            first.join(", ")
        });
        said.push(format!("{}: small flows {small} µs, large flows {large} µs", workload.name));
        all.iter_mut().zip(of_traffic).for_each(|(all, ways)| all.extend(ways));
    }
    let finding = Finding {
        paper: "if only large flows are held, small flows are as quick as without Reframer, and throughput is at most \
                4 % less than with all flows held.".into(),
        here: format!(
            "mean latency at low load, with no flows held, with all, and with only the large flows: {}.",
            said.join("; ")
        ),
        bound: String::new(),
    };
    let titles = [
        ("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Mean latency of small flows", Axis::log("latency, µs").less_is_better()),
        ("Mean latency of large flows", Axis::log("latency, µs").less_is_better()),
    ];
    Ok(FigureResults {
        table,
        panels: panels(&Axis::linear("windows at the same time"), titles, all),
        finding,
    })
}

/// Measures all variants with one trace, and adds rows to `table`. Returns throughput, mean latency of small
/// flows and mean latency of large flows, each with a series for each variant.
fn of_traffic(
    run: &FigureRun<'_>,
    workload: &Workload,
    table: &mut Table,
) -> Result<[Vec<Series>; 3], String> {
    let traffic = workload.name;
    let ways = [
        ("none held", String::new()),
        ("all held", format!("{} -> ", reframer(MICROS, ""))),
        ("large held", format!("{} -> ", reframer(MICROS, ", BYPASS not ip dscp 1"))),
    ];
    let mut all: [Vec<Series>; 3] = std::array::from_fn(|_| {
        ways.iter().map(|(name, _)| Series::new(workload.legend(name), [])).collect()
    });
    let meters = "kinds :: IPClassifier(ip dscp 1, -); kinds[0] -> large :: BenchmarkLatency -> Discard; \
                  kinds[1] -> small :: BenchmarkLatency -> Discard";
    let chain = functions();
    let chain = match chain.rsplit_once("Discard") {
        Some((front, _)) => format!("{front}{meters}"),
        None => return Err("a chain without an end".into()),
    };
    for windows in run.some(&[1, 4, 8, 16, 24]) {
        let load = workload.load(windows)?;
        let marked = workload.file("marked.pcap");
        // A flow with at least a hundredth of a window's packets is large.
        let large = (load.packets / windows / 100).max(2) as u32;
        super::marked::mark_large(&load.capture, large, &marked)?;
        for (number, (name, front)) in ways.iter().enumerate() {
            run.step(&format!("{traffic}, {windows} windows, {name}"))?;
            let mut open_loop =
                OpenLoop::new(&frames(&marked), Start::Ethernet, 32, &format!("{front}{chain}"))?;
            let time = Duration::from_millis(if run.is_small() { 5 } else { 200 });
            let mut measured = [(); 5].map(|()| Vec::new());
            for _ in 0..run.settings.repeats.min(5) {
                let taken = open_loop.drive(load.rate, time, &["small", "large"])?;
                let [small, large] = ["small", "large"].map(|meter| open_loop.latencies(meter));
                let (small, large) = (small?, large?);
                let gbps = taken * load.mean() * 8.0 / 1e3;
                let figures = [gbps, small.mean, small.p99, large.mean, large.p99];
                measured.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
            }
            open_loop.finish()?;
            let figures = measured.map(median);
            let x = windows as f64;
            for (series, figure) in all.iter_mut().zip([figures[0], figures[1], figures[3]]) {
                series[number].points.push(Point { x, y: figure, quartiles: None });
            }
            let cells: [Cell; 4] = [traffic.into(), windows.into(), (*name).into(), load.gbps().into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
        }
    }
    Ok(all)
}
