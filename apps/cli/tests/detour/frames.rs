//! Frames to be carried through a network function: lists of frames, replies to frames that have arrived, and
//! a comparison that ignores the ports and identifiers that a translator has chosen.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use wire::build::Builder;
use wire::checksum::Delta;
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};
use wire::{FromBytes, MacAddr, ip_protocol, ipv4};

/// The addresses of the client, of the server, and of a translator's outer side; constants with a 6 in their
/// names are IPv6 addresses.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
pub(crate) const OUTER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 254);
pub(crate) const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 1);

/// The number of frames in a group. The frames of a group may be in transit at the same time; a mark (a
/// datagram whose arrival is awaited) ends the group.
const GROUP: usize = 15;
/// The UDP port of marks. A mark is the datagram that ends each group of frames; its arrival is awaited
/// before the next group is sent.
const MARK: u16 = 9;
/// The length of an Ethernet header.
const ETHERNET: usize = 14;

/// Returns the link address of a machine: 1 client, 2 the network function on the client's side, 3 the
/// network function on the server's side, 4 server.
pub(crate) fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

/// A list of frames from the client to the server. `to` is the destination in the Ethernet header.
pub(crate) struct List {
    frames: Vec<Vec<u8>>,
    to: MacAddr,
}

impl List {
    /// Returns frames of many types: UDP, TCP, pings, fragments, a VLAN tag, another protocol, and IPv6. A
    /// mark follows each group of [`GROUP`] frames.
    pub(crate) fn of_all_kinds(to: MacAddr) -> Vec<Vec<u8>> {
        let mut list = List { frames: Vec::new(), to };
        list.datagrams();
        list.segments();
        list.others();
        list.version_6();
        list.mix();
        with_marks(&list.frames, &mark(to))
    }

    /// Returns `count` datagrams of one flow with different lengths, and a mark (a datagram whose arrival is
    /// awaited) after each group of frames.
    pub(crate) fn of_datagrams(to: MacAddr, count: usize) -> Vec<Vec<u8>> {
        let mut list = List { frames: Vec::new(), to };
        (0..count).for_each(|number| list.datagram(2000, 64 + number * 401 % 1400));
        with_marks(&list.frames, &mark(to))
    }

    fn add(&mut self, builder: Builder, length: usize) -> &mut Vec<u8> {
        let number = self.frames.len();
        let payload: Vec<u8> = (0..length).map(|byte| (byte * 7 + number) as u8).collect();
        let frame = builder.id(number as u16).ethernet(mac(1), self.to).build(&payload).unwrap();
        self.frames.push(frame);
        self.frames.last_mut().unwrap()
    }

    fn datagram(&mut self, port: u16, length: usize) {
        self.add(Builder::udp((CLIENT, port).into(), (SERVER, port).into()), length);
    }

    /// Adds datagrams: with lengths around the threshold for slicing and around the MTU; with right, wrong
    /// and no checksums; with several DSCPs and congestion marks (ECN).
    fn datagrams(&mut self) {
        for length in [0, 1, 16, 17, 100, 441, 457, 458, 459, 600, 1000, 1471, 1472] {
            self.datagram(2000, length);
        }
        for length in [10, 458, 1472] {
            let builder = Builder::udp((CLIENT, 2001).into(), (SERVER, 2001).into());
            let frame = self.add(builder, length);
            frame[ETHERNET + 26..ETHERNET + 28].fill(0);
        }
        let builder = Builder::udp((CLIENT, 2005).into(), (SERVER, 2005).into());
        self.add(builder, 1000)[ETHERNET + 27] ^= 0x55;
        // The last two values have DSCP 63, by which the Slicer marks sliced packets.
        for tos in [0xb8, 0x03, 0xfc, 0xff] {
            for length in [5, 700] {
                self.add(Builder::udp((CLIENT, 2002).into(), (SERVER, 2002).into()).tos(tos), length);
            }
        }
        self.datagram(2003, 1200);
        for length in [1, 1100] {
            self.datagram(2004, length);
        }
    }

