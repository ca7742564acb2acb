//! Tests all orders in which seven segments can arrive, with disturbances by networks and senders. The
//! output must equal the input, be in order where that is possible, and leave in time.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use testkit::timed::{frame, through, udp};
use wire::build::Builder;
use wire::tcp::flags::{ACK, CWR, ECE, FIN, PSH, SYN};
use wire::{Layers, LinkType};

/// The number of data bytes in a segment.
const SIZE: u32 = 10;
/// The time in nanoseconds between two segments of a flow.
const STEP: i64 = 5_000;
/// OFO_TIMEOUT in nanoseconds, longer than the time in which all seven segments arrive.
const OFO: i64 = 50_000;
const INSEQ: i64 = 20_000;

type Timed = Vec<(i64, Vec<u8>)>;

/// A segment to be sent, without its flow.
#[derive(Clone)]
struct Plan {
    /// The offset of the first data byte from the first byte of the flow, and the number of data bytes.
    start: u32,
    length: u32,
    flags: u8,
    tos: u8,
    options: Vec<u8>,
    /// True if the checksum is wrong.
    damaged: bool,
}

impl Plan {
    fn plain(number: u32) -> Plan {
        Plan { start: number * SIZE, length: SIZE, flags: ACK, tos: 2, options: Vec::new(), damaged: false }
    }

    /// Returns the segment's frame in a flow whose first byte has the sequence number `first`; `id` is the
    /// IP identification.
    fn frame(&self, flow: u16, first: u32, id: u16) -> Vec<u8> {
        let end = |host: u8, port| match flow % 3 {
            0 => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()], port)),
            _ => SocketAddr::from(([10, 0, 0, host], port)),
        };
        let builder = Builder::tcp(end(1, flow), end(2, 80), self.flags).id(id).tos(self.tos);
        let builder = builder.sequence(first.wrapping_add(self.start), 5).options(&self.options);
        let data: Vec<u8> = (self.start..self.start + self.length).map(|byte| (byte * 7) as u8).collect();
        let mut frame = frame(builder, &data);
        if self.damaged {
            *frame.last_mut().unwrap() ^= 1;
        }
        frame
    }
}

/// Returns all permutations of the indices below `count`, by Heap's algorithm.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![(0..count).collect::<Vec<_>>()];
    let (mut items, mut done, mut at) = (all[0].clone(), vec![0; count], 1);
    while at < count {
        if done[at] < at {
            items.swap(if at % 2 == 0 { 0 } else { done[at] }, at);
            all.push(items.clone());
            done[at] += 1;
            at = 1;
        } else {
            done[at] = 0;
            at += 1;
        }
    }
    all
}

/// Returns the flow (source port) and the sequence number of a frame.
fn place(frame: &[u8]) -> (u16, u32) {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    let tcp = &frame[layers.l4.unwrap()..];
    let flow = u16::from_be_bytes([tcp[0], tcp[1]]);
    (flow, u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]))
}

/// Sends packets through `element` until all have left: an unrelated datagram after one second keeps the
/// run going. Returns handler values, and the packets without the datagram.
fn through_all(element: &str, mut input: Timed, handlers: &[&str]) -> (Vec<String>, Timed) {
    let end = (1_000_000_000, udp(9, 9));
    input.push(end.clone());
    let (outcome, mut output) = through(element, &input, handlers);
    assert_eq!(output.pop(), Some(end));
    (outcome.values.into_iter().map(Result::unwrap).collect(), output)
}

/// The result of a run.
struct Ran {
    /// The segments of each flow in the order in which they left, as offsets from the flow's first byte.
    left: HashMap<u16, Vec<u32>>,
    values: Vec<String>,
}

