//! A flow table with look-up of the flows of a whole batch.

use element::Packet;
use flow::{Directed, FiveTupleKey, FlowId, FlowTable, Key, KeyHasher, TableError};
use packet::BATCH_CAPACITY;
use wire::FiveTuple;

/// The maximum number of table entries that an element examines for an idle flow that it can evict when the
/// table is full.
pub(crate) const LOOKED_AT: usize = 64;

/// A table of flows by five-tuple. It also has the buffers for one look-up of all flows of a batch.
pub(crate) struct Flows {
    pub(crate) table: FlowTable<FiveTupleKey>,
    hasher: KeyHasher,
    /// For each packet of the batch, the index of its key in `keys`, `turned`, `hashes` and `ids`. `None` if
    /// the packet has no five-tuple; these vectors then have no entry for it.
    places: Vec<Option<usize>>,
    keys: Vec<FiveTupleKey>,
    turned: Vec<bool>,
    hashes: Vec<u32>,
    ids: Vec<Option<FlowId>>,
}

/// The key of a packet's flow, and the flow's table entry if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) key: FiveTupleKey,
    pub(crate) hash: u32,
    /// The id that the flow had in the table when it was looked up; `None` if it was not in the table. The
    /// flow may have been removed since, for an earlier packet of the batch.
    pub(crate) id: Option<FlowId>,
    /// True if the key is the packet's five-tuple reversed.
    pub(crate) turned: bool,
}

impl Flows {
    /// Returns an empty table for at most `capacity` flows.
    ///
    /// # Errors
    /// If memory for the table cannot be reserved.
    pub(crate) fn new(capacity: usize) -> Result<Flows, TableError> {
        Ok(Flows {
            table: FlowTable::new(capacity)?,
            hasher: KeyHasher::default(),
            places: Vec::with_capacity(BATCH_CAPACITY),
            keys: Vec::with_capacity(BATCH_CAPACITY),
            turned: Vec::with_capacity(BATCH_CAPACITY),
            hashes: Vec::with_capacity(BATCH_CAPACITY),
            ids: Vec::with_capacity(BATCH_CAPACITY),
        })
    }

    /// Sets the seed of the hash function. The table must be empty, because the hashes of its entries would
    /// no longer agree.
    pub(crate) fn seed(&mut self, seed: u64) {
        debug_assert_eq!(self.table.stats().entries, 0);
        self.hasher = KeyHasher::new(seed);
    }

    /// Returns the hash under which the table stores a key.
    pub(crate) fn hash(&self, key: &FiveTupleKey) -> u32 {
        self.hasher.hash(key)
    }

    /// Looks up the flow of one packet with this five-tuple. With `both_directions`, both directions of a
    /// connection have the same key.
    pub(crate) fn look_up_one(&self, tuple: &FiveTuple, both_directions: bool) -> Known {
        let (key, turned) = self.key(tuple, both_directions);
        let hash = self.hasher.hash(&key);
        Known { key, hash, id: self.table.lookup(&key, hash), turned }
    }

    #[inline]
    fn key(&self, tuple: &FiveTuple, both_directions: bool) -> (FiveTupleKey, bool) {
        let key = FiveTupleKey::new(tuple, 0);
        if both_directions { ordered(key) } else { (key, false) }
    }

    /// Looks up the flows of packets at once, so that the memory accesses overlap; [`known`](Self::known)
    /// then returns the results. `locate` returns a packet's five-tuple, or `None` to leave the packet out.
    /// With `both_directions`, both directions of a connection have the same key.
    #[inline]
    pub(crate) fn look_up<'p>(
        &mut self,
        packets: impl Iterator<Item = &'p Packet>,
        both_directions: bool,
        mut locate: impl FnMut(&Packet) -> Option<FiveTuple>,
    ) {
        self.places.clear();
        self.keys.clear();
        self.turned.clear();
        self.hashes.clear();
        for packet in packets {
            let Some(tuple) = locate(packet) else {
                self.places.push(None);
                continue;
            };
            let (key, turned) = self.key(&tuple, both_directions);
            self.places.push(Some(self.keys.len()));
            self.hashes.push(self.hasher.hash(&key));
            self.keys.push(key);
            self.turned.push(turned);
        }
        self.ids.clear();
        self.ids.resize(self.keys.len(), None);
        self.table.lookup_batch(&self.keys, &self.hashes, &mut self.ids);
    }

    /// Returns the result of the last [`look_up`](Self::look_up) for the packet with this index;
    /// `None` if the packet was left out.
    #[inline]
    pub(crate) fn known(&self, packet: usize) -> Option<Known> {
        let place = (*self.places.get(packet)?)?;
        Some(Known {
            key: *self.keys.get(place)?,
            hash: *self.hashes.get(place)?,
            id: *self.ids.get(place)?,
            turned: *self.turned.get(place)?,
        })
    }
}

/// Returns the smaller of a key and its reverse, and true if that is the reverse. The smaller key is the same
/// for both directions of a connection.
#[inline]
fn ordered(key: FiveTupleKey) -> (FiveTupleKey, bool) {
    let other = key.reversed();
    if other.words() < key.words() { (other, true) } else { (key, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_one_key() {
        let there = FiveTuple::v4(([10, 0, 0, 1].into(), 7), ([10, 0, 0, 2].into(), 8), 6);
        let [a, b] = [there, there.reversed()].map(|tuple| ordered(FiveTupleKey::new(&tuple, 0)));
        assert_eq!(a.0, b.0);
        assert_ne!(a.1, b.1);
    }
}
