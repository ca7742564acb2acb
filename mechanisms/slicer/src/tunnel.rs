//! The headers around an IP packet in a tunnel, and the changes that adapt them to a longer inner packet.
//!
//! A [`Walk`] goes from the outside to the inside of a packet and returns the offset of each IP header. It
//! knows Ethernet with VLAN tags, LLC, MPLS, PPPoE, NSH and provider backbone headers; in IP: IP (protocols
//! 4 and 41), GRE, EtherIP, L2TPv3 and MPLS; in UDP: VXLAN, VXLAN-GPE, GENEVE, GTP-U, LISP, GUE, MPLS and
//! plain IP. Tunnels over UDP are recognized by the contents of their headers if these are specific enough,
//! because their ports are chosen freely. Other tunnels over UDP are recognized by the port.
//!
//! A walk records each header that has a length or a checksum over the inner packet ([`Outer`]). The packet
//! is [sealed](Outer::is_sealed) if the inner packet can be seen but must not be changed: after a header with
//! inconsistent values, a fragment, a header that protects the inner packet (AH, ESP, MACsec), a UDP header
//! with data after its datagram, or too many headers.

use packet::Packet;
use wire::checksum::{Delta, Sum};
use wire::{FromBytes, LinkType, ether_type, ethernet, ip_protocol, ipv4, ipv6, udp, vlan};

use crate::token::MARKER;

/// The maximum number of headers that are recorded around an inner packet. With more, the packet is sealed:
/// its inner packet must not be changed.
const MOST: usize = 20;
/// The maximum number of steps of a walk; a header takes one to three steps.
const STEPS: usize = 48;

/// EtherTypes of tunnels that `wire` does not define.
mod kind {
    /// Ethernet in GRE and GENEVE.
    pub(super) const BRIDGING: u16 = 0x6558;
    /// PPP in GRE (RFC 2637).
    pub(super) const PPP: u16 = 0x880b;
    /// Provider backbone (IEEE 802.1ah).
    pub(super) const BACKBONE: u16 = 0x88e7;
    /// MACsec (IEEE 802.1AE).
    pub(super) const MACSEC: u16 = 0x88e5;
    /// Network service header (RFC 8300).
    pub(super) const NSH: u16 = 0x894f;
}

/// IP protocol numbers of tunnels that `wire` does not define.
mod protocol {
    /// Ethernet in IP (RFC 3378).
    pub(super) const ETHER_IP: u8 = 97;
    /// IP payload compression (RFC 3173).
    pub(super) const COMPRESSION: u8 = 108;
    /// L2TP, version 3 (RFC 3931).
    pub(super) const L2TP: u8 = 115;
    /// MPLS in IP (RFC 4023).
    pub(super) const MPLS: u8 = 137;
}

/// UDP destination ports of tunnels that cannot be recognized by their headers.
mod port {
    /// Generic UDP encapsulation.
    pub(super) const GUE: u16 = 6080;
    /// LISP data (RFC 9300).
    pub(super) const LISP: u16 = 4341;
    /// MPLS in UDP (RFC 7510).
    pub(super) const MPLS: u16 = 6635;
}

/// True if packets of this IP protocol may contain other packets, so that a sliced packet may be inside.
/// False for UDP, although tunnels use it.
pub fn carries_others(protocol: u8) -> bool {
    use ip_protocol::{AH, ESP, GRE, IPV4, IPV6};
    use protocol::{COMPRESSION, ETHER_IP, L2TP, MPLS};
    matches!(protocol, IPV4 | IPV6 | GRE | ESP | AH | ETHER_IP | COMPRESSION | L2TP | MPLS)
}

/// The kind of a recorded header, which says where its length and its checksum are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Ipv4,
    Ipv6,
    Udp,
    /// GRE with a checksum field; it has no length field.
    Gre,
    /// GRE version 1 with PPP inside, which has a length field.
    Pptp,
    Pppoe,
    Gtp,
    /// An Ethernet header with a length in place of the EtherType (IEEE 802.3). The offset is that of the
    /// length field.
    Ieee802,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layer {
    kind: Kind,
    /// The offset of the header in bytes from the start of the packet.
    at: u16,
    /// The offset, from the start of the packet, of the end of the data that the header's length and checksum
    /// cover.
    end: u32,
}

