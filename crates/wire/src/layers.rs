//! The offsets of the link, network and transport headers in a frame.
//!
//! [`Layers::locate`] checks every length once and never fails: it reports the headers that it found, and
//! the fault at which it stopped. Captures often contain truncated or malformed frames, so a fault is a
//! normal result and not an error. [`ipv6`] documents the limits for extension headers, and the result for
//! packets beyond them.

use zerocopy::FromBytes;

use crate::{
    Error, FiveTuple, Layer, LinkType, U16, U32, capture_links, ether_type, ethernet, icmp, icmpv6,
    ip_protocol, ipv4, ipv6, tcp, udp, vlan,
};

/// The largest number of VLAN tags that are read in one frame; a frame with more has a fault.
pub const MAX_VLAN_TAGS: usize = 8;
/// The largest number of MPLS labels that are read in one frame; a frame with more has a fault.
pub const MAX_MPLS_LABELS: usize = 16;

/// The number of bytes that contain all headers which determine a packet's flow, counted from the start of
/// the frame or from the IP header. Link headers of all kinds, an IPv6 header,
/// [`ipv6::MAX_EXTENSION_BYTES`] and a TCP header up to its flags take no more. So the first `FLOW_HEADERS`
/// bytes give the same five-tuple as the whole packet.
pub const FLOW_HEADERS: u16 = 640;

/// The headers of a frame. Offsets are in bytes from the start of the frame, and are at most its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// The EtherType after the link header and all VLAN tags. For link types without this field it follows
    /// from the IP version. `None` if the link header or a VLAN tag could not be read, if the link type is
    /// unknown, or if a frame without this field carries no IP.
    pub ether_type: Option<u16>,
    /// The number of VLAN tags that were read.
    pub vlan_tags: u8,
    /// The tag control information of the first (outermost) VLAN tag; the VLAN identifier is in the lower
    /// 12 bits.
    pub outer_vlan: Option<u16>,
    /// The tag control information of the last (innermost) VLAN tag, if there are at least two.
    pub inner_vlan: Option<u16>,
    /// The number of MPLS labels that were read. Labels do not say what follows: the bytes after the last
    /// label are taken for IP if the first 4 bits are a version of IP.
    pub mpls_labels: u8,
    /// The protocol of the network header at offset `l3`.
    pub network: Network,
    /// The offset of the network header, after the link header, VLAN tags, MPLS labels or PPPoE header;
    /// `None` if these could not be read, or the link type is unknown.
    pub l3: Option<usize>,
    /// The protocol after the IP header and IPv6 extension headers; if an extension header could not be read,
    /// this extension header. In fragments other than the first, the field is set, too, although the header
    /// is not in the frame. `None` if the packet is not IP, or if its IP header (without options) is
    /// truncated or has a wrong version or IHL.
    pub protocol: Option<u8>,
    /// The offset of the header of `protocol`. `None` if the packet is not IP, in fragments other than the
    /// first, and if the IP headers could not be read to their end.
    pub l4: Option<usize>,
    /// The offset of the first byte after the TCP, UDP, ICMP or ICMPv6 header; `None` if `l4` is `None`, for
    /// other protocols, and if this header is truncated or malformed.
    pub payload: Option<usize>,
    /// The offset of the end of the IP packet, or of the part of it that is in the frame; bytes after it are
    /// link padding. The end of the frame if the packet is not IP, if its length could not be read, or if a
    /// length field of 0 leaves it open.
    pub end: usize,
    /// The number of bytes by which the IP packet, according to its length field, extends beyond the end of
    /// the frame.
    pub missing: usize,
    /// The position of the packet in its datagram, if it is a fragment. An IPv6 packet with a fragment
    /// header that holds the whole packet is not a fragment (RFC 6946).
    pub fragment: Option<Fragment>,
    /// The fault of the first header that is truncated or malformed, after which no headers were read;
    /// `None` if all headers could be read.
    pub fault: Option<Error>,
}

/// The network protocol of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Network {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP.
    Arp,
    /// Any other protocol, or the headers before it could not be read.
    #[default]
    Other,
}

/// The position of a fragment in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The identification, which all fragments of a datagram share.
    pub id: u32,
    /// The offset of the fragment's payload in the datagram, in bytes.
    pub offset: usize,
    /// True in all fragments of a datagram but the last.
    pub more: bool,
    /// The protocol of the first header of the fragmented part, as this fragment names it.
    pub protocol: u8,
}

