//! Tests of elements that decide by headers or change them: headers of IP and transport, filters, ARP,
//! DHCP, IPsec, and Ethernet switches.

mod arp;
mod dhcp;
mod filters;
mod headers;
mod ipsec;
mod neighbours;
mod switches;
