//! Flow state with a single writer: each core writes the state of its own flows, and reads the state of all
//! flows.
//!
//! If packets of one flow are on several cores, the flow has a designated core. Packets that open and close
//! connections go there and write; all other packets are processed on the core where they are, and only
//! read (Sadok et al., "A Case for Spraying Packets in Software Middleboxes", HotNets 2018, sections 3.2 to
//! 3.4). So nothing is locked, and the cache lines of a flow's state go to each core once and stay there.
//!
//! | here | in Table 2 of the paper |
//! | --- | --- |
//! | [`CoreStates::insert_local`] | `insert_local_flow` |
//! | [`CoreStates::remove_local`] | `remove_local_flow` |
//! | [`CoreStates::get_local`] | `get_local_flow` |
//! | [`CoreStates::get`], [`CoreStates::get_batch`] | `get_flow` |
//!
//! State is plain data, a few words long. A reader gets a copy of the state at one moment, never a
//! half-written state, and never the state of another flow. A reader does not wait: in the rare case that
//! an entry is being changed, or has moved out of sight, it finds nothing. It then has to treat the packet
//! like a packet of an unknown flow, and hand it to the designated core, which knows the flow.
//!
//! Cores that only read record the time at which they last saw a flow, each in its own array. The
//! designated core reads all of these arrays before it ends a flow. The state of a closed connection stays
//! readable for [`LINGER`], for packets that are still in transit.

mod seen;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use packet::Timestamp;

use crate::error::{InsertError, MAX_CAPACITY, TableError};
use crate::id::FlowId;
use crate::key::Key;
use crate::known::Known;
use crate::table::SLACK;
use seen::Seen;
pub use seen::TICK;
pub use table::Plain;
use table::Table;

/// The time for which the state of a closed connection stays readable.
pub const LINGER: Timestamp = Timestamp::from_secs(10);

/// The number of flows whose look-ups run together.
const WINDOW: usize = 32;

/// The name of a flow's state: the core that writes it, and its entry at that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId {
    core: u16,
    flow: FlowId,
}

impl StateId {
    /// Returns the designated core.
    #[inline]
    pub fn core(self) -> usize {
        usize::from(self.core)
    }

    /// Returns the flow's entry at that core, with its generation.
    #[inline]
    pub fn flow(self) -> FlowId {
        self.flow
    }
}

/// A core's part of the flow states of all cores. The core writes its own states and reads the states of all
/// cores.
pub struct CoreStates<K: Key, V: Plain> {
    me: usize,
    all: Arc<[Of<K, V>]>,
    /// The private data of each entry of the core's own table.
    own: Vec<Own>,
    /// The freed entries, the last freed at the end.
    free: Vec<u32>,
    entries: usize,
    /// The closed connections, in the order in which they become unreadable.
    ending: VecDeque<(Timestamp, FlowId)>,
    /// The next entry whose time-out is checked.
    hand: u32,
    /// The time at which the hand began its current turn.
    began: Option<Timestamp>,
    /// The approximate set of the flows of all cores, which this core updates.
    known: Option<Arc<Known>>,
}

/// The part of one core that all cores can read.
struct Of<K, V> {
    table: Table<K, V>,
    /// The times at which flows were seen, by the core that has seen them.
    seen: Vec<Seen>,
}

/// The data of an entry that only the designated core has.
#[derive(Clone, Copy, Default)]
struct Own {
    hash: u32,
    /// The generation of the flow that has the entry, or had it last.
    generation: u32,
    is_used: bool,
    /// The time at which the entry stops being readable, if its connection was closed.
    ends: Option<Timestamp>,
    /// The entry that lives as long as this entry.
    pair: Option<u32>,
    /// The number under which the flow is in the set of known flows.
    number: Option<u32>,
}

/// The result of [`CoreStates::insert_local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The flow is new.
    New(StateId),
    /// The flow was in the table, and its state is unchanged. If it was closed, it is open again.
    Present(StateId),
}

impl Opened {
    /// Returns the id in either case.
    pub fn id(self) -> StateId {
        match self {
            Opened::New(id) | Opened::Present(id) => id,
        }
    }
}

impl<K: Key, V: Plain> Drop for CoreStates<K, V> {
    /// Ends all flows of this core. Other cores may still read the table, and find no flows.
    fn drop(&mut self) {
        for index in 0..self.own.len() {
            if self.own[index].is_used {
                self.take(index as u32);
            }
        }
    }
}

