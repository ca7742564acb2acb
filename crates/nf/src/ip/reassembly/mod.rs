//! The store of a reassembler: fragments by packet, packets by source and by pair of addresses, all in
//! memory that is reserved at the start.

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

/// The number of bytes per entry of a flow table, with its share of buckets that are 60 % full.
const TABLE_BYTES: usize = 64 + 4 + 10;
/// The number of bytes of a packet's slot, with its description.
const SLOT_BYTES: usize = packet::SLOT_STRIDE + 64 + size_of::<packet::Annotations>();
/// The largest number of bytes that a fragment of one slot can take: if it is the only fragment of its
/// packet, pair and source.
const FRAGMENT_BYTES: usize = SLOT_BYTES
    + size_of::<Option<Piece>>()
    + size_of::<[u32; 3]>()
    + (TABLE_BYTES + size_of::<Set>() + 3 * size_of::<[u32; 2]>())
    + (TABLE_BYTES + size_of::<Pair>())
    + sources::BYTES;
/// The divisor for the part of the memory that is for sources that hold nothing at the moment.
const FOR_IDLE: usize = 8;
/// The least number of bytes of a store: for a packet of two fragments.
pub(crate) const LEAST_BYTES: usize = 3 * FRAGMENT_BYTES;

/// The fields that fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) id: u16,
    pub(crate) protocol: u8,
    /// The outer and the inner VLAN; 0 for none.
    pub(crate) vlans: [u16; 2],
}

impl Key {
    fn ends(&self) -> [IpAddr; 2] {
        [self.source, self.destination].map(|address| IpAddr::V4(Ipv4Addr::from_bits(address)))
    }

    fn fragment(&self) -> FragmentKey {
        let ([source, destination], [outer, inner]) = (self.ends(), self.vlans);
        // An IPv4 identification takes only half of the 32 bits.
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

/// The set of fragments of one packet that have arrived.
struct Set {
    id: FlowId,
    key: Key,
    row: Row,
    source: u32,
    pair: u32,
    slots: u32,
    /// The time at which the first fragment arrived.
    began: Timestamp,
}

/// The sets of packets from one address to another, in one direction.
struct Pair {
    id: FlowId,
    /// The sets, oldest first.
    sets: List,
    count: u32,
}

/// The error if memory for the tables cannot be allocated.
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

/// The store of all fragments that are held.
pub(crate) struct Store {
    hasher: KeyHasher,
    table: FlowTable<FragmentKey>,
    sets: Vec<Set>,
    pieces: Pieces,
    pairs: FlowTable<AddressPairKey>,
    of_pairs: Vec<Pair>,
    /// The links of sets in the lists of their pairs.
    of_pair: Links,
    sources: Sources,
    /// The list of all sets, oldest first.
    ages: List,
    age: Links,
    held: usize,
    slots: usize,
    /// The largest number of slots that may be held.
    limit: usize,
}

impl Store {
    /// Makes an empty store of `bytes` bytes, at least [`LEAST_BYTES`].
    pub(crate) fn new(bytes: usize, hasher: KeyHasher) -> Result<Store, Refusal> {
        let for_idle = bytes / FOR_IDLE;
        let limit = (bytes.saturating_sub(for_idle) / FRAGMENT_BYTES).max(2);
        // One more, for the fragment that has just arrived and for which others are evicted.
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

    /// Sets the hash function; only while nothing is held.
    pub(crate) fn seed(&mut self, hasher: KeyHasher) {
        debug_assert_eq!(self.held, 0);
        self.hasher = hasher;
    }

    /// Returns the number of fragments that are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the bytes that held fragments take, tables included.
    pub(crate) fn memory(&self) -> usize {
        self.slots * FRAGMENT_BYTES
    }

    /// True if more slots are held than the limit.
    pub(crate) fn is_over_full(&self) -> bool {
        self.slots > self.limit
    }

    /// Returns the set of a packet.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let key = key.fragment();
        self.table.lookup(&key, self.hasher.hash(&key)).map(FlowId::index)
    }

    /// Returns the number of sets between the packet's addresses, and the oldest of these sets.
    pub(crate) fn sets_of_pair(&self, key: &Key) -> Option<(u32, u32)> {
        let key = key.pair();
        let id = self.pairs.lookup(&key, self.hasher.hash(&key))?;
        let pair = self.of_pairs.get(id.index() as usize)?;
        Some((pair.count, pair.sets.first))
    }

    /// Makes a set for a packet that has none. Returns `None` if too many hashes collide.
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

    /// Adds a fragment to its set; see [`Pieces::add`].
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

    /// True if all fragments of a packet have arrived.
    pub(crate) fn is_complete(&self, set: u32) -> bool {
        self.sets[set as usize].row.is_complete()
    }

    /// Returns the number of bytes of a packet's payload that have arrived.
    pub(crate) fn length(&self, set: u32) -> u32 {
        self.sets[set as usize].row.length
    }

    /// Removes the first fragment of a set, and returns it.
    pub(crate) fn pop(&mut self, set: u32) -> Option<Piece> {
        let of = &mut self.sets[set as usize];
        let piece = self.pieces.pop(&mut of.row)?;
        self.held -= 1;
        Some(piece)
    }

    /// Removes a set whose fragments have been removed.
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

    /// Returns the oldest set, and the time at which it began.
    pub(crate) fn oldest(&self) -> Option<(u32, Timestamp)> {
        let set = self.ages.first;
        self.sets.get(set as usize).filter(|_| set != NONE).map(|of| (set, of.began))
    }

    /// Returns the set to evict next.
    pub(crate) fn victim(&self) -> Option<u32> {
        self.sources.victim()
    }

    /// Returns the incomplete packets, oldest first, each with its fragments.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, impl Iterator<Item = &Piece>)> {
        let mut set = self.ages.first;
        std::iter::from_fn(move || {
            let of = self.sets.get(set as usize)?;
            set = self.age.behind(set);
            Some((&of.key, self.pieces.of(&of.row)))
        })
    }
}
