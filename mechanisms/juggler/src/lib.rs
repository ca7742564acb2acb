//! The juggler: TCP in order and in large segments, although the network has reordered it.
//!
//! Beside it stands what makes such networks, and what they are good for: paths of different delay (`random_path`), the
//! choice between paths (`path_selector`), links with priorities (`strict_priority`), and bandwidth guarantees by
//! priorities that change from packet to packet (`priority_marker`).

pub mod path_selector;
pub mod priority_marker;
pub mod random_path;
pub mod strict_priority;
pub mod tcp_header;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] =
    &[&path_selector::CLASS, &priority_marker::CLASS, &random_path::CLASS, &strict_priority::CLASS];