impl Layers {
    /// Finds the headers of a frame that starts with a header of type `link`.
    #[inline]
    pub fn locate(frame: &[u8], link: LinkType) -> Layers {
        let mut layers = Layers {
            ether_type: None,
            vlan_tags: 0,
            outer_vlan: None,
            inner_vlan: None,
            mpls_labels: 0,
            network: Network::Other,
            l3: None,
            protocol: None,
            l4: None,
            payload: None,
            end: frame.len(),
            missing: 0,
            fragment: None,
            fault: None,
        };
        layers.fault = layers.walk(frame, link).err();
        layers
    }

    /// Returns the five-tuple of the packet; `None` if it is not IP, or if its IP header (without options) is
    /// truncated or has a wrong version or IHL. `frame` is the frame whose headers these are.
    ///
    /// Ports are 0 for protocols without ports, if they are truncated or after a fault in the IP headers, and
    /// in all fragments. Only the first fragment contains ports, but all fragments of a datagram must have
    /// the same five-tuple.
    #[inline]
    pub fn five_tuple(&self, frame: &[u8]) -> Option<FiveTuple> {
        let protocol = self.fragment.map(|fragment| fragment.protocol).or(self.protocol)?;
        let ports = match self.l4 {
            Some(l4) if self.fragment.is_none() && ip_protocol::has_ports(protocol) => frame
                .get(l4..self.end)
                .and_then(|bytes| <[U16; 2]>::read_from_prefix(bytes).ok())
                .map_or((0, 0), |([source, destination], _)| (source.get(), destination.get())),
            _ => (0, 0),
        };
        let l3 = frame.get(self.l3?..)?;
        match self.network {
            Network::Ipv4 => {
                let (ip, _) = ipv4::Header::ref_from_prefix(l3).ok()?;
                let (source, destination) = ((ip.source_addr(), ports.0), (ip.destination_addr(), ports.1));
                Some(FiveTuple::v4(source, destination, protocol))
            }
            Network::Ipv6 => {
                let (ip, _) = ipv6::Header::ref_from_prefix(l3).ok()?;
                let (source, destination) = ((ip.source_addr(), ports.0), (ip.destination_addr(), ports.1));
                Some(FiveTuple::v6(source, destination, protocol))
            }
            Network::Arp | Network::Other => None,
        }
    }

    #[inline]
    fn walk(&mut self, frame: &[u8], link: LinkType) -> Result<(), Error> {
        self.l3 = self.link(frame, link)?;
        match (self.l3, self.network) {
            (Some(l3), Network::Ipv4) => self.ipv4(frame, l3),
            (Some(l3), Network::Ipv6) => self.ipv6(frame, l3),
            _ => Ok(()),
        }
    }

    /// Finds the offset of the network header, and sets its protocol. Returns `None` if the link type is
    /// unknown.
    #[inline]
    fn link(&mut self, frame: &[u8], link: LinkType) -> Result<Option<usize>, Error> {
        // The length of the link header in bytes, and the offset of its EtherType in it.
        let (length, ether_type) = match link {
            LinkType::Ethernet => (ethernet::Header::LEN, 12),
            LinkType::LinuxCooked => (16, 14),
            LinkType::LinuxCookedV2 => (20, 0),
            LinkType::RawIp => return self.bare_ip(frame, 0).map(Some),
            // The address family in the first 4 bytes is ignored: its value for IPv6 differs between
            // systems. The IP version says which protocol follows.
            LinkType::Null | LinkType::Loop => return self.bare_ip(frame, 4).map(Some),
            LinkType::Other(number) => return self.captured(frame, number),
        };
        if frame.len() < length {
            return Err(Error::Truncated { layer: Layer::Link, need: length, have: frame.len() });
        }
        let ether_type = prefix::<U16>(frame, ether_type, Layer::Link)?.get();
        self.after_link(frame, length, ether_type)
    }

    /// Reads a header of a link type that occurs in captures only.
    #[inline(never)]
    fn captured(&mut self, frame: &[u8], number: u16) -> Result<Option<usize>, Error> {
        let Some(read) = capture_links::reader(number) else { return Ok(None) };
        match read(&capture_links::Bytes(frame))? {
            Some((length, ether_type)) => self.after_link(frame, length, ether_type),
            None => Ok(None),
        }
    }

