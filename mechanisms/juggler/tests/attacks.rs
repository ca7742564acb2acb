//! Tests with hostile input: memory stays bounded, no packets are lost, and no packets are held longer than
//! the time-outs allow.

use std::collections::HashMap;
use std::net::SocketAddr;

use testkit::timed::{frame, tcp, through, udp};
use wire::build::Builder;
use wire::tcp::flags::{ACK, PSH, SYN};

type Timed = Vec<(i64, Vec<u8>)>;

/// Sends packets through Juggler and asserts that exactly these packets leave, each within `longest`
/// nanoseconds. Returns the values of handlers.
fn survives(arguments: &str, mut input: Timed, longest: i64, handlers: &[&str]) -> Vec<String> {
    input.push((input.last().map_or(0, |last| last.0) + 1_000_000_000, udp(9, 9)));
    let (outcome, output) = through(&format!("Juggler({arguments}) -> Segment"), &input, handlers);
    let mut came: HashMap<&[u8], Vec<i64>> = HashMap::new();
    input.iter().rev().for_each(|(time, bytes)| came.entry(bytes).or_default().push(*time));
    for (time, bytes) in &output {
        let since = came.get_mut(&bytes[..]).and_then(Vec::pop).expect("this is not what came");
        assert!(time - since <= longest, "held for {} ns", time - since);
    }
    assert!(came.values().all(Vec::is_empty), "something has not left");
    outcome.values.into_iter().map(Result::unwrap).collect()
}

const BOTH: i64 = 150_000;
const TIMES: &str = "INSEQ_TIMEOUT 50us, OFO_TIMEOUT 100us";

#[test]
fn a_flood_of_flows_evicts_and_never_grows() {
    let segment = |number: u32| {
        let source =
            SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 1000 + (number >> 16) as u16));
        let builder =
            Builder::tcp(source, SocketAddr::from(([10, 0, 0, 2], 80)), ACK).sequence(number * 99, 1);
        (i64::from(number) * 20, frame(builder, &number.to_be_bytes()))
    };
    let values =
        survives(&format!("FLOWS 16, {TIMES}"), (0..50_000).map(segment).collect(), BOTH, &["e.evictions"]);
    let evicted: u32 = values[0].split_whitespace().filter_map(|word| word.parse::<u32>().ok()).sum();
    assert!(evicted > 49_000, "{}", values[0]);
}

#[test]
fn a_flood_of_opening_segments_evicts_nobody() {
    let data = |number: u32| {
        (i64::from(number) * 1000, frame(tcp(1, ACK, number * 10, 1).id(number as u16), &[7; 10]))
    };
    let syn = |number: u32| {
        let builder = Builder::tcp(
            SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 1000)),
            SocketAddr::from(([10, 0, 0, 2], 80)),
            SYN,
        );
        (i64::from(number / 10) * 1000, frame(builder, &[]))
    };
    let mut input: Timed = (0..1000).map(data).chain((0..10_000).map(syn)).collect();
    input.sort_by_key(|(time, _)| *time);
    let values = survives(&format!("FLOWS 1, {TIMES}"), input, BOTH, &["e.evictions", "e.merged"]);
    assert!(values[0].lines().all(|line| line.ends_with(" 0")), "{}", values[0]);
}

#[test]
fn a_flood_of_gaps_leaves_when_the_queue_is_full() {
    // One byte per segment and a gap after each byte, in ascending and in descending order.
    for backwards in [false, true] {
        let segment = |number: u32| {
            let place = if backwards { 20_000 - number } else { number };
            (i64::from(number) * 10, frame(tcp(1, ACK, place * 2, 1), &[place as u8]))
        };
        let values = survives(
            &format!("QUEUE 1000000, {TIMES}"),
            (0..20_000).map(segment).collect(),
            BOTH,
            &["e.flushes", "e.reordered_in"],
        );
        assert!(!values[0].contains("queue_full 0"), "{}", values[0]);
    }
}

