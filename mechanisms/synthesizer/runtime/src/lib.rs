//! The execution of synthesized programs, in the order in which a batch passes these modules:
//!
//! - [`synthesized`]: the element that runs a program
//! - [`balance`]: the decision whether a batch goes through the program, or to the elements because they
//!   cost less
//! - [`flow_cache`]: the flows of the packets, found by one look-up: leased flows with their values, and
//!   the residual programs of known flows
//! - [`interpreter`]: the class of each packet, found by questions (`ask.rs`) and rule lists in the decision
//!   [`graph`]; `trail.rs` tests frequent paths as a whole
//! - [`groups`]: the packets of each class; [`operation`]: the operation of a class on its packets;
//!   `lane.rs` writes eight bytes at a time
//! - `leaving.rs`: the outputs by which the packets leave, without reordering
//!
//! The crate executes any valid [`program`]; it knows neither how programs are made nor how they are
//! proven.

mod ask;
pub mod balance;
mod computed;
pub mod flow_cache;
pub mod graph;
pub mod groups;
pub mod interpreter;
mod lane;
mod leaving;
pub mod operation;
pub mod synthesized;
mod trail;

use element::Class;

/// The element classes of this crate, for the registry.
pub static CLASSES: &[&Class] = &[&synthesized::CLASS];
