//! Doubly linked lists of table entries, which are given by their index. The arrays never grow beyond the
//! capacity that is reserved at the start.

use std::collections::TryReserveError;

use crate::memory::reserved;

/// The index that means no entry.
pub(super) const NONE: u32 = u32::MAX;

/// The first and the last entry of a list.
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

/// The links between entries. Each entry is in at most one list.
pub(super) struct Links {
    /// For each entry, the indexes of the previous and the next entry in its list.
    of: Vec<[u32; 2]>,
}

impl Links {
    /// Reserves links for entries with indexes below `count`. The first use of an index must follow the
    /// first use of the index before it.
    pub(super) fn new(count: usize) -> Result<Links, TryReserveError> {
        Ok(Links { of: reserved(count)? })
    }

    pub(super) fn before(&self, entry: u32) -> u32 {
        self.of[entry as usize][0]
    }

    pub(super) fn behind(&self, entry: u32) -> u32 {
        self.of[entry as usize][1]
    }

    /// Adds an entry at the end of a list. The entry must be in no list.
    pub(super) fn push(&mut self, list: &mut List, entry: u32) {
        self.insert(list, entry, NONE);
    }

    /// Inserts an entry into a list ahead of the entry `behind`, or at the end if `behind` is [`NONE`]. The
    /// entry must be in no list.
    pub(super) fn insert(&mut self, list: &mut List, entry: u32, behind: u32) {
        let before = if behind == NONE { list.last } else { self.before(behind) };
        put(&mut self.of, entry, [before, behind]);
        self.join(list, before, entry);
        self.join(list, entry, behind);
    }

    /// Removes an entry from the list that it is in.
    pub(super) fn remove(&mut self, list: &mut List, entry: u32) {
        let [before, behind] = self.of[entry as usize];
        self.join(list, before, behind);
    }

    /// Links the entries `before` and `behind` as neighbours. [`NONE`] means that the other entry becomes
    /// the first or last entry of the list.
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

/// Writes the value of an entry. The index must have been used before, or be the next index that was never
/// used.
pub(super) fn put<T>(all: &mut Vec<T>, entry: u32, value: T) {
    match all.get_mut(entry as usize) {
        Some(old) => *old = value,
        None => {
            debug_assert!(all.len() == entry as usize && all.len() < all.capacity());
            all.push(value);
        }
    }
}
