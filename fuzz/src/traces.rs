//! Analyses of captures.

use std::io::Cursor;

use capture::Reader;
use trace::{Analyzer, Options, Report};

/// Packets looked at of one input: a few bytes can decompress to millions of records.
const MOST_PACKETS: usize = 2_048;

/// Analyses any bytes as a capture, behind itself once more: what is counted twice agrees, and every figure is a number.
pub fn analysis(data: &[u8]) {
    let options = Options { top_addresses: 2, ..Options::default() };
    let mut analyzer = Analyzer::new(options).expect("there is memory for flows");
    let passes = 2;
    for _ in 0..passes {
        analyzer.begin();
        each(data, |record| analyzer.observe(record).expect("there is memory for flows"));
    }
    let (mut report, mut second) = analyzer.finish().expect("there is memory for flows");
    for _ in 0..passes {
        second.begin();
        each(data, |record| second.observe(record));
    }
    second.finish(&mut report);
    check(&report);
    for text in [report.to_string(), trace::html::page(&report)] {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

fn each(data: &[u8], mut take: impl FnMut(&capture::Record<'_>)) {
    let Ok(mut reader) = Reader::from_read(Cursor::new(data.to_vec()), "fuzz") else { return };
    for _ in 0..MOST_PACKETS {
        let Ok(Some(record)) = reader.next() else { return };
        take(&record);
    }
}

/// What has to hold between the figures of any trace.
fn check(report: &Report) {
    let kinds = &report.kinds;
    let all = [kinds.tcp, kinds.udp, kinds.fragments, kinds.other_ip, kinds.not_ip];
    assert_eq!(all.iter().map(|kind| kind.packets).sum::<u64>(), report.packets);
    assert_eq!(all.iter().map(|kind| kind.bytes).sum::<u64>(), report.bytes);
    let in_flows = kinds.tcp.packets + kinds.udp.packets;
    assert_eq!((report.flow_sizes.packets.count, report.packet_bytes.count), (report.flows, report.packets));
    assert!(report.tcp_flows <= report.flows && report.flows <= in_flows);
    assert_eq!(report.slf >= 1.0, in_flows > 0);
    assert_eq!(report.spatial_distance.count, in_flows - report.flows);
    assert!(report.temporal_distance_ns.count <= report.spatial_distance.count);
    for switch in report.switches.values() {
        assert!(switch.ordered <= switch.as_is && switch.as_is <= in_flows);
    }
    for batch in report.batch.values().chain(report.batch_uncapped.values()) {
        // Each packet is in one batch.
        let packets = batch.mean * batch.batches as f64;
        assert!((packets - kinds.tcp.packets as f64).abs() < 0.01, "{batch:?}");
    }
    for (capped, uncapped) in report.batch.values().zip(report.batch_uncapped.values()) {
        assert!(capped.max <= 32 && uncapped.batches <= capped.batches);
    }
    let order = &report.tcp_reordering;
    assert!(order.reordered + order.retransmitted <= order.segments && order.late <= order.reordered);
    for share in [report.tcp_reordered_ratio, report.sliceable.packets, report.sliceable.bytes] {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
