//! Link types: the kind of header with which a captured or received frame starts
//! (<https://www.tcpdump.org/linktypes.html>).

use std::fmt;

use crate::capture_links;

/// The kind of header with which a frame starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// BSD loopback: a header of 4 bytes with the address family, in the byte order of the capturing
    /// machine.
    Null,
    /// Ethernet II or 802.3.
    Ethernet,
    /// No link header: IPv4 or IPv6, distinguished by the version field.
    RawIp,
    /// OpenBSD loopback: like [`LinkType::Null`], but with the address family in network byte order.
    Loop,
    /// Linux cooked capture, version 1: a header of 16 bytes in place of the link header.
    LinuxCooked,
    /// Linux cooked capture, version 2: a header of 20 bytes in place of the link header.
    LinuxCookedV2,
    /// Any other link type, by its number in capture files. Headers of some of them can be read:
    /// [`is_known`](Self::is_known).
    Other(u16),
}

impl LinkType {
    /// Returns the link type with this number in capture files (LINKTYPE or DLT). Raw IP has several
    /// numbers: 101 everywhere, 12 and 14 as DLT values of old systems, 228 and 229 for a single IP
    /// version.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => LinkType::Null,
            1 => LinkType::Ethernet,
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            108 => LinkType::Loop,
            113 => LinkType::LinuxCooked,
            276 => LinkType::LinuxCookedV2,
            other => LinkType::Other(other),
        }
    }

    /// True if [`Layers`](crate::Layers) can find what follows a header of this type.
    pub fn is_known(self) -> bool {
        match self {
            LinkType::Other(number) => capture_links::reader(number).is_some(),
            _ => true,
        }
    }

    /// Returns the number of this link type in capture files; for raw IP, 101.
    pub fn number(self) -> u16 {
        match self {
            LinkType::Null => 0,
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
            LinkType::Loop => 108,
            LinkType::LinuxCooked => 113,
            LinkType::LinuxCookedV2 => 276,
            LinkType::Other(number) => number,
        }
    }
}

/// Writes the name of the link type for messages, for example `Ethernet` or `link type 147`.
impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkType::Null => f.write_str("BSD loopback"),
            LinkType::Ethernet => f.write_str("Ethernet"),
            LinkType::RawIp => f.write_str("raw IP"),
            LinkType::Loop => f.write_str("OpenBSD loopback"),
            LinkType::LinuxCooked => f.write_str("Linux cooked v1"),
            LinkType::LinuxCookedV2 => f.write_str("Linux cooked v2"),
            LinkType::Other(number) => write!(f, "link type {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_numbers_read_back() {
        for number in 0..=u16::MAX {
            let link = LinkType::from_number(number);
            assert_eq!(LinkType::from_number(link.number()), link);
            if !matches!(link, LinkType::RawIp) {
                assert_eq!(link.number(), number);
            }
        }
    }
}
