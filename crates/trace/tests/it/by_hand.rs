//! Tests of the definitions of measurements, on examples whose results were computed by hand.

use std::net::{Ipv4Addr, SocketAddr};

use trace::TraceReport;
use wire::MacAddr;
use wire::build::Builder;
use wire::tcp::flags;

use crate::agreement::{analyze, analyze_captures};
use crate::slow::Raw;

fn ends(flow: u8) -> (SocketAddr, SocketAddr) {
    ((Ipv4Addr::new(10, 0, 0, flow), 1000).into(), (Ipv4Addr::new(10, 0, 1, 1), 80).into())
}

fn raw(time_us: i64, builder: &Builder, payload: usize) -> Raw {
    let frame = builder.clone().ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&vec![0; payload]).unwrap();
    Raw { time: time_us * 1000, wire_len: frame.len() as u32, frame, link: 1 }
}

fn udp(time_us: i64, flow: u8) -> Raw {
    raw(time_us, &Builder::udp(ends(flow).0, ends(flow).1), 10)
}

fn tcp(time_us: i64, flow: u8, flags: u8, sequence: u32, payload: usize) -> Raw {
    raw(time_us, &Builder::tcp(ends(flow).0, ends(flow).1, flags).sequence(sequence, 1), payload)
}

fn ack(time_us: i64, flow: u8) -> Raw {
    tcp(time_us, flow, flags::ACK, 1, 0)
}

#[test]
fn runs_skip_what_is_no_flow() {
    // Packets of the flows A A (icmp) A B A: ICMP belongs to no flow, so five packets make three runs.
    let icmp = raw(2, &Builder::icmp(ends(9).0.ip(), ends(9).1.ip(), 8, 0, [0, 0]), 0);
    let report = analyze(&[udp(0, 1), udp(1, 1), icmp, udp(3, 1), udp(4, 2), udp(5, 1)]);
    assert_eq!(report.slf, 5.0 / 3.0);
    assert_eq!((report.packets, report.flows, report.kinds.other_ip.packets), (6, 2, 1));
    assert_eq!(report.duration_s, 5e-6);
    // The frames have 14 + 20 + 8 + 10 bytes (UDP) and 14 + 20 + 8 bytes (ICMP).
    assert_eq!((report.bytes, report.mean_packet_bytes), (5 * 52 + 42, 302.0 / 6.0));
}

#[test]
fn directions_are_flows_of_their_own() {
    let (a, b) = ends(1);
    let report = analyze(&[raw(0, &Builder::udp(a, b), 0), raw(1, &Builder::udp(b, a), 0)]);
    assert_eq!((report.flows, report.slf), (2, 1.0));
}

#[test]
fn batches_of_switches_do_not_see_each_other() {
    // 33 packets of A and B alternately. With batches of 32: 31 switches in the first batch, none in the
    // second, which has one packet, and none between the batches.
    let raws: Vec<Raw> = (0..33).map(|n| udp(n, n as u8 % 2)).collect();
    let report = analyze(&raws);
    assert_eq!((report.switches[&32].as_is, report.switches[&32].ordered), (31, 1));
    assert_eq!((report.switches[&64].as_is, report.switches[&64].ordered), (32, 1));
}

#[test]
fn batches_open_at_their_first_packet_and_the_last_counts() {
    // With a window of 4 us, the batches are {0, 1, 3}, {4, 7} and {100}.
    let report = analyze(&[0, 1, 3, 4, 7, 100].map(|time| ack(time, 1)));
    let four = report.batch[&4];
    assert_eq!((four.batches, four.mean, four.p25, four.p50, four.p75, four.max), (3, 2.0, 1, 2, 3, 3));
    // With a window of 1 us, each packet is alone, because the next one arrives at least 1 us later.
    assert_eq!((report.batch[&1].batches, report.batch[&1].mean), (6, 1.0));
    // 70 packets at the same time: batches of 32, 32 and 6, or one of 70 without a limit.
    let report = analyze(&vec![ack(0, 1); 70]);
    let (capped, uncapped) = (report.batch[&1], report.batch_uncapped[&1]);
    assert_eq!((capped.batches, capped.max, capped.p25), (3, 32, 6));
    assert_eq!((uncapped.batches, uncapped.max), (1, 70));
    // UDP packets form no batches.
    assert_eq!(analyze(&[udp(0, 1)]).batch[&1].batches, 0);
}

