//! The state of translators: mappings, the translators that made them, and the times at which they expire.
//!
//! A mapping consists of two keys in one flow table, one per direction, and a session. The value of a key
//! says how a packet is changed and what packets of this direction have shown about the mapping; the
//! table's entry has the time of the last packet. So a packet of a known mapping touches only one entry.
//! The session has the data that are needed when a mapping is made or removed.
//!
//! Sessions wait in queues, ordered by a time before which they certainly do not expire. When a session
//! reaches the front of its queue, it is examined: if it has had packets since, it is queued again by its
//! new time. So the first mapping to expire is found without moving anything per packet. Each batch
//! examines a few sessions. A packet that arrives after its mapping has expired, but before the session is
//! examined, ends the mapping.
//!
//! Translators that share a capacity share a store; each is an owner in it.

mod board;
mod endpoints;
mod expiry;
mod handover;
mod leased;
mod moving;
mod shifts;
mod turns;

use std::collections::HashMap;

use element::lease::Lease;
use element::{DropReason, Timestamp};
use flow::{FlowId, FlowTable, Inserted, Ipv4FlowKey, KeyHasher, MappedKey, Valued};

use super::change::{Change, set_session};
use super::shift::Shifts;
use super::spaces::IDENTIFIERS;
use super::state::{Kind, Policy, State, Told};
use super::tuple::Tuple;
use super::used::{Pool, Used};

pub(super) use board::Board;
use endpoints::Endpoints;
pub(super) use endpoints::{Bound, Known};
pub(super) use handover::Written;
use moving::{Old, PER_MAPPING};
use turns::{Queue, Turn, Turns};

/// The initial capacity of a table, in keys.
const FIRST_CAPACITY: usize = 1 << 13;

/// The index that means no session.
const NONE: u32 = u32::MAX;

/// The number of hash functions that are tried when a table is rebuilt.
const ATTEMPTS: u64 = 4;

/// The number of packets that are looked up together.
pub(super) const WINDOW: usize = 32;

/// Returns the tuple of a key.
fn tuple(key: Ipv4FlowKey) -> Tuple {
    let [(source, source_port), (destination, destination_port)] = key.ends();
    Tuple { source, destination, source_port, destination_port }
}

/// Returns a space of an owner.
pub(super) fn space(owner: u16, which: u32) -> u32 {
    u32::from(owner) << 8 | which
}

/// Returns the number that replaces the identifier in a tuple of the opposite direction, so that no request
/// looks like a reply. Like Click, which shows it in its tables, it adds one to the bytes as they are in
/// memory.
pub(super) fn mark(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

/// The new tuple of a flow, and its claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) to: Tuple,
    pub(super) claim: Claim,
}

/// The number that a mapping reserves, so that no other mapping gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// No number, because none was chosen.
    Nothing,
    /// The mapping's port outside, towards its server.
    Port,
    /// The mapping's address outside, towards its server.
    Address,
    /// The mapping's port outside, shared by all mappings of the same endpoint inside.
    Endpoint,
}

/// The data of a mapping that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) space: u32,
    pub(super) from: Tuple,
    pub(super) chosen: Chosen,
    pub(super) input: u16,
    pub(super) outputs: [u16; 2],
    pub(super) kind: Kind,
    pub(super) policy: u8,
    pub(super) protocol: u8,
}

/// The data that are needed when a mapping is made or removed.
#[derive(Clone, Debug)]
struct Session {
    /// The ids of the flow's key (`None` if the flow is its own reply) and of the reply's key; both are
    /// `None` if the session is free.
    keys: [Option<FlowId>; 2],
    serial: u64,
    /// The time at which the session must be examined (its turn), and the queue in which it waits for that.
    due: i64,
    queue: Queue,
    ticket: u32,
    /// The index of the next free session, if this session is free.
    next: u32,
    /// The index among the mappings of its subscriber, if these are counted.
    seat: u32,
    owner: u16,
    input: u16,
    /// The output of the flow's packets; for a flow that is its own reply, this is the only place of it.
    output: u16,
    kind: Kind,
    policy: u8,
    protocol: u8,
    annotation: u8,
    claim: Claim,
    /// The number of the table that has the session's keys, the new or the old: see [`Store::era`].
    era: u8,
}

