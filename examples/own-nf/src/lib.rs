//! Network functions of one's own, and a program that runs configurations with them.
//!
//! [`drop_short`] is the shortest element that there is. [`firewall`] is a small network function from its doc block to its last
//! line; [`nat`] is that of Figure 5 of the paper on Sprayer: each of these two is a [`sprayer::function::Function`] and a class.
//! `main.rs` is the command line with these classes:
//!
//! ```text
//! cargo run --release -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
//! ```

pub mod drop_short;
pub mod firewall;
pub mod nat;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&drop_short::CLASS, &firewall::CLASS, &nat::CLASS];