/// The recorded headers around an inner IP packet: those that have a length or a checksum over it, from the
/// outermost to the innermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outer {
    layers: [Layer; MOST],
    count: u8,
    /// The offset of the first header after the link header, from which on an interface's MTU counts.
    start: u16,
    /// The offset of the end of the data of the innermost header: the inner packet and what follows it
    /// there.
    end: u32,
    is_sealed: bool,
}

/// For each recorded header, the ones' complement sum of the data that its checksum over the inner data
/// covers; of the pseudo header of UDP, only the length is included. 0 for headers without such a checksum,
/// for example IPv4.
pub type Sums = [u16; MOST];

impl Outer {
    fn layers(&self) -> &[Layer] {
        &self.layers[..self.count.into()]
    }

    /// True if the inner packet must not be changed: a header around it is inconsistent, or protects it.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Gives the copy `number`, counted from 0, of the headers its own identification in each IPv4 header.
    pub fn identify(&self, data: &mut [u8], number: u16) {
        for layer in self.layers().iter().filter(|layer| layer.kind == Kind::Ipv4) {
            let Some(Ok((ip, _))) = data.get_mut(layer.at.into()..).map(ipv4::Header::mut_from_prefix) else {
                continue;
            };
            let own = ip.id.get().wrapping_add(number);
            ip.checksum.set(Delta::u16(ip.id.get(), own).apply_to_any(ip.checksum.get()));
            ip.id.set(own);
        }
    }

    /// Returns the offset of the end of the data of the innermost header around the inner packet. A trailer
    /// of the inner packet is included.
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// Returns the length in bytes of the link headers, which an interface's MTU does not count.
    pub fn link_header(&self) -> usize {
        self.start.into()
    }

    /// True if no recorded header, with its data up to offset `end`, is longer than the maximum value of its
    /// length field.
    pub fn may_end_at(&self, end: usize) -> bool {
        let most = |kind| match kind {
            // Larger values in this field are EtherTypes.
            Kind::Ieee802 => ether_type::MIN - 1,
            _ => u16::MAX,
        };
        self.layers().iter().all(|layer| end.saturating_sub(layer.at.into()) <= usize::from(most(layer.kind)))
    }

    /// True if a router may fragment the whole packet: its outermost IP header is IPv4 and allows it.
    /// `data` is the packet from its start.
    pub fn may_be_fragmented(&self, data: &[u8]) -> bool {
        let is_first = |layer: &&Layer| layer.kind == Kind::Ipv4 && layer.at == self.start;
        self.layers().first().filter(is_first).is_some_and(|layer| may_be_fragmented(data, layer.at.into()))
    }

    /// Returns the sums of the data that each checksum covers, to be taken before a change and passed to
    /// [`resum`](Self::resum).
    pub fn sums(&self, packet: &Packet) -> Sums {
        let mut sums = [0; MOST];
        for (sum, layer) in sums.iter_mut().zip(self.layers()) {
            *sum = layer.sum(packet);
        }
        sums
    }

    /// Sets all lengths so that the packet ends at offset `end`. Replaces the mark of sliced packets in IP
    /// headers that have it by `dscp`, if given. Corrects the checksums of IPv4 headers. Checksums that
    /// cover the inner data stay as they are; [`Outer::resum`] corrects them.
    pub fn set_end(&mut self, data: &mut [u8], end: usize, dscp: Option<u8>) {
        for layer in &mut self.layers[..self.count.into()] {
            layer.end = end as u32;
            if let Some(header) = data.get_mut(layer.at.into()..) {
                layer.kind.set_length(header, end - usize::from(layer.at), dscp);
            }
        }
        self.end = end as u32;
    }

