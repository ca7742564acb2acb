//! Packets and the memory that holds them.
//!
//! A [`Packet`] is an owned handle of eight bytes: it can be moved, but not cloned. It points to one line
//! of metadata in a dense array; the packet's bytes lie in a *slot* of a second array. Slots are an odd
//! number of cache lines apart ([`SLOT_STRIDE`]), so that the first lines of neighbouring packets fall into
//! different cache sets. A third array holds Click's annotations, and is accessed only in graphs that use
//! them.
//!
//! A packet ends in one of three ways: it returns to its [`Pool`] (sent or dropped, with a [`DropReason`]
//! counted by the engine), it is held by an element, or its handle is dropped by mistake. In the last case
//! the slot still returns to the pool, the pool counts it as `leaked`, and debug builds panic.
//!
//! All memory of a pool is reserved at once and taken into use in steps of 64 MiB; packets longer than a
//! slot (up to 256 KiB) are lists of slots.
#![allow(unsafe_code)]

mod annotations;
mod batch;
mod device;
mod front;
mod list;
mod marks;
mod memory;
mod pool;
mod reason;
mod slot;
mod store;
mod time;

pub use annotations::{Annotations, VirtioNet};
pub use batch::{BATCH_CAPACITY, Batch, Drain};
pub use device::{DeviceId, Recipient, Span};
pub use list::{Chain, Chunks};
pub use marks::Marks;
pub use pool::{Pool, PoolError, PoolStats};
pub use reason::DropReason;
pub use slot::{
    Base, HEADROOM, MAX_PACKET, NO_OFFSET, Packet, PacketKind, SLOT_CAPACITY, SLOT_STRIDE, prefetch_line,
};
pub use store::{Marked, Restore, Store};
pub use time::Timestamp;
