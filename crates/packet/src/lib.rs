//! Packets and the memory that holds them.
//!
//! A [`Packet`] is an owned handle of eight bytes: it can be moved, but not cloned. It points to one cache
//! line of metadata in an array. The packet's bytes lie in a *slot* of a second array. Slots are an odd
//! number of cache lines apart ([`SLOT_STRIDE`]), so that the first lines of neighbouring packets fall into
//! different cache sets. A third array holds Click's annotations. Release builds access it for large
//! packets, and in graphs that use annotations.
//!
//! A packet ends when it is sent, or dropped with a [`DropReason`] that the engine counts. Its slot then
//! returns to its [`Pool`] or [`Store`]. Until then elements may hold the packet. If a handle is dropped by
//! mistake, the slot still returns, the pool counts the packet as `leaked`, and debug builds panic.
//!
//! A pool reserves all its memory at once and takes it into use in steps of 64 MiB. A packet that does not
//! fit into one slot is a list of slots; it has at most 256 KiB.
#![allow(unsafe_code)]

mod annotations;
mod batch;
mod chain;
mod device;
mod front;
mod list;
mod marks;
mod memory;
mod packet;
mod pool;
mod reason;
mod slot;
mod store;
mod time;

pub use annotations::{Annotations, VirtioNet};
pub use batch::{BATCH_CAPACITY, Batch, Drain};
pub use chain::PacketChain;
pub use device::{BufferSpan, DeviceId, Recipient};
pub use list::Chunks;
pub use marks::Marks;
pub use packet::{Offsets, Packet, prefetch_line};
pub use pool::{Pool, PoolError, PoolStats};
pub use reason::DropReason;
pub use slot::{Base, HEADROOM, MAX_PACKET, NO_OFFSET, PacketKind, SLOT_CAPACITY, SLOT_STRIDE};
pub use store::{ReachFromTransport, Restore, Store};
pub use time::Timestamp;
