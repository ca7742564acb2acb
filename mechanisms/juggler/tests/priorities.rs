//! Tests of StrictPriority and PriorityMarker: links with priorities, and bandwidth guarantees by
//! priorities.

mod arrivals;

use std::net::SocketAddr;

use arrivals::{Timed, number, numbered, through, values};
use element::class::{ArgInfo, Notes};
use element::effects::{Case, Emit, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element};
use testkit::TestRun;
use wire::MacAddr;
use wire::build::Builder;

/// Sends packets through the element `link`, with flow 1 unpainted, flow 2 painted 1 and other flows painted
/// 9. Returns handler values, and (time in nanoseconds, number) of each packet that leaves.
fn leaves(link: &str, arrivals: &[Timed], handlers: &[&str]) -> (Vec<String>, Vec<(i64, u64)>) {
    leaves_while(link, arrivals, "", handlers)
}

/// Sends packets over a link as [`leaves`] does, while a Script runs.
fn leaves_while(
    link: &str,
    arrivals: &[Timed],
    script: &str,
    handlers: &[&str],
) -> (Vec<String>, Vec<(i64, u64)>) {
    let text = format!(
        "in -> c :: Classifier(34/0001, 34/0002, -); e :: {link} -> out;
         c[0] -> e; c[1] -> Paint(1) -> e; c[2] -> Paint(9) -> e"
    );
    let (outcome, seen) = through(&text, 1, arrivals, script, handlers);
    let seen = seen[0].iter().map(|(left, frame)| (*left, number(frame))).collect();
    (values(&outcome).into_iter().map(String::from).collect(), seen)
}

#[test]
fn what_is_urgent_goes_first_and_the_link_is_exact() {
    // 1000 bytes take 8 us at 1 Gb/s.
    let packet = |time, flow, number| (time, numbered(flow, number, 1000));
    let arrivals = [
        packet(0, 1, 0),
        packet(1000, 1, 1),
        packet(2000, 1, 2),
        packet(3000, 2, 3),
        packet(9000, 2, 4),
        packet(50_000, 1, 5),
    ];
    let (_, seen) = leaves("StrictPriority(1Gbps)", &arrivals, &[]);
    // The transmission of packet 0 is not interrupted; then both urgent packets leave. The link is idle
    // before the last packet.
    assert_eq!(seen, [(8000, 0), (16_000, 3), (24_000, 4), (32_000, 1), (40_000, 2), (58_000, 5)]);
    // With three queues, paint 9 selects the most urgent queue, above paint 1. With the default number of
    // queues, two, both paints select the same queue.
    let arrivals = [packet(0, 1, 0), packet(1, 1, 1), packet(2, 2, 2), packet(3, 3, 3)];
    let (_, seen) = leaves("StrictPriority(1Gbps, QUEUES 3)", &arrivals, &[]);
    assert_eq!(seen.iter().map(|seen| seen.1).collect::<Vec<_>>(), [0, 3, 2, 1]);
    let (_, seen) = leaves("StrictPriority(1Gbps)", &arrivals, &[]);
    assert_eq!(seen.iter().map(|seen| seen.1).collect::<Vec<_>>(), [0, 2, 3, 1]);
}

#[test]
fn no_rate_is_lost_by_rounding() {
    // 64 bytes at 30 Gb/s take 17.07 ns, which is no whole number: 300 packets must take 5120 ns.
    let arrivals: Vec<Timed> = (0..300).map(|n| (0, numbered(1, n, 64))).collect();
    let (_, seen) = leaves("StrictPriority(30Gbps)", &arrivals, &[]);
    assert_eq!(seen.last(), Some(&(5120, 299)));
    assert!(seen.is_sorted_by_key(|&(_, number)| number));
}