    /// Corrects checksums after the data that they cover was changed. `before` is the result of
    /// [`sums`](Self::sums) before the change. Goes from the innermost header outwards, because the data of
    /// each checksum includes the inner headers with their checksums.
    pub fn resum(&self, packet: &mut Packet, before: &Sums) {
        for (layer, before) in self.layers().iter().zip(before).rev() {
            let delta = Delta::u16(*before, layer.sum(packet));
            let Some((place, is_udp)) = layer.checksum(packet.data()) else { continue };
            let Some(checksum) = packet.data_mut().get_mut(place..).and_then(|bytes| bytes.first_chunk_mut())
            else {
                continue;
            };
            let came = u16::from_be_bytes(*checksum);
            let changed = if is_udp { delta.apply_udp(came) } else { delta.apply_to_any(came) };
            *checksum = changed.to_be_bytes();
        }
    }
}

impl Layer {
    /// Returns the offset of the header's checksum over the inner data, and true if it is a UDP checksum.
    /// `None` if the header has none, or it is absent (UDP).
    fn checksum(&self, data: &[u8]) -> Option<(usize, bool)> {
        let at = usize::from(self.at);
        match self.kind {
            Kind::Udp => {
                data.get(at + 6..at + 8).filter(|checksum| **checksum != [0, 0]).map(|_| (at + 6, true))
            }
            Kind::Gre => Some((at + 4, false)),
            _ => None,
        }
    }

    /// Returns the ones' complement sum of the data that the header's checksum covers; 0 without a
    /// checksum. Of the pseudo header of UDP only the length is included, because only the difference of
    /// two sums is used and addresses do not change.
    fn sum(&self, packet: &Packet) -> u16 {
        let Some((_, is_udp)) = self.checksum(packet.data()) else { return 0 };
        let (start, end) = (usize::from(self.at), self.end as usize);
        let length = if is_udp { end - start } else { 0 };
        Sum::new().word32(length as u32).followed_by(sum_between(packet, start, end)).folded()
    }
}

impl Kind {
    /// Writes `total`, the number of bytes from the start of the header to the end of its data, in the form
    /// that the header's length field needs. Replaces the mark of sliced packets in an IP header by `dscp`,
    /// if given. Corrects the checksum of an IPv4 header.
    fn set_length(self, header: &mut [u8], total: usize, dscp: Option<u8>) {
        let (at, length) = match self {
            Kind::Ipv4 => {
                let Ok((ip, _)) = ipv4::Header::mut_from_prefix(header) else { return };
                let delta = Delta::u16(ip.total_length.get(), total as u16);
                ip.total_length.set(total as u16);
                ip.checksum.set(delta.apply_to_any(ip.checksum.get()));
                if let Some(dscp) = dscp.filter(|_| ip.dscp() == MARKER) {
                    let delta = Delta::u16(ip.tos.into(), (dscp << 2 | ip.ecn()).into());
                    ip.set_dscp(dscp);
                    ip.checksum.set(delta.apply_to_any(ip.checksum.get()));
                }
                return;
            }
            Kind::Ipv6 => {
                let Ok((ip, _)) = ipv6::Header::mut_from_prefix(header) else { return };
                ip.payload_length.set((total - ipv6::Header::LEN) as u16);
                let class = ip.traffic_class();
                if let Some(dscp) = dscp.filter(|_| class >> 2 == MARKER) {
                    ip.set_traffic_class(dscp << 2 | class & 3);
                }
                return;
            }
            Kind::Gre => return,
            Kind::Udp => (4, total),
            Kind::Pptp => (4, total - pptp_header(header)),
            Kind::Pppoe => (4, total - PPPOE),
            Kind::Gtp => (2, total - GTP),
            Kind::Ieee802 => (0, total - 2),
        };
        if let Some(field) = header.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
            *field = (length as u16).to_be_bytes();
        }
    }
}

/// The lengths in bytes of PPPoE, GTP-U and GRE headers without options.
const PPPOE: usize = 6;
const GTP: usize = 8;
const GRE: usize = 4;

/// Returns the length in bytes of the GRE header ahead of PPP, which depends on its flags (RFC 2637,
/// section 4.1).
fn pptp_header(header: &[u8]) -> usize {
    let flags = header.first_chunk().map_or(0, |flags| u16::from_be_bytes(*flags));
    8 + if flags & 0x1000 != 0 { 4 } else { 0 } + if flags & 0x0080 != 0 { 4 } else { 0 }
}

