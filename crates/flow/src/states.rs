//! Flow state with a single writer: each core writes the state of its own flows, and reads the state of all
//! flows.
//!
//! A *core* is a worker here, as in the paper. If packets of one flow are on several cores, the flow has a
//! designated core (its *home* elsewhere in this project). Packets that open and close connections are
//! handed to that core, which writes the state. All other packets are processed on the core where they are,
//! which only reads (Sadok et al., "A Case for Spraying Packets in Software Middleboxes", HotNets 2018,
//! sections 3.2 to 3.4). So nothing is locked. The cache lines of a flow's state can stay in the caches of
//! all cores until the designated core writes to them again.
//!
//! | here | in Table 2 of the paper |
//! | --- | --- |
//! | [`CoreStates::insert_local`] | `insert_local_flow` |
//! | [`CoreStates::remove_local`] | `remove_local_flow` |
//! | [`CoreStates::get_local`] | `get_local_flow` |
//! | [`CoreStates::get`], [`CoreStates::get_batch`] | `get_flow` |
//!
//! State is plain data, a few words long. A reader gets a copy of the state at one moment, never a
//! half-written state, and never the state of another flow. A reader does not wait for the writer: it tries
//! a few times. In rare cases it finds nothing although the flow has state: the designated core is changing
//! the entry, or the chain on which the entry is. The caller then has to treat the packet like a packet of
//! an unknown flow, and hand it to the designated core, which knows the flow.
//!
//! Each core records in arrays of its own when it last saw each flow ([`CoreStates::see`]). The designated
//! core reads these arrays of all cores before a flow expires. The state of a closed connection stays
//! readable for [`LINGER`], for packets that are still in transit, unless the flow expires or is removed
//! before.

mod seen;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use std::num::NonZeroU32;
use std::sync::Arc;

use packet::Timestamp;

use crate::error::{InsertError, MAX_CAPACITY, TableError};
use crate::id::FlowId;
use crate::key::Key;
use crate::known::KnownFlows;
use crate::table::SLACK;
use seen::Seen;
pub use seen::TICK;
pub use table::Plain;
use table::Table;

/// The time for which the state of a closed connection stays readable: 10 seconds.
pub const LINGER: Timestamp = Timestamp::from_secs(10);

/// The largest number of look-ups in [`CoreStates::get_batch`] whose memory accesses overlap: the cache lines
/// of all of them are prefetched first.
const WINDOW: usize = 32;

/// The id of a flow's state: the designated core, and the index and generation of the entry in that core's
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId {
    core: u16,
    flow: FlowId,
}

impl StateId {
    /// Returns the number of the core that writes the state, its designated core.
    #[inline]
    pub fn core(self) -> usize {
        usize::from(self.core)
    }

    /// Returns the entry in the designated core's table, with its generation.
    #[inline]
    pub fn flow(self) -> FlowId {
        self.flow
    }
}

/// The handle of one core on the flow states of all cores. Through it the core writes the states of its own
/// flows and reads the states of all flows. Each core owns one; [`CoreStates::new`] makes them together.
pub struct CoreStates<K: Key, V: Plain> {
    me: usize,
    all: Arc<[SharedPart<K, V>]>,
    /// The data of each entry in this core's own table, indexed as in the table. The table has room for
    /// `capacity` entries, of which the first `own.len()` have been used.
    own: Vec<OwnerData>,
    /// The indices of entries that are free again; the entry freed last is at the end and is reused first.
    free: Vec<u32>,
    entries: usize,
    /// The closed connections, in the order in which they were closed.
    closed: ClosedList,
    /// The index of the next entry whose time-out is checked. This hand goes round over all entries, like the
    /// hand of a clock.
    hand: u32,
    /// The time at which `hand` last began at index 0; `None` before the first time.
    began: Option<Timestamp>,
    /// The approximate set of the flows of all cores, to which this core adds its flows; `None` if there is
    /// no such set.
    known: Option<Arc<KnownFlows>>,
}

/// The part of the states of one core that all cores can access.
struct SharedPart<K, V> {
    table: Table<K, V>,
    /// For each core, by its number, the times at which it last saw the flows of `table`.
    seen: Vec<Seen>,
}

