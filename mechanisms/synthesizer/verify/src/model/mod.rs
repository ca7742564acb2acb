//! Symbolic execution of a chain: its abstract representation (SNF paper, section "Abstract service chain
//! representation").
//!
//! A flat configuration becomes a graph of elements with their declarations ([`program::chain`]). A symbolic packet
//! ([`packet`]) is a vector of Boolean functions: each bit is a decision diagram ([`diagrams`]) over the
//! bits of the input packet. The transfer function of an element ([`step`]) applies the element's cases to
//! a symbolic packet. The result is a symbolic packet again, with its path condition as a diagram: the
//! paper's traffic class and operation. [`explore`] runs the transfer functions over a whole chain, and
//! joins classes that meet at one element.
//!
//! A value that a declaration leaves open is an uninterpreted function of the fields that it depends on:
//! equal functions of equal arguments are equal, and nothing else is known of them ([`functions`]). A
//! checksum is represented by the words that it accounts for ([`sums`]).

mod apply;
pub mod branches;
pub mod diagrams;
pub mod explore;
pub mod functions;
pub mod order;
pub mod packet;
pub mod places;
pub mod step;
pub mod streams;
pub mod sums;
pub mod word;
