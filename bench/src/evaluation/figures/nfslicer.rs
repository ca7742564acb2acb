//! NFSlicer's figures: the latency and the bytes that are saved if payloads are parked while packets cross
//! a boundary that copies them. Probes, which cross together with the load, measure latency.

use super::{first, relative};
use crate::devices::{Load, Probed, Probing};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{classify, median, quartiles};

/// The variants: the name, and the further arguments of the Slicer, or None for whole packets.
const VARIANTS: [(&str, Option<&str>); 2] = [("whole", None), ("sliced", Some(""))];
/// The packets per second of the load.
const RATE: u64 = 50_000;

/// Returns the network functions of the paper's Table I, and a chain of two of them: names and elements.
fn functions() -> [(&'static str, String); 5] {
    let firewall = format!("IPFilter({} allow all)", classify::mostly_permitting(&classify::made(100)));
    let nat = "IPRewriter(pattern 9.9.9.9 1024-65535 - - 0 0)";
    [
        ("L2 forwarder", "EtherMirror".into()),
        ("meter", "m :: Meter(4000000); m[1] -> Discard; m -> EtherMirror".into()),
        ("firewall", format!("MarkIPHeader(14) -> {firewall} -> EtherMirror")),
        ("NAT", format!("MarkIPHeader(14) -> {nat} -> EtherMirror")),
        ("firewall, NAT", format!("MarkIPHeader(14) -> {firewall} -> {nat} -> EtherMirror")),
    ]
}

/// An experiment: a load to be measured, and the series and the x of its point in plots.
struct Experiment<'c> {
    series: String,
    x: f64,
    load: Load<'c>,
}

/// Measures all experiments, once in each of several rounds. An experiment that fails is tried once more.
/// Returns the results of all rounds for each experiment.
fn measure(run: &FigureRun<'_>, cells: &[Experiment<'_>]) -> Result<Vec<Vec<Probed>>, String> {
    let probing = Probing::new().map_err(|error| error.to_string())?;
    let mut all: Vec<Vec<Probed>> = cells.iter().map(|_| Vec::new()).collect();
    for round in 1..=run.settings.rounds {
        for (cell, probed) in cells.iter().zip(&mut all) {
            run.step(&format!("{}, {} ({round} of {})", cell.series, cell.x, run.settings.rounds))?;
            let once = || probing.measure(&cell.load, run.settings.window);
            match once().or_else(|_| once()) {
                Ok(measured) => probed.push(measured),
                Err(error) => eprintln!("nfslicer: {}, {}: {error}", cell.series, cell.x),
            }
        }
    }
    Ok(all)
}

/// Returns the median of a value (chosen by `what`) over the results of all rounds.
fn of(probed: &[Probed], what: fn(&Probed) -> f64) -> f64 {
    median(probed.iter().map(what).collect())
}

