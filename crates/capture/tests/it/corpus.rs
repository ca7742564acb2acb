//! Tests with real captures, if there are any: in the folder that `TIDEGATE_DATA` names, or in
//! `../shared/data` next to the workspace.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use capture::{LinkType, Reader};
use wire::checksum::{self, PseudoHeader};
use wire::layers::Network;
use wire::{FiveTuple, FromBytes, Layers, ip_protocol, ipv4, ipv6};

fn traces() -> Option<PathBuf> {
    let data = match std::env::var_os("TIDEGATE_DATA") {
        Some(data) => PathBuf::from(data),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let traces = data.join("traces");
    if traces.is_dir() {
        return Some(traces);
    }
    println!("skipped: no captures at {} (set TIDEGATE_DATA)", traces.display());
    None
}

/// Numbers of packets, bytes and flows of a capture, to compare with those in the index of the captures.
#[derive(Default)]
struct Census {
    packets: u64,
    wire_bytes: u64,
    /// The TCP flows, per direction. Packets without ports are left out: fragments other than the first,
    /// and packets that are cut before the ports.
    tcp_flows: HashSet<FiveTuple>,
    udp_flows: HashSet<FiveTuple>,
}

impl Census {
    fn take(path: &Path) -> Self {
        let mut reader = Reader::open(path).unwrap();
        let mut census = Census::default();
        while let Some(record) = reader.next().unwrap() {
            census.packets = record.number;
            census.wire_bytes += u64::from(record.wire_len);
            let layers = Layers::locate(record.data, record.link);
            let has_ports = layers.l4.is_some_and(|l4| l4 + 4 <= layers.end);
            // The index of the captures counts the ports of first fragments, too, but `five_tuple` returns
            // ports of 0 for all fragments.
            let unfragmented = Layers { fragment: None, ..layers };
            if let (Some(tuple), true) = (unfragmented.five_tuple(record.data), has_ports) {
                match tuple.protocol() {
                    ip_protocol::TCP => census.tcp_flows.insert(tuple),
                    ip_protocol::UDP => census.udp_flows.insert(tuple),
                    _ => false,
                };
            }
        }
        census
    }
}

#[test]
fn packets_lengths_and_flows_are_those_of_the_index() {
    let Some(traces) = traces() else { return };
    for (name, packets, mean, tcp_flows, udp_flows) in [
        ("wand-isp-vlan-10k.pcap", 10_000, 548, 2364, 775),
        ("wand-isp-vlan-10k.padded.pcap.zst", 10_000, 548, 2364, 775),
        ("isp-sanitized4k.pcap", 4_096, 890, 709, 259),
        ("zeek-echo-1000conn.pcap.gz", 82_582, 67, 1000, 0),
        ("pcpp-tls2-v4v6.pcap", 7_451, 367, 665, 0),
        ("pcpp-ip-frag.pcap", 3_000, 935, 4, 4),
        ("ndpi-1kxun.pcap", 1_723, 1_467, 191, 106),
        ("mix-permissive.pcap.zst", 84_123, 296, 4466, 2632),
        ("tcptrace-dsack.dmp.gz", 15_712, 1_135, 2, 0),
        ("tcptrace-ipv6_ftp_nasa.pcap", 1_166, 1_140, 6, 0),
    ] {
        let census = Census::take(&traces.join(name));
        assert_eq!(census.packets, packets, "{name}");
        let found = census.wire_bytes / packets;
        assert!(found.abs_diff(mean) <= 1, "{name}: mean length {found}");
        assert_eq!((census.tcp_flows.len(), census.udp_flows.len()), (tcp_flows, udp_flows), "{name}");
    }
}

#[test]
fn checksums_of_complete_captures_are_right() {
    let Some(traces) = traces() else { return };
    for name in ["isp-sanitized4k.pcap", "wand-isp-vlan-10k.padded.pcap.zst", "zeek-echo-1000conn.pcap.gz"] {
        let mut reader = Reader::open(traces.join(name)).unwrap();
        let mut checked = 0;
        while let Some(record) = reader.next().unwrap() {
            let layers = Layers::locate(record.data, record.link);
            let (Some(l3), Some(l4), None) = (layers.l3, layers.l4, layers.fragment) else { continue };
            let (packet, segment) = (&record.data[l3..], &record.data[l4..layers.end]);
            let pseudo: PseudoHeader = if layers.network == Network::Ipv4 {
                assert!(checksum::ipv4_valid(&packet[..l4 - l3]), "{name} {}", record.number);
                ipv4::Header::ref_from_prefix(packet).unwrap().0.into()
            } else {
                ipv6::Header::ref_from_prefix(packet).unwrap().0.into()
            };
            let valid = match layers.protocol {
                Some(ip_protocol::TCP) => checksum::tcp_valid(&pseudo, segment),
                Some(ip_protocol::UDP) => checksum::udp_valid(&pseudo, segment),
                // ICMP messages in these captures were anonymised without correcting their checksums.
                _ => continue,
            };
            assert!(valid, "{name} {}", record.number);
            checked += 1;
        }
        assert!(checked > 3_000, "{name}: {checked}");
    }
}

#[test]
fn odd_captures_are_read_to_their_end_or_fault() {
    let Some(traces) = traces() else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(traces.join("odd")).unwrap() {
        let path = entry.unwrap().path();
        files += 1;
        let mut reader = match Reader::open(&path) {
            Ok(reader) => reader,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        loop {
            match reader.next() {
                Ok(Some(record)) => {
                    for link in [record.link, LinkType::Ethernet, LinkType::RawIp] {
                        let layers = Layers::locate(record.data, link);
                        let _ = layers.five_tuple(record.data);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    println!("{error}");
                    break;
                }
            }
        }
    }
    assert!(files > 100);
}
