//! Doubly linked lists of numbered things, in arrays that never grow beyond what was reserved.

use std::collections::TryReserveError;

use crate::memory::reserved;

/// No thing.
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

/// The links of things that are each in one list at most.
pub(super) struct Links {
    /// The one before and the one behind.
    of: Vec<[u32; 2]>,
}

impl Links {
    /// For things with numbers below `count`, whose first ones come one after the other.
    pub(super) fn new(count: usize) -> Result<Links, TryReserveError> {
        Ok(Links { of: reserved(count)? })
    }

    pub(super) fn before(&self, thing: u32) -> u32 {
        self.of[thing as usize][0]
    }

    pub(super) fn behind(&self, thing: u32) -> u32 {
        self.of[thing as usize][1]
    }

    /// Puts a thing that is in no list at the end.
    pub(super) fn push(&mut self, list: &mut List, thing: u32) {
        self.insert(list, thing, NONE);
    }

    /// Puts a thing that is in no list in front of another one; at the end, if that is none.
    pub(super) fn insert(&mut self, list: &mut List, thing: u32, behind: u32) {
        let before = if behind == NONE { list.last } else { self.before(behind) };
        put(&mut self.of, thing, [before, behind]);
        self.join(list, before, thing);
        self.join(list, thing, behind);
    }

    /// Takes a thing out of its list.
    pub(super) fn remove(&mut self, list: &mut List, thing: u32) {
        let [before, behind] = self.of[thing as usize];
        self.join(list, before, behind);
    }

    /// Makes two things neighbours; one of them may be the end.
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

/// Writes the value of a numbered thing; new numbers come one after the other.
pub(super) fn put<T>(all: &mut Vec<T>, thing: u32, value: T) {
    match all.get_mut(thing as usize) {
        Some(old) => *old = value,
        None => {
            debug_assert!(all.len() == thing as usize && all.len() < all.capacity());
            all.push(value);
        }
    }
}
