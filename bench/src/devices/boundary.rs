//! The benchmark `boundary`: packets cross to a network function in another namespace and back, whole and
//! sliced.
//!
//! The first program replays packets from memory, sends them over a veth pair and receives them again. Each
//! packet is copied into the kernel and out of it in both directions. A second program, in a namespace of its
//! own, is the network function. Both programs share the cores of the machine. Throughput is the number of
//! packets per second that come back at full load. Latency is measured at a rate that whole and sliced
//! packets both sustain.

use std::fmt;
use std::io::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::Net;
use serde::Serialize;

use super::{Interrupt, Program, is_possible, numbers};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median, source};

/// The measured network functions: the name in result rows, and the elements.
const FUNCTIONS: [(&str, &str); 2] = [
    ("l2", "EtherMirror"),
    ("nat", "MarkIPHeader(14) -> IPRewriter(pattern 9.9.9.9 1024-65535 - - 0 0) -> EtherMirror"),
];
/// The sizes of frames in bytes, without the check sequence of four bytes that network cards append.
const FRAMES: [usize; 2] = [60, 1514];
/// The number of packets in memory that are replayed (`PACKETS`), and the number of their flows (`FLOWS`).
const PACKETS: usize = 4096;
const FLOWS: usize = 1000;
/// The packets per second at which latency is measured.
const RATE: u32 = 20_000;
/// The offset in a frame at which a packet number is written, after the UDP header.
const NUMBER: usize = 42;

/// The results of packets that crossed to a network function and came back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crossing {
    /// The mean number of bytes per packet that crossed to the function.
    pub bytes: f64,
    /// The thousands of packets per second that came back at full load.
    pub kpps: f64,
    /// The median and the 90th percentile of the latency in microseconds, at a low rate.
    pub latency_us: [f64; 2],
}

impl Crossing {
    fn median(samples: &[Crossing]) -> Crossing {
        let of = |what: fn(&Crossing) -> f64| median(samples.iter().map(what).collect());
        Crossing {
            bytes: of(|sample| sample.bytes),
            kpps: of(|sample| sample.kpps),
            latency_us: [of(|sample| sample.latency_us[0]), of(|sample| sample.latency_us[1])],
        }
    }
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crossing { bytes, kpps, latency_us: [p50, p90] } = self;
        write!(f, "{bytes:.0} bytes cross, {kpps:.0} kpps, p50 {p50:.0} us, p90 {p90:.0} us")
    }
}

/// Measures a row for each function and frame size, with whole and with sliced packets. Prints a message
/// and returns no rows if network namespaces, `ip` or `ethtool` cannot be used.
pub(crate) fn run(settings: &Settings) -> std::result::Result<Vec<Row>, String> {
    let interrupt = Interrupt::new().map_err(|error| error.to_string())?;
    if let Err(error) = is_possible() {
        eprintln!("slicer: {error}; no rows across a boundary without root, ip and ethtool");
        return Ok(Vec::new());
    }
    measure_all(settings, &interrupt).map_err(|error| error.to_string())
}

