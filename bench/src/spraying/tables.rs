//! The tables of docs/sprayer.md, made of the rows of the benchmark `sprayer`.

use std::fmt::Write;

use super::VARIANTS;
use super::figures::{self, CONNECTIONS, CYCLES, LOADS, WORKERS};
use crate::Row;
use crate::serde_params::Param;

/// True if a row belongs to the benchmark `sprayer`: of measurements, of simulations, or of the ring between
/// workers.
pub(crate) fn is_one_of(row: &Row) -> bool {
    let names = ["sprayer", "simulated-sprayer", "handover-ring"];
    names.iter().any(|name| row.name == *name || row.name.starts_with("simulated-sprayer-"))
}

/// Returns all tables as Markdown, in the order of the document.
pub(crate) fn tables(rows: &[&Row]) -> String {
    let mut text = String::new();
    measured(&mut text, rows);
    compared(&mut text, rows);
    let most = CYCLES[CYCLES.len() - 1];
    let millions = |row: &Row| format!("{:.2}", row.mpps);
    let by_cycles = CYCLES.map(|cycles| (with_commas(cycles), vec![("cycles", cycles), ("flows", 1)]));
    let title = "Simulated: million packets per second, one connection";
    simulated(&mut text, rows, (title, "cycles of work", "simulated-sprayer"), &by_cycles, millions);
    let with = |connections: u16| vec![("cycles", most), ("flows", u64::from(connections))];
    let by_connections = CONNECTIONS.map(|connections| (connections.to_string(), with(connections)));
    let title = "Simulated: million packets per second, 10,000 cycles of work";
    simulated(&mut text, rows, (title, "connections", "simulated-sprayer"), &by_connections, millions);
    let by_load = LOADS.map(|load| (format!("{load} %"), vec![("load", load)]));
    let title = "Simulated: microseconds that a packet takes, median / 99th percentile, one connection, 10,000 cycles of work";
    let head = (title, "load, of what one worker bears", "simulated-sprayer-latency");
    simulated(&mut text, rows, head, &by_load, |row| {
        row.latency_us.map_or_else(String::new, |[half, most]| format!("{half:.0} / {most:.0}"))
    });
    let title = "Simulated: Jain's index of connections' rates, 10,000 cycles of work, 90 % of the capacity of all workers";
    let head = (title, "connections", "simulated-sprayer-fairness");
    simulated(&mut text, rows, head, &by_connections, |row| {
        row.jain.map_or_else(String::new, |index| format!("{index:.3}"))
    });
    costs(&mut text, rows);
    handing(&mut text, rows);
    text
}

/// Returns the first row with this name, steering and parameters; None if there is none.
fn find<'a>(
    rows: &'a [&'a Row],
    name: &str,
    steering: &str,
    params: &[(&'static str, u64)],
) -> Option<&'a Row> {
    let has = |row: &Row, key: &'static str, wanted: u64| matches!(row.params.get(key), Some(Param::Number(number)) if *number == wanted);
    let is_of =
        |row: &Row| matches!(row.params.get("steering"), Some(Param::Word(word)) if *word == steering);
    let fits =
        |row: &&&Row| row.name == name && is_of(row) && params.iter().all(|&(key, n)| has(row, key, n));
    rows.iter().find(fits).copied()
}

fn line(text: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        let _ = write!(text, "| {cell} ");
    }
    text.push_str("|\n");
}

fn head(text: &mut String, title: &str, cells: Vec<String>) {
    let _ = writeln!(text, "{title}:\n");
    let rule = vec!["---".to_string(); cells.len()];
    line(text, cells);
    line(text, rule);
}

fn with_commas(number: u64) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

