//! Juggler's figures of the kernel's TCP over two paths with different delays: many connections, and the
//! effect of Juggler's timeouts OFO_TIMEOUT and INSEQ_TIMEOUT.

use lab::Connections;

use super::{DELAYS, behind_gap_of_paper, throughput_of_paper};
use crate::devices::{Front, Receiving, Reordering};
use crate::evaluation::figures::panels;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::quartiles;

/// A case to be measured (elements, difference of delays, merging interface), and the series and the x of its
/// point in plots.
struct Case {
    series: String,
    x: f64,
    merges: bool,
    elements: String,
    delay: u64,
}

/// Measures all cases once in each round, so that disturbances of the machine affect all cases. Returns the
/// results of all rounds for each case; an error if a case has no results.
fn in_turns(
    run: &FigureRun<'_>,
    figure: &str,
    flows: &Connections<'_>,
    cases: &[Case],
) -> Result<Vec<Vec<Receiving>>, String> {
    let reordering = Reordering::new(run.settings.window).map_err(|error| error.to_string())?;
    let mut all: Vec<Vec<Receiving>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=run.settings.rounds {
        for (case, all) in cases.iter().zip(&mut all) {
            let Case { series, x, merges, elements, delay } = case;
            run.step(&format!("{series}, {x} ({round} of {})", run.settings.rounds))?;
            // The interfaces of the paper's testbed hold packets for 125 microseconds to merge them.
            let front = Front { merges: *merges, hold: if *merges { 125 } else { 0 }, elements };
            match reordering.measure(&front, flows, *delay) {
                Ok(one) => all.push(one),
                Err(error) => eprintln!("{figure}: {series}, {x}: {error}"),
            }
        }
    }
    if all.iter().any(Vec::is_empty) {
        return Err("nothing could be measured of a case".into());
    }
    Ok(all)
}

/// A measured quantity: the name of its column, the title of its panel, its axis, and a function that returns
/// its value from the results.
type Told = (&'static str, &'static str, Axis, fn(&Receiving) -> f64);

fn told() -> [Told; 6] {
    [
        ("gbps", "Throughput", Axis::linear("throughput, Gb/s").more_is_better(), |one| one.gbps),
        (
            "delivered_per_1000",
            "Segments delivered to TCP",
            Axis::linear("segments, of 1000 packets").less_is_better(),
            |one| one.delivered,
        ),
        (
            "behind_gap_per_1000",
            "Segments after a gap",
            Axis::linear("segments after a gap, of 1000").less_is_better(),
            |one| one.behind_gap,
        ),
        ("acks_per_1000", "ACKs", Axis::linear("ACKs, of 1000 segments").less_is_better(), |one| one.acks),
        (
            "receiver_s_per_gb",
            "Receiving threads",
            Axis::linear("time of processors, s per GB").less_is_better(),
            |one| one.receiver_s_per_gb,
        ),
        (
            "soft_interrupts_s_per_gb",
            "The whole machine in soft interrupts",
            Axis::linear("time of processors, s per GB").less_is_better(),
            |one| one.soft_interrupts_s_per_gb,
        ),
    ]
}

/// Returns a table with all quantities, a panel for each quantity in `shown`, and the series of these panels.
/// `x` is the name of the table's column for the x of cases, and the horizontal axis.
fn outcome(
    x: (&str, Axis),
    shown: &[&str],
    cases: &[Case],
    all: &[Vec<Receiving>],
) -> (Table, Vec<Panel>, Vec<Vec<Series>>) {
    let told = told();
    let columns: Vec<&str> = ["case", x.0].into_iter().chain(told.iter().map(|told| told.0)).collect();
    let mut table = Table::new(&columns);
    let shown: Vec<&Told> = told.iter().filter(|told| shown.contains(&told.0)).collect();
    let mut series: Vec<Vec<Series>> = shown.iter().map(|_| Vec::new()).collect();
    for (case, all) in cases.iter().zip(all) {
        let median = Receiving::median(all);
        let first: [Cell; 2] = [case.series.clone().into(), case.x.into()];
        table.push(first.into_iter().chain(told.iter().map(|told| (told.3)(&median).into())));
        for ((_, _, _, of), series) in shown.iter().zip(&mut series) {
            let spread = quartiles(all.iter().map(of).collect());
            let point = Point { x: case.x, y: of(&median), quartiles: Some(spread) };
            match series.iter_mut().find(|series| series.name == case.series) {
                Some(series) => series.points.push(point),
                None => series.push(Series::new(case.series.clone(), [point])),
            }
        }
    }
    let titles: Vec<_> = shown.iter().map(|(_, title, axis, _)| (*title, axis.clone())).collect();
    (table, panels(&x.1, titles, series.clone()), series)
}

