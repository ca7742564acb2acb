//! Reframer's Figure 5: cache misses per packet, simulated.
//!
//! Virtual machines have no counters of cache misses. So the caches are callgrind's model: first-level caches
//! and a last level with the sizes of this machine, without prefetching. The start of the program (reading,
//! building, the first round of packets) costs the same in a short and in a long run. So the difference of
//! both runs is the cost of the additional packets.

use std::path::Path;
use std::process::Command;

use super::{FRAME, SLF};
use crate::evaluation::figures::reframer::FLOWS;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::translation::NAT;
use crate::{classify, source};

/// The number of rules of the firewall. There are fewer rules than in other figures, because the simulation
/// is slow.
const RULES: usize = 5_000;

/// The sums of callgrind's counts of events: instructions, and data misses of the first and of the last
/// level.
#[derive(Clone, Copy, Default)]
struct Counts {
    instructions: f64,
    first_level: f64,
    last_level: f64,
}

pub(in super::super) fn misses(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rules = classify::mostly_permitting(&classify::made(if run.is_small() { 50 } else { RULES }));
    let functions =
        [("translator", NAT.to_string()), ("firewall", format!("IPFilter({rules} allow all) -> Discard"))];
    let packets = if run.is_small() { 640 } else { 32_000 };
    let flows = (packets / SLF[SLF.len() - 1]).min(FLOWS);
    let mut table = Table::new(&["function", "slf", "instructions", "l1_data_misses", "last_level_misses"]);
    let mut all: [Vec<Series>; 2] = Default::default();
    let mut said = Vec::new();
    for (name, chain) in functions {
        let mut points: [Vec<Point>; 2] = Default::default();
        for slf in run.some(&[1, 4, 32]) {
            run.step(&format!("{name}, {slf} of a flow in a row"))?;
            let capture = folder.path().join(format!("{slf}.pcap"));
            write(&capture, packets, flows, slf).map_err(|error| error.to_string())?;
            let [short, long] = [1, 3].map(|loops| count(folder.path(), &capture, loops, &chain));
            let (short, long) = (short?, long?);
            let per = |of: fn(&Counts) -> f64| (of(&long) - of(&short)).max(0.0) / (2 * packets) as f64;
            let counts = [
                per(|counts| counts.instructions),
                per(|counts| counts.first_level),
                per(|counts| counts.last_level),
            ];
            let cells: [Cell; 2] = [name.into(), slf.into()];
            table.push(cells.into_iter().chain(counts.map(Cell::from)));
            for (points, count) in points.iter_mut().zip(&counts[1..]) {
                points.push(Point { x: slf as f64, y: *count, quartiles: None });
            }
        }
        if let [first, .., last] = &points[0][..] {
            said.push(format!("{name} {:.1} to {:.1}", first.y, last.y));
        }
        all.iter_mut().zip(points).for_each(|(all, points)| all.push(Series::new(name, points)));
    }
    let titles = ["Misses of the first level (data), simulated", "Misses of the last level, simulated"];
    let panels = titles.into_iter().zip(all).map(|(title, series)| Panel {
        title: title.into(),
        x: Axis::log("packets of a flow in a row (SLF)"),
        y: Axis::linear("misses per packet").less_is_better(),
        series,
    });
    let finding = Finding {
        paper: "misses of the first level fall steeply with SLF; there are hardly any of the second and last level.".into(),
        here: format!("from SLF 1 to 32, first-level data misses per packet as callgrind simulates them: {}.", said.join("; ")),
        bound: "the misses are simulated, not counted; the firewall has 5,000 rules and there are 1,000 flows, \
                because the simulation is slow; the misses on the packets' own lines, which no order saves, are \
                included."
            .into(),
    };
    Ok(FigureResults { table, panels: panels.collect(), finding })
}

fn write(path: &Path, packets: usize, flows: usize, slf: usize) -> std::io::Result<()> {
    let mut writer = capture::Writer::new(std::fs::File::create(path)?, capture::WriterOptions::default());
    for number in 0..packets {
        let frame = source::frame(source::in_runs(number, slf), flows, FRAME);
        writer.write(number as i64, frame.len() as u32, [&frame[..]])?;
    }
    writer.flush()
}

/// Runs this program under callgrind, which sends the packets of a capture `loops` times through a chain.
/// Returns callgrind's counts.
fn count(folder: &Path, capture: &Path, loops: usize, chain: &str) -> Result<Counts, String> {
    let output = folder.join("callgrind.out");
    let config = format!("InMemoryNic({}, LOOPS {loops}) -> MarkIPHeader(14) -> {chain}", capture.display());
    // The configuration is in a file, because one with thousands of rules is too long for an argument.
    let file = folder.join("chain.click");
    std::fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--quiet"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args(["run", "-q"])
        .arg(&file)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !ran.status.success() {
        return Err(format!("valgrind: {}", String::from_utf8_lossy(&ran.stderr).trim()));
    }
    let text = std::fs::read_to_string(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    totals(&text).ok_or_else(|| "callgrind gives no totals".to_string())
}

/// Returns the totals of a callgrind profile, in which one line has the names of events and another line
/// the numbers. None if a line is missing or wrong.
fn totals(text: &str) -> Option<Counts> {
    let names = text.lines().find_map(|line| line.strip_prefix("events: "))?;
    let numbers = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")))?;
    let mut counts = Counts::default();
    for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
        let number: f64 = number.parse().ok()?;
        match name {
            "Ir" => counts.instructions += number,
            "D1mr" | "D1mw" => counts.first_level += number,
            "DLmr" | "DLmw" => counts.last_level += number,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found_by_the_names_of_events() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\nfn=x\n1 2\ntotals: 100 40 20 1 5 3 0 2 1\n";
        let counts = totals(text).unwrap();
        assert_eq!([counts.instructions, counts.first_level, counts.last_level], [100.0, 8.0, 3.0]);
        assert!(totals("events: Ir\n").is_none());
    }
}