    /// Adds segments: a connection from its start to its end, a connection that was opened earlier, single
    /// segments with other flags, and a segment with a wrong checksum.
    fn segments(&mut self) {
        let segment = |port: u16, flags: u8, sequence: u32| {
            Builder::tcp((CLIENT, port).into(), (SERVER, port).into(), flags).sequence(sequence, 77)
        };
        let mut sequence = 1000;
        for (flags, length) in [(SYN, 0), (ACK, 0), (ACK, 1460), (ACK | PSH, 500), (ACK | FIN, 900)] {
            self.add(segment(2100, flags, sequence), length);
            sequence = sequence.wrapping_add(length as u32 + u32::from(flags & SYN != 0));
        }
        // The segments of this connection have TCP time stamps, and their sequence numbers wrap around.
        sequence = u32::MAX - 2000;
        for length in [1448, 1448, 100, 458, 1448] {
            let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
            self.add(segment(2101, ACK, sequence).options(&options), length);
            sequence = sequence.wrapping_add(length as u32);
        }
        for (flags, length) in [(ACK, 1300), (ACK | URG, 800), (RST, 0), (ACK | RST, 700)] {
            self.add(segment(2102, flags, 5), length);
        }
        self.add(segment(2103, ACK, 5), 1000);
        self.add(segment(2104, ACK, 5), 1000)[ETHERNET + 37] ^= 0x55;
    }

    /// Adds pings, fragments, a datagram with a VLAN tag, and a packet of another protocol.
    fn others(&mut self) {
        let [from, to] = [CLIENT, SERVER].map(IpAddr::from);
        for length in [56, 1000] {
            self.add(Builder::icmp(from, to, 8, 0, [2200, 1]), length);
        }
        let whole = self.add(Builder::udp((CLIENT, 2201).into(), (SERVER, 2201).into()), 1600).clone();
        self.frames.pop();
        let datagram = &whole[ETHERNET + ipv4::Header::LEN..];
        let (first, second) = datagram.split_at(800);
        let number = self.frames.len() as u16;
        // The fragment offset is in units of eight bytes.
        for (word, part) in [(ipv4::MORE_FRAGMENTS, first), (100, second)] {
            let builder = Builder::ip(from, to, ip_protocol::UDP).id(number).fragment(word);
            self.frames.push(builder.ethernet(mac(1), self.to).build(part).unwrap());
        }
        self.add(Builder::udp((CLIENT, 2202).into(), (SERVER, 2202).into()).vlan(7), 1000);
        self.add(Builder::ip(from, to, 253), 1000);
    }

    fn version_6(&mut self) {
        let ends = |port: u16| ((CLIENT6, port).into(), (SERVER6, port).into());
        for length in [0, 437, 438, 439, 1000, 1452] {
            let (from, to) = ends(2300);
            self.add(Builder::udp(from, to), length);
        }
        for (tos, length) in [(0, 1440), (0xfc, 10), (0xfc, 1200), (0xb8, 1200)] {
            let (from, to) = ends(2301);
            self.add(Builder::tcp(from, to, ACK).tos(tos).sequence(9, 9), length);
        }
    }

    /// Adds seven flows in turn, with 90 payload lengths from 0 to 1460 bytes.
    fn mix(&mut self) {
        for number in 0..90 {
            let (port, length) = (2400 + number % 7, usize::from(number) * 397 % 1461);
            let (from, to) = ((CLIENT, port).into(), (SERVER, port).into());
            match port % 2 {
                0 => self.add(Builder::udp(from, to), length),
                _ => self.add(Builder::tcp(from, to, ACK).sequence(u32::from(number) * 1460, 1), length),
            };
        }
    }
}

/// Returns a mark, which is sent as the last frame of a group.
pub(crate) fn mark(to: MacAddr) -> Vec<u8> {
    let builder = Builder::udp((CLIENT, MARK).into(), (SERVER, MARK).into());
    builder.ethernet(mac(1), to).build(&[0; 18]).unwrap()
}

/// Returns the frames, with `mark` after each group of [`GROUP`] frames.
fn with_marks(frames: &[Vec<u8>], mark: &[u8]) -> Vec<Vec<u8>> {
    frames.chunks(GROUP).flat_map(|group| group.iter().cloned().chain([mark.to_vec()])).collect()
}

/// The addresses and ports of a datagram or segment over IPv4, or of its first fragment.
struct Ends {
    from: SocketAddrV4,
    to: SocketAddrV4,
    is_tcp: bool,
    /// The offset of the ports in the frame, in bytes.
    at: usize,
}

impl Ends {
    fn find(frame: &[u8]) -> Option<Ends> {
        let (header, _) = ipv4::Header::ref_from_prefix(frame.get(ETHERNET..)?).ok()?;
        let is_tcp = header.protocol == ip_protocol::TCP;
        let has_ports = is_tcp || header.protocol == ip_protocol::UDP;
        if frame[12..ETHERNET] != [8, 0] || header.fragment_offset() > 0 || !has_ports {
            return None;
        }
        let at = ETHERNET + header.header_len();
        let port = |at: usize| frame.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        let from = SocketAddrV4::new(header.source_addr(), port(at)?);
        let to = SocketAddrV4::new(header.destination_addr(), port(at + 2)?);
        Some(Ends { from, to, is_tcp, at })
    }
}

