//! Reframer's Figure 13: many receive queues as an alternative to holding packets.

use std::path::Path;

use super::captures::{held, read_after, reframer};
use super::workload::Workload;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::functions::functions;
use crate::{median, workers};

/// The numbers of receive queues.
const QUEUES: [usize; 5] = [1, 8, 32, 128, 500];
/// The time in microseconds for which the Reframer holds packets.
const MICROS: u64 = 128;

/// Measures throughput and SLF over the number of receive queues over which packets are spread, and for
/// comparison with a single queue whose packets are in Reframer's order.
pub(in super::super) fn queues(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let mut table = Table::new(&[
        "traffic",
        "way",
        "queues",
        "slf",
        "ns_per_packet",
        "lower_quartile_ns",
        "upper_quartile_ns",
        "gbps",
    ]);
    let mut all: [Vec<Series>; 2] = Default::default();
    let mut said = Vec::new();
    for workload in Workload::all(run)? {
        said.push(of_traffic(run, &workload, &mut table, &mut all)?);
    }
    let finding = Finding {
        paper: "with 500 queues SLF rises from 1.2 to 2.5, but throughput hardly, because polling empty queues costs; \
                holding brings 53 % more.".into(),
        here: format!("with 500 queues, and in the order of a Reframer with {MICROS} µs: {}.", said.join("; ")),
        bound: "queues are in memory and always full, so that polling empty queues, which limits the paper's \
                interface, happens only at the end of a round."
            .into(),
    };
    let panel = |title: &str, label, series| Panel {
        title: title.into(),
        x: Axis::log("receive queues"),
        y: Axis::linear(label).more_is_better(),
        series,
    };
    let [rates, mut slf] = all;
    slf.push(Series::of_paper("Reframer paper, queues", [(8.0, 1.2), (500.0, 2.5)]));
    let panels = vec![
        panel("Throughput on one core", "throughput, Gb/s", rates),
        panel("Packets of a flow in a row", "packets of a flow in a row (SLF)", slf),
    ];
    Ok(FigureResults { table, panels, finding })
}

/// Measures all ways with one trace. Adds rows to `table`, and series of throughput and of SLF to `all`.
/// Returns the result in words.
fn of_traffic(
    run: &FigureRun<'_>,
    workload: &Workload,
    table: &mut Table,
    all: &mut [Vec<Series>; 2],
) -> Result<String, String> {
    let traffic = workload.name;
    run.step(traffic)?;
    let load = workload.load(30)?;
    let (ordered, ordered_slf) = held(&load.capture, MICROS, workload.file("held.pcap"))?;
    let loops = run.settings.per_run.div_ceil(load.packets).max(1) * 3;
    let chain = functions();
    let text = |capture: &Path, queues: usize, chain: &str| {
        format!(
            "nic :: InMemoryNic({}, LOOPS {loops}, QUEUES {queues}) -> MarkIPHeader(14) -> {chain}",
            capture.display()
        )
    };
    let mut ways = vec![("held", 1, &ordered)];
    for queues in run.some(&QUEUES) {
        ways.push(("queues", queues, &load.capture));
    }
    let mut costs = vec![Vec::new(); ways.len()];
    for round in 0..run.settings.repeats {
        for ((way, queues, capture), costs) in ways.iter().zip(&mut costs) {
            run.step(&format!("{traffic}, {way} {queues}, round {}", round + 1))?;
            costs.push(workers::once(&[], &text(capture, *queues, &chain), 1, None)?);
        }
    }
    let mut points: [Vec<Point>; 2] = Default::default();
    let mut of_held = f64::NAN;
    for ((way, queues, capture), costs) in ways.iter().zip(costs) {
        let slf = match *way {
            "held" => ordered_slf,
            _ => {
                let text = text(capture, *queues, &format!("r :: {} -> Discard", reframer(0, "")));
                read_after(text, &[("r", "slf_in")])?[0]
            }
        };
        let [low, high] = crate::quartiles(costs.clone());
        let cost = median(costs);
        let gbps = |ns: f64| load.mean() * 8.0 / ns;
        let cells: [Cell; 3] = [traffic.into(), (*way).into(), (*queues).into()];
        table.push(cells.into_iter().chain([slf, cost, low, high, gbps(cost)].map(Cell::from)));
        if *way == "held" {
            of_held = gbps(cost);
            continue;
        }
        let x = *queues as f64;
        points[0].push(Point { x, y: gbps(cost), quartiles: Some([gbps(high), gbps(low)]) });
        points[1].push(Point { x, y: slf, quartiles: None });
    }
    let (first, last) = (points[0][0].y, points[0][points[0].len() - 1].y);
    let said = format!(
        "{traffic}: SLF {:.1}, throughput {:+.0} %, and SLF {ordered_slf:.1}, throughput {:+.0} %",
        points[1][points[1].len() - 1].y,
        100.0 * (last / first - 1.0),
        100.0 * (of_held / first - 1.0)
    );
    for ((all, points), level) in all.iter_mut().zip(points).zip([of_held, ordered_slf]) {
        let level =
            points.iter().map(|point| Point { y: level, quartiles: None, ..*point }).collect::<Vec<_>>();
        all.push(Series::new(workload.legend("queues"), points));
        all.push(Series::new(workload.legend(&format!("held for {MICROS} µs before")), level));
    }
    Ok(said)
}
