//! Juggler's figures: TCP over paths that reorder.
//!
//! The effect on the kernel's TCP is measured between network namespaces. The segments that Juggler holds,
//! merges and forwards are counted on the trace clock, for a capture of full frames at 10 Gb/s that two
//! paths reorder (the switch of the paper's Figure 11).

mod calls;
mod connections;
mod guarantee;

pub(super) use calls::{alone, balanced, with_losses};
pub(super) use connections::{many, merging, waiting};
pub(super) use guarantee::{guarantees, step};

use super::{first, relative, series, value, word};
use crate::devices::Receiving;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding, trace_time};
use crate::{Row, devices, juggling};

/// The differences of delays that are measured: the microseconds by which the second path is slower than the
/// first path.
const DELAYS: [u64; 3] = [250, 500, 750];

/// Measures Figure 9: one connection of the kernel's TCP, with each variant of the receiver.
pub(super) fn one_connection(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    run.step("TCP over paths that differ by up to 750 µs")?;
    let rows = devices::run_reordering(&run.settings)?;
    let columns = [
        "receiver",
        "control",
        "delay_us",
        "gbps",
        "delivered_per_1000",
        "behind_gap_per_1000",
        "acks_per_1000",
        "sent_again_per_1000",
        "receiver_s_per_gb",
        "soft_interrupts_s_per_gb",
    ];
    let mut table = Table::new(&columns);
    for row in &rows {
        let Some(told) = &row.receiving else { continue };
        let first: [Cell; 3] =
            [word(row, "receiver").into(), word(row, "control").into(), value(row, "delay_us").into()];
        let figures = [
            told.gbps,
            told.delivered,
            told.behind_gap,
            told.acks,
            told.again,
            told.receiver_s_per_gb,
            told.soft_interrupts_s_per_gb,
        ];
        table.push(first.into_iter().chain(figures.map(Cell::from)));
    }
    let cubic: Vec<Row> = rows.iter().filter(|row| word(row, "control") == "cubic").cloned().collect();
    let panel = |title: &str, y, of: fn(&Receiving) -> f64| Panel {
        title: title.into(),
        x: Axis::linear("difference of paths, µs"),
        y,
        series: series(&cubic, |row| {
            let y = row.receiving.as_ref().map_or(f64::NAN, of);
            (word(row, "receiver"), Point { x: value(row, "delay_us"), y, quartiles: None })
        }),
    };
    let mut panels = vec![
        panel("Throughput, cubic", Axis::linear("throughput, Gb/s").more_is_better(), |told| told.gbps),
        panel(
            "Segments delivered to TCP",
            Axis::linear("segments, of 1000 packets").less_is_better(),
            |told| told.delivered,
        ),
        panel(
            "Segments after a gap",
            Axis::linear("segments after a gap, of 1000").less_is_better(),
            |told| told.behind_gap,
        ),
        panel("ACKs", Axis::linear("ACKs, of 1000 segments").less_is_better(), |told| told.acks),
        panel(
            "The whole machine in soft interrupts",
            Axis::linear("time of processors, s per GB").less_is_better(),
            |told| told.soft_interrupts_s_per_gb,
        ),
    ];
    let throughput = panels[0].series.clone();
    panels[2].series.push(behind_gap_of_paper(&throughput));
    panels.insert(1, throughput_of_paper(&throughput));
    let of = |receiver: &str, delay: f64| {
        let row =
            cubic.iter().find(|row| word(row, "receiver") == receiver && value(row, "delay_us") == delay);
        row.and_then(|row| row.receiving).ok_or_else(|| format!("nothing of {receiver} at {delay} µs"))
    };
    let (gro, juggler) = (of("gro", 500.0)?, of("juggler", 500.0)?);
    let (gro_in_order, juggler_in_order) = (of("gro", 0.0)?, of("juggler", 0.0)?);
    let finding = Finding {
        paper: "with reordering the kernel processes 15 times as many segments, 40 % of them out of order, sends 15 \
                times as many ACKs and loses 35 % of its throughput; Juggler hides the reordering for at most 10 % of \
                a core."
            .into(),
        here: format!(
            "with paths that differ by 500 µs the kernel's GRO delivers {:.0} of 1000 segments (in order {:.0}), \
             {:.0} after a gap, and {:.2} Gb/s of {:.2}; with Juggler {:.0} segments (in order {:.0}), {:.0} after a \
             gap, {:.2} Gb/s of {:.2}.",
            gro.delivered,
            gro_in_order.delivered,
            gro.behind_gap,
            gro.gbps,
            gro_in_order.gbps,
            juggler.delivered,
            juggler_in_order.delivered,
            juggler.behind_gap,
            juggler.gbps,
            juggler_in_order.gbps
        ),
        bound: "the link has 1 Gb/s, and sender, network and receiver share two cores.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}

/// Runs a capture of `flows` flows through two paths and a Juggler with `arguments`, in the time of the
/// capture (trace clock). The second path is slower by `delay` microseconds. Returns the values of Juggler's
/// `handlers` at the end.
fn behind_paths(
    run: &FigureRun<'_>,
    flows: usize,
    delay: u64,
    arguments: &str,
    handlers: &[&str],
) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let capture = folder.path().join("segments.pcap");
    // 100,000 packets are enough for each of 1024 flows to send 64 KiB twice.
    let packets = if run.is_small() { 5_000 } else { 100_000 };
    juggling::write_capture(&capture, packets, flows).map_err(|error| error.to_string())?;
    let text = format!(
        "FromDump({}, STOP true) -> RandomPath(0us, {delay}us) -> j :: Juggler(FLOWS 4096, LINE_RATE 10Gbps, {arguments}) -> Discard",
        capture.display()
    );
    let handlers: Vec<_> = handlers.iter().map(|handler| ("j", *handler)).collect();
    trace_time::read_after(text, &handlers)
}

/// Returns the smallest and the largest x above 0 of the points. An x is the difference of the paths' delays,
/// so above 0 packets are reordered.
fn reordered(all: &[Series]) -> [f64; 2] {
    let places = || all.iter().flat_map(|series| &series.points).map(|point| point.x).filter(|x| *x > 0.0);
    [places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max)]
}

