//! Neighbour solicitations and advertisements of IPv6 (RFC 4861, sections 4.3 and 4.4) on Ethernet (RFC
//! 2464): parsing with all checks, and building.

use std::net::Ipv6Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, PseudoHeader};
use crate::icmpv6::kind;
use crate::{MacAddr, U16, U32, ip_protocol, ipv6};

/// Bits of [`Header::flags`] in advertisements.
pub mod flag {
    /// Flag of an advertisement: the sender is a router.
    pub const ROUTER: u32 = 1 << 31;
    /// Flag of an advertisement: the message answers a solicitation.
    pub const SOLICITED: u32 = 1 << 30;
    /// Flag of an advertisement: the receiver shall replace a link-layer address that it already knows.
    pub const OVERRIDE: u32 = 1 << 29;
}

/// The types of options that contain a link-layer address.
pub mod option {
    /// Type of the option with the link-layer address of the sender, in solicitations.
    pub const SOURCE: u8 = 1;
    /// Type of the option with the link-layer address of the target, in advertisements.
    pub const TARGET: u8 = 2;
}

/// The fixed 24 bytes of a solicitation or advertisement, before its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The message type, see [`kind`]: solicitation or advertisement.
    pub kind: u8,
    /// The code, zero in both messages.
    pub code: u8,
    /// Checksum over the pseudo-header, this header and the options.
    pub checksum: U16,
    /// Flags, see [`flag`]; zero in solicitations.
    pub flags: U32,
    /// The IPv6 address whose link-layer address is requested or announced.
    pub target: [u8; 16],
}

impl Header {
    /// The length of these fields in bytes.
    pub const LEN: usize = size_of::<Header>();
}

/// The length in bytes of a packet from [`build`]: IPv6 header, fixed part of the message, and one option
/// with an Ethernet address.
pub const LEN: usize = ipv6::Header::LEN + Header::LEN + 8;

/// A message that has passed every check of RFC 4861, sections 7.1.1 and 7.1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The IPv6 header of the packet.
    pub ip: &'a ipv6::Header,
    /// The fixed part of the message.
    pub header: &'a Header,
    options: &'a [u8],
}

/// Returns the solicitation or advertisement in the IPv6 packet `bytes`; `None` if it is neither, or fails
/// a check of RFC 4861. A packet with extension headers gives `None`, too.
pub fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let packet = ipv6::parse(bytes).ok()?;
    let ip = packet.header;
    let (header, options) = Header::ref_from_prefix(packet.payload).ok()?;
    let is_fresh = ip.next_header == ip_protocol::ICMPV6 && ip.hop_limit == 255 && header.code == 0;
    let message = Message { ip, header, options };
    let is_sound = message.options().all(|option| option.is_some()) && !message.target().is_multicast();
    let suits = match header.kind {
        // A sender without an address must send to the solicited-node group of the target, and must not
        // include its link-layer address.
        kind::NEIGHBOR_SOLICITATION if ip.source_addr().is_unspecified() => {
            let group = solicited_node(message.target()).to_bits() >> 24;
            ip.destination_addr().to_bits() >> 24 == group && message.option(option::SOURCE).is_none()
        }
        kind::NEIGHBOR_SOLICITATION => true,
        kind::NEIGHBOR_ADVERTISEMENT => {
            !ip.destination_addr().is_multicast() || header.flags.get() & flag::SOLICITED == 0
        }
        _ => false,
    };
    let is_valid = is_fresh && is_sound && suits && checksum::icmpv6_valid(&ip.into(), packet.payload);
    is_valid.then_some(message)
}

