//! The figure `all`: the chain of configs/all.click with all mechanisms, and with each of them switched off
//! in turn.

use std::path::Path;
use std::time::Duration;

use program::machine_code::MachineCode;
use sprayer::{Policy, SpreadSettings as Spray};

use super::reframer::Workload;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::frames::Start;
use crate::open_loop::{self, OpenLoop};
use crate::runner::{measure_in_turns, running, text_of};
use crate::serde_params::Param;
use crate::synthesis::synthesized;
use crate::{Settings, median, workers};

/// The mechanisms of a variant, among those that work on one worker; each field is true if the mechanism is
/// on. Sprayer is missing, because it needs several workers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct On {
    juggler: bool,
    reframer: bool,
    slicer: bool,
    synthesizer: bool,
}

const ALL: On = On { juggler: true, reframer: true, slicer: true, synthesizer: true };

/// The variants that are compared: the name in tables, the label on axes, and the mechanisms.
const VARIANTS: [(&str, &str, On); 6] = [
    ("the chain alone", "alone", On { juggler: false, reframer: false, slicer: false, synthesizer: false }),
    ("all", "all", ALL),
    ("without Juggler", "Juggler", On { juggler: false, ..ALL }),
    ("without Reframer", "Reframer", On { reframer: false, ..ALL }),
    ("without slicer", "slicer", On { slicer: false, ..ALL }),
    ("without synthesizer", "synthesizer", On { synthesizer: false, ..ALL }),
];

