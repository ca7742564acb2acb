//! Annotations and time stamps.

pub mod paint;
pub mod paint_switch;
pub mod set_timestamp;
