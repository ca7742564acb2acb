//! The abstract representation of a chain (SNF paper, section "Abstract service chain representation").
//!
//! A flat configuration becomes a graph of elements with their declarations ([`chain`]). A packet becomes a vector
//! of questions ([`packet`]): each bit of it is a decision diagram ([`diagrams`]) over the bits of the packet that
//! came in. An element's cases are applied to it ([`step`]); what they leave is a packet again, with the packets
//! for which it stands as a diagram: the paper's traffic class and operation. [`explore`] does that for a whole
//! chain, and joins classes where they come together.
//!
//! What a declaration leaves open is a function of what it depends on: equal functions of equal values are equal,
//! and nothing else is known of them ([`functions`]). Checksums are kept as what they account for ([`sums`]).

mod apply;
pub mod chain;
pub mod diagrams;
pub mod explore;
pub mod functions;
pub mod order;
pub mod packet;
pub mod places;
pub mod step;
pub mod streams;
pub mod sums;
pub mod turns;
pub mod word;
