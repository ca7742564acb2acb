//! The expiry and the eviction of mappings. Sessions are examined in the order of their queues, a limited
//! number at a time.

use element::Timestamp;
use flow::{FlowId, Ipv4FlowKey};

use super::turns::{Queue, Turn};
use super::{FIRST_CAPACITY, Session, Store};
use crate::nat::change::Change;
use crate::nat::state::{Policy, State};

/// The largest number of mappings that one batch examines for expiry. The examination takes less than a
/// millisecond.
const STEP: usize = 1024;

/// The largest number of mappings that are examined to find a mapping that can be evicted for a new mapping.
const LOOKS: usize = 64;

/// The largest number of keys that are moved at once when memory is released. With more keys, the table is
/// replaced in small steps, and sessions keep their memory.
const FEW: usize = 1 << 14;

/// The result of the search for the mapping to evict, among mappings whose guarantee (the time of GUARANTEE
/// after the last packet) is over.
enum Front {
    /// The session of the mapping that expires first.
    First(u32),
    /// The search was stopped after the allowed number of mappings. The value is the session of the mapping
    /// that expires first among those that were examined, if there was any.
    Unsure(Option<u32>),
    /// No mapping can be evicted: the guarantee (the time of GUARANTEE after the last packet) of no mapping
    /// is over, or there is no mapping.
    Nobody,
}

impl Store {
    /// Removes all expired mappings, then mappings above the capacity, and releases memory of which little is
    /// used. All this is done in one call, except that a table with more than [`FEW`] keys is replaced later,
    /// in small steps. Used after a handler has set the capacity.
    pub(in crate::nat) fn shrink(&mut self, now: Timestamp) {
        self.sweep(now.0, usize::MAX);
        self.shrink_to_capacity(now);
        self.give_memory_back();
    }

    /// Removes the mappings that have expired by the time `at` (nanoseconds). Stops after examining `looks`
    /// mappings. Returns false if it stopped early, so that expired mappings may be left.
    fn sweep(&mut self, at: i64, looks: usize) -> bool {
        let mut left = looks;
        for queue in [Queue::Guaranteed, Queue::Open] {
            while let Some(place) = self.first(queue).filter(|&place| self.sessions[place as usize].due <= at)
            {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let (_, guaranteed, expiry) = self.times(&self.sessions[place as usize]);
                match guaranteed.filter(|&end| end > at) {
                    _ if expiry > at => {
                        // The mapping has had packets since it was queued, so it expires later. The session
                        // is queued by its expiry even if its guarantee ends earlier, so that it is examined
                        // only once.
                        self.turns.pop(queue);
                        self.queue_again(place, Queue::Open, expiry);
                    }
                    Some(end) => {
                        self.turns.pop(queue);
                        self.queue_again(place, Queue::Guaranteed, end);
                    }
                    None => self.remove(place),
                }
            }
        }
        true
    }

    /// True if the time-out of a mapping and its guarantee (the time of GUARANTEE after the last packet) are
    /// over.
    pub(super) fn is_expired(&self, place: u32, now: i64) -> bool {
        self.sessions.get(place as usize).is_some_and(|session| {
            let (_, guaranteed, expiry) = self.times(session);
            expiry <= now && guaranteed.is_none_or(|end| end <= now)
        })
    }

    /// Removes the mapping of a packet that has arrived now, if it has expired and the store removes expired
    /// mappings, and then returns true. Otherwise records the packet's time on the board, if the mapping is
    /// shown there.
    pub(super) fn ends_with(&mut self, id: FlowId, now: Timestamp) -> bool {
        let Some(key) = self.table.key(id) else { return false };
        let (ends, place) = (key.ends(), Change::unpacked(key.value()).session);
        if self.has_ended(place, now) {
            self.remove(place);
            return true;
        }
        if let Some(board) = &self.board {
            board.touch(&ends, now);
        }
        false
    }

