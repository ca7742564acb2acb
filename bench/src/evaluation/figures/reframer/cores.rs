//! Figure 14: the highest rate of the chain and of Reframer alone, on one core and on two.

use std::path::Path;

use engine::{Options, Workers};

use super::load::{held, reframer};
use super::workload::Workload;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{Finding, Outcome, Run};
use crate::graph::{Silence, configured_spread, functions};
use crate::{median, workers};

/// Figure 14: the chain and Reframer alone, on one worker and on two.
pub(in super::super) fn rate_per_core(run: &Run<'_>) -> Result<Outcome, String> {
    const MICROS: u64 = 128;
    let workload = Workload::new(run)?;
    run.step("traffic")?;
    let load = workload.load(30)?;
    let (ordered, _) = held(&load.capture, MICROS, workload.file("held.pcap"))?;
    let chain = functions();
    let alone = format!("{} -> Discard", reframer(MICROS, ""));
    let ways = [
        ("chain, as it comes", &load.capture, &chain),
        ("chain, in order", &ordered, &chain),
        ("Reframer alone", &load.capture, &alone),
    ];
    let mut table = Table::new(&["way", "workers", "gbps", "lower_quartile_gbps", "upper_quartile_gbps"]);
    let mut all: Vec<Series> = ways.iter().map(|(name, ..)| Series::new(*name, [])).collect();
    for threads in [1, 2] {
        let mut rates = vec![Vec::new(); ways.len()];
        for round in 0..run.settings.repeats.min(5) {
            for ((name, capture, chain), rates) in ways.iter().zip(&mut rates) {
                run.step(&format!("{name} on {threads}, round {}", round + 1))?;
                rates.push(highest(run, capture, chain, threads)? * load.mean() * 8.0 / 1e9);
            }
        }
        for (((name, ..), series), rates) in ways.iter().zip(&mut all).zip(rates) {
            let [low, high] = crate::quartiles(rates.clone());
            let rate = median(rates);
            let cells: [Cell; 2] = [(*name).into(), (threads as u64).into()];
            table.push(cells.into_iter().chain([rate, low, high].map(Cell::from)));
            series.points.push(Point { x: threads as f64, y: rate, quartiles: Some([low, high]) });
        }
    }
    let of = |way: usize| (all[way].points[0].y, all[way].points[1].y);
    let (one, two) = of(2);
    let (plain, in_order) = (of(0), of(1));
    let finding = Finding {
        paper: "Reframer alone carries 28 Gb/s per core, nearly in proportion to cores; the chain gains as much from order with any \
                 number of cores."
            .into(),
        here: format!(
            "Reframer alone carries {one:.0} Gb/s on one core and {two:.0} on two; the chain {:.0} and {:.0} Gb/s as it comes, {:.0} and \
             {:.0} in order.",
            plain.0, plain.1, in_order.0, in_order.1
        ),
        bound: "two cores are all that there are here, and they share one memory. Without a rate the chain carries some 50 Gb/s on one core; \
                why it loses more than 1 % at any rate above a third of that is not understood."
            .into(),
    };
    let panel = Panel {
        title: "Highest rate with at most 1 % lost".into(),
        x: Axis::linear("workers"),
        y: Axis::linear("Gb/s"),
        series: all,
    };
    Ok(Outcome { table, panels: vec![panel], finding })
}

/// Packets per second of which at most one of a hundred is missed: as fast as it goes, and from there downwards.
fn highest(run: &Run<'_>, capture: &Path, chain: &str, threads: usize) -> Result<f64, String> {
    let text = |rate: f64, loops: u64| {
        format!(
            "nic :: InMemoryNic({}, LOOPS {loops}, RATE {rate:.0}, RING 4096) -> MarkIPHeader(14) -> {chain}",
            capture.display()
        )
    };
    let time = if run.is_small() { 0.01 } else { 0.3 };
    // Often enough that the beginning, which takes long, does not count.
    let unlimited = 1e9 / workers::once(&text(0.0, if run.is_small() { 1 } else { 16 }), threads, None)?;
    for part in [1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4] {
        let rate = part * unlimited;
        if lost(text(rate, u64::MAX >> 1), threads, time)? <= 0.01 {
            return Ok(rate);
        }
    }
    Ok(0.3 * unlimited)
}

/// Of the packets that arrive for so many seconds, those that are missed, once the run has settled: at first flows are not known,
/// and memory has not been touched.
fn lost(text: String, threads: usize, seconds: f64) -> Result<f64, String> {
    let text = format!(
        "{text}; s :: Script(wait {}s, set missed $(nic.missed), set count $(nic.count), wait {seconds}s,
             set missed $(sub $(nic.missed) $missed), set count $(sub $(nic.count) $count), stop)",
        seconds / 2.0
    );
    let (plan, copies) = configured_spread(text, threads, None)?;
    // A worker that sleeps while nothing comes wakes up too late for a ring of this length.
    let options = Options { busy_poll: true, ..Options::default() };
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), options)?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    workers.run();
    let script = plan.graph.find("s");
    let [missed, count] = ["missed", "count"].map(|name| workers.read(script, "get", name));
    workers.finish().map_err(|errors| errors.join("; "))?;
    let number = |text: String| text.trim().parse::<f64>().map_err(|_| format!("no count: {text}"));
    let (missed, count) = (number(missed?)?, number(count?)?);
    if missed + count > 0.0 { Ok(missed / (missed + count)) } else { Err("nothing has arrived".into()) }
}
