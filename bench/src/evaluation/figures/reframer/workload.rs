//! The traffic of section 5 of the Reframer paper, and its Figure 11: a trace is cut into windows, of which 1
//! to 32 are merged, as if they were recorded at the same time.
//!
//! The paper's trace of a campus is not public. Either the user gives a capture, or two traces are generated:
//!
//! - `zipf`: 2.2 Gb/s of packets of 1 KB on average, flow sizes that follow Zipf's law, and SLF 1.2. The
//!   packets of a flow are so close to each other that holding them for 128 µs makes runs about three times
//!   as long.
//! - `campus`: the traffic of `tidegate generate --like campus`, with the paper's numbers about the sizes of
//!   flows and packets and the times between the packets of a flow, from the campus to the Internet.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use capture::{Reader, Writer, WriterOptions};
use trace::generate::campus::{Campus, CampusDirection, CampusGenerator, FEWEST_PACKETS};
use trace::generate::{Generator, Protocols, START, Specification};
use trace::multiply::Windows;

use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};

/// The number of windows into which a trace is cut.
pub(super) const WINDOWS: usize = 32;
/// The length in nanoseconds of a window of a generated trace. Memory does not allow longer windows.
const LENGTH: i64 = 40_000_000;
/// The packets per second of one window of the trace `zipf`.
const RATE: f64 = 275_000.0;

/// A trace and the length of its windows in nanoseconds, with a folder for derived captures.
pub(in super::super) struct Workload {
    /// The name of the trace in tables and legends.
    pub(super) name: &'static str,
    folder: tempfile::TempDir,
    trace: PathBuf,
    length: i64,
}

/// A load: a number of windows of a trace, merged into one capture as if they were recorded at the same time.
pub(in super::super) struct Load {
    pub(in super::super) windows: usize,
    pub(in super::super) capture: PathBuf,
    /// The number of packets in the load (`packets`), and their bytes on the wire (`bytes`).
    pub(in super::super) packets: usize,
    pub(in super::super) bytes: u64,
    /// The mean number of packets per second.
    pub(in super::super) rate: f64,
}

impl Load {
    /// Returns the mean size of a packet in bytes.
    pub(in super::super) fn mean(&self) -> f64 {
        self.bytes as f64 / self.packets.max(1) as f64
    }

    pub(in super::super) fn gbps(&self) -> f64 {
        self.rate * self.mean() * 8.0 / 1e9
    }
}

impl Workload {
    /// Returns the user's capture, or the trace `zipf` if there is none.
    pub(in super::super) fn new(run: &FigureRun<'_>) -> Result<Workload, String> {
        let Some(trace) = &run.trace else { return Workload::generated(run, "zipf", zipf) };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        // If the user gives a capture, the whole capture is divided into windows of equal length.
        let (first, last) = ends(trace)?;
        let length = ((last - first) / WINDOWS as i64).max(1);
        Ok(Workload { name: "capture", folder, trace: trace.clone(), length })
    }

    /// Returns all traces with which a figure is measured: the user's capture, or both generated traces if
    /// there is none.
    pub(super) fn all(run: &FigureRun<'_>) -> Result<Vec<Workload>, String> {
        let mut all = vec![Workload::new(run)?];
        if run.trace.is_none() {
            all.push(Workload::generated(run, "campus", campus)?);
        }
        Ok(all)
    }

    /// Generates a trace. `packets` writes a trace of `WINDOWS` windows of the given length in nanoseconds to
    /// the given file.
    fn generated(
        run: &FigureRun<'_>,
        name: &'static str,
        packets: fn(i64, &Path) -> Result<(), String>,
    ) -> Result<Workload, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let length = if run.is_small() { LENGTH / 100 } else { LENGTH };
        let trace = folder.path().join("trace.pcap");
        packets(length, &trace)?;
        Ok(Workload { name, folder, trace, length })
    }

    /// Returns the legend's name for a series about this trace.
    pub(super) fn legend(&self, name: &str) -> String {
        format!("{}, {name}", self.name)
    }

    /// Merges the first `windows` windows into one capture, as if they were recorded at the same time.
    pub(in super::super) fn load(&self, windows: usize) -> Result<Load, String> {
        let capture = self.folder.path().join(format!("{windows}.pcap"));
        let mut reader = Reader::open(&self.trace).map_err(|error| error.to_string())?;
        let output = std::io::BufWriter::new(File::create(&capture).map_err(|error| error.to_string())?);
        let cut = Windows { count: windows, length: self.length };
        trace::multiply(&mut reader, cut, self.folder.path(), output, &mut |_| {})
            .map_err(|error| error.to_string())?;
        let (packets, bytes) = total(&capture)?;
        let rate = packets as f64 * 1e9 / self.length as f64;
        Ok(Load { windows, capture, packets, bytes, rate })
    }

    /// Returns the path of a file in the folder of derived captures.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Writes the trace `zipf`.
