//! The execution of synthesized programs.
//!
//! - [`interpreter`]: the classes of a batch of packets, by questions and rule lists; `trail.rs` tests
//!   frequent paths as a whole
//! - [`flow_cache`]: the flow cache: leased flows and their values, and the residual programs of known flows
//! - [`operation`]: the operation of a class on its packets; `lane.rs` writes eight bytes at a time
//! - [`synthesized`]: the element that runs a program
//! - [`balance`]: the decision if a program saves more than it costs
//!
//! The crate knows programs ([`program`]), and neither how programs are made nor how they are proven.

pub mod balance;
mod computed;
pub mod flow_cache;
pub mod groups;
pub mod interpreter;
mod lane;
mod leaving;
pub mod operation;
pub mod synthesized;
mod trail;

use element::Class;

/// The classes of this crate.
pub static CLASSES: &[&Class] = &[&synthesized::CLASS];
