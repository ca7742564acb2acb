//! The verifier: finds out, from the declarations of elements, what a chain does to all packets.
//!
//! - [`model`]: symbolic execution, which follows all packets at once through a chain
//! - [`equivalence`]: the equivalence checker for two chains, and for a chain and its programs
//! - [`lint`]: findings about one chain, such as rules that no packet reaches
//! - [`example`]: a packet that shows a finding or a difference; [`run`] runs the packet through a chain
//!
//! Programs are seen only as data and as declarations ([`program`]). The crate knows neither the compiler
//! that makes programs nor the runtime that executes them, so a proof does not rely on either.

pub mod equivalence;
pub mod example;
#[allow(clippy::mutable_key_type, reason = "as in the model")]
pub mod lint;
#[allow(clippy::mutable_key_type, reason = "diagrams are counted inside, and their identity never changes")]
pub mod model;
pub mod run;