/// The first and the last entry of the list of closed connections; `None` if the list is empty. The list is
/// linked through the entries ([`OwnerData::neighbours`]), so that closing and opening allocate nothing.
#[derive(Clone, Copy, Default)]
struct ClosedList {
    first: Option<u32>,
    last: Option<u32>,
}

/// The data of an entry that only the designated core needs. No other core can access it.
#[derive(Clone, Copy, Default)]
struct OwnerData {
    hash: u32,
    /// The generation of the flow that has the entry, or had it last if the entry is free.
    generation: u32,
    is_used: bool,
    /// The time at which the state stops being readable, if its connection was closed. If a pair was
    /// closed, only the flow that was passed to [`CoreStates::close_local`] has this time. The entry is in
    /// the list of closed connections exactly if it has this time.
    ends: Option<Timestamp>,
    /// The entry before this entry in the list of closed connections, and the entry after it.
    neighbours: [Option<u32>; 2],
    /// The index of the other flow of a pair: both flows expire, close and end together.
    pair: Option<u32>,
    /// The number by which the flow is removed from the set [`KnownFlows`]; `None` if it is not in the set.
    number: Option<u32>,
}

/// The result of [`CoreStates::insert_local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The flow was not in the table, and now is.
    New(StateId),
    /// The flow was in the table, and its state is unchanged. If it had been closed, it is open again.
    Present(StateId),
}

impl Opened {
    /// Returns the id of the flow, new or present.
    pub fn id(self) -> StateId {
        match self {
            Opened::New(id) | Opened::Present(id) => id,
        }
    }
}

impl<K: Key, V: Plain> Drop for CoreStates<K, V> {
    /// Ends all flows of this core. Other cores may still access the table, but find no flows in it.
    fn drop(&mut self) {
        for index in 0..self.own.len() {
            if self.own[index].is_used {
                self.take(index as u32);
            }
        }
    }
}

impl<K: Key, V: Plain> CoreStates<K, V> {
    /// Makes the handles of `cores` cores, each of which can have `capacity` flows of its own.
    ///
    /// Address space for all flows is reserved now, and memory is allocated when it is first accessed. Each
    /// flow takes 64 bytes if key and state have at most six words together, or 128 bytes for up to
    /// fourteen words; 15 bytes for the buckets; and for each core eight bytes for the time at which this
    /// core saw the flow. The lists of the designated core take more memory, which grows with the number of
    /// its flows.
    ///
    /// # Errors
    /// If the capacity is 0 or above [`MAX_CAPACITY`], if there are more than 65,535 cores, or if the
    /// kernel refuses the address space.
    pub fn new(cores: usize, capacity: usize) -> Result<Vec<CoreStates<K, V>>, TableError> {
        if capacity == 0 || capacity > MAX_CAPACITY || u16::try_from(cores).is_err() {
            return Err(TableError::Capacity(capacity));
        }
        let of = || -> std::io::Result<SharedPart<K, V>> {
            let seen = (0..cores).map(|_| Seen::new(capacity)).collect::<std::io::Result<_>>()?;
            Ok(SharedPart { table: Table::new(capacity)?, seen })
        };
        let all: std::io::Result<Vec<_>> = (0..cores).map(|_| of()).collect();
        let all: Arc<[_]> = all.map_err(|source| TableError::Refused { capacity, source })?.into();
        let core = |me| CoreStates {
            me,
            all: Arc::clone(&all),
            own: Vec::new(),
            free: Vec::new(),
            entries: 0,
            closed: ClosedList::default(),
            hand: 0,
            began: None,
            known: None,
        };
        Ok((0..cores).map(core).collect())
    }

    /// Sets the approximate set to which this core adds each flow that it inserts from now on. The flow is
    /// removed from the set when it ends. Flows whose keys have no addresses and ports are not added.
    pub fn set_known(&mut self, known: Arc<KnownFlows>) {
        self.known = Some(known);
    }

    /// Returns the number of this core, from 0.
    pub fn core(&self) -> usize {
        self.me
    }

    /// Returns the number of flows of this core, including closed flows that are still readable.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// True if this core has no flow.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    // Functions for the designated core of a flow.

