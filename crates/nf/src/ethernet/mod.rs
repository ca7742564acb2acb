//! Ethernet headers and byte patterns.

pub mod classifier;
pub mod ether_encap;
pub mod ether_rewrite;
