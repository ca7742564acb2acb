//! Figures 12 to 16 and 18: the chain of router, translator, firewall and statistics under more and more load, with packets held
//! in front of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::{ClockKind, Options, Workers};

use super::workload::{Load, WINDOWS, Workload};
use crate::evaluation::open_loop::{Latencies, OpenLoop};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{Finding, Outcome, Run};
use crate::graph::{Silence, Start, configured_spread, functions, measure_in_turns, worker_of};
use crate::serde_params::Param;
use crate::{Settings, median, workers};

/// Microseconds that packets are held in the paper's Figure 12.
const HELD: [u64; 3] = [16, 64, 128];
/// Those of Figures 15 and 16.
const SWEEP: [u64; 6] = [16, 32, 64, 128, 256, 512];

/// Reframer, with room for all flows of these traces.
fn reframer(micros: u64, more: &str) -> String {
    format!("Reframer({micros}us, CAPACITY 2000000{more})")
}

/// Runs a configuration to its end in the time of its capture, and reads these handlers.
fn read_after(text: String, handlers: &[(&str, &str)]) -> Result<Vec<f64>, String> {
    let (plan, copies) = configured_spread(text, 1, None)?;
    let options = Options { clock: ClockKind::Trace, ..Options::default() };
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), options)?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    workers.run();
    let read = |(element, handler): &(&str, &str)| {
        let told = workers.read(plan.graph.find(element), handler, "")?;
        told.trim().parse().map_err(|_| format!("{element}.{handler} is {told}"))
    };
    let values = handlers.iter().map(read).collect::<Result<_, _>>()?;
    workers.finish().map_err(|errors| errors.join("; "))?;
    Ok(values)
}

/// Flows of a capture, and how many packets of one come in a row.
pub(super) fn flows_and_slf(capture: &Path) -> Result<[f64; 2], String> {
    let text = format!(
        "FromDump({}, STOP true) -> MarkIPHeader(14) -> f :: AggregateIPFlows -> r :: {} -> Discard",
        capture.display(),
        reframer(0, "")
    );
    let values = read_after(text, &[("r", "flows"), ("r", "slf_in")])?;
    Ok([values[0], values[1]])
}

/// The capture in the order in which a Reframer on another machine would give it, and its SLF.
fn held(capture: &Path, micros: u64, output: PathBuf) -> Result<(PathBuf, f64), String> {
    let text = format!(
        "FromDump({}, STOP true) -> r :: {} -> ToDump({}, SNAPLEN 0)",
        capture.display(),
        reframer(micros, ""),
        output.display()
    );
    let values = read_after(text, &[("r", "slf_out")])?;
    Ok((output, values[0]))
}

fn frames(capture: &Path) -> String {
    format!("FromDump({})", capture.display())
}

/// The chain with a meter at its end.
fn metered() -> String {
    super::functions::metered_last(&functions())
}

/// One way of holding packets, at one load.
struct Measured {
    slf: f64,
    /// Nanoseconds per packet as fast as it goes.
    cost: crate::Row,
    /// Gb/s that came through of what was offered,
    taken: f64,
    /// and how long it took.
    latencies: Latencies,
}

