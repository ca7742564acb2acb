//! Every order in which seven segments can come, with what networks and senders do to them: what leaves is what came, in order
//! where it could be, and soon enough.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use testkit::timed::{frame, through, udp};
use wire::build::Builder;
use wire::tcp::flags::{ACK, CWR, ECE, FIN, PSH, SYN};
use wire::{Layers, LinkType};

/// Bytes of data of a segment.
const SIZE: u32 = 10;
/// From one segment of a flow to the next.
const STEP: i64 = 5_000;
/// Longer than all seven take.
const OFO: i64 = 50_000;
const INSEQ: i64 = 20_000;

type Timed = Vec<(i64, Vec<u8>)>;

/// A segment before it is one of a flow.
#[derive(Clone)]
struct Plan {
    /// Where it starts and ends, in bytes from the flow's first.
    start: u32,
    length: u32,
    flags: u8,
    tos: u8,
    options: Vec<u8>,
    /// Whether its checksum is wrong.
    damaged: bool,
}

impl Plan {
    fn plain(number: u32) -> Plan {
        Plan { start: number * SIZE, length: SIZE, flags: ACK, tos: 2, options: Vec::new(), damaged: false }
    }

    /// As a frame of a flow whose first byte has this number; `id` counts segments.
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

/// All orders of some things, by Heap's algorithm.
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

/// The sequence number and the flow of a frame.
fn place(frame: &[u8]) -> (u16, u32) {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    let tcp = &frame[layers.l4.unwrap()..];
    let flow = u16::from_be_bytes([tcp[0], tcp[1]]);
    (flow, u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]))
}

/// Lets packets through, and time go on until nothing is due any more: a datagram of nobody's comes then.
fn through_all(element: &str, mut input: Timed, handlers: &[&str]) -> (Vec<String>, Timed) {
    let end = (1_000_000_000, udp(9, 9));
    input.push(end.clone());
    let (outcome, mut output) = through(element, &input, handlers);
    assert_eq!(output.pop(), Some(end));
    (outcome.values.into_iter().map(Result::unwrap).collect(), output)
}

/// What came of a run.
struct Ran {
    /// Per flow, in the order in which they left: numbers from the flow's first byte.
    left: HashMap<u16, Vec<u32>>,
    values: Vec<String>,
}

/// Sends each flow the same segments in another order, `spread` nanoseconds apart, behind `first` ones in order, and sees to
/// it that exactly these leave, and none later than it may.
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
            // The sender counts its segments.
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
        // What the element measures says so too.
        assert_eq!(self.values[1], "0");
        assert_ne!(self.values[0], "0");
    }
}

fn seven() -> Vec<Plan> {
    (1..8).map(Plan::plain).collect()
}

/// A flow of which the next number is known.
fn known() -> Vec<Plan> {
    vec![Plan::plain(0)]
}

#[test]
fn every_order_becomes_the_sent_one() {
    // The second one passes 2^32 within the segments, and within one of them.
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
    // Nothing is known, and everything comes at once: the first segment may be any of them.
    let ran = run("", &[], &seven(), 0, 7, &["e.sizes", "e.flushes"]);
    ran.assert_in_order();
    // All seven of each flow are one.
    assert_eq!(ran.values[3], ">=4 5040\n", "{}", ran.values[4]);
}

#[test]
fn a_new_flow_is_learnt_from_what_opens_it() {
    let opens = Plan { start: 0, length: 0, flags: SYN, ..Plan::plain(0) };
    let segments: Vec<Plan> = (0..6).map(|n| Plan { start: 1 + n * SIZE, ..Plan::plain(n) }).collect();
    // Among the segments, too: whatever comes before it within the batch waits.
    let with: Vec<Plan> = std::iter::once(opens.clone()).chain(segments.clone()).collect();
    run("", &[], &with, 0, u32::MAX - 20, &[]).assert_in_order();
}

#[test]
fn flags_ask_for_delivery_and_keep_their_place() {
    for number in 0..7 {
        for flag in [PSH, FIN, ECE, CWR] {
            let mut segments = seven();
            // Behind a FIN nothing comes.
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
    // What is damaged passes; the others are in order.
    let mut segments = seven();
    segments[2].damaged = true;
    let ran = run("", &known(), &segments, STEP, 7, &[]);
    for mut numbers in ran.left.into_values() {
        numbers.retain(|&number| number != segments[2].start);
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
    // Sizes that differ.
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
        // `run` looks at the times.
        let ran = run("", &known(), &segments, STEP, 7, &["e.flushes"]);
        assert!(ran.is_in_order());
    }
    // What was lost comes again when nobody waits for it any more, and what follows is merged as before.
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
        // What is in sequence goes with what waits behind the gap.
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
            // That the same leaves as came, in time, is all there is to say.
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