fn measure_all(settings: &Settings, interrupt: &Interrupt) -> Result<Vec<Row>> {
    let program = Program::new()?;
    let folder = tempfile::tempdir()?;
    let file = |frame: usize| folder.path().join(format!("{frame}.pcap"));
    for frame in FRAMES {
        source::write_capture(&std::fs::File::create(file(frame))?, PACKETS, FLOWS, frame)?;
    }
    let cases = FUNCTIONS.iter().flat_map(|function| FRAMES.map(|frame| (function, frame)));
    let mut cases: Vec<_> = cases.map(|case| (case, [Vec::new(), Vec::new()])).collect();
    let start = Instant::now();
    for round in 1..=settings.rounds as u32 {
        for ((function, frame), samples) in &mut cases {
            for (slices, samples) in [false, true].into_iter().zip(samples) {
                interrupt.check()?;
                samples.push(measure(&program, function.1, &file(*frame), slices, settings.window)?);
            }
        }
        // Ends the benchmark if another round (of all measurements), of average length, would exceed the time
        // limit.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(cases.iter().flat_map(|((function, frame), samples)| rows(function.0, *frame, samples)).collect())
}

/// Returns the rows of whole and of sliced packets. The floor of both rows is the cost of whole packets, so
/// that the ratio shows the gain of slicing.
fn rows(function: &'static str, frame: usize, samples: &[Vec<Crossing>; 2]) -> [Row; 2] {
    let [whole, _] = samples;
    let row = |way, samples: &Vec<Crossing>| {
        let cost = |sample: &Crossing| 1e6 / sample.kpps;
        let pairs: Vec<_> =
            samples.iter().zip(whole).map(|(a, b)| Pair { cost: cost(a), floor: cost(b) }).collect();
        let params = [
            ("function", Param::Word(function)),
            ("frame", Param::Number(frame as u64)),
            ("packets", Param::Word(way)),
        ];
        Row { crossing: Some(Crossing::median(samples)), ..Row::new("slicer-boundary", &params, &pairs) }
    };
    [row("whole", &samples[0]), row("sliced", &samples[1])]
}

fn measure(
    program: &Program,
    function: &str,
    frames: &Path,
    slices: bool,
    window: Duration,
) -> Result<Crossing> {
    let mut net = Net::new()?;
    let (host, other) = (net.space("host")?, net.space("nf")?);
    net.cable([(&host, "nf0", ""), (&other, "eth0", "")])?;
    let config = format!("{} -> {function} -> ToDevice(eth0)", program.receive("eth0"));
    let _function = program.run(&other, &[], &config)?;
    let receive = program.receive("nf0");
    let once = |source: &str, front: &str, meter: &str, values: &str| -> Result<Vec<f64>> {
        let (there, back) = match slices {
            true => ("[0] s :: Slicer(ENTRIES 8192); s[1] ->", "-> [1] s; s[0]"),
            false => ("", ""),
        };
        let config = format!(
            "InMemoryNic({}, LOOPS -1{source}) -> {front} {there} crossed :: Counter -> ToDevice(nf0);
             {receive} {back} -> came :: Counter -> {meter} Discard;
             Script(wait 0.2s, write came.reset, write crossed.reset, wait {}s, print \"measured {values}\", stop)",
            frames.display(),
            window.as_secs_f64(),
        );
        let mut running = program.run(&host, &[], &config)?;
        let line = running.wait_for("measured")?;
        numbers(&line, "measured")
    };
    let full = once("", "", "", "$(came.count) $(crossed.byte_count) $(crossed.count)")?;
    let front = format!("NumberPacket({NUMBER}) -> r :: RecordTimestamp(OFFSET {NUMBER}, DYNAMIC true) ->");
    let meter = format!("d :: TimestampDiff(r, OFFSET {NUMBER}, VERBOSE false) ->");
    let slow = once(&format!(", RATE {RATE}"), &front, &meter, "$(d.median) $(d.perc90) $(came.count)")?;
    let [came, bytes, crossed] = full[..] else { return Err(Error::other("no figures")) };
    let [p50, p90, _] = slow[..] else { return Err(Error::other("no figures")) };
    Ok(Crossing {
        bytes: bytes / crossed.max(1.0),
        kpps: came / window.as_secs_f64() / 1e3,
        latency_us: [p50, p90],
    })
}

/// A boundary at which latency is measured by probes: whole packets that cross together with a load of other
/// packets. There are so few probes that they add hardly any load (NFSlicer, Section V).
pub(crate) struct Probing {
    program: Program,
    folder: tempfile::TempDir,
}

/// The load of packets that cross to the network function in another namespace together with the probes.
pub(crate) struct Load<'l> {
    /// The elements of the network function.
    pub(crate) function: &'l str,
    /// The size in bytes of the load's frames.
    pub(crate) frame: usize,
    /// Further arguments of the Slicer, each after a comma; None if the load is not sliced.
    pub(crate) slicer: Option<&'l str>,
    /// The packets per second of the load.
    pub(crate) rate: u64,
}

/// The results of the probes (packets whose latency is measured) and of the load (the other packets).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probed {
    /// The latency of probes in microseconds: mean, median and 90th percentile.
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    /// The mean number of bytes per packet of the load that crossed, probes excluded.
    pub(crate) bytes: f64,
    /// The fraction of the load's packets that came back, from 0 to 1.
    pub(crate) part: f64,
}

