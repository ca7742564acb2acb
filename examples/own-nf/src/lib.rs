//! Network functions of one's own, and a program that runs configurations with them.
//!
//! [`firewall`] is a small function from its doc block to its last line; [`nat`] is that of Figure 5 of the paper
//! on Sprayer. Each is a [`sprayer::function::Function`] and a class; `main.rs` is the command line with these classes:
//!
//! ```text
//! cargo run --release -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
//! ```

pub mod firewall;
pub mod nat;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[&firewall::CLASS, &nat::CLASS];
