//! What translators remember: mappings, who made them, and until when they hold.
//!
//! A mapping is two keys in one flow table, one per direction, and a session. The value of a key says what a packet is to
//! become and what packets of this direction have told; the table's entry has the time of the last one. So a packet of a
//! known mapping touches one entry and nothing else. The session has what is needed when a mapping comes or goes.
//!
//! Sessions stand in queues by a time before which they are certainly not over. Whoever comes to the front is looked at: if
//! there were packets meanwhile, it goes back to where it belongs, so that who is really over first is found without
//! anything being moved per packet. A few are looked at with each batch; a packet that comes before its mapping's turn,
//! but when that is over, ends it.
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
use flow::{EndsKey, FlowId, FlowTable, Inserted, KeyHasher, MappedKey, Valued};

use super::change::{Change, set_session};
use super::shift::Shifts;
use super::state::{Kind, Policy, State, Told};
use super::tuple::Tuple;
use super::used::{Pool, Used};

pub(super) use board::Board;
use endpoints::Endpoints;
pub(super) use endpoints::{Bound, Known};
pub(super) use handover::Written;
use moving::{Old, PER_MAPPING};
use turns::{Queue, Turn, Turns};

/// Keys that there is room for at first.
const FIRST_CAPACITY: usize = 1 << 13;

/// No session.
const NONE: u32 = u32::MAX;

/// Hash functions that are tried when a table is made anew.
const ATTEMPTS: u64 = 4;

/// Packets that are looked up together.
pub(super) const WINDOW: usize = 32;

/// Spaces of one owner: TCP, or whatever else there is, and UDP beside TCP.
pub(super) const ONLY: u32 = 0;
pub(super) const UDP_BESIDE: u32 = 1;
/// ICMP identifiers: the port behind the arrow is not chosen but follows from the other one.
pub(super) const IDENTIFIERS: u32 = 2;

/// The tuple of a key.
fn tuple(key: EndsKey) -> Tuple {
    let [(source, source_port), (destination, destination_port)] = key.ends();
    Tuple { source, destination, source_port, destination_port }
}

/// A space of an owner.
pub(super) fn space(owner: u16, which: u32) -> u32 {
    u32::from(owner) << 8 | which
}

/// What stands in a tuple for the identifier of the other direction: no request looks like a reply. Click adds one to the
/// bytes as they lie in memory, and shows it in its tables.
pub(super) fn mark(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

/// What a new flow is to become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) to: Tuple,
    pub(super) claim: Claim,
}

/// What a mapping keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nothing: none of its numbers was chosen.
    Nothing,
    /// Its port outside, towards its server.
    Port,
    /// Its address outside, towards its server.
    Address,
    /// Its port outside, together with all mappings of the same end inside.
    Endpoint,
}

/// A mapping to be made.
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

/// What is needed when a mapping comes or goes.
#[derive(Clone, Debug)]
struct Session {
    /// The flow's, unless it is its own reply, and the reply's; none while the place is free.
    keys: [Option<FlowId>; 2],
    serial: u64,
    /// The time of its turn, and in which queue that is.
    due: i64,
    queue: Queue,
    ticket: u32,
    /// The next free place, if this one is.
    next: u32,
    /// Its place among the mappings of its subscriber, if these are counted.
    seat: u32,
    owner: u16,
    input: u16,
    /// Where packets of the flow go; for a flow that is its own reply this is found nowhere else.
    output: u16,
    kind: Kind,
    policy: u8,
    protocol: u8,
    annotation: u8,
    claim: Claim,
    /// Whether its keys are in the table, or in the one that is moved from: see [`Store::era`].
    era: u8,
}

impl Session {
    fn is_in_use(&self) -> bool {
        self.keys[1].is_some()
    }
}

const _: () = assert!(size_of::<Session>() <= 64);

/// What an input of an owner has to show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) mappings: u64,
    pub(super) failures: u64,
}

struct Owner {
    policies: [Policy; 2],
    inputs: Vec<Tally>,
    /// Most mappings for one address inside; zero for no limit.
    most_of_one: u32,
}