/// The kind of header that the walk expects next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Ethernet,
    /// A header of the type that the preceding EtherType says.
    Type(u16),
    Ip,
    /// The contents of the IP header that the walk has just returned.
    InsideIp,
    Protocol(u8),
    Mpls,
    Ppp,
}

/// A walk from the outside to the inside of a packet. [`next_ip`](Self::next_ip) returns one IP header
/// after the other.
#[derive(Debug)]
pub struct Walk<'a> {
    data: &'a [u8],
    at: usize,
    next: Next,
    steps: usize,
    is_started: bool,
    outer: Outer,
}

impl<'a> Walk<'a> {
    /// Starts a walk at the link header of a packet. `data` is the first bytes of the packet, `length` its
    /// whole length. `None` if the link type is not known, or if the header of a Linux cooked capture ends
    /// before its protocol field.
    pub fn frame(data: &'a [u8], length: usize, link: LinkType) -> Option<Walk<'a>> {
        let announced = |at: usize| data.get(at..)?.first_chunk().map(|kind| u16::from_be_bytes(*kind));
        let (at, next) = match link {
            LinkType::Ethernet => (0, Next::Ethernet),
            LinkType::LinuxCooked => (16, Next::Type(announced(14)?)),
            LinkType::LinuxCookedV2 => (20, Next::Type(announced(0)?)),
            LinkType::RawIp => (0, Next::Ip),
            LinkType::Null | LinkType::Loop => (4, Next::Ip),
            LinkType::Other(_) => return None,
        };
        Some(Walk::start(data, length, at, next))
    }

    /// Starts a walk at the IP header at offset `l3`.
    pub fn ip(data: &'a [u8], length: usize, l3: usize) -> Walk<'a> {
        Walk::start(data, length, l3, Next::Ip)
    }

    fn start(data: &'a [u8], length: usize, at: usize, next: Next) -> Walk<'a> {
        let outer = Outer { end: length as u32, ..Outer::default() };
        Walk { data, at, next, steps: 0, is_started: false, outer }
    }

    /// Returns the recorded headers around the IP header that [`next_ip`](Self::next_ip) returned last.
    pub fn outer(&self) -> &Outer {
        &self.outer
    }

    /// Walks to the next IP header and returns its offset in bytes. Returns `None` at the first header that
    /// is not known, inconsistent or encrypted, at a fragment that is not the first, at the end of the data,
    /// or after too many headers.
    pub fn next_ip(&mut self) -> Option<usize> {
        while self.steps < STEPS {
            self.steps += 1;
            if self.at > self.outer.end() {
                // A length field of an outer header ends the header's data before the current offset, so the
                // bytes from here on do not belong to the tunnel's contents.
                return None;
            }
            if matches!(self.next, Next::Ip) {
                self.mark_start();
                let is_ip = matches!(self.data.get(self.at)? >> 4, 4 | 6);
                self.next = Next::InsideIp;
                return is_ip.then_some(self.at);
            }
            self.step()?;
        }
        None
    }

    fn step(&mut self) -> Option<()> {
        match self.next {
            Next::Ethernet => {
                self.next = Next::Type(self.word(12)?);
                self.at += ethernet::Header::LEN;
            }
            Next::Type(tag) if vlan::is_tag(tag) => {
                self.next = Next::Type(self.word(2)?);
                self.at += vlan::Tag::LEN;
            }
            Next::Type(announced) => {
                self.mark_start();
                self.announced(announced)?;
            }
            Next::Ip | Next::InsideIp => self.inside_ip()?,
            Next::Protocol(protocol) => self.protocol(protocol)?,
            Next::Mpls => self.mpls()?,
            Next::Ppp => {
                // The address and control fields of PPP, and the first byte of its protocol field, may be
                // left out (RFC 1661, sections 6.5 and 6.6).
                self.at += if self.word(0)? == 0xff03 { 2 } else { 0 };
                let first = *self.data.get(self.at)?;
                let (protocol, length) = if first & 1 == 1 { (first.into(), 1) } else { (self.word(0)?, 2) };
                self.at += length;
                self.next = match protocol {
                    0x0021 | 0x0057 => Next::Ip,
                    0x0281 => Next::Mpls,
                    _ => return None,
                };
            }
        }
        Some(())
    }

    /// Records the current offset as the end of the link headers, in the first call only.
    fn mark_start(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.outer.start = self.at as u16;
        }
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.data.get(self.at + offset).copied()
    }

    fn word(&self, offset: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.data.get(self.at + offset..)?.first_chunk()?))
    }

