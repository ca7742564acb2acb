//! Test packets of many kinds: valid, unusual, damaged, short, and longer than a slot.

use std::net::Ipv6Addr;

use wire::{MacAddr, checksum, neighbor};

use crate::elements::TestPacket;
use element::Timestamp;

/// Makes an Ethernet frame around `payload`.
fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Makes an IPv4 packet with a correct header checksum and fixed addresses.
pub fn ipv4(ttl: u8, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_length = 20 + options.len();
    let mut packet = vec![0x40 | (header_length / 4) as u8, 0];
    packet.extend_from_slice(&((header_length + payload.len()) as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 7, 0x40, 0, ttl, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
    packet.extend_from_slice(options);
    // `fill_ipv4` fails only for incomplete headers, and this header is complete.
    let _ = checksum::fill_ipv4(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

fn udp(payload: usize) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 0, 53];
    segment.extend_from_slice(&((8 + payload) as u16).to_be_bytes());
    segment.extend_from_slice(&[0, 0]);
    segment.extend((0..payload).map(|i| (i * 31) as u8));
    segment
}

fn tcp(flags: u8, payload: usize) -> Vec<u8> {
    let mut segment =
        vec![0x43, 0x21, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, flags, 0xff, 0xff, 0xab, 0xcd, 0, 0];
    segment.extend((0..payload).map(|i| (i * 17) as u8));
    segment
}

/// Returns the frames of the corpus as bytes, without time stamps and annotations.
pub fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for ttl in [64, 0, 1, 2, 255] {
        frames.push(ethernet(0x0800, &ipv4(ttl, 17, &[], &udp(20))));
    }
    for flags in [0x02, 0x10, 0x18, 0x11, 0x04] {
        frames.push(ethernet(0x0800, &ipv4(64, 6, &[], &tcp(flags, 30))));
    }
    frames.push(ethernet(0x0800, &ipv4(64, 17, &[1, 1, 1, 0, 7, 3, 0, 0], &udp(64))));
    frames.push(ethernet(0x0800, &ipv4(64, 6, &[1; 40], &tcp(0x10, 1400))));
    frames.push(ethernet(0x0800, &ipv4(64, 1, &[], &[8, 0, 0, 0, 0, 1, 0, 2])));
    // Link padding, and bytes that make checksum, length, version or header length wrong.
    let mut padded = ethernet(0x0800, &ipv4(64, 17, &[], &udp(1)));
    padded.resize(60, 0xee);
    frames.push(padded);
    for (place, value) in [(24, 0xff), (17, 0xff), (16, 0), (14, 0x65), (14, 0x44), (14, 0x4f), (14, 0x05)] {
        let mut damaged = ethernet(0x0800, &ipv4(64, 17, &[], &udp(10)));
        damaged[place] ^= value;
        frames.push(damaged);
    }
    // Multicast, broadcast and zero addresses, in source or destination.
    for (source, destination) in
        [([0; 4], [224, 0, 0, 1]), ([255; 4], [10, 0, 1, 2]), ([10, 255, 255, 255], [10, 0, 0, 1])]
    {
        let mut packet = ipv4(64, 17, &[], &udp(4));
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        packet[10..12].fill(0);
        let _ = checksum::fill_ipv4(&mut packet[..20]);
        frames.push(ethernet(0x0800, &packet));
    }
    // The first fragment of a datagram.
    let mut fragment = ipv4(64, 17, &[], &udp(8));
    fragment[6] = 0x20;
    fragment[10..12].fill(0);
    let _ = checksum::fill_ipv4(&mut fragment[..20]);
    frames.push(ethernet(0x0800, &fragment));
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    ipv6.extend([0x20; 32]);
    ipv6.extend(udp(4));
    frames.push(ethernet(0x86dd, &ipv6));
    // IPv6 packets with extension headers: none, a chain of hop-by-hop options, route and destination
    // options, a fragment header, and an extension header longer than the packet.
    let ipv6 = |next: u8, hops: u8, payload: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, hops];
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend([0x20; 32]);
        packet.extend_from_slice(payload);
        ethernet(0x86dd, &packet)
    };
    frames.push(ipv6(17, 1, &udp(300)));
    let mut chain =
        [[43u8, 0, 1, 4, 0, 0, 0, 0], [60, 0, 0, 0, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0]].concat();
    chain.extend(udp(200));
    frames.push(ipv6(0, 9, &chain));
    frames.push(ipv6(44, 9, &[&[17, 0, 0, 1, 0, 0, 0, 7][..], &udp(120)].concat()));
    frames.push(ipv6(60, 9, &[58, 9, 1, 4, 0, 0, 0, 0, 128, 0, 0, 0, 0, 1, 0, 2]));
    // A neighbour solicitation and a neighbour advertisement.
    let (own, peer) = (Ipv6Addr::from_octets([0x20; 16]), Ipv6Addr::from_octets([0xfe; 16]));
    for (kind, option) in [(135, neighbor::option::SOURCE), (136, neighbor::option::TARGET)] {
        let message = neighbor::build(kind, 0x6000_0000, [peer, own, own], (option, MacAddr([2; 6])));
        frames.push(ethernet(0x86dd, &message));
    }
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
    arp.extend([7; 20]);
    frames.push(ethernet(0x0806, &arp));
    let mut tagged = vec![0, 42];
    tagged.extend_from_slice(&[8, 0]);
    tagged.extend(ipv4(64, 17, &[], &udp(5)));
    frames.push(ethernet(0x8100, &tagged));
    frames.push(ethernet(0x88b5, &[1, 2, 3]));
    // A valid frame, truncated at several lengths.
    let whole = ethernet(0x0800, &ipv4(64, 17, &[], &udp(2)));
    frames.extend([0, 1, 11, 12, 13, 14, 15, 33, 34, 41].map(|n| whole[..n].to_vec()));
    // IP packets without an Ethernet header.
    frames.push(ipv4(64, 17, &[], &udp(12)));
    frames.push(ipv4(1, 6, &[], &tcp(0x10, 5)));
    // Packets larger than a slot, which have several slots.
    frames.push(ethernet(0x0800, &ipv4(64, 17, &[], &udp(5_000))));
    frames.push(ethernet(0x88b5, &vec![0x5a; 70_000]));
    frames
}

