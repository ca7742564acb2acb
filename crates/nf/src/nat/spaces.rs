//! The numbers of spaces, which are a part of the keys of mappings: flows in different spaces may have equal
//! addresses and ports.

/// The number of the space for all flows that a translator translates; in IPRewriter, for TCP flows only.
/// Flows in different spaces may have equal addresses and ports. ICMPPingRewriter uses [`IDENTIFIERS`]
/// instead.
pub(super) const ONLY: u32 = 0;
/// The number of the space for UDP flows in IPRewriter, whose mappings are separate from TCP.
pub(super) const UDP_BESIDE: u32 = 1;
/// The number of the space for ICMP queries: instead of ports, their tuples have the identifier, and a number
/// that follows from it.
pub(super) const IDENTIFIERS: u32 = 2;