fn zipf(length: i64, trace: &Path) -> Result<(), String> {
    let packets = (RATE * length as f64 / 1e9) as u64 * WINDOWS as u64;
    let specification = Specification {
        flows: (packets / 60).clamp(32, 1 << 20) as u32,
        packets,
        slf: 1.2,
        zipf: 1.0,
        sizes: "66:3,590:1,1514:6"
            .parse()
            .map_err(|error: trace::generate::SizeMixError| error.to_string())?,
        rate: RATE,
        protocol: Protocols::Mix,
        ipv6: 0.0,
        answers: false,
        seed: 1,
    };
    let generator = Generator::new(specification).map_err(|error| error.to_string())?;
    write(trace, in_flights(generator.map(|packet| (packet.time, packet.frame))).into_iter())
        .map_err(|error| error.to_string())
}

/// Writes the trace `campus`. It is the middle half of a generated trace. All flows begin and end within a
/// generated trace, so fewer flows are alive at its beginning and at its end.
fn campus(length: i64, trace: &Path) -> Result<(), String> {
    let direction = CampusDirection::Tx;
    let whole = 2 * length * WINDOWS as i64;
    let packets = ((direction.rate() * whole as f64 / 1e9) as u64).max(FEWEST_PACKETS);
    let generator = CampusGenerator::new(Campus { direction, packets, alive: None, seed: 1 })
        .map_err(|error| error.to_string())?;
    // In a small run, the generator makes a longer trace than is asked for.
    let whole = (packets as f64 * 1e9 / direction.rate()) as i64;
    let start = START * 1_000_000_000 + whole / 4;
    let end = start + length * WINDOWS as i64;
    let packets = generator.map(|packet| (packet.time, packet.frame));
    let middle = packets.skip_while(|(time, _)| *time < start).take_while(|(time, _)| *time < end);
    write(trace, middle).map_err(|error| error.to_string())
}

/// Changes the times of generated packets to times as in a network, and returns the packets in the order of
/// their new times. Packets of a run follow each other as closely as on a link of 100 Gb/s. Of the packets
/// that begin a run, three of four follow soon after the previous packet of their flow, as in a TCP window,
/// with packets of other flows between them.
fn in_flights(packets: impl Iterator<Item = (i64, Vec<u8>)>) -> Vec<(i64, Vec<u8>)> {
    /// The time in nanoseconds between consecutive packets of a run, which are packets of one flow.
    const NEXT: i64 = 80;
    /// The mean time in nanoseconds from one run of a flow to the next run, if the next run follows soon
    /// (`LATER`), and the probability that it follows soon (`SOON`).
    const LATER: f64 = 20_000.0;
    const SOON: f64 = 0.75;
    /// The offsets of the bytes that identify a flow in a frame: IPv4 addresses and ports.
    const FLOW: std::ops::Range<usize> = 26..38;
    let mut random = fastrand::Rng::with_seed(1);
    let mut last: HashMap<Vec<u8>, i64> = HashMap::new();
    let mut before = Vec::new();
    let mut all: Vec<(i64, Vec<u8>)> = packets
        .map(|(time, frame)| {
            let flow = frame.get(FLOW).unwrap_or_default().to_vec();
            let time = match last.get(&flow) {
                Some(last) if before == flow => last + NEXT,
                Some(last) if random.f64() < SOON => last + (-LATER * random.f64().max(1e-9).ln()) as i64,
                // A packet never overtakes the previous packet of its flow.
                Some(last) => time.max(last + NEXT),
                None => time,
            };
            last.insert(flow.clone(), time);
            before = flow;
            (time, frame)
        })
        .collect();
    all.sort_by_key(|(time, _)| *time);
    all
}

