//! The questions that a filter can ask about a packet, as data: [`Primitive`] and the types of its fields.

use std::fmt;

/// An IP protocol, or a set of protocols, as a question names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A single protocol, by its number in the IP header.
    Number(u8),
    /// TCP and UDP: `tcpudp` in a filter.
    TcpOrUdp,
    /// All protocols: `transp` in a filter.
    Any,
}

impl Protocol {
    /// ICMP.
    pub const ICMP: Protocol = Protocol::Number(1);
    /// TCP.
    pub const TCP: Protocol = Protocol::Number(6);
    /// UDP.
    pub const UDP: Protocol = Protocol::Number(17);
    /// DCCP (RFC 4340), whose ports are at the same offsets as in TCP.
    pub const DCCP: Protocol = Protocol::Number(33);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Number(1) => f.write_str("icmp"),
            Protocol::Number(2) => f.write_str("igmp"),
            Protocol::Number(4) => f.write_str("ipip"),
            Protocol::Number(6) => f.write_str("tcp"),
            Protocol::Number(17) => f.write_str("udp"),
            Protocol::Number(number) => write!(f, "ip proto {number}"),
            Protocol::TcpOrUdp => f.write_str("tcpudp"),
            Protocol::Any => f.write_str("transp"),
        }
    }
}

/// The IP version that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4. The question does not test the version field.
    V4,
    /// IPv6. The question holds only for packets whose version field is 6.
    V6,
}

/// The end of a packet whose address or port a question tests: the source, the destination, or both in
/// combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// The source: `src`.
    Source,
    /// The destination: `dst`.
    Destination,
    /// Source and destination must both fit: `src and dst`.
    Both,
    /// Source or destination must fit: `src or dst`, which is the default.
    Either,
}

/// The sign of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `==`: equal.
    Equal,
    /// `!=`: not equal.
    NotEqual,
    /// `<`: less than.
    Less,
    /// `<=`: less than or equal.
    LessOrEqual,
    /// `>`: greater than.
    Greater,
    /// `>=`: greater than or equal.
    GreaterOrEqual,
}

impl Sign {
    /// True for `!=`, `<` and `<=`, which count as negations of `==`, `>=` and `>`. If a question about
    /// source or destination has such a sign, the question as a whole is negated: `port != 80` holds if
    /// neither port is 80.
    pub fn is_opposite(self) -> bool {
        matches!(self, Sign::NotEqual | Sign::Less | Sign::LessOrEqual)
    }

    /// True if the comparison `left SIGN right` is true.
    pub fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Sign::Equal => left == right,
            Sign::NotEqual => left != right,
            Sign::Less => left < right,
            Sign::LessOrEqual => left <= right,
            Sign::Greater => left > right,
            Sign::GreaterOrEqual => left >= right,
        }
    }
}

/// The comparison of a field with a value: `& MASK SIGN VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A comparison with a constant result, such as `ttl >= 0`.
    Always(bool),
    /// A comparison of the field, after the mask, with a value.
    Compare {
        /// The mask of the field's bits that are compared.
        mask: u32,
        /// The sign of the comparison.
        sign: Sign,
        /// The value with which the field is compared. `==` and `!=` ignore its bits outside of the mask;
        /// the other signs use all of its bits.
        value: u32,
    },
}

impl Relation {
    /// True if a field with the value `number` is in this relation.
    pub fn holds(self, number: u32) -> bool {
        match self {
            Relation::Always(value) => value,
            Relation::Compare { mask, sign: sign @ (Sign::Equal | Sign::NotEqual), value } => {
                sign.holds(number & mask, value & mask)
            }
            Relation::Compare { mask, sign, value } => sign.holds(number & mask, value),
        }
    }

    /// True if the relation counts as a negation, by its sign; see [`Sign::is_opposite`].
    pub fn is_opposite(self) -> bool {
        matches!(self, Relation::Compare { sign, .. } if sign.is_opposite())
    }
}

/// The header that has a field, and the position of the field in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The protocol whose header has the field; `None` for the IP header.
    pub protocol: Option<Protocol>,
    /// The offset of the field's first bit from the start of the header, in bits.
    pub bit: u32,
    /// The number of bits of the field: at most 32, all within one aligned word.
    pub bits: u8,
}

impl FieldPlace {
    const fn ip(bit: u32, bits: u8) -> FieldPlace {
        FieldPlace { protocol: None, bit, bits }
    }