/// Returns a value (chosen by `what`) of all experiments as series of points: medians over the rounds, with
/// quartiles.
fn series(cells: &[Experiment<'_>], all: &[Vec<Probed>], what: fn(&Probed) -> f64) -> Vec<Series> {
    let mut found: Vec<Series> = Vec::new();
    for (cell, probed) in cells.iter().zip(all) {
        let spread = quartiles(probed.iter().map(what).collect());
        let point = Point { x: cell.x, y: of(probed, what), quartiles: Some(spread) };
        match found.iter_mut().find(|series| series.name == cell.series) {
            Some(series) => series.points.push(point),
            None => found.push(Series::new(cell.series.clone(), [point])),
        }
    }
    found
}

fn table(first: &[&str], cells: &[Experiment<'_>], all: &[Vec<Probed>]) -> Table {
    let columns = ["probe_mean_us", "probe_p50_us", "probe_p90_us", "bytes_crossed", "part_back"];
    let mut table = Table::new(&[first, &["frame", "rate_pps"], &columns].concat());
    for (cell, probed) in cells.iter().zip(all) {
        let what: [Cell; 4] =
            [cell.series.as_str().into(), cell.x.into(), cell.load.frame.into(), cell.load.rate.into()];
        let figures = [
            of(probed, |p| p.mean),
            of(probed, |p| p.p50),
            of(probed, |p| p.p90),
            of(probed, |p| p.bytes),
            of(probed, |p| p.part),
        ];
        table.push(what.into_iter().chain(figures.map(Cell::from)));
    }
    table
}

const BOUND: &str = "the boundary is a virtual cable between two namespaces, where the kernel's work per packet, and \
                     not the copy of its bytes, takes most of the time; both sides, the kernel and the probes share \
                     two cores.";

/// Measures Figures 7 and 10: the latency of probes through each function over the size of the load's
/// frames, and through one function over the rate of the load.
pub(super) fn latency(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let functions = functions();
    let mut cells = Vec::new();
    for (name, function) in run.some(&[0, 1, 2, 3, 4]).into_iter().map(|number| &functions[number]) {
        for frame in run.some(&[512, 1024, 1514]) {
            for (way, slicer) in VARIANTS {
                let load = Load { function, frame, slicer, rate: RATE };
                cells.push(Experiment { series: format!("{name}, {way}"), x: frame as f64, load });
            }
        }
    }
    let by_size = cells.len();
    let (_, forwarder) = &functions[0];
    for rate in run.some(&[1_000, 20_000, 50_000, 100_000, 150_000]) {
        for frame in [60, 1514] {
            for (way, slicer) in VARIANTS {
                let load = Load { function: forwarder, frame, slicer, rate };
                cells.push(Experiment {
                    series: format!("{frame} bytes, {way}"),
                    x: rate as f64 / 1e3,
                    load,
                });
            }
        }
    }
    let all = measure(run, &cells)?;
    let (sizes, rates) = cells.split_at(by_size);
    let (of_sizes, of_rates) = all.split_at(by_size);
    let panel = |title: &str, x, series| Panel {
        title: title.into(),
        x,
        y: Axis::log("latency, µs").less_is_better(),
        series,
    };
    let shares = |title: &str, what, of_paper: [[f64; 2]; 2]| Panel {
        title: title.into(),
        x: Axis::linear("bytes per frame"),
        y: Axis::linear("latency, whole = 1").less_is_better(),
        series: sliced_of_whole(&series(sizes, of_sizes, what), of_paper),
    };
    let panels = vec![
        panel(
            "7: probes, median, over bytes of the load's frames",
            Axis::linear("bytes per frame"),
            series(sizes, of_sizes, |p| p.p50),
        ),
        panel(
            "7: probes, 90th percentile",
            Axis::linear("bytes per frame"),
            series(sizes, of_sizes, |p| p.p90),
        ),
        shares("7: median, sliced as a part of whole", |p| p.p50, [[0.038, 0.202], [0.045, 0.188]]),
        shares("7: 90th percentile, sliced as a part of whole", |p| p.p90, [[0.095, 0.286], [0.056, 0.094]]),
        panel(
            "10: probes, mean, over load (L2 forwarder)",
            Axis::linear("thousand packets per second"),
            series(rates, of_rates, |p| p.mean),
        ),
        panel(
            "10: probes, 90th percentile",
            Axis::linear("thousand packets per second"),
            series(rates, of_rates, |p| p.p90),
        ),
    ];
    let at = |series: &str, what: fn(&Probed) -> f64| {
        let place = sizes.iter().position(|cell| cell.series == series && cell.x == 1514.0);
        place.map_or(f64::NAN, |place| of(&of_sizes[place], what))
    };
    let finding = Finding {
        paper: "with 4 Mpps of 1518 bytes as load, probes through an L2 forwarder take 6.0 µs (median) and 7.3 (90th \
                percentile), and sliced as little as with a load of 64 bytes, about 5; the more expensive the \
                function, the smaller the difference."
            .into(),
        here: format!(
            "with a load of {} thousand packets of 1514 bytes a second, probes through an L2 forwarder take {:.0} µs \
             (median) and {:.0} (90th percentile), sliced {:.0} and {:.0}; through firewall and NAT {:.0}, sliced \
             {:.0}.",
            RATE / 1000,
            at("L2 forwarder, whole", |p| p.p50),
            at("L2 forwarder, whole", |p| p.p90),
            at("L2 forwarder, sliced", |p| p.p50),
            at("L2 forwarder, sliced", |p| p.p90),
            at("firewall, NAT, whole", |p| p.p50),
            at("firewall, NAT, sliced", |p| p.p50)
        ),
        bound: BOUND.into(),
    };
    Ok(FigureResults { table: table(&["function_or_load", "x"], &cells, &all), panels, finding })
}

/// Returns the latency of each function with sliced packets, divided by the latency with whole packets. The
/// paper's values for an L2 forwarder and for firewall and NAT are added: for each of them, `of_paper` has
/// the fractions of the latency that slicing saves with the smallest and with the largest packets.
fn sliced_of_whole(all: &[Series], of_paper: [[f64; 2]; 2]) -> Vec<Series> {
    let mut shares = Vec::new();
    for series in all {
        let Some(name) = series.name.strip_suffix(", sliced") else { continue };
        let whole = all.iter().find(|other| other.name == format!("{name}, whole"));
        let at = |x: f64| whole.and_then(|whole| whole.points.iter().find(|point| point.x == x));
        let point = |point: &Point| {
            let y = point.y / at(point.x).map_or(f64::NAN, |whole| whole.y);
            Point { x: point.x, y, quartiles: None }
        };
        shares.push(Series::new(name, series.points.iter().map(point)));
    }
    for (name, saved) in ["L2 forwarder", "firewall, NAT"].into_iter().zip(of_paper) {
        let points = [512.0, 1518.0].into_iter().zip(saved.map(|saved| 1.0 - saved));
        shares.push(Series::of_paper(format!("NFSlicer paper, {name}"), points));
    }
    shares
}

/// Measures Figure 8: the latency of probes over the fraction of a payload that is parked.
pub(super) fn fraction(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    /// The fractions of the payload that are parked. 0.11 and 0.22 of the payload of a frame of 1514 bytes
    /// are about 160 and 320 bytes, as many as switches park.
    const PARTS: [f64; 6] = [0.0, 0.11, 0.22, 0.5, 0.75, 1.0];
    const FRAME: usize = 1514;
    let functions = functions();
    let parts = run.some(&PARTS);
    let arguments: Vec<String> = parts.iter().map(|part| format!(", FRACTION {part}")).collect();
    let chosen = [&functions[0], &functions[4]];
    let mut cells = Vec::new();
    for (name, elements) in chosen {
        for (part, arguments) in parts.iter().zip(&arguments) {
            let slicer = (*part > 0.0).then_some(arguments.as_str());
            let load = Load { function: elements, frame: FRAME, slicer, rate: RATE };
            cells.push(Experiment { series: name.to_string(), x: 100.0 * part, load });
        }
    }
    let all = measure(run, &cells)?;
    let panel = |title: &str, y, series| Panel {
        title: title.into(),
        x: Axis::linear("% of the payload parked"),
        y,
        series,
    };
    let means = series(&cells, &all, |p| p.mean);
    let mut shares = relative(&means, first);
    let saved = [(0.0, 0.0), (11.0, 0.02), (22.0, 0.048), (100.0, 0.17)];
    let of_paper = saved.map(|(part, saved)| (part, 1.0 - saved));
    shares.push(Series::of_paper("NFSlicer paper, L2 forwarder", of_paper));
    let panels = vec![
        panel("Probes, mean", Axis::linear("latency, µs").less_is_better(), means),
        panel(
            "Probes, mean, nothing parked = 1",
            Axis::linear("latency, nothing parked = 1").less_is_better(),
            shares,
        ),
        panel(
            "Bytes that cross",
            Axis::linear("bytes that cross, per packet").less_is_better(),
            series(&cells, &all, |p| p.bytes),
        ),
    ];
    let mean = |place: usize| of(&all[place], |p| p.mean);
    let last = parts.len() - 1;
    let finding = Finding {
        paper: "latency falls in proportion to the parked part; 160 and 320 bytes, as switches park, leave a gap of \
                several times.".into(),
        here: format!(
            "with the whole payload parked probes through an L2 forwarder take {:.0} µs instead of {:.0}, with a \
             ninth parked {:.0}.",
            mean(last),
            mean(0),
            mean(1.min(last))
        ),
        bound: BOUND.into(),
    };
    Ok(FigureResults { table: table(&["function", "percent"], &cells, &all), panels, finding })
}

/// Measures Figure 15: the bytes per packet that cross the boundary, over the size of frames.
pub(super) fn bytes(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let functions = functions();
    let mut cells = Vec::new();
    for frame in run.some(&[60, 128, 256, 512, 1024, 1514]) {
        for (way, slicer) in VARIANTS {
            let load = Load { function: &functions[0].1, frame, slicer, rate: 20_000 };
            cells.push(Experiment { series: way.to_string(), x: frame as f64, load });
        }
    }
    let all = measure(run, &cells)?;
    let panel = Panel {
        title: "Bytes that cross".into(),
        x: Axis::linear("bytes per frame"),
        y: Axis::linear("bytes that cross, per packet").less_is_better(),
        series: series(&cells, &all, |p| p.bytes),
    };
    let last = all.len() - 1;
    // A packet crosses whole if its payload is shorter than the smallest payload that is parked. Pairs of
    // whole and sliced experiments follow each other by rising frame size.
    let as_they_are = cells.chunks(2).zip(all.chunks(2)).take_while(|(_, both)| {
        let [whole, sliced] = [0, 1].map(|way| of(&both[way], |p| p.bytes));
        sliced >= whole
    });
    let as_they_are = as_they_are.last().map_or(0.0, |(cells, _)| cells[0].x);
    let (whole, sliced) = (of(&all[last - 1], |p| p.bytes), of(&all[last], |p| p.bytes));
    let finding = Finding {
        paper: "the number of bytes that cross PCIe does not depend on the size of packets any more.".into(),
        here: format!(
            "{sliced:.0} bytes cross for a packet of {whole:.0} ({:.0} times fewer), and for any packet of more than \
             {as_they_are:.0} bytes; shorter packets stay whole.",
            whole / sliced
        ),
        bound: String::new(),
    };
    Ok(FigureResults { table: table(&["way", "bytes"], &cells, &all), panels: vec![panel], finding })
}
