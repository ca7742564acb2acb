//! The memory that the fragments of each source take, and the choice of the set to evict when memory runs
//! out.
//!
//! The rank of a source is the binary logarithm of the number of slots that its fragments take, reduced by
//! its trust. Each completed datagram raises the trust of its source by one, up to [`TRUST`]; each set that
//! is evicted or dropped lowers it by one. The set to evict is the oldest set of the source with the highest
//! rank; of several such sources, the source for which most time has passed since it reached the rank or
//! completed a datagram.
//!
//! So a source that floods loses its sets before all others, and a flood from any number of sources does not
//! evict sets of a source whose datagrams are completed, unless this source holds much more than each of the
//! others. The set to evict is found in constant time.

use element::Timestamp;
use flow::{AddressKey, FlowId, FlowTable, Inserted, KeyHasher};

use super::Refusal;
use super::links::{Links, List, NONE, put};
use crate::memory::reserved;

/// The highest trust of a source: each completed datagram adds 1, and each set that is evicted or dropped
/// subtracts 1. A source with this trust may hold 2^6 = 64 times as much as a source without trust.
const TRUST: u8 = 6;
/// The number of ranks that sources can have. The rank is the binary logarithm of the number of slots that a
/// source takes, reduced by its trust and increased by [`TRUST`].
const RANKS: usize = 32 + TRUST as usize;

struct Source {
    id: FlowId,
    /// The list of the source's sets, the oldest first.
    sets: List,
    slots: u32,
    trust: u8,
    /// The rank in whose list the source is (see [`RANKS`]); `None` for sources that hold nothing, which are
    /// in the list `idle`.
    rank: Option<u8>,
}

impl Source {
    fn due_rank(&self) -> Option<u8> {
        let slots = self.slots.checked_ilog2()? as u8;
        Some(slots + TRUST - self.trust)
    }
}

/// All sources (hosts that send fragments) of which the store holds fragments, and sources of which it holds
/// no fragments but which are trusted because of completed datagrams.
pub(super) struct Sources {
    table: FlowTable<AddressKey>,
    all: Vec<Source>,
    links: Links,
    ranks: [List; RANKS],
    /// A mask with one bit for each rank (see [`RANKS`]), which is set if any source has the rank.
    taken: u64,
    /// The list of sources of which no fragments are held but which are still trusted, in the order in which
    /// they became idle.
    idle: List,
    idle_count: usize,
    most_idle: usize,
    /// The links of each set to the previous and the next set in the list of its source.
    of_source: Links,
}

/// The memory in bytes that a source takes in addition to its fragments.
pub(super) const BYTES: usize = super::TABLE_BYTES + size_of::<Source>() + size_of::<[u32; 2]>();

impl Sources {
    /// Reserves memory for `sets` sets, and for `most_idle` sources that hold nothing.
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

    /// Adds a set to its source, and returns the index of the source. Returns `None` if the table has no
    /// free entry for a new source.
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

    /// Removes a set from its source, because its datagram is complete or was given up. A complete set raises
    /// the trust in the source, an incomplete set lowers it.
    pub(super) fn close(&mut self, source: u32, set: u32, is_complete: bool) {
        let of = &mut self.all[source as usize];
        self.of_source.remove(&mut of.sets, set);
        of.trust = if is_complete { (of.trust + 1).min(TRUST) } else { of.trust.saturating_sub(1) };
        // A source that has completed a datagram moves to the end of its rank's list, so that other sources
        // of the rank lose their sets first.
        self.place(source, is_complete);
        if self.all[source as usize].sets.is_empty() && self.all[source as usize].trust == 0 {
            self.forget(source);
        }
        while self.idle_count > self.most_idle && self.idle.first != NONE {
            self.forget(self.idle.first);
        }
    }

    /// Adds `slots`, which may be negative, to the number of slots that the fragments of a source take.
    pub(super) fn hold(&mut self, source: u32, slots: i64) {
        let of = &mut self.all[source as usize];
        of.slots = of.slots.saturating_add_signed(slots as i32);
        self.place(source, false);
    }

    /// Moves a source to the end of the list of its rank (see [`RANKS`]), if the rank has changed or `always`
    /// is true.
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

    /// Removes a source that holds nothing, with its trust.
    fn forget(&mut self, source: u32) {
        self.unlink(source, None);
        self.table.remove(self.all[source as usize].id);
    }

    /// Returns the set to evict: the oldest set of the source with the highest rank. `None` if no source
    /// holds anything.
    pub(super) fn victim(&self) -> Option<u32> {
        let rank = self.taken.checked_ilog2()?;
        let source = self.ranks[rank as usize].first;
        let set = self.all.get(source as usize)?.sets.first;
        (set != NONE).then_some(set)
    }
}
