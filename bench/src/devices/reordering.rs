//! The benchmark `reordering`: the kernel's TCP over paths that reorder, with different elements directly
//! upstream of the receiver (Juggler, section 5).
//!
//! The sender sends frames of ordinary size over a link of 1 Gb/s and two paths. Each packet takes a random
//! path, as in the switch of figure 11. Sender, receiver and network share the cores of one machine.

use std::fmt;
use std::io::Result;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lab::{Connections, Namespace, Received};
use serde::Serialize;

use super::kernel::{count, soft_interrupts};
use super::{Interrupt, Line, PORT, Program, RIGHT, SEGMENT, is_possible, merge};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median};

/// The part of the testbed at the receiver: the elements directly upstream of it, and if its interface merges
/// packets (GRO).
#[derive(Clone, Copy)]
pub(crate) struct Front<'e> {
    /// True if the receiver's interface merges packets that arrive in order (GRO).
    pub(crate) merges: bool,
    /// The microseconds for which the interface waits for further packets to merge, like an interface with
    /// interrupt moderation.
    pub(crate) hold: u64,
    /// The elements between the paths and the receiver, each followed by an arrow; may be empty.
    pub(crate) elements: &'e str,
}

/// A variant of the receiver: the fields of a [`Front`], with the variant's name in result rows.
struct Variant {
    name: &'static str,
    merges: bool,
    hold: u64,
    /// Returns the elements between the paths and the receiver, for paths whose delays differ by a number of
    /// microseconds.
    elements: fn(u64) -> String,
}

const PLAIN: Variant = Variant { name: "plain", merges: false, hold: 0, elements: |_| String::new() };

const VARIANTS: &[Variant] = &[
    PLAIN,
    Variant { name: "gro", merges: true, ..PLAIN },
    // In this variant, the interface waits for packets to merge as long as in the paper's testbed.
    Variant { name: "gro-125us", merges: true, hold: 125, ..PLAIN },
    Variant { name: "juggler", elements: juggler, ..PLAIN },
];

/// Returns a Juggler that waits for late packets 50 microseconds longer than the difference of the paths'
/// delays.
fn juggler(delay: u64) -> String {
    format!("Juggler(LINE_RATE 1Gbps, OFO_TIMEOUT {}us) ->", delay + 50)
}

/// The differences of the paths' delays, in microseconds.
const DELAYS: [u64; 4] = [0, 250, 500, 750];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The largest number of packets that wait for the link: they take 24 ms to be sent, which is enough for the
/// TCP window of one connection.
const QUEUE: u32 = 2000;

/// The results of a measurement, over all connections. Counts are per thousand segments that the sender sent,
/// without retransmissions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Receiving {
    /// The gigabits of data per second.
    pub gbps: f64,
    /// The segments that the interface delivered to the receiver's TCP, per thousand segments sent. Merged
    /// segments count as one.
    pub delivered: f64,
    /// The segments that arrived after a gap in the sequence numbers, per thousand segments sent.
    pub behind_gap: f64,
    /// The segments that the receiver sent back, nearly all of them ACKs, per thousand segments sent.
    pub acks: f64,
    /// The retransmitted segments, per thousand segments sent.
    pub again: f64,
    /// The ACKs that report a duplicate segment (RFC 2883), which had been retransmitted without need, per
    /// thousand segments sent.
    #[serde(rename = "in_vain")]
    pub needless: f64,
    /// The processor seconds of the receiving threads per gigabyte of data.
    pub receiver_s_per_gb: f64,
    /// The processor seconds that the whole machine, sender included, spent in soft interrupts per gigabyte
    /// of data.
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
            needless: of(|sample| sample.needless),
            receiver_s_per_gb: of(|sample| sample.receiver_s_per_gb),
            soft_interrupts_s_per_gb: of(|sample| sample.soft_interrupts_s_per_gb),
        }
    }
}

impl fmt::Display for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Receiving { gbps, delivered, behind_gap, acks, again, needless, .. } = self;
        write!(
            f,
            "{gbps:.2} Gb/s, of 1000 segments {again:.1} sent again, {needless:.1} of them unnecessarily; \
             {delivered:.0} delivered, {behind_gap:.0} after a gap, {acks:.0} ACKs; {:.2} s/GB receiving, {:.2} s/GB \
             in soft interrupts",
            self.receiver_s_per_gb, self.soft_interrupts_s_per_gb
        )
    }
}

/// The congestion control and the difference of delays of a group of rows, and the measured samples.
struct Case {
    control: &'static str,
    delay: u64,
    /// For each variant in `VARIANTS`, the results of each round; None if the measurement failed.
    samples: Vec<Vec<Option<Receiving>>>,
}

