//! Looking up the flows of a whole batch.

use element::{Batch, Packet};
use flow::{Directed, FiveTupleKey, FlowId, FlowTable, Key, KeyHasher, TableError};
use packet::BATCH_CAPACITY;
use wire::FiveTuple;

/// Flows that are looked at for idle ones when there is no room for another.
pub(crate) const LOOKED_AT: usize = 64;

/// A table of flows, and the room to look up those of a batch together.
pub(crate) struct Flows {
    pub(crate) table: FlowTable<FiveTupleKey>,
    hasher: KeyHasher,
    /// Per packet of the batch, its place in the arrays below.
    places: Vec<Option<usize>>,
    keys: Vec<FiveTupleKey>,
    turned: Vec<bool>,
    hashes: Vec<u32>,
    ids: Vec<Option<FlowId>>,
}

/// What is known of a packet's flow.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) key: FiveTupleKey,
    pub(crate) hash: u32,
    /// Where the flow was in the table before the batch; it may have gone since.
    pub(crate) id: Option<FlowId>,
    /// Whether the key is that of the other direction.
    pub(crate) turned: bool,
}

impl Flows {
    /// For at most so many flows.
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

    /// Chooses the hash function; only while there are no flows.
    pub(crate) fn seed(&mut self, seed: u64) {
        debug_assert_eq!(self.table.stats().entries, 0);
        self.hasher = KeyHasher::new(seed);
    }

    /// The hash of a key.
    pub(crate) fn hash(&self, key: &FiveTupleKey) -> u32 {
        self.hasher.hash(key)
    }

    /// What is known of one packet's flow.
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

    /// Finds the flows of all packets of a batch, so that waits for memory overlap. With `both_directions`, the two
    /// directions of a flow are one.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        batch: &Batch,
        both_directions: bool,
        mut locate: impl FnMut(&Packet) -> Option<FiveTuple>,
    ) {
        self.places.clear();
        self.keys.clear();
        self.turned.clear();
        self.hashes.clear();
        for packet in batch.iter() {
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

    /// The flow of the packet at this place of the batch; `None` if it has none.
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

/// The same key for both directions of a flow, and whether it is that of the other direction.
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
