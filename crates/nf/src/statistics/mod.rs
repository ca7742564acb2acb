//! Elements that measure what flows and networks send.

pub mod flow_counter;
pub mod ip_rate_monitor;
mod rate_tree;
mod record;
