//! ICMP for IPv4 (RFC 792).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::U16;

/// Message types: values of [`Header::kind`].
pub mod kind {
    /// Type of an ICMP message: echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Type of an ICMP message: destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Type of an ICMP message: source quench (obsolete).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Type of an ICMP message: redirect.
    pub const REDIRECT: u8 = 5;
    /// Type of an ICMP message: echo request.
    pub const ECHO: u8 = 8;
    /// Type of an ICMP message: time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Type of an ICMP message: parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Type of an ICMP message: time stamp request.
    pub const TIME_STAMP: u8 = 13;
    /// Type of an ICMP message: time stamp reply.
    pub const TIME_STAMP_REPLY: u8 = 14;
    /// Type of an ICMP message: information request (obsolete).
    pub const INFORMATION: u8 = 15;
    /// Type of an ICMP message: information reply (obsolete).
    pub const INFORMATION_REPLY: u8 = 16;
    /// Type of an ICMP message: address mask request (RFC 950).
    pub const ADDRESS_MASK: u8 = 17;
    /// Type of an ICMP message: address mask reply (RFC 950).
    pub const ADDRESS_MASK_REPLY: u8 = 18;
}

/// The first 8 bytes of all ICMP messages. In error messages, the packet that caused the error follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The message's type, see [`kind`].
    pub kind: u8,
    /// The code, which refines the type.
    pub code: u8,
    /// Checksum over the ICMP header and everything after it.
    pub checksum: U16,
    /// In messages with a query (echo, time stamp, information, address mask), the identifier. In a redirect,
    /// the upper half of the gateway's address; in a parameter problem, the pointer in its upper byte. In
    /// other errors, RFC 792 does not use this field.
    pub identifier: U16,
    /// In messages with a query, the sequence number. In a redirect, the lower half of the gateway's address;
    /// in unreachable with code 4, the next hop's MTU in bytes (RFC 1191).
    pub sequence: U16,
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// True if the message reports an error and thus contains the start of the packet that caused it.
    #[inline]
    pub fn is_error(&self) -> bool {
        matches!(
            self.kind,
            kind::UNREACHABLE
                | kind::SOURCE_QUENCH
                | kind::REDIRECT
                | kind::TIME_EXCEEDED
                | kind::PARAMETER_PROBLEM
        )
    }

    /// True if the message is an echo or time stamp message, request or reply; its [`Header::identifier`]
    /// then tells which query it belongs to.
    #[inline]
    pub fn is_query(&self) -> bool {
        matches!(self.kind, kind::ECHO | kind::ECHO_REPLY | kind::TIME_STAMP | kind::TIME_STAMP_REPLY)
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type};

    use super::*;

    #[test]
    fn echo_agrees_with_etherparse() {
        let echo = IcmpEchoHeader { id: 0x1234, seq: 0x5678 };
        let mut oracle = Icmpv4Header::new(Icmpv4Type::EchoRequest(echo));
        oracle.checksum = 0x9abc;
        let bytes = oracle.to_bytes();
        let (header, rest) = Header::ref_from_prefix(&bytes).unwrap();
        assert!(rest.is_empty() && header.is_query() && !header.is_error());
        assert_eq!((header.kind, header.code, header.checksum.get()), (kind::ECHO, 0, 0x9abc));
        assert_eq!((header.identifier.get(), header.sequence.get()), (0x1234, 0x5678));
    }

    #[test]
    fn errors_are_no_queries() {
        for kind in 0..=255 {
            let header =
                Header { kind, code: 0, checksum: 0.into(), identifier: 0.into(), sequence: 0.into() };
            assert!(!(header.is_error() && header.is_query()), "{kind}");
            assert_eq!(header.is_error(), [3, 4, 5, 11, 12].contains(&kind), "{kind}");
        }
    }
}
