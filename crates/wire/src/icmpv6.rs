//! ICMPv6 header (RFC 4443) and the message types of errors, echo and neighbour discovery (RFC 4861).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::U16;

/// Message types: values of [`Header::kind`].
pub mod kind {
    /// Type of an ICMPv6 message: destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Type of an ICMPv6 message: packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Type of an ICMPv6 message: time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Type of an ICMPv6 message: parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Type of an ICMPv6 message: echo request.
    pub const ECHO: u8 = 128;
    /// Type of an ICMPv6 message: echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Type of an ICMPv6 message: router solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Type of an ICMPv6 message: router advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Type of an ICMPv6 message: neighbour solicitation.
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Type of an ICMPv6 message: neighbour advertisement.
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Type of an ICMPv6 message: redirect.
    pub const REDIRECT: u8 = 137;
}

/// The first 8 bytes of most ICMPv6 messages: type, code, checksum, and four bytes that depend on the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The message's type, see [`kind`].
    pub kind: u8,
    /// The code, which refines the type.
    pub code: u8,
    /// Checksum over the pseudo-header, the ICMPv6 header and everything after it.
    pub checksum: U16,
    /// In echo messages, the identifier. In other messages, the upper 16 of the 32 bits that depend on the
    /// type, such as an MTU, a pointer or flags.
    pub identifier: U16,
    /// In echo messages, the sequence number. In other messages, the lower 16 of the 32 bits that depend on
    /// the type.
    pub sequence: U16,
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// True if the type is below 128: the message reports an error and contains the start of the packet that
    /// caused it.
    #[inline]
    pub fn is_error(&self) -> bool {
        self.kind < 128
    }

    /// True if the message is an echo request or reply; its [`Header::identifier`] then tells which query it
    /// belongs to.
    #[inline]
    pub fn is_query(&self) -> bool {
        matches!(self.kind, kind::ECHO | kind::ECHO_REPLY)
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IcmpEchoHeader, Icmpv6Header, Icmpv6Type};

    use super::*;

    #[test]
    fn echo_agrees_with_etherparse() {
        let echo = IcmpEchoHeader { id: 0x1234, seq: 0x5678 };
        let mut oracle = Icmpv6Header::new(Icmpv6Type::EchoReply(echo));
        oracle.checksum = 0x9abc;
        let bytes = oracle.to_bytes();
        let (header, rest) = Header::ref_from_prefix(&bytes).unwrap();
        assert!(rest.is_empty() && header.is_query() && !header.is_error());
        assert_eq!((header.kind, header.code, header.checksum.get()), (kind::ECHO_REPLY, 0, 0x9abc));
        assert_eq!((header.identifier.get(), header.sequence.get()), (0x1234, 0x5678));
    }

    #[test]
    fn the_upper_half_of_the_types_informs() {
        let header =
            |kind| Header { kind, code: 0, checksum: 0.into(), identifier: 0.into(), sequence: 0.into() };
        assert!(header(kind::PACKET_TOO_BIG).is_error());
        assert!(!header(kind::NEIGHBOR_SOLICITATION).is_error());
        assert!(!header(kind::NEIGHBOR_SOLICITATION).is_query());
    }
}