#[test]
fn gaps_in_all_flows_are_bounded_by_all_queues() {
    let segment = |number: u32| {
        let flow = 1 + (number % 500) as u16;
        (i64::from(number) * 5, frame(tcp(flow, ACK, (number / 500) * 20, 1), &[7; 10]))
    };
    let arguments = format!("FLOWS 64, QUEUE 23680, {TIMES}");
    survives(&arguments, (0..60_000).map(segment).collect(), BOTH, &[]);
}

#[test]
fn overlapping_segments_all_leave() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut input = Timed::new();
    for number in 0..20_000 {
        let (start, length) = (random.u32(0..4000), random.usize(1..200));
        let set = if random.u8(..) < 10 { ACK | PSH } else { ACK };
        let builder =
            tcp(1 + random.u16(0..3), set, u32::MAX - 2000u32.wrapping_sub(start), 1).id(random.u16(0..3));
        input.push((number * 100, frame(builder, &vec![random.u8(..); length])));
    }
    survives(&format!("QUEUE 200000, {TIMES}"), input.clone(), BOTH, &[]);
    survives(&format!("QUEUE 200000, MERGE false, {TIMES}"), input, BOTH, &[]);
}

#[test]
fn tiny_segments_are_merged_no_further_than_interfaces_take() {
    let segment = |number: u32| {
        (i64::from(number), frame(tcp(1, ACK, number * 6, 1).id(number as u16), &[number as u8; 6]))
    };
    let values = survives(
        "INSEQ_TIMEOUT 100ms, OFO_TIMEOUT 100ms",
        (0..30_000).map(segment).collect(),
        200_000_000,
        &["e.flushes", "e.sizes"],
    );
    // Each 120 of the six-byte segments form one large segment, the limit of slots; 250 · 120 = 30,000. The
    // first segment waits in build-up until the end of its batch.
    assert!(values[0].contains("full 250\n"), "{}", values[0]);
}

#[test]
fn losses_that_nobody_mends_keep_no_place() {
    // Eight flows with a gap fill the table and fall silent. Ten seconds later, two reordering flows must
    // find room in it.
    let mut input = Timed::new();
    for flow in 0..8 {
        for (time, number) in [(0, 0), (1_000_000, 2)] {
            input.push((time, frame(tcp(100 + flow, ACK, number * 10, 1), &[7; 10])));
        }
    }
    input.sort_by_key(|(time, _)| *time);
    for number in 0..100u32 {
        for flow in [1, 2] {
            let time = 10_000_000_000 + i64::from(number / 2 * 2) * 1000 + i64::from(1 - number % 2);
            input.push((time, frame(tcp(flow, ACK, number * 10, 1).id(number as u16), &[7; 10])));
        }
    }
    input.sort_by_key(|(time, _)| *time);
    let values = survives(
        &format!("FLOWS 8, {TIMES}"),
        input,
        BOTH,
        &["e.reordered_in", "e.reordered_out", "e.evictions"],
    );
    assert_eq!(values[..2], ["100", "0"], "{}", values[2]);
}

#[test]
fn damaged_segments_steer_nothing() {
    let mut input = Timed::new();
    for number in 0..200u32 {
        // The segments come in pairs, the second segment of each pair first, except in the first pair.
        let place = if number < 2 { number } else { 1 - number % 2 };
        let time = i64::from(number / 2 * 2) * 1000 + i64::from(place);
        input.push((time, frame(tcp(1, ACK, number * 10, 1).id(number as u16), &[7; 10])));
    }
    let mut damaged = frame(tcp(1, ACK, 500_000_000, 1), &[9; 10]);
    *damaged.last_mut().unwrap() ^= 1;
    let mut opening = frame(tcp(1, SYN, 1200, 1), &[]);
    opening[52] ^= 1;
    input.extend([(20_500, damaged), (40_500, opening)]);
    input.sort_by_key(|(time, _)| *time);
    let values = survives(&format!("MERGE false, {TIMES}"), input, BOTH, &["e.reordered_out", "e.damaged"]);
    assert_eq!(values, ["0", "2"]);
}

