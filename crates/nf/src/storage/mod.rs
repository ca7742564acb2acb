//! Stores between push and pull paths.

pub mod queue;
pub mod unqueue;
