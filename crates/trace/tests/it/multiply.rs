//! Tests of [`trace::multiply()`], which plays windows of a capture at the same time: all packets are
//! present, in order, and no two windows share a flow.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use capture::{LinkType, Reader, Writer, WriterOptions};
use proptest::prelude::*;
use trace::multiply;
use trace::multiply::{Error, Multiplied, Windows};
use wire::build::Builder;
use wire::checksum::{PseudoHeader, icmp_valid, icmpv6_valid, ipv4_valid, tcp_valid, udp_valid};
use wire::layers::Network;
use wire::{FiveTuple, FromBytes, Layers, MacAddr, ip_protocol, ipv4, ipv6};

type Packets = Vec<(i64, Vec<u8>)>;

fn ethernet(packet: Builder, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = [1, 2].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    packet.ethernet(source, destination).build(payload).unwrap()
}

/// Returns the address of host `number`. There are only a few networks, and some of them are multicast
/// groups.
fn host(six: bool, number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    match (six, number % 7) {
        (false, 0) => IpAddr::from([10, high, 0, low]),
        (false, 1) => IpAddr::from([192, 168, high, low]),
        (false, 2) => IpAddr::from([224, 0, 0, low]),
        (false, _) => IpAddr::from([high, low, high, low]),
        (true, 0) => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]),
        (true, 1) => IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, number]),
        (true, 2) => IpAddr::from([0xff02, 0, 0, 0, 0, 0, 0, number]),
        (true, _) => IpAddr::from([0x2400 + number % 30, number, 0, 0, 0, 0, 0, 1]),
    }
}

/// Makes an Ethernet frame between the hosts `ends`; `kind` selects UDP, TCP with a VLAN tag, an ICMP
/// error, a ping, a fragment or another protocol. With `spoiled`, the last byte is changed, so that a
/// checksum over it is wrong.
fn packet(kind: u8, six: bool, ends: (u16, u16), spoiled: bool) -> Vec<u8> {
    let (a, b) = (host(six, ends.0), host(six, ends.1));
    let (from, to) = (SocketAddr::new(a, ends.0), SocketAddr::new(b, ends.1));
    let mut frame = match kind % 6 {
        0 => ethernet(Builder::udp(from, to), &[kind; 7]),
        1 => ethernet(Builder::tcp(from, to, 0x10).vlan(7), &[kind; 20]),
        2 => {
            // The error quotes a packet in the opposite direction.
            let quote = Builder::udp(to, from).build(&[1, 2, 3]).unwrap();
            let (kind, code) = if six { (1, 4) } else { (3, 3) };
            ethernet(Builder::icmp(a, b, kind, code, [0, 0]), &quote)
        }
        3 => ethernet(Builder::icmp(a, b, if six { 128 } else { 8 }, 0, [1, 2]), b"echo"),
        4 => ethernet(Builder::udp(from, to).fragment(if six { 0 } else { 0x2000 }), &[kind; 16]),
        _ => ethernet(Builder::ip(a, b, 47), &[0; 9]),
    };
    if spoiled {
        let last = frame.len() - 1;
        frame[last] ^= 0x55;
    }
    frame
}

/// Returns two values: true if the checksum of the IPv4 header is right, and true if the checksum of the
/// transport header is right. Packets without such a checksum count as right.
fn right(frame: &[u8]) -> (bool, bool) {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    let ip = &frame[layers.l3.unwrap()..];
    let (header, pseudo) = match layers.network {
        Network::Ipv4 => {
            (ipv4_valid(&ip[..20]), PseudoHeader::from(ipv4::Header::ref_from_prefix(ip).unwrap().0))
        }
        _ => (true, PseudoHeader::from(ipv6::Header::ref_from_prefix(ip).unwrap().0)),
    };
    let Some(l4) = layers.l4 else { return (header, true) };
    let segment = &frame[l4..layers.end];
    let transport = match layers.protocol {
        Some(ip_protocol::UDP) => udp_valid(&pseudo, segment),
        Some(ip_protocol::TCP) => tcp_valid(&pseudo, segment),
        Some(ip_protocol::ICMP) => icmp_valid(segment),
        Some(ip_protocol::ICMPV6) => icmpv6_valid(&pseudo, segment),
        _ => true,
    };
    (header, transport)
}

