//! The juggler: puts TCP segments that the network has reordered back in order, and merges them into large
//! segments.
//!
//! Structure: `key` finds the flow key of a packet. `flows` keeps the state of each flow and decides which
//! segments are flushed, and when; the segments of a flow wait in a `queue`. The element (`juggler`) makes
//! packets of flushed segments. `wire::merge` knows which segments can be merged, and `wire::offload` how a
//! large segment is cut. Waiting packets are chained (`packet::Chain`), so no data is copied.
//!
//! Invariants:
//! - A flow is in exactly one list, which decides when it is evicted. Its waiting segments are sorted by
//!   sequence number, and adjacent segments that can be merged form one run.
//! - No segment waits after a gap for longer than OFO_TIMEOUT. No segment in sequence waits for longer than
//!   INSEQ_TIMEOUT; this time starts when the first one arrives or when the flow last flushed segments,
//!   whichever is later. The duration of the running task is added to both, and 1 us if a timer is late.
//! - A packet of merged segments that Segment cuts again gives the packets that arrived, byte for byte, even
//!   if their transport checksums were wrong.
//! - All segments in a large segment that leaves as one are verified, unless CHECKSUM is false.
//! - All packets of a run but the first are stripped of their headers if they are to form a large segment.
//!   The headers stay in front of the data, where Segment finds them.
//! - Memory is bounded by FLOWS and QUEUE. If a limit is reached, packets leave early; none is dropped.
//!
//! Further elements simulate networks that reorder packets, and use networks that may: paths of different
//! delay (`random_path`), flows of different delay (`flow_delay`), the choice between paths
//! (`path_selector`), links with priorities (`strict_priority`), and bandwidth guarantees by priorities
//! that change from packet to packet (`priority_marker`).

mod delay_queue;
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
mod sequence;
mod settings;
mod statistics;
pub mod strict_priority;
pub mod tcp_header;

use element::{Class, Cx};
use flow::KeyHasher;

/// All element classes of this crate.
pub static CLASSES: &[&Class] = &[
    &flow_delay::CLASS,
    &juggler::CLASS,
    &path_selector::CLASS,
    &priority_marker::CLASS,
    &random_path::CLASS,
    &segment::CLASS,
    &strict_priority::CLASS,
];

/// Returns the hash function that assigns paths or delays to flows. With a seed, the function follows from
/// the seed. Without a seed, the function cannot be predicted, except under clocks that make runs
/// repeatable: there it is always the same.
fn hasher_of(cx: &Cx<'_>, seed: Option<u64>) -> KeyHasher {
    match seed {
        Some(seed) => KeyHasher::new(seed),
        None if cx.is_repeatable() => KeyHasher::default(),
        None => cx.key_hasher(),
    }
}
