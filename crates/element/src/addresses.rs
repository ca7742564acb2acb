//! The addresses that a name means.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::MacAddr;

use crate::args::{Ipv4Prefix, Ipv6Prefix};

/// The addresses that a name means. A name may have one address of each kind: an IPv4 address and prefix, an
/// IPv6 address and prefix, and an Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// An IPv4 address.
    pub ip: Option<Ipv4Addr>,
    /// An IPv4 prefix.
    pub net: Option<Ipv4Prefix>,
    /// An IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// An IPv6 prefix.
    pub net6: Option<Ipv6Prefix>,
    /// An Ethernet address.
    pub mac: Option<MacAddr>,
}
