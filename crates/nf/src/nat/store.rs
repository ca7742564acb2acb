//! What translators remember: mappings, who made them, and until when they hold.
//!
//! A mapping is two keys in one flow table, one per direction, whose values say what a packet is to become, and a
//! session for what changes while packets come. Sessions stand in lists in the order in which they expire: each list
//! is for one time-out, so that the session used last always goes to its end. Whoever is to go is at the front of a list,
//! and nothing is searched.
//!
//! Translators that share a capacity share a store; each is an owner in it.

use element::{DropReason, Timestamp};
use flow::{FlowId, FlowTable, KeyHasher, MappedKey};
use packet::prefetch_line;

use super::change::Change;
use super::tuple::Tuple;
use super::used::{Pool, Used};

/// Keys that there is room for at first.
const FIRST_CAPACITY: usize = 1 << 13;

/// Times of last use are rounded up to so many nanoseconds: within them a session is put to the end of its list once.
const TICK: i64 = 10_000_000;

/// No session.
const NONE: u32 = u32::MAX;

/// Packets that are looked up together.
pub(super) const WINDOW: usize = 32;

/// Spaces of one owner: TCP, or whatever else there is, and UDP beside TCP.
pub(super) const ONLY: u32 = 0;
pub(super) const UDP_BESIDE: u32 = 1;
/// ICMP identifiers: the port behind the arrow is not chosen but follows from the other one.
pub(super) const IDENTIFIERS: u32 = 2;

/// A space of an owner.
pub(super) fn space(owner: u16, which: u32) -> u32 {
    u32::from(owner) << 8 | which
}

/// What stands in a tuple for the identifier of the other direction: no request looks like a reply. Click adds one to the
/// bytes as they lie in memory, and shows it in its tables.
pub(super) fn mark(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

/// How long mappings hold, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policy {
    /// Most mappings.
    pub(super) plain: i64,
    /// TCP with data in both directions, or streams of datagrams.
    pub(super) busy: i64,
    /// TCP closed in both directions, or reset.
    pub(super) done: i64,
    /// For so long they do not give way to others; zero for not at all.
    pub(super) guarantee: i64,
}

impl Policy {
    /// How long a mapping holds after its last packet, and the number of the list for that.
    #[inline]
    fn timeout(&self, kind: Kind, state: u8) -> (i64, u32) {
        match kind {
            Kind::Connection if state & BOTH_DONE == BOTH_DONE => (self.done, 3),
            Kind::Connection if state & BOTH_DATA == BOTH_DATA => (self.busy, 2),
            Kind::Datagrams if state > MANY => (self.busy, 2),
            _ => (self.plain, 1),
        }
    }

    /// The same for one that was just used: it holds by guarantee first, if there is one.
    #[inline]
    fn holding(&self, kind: Kind, state: u8) -> (i64, u32) {
        if self.guarantee > 0 { (self.guarantee, 0) } else { self.timeout(kind, state) }
    }
}

/// What a mapping's packets tell about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Plain,
    /// How many there were, and whether there was a reply.
    Datagrams,
    /// Whether the connection is open, and has carried data.
    Connection,
}

/// What a TCP segment is for its connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) flags: u8,
    pub(super) has_payload: bool,
}

/// What a new flow is to become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) to: Tuple,
    /// Whether the number that was chosen is a port or an address, if one was.
    pub(super) pool: Option<bool>,
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

/// One cache line: what changes while packets come.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Session {
    expiry: i64,
    serial: u64,
    keys: [Option<FlowId>; 2],
    older: u32,
    newer: u32,
    list: u32,
    input: u16,
    kind: Kind,
    state: u8,
    policy: u8,
    protocol: u8,
    annotation: u8,
    pool: Option<bool>,
}

const _: () = assert!(size_of::<Session>() == 64);

/// Lists of one owner: for each of two policies one per time-out, the guarantee first.
const LISTS: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// What an input of an owner has to show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) mappings: u32,
    pub(super) failures: u32,
}

