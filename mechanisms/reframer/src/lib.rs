//! The reframer: holds packets for microseconds so that each flow leaves in bursts, which makes the caches
//! of everything downstream effective again.
//!
//! Structure: a key (`key`) finds a flow in the flow table of `crates/flow`. The id of the flow is the
//! index of its list in `lists`, which keeps held packets in a ring in order of arrival: the *flush list*.
//! Packets that leave go through `outgoing`, which calls the part for TCP (`tcp`).
//!
//! Invariants:
//! - Each held packet is in the list of exactly one flow and has one slot in the ring. A flow is due when
//!   its oldest packet is due. The flow that is due next owns the first occupied slot of the ring.
//! - Each packet costs constant time: one look-up, and one slot of the ring that is written, read and
//!   skipped once. Ordering the flows that leave together costs one sort of these few flows, and nothing if
//!   they wait in order already.
//! - A packet leaves at most DELAY after its arrival: exactly under the trace clock, otherwise plus the
//!   duration of the running task.
//! - The packets of a flow leave in order of arrival (unless REORDER sorts TCP segments). A packet that
//!   bypasses releases the packets that its flow holds, and leaves after them.
//! - No packets are dropped except ACKs that a later ACK makes superfluous. Packets for which there is no
//!   room are forwarded at once.

pub mod batcher;
pub mod key;
pub mod lists;
pub mod outgoing;
pub mod reframer;
pub mod settings;
pub mod sf_maker;
pub mod statistics;
pub mod tcp;

use element::Class;

/// All classes of this crate.
pub static CLASSES: &[&Class] = &[&batcher::CLASS, &reframer::CLASS, &sf_maker::CLASS];
