//! The compiler from chains of elements to programs.
//!
//! Chains and programs are data types of [`program`]. The compiler shares no algorithm with the verifier
//! (`tidegate-verify`), which proves its results; `tidegate-runtime` executes programs.
//!
//! - [`topology`]: the linker: several configurations as one chain; [`cable`]: the element that carries
//!   packets from one configuration to the next
//! - [`compose`]: the front end: regions of a chain become programs, by exploring all paths of packets
//! - [`insert`]: puts programs into a configuration
//! - [`standard`]: the back end that replaces regions by elements that Click and FastClick have
//! - [`openflow`]: the back end that emits the part of a program that a switch can execute, as OpenFlow
//!   rules
//! - [`report`]: the questions and writes of a region before and after; [`picture`]: a drawing of them;
//!   both show the [`longest_path`]

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

/// The element classes of this crate, for the registry.
pub static CLASSES: &[&Class] = &[&cable::CLASS];