    /// Records a header at offset `at` that covers the data up to offset `end`.
    fn note(&mut self, kind: Kind, at: usize, end: usize) {
        let Outer { layers, count, end: outer, is_sealed, .. } = &mut self.outer;
        // A header that claims more data than its outer header has is inconsistent.
        *is_sealed |= end > *outer as usize;
        *outer = (end as u32).min(*outer);
        match layers.get_mut(usize::from(*count)) {
            Some(layer) => {
                *layer = Layer { kind, at: at as u16, end: *outer };
                *count += 1;
            }
            None => *is_sealed = true,
        }
    }

    fn seal(&mut self) {
        self.outer.is_sealed = true;
    }

    fn announced(&mut self, announced: u16) -> Option<()> {
        self.next = match announced {
            ether_type::IPV4 | ether_type::IPV6 => Next::Ip,
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => Next::Mpls,
            ether_type::PPPOE_SESSION => {
                self.note(Kind::Pppoe, self.at, self.at + PPPOE + usize::from(self.word(4)?));
                self.at += PPPOE;
                Next::Ppp
            }
            kind::BRIDGING => Next::Ethernet,
            kind::PPP => Next::Ppp,
            kind::BACKBONE => {
                self.at += 4;
                Next::Ethernet
            }
            kind::NSH => self.service_header()?,
            kind::MACSEC => {
                self.seal();
                let tag = self.byte(0)?;
                let is_encrypted = tag & 0x0c != 0;
                self.at += if tag & 0x20 != 0 { 14 } else { 6 };
                let next = Next::Type(self.word(0).filter(|_| !is_encrypted)?);
                self.at += 2;
                next
            }
            length @ ..ether_type::MIN => {
                self.note(Kind::Ieee802, self.at.checked_sub(2)?, self.at + usize::from(length));
                let is_snap = [self.word(0)?, self.word(2)?, self.word(4)?] == [0xaaaa, 0x0300, 0];
                let next = Next::Type(self.word(6).filter(|_| is_snap)?);
                self.at += 8;
                next
            }
            _ => return None,
        };
        Some(())
    }

    /// Walks over a network service header (NSH); returns the kind of header after it.
    fn service_header(&mut self) -> Option<Next> {
        let (length, protocol) = (usize::from(self.byte(1)? & 0x3f) * 4, self.byte(3)?);
        self.at += length.max(8);
        Walk::by_number(protocol)
    }

    /// Decodes the next-protocol field of VXLAN-GPE and NSH.
    fn by_number(number: u8) -> Option<Next> {
        Some(match number {
            1 | 2 => Next::Ip,
            3 => Next::Ethernet,
            4 => Next::Type(kind::NSH),
            5 => Next::Mpls,
            _ => return None,
        })
    }

    fn mpls(&mut self) -> Option<()> {
        let is_last = self.byte(2)? & 1 == 1;
        self.at += 4;
        if !is_last {
            return Some(());
        }
        self.next = match self.byte(0)? >> 4 {
            4 | 6 => Next::Ip,
            // An Ethernet frame; a control word may precede it (RFC 4448).
            _ => {
                if self.byte(0)? >> 4 == 0 && self.is_frame_at(4) {
                    self.at += 4;
                }
                Next::Ethernet
            }
        };
        Some(())
    }