/// True if a frame is a mark, in either direction.
pub(crate) fn is_mark(frame: &[u8]) -> bool {
    Ends::find(frame).is_some_and(|ends| !ends.is_tcp && [ends.from.port(), ends.to.port()].contains(&MARK))
}

/// Returns the frames with which the server replies to the IPv4 flows with ports whose frames have arrived:
/// for each flow, frames with three payload lengths. A mark follows each group of frames; for its addresses,
/// a mark must have arrived.
pub(crate) fn replies(arrived: &[Vec<u8>], to: MacAddr) -> Vec<Vec<u8>> {
    let mut flows = BTreeMap::new();
    for ends in arrived.iter().filter_map(|frame| Ends::find(frame)) {
        // The ports of a flow are taken from its first packet: a translator may leave a later packet
        // untranslated if the packet belongs to no connection.
        flows.entry((ends.is_tcp, ends.to.port())).or_insert(ends);
    }
    let mut frames = Vec::new();
    for ends in flows.values().filter(|ends| ends.to.port() != MARK) {
        let (from, back) = (ends.to.into(), ends.from.into());
        for length in [10, 460, 1400] {
            let builder = match ends.is_tcp {
                true => Builder::tcp(from, back, ACK).sequence(77 + length as u32, 3000),
                false => Builder::udp(from, back),
            };
            let number = frames.len();
            let builder = builder.id(number as u16).ethernet(mac(4), to);
            frames.push(builder.build(&vec![number as u8; length]).unwrap());
        }
    }
    let mark = &flows[&(false, MARK)];
    let mark = Builder::udp(mark.to.into(), mark.from.into()).ethernet(mac(4), to);
    with_marks(&frames, &mark.build(&[0; 18]).unwrap())
}

/// Groups frames by flow, in order, without multicast frames, which machines send by themselves. A port that
/// a translator has chosen is replaced by the server's port, one to one, and an ICMP identifier by 0.
pub(crate) fn by_flow(frames: &[Vec<u8>]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut names = Names::default();
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for frame in frames.iter().filter(|frame| frame[0] & 1 == 0) {
        let mut frame = frame.clone();
        names.call(&mut frame);
        let flow = match Ends::find(&frame) {
            Some(Ends { from, to, is_tcp: true, .. }) => format!("TCP {from} {to}"),
            Some(Ends { from, to, .. }) => format!("UDP {from} {to}"),
            // Frames without ports are grouped by IP version and protocol (IPv4), or by the second byte of
            // the source address (IPv6).
            None => format!("{:02x?} {:02x?}", &frame[12..15], frame.get(23)),
        };
        flows.entry(flow).or_default().push(frame);
    }
    flows
}

/// The names of flows that a translator has renamed: for each of the server's ports, the port that the
/// translator has chosen, and for each chosen port, the server's port. Both maps together show that the
/// choice is one to one.
#[derive(Default)]
struct Names {
    chosen: BTreeMap<(bool, u16), u16>,
    names: BTreeMap<(bool, u16), u16>,
}

impl Names {
    fn call(&mut self, frame: &mut [u8]) {
        let is_outer = frame.get(26..30) == Some(&OUTER.octets()[..]);
        if let Some(ends) = Ends::find(frame).filter(|_| is_outer) {
            let (chosen, name) = (ends.from.port(), ends.to.port());
            let both = (
                *self.chosen.entry((ends.is_tcp, name)).or_insert(chosen),
                *self.names.entry((ends.is_tcp, chosen)).or_insert(name),
            );
            assert_eq!(both, (chosen, name), "a translator has not chosen one to one");
            let checksum = ends.at + if ends.is_tcp { 16 } else { 6 };
            // A UDP checksum of zero means that there is no checksum, so it is not updated.
            if ends.is_tcp || frame[checksum..checksum + 2] != [0; 2] {
                rewrite(frame, ends.at, name, checksum);
            } else {
                frame[ends.at..ends.at + 2].copy_from_slice(&name.to_be_bytes());
            }
        } else if is_outer && frame[23] == ip_protocol::ICMP {
            let message = ETHERNET + ipv4::Header::LEN;
            rewrite(frame, message + 4, 0, message + 2);
        }
    }
}

/// Replaces the 16-bit word of a frame at the offset `at` by `new`, and updates the checksum at the offset
/// `checksum`.
fn rewrite(frame: &mut [u8], at: usize, new: u16, checksum: usize) {
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (old, sum) = (word(frame, at), word(frame, checksum));
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    let sum = Delta::u16(old, new).apply(sum);
    frame[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
}
