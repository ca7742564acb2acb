//! Comparison of the crate's analyses with the second implementation in `slow`, on captures, generated
//! traces and random packets.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use capture::{LinkType, Reader, Record};
use proptest::prelude::*;
use trace::analysis::batches::BatchSize;
use trace::histogram::Distribution;
use trace::{Analyzer, Options, TraceReport};
use wire::MacAddr;
use wire::build::Builder;

use crate::slow::{self, Raw, Slow, Values};

/// Returns the crate's report for a capture in memory, with both passes.
pub(crate) fn analyze(raws: &[Raw]) -> TraceReport {
    analyze_captures(&[raws])
}

/// Returns the crate's report for several captures as one trace, with both passes.
pub(crate) fn analyze_captures(captures: &[&[Raw]]) -> TraceReport {
    fn each(raws: &[Raw], mut take: impl FnMut(&Record<'_>)) {
        for (number, raw) in (1..).zip(raws) {
            let (data, link) = (&raw.frame[..], LinkType::from_number(raw.link));
            take(&Record { number, position: 0, time: raw.time, data, wire_len: raw.wire_len, link });
        }
    }
    let mut analyzer = Analyzer::new(Options { top_addresses: 3, ..Options::default() }).unwrap();
    for raws in captures {
        analyzer.begin();
        each(raws, |record| analyzer.observe(record).unwrap());
    }
    let (mut report, mut second) = analyzer.finish().unwrap();
    for raws in captures {
        second.begin();
        each(raws, |record| second.observe(record));
    }
    second.finish(&mut report);
    report
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn same_distribution(what: &str, ours: &Distribution, slow: &Values) {
    assert_eq!(ours.count, slow.0.len() as u64, "{what}");
    assert!(near(ours.mean, slow.mean()), "{what}: mean {} and {}", ours.mean, slow.mean());
    assert_eq!(ours.max, slow.0.last().copied().unwrap_or(0), "{what}: max");
    let percentiles = [(25, ours.p25), (50, ours.p50), (75, ours.p75), (90, ours.p90), (99, ours.p99)];
    for (percent, ours) in percentiles {
        let exact = slow.percentile(percent);
        // Values from 4096 on may be rounded down by up to 1/2048.
        let agrees = ours <= exact && exact - ours <= if exact < 4096 { 0 } else { exact / 2048 };
        assert!(agrees, "{what}: p{percent} {ours} and {exact}");
    }
}

fn same_batches(what: &str, ours: &BTreeMap<u32, BatchSize>, slow: &BTreeMap<u32, Values>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), slow.keys().collect::<Vec<_>>());
    for (window, ours) in ours {
        let slow = &slow[window];
        assert_eq!(ours.batches, slow.0.len() as u64, "{what} {window}");
        assert!(near(ours.mean, slow.mean()), "{what} {window}");
        let ours = [ours.p25, ours.p50, ours.p75, ours.p99, ours.max];
        let exact = [25, 50, 75, 99, 100].map(|percent| slow.percentile(percent));
        assert_eq!(ours, exact, "{what} {window}");
    }
}