    /// Reads what follows a link header of `length` bytes, whose EtherType is `ether_type`.
    #[inline]
    fn after_link(&mut self, frame: &[u8], length: usize, ether_type: u16) -> Result<Option<usize>, Error> {
        let (offset, ether_type) = if vlan::is_tag(ether_type) {
            self.tags(frame, length, ether_type)?
        } else {
            (length, ether_type)
        };
        self.ether_type = Some(ether_type);
        self.network = match ether_type {
            ether_type::IPV4 => Network::Ipv4,
            ether_type::IPV6 => Network::Ipv6,
            ether_type::ARP => Network::Arp,
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => return self.mpls(frame, offset).map(Some),
            ether_type::PPPOE_SESSION => return self.pppoe(frame, offset).map(Some),
            _ => Network::Other,
        };
        Ok(Some(offset))
    }

    /// Reads VLAN tags from `offset` on. `ether_type` is the EtherType before them. Returns the offset
    /// after the last tag, and the EtherType in it.
    // Not inlined, like the functions for MPLS, PPPoE and frames without EtherType: most frames need none of
    // them, and the code of each inlined `locate` becomes smaller.
    #[inline(never)]
    fn tags(&mut self, frame: &[u8], mut offset: usize, mut ether_type: u16) -> Result<(usize, u16), Error> {
        while vlan::is_tag(ether_type) {
            if usize::from(self.vlan_tags) == MAX_VLAN_TAGS {
                return Err(Error::TooMany { layer: Layer::Vlan, limit: MAX_VLAN_TAGS });
            }
            let tag = prefix::<vlan::Tag>(frame, offset, Layer::Vlan)?;
            match self.outer_vlan {
                None => self.outer_vlan = Some(tag.control.get()),
                Some(_) => self.inner_vlan = Some(tag.control.get()),
            }
            self.vlan_tags += 1;
            ether_type = tag.ether_type.get();
            offset += vlan::Tag::LEN;
        }
        Ok((offset, ether_type))
    }

    /// Reads MPLS labels of 4 bytes from `offset` on, and returns the offset after the last one. The last
    /// label has the lowest bit of its third byte set (RFC 3032).
    #[inline(never)]
    fn mpls(&mut self, frame: &[u8], mut offset: usize) -> Result<usize, Error> {
        loop {
            if usize::from(self.mpls_labels) == MAX_MPLS_LABELS {
                return Err(Error::TooMany { layer: Layer::Mpls, limit: MAX_MPLS_LABELS });
            }
            let label = prefix::<U32>(frame, offset, Layer::Mpls)?.get();
            self.mpls_labels += 1;
            offset += 4;
            if label & 0x100 != 0 {
                break;
            }
        }
        // No field says what follows the labels. The first 4 bits are the IP version, or 0 for a pseudowire
        // with a control word (RFC 4385).
        self.network = network_by_version(frame, offset);
        Ok(offset)
    }

    /// Reads the PPPoE header of 6 bytes and the PPP protocol field (RFC 2516), which has two bytes in
    /// PPPoE, and returns the offset after them.
    #[inline(never)]
    fn pppoe(&mut self, frame: &[u8], offset: usize) -> Result<usize, Error> {
        let [_, _, _, protocol] = prefix::<[U16; 4]>(frame, offset, Layer::Pppoe)?;
        self.network = match protocol.get() {
            0x0021 => Network::Ipv4,
            0x0057 => Network::Ipv6,
            _ => Network::Other,
        };
        Ok(offset + 8)
    }

    /// Finds the network protocol of a packet without an EtherType, by the IP version at `offset`.
    #[inline(never)]
    fn bare_ip(&mut self, frame: &[u8], offset: usize) -> Result<usize, Error> {
        if frame.len() <= offset {
            return Err(Error::Truncated { layer: Layer::Link, need: offset + 1, have: frame.len() });
        }
        self.network = network_by_version(frame, offset);
        self.ether_type = match self.network {
            Network::Ipv4 => Some(ether_type::IPV4),
            Network::Ipv6 => Some(ether_type::IPV6),
            Network::Arp | Network::Other => None,
        };
        Ok(offset)
    }

