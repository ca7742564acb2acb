//! The move to a larger or smaller table, a few mappings at a time, so that no packet has to wait for the
//! whole move.
//!
//! During the move there are two tables. New mappings go to the new table. A mapping is moved when a packet
//! looks it up, and each batch and each new mapping move a few others. A key that is not found in the new
//! table is looked up in the old one.

use element::Timestamp;
use flow::{FlowId, FlowTable, Ipv4FlowKey, MappedKey};

use super::{Session, Store, WINDOW};
use crate::nat::change::Change;

/// The number of sessions that are examined with each new mapping. When a table grows, all sessions have been
/// moved before new mappings fill the new table.
pub(super) const PER_MAPPING: usize = 4;

/// The number of sessions that are examined with each batch, and moved if they are still in the old table.
const PER_BATCH: usize = 64;

/// The table from which mappings are moved.
pub(super) struct Old {
    table: FlowTable<MappedKey>,
    /// The index of the session to examine next.
    next: usize,
}

impl Store {
    /// Returns the number of keys in the table and, during a move, in the table from which keys are moved.
    pub(super) fn entries(&self) -> usize {
        self.table.stats().entries + self.old.as_ref().map_or(0, |old| old.table.stats().entries)
    }

    /// Returns the table that has a session's keys: the current table or, while keys are moved to it, the
    /// previous table if the session has not been moved yet.
    pub(super) fn table_of(&self, session: &Session) -> &FlowTable<MappedKey> {
        match &self.old {
            Some(old) if session.era != self.era => &old.table,
            _ => &self.table,
        }
    }

    /// Returns the table with number `era`, to be changed. A session has the number of the table in which its
    /// keys are.
    pub(super) fn table_mut(&mut self, era: u8) -> &mut FlowTable<MappedKey> {
        match &mut self.old {
            Some(old) if era != self.era => &mut old.table,
            _ => &mut self.table,
        }
    }

    /// Starts a move to a new table with a capacity in keys; a move that is still going on is completed
    /// first. Returns false, and starts nothing, if there is no memory.
    #[cold]
    pub(super) fn begin_move(&mut self, capacity: usize) -> bool {
        // A single call may not complete the move, because it stops early if a session had to be removed.
        while self.old.is_some() {
            self.move_some(usize::MAX);
        }
        let Some(table) = self.another_table(capacity) else { return false };
        self.end_leases();
        let table = std::mem::replace(&mut self.table, table);
        self.old = Some(Old { table, next: 0 });
        self.era = self.era.wrapping_add(1);
        // Look-ups from before the move have ids of the old table, which are now invalid.
        self.epoch += 1;
        true
    }

    /// Examines [`PER_BATCH`] sessions, and moves their keys if these are still in the old table. Called with
    /// each batch.
    #[cold]
    pub(super) fn move_with_batch(&mut self) {
        self.move_some(PER_BATCH);
    }

    /// Examines the next `looks` sessions, and moves the keys that are still in the old table. Stops early if
    /// the keys of a session do not fit. After the last session the old table is released.
    pub(super) fn move_some(&mut self, looks: usize) {
        for _ in 0..looks {
            let Some(old) = &mut self.old else { return };
            let place = old.next;
            old.next += 1;
            if place >= self.sessions.len() {
                self.old = None;
                return;
            }
            if !self.bring(place as u32) {
                return;
            }
        }
    }

    /// Moves the keys of a session to the new table, if they are still in the old table. Returns false if
    /// they do not fit: then all sessions have been renumbered in a rebuilt table, or this session has been
    /// removed.
    fn bring(&mut self, place: u32) -> bool {
        if self.try_to_bring(place).is_some() {
            return true;
        }
        // The keys do not fit, because too many keys fall into one bucket of the new table. So a table is
        // rebuilt with all keys, if necessary with another seed of the hash function.
        if !self.rebuild(self.table.stats().capacity) {
            self.remove(place);
        }
        false
    }

    /// Moves the keys of a session to the new table, if they are still in the old table. Returns `None`, and
    /// moves neither key, if one of them does not fit or there is no such session.
    fn try_to_bring(&mut self, place: u32) -> Option<()> {
        let session = self.sessions.get_mut(place as usize)?;
        if !session.is_in_use() || session.era == self.era {
            return Some(());
        }
        let Some(old) = &mut self.old else { return Some(()) };
        let before = session.keys;
        let mut after = [None; 2];
        for (id, moved) in before.iter().zip(&mut after) {
            let Some(id) = *id else { continue };
            let (key, last): (MappedKey, Timestamp) = (*old.table.key(id)?, old.table.last_seen(id)?);
            *moved = self.table.insert(&key, self.hasher.hash(&key), last).ok().map(|inserted| inserted.id());
            if moved.is_none() {
                after.into_iter().flatten().for_each(|id| _ = self.table.remove(id));
                return None;
            }
        }
        before.into_iter().flatten().for_each(|id| _ = old.table.remove(id));
        (session.keys, session.era) = (after, self.era);
        Some(())
    }

    /// Returns the rewriting of packets with a key in the table from which keys are moved; `None` if the key
    /// is not there, or there is no move.
    pub(super) fn find_in_old(&self, key: &Ipv4FlowKey) -> Option<Change> {
        let old = self.old.as_ref()?;
        let id = old.table.lookup(key, self.hasher.hash(key))?;
        old.table.key(id).map(|key| Change::unpacked(key.value()))
    }

    /// Moves the mapping with this key from the old table to the new one. Returns the new id; `None` if the
    /// old table does not have the key, or if the mapping did not fit and was removed.
    #[cold]
    pub(super) fn bring_key(&mut self, key: &Ipv4FlowKey) -> Option<FlowId> {
        let session = self.find_in_old(key)?.session;
        self.bring(session);
        self.table.lookup(key, self.hasher.hash(key))
    }

    /// Moves the mappings of the keys in `keys` that were not found in the new table. Sets `found` at the
    /// indexes of these keys to the new ids, or to `None` for keys that no mapping has or whose mapping did
    /// not fit. If the table is rebuilt during the move, sets all elements of `found` again.
    #[cold]
    pub(super) fn bring_all(&mut self, keys: &[Ipv4FlowKey], found: &mut [Option<FlowId>; WINDOW]) {
        let epoch = self.epoch;
        for (key, found) in keys.iter().zip(found.iter_mut()) {
            if found.is_none() {
                *found = self.find_key(key);
            }
        }
        if self.epoch != epoch {
            // The table was rebuilt: all keys have new ids, so all are looked up again.
            for (key, found) in keys.iter().zip(found) {
                *found = self.find_key(key);
            }
        }
    }

    /// Returns the number of keys that are still in the table from which keys are moved; `None` if there is
    /// no move.
    #[cfg(test)]
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.old.as_ref().map(|old| old.table.stats().entries)
    }
}