/// Returns the distinct pairs of parameters of the measured rows (cycles of work per packet, number of
/// connections), in the order of the rows.
fn places(rows: &[&Row]) -> Vec<[(&'static str, u64); 2]> {
    let mut places = Vec::new();
    for row in rows.iter().filter(|row| row.name == "sprayer") {
        if let (Some(Param::Number(cycles)), Some(Param::Number(flows))) =
            (row.params.get("cycles"), row.params.get("flows"))
        {
            let place = [("cycles", *cycles), ("flows", *flows)];
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

fn name(place: &[(&'static str, u64); 2]) -> String {
    let [(_, cycles), (_, flows)] = place;
    format!("{flows}, {}", with_commas(*cycles))
}

fn measured(text: &mut String, rows: &[&Row]) {
    let ways = VARIANTS.map(|way| match way.threads {
        1 => "one worker".to_string(),
        _ => format!("two, {}", way.name),
    });
    let title = "Nanoseconds per packet, and how many times faster than one worker that is";
    head(text, title, [vec!["connections, cycles of work".into()], ways.to_vec()].concat());
    for place in places(rows) {
        let cell = |way: &super::Variant| {
            let params = [&place[..], &[("threads", way.threads as u64)]].concat();
            let row = find(rows, "sprayer", way.name, &params);
            row.map_or_else(String::new, |row| {
                let times = row.speedup.map(|times| format!(" ({times:.2})")).unwrap_or_default();
                format!("{:.0}{times}", row.ns_per_packet)
            })
        };
        line(text, [vec![name(&place)], VARIANTS.iter().map(cell).collect()].concat());
    }
    text.push('\n');
}

/// Adds the table that compares measured and simulated rows of two workers.
fn compared(text: &mut String, rows: &[&Row]) {
    let ways = [("rss", "rss"), ("spray, by software", "spray"), ("auto", "auto")];
    let cells = ways.map(|(_, way)| format!("{way}: measured, simulated"));
    let title = "Two workers, nanoseconds per packet, measured and simulated";
    head(text, title, [vec!["connections, cycles of work".into()], cells.to_vec()].concat());
    for place in places(rows) {
        let params = [&place[..], &[("threads", 2)]].concat();
        let cell = |(real, simulated): (&str, &str)| {
            let real = find(rows, "sprayer", real, &params);
            let simulated = find(rows, "simulated-sprayer", simulated, &params);
            real.zip(simulated).map_or_else(String::new, |(real, simulated)| {
                let (real, simulated) = (real.ns_per_packet, simulated.ns_per_packet);
                format!("{real:.0}, {simulated:.0} ({:+.0} %)", 100.0 * (simulated / real - 1.0))
            })
        };
        line(text, [vec![name(&place)], ways.map(cell).to_vec()].concat());
    }
    text.push('\n');
}

/// Adds a table of the simulated rows whose name is `kind`: a column for each number of workers and policy,
/// and a line for each of `lines`, with its label and the parameters of its rows. `value` formats the row of
/// a cell.
fn simulated(
    text: &mut String,
    rows: &[&Row],
    (title, first, kind): (&str, &str, &str),
    lines: &[(String, Vec<(&'static str, u64)>)],
    value: impl Fn(&Row) -> String,
) {
    let columns: Vec<(u64, &str)> =
        WORKERS.iter().flat_map(|&workers| figures::VARIANTS.map(|(way, _)| (workers, way))).collect();
    let cells = columns.iter().map(|(workers, way)| format!("{workers} workers, {way}")).collect();
    head(text, title, [vec![first.to_string()], cells].concat());
    for (name, params) in lines {
        let cell = |(workers, way): &(u64, &str)| {
            let params = [&params[..], &[("threads", *workers)]].concat();
            find(rows, kind, way, &params).map_or_else(String::new, &value)
        };
        line(text, [vec![name.clone()], columns.iter().map(cell).collect()].concat());
    }
    text.push('\n');
}

fn costs(text: &mut String, rows: &[&Row]) {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.name == "simulated-sprayer-cost").collect();
    let names = rows.iter().filter_map(|row| row.params.get("part")).map(|part| part.to_string()).collect();
    head(text, "What the simulation was fed with, nanoseconds per packet", names);
    line(text, rows.iter().map(|row| format!("{:.0}", row.ns_per_packet)));
    text.push('\n');
}

fn handing(text: &mut String, rows: &[&Row]) {
    let title = "Handing over in batches of 32, nanoseconds per packet";
    head(text, title, ["cores", "give and take", "give", "take"].map(String::from).to_vec());
    let of = |cores: u64, side: &str| {
        let is_side = |row: &Row| matches!(row.params.get("side"), Some(Param::Word(word)) if *word == side);
        let has =
            |row: &Row| matches!(row.params.get("cores"), Some(Param::Number(number)) if *number == cores);
        let row = rows.iter().copied().find(|row| row.name == "handover-ring" && is_side(row) && has(row));
        row.map_or(f64::NAN, |row| row.ns_per_packet)
    };
    let sides = ["give and take", "give", "take"];
    for (cores, name) in [(1, "one"), (2, "two")] {
        line(
            text,
            [vec![name.to_string()], sides.map(|side| format!("{:.1}", of(cores, side))).to_vec()].concat(),
        );
    }
    let lines = sides.map(|side| format!("{:.1}", of(2, side) - of(1, side)));
    line(text, [vec!["lines that go from core to core".to_string()], lines.to_vec()].concat());
}
