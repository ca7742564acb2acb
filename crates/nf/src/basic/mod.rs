//! Passing, dropping, copying, counting and printing packets.

pub mod average_counter;
pub mod counter;
pub mod discard;
pub mod idle;
pub mod null;
pub mod print;
pub mod pull_null;
pub mod pull_tee;
pub mod push_null;
pub mod strip;
pub mod tee;
pub mod unstrip;
