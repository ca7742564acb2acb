//! Tests of flows of QUIC told apart by connection id (QUIC_ID).

use std::collections::HashMap;
use std::net::SocketAddr;

use flow::KeyHasher;
use packet::Pool;
use proptest::prelude::*;
use reframer::finder::Finder;
use reframer::key::{FlowKind, Located};
use testkit::timed::{frame, through, through_while};
use wire::build::Builder;

/// First bytes of QUIC packets: `SHORT` of a short header, `LONG` of a long header, and `GREASED` of a short
/// header without the fixed bit.
const SHORT: u8 = 0x41;
const LONG: u8 = 0xc3;
const GREASED: u8 = 0x01;

fn builder(is_v6: bool, client: u16, to_server: bool) -> Builder {
    let (client, server): (SocketAddr, SocketAddr) = match is_v6 {
        true => (([0xfd00, 0, 0, 0, 0, 0, 0, 1], client).into(), ([0xfd00, 0, 0, 0, 0, 0, 0, 2], 443).into()),
        false => (([10, 0, 0, 1], client).into(), ([10, 0, 0, 2], 443).into()),
    };
    if to_server { Builder::udp(client, server) } else { Builder::udp(server, client) }
}

fn payload(first: u8, id: u8, number: u32) -> Vec<u8> {
    let header = if first == LONG { vec![first, 0, 0, 0, 1, 8] } else { vec![first] };
    [&header[..], &[id; 8], &number.to_be_bytes(), &[0; 12]].concat()
}

fn short(client: u16, id: u8, number: u32) -> Vec<u8> {
    frame(builder(false, client, true), &payload(SHORT, id, number))
}

fn located(frames: &[Vec<u8>], length: usize) -> Vec<Option<Located>> {
    let mut pool = Pool::new(64 << 20).unwrap();
    let finder = Finder::new(KeyHasher::new(3), false, length);
    let of = |bytes: &Vec<u8>| {
        let packet = pool.packet(bytes).unwrap();
        let located = finder.locate(&packet);
        let _ = finder.pairs(&packet);
        pool.free(packet);
        located
    };
    frames.iter().map(of).collect()
}

#[test]
fn what_makes_a_flow_of_quic_and_what_does_not() {
    for is_v6 in [false, true] {
        let of = |client, first, id, number| frame(builder(is_v6, client, true), &payload(first, id, number));
        let reply = frame(builder(is_v6, 1, false), &payload(SHORT, 1, 1));
        let found = located(
            &[
                of(1, SHORT, 1, 1),
                of(1, SHORT, 1, 2),
                of(1, SHORT | 0x20, 1, 3),
                of(1, SHORT, 2, 1),
                of(2, SHORT, 1, 1),
                reply,
                of(1, LONG, 1, 1),
                of(1, LONG, 2, 1),
                of(1, GREASED, 1, 1),
                frame(builder(is_v6, 1, true), &[SHORT, 1, 1]),
                frame(builder(is_v6, 1, true), &[]),
                of(2, LONG, 1, 1),
            ],
            8,
        );
        let found: Vec<_> = found.into_iter().map(Option::unwrap).collect();
        assert!(found[..3].iter().all(|other| other.key == found[0].key && other.kind == FlowKind::Quic));
        assert!((0..6).all(|i| i == 1 || i == 2 || found[..i].iter().all(|other| other.key != found[i].key)));
        assert_eq!(found[5].kind, FlowKind::Udp, "from the server");
        assert!(found[6..11].iter().all(|other| other.key == found[6].key && other.kind == FlowKind::Pair));
        assert_ne!(found[11].key, found[6].key, "another five-tuple");
    }
    // Bytes after the id are not compared, and all bytes of the id are.
    let with = |at: usize| {
        let mut bytes = short(1, 1, 1);
        bytes[14 + 20 + 8 + 1 + at] ^= 0x80;
        bytes
    };
    for length in 1..=20 {
        let frames: Vec<_> = (0..21).map(with).collect();
        let plain = located(&[short(1, 1, 1)], length)[0];
        for (at, found) in located(&frames, length).into_iter().enumerate() {
            assert_eq!(found == plain, at >= length, "{length}: {at}");
        }
    }
}

