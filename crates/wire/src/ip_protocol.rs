//! IP protocol numbers (IANA): values of the IPv4 protocol field and the IPv6 next header field.

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP.
pub const ICMP: u8 = 1;
/// IGMP.
pub const IGMP: u8 = 2;
/// IPv4 in IP.
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 in IP.
pub const IPV6: u8 = 41;
/// IPv6 routing header.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// IPsec ESP.
pub const ESP: u8 = 50;
/// IPsec authentication header.
pub const AH: u8 = 51;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// No next header (IPv6): nothing follows.
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options.
pub const DESTINATION: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// IPv6 mobility header.
pub const MOBILITY: u8 = 135;
/// UDP-Lite.
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
