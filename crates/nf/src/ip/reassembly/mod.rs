//! The store of a reassembler: the fragments that it holds, by set (the fragments of one datagram). The sets
//! are in lists by pair of addresses, by source and by age, to find the set to evict. The memory of the
//! tables and lists is reserved at the start.

mod links;
mod pieces;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::TryReserveError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use element::{Packet, Timestamp};
use flow::{AddressKey, AddressPairKey, FlowId, FlowTable, FragmentKey, Inserted, KeyHasher, TableError};

use self::links::{Links, List, NONE, put};
pub(crate) use self::pieces::{Fit, Piece};
use self::pieces::{Pieces, Row};
use self::sources::Sources;
use crate::memory::reserved;

/// The memory for an entry of a flow table in bytes, with the entry's share of buckets that are 60 % full.
const TABLE_BYTES: usize = 64 + 4 + 10;
/// The memory for a packet of one slot in bytes, with the packet's metadata.
const SLOT_BYTES: usize = packet::SLOT_STRIDE + 64 + size_of::<packet::Annotations>();
/// The largest memory in bytes that a fragment of one slot can take. It takes this memory if it is the only
/// fragment of its set, pair and source.
const FRAGMENT_BYTES: usize = SLOT_BYTES
    + size_of::<Option<Piece>>()
    + size_of::<[u32; 3]>()
    + (TABLE_BYTES + size_of::<Set>() + 3 * size_of::<[u32; 2]>())
    + (TABLE_BYTES + size_of::<Pair>())
    + sources::BYTES;
/// The divisor for the part of a store's memory that is reserved for sources (hosts that send fragments) of
/// which the store holds no fragments at the moment: one eighth.
const FOR_IDLE: usize = 8;
/// The smallest memory of a store in bytes: room for a datagram of two fragments, and for the fragment that
/// arrives next.
pub(crate) const LEAST_BYTES: usize = 3 * FRAGMENT_BYTES;

/// The fields that all fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) id: u16,
    pub(crate) protocol: u8,
    /// The outer and the inner VLAN; 0 for a missing VLAN.
    pub(crate) vlans: [u16; 2],
}

impl Key {
    fn ends(&self) -> [IpAddr; 2] {
        [self.source, self.destination].map(|address| IpAddr::V4(Ipv4Addr::from_bits(address)))
    }

    fn fragment(&self) -> FragmentKey {
        let ([source, destination], [outer, inner]) = (self.ends(), self.vlans);
        // The identification in the key has 32 bits. An IPv4 identification takes 16 of them, so that the
        // inner VLAN fits into the other 16.
        let identification = u32::from(self.id) | u32::from(inner) << 16;
        FragmentKey::new(source, destination, self.protocol, identification, outer)
    }

    fn pair(&self) -> AddressPairKey {
        let [source, destination] = self.ends();
        AddressPairKey::new(source, destination, self.vlans[0])
    }

    fn source(&self) -> AddressKey {
        AddressKey::new(self.ends()[0], self.vlans[0])
    }
}

/// A set: the fragments of one datagram that have arrived.
struct Set {
    id: FlowId,
    key: Key,
    row: Row,
    source: u32,
    pair: u32,
    slots: u32,
    /// The time at which the first fragment of the set arrived.
    began: Timestamp,
}

/// The sets of all datagrams from one address to another, in one direction and with one outer VLAN.
struct Pair {
    id: FlowId,
    /// The sets of this pair of addresses, the oldest first.
    sets: List,
    count: u32,
}

/// The error if the tables of the store cannot be allocated, because there is no memory or they would be too
/// large.
#[derive(Debug)]
pub(crate) struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<TryReserveError> for Refusal {
    fn from(error: TryReserveError) -> Refusal {
        Refusal(format!("cannot reserve memory for fragments: {error}"))
    }
}

impl From<TableError> for Refusal {
    fn from(error: TableError) -> Refusal {
        Refusal(error.to_string())
    }
}

