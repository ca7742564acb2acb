//! The store of translators: mappings, the translators that made them, and the times at which they expire.
//!
//! A mapping consists of two keys in one flow table, one per direction, and a session. (A flow that is its
//! own reply has one key.) The value of a key is the rewriting of this direction's packets, with the state
//! that follows from them; the table also records the time of each key's last packet. So most packets of a
//! known mapping touch only one entry of the table. The session has the data that are needed only when the
//! mapping is made, examined for expiry, or removed, and the byte for the reply annotation.
//!
//! Sessions wait in queues, ordered by a time before which they certainly do not expire. A session at the
//! front of its queue is examined: if it has had packets since it was queued, it is queued again with its
//! new time. So the first mapping to expire is found without any work per packet. Each batch examines a
//! limited number of sessions. A packet that arrives after its mapping has expired, but before the session
//! was examined, removes the mapping.
//!
//! Translators that share a capacity share a store. Each of them is an *owner* in the store, with a number;
//! its mappings are in *spaces* of its own.

mod adoption;
mod board;
mod chosen;
mod endpoints;
mod expiry;
mod handover;
mod leased;
mod logged;
mod moving;
mod save;
mod shifts;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;

use element::lease::Lease;
use element::{DropReason, Timestamp};
use flow::{FlowId, FlowTable, Inserted, Ipv4FlowKey, KeyHasher, MappedKey, Valued};

use super::change::{Change, Packed, set_session};
use super::session_log::SessionLog;
use super::shift::Shifts;
use super::spaces::IDENTIFIERS;
use super::state::{Kind, Policy, State, Told};
use super::tuple::Tuple;
use super::used::{Pool, Used};

use adoption::Revision;
pub(super) use adoption::{CouldMake, Made};
pub(super) use board::Board;
pub(super) use chosen::{Chosen, Claim, Fresh};
use endpoints::Endpoints;
pub(super) use endpoints::{Bound, Known};
pub(super) use handover::Written;
use moving::{Old, PER_MAPPING};
pub(super) use save::Classified;
use turns::{Queue, Turn, Turns};

/// The initial capacity of a flow table, in keys; a mapping has two keys.
const FIRST_CAPACITY: usize = 1 << 13;

/// The index that stands for no session: the end of the list of free sessions.
const NONE: u32 = u32::MAX;

/// The number of seeds of the hash function that are tried when the table is rebuilt, before the rebuild
/// fails.
const ATTEMPTS: u64 = 4;

/// The largest number of packets that are looked up together.
pub(super) const WINDOW: usize = 32;

/// Returns the tuple of a key.
fn tuple(key: Ipv4FlowKey) -> Tuple {
    let [(source, source_port), (destination, destination_port)] = key.ends();
    Tuple { source, destination, source_port, destination_port }
}

/// Returns the number of a space in keys: the space `which` of the translator with number `owner`.
pub(super) fn space(owner: u16, which: u32) -> u32 {
    u32::from(owner) << 8 | which
}

/// Returns the number that stands for an ICMP identifier as the destination port of a request's tuple, and as
/// the source port of the reply's tuple. The number differs from the identifier, so that no request looks
/// like a reply. As in Click, whose tables show the number, it is the identifier plus one, added in
/// little-endian order.
pub(super) fn mark(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

/// The data of a mapping that are needed only when it is made, examined for expiry, or removed, and the byte
/// for the reply annotation.
#[derive(Clone, Debug)]
struct Session {
    /// The ids of the flow's key and of the reply's key. A flow that is its own reply has only the reply's
    /// key. Both are `None` if the session is free.
    keys: [Option<FlowId>; 2],
    serial: u64,
    /// The time at which the session must be examined again, in nanoseconds.
    due: i64,
    queue: Queue,
    ticket: u32,
    /// The index of the next free session, if this session is free; otherwise [`NONE`].
    next: u32,
    /// The index of the session in the list of the mappings of its inside address, if the translator limits
    /// their number; otherwise [`NONE`].
    seat: u32,
    owner: u16,
    input: u16,
    /// The number of the output for the flow's packets. It is also stored in the rewriting of the flow's key,
    /// but a flow that is its own reply has no such key.
    output: u16,
    kind: Kind,
    policy: u8,
    protocol: u8,
    annotation: u8,
    claim: Claim,
    /// The number ([`Store::era`]) of the flow table that has the session's keys: the current table or the
    /// table from which keys are being moved.
    era: u8,
}

impl Session {
    fn is_in_use(&self) -> bool {
        self.keys[1].is_some()
    }
}

const _: () = assert!(size_of::<Session>() <= 64);

/// The counts of one input: the mappings that it has made and that exist now, and its failed attempts to make
/// a mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) mappings: u64,
    pub(super) failures: u64,
}

