//! Who is over, who gives way to others, and looking for them a few at a time.

use element::Timestamp;
use flow::{EndsKey, FlowId};

use super::turns::{Queue, Turn};
use super::{FIRST_CAPACITY, Session, Store};
use crate::nat::change::Change;
use crate::nat::state::{Policy, State};

/// Mappings that one batch looks at when mappings are looked for that are over: less than a millisecond's work.
const STEP: usize = 1024;

/// Mappings that are looked at for one that gives way to a new one.
const LOOKS: usize = 64;

/// Keys that are moved at once when memory is given back; of more, sessions keep theirs.
const FEW: usize = 1 << 14;

/// What was found at the front of the queues.
enum Front {
    /// The mapping that is over first, among those that do not hold by guarantee.
    First(u32),
    /// There was no more time to look: of those looked at, the one that is over first, if they do not all hold by
    /// guarantee.
    Unsure(Option<u32>),
    /// All hold by guarantee.
    Nobody,
}

impl Store {
    /// Ends mappings that are over at a time, and then as many as there are above the capacity.
    pub(in crate::nat) fn shrink(&mut self, now: Timestamp) {
        self.sweep(now.0, usize::MAX);
        self.shrink_to_capacity(now);
        self.give_memory_back();
    }

    /// Ends mappings that are over at a time, looking at no more than so many. True if all were found.
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
                        // Who has packets is not looked at again before that, although it holds by guarantee for now.
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

    /// True if a mapping holds no longer: its time is over, and so is its guarantee.
    pub(super) fn is_over(&self, place: u32, now: i64) -> bool {
        self.sessions.get(place as usize).is_some_and(|session| {
            let (_, guaranteed, expiry) = self.times(session);
            expiry <= now && guaranteed.is_none_or(|end| end <= now)
        })
    }

    /// Ends the mapping of a packet that has come now, if it is over. True if it was.
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

    /// True if a mapping is over, and ends for that.
    pub(super) fn has_ended(&self, place: u32, now: Timestamp) -> bool {
        self.reaps && self.is_over(place, now.0)
    }

    /// Ends mappings that are over, so that a new one finds what they have had. True if there were any. What is a lot
    /// takes several calls.
    #[cold]
    pub(in crate::nat) fn make_room(&mut self, now: Timestamp) -> bool {
        let size = self.size;
        self.sweep(now.0, STEP);
        self.size < size
    }

    /// The mapping of a connection that is to begin now, as if its first packet had come. One that is over, or whose connection
    /// is closed, ends.
    pub(in crate::nat) fn begin_again(&mut self, key: &EndsKey, now: Timestamp) -> Option<Change> {
        let id = self.find_key(key)?;
        let place = Change::unpacked(self.table.key(id)?.value()).session;
        let session = self.sessions.get(place as usize)?;
        let (_, states) = self.told(session);
        if self.is_over(place, now.0) || session.kind.is_done(states) {
            self.remove(place);
            return None;
        }
        self.see(id, now)
    }

    /// Ends as many mappings as there are above the capacity.
    pub(in crate::nat) fn shrink_to_capacity(&mut self, now: Timestamp) {
        while self.size as i64 > i64::from(self.capacity).max(0) {
            let first = match self.look(now.0, &mut { usize::MAX }) {
                Front::First(place) => Some(place),
                Front::Unsure(_) | Front::Nobody => self.first(Queue::Guaranteed),
            };
            let Some(place) = first else { break };
            self.remove(place);
        }
    }

    /// Who gives way to a new mapping: who is over first, or nearly so where it would take long to find out.
    pub(super) fn who_gives_way(&mut self, now: i64) -> Option<u32> {
        match self.look(now, &mut { LOOKS }) {
            Front::First(place) => Some(place),
            Front::Unsure(place) => place,
            Front::Nobody => None,
        }
    }

