//! The reframer: holds packets for microseconds so that each flow leaves in bursts, and caches work again behind it.
//!
//! Structure: a key (`key`) finds a flow in the table of `crates/flow`; its id is the place of the flow's list in
//! `lists`, which links held packets through a pool of nodes and the flows that hold some through the *flush list*.
//!
//! Invariants:
//! - Each held packet is in exactly one flow's list, and a flow is in the flush list exactly while its list is not
//!   empty. The flush list is ordered by the time at which each flow's oldest packet came.
//! - Each packet costs constant time: one look-up, one link in, one link out; the head of the flush list says when
//!   the next flow is due. Ordering those that leave together costs what sorting these few costs.
//! - A packet leaves at most DELAY after it came: exactly under the trace clock, plus one round of the driver else.
//! - The packets of a flow leave in the order in which they came (unless REORDER puts TCP segments back in order).
//!   A packet that bypasses takes with it what its flow holds, in front of it.
//! - Nothing is dropped but ACKs that a later one makes superfluous. Where table or pool are full, packets pass.

pub mod batcher;
pub mod key;
pub mod lists;
pub mod reframer;
pub mod settings;
pub mod sf_maker;
pub mod statistics;
pub mod tcp;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&batcher::CLASS, &reframer::CLASS, &sf_maker::CLASS];