/// Returns the five-tuple of the packet that an ICMP error quotes; `None` if the frame is no error. Checks
/// that the quoted IPv4 header has a right checksum.
fn quote(frame: &[u8]) -> Option<FiveTuple> {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    let is_error = matches!(frame.get(layers.l4?)?, 1 | 3)
        && matches!(layers.protocol, Some(ip_protocol::ICMP | ip_protocol::ICMPV6));
    let quote = frame.get(layers.l4? + 8..).filter(|_| is_error)?;
    assert!(quote[0] >> 4 == 6 || ipv4_valid(&quote[..20]));
    Layers::locate(quote, LinkType::RawIp).five_tuple(quote)
}

fn trace(packets: &Packets) -> Reader {
    let mut writer = Writer::new(Vec::new(), WriterOptions { nanoseconds: true, ..WriterOptions::default() });
    packets.iter().for_each(|(time, frame)| writer.write(*time, frame.len() as u32, [&frame[..]]).unwrap());
    writer.flush().unwrap();
    Reader::from_read(std::io::Cursor::new(writer.get_ref().clone()), "in").unwrap()
}

fn run(packets: &Packets, windows: Windows) -> Result<(Multiplied, Packets), Error> {
    let mut output = Vec::new();
    let folder = std::env::temp_dir();
    let multiplied = multiply(&mut trace(packets), windows, &folder, &mut output, &mut |_| {})?;
    let mut reader = Reader::from_read(std::io::Cursor::new(output), "out").unwrap();
    let mut written = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        written.push((record.time, record.data.to_vec()));
    }
    Ok((multiplied, written))
}

/// Returns the set of flows as text; both directions of a connection are the same flow here.
fn flows<'p>(packets: impl Iterator<Item = &'p Vec<u8>>) -> BTreeSet<String> {
    let name = |frame: &Vec<u8>| {
        let layers = Layers::locate(frame, LinkType::Ethernet);
        let tuple = layers.five_tuple(frame)?;
        let mut ends =
            [(tuple.source(), tuple.source_port()), (tuple.destination(), tuple.destination_port())];
        ends.sort();
        Some(format!("{ends:?} {}", tuple.protocol()))
    };
    packets.filter_map(name).collect()
}