/// Returns packets whose headers, or the length fields in them, are too short, too long, or truncated:
///
/// - IPv4 headers of all lengths
/// - transport headers of all lengths, from none to beyond the fixed part of TCP, in whole packets and
///   fragments
/// - length fields above and below the actual length, and all data offsets of TCP
/// - IPv6 with extension headers, truncated at several offsets
///
/// The header annotations are where the length fields of IPv4 headers say. In IPv6 packets, they take an
/// extension header to be 8 bytes long.
pub fn headers() -> Vec<TestPacket> {
    const MORE: u16 = 0x2000;
    let mut packets: Vec<(Vec<u8>, [Option<isize>; 3])> = Vec::new();
    let mut add = |packet: &[u8]| {
        let length = isize::from(packet.first().copied().unwrap_or_default() & 15) * 4;
        packets.push((ethernet(0x0800, packet), [Some(0), Some(14), Some(14 + length)]));
    };
    let segment = |protocol: u8, length: usize| {
        let mut bytes = match protocol {
            6 => tcp(0x18, 40),
            1 => [&[8, 0, 0, 0, 0, 1, 0, 2][..], &[7; 52]].concat(),
            _ => udp(52),
        };
        bytes.truncate(length);
        if protocol == 17 && bytes.len() >= 6 {
            bytes[4..6].copy_from_slice(&(length.max(8) as u16).to_be_bytes());
        }
        bytes
    };
    // Overwrites bytes of an IPv4 header, and corrects the header checksum if the whole header is there.
    let saying = |mut packet: Vec<u8>, place: usize, value: &[u8]| {
        packet[place..place + value.len()].copy_from_slice(value);
        let length = usize::from(packet[0] & 15) * 4;
        packet[10..12].fill(0);
        if let Some(header) = packet.get_mut(..length.max(20)) {
            // `fill_ipv4` fails only for incomplete headers.
            let _ = checksum::fill_ipv4(header);
        }
        packet
    };
    let total = |length: usize| ((20 + length) as u16).to_be_bytes();
    for protocol in [6, 17, 1] {
        for length in 0..=24 {
            let whole = ipv4(64, protocol, &[], &segment(protocol, length));
            add(&whole);
            add(&saying(whole.clone(), 6, &MORE.to_be_bytes()));
            // The packet is shorter than its length field says, and then longer.
            add(&saying(whole.clone(), 2, &total(60)));
            let long = ipv4(64, protocol, &[], &segment(protocol, 60));
            add(&saying(long, 2, &total(length)));
        }
        for fragment in [1u16, MORE | 1, 0x1fff] {
            for length in [0, 8, 20] {
                let whole = ipv4(64, protocol, &[], &segment(protocol, length));
                add(&saying(whole, 6, &fragment.to_be_bytes()));
            }
        }
    }
    for words in 0..16 {
        for protocol in [6, 17] {
            let packet = ipv4(64, protocol, &[1; 40], &segment(protocol, 60));
            let packet = saying(packet, 0, &[0x40 | words]);
            for length in [20, usize::from(words) * 4 + 8, packet.len()] {
                let to = length.min(packet.len());
                add(&packet[..to]);
                add(&saying(packet.clone(), 2, &(to as u16).to_be_bytes())[..to.max(20)]);
            }
        }
        for length in [20, 60] {
            let mut tcp = segment(6, length);
            tcp[12] = words << 4;
            add(&ipv4(64, 6, &[], &tcp));
        }
    }
    for says in [0u16, 7, 8, 9, 20, 21, 0xffff] {
        let mut udp = segment(17, 20);
        udp[4..6].copy_from_slice(&says.to_be_bytes());
        add(&ipv4(64, 17, &[], &udp));
    }
    for kind in [0, 3, 5, 8, 11, 12, 13] {
        let quoted = ipv4(64, 17, &[], &segment(17, 8));
        for length in [0, 28] {
            let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
            message.extend(&quoted[..length]);
            // `fill_icmp` fails only for incomplete messages.
            let _ = checksum::fill_icmp(&mut message);
            add(&ipv4(64, 1, &[], &message));
        }
    }
    let ipv6 = |next: u8, payload: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend([0x20; 32]);
        packet.extend_from_slice(payload);
        packet
    };
    let mut add = |packet: &[u8], behind: isize| {
        packets.push((ethernet(0x86dd, packet), [Some(0), Some(14), Some(54 + behind)]));
    };
    for protocol in [6, 17, 58] {
        for length in [0, 4, 7, 8, 12, 19, 20, 24] {
            let segment = if protocol == 58 { segment(1, length) } else { segment(protocol, length) };
            add(&ipv6(protocol, &segment), 0);
        }
    }
    for kind in [0, 43, 44, 60] {
        for next in [6, 17] {
            let chain = [&[next, 0, 0, 0, 0, 0, 0, 1][..], &segment(next, 60)].concat();
            let packet = ipv6(kind, &chain);
            for length in [40, 47, 48, 55, 56, packet.len()] {
                add(&packet[..length], 8);
            }
            // The length field of the extension header exceeds the packet.
            let mut packet = packet.clone();
            packet[41] = 90;
            add(&packet, 8);
        }
    }
    let mut random = fastrand::Rng::with_seed(11);
    let inputs = packets.into_iter().enumerate().map(|(number, (bytes, headers))| {
        let mut annotations = [0; 48];
        annotations.iter_mut().for_each(|byte| *byte = random.u8(..4));
        let time = Timestamp(1_000_000_000 * (number as i64 / 32) + 1);
        TestPacket { bytes, time, annotations, headers }
    });
    inputs.collect()
}

/// Returns the packets of the corpus: each frame with a time stamp, annotations and header offsets. `seed`
/// decides annotations, header offsets, and random frames that are added.
pub fn inputs(seed: u64) -> Vec<TestPacket> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut frames = frames();
    // Random frames fill the last burst of 32. So each time a source sends the corpus again, its batches
    // begin with the same frames.
    for _ in 0..(frames.len() + 20).next_multiple_of(32) - frames.len() {
        let length = random.usize(0..200);
        frames.push((0..length).map(|_| random.u8(..)).collect());
    }
    let mut inputs = Vec::new();
    for (number, bytes) in frames.into_iter().enumerate() {
        let ethernet = bytes.len() >= 14;
        let choices = [[None; 3], [Some(0), Some(14), Some(34)], [Some(0), Some(0), Some(20)]];
        let headers = if ethernet { choices[random.usize(0..3)] } else { [None; 3] };
        let mut annotations = [0; 48];
        annotations.iter_mut().for_each(|a| *a = random.u8(..4));
        let time = Timestamp(1_000_000_000 * (number as i64 / 2) + 1);
        inputs.push(TestPacket { bytes, time, annotations, headers });
    }
    inputs
}
