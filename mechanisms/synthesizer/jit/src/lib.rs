//! The JIT compiler: machine code for frequent operations, the conditions of trails and the writes of
//! classes.
//!
//! The interpreter reads tables of conditions and lanes again for each packet. In machine code they are
//! constants within instructions, and unnecessary parts are omitted. Cranelift makes the code, with the
//! feature `machine-code`, on x86-64; elsewhere only the tables exist. The tables are the specification of
//! the code: both give the same result for every packet.
//!
//! Code is made in a thread of its own (`later.rs`), so that no packet waits for it.
//!
//! Invariants:
//! - Code reads and writes the bytes that it is called with, as many as it was made for, and no others. It
//!   calls nothing.
//! - Code is immutable: its memory is written first, and executed then.

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64", unix)))]
mod absent;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod code;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod conditions;
mod later;
mod tables;
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
mod writes;

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64", unix)))]
pub use absent::{Conditions, Writes};
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
pub use conditions::Conditions;
pub use later::{Later, prepare};
pub use tables::{Check, Constant, Exactly, Lane, ROW};
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
pub use writes::Writes;

/// True if machine code can be made in this build.
pub const EXISTS: bool = cfg!(all(feature = "machine-code", target_arch = "x86_64", unix));

/// The updates of the checksums of the IPv4 and of the transport header, if there are any: the offset of
/// the checksum, and true if a checksum of zero means "no checksum", as in UDP.
pub type Updates = [Option<(usize, bool)>; 2];
