//! The slicer: network functions receive headers only. Payloads are parked meanwhile, and joined to their
//! headers when these return, bit for bit.
//!
//! Structure: `headers` changes headers so that a packet is shorter, and reverts the change. `token`
//! defines the token that replaces the payload, and `table` parks payloads. `slicing` and `splicing` are
//! the two operations, which the elements `Slice`, `Splice` and `Slicer` apply to packets; `payloads` is
//! the state that these elements share on one worker, and `effects` is what they declare. `network` finds
//! the IP header of a packet, and `joining` joins headers and payload. `offloads` is about large segments and
//! incomplete checksums. `quoted` restores the packets that
//! ICMP errors quote. `tunnel` walks over the headers that a network function may put around packets, and
//! `encapsulated` finds sliced packets inside of them, whose payloads are joined there; `in_tunnel` cuts
//! large segments there.
//!
//! A *valid* token is a token that the running program has made: it decrypts with the key that was
//! generated at its start. The *mark* is the DSCP of sliced packets.
//!
//! Invariants:
//! - A sliced packet is a valid packet. Joined, it equals the packet that the network function would have
//!   made of the whole packet.
//! - A payload leaves at most once, and only with the headers that it came with: a token is valid until the
//!   program ends, and is used once. Only ICMP errors quote the start of a payload, too.
//! - Packets that cannot be parked pass whole, except packets that come from outside with a valid token.
//! - A packet that returns with the mark but without a valid token does not leave if it may be a sliced
//!   packet. This holds inside of tunnels, too.
//! - No token that can be found in a packet leaves: its payload replaces it, or the packet is dropped and
//!   counted. The exception is an ICMP error with extensions after its quotation, which passes and is
//!   counted.

mod effects;
mod encapsulated;
pub mod headers;
mod in_tunnel;
mod joining;
mod network;
mod offloads;
pub mod payload_table;
mod payloads;
mod quoted;
pub mod slice;
pub mod slicer;
mod slicing;
pub mod splice;
mod splicing;
pub mod table;
pub mod token;
pub mod tunnel;

use element::Class;

/// All element classes of this crate.
pub static CLASSES: &[&Class] = &[&payload_table::CLASS, &slice::CLASS, &slicer::CLASS, &splice::CLASS];