    /// True if a mapping has expired and the store removes expired mappings.
    pub(super) fn has_ended(&self, place: u32, now: Timestamp) -> bool {
        self.reaps && self.is_expired(place, now.0)
    }

    /// Removes expired mappings, a limited number per call, because a new flow found no free port or
    /// address. Returns true if any was removed.
    #[cold]
    pub(in crate::nat) fn make_room(&mut self, now: Timestamp) -> bool {
        let size = self.size;
        self.sweep(now.0, STEP);
        self.size < size
    }

    /// Returns the rewriting of a connection that is about to begin, and restarts its time-out. Returns
    /// `None` if there is no mapping. If the mapping has expired, or its connection is closed, removes it and
    /// returns `None`, so that a new mapping can be made.
    pub(in crate::nat) fn begin_again(&mut self, key: &Ipv4FlowKey, now: Timestamp) -> Option<Change> {
        let id = self.find_key(key)?;
        let place = Change::unpacked(self.table.key(id)?.value()).session;
        let session = self.sessions.get(place as usize)?;
        let (_, states) = self.told(session);
        if self.is_expired(place, now.0) || session.kind.is_done(states) {
            self.remove(place);
            return None;
        }
        self.see(id, now).map(|change| change.unpacked())
    }

    /// Removes mappings until their number is within the capacity: first the mappings whose guarantee (the
    /// time of GUARANTEE after the last packet) is over, in the order in which they expire; then the mappings
    /// whose guarantee ends first, as far as this was known when they were last examined.
    pub(in crate::nat) fn shrink_to_capacity(&mut self, now: Timestamp) {
        while self.is_over_capacity() && self.evict(now, usize::MAX) {}
    }

    /// True if there are more mappings than the capacity allows.
    pub(super) fn is_over_capacity(&self) -> bool {
        self.size as i64 > i64::from(self.capacity).max(0)
    }

    /// Removes the mapping that expires first among the mappings whose guarantee is over, or, if there are
    /// none, the mapping whose guarantee ends first. Examines at most `looks` mappings; if this does not
    /// suffice, removes the mapping that expires first among those examined. Returns false if there is no
    /// mapping.
    pub(super) fn evict(&mut self, now: Timestamp, looks: usize) -> bool {
        let first = match self.look(now.0, &mut { looks }) {
            Front::First(place) => Some(place),
            Front::Unsure(place) => place.or_else(|| self.first(Queue::Guaranteed)),
            Front::Nobody => self.first(Queue::Guaranteed),
        };
        first.map(|place| self.remove(place)).is_some()
    }

    /// Returns the session of the mapping to evict for a new mapping: the first to expire among the mappings
    /// whose guarantee (the time of GUARANTEE after the last packet) is over. Examines at most [`LOOKS`]
    /// mappings; if this does not suffice, returns the first to expire among those examined. Returns `None`
    /// if the guarantee of no mapping, or of none that was examined, is over.
    pub(super) fn victim(&mut self, now: i64) -> Option<u32> {
        match self.look(now, &mut { LOOKS }) {
            Front::First(place) => Some(place),
            Front::Unsure(place) => place,
            Front::Nobody => None,
        }
    }

    /// Replaces the table by a smaller table if less than a sixteenth of its capacity is used, and it is
    /// larger than the initial table.
    fn give_memory_back(&mut self) {
        let (capacity, entries) = (self.table.stats().capacity, self.entries());
        if capacity > FIRST_CAPACITY && entries < capacity / 16 {
            // The new table has room for at least four times the present number of keys, so that it need not
            // grow again soon.
            let capacity = (4 * entries).next_power_of_two().max(FIRST_CAPACITY);
            if entries > FEW {
                // If keys are already being moved to another table, no second move begins. When that move
                // ends, [`catch_up`](Self::catch_up) calls this function again.
                if self.old.is_none() {
                    self.begin_move(capacity);
                }
                return;
            }
            self.rebuild(capacity);
            self.used.give_memory_back();
            self.endpoints.give_memory_back();
        }
    }

