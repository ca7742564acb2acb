//! The fields of a packet in words, as the trace of a packet shows them, and a filter of packets to trace.

use std::net::{Ipv4Addr, Ipv6Addr};

use classify::filter::{HeaderSlices, Matcher};
use packet::{Annotations, Base, Packet, PacketKind};
use wire::layers::{Layers, Network};
use wire::{LinkType, MacAddr, ether_type, ip_protocol, tcp};

use crate::args::{PlaceNames, Scope, filter_condition};

/// The number of bytes at the start of a packet that are searched for headers.
const HEADERS: usize = 512;

/// The fields of a packet at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketFields {
    /// The name and the value of each field that the packet has, headers first, in the order of the bytes.
    pub fields: Vec<(&'static str, String)>,
    /// A hash of the bytes after the headers.
    payload: u64,
}

/// A field that differs between two views of one packet. A value is `None` if the packet had no such field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name of the field.
    pub field: &'static str,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
}

impl PacketFields {
    /// Reads the fields of a packet. If the offset of the network header is set, fields are read from there.
    /// Otherwise headers are found by the link header, or by the version at the packet's start.
    pub fn of(packet: &Packet) -> PacketFields {
        let mut bytes = [0; HEADERS];
        let got = packet.read_at(0, &mut bytes);
        let mut view = PacketFields::default();
        let end = view.headers(packet, &bytes[..got]);
        view.add("length", packet.len());
        view.payload = rest_hash(packet, end);
        view.annotations(packet);
        view
    }