/// Returns the paper's number of segments after a gap, 400 per thousand, as a series: a horizontal line over
/// the differences of delays that reorder packets. The paper's paths do not differ by a fixed time.
fn behind_gap_of_paper(all: &[Series]) -> Series {
    Series::of_paper("Juggler paper, the kernel alone", reordered(all).map(|x| (x, 400.0)))
}

/// Returns a panel with the throughput of each series divided by its throughput without reordering, and with
/// the paper's value (0.65).
fn throughput_of_paper(all: &[Series]) -> Panel {
    let mut series = relative(all, first);
    let of_paper = reordered(all).map(|x| (x, 0.65));
    series.push(Series::of_paper("Juggler paper, the kernel alone", of_paper));
    Panel {
        title: "Throughput, in order = 1".into(),
        x: Axis::linear("difference of paths, µs"),
        y: Axis::linear("throughput, in order = 1").more_is_better(),
        series,
    }
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(f64::NAN)
}

/// Measures Figure 12 on the trace clock: the mean number of segments that Juggler merges into one packet,
/// over the time for which segments in sequence wait for more (INSEQ_TIMEOUT).
pub(super) fn batching(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const TIMES: [u64; 8] = [0, 5, 10, 20, 35, 52, 75, 100];
    let mut table = Table::new(&["delay_us", "inseq_timeout_us", "segments_per_packet"]);
    let mut all: Vec<Series> = Vec::new();
    for delay in DELAYS {
        let mut points = Vec::new();
        for time in run.some(&TIMES) {
            run.step(&format!("paths differ by {delay} µs, INSEQ_TIMEOUT {time} µs"))?;
            let arguments = format!("INSEQ_TIMEOUT {time}us, OFO_TIMEOUT {}us", delay + 50);
            let merged = number(&behind_paths(run, 1, delay, &arguments, &["merged"])?[0]);
            table.push([delay.into(), time.into(), merged.into()]);
            points.push(Point { x: time as f64, y: merged, quartiles: None });
        }
        all.push(Series::new(format!("paths differ by {delay} µs"), points));
    }
    all.push(Series::of_paper("Juggler paper, at 0 µs", [(0.0, 25.0)]));
    let at = |series: &Series, x: f64| {
        series
            .points
            .iter()
            .find(|point| point.x == x)
            .or(series.points.last())
            .map_or(f64::NAN, |point| point.y)
    };
    let here = format!(
        "with paths that differ by 250 µs {:.1} segments are merged into one at 0 µs, {:.1} at 52 µs and {:.1} at 100 \
         µs.",
        at(&all[0], 0.0),
        at(&all[0], 52.0),
        at(&all[0], 100.0)
    );
    let panel = Panel {
        title: "Segments merged into one".into(),
        x: Axis::linear("INSEQ_TIMEOUT, µs"),
        y: Axis::linear("segments merged into one").more_is_better(),
        series: all,
    };
    let finding = Finding {
        paper: "batches grow up to the time that 64 KiB take at the line rate (52 µs at 10 Gb/s), and hardly beyond \
                it.".into(),
        here,
        bound: "44 full frames take 54 µs on the line, with preamble, check sequence and gap, so that 52 µs are too \
                short for them; in the time of a capture, merging has no cost: `bench juggler` measures it."
            .into(),
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Measures Figure 13 on the trace clock: the segments that leave Juggler out of order, over the time for
/// which segments wait after a gap (OFO_TIMEOUT).
pub(super) fn late(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const TIMES: [u64; 9] = [0, 100, 200, 300, 400, 500, 600, 800, 1000];
    let mut table =
        Table::new(&["delay_us", "ofo_timeout_us", "out_of_order_per_1000", "came_out_of_order_per_1000"]);
    let mut all: Vec<Series> = Vec::new();
    for delay in DELAYS {
        let mut points = Vec::new();
        for time in run.some(&TIMES) {
            run.step(&format!("paths differ by {delay} µs, OFO_TIMEOUT {time} µs"))?;
            let arguments = format!("INSEQ_TIMEOUT 15us, OFO_TIMEOUT {time}us");
            let handlers = ["reordered_in", "reordered_out", "segments_in"];
            let told: Vec<f64> =
                behind_paths(run, 1, delay, &arguments, &handlers)?.iter().map(|told| number(told)).collect();
            let of = |count: f64| 1000.0 * count / told[2].max(1.0);
            table.push([delay.into(), time.into(), of(told[1]).into(), of(told[0]).into()]);
            points.push(Point { x: time as f64, y: of(told[1]), quartiles: None });
        }
        all.push(Series::new(format!("paths differ by {delay} µs"), points));
    }
    let enough = all.iter().map(|series| {
        let first = series.points.iter().find(|point| point.y < 1.0);
        first.map_or_else(|| "never".to_string(), |point| format!("{} µs", point.x))
    });
    let here = format!(
        "less than one of 1000 segments leaves out of order from {} on, if paths differ by 250, 500 and 750 µs.",
        enough.collect::<Vec<_>>().join(", ")
    );
    let panel = Panel {
        title: "Segments that leave out of order".into(),
        x: Axis::linear("OFO_TIMEOUT, µs"),
        y: Axis::linear("segments out of order, of 1000").less_is_better(),
        series: all,
    };
    let finding = Finding {
        paper: "throughput falls unless OFO_TIMEOUT is at least about the difference of the paths.".into(),
        here,
        bound:
            "this shows the cause, in the time of a capture; throughput of TCP itself is in juggler-9, with \
                OFO_TIMEOUT 50 µs longer than the difference of the paths."
                .into(),
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Measures Figures 15 and 16: the length of Juggler's list of active flows, recorded at the end of each
/// batch. The plotted value is the upper bound of the length in 99 of 100 cases.
pub(super) fn lists(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const FLOWS: [usize; 5] = [64, 128, 256, 512, 1024];
    let mut table = Table::new(&["delay_us", "flows", "active_p50_below", "active_p99_below"]);
    let mut all: Vec<Series> = Vec::new();
    for delay in [250, 500, 750, 1000] {
        let mut points = Vec::new();
        for flows in run.some(&FLOWS) {
            run.step(&format!("{flows} connections, paths differ by {delay} µs"))?;
            let arguments = format!("INSEQ_TIMEOUT 15us, OFO_TIMEOUT {}us", delay + 50);
            let told = behind_paths(run, flows, delay, &arguments, &["lengths"])?;
            let [half, most] = [0.5, 0.99].map(|part| below(&told[0], part));
            table.push([delay.into(), flows.into(), half.into(), most.into()]);
            points.push(Point { x: flows as f64, y: most, quartiles: None });
        }
        all.push(Series::new(format!("paths differ by {delay} µs"), points));
    }
    let most = all.iter().flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max);
    let panel = Panel {
        title: "Active flows: below this in 99 of 100 cases".into(),
        x: Axis::log("connections"),
        y: Axis::linear("active flows").less_is_better(),
        series: all,
    };
    let finding = Finding {
        paper: "up to some dozens of flows are active with 256 connections and 1 ms, fewer with more connections; on a real network fewer than 5."
            .into(),
        here: format!("never more than {most:.0} in 99 of 100 cases, with 64 to 1024 connections and paths that differ by up to 1 ms."),
        bound: "eight flows send 64 KiB at a time; the measured bounds are powers of two.".into(),
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Returns the upper bound of the length of Juggler's list of active flows in a fraction `part` of the
/// recorded cases; NaN if no case was recorded. `lengths` is the text of the handler: each line has the name
/// of a list, a bound and a count.
fn below(lengths: &str, part: f64) -> f64 {
    let lines: Vec<(f64, f64)> = lengths
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("active <")?.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    let all: f64 = lines.iter().map(|(_, count)| count).sum();
    let mut sum = 0.0;
    for (bound, count) in lines {
        sum += count;
        if sum >= part * all {
            return bound;
        }
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_active_flows() {
        let lengths = "inactive <1 5\nactive <1 90\nactive <2 8\nactive <16 2\nloss_recovery <1 100\n";
        assert_eq!([0.5, 0.98, 0.99].map(|part| below(lengths, part)), [1.0, 2.0, 16.0]);
        assert!(below("", 0.5).is_nan());
    }
}
