//! Reframer's Figure 14: the highest rate of the chain and of Reframer alone, on one core and on two.

use std::path::Path;

use engine::{Options, Workers};

use super::captures::{held, reframer};
use super::workload::Workload;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::functions::functions;
use crate::median;
use crate::runner::{Silence, configured, registry};

/// The time in microseconds for which the Reframer holds packets.
const MICROS: u64 = 128;

/// Measures the highest rates on one worker and on two: of the chain in the original order and in
/// Reframer's order, and of a Reframer without a chain.
pub(in super::super) fn rate_per_core(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let mut table = Table::new(&[
        "traffic",
        "way",
        "workers",
        "gbps",
        "lower_quartile_gbps",
        "upper_quartile_gbps",
        "as_fast_as_it_goes_gbps",
    ]);
    let mut all = Vec::new();
    let (mut said, mut waiting) = (Vec::new(), Vec::new());
    for workload in Workload::all(run)? {
        let (series, fastest) = of_traffic(run, &workload, &mut table)?;
        let of =
            |way: usize| series[way].points.iter().map(|point| format!("{:.0}", point.y)).collect::<Vec<_>>();
        let [plain, in_order, alone] = [0, 1, 2].map(|way| of(way).join(" and "));
        let name = workload.name;
        said.push(format!(
            "{name}: Reframer alone {alone} Gb/s, the chain {plain} Gb/s in the original order, {in_order} in \
             Reframer's order"
        ));
        waiting.push(format!("{name}: {:.0} and {:.0} Gb/s", fastest[0], fastest[1]));
        all.extend(series);
    }
    let finding = Finding {
        paper: "Reframer alone carries 28 Gb/s per core, nearly in proportion to cores; the chain gains as much from order with any \
                 number of cores."
            .into(),
        here: format!("on one core and on two, {}.", said.join("; ")),
        bound: format!(
            "the machine has only two cores: if both work, nothing is left for the rest of the system, and a worker \
             that loses its core for a millisecond misses 4096 packets. If packets wait until they are taken, the \
             chain carries in the original order: {}.",
            waiting.join("; ")
        ),
    };
    all.push(Series::of_paper("Reframer paper, Reframer alone", [(0.0, 28.0)]));
    let panel = Panel {
        title: "Highest rate with at most 1 % lost".into(),
        x: Axis::names("workers", [1, 2]),
        y: Axis::linear("throughput, Gb/s").more_is_better(),
        series: all,
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Measures all ways with one trace, and adds rows to `table`. Returns a series for each way, and the
/// throughput in Gb/s on one worker and on two of the chain in the original order, if packets wait until they
/// are taken.
fn of_traffic(
    run: &FigureRun<'_>,
    workload: &Workload,
    table: &mut Table,
) -> Result<(Vec<Series>, [f64; 2]), String> {
    let traffic = workload.name;
    run.step(traffic)?;
    let load = workload.load(30)?;
    let (ordered, _) = held(&load.capture, MICROS, workload.file("held.pcap"))?;
    let chain = functions();
    let alone = format!("{} -> Discard", reframer(MICROS, ""));
    let ways = [
        ("chain, as it comes", &load.capture, &chain),
        ("chain, in order", &ordered, &chain),
        ("Reframer alone", &load.capture, &alone),
    ];
    let mut all: Vec<Series> = ways.iter().map(|(name, ..)| Series::new(workload.legend(name), [])).collect();
    let mut fastest = [f64::NAN; 2];
    for (threads, fastest) in (1..).zip(&mut fastest) {
        let mut rates = vec![Vec::new(); ways.len()];
        let mut unlimited = vec![Vec::new(); ways.len()];
        for round in 0..run.settings.repeats.min(5) {
            for (way, (name, capture, chain)) in ways.iter().enumerate() {
                run.step(&format!("{traffic}, {name} on {threads}, round {}", round + 1))?;
                let highest =
                    highest(run, capture, chain, threads)?.map(|rate| rate * load.mean() * 8.0 / 1e9);
                rates[way].push(highest[0]);
                unlimited[way].push(highest[1]);
            }
        }
        let unlimited: Vec<f64> = unlimited.into_iter().map(median).collect();
        *fastest = unlimited[0];
        for (((name, ..), series), (rates, unlimited)) in
            ways.iter().zip(&mut all).zip(rates.into_iter().zip(unlimited))
        {
            let [low, high] = crate::quartiles(rates.clone());
            let rate = median(rates);
            let cells: [Cell; 3] = [traffic.into(), (*name).into(), (threads as u64).into()];
            table.push(cells.into_iter().chain([rate, low, high, unlimited].map(Cell::from)));
            series.points.push(Point { x: (threads - 1) as f64, y: rate, quartiles: Some([low, high]) });
        }
    }
    Ok((all, fastest))
}

/// Returns two rates in packets per second: the highest rate of arrivals at which at most one packet of a
/// hundred is lost because the ring is full, and the rate at which the workers take packets if packets always
/// wait in the ring. The search for the first rate begins at 1.2 times the second rate and goes down in
/// steps. If even 0.4 times the second rate is too high, the first rate is 0.3 times the second rate.
fn highest(run: &FigureRun<'_>, capture: &Path, chain: &str, threads: usize) -> Result<[f64; 2], String> {
    let arriving = |rate: f64| {
        let nic = format!("InMemoryNic({}, LOOPS -1, RATE {rate:.0}, RING 4096)", capture.display());
        settled(
            &format!("nic :: {nic} -> MarkIPHeader(14) -> {chain}"),
            threads,
            if run.is_small() { 0.01 } else { 0.3 },
        )
    };
    let unlimited = arriving(0.0)?.rate;
    for part in [1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4] {
        if arriving(part * unlimited)?.lost <= 0.01 {
            return Ok([part * unlimited, unlimited]);
        }
    }
    Ok([0.3 * unlimited, unlimited])
}

/// The result of a run in which packets arrive at a given rate.
struct Settled {
    /// The packets per second that were taken.
    rate: f64,
    /// The fraction of the arriving packets that found the ring full.
    lost: f64,
}

/// Runs a configuration and measures for `seconds` seconds how many packets are taken and lost. Before the
/// measurement, the capture is replayed twice, so that elements know all flows, and all memory has been used.
fn settled(text: &str, threads: usize, seconds: f64) -> Result<Settled, String> {
    let text = format!(
        "{text}; s :: Script(label round, wait 10ms, goto round $(lt $(nic.count) $(mul 2 $(nic.packets))),
             set missed $(nic.missed), set count $(nic.count), set start $(now), wait {seconds}s,
             set missed $(sub $(nic.missed) $missed), set count $(sub $(nic.count) $count), set time $(sub $(now) $start), stop)"
    );
    let (plan, copies) = configured(text, threads, None, &registry())?;
    // With `busy_poll`, workers never sleep. A worker that sleeps would wake up so late that a ring of 4096
    // packets overflows.
    let options = Options { busy_poll: true, ..Options::default() };
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), options)?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    workers.run();
    let script = plan.graph.find("s");
    let told = ["missed", "count", "time"].map(|name| workers.read(script, "get", name));
    workers.finish().map_err(|errors| errors.join("; "))?;
    let number = |text: String| text.trim().parse::<f64>().map_err(|_| format!("no number: {text}"));
    let [missed, count, time] = told.map(|text| text.and_then(number));
    let (missed, count, time) = (missed?, count?, time?);
    if count > 0.0 {
        Ok(Settled { rate: count / time, lost: missed / (missed + count) })
    } else {
        Err("nothing has arrived".into())
    }
}