impl<'a> Message<'a> {
    /// Returns the IPv6 address whose link-layer address is requested or announced.
    pub fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.header.target)
    }

    /// Returns the link-layer address in the first option of this type (see [`option`]). `None` if there is
    /// no such option, or if it does not hold six bytes that are the address of a single host on Ethernet.
    pub fn link_address(&self, kind: u8) -> Option<MacAddr> {
        let address = *self.option(kind)?.get(2..)?.as_array()?;
        Some(MacAddr(address)).filter(MacAddr::is_host)
    }

    /// Returns the bytes of the first option of this type, with its type and length.
    fn option(&self, kind: u8) -> Option<&'a [u8]> {
        self.options().flatten().find(|option| option.first() == Some(&kind))
    }

    /// Returns an iterator over the bytes of each option. If an option has length zero or extends beyond
    /// the message, the iterator yields a last `None`.
    fn options(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = rest.get(1).map_or(0, |&units| usize::from(units) * 8);
            let option = rest.split_at_checked(length).filter(|_| length > 0);
            rest = option.map_or(&[], |(_, behind)| behind);
            Some(option.map(|(option, _)| option))
        })
    }
}

/// Builds an IPv6 packet with a message of type `kind` about `target`, with correct checksum. It has one
/// option, given as its type and the Ethernet address in it.
pub fn build(
    kind: u8,
    flags: u32,
    [source, destination, target]: [Ipv6Addr; 3],
    (option, address): (u8, MacAddr),
) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let ip = ipv6::Header {
        version_class_flow: U32::new(6 << 28),
        payload_length: U16::new((LEN - ipv6::Header::LEN) as u16),
        next_header: ip_protocol::ICMPV6,
        hop_limit: 255,
        source: source.octets(),
        destination: destination.octets(),
    };
    let header =
        Header { kind, code: 0, checksum: U16::new(0), flags: U32::new(flags), target: target.octets() };
    let (front, message) = bytes.split_at_mut(ipv6::Header::LEN);
    front.copy_from_slice(ip.as_bytes());
    message[..Header::LEN].copy_from_slice(header.as_bytes());
    message[Header::LEN..Header::LEN + 2].copy_from_slice(&[option, 1]);
    message[Header::LEN + 2..].copy_from_slice(&address.0);
    // `fill_icmpv6` fails only for messages of less than 8 bytes.
    let _ = checksum::fill_icmpv6(&PseudoHeader::V6 { source, destination }, message);
    bytes
}

/// Returns the solicited-node multicast address of an IPv6 address: the group to which solicitations for it
/// are sent (RFC 4291, section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | address.to_bits() & 0xff_ffff)
}

