//! Random packets of all kinds: packets of a few flows in both directions, some of them of kinds that
//! elements rarely see.

use element::Timestamp;
use packet::{Annotations, PacketKind};
use wire::checksum::{self, Sum};

use super::ends::Given;

/// The time from which the times of packets count, in nanoseconds since the epoch.
pub(super) const START: i64 = 1_000_000_000_000_000_000;

/// The kind of a random packet: plain, or odd in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Complete and valid UDP, TCP or ICMP in IPv4.
    Plain,
    /// An IPv4 packet with 0 to 24 bytes behind the IPv4 header: the transport header may be missing,
    /// truncated or complete.
    Short,
    /// VLAN tags, one to two, before the IPv4 packet.
    Tagged,
    /// IEEE 802.3: a length in place of the Ethernet type, then an LLC header.
    Llc,
    /// MPLS labels before the IPv4 packet.
    Mpls,
    /// An ARP message, sometimes truncated or damaged.
    Arp,
    /// An IPv6 packet, often with extension headers.
    Ipv6,
    /// A first, middle or last fragment of IPv4.
    Fragment,
    /// Options in the IPv4 header or in the TCP header.
    Options,
    /// Additional bytes after the end of the IP packet.
    Padding,
    /// A frame that ends at any offset.
    Cut,
    /// A wrong value in one field: checksum, version, or the length of header, packet or segment.
    WrongField,
    /// An IP packet, or an Ethernet frame, in an IP packet.
    Tunnel,
    /// A source or destination address that no host has: broadcast, multicast, zero, loopback.
    Address,
    /// An ICMP error that quotes a packet of the flow.
    Quoting,
    /// Random bytes.
    Noise,
}

/// All kinds but [`Kind::Plain`].
pub(super) const ODD: [Kind; 15] = [
    Kind::Short,
    Kind::Tagged,
    Kind::Llc,
    Kind::Mpls,
    Kind::Arp,
    Kind::Ipv6,
    Kind::Fragment,
    Kind::Options,
    Kind::Padding,
    Kind::Cut,
    Kind::WrongField,
    Kind::Tunnel,
    Kind::Address,
    Kind::Quoting,
    Kind::Noise,
];

/// A connection whose packets are created in both directions.
#[derive(Clone, Copy, Debug)]
struct Flow {
    protocol: u8,
    addresses: [[u8; 4]; 2],
    ports: [u16; 2],
    /// The next TCP sequence number in each direction.
    sequence: [u32; 2],
}

const INSIDE: [[u8; 4]; 6] =
    [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 1, 2], [10, 0, 1, 3], [192, 168, 1, 9], [10, 255, 0, 1]];
const OUTSIDE: [[u8; 4]; 5] = [[10, 0, 1, 2], [192, 0, 2, 7], [8, 8, 8, 8], [1, 0, 0, 1], [200, 0, 0, 2]];
const PORTS: [u16; 8] = [53, 80, 443, 1000, 1024, 1025, 4000, 5353];

fn pick<T: Copy>(r: &mut fastrand::Rng, of: &[T]) -> T {
    of[r.usize(..of.len())]
}

/// Creates `count` packets of one source, each with its kind, in order of time. Packets of source 1 are
/// mostly replies.
pub(super) fn traffic(r: &mut fastrand::Rng, count: usize, source: usize) -> Vec<(Kind, Given)> {
    let mut flows: Vec<Flow> = (0..r.usize(2..9)).map(|_| flow(r)).collect();
    let gap = pick(r, &[1_000, 100_000, 1_000_000, 50_000_000, 1_000_000_000]);
    let most = pick(r, &[1, 4, 32, 32, 32]);
    let odd_most = r.usize(..ODD.len());
    let mut due = START + 500 * source as i64;
    let mut left = 0;
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        if left == 0 {
            // Rarely, a pause of 90 seconds makes entries of tables expire.
            due += if r.u8(..40) == 0 { 90_000_000_000 } else { gap };
            left = 1 + r.usize(..most);
        }
        left -= 1;
        let kind = match r.u8(..8) {
            // For each source, one odd kind is more frequent than the others.
            0 => ODD[odd_most],
            1 | 2 => pick(r, &ODD),
            _ => Kind::Plain,
        };
        let at = r.usize(..flows.len());
        let mut bytes = packet(r, kind, &mut flows[at], source);
        bytes.truncate(packet::MAX_PACKET);
        let packet_type = match r.u8(..24) {
            0 => PacketKind::Broadcast,
            1 => PacketKind::Multicast,
            2 => PacketKind::OtherHost,
            _ => PacketKind::Host,
        };
        let extra = if r.u8(..16) == 0 { r.u8(1..) } else { 0 };
        let annotations =
            if extra == 0 { Vec::new() } else { vec![(Annotations::EXTRA_LENGTH as u8 + r.u8(..2), extra)] };
        let time = Timestamp(due + 1 + number as i64);
        all.push((kind, Given { due: Timestamp(due), time, bytes, kind: packet_type, annotations }));
    }
    all
}

