//! Doubly linked lists of table entries by their index, in arrays that never grow beyond the reserved
//! capacity.

use std::collections::TryReserveError;

use crate::memory::reserved;

/// The index that means no entry.
pub(super) const NONE: u32 = u32::MAX;

/// The ends of a list.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NONE, last: NONE };

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// The links of entries, each of which is in at most one list.
pub(super) struct Links {
    /// The previous and the next entry.
    of: Vec<[u32; 2]>,
}

impl Links {
    /// Reserves links for entries with an index below `count`. Indexes are used in ascending order.
    pub(super) fn new(count: usize) -> Result<Links, TryReserveError> {
        Ok(Links { of: reserved(count)? })
    }

    pub(super) fn before(&self, entry: u32) -> u32 {
        self.of[entry as usize][0]
    }

    pub(super) fn behind(&self, entry: u32) -> u32 {
        self.of[entry as usize][1]
    }

    /// Adds an entry that is in no list at the end of a list.
    pub(super) fn push(&mut self, list: &mut List, entry: u32) {
        self.insert(list, entry, NONE);
    }

    /// Inserts an entry that is in no list as the predecessor of the entry `behind`, or at the end if
    /// `behind` is [`NONE`].
    pub(super) fn insert(&mut self, list: &mut List, entry: u32, behind: u32) {
        let before = if behind == NONE { list.last } else { self.before(behind) };
        put(&mut self.of, entry, [before, behind]);
        self.join(list, before, entry);
        self.join(list, entry, behind);
    }

    /// Removes an entry from its list.
    pub(super) fn remove(&mut self, list: &mut List, entry: u32) {
        let [before, behind] = self.of[entry as usize];
        self.join(list, before, behind);
    }

    /// Links two neighbouring entries; [`NONE`] means the end of the list on that side.
    fn join(&mut self, list: &mut List, before: u32, behind: u32) {
        match before {
            NONE => list.first = behind,
            before => self.of[before as usize][1] = behind,
        }
        match behind {
            NONE => list.last = before,
            behind => self.of[behind as usize][0] = before,
        }
    }
}

/// Writes the value of an entry. A new index must be the next index.
pub(super) fn put<T>(all: &mut Vec<T>, entry: u32, value: T) {
    match all.get_mut(entry as usize) {
        Some(old) => *old = value,
        None => {
            debug_assert!(all.len() == entry as usize && all.len() < all.capacity());
            all.push(value);
        }
    }
}
