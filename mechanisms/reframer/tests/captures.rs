//! Tests of Reframer on real and on generated captures: no packet is lost, late or out of order within its
//! flow, and the spatial locality factor (SLF) does not fall. On generated captures the SLF more than doubles
//! if the delay is long enough. The real captures lie next to the repository (or in the folder
//! `TIDEGATE_DATA`), and are skipped if absent.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use testkit::elements::{TestPacket, collect, offer};
use testkit::{TestRun, timed};
use wire::build::Builder;
use wire::layers::Network;
use wire::{Layers, LinkType, ip_protocol};

/// The maximum size in bytes of a real capture, to limit the duration of the test.
const LARGEST: u64 = 16_000_000;

/// Returns 20,000 packets, with times in nanoseconds, of `flows` flows whose sizes follow Zipf's law: TCP
/// and UDP over both versions of IP. A flow sends trains of eight packets, which are interleaved with
/// trains of other flows. Packets are 300 ns apart.
fn zipf(flows: usize) -> Vec<(i64, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(flows as u64);
    let mut waiting: Vec<(usize, u32)> = Vec::new();
    let mut sent = vec![0u32; flows];
    let packets = (0..20_000).map(|number| {
        while waiting.len() < 40 {
            // Inverse transform sampling: the probability of a flow is inversely proportional to its rank.
            let flow = (flows as f64).powf(random.f64()) as usize - 1;
            waiting.push((flow, 8));
        }
        let place = random.usize(..waiting.len());
        let (flow, left) = waiting[place];
        waiting[place].1 -= 1;
        if left == 1 {
            waiting.swap_remove(place);
        }
        sent[flow] += 1;
        let port = |port: usize| 1000 + port as u16;
        let end = |host: u8, port: u16| match flow % 3 {
            0 => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()], port)),
            _ => SocketAddr::from(([10, 0, 0, host], port)),
        };
        let (a, b) = (end(1, port(flow / 2)), end(2, 443));
        let builder = match flow % 2 {
            0 => Builder::udp(a, b),
            _ => Builder::tcp(a, b, 16).sequence(4 * sent[flow], 1),
        };
        (300 * number, timed::frame(builder, &sent[flow].to_be_bytes()))
    });
    packets.collect()
}

fn captures() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join("traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no captures at {}", folder.display());
        return Vec::new();
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.is_file() && file.metadata().is_ok_and(|data| data.len() < LARGEST));
    files.sort();
    files
}

/// Packets as (time of arrival, time of departure, bytes); times in nanoseconds.
type Packets = Vec<(i64, i64, Vec<u8>)>;

/// Runs `element` on a capture, until all packets have left. Returns the packets, and the SLF in and out as
/// Reframer counts them (empty for other elements). `None` if the capture cannot be opened. The arrival
/// time of a packet is kept in its first-timestamp annotation.
fn run(capture: &Path, element: &str) -> Option<(Packets, Vec<f64>)> {
    let number = offer(Vec::<Vec<TestPacket>>::new());
    let text = format!(
        "FromDump(\"{}\") -> SetTimestamp(FIRST true) -> e :: {element} -> SetTimestamp
            -> TestSink({number}, 0)",
        capture.display()
    );
    let handlers = if element.starts_with("Reframer") { vec!["e.slf_in", "e.slf_out"] } else { vec![] };
    let outcome = TestRun::trace().text(&text, &handlers).ok()?;
    assert!(outcome.report.balances(), "{}", capture.display());
    let seen = collect(number).into_iter().map(|seen| {
        let came = i64::from_ne_bytes(seen.annotations[32..40].try_into().unwrap());
        (came, seen.time.0, seen.bytes)
    });
    let values = outcome.values.iter().map(|value| value.as_deref().unwrap().parse().unwrap());
    Some((seen.collect(), values.collect()))
}

