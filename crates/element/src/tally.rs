//! Tallies: counts of packets that an element would have counted, but that another element processed in its
//! place.
//!
//! An element may replace several others ([`Effects::replaces`](crate::Effects::replaces)): it does to
//! packets in one step what all of them would do. Users must not notice, so elements that count packets need
//! to learn how many packets were processed for them. Before anything reads such counts, the engine asks the
//! replacing elements ([`Element::settle`](crate::Element::settle)) and passes their tallies on
//! ([`Element::tally`](crate::Element::tally)). This adds no cost per packet.

use crate::Timestamp;

/// The counts of the packets since the last tally that would have come to a replaced element by one input and
/// matched one case of its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The input by which the counted packets would have come to the replaced element.
    pub input: usize,
    /// The index in [`Effects::cases`](crate::Effects#structfield.cases) of the case that matches the
    /// packets. The cases are those that the element declared when the graph was configured, or when the
    /// element got its current arguments.
    pub case: usize,
    /// The number of packets, at least 1.
    pub packets: u64,
    /// The total length in bytes of the counted packets, before the replaced element would have changed them.
    pub bytes: u64,
    /// The batch time ([`crate::Cx::now`]) at which the first of the counted packets was processed.
    pub first: Timestamp,
    /// The batch time at which the last of the counted packets was processed.
    pub last: Timestamp,
}
