//! Symbolic execution of a chain, after the "abstract service chain representation" of the SNF paper
//! (section of that name).
//!
//! A flat configuration becomes a graph of elements with their declarations ([`program::chain`]). A
//! symbolic packet ([`packet`]) is a vector of Boolean functions: each bit is a decision diagram
//! ([`diagrams`]) over the bits of the input packet. The transfer function of an element ([`step`]) applies
//! the element's cases to a symbolic packet. The result is a symbolic packet again, with its path condition
//! as a diagram; the paper calls these the operation and the traffic class. [`explore`] runs the transfer
//! functions over a whole chain, and merges packets that meet at one element.
//!
//! A value that a declaration leaves open is an uninterpreted function of the fields that it depends on.
//! Equal functions of equal arguments have equal values, and nothing else is known of the values
//! ([`functions`]). A checksum is represented by the words that it accounts for ([`sums`], [`checksums`]).

mod apply;
pub mod arrival;
pub mod branches;
pub mod checksums;
pub mod diagrams;
pub mod explore;
pub mod functions;
mod merge;
pub mod offsets;
pub mod order;
pub mod packet;
pub mod step;
pub mod streams;
pub mod sums;
pub mod unions;
pub mod word;