#[test]
fn connections_of_one_five_tuple_leave_in_bursts() {
    let arrivals: Vec<_> = (0..400u32).map(|n| (i64::from(n) * 1000, short(1, (n % 4) as u8, n))).collect();
    let handlers = ["e.quic_id", "e.slf_in", "e.slf_out"];
    let values = |element: &str| {
        let (outcome, seen) = through(element, &arrivals, &handlers);
        assert_eq!(seen.len(), 400);
        outcome.values.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let [id, before, after] = &values("Reframer(64us, QUIC_ID 8)")[..] else { panic!() };
    // The first packet with an id waits in the list of the five-tuple, and all packets of the five-tuple wait
    // with it and leave in order of arrival. So only later packets leave in bursts of one id.
    assert_eq!((&id[..], &before[..]), ("8", "1.000"));
    assert!(after.parse::<f64>().unwrap() > 4.0, "{after}");
    assert_eq!(values("Reframer(64us)")[..2], ["off", "400.000"]);
    let (outcome, _) = through_while("Reframer(64us)", &arrivals, "wait 50us, write e.quic_id 4", &handlers);
    assert_eq!(outcome.values[0].as_deref(), Ok("4"));
}

#[test]
fn overflows_are_packets_that_were_not_held() {
    // Two five-tuples in turn. With room for one list, the packet of the other one passes, after all that are
    // held.
    let packet = |n: u8| (i64::from(n) * 1000, short(u16::from(n % 2), n, n.into()));
    let arrivals: Vec<_> = (0..20).map(packet).collect();
    for (capacity, count) in [(1, "10"), (2, "0")] {
        let element = format!("Reframer(64us, QUIC_ID 8, CAPACITY {capacity})");
        let (outcome, _) = through(&element, &arrivals, &["e.overflows", "e.passed"]);
        assert_eq!(outcome.values, [count, count].map(|v| Ok(v.to_string())), "{capacity}");
    }
}

#[test]
fn a_slow_connection_does_not_wait_under_an_slo() {
    let arrivals: Vec<_> = (0..20).map(|n| (i64::from(n) * 1_000_000, short(1, 5, n))).collect();
    let (_, seen) = through("Reframer(SLO 20us, QUIC_ID 8, BYPASS none)", &arrivals, &[]);
    let came = arrivals.iter().map(|(time, _)| *time);
    let waits: Vec<_> = seen.iter().zip(came).map(|((left, _), came)| left - came).collect();
    assert!(waits[4..].iter().all(|&wait| wait == 0), "{waits:?}");
}

/// Returns connections that send from few five-tuples: first long headers, then short headers with an id,
/// which changes now and then. A connection does not use an id again. With the time, the connection and the
/// bytes.
fn random(seed: u64) -> Vec<(i64, usize, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut time, mut next_id) = (0, 0u8);
    let mut ids = [0u8; 6];
    let mut arrivals = Vec::new();
    for number in 0..1500u32 {
        time += random.i64(0..2000);
        let connection = random.usize(..ids.len());
        let first = match random.u8(..30) {
            0 => LONG,
            1 => GREASED,
            _ => SHORT,
        };
        if number < 6 || random.u8(..40) == 0 {
            next_id = next_id.wrapping_add(1);
            ids[connection] = next_id;
        }
        let bytes = payload(first, ids[connection], number);
        let client = connection as u16 / 2;
        let is_v6 = connection % 4 < 2;
        let builder = builder(is_v6, client, true);
        let builder = if !is_v6 && random.u8(..30) == 0 { builder.id(7).fragment(0x2000) } else { builder };
        arrivals.push((time, connection, frame(builder, &bytes)));
    }
    arrivals
}

#[test]
fn no_connection_is_reordered_when_its_id_changes() {
    for (number, arguments) in [
        "BYPASS none",
        "MAX_BURST 2",
        "MAX_BURST 3, PRIORITY SHORTEST_FLOW",
        "PRIORITY OLDEST_FLOW, MAX_TX_BURST 2",
        "ELEPHANTS 5",
        "SLO 20us",
        "MAX_HELD 5",
        "CAPACITY 3",
        "TUNNELS true, DELAYS udp port 443 9us",
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 0..10 {
            let arrivals = random(seed + 100 * number as u64);
            let packets: Vec<_> = arrivals.iter().map(|(time, _, bytes)| (*time, bytes.clone())).collect();
            let element = format!("Reframer(64us, QUIC_ID 8, {arguments})");
            let (outcome, seen) = through(&element, &packets, &[]);
            assert!(outcome.report.balances());
            assert_eq!(seen.len(), packets.len(), "{element}");
            let about: HashMap<&[u8], (i64, usize)> =
                arrivals.iter().map(|(time, connection, bytes)| (&bytes[..], (*time, *connection))).collect();
            for connection in 0..6 {
                let came =
                    arrivals.iter().filter(|arrival| arrival.1 == connection).map(|arrival| &arrival.2);
                let left =
                    seen.iter().filter(|(_, bytes)| about[&bytes[..]].1 == connection).map(|seen| &seen.1);
                assert!(came.eq(left), "{element}, seed {seed}: connection {connection}");
            }
            let last = packets.last().unwrap().0;
            for (left, bytes) in &seen {
                let waited = left - about[&bytes[..]].0;
                assert!((0..=64_000).contains(&waited) || *left >= last, "{element}: {waited} ns");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_datagram_panics(bytes: Vec<u8>, length in 1usize..21, cut in 0usize..60, is_v6: bool) {
        let mut frame = frame(builder(is_v6, 1, true), &bytes);
        frame.truncate(frame.len().saturating_sub(cut));
        located(&[frame], length);
    }
}
