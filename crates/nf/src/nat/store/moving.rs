//! The move to a larger or smaller table, a few mappings at a time, so that no packet waits for all of
//! them.
//!
//! While there are two tables, new mappings are added to the new table. A mapping moves when a packet is
//! found by it; each batch and each new mapping move a few others. A key that is not in the new table is
//! looked up in the old one.

use element::Timestamp;
use flow::{FlowId, FlowTable, Ipv4FlowKey, MappedKey};

use super::{Session, Store, WINDOW};
use crate::nat::change::Change;

/// The number of sessions that are examined with each new mapping: enough for all to have moved before the
/// new table is full.
pub(super) const PER_MAPPING: usize = 4;

/// The number of sessions that are examined with each batch.
const PER_BATCH: usize = 64;

/// The table from which mappings are moved.
pub(super) struct Old {
    table: FlowTable<MappedKey>,
    /// The session to examine next.
    next: usize,
}

impl Store {
    /// Returns the number of keys in all tables.
    pub(super) fn entries(&self) -> usize {
        self.table.stats().entries + self.old.as_ref().map_or(0, |old| old.table.stats().entries)
    }

    /// Returns the table that has a session's keys.
    pub(super) fn table_of(&self, session: &Session) -> &FlowTable<MappedKey> {
        match &self.old {
            Some(old) if session.era != self.era => &old.table,
            _ => &self.table,
        }
    }

    /// Returns the table with the keys of sessions of an era, to be changed.
    pub(super) fn table_mut(&mut self, era: u8) -> &mut FlowTable<MappedKey> {
        match &mut self.old {
            Some(old) if era != self.era => &mut old.table,
            _ => &mut self.table,
        }
    }

    /// Starts to move to a table of a capacity. Returns false if there is no memory for it.
    #[cold]
    pub(super) fn begin_move(&mut self, capacity: usize) -> bool {
        // A single call may not be enough, because it stops if a session had to be removed.
        while self.old.is_some() {
            self.move_some(usize::MAX);
        }
        let Some(table) = self.another_table(capacity) else { return false };
        self.end_leases();
        let table = std::mem::replace(&mut self.table, table);
        self.old = Some(Old { table, next: 0 });
        self.era = self.era.wrapping_add(1);
        // Ids belong to the new table from now on.
        self.epoch += 1;
        true
    }

    /// Moves a few sessions with each batch.
    #[cold]
    pub(super) fn move_with_batch(&mut self) {
        self.move_some(PER_BATCH);
    }

    /// Examines a number of sessions, and moves those that have not moved yet.
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

    /// Moves a session to the new table, if it is not there. Returns false if this has renumbered all
    /// sessions or removed this session.
    fn bring(&mut self, place: u32) -> bool {
        if self.try_to_bring(place).is_some() {
            return true;
        }
        // Too many keys fall into one bucket: another hash function is needed.
        if !self.rebuild(self.table.stats().capacity) {
            self.remove(place);
        }
        false
    }

    /// Moves a session; returns `None`, and changes nothing, if there is no room.
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

    /// Returns the change of a packet by the old table.
    pub(super) fn find_in_old(&self, key: &Ipv4FlowKey) -> Option<Change> {
        let old = self.old.as_ref()?;
        let id = old.table.lookup(key, self.hasher.hash(key))?;
        old.table.key(id).map(|key| Change::unpacked(key.value()))
    }

    /// Moves the key of a packet to the new table, and returns its id.
    #[cold]
    pub(super) fn bring_key(&mut self, key: &Ipv4FlowKey) -> Option<FlowId> {
        let session = self.find_in_old(key)?.session;
        self.bring(session);
        self.table.lookup(key, self.hasher.hash(key))
    }

    /// Moves the keys of a batch that were not found.
    #[cold]
    pub(super) fn bring_all(&mut self, keys: &[Ipv4FlowKey], found: &mut [Option<FlowId>; WINDOW]) {
        let epoch = self.epoch;
        for (key, found) in keys.iter().zip(found.iter_mut()) {
            if found.is_none() {
                *found = self.find_key(key);
            }
        }
        if self.epoch != epoch {
            // All keys have other ids, and are in one table again.
            for (key, found) in keys.iter().zip(found) {
                *found = self.find_key(key);
            }
        }
    }

    /// Returns the number of keys that have not moved yet, if a move is going on.
    #[cfg(test)]
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.old.as_ref().map(|old| old.table.stats().entries)
    }
}