/// A translator among those that share a store.
#[derive(Clone)]
pub(super) struct Owner {
    /// The name and the class of the element.
    pub(super) name: String,
    /// The time-outs of mappings; the index is `policy` of the mapping. IPRewriter has the time-outs of TCP
    /// at index 0 and of UDP at index 1.
    pub(super) policies: [Policy; 2],
    /// The counts of each input.
    pub(super) inputs: Vec<Tally>,
    pub(super) outputs: usize,
    /// True if all flows of an inside endpoint have one outside port.
    pub(super) is_independent: bool,
    /// The largest number of mappings per inside address, that is, per source address of the flows; zero for
    /// no limit (SUBSCRIBER_CAPACITY).
    pub(super) most_of_one: u32,
    /// The log of the mappings that are made and removed (LOG).
    pub(super) log: Option<Arc<SessionLog>>,
}

pub(super) struct Store {
    table: FlowTable<MappedKey>,
    /// The previous table, while keys are moved from it to the current table.
    old: Option<Old>,
    /// True if this store has taken over the mappings of a replaced store as a whole.
    has_adopted: bool,
    /// The work that remains after the mappings of a replaced store were taken over: to apply the new
    /// settings.
    revision: Option<Revision>,
    /// The number of the current table, which increases (and wraps) with each new table. Sessions with this
    /// number have their keys in the current table, other sessions in the previous one.
    era: u8,
    seed: u64,
    hasher: KeyHasher,
    /// The secret hash from which port searches start, so that an attacker cannot predict ports.
    secret: KeyHasher,
    sessions: Vec<Session>,
    /// The index of the first free session. Free sessions form a list through their `next`.
    free: u32,
    turns: Turns,
    owners: Vec<Owner>,
    /// True if mappings are removed when they expire. If false, expired mappings may stay until a new mapping
    /// needs their port or their room.
    reaps: bool,
    /// The time before which no mapping has to be examined for expiry, in nanoseconds. The minimum means that
    /// the last search was cut off and must continue, or that there was none since a translator joined or
    /// mappings were taken over.
    next_search: i64,
    /// The exponent of the length of a time slice: 2^`slice` nanoseconds, at most the shortest time-out (one
    /// nanosecond if that is zero). A mapping that has had a packet in the current slice cannot have expired.
    slice: u32,
    used: Used,
    endpoints: Endpoints,
    /// The board on which other workers read this store's mappings, if packets of one flow reach several
    /// workers.
    board: Option<Board>,
    /// The edits (replaced ranges of bytes) of connections whose sequence numbers are shifted, by index of
    /// the session.
    shifts: HashMap<u32, Box<Shifts>>,
    /// The leases of flows whose packets another element handles, by id of the key.
    leases: HashMap<FlowId, Lease>,
    size: usize,
    capacity: i32,
    /// The time of the current batch, for logs.
    now: Timestamp,
    next_serial: u64,
    /// The number of mappings that have been added so far. If it has changed since a look-up, the result of
    /// the look-up may be out of date.
    additions: u64,
    /// A number that increases whenever ids of keys become invalid, because keys are moved to another
    /// table.
    epoch: u64,
}

