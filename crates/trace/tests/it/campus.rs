//! Tests of traces like a campus's: packets are correct, the same seed gives the same bytes, flows live as
//! long as requested, and the number of flows alive does not change what the traffic is like. The paper's
//! numbers are compared by the tests of the Reframer, which takes part in some of them.

use std::collections::HashMap;

use trace::TraceReport;
use trace::generate::campus::{Campus, CampusDirection, CampusError, CampusGenerator, FEWEST_PACKETS};
use wire::tcp::flags;
use wire::{FiveTuple, FromBytes, ip_protocol, tcp};

use crate::agreement::analyze;
use crate::generated::check;
use crate::slow::Raw;

const CAMPUS: Campus = Campus { direction: CampusDirection::Tx, packets: 100_000, alive: None, seed: 3 };

fn make(campus: Campus) -> Vec<Raw> {
    let generator = CampusGenerator::new(campus).unwrap();
    let announced = generator.packets();
    let raws: Vec<_> = generator
        .map(|packet| Raw {
            time: packet.time,
            wire_len: packet.frame.len() as u32,
            frame: packet.frame,
            link: 1,
        })
        .collect();
    assert_eq!(raws.len() as u64, announced);
    raws
}

/// Returns the mean number of flows between their first and their last packet.
fn alive(raws: &[Raw]) -> f64 {
    let mut flows: HashMap<FiveTuple, (i64, i64)> = HashMap::new();
    for raw in raws {
        let tuple = check(&raw.frame).five_tuple(&raw.frame).unwrap();
        flows.entry(tuple).or_insert((raw.time, raw.time)).1 = raw.time;
    }
    let sum: i64 = flows.values().map(|(first, last)| last - first).sum();
    sum as f64 / (raws[raws.len() - 1].time - raws[0].time) as f64
}

#[test]
fn packets_are_correct_and_in_order() {
    for direction in [CampusDirection::Rx, CampusDirection::Tx] {
        let mut flows: HashMap<FiveTuple, (u32, u8)> = HashMap::new();
        let mut before = 0;
        for raw in make(Campus { direction, ..CAMPUS }) {
            assert!(raw.time >= before);
            before = raw.time;
            let layers = check(&raw.frame);
            let tuple = layers.five_tuple(&raw.frame).unwrap();
            if layers.protocol != Some(ip_protocol::TCP) {
                continue;
            }
            let (header, _) = tcp::Header::ref_from_prefix(&raw.frame[layers.l4.unwrap()..]).unwrap();
            let payload = (layers.end - layers.payload.unwrap()) as u32;
            let ends = u32::from(header.has(flags::SYN)) + u32::from(header.has(flags::FIN));
            let end = header.sequence.get().wrapping_add(payload + ends);
            match flows.insert(tuple, (end, header.flags)) {
                None => assert_eq!((header.flags, payload), (flags::SYN, 0)),
                Some((expected, flags_before)) => {
                    assert_eq!((header.sequence.get(), header.has(flags::SYN)), (expected, false));
                    assert_eq!(flags_before & flags::FIN, 0, "a packet behind the FIN");
                }
            }
        }
        // The last packet of each flow has a FIN, unless the SYN is its only packet.
        assert!(flows.values().all(|(_, last)| last & (flags::FIN | flags::SYN) != 0));
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed| -> u64 {
        let add = |sum: u64, byte: &u8| sum.rotate_left(5) ^ u64::from(*byte);
        make(Campus { seed, ..CAMPUS })
            .iter()
            .fold(0, |sum, raw| raw.frame.iter().fold(sum.wrapping_mul(31) ^ raw.time as u64, add))
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

/// Returns what a trace is like: TCP flows of 1, up to 5 and up to 50 packets, as shares of all flows; the
/// shares of the packets in the largest flow and of packets behind another flow; packets of a flow within
/// 16 and 128 microseconds.
fn properties(report: &TraceReport) -> [f64; 7] {
    let sizes = &report.tcp_flow_sizes.packets;
    let up_to = |size: u64| -> f64 {
        let counts = sizes.bins.iter().filter(|bin| bin.to <= size).map(|bin| bin.count);
        counts.sum::<u64>() as f64 / sizes.count as f64
    };
    let distance = &report.spatial_distance;
    let adjacent = distance.bins.iter().filter(|bin| bin.to == 0).map(|bin| bin.count).sum::<u64>();
    [
        up_to(1),
        up_to(5),
        up_to(50),
        sizes.max as f64 / report.packets as f64,
        1.0 - adjacent as f64 / distance.count as f64,
        report.batch[&16].mean,
        report.batch[&128].mean,
    ]
}

#[test]
fn flows_alive_change_nothing_else() {
    for direction in [CampusDirection::Rx, CampusDirection::Tx] {
        let mut before: Option<[f64; 7]> = None;
        for requested in [200, 500, 1500] {
            let raws = make(Campus { direction, packets: 600_000, alive: Some(requested), ..CAMPUS });
            let alive = alive(&raws) / f64::from(requested);
            println!(
                "{direction:?}, {requested} alive: {alive:.2} times, {:.3?}",
                properties(&analyze(&raws))
            );
            assert!((0.9..1.1).contains(&alive), "{direction:?}, {requested} alive: {alive} times");
            let now = properties(&analyze(&raws));
            if let Some(before) = before.replace(now) {
                for (before, now) in before.iter().zip(now) {
                    assert!(
                        (now / before - 1.0).abs() < 0.1,
                        "{direction:?}, {requested} alive: {before} became {now}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_not_possible_is_refused() {
    let refuse = |packets, alive| CampusGenerator::new(Campus { packets, alive, ..CAMPUS }).err().unwrap();
    assert_eq!(refuse(FEWEST_PACKETS - 1, None), CampusError::Packets(FEWEST_PACKETS - 1));
    assert_eq!(refuse(u64::MAX, None), CampusError::Packets(u64::MAX));
    let CampusError::Alive { alive: 0, least, most } = refuse(100_000, Some(0)) else { panic!() };
    for (alive, is_possible) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
        let campus = Campus { alive: Some(alive as u32), ..CAMPUS };
        assert_eq!(CampusGenerator::new(campus).is_ok(), is_possible, "{alive}");
    }
    let smallest = make(Campus { packets: FEWEST_PACKETS, ..CAMPUS }).len();
    assert!((90_000..110_000).contains(&smallest), "{smallest}");
}
