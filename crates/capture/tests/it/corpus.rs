//! Real captures, where they are: `TIDEGATE_DATA`, or `../shared/data` beside the workspace.

use std::path::{Path, PathBuf};

use tidegate_capture::{LinkType, Reader};
use wire::Layers;

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

/// Packets, captured bytes, bytes on the wire.
fn count(path: &Path) -> (u64, u64, u64) {
    let mut reader = Reader::open(path).unwrap();
    let mut sum = (0, 0, 0);
    while let Some(record) = reader.next().unwrap() {
        let layers = Layers::locate(record.data, record.link);
        assert!(layers.end <= record.data.len());
        sum = (record.number, sum.1 + record.data.len() as u64, sum.2 + u64::from(record.wire_len));
    }
    sum
}

#[test]
fn packet_counts_and_mean_lengths_are_those_of_the_index() {
    let Some(traces) = traces() else { return };
    for (name, packets, mean) in [
        ("wand-isp-vlan-10k.pcap", 10_000, 548),
        ("wand-isp-vlan-10k.padded.pcap.zst", 10_000, 548),
        ("isp-sanitized4k.pcap", 4_096, 890),
        ("zeek-echo-1000conn.pcap.gz", 82_582, 67),
        ("pcpp-tls2-v4v6.pcap", 7_451, 367),
        ("pcpp-ip-frag.pcap", 3_000, 935),
        ("ndpi-1kxun.pcap", 1_723, 1_467),
        ("mix-permissive.pcap.zst", 84_123, 296),
        ("tcptrace-dsack.dmp.gz", 15_712, 1_135),
        ("tcptrace-ipv6_ftp_nasa.pcap", 1_166, 1_140),
    ] {
        let (found, _, wire) = count(&traces.join(name));
        assert_eq!(found, packets, "{name}");
        assert!((wire / packets).abs_diff(mean) <= 1, "{name}: mean length {}", wire / packets);
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
