//! Reframer's Figures 5 and 20: cache misses per packet, simulated.
//!
//! Virtual machines have no counters of cache misses. So the caches are callgrind's model: first-level caches
//! and a last level with the sizes of this machine, without prefetching. The start of the program (reading,
//! building, the first round of packets) costs the same in a short and in a long run. So the difference of
//! both runs is the cost of the additional packets.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{FRAME, SLF};
use crate::evaluation::figures::panels;
use crate::evaluation::figures::reframer::FLOWS;
use crate::evaluation::plot::{Axis, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::functions::parts;
use crate::translation::NAT;
use crate::{classify, source};

/// The values of the SLF.
const LENGTHS: [usize; 3] = [1, 4, 32];
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

/// The captures with which chains are measured, one for each SLF.
struct Captures {
    folder: tempfile::TempDir,
    packets: usize,
    lengths: Vec<usize>,
}

impl Captures {
    fn new(run: &FigureRun<'_>) -> Result<Captures, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let packets = if run.is_small() { 640 } else { 32_000 };
        let all = Captures { folder, packets, lengths: run.some(&LENGTHS) };
        let flows = (packets / SLF[SLF.len() - 1]).min(FLOWS);
        for slf in &all.lengths {
            write(&all.file(*slf), packets, flows, *slf).map_err(|error| error.to_string())?;
        }
        Ok(all)
    }

    fn file(&self, slf: usize) -> PathBuf {
        self.folder.path().join(format!("{slf}.pcap"))
    }

    /// Returns instructions, data misses of the first level and of the last level per packet of a chain.
    fn per_packet(&self, slf: usize, chain: &str) -> Result<[f64; 3], String> {
        let [short, long] = [1, 3].map(|loops| count(self.folder.path(), &self.file(slf), loops, chain));
        let (short, long) = (short?, long?);
        let per = |of: fn(&Counts) -> f64| (of(&long) - of(&short)).max(0.0) / (2 * self.packets) as f64;
        Ok([
            per(|counts| counts.instructions),
            per(|counts| counts.first_level),
            per(|counts| counts.last_level),
        ])
    }
}

/// Returns the number of rules of the firewall.
fn rules(run: &FigureRun<'_>) -> usize {
    if run.is_small() { 50 } else { RULES }
}

/// Measures Figure 5: a translator and a firewall.
pub(in super::super) fn misses(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let rules = classify::mostly_permitting(&classify::made(rules(run)));
    let functions =
        [("translator", NAT.to_string()), ("firewall", format!("IPFilter({rules} allow all) -> Discard"))];
    let captures = Captures::new(run)?;
    let mut table = Table::new(&["function", "slf", "instructions", "l1_data_misses", "last_level_misses"]);
    let mut all: [Vec<Series>; 2] = Default::default();
    let mut said = Vec::new();
    for (name, chain) in functions {
        let mut points: [Vec<Point>; 2] = Default::default();
        for &slf in &captures.lengths {
            run.step(&format!("{name}, {slf} of a flow in a row"))?;
            let counts = captures.per_packet(slf, &chain)?;
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
    let finding = Finding {
        paper: "misses of the first level fall steeply with SLF; there are hardly any of the second and last level.".into(),
        here: format!("from SLF 1 to 32, first-level data misses per packet as callgrind simulates them: {}.", said.join("; ")),
        bound: BOUND.into(),
    };
    let titles = &PANELS[1..];
    Ok(FigureResults { table, panels: panels(&x(), titles.iter().map(axis), all), finding })
}

/// Measures Figure 20: the elements of the chain. The counts of an element are those of the chain that ends
/// with it, less those of the chain that ends with the element before.
pub(in super::super) fn elements(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let parts = parts(rules(run));
    let captures = Captures::new(run)?;
    let mut table = Table::new(&["element", "slf", "instructions", "l1_data_misses", "last_level_misses"]);
    let mut all: [Vec<Series>; 3] =
        std::array::from_fn(|_| parts.iter().map(|(name, _)| Series::new(*name, [])).collect());
    let mut chains = Vec::new();
    for &slf in &captures.lengths {
        let mut before = [0.0; 3];
        for (number, (name, chain)) in parts.iter().enumerate() {
            run.step(&format!("{name}, {slf} of a flow in a row"))?;
            let counts = captures.per_packet(slf, chain)?;
            let own: [f64; 3] = std::array::from_fn(|figure| counts[figure] - before[figure]);
            let cells: [Cell; 2] = [(*name).into(), slf.into()];
            table.push(cells.into_iter().chain(own.map(Cell::from)));
            for (series, y) in all.iter_mut().zip(own) {
                series[number].points.push(Point { x: slf as f64, y, quartiles: None });
            }
            before = counts;
        }
        chains.push(before);
    }
    let mut said = Vec::new();
    if let [few, .., many] = &chains[..] {
        said.push(format!("the whole chain {:.1} to {:.1}", few[1], many[1]));
    }
    for series in &all[1] {
        if let [few, .., many] = &series.points[..] {
            said.push(format!("{} {:.1} to {:.1}", series.name, few.y, many.y));
        }
    }
    let finding = Finding {
        paper: "with order, a chain has fewer misses of all levels, and most of all of the last level."
            .into(),
        here: format!(
            "from SLF 1 to 32, first-level data misses per packet as callgrind simulates them: {}.",
            said.join("; ")
        ),
        bound: BOUND.into(),
    };
    Ok(FigureResults { table, panels: panels(&x(), PANELS.iter().map(axis), all), finding })
}

/// The titles of panels and the labels of their vertical axes.
const PANELS: [(&str, &str); 3] = [
    ("Instructions", "instructions per packet"),
    ("Misses of the first level (data), simulated", "misses per packet"),
    ("Misses of the last level, simulated", "misses per packet"),
];

/// The bound of both figures.
const BOUND: &str = "the misses are simulated, not counted; the firewall has 5,000 rules and there are 1,000 flows, \
                     because the simulation is slow; the misses on the packets' own lines, which no order saves, are \
                     included.";

fn axis((title, label): &(&'static str, &'static str)) -> (&'static str, Axis) {
    (title, Axis::linear(label).less_is_better())
}

fn x() -> Axis {
    Axis::log("packets of a flow in a row (SLF)")
}

pub(super) fn write(path: &Path, packets: usize, flows: usize, slf: usize) -> std::io::Result<()> {
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
