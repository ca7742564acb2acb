//! The spaces of ports: mappings of different spaces do not exclude each other.

/// The spaces of one owner: TCP, or all that the owner translates; and UDP with mappings separate from TCP.
pub(super) const ONLY: u32 = 0;
pub(super) const UDP_BESIDE: u32 = 1;
/// The space of ICMP identifiers: the second port is not chosen, but follows from the first.
pub(super) const IDENTIFIERS: u32 = 2;