/// Sends the same segments in many flows, in each in another order, `spread` nanoseconds apart, after the
/// segments `first` in order. `isn` is the sequence number of the first byte. Asserts that exactly these
/// segments leave, and none later than the time-outs allow.
fn run(arguments: &str, first: &[Plan], segments: &[Plan], spread: i64, isn: u32, handlers: &[&str]) -> Ran {
    let orders = orders(segments.len());
    let flows = 1..=orders.len() as u16;
    let mut input: Timed = Vec::new();
    for (number, plan) in first.iter().enumerate() {
        input.extend(flows.clone().map(|flow| (0, plan.frame(flow, isn, 100 + number as u16))));
    }
    let start = if first.is_empty() { 0 } else { 1_000_000 };
    for place in 0..segments.len() {
        let segment = |(flow, order): (u16, &Vec<usize>)| {
            let plan = &segments[order[place]];
            // The sender counts identifications up in the order of sending, so the segments can be merged.
            let id = 100 + first.len() as u16 + order[place] as u16;
            (start + place as i64 * spread, plan.frame(flow, isn, id))
        };
        input.extend(flows.clone().zip(&orders).map(segment));
    }
    let element =
        format!("Juggler(FLOWS 6000, INSEQ_TIMEOUT {INSEQ}ns, OFO_TIMEOUT {OFO}ns, {arguments}) -> Segment");
    let handlers: Vec<&str> = [&["e.reordered_in", "e.reordered_out", "e.held"], handlers].concat();
    let (values, output) = through_all(&element, input.clone(), &handlers);
    let mut came: HashMap<&[u8], VecDeque<i64>> = HashMap::new();
    input.iter().for_each(|(time, bytes)| came.entry(bytes).or_default().push_back(*time));
    let mut left: HashMap<u16, Vec<u32>> = HashMap::new();
    for (time, bytes) in &output {
        let (flow, sequence) = place(bytes);
        left.entry(flow).or_default().push(sequence.wrapping_sub(isn));
        let since = came.get_mut(&bytes[..]).and_then(VecDeque::pop_front).expect("this is not what came");
        assert!(time - since <= OFO + INSEQ, "held for {} ns", time - since);
    }
    assert!(came.values().all(VecDeque::is_empty), "something has not left");
    assert_eq!(values[2], "0");
    Ran { left, values }
}

impl Ran {
    fn is_in_order(&self) -> bool {
        self.left.values().all(|numbers| numbers.is_sorted())
    }

    #[track_caller]
    fn assert_in_order(&self) {
        let wrong = self.left.iter().find(|(_, numbers)| !numbers.is_sorted());
        assert!(wrong.is_none(), "{wrong:?}");
        // The element's own counts must agree: no segment left late, although some arrived late.
        assert_eq!(self.values[1], "0");
        assert_ne!(self.values[0], "0");
    }
}

fn seven() -> Vec<Plan> {
    (1..8).map(Plan::plain).collect()
}

/// Returns the segment that is sent first in a flow, so that the next sequence number is known.
fn known() -> Vec<Plan> {
    vec![Plan::plain(0)]
}

#[test]
fn every_order_becomes_the_sent_one() {
    // With the second initial sequence number, the numbers pass 2^32 among the segments, in the middle of a
    // segment.
    for isn in [7, u32::MAX - 34] {
        for merge in ["MERGE true", "MERGE false"] {
            let ran = run(merge, &known(), &seven(), STEP, isn, &["e.merged", "e.flushes"]);
            ran.assert_in_order();
            assert!(!ran.values[4].contains("ofo_timeout 1"), "{}", ran.values[4]);
        }
    }
}

#[test]
fn a_new_flow_is_learnt_within_a_batch() {
    // The sequence number is not known, and all segments arrive at once, so that any segment may be first.
    let ran = run("", &[], &seven(), 0, 7, &["e.sizes", "e.flushes"]);
    ran.assert_in_order();
    // In each of the 5040 flows, all seven segments form one large segment.
    assert_eq!(ran.values[3], ">=4 5040\n", "{}", ran.values[4]);
}

#[test]
fn a_new_flow_is_learnt_from_what_opens_it() {
    let opens = Plan { start: 0, length: 0, flags: SYN, ..Plan::plain(0) };
    let segments: Vec<Plan> = (0..6).map(|n| Plan { start: 1 + n * SIZE, ..Plan::plain(n) }).collect();
    // The SYN may arrive after data segments of its batch: those wait for it.
    let with: Vec<Plan> = std::iter::once(opens.clone()).chain(segments.clone()).collect();
    run("", &[], &with, 0, u32::MAX - 20, &[]).assert_in_order();
}

#[test]
fn flags_ask_for_delivery_and_keep_their_place() {
    for number in 0..7 {
        for flag in [PSH, FIN, ECE, CWR] {
            let mut segments = seven();
            // A FIN is on the last segment, because no segment follows it.
            let number = if flag == FIN { 6 } else { number };
            segments[number].flags |= flag;
            let ran = run("", &known(), &segments, STEP, 7, &[]);
            ran.assert_in_order();
        }
    }
}

