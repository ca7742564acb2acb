//! Juggler's figures of remote procedure calls: small calls alone, calls that lose packets, and large and
//! small calls over two links with load balancing (Juggler, sections 5.1.2, 5.2.1 and 5.3.2).

use std::time::Duration;

use lab::{Answered, Calls};

use super::DELAYS;
use crate::devices::Calling;
use crate::evaluation::figures::panels;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{median, quartiles};

/// Returns the latency within which a fraction `part` of the remote procedure calls was answered, in
/// microseconds; NaN without calls.
fn micros(answered: &Answered, part: f64) -> f64 {
    answered.percentile(part).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

/// Returns the time for which calls are sent: `seconds`, or less in a small run.
fn time(run: &FigureRun<'_>, seconds: u64) -> Duration {
    if run.is_small() { Duration::from_millis(400) } else { Duration::from_secs(seconds) }
}

/// Measures all cases (name, network, kinds of calls) once in each round, so that disturbances of the machine
/// affect all cases. A case that fails is tried once more. Returns the results indexed by case, kind of calls
/// and round.
fn in_turns(
    run: &FigureRun<'_>,
    figure: &str,
    cases: &[(String, String, Vec<Calls>)],
    time: Duration,
) -> Result<Vec<Vec<Vec<Answered>>>, String> {
    let calling = Calling::new().map_err(|error| error.to_string())?;
    let mut all: Vec<Vec<Vec<Answered>>> =
        cases.iter().map(|(_, _, kinds)| kinds.iter().map(|_| Vec::new()).collect()).collect();
    for round in 1..=run.settings.rounds {
        for ((name, network, kinds), all) in cases.iter().zip(&mut all) {
            run.step(&format!("{name} ({round} of {})", run.settings.rounds))?;
            let once = || calling.measure(network, kinds, time);
            match once().or_else(|_| once()) {
                Ok(answered) => all.iter_mut().zip(answered).for_each(|(all, one)| all.push(one)),
                Err(error) => eprintln!("{figure}: {name}: {error}"),
            }
        }
    }
    Ok(all)
}

/// Returns a point at `x`: the latency within which a fraction `part` of the calls was answered, as median
/// and quartiles over the rounds.
fn point(x: f64, all: &[Answered], part: f64) -> Point {
    let values: Vec<f64> = all.iter().map(|one| micros(one, part)).collect();
    Point { x, y: median(values.clone()), quartiles: Some(quartiles(values)) }
}

/// Measures section 5.1.2: the latency of small calls without other load, with and without Juggler.
pub(in super::super) fn alone(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const VARIANTS: [(&str, &str); 2] =
        [("the kernel alone", "Null"), ("Juggler", "Juggler(LINE_RATE 1Gbps)")];
    let kinds = vec![Calls { bytes: 150, per_second: 1000.0, connections: 1 }];
    let cases = VARIANTS.map(|(name, network)| (name.to_string(), network.to_string(), kinds.clone()));
    let all = in_turns(run, "juggler-latency", &cases, time(run, 4))?;
    let mut table = Table::new(&["receiver", "median_us", "p99_us", "calls"]);
    let mut points = [Vec::new(), Vec::new()];
    for (n, ((name, _), all)) in VARIANTS.iter().zip(&all).enumerate() {
        let both = [0.5, 0.99].map(|part| point(n as f64, &all[0], part));
        let calls: usize = all[0].iter().map(|one| one.times.len()).sum();
        table.push([(*name).into(), both[0].y.into(), both[1].y.into(), calls.into()]);
        points.iter_mut().zip(both).for_each(|(points, point)| points.push(point));
    }
    let of = |n: usize| points[0][n].y;
    let finding = Finding {
        paper: "the median latency of calls of 150 bytes is the same with and without Juggler.".into(),
        here: format!(
            "{:.0} µs with the kernel alone, {:.0} µs with a Juggler upstream of it.",
            of(0),
            of(1)
        ),
        bound: "caller, network and server share two cores, on which they have to be woken up.".into(),
    };
    let [half, most] = points;
    let panel = Panel {
        title: "Calls of 150 bytes".into(),
        x: Axis::names("", VARIANTS.map(|(name, _)| name)),
        y: Axis::linear("latency, µs").less_is_better(),
        series: vec![Series::new("median", half), Series::new("99th percentile", most)],
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Measures Figure 14: the latency of calls of 10 KB over the time for which segments wait after a gap
/// (OFO_TIMEOUT). One packet in 1000 is lost.
pub(in super::super) fn with_losses(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const TIMES: [u64; 6] = [0, 200, 400, 600, 1000, 2000];
    let kinds = [Calls { bytes: 10_000, per_second: 1500.0, connections: 8 }];
    let mut cases = Vec::new();
    let mut places = Vec::new();
    for delay in DELAYS {
        for time in run.some(&TIMES) {
            let network = format!(
                "Queue(2000) -> LinkUnqueue(0us, 1Gbps) -> RandomPath(0us, {delay}us) -> RandomSample(DROP 0.001)
                 -> Juggler(LINE_RATE 1Gbps, OFO_TIMEOUT {time}us)"
            );
            cases.push((
                format!("paths differ by {delay} µs, OFO_TIMEOUT {time} µs"),
                network,
                kinds.to_vec(),
            ));
            places.push((delay, time));
        }
    }
    let all = in_turns(run, "juggler-14", &cases, time(run, 3))?;
    let columns = ["delay_us", "ofo_timeout_us", "median_us", "p99_us", "p999_us", "calls", "unanswered"];
    let mut table = Table::new(&columns);
    let mut series: Vec<Vec<Series>> = vec![Vec::new(); 3];
    for ((delay, time), all) in places.iter().zip(&all) {
        let all = &all[0];
        let three = [0.5, 0.99, 0.999].map(|part| point(*time as f64, all, part));
        let counts = [
            all.iter().map(|one| one.times.len()).sum::<usize>(),
            all.iter().map(|one| one.unanswered).sum(),
        ];
        let first: [Cell; 2] = [(*delay).into(), (*time).into()];
        let figures = three.iter().map(|point| Cell::from(point.y)).chain(counts.map(Cell::from));
        table.push(first.into_iter().chain(figures));
        for (series, point) in series.iter_mut().zip(three) {
            let name = format!("paths differ by {delay} µs");
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series::new(name, [point])),
            }
        }
    }
    let told = series[1].iter().zip(&series[2]).zip(DELAYS).map(|((p99, p999), delay)| {
        let ends = |series: &Series| {
            let of = |point: Option<&Point>| point.map_or(f64::NAN, |point| point.y / 1000.0);
            [of(series.points.first()), of(series.points.last())]
        };
        let ([a, b], [c, d]) = (ends(p99), ends(p999));
        format!("{a:.1} and {b:.1} ms with paths that differ by {delay} µs (99.9th: {c:.1} and {d:.1})")
    });
    let finding = Finding {
        paper: "the 99th percentile is flat up to an OFO_TIMEOUT of about the difference of the paths, and grows \
                rapidly beyond it.".into(),
        here: format!(
            "with an OFO_TIMEOUT of 0 and of 2000 µs the 99th percentile is {}.",
            told.collect::<Vec<_>>().join(", ")
        ),
        bound: "of calls of seven packets each, 7 of 1000 lose a packet, so that the 99.9th percentile shows the cost \
                of a loss.".into(),
    };
    let titles = [
        ("Half of the calls", Axis::linear("latency, µs").less_is_better()),
        ("99th percentile", Axis::log("latency, µs").less_is_better()),
        ("99.9th percentile", Axis::log("latency, µs").less_is_better()),
    ];
    Ok(FigureResults { table, panels: panels(&Axis::linear("OFO_TIMEOUT, µs"), titles, series), finding })
}

/// Measures Figure 20: the latency of small calls while large calls load two links. Load is balanced per
/// flow, per block or per packet.
pub(in super::super) fn balanced(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    /// The bits per second of each of the two links (`LINK`), and the bytes of a large and of a small call.
    const LINK: f64 = 500e6;
    const LARGE: usize = 1 << 20;
    const SMALL: usize = 150;
    /// The number of TCP connections for calls of each size: each of four clients has eight connections to
    /// each of four servers.
    const CONNECTIONS: usize = 4 * 4 * 8;
    /// The bytes on the wire per byte of data in full segments.
    const OVERHEAD: f64 = 1514.0 / 1448.0;
    /// The receiver's Juggler. Its OFO_TIMEOUT is the longest time by which one path can be slower than the
    /// other: the time in which a link of 500 Mb/s sends a full queue of 1 MB.
    const JUGGLER: &str = "Juggler(FLOWS 512, LINE_RATE 1Gbps, OFO_TIMEOUT 16ms, QUEUE 8388608)";
    const VARIANTS: [(&str, &str, &str); 4] = [
        ("per flow", "FLOW", JUGGLER),
        ("per block", "TSO", JUGGLER),
        ("per packet", "PACKET", JUGGLER),
        ("per packet, the kernel alone", "PACKET", "Null"),
    ];
    const LOADS: [u64; 4] = [25, 50, 75, 90];
    let mut cases = Vec::new();
    let mut places = Vec::new();
    for load in run.some(&LOADS) {
        let bits = 2.0 * LINK * load as f64 / 100.0;
        let small = Calls { bytes: SMALL, per_second: bits * 0.005 / 8.0 / 216.0, connections: CONNECTIONS };
        let large = Calls {
            bytes: LARGE,
            per_second: bits * 0.995 / 8.0 / (LARGE as f64 * OVERHEAD),
            connections: CONNECTIONS,
        };
        for (name, mode, receiver) in VARIANTS {
            let network = format!(
                "paths :: PathSelector({mode}); receiver :: {receiver};
                 paths[0] -> Queue(660) -> LinkUnqueue(0us, 500Mbps) -> receiver;
                 paths[1] -> Queue(660) -> LinkUnqueue(0us, 500Mbps) -> receiver; receiver"
            );
            cases.push((format!("{load} % load, {name}"), network, vec![small, large]));
            places.push((load, name));
        }
    }
    let all = in_turns(run, "juggler-20", &cases, time(run, 8))?;
    let columns = [
        "load_percent",
        "way",
        "small_median_us",
        "small_p99_us",
        "large_median_us",
        "large_p99_us",
        "small_calls",
        "large_calls",
        "unanswered",
    ];
    let mut table = Table::new(&columns);
    let mut series: Vec<Vec<Series>> =
        (0..4).map(|_| VARIANTS.map(|(name, _, _)| Series::new(name, [])).into()).collect();
    for ((load, name), all) in places.iter().zip(&all) {
        let x = *load as f64;
        let four = [(0, 0.5), (0, 0.99), (1, 0.5), (1, 0.99)].map(|(kind, part)| point(x, &all[kind], part));
        let calls = |kind: usize| all[kind].iter().map(|one| one.times.len()).sum::<usize>();
        let unanswered: usize = all.iter().flatten().map(|one| one.unanswered).sum();
        let first: [Cell; 2] = [(*load).into(), (*name).into()];
        let figures = four.iter().map(|point| Cell::from(point.y));
        table.push(first.into_iter().chain(figures).chain([calls(0), calls(1), unanswered].map(Cell::from)));
        let way = VARIANTS.iter().position(|way| way.0 == *name).unwrap_or_default();
        series.iter_mut().zip(four).for_each(|(series, point)| series[way].points.push(point));
    }
    let last = |panel: usize, way: usize| {
        series[panel][way].points.last().map_or(f64::NAN, |point| point.y / 1000.0)
    };
    let three =
        |panel: usize| format!("{:.1}, {:.1} and {:.1} ms", last(panel, 0), last(panel, 1), last(panel, 2));
    let finding = Finding {
        paper: "from half of the load on, the tail of short calls is at least two times shorter per packet than per flow, and at 90 % 250 µs \
                shorter than per block."
            .into(),
        here: format!(
            "at 90 % of the load 99 of 100 small calls take at most {} per flow, per block and per packet, calls of 1 \
             MB {}; per packet without Juggler {:.1} and {:.1} ms.",
            three(1),
            three(3),
            last(1, 3),
            last(3, 3)
        ),
        bound: "links of 500 Mb/s, a hundredth of the paper's, because all machines share two cores; times are longer \
                by this factor.".into(),
    };
    let tails: [Vec<(u64, f64)>; 2] =
        [0, 2].map(|way| series[1][way].points.iter().map(|point| (point.x as u64, point.y)).collect());
    let gain = tails[0].iter().zip(&tails[1]).filter(|(flow, packet)| flow.0 == packet.0);
    let gain = gain.map(|(flow, packet)| Point { x: flow.0 as f64, y: flow.1 / packet.1, quartiles: None });
    let gain = vec![
        Series::new("measured here", gain),
        Series::of_paper("Juggler paper, at least", [(50.0, 2.0), (90.0, 2.0)]),
    ];
    let titles = [
        ("Small calls, median", Axis::log("latency, µs").less_is_better()),
        ("Small calls, 99th percentile", Axis::log("latency, µs").less_is_better()),
        ("Calls of 1 MB, median", Axis::log("latency, µs").less_is_better()),
        ("Calls of 1 MB, 99th percentile", Axis::log("latency, µs").less_is_better()),
        (
            "Small calls, 99th percentile: per flow / per packet",
            Axis::linear("per packet = 1").more_is_better(),
        ),
    ];
    series.push(gain);
    Ok(FigureResults {
        table,
        panels: panels(&Axis::linear("load, % of both links"), titles, series),
        finding,
    })
}