struct Owner {
    policies: [Policy; 2],
    inputs: Vec<Tally>,
}

/// A mapping as it is written down, for people and for another element to go on with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) serial: u64,
    pub(super) which: u32,
    /// The tuples that packets come with, in both directions; a mapping onto itself has only the reply's.
    pub(super) tuples: [Tuple; 2],
    pub(super) is_own_reply: bool,
    pub(super) outputs: [u16; 2],
    pub(super) input: u16,
    /// When it ends if nothing comes.
    pub(super) expiry: i64,
    pub(super) kind: Kind,
    policy: u8,
    protocol: u8,
    state: u8,
    annotation: u8,
    pool: Option<bool>,
    last: i64,
}

pub(super) struct Store {
    table: FlowTable<MappedKey>,
    hasher: KeyHasher,
    sessions: Vec<Session>,
    /// Sessions not in use, linked by `newer`.
    free: u32,
    lists: Vec<List>,
    owners: Vec<Owner>,
    used: Used,
    size: usize,
    capacity: i32,
    next_serial: u64,
    /// Goes up with each key that comes or goes.
    changes: u64,
}

impl Store {
    /// An empty one; `None` where there is no memory for it.
    pub(super) fn new() -> Option<Store> {
        Some(Store {
            table: FlowTable::new(FIRST_CAPACITY).ok()?,
            hasher: KeyHasher::new(0),
            sessions: Vec::with_capacity(FIRST_CAPACITY / 2),
            free: NONE,
            lists: Vec::new(),
            owners: Vec::new(),
            used: Used::default(),
            size: 0,
            capacity: i32::MAX,
            next_serial: 0,
            changes: 0,
        })
    }

    /// Whoever wants keys to collide does not know the hash function.
    pub(super) fn seed(&mut self, seed: u64) {
        if self.size == 0 {
            self.hasher = KeyHasher::new(seed);
        }
    }