    /// Adds a flow of this core with the state `value`. If the flow is in the table already, its state is
    /// unchanged, and if it or its pair was closed, both are open again. In both cases the flow counts as
    /// seen at `now`.
    ///
    /// # Errors
    /// [`InsertError::Full`] if the core has as many flows as its capacity, or if memory cannot be
    /// allocated; [`InsertError::Crowded`] if too many flows have nearly the same hash.
    pub fn insert_local(
        &mut self,
        key: &K,
        hash: u32,
        value: &V,
        now: Timestamp,
    ) -> Result<Opened, InsertError> {
        if let Some((id, _)) = self.get_local(key, hash) {
            self.open_local(id);
            self.see(id, now);
            return Ok(Opened::Present(id));
        }
        if !self.has_memory_for_another() {
            return Err(InsertError::Full);
        }
        let of = &self.all[self.me];
        let index = match self.free.last() {
            Some(&index) => index,
            None if self.own.len() < of.table.capacity() => self.own.len() as u32,
            None => return Err(InsertError::Full),
        };
        let generation = self.own.get(index as usize).map_or(0, |own| own.generation).wrapping_add(1).max(1);
        if !of.table.put(index, generation, key, hash, value) {
            return Err(InsertError::Crowded);
        }
        let ends = key.addresses_and_ports();
        let number = self.known.as_ref().zip(ends).map(|(known, ends)| known.add(&ends));
        let own = OwnerData { hash, generation, is_used: true, number, ..OwnerData::default() };
        match self.free.pop() {
            Some(index) => self.own[index as usize] = own,
            None => self.own.push(own),
        }
        self.entries += 1;
        let generation = NonZeroU32::new(generation).unwrap_or(NonZeroU32::MIN);
        let id = StateId { core: self.me as u16, flow: FlowId { index, generation } };
        self.see(id, now);
        Ok(Opened::New(id))
    }

    /// Replaces the state of a flow of this core. Returns false if the flow has ended or belongs to another
    /// core.
    pub fn update_local(&mut self, id: StateId, value: &V) -> bool {
        let is_there = self.is_mine(id);
        if is_there {
            self.all[self.me].table.change(id.flow.index, value);
        }
        is_there
    }

    /// Makes a pair of two flows of this core, such as the directions of a connection whose addresses are
    /// translated. Both flows of a pair count as seen when one of them is seen, and they are closed, opened
    /// and ended together. Returns false, and pairs nothing, if the two are the same flow, or if one of
    /// them has ended, has a pair, or belongs to another core.
    pub fn pair_local(&mut self, one: StateId, other: StateId) -> bool {
        let is_free = |id: StateId| self.is_mine(id) && self.own[id.flow.index as usize].pair.is_none();
        let are_free = one != other && is_free(one) && is_free(other);
        if are_free {
            self.own[one.flow.index as usize].pair = Some(other.flow.index);
            self.own[other.flow.index as usize].pair = Some(one.flow.index);
        }
        are_free
    }

    /// Returns the other flow of a pair; `None` if the flow has no pair, has ended, or belongs to another
    /// core.
    pub fn pair_of(&self, id: StateId) -> Option<StateId> {
        let index = self.own.get(id.flow.index as usize)?.pair.filter(|_| self.is_mine(id))?;
        Some(self.id(index))
    }

    /// Ends a flow of this core, and the other flow of its pair, at once. Returns the last state of the
    /// flow, or `None` if the flow has ended before or belongs to another core.
    pub fn remove_local(&mut self, id: StateId) -> Option<V> {
        let mut state = None;
        if self.is_mine(id) {
            self.end(id.flow.index, &mut |ended, value| {
                if ended == id {
                    state = Some(value);
                }
            });
        }
        state
    }

    /// Reserves memory in all lists for another flow, and returns true if it is available. Then ending a
    /// flow never allocates.
    fn has_memory_for_another(&mut self) -> bool {
        let most = self.own.len() + 1;
        self.own.try_reserve(1).is_ok() && self.free.try_reserve(most.saturating_sub(self.free.len())).is_ok()
    }

    /// Records that a connection of this core was closed at `now`: it ends [`LINGER`] later, unless it is
    /// opened again. Nothing changes if the flow or its pair is closed already, or if the flow has ended or
    /// belongs to another core.
    pub fn close_local(&mut self, id: StateId, now: Timestamp) {
        if self.is_mine(id) && !self.both(id.flow.index).any(|index| self.own[index as usize].ends.is_some())
        {
            self.put_into_closed(id.flow.index, now + LINGER);
        }
    }

