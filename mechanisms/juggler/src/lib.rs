//! The juggler: TCP in order and in large segments, although the network has reordered it.
//!
//! Beside it stands what makes such networks: paths of different delay (`random_path`) and the choice between paths
//! (`path_selector`).

pub mod path_selector;
pub mod random_path;
pub mod tcp_header;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&path_selector::CLASS, &random_path::CLASS];
