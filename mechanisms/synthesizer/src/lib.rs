//! The compiler from chains of elements to programs.
//!
//! A chain and a program are the data of [`program`]. Regions of a chain become programs by means that are
//! independent of the verifier's model (`tidegate-verify`); `tidegate-runtime` executes programs.
//!
//! - [`compose`]: the front end: path exploration over intervals, exit states, one decision graph
//! - [`insert`]: puts programs into a configuration
//! - [`standard`]: the back end that emits elements of Click and FastClick
//! - [`openflow`]: the back end that emits the part of a program that a switch can execute, as OpenFlow
//!   rules
//! - [`topology`]: the linker: a chain of several configurations as one graph; [`cable`] carries packets
//!   from one configuration to the next
//! - [`report`]: the cost of a region before and after; [`picture`] draws it

pub mod cable;
pub mod compose;
pub mod insert;
pub mod longest_path;
pub mod openflow;
pub mod picture;
pub mod report;
pub mod standard;
pub mod topology;

use element::Class;

/// The classes of this crate.
pub static CLASSES: &[&Class] = &[&cable::CLASS];
