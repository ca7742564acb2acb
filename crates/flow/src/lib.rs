//! Flow tables of the data path. They map the key of a packet to the id of its flow. The index in the id is
//! a small number, with which elements index arrays of their own data.
//!
//! | module | holds |
//! | --- | --- |
//! | `key` | [`Key`] and its types: five-tuple, address, address pair, SPI, fragment, NAT; with VLAN |
//! | `hash` | [`KeyHasher`]: seeded hashes, optionally symmetric, made once per packet and passed to tables |
//! | `id` | [`FlowId`]: index and generation |
//! | `table` | [`FlowTable`]: look-up, insert, remove, touch; pairs and holders of flows; expiry |
//! | `states` | [`CoreStates`]: state that the core of a flow writes and all cores read |
//! | `known` | [`KnownFlows`]: an approximate set of the flows of all cores |
//! | [`rss`] | the hash and the queue by which interfaces spread packets over workers |
//! | `notes` | [`FlowNotes`]: data of an element about flows that another element has marked |
//! | `sketch` | [`Sketch`]: approximate packet counts that find heavy flows in little memory |
//! | `bucket`, `memory` | the cache line that points to entries; zeroed memory on huge pages |
//!
//! A [`FlowTable`] belongs to one worker, so nothing is shared or locked. [`CoreStates`] are shared between
//! workers (which are called cores there), but use atomic words instead of locks. Time is a parameter: no
//! module reads a clock.
//!
//! ```
//! use packet::Timestamp;
//! use std::net::Ipv4Addr;
//! use flow::{FiveTupleKey, FlowTable, KeyHasher};
//! use wire::FiveTuple;
//!
//! let (client, server) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
//! let key = FiveTupleKey::new(&FiveTuple::v4((client, 1024), (server, 443), 6), 0);
//! let hasher = KeyHasher::new(1);
//! let hash = hasher.hash(&key);
//! let mut table = FlowTable::new(100_000)?;
//! let mut packets = vec![0u64; 100_000];
//!
//! let id = table.insert(&key, hash, Timestamp::from_secs(1))?.id();
//! packets[id.index() as usize] += 1;
//! assert_eq!(table.lookup(&key, hash), Some(id));
//! table.expire(Timestamp::from_secs(9), Timestamp::from_secs(5), 1000, |id, _key| {
//!     packets[id.index() as usize] = 0;
//! });
//! assert_eq!(table.lookup(&key, hash), None);
//! assert!(!table.is_current(id));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![allow(unsafe_code)]

mod bucket;
mod error;
mod hash;
mod id;
mod key;
mod known;
mod memory;
mod notes;
pub mod rss;
mod sketch;
mod states;
mod table;

pub use error::{InsertError, MAX_CAPACITY, TableError};
pub use hash::KeyHasher;
pub use id::FlowId;
pub use key::{
    AddressKey, AddressPairKey, AddressesAndPorts, Directed, FiveTupleKey, FragmentKey, HostKey, Ipv4FlowKey,
    Key, MAX_WORDS, MappedKey, SpiKey, Valued,
};
pub use known::KnownFlows;
pub use notes::FlowNotes;
pub use sketch::Sketch;
pub use states::{CoreStates, LINGER, Opened, Plain, StateId, TICK};
pub use table::{FlowTable, Inserted, SLACK, TableStats};
