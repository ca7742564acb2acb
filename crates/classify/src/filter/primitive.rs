//! What a filter can ask about a packet: one question at a time.

use std::fmt;

/// An IP protocol, or several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// By number.
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
    /// DCCP, RFC 4340; its ports stand where those of TCP do.
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

/// Which version of IP a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4. The version field is not looked at.
    V4,
    /// IPv6. The version field must be 6.
    V6,
}

/// Which end of a packet's way.
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
    /// Whether it stands for the opposite of another sign: `!=`, `<` and `<=` are those of `==`, `>=` and `>`.
    pub fn is_opposite(self) -> bool {
        matches!(self, Sign::NotEqual | Sign::Less | Sign::LessOrEqual)
    }

    /// Whether `left` and `right` compare like this.
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

/// `& MASK SIGN VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Known beforehand: `ttl >= 0`.
    Always(bool),
    /// The number under the mask compares with the value.
    Compare {
        /// Bits that count.
        mask: u32,
        /// How.
        sign: Sign,
        /// With what; for `==` and `!=` only its bits under the mask count.
        value: u32,
    },
}

impl Relation {
    /// Whether a number is related like this.
    pub fn holds(self, number: u32) -> bool {
        match self {
            Relation::Always(value) => value,
            Relation::Compare { mask, sign: sign @ (Sign::Equal | Sign::NotEqual), value } => {
                sign.holds(number & mask, value & mask)
            }
            Relation::Compare { mask, sign, value } => sign.holds(number & mask, value),
        }
    }

    /// See [`Sign::is_opposite`].
    pub fn is_opposite(self) -> bool {
        matches!(self, Relation::Compare { sign, .. } if sign.is_opposite())
    }
}

/// Bits of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In the header of this protocol; of IP itself, if there is none.
    pub protocol: Option<Protocol>,
    /// First bit, from the start of the header.
    pub bit: u32,
    /// How many, at most 32 within one aligned word.
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

    /// The largest number that fits.
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

/// One question, complete and in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// IP addresses; 32-bit ones are the low bits.
    Host {
        /// Of this version.
        version: Version,
        /// Which end.
        ends: Ends,
        /// The address.
        address: u128,
        /// Bits that count.
        mask: u128,
        /// `!=`
        opposite: bool,
    },
    /// Ethernet addresses.
    Ether {
        /// Which end.
        ends: Ends,
        /// The address.
        address: [u8; 6],
        /// Bits that count.
        mask: [u8; 6],
        /// `!=`
        opposite: bool,
    },
    /// The protocol field.
    ProtocolNumber {
        /// Of this version.
        version: Version,
        /// What it must be.
        relation: Relation,
    },
    /// A set of protocols.
    ProtocolSet {
        /// Of this version.
        version: Version,
        /// Which.
        protocol: Protocol,
        /// `!=`
        opposite: bool,
    },
    /// `ip frag`, or the opposite.
    Fragment {
        /// Whether it must be one.
        fragment: bool,
    },
    /// Ports.
    Port {
        /// Of this version.
        version: Version,
        /// Whose.
        protocol: Protocol,
        /// Which end.
        ends: Ends,
        /// What it must be.
        relation: Relation,
    },
    /// TCP flags that must all be set.
    TcpFlags {
        /// Of this version.
        version: Version,
        /// The flags.
        flags: u8,
    },
    /// Any header field.
    Field {
        /// Of this version.
        version: Version,
        /// Which.
        place: Place,
        /// What it must be.
        relation: Relation,
    },
}
