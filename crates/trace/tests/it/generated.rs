//! Tests that generated traces have the requested properties.

use std::collections::HashMap;
use std::process::Command;

use capture::{LinkType, Reader, Writer, WriterOptions};
use proptest::prelude::*;
use trace::generate::{Generator, Protocols, START, Specification, SpecificationError};
use wire::checksum::{PseudoHeader, ipv4_valid, tcp_valid, udp_valid};
use wire::layers::Network;
use wire::tcp::flags;
use wire::{FromBytes, Layers, ip_protocol, ipv4, ipv6, tcp};

use crate::agreement::{analyze, same};
use crate::slow::{self, Raw};

fn specification() -> Specification {
    Specification {
        flows: 100,
        packets: 20_000,
        slf: 2.5,
        zipf: 1.0,
        sizes: "imix".parse().unwrap(),
        rate: 1e6,
        protocol: Protocols::Mix,
        ipv6: 0.25,
        answers: false,
        seed: 7,
    }
}

fn make(specification: Specification) -> Vec<Raw> {
    let raws = Generator::new(specification).unwrap().map(|packet| Raw {
        time: packet.time,
        wire_len: packet.frame.len() as u32,
        frame: packet.frame,
        link: 1,
    });
    raws.collect()
}

/// Checks that a frame is not malformed and that its IP and transport checksums are right. Returns its
/// headers.
pub(crate) fn check(frame: &[u8]) -> Layers {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    assert_eq!((layers.fault, layers.missing), (None, 0));
    let (l3, l4) = (layers.l3.unwrap(), layers.l4.unwrap());
    let pseudo = match layers.network {
        Network::Ipv4 => {
            assert!(ipv4_valid(&frame[l3..l4]));
            let (ip, _) = ipv4::Header::ref_from_prefix(&frame[l3..]).unwrap();
            PseudoHeader::V4 { source: ip.source_addr(), destination: ip.destination_addr() }
        }
        _ => {
            let (ip, _) = ipv6::Header::ref_from_prefix(&frame[l3..]).unwrap();
            PseudoHeader::V6 { source: ip.source_addr(), destination: ip.destination_addr() }
        }
    };
    let segment = &frame[l4..layers.end];
    let valid = match layers.protocol {
        Some(ip_protocol::TCP) => tcp_valid(&pseudo, segment),
        _ => udp_valid(&pseudo, segment),
    };
    assert!(valid);
    layers
}

#[test]
fn what_was_asked_for_is_there() {
    let raws = make(specification());
    let report = analyze(&raws);
    assert_eq!((report.packets, report.flows), (20_000, 100));
    assert!((report.slf - 2.5).abs() < 0.001, "{}", report.slf);
    assert!((report.duration_s - 0.019_999).abs() < 1e-9);
    assert_eq!(raws[0].time, START * 1_000_000_000);
    assert!((20..80).contains(&report.tcp_flows), "{}", report.tcp_flows);
    let six = |raw: &&Raw| Layers::locate(&raw.frame, LinkType::Ethernet).network == Network::Ipv6;
    let tuples: std::collections::HashSet<_> = raws
        .iter()
        .filter(six)
        .map(|raw| Layers::locate(&raw.frame, LinkType::Ethernet).five_tuple(&raw.frame))
        .collect();
    assert_eq!(tuples.len(), 25);
    let order = &report.tcp_reordering;
    assert!(order.segments > 1000);
    assert_eq!((order.reordered, order.retransmitted), (0, 0));
    same(&report, &slow::analyze(&raws));
}

