//! What chains of elements do to packets, found out from their declarations.
//!
//! - [`model`]: a chain as cases over header fields, and all packets at once through it
//! - [`check`]: what there is to say about one chain
//! - [`verify`]: whether two chains do the same
//! - [`compose`]: stretches of a chain as programs, by other means than those of the model
//! - [`program`]: what a stretch does, in one classification and one write per field
//! - [`synthesized`]: the element that runs a program; [`insert`] puts it into a configuration
//! - [`standard`]: the same in elements that Click and FastClick have, too
//! - [`openflow`]: the part of a program that a switch can answer, as rules for one
//! - [`report`]: what was gained; [`picture`] shows it
//! - [`topology`]: a chain of several configurations as one graph; [`cable`] is what crosses from one to the next

pub mod cable;
#[allow(clippy::mutable_key_type, reason = "as in the model")]
pub mod check;
pub mod compose;
pub mod insert;
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
pub mod way;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&cable::CLASS, &synthesized::CLASS];