    /// Removes expired mappings (if the store does that), continues a move of keys to another table, and
    /// continues a revision (new settings are applied to mappings after a reload), in bounded steps. Called
    /// for each batch, so a large number of expired mappings takes several batches.
    #[inline]
    pub(in crate::nat) fn catch_up(&mut self, now: Timestamp) {
        self.now = now;
        if now.0 >= self.next_search {
            self.search(now.0, STEP);
        }
        if self.old.is_some() {
            self.move_with_batch();
            if self.old.is_none() {
                self.give_memory_back();
            }
        }
        if self.revision.is_some() {
            self.revise_with_batch(now);
        }
    }

    /// Does the work of [`catch_up`](Self::catch_up) when an element with leases handles packets in place
    /// of this translator. Returns the time until which further calls would do nothing, unless a packet
    /// comes to the translator.
    pub(in crate::nat) fn catch_up_elsewhere(&mut self, now: Timestamp) -> Timestamp {
        self.catch_up(now);
        let is_at_work = self.old.is_some() || self.revision.is_some();
        Timestamp(if is_at_work { i64::MIN } else { self.next_search })
    }

    /// Removes all expired mappings in one call, for handlers that show the mappings, unless the store keeps
    /// expired mappings. If new settings are still being applied to mappings after a reload, applies them to
    /// more mappings than a batch does.
    pub(in crate::nat) fn catch_up_fully(&mut self, now: Timestamp) {
        self.now = now;
        if self.revision.is_some() {
            self.revise_some(now, STEP);
        }
        if now.0 >= self.next_search {
            self.search(now.0, usize::MAX);
        }
    }

    /// True if expired mappings may be left: the last search for them was cut off, or there was no search
    /// since a translator joined the store or since the mappings of a replaced store were taken over.
    pub(super) fn is_behind(&self) -> bool {
        self.next_search == i64::MIN
    }

    #[inline(never)]
    fn search(&mut self, now: i64, looks: usize) {
        self.next_search = i64::MAX;
        if !self.reaps {
            return;
        }
        if self.sweep(now, looks) {
            self.give_memory_back();
            let fronts = [Queue::Guaranteed, Queue::Open].map(|queue| self.first(queue));
            let due = fronts.into_iter().flatten().map(|place| self.sessions[place as usize].due);
            self.next_search = due.min().unwrap_or(i64::MAX);
        } else {
            // Not all expired mappings were found. Elements that hold leases do not check for expiry, so
            // their packets must come to the translator again.
            self.end_leases();
            self.next_search = i64::MIN;
        }
    }

    fn policy(&self, session: &Session) -> Policy {
        let owner = self.owners.get(usize::from(session.owner));
        owner.and_then(|owner| owner.policies.get(usize::from(session.policy))).copied().unwrap_or_default()
    }

    /// Returns, in nanoseconds, when a mapping had its last packet, when its guarantee ends (if the policy
    /// has one), and when its time-out ends.
    pub(super) fn times(&self, session: &Session) -> (i64, Option<i64>, i64) {
        let (last, states) = self.told(session);
        let policy = self.policy(session);
        let guaranteed = (policy.guarantee > 0).then(|| last.saturating_add(policy.guarantee));
        (last, guaranteed, last.saturating_add(policy.timeout(session.kind, states)))
    }

    /// Returns the time of a mapping's last packet in either direction, at this worker, at other workers or
    /// at an element that has leased the flow, and the states of flow and reply.
    fn told(&self, session: &Session) -> (i64, [State; 2]) {
        let table = self.table_of(session);
        let (mut last, mut states) = (self.seen_elsewhere(session), [State::default(); 2]);
        for (id, state) in session.keys.iter().zip(&mut states) {
            let Some(id) = *id else { continue };
            last = last.max(table.last_seen(id).map_or(i64::MIN, |time| time.0)).max(self.seen_on_lease(id));
            *state = table.key(id).map_or(*state, |key| Change::unpacked(key.value()).state);
        }
        (last, states)
    }