    /// Returns the fields in which `after` differs from this view, in the order of `after`, then the fields
    /// that `after` has not.
    pub fn changes(&self, after: &PacketFields) -> Vec<Change> {
        let value = |view: &PacketFields, name: &str| {
            view.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone())
        };
        let names = after.fields.iter().chain(&self.fields).map(|(name, _)| *name);
        let mut changes: Vec<Change> = Vec::new();
        for field in names {
            let (before, after) = (value(self, field), value(after, field));
            if before != after && !changes.iter().any(|change| change.field == field) {
                changes.push(Change { field, before, after });
            }
        }
        if changes.is_empty() && self.payload != after.payload {
            let (before, after) = (Some("bytes".into()), Some("other bytes".into()));
            changes.push(Change { field: "payload", before, after });
        }
        changes
    }

    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.fields.push((name, value.to_string()));
    }

    /// Adds the fields of all headers. Returns the offset of their end in the packet.
    fn headers(&mut self, packet: &Packet, bytes: &[u8]) -> usize {
        let located = Located::of(packet, bytes);
        let layers = &located.layers;
        if let Some(frame) = located.ethernet.and_then(|at| bytes.get(at..)) {
            self.ethernet(frame, &Layers::locate(frame, LinkType::Ethernet));
        }
        let frame = bytes.get(located.start..).unwrap_or_default();
        let Some(l3) = layers.l3.filter(|&l3| l3 <= frame.len()) else { return located.start };
        match layers.network {
            Network::Ipv4 => self.ipv4(&frame[l3..]),
            Network::Ipv6 => self.ipv6(&frame[l3..]),
            Network::Arp => self.arp(&frame[l3..]),
            Network::Other => {}
        }
        if let (Some(l4), Some(protocol)) = (layers.l4, layers.protocol) {
            self.transport(protocol, frame.get(l4..).unwrap_or_default());
        }
        located.start + layers.payload.or(layers.l4).unwrap_or(l3)
    }

    fn ethernet(&mut self, frame: &[u8], layers: &Layers) {
        if let Some((addresses, _)) = frame.split_first_chunk::<12>() {
            let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
            self.add("Ethernet source", MacAddr([s0, s1, s2, s3, s4, s5]));
            self.add("Ethernet destination", MacAddr([d0, d1, d2, d3, d4, d5]));
        }
        for (name, tag) in [("VLAN", layers.outer_vlan), ("inner VLAN", layers.inner_vlan)] {
            if let Some(tag) = tag {
                self.add(name, tag & 0xfff);
            }
        }
        if let Some(kind) = layers.ether_type {
            let known = match kind {
                ether_type::IPV4 => "IPv4".to_string(),
                ether_type::IPV6 => "IPv6".to_string(),
                ether_type::ARP => "ARP".to_string(),
                other => format!("{other:#06x}"),
            };
            self.add("Ethernet type", known);
        }
    }

    fn ipv4(&mut self, header: &[u8]) {
        let Some(&[_, tos, l0, l1, i0, i1, f0, f1, ttl, protocol, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3]) =
            header.first_chunk::<20>()
        else {
            return;
        };
        self.add("IP source", Ipv4Addr::new(s0, s1, s2, s3));
        self.add("IP destination", Ipv4Addr::new(d0, d1, d2, d3));
        self.add("IP protocol", named_protocol(protocol));
        self.add("TTL", ttl);
        self.add("DSCP", tos >> 2);
        self.add("ECN", tos & 3);
        self.add("IP length", u16::from_be_bytes([l0, l1]));
        self.add("IP identification", u16::from_be_bytes([i0, i1]));
        let fragment = u16::from_be_bytes([f0, f1]);
        let flag = |mask: u16, text: &'static str| if fragment & mask == 0 { "" } else { text };
        let offset = (fragment & 0x1fff) * 8;
        self.add("fragment", format!("{offset}{}{}", flag(0x4000, " DF"), flag(0x2000, " MF")));
        self.add("IP checksum", format!("{:#06x}", u16::from_be_bytes([c0, c1])));
    }

    fn ipv6(&mut self, header: &[u8]) {
        let Some(header) = header.first_chunk::<40>() else { return };
        let address = |at: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&header[at..at + 16]);
            Ipv6Addr::from(bytes)
        };
        self.add("IP source", address(8));
        self.add("IP destination", address(24));
        self.add("next header", named_protocol(header[6]));
        self.add("hop limit", header[7]);
        let class = header[0] << 4 | header[1] >> 4;
        self.add("DSCP", class >> 2);
        self.add("ECN", class & 3);
        self.add("flow label", u32::from_be_bytes([0, header[1] & 0xf, header[2], header[3]]));
        self.add("IP payload length", u16::from_be_bytes([header[4], header[5]]));
    }

    fn arp(&mut self, bytes: &[u8]) {
        let Some(&[_, _, _, _, _, _, _, operation, rest @ ..]) = bytes.first_chunk::<28>() else { return };
        let [h0, h1, h2, h3, h4, h5, s0, s1, s2, s3, _, _, _, _, _, _, t0, t1, t2, t3] = rest;
        self.add(
            "ARP operation",
            match operation {
                1 => "request".to_string(),
                2 => "reply".to_string(),
                other => other.to_string(),
            },
        );
        self.add("ARP sender", Ipv4Addr::new(s0, s1, s2, s3));
        self.add("ARP sender's Ethernet address", MacAddr([h0, h1, h2, h3, h4, h5]));
        self.add("ARP target", Ipv4Addr::new(t0, t1, t2, t3));
    }

    fn transport(&mut self, protocol: u8, header: &[u8]) {
        let word = |at: usize| Some(u16::from_be_bytes([*header.get(at)?, *header.get(at + 1)?]));
        let long = |at: usize| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
        let sum = |at: usize| word(at).map(|sum| format!("{sum:#06x}"));
        let mut add = |name: &'static str, value: Option<String>| {
            if let Some(value) = value {
                self.add(name, value);
            }
        };
        let text = |number: Option<u16>| number.map(|number| number.to_string());
        let long_text = |number: Option<u32>| number.map(|number| number.to_string());
        if ip_protocol::has_ports(protocol) {
            add("source port", text(word(0)));
            add("destination port", text(word(2)));
        }
        match protocol {
            ip_protocol::TCP => {
                add("sequence number", long_text(long(4)));
                add("acknowledgement", long_text(long(8)));
                add("TCP flags", header.get(13).map(|&flags| named_flags(flags)));
                add("window", text(word(14)));
                add("TCP checksum", sum(16));
            }
            ip_protocol::UDP => add("UDP checksum", sum(6)),
            ip_protocol::ICMP | ip_protocol::ICMPV6 => {
                add("ICMP type", header.first().map(u8::to_string));
                add("ICMP code", header.get(1).map(u8::to_string));
                add("ICMP identifier", text(word(4)));
                add("ICMP checksum", sum(2));
            }
            _ => {}
        }
    }

    /// Adds the annotations that are set.
    fn annotations(&mut self, packet: &Packet) {
        let annotations = packet.annotations();
        let destination = packet.destination();
        if destination != [0; 4] {
            self.add("destination annotation", Ipv4Addr::from(destination));
        }
        let paint = annotations.u8(Annotations::PAINT);
        if paint != 0 {
            self.add("paint", paint);
        }
        if packet.port() != 0 {
            self.add("input port annotation", packet.port());
        }
        let kind = match packet.kind() {
            PacketKind::Host => return,
            PacketKind::Broadcast => "broadcast",
            PacketKind::Multicast => "multicast",
            PacketKind::OtherHost => "to another host",
            PacketKind::Outgoing => "outgoing",
            PacketKind::Loopback => "loopback",
        };
        self.add("packet type", kind);
    }
}