pub(super) struct Store {
    table: FlowTable<MappedKey>,
    /// The table that there was before, until all that is in it has moved.
    old: Option<Old>,
    /// Goes up with each other table: sessions with the same number are in the new one.
    era: u8,
    seed: u64,
    hasher: KeyHasher,
    /// Where ports that nobody is to guess come from.
    secret: KeyHasher,
    sessions: Vec<Session>,
    /// Sessions not in use, linked by `next`.
    free: u32,
    turns: Turns,
    owners: Vec<Owner>,
    /// True if mappings end when they are over, and not only when somebody needs their place.
    reaps: bool,
    /// The time before which no mapping is over.
    next_search: i64,
    /// The logarithm of a time in nanoseconds, no longer than the shortest time-out. Time is cut into slices of it: a
    /// mapping is not over when one of its packets came in the slice that it is now.
    slice: u32,
    used: Used,
    endpoints: Endpoints,
    /// What other workers see of it, if they do.
    board: Option<Board>,
    /// By session.
    shifts: HashMap<u32, Box<Shifts>>,
    /// Flows that another element deals with.
    leases: HashMap<FlowId, Lease>,
    size: usize,
    capacity: i32,
    next_serial: u64,
    /// Goes up with each key that comes.
    additions: u64,
    /// Goes up when all keys get other ids.
    epoch: u64,
}

impl Store {
    /// An empty one; `None` where there is no memory for it.
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

    /// Whoever wants keys to collide, or ports to be known, does not know the hash functions.
    pub(super) fn seed(&mut self, seed: u64) {
        self.secret = KeyHasher::new(!seed);
        self.used.seed(seed);
        if self.size == 0 {
            (self.seed, self.hasher) = (seed, KeyHasher::new(seed));
        }
    }

    /// Gives keys ids that no other store of the worker has given, while there are none.
    pub(super) fn start_ids(&mut self, series: u32) -> Option<()> {
        if self.size == 0 {
            // A million generations are far apart: a place is hardly used again so often before the series comes back.
            let table = FlowTable::new(FIRST_CAPACITY).ok()?;
            self.table = table.with_generations_from(series.wrapping_shl(20).wrapping_add(1));
        }
        Some(())
    }

    /// Shows mappings to other workers from now on.
    pub(super) fn use_board(&mut self, board: Board) {
        self.board = Some(board);
    }

    /// What it shows to other workers, and what these show.
    pub(super) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// An empty table, the ids of which differ from all that there have been.
    fn another_table(&self, capacity: usize) -> Option<FlowTable<MappedKey>> {
        Some(FlowTable::new(capacity).ok()?.with_generations_from(self.table.next_generation()))
    }

    /// A number that follows from a flow and from the seed.
    pub(super) fn secret_of(&self, flow: Tuple, space: u32) -> u32 {
        self.secret.hash(&Store::key(flow, space))
    }

    /// A new owner, with its inputs. Mappings of all owners end when they are over, if one of them wants that.
    pub(super) fn join(&mut self, policies: [Policy; 2], inputs: usize, reaps: bool) -> u16 {
        let inputs = vec![Tally::default(); inputs];
        self.owners.push(Owner { policies, inputs, most_of_one: 0 });
        self.reaps |= reaps;
        let shortest = policies.iter().map(Policy::shortest).min().unwrap_or(0);
        self.slice = self.slice.min(shortest.checked_ilog2().unwrap_or(0));
        self.next_search = i64::MIN;
        (self.owners.len() - 1) as u16
    }

    /// All mappings.
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

    /// A flow could not be mapped.
    pub(super) fn count_failure(&mut self, owner: u16, input: u16) {
        if let Some(tally) = self.tally(owner, input) {
            tally.failures += 1;
        }
    }

    fn tally(&mut self, owner: u16, input: u16) -> Option<&mut Tally> {
        self.owners.get_mut(usize::from(owner))?.inputs.get_mut(usize::from(input))
    }

    /// See the field.
    #[inline]
    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// See the field.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    // Look-ups.

    /// The key of a tuple.
    #[inline]
    pub(super) fn key(tuple: Tuple, space: u32) -> EndsKey {
        let source = (tuple.source, tuple.source_port);
        EndsKey::new(source, (tuple.destination, tuple.destination_port), space)
    }

