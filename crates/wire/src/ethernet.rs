//! Ethernet II header and MAC addresses (IEEE 802.3).

use std::fmt;
use std::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::U16;

/// The 14 bytes of an Ethernet II header; 802.3 frames have a length in the place of the EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Destination MAC address.
    pub destination: MacAddr,
    /// Source MAC address.
    pub source: MacAddr,
    /// The EtherType of the payload, see [`crate::ether_type`]; a value of at most 1500 is the length of an
    /// 802.3 frame.
    pub ether_type: U16,
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();
}

/// A 48-bit MAC address. The bytes have the order in which they are on the wire.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Returns the address as a 48-bit number, in which the first byte on the wire is the most significant.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// True if all bits are ones: the frame is for all hosts.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        *self == Self::BROADCAST
    }

    /// True if a single host can have this address: it is not a group address, and not all zeros.
    #[inline]
    pub fn is_host(&self) -> bool {
        !self.is_group() && self.0 != [0; 6]
    }

    /// True if the group bit is set: the address is multicast or broadcast.
    #[inline]
    pub fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }
}

/// Writes two upper-case hexadecimal digits per byte, as Click does: `{}` writes `00:1A:2B:33:44:55`;
/// `{:#}` writes `00-1A-2B-33-44-55`, the IEEE form that Click's handlers and prints use.
impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        let s = if f.alternate() { '-' } else { ':' };
        write!(f, "{a:02X}{s}{b:02X}{s}{c:02X}{s}{d:02X}{s}{e:02X}{s}{g:02X}")
    }
}

/// The error of parsing a text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseMacAddrError {
    text: String,
}

impl fmt::Display for ParseMacAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not an Ethernet address: write six bytes of one or two hexadecimal digits with ':' or '-' \
             between them, such as 00:11:22:33:44:55",
            self.text
        )
    }
}

impl std::error::Error for ParseMacAddrError {}

/// Parses six groups of one or two hexadecimal digits, all separated by `:` or all by `-`.
impl FromStr for MacAddr {
    type Err = ParseMacAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_mac(text).ok_or_else(|| ParseMacAddrError { text: text.to_owned() })
    }
}

fn parse_mac(text: &str) -> Option<MacAddr> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut groups = text.split(separator);
    let mut address = [0; 6];
    for byte in &mut address {
        let group = groups.next()?;
        // `from_str_radix` would also accept a sign.
        if group.len() > 2 || !group.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(group, 16).ok()?;
    }
    groups.next().is_none().then_some(MacAddr(address))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_parse_in_clicks_forms() {
        let expected = MacAddr([0, 1, 2, 3, 4, 0xab]);
        for text in ["00:01:02:03:04:ab", "0:1:2:3:4:AB", "00-01-02-03-04-AB"] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!(expected.to_string(), "00:01:02:03:04:AB");
        assert_eq!(format!("{expected:#}"), "00-01-02-03-04-AB");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_hint() {
        for text in
            ["", "0:1:2:3:4", "0:1:2:3:4:5:6", "0:1:2:3:4:100", "0:1:2:3:4:", "0:1:2:3:4:g", "+1:1:2:3:4:5"]
        {
            let error = text.parse::<MacAddr>().unwrap_err().to_string();
            assert!(error.contains("00:11:22:33:44:55"), "{error}");
        }
    }

    #[test]
    fn header_fields_lie_where_the_standard_says() {
        let bytes: Vec<u8> = (0..14).collect();
        let header = Header::ref_from_bytes(&bytes).unwrap();
        assert_eq!(header.destination, MacAddr([0, 1, 2, 3, 4, 5]));
        assert_eq!(header.source, MacAddr([6, 7, 8, 9, 10, 11]));
        assert_eq!(header.ether_type.get(), 0x0c0d);
        assert!(Header::ref_from_prefix(&bytes[..13]).is_err());
    }

    #[test]
    fn group_and_broadcast() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_group());
        let multicast = MacAddr([1, 0, 0x5e, 0, 0, 1]);
        assert!(multicast.is_group() && !multicast.is_broadcast());
        assert!(!MacAddr([2, 0, 0, 0, 0, 1]).is_group());
        assert!(
            MacAddr([2, 0, 0, 0, 0, 1]).is_host() && !multicast.is_host() && !MacAddr::default().is_host()
        );
    }

    proptest! {
        #[test]
        fn printed_addresses_parse_back(bytes: [u8; 6]) {
            prop_assert_eq!(format!("{}", MacAddr(bytes)).parse(), Ok(MacAddr(bytes)));
            prop_assert_eq!(format!("{:#}", MacAddr(bytes)).parse(), Ok(MacAddr(bytes)));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,24}") {
            let _ = text.parse::<MacAddr>();
        }
    }
}
