//! Analysis and compilation of chains of elements, from the declarations of the elements.
//!
//! - [`model`]: symbolic execution: a chain as cases over header fields, and all packets at once through
//!   the chain
//! - [`check`]: the lint: findings about one chain
//! - [`verify`]: the equivalence checker for two chains
//! - [`compose`]: the compiler's front end: regions of a chain become programs, by means independent of the
//!   model
//! - [`program`]: the intermediate representation of a region: one classifier and one write per field
//! - [`synthesized`]: the element that runs a program; [`insert`] puts it into a configuration
//! - [`standard`]: the back end that emits elements of Click and FastClick
//! - [`openflow`]: the back end that emits the part of a program that a switch can execute, as OpenFlow
//!   rules
//! - [`report`]: the cost of a region before and after; [`picture`] draws it
//! - [`topology`]: the linker: a chain of several configurations as one graph; [`cable`] carries packets
//!   from one configuration to the next

pub mod cable;
#[allow(clippy::mutable_key_type, reason = "as in the model")]
pub mod check;
pub mod compose;
pub mod insert;
pub mod longest_path;
#[allow(clippy::mutable_key_type, reason = "diagrams are counted inside, and their identity never changes")]
pub mod model;
pub mod openflow;
pub mod picture;
pub mod program;
pub mod report;
pub mod standard;
pub mod synthesized;
pub mod topology;
pub mod verify;

use element::Class;

/// The classes of this crate.
pub static CLASSES: &[&Class] = &[&cable::CLASS, &synthesized::CLASS];
