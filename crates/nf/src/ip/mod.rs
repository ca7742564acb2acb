//! IPv4 headers.

pub mod anonymize_ip_addr;
pub mod check_icmp_header;
pub mod check_ip6_header;
pub mod check_ip_header;
pub mod check_ip_header2;
pub mod check_tcp_header;
pub mod check_udp_header;
pub mod dec_ip6_hlim;
pub mod dec_ip_ttl;
pub mod filter;
pub mod fix_ip_src;
pub mod ip6_mirror;
pub mod ip_fragmenter;
pub mod ip_mirror;
pub mod ip_reassembler;
pub mod ipgw_options;
pub mod mark_ip6_header;
pub mod mark_ip_ce;
pub mod mark_ip_header;
mod service_type;
pub mod set_ip6_dscp;
pub mod set_ip_checksum;
pub mod set_ip_dscp;
pub mod set_ip_ecn;
pub mod set_tcp_checksum;
pub mod set_udp_checksum;
pub mod store_ip_address;
pub mod strip_ip_header;
pub mod strip_tcp_header;
pub mod strip_to_network_header;
pub mod strip_transport_header;
pub mod unstrip_ip_header;
pub mod unstrip_transport_header;

pub(crate) use check_ip_header::Addresses;
pub(crate) use ip_mirror::swapped;
