//! The index by which a list is found from the hash of its flow.
//!
//! A table with linear probing (Knuth, The Art of Computer Programming, volume 3, section 6.4): an entry is
//! at the place that its hash gives, or at one of the next places. While there is memory, at least three
//! quarters of the places are empty, so that a search mostly ends at its first place. Only lists that hold
//! values have an entry, so the table stays in the caches however many flows there are.

/// The number of a list that does not exist.
pub(super) const NO_LIST: u32 = u32::MAX;

/// A place of the index: the hash of a flow and the number of its list, or [`NO_LIST`] if it is empty.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    list: u32,
}

const EMPTY: Entry = Entry { hash: 0, list: NO_LIST };

/// The entries of all lists that hold values.
pub(super) struct Index {
    /// The places; their number is a power of two.
    entries: Vec<Entry>,
    /// The number of places that are not empty.
    used: usize,
}

impl Index {
    /// The initial number of places.
    const SMALL: usize = if cfg!(test) { 4 } else { 2048 };

    pub(super) fn new() -> Index {
        Index { entries: vec![EMPTY; Index::SMALL], used: 0 }
    }

    /// Returns the index in `entries` of place number `place`, which may be any number.
    #[inline(always)]
    fn wrap(&self, place: usize) -> usize {
        place & (self.entries.len() - 1)
    }

    /// Returns the list with this hash for which `is_match` is true.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, is_match: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = hash as usize;
        loop {
            let entry = self.entries[self.wrap(place)];
            if entry.list == NO_LIST {
                return None;
            }
            if entry.hash == hash && is_match(entry.list) {
                return Some(entry.list);
            }
            place += 1;
        }
    }

    /// True if there is room for `more` further lists. At least one place stays empty, at which searches end.
    #[inline(always)]
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.used + more < self.entries.len()
    }

    /// Adds a list, which must not be in the index yet. There must be room for it
    /// ([`has_room`](Self::has_room)).
    #[inline(always)]
    pub(super) fn insert(&mut self, hash: u32, list: u32) {
        if 4 * self.used >= self.entries.len() {
            self.grow();
        }
        self.used += 1;
        self.put(Entry { hash, list });
    }

    #[inline(always)]
    fn put(&mut self, entry: Entry) {
        let mut place = self.wrap(entry.hash as usize);
        while self.entries[place].list != NO_LIST {
            place = self.wrap(place + 1);
        }
        self.entries[place] = entry;
    }

    /// Doubles the number of places. Does nothing if memory for it cannot be allocated.
    #[cold]
    fn grow(&mut self) {
        let (mut larger, length) = (Vec::new(), 2 * self.entries.len());
        if larger.try_reserve_exact(length).is_err() {
            return;
        }
        larger.resize(length, EMPTY);
        let before = std::mem::replace(&mut self.entries, larger);
        before.into_iter().filter(|entry| entry.list != NO_LIST).for_each(|entry| self.put(entry));
    }

    /// Removes a list. Does nothing if the list is not in the index.
    #[inline(always)]
    pub(super) fn remove(&mut self, hash: u32, list: u32) {
        let mut hole = self.wrap(hash as usize);
        while self.entries[hole].list != list {
            if self.entries[hole].list == NO_LIST {
                return;
            }
            hole = self.wrap(hole + 1);
        }
        self.used -= 1;
        // Later entries that are not at their own place move forward, so that no search ends at the hole.
        let mut place = self.wrap(hole + 1);
        while self.entries[place].list != NO_LIST {
            let entry = self.entries[place];
            let distance = self.wrap(place.wrapping_sub(entry.hash as usize));
            if distance >= self.wrap(place.wrapping_sub(hole)) {
                self.entries[hole] = entry;
                hole = place;
            }
            place = self.wrap(place + 1);
        }
        self.entries[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_index_finds_what_a_map_finds(
            ops in proptest::collection::vec((0u32..40, 0u32..6, any::<bool>()), 0..300),
        ) {
            let (mut index, mut map) = (Index::new(), BTreeMap::new());
            // Few different hashes, so that entries are not at their own place.
            let hash_of = |list: u32, spread: u32| (list % 7).wrapping_sub(3 * spread);
            for (list, spread, adds) in ops {
                match map.get(&list) {
                    None if adds => {
                        map.insert(list, hash_of(list, spread));
                        index.insert(hash_of(list, spread), list);
                    }
                    Some(&hash) if !adds => {
                        map.remove(&list);
                        index.remove(hash, list);
                    }
                    _ => {}
                }
                for list in 0..40 {
                    for spread in 0..6 {
                        let hash = hash_of(list, spread);
                        let expected = (map.get(&list) == Some(&hash)).then_some(list);
                        prop_assert_eq!(index.find(hash, |found| found == list), expected);
                    }
                }
                prop_assert_eq!(index.used, map.len());
            }
        }
    }
}