pub(crate) fn same(ours: &TraceReport, slow: &Slow) {
    assert_eq!(
        [ours.packets, ours.bytes, ours.flows, ours.tcp_flows],
        [slow.packets, slow.bytes, slow.flows, slow.tcp_flows]
    );
    let kinds =
        [ours.kinds.tcp, ours.kinds.udp, ours.kinds.fragments, ours.kinds.other_ip, ours.kinds.not_ip];
    assert_eq!(kinds.iter().map(|amount| amount.packets).sum::<u64>(), ours.packets);
    assert_eq!(kinds.iter().map(|amount| amount.bytes).sum::<u64>(), ours.bytes);
    assert!(near(ours.duration_s, slow.duration_s) && near(ours.slf, slow.slf), "{} {}", ours.slf, slow.slf);
    same_distribution("packets per flow", &ours.flow_sizes.packets, &slow.flow_packets);
    same_distribution("bytes per flow", &ours.flow_sizes.bytes, &slow.flow_bytes);
    let switches: BTreeMap<u32, (u64, u64)> =
        ours.switches.iter().map(|(size, s)| (*size, (s.as_is, s.ordered))).collect();
    assert_eq!(switches, slow.switches);
    same_batches("batch", &ours.batch, &slow.batch);
    same_batches("uncapped", &ours.batch_uncapped, &slow.batch_uncapped);
    let acks = ours.ack_coalescing.iter().map(|(window, acks)| (*window, acks.all)).collect();
    same_batches("acks", &acks, &slow.acks);
    for (window, acks) in &ours.ack_coalescing {
        let batches = slow.pure_batches[window].0.len() as u64;
        assert_eq!((acks.pure_acks, acks.pure_batches), (slow.pure_acks, batches));
    }
    same_distribution("spatial", &ours.spatial_distance, &slow.spatial);
    same_distribution("temporal", &ours.temporal_distance_ns, &slow.temporal);
    same_distribution("concurrent", &ours.concurrent_flows_150us, &slow.concurrent);
    same_distribution("concurrent large", &ours.concurrent_large_flows_150us, &slow.concurrent_large);
    let order = &ours.tcp_reordering;
    assert_eq!(
        [order.segments, order.reordered, order.retransmitted, order.delay_ns.count],
        [slow.segments, slow.reordered, slow.retransmitted, slow.reordered]
    );
    assert!(near(ours.sliceable.packets, slow.sliceable.0) && near(ours.sliceable.bytes, slow.sliceable.1));
    for step in &ours.flow_sizes.cdf {
        let small = || slow.flow_bytes.0.iter().filter(|bytes| **bytes <= step.up_to);
        let all: u64 = slow.flow_bytes.0.iter().sum();
        assert!(near(step.flows, small().count() as f64 / slow.flows as f64), "{step:?}");
        assert!(near(step.bytes, small().sum::<u64>() as f64 / all as f64), "{step:?}");
    }
}