impl<K: Key, V: Plain> CoreStates<K, V> {
    /// Makes the parts of `cores` cores, each of which can have `capacity` flows. Memory is reserved now
    /// and used when it is needed. It takes 64 bytes per flow and core for keys and states of six words
    /// together, or twice as much for up to fourteen words; some twelve bytes per flow and core to find the
    /// state; and eight bytes per flow and pair of cores for the time at which the flow was seen.
    ///
    /// # Errors
    /// If the capacity is 0 or larger than a table can have, or if the system refuses the address space.
    pub fn new(cores: usize, capacity: usize) -> Result<Vec<CoreStates<K, V>>, TableError> {
        if capacity == 0 || capacity > MAX_CAPACITY || u16::try_from(cores).is_err() {
            return Err(TableError::Capacity(capacity));
        }
        let of = || -> std::io::Result<Of<K, V>> {
            let seen = (0..cores).map(|_| Seen::new(capacity)).collect::<std::io::Result<_>>()?;
            Ok(Of { table: Table::new(capacity)?, seen })
        };
        let all: std::io::Result<Vec<_>> = (0..cores).map(|_| of()).collect();
        let all: Arc<[_]> = all.map_err(|source| TableError::Refused { capacity, source })?.into();
        let core = |me| CoreStates {
            me,
            all: Arc::clone(&all),
            own: Vec::new(),
            free: Vec::new(),
            entries: 0,
            ending: VecDeque::new(),
            hand: 0,
            began: None,
            known: None,
        };
        Ok((0..cores).map(core).collect())
    }

    /// Adds all flows of this core to `known` from now on.
    pub fn tell(&mut self, known: Arc<Known>) {
        self.known = Some(known);
    }

    /// Returns the number of this core.
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

    // Functions for the designated core.

    /// Adds a flow of this core, unless it is in the table already.
    ///
    /// # Errors
    /// If there is no room.
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
        let own = Own { hash, generation, is_used: true, ends: None, pair: None, number };
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

    /// Changes the state of a flow of this core. Returns false if there is no such flow any more.
    pub fn update_local(&mut self, id: StateId, value: &V) -> bool {
        let is_there = self.is_mine(id);
        if is_there {
            self.all[self.me].table.change(id.flow.index, value);
        }
        is_there
    }

    /// Makes a pair of two flows of this core, such as the directions of a connection whose addresses are
    /// translated. A flow of a pair is seen, closed and ended together with the other. Returns false if one
    /// of the flows has ended or has a pair.
    pub fn pair_local(&mut self, one: StateId, other: StateId) -> bool {
        let is_free = |id: StateId| self.is_mine(id) && self.own[id.flow.index as usize].pair.is_none();
        let are_free = one != other && is_free(one) && is_free(other);
        if are_free {
            self.own[one.flow.index as usize].pair = Some(other.flow.index);
            self.own[other.flow.index as usize].pair = Some(one.flow.index);
        }
        are_free
    }

    /// Returns the other flow of a pair.
    pub fn pair_of(&self, id: StateId) -> Option<StateId> {
        let index = self.own.get(id.flow.index as usize)?.pair.filter(|_| self.is_mine(id))?;
        Some(self.id(index))
    }

    /// Ends a flow of this core and its pair at once. Returns the state of the flow, or `None` if there is
    /// no such flow any more.
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

    /// True if there is memory for another state. Each state can then end and be removed without further
    /// memory.
    fn has_memory_for_another(&mut self) -> bool {
        let most = self.own.len() + 1;
        self.own.try_reserve(1).is_ok()
            && self.free.try_reserve(most.saturating_sub(self.free.len())).is_ok()
            && self.ending.try_reserve(most.saturating_sub(self.ending.len())).is_ok()
    }

    /// Records that a connection of this core was closed: its state stays readable for [`LINGER`].
    pub fn close_local(&mut self, id: StateId, now: Timestamp) {
        if self.is_mine(id) && !self.both(id.flow.index).any(|index| self.own[index as usize].ends.is_some())
        {
            self.own[id.flow.index as usize].ends = Some(now + LINGER);
            self.ending.push_back((now + LINGER, id.flow));
        }
    }

    /// Records that a connection of this core continues although it was closed.
    pub fn open_local(&mut self, id: StateId) {
        if self.is_mine(id) {
            for index in self.both(id.flow.index) {
                self.own[index as usize].ends = None;
            }
        }
    }

    /// Returns the state of a flow of this core.
    pub fn get_local(&self, key: &K, hash: u32) -> Option<(StateId, V)> {
        self.get(self.me, key, hash)
    }