    fn inside_ip(&mut self) -> Option<()> {
        let ip = self.data.get(self.at..)?;
        let (kind, protocol, header, total) = match ip.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::ref_from_prefix(ip).ok()?;
                if header.is_fragment() {
                    self.outer.is_sealed = true;
                }
                let length = header.header_len();
                (header.fragment_offset() == 0 && length >= ipv4::Header::LEN).then_some(())?;
                (Kind::Ipv4, header.protocol, length, usize::from(header.total_length.get()))
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(ip).ok()?;
                let mut length = ipv6::Header::LEN;
                let mut protocol = header.next_header;
                for extension in ipv6::extensions(protocol, rest) {
                    let extension = extension.ok()?;
                    let part = extension.fragment();
                    (part.is_none_or(|part| part.offset() == 0)).then_some(())?;
                    self.outer.is_sealed |= part.is_some_and(|part| part.more_fragments());
                    self.outer.is_sealed |= extension.kind == ip_protocol::AH;
                    protocol = extension.next_header;
                    length += extension.bytes.len();
                }
                (Kind::Ipv6, protocol, length, ipv6::Header::LEN + usize::from(header.payload_length.get()))
            }
            _ => return None,
        };
        (header <= total).then_some(())?;
        self.note(kind, self.at, self.at + total);
        self.at += header;
        self.next = Next::Protocol(protocol);
        Some(())
    }

    fn protocol(&mut self, protocol: u8) -> Option<()> {
        self.next = match protocol {
            ip_protocol::IPV4 | ip_protocol::IPV6 => Next::Ip,
            ip_protocol::UDP => self.inside_udp()?,
            ip_protocol::GRE => self.inside_gre()?,
            ip_protocol::AH => {
                self.seal();
                let (next, length) = (self.byte(0)?, (usize::from(self.byte(1)?) + 2) * 4);
                self.at += length;
                Next::Protocol(next)
            }
            ip_protocol::ESP => {
                // ESP without encryption (RFC 2410) shows the headers inside, so this search goes on. ESP
                // still authenticates these headers: a payload must not be taken out of them.
                self.seal();
                self.at += 8;
                Next::Ip
            }
            protocol::ETHER_IP => {
                self.at += 2;
                Next::Ethernet
            }
            protocol::MPLS => Next::Mpls,
            protocol::L2TP => {
                // After the session identifier of four bytes, a cookie and another header may follow; only
                // the endpoints know their lengths (RFC 3931 and 4719). So the walk takes the first offset
                // at which a frame seems to start.
                self.at += [4, 8, 12, 16].into_iter().find(|start| self.is_frame_at(*start))?;
                Next::Ethernet
            }
            _ => return None,
        };
        Some(())
    }

    /// True if an Ethernet frame with a known EtherType or a matching length seems to start `offset` bytes
    /// after the current position.
    fn is_frame_at(&self, offset: usize) -> bool {
        use ether_type::{IPV4, IPV6, MPLS, MPLS_UPSTREAM, PPPOE_SESSION};
        let rest = self.outer.end().saturating_sub(self.at + offset + ethernet::Header::LEN);
        let is_known = |kind: u16| {
            vlan::is_tag(kind)
                || kind < ether_type::MIN && usize::from(kind) == rest
                || matches!(
                    kind,
                    IPV4 | IPV6 | MPLS | MPLS_UPSTREAM | PPPOE_SESSION | kind::BACKBONE | kind::NSH
                )
        };
        self.word(offset + 12).is_some_and(is_known)
    }

    fn inside_gre(&mut self) -> Option<Next> {
        let (flags, announced) = (self.word(0)?, self.word(2)?);
        let has = |flag: u16| flags & flag != 0;
        // GRE headers with source routes (RFC 1701) are not in use any more, and not parsed.
        let (version, is_routed) = (flags & 7, has(0x4000));
        match version {
            0 if !is_routed => {
                let header = GRE + [0x8000, 0x2000, 0x1000].iter().filter(|flag| has(**flag)).count() * 4;
                if has(0x8000) {
                    self.note(Kind::Gre, self.at, self.outer.end());
                }
                self.at += header;
                // ERSPAN: a mirrored frame, after a header of its own if there is a sequence number.
                if announced == 0x88be {
                    self.at += if has(0x1000) { 8 } else { 0 };
                    return Some(Next::Ethernet);
                }
                Some(Next::Type(announced))
            }
            1 if has(0x2000) && announced == kind::PPP => {
                let header = pptp_header(self.data.get(self.at..)?);
                self.note(Kind::Pptp, self.at, self.at + header + usize::from(self.word(4)?));
                self.at += header;
                Some(Next::Ppp)
            }
            _ => None,
        }
    }

    fn inside_udp(&mut self) -> Option<Next> {
        let (ports, length) = ([self.word(0)?, self.word(2)?], usize::from(self.word(4)?));
        let room = length.checked_sub(udp::Header::LEN)?;
        if self.at + length < self.outer.end() {
            // Data between the end of the datagram and the end of the IP packet holds UDP options (RFC
            // 9868), which are not adapted.
            self.seal();
        }
        self.note(Kind::Udp, self.at, self.at + length);
        self.at += udp::Header::LEN;
        if self.is_ip_of(room) {
            return Some(Next::Ip);
        }
        let (first, last) = (self.word(0)?, self.byte(7)?);
        let second = self.word(2)?;
        let (next, header) = match first >> 8 {
            // VXLAN (RFC 7348), VXLAN with a group policy, and VXLAN-GPE, by flags and reserved fields.
            0x08 if first & 0xff == 0 && second == 0 && last == 0 => (Next::Ethernet, 8),
            0x88 if first & 0xb7 == 0 && last == 0 => (Next::Ethernet, 8),
            0x0c if first & 0xff == 0 && second >> 8 == 0 && last == 0 => (Walk::by_number(second as u8)?, 8),
            // GENEVE (RFC 8926), with an EtherType.
            options @ ..0x40 if first & 0x3f == 0 && last == 0 && second >= ether_type::MIN => {
                (Next::Type(second), 8 + usize::from(options) * 4)
            }
            // GTP-U version 1 with a user's packet, type 255 (3GPP TS 29.281), if its length matches.
            0x30..0x38 if first & 0xff == 0xff && GTP + usize::from(second) == room => {
                self.note(Kind::Gtp, self.at, self.at + room);
                (Next::Ip, self.gtp_header(first & 0x700 != 0)?)
            }
            _ if ports[1] == port::LISP => (Next::Ip, 8),
            _ if ports[1] == port::MPLS => (Next::Mpls, 0),
            options @ ..0x20 if ports[1] == port::GUE => {
                (Next::Protocol(first as u8), 4 + usize::from(options) * 4)
            }
            _ => return None,
        };
        self.at += header;
        Some(next)
    }

    /// Returns the length in bytes of a GTP-U header with its optional fields and extension headers; `None`
    /// if it is truncated.
    fn gtp_header(&self, has_options: bool) -> Option<usize> {
        if !has_options {
            return Some(GTP);
        }
        let (mut length, mut next) = (GTP + 4, self.byte(GTP + 3)?);
        let has_extensions = self.byte(0)? & 4 != 0;
        while has_extensions && next != 0 {
            let words = usize::from(self.byte(length)?).max(1);
            next = self.byte(length + words * 4 - 1)?;
            length += words * 4;
        }
        Some(length)
    }

    /// True if an IP packet of exactly `length` bytes starts at the current position.
    fn is_ip_of(&self, length: usize) -> bool {
        let total = match self.byte(0).map(|first| first >> 4) {
            Some(4) => self.word(2).map(usize::from),
            Some(6) => self.word(4).map(|payload| ipv6::Header::LEN + usize::from(payload)),
            _ => None,
        };
        total == Some(length)
    }
}

/// True if routers may fragment the IP packet at offset `l3`: it is IPv4 and allows it.
pub fn may_be_fragmented(data: &[u8], l3: usize) -> bool {
    let is_ipv4 = data.get(l3).is_some_and(|first| first >> 4 == 4);
    let header = data.get(l3..).and_then(|ip| ipv4::Header::ref_from_prefix(ip).ok());
    header.is_some_and(|(header, _)| is_ipv4 && !header.dont_fragment())
}

/// Returns the checksum of the bytes of a packet from offset `start` to before `end`, across all of its
/// slots.
pub fn sum_between(packet: &Packet, start: usize, end: usize) -> Sum {
    let (mut sum, mut place) = (Sum::new(), 0);
    for chunk in packet.chunks() {
        let from = start.saturating_sub(place).min(chunk.len());
        let to = end.saturating_sub(place).min(chunk.len());
        sum = sum.bytes(chunk.get(from..to).unwrap_or_default());
        place += chunk.len();
    }
    sum
}