    /// The keys that packets are found by, many at a time.
    #[inline]
    pub(super) fn find_all(&mut self, keys: &[EndsKey], found: &mut [Option<FlowId>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.table.lookup_batch(keys, &hashes, found);
        if self.old.is_some() {
            self.bring_all(keys, found);
        }
    }

    /// The key that a packet is found by.
    pub(super) fn find_key(&mut self, key: &EndsKey) -> Option<FlowId> {
        let found = self.table.lookup(key, self.hasher.hash(key));
        if found.is_none() && self.old.is_some() { self.bring_key(key) } else { found }
    }

    /// What a packet is to become.
    pub(super) fn find(&self, tuple: Tuple, space: u32) -> Option<Change> {
        let key = Store::key(tuple, space);
        match self.table.lookup(&key, self.hasher.hash(&key)) {
            Some(id) => self.table.key(id).map(|key| Change::unpacked(key.value())),
            None => self.find_in_old(&key),
        }
    }

    /// The translation of a packet that does not count as one of its flow. `None` where the mapping is over.
    pub(super) fn find_at(&self, tuple: Tuple, space: u32, now: Timestamp) -> Option<Change> {
        self.find(tuple, space).filter(|change| !self.has_ended(change.session, now))
    }

    /// The exponent of the nanoseconds of a slice of time: who had a packet in the slice that it is now is not over.
    pub(super) fn slice(&self) -> u32 {
        if self.reaps { self.slice } else { i64::BITS - 1 }
    }

    /// The same as `find_at`, for a packet that has come now. A mapping that is over ends.
    #[inline]
    pub(super) fn see(&mut self, id: FlowId, now: Timestamp) -> Option<Change> {
        let last = self.table.last_seen(id)?;
        if (last.0 ^ now.0) >> self.slice != 0 {
            return self.see_late(id, now);
        }
        self.table.see(id, now).map(|value| Change::unpacked(value))
    }

    /// The same for a packet that may come too late.
    #[cold]
    #[inline(never)]
    fn see_late(&mut self, id: FlowId, now: Timestamp) -> Option<Change> {
        if self.ends_with(id, now) {
            return None;
        }
        self.table.see(id, now).map(|value| Change::unpacked(value))
    }

    /// Notes what a packet has told about its mapping.
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
        // Who holds longer is asked when its turn comes; who holds less long gets an earlier turn.
        let due = self.expiry(change.session);
        let session = &self.sessions[change.session as usize];
        if session.queue == Queue::Open && due < session.due {
            self.queue(change.session, Queue::Open, due);
        }
    }

    /// The protocol and the annotation byte of a mapping.
    pub(super) fn details(&self, session: u32) -> (u8, u8) {
        self.sessions.get(session as usize).map_or((0, 0), |session| (session.protocol, session.annotation))
    }

    // What is free.

    /// The tuple of the reply to a flow that becomes `to`.
    fn reply(to: Tuple, space: u32) -> Tuple {
        let mut reply = to.reversed();
        if space & 0xff == IDENTIFIERS {
            reply.source_port = mark(reply.destination_port);
        }
        reply
    }

    /// The pool that the source port of `to` is chosen from, or its source address.
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

    /// The first number from `from` to `last` with which `to` has a reply that is nobody's yet, and that is wanted.
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
            // Somebody has it who did not choose it, or it is of no use.
            from = number.checked_add(1)?;
        }
    }

    // Coming and going.

    /// Makes a mapping; the key that its first packet is found by, and what it is to become.
    pub(super) fn add(&mut self, fresh: &Fresh, now: Timestamp) -> Result<(FlowId, Change), DropReason> {
        let owner = (fresh.space >> 8) as u16;
        if self.is_exhausted(owner, fresh.from.source, now.0) {
            self.count_failure(owner, fresh.input);
            return Err(DropReason::TableFull);
        }
        let (id, change) = self.insert(fresh, now).inspect_err(|_| self.count_failure(owner, fresh.input))?;
        if self.size as i64 > i64::from(self.capacity) {
            let victim = self.who_gives_way(now.0).unwrap_or(change.session);
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
        // Whoever has the reply's tuple so far gives way, as in Click.
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

    /// True if there is memory for another mapping beside its keys. Vectors grow here by as much as a push would make them grow.
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

    /// Moves all there is to a table for so many keys; whether that worked. Otherwise all stays as it was.
    #[cold]
    fn rebuild(&mut self, capacity: usize) -> bool {
        self.end_leases();
        // With another number of buckets, keys may crowd that did not so far; with another hash function they do not.
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

    /// A table of another size with all keys, and the sessions without gaps.
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

    /// Ends the mappings for which something holds.
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

    /// Keeps a byte for packets of the reply.
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

    /// Keys, sessions and words in memory.
    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, usize, usize) {
        (self.table.stats().capacity, self.sessions.len(), self.used.len())
    }
}

type Moved = (FlowTable<MappedKey>, Vec<Session>);

#[cfg(test)]
mod tests;
