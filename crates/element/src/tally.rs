//! Counts of packets that another element processed in place of the element that counts them.
//!
//! An element may replace others ([`Effects::replaces`](crate::Effects::replaces)): it does at once to
//! packets what all of them would do. Users must not notice, so elements that count packets need to learn
//! how many packets were processed for them. Before anything reads such counts, the engine asks the
//! replacing elements ([`Element::settle`](crate::Element::settle)) and passes their tallies on
//! ([`Element::tally`](crate::Element::tally)). This adds no cost per packet.

use crate::Timestamp;

/// A number of packets that have come to an element and left it according to one case of its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The input that the packets came in by.
    pub input: usize,
    /// The case that matched the packets: its index in
    /// [`Effects::cases`](crate::Effects#structfield.cases), as declared when the graph was configured or
    /// when the element got its current arguments.
    pub case: usize,
    /// The number of packets, at least 1.
    pub packets: u64,
    /// The total length of the packets in bytes, as they came in.
    pub bytes: u64,
    /// The batch time ([`crate::Cx::now`]) of the first packet.
    pub first: Timestamp,
    /// The batch time of the last packet.
    pub last: Timestamp,
}