impl Store {
    /// Returns an empty store without translators. Returns `None` if there is no memory for its table.
    pub(super) fn new() -> Option<Store> {
        Some(Store {
            table: FlowTable::new(FIRST_CAPACITY).ok()?,
            old: None,
            has_adopted: false,
            revision: None,
            era: 0,
            seed: 0,
            hasher: KeyHasher::default(),
            secret: KeyHasher::new(!0),
            sessions: Vec::new(),
            free: NONE,
            turns: Turns::default(),
            owners: Vec::new(),
            reaps: false,
            next_search: i64::MIN,
            slice: i64::BITS - 1,
            used: Used::default(),
            endpoints: Endpoints::default(),
            board: None,
            shifts: HashMap::new(),
            leases: HashMap::new(),
            size: 0,
            capacity: i32::MAX,
            now: Timestamp::ZERO,
            next_serial: 0,
            additions: 0,
            epoch: 0,
        })
    }

    /// Seeds the hash functions, so that an attacker can neither make keys collide nor predict ports. If
    /// there are mappings, the hash function of the keys stays as it is.
    pub(super) fn seed(&mut self, seed: u64) {
        self.secret = KeyHasher::new(!seed);
        self.used.seed(seed);
        if self.size == 0 {
            (self.seed, self.hasher) = (seed, KeyHasher::new(seed));
        }
    }

    /// Makes the ids of keys start in a series of numbers that no other store of the worker uses. Flow marks
    /// are made from ids, so the flow marks of different translators then differ. Has no effect if there have
    /// been mappings.
    pub(super) fn start_ids(&mut self, series: u32) {
        if self.additions == 0 {
            // A series of ids has a million generations (2^20). An entry of the table gets another generation
            // with each new key, and hardly goes through a whole series before the same series is used again.
            self.table.set_first_generation(series.wrapping_shl(20).wrapping_add(1));
        }
    }

    /// Returns an empty flow table whose ids differ from all ids that this store has used, until the
    /// generation numbers in ids wrap. Returns `None` if there is no memory.
    fn another_table(&self, capacity: usize) -> Option<FlowTable<MappedKey>> {
        let mut table = FlowTable::new(capacity).ok()?;
        table.set_first_generation(self.table.next_generation());
        Some(table)
    }

    /// Returns a number that depends on a flow and on the secret seed, for the start of port searches.
    pub(super) fn secret_of(&self, flow: Tuple, space: u32) -> u32 {
        self.secret.hash(&Store::key(flow, space))
    }

    /// Adds a translator, and returns its number. If `reaps` is true for any translator, expired mappings of
    /// all translators are removed.
    pub(super) fn join(&mut self, owner: Owner, reaps: bool) -> u16 {
        self.reaps |= reaps;
        let shortest = owner.policies.iter().map(Policy::shortest).min().unwrap_or(0);
        self.slice = self.slice.min(shortest.checked_ilog2().unwrap_or(0));
        self.owners.push(owner);
        self.next_search = i64::MIN;
        (self.owners.len() - 1) as u16
    }

