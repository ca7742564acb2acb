//! Tests of the fast sources and of RandomSource: their frames with headers and checksums, and wrong
//! arguments.

use std::collections::{BTreeMap, BTreeSet};

use testkit::{TestRun, in_clicks_words};
use wire::checksum;

/// Runs a source and returns the frames that it sends.
fn frames(source: &str) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let text = format!("{source} -> ToDump({}, SNAPLEN 0)", path.display());
    let outcome = TestRun::default().text(&text, &[]).unwrap();
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let file = std::fs::read(path).unwrap();
    let mut frames = Vec::new();
    let mut rest = &file[24..];
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let length = u32::from_ne_bytes(head[8..12].try_into().unwrap()) as usize;
        frames.push(behind[..length].to_vec());
        rest = &behind[length..];
    }
    frames
}

/// True if the IPv4 header checksum and the transport checksum of a frame are correct: the one's complement
/// sum of RFC 1071, with the pseudo-header, is all ones.
fn sum_is_right(frame: &[u8]) -> bool {
    let (ip, segment) = (&frame[14..34], &frame[34..]);
    let mut bytes = ip[12..20].to_vec();
    bytes.extend([0, ip[9]]);
    bytes.extend((segment.len() as u16).to_be_bytes());
    bytes.extend(segment);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff && checksum::ipv4_valid(ip)
}

#[test]
fn udp_flows() {
    let all = frames("FastUDPFlows(0, 200, 65, 0:1:2:3:4:5, 1.0.0.1, 6:7:8:9:a:b, 2.0.0.2, 4, 10)");
    assert_eq!(all.len(), 200);
    let mut flows: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for frame in &all {
        assert_eq!(frame.len(), 65);
        assert_eq!(frame[..14], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 8, 0]);
        assert_eq!((frame[14], frame[22], frame[23]), (0x45, 250, 17));
        assert_eq!(frame[26..34], [1, 0, 0, 1, 2, 0, 0, 2]);
        assert!(sum_is_right(frame));
        *flows.entry(frame[34..38].to_vec()).or_default() += 1;
    }
    assert!(flows.values().all(|&count| count <= 10) && flows.len() >= 20, "{flows:?}");
    let plain =
        frames("FastUDPFlows(0, 1, 65, 0:1:2:3:4:5, 1.0.0.1, 6:7:8:9:a:b, 2.0.0.2, 4, 10, CHECKSUM false)");
    assert_eq!(plain[0][40..42], [0, 0]);
}

#[test]
fn tcp_flows_begin_and_end() {
    let all = frames("FastTCPFlows(0, 100, 70, 0:1:2:3:4:5, 1.0.0.1, 6:7:8:9:a:b, 2.0.0.2, 3, 4)");
    let mut flows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for frame in &all {
        assert!(sum_is_right(frame));
        flows.entry(frame[34..38].to_vec()).or_default().push(frame[47]);
    }
    // A FIN is added for each of the up to three flows that are open after 100 packets.
    assert!((100..=103).contains(&all.len()), "{}", all.len());
    for flags in flows.values() {
        assert!(flags[0] == 2 && flags[flags.len() - 1] == 1, "{flags:?}");
        assert!(flags[1..flags.len() - 1].iter().all(|&flags| flags == 0x18), "{flags:?}");
    }
}

#[test]
fn ports_grow_by_interval() {
    let all =
        frames("FastUDPSource(0, 7, 60, 0:1:2:3:4:5, 1.0.0.1, 1000, 6:7:8:9:a:b, 2.0.0.2, 2000, INTERVAL 3)");
    let ports: Vec<(u8, u8)> = all.iter().map(|frame| (frame[35], frame[37])).collect();
    let at = |n: u8| (0xe8 + n, 0xd0 + n);
    assert_eq!(ports, [at(0), at(0), at(0), at(1), at(1), at(1), at(2)]);
    assert!(all.iter().all(|frame| sum_is_right(frame)));
}

#[test]
fn random_bytes() {
    let all: BTreeSet<Vec<u8>> = frames("RandomSource(32, LIMIT 20, STOP true)").into_iter().collect();
    assert_eq!(all.len(), 20);
    assert!(
        TestRun::default()
            .text("RandomSource(65536) -> Discard", &[])
            .unwrap_err()
            .contains("bad length 65536")
    );
}

#[test]
fn no_packet_is_longer_than_ip_can_say() {
    let source =
        |length| format!("FastUDPFlows(0, 1, {length}, 0:1:2:3:4:5, 1.0.0.1, 6:7:8:9:a:b, 2.0.0.2, 1, 1)");
    let longest = frames(&source(65_549));
    assert_eq!((longest[0].len(), &longest[0][16..18]), (65_549, &[0xff, 0xff][..]));
    assert!(sum_is_right(&longest[0]));
    let too_long = format!("{} -> Discard", source(65_550));
    let error = TestRun::default().text(&too_long, &[]).unwrap_err();
    assert!(error.contains("LENGTH: too large; the most is 65549"), "{error}");
    let error = in_clicks_words(&too_long);
    assert!(error.contains("LENGTH: out of range, bound 65549"), "{error}");
    let none = "FastUDPFlows(0, 1, 60, 0:1:2:3:4:5, 1.0.0.1, 6:7:8:9:a:b, 2.0.0.2, 0, 1) -> Discard";
    let error = TestRun::default().text(none, &[]).unwrap_err();
    assert!(error.contains("FLOWS: 0 is too small; the least is 1"), "{error}");
    assert!(in_clicks_words(none).contains("FLOWS: out of range, bound 1"));
}
