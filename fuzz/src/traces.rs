//! Fuzz targets for the analysis of captures, and for `multiply`, which merges windows of a capture.

use std::io::Cursor;

use capture::{LinkType, Reader, Writer, WriterOptions};
use trace::multiply::Windows;
use trace::{Analyzer, Options, TraceReport, multiply};
use wire::checksum::ipv4_valid;
use wire::layers::{Layers, Network};

/// The maximum number of packets that are read from one input, because a few compressed bytes can contain
/// millions of records.
const MOST_PACKETS: usize = 2_048;

/// Analyses any bytes as a capture file, which the trace contains twice, in both passes of the analysis.
/// Checks that numbers counted in two ways agree, and that no figure in the reports is infinite or not a
/// number.
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
    for text in [report.to_string(), trace::html::page(&report, "")] {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

/// Reads any bytes as a capture file, and merges two windows of its time. Checks that each packet is in the
/// result, or counted as left out or as after the windows. If all packets are in the result, the total length
/// and the number of valid IPv4 headers have to stay the same.
pub fn multiplying(data: &[u8]) {
    let mut packets = Vec::new();
    each(data, |record| packets.push((record.time, record.link, record.data.to_vec())));
    let Some(&(first, link, _)) = packets.first() else { return };
    let last = packets.iter().map(|(time, ..)| *time).max().unwrap_or(first);
    let length = (last.saturating_sub(first) / 2).max(1);
    let mut writer =
        Writer::new(Vec::new(), WriterOptions { nanoseconds: true, link, ..WriterOptions::default() });
    for (time, _, frame) in &packets {
        writer.write(*time, frame.len() as u32, [&frame[..]]).expect("memory takes it");
    }
    writer.flush().expect("memory takes it");
    let input = Cursor::new(writer.get_ref().clone());
    let mut reader = Reader::from_read(input, "fuzz").expect("what was written reads back");
    let mut output = Vec::new();
    let windows = Windows { count: 2, length };
    let Ok(multiplied) = multiply(&mut reader, windows, &std::env::temp_dir(), &mut output, &mut |_| ())
    else {
        return;
    };
    let mut left = Vec::new();
    each(&output, |record| left.push(record.data.to_vec()));
    let lost = multiplied.left_out + multiplied.after_windows;
    assert_eq!(left.len() + lost as usize, packets.len());
    if lost == 0 {
        let right = |frames: &mut dyn Iterator<Item = &Vec<u8>>| {
            frames.fold((0, 0), |(bytes, right), frame| {
                (bytes + frame.len(), right + usize::from(is_right(frame, link)))
            })
        };
        assert_eq!(right(&mut packets.iter().map(|(.., frame)| frame)), right(&mut left.iter()));
    }
}

/// True if a frame has an IPv4 header with a valid checksum.
fn is_right(frame: &[u8], link: LinkType) -> bool {
    let layers = Layers::locate(frame, link);
    let header = layers.l3.filter(|_| layers.network == Network::Ipv4).and_then(|l3| {
        let length = usize::from(frame.get(l3)? & 15) * 4;
        frame.get(l3..l3 + length)
    });
    header.is_some_and(ipv4_valid)
}

fn each(data: &[u8], mut take: impl FnMut(&capture::Record<'_>)) {
    let Ok(mut reader) = Reader::from_read(Cursor::new(data.to_vec()), "fuzz") else { return };
    for _ in 0..MOST_PACKETS {
        let Ok(Some(record)) = reader.next() else { return };
        take(&record);
    }
}

/// Checks that the figures of a report agree with each other.
fn check(report: &TraceReport) {
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
        // Each packet is in exactly one batch.
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
