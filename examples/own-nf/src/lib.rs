//! Examples of custom network functions, and a program that runs configurations with them.
//!
//! [`drop_short`] is the shortest possible element. [`firewall`] is a complete small network function,
//! including its manual; [`nat`] is the translator of Figure 5 of the paper on Sprayer. Each of these two
//! is a [`sprayer::function::Function`] and a class. `main.rs` is the command line with these classes:
//!
//! ```text
//! cargo run --release -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
//! ```

pub mod drop_short;
pub mod firewall;
pub mod nat;

use element::Class;

/// All classes of this crate.
pub static CLASSES: &[&Class] = &[&drop_short::CLASS, &firewall::CLASS, &nat::CLASS];