impl Session {
    fn is_in_use(&self) -> bool {
        self.keys[1].is_some()
    }
}

const _: () = assert!(size_of::<Session>() <= 64);

/// The counts of an input of an owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) mappings: u64,
    pub(super) failures: u64,
}

struct Owner {
    policies: [Policy; 2],
    inputs: Vec<Tally>,
    /// The largest number of mappings for one address inside; zero for no limit.
    most_of_one: u32,
}

pub(super) struct Store {
    table: FlowTable<MappedKey>,
    /// The previous table, until all its keys have moved.
    old: Option<Old>,
    /// The number of the current table, which increases with each new table: sessions with the same number
    /// have their keys in it.
    era: u8,
    seed: u64,
    hasher: KeyHasher,
    /// The hash for the start of port searches, so that ports are not predictable.
    secret: KeyHasher,
    sessions: Vec<Session>,
    /// The first free session; free sessions are linked by `next`.
    free: u32,
    turns: Turns,
    owners: Vec<Owner>,
    /// True if mappings end when they expire, and not only when their place is needed.
    reaps: bool,
    /// The time before which no mapping expires.
    next_search: i64,
    /// The exponent of a time slice of 2^`slice` nanoseconds, no longer than the shortest time-out. A
    /// mapping with a packet in the current slice has not expired.
    slice: u32,
    used: Used,
    endpoints: Endpoints,
    /// The mappings as other workers see them, if they do.
    board: Option<Board>,
    /// The shifts of sequence numbers, by session.
    shifts: HashMap<u32, Box<Shifts>>,
    /// The flows that are leased to another element.
    leases: HashMap<FlowId, Lease>,
    size: usize,
    capacity: i32,
    next_serial: u64,
    /// A number that increases with each mapping that is added.
    additions: u64,
    /// A number that increases when all keys get new ids.
    epoch: u64,
}

impl Store {
    /// Returns an empty store; `None` if there is no memory for it.
    pub(super) fn new() -> Option<Store> {
        Some(Store {
            table: FlowTable::new(FIRST_CAPACITY).ok()?,
            old: None,
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
            next_serial: 0,
            additions: 0,
            epoch: 0,
        })
    }

    /// Seeds the hash functions, so that an attacker can neither make keys collide nor predict ports.
    pub(super) fn seed(&mut self, seed: u64) {
        self.secret = KeyHasher::new(!seed);
        self.used.seed(seed);
        if self.size == 0 {
            (self.seed, self.hasher) = (seed, KeyHasher::new(seed));
        }
    }

    /// Makes ids start at a series that no other store of the worker uses. Has no effect if there are keys.
    pub(super) fn start_ids(&mut self, series: u32) -> Option<()> {
        if self.size == 0 {
            // Series are a million generations apart: a place is hardly reused so often before the series
            // repeats.
            let table = FlowTable::new(FIRST_CAPACITY).ok()?;
            self.table = table.with_generations_from(series.wrapping_shl(20).wrapping_add(1));
        }
        Some(())
    }

    /// Shows mappings to other workers from now on.
    pub(super) fn use_board(&mut self, board: Board) {
        self.board = Some(board);
    }

    /// Returns the board with this worker's and other workers' mappings.
    pub(super) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// Returns an empty table whose ids differ from all ids so far.
    fn another_table(&self, capacity: usize) -> Option<FlowTable<MappedKey>> {
        Some(FlowTable::new(capacity).ok()?.with_generations_from(self.table.next_generation()))
    }

    /// Returns a number that follows from a flow and from the seed.
    pub(super) fn secret_of(&self, flow: Tuple, space: u32) -> u32 {
        self.secret.hash(&Store::key(flow, space))
    }