    #[inline]
    fn ipv4(&mut self, frame: &[u8], l3: usize) -> Result<(), Error> {
        let header = prefix::<ipv4::Header>(frame, l3, Layer::Ipv4)?;
        if header.version() != 4 {
            return Err(Error::Format { layer: Layer::Ipv4, found: header.version().into() });
        }
        let header_len = header.header_len();
        if header_len < ipv4::Header::LEN {
            return Err(Error::Length { layer: Layer::Ipv4, found: header_len });
        }
        self.protocol = Some(header.protocol);
        if header.is_fragment() {
            self.fragment = Some(Fragment {
                id: header.id.get().into(),
                offset: header.fragment_offset(),
                more: header.more_fragments(),
                protocol: header.protocol,
            });
        }
        match usize::from(header.total_length.get()) {
            // A total length of 0: the packet was captured before a network card cut it into segments, so
            // that its length did not fit into the field. It ends at the end of the frame.
            0 => {}
            total if total < header_len => return Err(Error::Length { layer: Layer::Ipv4, found: total }),
            total => self.set_end(frame, l3 + total),
        }
        let l4 = l3 + header_len;
        if l4 > self.end {
            return Err(Error::Truncated { layer: Layer::Ipv4, need: header_len, have: frame.len() - l3 });
        }
        if header.fragment_offset() == 0 {
            self.transport(frame, l4, header.protocol)?;
        }
        Ok(())
    }

    #[inline]
    fn ipv6(&mut self, frame: &[u8], l3: usize) -> Result<(), Error> {
        let header = prefix::<ipv6::Header>(frame, l3, Layer::Ipv6)?;
        if header.version() != 6 {
            return Err(Error::Format { layer: Layer::Ipv6, found: header.version().into() });
        }
        let start = l3 + ipv6::Header::LEN;
        let rest = frame.get(start..).unwrap_or_default();
        match (header.payload_length.get(), header.next_header) {
            // A length of 0: a jumbogram, whose length is in an option. Linux also sends packets of more
            // than 64 KiB to network cards without this option; they end at the end of the frame.
            (0, next) if needs_payload(next) => {
                if let Some(length) = ipv6::jumbo_length(next, rest) {
                    self.set_end(frame, start.saturating_add(length));
                }
            }
            (length, _) => self.set_end(frame, start + usize::from(length)),
        }
        let upper = ipv6::upper_layer(header.next_header, frame.get(start..self.end).unwrap_or_default());
        self.protocol = Some(upper.protocol);
        self.fragment = upper.fragment.map(|fragment| Fragment {
            id: fragment.id.get(),
            offset: fragment.offset(),
            more: fragment.more_fragments(),
            protocol: fragment.next_header,
        });
        if let Some(fault) = upper.fault {
            return Err(fault);
        }
        if self.fragment.is_none_or(|fragment| fragment.offset == 0) {
            self.transport(frame, start + upper.offset, upper.protocol)?;
        }
        Ok(())
    }

    #[inline]
    fn set_end(&mut self, frame: &[u8], end: usize) {
        self.end = end.min(frame.len());
        self.missing = end - self.end;
    }

    /// Sets the offset of the transport header to `l4`, and the offset of the payload if the header is known
    /// and whole. `l4` is at most `self.end`.
    #[inline]
    fn transport(&mut self, frame: &[u8], l4: usize, protocol: u8) -> Result<(), Error> {
        self.l4 = Some(l4);
        let bytes = frame.get(l4..self.end).unwrap_or_default();
        let (layer, length) = match protocol {
            ip_protocol::TCP => {
                let header_len = prefix::<tcp::Header>(bytes, 0, Layer::Tcp)?.header_len();
                if header_len < tcp::Header::LEN {
                    return Err(Error::Length { layer: Layer::Tcp, found: header_len });
                }
                (Layer::Tcp, header_len)
            }
            ip_protocol::UDP => (Layer::Udp, udp::Header::LEN),
            ip_protocol::ICMP => (Layer::Icmp, icmp::Header::LEN),
            ip_protocol::ICMPV6 => (Layer::Icmpv6, icmpv6::Header::LEN),
            _ => return Ok(()),
        };
        if bytes.len() < length {
            return Err(Error::Truncated { layer, need: length, have: bytes.len() });
        }
        self.payload = Some(l4 + length);
        Ok(())
    }
}

