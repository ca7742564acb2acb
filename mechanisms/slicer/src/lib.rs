//! The slicer: network functions see headers only; payloads wait aside and come back bit for bit.
//!
//! Structure: `headers` knows how a packet says that it is shorter and how that is taken back, `token` what stands in place of
//! the payload, `table` where payloads wait. `slicing` and `splicing` are the two operations, which `Slice`, `Splice` and
//! `Slicer` do on packets that come in; `payloads` is what these share on one worker. `quoted` restores what ICMP errors
//! quote. `tunnel` walks over the headers that a network function may put around packets, and `encapsulated` finds sliced packets
//! behind them and joins them there.
//!
//! Invariants:
//! - A sliced packet is a valid packet. Joined, it is what the network function would have made of the whole one.
//! - A payload leaves at most once, behind the headers that it came with: a token is ours, of this run, and used once.
//! - What cannot be parked passes whole, but for what comes from outside with a token of ours.
//! - What carries the mark on the way back and has no token of ours does not leave, neither as it is nor inside of a tunnel.
//! - A token that can be seen does not leave: its payload takes its place, or the packet is dropped and counted.

mod encapsulated;
pub mod headers;
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

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&payload_table::CLASS, &slice::CLASS, &slicer::CLASS, &splice::CLASS];
