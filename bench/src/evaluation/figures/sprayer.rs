//! Sprayer's figures: packets of one connection spread over all cores.

use super::{series, value, word};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::spraying::Part;
use crate::{Row, devices, spraying};

/// The amount of work per packet, in processor cycles, at which numbers of connections are compared.
const MOST: f64 = 10_000.0;

fn steering(row: &Row) -> String {
    let threads = value(row, "threads");
    let workers = if threads == 1.0 { "one worker".into() } else { format!("{threads} workers") };
    match word(row, "steering") {
        one if threads == 1.0 && one == "rss" => workers,
        way => format!("{way}, {workers}"),
    }
}

/// Measures Figures 6a, 7a, 8 and 9: rates on two workers; rates, latency and fairness on eight and 64
/// simulated workers.
pub(super) fn spreading(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    run.step("one connection and several, with work per packet")?;
    let rows = spraying::run(&run.settings)?;
    let of = |name: &str| -> Vec<Row> { rows.iter().filter(|row| row.name == name).cloned().collect() };
    let (measured, simulated) = (of("sprayer"), of("simulated-sprayer"));
    let rate = |row: &Row, x: &str| {
        let quartiles = Some(row.quartiles_ns.map(|ns| 1e3 / ns));
        (steering(row), Point { x: value(row, x), y: row.mpps, quartiles })
    };
    let panel = |title: &str, x, y, series| Panel { title: title.into(), x, y, series };
    let with_work = |rows: &[Row]| -> Vec<Row> {
        rows.iter().filter(|row| value(row, "flows") == 1.0).cloned().collect()
    };
    let with_connections = |rows: &[Row]| -> Vec<Row> {
        rows.iter().filter(|row| value(row, "cycles") == MOST).cloned().collect()
    };
    let cycles = || Axis::linear("cycles of work per packet");
    let connections = || Axis::log("connections");
    let millions = || Axis::linear("rate, million packets/s").more_is_better();
    let point = |row: &Row, x: &str, y: f64| (steering(row), Point { x: value(row, x), y, quartiles: None });
    let measured_work = with_work(&measured);
    let simulated_work: Vec<Row> =
        with_work(&simulated).into_iter().filter(|row| value(row, "threads") > 2.0).collect();
    let simulated_connections: Vec<Row> =
        with_connections(&simulated).into_iter().filter(|row| value(row, "threads") > 2.0).collect();
    let latency = of("simulated-sprayer-latency");
    let fairness = of("simulated-sprayer-fairness");
    let mut indices = series(&fairness, |row| point(row, "flows", row.jain.unwrap_or(f64::NAN)));
    let most = fairness.iter().map(|row| value(row, "flows")).fold(1.0, f64::max);
    indices.push(Series::of_paper("Sprayer paper, spraying", [(1.0, 1.0), (most, 1.0)]));
    let panels = vec![
        panel(
            "6a: one connection, measured",
            cycles(),
            Axis::log("rate, million packets/s").more_is_better(),
            series(&measured_work, |row| rate(row, "cycles")),
        ),
        panel(
            "6a: one connection, simulated",
            cycles(),
            Axis::log("rate, million packets/s").more_is_better(),
            series(&simulated_work, |row| rate(row, "cycles")),
        ),
        panel(
            "7a: 10,000 cycles, measured",
            connections(),
            millions(),
            series(&with_connections(&measured), |row| rate(row, "flows")),
        ),
        panel(
            "7a: 10,000 cycles, simulated",
            connections(),
            Axis::log("rate, million packets/s").more_is_better(),
            series(&simulated_connections, |row| rate(row, "flows")),
        ),
        panel(
            "8: 99th percentile of latency, simulated",
            Axis::linear("load, % of the capacity of one worker"),
            Axis::log("latency, µs").less_is_better(),
            series(&latency, |row| point(row, "load", row.latency_us.map_or(f64::NAN, |[_, most]| most))),
        ),
        panel(
            "9: fairness, simulated",
            connections(),
            Axis::linear("fairness, Jain's index").more_is_better(),
            indices,
        ),
    ];
    let of_way = |rows: &[Row], way: &str, threads: f64, column: &str, place: f64| {
        rows.iter()
            .find(|row| {
                word(row, "steering") == way
                    && value(row, "threads") == threads
                    && value(row, column) == place
            })
            .cloned()
            .ok_or_else(|| format!("no row for {way} on {threads}"))
    };
    let work = with_work(&measured);
    let two = of_way(&work, "spray, by software", 2.0, "cycles", MOST)?;
    let rss = of_way(&work, "rss", 2.0, "cycles", MOST)?;
    let eight = [("spray", 8.0), ("rss", 8.0), ("spray", 64.0), ("rss", 64.0)]
        .map(|(way, threads)| of_way(&simulated_work, way, threads, "cycles", MOST).map(|row| row.mpps));
    let [spray8, rss8, spray64, rss64] = eight;
    let at70 = ["spray", "rss"].map(|way| {
        of_way(&latency, way, 8.0, "load", 70.0).map(|row| row.latency_us.map_or(f64::NAN, |[_, most]| most))
    });
    let [spray70, rss70] = at70;
    let finding = Finding {
        paper: "with one connection and work per packet, spraying on eight cores is several times as fast as RSS, \
                whose rate is that of one core; its 99th percentile is lower, and its fairness is 1.0 whatever the \
                number of flows."
            .into(),
        here: format!(
            "with one connection and 10,000 cycles two workers carry {:.2} times as much spread as with RSS \
             (measured), eight {:.1} times and 64 {:.1} times (simulated); at 70 % load the 99th percentile is {:.0} \
             µs instead of {:.0}.",
            rss.ns_per_packet / two.ns_per_packet,
            spray8? / rss8?,
            spray64? / rss64?,
            spray70?,
            rss70?
        ),
        bound: "the machine has two cores; more cores are a simulation of the same policies with costs measured on \
                two, which is compared with the measurement. With hardly any work per packet, spreading costs more \
                than it brings; therefore `auto` decides."
            .into(),
    };
    Ok(FigureResults { table: Table::of_costs(&rows), panels, finding })
}