/// Returns IPv4 or IPv6 by the version in the first 4 bits at `offset`; [`Network::Other`] for other
/// values.
#[inline]
fn network_by_version(frame: &[u8], offset: usize) -> Network {
    match frame.get(offset).map(|first| first >> 4) {
        Some(4) => Network::Ipv4,
        Some(6) => Network::Ipv6,
        _ => Network::Other,
    }
}

/// True if an IPv6 packet with this next header needs at least one byte of payload. A payload length of zero
/// must then mean something else.
#[inline]
fn needs_payload(next_header: u8) -> bool {
    matches!(next_header, ip_protocol::TCP | ip_protocol::UDP) || ipv6::Extension::is(next_header)
}

/// Returns a reference to the header at `offset`. Fails with `Truncated` if the bytes end before the header
/// does.
#[inline]
fn prefix<H: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned>(
    bytes: &[u8],
    offset: usize,
    layer: Layer,
) -> Result<&H, Error> {
    match bytes.get(offset..).map(H::ref_from_prefix) {
        Some(Ok((header, _))) => Ok(header),
        _ => Err(Error::Truncated { layer, need: size_of::<H>(), have: bytes.len().saturating_sub(offset) }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::MacAddr;
    use crate::build::Builder;

    const LINKS: [LinkType; 7] = [
        LinkType::Null,
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::Loop,
        LinkType::LinuxCooked,
        LinkType::LinuxCookedV2,
        LinkType::Other(147),
    ];

    fn udp(source: &str, destination: &str) -> Builder {
        Builder::udp(source.parse().unwrap(), destination.parse().unwrap())
    }

    fn ethernet(builder: Builder) -> Builder {
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
    }

    fn locate(frame: &[u8]) -> Layers {
        Layers::locate(frame, LinkType::Ethernet)
    }

    fn any_address() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
        prop_oneof![
            any::<([u8; 4], u16, [u8; 4], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
            any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
        ]
    }

    fn any_builder() -> impl Strategy<Value = Builder> {
        (any_address(), 0..4, any::<u8>(), 0usize..=10, 0u16..0x2000).prop_map(
            |((source, destination), which, byte, words, fragment)| {
                let builder = match which {
                    0 => Builder::udp(source, destination),
                    1 => Builder::tcp(source, destination, byte).options(&vec![1; words * 4]),
                    2 => Builder::icmp(source.ip(), destination.ip(), 8, 0, [1, 2]),
                    _ => Builder::ip(source.ip(), destination.ip(), ip_protocol::SCTP),
                };
                // About an eighth of the IPv4 packets are fragments, none of them the first of its datagram.
                builder.fragment(if byte < 32 { fragment } else { 0 })
            },
        )
    }

    /// Compares the result of [`Layers::locate`] with the result of etherparse, as far as both parse the
    /// frame.
    fn assert_agrees(frame: &[u8]) -> Result<(), TestCaseError> {
        let own = locate(frame);
        let Ok(oracle) = LaxSlicedPacket::from_ethernet(frame) else {
            prop_assert!(own.fault.is_some());
            return Ok(());
        };
        let tags: Vec<u16> = oracle.vlan_ids().iter().map(|id| id.value()).collect();
        // etherparse reads at most three VLAN tags.
        prop_assert_eq!(own.vlan_tags.min(3) as usize, tags.len());
        prop_assert_eq!(own.outer_vlan.map(|control| control & 0xfff), tags.first().copied());
        if own.vlan_tags > 3 {
            return Ok(());
        }
        let tuple = own.five_tuple(frame);
        match &oracle.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let tuple = tuple.unwrap();
                prop_assert_eq!(tuple.source(), ip.header().source_addr());
                prop_assert_eq!(tuple.destination(), ip.header().destination_addr());
                prop_assert_eq!(own.fragment.is_some(), ip.header().is_fragmenting_payload());
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                prop_assert_eq!(own.network, Network::Ipv6);
                if let Some(tuple) = tuple {
                    prop_assert_eq!(tuple.source(), ip.header().source_addr());
                }
            }
            Some(LaxNetSlice::Arp(_)) => prop_assert_eq!(own.network, Network::Arp),
            None => {
                prop_assert!(!matches!(own.network, Network::Ipv4 | Network::Ipv6) || own.fault.is_some())
            }
        }
        let place = |part: &[u8]| part.as_ptr().addr() - frame.as_ptr().addr();
        match &oracle.transport {
            Some(TransportSlice::Udp(udp)) => {
                prop_assert_eq!((own.protocol, own.l4), (Some(ip_protocol::UDP), Some(place(udp.slice()))));
                let tuple = tuple.unwrap();
                prop_assert_eq!(
                    (tuple.source_port(), tuple.destination_port()),
                    (udp.source_port(), udp.destination_port())
                );
                prop_assert_eq!(own.payload, Some(place(udp.payload())));
            }
            Some(TransportSlice::Tcp(tcp)) => {
                prop_assert_eq!((own.protocol, own.l4), (Some(ip_protocol::TCP), Some(place(tcp.slice()))));
                prop_assert_eq!(own.payload, Some(place(tcp.payload())));
            }
            Some(TransportSlice::Icmpv4(icmp)) => prop_assert_eq!(own.l4, Some(place(icmp.slice()))),
            Some(TransportSlice::Icmpv6(icmp)) => prop_assert_eq!(own.l4, Some(place(icmp.slice()))),
            Some(TransportSlice::Igmp(_)) | None => {}
        }
        Ok(())
    }

    fn assert_within(frame: &[u8], layers: &Layers) {
        assert!(layers.end <= frame.len());
        for offset in [layers.l3, layers.l4, layers.payload].into_iter().flatten() {
            assert!(offset <= frame.len(), "{layers:?}");
        }
        assert!(layers.l4.is_none_or(|l4| layers.l3.is_some_and(|l3| l3 < l4) && l4 <= layers.end));
        assert!(
            layers
                .payload
                .is_none_or(|payload| layers.l4.is_some_and(|l4| l4 < payload) && payload <= layers.end)
        );
        let _ = layers.five_tuple(frame);
    }

    proptest! {
        #[test]
        fn built_frames_agree_with_etherparse(
            builder in any_builder(), tags in vec(any::<u16>(), 0..4), payload in vec(any::<u8>(), 0..80),
            pad in 0usize..8, cut in 0usize..200,
        ) {
            let builder = tags.iter().fold(ethernet(builder), |builder, &tag| builder.vlan(tag));
            let mut frame = builder.build(&payload).unwrap();
            let whole = frame.len();
            frame.resize(whole + pad, 0);
            let layers = locate(&frame);
            prop_assert_eq!((layers.fault, layers.missing, layers.end), (None, 0, whole));
            prop_assert_eq!(layers.l3, Some(14 + 4 * tags.len()));
            prop_assert_eq!(layers.inner_vlan, if tags.len() > 1 { tags.last().copied() } else { None });
            assert_agrees(&frame)?;

            frame.truncate(cut);
            let layers = locate(&frame);
            assert_within(&frame, &layers);
            assert_agrees(&frame)?;
            if layers.network != Network::Other && layers.protocol.is_some() {
                prop_assert_eq!(layers.end + layers.missing, whole, "the IP length survives the cut");
            }
        }

        #[test]
        fn damaged_frames_stay_within_bounds(
            builder in any_builder(), tags in vec(any::<u16>(), 0..3), damage in vec((0usize..80, any::<u8>()), 1..5),
        ) {
            let builder = tags.iter().fold(ethernet(builder), |builder, &tag| builder.vlan(tag));
            let mut frame = builder.build(&[0; 30]).unwrap();
            for (place, value) in damage {
                let place = place % frame.len();
                frame[place] = value;
            }
            for link in LINKS {
                assert_within(&frame, &Layers::locate(&frame, link));
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..120)) {
            for link in LINKS {
                assert_within(&bytes, &Layers::locate(&bytes, link));
            }
        }
    }

    #[test]
    fn link_headers_lead_to_the_same_packet() {
        let packet = udp("10.0.0.1:1000", "10.0.0.2:2000").build(b"x").unwrap();
        let packet6 = udp("[::1]:1000", "[::2]:2000").build(b"x").unwrap();
        let cooked = |ether_type: u16| [&[0; 14][..], &ether_type.to_be_bytes()].concat();
        let cooked_v2 = |ether_type: u16| [&ether_type.to_be_bytes()[..], &[0; 18]].concat();
        for (link, header, header6) in [
            (LinkType::RawIp, vec![], vec![]),
            (LinkType::Null, vec![2, 0, 0, 0], vec![0, 0, 0, 30]),
            (LinkType::Loop, vec![0, 0, 0, 2], vec![0, 0, 0, 24]),
            (LinkType::LinuxCooked, cooked(0x0800), cooked(0x86dd)),
            (LinkType::LinuxCookedV2, cooked_v2(0x0800), cooked_v2(0x86dd)),
        ] {
            for (header, packet, tuple) in [
                (header, &packet, "10.0.0.1:1000 -> 10.0.0.2:2000 udp"),
                (header6, &packet6, "[::1]:1000 -> [::2]:2000 udp"),
            ] {
                let frame = [&header[..], packet].concat();
                let layers = Layers::locate(&frame, link);
                assert_eq!((layers.l3, layers.fault), (Some(header.len()), None), "{link}");
                assert_eq!(layers.five_tuple(&frame).unwrap().to_string(), tuple, "{link}");
                let short = header.len().saturating_sub(1);
                assert_eq!(Layers::locate(&frame[..short], link).fault.map(|f| f.layer()), Some(Layer::Link));
            }
        }
        assert_eq!(Layers::locate(&packet, LinkType::Other(147)).l3, None);
    }

    #[test]
    fn mpls_is_reported_and_looked_under() {
        let mut frame = ethernet(udp("10.0.0.1:1000", "10.0.0.2:2000")).build(b"x").unwrap();
        frame[12..14].copy_from_slice(&[0x88, 0x47]);
        frame.splice(14..14, [0, 1, 0, 64, 0, 2, 1, 64]);
        let layers = locate(&frame);
        assert_eq!((layers.ether_type, layers.mpls_labels, layers.l3), (Some(0x8847), 2, Some(22)));
        assert_eq!((layers.network, layers.l4, layers.fault), (Network::Ipv4, Some(42), None));
        // Four zero bits after the labels are a control word of a pseudowire, so that no IP is found.
        frame[22] = 0;
        let layers = locate(&frame);
        assert_eq!((layers.network, layers.l3, layers.l4), (Network::Other, Some(22), None));
        // No label has the bottom-of-stack bit set.
        frame[14..].fill(0);
        frame.resize(200, 0);
        assert_eq!(locate(&frame).fault, Some(Error::TooMany { layer: Layer::Mpls, limit: MAX_MPLS_LABELS }));
    }

    #[test]
    fn pppoe_sessions_are_looked_into() {
        for (ether_type, protocol, addresses) in
            [(0x0800, 0x21, ("10.0.0.1:1", "10.0.0.2:2")), (0x86dd, 0x57, ("[::1]:1", "[::2]:2"))]
        {
            let mut frame = ethernet(udp(addresses.0, addresses.1)).build(b"x").unwrap();
            assert_eq!(locate(&frame).ether_type, Some(ether_type));
            frame[12..14].copy_from_slice(&[0x88, 0x64]);
            frame.splice(14..14, [0x11, 0, 0, 1, 0, 0, 0, protocol]);
            let layers = locate(&frame);
            assert_eq!((layers.ether_type, layers.l3, layers.fault), (Some(0x8864), Some(22), None));
            assert_eq!(layers.five_tuple(&frame).unwrap().source_port(), 1);
            assert_eq!(locate(&frame[..21]).fault.map(|f| f.layer()), Some(Layer::Pppoe));
            frame[20] = 0xc0;
            let layers = locate(&frame);
            assert_eq!((layers.network, layers.l3, layers.l4), (Network::Other, Some(22), None));
        }
    }

    #[test]
    fn tags_are_bounded() {
        let tagged = |tags: usize| {
            let builder =
                (0..tags).fold(ethernet(udp("10.0.0.1:1", "10.0.0.2:2")), |b, tag| b.vlan(tag as u16));
            locate(&builder.build(b"").unwrap())
        };
        let layers = tagged(MAX_VLAN_TAGS);
        assert_eq!((layers.network, layers.outer_vlan, layers.inner_vlan), (Network::Ipv4, Some(0), Some(7)));
        let layers = tagged(MAX_VLAN_TAGS + 1);
        assert_eq!((layers.l3, layers.fault.map(|f| f.layer())), (None, Some(Layer::Vlan)));
    }

    #[test]
    fn later_fragments_have_no_transport_header() {
        let first =
            ethernet(udp("10.0.0.1:1000", "10.0.0.2:2000")).id(9).fragment(0x2000).build(&[0; 8]).unwrap();
        let layers = locate(&first);
        assert_eq!(layers.fragment, Some(Fragment { id: 9, offset: 0, more: true, protocol: 17 }));
        assert_eq!(layers.l4, Some(34));
        assert_eq!(layers.five_tuple(&first).unwrap().to_string(), "10.0.0.1:0 -> 10.0.0.2:0 udp");
        let later = ethernet(udp("10.0.0.1:1000", "10.0.0.2:2000")).id(9).fragment(2).build(&[0; 8]).unwrap();
        let layers = locate(&later);
        assert_eq!(layers.fragment, Some(Fragment { id: 9, offset: 16, more: false, protocol: 17 }));
        assert_eq!((layers.l4, layers.protocol, layers.fault), (None, Some(17), None));
        assert_eq!(layers.five_tuple(&later).unwrap().to_string(), "10.0.0.1:0 -> 10.0.0.2:0 udp");
    }

    #[test]
    fn an_atomic_fragment_is_a_whole_packet() {
        let with = |word: u16| {
            let mut frame = ethernet(udp("[2001:db8::1]:1", "[2001:db8::2]:2")).build(&[0; 16]).unwrap();
            frame.splice(54..54, [17, 0, (word >> 8) as u8, word as u8, 0, 0, 0, 7]);
            frame[19] += 8;
            frame[20] = ip_protocol::FRAGMENT;
            let layers = locate(&frame);
            (layers.l4, layers.fragment.map(|fragment| fragment.offset), layers.five_tuple(&frame).unwrap())
        };
        let tuple = "[2001:db8::1]:1 -> [2001:db8::2]:2 udp";
        let (l4, fragment, found) = with(0);
        assert_eq!((l4, fragment, found.to_string().as_str()), (Some(62), None, tuple));
        let (l4, fragment, _) = with(1);
        assert_eq!((l4, fragment), (Some(62), Some(0)));
        let (l4, fragment, _) = with(16);
        assert_eq!((l4, fragment), (None, Some(16)));
    }

    #[test]
    fn super_segments_without_a_length_reach_to_the_end() {
        let mut frame = ethernet(udp("10.0.0.1:1", "10.0.0.2:2")).build(&[0; 100]).unwrap();
        frame[16..18].fill(0);
        let layers = locate(&frame);
        assert_eq!((layers.end, layers.l4, layers.fault), (frame.len(), Some(34), None));
        let mut frame = ethernet(udp("[::1]:1", "[::2]:2")).build(&[0; 100]).unwrap();
        frame[18..20].fill(0);
        let layers = locate(&frame);
        assert_eq!((layers.end, layers.l4, layers.fault), (frame.len(), Some(54), None));
        // For a protocol whose header may be missing, a payload length of zero is taken literally, and the
        // remaining bytes are padding.
        for next in [ip_protocol::NO_NEXT, ip_protocol::SCTP, 253] {
            frame[20] = next;
            assert_eq!(locate(&frame).end, 54);
        }
    }

    #[test]
    fn lengths_that_cannot_be_stop_the_walk() {
        let frame = ethernet(udp("10.0.0.1:1", "10.0.0.2:2")).build(&[0; 20]).unwrap();
        let with = |place: usize, value: u8| {
            let mut frame = frame.clone();
            frame[place] = value;
            locate(&frame)
        };
        assert_eq!(with(14, 0x44).fault, Some(Error::Length { layer: Layer::Ipv4, found: 16 }));
        assert_eq!(with(14, 0x65).fault, Some(Error::Format { layer: Layer::Ipv4, found: 6 }));
        assert_eq!(with(17, 19).fault, Some(Error::Length { layer: Layer::Ipv4, found: 19 }));
        // The total length ends inside the UDP header.
        assert_eq!(with(17, 24).fault, Some(Error::Truncated { layer: Layer::Udp, need: 8, have: 4 }));
        assert_eq!(with(17, 200).missing, 152);
    }
}
