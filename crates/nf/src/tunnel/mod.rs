//! Elements for tunnels: headers of GRE (RFC 2784, RFC 2890) and GTP-U (3GPP TS 29.281), which lie between
//! an outer IP or UDP header and the packet inside.

pub mod check_gre_header;
mod gre;
pub mod gre_encap;
pub mod gtp_decap;
pub mod gtp_encap;
pub mod strip_gre_header;
