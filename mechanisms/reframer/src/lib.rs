//! The reframer: holds packets for microseconds so that each flow leaves in bursts, and caches work again behind it.
//!
//! Structure: a key (`key`) finds a flow in the table of `crates/flow`; its id is the place of the flow's list in
//! `lists`, which keep held packets in a ring in the order in which they came: the *flush list*. What leaves goes
//! through `outgoing`, past the part for TCP (`tcp`).
//!
//! Invariants:
//! - Each held packet is in exactly one flow's list and has one place in the ring. A flow is due when the place of its
//!   first packet is, and that is the first place of the ring whose packet is still there.
//! - Each packet costs constant time: one look-up, one place in the ring that is written, read, and passed over.
//!   Ordering those that leave together costs what sorting these few costs, and nothing where they wait in order.
//! - A packet leaves at most DELAY after it came: exactly under the trace clock, plus the task at hand else.
//! - The packets of a flow leave in the order in which they came (unless REORDER puts TCP segments back in order).
//!   A packet that bypasses takes with it what its flow holds, in front of it.
//! - Nothing is dropped but ACKs that a later one makes superfluous. Where there is no room, packets pass.

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

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&batcher::CLASS, &reframer::CLASS, &sf_maker::CLASS];