#[test]
fn what_differs_keeps_its_place() {
    let changes: [fn(&mut Plan); 3] = [
        |plan| plan.tos |= 3,
        |plan| plan.options = vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 1],
        |plan| plan.options = vec![1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0],
    ];
    for change in changes {
        for which in [&[3][..], &[0, 6], &[2, 3, 4]] {
            let mut segments = seven();
            which.iter().for_each(|&number| change(&mut segments[number]));
            run("", &known(), &segments, STEP, u32::MAX - 40, &[]).assert_in_order();
        }
    }
    // A damaged segment passes, and the others stay in order.
    let mut segments = seven();
    segments[2].damaged = true;
    let ran = run("", &known(), &segments, STEP, 7, &[]);
    for mut numbers in ran.left.into_values() {
        numbers.retain(|&number| number != segments[2].start);
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
    // Segments of different sizes are not all merged, but are in order.
    let mut segments = seven();
    let mut start = SIZE;
    for (segment, length) in segments.iter_mut().zip([10, 4, 10, 10, 1, 10, 30]) {
        (segment.start, segment.length) = (start, length);
        start += length;
    }
    run("", &known(), &segments, STEP, 7, &[]).assert_in_order();
}

#[test]
fn loss_is_not_waited_for_longer_than_stated() {
    for lost in 1..7 {
        let mut segments = seven();
        segments.remove(lost - 1);
        // `run` asserts that no segment waits longer than the time-outs.
        let ran = run("", &known(), &segments, STEP, 7, &["e.flushes"]);
        assert!(ran.is_in_order());
    }
    // The lost segment is sent again after the time-out. It passes, the flow leaves loss recovery, and
    // later segments are merged as before.
    let mut segments = seven();
    let again = segments.remove(2);
    let mut input: Timed = vec![(0, Plan::plain(0).frame(1, 7, 100))];
    let time = |place: usize| 1_000_000 + place as i64 * STEP;
    input.extend(segments.iter().enumerate().map(|(n, plan)| (time(n), plan.frame(1, 7, 200 + n as u16))));
    input.push((time(0) + 2 * OFO, again.frame(1, 7, 300)));
    input.push((time(0) + 2 * OFO + 1, Plan::plain(8).frame(1, 7, 301)));
    let handlers = ["e.loss_recovery", "e.inactive", "e.flushes"];
    let (values, output) = through_all("Juggler(OFO_TIMEOUT 50us) -> Segment", input, &handlers);
    assert_eq!(values[..2], ["0", "1"]);
    assert!(
        // Two runs are flushed by one time-out: the segments in sequence, and the segments after the gap.
        values[2].contains("ofo_timeout 2\n") && values[2].contains("before_sequence 1\n"),
        "{}",
        values[2]
    );
    let numbers: Vec<u32> = output.iter().map(|(_, bytes)| (place(bytes).1 - 7) / SIZE).collect();
    assert_eq!(numbers, [0, 1, 2, 4, 5, 6, 7, 3, 8]);
}

#[test]
fn duplicates_overlaps_and_retransmissions_lose_nothing() {
    let overlaps = |start, length| Plan { start, length, ..Plan::plain(0) };
    for odd in [
        Plan::plain(3),
        overlaps(15, 10),
        overlaps(12, 40),
        overlaps(20, 5),
        overlaps(0, 60),
        overlaps(70, 30),
    ] {
        let mut segments = seven();
        segments[6] = odd;
        for merge in ["MERGE true", "MERGE false"] {
            // Only `run` asserts something: the output equals the input, in time. Order is not always
            // possible here.
            run(merge, &known(), &segments, STEP, u32::MAX - 50, &[]);
            run(merge, &[], &segments, 0, 7, &[]);
        }
    }
}

#[test]
fn everything_is_bounded_where_nothing_waits() {
    for arguments in ["QUEUE 4800", "QUEUE 4800, MERGE false", "NO_MERGE tcp", "CHECKSUM false"] {
        run(arguments, &known(), &seven(), STEP, 7, &[]);
    }
    run("NO_MERGE tcp", &known(), &seven(), STEP, 7, &[]).assert_in_order();
    run("CHECKSUM false", &known(), &seven(), STEP, 7, &[]).assert_in_order();
}
