//! EtherTypes: 16-bit numbers of the protocol that follows a link header or VLAN tag (IEEE 802 numbers,
//! IANA).
//!
//! Values of at most 1500 are lengths of IEEE 802.3 frames. Values between these and [`MIN`] have no meaning.

/// The lowest value that is an EtherType; a value of at most 1500 is the length of an 802.3 frame.
pub const MIN: u16 = 0x0600;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType before an 802.1Q VLAN tag.
pub const VLAN: u16 = 0x8100;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of MPLS, unicast.
pub const MPLS: u16 = 0x8847;
/// EtherType of MPLS with upstream-assigned labels (formerly "multicast"; RFC 5332).
pub const MPLS_UPSTREAM: u16 = 0x8848;
/// EtherType of PPPoE session packets.
pub const PPPOE_SESSION: u16 = 0x8864;
/// EtherType before an 802.1ad service tag (QinQ).
pub const QINQ: u16 = 0x88a8;
/// EtherType before the outer tag of QinQ equipment that is older than 802.1ad.
pub const QINQ_OLD: u16 = 0x9100;