    /// Adds an entry to the end of the list of closed connections.
    fn put_into_closed(&mut self, index: u32, ends: Timestamp) {
        let before = self.closed.last.replace(index);
        match before {
            Some(before) => self.own[before as usize].neighbours[1] = Some(index),
            None => self.closed.first = Some(index),
        }
        let own = &mut self.own[index as usize];
        (own.ends, own.neighbours) = (Some(ends), [before, None]);
    }

    /// Removes an entry from the list of closed connections, if it is there.
    fn take_from_closed(&mut self, index: u32) {
        let own = &mut self.own[index as usize];
        if own.ends.take().is_none() {
            return;
        }
        let [before, after] = std::mem::take(&mut own.neighbours);
        match before {
            Some(before) => self.own[before as usize].neighbours[1] = after,
            None => self.closed.first = after,
        }
        match after {
            Some(after) => self.own[after as usize].neighbours[0] = before,
            None => self.closed.last = before,
        }
    }

    /// Cancels [`close_local`](Self::close_local) for a flow of this core and its pair, because the
    /// connection continues.
    pub fn open_local(&mut self, id: StateId) {
        if self.is_mine(id) {
            for index in self.both(id.flow.index) {
                self.take_from_closed(index);
            }
        }
    }

    /// Returns the id and the state of a flow of this core, like [`get`](Self::get); `None` if there is no
    /// such flow.
    pub fn get_local(&self, key: &K, hash: u32) -> Option<(StateId, V)> {
        self.get(self.me, key, hash)
    }

    /// Returns the time at which any core last saw a flow of this core or the other flow of its pair, rounded
    /// up by at most one [`TICK`] (67 ms). `None` if the flow has ended or belongs to another core.
    pub fn last_seen(&self, id: StateId) -> Option<Timestamp> {
        self.is_mine(id).then(|| self.last(id.flow.index))
    }

    /// Ends flows of this core that no core has seen for `timeout`, and flows that were closed for
    /// [`LINGER`], each with its pair. Calls `ended` with the id and the last state of each ended flow, and
    /// returns the number of these flows.
    ///
    /// A call examines at most `at_most` closed flows and `at_most` entries; the next call continues at the
    /// next entry. A flow never expires early. It expires late by at most one [`TICK`] plus `timeout / 8`
    /// plus the time in which the calls examine all entries twice.
    pub fn expire_local(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        at_most: usize,
        mut ended: impl FnMut(StateId, V),
    ) -> usize {
        let mut count = 0;
        for _ in 0..at_most {
            let is_due = |index: &u32| self.own[*index as usize].ends.is_some_and(|due| due <= now);
            let Some(index) = self.closed.first.filter(is_due) else { break };
            count += self.end(index, &mut ended);
        }
        for _ in 0..at_most.min(self.own.len()) {
            if self.hand == 0 && !self.begin_turn(now, timeout) {
                break;
            }
            let index = self.hand;
            self.hand = if index as usize + 1 == self.own.len() { 0 } else { index + 1 };
            if self.own[index as usize].is_used && self.last(index) <= now - timeout {
                count += self.end(index, &mut ended);
            }
        }
        count
    }

    /// Begins a turn of [`hand`](Self::hand) over all entries, and returns true. If the last turn began less
    /// than `timeout / SLACK` before `now`, no turn begins, and the function returns false. If the clock was
    /// set back, a turn begins.
    fn begin_turn(&mut self, now: Timestamp, timeout: Timestamp) -> bool {
        let pause = Timestamp(timeout.0 / SLACK);
        let too_soon = self.began.is_some_and(|began| (began..began + pause).contains(&now));
        if !too_soon {
            self.began = Some(now);
        }
        !too_soon
    }

    fn is_mine(&self, id: StateId) -> bool {
        let own = self.own.get(id.flow.index as usize);
        id.core() == self.me
            && own.is_some_and(|own| own.is_used && own.generation == id.flow.generation.get())
    }

    /// Returns the id of the flow in an entry, which must be in use.
    fn id(&self, index: u32) -> StateId {
        let generation = NonZeroU32::new(self.own[index as usize].generation).unwrap_or(NonZeroU32::MIN);
        StateId { core: self.me as u16, flow: FlowId { index, generation } }
    }

    /// Returns the index of an entry, and the index of its pair if it has one.
    fn both(&self, index: u32) -> impl Iterator<Item = u32> + use<K, V> {
        std::iter::once(index).chain(self.own[index as usize].pair)
    }

