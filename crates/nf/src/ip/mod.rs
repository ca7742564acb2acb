//! IPv4 headers.

pub mod anonymize_ip_addr;
pub mod check_ip_header;
pub mod dec_ip_ttl;
pub mod filter;
pub mod mark_ip_header;
