//! Frames for measurements: UDP over IPv4 in Ethernet, of many flows, with correct IP checksums and no UDP
//! checksums. Also TCP over IPv4 and UDP over IPv6, for elements that need such packets.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use capture::{Writer, WriterOptions};
use wire::build::Builder;
use wire::checksum::PseudoHeader;
use wire::tcp::flags::{ACK, PSH};
use wire::{IntoBytes, MacAddr, checksum, ethernet, ip_protocol, ipv4, udp};

/// The number of bytes of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = ethernet::Header::LEN + ipv4::Header::LEN + 8;

/// Returns the number of the flow, from 0 to below `flows`, that packet `number` belongs to. In each round of
/// `flows` packets, each packet is of another flow. The order of the flows is random, and differs from round
/// to round.
fn flow(number: usize, flows: usize) -> u32 {
    let flows = flows.max(1) as u64;
    let (round, place) = (number as u64 / flows, number as u64 % flows);
    shuffled(place, flows, round) as u32
}

/// Returns the number at index `place` of a random permutation of the numbers below `count`. Each `round` has
/// another permutation.
fn shuffled(place: u64, count: u64, round: u64) -> u64 {
    let bits = u64::BITS - (count - 1).leading_zeros();
    let mask = (1u64 << bits) - 1;
    let mut number = place;
    // Each step of the loop is a permutation of all numbers of `bits` bits. A result that is not below
    // `count` takes further steps, so that different indices have different results. Each step depends on the
    // round: if only the first step did, the flows of neighbouring packets would be neighbours in each round.
    loop {
        let mut key = round;
        for odd in [0x9e37_79b9_7f4a_7c15u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            key = (key + 1).wrapping_mul(0xd605_bbb5_8c8a_bbfd).rotate_left(29);
            number = (number ^ key).wrapping_mul(odd) & mask;
            number ^= number >> bits.div_ceil(2);
        }
        if number < count {
            return number;
        }
    }
}

/// Returns packet `number` as a TCP frame of about `length` bytes, of the flow with the same number as in
/// [`frame`].
pub(crate) fn tcp_frame(number: usize, flows: usize, length: usize) -> Vec<u8> {
    let flow = flow(number, flows);
    let of = |net: u32, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(net | flow & 0xff_ffff)), port);
    let packet = Builder::tcp(of(0x0a00_0000, 1024), of(0x0b00_0000, 80), ACK);
    finish(packet, length.saturating_sub(HEADERS + 12))
}

/// Returns packet `number` as a UDP frame over IPv6 of about `length` bytes, of the flow with the same number
/// as in [`frame`].
pub(crate) fn ip6_frame(number: usize, flows: usize, length: usize) -> Vec<u8> {
    let flow = u128::from(flow(number, flows));
    let of = |net: u128, port| SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(net << 96 | flow)), port);
    let packet = Builder::udp(of(0x2001_0db8, 1024), of(0x2001_0db9, 53));
    finish(packet, length.saturating_sub(HEADERS + 20))
}

fn finish(packet: Builder, payload: usize) -> Vec<u8> {
    let [source, destination] = [1, 2].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    packet.ethernet(source, destination).build(&vec![0; payload]).expect("a short packet can be built")
}

/// Returns the packet number to pass to [`frame`] for the packet at position `number`, so that packets come
/// in runs of `slf` packets of one flow.
pub(crate) fn in_runs(number: usize, slf: usize) -> usize {
    in_trains(number, slf, 1)
}

/// Returns the packet number to pass to [`frame`] for the packet at position `number`, so that packets come
/// in trains: `together` flows take turns, until each of them has sent `length` packets, and then other flows
/// send.
pub(crate) fn in_trains(number: usize, length: usize, together: usize) -> usize {
    let (length, together) = (length.max(1), together.max(1));
    number / (length * together) * together + number % together
}

