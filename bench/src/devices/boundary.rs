//! Packets to a network function in another namespace and back, whole and sliced.
//!
//! One program gives packets from memory, sends them over a virtual cable, by which each is copied into the kernel and out of it
//! again on both ways, and takes them back; another one, in a namespace of its own, is the function. They share the cores of
//! the machine. Throughput is what comes back where as much is sent as goes; latency is measured at a rate that both bear.

use std::fmt;
use std::io::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::Net;
use serde::Serialize;

use super::{Interrupt, Program, is_possible};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median, source};

/// What the function does, by its name in rows.
const FUNCTIONS: [(&str, &str); 2] = [
    ("l2", "EtherMirror"),
    ("nat", "MarkIPHeader(14) -> IPRewriter(pattern 9.9.9.9 1024-65535 - - 0 0) -> EtherMirror"),
];
/// Bytes of frames, without the checksum of four that cards append.
const FRAMES: [usize; 2] = [60, 1514];
/// Packets in memory, and flows that they are of.
const PACKETS: usize = 4096;
const FLOWS: usize = 1000;
/// Packets per second at which latency is measured.
const RATE: u32 = 20_000;
/// Where packets are numbered: behind the UDP header.
const NUMBER: usize = 42;

/// What came through.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crossing {
    /// Bytes that crossed to the function for each packet.
    pub bytes: f64,
    /// Thousands of packets per second that came back.
    pub kpps: f64,
    /// Microseconds that half of the packets took at most at a low rate, and 90 of 100.
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

/// A row for each function, size and way. None, with a message, where the machine or the user does not allow network
/// namespaces.
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
        // Another round as long as those before has to fit in.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(cases.iter().flat_map(|((function, frame), samples)| rows(function.0, *frame, samples)).collect())
}

/// Whole and sliced; whole packets stand where others have the floor.
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
    let config = format!("FromDevice(eth0, PROMISC true) -> {function} -> ToDevice(eth0)");
    let _function = program.run(&other, &[], &config)?;
    let once = |source: &str, front: &str, behind: &str, values: &str| -> Result<Vec<f64>> {
        let (there, back) = match slices {
            true => ("[0] s :: Slicer(ENTRIES 8192); s[1] ->", "-> [1] s; s[0]"),
            false => ("", ""),
        };
        let config = format!(
            "InMemoryNic({}, LOOPS -1{source}) -> {front} {there} crossed :: Counter -> ToDevice(nf0);
             FromDevice(nf0, PROMISC true) {back} -> came :: Counter -> {behind} Discard;
             Script(wait 0.2s, write came.reset, write crossed.reset, wait {}s, print \"measured {values}\", stop)",
            frames.display(),
            window.as_secs_f64(),
        );
        let mut running = program.run(&host, &[], &config)?;
        let line = running.wait_for("measured")?;
        let words = line.split_whitespace().skip_while(|word| !word.ends_with("measured")).skip(1);
        let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
        numbers
            .filter(|numbers| numbers.len() == 3)
            .ok_or_else(|| Error::other(format!("no figures: {line}")))
    };
    let full = once("", "", "", "$(came.count) $(crossed.byte_count) $(crossed.count)")?;
    let front = format!("NumberPacket({NUMBER}) -> r :: RecordTimestamp(OFFSET {NUMBER}, DYNAMIC true) ->");
    let behind = format!("d :: TimestampDiff(r, OFFSET {NUMBER}, VERBOSE false) ->");
    let slow = once(&format!(", RATE {RATE}"), &front, &behind, "$(d.median) $(d.perc90) $(came.count)")?;
    let [came, bytes, crossed] = full[..] else { return Err(Error::other("no figures")) };
    let [p50, p90, _] = slow[..] else { return Err(Error::other("no figures")) };
    Ok(Crossing {
        bytes: bytes / crossed.max(1.0),
        kpps: came / window.as_secs_f64() / 1e3,
        latency_us: [p50, p90],
    })
}