    /// The version of IP: `ip vers`.
    pub const VERSION: FieldPlace = FieldPlace::ip(0, 4);
    /// The length of the IP header, in words of 32 bits: `ip hl`.
    pub const HEADER_LENGTH: FieldPlace = FieldPlace::ip(4, 4);
    /// The type of service, with ECN: `ip tos`.
    pub const TOS: FieldPlace = FieldPlace::ip(8, 8);
    /// The differentiated services code point: `ip dscp`.
    pub const DSCP: FieldPlace = FieldPlace::ip(8, 6);
    /// The length of the IP packet in bytes: `ip len`.
    pub const LENGTH: FieldPlace = FieldPlace::ip(16, 16);
    /// The identification: `ip id`.
    pub const ID: FieldPlace = FieldPlace::ip(32, 16);
    /// The time to live: `ip ttl`.
    pub const TTL: FieldPlace = FieldPlace::ip(64, 8);
    /// The TCP window: `tcp win`.
    pub const TCP_WINDOW: FieldPlace = FieldPlace { protocol: Some(Protocol::TCP), bit: 112, bits: 16 };
    /// The ICMP type: `icmp type`.
    pub const ICMP_TYPE: FieldPlace = FieldPlace { protocol: Some(Protocol::ICMP), bit: 0, bits: 8 };

    /// Returns the largest number that the field can have.
    pub fn largest(self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits.clamp(1, 32)))
    }
}

impl fmt::Display for FieldPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.protocol) {
            (FieldPlace::VERSION, _) => f.write_str("ip vers"),
            (FieldPlace::HEADER_LENGTH, _) => f.write_str("ip hl"),
            (FieldPlace::TOS, _) => f.write_str("ip tos"),
            (FieldPlace::DSCP, _) => f.write_str("ip dscp"),
            (FieldPlace::LENGTH, _) => f.write_str("ip len"),
            (FieldPlace::ID, _) => f.write_str("ip id"),
            (FieldPlace::TTL, _) => f.write_str("ip ttl"),
            (FieldPlace::TCP_WINDOW, _) => f.write_str("tcp win"),
            (FieldPlace::ICMP_TYPE, _) => f.write_str("icmp type"),
            (_, Some(protocol)) => write!(f, "{protocol}[...]"),
            (_, None) => f.write_str("ip[...]"),
        }
    }
}

/// A single question about a packet, with all qualifiers and a value in range: a leaf of an
/// [`Expression`](super::Expression).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// A question about IP addresses.
    Host {
        /// The IP version of the addresses.
        version: Version,
        /// The end whose address must fit: the source, the destination, or a combination of both.
        ends: Sides,
        /// The address to compare with. An IPv4 address is in the lowest 32 bits.
        address: u128,
        /// The mask of the bits that are compared, aligned like the address.
        mask: u128,
        /// True for `!=`: the address must differ in a bit under the mask.
        opposite: bool,
    },
    /// A question about Ethernet addresses.
    Ether {
        /// The end whose Ethernet address must fit: the source, the destination, or a combination of both.
        ends: Sides,
        /// The address to compare with.
        address: [u8; 6],
        /// The mask of the bits that are compared.
        mask: [u8; 6],
        /// True for `!=`: the address must differ in a bit under the mask.
        opposite: bool,
    },
    /// A question about the number in the protocol field (IPv4) or the next header field (IPv6).
    ProtocolNumber {
        /// The IP version of the packet.
        version: Version,
        /// The relation that the number must satisfy.
        relation: Relation,
    },
    /// A question whether the protocol is in a set: `tcpudp` or `transp`.
    ProtocolSet {
        /// The IP version of the packet.
        version: Version,
        /// The set of protocols.
        protocol: Protocol,
        /// True for `!=`: the protocol must not be in the set.
        opposite: bool,
    },
    /// A question about fragmentation in IPv4: `ip frag` or `ip unfrag`.
    Fragment {
        /// True if the packet must be a fragment (the first or a later fragment); false if it must be whole.
        fragment: bool,
    },
    /// A question about the ports of a transport header.
    Port {
        /// The IP version of the packet.
        version: Version,
        /// The protocol that the packet must have.
        protocol: Protocol,
        /// The end whose port must fit: the source, the destination, or a combination of both.
        ends: Sides,
        /// The relation that the port must satisfy.
        relation: Relation,
    },
    /// A question about TCP flags, which holds if all flags of a mask are set.
    TcpFlags {
        /// The IP version of the packet.
        version: Version,
        /// The flags that must be set, at their positions in byte 13 of the TCP header.
        flags: u8,
    },
    /// A question about a field of the IP header or of a transport header.
    Field {
        /// The IP version of the packet.
        version: Version,
        /// The header that has the field, and the position of the field in it.
        place: FieldPlace,
        /// The relation that the value of the field must satisfy.
        relation: Relation,
    },
}
