//! Machine code for what is done to many packets: the conditions of trails and the writes of classes.
//!
//! Tables of conditions and lanes are read anew for each packet. As machine code they are constants within instructions, and what
//! a packet does not need is not there. Cranelift makes it, with the feature `machine-code`, on x86-64; anywhere else the tables
//! are all there is, and they say what the code has to do: both give the same for every packet.
//!
//! Code is made in a thread of its own (`later.rs`), so that no packet waits for it.
//!
//! Invariants:
//! - Code reads and writes the bytes that it is called with, as many as it was made for, and no others. It calls nothing.
//! - Code is not changed once it is there: its memory is written first, and run then.

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64", unix)))]
mod absent;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod code;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod conditions;
mod later;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod writes;

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64", unix)))]
pub(super) use absent::{Conditions, Writes};
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
pub(super) use conditions::Conditions;
pub(super) use later::Later;
pub use later::Making;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
pub(super) use writes::Writes;

/// Whether there can be machine code.
pub const EXISTS: bool = cfg!(all(feature = "machine-code", target_arch = "x86_64", unix));

/// Checksums that are updated, if they are: of the IPv4 and of the transport header, where they stand, and whether zero stands for
/// none, as in UDP.
pub(super) type Updates = [Option<(usize, bool)>; 2];
