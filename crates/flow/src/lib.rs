//! Flows.
#![allow(unsafe_code)]

mod bucket;
mod error;
mod hash;
mod id;
mod key;
mod memory;
mod table;

pub use error::{InsertError, MAX_CAPACITY, TableError};
pub use hash::KeyHasher;
pub use id::FlowId;
pub use key::{AddressKey, AddressPairKey, Directed, FiveTupleKey, FragmentKey, Key, MAX_WORDS, SpiKey};
pub use table::{FlowTable, Inserted, SLACK, TableStats};