#[test]
fn an_earlier_capture_has_a_clock_of_its_own() {
    let second = 1_000_000;
    let later = [ack(second, 1), ack(second + 2, 1)];
    let earlier = [ack(0, 1), ack(50, 1)];
    let report = analyze_captures(&[&later, &earlier]);
    // The batches are {0, 2} in the first capture, and {0} and {50} in the second, whose times are a second
    // earlier. Without a restart, all four packets would be in the first batch, because earlier packets go
    // into the open batch.
    for batch in [report.batch[&4], report.batch_uncapped[&4], report.top_ips[0].tx.batch[&4]] {
        assert_eq!((batch.batches, batch.max), (3, 2));
    }
    let acks = report.ack_coalescing[&4];
    assert_eq!((acks.all.batches, acks.pure_batches, acks.removable), (3, 3, 0.25));
    assert_eq!((report.batch[&64].batches, report.batch[&64].max), (2, 2));
    // No time is measured from one capture to the next, but the spatial distance is: there are no packets
    // of other flows in between.
    let (temporal, spatial) = (&report.temporal_distance_ns, &report.spatial_distance);
    assert_eq!((temporal.count, temporal.min, temporal.max), (2, 2_000, 50_000));
    assert_eq!((spatial.count, spatial.max), (3, 0));
    assert_eq!(report.concurrent_flows_150us.count, 2);
}

#[test]
fn acknowledgments_that_could_be_one() {
    let data = tcp(1, 1, flags::ACK | flags::PSH, 1, 100);
    let syn = tcp(2, 1, flags::SYN, 0, 0);
    let report = analyze(&[ack(0, 1), data, syn, ack(3, 1), ack(50, 1), ack(51, 2)]);
    let acks = report.ack_coalescing[&8];
    // Batches of packets with ACK: {0, 1, 3}, {50} and {51}. Batches of pure ACKs: {0, 3}, {50} and {51}.
    assert_eq!((acks.all.batches, acks.all.max), (3, 3));
    assert_eq!((acks.pure_acks, acks.pure_batches, acks.removable), (4, 3, 0.25));
    assert_eq!(acks.pure_damaged, 0);
}

#[test]
fn acknowledgments_with_wrong_checksums() {
    let v6 = |flow| {
        let end = |host, port| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], port));
        raw(0, &Builder::tcp(end(flow, 1000), end(9, 80), flags::ACK).sequence(1, 1), 0)
    };
    // Damaged, in this order: TCP checksum, IPv4 checksum, a last byte that was not captured, TCP checksum
    // over IPv6. The packet with data is no pure ACK. The last two are right.
    let mut raws = [ack(0, 1), ack(1, 2), ack(2, 3), v6(4), tcp(4, 5, flags::ACK, 1, 9), ack(5, 6), v6(7)];
    raws[0].frame[50] ^= 1;
    raws[1].frame[24] ^= 1;
    raws[2].frame.truncate(53);
    raws[3].frame[70] ^= 1;
    raws[4].frame[50] ^= 1;
    let acks = analyze(&raws).ack_coalescing[&8];
    assert_eq!((acks.pure_acks, acks.pure_damaged), (6, 4));
}

#[test]
fn packets_behind_their_time() {
    assert_eq!(analyze(&[ack(5, 1), ack(3, 1), udp(5, 1), ack(4, 1)]).packets_behind, 2);
    // The second capture starts earlier, which is not counted; only its third packet is.
    assert_eq!(analyze_captures(&[&[ack(5, 1)], &[udp(1, 1), ack(2, 1), ack(1, 1)]]).packets_behind, 1);
}

#[test]
fn distances_leave_out_flows_of_one_packet() {
    // Packets of the flows A B C A A: two packets between the first two As, none between the last two.
    let report = analyze(&[udp(0, 1), udp(5, 2), udp(6, 3), udp(7, 1), udp(9, 1)]);
    let (spatial, temporal) = (&report.spatial_distance, &report.temporal_distance_ns);
    assert_eq!((spatial.count, spatial.min, spatial.max, spatial.mean), (2, 0, 2, 1.0));
    assert_eq!((temporal.count, temporal.mean, temporal.max), (2, 4500.0, 7000));
}

#[test]
fn windows_tumble_from_the_first_packet() {
    // The first packet is UDP, which starts the first window but is not counted. TCP flows in [0,150): 1
    // and 2; in [150,300): none, so it is left out; in [300,450): 1.
    let report = analyze(&[udp(0, 9), ack(10, 1), ack(149, 2), ack(149, 1), ack(300, 1), ack(449, 1)]);
    let windows = &report.concurrent_flows_150us;
    assert_eq!((windows.count, windows.max, windows.min, windows.p50, windows.p99), (2, 2, 1, 1, 2));
    assert_eq!((report.large_tcp_flows, report.concurrent_large_flows_150us.count), (0, 0));
}

#[test]
fn large_flows_are_counted_from_their_first_packet() {
    let big = |time, flow, n| tcp(time, flow, flags::ACK, 60_000 * n, 60_000);
    // Flow 1 has 167 packets of 60,054 bytes, more than 10 MB; flow 2 has 100, which is less. Each has at
    // most one packet per window.
    let raws: Vec<Raw> =
        (0..167).flat_map(|n| [big(150 * n, 1, n as u32), big(150 * n, 2, n as u32)]).collect();
    let raws: Vec<Raw> =
        raws.into_iter().enumerate().filter(|(n, _)| n % 2 == 0 || *n < 200).map(|(_, r)| r).collect();
    let report = analyze(&raws);
    assert_eq!(report.large_tcp_flows, 1);
    let (all, large) = (&report.concurrent_flows_150us, &report.concurrent_large_flows_150us);
    assert_eq!((all.count, all.max, large.count, large.max), (167, 2, 167, 1));
}