/// Returns the Ethernet address to which packets for an IPv6 multicast address are sent (RFC 2464, section
/// 7).
pub fn multicast_mac(address: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = address.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x11, 0x2233);
    const PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn solicitation(source: Ipv6Addr, option: u8) -> Vec<u8> {
        build(kind::NEIGHBOR_SOLICITATION, 0, [source, solicited_node(HOST), HOST], (option, MAC)).to_vec()
    }

    fn advertisement(destination: Ipv6Addr, flags: u32) -> Vec<u8> {
        let addresses = [HOST, destination, HOST];
        build(kind::NEIGHBOR_ADVERTISEMENT, flags, addresses, (option::TARGET, MAC)).to_vec()
    }

    /// True if `parse` accepts a message after a change and the correction of its checksum.
    fn holds(mut packet: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        change(&mut packet);
        let pseudo = PseudoHeader::from(ipv6::Header::ref_from_prefix(&packet).unwrap().0);
        checksum::fill_icmpv6(&pseudo, &mut packet[40..]).unwrap();
        parse(&packet).is_some()
    }

    #[test]
    fn messages_are_as_the_rfcs_draw_them() {
        let packet = solicitation(PEER, option::SOURCE);
        let mut expected = vec![0x60, 0, 0, 0, 0, 32, 58, 255];
        expected.extend(PEER.octets());
        expected.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x11, 0x22, 0x33]);
        expected.extend([135, 0, packet[42], packet[43], 0, 0, 0, 0]);
        expected.extend(HOST.octets());
        expected.extend([1, 1, 2, 0, 0, 0, 0, 9]);
        assert_eq!(packet, expected);
        let oracle = etherparse::PacketHeaders::from_ip_slice(&packet).unwrap();
        let (Some(etherparse::NetHeaders::Ipv6(ip, _)), Some(etherparse::TransportHeader::Icmpv6(icmp))) =
            (oracle.net, oracle.transport)
        else {
            panic!("not ICMPv6")
        };
        let right = icmp.icmp_type.calc_checksum(ip.source, ip.destination, oracle.payload.slice());
        assert_eq!(icmp.checksum, right.unwrap());
        let found = parse(&packet).unwrap();
        assert_eq!((found.target(), found.link_address(option::SOURCE)), (HOST, Some(MAC)));
        assert_eq!(found.link_address(option::TARGET), None);
        let group = multicast_mac(solicited_node(HOST));
        assert_eq!(group, MacAddr([0x33, 0x33, 0xff, 0x11, 0x22, 0x33]));
    }

    #[test]
    fn rfc4861_7_1_1_invalid_solicitations_are_none() {
        let whole = || solicitation(PEER, option::SOURCE);
        assert!(holds(whole(), |_| {}));
        assert!(!holds(whole(), |p| p[7] = 254), "hop limit");
        assert!(!holds(whole(), |p| p[41] = 1), "code");
        assert!(!holds(whole(), |p| p[48] = 0xff), "multicast target");
        assert!(!holds(whole(), |p| p[65] = 0), "an option without length");
        assert!(!holds(whole(), |p| p[65] = 2), "an option that reaches too far");
        assert!(!holds(whole(), |p| p[5] = 20), "too short");
        assert!(!holds(whole(), |p| p[40] = 133), "another message");
        assert!(!holds(whole(), |p| p[6] = 59), "no ICMP");
        let mut damaged = whole();
        damaged[50] ^= 1;
        assert!(parse(&damaged).is_none(), "checksum");
        // A solicitation from the unspecified address is valid if it is sent to the group of the target and
        // has no link-layer address of its sender.
        let from_nobody = || solicitation(Ipv6Addr::UNSPECIFIED, 14);
        assert!(holds(from_nobody(), |_| {}));
        assert!(!holds(from_nobody(), |p| p[24..40].copy_from_slice(&HOST.octets())));
        assert!(!holds(from_nobody(), |p| p[64] = option::SOURCE));
    }

    #[test]
    fn rfc4861_7_1_2_invalid_advertisements_are_none() {
        let all_nodes: Ipv6Addr = "ff02::1".parse().unwrap();
        assert!(holds(advertisement(PEER, flag::SOLICITED), |_| {}));
        assert!(holds(advertisement(all_nodes, flag::OVERRIDE), |_| {}));
        assert!(!holds(advertisement(all_nodes, flag::SOLICITED), |_| {}), "to many, as an answer");
        assert!(!holds(advertisement(PEER, 0), |p| p[7] = 64), "hop limit");
        assert!(!holds(advertisement(PEER, 0), |p| p[65] = 0), "an option without length");
        assert!(!holds(advertisement(PEER, 0), |p| p[48..50].fill(0xff)), "multicast target");
    }

    #[test]
    fn addresses_of_groups_are_nobodys() {
        let packet = advertisement(PEER, 0);
        let mut shared = packet.clone();
        shared[66] = 3;
        checksum::fill_icmpv6(&PseudoHeader::V6 { source: HOST, destination: PEER }, &mut shared[40..])
            .unwrap();
        assert!(parse(&packet).unwrap().link_address(option::TARGET).is_some());
        assert_eq!(parse(&shared).unwrap().link_address(option::TARGET), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(change in vec((0usize..90, any::<u8>()), 0..6), cut in 0usize..90) {
            let mut packet = solicitation(PEER, option::SOURCE);
            packet.extend([0; 18]);
            change.iter().for_each(|&(at, byte)| packet[at] = byte);
            packet.truncate(cut);
            if let Some(message) = parse(&packet) {
                let _ = (message.link_address(option::SOURCE), message.link_address(option::TARGET));
            }
        }
    }
}