/// Measures Figure 10: many connections, over paths without and with a difference of delays.
pub(in super::super) fn many(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let count = if run.is_small() { 16 } else { 256 };
    let of = |series: &str, merges, elements: &dyn Fn(u64) -> String| {
        let case = |delay: u64| Case {
            series: series.into(),
            x: delay as f64,
            merges,
            elements: elements(delay),
            delay,
        };
        [0, 250, 500].map(case)
    };
    let juggler =
        |delay: u64| format!("Juggler(FLOWS 512, LINE_RATE 1Gbps, OFO_TIMEOUT {}us) ->", delay + 50);
    let cases: Vec<Case> =
        [of("the kernel's GRO, 125 µs", true, &|_| String::new()), of("Juggler", false, &juggler)]
            .into_iter()
            .flatten()
            .collect();
    let all = in_turns(run, "juggler-10", &Connections::new(count), &cases)?;
    let shown = ["gbps", "delivered_per_1000", "behind_gap_per_1000", "receiver_s_per_gb"];
    let (table, mut panels, series) =
        outcome(("delay_us", Axis::linear("difference of paths, µs")), &shown, &cases, &all);
    let at = |panel: usize, way: usize, place: usize| series[panel][way].points[place].y;
    panels[2].series.push(behind_gap_of_paper(&series[0]));
    panels.insert(1, throughput_of_paper(&series[0]));
    let finding = Finding {
        paper: "with 256 flows as with one: with reordering the kernel loses a third of its throughput and saturates \
                a core, Juggler takes 10 % more of a core."
            .into(),
        here: format!(
            "{count} connections get {:.2} Gb/s in order and {:.2} over paths that differ by 500 µs with the kernel's \
             GRO, {:.2} and {:.2} with Juggler; of 1000 segments {:.0} and {:.0} are delivered to TCP, {:.0} and \
             {:.0} with Juggler; receiving takes {:.2} and {:.2} s per GB, {:.2} and {:.2} with Juggler.",
            at(0, 0, 0), at(0, 0, 2), at(0, 1, 0), at(0, 1, 2),
            at(1, 0, 0), at(1, 0, 2), at(1, 1, 0), at(1, 1, 2),
            at(3, 0, 0), at(3, 0, 2), at(3, 1, 0), at(3, 1, 2)
        ),
        bound: "the link has 1 Gb/s, and the threads of all senders and receivers share two cores with the network \
                between them: while the network waits for a core, packets come too late even for Juggler, and queues \
                overflow."
            .into(),
    };
    Ok(FigureResults { table, panels, finding })
}

/// Returns a case for each difference of delays in `DELAYS` and each of Juggler's timeouts in `times`.
/// `elements` returns the elements upstream of the receiver for a difference and a timeout, both in
/// microseconds.
fn over(run: &FigureRun<'_>, times: &[u64], elements: &dyn Fn(u64, u64) -> String) -> Vec<Case> {
    let mut cases = Vec::new();
    for delay in DELAYS {
        for time in run.some(times) {
            cases.push(Case {
                series: format!("paths differ by {delay} µs"),
                x: time as f64,
                merges: false,
                elements: elements(delay, time),
                delay,
            });
        }
    }
    cases
}

/// Measures Figure 13: the throughput of one connection over the time for which segments wait after a gap
/// (OFO_TIMEOUT).
pub(in super::super) fn waiting(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let cases = over(run, &[0, 100, 200, 300, 500, 800, 1100], &|_, time| {
        format!("Juggler(LINE_RATE 1Gbps, OFO_TIMEOUT {time}us) ->")
    });
    let all = in_turns(run, "juggler-13-tcp", &Connections::new(1), &cases)?;
    let shown = ["gbps", "behind_gap_per_1000", "acks_per_1000", "receiver_s_per_gb"];
    let (table, panels, series) =
        outcome(("ofo_timeout_us", Axis::linear("OFO_TIMEOUT, µs")), &shown, &cases, &all);
    let told = series[0].iter().zip(DELAYS).map(|(series, delay)| {
        let most = series.points.iter().map(|point| point.y).fold(0.0, f64::max);
        let enough = series.points.iter().find(|point| point.y >= 0.95 * most);
        let least = series.points.first().map_or(f64::NAN, |point| point.y);
        let enough = enough.map_or(f64::NAN, |point| point.x);
        format!("{least:.2} of {most:.2} Gb/s at 0 µs and 95 % from {enough:.0} µs on if paths differ by {delay} µs")
    });
    let finding = Finding {
        paper: "throughput falls unless OFO_TIMEOUT is about the difference of the paths, less the 125 µs for which \
                the interface gathers packets.".into(),
        here: format!("one connection gets {}.", told.collect::<Vec<_>>().join("; ")),
        bound: "this kernel's TCP tolerates more reordering than the paper's (RACK-TLP, RFC 8985); the link has 1 \
                Gb/s.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}

/// Measures Figure 12: the number of segments delivered to TCP, and the cost of receiving them, over the
/// time for which segments in sequence wait to be merged (INSEQ_TIMEOUT).
pub(in super::super) fn merging(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let cases = over(run, &[0, 50, 150, 300, 524, 1000], &|delay, time| {
        format!("Juggler(INSEQ_TIMEOUT {time}us, OFO_TIMEOUT {}us) ->", delay + 50)
    });
    let all = in_turns(run, "juggler-12-tcp", &Connections::new(1), &cases)?;
    let shown = ["gbps", "delivered_per_1000", "receiver_s_per_gb", "soft_interrupts_s_per_gb"];
    let (table, panels, series) =
        outcome(("inseq_timeout_us", Axis::linear("INSEQ_TIMEOUT, µs")), &shown, &cases, &all);
    let of = |panel: usize, time: f64| {
        let point = series[panel][0].points.iter().find(|point| point.x == time);
        point.map_or(f64::NAN, |point| point.y)
    };
    let finding = Finding {
        paper:
            "batches and the saved processor time grow up to the time that 64 KiB take at the line rate, and \
                hardly beyond it."
                .into(),
        here: format!(
            "with paths that differ by 250 µs {:.0} of 1000 segments are delivered to TCP at 0 µs, {:.0} at 524 µs, \
             which is the time of 64 KiB on this link, and {:.0} at 1000 µs; receiving takes {:.2}, {:.2} and {:.2} s \
             per GB.",
            of(1, 0.0),
            of(1, 524.0),
            of(1, 1000.0),
            of(2, 0.0),
            of(2, 524.0),
            of(2, 1000.0)
        ),
        bound: "the link has 1 Gb/s, a tenth of the paper's, so that the times are ten times as long.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}