/// Returns the identity of a packet's flow: addresses, protocol and VLANs, and a number (the ports, the SPI,
/// the identifier, or the identification of a fragment). `None` if the packet has no flow. The code is
/// independent of the element's own code, so that the test finds errors in that code.
fn flow(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let layers = Layers::locate(bytes, LinkType::Ethernet);
    let l3 = layers.l3?;
    let addresses = match layers.network {
        Network::Ipv4 => bytes.get(l3 + 12..l3 + 20)?,
        Network::Ipv6 => bytes.get(l3 + 8..l3 + 40)?,
        _ => return None,
    };
    let mut name = addresses.to_vec();
    name.push(layers.protocol?);
    name.extend(layers.outer_vlan.unwrap_or(0).to_be_bytes());
    name.extend(layers.inner_vlan.unwrap_or(0).to_be_bytes());
    if let Some(fragment) = layers.fragment {
        return Some((name, 1 << 32 | u64::from(fragment.id)));
    }
    let l4 = layers.l4?;
    let at = match layers.protocol? {
        ip_protocol::TCP | ip_protocol::UDP | ip_protocol::SCTP | ip_protocol::ESP => l4,
        ip_protocol::ICMP | ip_protocol::ICMPV6 => l4 + 4,
        _ => return None,
    };
    let word = bytes.get(at..at + 4)?;
    let word = u32::from_be_bytes(word.try_into().ok()?);
    let is_icmp = at != l4;
    Some((name, u64::from(if is_icmp { word >> 16 } else { word })))
}

/// Returns the SLF of packets, which counts TCP and UDP only.
fn locality<'p>(packets: impl Iterator<Item = &'p Vec<u8>>) -> f64 {
    let (mut count, mut runs, mut last) = (0u32, 0u32, None);
    for bytes in packets {
        let layers = Layers::locate(bytes, LinkType::Ethernet);
        let counts = matches!(layers.protocol, Some(ip_protocol::TCP | ip_protocol::UDP));
        if let (true, None, Some(_)) = (counts, layers.fragment, layers.l4)
            && let Some(flow) = flow(bytes)
        {
            count += 1;
            if last.as_ref() != Some(&flow) {
                runs += 1;
            }
            last = Some(flow);
        }
    }
    if runs == 0 { 0.0 } else { f64::from(count) / f64::from(runs) }
}

fn positions(packets: &Packets) -> HashMap<(Vec<u8>, u64), Vec<&[u8]>> {
    let mut flows: HashMap<_, Vec<&[u8]>> = HashMap::new();
    for (_, _, bytes) in packets {
        if let Some(flow) = flow(bytes) {
            flows.entry(flow).or_default().push(bytes);
        }
    }
    flows
}

#[test]
fn captures_stay_whole_and_become_local() {
    let mut used = 0;
    let folder = tempfile::tempdir().unwrap();
    let made = [30, 300, 3000].map(|flows| {
        let file = folder.path().join(format!("zipf-{flows}.pcap"));
        timed::write_capture(&file, &zipf(flows));
        file
    });
    println!("| capture | packets | as it is | 16 us | 64 us | 256 us | 1 ms |");
    for capture in made.into_iter().chain(captures()) {
        let Some((before, _)) = run(&capture, "Null") else { continue };
        let mut row = Vec::new();
        for delay in [16, 64, 256, 1000] {
            let (after, counted) = run(&capture, &format!("Reframer({delay}, MIN_BURST 0)")).unwrap();
            let name = format!("{} after {delay} us", capture.display());
            for (came, left, _) in &after {
                assert!((0..=delay * 1000).contains(&(left - came)), "{name}: {} ns", left - came);
            }
            assert_eq!(positions(&before), positions(&after), "{name}: order within flows");
            let sorted = |packets: &Packets| {
                let mut all: Vec<_> = packets.iter().map(|(_, _, bytes)| bytes.clone()).collect();
                all.sort();
                all
            };
            assert!(sorted(&before) == sorted(&after), "{name}: other packets");
            let [a, b] = [&before, &after].map(|packets| locality(packets.iter().map(|packet| &packet.2)));
            // The handlers round to three decimal places.
            for (own, independent) in counted.iter().zip([a, b]) {
                assert!((own - independent).abs() < 0.00051, "{name}: {own} and {independent}");
            }
            assert!(b >= a, "{name}: {a} became {b}");
            if capture.starts_with(folder.path()) && delay >= 64 {
                assert!(b > 2.0 * a, "{name}: {a} became {b}");
            }
            if row.is_empty() {
                row.push(format!("{a:.2}"));
            }
            row.push(format!("{b:.2}"));
        }
        used += 1;
        let name = capture.file_name().unwrap_or_default().display();
        println!("| {name} | {} | {} |", before.len(), row.join(" | "));
    }
    println!("{used} captures");
}
