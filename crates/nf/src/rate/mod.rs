//! Elements that limit, measure and delay traffic, and elements that drop or change packets at random or
//! because queues are long.
//!
//! The classes share the modules `bucket` (token bucket), `limit` (rate limit with its arguments) and
//! `colours` (three color markers). From outside of this folder they use `ewma` (average rate), `fixed`
//! (numbers in handlers) and `storage::watched` (watched queues).

pub mod adaptive_red;
pub mod bandwidth_meter;
pub mod bandwidth_rated_splitter;
pub mod bandwidth_rated_unqueue;
pub mod bandwidth_shaper;
pub mod block;
pub mod bucket;
pub mod burster;
pub mod codel;
mod colours;
pub mod delay_shaper;
pub mod delay_unqueue;
pub mod limit;
pub mod link_unqueue;
pub mod meter;
pub mod random_bit_errors;
pub mod random_sample;
pub mod rated_splitter;
pub mod rated_unqueue;
pub mod red;
pub mod shaper;
pub mod sr_tcm;
pub mod timed_sink;
pub mod timed_unqueue;
pub mod tr_tcm;

/// The name under which elements that limit or measure a rate declare their state, which every packet changes
/// ([`Effects::sharing`](element::Effects::sharing)).
pub(crate) const RATE: &str = "rate";
