//! The JIT compiler: machine code for the conditions of frequent trails, and for the writes of frequent
//! classes.
//!
//! The interpreter reads tables of conditions and lanes again for each packet. In machine code, the tables
//! are constants within instructions, and parts that have no effect are omitted. Cranelift makes the code,
//! with the feature `machine-code`, on Unix systems on x86-64; in other builds only the tables exist. The
//! tables are the specification of the code: both give the same result for every packet.
//!
//! Code is made in a thread of its own (`later.rs`), so that no packet waits for it; with `MACHINE_CODE now`,
//! in the thread that needs it.
//!
//! Invariants:
//! - Code reads and writes only the bytes that it is called with: parts of a packet and of the row of its
//!   flow (the bytes that are stored with the flow's key). It accesses no bytes beyond the lengths that it
//!   was compiled for. It calls no other function.
//! - Code is immutable: its memory is first written, then made executable, and not written again.

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
pub use tables::{Constant, Exactly, Lane, ROW, RangeCheck};
#[cfg(all(feature = "machine-code", target_arch = "x86_64", unix))]
pub use writes::Writes;

/// True if machine code can be made in this build.
pub const EXISTS: bool = cfg!(all(feature = "machine-code", target_arch = "x86_64", unix));

/// The updates of the checksums of the IPv4 header and of the transport header; `None` for a checksum that
/// does not change. An update is the offset of the checksum field, and true if a checksum of zero means "no
/// checksum", as in UDP, and stays zero.
pub type Updates = [Option<(usize, bool)>; 2];