/// Simulates section 7: one connection whose packets are spread over k of N workers, and one connection that
/// is spread burst by burst (flowlets).
pub(super) fn parts(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    run.step("costs, and one connection over parts of the workers")?;
    let parts = spraying::parts(&run.settings)?;
    let mut table = Table::new(&["workers", "cores", "gap_us", "mpps", "p99_us", "reordered_per_1000"]);
    for part in &parts {
        let number = |value: Option<u64>| Cell::from(value.map_or(f64::NAN, |value| value as f64));
        let first = [Cell::from(part.workers), number(part.cores), number(part.gap)];
        table.push(first.into_iter().chain([part.mpps, part.p99_us, part.reordered].map(Cell::from)));
    }
    let lines = |x: fn(&Part) -> Option<u64>, y: fn(&Part) -> f64| -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for part in &parts {
            let Some(x) = x(part) else { continue };
            let point = Point { x: x as f64, y: y(part), quartiles: None };
            let name = format!("{} workers", part.workers);
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => all.push(Series::new(name, [point])),
            }
        }
        all
    };
    let panel = |title: &str, x, y, series| Panel { title: title.into(), x, y, series };
    let (cores, gap) = (|| Axis::log("workers that share it"), || Axis::linear("pause, µs"));
    let late = || Axis::linear("packets out of order, of 1000").less_is_better();
    let panels = vec![
        panel(
            "Rate, simulated",
            cores(),
            Axis::log("rate, million packets/s").more_is_better(),
            lines(|p| p.cores, |p| p.mpps),
        ),
        panel("Out of order, simulated", cores(), late(), lines(|p| p.cores, |p| p.reordered)),
        panel(
            "Bursts: 99th percentile of latency, simulated",
            gap(),
            Axis::log("latency, µs").less_is_better(),
            lines(|p| p.gap, |p| p.p99_us),
        ),
        panel("Bursts: out of order, simulated", gap(), late(), lines(|p| p.gap, |p| p.reordered)),
    ];
    let of = |workers: u64, cores: Option<u64>, gap: Option<u64>| {
        let found = parts.iter().find(|part| (part.workers, part.cores, part.gap) == (workers, cores, gap));
        found.ok_or_else(|| format!("nothing for {workers} workers"))
    };
    let [one, four, all] = [of(64, Some(1), None)?, of(64, Some(4), None)?, of(64, Some(64), None)?];
    let [each, bursts] = [of(8, None, Some(0))?, of(8, None, Some(20))?];
    let finding = Finding {
        paper: "spreading over a subset of the cores, and flowlets, are future work that should reorder less; neither is measured.".into(),
        here: format!(
            "with 1, 4 and all of 64 workers, {:.2}, {:.2} and {:.1} million packets of one connection per second are \
             carried, of which {:.0}, {:.0} and {:.0} of 1000 leave after a later packet. At 70 % of one worker's \
             capacity, 99 of 100 packets take {:.0} µs if each packet goes to the next of eight workers, with {:.0} \
             of 1000 out of order; with flowlets after pauses of 20 µs they take {:.0} µs, with {:.0} out of order.",
            one.mpps, four.mpps, all.mpps, one.reordered, four.reordered, all.reordered,
            each.p99_us, each.reordered, bursts.p99_us, bursts.reordered
        ),
        bound: "this is a simulation of the policies with costs measured on two workers; packets come at random \
                times, not in bursts.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}

/// Measures Figures 6b and 7b: the throughput of the kernel's TCP through workers that share connections.
pub(super) fn connections(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    run.step("the kernel's TCP through a translator with work per packet")?;
    let rows = devices::run_connections(&run.settings)?;
    let way = |row: &Row| {
        let order = word(row, "order");
        let order = if order == "none" { String::new() } else { format!(", {order}") };
        format!("{}{order}", steering(row))
    };
    let columns = [
        "steering",
        "order",
        "workers",
        "work",
        "connections",
        "gbps",
        "sent_again_per_1000",
        "behind_gap_per_1000",
    ];
    let mut table = Table::new(&columns);
    for row in &rows {
        let cells: [Cell; 5] = [
            word(row, "steering").into(),
            word(row, "order").into(),
            value(row, "threads").into(),
            value(row, "work").into(),
            value(row, "connections").into(),
        ];
        table.push(cells.into_iter().chain(row.tcp.unwrap_or([f64::NAN; 3]).map(Cell::from)));
    }
    let point = |row: &Row, x: &str| {
        (
            way(row),
            Point { x: value(row, x), y: row.tcp.map_or(f64::NAN, |[rate, ..]| rate), quartiles: None },
        )
    };
    let most = rows.iter().map(|row| value(row, "work")).fold(0.0, f64::max);
    let with =
        |keep: &dyn Fn(&Row) -> bool| -> Vec<Row> { rows.iter().filter(|row| keep(row)).cloned().collect() };
    let (one, many) =
        (with(&|row| value(row, "connections") == 1.0), with(&|row| value(row, "work") == most));
    let panel = |title: &str, x, series: Vec<Series>| Panel {
        title: title.into(),
        x,
        y: Axis::linear("throughput, Gb/s").more_is_better(),
        series,
    };
    let panels = vec![
        panel(
            "6b: one connection",
            Axis::linear("random numbers of work per packet"),
            series(&one, |row| point(row, "work")),
        ),
        panel("7b: most work", Axis::log("connections"), series(&many, |row| point(row, "connections"))),
    ];
    let of = |steering: &str, order: &str| {
        one.iter()
            .find(|row| {
                value(row, "work") == most
                    && word(row, "steering") == steering
                    && word(row, "order") == order
                    && value(row, "threads") == 2.0
            })
            .and_then(|row| row.tcp)
            .map_or(f64::NAN, |[rate, ..]| rate)
    };
    let finding = Finding {
        paper: "one TCP connection gains from spraying although packets are reordered; with many connections RSS is slightly faster.".into(),
        here: format!(
            "with the most work one connection carries {:.2} Gb/s with RSS, {:.2} spread, {:.2} spread with the order \
             kept, {:.2} spread with a Juggler downstream.",
            of("rss", "none"),
            of("spray", "none"),
            of("spray", "keep"),
            of("spray", "juggler")
        ),
        bound: "sender, receiver and both workers share two cores.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}