    /// Adds an owner with its inputs. If one owner reaps, the mappings of all owners end when they expire.
    pub(super) fn join(&mut self, policies: [Policy; 2], inputs: usize, reaps: bool) -> u16 {
        let inputs = vec![Tally::default(); inputs];
        self.owners.push(Owner { policies, inputs, most_of_one: 0 });
        self.reaps |= reaps;
        let shortest = policies.iter().map(Policy::shortest).min().unwrap_or(0);
        self.slice = self.slice.min(shortest.checked_ilog2().unwrap_or(0));
        self.next_search = i64::MIN;
        (self.owners.len() - 1) as u16
    }

    /// Returns the number of mappings.
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

    /// Counts a flow that could not be mapped.
    pub(super) fn count_failure(&mut self, owner: u16, input: u16) {
        if let Some(tally) = self.tally(owner, input) {
            tally.failures += 1;
        }
    }

    fn tally(&mut self, owner: u16, input: u16) -> Option<&mut Tally> {
        self.owners.get_mut(usize::from(owner))?.inputs.get_mut(usize::from(input))
    }

    /// Returns a number that increases with each mapping that is added.
    #[inline]
    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// Returns a number that increases when all keys get new ids.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    // Look-ups.

    /// Returns the key of a tuple.
    #[inline]
    pub(super) fn key(tuple: Tuple, space: u32) -> Ipv4FlowKey {
        let source = (tuple.source, tuple.source_port);
        Ipv4FlowKey::new(source, (tuple.destination, tuple.destination_port), space)
    }

    /// Looks up the keys of several packets.
    #[inline]
    pub(super) fn find_all(&mut self, keys: &[Ipv4FlowKey], found: &mut [Option<FlowId>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.table.lookup_batch(keys, &hashes, found);
        if self.old.is_some() {
            self.bring_all(keys, found);
        }
    }

    /// Looks up the key of a packet.
    pub(super) fn find_key(&mut self, key: &Ipv4FlowKey) -> Option<FlowId> {
        let found = self.table.lookup(key, self.hasher.hash(key));
        if found.is_none() && self.old.is_some() { self.bring_key(key) } else { found }
    }

    /// Returns the change of a packet.
    pub(super) fn find(&self, tuple: Tuple, space: u32) -> Option<Change> {
        let key = Store::key(tuple, space);
        match self.table.lookup(&key, self.hasher.hash(&key)) {
            Some(id) => self.table.key(id).map(|key| Change::unpacked(key.value())),
            None => self.find_in_old(&key),
        }
    }

    /// Returns the change of a packet without counting the packet for its flow; `None` if the mapping has
    /// expired.
    pub(super) fn find_at(&self, tuple: Tuple, space: u32, now: Timestamp) -> Option<Change> {
        self.find(tuple, space).filter(|change| !self.has_ended(change.session, now))
    }

    /// Returns the exponent of the time slice in nanoseconds: a mapping with a packet in the current slice
    /// has not expired.
    pub(super) fn slice(&self) -> u32 {
        if self.reaps { self.slice } else { i64::BITS - 1 }
    }

    /// Returns the change of a packet that has arrived now, and notes its time. An expired mapping ends.
    #[inline]
    pub(super) fn see(&mut self, id: FlowId, now: Timestamp) -> Option<Change> {
        let last = self.table.last_seen(id)?;
        if (last.0 ^ now.0) >> self.slice != 0 {
            return self.see_late(id, now);
        }
        self.table.see(id, now).map(|value| Change::unpacked(value))
    }

    /// Does the work of [`see`](Self::see) for a packet that may be after the mapping's time-out.
    #[cold]
    #[inline(never)]
    fn see_late(&mut self, id: FlowId, now: Timestamp) -> Option<Change> {
        if self.ends_with(id, now) {
            return None;
        }
        self.table.see(id, now).map(|value| Change::unpacked(value))
    }

    /// Notes what a packet shows about its mapping.
    #[inline]
    pub(super) fn note(&mut self, id: FlowId, change: &Change, told: Told) {
        let state = change.state.after(told);
        if state != change.state || told.resets() {
            self.note_state(id, change, state, told.resets());
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
        // A later expiry is noticed when the session's turn comes; an earlier expiry needs an earlier turn.
        let due = self.expiry(change.session);
        let session = &self.sessions[change.session as usize];
        if session.queue == Queue::Open && due < session.due {
            self.queue(change.session, Queue::Open, due);
        }
    }

    /// Returns the protocol and the annotation byte of a mapping.
    pub(super) fn details(&self, session: u32) -> (u8, u8) {
        self.sessions.get(session as usize).map_or((0, 0), |session| (session.protocol, session.annotation))
    }

    // Free numbers.

    /// Returns the tuple of the reply to a flow that becomes `to`.
    fn reply(to: Tuple, space: u32) -> Tuple {
        let mut reply = to.reversed();
        if space & 0xff == IDENTIFIERS {
            reply.source_port = mark(reply.destination_port);
        }
        reply
    }

    /// Returns the pool from which the source port of `to`, or its source address, is chosen.
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

    /// Returns the first number from `from` to `last` that is wanted, and for which no mapping has the
    /// reply of `to`.
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
            // A mapping has the number without having chosen it, or the number is not wanted.
            from = number.checked_add(1)?;
        }
    }