    fn last(&self, index: u32) -> Timestamp {
        let seen = &self.all[self.me].seen;
        let stamps = self.both(index).flat_map(|index| seen.iter().map(move |seen| seen.last(index)));
        stamps.max().unwrap_or_default()
    }

    /// Ends the flow in an entry and its pair, calls `ended` for each, and returns the number of ended
    /// flows, 1 or 2.
    fn end(&mut self, index: u32, ended: &mut impl FnMut(StateId, V)) -> usize {
        let both = self.both(index);
        both.map(|index| {
            let id = self.id(index);
            let value = self.take(index);
            ended(id, value);
        })
        .count()
    }

    /// Removes the flow in an entry from the table and from the set of known flows, frees the entry, and
    /// returns the flow's last state.
    fn take(&mut self, index: u32) -> V {
        self.take_from_closed(index);
        let own = &mut self.own[index as usize];
        (own.is_used, own.pair) = (false, None);
        if let Some((known, number)) = self.known.as_ref().zip(own.number.take()) {
            known.remove(number);
        }
        self.free.push(index);
        self.entries -= 1;
        self.all[self.me].table.take(index, own.hash)
    }

    // Functions for every core, on flows of any core.

    /// Returns the id and a copy of the state of a flow whose designated core is `core`. `None` if the flow
    /// has no state, or if there is no such core. Also `None` if the flow cannot be read at this moment
    /// because the designated core is changing its entry or chain.
    #[inline]
    pub fn get(&self, core: usize, key: &K, hash: u32) -> Option<(StateId, V)> {
        let (flow, value) = self.all.get(core)?.table.get(key, hash)?;
        Some((StateId { core: core as u16, flow }, value))
    }

    /// Looks up many flows like [`get`](Self::get). The elements of `cores`, `keys`, `hashes` and `states`
    /// with one index belong to one look-up; elements beyond the shortest slice are ignored. The cache
    /// lines of up to 32 look-ups are prefetched first, so that their memory accesses overlap.
    pub fn get_batch(
        &self,
        cores: &[usize],
        keys: &[K],
        hashes: &[u32],
        states: &mut [Option<(StateId, V)>],
    ) {
        let windows = cores.chunks(WINDOW).zip(keys.chunks(WINDOW)).zip(hashes.chunks(WINDOW));
        for (((cores, keys), hashes), states) in windows.zip(states.chunks_mut(WINDOW)) {
            for (&core, &hash) in cores.iter().zip(hashes) {
                if let Some(of) = self.all.get(core) {
                    of.table.prefetch_bucket(hash);
                }
            }
            for (&core, &hash) in cores.iter().zip(hashes) {
                if let Some(of) = self.all.get(core) {
                    of.table.prefetch_entry(hash);
                }
            }
            for (((&core, key), &hash), state) in cores.iter().zip(keys).zip(hashes).zip(states) {
                *state = self.get(core, key, hash);
            }
        }
    }

    /// Returns the time at which this core, not another, last recorded with [`see`](Self::see) that it saw
    /// the flow: the end of that [`TICK`], or zero if it never did. Before the first record for this flow,
    /// the time may be of an earlier flow with the same index.
    #[inline]
    pub fn last_seen_here(&self, id: StateId) -> Timestamp {
        let seen = self.all.get(id.core()).and_then(|of| of.seen.get(self.me));
        seen.map_or(Timestamp::default(), |seen| seen.last(id.flow.index))
    }

    /// Returns the latest of the times at which cores recorded that they saw the flow, each as
    /// [`last_seen_here`](Self::last_seen_here) returns it for its core.
    pub fn last_seen_by_any(&self, id: StateId) -> Timestamp {
        let seen = self.all.get(id.core()).into_iter().flat_map(|of| &of.seen);
        seen.map(|seen| seen.last(id.flow.index)).max().unwrap_or_default()
    }

    /// Records that this core has seen a flow of any core at `now`. It writes to memory only if the last
    /// record is of another [`TICK`].
    #[inline]
    pub fn see(&self, id: StateId, now: Timestamp) {
        if let Some(seen) = self.all.get(id.core()).and_then(|of| of.seen.get(self.me)) {
            seen.note(id.flow.index, now);
        }
    }
}
