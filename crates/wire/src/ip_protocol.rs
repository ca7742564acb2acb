//! IP protocol numbers (IANA): values of the IPv4 protocol field and the IPv6 next header field.

/// Protocol number of the IPv6 hop-by-hop options header.
pub const HOP_BY_HOP: u8 = 0;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of IGMP.
pub const IGMP: u8 = 2;
/// Protocol number of an IPv4 packet inside of an IP packet (tunnel).
pub const IPV4: u8 = 4;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of DCCP.
pub const DCCP: u8 = 33;
/// Protocol number of an IPv6 packet inside of an IP packet (tunnel).
pub const IPV6: u8 = 41;
/// Protocol number of the IPv6 routing header.
pub const ROUTING: u8 = 43;
/// Protocol number of the IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// Protocol number of GRE.
pub const GRE: u8 = 47;
/// Protocol number of IPsec ESP.
pub const ESP: u8 = 50;
/// Protocol number of the IPsec authentication header.
pub const AH: u8 = 51;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Next header value of an IPv6 header after which nothing follows.
pub const NO_NEXT: u8 = 59;
/// Protocol number of the IPv6 destination options header.
pub const DESTINATION: u8 = 60;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;
/// Protocol number of the IPv6 mobility header.
pub const MOBILITY: u8 = 135;
/// Protocol number of UDP-Lite.
pub const UDP_LITE: u8 = 136;

/// True if the protocol's header starts with source and destination port, 16 bits each: TCP, UDP, DCCP,
/// SCTP and UDP-Lite.
#[inline]
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Returns the usual lower-case name of a protocol; `None` for protocols without a constant in this module.
pub fn name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        HOP_BY_HOP => "hopopt",
        ICMP => "icmp",
        IGMP => "igmp",
        IPV4 => "ipip",
        TCP => "tcp",
        UDP => "udp",
        DCCP => "dccp",
        IPV6 => "ipv6",
        ROUTING => "ipv6-route",
        FRAGMENT => "ipv6-frag",
        GRE => "gre",
        ESP => "esp",
        AH => "ah",
        ICMPV6 => "icmp6",
        NO_NEXT => "ipv6-nonxt",
        DESTINATION => "ipv6-opts",
        SCTP => "sctp",
        MOBILITY => "mobility",
        UDP_LITE => "udplite",
        _ => return None,
    })
}