#[test]
fn full_queues_drop_their_own() {
    let arrivals: Vec<Timed> = (0..20).map(|n| (n, numbered(1 + n as u16 % 2, n as u64, 1000))).collect();
    let handlers = ["e.drops", "e.packets", "e.lengths"];
    let (values, seen) = leaves("StrictPriority(1Gbps, CAPACITY 3)", &arrivals, &handlers);
    let numbers: Vec<u64> = seen.iter().map(|seen| seen.1).collect();
    assert_eq!(numbers, [0, 1, 3, 5, 2, 4, 6]);
    assert_eq!(values, ["0 6\n1 7\n", "0 4\n1 3\n", "0 0\n1 0\n"]);
}

#[test]
fn a_link_keeps_its_packets_when_it_becomes_another_one() {
    let packet = |time, flow, number| (time, numbered(flow, number, 1000));
    let arrivals = [packet(0, 1, 0), packet(1, 1, 1), packet(2, 2, 2), packet(3, 3, 3)];
    let script = "wait 1us, writeq e.config \"500Mbps, QUEUES 2\"";
    let (values, seen) = leaves_while("StrictPriority(1Gbps, QUEUES 3)", &arrivals, script, &["e.packets"]);
    // The packet in transmission is sent at the old rate. The two packets of the most urgent queue follow,
    // at half the rate.
    assert_eq!(seen, [(8000, 0), (24_000, 2), (40_000, 3), (56_000, 1)]);
    assert_eq!(values, ["0 2\n1 2\n"]);
}

#[test]
fn wrong_arguments_are_explained() {
    for (element, expected) in [
        ("StrictPriority(1Bps)", "RATE: too small, minimum 100Bps"),
        ("StrictPriority(1Gbps, QUEUES 0)", "QUEUES: must be between 1 and 256"),
        ("[0, 1] PriorityMarker(1Gbps, 0) [0, 1]", "LINE_RATE: must be positive"),
        ("[0, 1] PriorityMarker(1Gbps, 1Gbps, ALPHA -1) [0, 1]", "ALPHA: must not be negative"),
        ("[0, 1] PriorityMarker(1Gbps, 1Gbps, INTERVAL -1ms) [0, 1]", "INTERVAL: must not be negative"),
        ("[0, 1] PriorityMarker(1Gbps, 1Gbps, FLOWS 0) [0, 1]", "FLOWS: "),
    ] {
        let (from, to) = if element.starts_with('[') {
            ("Idle, Idle =>", "=> Discard, Discard")
        } else {
            ("Idle ->", "-> Discard")
        };
        let error = TestRun::default().text(&format!("{from} {element} {to}"), &[]).unwrap_err();
        assert!(error.contains(expected), "{element}: {error}");
    }
}

/// The number of payload bytes in a packet, and the number of packets per ACK: a receiver downstream of
/// Juggler acknowledges a large segment with one ACK.
const PAYLOAD: usize = 1460;
const MERGED: u32 = 22;

fn frame(from: u16, to: u16, acknowledgment: u32, payload: usize) -> Vec<u8> {
    let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
    let builder = Builder::tcp(end(from), end(to), 16).sequence(0, acknowledgment);
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&vec![0; payload]).unwrap()
}

/// `TestSender(FLOW, WINDOW)` keeps WINDOW packets of flow FLOW in flight: each ACK triggers as many
/// packets as it acknowledges.
static SENDER: Class = Class {
    name: "TestSender",
    processing: "h/h",
    notes: Notes::TASK,
    args: &[ArgInfo::required("FLOW", "unsigned"), ArgInfo::required("WINDOW", "unsigned")],
    build: |args| {
        let (flow, window) = (args.required("FLOW"), args.required("WINDOW"));
        args.finish()?;
        Ok(Box::new(Sender { frame: frame(flow, 80, 0, PAYLOAD), window }))
    },
    ..Class::DEFAULT
};

struct Sender {
    frame: Vec<u8>,
    window: u32,
}

impl Sender {
    fn send(&self, cx: &mut Cx<'_>, count: u32) {
        for _ in 0..count {
            if let Some(packet) = cx.packet(&self.frame) {
                cx.emit_one(0, packet, DropReason::NoOutput);
            }
        }
    }
}