/// Returns the chain of configs/all.click without its source and with those mechanisms only that are on.
fn chain(on: On) -> String {
    let part = |is_on: bool, text: &'static str| if is_on { text } else { "" };
    format!(
        "{} {} {} Strip(14) -> CheckIPHeader -> IPFilter(deny tcp && dst port 23, deny udp && dst port 161, allow all)
             -> GetIPAddress(16) -> routes :: RadixIPLookup(10.0.0.0/8 0, 192.168.0.0/16 0, 0.0.0.0/0 1);
         payloads :: PayloadTable;
         routes[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: Null;
         routes[1] -> IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> DecIPTTL
             -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> out;
         out -> {} latency :: BenchmarkLatency -> Discard",
        part(on.juggler, "Juggler(OFO_TIMEOUT 500us) ->"),
        part(on.reframer, "Reframer(64us) ->"),
        part(on.slicer, "Slice(payloads) ->"),
        part(on.slicer, "Splice(payloads) ->")
    )
}

/// Returns the configuration of a variant. `front` returns the chain that it gets, with a source upstream of
/// it. The result is synthesized if the synthesizer is on.
fn text(on: On, front: impl Fn(&str) -> String) -> Result<String, String> {
    let text = front(&chain(on));
    if on.synthesizer { synthesized(text, MachineCode::default()) } else { Ok(text) }
}

pub(super) fn all(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    /// The number of windows of the trace that are played at the same time: with four windows, the load is
    /// one that every variant sustains.
    const WINDOWS: usize = 4;
    let workload = Workload::new(run)?;
    run.step("traffic")?;
    let load = workload.load(WINDOWS)?;
    let frames = format!("FromDump({})", load.capture.display());
    let settings = Settings { packets: load.packets, ..run.settings.clone() };
    let mut contenders = Vec::new();
    for (name, _, on) in VARIANTS {
        run.step(&format!("cost: {name}"))?;
        let text = text(on, |chain| text_of(&frames, Start::Frame, chain))?;
        contenders.push((vec![("way", Param::Word(name))], running(text, engine::Options::default())?));
    }
    let rows = measure_in_turns("all", &settings, load.mean() as usize, contenders)?;
    let mut more = Table::new(&["way", "gbps", "mean_us", "p99_us", "bytes_to_the_chain"]);
    let mut all: [Vec<Point>; 4] = Default::default();
    for (number, ((name, _, on), row)) in VARIANTS.iter().zip(&rows).enumerate() {
        run.step(&format!("latency: {name}"))?;
        let text = text(*on, |chain| open_loop::text(&frames, Start::Frame, 32, chain))?;
        let mut open_loop = OpenLoop::of(text)?;
        let time = Duration::from_millis(if run.is_small() { 5 } else { 300 });
        let (mut means, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..run.settings.repeats.min(5) {
            open_loop.drive(load.rate, time, &["latency"])?;
            let latencies = open_loop.latencies("latency")?;
            means.push(latencies.mean);
            tails.push(latencies.p99);
        }
        let bytes = bytes_to_the_chain(&mut open_loop, *on, load.mean())?;
        open_loop.finish()?;
        let gbps = load.mean() * 8.0 / row.ns_per_packet;
        let (mean, tail) = (median(means), median(tails));
        let x = number as f64;
        all[0].push(row.point(x));
        for (points, y) in all[1..].iter_mut().zip([gbps, mean, bytes]) {
            points.push(Point { x, y, quartiles: None });
        }
        let cells: [Cell; 1] = [(*name).into()];
        more.push(cells.into_iter().chain([gbps, mean, tail, bytes].map(Cell::from)));
    }
    let speedup = on_two_workers(run, &load.capture, load.packets)?;
    let [costs, rates, latencies, bytes] = all;
    let finding = Finding {
        paper: "each paper removes one waste; none measures them together.".into(),
        here: format!(
            "the chain alone costs {:.0} ns per packet, with all mechanisms {:.0}; without Juggler {:.0}, Reframer \
             {:.0}, slicer {:.0}, synthesizer {:.0}. Of {:.0} bytes of a packet {:.0} reach the chain. Two workers \
             carry {speedup:.2} times as much as one.",
            costs[0].y, costs[1].y, costs[2].y, costs[3].y, costs[4].y, costs[5].y, bytes[0].y, bytes[1].y
        ),
        bound: format!(
            "on one core and in memory, holding, restoring order and slicing cost time and save none: they pay if \
             something downstream is expensive, such as an application's TCP, cold caches, or a boundary that copies \
             (the figures of their papers). A program costs as much as some ten elements, more than this chain has. \
             {} here.",
            gains(&costs)
        ),
    };
    let panel = |title: &str, y, points| Panel {
        title: title.into(),
        x: Axis::names(
            "chain alone; with all mechanisms; with all of them but …",
            VARIANTS.map(|(_, label, _)| label),
        ),
        y,
        series: vec![Series::new("measured here", points)],
    };
    let mut panels = vec![
        panel("Cost", Axis::linear("cost, ns per packet").less_is_better(), costs),
        panel("Throughput on one core", Axis::linear("throughput, Gb/s").more_is_better(), rates),
        panel("Mean latency", Axis::log("latency, µs").less_is_better(), latencies),
        panel(
            "Bytes of a packet that reach the chain",
            Axis::linear("bytes of a packet").less_is_better(),
            bytes,
        ),
    ];
    panels[0].series.push(super::floor((0..).map(f64::from).zip(&rows)));
    let mut table = Table::of_costs(&rows);
    table.join(more, &["way"]);
    Ok(FigureResults { table, panels, finding })
}

/// Returns a sentence part that lists the mechanisms without which a packet costs more than with all of
/// them.
fn gains(costs: &[Point]) -> String {
    let without = costs.iter().zip(VARIANTS).skip(2).filter(|(cost, _)| cost.y > costs[1].y);
    let names: Vec<&str> = without.map(|(_, (name, ..))| name.trim_start_matches("without ")).collect();
    match &names[..] {
        [] => "None of the mechanisms is a gain".into(),
        names => format!("A gain is {}", names.join(", ")),
    }
}

fn bytes_to_the_chain(open_loop: &mut OpenLoop, on: On, mean: f64) -> Result<f64, String> {
    if !on.slicer {
        return Ok(mean);
    }
    let mut read = |name: &str| -> Result<f64, String> {
        open_loop.read("payloads", name)?.trim().parse().map_err(|_| format!("no {name}"))
    };
    Ok(mean * read("bytes_crossed")? / read("bytes_in")?.max(1.0))
}

/// Returns the speedup of two workers over one, with all mechanisms: the median of the ratios of the costs
/// per packet. With two workers, the packets of a large connection are spread over both workers if one of
/// them is busier (`--steering auto`).
fn on_two_workers(run: &FigureRun<'_>, capture: &Path, packets: usize) -> Result<f64, String> {
    let loops = 3 * run.settings.per_run.div_ceil(packets);
    let front = |chain: &str| {
        // The source is an interface, because several workers can share it.
        format!("nic :: InMemoryNic({}, LOOPS {loops}) -> {chain}", capture.display())
    };
    let text = text(ALL, front)?;
    let spreading = Spray { policy: Policy::Auto, ..Spray::default() }.spreading();
    let mut ratios = Vec::new();
    for round in 0..run.settings.repeats.min(5) {
        run.step(&format!("two workers, round {}", round + 1))?;
        let one = workers::once(&[], &text, 1, None)?;
        ratios.push(one / workers::once(&[], &text, 2, Some(&spreading))?);
    }
    Ok(median(ratios))
}
