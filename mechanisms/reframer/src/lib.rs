//! The reframer: holds packets for microseconds so that each flow leaves in bursts. Downstream elements then
//! process packets of one flow after the other, and find the flow's state in the caches.
//!
//! Structure: `key` makes the flow key of a packet; `finder` does so as the arguments say, also for flows in
//! tunnels (`tunnel`) and of QUIC (`quic`). The key finds the list of the flow's packets in `lists`. There,
//! one ring per delay class has a slot for each list, in the order in which the lists began: the *flush list*
//! of the Reframer paper. Packets that leave go through `outgoing`, which numbers their runs, and calls `tcp`
//! to sort segments and merge ACKs. Where arguments need it, `memory` keeps what is to be remembered of flows
//! between their bursts, in a flow table of `crates/flow`.
//!
//! Invariants:
//! - Each held packet is in the list of exactly one flow, and each list has one slot in a ring. A flow is due
//!   when its oldest packet is due. Of the flows of one delay class, the flow that is due next owns the first
//!   slot of the ring whose list has not left.
//! - Each packet costs constant time: one look-up of its list (several while a packet whose flow is unknown
//!   is held, or flows are remembered). So does each list: one slot that is written, read and skipped once.
//!   What is used for that grows with the number of held packets, not with the number of flows. Ordering the
//!   flows that leave together costs one sort of these few flows, and nothing if they are already in order.
//! - A packet leaves at most DELAY (or the delay that SLO gives) after its arrival: exactly under the trace
//!   clock, otherwise plus the duration of the running task.
//! - The packets of a flow leave in order of arrival (unless REORDER sorts TCP segments). A packet that
//!   bypasses releases the packets that its flow holds, and leaves after them.
//! - Reframer and SFMaker drop no packets except ACKs that a later ACK makes superfluous. Packets for which
//!   there is no room are forwarded at once.

pub mod batcher;
pub mod delays;
pub mod finder;
pub mod key;
pub mod lists;
mod memory;
pub mod outgoing;
pub mod pause;
mod per_list;
pub mod quic;
pub mod reframer;
pub mod settings;
pub mod sf_maker;
pub mod statistics;
pub mod tcp;
mod tunnel;

use element::Class;

/// All element classes of this crate.
pub static CLASSES: &[&Class] = &[&batcher::CLASS, &reframer::CLASS, &sf_maker::CLASS];