    // Adding and removing mappings.

    /// Makes a mapping. Returns the id by which its first packet is found, and the packet's change.
    pub(super) fn add(&mut self, fresh: &Fresh, now: Timestamp) -> Result<(FlowId, Change), DropReason> {
        let owner = (fresh.space >> 8) as u16;
        if self.is_exhausted(owner, fresh.from.source, now.0) {
            self.count_failure(owner, fresh.input);
            return Err(DropReason::TableFull);
        }
        let (id, change) = self.insert(fresh, now).inspect_err(|_| self.count_failure(owner, fresh.input))?;
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
        // A key belongs to one mapping.
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
        // As in Click, the mapping that has the reply's tuple so far is removed.
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
        // A flow that is its own reply is found as the reply.
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

    /// True if there is memory for another mapping, except for its keys. Vectors grow here by as much as a
    /// push would make them grow.
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

    /// Moves all mappings to a new table of a capacity. Returns false, and changes nothing, if this fails.
    #[cold]
    fn rebuild(&mut self, capacity: usize) -> bool {
        self.end_leases();
        // With another number of buckets, too many keys can fall into one bucket; another hash function
        // then spreads them.
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
        for (place, session) in (0..).zip(&self.sessions) {
            self.turns.push(session.queue, Turn { due: session.due, place, ticket: session.ticket });
        }
        self.charge_all();
        self.epoch += 1;
        true
    }

    /// Returns a table of another capacity with all keys, and the sessions without gaps.
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

    /// Ends a mapping.
    pub(super) fn remove(&mut self, place: u32) {
        let Some(session) = self.sessions.get_mut(place as usize).filter(|session| session.is_in_use())
        else {
            return;
        };
        let (owner, input, claim, era) = (session.owner, session.input, session.claim, session.era);
        let seat = session.seat;
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
        }
        self.size -= 1;
        if let Some(tally) = self.tally(owner, input) {
            tally.mappings -= 1;
        }
    }

    /// Ends the mappings for which `ends` is true.
    fn remove_where(&mut self, ends: impl Fn(&Session) -> bool) {
        for place in 0..self.sessions.len() {
            if self.sessions.get(place).is_some_and(&ends) {
                self.remove(place as u32);
            }
        }
    }

    /// Ends all mappings that an input of an owner has made.
    pub(super) fn remove_of_input(&mut self, owner: u16, input: u16) {
        self.remove_where(|session| session.owner == owner && session.input == input);
    }

    /// Ends all mappings.
    pub(super) fn clear(&mut self) {
        self.remove_where(|_| true);
    }

    /// Stores an annotation byte for packets of the reply.
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

    /// Returns the capacity of the table, the number of sessions, and the number of words of used numbers.
    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, usize, usize) {
        (self.table.stats().capacity, self.sessions.len(), self.used.len())
    }
}

type Moved = (FlowTable<MappedKey>, Vec<Session>);

#[cfg(test)]
mod tests;