/// Figure 12: in front of the chain, on another machine.
pub(in super::super) fn outside(run: &Run<'_>) -> Result<Outcome, String> {
    let workload = Workload::new(run)?;
    let columns =
        ["windows", "held_us", "offered_gbps", "slf", "taken_gbps", "mean_us", "median_us", "p99_us"];
    let mut table = Table::new(&columns);
    let mut rows = Vec::new();
    let ways: Vec<u64> = [0].into_iter().chain(run.some(&HELD)).collect();
    let name = |micros: u64| if micros == 0 { "as it comes".into() } else { format!("held for {micros} us") };
    let mut panels: [Vec<Series>; 3] =
        std::array::from_fn(|_| ways.iter().map(|&way| Series::new(name(way), [])).collect());
    for windows in run.some(&[1, 4, 8, 16, 24, WINDOWS]) {
        run.step(&format!("{windows} windows: order"))?;
        let load = workload.load(windows)?;
        let measured = at_load(run, &workload, &load, &ways)?;
        for (number, (&micros, measured)) in ways.iter().zip(measured).enumerate() {
            let Measured { slf, cost, taken, latencies } = measured;
            // What a packet waits in front at most.
            let mean = latencies.mean + micros as f64;
            let x = windows as f64;
            panels[0][number].points.push(cost.point(x));
            panels[1][number].points.push(Point { x, y: taken, quartiles: None });
            panels[2][number].points.push(Point { x, y: mean, quartiles: None });
            let figures = [load.gbps(), slf, taken, mean, latencies.median, latencies.p99];
            let cells: [Cell; 2] = [windows.into(), micros.into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
            rows.push(cost);
        }
    }
    let last = |way: usize| panels[0][way].points.last().map_or(f64::NAN, |point| point.y);
    let (plain, most) = (last(0), last(ways.len() - 1));
    let here = format!(
        "at {WINDOWS} windows a packet costs the chain {plain:.0} ns as it comes and {most:.0} ns in the order of a Reframer that \
         holds for {} us ({:+.0} % throughput).",
        ways[ways.len() - 1],
        100.0 * (plain / most - 1.0)
    );
    let titles = [
        ("Cost of the chain", Axis::linear("ns per packet")),
        ("Throughput on one core", Axis::linear("Gb/s")),
        ("Mean latency, holding included", Axis::log("us")),
    ];
    let panel = |((title, y), series): ((&str, Axis), Vec<Series>)| Panel {
        title: title.into(),
        x: Axis::linear("windows at the same time"),
        y,
        series,
    };
    let finding = Finding {
        paper: "SLF rises from 1.2 to 1.9, 2.9 and 3.3 with 16, 64 and 128 us, throughput at high load by 84 to 100 %.".into(),
        here,
        bound: "look-ups of a batch overlap here, so that order saves less; the order is that of a Reframer in the time of the \
                 trace, as if on another machine."
            .into(),
    };
    let mut costs = Table::of_costs(&rows);
    costs.join(table, &["windows", "held_us"]);
    Ok(Outcome { table: costs, panels: titles.into_iter().zip(panels).map(panel).collect(), finding })
}

/// Each way of holding at one load.
fn at_load(run: &Run<'_>, workload: &Workload, load: &Load, ways: &[u64]) -> Result<Vec<Measured>, String> {
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
        run.step(&format!("{:.0} Gb/s, held for {micros} us: cost", load.gbps()))?;
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

/// Million packets per second that are taken of what arrives, and latency: of a few runs, the one with the median rate.
fn offered(run: &Run<'_>, open_loop: &mut OpenLoop, rate: f64) -> Result<(f64, Latencies), String> {
    let time = Duration::from_millis(if run.is_small() { 5 } else { 200 });
    let mut all = Vec::new();
    for _ in 0..run.settings.repeats.min(5) {
        let taken = open_loop.drive(rate, time, &["latency"])?;
        all.push((taken, open_loop.latencies("latency")?));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all[all.len() / 2])
}

/// Figures 15 and 16: in the chain itself.
pub(in super::super) fn in_chain(run: &Run<'_>) -> Result<Outcome, String> {
    /// Windows at which the chain is full.
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
    // As much as nobody bears, and what the chain bears as it is.
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
        run.step(&format!("{held}, {micros} us"))?;
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
        ("Cost, source and chain", Axis::linear("ns per packet")),
        ("Throughput on one core", Axis::linear("Gb/s")),
        ("Mean latency at 90 % of what is borne", Axis::log("us")),
        ("99.9th percentile of latency", Axis::log("us")),
    ];
    let panel = |((title, y), series): ((&str, Axis), Vec<Series>)| Panel {
        title: title.into(),
        x: Axis::log("us held"),
        y,
        series,
    };
    let (best, micros) = best.ok_or("nothing was measured")?;
    let finding = Finding {
        paper: "in the chain 64 us bring 60 % throughput and 46 % less latency; batches of whatever flow 4 %.".into(),
        here: format!(
            "as it comes {:.0} Gb/s, held per flow at best {:.0} Gb/s (with {micros} us: {:+.0} %); mean latency {:.0} and {:.0} us.",
            base[1], best[1], 100.0 * (best[1] / base[1] - 1.0), base[2], best[2]
        ),
        bound: "holding costs a flow look-up, a list and a second pass over each packet, on the same core; the chain's own look-ups are \
                 batched, so that they gain less from order than that costs."
            .into(),
    };
    Ok(Outcome { table, panels: titles.into_iter().zip(all).map(panel).collect(), finding })
}

/// Figure 13: many receive queues in place of holding.
pub(in super::super) fn queues(run: &Run<'_>) -> Result<Outcome, String> {
    const QUEUES: [usize; 5] = [1, 8, 32, 128, 500];
    const MICROS: u64 = 128;
    let workload = Workload::new(run)?;
    run.step("traffic")?;
    let load = workload.load(30)?;
    let (ordered, ordered_slf) = held(&load.capture, MICROS, workload.file("held.pcap"))?;
    let loops = run.settings.per_run.div_ceil(load.packets).max(1) * 3;
    let chain = functions();
    let text = |capture: &Path, queues: usize, behind: &str| {
        format!(
            "nic :: InMemoryNic({}, LOOPS {loops}, QUEUES {queues}) -> MarkIPHeader(14) -> {behind}",
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
            costs.push(workers::once(&text(capture, *queues, &chain), 1, None)?);
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
        paper: "with 500 queues SLF rises from 1.2 to 2.5, but throughput hardly, as polling empty queues costs; holding brings 53 % more.".into(),
        here: format!(
            "with 500 queues SLF is {:.1}, throughput {:+.0} %; in the order of a Reframer with {MICROS} us, SLF {ordered_slf:.1}, {:+.0} %.",
            slf[slf.len() - 1].y,
            100.0 * (last / first - 1.0),
            100.0 * (of_held / first - 1.0)
        ),
        bound: "queues are in memory and always full, so that polling empty ones, which holds the paper's interface back, happens \
                 only at the end of a round."
            .into(),
    };
    let panel = |title: &str, label, series| Panel {
        title: title.into(),
        x: Axis::log("receive queues"),
        y: Axis::linear(label),
        series,
    };
    let held_name = format!("one queue, held for {MICROS} us before");
    let rates = vec![Series::new("queues", rates), Series::new(held_name.clone(), level(of_held))];
    let slf = vec![Series::new("queues", slf), Series::new(held_name, level(ordered_slf))];
    let panels =
        vec![panel("Throughput on one core", "Gb/s", rates), panel("Packets of a flow in a row", "SLF", slf)];
    Ok(Outcome { table, panels, finding })
}

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
        bound: "two cores are all that there are here, and they share one memory; packets come from memory, no interface limits them.".into(),
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
    // A run begins with flows that nobody knows and memory that nobody has touched, which takes long.
    let unlimited = 1e9 / workers::once(&text(0.0, if run.is_small() { 1 } else { 16 }), threads, None)?;
    for part in [1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4] {
        let rate = part * unlimited;
        if lost(text(rate, u64::MAX >> 1), rate, threads, time)? <= 0.01 {
            return Ok(rate);
        }
    }
    Ok(0.3 * unlimited)
}

/// Of the packets that arrive for so many seconds, those that are missed.
fn lost(text: String, rate: f64, threads: usize, seconds: f64) -> Result<f64, String> {
    let text = format!("{text}; Script(wait {seconds}s, stop)");
    let (plan, copies) = configured_spread(text, threads, None)?;
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), Options::default())?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    let start = Instant::now();
    workers.run();
    let arrived = start.elapsed().as_secs_f64() * rate;
    let missed = workers.read(plan.graph.find("nic"), "missed", "")?;
    workers.finish().map_err(|errors| errors.join("; "))?;
    let missed: f64 = missed.parse().map_err(|_| "no count".to_string())?;
    Ok(missed / arrived.max(1.0))
}