/// Measures a row for each variant of the receiver, difference of delays and congestion control. Prints a
/// message and returns no rows if network namespaces, `ip` or `ethtool` cannot be used.
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
    // A small run, which only shows that the benchmark works, measures only some combinations of delay and
    // congestion control.
    let is_small = settings.repeats == 1;
    let delays = if is_small { &[DELAYS[0], DELAYS[2]] } else { &DELAYS[..] };
    let controls = CONTROLS.into_iter().filter(|control| lab::has_control(control));
    let mut cases = Vec::new();
    for control in controls.take(if is_small { 1 } else { CONTROLS.len() }) {
        let case = |&delay| Case { control, delay, samples: VARIANTS.iter().map(|_| Vec::new()).collect() };
        cases.extend(delays.iter().map(case));
    }
    let start = Instant::now();
    for round in 1..=settings.rounds as u32 {
        for Case { control, delay, samples } in &mut cases {
            for (way, samples) in VARIANTS.iter().zip(samples) {
                interrupt.check()?;
                let elements = (way.elements)(*delay);
                let front = Front { merges: way.merges, hold: way.hold, elements: &elements };
                let flows = Connections { control, ..Connections::new(1) };
                let sample = bench.measure(&front, &flows, *delay);
                interrupt.check()?;
                if let Err(error) = &sample {
                    eprintln!("reordering: {} {control} {delay}: {error}", way.name);
                }
                samples.push(sample.ok());
            }
        }
        // Ends the benchmark if another round (of all cases), of average length, would exceed the time limit.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(rows(&cases))
}

/// Returns a row for each case and variant that could be measured. The floor of a row is the cost with the
/// same variant and congestion control over paths with equal delays.
fn rows(cases: &[Case]) -> Vec<Row> {
    let nanoseconds = |sample: &Receiving| 8.0 * SEGMENT / sample.gbps;
    let mut rows = Vec::new();
    for case in cases {
        let in_order = cases.iter().find(|other| other.control == case.control && other.delay == 0);
        for (number, (way, samples)) in VARIANTS.iter().zip(&case.samples).enumerate() {
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

/// A testbed: a sender, a link of 1 Gb/s, two paths, and a receiver.
pub(crate) struct Reordering {
    program: Program,
    window: Duration,
}

impl Reordering {
    /// Creates a testbed in which connections send for `window`.
    pub(crate) fn new(window: Duration) -> Result<Reordering> {
        Ok(Reordering { program: Program::new()?, window })
    }

    /// Lets the connections `flows` send over paths whose delays differ by `delay` microseconds, to a
    /// receiver with `front`.
    pub(crate) fn measure(
        &self,
        front: &Front<'_>,
        flows: &Connections<'_>,
        delay: u64,
    ) -> Result<Receiving> {
        let line = Line::of_ordinary_frames()?;
        let Line { left: sender, between, right: receiver, .. } = &line;
        receiver.ethtool("-K eth0 gro off")?;
        if front.merges {
            merge(&line, front.hold)?;
        }
        // `--busy-poll` keeps the program from sleeping: if it slept, it would wake up late, and the delays
        // of the paths would differ by more than `delay` microseconds.
        let _running =
            self.program.run(between, &["--busy-poll"], &self.between_both(front.elements, delay))?;
        let before = Counts::of(sender, receiver)?;
        let all = lab::flows(sender, receiver, SocketAddr::from((RIGHT, PORT)), flows, self.window)?;
        let after = Counts::of(sender, receiver)?;
        Ok(after.since(&before, &all))
    }

    /// Returns a configuration that forwards frames from `left` to `right` over the link, the paths and
    /// `elements`, and frames from `right` to `left` directly.
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

/// The counters of the kernels of sender and receiver, from which a [`Receiving`] is computed.
struct Counts {
    sent: u64,
    again: u64,
    needless: u64,
    delivered: u64,
    behind_gap: u64,
    acks: u64,
    soft_interrupts: f64,
}

impl Counts {
    fn of(sender: &Namespace, receiver: &Namespace) -> Result<Counts> {
        Ok(Counts {
            sent: count(sender, "snmp", "Tcp", "OutSegs")?,
            again: count(sender, "snmp", "Tcp", "RetransSegs")?,
            needless: count(sender, "netstat", "TcpExt", "TCPDSACKRecv")?,
            delivered: count(receiver, "snmp", "Tcp", "InSegs")?,
            behind_gap: count(receiver, "netstat", "TcpExt", "TCPOFOQueue")?,
            acks: count(receiver, "snmp", "Tcp", "OutSegs")?,
            soft_interrupts: soft_interrupts()?,
        })
    }

    fn since(&self, before: &Counts, all: &[Received]) -> Receiving {
        let again = self.again - before.again;
        // The kernel's count of sent segments excludes retransmissions.
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
            needless: per_thousand(self.needless - before.needless),
            receiver_s_per_gb: busy / (rate / 8e9),
            soft_interrupts_s_per_gb: (self.soft_interrupts - before.soft_interrupts) / gigabytes,
        }
    }
}