    /// Returns the time in nanoseconds at which a mapping's time-out ends, by the packets so far; the maximum
    /// if there is no such session.
    pub(super) fn expiry(&self, place: u32) -> i64 {
        self.sessions.get(place as usize).map_or(i64::MAX, |session| self.times(session).2)
    }

    /// Queues a session for examination at the time `due`, in place of its current turn (its entry in a
    /// queue).
    pub(super) fn queue(&mut self, place: u32, queue: Queue, due: i64) {
        self.forget_turn(place);
        self.queue_again(place, queue, due);
    }

    /// Queues a session for examination at the time `due`. The session must have no valid turn (entry in a
    /// queue).
    pub(super) fn queue_again(&mut self, place: u32, queue: Queue, due: i64) {
        if let Some(session) = self.sessions.get_mut(place as usize) {
            (session.queue, session.due) = (queue, due);
            self.turns.push(queue, Turn { due, place, ticket: session.ticket });
            self.next_search = self.next_search.min(due);
        }
    }

    /// Queues the session of a new mapping for examination: at the end of its guarantee (the time of
    /// GUARANTEE after the last packet) if it has one, otherwise at its expiry.
    pub(super) fn queue_first(&mut self, place: u32) {
        let (_, guaranteed, expiry) = self.times(&self.sessions[place as usize]);
        match guaranteed {
            Some(end) => self.queue_again(place, Queue::Guaranteed, end),
            None => self.queue_again(place, Queue::Open, expiry),
        }
    }

    /// Makes the turn of a session (its entry in a queue) stale, so that the session is no longer examined by
    /// it.
    pub(super) fn forget_turn(&mut self, place: u32) {
        if let Some(session) = self.sessions.get_mut(place as usize) {
            session.ticket = session.ticket.wrapping_add(1);
            self.turns.forget(|turn| counts(&self.sessions, turn));
        }
    }

    fn first(&mut self, queue: Queue) -> Option<u32> {
        self.turns.first(queue, |turn| counts(&self.sessions, turn)).map(|turn| turn.place)
    }

    /// Searches for the mapping that expires first, among those whose guarantee is over. Examines at most
    /// `left` mappings for this. Sessions that have had packets since they were queued, or whose guarantee is
    /// over, are queued again by their new times.
    fn look(&mut self, now: i64, left: &mut usize) -> Front {
        let mut seen: Option<(i64, u32)> = None;
        for queue in [Queue::Guaranteed, Queue::Open] {
            while let Some(place) = self.first(queue) {
                let session = &self.sessions[place as usize];
                if queue == Queue::Guaranteed && session.due > now {
                    break;
                }
                let (_, guaranteed, expiry) = self.times(session);
                let (belongs, due) = match guaranteed.filter(|&end| end > now) {
                    Some(end) => (Queue::Guaranteed, end),
                    None => (Queue::Open, expiry),
                };
                if belongs == queue && due <= session.due {
                    return Front::First(place);
                }
                if *left == 0 {
                    return Front::Unsure(seen.map(|(_, place)| place));
                }
                *left -= 1;
                // The session's position in the queue is out of date: it has had packets since, or its
                // guarantee is over. So the session is queued again, by its current time.
                self.turns.pop(queue);
                self.queue_again(place, belongs, due);
                if belongs == Queue::Open && seen.is_none_or(|(first, _)| due < first) {
                    seen = Some((due, place));
                }
            }
        }
        Front::Nobody
    }
}

/// True if a turn (an entry in a queue) is valid: the session is in use, and has got no later turn.
fn counts(sessions: &[Session], turn: &Turn) -> bool {
    let session = sessions.get(turn.place as usize);
    session.is_some_and(|session| session.is_in_use() && session.ticket == turn.ticket)
}