/// The store of all fragments that a reassembler holds. Sets are given by their index, which is valid until
/// the set is closed.
pub(crate) struct Store {
    hasher: KeyHasher,
    table: FlowTable<FragmentKey>,
    sets: Vec<Set>,
    pieces: Pieces,
    pairs: FlowTable<AddressPairKey>,
    of_pairs: Vec<Pair>,
    /// The links of each set (the fragments of one datagram) to the previous and the next set in the list of
    /// its pair of addresses.
    of_pair: Links,
    sources: Sources,
    /// The list of all sets, the oldest first.
    ages: List,
    age: Links,
    held: usize,
    slots: usize,
    /// The largest number of slots of the packet pool that the held fragments may take. If they take more,
    /// sets are evicted.
    limit: usize,
}

impl Store {
    /// Makes an empty store that takes at most `bytes` bytes; at least [`LEAST_BYTES`] are needed.
    pub(crate) fn new(bytes: usize, hasher: KeyHasher) -> Result<Store, Refusal> {
        let for_idle = bytes / FOR_IDLE;
        let limit = (bytes.saturating_sub(for_idle) / FRAGMENT_BYTES).max(2);
        // There is room for one more fragment: the fragment that has just arrived and for which others are
        // evicted.
        let most = limit + 1;
        Ok(Store {
            hasher,
            table: FlowTable::new(most)?,
            sets: reserved(most)?,
            pieces: Pieces::new(most)?,
            pairs: FlowTable::new(most)?,
            of_pairs: reserved(most)?,
            of_pair: Links::new(most)?,
            sources: Sources::new(most, for_idle / sources::BYTES)?,
            ages: List::EMPTY,
            age: Links::new(most)?,
            held: 0,
            slots: 0,
            limit,
        })
    }

    /// Sets the hash function of the tables. The store must be empty.
    pub(crate) fn seed(&mut self, hasher: KeyHasher) {
        debug_assert_eq!(self.held, 0);
        self.hasher = hasher;
    }

    /// Returns the largest number of slots that fragments may take.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of fragments that are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the bytes that the held fragments take, with the largest share of the tables that they can
    /// take.
    pub(crate) fn memory(&self) -> usize {
        self.slots * FRAGMENT_BYTES
    }

    /// True if the fragments take more slots than the limit, so that sets have to be evicted.
    pub(crate) fn is_over_full(&self) -> bool {
        self.slots > self.limit
    }