/// Reads the packets of a capture, up to its end or the first damage. No packets if it cannot be opened.
fn load(path: &Path) -> Vec<Raw> {
    let Ok(mut reader) = Reader::open(path) else { return Vec::new() };
    let mut raws = Vec::new();
    while let Ok(Some(record)) = reader.next() {
        let (time, frame, wire_len) = (record.time, record.data.to_vec(), record.wire_len);
        raws.push(Raw { time, frame, wire_len, link: record.link.number() });
    }
    raws
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(captures(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn on_every_capture_that_is_there() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join("traces");
    if !folder.is_dir() {
        println!("skipped: no captures at {} (set TIDEGATE_DATA)", folder.display());
        return;
    }
    let mut with_flows = 0;
    for path in captures(&folder) {
        println!("{}", path.display());
        let raws = load(&path);
        // The other analysis does not read all headers, such as those of 802.11.
        if raws.iter().any(|raw| LinkType::from_number(raw.link).is_known() && !slow::knows(raw.link)) {
            continue;
        }
        let ours = analyze(&raws);
        with_flows += usize::from(ours.flows > 0);
        same(&ours, &slow::analyze(&raws));
    }
    assert!(with_flows > 10, "only {with_flows} captures have flows");
}

#[test]
fn on_our_own_capture() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/data/quickstart.pcap");
    let raws = load(&path);
    let ours = analyze(&raws);
    assert_eq!(ours.packets, 191);
    same(&ours, &slow::analyze(&raws));
}

/// Generates a random packet and the time since the packet before it. There are few flows, so that their
/// packets interleave. Times and sequence numbers are close together, so that windows and segments overlap.
fn packet() -> impl Strategy<Value = (i64, Raw)> {
    let gap = prop_oneof![4 => 0i64..3_000, 2 => 0i64..400_000, 1 => 0i64..2_000_000, 1 => -5_000i64..0];
    let shape = (0u8..10, 0u16..4, any::<bool>(), 0usize..3);
    let tcp =
        (0u32..40, 0usize..12, prop::sample::select(vec![0x10u8, 0x10, 0x10, 0x18, 0x02, 0x11, 0x14, 0x52]));
    (gap, shape, tcp, 0usize..1600, 0usize..80).prop_map(|(gap, shape, (place, length, flags), size, cut)| {
        let (kind, flow, six, tags) = shape;
        let end = |host: u8, port: u16| -> SocketAddr {
            match six {
                true => ([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host], port).into(),
                false => (Ipv4Addr::new(10, 0, 0, host), port).into(),
            }
        };
        let (from, to) = (end(1, 1000 + flow % 2), end(2 + (flow / 2) as u8, 80));
        // The sequence numbers are near the wrap-around.
        let sequence = 0u32.wrapping_sub(200).wrapping_add(place * 10);
        let builder = match kind {
            0 => Builder::udp(from, to),
            1 => Builder::udp(from, to).fragment(if size % 2 == 0 { 0x2000 } else { 7 }),
            2 => Builder::icmp(from.ip(), to.ip(), 8, 0, [1, 2]),
            _ => Builder::tcp(from, to, flags).sequence(sequence, 1).options(&[1; 12][..4 * tags]),
        };
        let builder = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let builder = (0..tags).fold(builder, |builder, tag| builder.vlan(tag as u16 + 1));
        // TCP payloads are short, so that segments overlap, except for a few long payloads.
        let payload = if kind > 2 && size < 1400 { length } else { size };
        let mut frame = builder.build(&vec![7; payload]).unwrap();
        let wire_len = frame.len() as u32;
        if cut < 50 && kind % 2 == 0 {
            frame.truncate(20 + cut);
        }
        (gap, Raw { time: 0, frame, wire_len, link: 1 })
    })
}

proptest! {
    #[test]
    fn on_random_packets(packets in prop::collection::vec(packet(), 1..300)) {
        let mut time = 1_000_000_000;
        let raws: Vec<Raw> = packets.into_iter().map(|(gap, raw)| {
            time += gap;
            Raw { time, ..raw }
        }).collect();
        same(&analyze(&raws), &slow::analyze(&raws));
    }

    #[test]
    fn a_capture_in_pieces_is_the_same_trace(packets in prop::collection::vec(packet(), 2..200), at in 0.0f64..1.0) {
        let mut time = 1_000_000_000;
        let raws: Vec<Raw> = packets.into_iter().map(|(gap, raw)| {
            time += gap.max(0);
            Raw { time, ..raw }
        }).collect();
        let (a, b) = raws.split_at((raws.len() as f64 * at) as usize);
        prop_assert_eq!(analyze_captures(&[a, b]), analyze(&raws));
    }

    #[test]
    fn on_random_bytes(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), 0u32..2000, 0usize..8), 0..40),
    ) {
        let raws: Vec<Raw> = frames.into_iter().enumerate().map(|(n, (mut frame, more, link))| {
            // Three of four frames get the Ethernet type of IPv4, IPv6 or a VLAN tag if they have more than
            // 40 bytes, so that they are dissected further.
            let start: &[u8] = [&[0x08, 0x00, 0x45, 0x00][..], &[0x86, 0xdd, 0x60], &[0x81, 0x00]][n % 3];
            if frame.len() > 40 && n % 4 < 3 {
                frame[12..12 + start.len()].copy_from_slice(start);
            }
            let wire_len = frame.len() as u32 + more;
            Raw { time: n as i64 * 100, frame, wire_len, link: [1, 1, 1, 113, 276, 0, 101, 147][link] }
        }).collect();
        same(&analyze(&raws), &slow::analyze(&raws));
    }
}
