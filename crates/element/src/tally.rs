//! Packets that elements are told about, because another one has dealt with them in their place.
//!
//! An element may stand for others ([`Effects::stands_for`](crate::Effects::stands_for)): it does to packets what they would
//! do, all at once. Users are not to see that, so whoever counts has to hear what has passed. The engine asks stand-ins
//! ([`Element::settle`](crate::Element::settle)) before anybody looks, and hands on what they say
//! ([`Element::tally`](crate::Element::tally)); packets that pass cost nothing more for it.

use crate::Timestamp;

/// So many packets have come to an element and left it as one case of its declaration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The input that they came by.
    pub input: usize,
    /// The case that they were of: its place in [`Effects::cases`](crate::Effects#structfield.cases), as declared when the graph
    /// was configured or the element got the arguments that it has.
    pub case: usize,
    /// How many. No tally is told of none.
    pub packets: u64,
    /// Their bytes together, as they came in.
    pub bytes: u64,
    /// Batch time ([`crate::Cx::now`]) of the first one.
    pub first: Timestamp,
    /// Batch time of the last one.
    pub last: Timestamp,
}
