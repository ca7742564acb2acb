//! The memory that each source holds, and the choice of the packet to evict when there is no room.
//!
//! Sources are ranked by the slots that they hold, in powers of two. Each completed packet lowers the rank
//! of its source by one, by at most [`TRUST`] ranks in total; each evicted packet raises it again. The
//! victim is the source of the highest rank; of several, the source that reached this rank first. So a
//! source that floods loses its packets before all others; a flood from any number of sources does not
//! evict packets of sources whose packets are completed; and finding the victim takes a constant number of
//! steps.

use element::Timestamp;
use flow::{AddressKey, FlowId, FlowTable, Inserted, KeyHasher};

use super::Refusal;
use super::links::{Links, List, NONE, put};
use crate::memory::reserved;

/// The largest number of ranks by which completed packets lower a source's rank: such a source may hold 64
/// times as much as others.
const TRUST: u8 = 6;
/// The number of ranks.
const RANKS: usize = 32 + TRUST as usize;

struct Source {
    id: FlowId,
    /// The sets of this source that are not complete, oldest first.
    sets: List,
    slots: u32,
    trust: u8,
    /// The rank, whose list contains the source; `None` for sources that hold nothing.
    rank: Option<u8>,
}

impl Source {
    fn due_rank(&self) -> Option<u8> {
        let slots = self.slots.checked_ilog2()? as u8;
        Some(slots + TRUST - self.trust)
    }
}

/// All sources that hold something, and sources that have completed packets recently.
pub(super) struct Sources {
    table: FlowTable<AddressKey>,
    all: Vec<Source>,
    links: Links,
    ranks: [List; RANKS],
    /// A bit for each rank that has sources.
    taken: u64,
    /// Sources that hold nothing, in the order of their last packets.
    idle: List,
    idle_count: usize,
    most_idle: usize,
    /// The links of sets in the lists of their sources.
    of_source: Links,
}

/// The number of bytes that a source takes in addition to its fragments.
pub(super) const BYTES: usize = super::TABLE_BYTES + size_of::<Source>() + size_of::<[u32; 2]>();

impl Sources {
    /// Reserves memory for `sets` sets and `most_idle` sources that hold nothing.
    pub(super) fn new(sets: usize, most_idle: usize) -> Result<Sources, Refusal> {
        let most = sets + most_idle + 1;
        Ok(Sources {
            table: FlowTable::new(most)?,
            all: reserved(most)?,
            links: Links::new(most)?,
            ranks: [List::EMPTY; RANKS],
            taken: 0,
            idle: List::EMPTY,
            idle_count: 0,
            most_idle,
            of_source: Links::new(sets)?,
        })
    }

    /// Adds a set to its source, and returns the number of the source.
    pub(super) fn open(&mut self, hasher: &KeyHasher, key: &AddressKey, set: u32) -> Option<u32> {
        let source = match self.table.insert(key, hasher.hash(key), Timestamp::ZERO).ok()? {
            Inserted::Present(id) => id.index(),
            Inserted::New(id) => {
                let new = Source { id, sets: List::EMPTY, slots: 0, trust: 0, rank: None };
                put(&mut self.all, id.index(), new);
                self.links.push(&mut self.idle, id.index());
                self.idle_count += 1;
                id.index()
            }
        };
        self.of_source.push(&mut self.all[source as usize].sets, set);
        Some(source)
    }

    /// Removes a set (the fragments of one datagram) from its source, because it is complete or was given up.
    /// A complete set raises the trust in the source, an incomplete set lowers it; sets of sources with the
    /// least trust are evicted first.
    pub(super) fn close(&mut self, source: u32, set: u32, is_complete: bool) {
        let of = &mut self.all[source as usize];
        self.of_source.remove(&mut of.sets, set);
        of.trust = if is_complete { (of.trust + 1).min(TRUST) } else { of.trust.saturating_sub(1) };
        // A source that completes a packet moves to the end of its rank's list.
        self.place(source, is_complete);
        if self.all[source as usize].sets.is_empty() && self.all[source as usize].trust == 0 {
            self.forget(source);
        }
        while self.idle_count > self.most_idle && self.idle.first != NONE {
            self.forget(self.idle.first);
        }
    }

    /// Changes the number of slots that a source holds.
    pub(super) fn hold(&mut self, source: u32, slots: i64) {
        let of = &mut self.all[source as usize];
        of.slots = of.slots.saturating_add_signed(slots as i32);
        self.place(source, false);
    }

    /// Moves a source to the end of its rank's list, if the rank has changed or `always` is true.
    fn place(&mut self, source: u32, always: bool) {
        let of = &mut self.all[source as usize];
        let (was, due) = (of.rank, of.due_rank());
        if was == due && !always {
            return;
        }
        of.rank = due;
        self.unlink(source, was);
        match due {
            None => {
                self.links.push(&mut self.idle, source);
                self.idle_count += 1;
            }
            Some(rank) => {
                self.links.push(&mut self.ranks[rank as usize], source);
                self.taken |= 1 << rank;
            }
        }
    }

    fn unlink(&mut self, source: u32, rank: Option<u8>) {
        let Some(rank) = rank else {
            self.idle_count -= 1;
            return self.links.remove(&mut self.idle, source);
        };
        let list = &mut self.ranks[rank as usize];
        self.links.remove(list, source);
        if list.is_empty() {
            self.taken &= !(1 << rank);
        }
    }

    /// Removes a source that holds nothing.
    fn forget(&mut self, source: u32) {
        self.unlink(source, None);
        self.table.remove(self.all[source as usize].id);
    }

    /// Returns the set to evict: the oldest set of the source with the highest rank.
    pub(super) fn victim(&self) -> Option<u32> {
        let rank = self.taken.checked_ilog2()?;
        let source = self.ranks[rank as usize].first;
        let set = self.all.get(source as usize)?.sets.first;
        (set != NONE).then_some(set)
    }
}
