//! TCP over paths that reorder: the kernel's own TCP, with different elements upstream of the receiver
//! (Juggler, section 5).
//!
//! The sender sends frames of ordinary size to the receiver, over a link of 1 Gb/s and two paths. Each
//! packet takes a random path, as in the switch of figure 11. Sender, receiver and network share the cores
//! of one machine.

use std::fmt;
use std::io::Result;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lab::{Flows, Received, Space};
use serde::Serialize;

use super::kernel::{count, soft_interrupts};
use super::{Interrupt, Line, PORT, Program, RIGHT, SEGMENT, is_possible, merge};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median};

/// The elements and the interface setting directly upstream of the receiver.
#[derive(Clone, Copy)]
pub(crate) struct Front<'e> {
    /// True if the receiver's interface merges packets that arrive in order.
    pub(crate) merges: bool,
    /// The microseconds for which the interface holds packets to merge them, as an interface with interrupt
    /// moderation does.
    pub(crate) hold: u64,
    /// The elements downstream of the paths, each with its arrow.
    pub(crate) elements: &'e str,
}

/// A [`Front`] with its name in rows.
struct Way {
    name: &'static str,
    merges: bool,
    hold: u64,
    /// The elements for a difference of delays in microseconds.
    elements: fn(u64) -> String,
}

const PLAIN: Way = Way { name: "plain", merges: false, hold: 0, elements: |_| String::new() };

const WAYS: &[Way] = &[
    PLAIN,
    Way { name: "gro", merges: true, ..PLAIN },
    // The hold time of the paper's testbed.
    Way { name: "gro-125us", merges: true, hold: 125, ..PLAIN },
    Way { name: "juggler", elements: juggler, ..PLAIN },
];

/// Returns a Juggler that waits for late packets 50 microseconds longer than the difference of the paths.
fn juggler(delay: u64) -> String {
    format!("Juggler(LINE_RATE 1Gbps, OFO_TIMEOUT {}us) ->", delay + 50)
}

/// The microseconds by which the second path is slower.
const DELAYS: [u64; 4] = [0, 250, 500, 750];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The most packets that wait for the link: 24 ms, enough for the window of one connection.
const QUEUE: u32 = 2000;

/// The results of the connections. Counts are per thousand segments that were sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Receiving {
    /// Gigabits of data per second.
    pub gbps: f64,
    /// Segments, merged or not, that reached the receiver's TCP.
    pub delivered: f64,
    /// Segments that arrived after a gap.
    pub behind_gap: f64,
    /// Segments that the receiver sent back.
    pub acks: f64,
    /// Segments that were retransmitted.
    pub again: f64,
    /// ACKs that report a duplicate segment (RFC 2883), which was retransmitted needlessly.
    pub in_vain: f64,
    /// Processor seconds of the receiving threads per gigabyte.
    pub receiver_s_per_gb: f64,
    /// Seconds that the whole machine, sender included, spent in soft interrupts per gigabyte.
    pub soft_interrupts_s_per_gb: f64,
}

impl Receiving {
    pub(crate) fn median(samples: &[Receiving]) -> Receiving {
        let of = |what: fn(&Receiving) -> f64| median(samples.iter().map(what).collect());
        Receiving {
            gbps: of(|sample| sample.gbps),
            delivered: of(|sample| sample.delivered),
            behind_gap: of(|sample| sample.behind_gap),
            acks: of(|sample| sample.acks),
            again: of(|sample| sample.again),
            in_vain: of(|sample| sample.in_vain),
            receiver_s_per_gb: of(|sample| sample.receiver_s_per_gb),
            soft_interrupts_s_per_gb: of(|sample| sample.soft_interrupts_s_per_gb),
        }
    }
}

impl fmt::Display for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Receiving { gbps, delivered, behind_gap, acks, again, in_vain, .. } = self;
        write!(
            f,
            "{gbps:.2} Gb/s, of 1000 segments {again:.1} sent again, {in_vain:.1} of them unnecessarily; \
             {delivered:.0} delivered, {behind_gap:.0} after a gap, {acks:.0} ACKs; {:.2} s/GB receiving, {:.2} s/GB \
             in soft interrupts",
            self.receiver_s_per_gb, self.soft_interrupts_s_per_gb
        )
    }
}

/// The parameters that vary between rows.
struct Case {
    control: &'static str,
    delay: u64,
    /// The samples of each round, for each way; None if a measurement failed.
    samples: Vec<Vec<Option<Receiving>>>,
}

/// Measures a row for each way, difference of delays and congestion control. Prints a message and returns
/// no rows if the machine or the user does not allow network namespaces.
pub(crate) fn run(settings: &Settings) -> std::result::Result<Vec<Row>, String> {
    let interrupt = Interrupt::new().map_err(|error| error.to_string())?;
    if let Err(error) = is_possible() {
        eprintln!("reordering: {error}; no rows without root, ip and ethtool");
        return Ok(Vec::new());
    }
    measure_all(settings, &interrupt).map_err(|error| error.to_string())
}

