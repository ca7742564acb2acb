//! The juggler: TCP in order and in large segments, although the network has reordered it.
//!
//! Structure: a key (`key`) finds a flow; `flows` has what is known of it and says what leaves when; its segments wait in a
//! `queue`. The element (`juggler`) makes packets of what leaves. Which segments can be one, and how one becomes many, is
//! `wire`'s to know (`merge`, `offload`); packets that wait are chains (`packet::Chain`), so that nothing is copied.
//!
//! Invariants:
//! - A flow is in exactly one list. What waits of it is sorted by sequence number, and neighbours that fit are one run.
//! - Nothing waits behind a gap for longer than OFO_TIMEOUT, and nothing in sequence longer than INSEQ_TIMEOUT after the first
//!   segment in sequence came or the flow last let something go, whichever was later, plus the task at hand.
//! - What leaves as one packet and is cut again is what came, byte for byte.
//! - Memory is bounded by FLOWS and QUEUE. Nothing is dropped.
//!
//! Beside it stands what makes such networks, and what they are good for: paths of different delay (`random_path`), flows
//! of different delay (`flow_delay`), the choice between paths (`path_selector`), links with priorities (`strict_priority`), and bandwidth guarantees by
//! priorities that change from packet to packet (`priority_marker`).

mod cut;
mod evicted;
pub mod flow_delay;
pub mod flows;
pub mod juggler;
pub mod key;
mod outgoing;
pub mod path_selector;
pub mod phases;
pub mod priority_marker;
pub mod queue;
pub mod random_path;
pub mod segment;
mod settings;
mod statistics;
pub mod strict_priority;
pub mod tcp_header;
mod under_way;

use element::{Class, Cx};
use flow::KeyHasher;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[
    &flow_delay::CLASS,
    &juggler::CLASS,
    &path_selector::CLASS,
    &priority_marker::CLASS,
    &random_path::CLASS,
    &segment::CLASS,
    &strict_priority::CLASS,
];

/// The hash function by which flows get a path or a delay: that of the seed that the user has chosen, else one that nobody can know,
/// and under clocks that make runs repeatable always the same.
fn hasher_of(cx: &Cx<'_>, seed: Option<u64>) -> KeyHasher {
    match seed {
        Some(seed) => KeyHasher::new(seed),
        None if cx.is_repeatable() => KeyHasher::default(),
        None => cx.key_hasher(),
    }
}