    /// Returns the index of the set of a datagram; `None` if the store holds none of its fragments.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let key = key.fragment();
        self.table.lookup(&key, self.hasher.hash(&key)).map(FlowId::index)
    }

    /// Returns the number of sets from the datagram's source to its destination, and the index of the
    /// oldest. `None` if there are none.
    pub(crate) fn sets_of_pair(&self, key: &Key) -> Option<(u32, u32)> {
        let key = key.pair();
        let id = self.pairs.lookup(&key, self.hasher.hash(&key))?;
        let pair = self.of_pairs.get(id.index() as usize)?;
        Some((pair.count, pair.sets.first))
    }

    /// Makes an empty set for a datagram that has none, and returns its index. Returns `None` if there is no
    /// free entry for its key in a table, because too many hashes collide.
    pub(crate) fn open(&mut self, key: &Key, now: Timestamp) -> Option<u32> {
        let (fragment, of) = (key.fragment(), key.pair());
        let id = self.table.insert(&fragment, self.hasher.hash(&fragment), now).ok()?.id();
        let set = id.index();
        let pair = match self.pairs.insert(&of, self.hasher.hash(&of), now) {
            Ok(Inserted::Present(id)) => id.index(),
            Ok(Inserted::New(id)) => {
                put(&mut self.of_pairs, id.index(), Pair { id, sets: List::EMPTY, count: 0 });
                id.index()
            }
            Err(_) => {
                self.table.remove(id);
                return None;
            }
        };
        self.of_pair.push(&mut self.of_pairs[pair as usize].sets, set);
        self.of_pairs[pair as usize].count += 1;
        let Some(source) = self.sources.open(&self.hasher, &key.source(), set) else {
            self.leave_pair(pair, set);
            self.table.remove(id);
            return None;
        };
        let new = Set { id, key: *key, row: Row::EMPTY, source, pair, slots: 0, began: now };
        put(&mut self.sets, set, new);
        self.age.push(&mut self.ages, set);
        Some(set)
    }

    /// Adds a fragment, `piece`, to a set. Returns whether the fragment is held, has nothing new, or
    /// contradicts the set (see [`Pieces::add`]). Passes packets whose bytes were all replaced to `covered`.
    pub(crate) fn add(
        &mut self,
        set: u32,
        piece: Piece,
        is_last: bool,
        overlaps: bool,
        covered: impl FnMut(Packet),
    ) -> Fit {
        let of = &mut self.sets[set as usize];
        let count = of.row.count;
        let fit = self.pieces.add(&mut of.row, piece, is_last, overlaps, covered);
        self.held = self.held + of.row.count as usize - count as usize;
        if let Fit::Held(slots) = fit {
            of.slots = of.slots.saturating_add_signed(slots as i32);
            self.slots = self.slots.saturating_add_signed(slots as isize);
            self.sources.hold(of.source, slots);
        }
        fit
    }

    /// Returns the number of fragments of a set.
    pub(crate) fn count(&self, set: u32) -> u32 {
        self.sets[set as usize].row.count
    }

    /// True if the set has all bytes of its datagram's payload.
    pub(crate) fn is_complete(&self, set: u32) -> bool {
        self.sets[set as usize].row.is_complete()
    }

    /// Returns the number of bytes of the datagram's payload that are held.
    pub(crate) fn length(&self, set: u32) -> u32 {
        self.sets[set as usize].row.length
    }

    /// Removes the fragment with the lowest offset from a set, and returns it; `None` if the set has no
    /// fragments.
    pub(crate) fn pop(&mut self, set: u32) -> Option<Piece> {
        let of = &mut self.sets[set as usize];
        let piece = self.pieces.pop(&mut of.row)?;
        self.held -= 1;
        Some(piece)
    }

    /// Removes a set whose fragments have all been removed. `is_complete` is true if the datagram was
    /// complete, which raises the trust in its source.
    pub(crate) fn close(&mut self, set: u32, is_complete: bool) {
        let Set { id, source, pair, slots, .. } = self.sets[set as usize];
        self.slots -= slots as usize;
        self.sources.hold(source, -i64::from(slots));
        self.sources.close(source, set, is_complete);
        self.leave_pair(pair, set);
        self.age.remove(&mut self.ages, set);
        self.table.remove(id);
    }

    fn leave_pair(&mut self, pair: u32, set: u32) {
        let of = &mut self.of_pairs[pair as usize];
        self.of_pair.remove(&mut of.sets, set);
        of.count -= 1;
        if of.count == 0 {
            self.pairs.remove(of.id);
        }
    }

    /// Returns the index of the oldest set, and the time at which its first fragment arrived; `None` if the
    /// store is empty.
    pub(crate) fn oldest(&self) -> Option<(u32, Timestamp)> {
        let set = self.ages.first;
        self.sets.get(set as usize).filter(|_| set != NONE).map(|of| (set, of.began))
    }

    /// Returns the index of the set to evict next; `None` if no fragment is held.
    pub(crate) fn victim(&self) -> Option<u32> {
        self.sources.victim()
    }

    /// Returns the key and the fragments of each set, the oldest set first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, impl Iterator<Item = &Piece>)> {
        let mut set = self.ages.first;
        std::iter::from_fn(move || {
            let of = self.sets.get(set as usize)?;
            set = self.age.behind(set);
            Some((&of.key, self.pieces.of(&of.row)))
        })
    }
}
