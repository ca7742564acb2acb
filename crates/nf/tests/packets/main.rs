//! Tests of elements that decide by headers or change them: headers of IP and transport, filters, ARP, and
//! Ethernet switches.

mod arp;
mod filters;
mod headers;
mod neighbours;
mod switches;