impl Element for Sender {
    fn effects(&self) -> Effects {
        let emits = Effects::source("data").emits;
        Effects { emits, ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Drop(DropReason::Answered))]) }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        self.send(cx, self.window);
        true
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.send(cx, MERGED * batch.len() as u32);
        cx.drop_all(batch, DropReason::Answered);
        None
    }
}

/// `TestReceiver` acknowledges each MERGED packets of a flow; ACKs for flow N leave at output N.
static RECEIVER: Class = Class {
    name: "TestReceiver",
    ports: "1/-",
    processing: "h/h",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Receiver { received: vec![0; args.outputs()] }))
    },
    ..Class::DEFAULT
};

struct Receiver {
    /// The number of packets that arrived, by flow.
    received: Vec<u32>,
}

impl Element for Receiver {
    fn effects(&self) -> Effects {
        let ack =
            Emit { reads: vec![element::effects::Field::Payload], ..Effects::source("ack").emits.remove(0) };
        Effects {
            emits: vec![ack],
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Drop(DropReason::Answered))])
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        for packet in batch.iter() {
            let flow = u16::from_be_bytes([packet.data()[34], packet.data()[35]]);
            let received = &mut self.received[usize::from(flow)];
            *received += 1;
            if received.is_multiple_of(MERGED)
                && let Some(ack) = cx.packet(&frame(80, flow, received.wrapping_mul(PAYLOAD as u32), 0))
            {
                cx.emit_one(flow.into(), ack, DropReason::NoOutput);
            }
        }
        cx.drop_all(batch, DropReason::Answered);
        None
    }
}

static CLASSES: &[&Class] = &[&SENDER, &RECEIVER];

/// Runs one flow with the guarantee `target` and seven flows without a guarantee on a link of 40 Gb/s (figure
/// 17 of the Juggler paper). Returns the acknowledged payload of the first flow in Gb/s over 40 ms, and the
/// probability p at the end.
fn guaranteed(target: &str) -> (f64, f64) {
    let antagonists: String =
        (1..8).map(|n| format!("receiver[{n}] -> TestSender({n}, 88) -> link; ")).collect();
    let text = format!(
        "m :: PriorityMarker({target}, 40Gbps, INTERVAL 250us); link :: StrictPriority(40Gbps, CAPACITY 4000);
         receiver :: TestReceiver; link -> receiver;
         target :: TestSender(0, 88) -> m -> link; receiver[0] -> acks :: Counter -> [1]m[1] -> target;
         {antagonists}
         Script(wait 60ms, write acks.reset, wait 40ms, stop)"
    );
    let outcome = TestRun::trace()
        .with(CLASSES)
        .text(&text, &["acks.count", "m.p", "link.drops", "m.acknowledged"])
        .unwrap();
    let values = values(&outcome);
    assert_eq!(values[2], "0 0\n1 0\n");
    let acks: f64 = values[0].parse().unwrap();
    // The number of ACKs since the start, by the count of acknowledged bytes; `acks` counts only those of
    // the last 40 ms.
    let all = values[3].parse::<f64>().unwrap() / f64::from(MERGED) / PAYLOAD as f64;
    assert!(all.fract() == 0.0 && all > 1.5 * acks, "{all} {acks}");
    (acks * f64::from(MERGED) * PAYLOAD as f64 * 8.0 / 40e6, values[1].parse().unwrap())
}

#[test]
fn guarantees_are_met_as_in_figure_18() {
    // With a guarantee below the fair share, an eighth of the link, a flow needs no help: p stays 0.
    let (rate, p) = guaranteed("2Gbps");
    assert!((4.5..5.1).contains(&rate) && p == 0.0, "{rate} {p}");
    for target in [10.0, 20.0, 30.0] {
        let (rate, p) = guaranteed(&format!("{target}Gbps"));
        assert!((0.95 * target..1.05 * target).contains(&rate) && p < 1.0, "{target}: {rate} {p}");
    }
    // A guarantee above the rate of the link gives the flow nearly the whole link, and p is 1.
    let (rate, p) = guaranteed("100Gbps");
    assert!(rate > 38.0 && p == 1.0, "{rate} {p}");
}
