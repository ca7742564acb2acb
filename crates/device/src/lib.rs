//! Elements at the edge of the graph: captures now, interfaces later.

pub mod encapsulation;
pub mod from_dump;
pub mod to_dump;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&from_dump::CLASS, &to_dump::CLASS];