    /// Returns the number of mappings of all translators that share the store.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn capacity(&self) -> i32 {
        self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: i32) {
        self.capacity = capacity;
    }

    pub(super) fn tallies(&self, owner: u16) -> &[Tally] {
        self.owners.get(usize::from(owner)).map_or(&[], |owner| &owner.inputs)
    }

    /// Adds one to the failures of an input: failed attempts to make a mapping.
    pub(super) fn count_failure(&mut self, owner: u16, input: u16) {
        if let Some(tally) = self.tally(owner, input) {
            tally.failures += 1;
        }
    }

    /// Adds the failures (failed attempts to make a mapping) of an input of a replaced translator to the same
    /// input of its successor, the translator with number `owner`.
    pub(super) fn count_failures(&mut self, owner: u16, input: u16, failures: u64) {
        if let Some(tally) = self.tally(owner, input) {
            tally.failures += failures;
        }
    }

    fn tally(&mut self, owner: u16, input: u16) -> Option<&mut Tally> {
        self.owners.get_mut(usize::from(owner))?.inputs.get_mut(usize::from(input))
    }

    /// Returns the number of mappings that have been added so far, including those that were removed since.
    #[inline]
    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// Returns a number that increases whenever ids of keys become invalid.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    // Look-ups.

    /// Returns the key of a tuple in a space.
    #[inline]
    pub(super) fn key(tuple: Tuple, space: u32) -> Ipv4FlowKey {
        let source = (tuple.source, tuple.source_port);
        Ipv4FlowKey::new(source, (tuple.destination, tuple.destination_port), space)
    }

    /// Looks up the keys of several packets, at most [`WINDOW`]. For each key, writes its id, or `None` if no
    /// mapping has it, to `found` at the key's index. Keys that are in the previous table are moved to the
    /// current table.
    #[inline]
    pub(super) fn find_all(&mut self, keys: &[Ipv4FlowKey], found: &mut [Option<FlowId>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.table.lookup_batch(keys, &hashes[..keys.len()], found);
        if self.old.is_some() {
            self.bring_all(keys, found);
        }
        if self.revision.is_some() {
            self.end_stale_among(found);
        }
    }

    /// Returns the id of a key, or `None` if no mapping has it. A key in the previous table is moved to the
    /// current one.
    pub(super) fn find_key(&mut self, key: &Ipv4FlowKey) -> Option<FlowId> {
        let found = self.table.lookup(key, self.hasher.hash(key));
        let found = if found.is_none() && self.old.is_some() { self.bring_key(key) } else { found };
        found.filter(|&id| self.revision.is_none() || !self.ends_as_stale(id))
    }

    /// Returns the rewriting of packets with a tuple, or `None` if there is no mapping. Does not check for
    /// expiry, and moves nothing.
    pub(super) fn find(&self, tuple: Tuple, space: u32) -> Option<Change> {
        let key = Store::key(tuple, space);
        match self.table.lookup(&key, self.hasher.hash(&key)) {
            Some(id) => self.table.key(id).map(|key| Change::unpacked(key.value())),
            None => self.find_in_old(&key),
        }
    }

    /// Returns the rewriting of packets with a tuple; `None` if there is no mapping, if it has expired, or if
    /// it is still to be ended after a reload. Does not restart the time-out.
    pub(super) fn find_at(&self, tuple: Tuple, space: u32, now: Timestamp) -> Option<Change> {
        self.find(tuple, space)
            .filter(|change| !self.has_ended(change.session, now) && !self.is_stale(change.session))
    }

    /// Returns the binary logarithm of the length of a time slice in nanoseconds. A mapping that has had a
    /// packet in the current slice is certainly not expired. If mappings are not removed on expiry, the slice
    /// is longer than any execution.
    pub(super) fn slice(&self) -> u32 {
        if self.reaps { self.slice } else { i64::BITS - 1 }
    }

    /// Returns the rewriting of a packet that has arrived now and whose key has this id, and restarts the
    /// mapping's time-out. If the mapping has expired and the store removes expired mappings, removes it and
    /// returns `None`.
    #[inline]
    pub(super) fn see(&mut self, id: FlowId, now: Timestamp) -> Option<Packed> {
        let last = self.table.last_seen(id)?;
        if (last.0 ^ now.0) >> self.slice != 0 {
            return self.see_late(id, now);
        }
        self.table.see(id, now).map(|value| Packed(*value))
    }

    /// Continues [`see`](Self::see), the look-up of a key by its id, if the mapping's last packet came in an
    /// earlier time slice, so that the mapping may have expired.
    #[cold]
    #[inline(never)]
    fn see_late(&mut self, id: FlowId, now: Timestamp) -> Option<Packed> {
        if self.ends_with(id, now) {
            return None;
        }
        self.table.see(id, now).map(|value| Packed(*value))
    }

    /// Updates the state of the packet's direction of the mapping, in the store and in `change`, by the
    /// information `told` that the packet gives. If the packet resets the connection, also updates the state
    /// of the other direction.
    #[inline]
    pub(super) fn note(&mut self, id: FlowId, change: &mut Change, told: Told) {
        let state = change.state.after(told);
        if state != change.state || told.resets() {
            self.note_state(id, change, state, told.resets());
            change.state = state;
        }
    }

    #[cold]
    fn note_state(&mut self, id: FlowId, change: &Change, state: State, resets: bool) {
        self.change_state(self.era, id, |_| state);
        let Some(session) = self.sessions.get(change.session as usize) else { return };
        let keys = session.keys;
        if resets {
            for other in keys.into_iter().flatten().filter(|&other| other != id) {
                self.change_state(self.era, other, State::closed);
            }
        }
        // The packet may change the mapping's time-out. If the mapping now expires later, this is noticed
        // when its session is examined. If it expires earlier, the session must be queued for an earlier
        // examination.
        let due = self.expiry(change.session);
        let session = &self.sessions[change.session as usize];
        if session.queue == Queue::Open && due < session.due {
            self.queue(change.session, Queue::Open, due);
        }
    }

    /// Returns the number of a mapping: mappings are numbered in the order in which they are made, from 0 on,
    /// modulo 2 to the power of 32.
    pub(super) fn number_of(&self, session: u32) -> u32 {
        self.sessions.get(session as usize).map_or(0, |session| session.serial as u32)
    }

    /// Returns the protocol of the packet that made a mapping, and the annotation byte for its replies.
    pub(super) fn details(&self, session: u32) -> (u8, u8) {
        self.sessions.get(session as usize).map_or((0, 0), |session| (session.protocol, session.annotation))
    }

    // Choice of ports and addresses.

    /// Returns the tuple (addresses and ports) that replies to a flow have before their translation, if `to`
    /// is the flow's tuple after translation.
    fn reply(to: Tuple, space: u32) -> Tuple {
        let mut reply = to.reversed();
        if space & 0xff == IDENTIFIERS {
            reply.source_port = mark(reply.destination_port);
        }
        reply
    }

    /// Returns the pool in which the source port of `to`, or its source address, is reserved. Mappings of one
    /// pool have replies that differ only in this port or address. The pool of [`Claim::Endpoint`] contains
    /// the mappings to all destinations.
    fn pool(to: Tuple, space: u32, claim: Claim) -> Pool {
        let port = |port: u16| if space & 0xff == IDENTIFIERS { 0 } else { u64::from(port) };
        let space = u64::from(space) << 32;
        let source = u64::from(to.source) << 32;
        match claim {
            Claim::Endpoint => (source, space | 1 << 17 | 1),
            Claim::Port => (source | u64::from(to.destination), space | port(to.destination_port) << 1 | 1),
            Claim::Address | Claim::Nothing => {
                let ports = port(to.destination_port) << 16 | u64::from(to.source_port);
                (u64::from(to.destination) | ports << 32, space)
            }
        }
    }

    /// Returns the first number from `from` to `last`, both included, that can become the source port or the
    /// source address of `to`. The number must be free in its pool, `is_wanted` must accept the resulting
    /// tuple, and no mapping may have the same reply. Returns `None` if there is no such number.
    pub(super) fn free_from(
        &self,
        space: u32,
        to: Tuple,
        claim: Claim,
        (from, last): (u32, u32),
        is_wanted: impl Fn(Tuple) -> bool,
    ) -> Option<u32> {
        let pool = Store::pool(to, space, claim);
        let mut from = from;
        loop {
            let number = self.used.next_free(pool, from, last)?;
            let mut to = to;
            match claim {
                Claim::Port | Claim::Endpoint => to.source_port = number as u16,
                Claim::Address | Claim::Nothing => to.source = number,
            }
            if is_wanted(to) && self.find(Store::reply(to, space), space).is_none() {
                return Some(number);
            }
            // The number is free in the pool, but the caller does not want the tuple, or a mapping without a
            // reserved number has the same reply. So the search continues with the next number.
            from = number.checked_add(1)?;
        }
    }

    // Making and removing mappings.

    /// Makes a mapping, and evicts another if the capacity is exceeded. Returns the id of the flow's key,
    /// and the rewriting of the flow's packets. The error is the drop reason for the packet: `TableFull` at
    /// the limits of capacity, subscriber or memory, and `NoMapping` if the flow's tuple is taken. An error
    /// is counted in the failures of the translator's input.
    pub(super) fn add(&mut self, fresh: &Fresh, now: Timestamp) -> Result<(FlowId, Change), DropReason> {
        let owner = (fresh.space >> 8) as u16;
        self.now = now;
        if self.is_exhausted(owner, fresh.from.source, now.0) {
            self.count_failure(owner, fresh.input);
            return Err(DropReason::TableFull);
        }
        let (id, change) = self.insert(fresh, now).inspect_err(|_| self.count_failure(owner, fresh.input))?;
        self.record(owner, true, fresh.protocol, (fresh.from, fresh.chosen.to));
        if self.size as i64 > i64::from(self.capacity) {
            let victim = self.victim(now.0).unwrap_or(change.session);
            self.remove(victim);
            if victim == change.session {
                self.count_failure(owner, fresh.input);
                return Err(DropReason::TableFull);
            }
        }
        Ok((id, change))
    }

    fn insert(&mut self, fresh: &Fresh, now: Timestamp) -> Result<(FlowId, Change), DropReason> {
        let &Fresh { space, from, chosen, input, outputs, .. } = fresh;
        let mut to = chosen.to;
        if space & 0xff == IDENTIFIERS {
            to.destination_port = mark(to.source_port);
        }
        let reply = to.reversed();
        // A key can belong to one mapping only, so the flow is refused if a mapping has its tuple. A flow
        // that is its own reply replaces that mapping instead.
        if from != reply && self.find(from, space).is_some() {
            return Err(DropReason::NoMapping);
        }
        self.move_some(PER_MAPPING);
        while self.entries() + 2 > self.table.stats().capacity {
            if !self.begin_move(self.table.stats().capacity.saturating_mul(2)) {
                return Err(DropReason::TableFull);
            }
        }
        if !self.has_memory_for_another() || !self.reserve_seat((space >> 8) as u16, from.source) {
            return Err(DropReason::TableFull);
        }
        // As in Click, a mapping that already has the reply's tuple is removed.
        if let Some(other) = self.find(reply, space) {
            self.remove(other.session);
        }
        let place = match self.free {
            NONE => self.sessions.len() as u32,
            place => place,
        };
        let mut forward = Change::new(from, to, space);
        (forward.session, forward.output) = (place, outputs[0]);
        let mut backward = Change::new(reply, from.reversed(), space);
        if space & 0xff == IDENTIFIERS {
            backward.change_identifier(to.source_port, from.source_port);
        }
        (backward.session, backward.output, backward.is_reply) = (place, outputs[1], true);
        let keys = [(from, forward), (reply, backward)]
            .map(|(tuple, change)| MappedKey::new(Store::key(tuple, space), change.packed()));
        // A flow that is its own reply has a single key, which is stored as the key of the reply.
        let first = if from == reply { None } else { Some(self.insert_key(&keys[0], now)?) };
        let second = match self.insert_key(&keys[1], now) {
            Ok(id) => id,
            Err(reason) => {
                first.map(|id| self.table.remove(id));
                return Err(reason);
            }
        };
        for id in first.into_iter().chain([second]) {
            self.show(id, now);
        }
        let owner = (space >> 8) as u16;
        let session = Session {
            keys: [first, Some(second)],
            serial: self.next_serial,
            due: 0,
            queue: Queue::Open,
            ticket: self.sessions.get(place as usize).map_or(0, |old| old.ticket),
            next: NONE,
            seat: NONE,
            owner,
            input,
            output: outputs[0],
            kind: fresh.kind,
            policy: fresh.policy,
            protocol: fresh.protocol,
            annotation: 0,
            claim: chosen.claim,
            era: self.era,
        };
        self.next_serial += 1;
        match self.sessions.get_mut(place as usize) {
            Some(old) => {
                self.free = old.next;
                *old = session;
            }
            None => self.sessions.push(session),
        }
        self.queue_first(place);
        match chosen.claim {
            Claim::Nothing => {}
            Claim::Port => self.used.set(Store::pool(to, space, Claim::Port), to.source_port.into()),
            Claim::Address => self.used.set(Store::pool(to, space, Claim::Address), to.source),
            Claim::Endpoint => self.bind(space, (from, to), outputs),
        }
        self.charge(place, from.source);
        self.size += 1;
        self.additions += 1;
        if let Some(tally) = self.tally(owner, input) {
            tally.mappings += 1;
        }
        Ok((first.unwrap_or(second), forward))
    }

    /// Reserves the memory that one more mapping needs, except for its keys and its entry in the list of its
    /// inside address. Returns false if there is no memory. Vectors grow by more than one element at a time,
    /// as with `push`, so that not every mapping allocates.
    fn has_memory_for_another(&mut self) -> bool {
        self.sessions.try_reserve(1).is_ok()
            && self.turns.try_reserve(self.size + 1)
            && self.used.try_reserve()
            && self.endpoints.try_reserve()
    }

    fn insert_key(&mut self, key: &MappedKey, now: Timestamp) -> Result<FlowId, DropReason> {
        let inserted = self.table.insert(key, self.hasher.hash(key), now);
        debug_assert!(!matches!(inserted, Ok(Inserted::Present(_))), "two mappings with one key");
        inserted.map(|inserted| inserted.id()).map_err(|_| DropReason::TableFull)
    }

    /// Moves all mappings at once to a new table with this capacity in keys, and renumbers sessions without
    /// gaps. Returns false, and changes no mapping, if there is no memory or no suitable hash function. Ends
    /// all leases in any case.
    #[cold]
    fn rebuild(&mut self, capacity: usize) -> bool {
        self.end_leases();
        // With another number of buckets, too many keys can fall into one bucket. Then another seed spreads
        // them differently.
        let made = (0..ATTEMPTS).find_map(|attempt| self.moved(capacity, self.seed.wrapping_add(attempt)));
        let Some(((table, sessions), seed)) = made else { return false };
        let old = (0..).zip(&self.sessions).filter(|(_, session)| session.is_in_use());
        let mut shifts = std::mem::take(&mut self.shifts);
        for (new, (old, _)) in (0..).zip(old) {
            if shifts.is_empty() {
                break;
            }
            self.shifts.extend(shifts.remove(&old).map(|shifts| (new, shifts)));
        }
        (self.table, self.sessions, self.old) = (table, sessions, None);
        (self.seed, self.hasher) = (seed, KeyHasher::new(seed));
        (self.free, self.turns) = (NONE, Turns::default());
        if let Some(revision) = &mut self.revision {
            revision.start_again();
        }
        for (place, session) in (0..).zip(&self.sessions) {
            self.turns.push(session.queue, Turn { due: session.due, place, ticket: session.ticket });
        }
        self.charge_all();
        self.epoch += 1;
        true
    }

    /// Returns a new table that has all keys, hashed with `seed`, and the list of sessions renumbered without
    /// gaps; also returns the seed. Returns `None` if there is no memory, or if too many keys fall into one
    /// bucket with this seed.
    fn moved(&self, capacity: usize, seed: u64) -> Option<(Moved, u64)> {
        let mut table = self.another_table(capacity)?;
        let hasher = KeyHasher::new(seed);
        let mut sessions: Vec<Session> = Vec::new();
        sessions.try_reserve(self.size + 1).ok()?;
        for session in self.sessions.iter().filter(|session| session.is_in_use()) {
            let mut session = session.clone();
            let before = self.table_of(&session);
            session.era = self.era;
            for id in session.keys.iter_mut().flatten() {
                let (mut key, last) = (*before.key(*id)?, before.last_seen(*id)?);
                set_session(key.value_mut(), sessions.len() as u32);
                *id = table.insert(&key, hasher.hash(&key), last).ok()?.id();
            }
            sessions.push(session);
        }
        Some(((table, sessions), seed))
    }

    /// Removes a mapping by the index of its session, and frees its port or address. Does nothing if the
    /// session is free.
    pub(super) fn remove(&mut self, place: u32) {
        let Some(session) = self.sessions.get_mut(place as usize).filter(|session| session.is_in_use())
        else {
            return;
        };
        let (owner, input, claim, era) = (session.owner, session.input, session.claim, session.era);
        let (seat, protocol) = (session.seat, session.protocol);
        let keys = std::mem::take(&mut session.keys);
        keys.into_iter().flatten().for_each(|id| self.end_lease(id));
        let Some(session) = self.sessions.get_mut(place as usize) else { return };
        session.next = std::mem::replace(&mut self.free, place);
        self.forget_turn(place);
        if !self.shifts.is_empty() {
            self.shifts.remove(&place);
        }
        let [forward, reply] = keys.map(|id| id.and_then(|id| self.table_mut(era).remove(id)));
        for key in [forward, reply].into_iter().flatten() {
            self.hide(&key.ends());
        }
        if let Some(reply) = reply {
            let space = reply.ends().space();
            let to = tuple(reply.ends()).reversed();
            let from = forward.map_or(tuple(reply.ends()), |key| tuple(key.ends()));
            match claim {
                Claim::Nothing => {}
                Claim::Port => self.used.clear(Store::pool(to, space, claim), to.source_port.into()),
                Claim::Address => self.used.clear(Store::pool(to, space, claim), to.source),
                Claim::Endpoint => self.unbind(space, from),
            }
            self.discharge(owner, from.source, seat);
            self.record(owner, false, protocol, (from, to));
        }
        self.size -= 1;
        if let Some(tally) = self.tally(owner, input) {
            tally.mappings -= 1;
        }
    }

    /// Removes the mappings for whose sessions `ends` returns true.
    fn remove_where(&mut self, ends: impl Fn(&Session) -> bool) {
        for place in 0..self.sessions.len() {
            if self.sessions.get(place).is_some_and(&ends) {
                self.remove(place as u32);
            }
        }
    }

    /// Removes all mappings that an input of the translator with number `owner` has made.
    pub(super) fn remove_of_input(&mut self, owner: u16, input: u16) {
        self.remove_where(|session| session.owner == owner && session.input == input);
    }

    /// Removes all mappings of all translators that share the store.
    pub(super) fn clear(&mut self) {
        self.remove_where(|_| true);
    }

    /// Stores the annotation byte that packets of the reply get; with a shared outside port, also for
    /// packets to the endpoint that have no mapping.
    pub(super) fn set_annotation(&mut self, session: u32, value: u8) {
        let place = session as usize;
        let Some(session) = self.sessions.get_mut(place) else { return };
        session.annotation = value;
        let session = &self.sessions[place];
        if let (Claim::Endpoint, [Some(forward), _]) = (session.claim, session.keys)
            && let Some(key) = self.table_of(session).key(forward)
        {
            let (space, from) = (key.ends().space(), tuple(key.ends()));
            self.annotate(space, from, value);
        }
    }

    /// Returns the capacity of the table in keys, the number of sessions (used and free), and the number of
    /// words in the bitmaps of ports and addresses in use.
    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, usize, usize) {
        (self.table.stats().capacity, self.sessions.len(), self.used.len())
    }
}

type Moved = (FlowTable<MappedKey>, Vec<Session>);

#[cfg(test)]
mod tests;