impl Probing {
    /// The size of a probe in bytes, and the number of probes sent per second.
    const PROBE: usize = 1514;
    const PROBES: u32 = 1000;

    pub(crate) fn new() -> Result<Probing> {
        let (program, folder) = (Program::new()?, tempfile::tempdir()?);
        let mut writer = capture::Writer::new(
            std::fs::File::create(folder.path().join("probe.pcap"))?,
            Default::default(),
        );
        let mut frame = source::frame(0, 1, Self::PROBE);
        // The destination port of probes differs from the port of the load, so that a Classifier can
        // separate them.
        frame[36..38].copy_from_slice(&[0, 7]);
        writer.write(0, frame.len() as u32, [&frame[..]])?;
        writer.flush()?;
        Ok(Probing { program, folder })
    }

    pub(crate) fn measure(&self, load: &Load<'_>, window: Duration) -> Result<Probed> {
        let Load { function, frame, slicer, rate } = *load;
        let load = self.folder.path().join(format!("{frame}.pcap"));
        if !load.exists() {
            source::write_capture(&std::fs::File::create(&load)?, PACKETS, FLOWS, frame)?;
        }
        let mut net = Net::new()?;
        let (host, other) = (net.space("host")?, net.space("nf")?);
        net.cable([(&host, "nf0", ""), (&other, "eth0", "")])?;
        let config = format!("{} -> {function} -> ToDevice(eth0)", self.program.receive("eth0"));
        let receive = self.program.receive("nf0");
        let _function = self.program.run(&other, &[], &config)?;
        let (there, back) = match slicer {
            Some(arguments) => {
                (format!("[0] s :: Slicer(ENTRIES 16384{arguments}); s[1] ->"), "-> [1] s; s[0] -> came")
            }
            None => (String::new(), "-> came"),
        };
        let config = format!(
            "to :: ToDevice(nf0);
             InMemoryNic({}, LOOPS -1, RATE {rate}) -> sent :: Counter -> {there} crossed :: Counter -> to;
             InMemoryNic({}, LOOPS -1, RATE {}) -> NumberPacket({NUMBER})
                 -> r :: RecordTimestamp(OFFSET {NUMBER}, DYNAMIC true) -> to;
             {receive} -> kinds :: Classifier(36/0007, -);
             kinds[0] -> d :: TimestampDiff(r, OFFSET {NUMBER}, VERBOSE false) -> Discard;
             kinds[1] {back} :: Counter -> Discard;
             Script(wait 0.2s, write sent.reset, write came.reset, write crossed.reset, wait {}s,
                 print \"measured $(d.average) $(d.median) $(d.perc90) $(crossed.byte_count) $(crossed.count) $(came.count) $(sent.count)\",
                 stop)",
            load.display(),
            self.folder.path().join("probe.pcap").display(),
            Self::PROBES,
            window.as_secs_f64(),
        );
        let mut running = self.program.run(&host, &["--busy-poll"], &config)?;
        let line = running.wait_for("measured")?;
        match numbers(&line, "measured")?[..] {
            [_, p50, ..] if p50 < 0.0 => Err(Error::other("no probe has come back")),
            [mean, p50, p90, bytes, crossed, came, sent] => {
                Ok(Probed { mean, p50, p90, bytes: bytes / crossed.max(1.0), part: came / sent.max(1.0) })
            }
            _ => Err(Error::other(format!("no figures: {line}"))),
        }
    }
}