fn order_of(segments: &[(u32, usize)]) -> TraceReport {
    let raws: Vec<Raw> =
        segments.iter().zip(0..).map(|(&(at, length), n)| tcp(1000 * n, 1, flags::ACK, at, length)).collect();
    analyze(&raws)
}

#[test]
fn order_after_rfc_4737() {
    // The third segment arrives before the second: one reordered segment of four.
    let report = order_of(&[(100, 100), (300, 100), (200, 100), (400, 100)]);
    assert_eq!((report.tcp_reordering.segments, report.tcp_reordered_ratio), (4, 0.25));
    assert_eq!((report.tcp_reordering.retransmitted, report.tcp_reordering.delay_ns.max), (0, 1_000_000));
    // Two segments whose bytes were already seen are retransmissions.
    let report = order_of(&[(100, 100), (200, 100), (100, 100), (150, 100)]);
    assert_eq!((report.tcp_reordering.reordered, report.tcp_reordering.retransmitted), (0, 2));
    // A hole from 10 to 40 is filled by segments at 20 and 10. The segment at 10 arrives 5 ms after the
    // hole appeared, so it is late. It arrives twice, and the second time is a retransmission.
    let report = order_of(&[(0, 10), (40, 10), (20, 20), (50, 10), (60, 10), (70, 10), (10, 10), (10, 10)]);
    let order = &report.tcp_reordering;
    assert_eq!((order.reordered, order.late, order.retransmitted), (2, 1, 1));
    // The sequence numbers wrap around.
    let report = order_of(&[(u32::MAX - 9, 10), (10, 10), (0, 10), (20, 10)]);
    assert_eq!((report.tcp_reordering.reordered, report.tcp_reordering.retransmitted), (1, 0));
    // The second segment arrives before the first, below the lowest number seen.
    assert_eq!(order_of(&[(200, 100), (100, 100), (300, 100)]).tcp_reordering.reordered, 1);
}

#[test]
fn only_segments_in_the_order_count() {
    let reset = tcp(3, 1, flags::RST, 0, 0);
    let again = tcp(5, 1, flags::SYN, 77, 0);
    let report =
        analyze(&[tcp(0, 1, flags::SYN, 1000, 0), ack(1, 1), tcp(2, 1, flags::ACK, 1001, 5), reset, again]);
    let order = &report.tcp_reordering;
    // The SYN, the data, and the SYN of another connection count. The plain ACK and the reset occupy no
    // sequence numbers.
    assert_eq!((order.segments, order.reordered, order.retransmitted), (3, 0, 0));
}

#[test]
fn slicing_from_500_bytes() {
    // 14 + 20 + 8 + 458 = 500 bytes. A frame that is a byte shorter is not worth slicing.
    let sized = |payload| raw(0, &Builder::udp(ends(1).0, ends(1).1), payload);
    let report = analyze(&[sized(458), sized(457)]);
    assert_eq!((report.sliceable.packets, report.sliceable.bytes), (0.5, 458.0 / 999.0));
}

#[test]
fn busy_addresses() {
    // Three flows to 10.0.1.1, with 1, 1 and 4 packets.
    let report = analyze(&[ack(0, 1), ack(1, 2), ack(2, 3), ack(2, 3), ack(3, 3), ack(9, 3)]);
    let top = &report.top_ips[0];
    assert_eq!((top.address.to_string().as_str(), top.tx.flows, top.rx.flows), ("10.0.1.1", 0, 3));
    assert_eq!(
        (top.rx.packets.min, top.rx.packets.mean, top.rx.packets.p50, top.rx.packets.max),
        (1, 2.0, 1, 4)
    );
    // With a window of 2 us, the batches have the packets {0}, {1}, {2, 2, 3} and {9}.
    assert_eq!((top.rx.batch[&2].batches, top.rx.batch[&2].mean, top.rx.batch[&2].max), (4, 1.5, 3));
    assert_eq!(report.top_ips.len(), 3);
}

#[test]
fn the_page_needs_no_script_and_follows_the_screen() {
    let page = trace::html::page(&analyze(&[]), "");
    assert!(!page.contains("<script") && !page.contains(" us<") && !page.contains("(us)"), "{page}");
    assert!(page.contains("@media screen and (prefers-color-scheme: dark)"));
    // The style lets a single plot in the last row fill the row.
    assert!(page.contains(".plots > :last-child:nth-child(odd) { grid-column: 1 / -1;"));
    let plots = page.matches("<svg ").count();
    assert!(plots >= 8 && page.matches("role=\"img\"").count() == plots, "{plots}");
    assert!(page.contains("<title>Packet sizes</title><desc>"));
}

#[test]
fn nothing_is_no_reason_to_divide_by_zero() {
    let report = analyze(&[]);
    let text = serde_json::to_string(&report).unwrap();
    assert!(!text.contains("null"), "{text}");
    assert!(report.to_string().contains("packets") && !trace::html::page(&report, "").contains("NaN"));
}