proptest! {
    #[test]
    fn no_two_windows_share_a_flow(
        kinds in prop::collection::vec((any::<u8>(), any::<bool>(), (0u16..40, 0u16..40), 0u8..8, 0i64..90), 30..120),
        count in 1usize..6,
    ) {
        let mut time = 1_000_000_000_000;
        let mut packets = Packets::new();
        for (kind, six, ends, spoiled, pause) in kinds {
            time += pause;
            packets.push((time, packet(kind, six, ends, spoiled == 0)));
        }
        let first = packets[0].0;
        let length = ((time - first) / count as i64).max(1);
        let windows = Windows { count, length };
        let window = |time: i64| ((time - first) / length) as usize;
        let (multiplied, written) = match run(&packets, windows) {
            Ok(found) => found,
            Err(Error::Short { .. }) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        let within: Vec<_> = packets.iter().filter(|(time, _)| window(*time) < count).collect();
        prop_assert_eq!(multiplied.after_windows as usize, packets.len() - within.len());
        prop_assert_eq!(written.len() + multiplied.left_out as usize, within.len());
        prop_assert!(written.is_sorted_by_key(|(time, _)| *time));
        prop_assert!(written.iter().all(|(time, _)| (first..first + length).contains(time)));

        // The number of flows is the sum over all windows. Flows between two multicast groups count only in
        // the first window, because they are left out of the others.
        let each = (0..count).map(|number| {
            let here = within.iter().filter(|(time, _)| window(*time) == number).map(|(_, frame)| frame);
            let is_kept = |frame: &&Vec<u8>| {
                let layers = Layers::locate(frame, LinkType::Ethernet);
                let tuple = layers.five_tuple(frame).unwrap();
                let group = |address: IpAddr| address.is_multicast();
                let quoted = quote(frame).is_some_and(|quote| !group(quote.source()) || !group(quote.destination()));
                number == 0 || quoted || !group(tuple.source()) || !group(tuple.destination())
            };
            flows(here.filter(is_kept))
        });
        prop_assert_eq!(flows(written.iter().map(|(_, frame)| frame)).len(), each.map(|flows| flows.len()).sum::<usize>());

        // With a single window, the packets are unchanged.
        if count == 1 {
            prop_assert_eq!(&written.len(), &within.len());
            prop_assert!(written.iter().zip(&within).all(|(a, b)| a == *b));
        }
        // As many checksums are right as before, of each kind.
        let sums = |all: &mut dyn Iterator<Item = &Vec<u8>>| {
            let mut counts = [0; 4];
            all.for_each(|frame| {
                let (header, transport) = right(frame);
                counts[usize::from(header) * 2 + usize::from(transport)] += 1;
                // An error must quote a packet in the opposite direction, also after the addresses have
                // changed.
                if let Some(quote) = quote(frame) {
                    let layers = Layers::locate(frame, LinkType::Ethernet);
                    let tuple = layers.five_tuple(frame).unwrap();
                    assert_eq!((quote.source(), quote.destination()), (tuple.destination(), tuple.source()));
                }
            });
            counts
        };
        if multiplied.left_out == 0 {
            let before = sums(&mut within.iter().map(|(_, frame)| frame));
            prop_assert_eq!(sums(&mut written.iter().map(|(_, frame)| frame)), before);
        }
    }

    /// Checks with random bytes after an Ethernet header that no code panics, and that each packet is
    /// written, left out, or after the last window.
    #[test]
    fn any_bytes_pass(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 2..20), start in prop::collection::vec(any::<u8>(), 0..3)) {
        let start: Vec<u8> = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &start].concat();
        let packets: Packets = (0..).zip(frames).map(|(time, frame)| (time * 10, [&start[..], &frame].concat())).collect();
        let windows = Windows { count: 2, length: (packets.len() as i64 - 1) * 10 };
        let (multiplied, written) = run(&packets, windows).unwrap();
        prop_assert_eq!(written.len() + (multiplied.left_out + multiplied.after_windows) as usize, packets.len());
    }
}

#[test]
fn arp_moves_with_its_hosts() {
    let mut arp = vec![0xff; 14];
    arp[12..14].copy_from_slice(&[8, 6]);
    arp.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let udp = packet(0, false, (0, 7), false);
    let packets = vec![(0, udp.clone()), (5, arp.clone()), (10, udp), (15, arp.clone())];
    let (_, written) = run(&packets, Windows { count: 2, length: 10 }).unwrap();
    assert_eq!(written.len(), 4);
    let second = &written[3].1;
    let udp = &written[1].1;
    assert_ne!(second[28..32], [10, 0, 0, 1]);
    // The ARP message moves to the same network as the UDP packet of its window, whose source was 10.0.0.0.
    assert_eq!(
        (second[28..31].to_vec(), second[38..41].to_vec()),
        (udp[26..29].to_vec(), udp[26..29].to_vec())
    );
    assert_eq!((second[31], second[41]), (1, 2));
}

#[test]
fn what_cannot_be_is_said() {
    let one = packet(0, false, (3, 4), false);
    let packets = vec![(0, one.clone()), (2_500_000_000, one)];
    let error = |count, length| run(&packets, Windows { count, length }).err().unwrap().to_string();
    assert!(error(0, 1).contains("1 to 256 windows"));
    assert!(error(2, 0).contains("longer than nothing"));
    let short = error(4, 1_000_000_000);
    assert!(short.contains("window 2 of 4 has no packets: the capture lasts 2.5 s"), "{short}");
    let empty = run(&Vec::new(), Windows { count: 1, length: 1 }).err().unwrap();
    assert!(matches!(empty, Error::Short { window: 1, lasts: 0, .. }));
}