    /// Makes the table small again when hardly anything is left of it.
    fn give_memory_back(&mut self) {
        let (capacity, entries) = (self.table.stats().capacity, self.entries());
        if capacity > FIRST_CAPACITY && entries < capacity / 16 {
            // Twice what there is, so that it does not grow again at once.
            let capacity = (4 * entries).next_power_of_two().max(FIRST_CAPACITY);
            if entries > FEW {
                // While they move already, that has to wait.
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

    /// Ends what is over. What is a lot takes several calls.
    #[inline]
    pub(in crate::nat) fn catch_up(&mut self, now: Timestamp) {
        if now.0 >= self.next_search {
            self.search(now.0, STEP);
        }
        if self.old.is_some() {
            self.move_with_batch();
            if self.old.is_none() {
                self.give_memory_back();
            }
        }
    }

    /// The same for who sees packets that do not come here; before which time that does nothing, if no packet comes
    /// here.
    pub(in crate::nat) fn catch_up_elsewhere(&mut self, now: Timestamp) -> Timestamp {
        self.catch_up(now);
        Timestamp(if self.old.is_some() { i64::MIN } else { self.next_search })
    }

    /// The same at once, for those who ask what there is.
    pub(in crate::nat) fn catch_up_fully(&mut self, now: Timestamp) {
        if now.0 >= self.next_search {
            self.search(now.0, usize::MAX);
        }
    }

    /// True if there may be mappings that are over, which a batch had no time for.
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
            // Whoever has flows on lease does not ask whether their mappings are over.
            self.end_leases();
            self.next_search = i64::MIN;
        }
    }

    fn policy(&self, session: &Session) -> Policy {
        let owner = self.owners.get(usize::from(session.owner));
        owner.and_then(|owner| owner.policies.get(usize::from(session.policy))).copied().unwrap_or_default()
    }

    /// When a mapping had its last packet, until when it holds by guarantee if there is one, and when it is over.
    pub(super) fn times(&self, session: &Session) -> (i64, Option<i64>, i64) {
        let (last, states) = self.told(session);
        let policy = self.policy(session);
        let guaranteed = (policy.guarantee > 0).then(|| last.saturating_add(policy.guarantee));
        (last, guaranteed, last.saturating_add(policy.timeout(session.kind, states)))
    }

    /// When a mapping had its last packet, and what its directions have told.
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

    /// When a mapping is over.
    pub(super) fn expiry(&self, place: u32) -> i64 {
        self.sessions.get(place as usize).map_or(i64::MAX, |session| self.times(session).2)
    }

    /// Gives a session a turn, in place of the one that it has.
    pub(super) fn queue(&mut self, place: u32, queue: Queue, due: i64) {
        self.forget_turn(place);
        self.queue_again(place, queue, due);
    }

    /// The same where it has none.
    pub(super) fn queue_again(&mut self, place: u32, queue: Queue, due: i64) {
        if let Some(session) = self.sessions.get_mut(place as usize) {
            (session.queue, session.due) = (queue, due);
            self.turns.push(queue, Turn { due, place, ticket: session.ticket });
            self.next_search = self.next_search.min(due);
        }
    }

    /// Gives a session its first turn.
    pub(super) fn queue_first(&mut self, place: u32) {
        let (_, guaranteed, expiry) = self.times(&self.sessions[place as usize]);
        match guaranteed {
            Some(end) => self.queue_again(place, Queue::Guaranteed, end),
            None => self.queue_again(place, Queue::Open, expiry),
        }
    }

    /// The turn of a session no longer counts.
    pub(super) fn forget_turn(&mut self, place: u32) {
        if let Some(session) = self.sessions.get_mut(place as usize) {
            session.ticket = session.ticket.wrapping_add(1);
            self.turns.forget(|turn| counts(&self.sessions, turn));
        }
    }

    fn first(&mut self, queue: Queue) -> Option<u32> {
        self.turns.first(queue, |turn| counts(&self.sessions, turn)).map(|turn| turn.place)
    }

    /// Looks who is first, at no more mappings than there are looks left.
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
                // There were packets, or the guarantee is over.
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

/// Whether a turn is the one that its session has.
fn counts(sessions: &[Session], turn: &Turn) -> bool {
    let session = sessions.get(turn.place as usize);
    session.is_some_and(|session| session.is_in_use() && session.ticket == turn.ticket)
}