#[test]
fn what_straddles_does_not_put_off_what_waits() {
    let data = |time: i64, start: u32, length: usize| (time, frame(tcp(1, ACK, start, 1), &vec![7; length]));
    let mut input = vec![data(0, 0, 100), data(1_000_000, 100, 100)];
    input.extend((0..40).map(|number| data(1_001_000 + 40_000 * number, 50, 200 + number as usize)));
    survives(TIMES, input, BOTH, &[]);
}

#[test]
fn numbers_far_from_the_flow_change_nothing() {
    let mut input = Timed::new();
    for number in 0..2000u32 {
        let time = i64::from(number) * 1000;
        input.push((time, frame(tcp(1, ACK, number * 10, 1).id(number as u16), &[7; 10])));
        // One in a hundred segments is followed by a forged segment with a guessed sequence number.
        if number % 100 == 50 {
            input.push((time, frame(tcp(1, ACK, 0x7000_0000, 1), &[9; 10])));
        }
    }
    let values = survives(TIMES, input, BOTH, &["e.flushes", "e.reordered_out", "e.loss_recovery"]);
    assert!(values[0].contains("ofo_timeout 0\n"), "{}", values[0]);
}

/// Sends a connection, of which about half of the segments arrive 30 us late, together with `each` packets
/// per microsecond that `other` makes, of new flows. Returns the number of segments of the connection that
/// leave after a later segment, and the values of handlers.
fn beside_new_flows(arguments: &str, each: u32, other: impl Fn(u32) -> Vec<u8>) -> (usize, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(10);
    let mut input = Timed::new();
    for number in 0..3000u32 {
        let late = if random.bool() { 30_000 } else { 0 };
        let builder = tcp(1, ACK, 1000 + 100 * number, 1).id(number as u16);
        input.push((i64::from(number) * 1000 + late, frame(builder, &[number as u8; 100])));
        input.extend((0..each).map(|n| (i64::from(number) * 1000 + 500, other(each * number + n))));
    }
    input.sort_by_key(|(time, _)| *time);
    input.push((1_000_000_000, udp(9, 9)));
    let handlers = ["e.reordered_in", "e.reordered_out", "e.evictions"];
    let (outcome, output) = through(&format!("Juggler({arguments}) -> Segment"), &input, &handlers);
    let sorted = |packets: &Timed| {
        let mut all: Vec<_> = packets.iter().map(|(_, bytes)| bytes.clone()).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&input), sorted(&output));
    let mut highest = 0;
    let mut late = 0;
    let own = [10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 80];
    for (_, bytes) in output.iter().filter(|(_, bytes)| bytes[26..38] == own) {
        let number = u32::from_be_bytes(*bytes[38..].first_chunk().unwrap());
        late += usize::from(number < highest);
        highest = highest.max(number);
    }
    (late, outcome.values.into_iter().map(Result::unwrap).collect())
}

#[test]
fn new_flows_do_not_keep_others_from_being_put_in_order() {
    let arguments = "UDP true, FLOWS 64, OFO_TIMEOUT 50us";
    let end = |number: u32| {
        SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 1000 + (number >> 16) as u16))
    };
    let to = SocketAddr::from(([10, 0, 0, 2], 80));
    let datagram = |number| frame(Builder::udp(end(number), to), &[7; 40]);
    let segment = |number| frame(Builder::tcp(end(number), to, ACK).sequence(number, 1), &[7; 40]);
    for each in [1, 2, 5] {
        for (late, values) in
            [beside_new_flows(arguments, each, datagram), beside_new_flows(arguments, each, segment)]
        {
            assert_eq!((late, &values[1][..]), (0, "0"), "{values:?}");
        }
    }
    // With room for one flow only, the connection is evicted all the time. The segments that leave late
    // must be counted even so.
    let (late, values) = beside_new_flows("FLOWS 1, OFO_TIMEOUT 50us", 1, segment);
    assert!(late > 1000, "{values:?}");
    assert_eq!(values[1], late.to_string(), "{values:?}");
}
