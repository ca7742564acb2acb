//! Reframer's Figure 13: many receive queues as an alternative to holding packets.

use std::path::Path;

use super::captures::{held, read_after, reframer};
use super::workload::Workload;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::functions::functions;
use crate::{median, workers};

/// Measures throughput and SLF over the number of receive queues over which packets are spread, and for
/// comparison with a single queue whose packets are in Reframer's order.
pub(in super::super) fn queues(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const QUEUES: [usize; 5] = [1, 8, 32, 128, 500];
    const MICROS: u64 = 128;
    let workload = Workload::new(run)?;
    run.step("traffic")?;
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
            run.step(&format!("{way} {queues}, round {}", round + 1))?;
            costs.push(workers::once(&[], &text(capture, *queues, &chain), 1, None)?);
        }
    }
    let mut table = Table::new(&[
        "way",
        "queues",
        "slf",
        "ns_per_packet",
        "lower_quartile_ns",
        "upper_quartile_ns",
        "gbps",
    ]);
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
        let cells: [Cell; 2] = [(*way).into(), (*queues).into()];
        table.push(cells.into_iter().chain([slf, cost, low, high, gbps(cost)].map(Cell::from)));
        if *way == "held" {
            of_held = gbps(cost);
            continue;
        }
        let x = *queues as f64;
        points[0].push(Point { x, y: gbps(cost), quartiles: Some([gbps(high), gbps(low)]) });
        points[1].push(Point { x, y: slf, quartiles: None });
    }
    let [rates, slf] = points;
    let (first, last) = (rates[0].y, rates[rates.len() - 1].y);
    let level =
        |y: f64| run.some(&QUEUES).into_iter().map(move |x| Point { x: x as f64, y, quartiles: None });
    let finding = Finding {
        paper: "with 500 queues SLF rises from 1.2 to 2.5, but throughput hardly, because polling empty queues costs; \
                holding brings 53 % more.".into(),
        here: format!(
            "with 500 queues SLF is {:.1}, throughput {:+.0} %; in the order of a Reframer with {MICROS} µs, SLF {ordered_slf:.1}, {:+.0} %.",
            slf[slf.len() - 1].y,
            100.0 * (last / first - 1.0),
            100.0 * (of_held / first - 1.0)
        ),
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
    let held_name = format!("one queue, held for {MICROS} µs before");
    let rates = vec![Series::new("queues", rates), Series::new(held_name.clone(), level(of_held))];
    let of_paper = Series::of_paper("Reframer paper, queues", [(8.0, 1.2), (500.0, 2.5)]);
    let slf = vec![Series::new("queues", slf), Series::new(held_name, level(ordered_slf)), of_paper];
    let panels = vec![
        panel("Throughput on one core", "throughput, Gb/s", rates),
        panel("Packets of a flow in a row", "packets of a flow in a row (SLF)", slf),
    ];
    Ok(FigureResults { table, panels, finding })
}
