//! Elements at the edge of the graph: captures now, interfaces later.

pub mod control_socket;
pub mod encapsulation;
pub mod from_dump;
pub mod to_dump;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&control_socket::CLASS, &from_dump::CLASS, &to_dump::CLASS];