/// Returns packet `number` as a UDP frame of `length` bytes (but at least as long as its headers), of one of
/// `flows` flows. If there are many flows, neighbouring packets belong to different flows, in an order
/// without a pattern that a prefetcher could detect.
pub(crate) fn frame(number: usize, flows: usize, length: usize) -> Vec<u8> {
    let flow = flow(number, flows);
    let length = length.max(HEADERS);
    let mut frame = vec![0; length];
    let header = ethernet::Header {
        destination: ethernet::MacAddr([2, 0, 0, 0, 0, 2]),
        source: ethernet::MacAddr([2, 0, 0, 0, 0, 1]),
        ether_type: 0x0800.into(),
    };
    frame[..14].copy_from_slice(header.as_bytes());
    let ip = ipv4::Header {
        version_ihl: 0x45,
        tos: 0,
        total_length: ((length - 14) as u16).into(),
        id: (number as u16).into(),
        fragment: 0.into(),
        ttl: 64,
        protocol: 17,
        checksum: 0.into(),
        source: (0x0a00_0000 | flow & 0xff_ffff).into(),
        destination: (0x0b00_0000 | flow.wrapping_mul(7) & 0xff_ffff).into(),
    };
    frame[14..34].copy_from_slice(ip.as_bytes());
    // The result is ignored: filling in the checksum cannot fail, because the header is complete and has 20
    // bytes.
    let _ = checksum::fill_ipv4(&mut frame[14..34]);
    let udp = udp::Header {
        source: (1024 + (flow % 50_000) as u16).into(),
        destination: 53.into(),
        length: ((length - 34) as u16).into(),
        checksum: 0.into(),
    };
    frame[34..42].copy_from_slice(udp.as_bytes());
    frame
}

/// Writes a capture of `packets` frames of `length` bytes, of `flows` flows; see [`frame`].
pub(crate) fn write_capture(file: &File, packets: usize, flows: usize, length: usize) -> std::io::Result<()> {
    write_frames(file, (0..packets).map(|number| frame(number, flows, length)))
}

/// Like [`write_capture`], with packets in runs of `slf` packets of one flow.
pub(crate) fn write_runs(
    file: &File,
    packets: usize,
    flows: usize,
    slf: usize,
    length: usize,
) -> std::io::Result<()> {
    write_frames(file, (0..packets).map(|number| frame(in_runs(number, slf), flows, length)))
}

/// Writes a capture of these frames, with a time step of one nanosecond from frame to frame. The capture's
/// time stamps are in microseconds, rounded down.
pub(crate) fn write_frames(file: &File, frames: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    let mut writer = Writer::new(file, WriterOptions::default());
    for (time, frame) in (0..).zip(frames) {
        writer.write(time, frame.len() as u32, [&frame[..]])?;
    }
    writer.flush()
}

/// Returns an Ethernet frame of at least `length` bytes, whose IPv4 header and ports are the 24 bytes
/// `start`. Total length, IP checksum and TCP checksum are set. A TCP frame is a segment of an open
/// connection, with ACK and PSH.
pub(crate) fn frame_of(start: &[u8; 24], length: usize) -> Vec<u8> {
    let mut bytes = frame(0, 1, length.max(HEADERS + 12));
    bytes[14..38].copy_from_slice(start);
    let total = (bytes.len() - 14) as u16;
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    if start[9] == ip_protocol::TCP {
        bytes[38..54].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, ACK | PSH, 0xff, 0xff, 0, 0, 0, 0]);
        let address =
            |at: usize| Ipv4Addr::from_octets([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let pseudo = PseudoHeader::V4 { source: address(12), destination: address(16) };
        // The result is ignored: filling in the checksum cannot fail, because the TCP header is complete.
        let _ = checksum::fill_tcp(&pseudo, &mut bytes[34..]);
    }
    // The result is ignored: filling in the checksum cannot fail, because the IP header is complete and has
    // 20 bytes.
    let _ = checksum::fill_ipv4(&mut bytes[14..34]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_flow_once() {
        for flows in [1, 2, 3, 100, 1024, 10_000] {
            let round = |round: usize| (0..flows).map(|place| flow(round * flows + place, flows)).collect();
            let (first, second): (Vec<u32>, Vec<u32>) = (round(0), round(1));
            let mut sorted = first.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..flows as u32), "{flows}");
            assert!(flows < 100 || first != second);
        }
    }
}