#[test]
fn tcp_starts_with_a_syn_and_counts_its_bytes() {
    let mut next: HashMap<_, u32> = HashMap::new();
    let mut finished = std::collections::HashSet::new();
    for raw in make(Specification { sizes: "100,1000:2".parse().unwrap(), ..specification() }) {
        let layers = check(&raw.frame);
        if layers.protocol != Some(ip_protocol::TCP) {
            continue;
        }
        let (header, _) = tcp::Header::ref_from_prefix(&raw.frame[layers.l4.unwrap()..]).unwrap();
        let payload = (layers.end - layers.payload.unwrap()) as u32;
        let sequence = header.sequence.get();
        let ends = u32::from(header.has(flags::SYN)) + u32::from(header.has(flags::FIN));
        let end = sequence.wrapping_add(payload + ends);
        let tuple = layers.five_tuple(&raw.frame).unwrap();
        assert!(!finished.contains(&tuple), "a packet behind the FIN");
        if header.has(flags::FIN) {
            finished.insert(tuple);
        }
        match next.insert(tuple, end) {
            None => assert_eq!((header.flags, payload), (flags::SYN, 0)),
            Some(expected) => {
                assert_eq!(
                    (sequence, header.has(flags::SYN), header.has(flags::ACK)),
                    (expected, false, true)
                );
                assert!(raw.frame.len() == 100 || raw.frame.len() == 1000);
            }
        }
    }
    // With this specification, each TCP flow has several packets, so each has a FIN.
    assert!(next.len() > 20 && finished.len() == next.len());
}

#[test]
fn answers_acknowledge_what_was_sent() {
    let raws = make(Specification { answers: true, ..specification() });
    let (mut sent, mut acknowledged) = (HashMap::new(), HashMap::new());
    let mut tcp_flows = 0;
    for raw in &raws {
        let layers = check(&raw.frame);
        if layers.protocol != Some(ip_protocol::TCP) {
            continue;
        }
        let tuple = layers.five_tuple(&raw.frame).unwrap();
        let (header, _) = tcp::Header::ref_from_prefix(&raw.frame[layers.l4.unwrap()..]).unwrap();
        let payload = (layers.end - layers.payload.unwrap()) as u32;
        let ends = u32::from(header.has(flags::SYN)) + u32::from(header.has(flags::FIN));
        let end = header.sequence.get().wrapping_add(payload + ends);
        let other = (tuple.destination(), tuple.destination_port(), tuple.source(), tuple.source_port());
        let own = (tuple.source(), tuple.source_port(), tuple.destination(), tuple.destination_port());
        if let Some(sent) = sent.get_mut(&other) {
            // Each packet gets one acknowledgment, in order, which has SYN or FIN if the packet has it.
            let sent: &mut std::collections::VecDeque<(u32, u8)> = sent;
            let (expected, kind) = sent.pop_front().unwrap();
            assert_eq!(
                (header.acknowledgment.get(), payload, header.flags),
                (expected, 0, kind | flags::ACK)
            );
            *acknowledged.entry(own).or_insert(0) += 1;
        } else {
            let sent: &mut std::collections::VecDeque<(u32, u8)> = sent.entry(own).or_default();
            tcp_flows += u64::from(sent.is_empty() && header.has(flags::SYN));
            sent.push_back((end, header.flags & (flags::SYN | flags::FIN)));
        }
    }
    assert!(sent.values().all(std::collections::VecDeque::is_empty));
    assert_eq!(acknowledged.len(), sent.len());
    let report = analyze(&raws);
    assert_eq!((report.flows, report.tcp_flows), (100 + tcp_flows, 2 * tcp_flows));
    assert_eq!(report.packets, 20_000 + report.kinds.tcp.packets / 2);
    assert!((report.slf - 2.5).abs() < 0.025, "{}", report.slf);
    assert_eq!(report.tcp_reordering.reordered + report.tcp_reordering.retransmitted, 0);
    same(&report, &slow::analyze(&raws));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed| -> Vec<Vec<u8>> {
        make(Specification { seed, ..specification() }).into_iter().map(|raw| raw.frame).collect()
    };
    let first = bytes(7);
    assert_eq!(first, bytes(7));
    assert_ne!(first, bytes(8));
    // A checksum over all bytes, recorded when this test was written. It must be the same on any machine.
    let sum = first.iter().flatten().fold(0u32, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte));
    assert_eq!(sum, FINGERPRINT);
}