fn write(path: &Path, packets: impl Iterator<Item = (i64, Vec<u8>)>) -> std::io::Result<()> {
    let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    let mut writer = Writer::new(std::io::BufWriter::new(File::create(path)?), options);
    for (time, frame) in packets {
        writer.write(time, frame.len() as u32, [&frame[..]])?;
    }
    writer.flush()
}

/// Returns the earliest and the latest time of a capture's packets in nanoseconds; an error if it has none.
fn ends(path: &Path) -> Result<(i64, i64), String> {
    let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
    let mut ends: Option<(i64, i64)> = None;
    while let Some(record) = reader.next().map_err(|error| error.to_string())? {
        ends = Some(match ends {
            Some((first, last)) => (first.min(record.time), last.max(record.time)),
            None => (record.time, record.time),
        });
    }
    ends.ok_or_else(|| format!("{}: no packets", path.display()))
}

/// Returns the number of packets of a capture, and their bytes on the wire.
fn total(path: &Path) -> Result<(usize, u64), String> {
    let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
    let (mut packets, mut bytes) = (0, 0);
    while let Some(record) = reader.next().map_err(|error| error.to_string())? {
        packets += 1;
        bytes += u64::from(record.wire_len);
    }
    Ok((packets, bytes))
}

/// Measures Figure 11: load, number of flows and SLF over the number of windows that are played at the same
/// time.
pub(in super::super) fn characteristics(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let mut table = Table::new(&["traffic", "windows", "packets", "gbps", "flows", "slf"]);
    let mut all: [Vec<Series>; 3] = Default::default();
    let mut said = Vec::new();
    for workload in Workload::all(run)? {
        let name = workload.name;
        all.iter_mut().for_each(|all| all.push(Series::new(name, [])));
        let mut ends = Vec::new();
        for windows in run.some(&[1, 2, 4, 8, 16, 24, WINDOWS]) {
            run.step(&format!("{name}, {windows} windows at the same time"))?;
            let load = workload.load(windows)?;
            let [flows, slf] = super::captures::flows_and_slf(&load.capture)?;
            let figures = [load.gbps(), flows, slf];
            let cells: [Cell; 3] = [name.into(), windows.into(), load.packets.into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
            for (series, y) in all.iter_mut().filter_map(|all| all.last_mut()).zip(figures) {
                series.points.push(Point { x: windows as f64, y, quartiles: None });
            }
            ends.push(figures);
        }
        if let [first, .., last] = &ends[..] {
            said.push(format!(
                "{name}: {:.1} to {:.0} Gb/s with {:.0} to {:.0} flows, SLF {:.2} to {:.2}",
                first[0], last[0], first[1], last[1], first[2], last[2]
            ));
        }
    }
    let [rates, flows, slf] = all;
    let ends = |values: [f64; 2]| {
        let points = [(1.0, values[0]), (WINDOWS as f64, values[1])];
        Series::of_paper("Reframer paper", points)
    };
    let panel = |title: &str, label, series, of_paper: Option<Series>| Panel {
        title: title.into(),
        x: Axis::linear("windows at the same time"),
        y: Axis::linear(label),
        series: Vec::into_iter(series).chain(of_paper).collect(),
    };
    let panels = vec![
        panel("Load", "load, Gb/s", rates, Some(ends([2.2, 70.0]))),
        panel("Flows", "flows", flows, None),
        panel("Packets of a flow in a row", "packets of a flow in a row (SLF)", slf, Some(ends([1.2, 1.2]))),
    ];
    let finding = Finding {
        paper: "one to 32 windows of 20 s of a campus trace give 2.2 to some 70 Gb/s and millions of flows, SLF about 1.2.".into(),
        here: format!("{}.", said.join("; ")),
        bound: "the traces are made (`--trace FILE` uses another one), and windows are as long as memory allows.".into(),
    };
    Ok(FigureResults { table, panels, finding })
}