/// Figure 18: only packets of large flows are held.
pub(in super::super) fn differentiated(run: &Run<'_>) -> Result<Outcome, String> {
    const MICROS: u64 = 128;
    let workload = Workload::new(run)?;
    let chain = functions();
    let ways = [
        ("none held", String::new()),
        ("all held", format!("{} -> ", reframer(MICROS, ""))),
        ("large held", format!("{} -> ", reframer(MICROS, ", BYPASS not ip dscp 1"))),
    ];
    let mut table = Table::new(&[
        "windows",
        "held",
        "offered_gbps",
        "taken_gbps",
        "small_mean_us",
        "small_p99_us",
        "large_mean_us",
        "large_p99_us",
    ]);
    let mut all: [Vec<Series>; 3] =
        std::array::from_fn(|_| ways.iter().map(|(name, _)| Series::new(*name, [])).collect());
    let meters = "kinds :: IPClassifier(ip dscp 1, -); kinds[0] -> large :: BenchmarkLatency -> Discard; \
                  kinds[1] -> small :: BenchmarkLatency -> Discard";
    let chain = match chain.rsplit_once("Discard") {
        Some((front, _)) => format!("{front}{meters}"),
        None => return Err("a chain without an end".into()),
    };
    for windows in run.some(&[1, 4, 8, 16, 24]) {
        let load = workload.load(windows)?;
        let marked = workload.file("marked.pcap");
        super::marked::mark_large(&load.capture, &marked)?;
        for (number, (name, front)) in ways.iter().enumerate() {
            run.step(&format!("{windows} windows, {name}"))?;
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
            let cells: [Cell; 3] = [windows.into(), (*name).into(), load.gbps().into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
        }
    }
    let first = |panel: usize, way: usize| all[panel][way].points.first().map_or(f64::NAN, |point| point.y);
    let finding = Finding {
        paper: "with large flows alone held, small ones are as quick as without Reframer, and throughput is at most 4 % less than with all held.".into(),
        here: format!(
            "at low load packets of small flows take {:.1} us with none held, {:.1} with all and {:.1} with only the large ones; these take \
             {:.1}, {:.1} and {:.1} us.",
            first(1, 0), first(1, 1), first(1, 2), first(2, 0), first(2, 1), first(2, 2)
        ),
        bound: String::new(),
    };
    let titles = [
        ("Throughput on one core", Axis::linear("Gb/s")),
        ("Mean latency of small flows", Axis::log("us")),
        ("Mean latency of large flows", Axis::log("us")),
    ];
    let panel = |((title, y), series): ((&str, Axis), Vec<Series>)| Panel {
        title: title.into(),
        x: Axis::linear("windows at the same time"),
        y,
        series,
    };
    Ok(Outcome { table, panels: titles.into_iter().zip(all).map(panel).collect(), finding })
}