fn measure_all(settings: &Settings, interrupt: &Interrupt) -> Result<Vec<Row>> {
    let bench = Reordering::new(settings.window)?;
    // A small run takes only a few cases, to show that the benchmark works.
    let is_small = settings.repeats == 1;
    let delays = if is_small { &[DELAYS[0], DELAYS[2]] } else { &DELAYS[..] };
    let controls = CONTROLS.into_iter().filter(|control| lab::has_control(control));
    let mut cases = Vec::new();
    for control in controls.take(if is_small { 1 } else { CONTROLS.len() }) {
        let case = |&delay| Case { control, delay, samples: WAYS.iter().map(|_| Vec::new()).collect() };
        cases.extend(delays.iter().map(case));
    }
    let start = Instant::now();
    for round in 1..=settings.rounds as u32 {
        for Case { control, delay, samples } in &mut cases {
            for (way, samples) in WAYS.iter().zip(samples) {
                interrupt.check()?;
                let elements = (way.elements)(*delay);
                let front = Front { merges: way.merges, hold: way.hold, elements: &elements };
                let flows = Flows { control, ..Flows::new(1) };
                let sample = bench.measure(&front, &flows, *delay);
                interrupt.check()?;
                if let Err(error) = &sample {
                    eprintln!("reordering: {} {control} {delay}: {error}", way.name);
                }
                samples.push(sample.ok());
            }
        }
        // Stops if another round of average length would exceed the time.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(rows(&cases))
}

/// Returns a row for each case that could be measured. The same case without reordering takes the place of
/// the floor.
fn rows(cases: &[Case]) -> Vec<Row> {
    let nanoseconds = |sample: &Receiving| 8.0 * SEGMENT / sample.gbps;
    let mut rows = Vec::new();
    for case in cases {
        let in_order = cases.iter().find(|other| other.control == case.control && other.delay == 0);
        for (number, (way, samples)) in WAYS.iter().zip(&case.samples).enumerate() {
            let floors = in_order.map_or(samples, |case| &case.samples[number]);
            let both = samples.iter().zip(floors).filter_map(|(sample, floor)| sample.zip(*floor));
            let pairs: Vec<Pair> = both
                .map(|(sample, floor)| Pair { cost: nanoseconds(&sample), floor: nanoseconds(&floor) })
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let params = [
                ("receiver", Param::Word(way.name)),
                ("control", Param::Word(case.control)),
                ("delay_us", Param::Number(case.delay)),
            ];
            let measured: Vec<Receiving> = samples.iter().flatten().copied().collect();
            let receiving = Some(Receiving::median(&measured));
            rows.push(Row { unit: "segment", receiving, ..Row::new("reordering", &params, &pairs) });
        }
    }
    rows
}

/// A sender, a link of 1 Gb/s, two paths, and a receiver.
pub(crate) struct Reordering {
    program: Program,
    window: Duration,
}

impl Reordering {
    /// Creates a testbed that measures for `window`.
    pub(crate) fn new(window: Duration) -> Result<Reordering> {
        Ok(Reordering { program: Program::new()?, window })
    }

    /// Lets connections send over paths that differ by `delay` microseconds.
    pub(crate) fn measure(&self, front: &Front<'_>, flows: &Flows<'_>, delay: u64) -> Result<Receiving> {
        let line = Line::of_ordinary_frames()?;
        let Line { left: sender, between, right: receiver, .. } = &line;
        receiver.ethtool("-K eth0 gro off")?;
        if front.merges {
            merge(&line, front.hold)?;
        }
        // A program that sleeps wakes up late; the paths would then differ by more than `delay`.
        let _running =
            self.program.run(between, &["--busy-poll"], &self.between_both(front.elements, delay))?;
        let before = Counts::of(sender, receiver)?;
        let all = lab::flows(sender, receiver, SocketAddr::from((RIGHT, PORT)), flows, self.window)?;
        let after = Counts::of(sender, receiver)?;
        Ok(after.since(&before, &all))
    }

    /// Returns a configuration that sends frames from `left` to `right` over the link and the paths, and
    /// frames in the other direction unchanged.
    fn between_both(&self, elements: &str, delay: u64) -> String {
        let [left, right] = ["left", "right"].map(|interface| self.program.receive(interface));
        let paths = if delay > 0 { format!("0us, {delay}us") } else { "0us".into() };
        format!(
            "{left} -> Queue({QUEUE}) -> LinkUnqueue(0us, 1Gbps) -> RandomPath({paths}) -> {elements}
             Queue -> ToDevice(right);
             {right} -> Queue -> ToDevice(left)"
        )
    }
}

/// The counts of the kernel.
struct Counts {
    sent: u64,
    again: u64,
    in_vain: u64,
    delivered: u64,
    behind_gap: u64,
    acks: u64,
    soft_interrupts: f64,
}

impl Counts {
    fn of(sender: &Space, receiver: &Space) -> Result<Counts> {
        Ok(Counts {
            sent: count(sender, "snmp", "Tcp", "OutSegs")?,
            again: count(sender, "snmp", "Tcp", "RetransSegs")?,
            in_vain: count(sender, "netstat", "TcpExt", "TCPDSACKRecv")?,
            delivered: count(receiver, "snmp", "Tcp", "InSegs")?,
            behind_gap: count(receiver, "netstat", "TcpExt", "TCPOFOQueue")?,
            acks: count(receiver, "snmp", "Tcp", "OutSegs")?,
            soft_interrupts: soft_interrupts()?,
        })
    }

    fn since(&self, before: &Counts, all: &[Received]) -> Receiving {
        let again = self.again - before.again;
        // The count of sent segments excludes retransmissions.
        let sent = (self.sent - before.sent).max(1) as f64;
        let per_thousand = |count: u64| count as f64 * 1000.0 / sent;
        let gigabytes = sent * SEGMENT / 1e9;
        let rate: f64 = all.iter().map(|one| one.rate).sum();
        let busy: f64 = all.iter().map(|one| one.busy).sum();
        Receiving {
            gbps: rate / 1e9,
            delivered: per_thousand(self.delivered - before.delivered),
            behind_gap: per_thousand(self.behind_gap - before.behind_gap),
            acks: per_thousand(self.acks - before.acks),
            again: per_thousand(again),
            in_vain: per_thousand(self.in_vain - before.in_vain),
            receiver_s_per_gb: busy / (rate / 8e9),
            soft_interrupts_s_per_gb: (self.soft_interrupts - before.soft_interrupts) / gigabytes,
        }
    }
}
