//! Tests of elements that decide by headers or change them: headers of IP and transport, filters, ARP,
//! IPsec, and Ethernet switches.

mod arp;
mod filters;
mod headers;
mod ipsec;
mod neighbours;
mod switches;