/// The headers of a packet.
struct Located {
    /// The type of the header with which the packet starts: raw IP if the link header was stripped.
    link: LinkType,
    /// The offset of the Ethernet header, if the packet has one.
    ethernet: Option<usize>,
    /// The headers, with offsets that count from `start`.
    layers: Layers,
    start: usize,
}

impl Located {
    /// Finds the headers of a packet that starts with `bytes`. If the offset of the network header is set, it
    /// decides. Otherwise the link header decides, or the version of IP at the packet's start.
    fn of(packet: &Packet, bytes: &[u8]) -> Located {
        let inside = |base| packet.offset(base).and_then(|at| usize::try_from(at).ok());
        let is_ip = |at: usize| bytes.get(at).is_some_and(|byte| matches!(byte, 0x45..=0x4f | 0x60..=0x6f));
        let (mac, network) = (inside(Base::Mac), inside(Base::Network).filter(|&at| is_ip(at)));
        // The link header is there unless it was stripped.
        let is_stripped = mac.is_none() && packet.stripped() > 0 && is_ip(0);
        let (start, link) = match network {
            Some(0) => (0, LinkType::RawIp),
            None if is_stripped => (0, LinkType::RawIp),
            _ => (mac.unwrap_or(0), LinkType::from_number(packet.link())),
        };
        let layers = Layers::locate(bytes.get(start..).unwrap_or_default(), link);
        let ethernet = (link == LinkType::Ethernet).then_some(start);
        match network {
            Some(at) if layers.l3.map(|l3| start + l3) != Some(at) => {
                Located { link, ethernet, layers: Layers::locate(&bytes[at..], LinkType::RawIp), start: at }
            }
            _ => Located { link, ethernet, layers, start },
        }
    }
}

/// Returns the link type, as its number in capture files, of the header with which a packet starts. This is
/// raw IP if the link header was stripped.
pub fn link_number(packet: &Packet) -> u16 {
    let mut bytes = [0; HEADERS];
    let got = packet.read_at(0, &mut bytes);
    Located::of(packet, &bytes[..got]).link.number()
}

/// A filter of packets by a pattern of IPFilter's language. It finds headers by itself, so that it works
/// also on packets whose header annotations are not set.
pub struct PacketFilter {
    matcher: Matcher,
}

impl PacketFilter {
    /// Parses a pattern. Names are resolved as at the element of `place`.
    ///
    /// # Errors
    /// The first complaint about the pattern.
    pub fn parse(pattern: &str, place: Scope<'_>) -> Result<PacketFilter, String> {
        let (condition, issues) = filter_condition(pattern, &PlaceNames(place));
        match issues.into_iter().find(|(_, is_warning)| !is_warning) {
            Some((complaint, _)) => Err(complaint.text),
            None => Ok(PacketFilter { matcher: Matcher::new(&[condition]) }),
        }
    }

