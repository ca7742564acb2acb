//! Answering with ICMP, and asking.

pub mod icmp_error;
pub mod icmp_ping_responder;
pub mod icmp_ping_source;
