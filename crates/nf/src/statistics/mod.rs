//! Elements that measure how much traffic flows and networks send and receive.

pub mod flow_counter;
pub mod ip_rate_monitor;
mod rate_tree;
mod record;
