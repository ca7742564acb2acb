//! The questions that a filter can ask about a packet.

use std::fmt;

/// An IP protocol, or a set of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A protocol by its number.
    Number(u8),
    /// `tcpudp`.
    TcpOrUdp,
    /// `transp`.
    Any,
}

impl Protocol {
    /// ICMP.
    pub const ICMP: Protocol = Protocol::Number(1);
    /// TCP.
    pub const TCP: Protocol = Protocol::Number(6);
    /// UDP.
    pub const UDP: Protocol = Protocol::Number(17);
    /// DCCP, RFC 4340. Its ports are at the same offsets as those in TCP.
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

/// The version of IP of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4. The version field is not tested.
    V4,
    /// IPv6. The version field must be 6.
    V6,
}

/// The end of a packet's way: source, destination, or a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// `src`.
    Source,
    /// `dst`.
    Destination,
    /// `src and dst`.
    Both,
    /// `src or dst`.
    Either,
}

/// A comparison sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Sign {
    /// True if the sign is the opposite of another sign: `!=`, `<` and `<=` are the opposites of `==`, `>=`
    /// and `>`.
    pub fn is_opposite(self) -> bool {
        matches!(self, Sign::NotEqual | Sign::Less | Sign::LessOrEqual)
    }

    /// True if `left` and `right` compare like this.
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

/// A comparison with a value: `& MASK SIGN VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A constant result: `ttl >= 0`.
    Always(bool),
    /// The number under the mask compares with the value.
    Compare {
        /// The mask of the bits that count.
        mask: u32,
        /// The comparison sign.
        sign: Sign,
        /// The value to compare with. For `==` and `!=`, only its bits under the mask count.
        value: u32,
    },
}

impl Relation {
    /// True if the relation holds for a number.
    pub fn holds(self, number: u32) -> bool {
        match self {
            Relation::Always(value) => value,
            Relation::Compare { mask, sign: sign @ (Sign::Equal | Sign::NotEqual), value } => {
                sign.holds(number & mask, value & mask)
            }
            Relation::Compare { mask, sign, value } => sign.holds(number & mask, value),
        }
    }

    /// True if the sign is an opposite; see [`Sign::is_opposite`].
    pub fn is_opposite(self) -> bool {
        matches!(self, Relation::Compare { sign, .. } if sign.is_opposite())
    }
}

/// The position of a field in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The protocol whose header has the field. `None` for IP itself.
    pub protocol: Option<Protocol>,
    /// The offset of the first bit from the start of the header.
    pub bit: u32,
    /// The number of bits, at most 32 within one aligned word.
    pub bits: u8,
}

impl Place {
    const fn ip(bit: u32, bits: u8) -> Place {
        Place { protocol: None, bit, bits }
    }

    /// `ip vers`
    pub const VERSION: Place = Place::ip(0, 4);
    /// `ip hl`
    pub const HEADER_LENGTH: Place = Place::ip(4, 4);
    /// `ip tos`
    pub const TOS: Place = Place::ip(8, 8);
    /// `ip dscp`
    pub const DSCP: Place = Place::ip(8, 6);
    /// `ip len`
    pub const LENGTH: Place = Place::ip(16, 16);
    /// `ip id`
    pub const ID: Place = Place::ip(32, 16);
    /// `ip ttl`
    pub const TTL: Place = Place::ip(64, 8);
    /// `tcp win`
    pub const TCP_WINDOW: Place = Place { protocol: Some(Protocol::TCP), bit: 112, bits: 16 };
    /// `icmp type`
    pub const ICMP_TYPE: Place = Place { protocol: Some(Protocol::ICMP), bit: 0, bits: 8 };

    /// Returns the largest number that the field can have.
    pub fn largest(self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits.clamp(1, 32)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.protocol) {
            (Place::VERSION, _) => f.write_str("ip vers"),
            (Place::HEADER_LENGTH, _) => f.write_str("ip hl"),
            (Place::TOS, _) => f.write_str("ip tos"),
            (Place::DSCP, _) => f.write_str("ip dscp"),
            (Place::LENGTH, _) => f.write_str("ip len"),
            (Place::ID, _) => f.write_str("ip id"),
            (Place::TTL, _) => f.write_str("ip ttl"),
            (Place::TCP_WINDOW, _) => f.write_str("tcp win"),
            (Place::ICMP_TYPE, _) => f.write_str("icmp type"),
            (_, Some(protocol)) => write!(f, "{protocol}[...]"),
            (_, None) => f.write_str("ip[...]"),
        }
    }
}

/// A single question, complete and in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// A question about IP addresses. IPv4 addresses are in the low 32 bits.
    Host {
        /// The version of IP.
        version: Version,
        /// The end of the packet's way.
        ends: Ends,
        /// The address.
        address: u128,
        /// The mask of the bits that count.
        mask: u128,
        /// True for `!=`.
        opposite: bool,
    },
    /// A question about Ethernet addresses.
    Ether {
        /// The end of the packet's way.
        ends: Ends,
        /// The address.
        address: [u8; 6],
        /// The mask of the bits that count.
        mask: [u8; 6],
        /// True for `!=`.
        opposite: bool,
    },
    /// A question about the protocol field.
    ProtocolNumber {
        /// The version of IP.
        version: Version,
        /// The relation that must hold.
        relation: Relation,
    },
    /// A question about a set of protocols.
    ProtocolSet {
        /// The version of IP.
        version: Version,
        /// The set of protocols.
        protocol: Protocol,
        /// True for `!=`.
        opposite: bool,
    },
    /// A question about fragments: `ip frag`, or the opposite.
    Fragment {
        /// True if the packet must be a fragment.
        fragment: bool,
    },
    /// A question about ports.
    Port {
        /// The version of IP.
        version: Version,
        /// The protocol that has the ports.
        protocol: Protocol,
        /// The end of the packet's way.
        ends: Ends,
        /// The relation that must hold.
        relation: Relation,
    },
    /// A question about TCP flags, all of which must be set.
    TcpFlags {
        /// The version of IP.
        version: Version,
        /// The mask of the flags.
        flags: u8,
    },
    /// A question about any header field.
    Field {
        /// The version of IP.
        version: Version,
        /// The field.
        place: Place,
        /// The relation that must hold.
        relation: Relation,
    },
}
