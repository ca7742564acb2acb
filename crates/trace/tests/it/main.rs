//! Integration tests of the crate: the analyses against a second, straightforward implementation, on captures
//! and on random packets, and against results computed by hand; generated traces; multiplied traces.

mod agreement;
mod by_hand;
mod campus;
mod generated;
mod multiply;
mod slow;