fn flow(r: &mut fastrand::Rng) -> Flow {
    Flow {
        protocol: pick(r, &[6, 17, 17, 6, 6, 17, 1]),
        addresses: [pick(r, &INSIDE), pick(r, &OUTSIDE)],
        ports: [pick(r, &[1000, 1024, 1025, 4000, 50_000]), pick(r, &PORTS)],
        sequence: [r.u32(..), r.u32(..)],
    }
}

/// Creates a frame of this kind with the next packet of a flow.
fn packet(r: &mut fastrand::Rng, kind: Kind, flow: &mut Flow, source: usize) -> Vec<u8> {
    // The second source mostly sends replies, the first source rarely.
    let back = if source == 1 { r.u8(..6) > 0 } else { r.u8(..6) == 0 };
    let payload = pick(r, &[0, 1, 6, 10, 18, 26, 60, 100, 500]);
    let segment = segment(r, flow, back, payload);
    let mut ip = Ip::of(flow, back, segment);
    ip.ttl = pick(r, &[64, 64, 64, 63, 255, 128, 2, 1, 0]);
    ip.tos = pick(r, &[0, 0, 0, 1, 2, 3, 0x28, 0xb8, 0xfc]);
    ip.id = r.u16(..);
    ip.fragment = pick(r, &[0, 0x4000, 0x4000]);
    match kind {
        Kind::Plain => {}
        Kind::Short => ip.payload.truncate(r.usize(..25)),
        Kind::Tagged => {
            let tag = |r: &mut fastrand::Rng| {
                let [high, low] = pick(r, &[0x8100u16, 0x8100, 0x8100, 0x88a8, 0x9100]).to_be_bytes();
                [high, low, pick(r, &[0, 0x60, 0xe0, 0x10]), pick(r, &[0, 1, 5, 7, 42])]
            };
            let tags: Vec<u8> = (0..1 + r.usize(..2) * r.usize(..2)).flat_map(|_| tag(r)).collect();
            let mut frame = ip.frame(r);
            frame.splice(12..12, tags);
            return maybe_cut(r, frame);
        }
        Kind::Llc => {
            let ip = ip.bytes();
            let llc = pick(r, &[[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], [0x42, 0x42, 3, 0, 0, 0, 0, 0]]);
            let length = (8 + ip.len()) as u16;
            return [&link(r, length)[..], &llc, &ip].concat();
        }
        Kind::Mpls => {
            let labels = 1 + r.usize(..3);
            let ether_type = pick(r, &[0x8847, 0x8847, 0x8848]);
            let mut frame = link(r, ether_type);
            for label in 0..labels {
                frame.extend([0, r.u8(..4), u8::from(label + 1 == labels), pick(r, &[64, 1, 0])]);
            }
            frame.extend(ip.bytes());
            return maybe_cut(r, frame);
        }
        Kind::Arp => {
            let mut frame = link(r, 0x0806);
            frame.extend([0, 1, 8, 0, 6, 4, 0, pick(r, &[1, 1, 2, 3])]);
            frame.extend([2, 0, 0, 0, 0, r.u8(1..4)]);
            frame.extend(pick(r, &INSIDE));
            frame.extend([0; 6]);
            frame.extend(pick(r, &OUTSIDE));
            frame.resize(pick(r, &[42, 60]), 0);
            if r.bool() {
                let place = r.usize(14..22);
                frame[place] ^= 1 << r.u8(..4);
            }
            return maybe_cut(r, frame);
        }
        Kind::Ipv6 => return ipv6(r, flow, back),
        Kind::Fragment => {
            ip.fragment = pick(r, &[0x2000, 0x2000, 0x2001, 0x2009, 1, 9, 185, 0x1fff]);
            if r.bool() {
                ip.payload.truncate(r.usize(..25));
            }
        }
        Kind::Options => {
            let options: &[&[u8]] = &[
                &[1, 1, 1, 0],
                &[7, 7, 4, 0, 0, 0, 0, 0],
                &[7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0],
                &[0x44, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &[0x94, 4, 0, 0],
                &[0x83, 7, 4, 10, 0, 0, 9, 0],
                &[7, 3, 4, 0],
                &[7, 200, 4, 0],
                &[1; 40],
            ];
            match r.u8(..5) {
                0 if ip.protocol == 6 => {
                    // One-byte TCP options (no operation) make the TCP header longer.
                    let words = r.usize(1..11).min(10);
                    if ip.payload.len() >= 20 {
                        ip.payload.splice(20..20, std::iter::repeat_n(1, 4 * words));
                        ip.payload[12] = ((5 + words) as u8) << 4;
                        ip.fix_transport();
                    }
                }
                _ => ip.options = pick(r, options).to_vec(),
            }
        }
        Kind::Padding => {
            let mut frame = ip.frame(r);
            let to = if r.bool() { frame.len().max(60) } else { frame.len() + r.usize(1..30) };
            frame.resize(to, pick(r, &[0, 0xee]));
            return frame;
        }
        Kind::Cut => {
            let mut frame = ip.frame(r);
            let to = if r.bool() { r.usize(..frame.len().min(60)) } else { r.usize(..frame.len()) };
            frame.truncate(to);
            return frame;
        }
        Kind::WrongField => {
            let mut frame = ip.frame(r);
            let fixes = lie(r, &mut frame);
            if fixes {
                fix_header(&mut frame[14..]);
            }
            return frame;
        }
        Kind::Tunnel => {
            let (inner, protocol) = match r.u8(..5) {
                0 => (ipv6(r, flow, back)[14..].to_vec(), 41),
                1 => {
                    // IPv4 in GRE, with the protocol type of IPv4.
                    let mut gre = vec![0, 0, 8, 0];
                    gre.extend(ip.bytes());
                    (gre, 47)
                }
                _ => (ip.bytes(), 4),
            };
            let mut outer = Ip::of(flow, !back, inner);
            outer.protocol = protocol;
            return outer.frame(r);
        }
        Kind::Address => {
            let odd = [[255; 4], [224, 0, 0, 1], [0; 4], [127, 0, 0, 1], [10, 255, 255, 255], [240, 0, 0, 1]];
            let side = r.usize(..2);
            ip.addresses[side] = pick(r, &odd);
            ip.fix_transport();
        }
        Kind::Quoting => {
            let mut quoted = ip.bytes();
            quoted.truncate(pick(r, &[20, 28, 28, 48, 200, 5]));
            let mut message = vec![pick(r, &[3, 11, 12, 5, 4]), r.u8(..5), 0, 0, 0, 0, 5, 0];
            message.extend(quoted);
            fix_icmp(&mut message);
            ip = Ip::of(flow, !back, message);
            ip.protocol = 1;
        }
        Kind::Noise => {
            let length = r.usize(..130);
            let mut bytes: Vec<u8> = (0..length).map(|_| r.u8(..)).collect();
            if r.bool() && bytes.len() > 34 {
                // Noise that looks like IPv4 passes more checks of elements.
                bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            }
            return bytes;
        }
    }
    ip.frame(r)
}

fn maybe_cut(r: &mut fastrand::Rng, mut frame: Vec<u8>) -> Vec<u8> {
    if r.u8(..6) == 0 {
        let to = r.usize(..frame.len());
        frame.truncate(to);
    }
    frame
}

/// Writes a wrong value into a frame with IPv4. Returns true if the IP header checksum has to be corrected
/// afterwards.
fn lie(r: &mut fastrand::Rng, frame: &mut [u8]) -> bool {
    let mut set = |place: usize, value: u8| {
        if let Some(byte) = frame.get_mut(place) {
            *byte = value;
        }
    };
    match r.u8(..12) {
        0 => {
            set(24, r.u8(..));
            return false;
        }
        1 => {
            // A checksum of all ones represents zero, like a checksum of zero.
            set(24, 0xff);
            set(25, 0xff);
            return false;
        }
        2 => set(14, pick(r, &[0x44, 0x40, 0x46, 0x4f, 0x4a])),
        3 => set(14, pick(r, &[0x65, 0x05, 0xf5, 0x60])),
        4 => set(17, r.u8(..)),
        5 => set(16, 0xff),
        6 => {
            set(16, 0);
            set(17, r.u8(..60));
        }
        // The byte of the TCP header that has the data offset.
        7 => set(46, r.u8(..)),
        8 => set(38, r.u8(..2)),
        9 => set(39, r.u8(..)),
        10 => set(20, r.u8(..)),
        // A byte of the checksum, if the protocol is the one of the offset: ICMP (36), UDP (40) or TCP (50
        // and 51).
        _ => {
            let place = pick(r, &[36, 40, 50, 51]);
            set(place, r.u8(..));
        }
    }
    true
}

fn mac(r: &mut fastrand::Rng) -> [u8; 6] {
    match r.u8(..20) {
        0 => [0xff; 6],
        1 => [1, 0, 0x5e, 0, 0, 1],
        _ => [2, 0, 0, 0, 0, r.u8(1..4)],
    }
}

fn link(r: &mut fastrand::Rng, ether_type: u16) -> Vec<u8> {
    let mut bytes = mac(r).to_vec();
    bytes.extend([2, 0, 0, 0, 0, r.u8(1..4)]);
    bytes.extend(ether_type.to_be_bytes());
    bytes
}

/// Creates a TCP segment, UDP datagram or ICMP echo message of a flow, without a checksum. If `back` is
/// true, it is a reply. `payload` is the number of bytes of payload.
fn segment(r: &mut fastrand::Rng, flow: &mut Flow, back: bool, payload: usize) -> Vec<u8> {
    let side = usize::from(back);
    let [from, to] = [flow.ports[side], flow.ports[1 - side]];
    let mut bytes = Vec::new();
    match flow.protocol {
        6 => {
            let flags = pick(r, &[0x10, 0x18, 0x10, 0x18, 0x10, 0x02, 0x12, 0x11, 0x04, 0x14, 0, 0xc2]);
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
            bytes.extend(flow.sequence[side].to_be_bytes());
            bytes.extend(flow.sequence[1 - side].to_be_bytes());
            bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            flow.sequence[side] = flow.sequence[side].wrapping_add(payload as u32);
        }
        17 => {
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
            bytes.extend(((8 + payload) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        _ => {
            bytes.extend([if back { 0 } else { 8 }, 0, 0, 0]);
            bytes.extend(from.to_be_bytes());
            bytes.extend([0, r.u8(..4)]);
        }
    }
    bytes.extend((0..payload).map(|n| (n * 7 + 1) as u8));
    bytes
}

fn fix_icmp(message: &mut [u8]) {
    // `fill_icmp` fails only for messages that are too short to have a checksum.
    let _ = checksum::fill_icmp(message);
}

/// Returns the one's complement sum of the pseudo-header for `payload`.
fn pseudo(addresses: &[u8], protocol: u8, payload: &[u8]) -> Sum {
    let mut bytes = addresses.to_vec();
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    Sum::new().bytes(&bytes)
}

/// Computes the checksum of a TCP, UDP, ICMP or ICMPv6 message, if it is long enough to have one.
fn fix_transport(addresses: &[u8], protocol: u8, payload: &mut [u8]) {
    let place = match protocol {
        6 => 16,
        17 => 6,
        58 => 2,
        1 => return fix_icmp(payload),
        _ => return,
    };
    if payload.len() < place + 2 {
        return;
    }
    payload[place..place + 2].fill(0);
    let mut bytes = pseudo(addresses, protocol, payload).bytes(payload).checksum();
    if protocol == 17 && bytes == 0 {
        bytes = 0xffff;
    }
    payload[place..place + 2].copy_from_slice(&bytes.to_be_bytes());
}

/// Computes the checksum of an IPv4 header, over the length in its length field. Does nothing if that
/// length is impossible.
fn fix_header(packet: &mut [u8]) {
    let length = usize::from(packet.first().copied().unwrap_or_default() & 15) * 4;
    if (20..=packet.len()).contains(&length) {
        let _ = checksum::fill_ipv4(&mut packet[..length]);
    }
}

/// The fields of an IPv4 packet that are not computed.
struct Ip {
    tos: u8,
    id: u16,
    fragment: u16,
    ttl: u8,
    protocol: u8,
    addresses: [[u8; 4]; 2],
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl Ip {
    fn of(flow: &Flow, back: bool, payload: Vec<u8>) -> Ip {
        let side = usize::from(back);
        let addresses = [flow.addresses[side], flow.addresses[1 - side]];
        let mut ip = Ip {
            tos: 0,
            id: 7,
            fragment: 0,
            ttl: 64,
            protocol: flow.protocol,
            addresses,
            options: Vec::new(),
            payload,
        };
        ip.fix_transport();
        ip
    }

    fn fix_transport(&mut self) {
        fix_transport(&self.addresses.concat(), self.protocol, &mut self.payload);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4).min(40), 0);
        let header = 20 + options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        bytes.extend(((header + self.payload.len()) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.addresses.concat());
        bytes.extend(options);
        fix_header(&mut bytes);
        bytes.extend(&self.payload);
        bytes
    }

    fn frame(&self, r: &mut fastrand::Rng) -> Vec<u8> {
        let mut frame = link(r, 0x0800);
        frame.extend(self.bytes());
        frame
    }
}

/// Creates a frame with an IPv6 packet of a flow, in half of the cases with one to three extension headers,
/// sometimes truncated or with a wrong length.
fn ipv6(r: &mut fastrand::Rng, flow: &mut Flow, back: bool) -> Vec<u8> {
    let six = |four: [u8; 4]| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        address[12..].copy_from_slice(&four);
        address
    };
    let side = usize::from(back);
    let mut addresses = [six(flow.addresses[side]), six(flow.addresses[1 - side])];
    if r.u8(..10) == 0 {
        addresses[r.usize(..2)] = pick(r, &[[0; 16], [0xff; 16], [0xfe; 16]]);
    }
    let payload = pick(r, &[0, 8, 40, 200]);
    let mut payload = segment(r, flow, back, payload);
    let mut protocol = if flow.protocol == 1 { 58 } else { flow.protocol };
    if protocol == 58 {
        payload[0] = pick(r, &[128, 129, 135, 136, 1]);
    }
    fix_transport(&addresses.concat(), protocol, &mut payload);
    if r.bool() {
        for _ in 0..r.usize(1..4) {
            let kind = pick(r, &[0, 43, 60, 44, 44, 51]);
            let mut header = vec![protocol, 0, 0, 0, 0, 0, 0, 7];
            match kind {
                44 => header[2..4].copy_from_slice(&pick(r, &[[0, 1], [0, 8], [0, 9], [0, 0]])),
                51 => header[1] = pick(r, &[0, 1, 2]),
                _ => {
                    header[1] = pick(r, &[0, 0, 0, 1, 5]);
                    header.resize(8 + 8 * usize::from(header[1]), 0);
                }
            }
            header.extend(&payload);
            (payload, protocol) = (header, kind);
        }
    }
    let mut frame = link(r, 0x86dd);
    frame.extend([0x60 | pick(r, &[0, 0, 2, 0xb]), pick(r, &[0, 0, 0x30, 0xbf]), 0, r.u8(..3)]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([protocol, pick(r, &[64, 64, 255, 1, 0])]);
    frame.extend(addresses.concat());
    frame.extend(payload);
    match r.u8(..8) {
        0 => {
            let to = r.usize(14..frame.len());
            frame.truncate(to);
        }
        1 => frame[18..20].copy_from_slice(&[0, r.u8(..80)]),
        2 => frame.extend([0xee; 9]),
        _ => {}
    }
    frame
}