    /// True if a packet matches the pattern.
    pub fn matches(&self, packet: &Packet) -> bool {
        let mut bytes = [0; HEADERS];
        let got = packet.read_at(0, &mut bytes);
        let bytes = &bytes[..got];
        let Located { ethernet, layers, start, .. } = Located::of(packet, bytes);
        let from = |at: Option<usize>| at.and_then(|at| bytes.get(at..)).unwrap_or_default();
        let in_frame = |at: Option<usize>| from(at.map(|at| start + at));
        let is_ip = matches!(layers.network, Network::Ipv4 | Network::Ipv6);
        let network = in_frame(layers.l3.filter(|_| is_ip));
        let headers = HeaderSlices { mac: from(ethernet), network, transport: in_frame(layers.l4) };
        self.matcher.first(&headers).is_some()
    }
}

fn named_protocol(protocol: u8) -> String {
    ip_protocol::name(protocol).map_or_else(|| protocol.to_string(), str::to_uppercase)
}

/// Names the flags of TCP that are set.
fn named_flags(flags: u8) -> String {
    let names = [
        (tcp::flags::SYN, "SYN"),
        (tcp::flags::FIN, "FIN"),
        (tcp::flags::RST, "RST"),
        (tcp::flags::PSH, "PSH"),
        (tcp::flags::ACK, "ACK"),
        (tcp::flags::URG, "URG"),
        (tcp::flags::ECE, "ECE"),
        (tcp::flags::CWR, "CWR"),
    ];
    let set: Vec<&str> = names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".into() } else { set.join(" ") }
}

/// Returns a hash of the bytes from offset `from` on (FNV-1a).
fn rest_hash(packet: &Packet, from: usize) -> u64 {
    let bytes = packet.chunks().flatten().skip(from);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use packet::Pool;

    use super::*;
    use crate::Setup;

    fn udp_frame() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 53, 4, 210, 0, 10, 0, 0, 1, 2]);
        frame
    }

    #[test]
    fn fields_and_changes() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut packet = pool.packet(&udp_frame()).unwrap();
        let before = PacketFields::of(&packet);
        let value = |view: &PacketFields, name: &str| {
            view.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone())
        };
        let fields = [
            ("Ethernet source", "02:00:00:00:00:01"),
            ("IP destination", "10.0.0.2"),
            ("fragment", "0 DF"),
            ("TTL", "64"),
            ("source port", "53"),
            ("length", "44"),
        ];
        for (name, text) in fields {
            assert_eq!(value(&before, name).as_deref(), Some(text), "{name}");
        }
        packet.data_mut()[22] = 63;
        let change = |field, a: Option<&str>, b: Option<&str>| Change {
            field,
            before: a.map(str::to_string),
            after: b.map(str::to_string),
        };
        assert_eq!(before.changes(&PacketFields::of(&packet)), [change("TTL", Some("64"), Some("63"))]);
        packet.data_mut()[43] = 9;
        packet.data_mut()[22] = 64;
        assert_eq!(
            before.changes(&PacketFields::of(&packet)),
            [change("payload", Some("bytes"), Some("other bytes"))]
        );
        packet.data_mut()[43] = 2;
        // Without the link header, the rest is found by the annotation, or by the version of IP.
        assert!(packet.strip(14));
        let names = ["length", "Ethernet source", "Ethernet destination", "Ethernet type"];
        let changed = |packet: &Packet| {
            before
                .changes(&PacketFields::of(packet))
                .into_iter()
                .map(|change| change.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(changed(&packet), names);
        packet.set_headers(0, 20);
        assert_eq!(changed(&packet), names);
        packet.set_destination([10, 0, 0, 9]);
        packet.annotations_mut().set_u8(Annotations::PAINT, 3);
        assert!(changed(&packet).ends_with(&names[1..]) && changed(&packet).contains(&"paint"));
        pool.free(packet);
    }

    #[test]
    fn a_filter_needs_no_annotations() {
        let setup = Setup::default();
        let parse = |pattern: &str| PacketFilter::parse(pattern, Scope::new(&setup, 0));
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut packet = pool.packet(&udp_frame()).unwrap();
        for (pattern, is_match) in [("udp && src port 53", true), ("tcp", false), ("dst host 10.0.0.2", true)]
        {
            assert_eq!(parse(pattern).unwrap().matches(&packet), is_match, "{pattern}");
        }
        assert!(packet.strip(14));
        assert!(parse("udp && dst port 1234").unwrap().matches(&packet));
        assert!(parse("src host").is_err_and(|text| !text.is_empty()));
        pool.free(packet);
    }
}