    /// A new owner.
    pub(super) fn join(&mut self, policies: [Policy; 2], inputs: usize) -> u16 {
        self.owners.push(Owner { policies, inputs: vec![Tally::default(); inputs] });
        self.lists.extend([List { oldest: NONE, newest: NONE }; LISTS as usize]);
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
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    // Look-ups.

    /// The key of no tuple.
    pub(super) const NO_KEY: MappedKey = MappedKey::ZERO;

    /// The key of a tuple.
    #[inline]
    pub(super) fn key(tuple: Tuple, space: u32) -> MappedKey {
        let source = (tuple.source, tuple.source_port);
        MappedKey::new(source, (tuple.destination, tuple.destination_port), space, [0; 6])
    }

    /// What packets are to become, many at a time.
    #[inline]
    pub(super) fn find_all(&self, keys: &[MappedKey], found: &mut [Option<FlowId>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.table.lookup_batch(keys, &hashes[..keys.len().min(WINDOW)], found);
        for id in found.iter().take(keys.len()).flatten() {
            let session = self.change(*id).map_or(0, |change| change.session);
            prefetch_line(self.sessions.as_ptr().wrapping_add(session as usize).cast());
        }
    }

    /// What a packet is to become.
    pub(super) fn find(&self, tuple: Tuple, space: u32) -> Option<Change> {
        let key = Store::key(tuple, space);
        self.change(self.table.lookup(&key, self.hasher.hash(&key))?)
    }

    /// The same, of a key that was found before.
    #[inline]
    pub(super) fn change(&self, id: FlowId) -> Option<Change> {
        self.table.key(id).map(|key| Change::unpacked(key.value()))
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
    fn pool(to: Tuple, space: u32, is_port: bool) -> Pool {
        let port = |port: u16| if space & 0xff == IDENTIFIERS { 0 } else { u64::from(port) };
        let space = u64::from(space) << 32;
        if is_port {
            let addresses = u64::from(to.destination) | u64::from(to.source) << 32;
            (addresses, space | port(to.destination_port) << 1 | 1)
        } else {
            let ports = port(to.destination_port) << 16 | u64::from(to.source_port);
            (u64::from(to.destination) | ports << 32, space)
        }
    }

    /// The first number from `from` to `last` with which `to` has a reply that is nobody's yet.
    pub(super) fn free_from(
        &self,
        space: u32,
        to: Tuple,
        is_port: bool,
        from: u32,
        last: u32,
    ) -> Option<u32> {
        let pool = Store::pool(to, space, is_port);
        let mut from = from;
        loop {
            let number = self.used.next_free(pool, from, last)?;
            let mut to = to;
            if is_port {
                to.source_port = number as u16;
            } else {
                to.source = number;
            }
            if self.find(Store::reply(to, space), space).is_none() {
                return Some(number);
            }
            // Somebody has it who did not choose it.
            from = number.checked_add(1)?;
        }
    }

    // Coming and going.

    /// Makes a mapping; what its first packet is to become.
    pub(super) fn add(&mut self, fresh: &Fresh, now: Timestamp) -> Result<Change, DropReason> {
        let change = self.insert(fresh, now.0)?;
        if self.size as i64 > i64::from(self.capacity) {
            self.end_guarantees(now.0);
            let victim = self.next_to_expire(false).unwrap_or(change.session);
            self.remove(victim);
            if victim == change.session {
                self.count_failure((fresh.space >> 8) as u16, fresh.input);
                return Err(DropReason::TableFull);
            }
        }
        Ok(change)
    }

    fn insert(&mut self, fresh: &Fresh, now: i64) -> Result<Change, DropReason> {
        let &Fresh { space, from, chosen, input, outputs, .. } = fresh;
        let mut to = chosen.to;
        if space & 0xff == IDENTIFIERS {
            to.destination_port = mark(to.source_port);
        }
        let reply = to.reversed();
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
        let keys = [(from, forward), (reply, backward)].map(|(tuple, change)| {
            let source = (tuple.source, tuple.source_port);
            let destination = (tuple.destination, tuple.destination_port);
            MappedKey::new(source, destination, space, change.packed())
        });
        while self.table.stats().entries + keys.len() > self.table.stats().capacity {
            if !self.grow() {
                return Err(DropReason::TableFull);
            }
        }
        // A flow that is its own reply is found as the reply.
        let first = if from == reply { None } else { Some(self.insert_key(&keys[0])?) };
        let second = match self.insert_key(&keys[1]) {
            Ok(id) => id,
            Err(reason) => {
                first.map(|id| self.table.remove(id));
                return Err(reason);
            }
        };
        let session = Session {
            expiry: 0,
            serial: self.next_serial,
            keys: [first, Some(second)],
            older: NONE,
            newer: NONE,
            list: 0,
            input,
            kind: fresh.kind,
            state: 0,
            policy: fresh.policy,
            protocol: fresh.protocol,
            annotation: 0,
            pool: chosen.pool,
        };
        self.next_serial += 1;
        match self.sessions.get_mut(place as usize) {
            Some(old) => {
                self.free = old.newer;
                *old = session;
            }
            None => self.sessions.push(session),
        }
        let owner = (space >> 8) as u16;
        let list = self.list_of(place, owner);
        self.append(place, list, now);
        if let Some(is_port) = chosen.pool {
            let number = if is_port { to.source_port.into() } else { to.source };
            self.used.set(Store::pool(to, space, is_port), number);
        }
        self.size += 1;
        self.changes += 1;
        if let Some(tally) = self.tally(owner, input) {
            tally.mappings += 1;
        }
        Ok(forward)
    }

    fn insert_key(&mut self, key: &MappedKey) -> Result<FlowId, DropReason> {
        let inserted = self.table.insert(key, self.hasher.hash(key), Timestamp::ZERO);
        inserted.map(|inserted| inserted.id()).map_err(|_| DropReason::TableFull)
    }

    /// Makes room for twice as many keys.
    #[cold]
    fn grow(&mut self) -> bool {
        let Ok(mut table) = FlowTable::new(self.table.stats().capacity.saturating_mul(2)) else {
            return false;
        };
        let mut moved = |id: FlowId| {
            let key = self.table.key(id)?;
            table.insert(key, self.hasher.hash(key), Timestamp::ZERO).ok().map(|inserted| inserted.id())
        };
        for session in &mut self.sessions {
            session.keys = session.keys.map(|id| id.and_then(&mut moved));
        }
        self.table = table;
        self.changes += 1;
        true
    }

    /// Ends a mapping.
    pub(super) fn remove(&mut self, place: u32) {
        let Some(session) = self.sessions.get_mut(place as usize) else { return };
        let (keys, input, pool) = (std::mem::take(&mut session.keys), session.input, session.pool);
        let [_, Some(reply)] = keys else { return };
        let mut owner = 0;
        if let Some(key) = self.table.key(reply) {
            owner = (key.space() >> 8) as u16;
            if let Some(is_port) = pool {
                let [(destination, destination_port), (source, source_port)] = key.ends();
                let to = Tuple { source, destination, source_port, destination_port };
                let number = if is_port { source_port.into() } else { source };
                self.used.clear(Store::pool(to, key.space(), is_port), number);
            }
        }
        for id in keys.into_iter().flatten() {
            self.table.remove(id);
        }
        self.unlink(place);
        self.sessions[place as usize].newer = std::mem::replace(&mut self.free, place);
        self.size -= 1;
        self.changes += 1;
        if let Some(tally) = self.tally(owner, input) {
            tally.mappings -= 1;
        }
    }

    /// Ends all mappings that an input of an owner has made.
    pub(super) fn remove_of_input(&mut self, owner: u16, input: u16) {
        for place in 0..self.sessions.len() as u32 {
            let session = &self.sessions[place as usize];
            if session.keys[1].is_some() && session.list / LISTS == owner.into() && session.input == input {
                self.remove(place);
            }
        }
    }

    /// Ends mappings that are over at a time, and then as many as there are above the capacity.
    pub(super) fn shrink(&mut self, now: Timestamp) {
        self.end_guarantees(now.0);
        while let Some(place) = self.next_to_expire(false).filter(|&place| self.expiry(place) <= now.0) {
            self.remove(place);
        }
        self.shrink_to(i64::from(self.capacity));
    }

    /// Ends all mappings.
    pub(super) fn clear(&mut self) {
        self.shrink_to(0);
    }

    fn shrink_to(&mut self, size: i64) {
        while self.size as i64 > size {
            let Some(place) = self.next_to_expire(false).or_else(|| self.next_to_expire(true)) else {
                return;
            };
            self.remove(place);
        }
    }

    // Lists.

    fn expiry(&self, place: u32) -> i64 {
        self.sessions.get(place as usize).map_or(i64::MAX, |session| session.expiry)
    }

    /// The session that expires first, among those that hold by guarantee or among the others.
    fn next_to_expire(&self, by_guarantee: bool) -> Option<u32> {
        let lists = self.lists.iter().enumerate();
        let lists = lists
            .filter(|(n, list)| list.oldest != NONE && (*n as u32 & (LISTS / 2 - 1) == 0) == by_guarantee);
        lists.map(|(_, list)| list.oldest).min_by_key(|&place| self.expiry(place))
    }

    /// Guarantees that are over at a time.
    fn end_guarantees(&mut self, now: i64) {
        for list in (0..self.lists.len() as u32).step_by(LISTS as usize / 2) {
            loop {
                let place = self.lists[list as usize].oldest;
                if place == NONE || self.expiry(place) > now {
                    break;
                }
                let (timeout, to) = self.timeout(place, (list / LISTS) as u16);
                let policy = self.policy(place, (list / LISTS) as u16);
                let expiry = self.expiry(place) - policy.guarantee + timeout;
                self.unlink(place);
                self.link(place, list + to, expiry);
            }
        }
    }

    fn policy(&self, place: u32, owner: u16) -> Policy {
        let policy = self.sessions.get(place as usize).map_or(0, |session| session.policy);
        let owner = self.owners.get(usize::from(owner));
        owner.and_then(|owner| owner.policies.get(usize::from(policy))).copied().unwrap_or_default()
    }

    /// How long a session holds after its last packet, and the number of the list for that.
    fn timeout(&self, place: u32, owner: u16) -> (i64, u32) {
        let policy = self.policy(place, owner);
        self.sessions
            .get(place as usize)
            .map_or((0, 1), |session| policy.timeout(session.kind, session.state))
    }

    /// The list that a session goes to when it is used.
    fn list_of(&self, place: u32, owner: u16) -> u32 {
        let policy = self.policy(place, owner);
        let Some(session) = self.sessions.get(place as usize) else { return 0 };
        list(owner, session.policy, policy.holding(session.kind, session.state).1)
    }

    /// Notes that a session was used.
    fn append(&mut self, place: u32, list: u32, now: i64) {
        let policy = self.policy(place, (list / LISTS) as u16);
        let Some(session) = self.sessions.get(place as usize) else { return };
        let (holds, _) = policy.holding(session.kind, session.state);
        self.link(place, list, rounded(now).saturating_add(holds));
    }

    fn link(&mut self, place: u32, list: u32, expiry: i64) {
        let older = std::mem::replace(&mut self.lists[list as usize].newest, place);
        match self.sessions.get_mut(older as usize) {
            Some(session) => session.newer = place,
            None => self.lists[list as usize].oldest = place,
        }
        let session = &mut self.sessions[place as usize];
        (session.older, session.newer, session.list, session.expiry) = (older, NONE, list, expiry);
    }

    fn unlink(&mut self, place: u32) {
        let Session { older, newer, list, .. } = self.sessions[place as usize];
        match self.sessions.get_mut(older as usize) {
            Some(session) => session.newer = newer,
            None => self.lists[list as usize].oldest = newer,
        }
        match self.sessions.get_mut(newer as usize) {
            Some(session) => session.older = older,
            None => self.lists[list as usize].newest = older,
        }
    }

    /// Notes a packet of a mapping, and what it tells; the time of its use is [`rounded`].
    #[inline]
    pub(super) fn touch(&mut self, change: &Change, owner: u16, segment: Option<Segment>, used: i64) {
        let Some(session) = self.sessions.get_mut(change.session as usize) else { return };
        match session.kind {
            Kind::Plain => {}
            Kind::Datagrams => {
                session.state |= u8::from(change.is_reply);
                session.state += if session.state < MANY { 2 } else { 0 };
            }
            Kind::Connection => {
                if let Some(segment) = segment {
                    session.state = connection(session.state, segment, change.is_reply);
                }
            }
        }
        let owners = self.owners.get(usize::from(owner));
        let Some(policy) = owners.and_then(|owner| owner.policies.get(usize::from(session.policy))) else {
            return;
        };
        let (holds, number) = policy.holding(session.kind, session.state);
        let (list, expiry) = (list(owner, session.policy, number), used.saturating_add(holds));
        if session.list != list || session.expiry != expiry {
            self.unlink(change.session);
            self.link(change.session, list, expiry);
        }
    }

    /// Keeps a byte for packets of the reply.
    pub(super) fn set_annotation(&mut self, session: u32, value: u8) {
        if let Some(session) = self.sessions.get_mut(session as usize) {
            session.annotation = value;
        }
    }

    // For people, and for another element.

    /// All mappings of an owner, in the order of their age.
    pub(super) fn written(&self, owner: u16) -> Vec<Written> {
        let mut all: Vec<Written> = self.sessions.iter().filter_map(|s| self.write(s, owner)).collect();
        all.sort_by_key(|written| written.serial);
        all
    }

    fn write(&self, session: &Session, owner: u16) -> Option<Written> {
        let [forward, reply] = session.keys;
        let key = self.table.key(reply?)?;
        if session.list / LISTS != owner.into() {
            return None;
        }
        let place = Change::unpacked(key.value()).session;
        let [(source, source_port), (destination, destination_port)] = key.ends();
        let comes = Tuple { source, destination, source_port, destination_port };
        let back = Change::unpacked(key.value());
        let there = forward.and_then(|id| self.change(id));
        let (timeout, _) = self.timeout(place, owner);
        let by_guarantee = session.list & (LISTS / 2 - 1) == 0;
        let held = if by_guarantee { self.policy(place, owner).guarantee } else { timeout };
        let last = session.expiry - held;
        Some(Written {
            serial: session.serial,
            which: key.space() & 0xff,
            tuples: [back.to.reversed(), comes],
            is_own_reply: forward.is_none(),
            outputs: [there.unwrap_or(back).output, back.output],
            input: session.input,
            expiry: last + timeout,
            kind: session.kind,
            policy: session.policy,
            protocol: session.protocol,
            state: session.state,
            annotation: session.annotation,
            pool: session.pool,
            last,
        })
    }

    /// Takes all mappings of an owner out, in the order in which they were used last.
    pub(super) fn take(&mut self, owner: u16) -> Vec<Written> {
        let mut all = self.written(owner);
        for place in 0..self.sessions.len() as u32 {
            if self.sessions[place as usize].list / LISTS == owner.into() {
                self.remove(place);
            }
        }
        all.sort_by_key(|written| written.last);
        all
    }

    /// Makes a mapping again.
    pub(super) fn put(&mut self, owner: u16, written: &Written) {
        let fresh = Fresh {
            space: space(owner, written.which),
            from: written.tuples[0],
            chosen: Chosen { to: written.tuples[1].reversed(), pool: written.pool },
            input: written.input,
            outputs: written.outputs,
            kind: written.kind,
            policy: written.policy,
            protocol: written.protocol,
        };
        let Ok(change) = self.insert(&fresh, written.last) else { return };
        if let Some(session) = self.sessions.get_mut(change.session as usize) {
            (session.state, session.annotation) = (written.state, written.annotation);
        }
        let list = self.list_of(change.session, owner);
        self.unlink(change.session);
        self.append(change.session, list, written.last);
    }

    /// Keys, sessions and words in memory.
    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, usize, usize) {
        (self.table.stats().capacity, self.sessions.len(), self.used.len())
    }
}

/// Bits of a connection's state: closed, and has carried data, in both directions.
const BOTH_DONE: u8 = 3;
const BOTH_DATA: u8 = 12;
/// Datagrams of a stream: three, or two and a reply.
const MANY: u8 = 6;

/// The state of a connection behind a segment.
fn connection(mut state: u8, segment: Segment, is_reply: bool) -> u8 {
    use wire::tcp::flags::{FIN, RST, SYN};
    let side = u8::from(is_reply);
    if segment.flags & RST != 0 {
        state |= BOTH_DONE;
    } else if segment.flags & FIN != 0 {
        state |= 1 << side;
    } else if segment.flags & SYN != 0 || segment.has_payload {
        state &= !(1 << side);
    }
    if segment.has_payload {
        state |= 4 << side;
    }
    state
}

/// The list of an owner for a policy and a time-out.
#[inline]
fn list(owner: u16, policy: u8, number: u32) -> u32 {
    u32::from(owner) * LISTS + u32::from(policy) * (LISTS / 2) + number
}

/// A time, rounded up to a tick.
#[inline]
pub(super) fn rounded(now: i64) -> i64 {
    now.saturating_add((-now).rem_euclid(TICK))
}

#[cfg(test)]
mod tests;
