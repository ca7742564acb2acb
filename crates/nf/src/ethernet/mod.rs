//! Ethernet headers and byte patterns.

pub mod check_arp_header;
pub mod check_crc32;
pub mod classifier;
pub mod ensure_ether;
pub mod ether_encap;
pub mod ether_mirror;
pub mod ether_rewrite;
pub mod ether_switch;
pub mod host_ether_filter;
pub mod listen_ether_switch;
pub mod mark_mac_header;
pub mod set_crc32;
pub mod store_ether_address;
pub mod vlan;
