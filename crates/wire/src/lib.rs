//! Protocol headers over plain byte slices: views, checksums, dissection, packet building.
//!
//! The crate has no notion of packets, pools or elements; it reads and writes `[u8]`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`ethernet`], [`vlan`], [`arp`], [`neighbor`], [`ipv4`], [`ipv6`], [`tcp`], [`udp`], [`icmp`], [`icmpv6`] | one protocol each: its `Header` and, where lengths have to be checked, `parse` |
//! | [`ether_type`], [`ip_protocol`] | numbers of the header that follows |
//! | [`checksum`] | Internet checksum: full, incremental, per protocol |
//! | [`link`], [`layers`], [`five_tuple`] | link types, the offsets of a frame's headers, its flow |
//! | [`icmp_names`] | names of ICMP types and codes in Click |
//! | [`dhcp`] | messages and options of DHCP |
//! | [`sctp`], [`crc32`] | the checksum of SCTP; CRC-32/MPEG-2 |
//! | [`offload`] | work left to devices: partial checksums, large segments |
//! | [`merge`] | segments that can be merged into a large one |
//! | [`build`] | packets with correct checksums, for sources and tests |
//!
//! # Two ways to a header
//!
//! A `Header` has the exact layout of the protocol and public fields, so hot code overlays the header on
//! the bytes and writes to it. The length is checked once, in the overlay; no later access can panic:
//!
//! ```
//! use wire::{FromBytes, ipv4};
//!
//! fn age(packet: &mut [u8]) {
//!     let Ok((ip, _rest)) = ipv4::Header::mut_from_prefix(packet) else { return };
//!     ip.ttl = ip.ttl.saturating_sub(1);
//! }
//! # age(&mut [0; 20]);
//! ```
//!
//! `parse` also checks the length fields of the header (IHL, total length, data offset) and returns options
//! and payload as slices.

mod capture_links;
mod error;
mod options;

pub mod arp;
pub mod build;
pub mod checksum;
pub mod crc32;
pub mod dhcp;
pub mod ether_type;
pub mod ethernet;
pub mod five_tuple;
pub mod icmp;
pub mod icmp_names;
pub mod icmpv6;
pub mod ip_protocol;
pub mod ipv4;
pub mod ipv6;
pub mod layers;
pub mod link;
pub mod merge;
pub mod neighbor;
pub mod offload;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use error::{Error, Layer};
pub use ethernet::MacAddr;
pub use five_tuple::FiveTuple;
pub use layers::Layers;
pub use link::LinkType;
/// A 16-bit field in network byte order.
pub use zerocopy::network_endian::U16;
/// A 32-bit field in network byte order.
pub use zerocopy::network_endian::U32;
/// The traits that overlay headers on bytes (`ref_from_prefix`, `mut_from_prefix`) and turn headers into
/// bytes.
pub use zerocopy::{FromBytes, IntoBytes};
