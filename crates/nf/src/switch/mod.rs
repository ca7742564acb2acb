//! Elements that choose the output of each packet, and Hub, which copies packets to several outputs.

pub mod bypass;
pub mod exact_paint_switch;
pub mod hash_switch;
pub mod hub;
pub mod input_switch;
pub mod paint_rr;
pub mod random_switch;
pub mod round_robin_switch;
pub mod static_switch;
pub mod stride_switch;
pub mod suppressor;
#[allow(clippy::module_inception)]
pub mod switch;
