//! Elements that shape, delay, split, sample and drop packets by rate or length.

pub mod bandwidth_meter;
pub mod bandwidth_rated_splitter;
pub mod bandwidth_rated_unqueue;
pub mod bandwidth_shaper;
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

/// The name of the shared state of elements that limit or measure a rate, for
/// [`Effects::sharing`](element::Effects::sharing).
pub(crate) const RATE: &str = "rate";