    /// Returns the time at which a flow of this core was last seen by any core, rounded up by at most 67 ms.
    /// `None` if there is no such flow any more.
    pub fn last_seen(&self, id: StateId) -> Option<Timestamp> {
        self.is_mine(id).then(|| self.last(id.flow.index))
    }

    /// Ends flows of this core that no core has seen for `timeout`, and flows that were closed for
    /// [`LINGER`]. Calls `ended` with the state of each flow, and returns the number of flows.
    ///
    /// Examines `at_most` entries and continues from there in the next call. A flow never ends early, and
    /// is late by at most `timeout / 8` plus the time of two turns over all entries.
    pub fn expire_local(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        at_most: usize,
        mut ended: impl FnMut(StateId, V),
    ) -> usize {
        let mut count = 0;
        let me = self.me as u16;
        for _ in 0..at_most {
            let Some(&(due, flow)) = self.ending.front() else { break };
            if due > now {
                break;
            }
            self.ending.pop_front();
            // The flow may have been opened and closed again since.
            if self.is_mine(StateId { core: me, flow }) && self.own[flow.index as usize].ends == Some(due) {
                count += self.end(flow.index, &mut ended);
            }
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

    /// Begins another turn of the hand, if the last turn began long enough ago.
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

    /// Returns the id of an entry in use.
    fn id(&self, index: u32) -> StateId {
        let generation = NonZeroU32::new(self.own[index as usize].generation).unwrap_or(NonZeroU32::MIN);
        StateId { core: self.me as u16, flow: FlowId { index, generation } }
    }

    /// Returns an entry and its pair.
    fn both(&self, index: u32) -> impl Iterator<Item = u32> + use<K, V> {
        std::iter::once(index).chain(self.own[index as usize].pair)
    }

    fn last(&self, index: u32) -> Timestamp {
        let seen = &self.all[self.me].seen;
        let stamps = self.both(index).flat_map(|index| seen.iter().map(move |seen| seen.last(index)));
        stamps.max().unwrap_or_default()
    }

    /// Ends an entry and its pair, and returns the number of flows that this ended.
    fn end(&mut self, index: u32, ended: &mut impl FnMut(StateId, V)) -> usize {
        let both = self.both(index);
        both.map(|index| {
            let id = self.id(index);
            let value = self.take(index);
            ended(id, value);
        })
        .count()
    }

    /// Takes an entry out of the table.
    fn take(&mut self, index: u32) -> V {
        let own = &mut self.own[index as usize];
        (own.is_used, own.ends, own.pair) = (false, None, None);
        if let Some((known, number)) = self.known.as_ref().zip(own.number.take()) {
            known.remove(number);
        }
        self.free.push(index);
        self.entries -= 1;
        self.all[self.me].table.take(index, own.hash)
    }

    // Functions for every core.

    /// Returns the current state of a flow of any core. Returns `None` also if the designated core is
    /// changing the state at this moment.
    #[inline]
    pub fn get(&self, core: usize, key: &K, hash: u32) -> Option<(StateId, V)> {
        let (flow, value) = self.all.get(core)?.table.get(key, hash)?;
        Some((StateId { core: core as u16, flow }, value))
    }

    /// Looks up many flows like [`get`](Self::get). `cores`, `keys`, `hashes` and `states` belong together
    /// element by element; elements beyond the shortest slice are ignored. Lines are prefetched, so that
    /// the waits overlap.
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

    /// Returns the time at which this core has last recorded that it saw a flow of any core: the end of
    /// that [`TICK`], or zero.
    #[inline]
    pub fn noted(&self, id: StateId) -> Timestamp {
        let seen = self.all.get(id.core()).and_then(|of| of.seen.get(self.me));
        seen.map_or(Timestamp::default(), |seen| seen.last(id.flow.index))
    }

    /// Returns the latest time at which any core has recorded that it saw a flow, like
    /// [`noted`](Self::noted).
    pub fn noted_by_any(&self, id: StateId) -> Timestamp {
        let seen = self.all.get(id.core()).into_iter().flat_map(|of| &of.seen);
        seen.map(|seen| seen.last(id.flow.index)).max().unwrap_or_default()
    }

    /// Records that this core has seen a flow: one store if the last record is old, otherwise none.
    #[inline]
    pub fn see(&self, id: StateId, now: Timestamp) {
        if let Some(seen) = self.all.get(id.core()).and_then(|of| of.seen.get(self.me)) {
            seen.note(id.flow.index, now);
        }
    }
}