const FINGERPRINT: u32 = 2_666_854_962;

#[test]
fn skew_follows_zipf() {
    let spec =
        Specification { flows: 10, packets: 100_000, slf: 1.0, protocol: Protocols::Udp, ..specification() };
    let largest = |zipf| analyze(&make(Specification { zipf, ..spec.clone() })).flow_sizes.packets;
    assert_eq!((largest(0.0).min, largest(0.0).max), (largest(0.0).p50, 9_984 + 16));
    // The first flow has 1 / (1 + 1/2 + ... + 1/10) of the runs.
    let share = largest(1.0).max as f64 / 1e5;
    assert!((share - 0.3414).abs() < 0.001, "{share}");
    // With a larger exponent, the first flow would have more than half of the runs, which is the limit.
    assert_eq!(largest(3.0).max, 50_000);
}

#[test]
fn tshark_finds_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("generated.pcap");
    let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), options);
    let raws = make(Specification { packets: 2000, answers: true, ..specification() });
    for raw in &raws {
        writer.write(raw.time, raw.wire_len, [&raw.frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    assert!(Reader::open(&path).unwrap().nanoseconds());
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"]);
    checks.iter().for_each(|check| _ = tshark.arg("-o").arg(format!("{check}:TRUE")));
    // The filter selects packets with wrong checksums, malformed headers, or signs of loss and reordering.
    let wrong = "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 || _ws.malformed \
                 || tcp.analysis.retransmission || tcp.analysis.out_of_order || tcp.analysis.lost_segment";
    let Ok(output) = tshark.args(["-Y", wrong]).output() else {
        println!("skipped: tshark is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_not_possible_is_refused() {
    let refuse = |change: &dyn Fn(&mut Specification)| {
        let mut wrong = specification();
        change(&mut wrong);
        Generator::new(wrong).err().unwrap()
    };
    assert_eq!(refuse(&|s| s.flows = 0), SpecificationError::Flows(0));
    assert_eq!(refuse(&|s| s.flows = 9_000), SpecificationError::TooFewPackets { runs: 8_000, flows: 9_000 });
    assert_eq!(refuse(&|s| s.flows = 1), SpecificationError::OneFlow);
    let ranges: [&dyn Fn(&mut Specification); 7] = [
        &|s| s.slf = 0.5,
        &|s| s.slf = f64::NAN,
        &|s| s.zipf = -1.0,
        &|s| s.rate = 0.0,
        &|s| s.ipv6 = 1.5,
        &|s| s.packets = 0,
        &|s| s.packets = u64::MAX,
    ];
    for change in ranges {
        assert!(matches!(refuse(change), SpecificationError::Range { .. }));
    }
    let one = Specification { flows: 1, packets: 5, slf: 5.0, ..specification() };
    assert_eq!(Generator::new(one).unwrap().count(), 5);
}

proptest! {
    #[test]
    fn any_specification_is_met(
        flows in 2u32..200, slf in 1.0f64..20.0, zipf in 0.0f64..2.5, more in 1u64..20, six in 0.0f64..=1.0, seed: u64,
    ) {
        let packets = ((f64::from(flows) * slf).ceil() as u64 + 1) * more;
        let raws = make(Specification { flows, packets, slf, zipf, ipv6: six, seed, ..specification() });
        raws.iter().for_each(|raw| _ = check(&raw.frame));
        let report = analyze(&raws);
        prop_assert_eq!((report.packets, report.flows), (packets, u64::from(flows)));
        // The SLF is met up to rounding to whole runs, and up to one run that could not be kept apart from
        // the previous run of its flow.
        let runs = packets as f64 / report.slf;
        prop_assert!((runs - packets as f64 / slf).abs() <= 1.6, "{} for {}", report.slf, slf);
        prop_assert_eq!(report.tcp_reordering.reordered + report.tcp_reordering.retransmitted, 0);
    }
}
