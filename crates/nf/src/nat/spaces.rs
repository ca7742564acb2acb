//! The spaces of ports: mappings of different spaces do not exclude each other.

/// The space of all flows that a translator translates; in IPRewriter, of TCP flows only. ICMPPingRewriter
/// uses [`IDENTIFIERS`] instead.
pub(super) const ONLY: u32 = 0;
/// The space of UDP flows in IPRewriter, whose mappings are separate from TCP.
pub(super) const UDP_BESIDE: u32 = 1;
/// The space of ICMP identifiers: the second port is not chosen, but follows from the first.
pub(super) const IDENTIFIERS: u32 = 2;
