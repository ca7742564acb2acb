//! A table of Ethernet addresses by IP address, ordered by the age of its entries; for ARP and ND.
//!
//! The table holds no packets, but counts how many wait for each address, and decides which must be
//! dropped: packets of removed entries, and packets above the bounds. The elements that hold the packets
//! drop them. The calling element does so at once, through [`Waiters`]; other elements with the same table
//! do it when they read its changes ([`Table::changed_since`]). Times are in milliseconds, as in Click. The
//! table has no timers: each element first calls [`Table::catch_up`], which does what timers would have
//! done by now.

mod address;
mod save;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use element::class::ArgInfo;
use element::{Args, Cx, DropReason, Timestamp};
use wire::MacAddr;

use crate::hashing::{ByNumber, reseed};

pub(crate) use address::Address;
pub(crate) use save::FORM;

/// The arguments of elements that set the limits of their table of neighbours.
pub(crate) const ARGS: [ArgInfo; 5] = [
    ArgInfo::keyword("CAPACITY", "unsigned", "2048"),
    ArgInfo::keyword("ENTRY_CAPACITY", "unsigned", "65536"),
    ArgInfo::keyword("ENTRY_PACKET_CAPACITY", "unsigned", "0"),
    ArgInfo::keyword("CAPACITY_SLIM_FACTOR", "unsigned", "2"),
    ArgInfo::keyword("TIMEOUT", "seconds", "300"),
];

/// The rate limit of queries for one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The shortest time between two queries for an address, in milliseconds.
    pub(crate) pause: i64,
    /// The number of queries without an answer after which `long_pause` replaces `pause`.
    pub(crate) patience: u8,
    /// The shortest time between later queries, in milliseconds.
    pub(crate) long_pause: i64,
}

/// The number of queries that a known neighbour may leave unanswered. If there are more, the reply of
/// another host replaces it (RFC 1122, section 2.3.2.1).
pub(crate) const QUESTIONS: u8 = 2;

/// The rate limit of Click's ARPQuerier: ten queries a second, then one in two seconds.
pub(super) const ARP_PACE: Pace = Pace { pause: 100, patience: 10, long_pause: 2_000 };

/// The bounds of a table of neighbours and the rate limit of its queries. Zero is no bound; `timeout` is in
/// milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) packets: usize,
    pub(crate) entries: usize,
    pub(crate) packets_per_entry: usize,
    /// A divisor: when more packets wait than the bound `packets` allows, packets are dropped until `packets
    /// - packets / slim_factor` wait.
    pub(crate) slim_factor: usize,
    pub(crate) timeout: i64,
    pub(crate) pace: Pace,
    /// True if entries without an answer are evicted ahead of all known neighbours, even of older ones.
    pub(crate) keeps_known: bool,
}

impl Limits {
    /// Reads the arguments [`ARGS`]. Reports a slim factor of zero as an error, and uses 1 instead.
    pub(crate) fn read(args: &mut Args<'_>) -> Limits {
        let mut number = |name| args.value::<u32>(name) as usize;
        let packets = number("CAPACITY");
        let entries = number("ENTRY_CAPACITY");
        let packets_per_entry = number("ENTRY_PACKET_CAPACITY");
        let slim_factor = number("CAPACITY_SLIM_FACTOR");
        if slim_factor == 0 {
            args.error("CAPACITY_SLIM_FACTOR cannot be zero");
        }
        let timeout = milliseconds(args.value("TIMEOUT"));
        Limits {
            packets,
            entries,
            packets_per_entry,
            slim_factor: slim_factor.max(1),
            timeout,
            pace: ARP_PACE,
            keeps_known: true,
        }
    }
}

/// Converts a duration to milliseconds. A negative duration, or a duration of 2^32 - 1 ms or more, becomes
/// zero, which means no limit.
pub(crate) fn milliseconds(time: Timestamp) -> i64 {
    let milliseconds = time.0.div_euclid(1_000_000);
    if (0..i64::from(u32::MAX)).contains(&milliseconds) { milliseconds } else { 0 }
}

/// Returns the current time in milliseconds, as the functions of [`Table`] expect it.
pub(crate) fn now(cx: &Cx<'_>) -> i64 {
    cx.now().0.div_euclid(1_000_000)
}

/// The identity of an entry of a table of neighbours. Elements keep it with the packets that wait for the
/// entry's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The number of the entry, different from the numbers of all other entries of all tables in the process.
    pub(crate) id: u64,
    /// The entry's rank by age within its table: older entries have lower ranks. The rank increases when the
    /// entry becomes the newest.
    pub(crate) rank: u64,
}

/// The order of the entries of a table of neighbours by age, for an element that looks for the oldest entry
/// among those for which it holds packets.
pub(crate) trait Ranks<A = u32> {
    /// Returns the rank of an address's entry (lower is older); `None` if it has no entry.
    fn rank(&self, address: A) -> Option<u64>;
}

/// An element that holds waiting packets, which the table asks to drop some.
pub(crate) trait Waiters<A = u32> {
    /// Drops the packets that wait for an address in this element; the table has counted them as dropped.
    fn give_up(&mut self, address: A, reason: DropReason);

    /// Drops the first packet of the oldest entry with packets in this element; returns its address, if
    /// any.
    fn give_up_oldest(&mut self, ranks: &dyn Ranks<A>, reason: DropReason) -> Option<A>;
}

/// An implementation of [`Waiters`] for callers that hold no packets.
pub(crate) struct NoWaiters;

impl<A> Waiters<A> for NoWaiters {
    fn give_up(&mut self, _: A, _: DropReason) {}

    fn give_up_oldest(&mut self, _: &dyn Ranks<A>, _: DropReason) -> Option<A> {
        None
    }
}

/// The milliseconds by which the time of the last query is set back in a new entry, so that the entry's first
/// query is not delayed: at least [`Pace::pause`].
const LONG_AGO: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<A = u32> {
    pub(crate) address: A,
    pub(crate) mac: MacAddr,
    is_known: bool,
    /// True if the Ethernet address came in answer to a query, or from a user; false if unsolicited.
    is_asked: bool,
    /// True if the next packet for the address must cause a query, although the address is known.
    is_doubtful: bool,
    /// The number of packets that wait for the address, in all elements that use the table.
    waiting: usize,
    ticket: Ticket,
    /// The number of queries since the last answer; it stays at 255.
    queries: u8,
    /// The time in milliseconds when the entry was made, or last got an answer. The time-out starts here. For
    /// an expired entry that is kept, the time is set forward.
    live: i64,
    queried: i64,
    older: Option<u32>,
    newer: Option<u32>,
}

impl<A> Entry<A> {
    fn is_expired(&self, now: i64, timeout: i64) -> bool {
        timeout > 0 && self.live + timeout < now
    }

    /// Returns true, and counts the query as sent, if the rate limit allows a query at the time `now`.
    fn query(&mut self, now: i64, pace: Pace) -> bool {
        let pause = if self.queries >= pace.patience { pace.long_pause } else { pace.pause };
        let may = now >= self.queried + pause;
        if may {
            self.queried = now;
            self.queries = self.queries.saturating_add(1);
        }
        may
    }
}

/// The number of items by which a queue that refers to entries of a table of neighbours may exceed twice the
/// number of entries, before outdated items are removed.
pub(crate) const UNTIDY: usize = 64;

/// The number of changes that a table of neighbours remembers, for elements that share it.
const LOG: usize = 64;

/// The number of tables of neighbours made so far. It is part of the numbers of entries, so that entries of
/// different tables have different numbers.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// The decision of a table about a packet whose next hop has no known Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// True if the packet may wait, and is counted as waiting. If false, the caller drops it.
    pub(crate) waits: bool,
    /// True if the caller must send a query; the table has then counted it.
    pub(crate) query: bool,
}

pub(crate) struct Table<A = u32> {
    limits: Limits,
    places: HashMap<A, u32, ByNumber>,
    entries: Vec<Entry<A>>,
    /// The indexes in `entries` that are free.
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
    /// The entries that had no answer when they were recorded, as IP address and number of the entry, oldest
    /// first; used if [`Limits::keeps_known`] is set. Some may have been answered or removed since.
    unanswered: VecDeque<(A, u64)>,
    /// The number of packets that wait for addresses, in all elements that use the table.
    waiting: usize,
    drops: u64,
    /// The number that was last given to an entry as its identity or as its rank.
    next: u64,
    /// A count that increases with each change of the table that can concern packets waiting in elements: an
    /// Ethernet address that was learnt, or an entry that was removed.
    changes: u64,
    /// The last [`LOG`] changes, at the index of their count modulo [`LOG`]: the address, and the reason
    /// with which packets for it are dropped if its entry was removed.
    log: [(A, DropReason); LOG],
    /// The time of the next search for expired entries, in milliseconds; `None` before the first call of
    /// [`Table::catch_up`].
    next_look: Option<i64>,
}

impl<A: Address> Table<A> {
    pub(crate) fn new(limits: Limits) -> Table<A> {
        Table {
            limits,
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
            unanswered: VecDeque::new(),
            waiting: 0,
            drops: 0,
            next: TABLES.fetch_add(1, Ordering::Relaxed) << 40,
            changes: 0,
            log: [(A::default(), DropReason::Reset); LOG],
            next_look: None,
        }
    }

    /// Seeds the hash function, so that an attacker cannot make addresses collide.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        reseed(&mut self.places, seed);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the number of the table's entries, including entries without a known Ethernet address.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of packets that wait for addresses, in all elements that use the table.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of packets that were dropped while they waited, or that could not wait.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Returns the table's count of changes. An element that remembers a lower count must check its waiting
    /// packets.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the changes of the table after the first `seen` changes: each IP address, and the reason with
    /// which its packets are dropped if its entry was removed. Returns `None` if there were more than
    /// [`LOG`].
    pub(crate) fn changed_since(&self, seen: u64) -> Option<impl Iterator<Item = (A, DropReason)> + use<A>> {
        let log = self.log;
        let is_remembered = self.changes.checked_sub(seen).is_some_and(|n| n <= LOG as u64);
        is_remembered.then(|| (seen..self.changes).map(move |n| log[n as usize % LOG]))
    }

    /// Returns the drop reason of the last change of the table. Elements use it if they check all their
    /// waiting packets, because they have missed too many changes to know the reason for each.
    pub(crate) fn last_reason(&self) -> DropReason {
        self.changes.checked_sub(1).map_or(DropReason::Reset, |n| self.log[n as usize % LOG].1)
    }

    fn note(&mut self, address: A, reason: DropReason) {
        self.log[self.changes as usize % LOG] = (address, reason);
        self.changes += 1;
    }

    /// Subtracts `packets` from the number of packets that wait for an address, without counting them as
    /// drops. Does nothing if the address has no entry.
    pub(crate) fn released(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting = entry.waiting.saturating_sub(packets);
            self.waiting = self.waiting.saturating_sub(packets);
        }
    }

    /// Subtracts `packets` from the number of packets that wait for an address, if it has an entry, and
    /// counts them as drops in any case.
    pub(crate) fn gave_up(&mut self, address: A, packets: usize) {
        self.released(address, packets);
        self.drops += packets as u64;
    }

    /// Counts packets as drops of the table that it did not count as waiting before.
    pub(crate) fn dropped(&mut self, packets: usize) {
        self.drops += packets as u64;
    }

    /// Adds `packets` to the number of packets that wait for an address, if it has an entry.
    pub(crate) fn took_over(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting += packets;
            self.waiting += packets;
        }
    }

    /// Returns the identity of the table's entry for an IP address; `None` if there is no entry.
    pub(crate) fn ticket(&self, address: A) -> Option<Ticket> {
        Some(self.entries.get(*self.places.get(&address)? as usize)?.ticket)
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn entry(&mut self, place: u32) -> Option<&mut Entry<A>> {
        self.entries.get_mut(place as usize)
    }

    /// Returns the Ethernet address of an IP address if it is known and not expired.
    pub(crate) fn known(&self, address: A, now: i64) -> Option<MacAddr> {
        let entry = self.entries.get(*self.places.get(&address)? as usize)?;
        (entry.is_known && !entry.is_expired(now, self.limits.timeout)).then_some(entry.mac)
    }

    /// True if the address has an entry.
    pub(crate) fn contains(&self, address: A) -> bool {
        self.places.contains_key(&address)
    }

    /// Returns the Ethernet address of an IP address if it is known and not expired. The second value is
    /// true if the caller must send a query, which is then counted, to check that the address is still
    /// valid. Such queries begin `poll` milliseconds after the last answer, or at once for an address in
    /// doubt; never if `poll` is zero.
    #[inline]
    pub(crate) fn look_up(&mut self, address: A, now: i64, poll: i64) -> Option<(MacAddr, bool)> {
        let entry = self.entries.get_mut(*self.places.get(&address)? as usize)?;
        if !entry.is_known || entry.is_expired(now, self.limits.timeout) {
            return None;
        }
        let is_due = entry.is_doubtful || now >= entry.live + poll;
        let asks = poll > 0 && is_due && entry.query(now, self.limits.pace);
        Some((entry.mac, asks))
    }

    /// Makes the next packet for an address cause a query, although the address is known.
    pub(crate) fn doubt(&mut self, address: A) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.is_doubtful = true;
        }
    }

    /// Returns the number of queries for an address since its last answer; zero if it has no entry.
    pub(crate) fn queries(&self, address: A) -> u8 {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.map_or(0, |entry| entry.queries)
    }

    /// True if the next query must be broadcast: the address has no entry, an unsolicited reply gave its
    /// Ethernet address, or more than [`QUESTIONS`] queries had no answer.
    pub(crate) fn must_broadcast(&self, address: A) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_none_or(|entry| !entry.is_asked || entry.queries > QUESTIONS)
    }

    /// Learns an Ethernet address from a reply. Returns true if the reply was accepted, so that waiting
    /// packets can leave. A reply for an address without an entry is refused if the table is full. Unless
    /// `all` is true, a reply does not replace another neighbour that has answered a query and still answers;
    /// that neighbour is queried with the next packet instead.
    pub(crate) fn learn(
        &mut self,
        address: A,
        mac: MacAddr,
        all: bool,
        now: i64,
        waiters: &mut dyn Waiters<A>,
    ) -> bool {
        let timeout = self.limits.timeout;
        let place = self.places.get(&address).copied();
        let mut is_asked = false;
        if let Some(entry) = place.and_then(|place| self.entry(place)) {
            let has_answered = entry.is_known && entry.is_asked && !entry.is_expired(now, timeout);
            let is_other = entry.mac != mac;
            if has_answered && is_other && !all && entry.queries <= QUESTIONS {
                entry.is_doubtful = true;
                return false;
            }
            is_asked = entry.queries > 0 || has_answered && !is_other;
        } else if self.limits.entries > 0 && self.len() >= self.limits.entries {
            // An unsolicited reply gets no entry if the table is full.
            return false;
        }
        if !self.insert(address, mac, now, waiters) {
            return false;
        }
        let place = self.places.get(&address).copied();
        if let Some(entry) = place.and_then(|place| self.entry(place)) {
            entry.is_asked = is_asked;
        }
        true
    }

    /// Returns true, and counts a query as sent, if the address has an entry and the rate limit allows it.
    pub(crate) fn ask(&mut self, address: A, now: i64) -> bool {
        let pace = self.limits.pace;
        let place = self.places.get(&address).copied();
        place.and_then(|place| self.entry(place)).is_some_and(|entry| entry.query(now, pace))
    }

    /// Removes the entry of an address, if there is one, and drops the packets that wait for it.
    pub(crate) fn forget(&mut self, address: A, reason: DropReason, waiters: &mut dyn Waiters<A>) {
        if let Some(&place) = self.places.get(&address) {
            self.remove(place, reason, waiters);
        }
    }

    /// Returns the entries in the order of age, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<A>> {
        let at = |place: Option<u32>| place.and_then(|place| self.entries.get(place as usize));
        std::iter::successors(at(self.oldest), move |entry| at(entry.newer))
    }

    fn unlink(&mut self, place: u32) {
        let Some(&Entry { older, newer, .. }) = self.entries.get(place as usize) else { return };
        match older.and_then(|place| self.entry(place)) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|place| self.entry(place)) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    /// Links an entry into the table's list of entries by age, ahead of the entry at index `newer`, or, with
    /// `None`, at the end as the newest.
    fn link(&mut self, place: u32, newer: Option<u32>) {
        let older = match newer.and_then(|place| self.entry(place)) {
            Some(entry) => entry.older.replace(place),
            None => self.newest.replace(place),
        };
        match older.and_then(|place| self.entry(place)) {
            Some(entry) => entry.newer = Some(place),
            None => self.oldest = Some(place),
        }
        if let Some(entry) = self.entry(place) {
            (entry.older, entry.newer) = (older, newer);
        }
    }

    fn remove(&mut self, place: u32, reason: DropReason, waiters: &mut dyn Waiters<A>) {
        let Some(&Entry { address, waiting, .. }) = self.entries.get(place as usize) else { return };
        // All waiting packets count as dropped now; other elements drop their packets later.
        self.gave_up(address, waiting);
        self.unlink(place);
        self.places.remove(&address);
        self.free.push(place);
        self.note(address, reason);
        waiters.give_up(address, reason);
    }

    /// Removes expired entries, and then further entries until there is room for `coming` new entries. Then
    /// removes packets of the calling element if more packets wait than the bound allows.
    fn slim(&mut self, now: i64, coming: usize, waiters: &mut dyn Waiters<A>) {
        let Limits { entries, timeout, packets, slim_factor, .. } = self.limits;
        while let Some(place) = self.oldest {
            let too_many = entries > 0 && self.len() + coming > entries;
            let expired = self.entry(place).is_some_and(|entry| entry.is_expired(now, timeout));
            match (expired, too_many) {
                (true, _) => self.remove(place, DropReason::OutOfTime, waiters),
                (false, true) => {
                    let place = self.first_without_answer().unwrap_or(place);
                    self.remove(place, DropReason::QueueFull, waiters);
                }
                (false, false) => break,
            }
        }
        if packets == 0 || self.waiting <= packets {
            return;
        }
        // At least one packet may wait: the packet that has exceeded the bound.
        let enough = (packets - packets / slim_factor).max(1);
        while self.waiting > enough
            && let Some(address) = waiters.give_up_oldest(self, DropReason::QueueFull)
        {
            self.gave_up(address, 1);
        }
    }

    /// True if the address has the entry with this number, and its Ethernet address is not known.
    fn is_unanswered(&self, address: A, number: u64) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_some_and(|entry| entry.ticket.id == number && !entry.is_known)
    }

    /// Removes the oldest entry without an answer from the queue [`unanswered`](Table::unanswered), and
    /// returns its index; the caller must remove the entry. Returns `None` if no such entry is recorded.
    fn first_without_answer(&mut self) -> Option<u32> {
        while let Some((address, number)) = self.unanswered.pop_front() {
            if self.is_unanswered(address, number) {
                return self.places.get(&address).copied();
            }
        }
        None
    }

    /// Records an entry without an answer in `unanswered`, if [`Limits::keeps_known`] is set, so that it is
    /// evicted ahead of known neighbours.
    fn note_unanswered(&mut self, address: A, number: u64) {
        if !self.limits.keeps_known {
            return;
        }
        if self.unanswered.len() >= 2 * self.len() + UNTIDY {
            let mut all = std::mem::take(&mut self.unanswered);
            all.retain(|&(address, number)| self.is_unanswered(address, number));
            self.unanswered = all;
        }
        // If there is no memory for the record, the entry is evicted by its age only.
        if self.unanswered.try_reserve(1).is_ok() {
            self.unanswered.push_back((address, number));
        }
    }

    /// Removes expired entries, and packets above the bound, if a timer would have done it by now. Elements
    /// call it before they use the table for a batch.
    pub(crate) fn catch_up(&mut self, now: i64, waiters: &mut dyn Waiters<A>) {
        if self.limits.timeout == 0 {
            return;
        }
        // As in Click, in whole seconds: the first search is one time-out after the first call. The time
        // between two searches is one second longer than the time-out.
        let timeout = self.limits.timeout / 1000 * 1000;
        let period = timeout + 1000;
        let next = *self.next_look.get_or_insert(now + timeout);
        if now >= next {
            let last = next + (now - next) / period * period;
            self.next_look = Some(last + period);
            self.slim(last, 0, waiters);
        }
    }

    /// Reserves memory for another entry, and for its removal. Returns false if there is none.
    fn has_memory_for_another(&mut self) -> bool {
        let has_place = !self.free.is_empty() || self.entries.try_reserve(1).is_ok();
        let removed = self.entries.len() + 1 - self.free.len();
        has_place && self.free.try_reserve(removed).is_ok() && self.places.try_reserve(1).is_ok()
    }

    /// Returns the index of an address's entry, and makes the entry if there is none. If the table is full,
    /// an entry is evicted. Returns `None` if there is no memory.
    fn ensure(&mut self, address: A, now: i64, waiters: &mut dyn Waiters<A>) -> Option<u32> {
        if let Some(&place) = self.places.get(&address) {
            return Some(place);
        }
        if self.limits.entries > 0 && self.len() >= self.limits.entries {
            self.slim(now, 1, waiters);
        }
        if !self.has_memory_for_another() {
            // If there is no memory, another entry is evicted, as if the bound had been reached.
            let oldest = self.first_without_answer().or(self.oldest)?;
            self.remove(oldest, DropReason::QueueFull, waiters);
            if !self.has_memory_for_another() {
                return None;
            }
        }
        let number = self.next_number();
        let entry = Entry {
            address,
            mac: MacAddr::BROADCAST,
            is_known: false,
            is_asked: false,
            is_doubtful: false,
            waiting: 0,
            ticket: Ticket { id: number, rank: number },
            queries: 0,
            live: now,
            queried: now - LONG_AGO,
            older: None,
            newer: None,
        };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        if let Some(old) = self.entry(place) {
            *old = entry;
        }
        self.places.insert(address, place);
        self.link(place, None);
        self.note_unanswered(address, number);
        Some(place)
    }

    /// Decides if a packet for an unknown address may wait, and if a query must be sent; makes the entry if
    /// there is none. `queued` is the number of packets for it that already wait in the calling element.
    pub(crate) fn admit(
        &mut self,
        address: A,
        now: i64,
        queued: usize,
        waiters: &mut dyn Waiters<A>,
    ) -> Admission {
        let Some(place) = self.ensure(address, now, waiters) else {
            self.drops += 1;
            return Admission { waits: false, query: false };
        };
        self.refresh(place, now, waiters);
        // Above the bound of one address, a packet still causes a query: earlier queries may have been
        // lost.
        let Limits { packets, packets_per_entry, pace, .. } = self.limits;
        if packets_per_entry > 0 && queued >= packets_per_entry {
            self.drops += 1;
            return Admission {
                waits: false,
                query: self.entry(place).is_some_and(|entry| entry.query(now, pace)),
            };
        }
        self.took_over(address, 1);
        if packets > 0 && self.waiting > packets {
            self.slim(now, 0, waiters);
        }
        if !self.contains(address) {
            // The largest number of entries has been lowered. The packet's entry was removed for this reason,
            // and the packet was counted as dropped.
            return Admission { waits: false, query: false };
        }
        // If too many of the waiting packets are in other elements, the bound is still exceeded; this packet
        // is refused.
        let waits = packets == 0 || self.waiting <= packets;
        if !waits {
            self.gave_up(address, 1);
        }
        Admission { waits, query: self.entry(place).is_some_and(|entry| entry.query(now, pace)) }
    }

    /// Keeps an expired entry for which a packet has come: the entry expires a little later, and its Ethernet
    /// address is no longer known. Removes other expired entries, and puts this entry first in the order of
    /// age. Does nothing if the entry has not expired.
    fn refresh(&mut self, place: u32, now: i64, waiters: &mut dyn Waiters<A>) {
        let timeout = self.limits.timeout;
        let Some(entry) = self.entry(place).filter(|entry| entry.is_expired(now, timeout)) else { return };
        entry.live = now - timeout;
        // The Ethernet address has expired, so it must be queried again.
        let was_known = std::mem::replace(&mut entry.is_known, false);
        let (address, number) = (entry.address, entry.ticket.id);
        if was_known {
            self.note_unanswered(address, number);
        }
        self.unlink(place);
        while let Some(oldest) = self.oldest
            && self.entry(oldest).is_some_and(|entry| entry.is_expired(now, timeout))
        {
            self.remove(oldest, DropReason::OutOfTime, waiters);
        }
        self.link(place, self.oldest);
    }

    /// Sets the Ethernet address of an IP address as if it had answered a query, and makes the entry the
    /// newest. The broadcast address means unknown. Returns false if there is no memory for the entry.
    pub(crate) fn insert(
        &mut self,
        address: A,
        mac: MacAddr,
        now: i64,
        waiters: &mut dyn Waiters<A>,
    ) -> bool {
        let Some(place) = self.ensure(address, now, waiters) else { return false };
        self.unlink(place);
        self.link(place, None);
        self.note(address, DropReason::Reset);
        let rank = self.next_number();
        if let Some(entry) = self.entry(place) {
            entry.ticket.rank = rank;
            entry.mac = mac;
            entry.is_known = !mac.is_broadcast();
            entry.is_asked = true;
            entry.is_doubtful = false;
            (entry.live, entry.queries, entry.queried) = (now, 0, now - LONG_AGO);
        }
        true
    }

    /// Removes all entries; packets that wait for them are dropped.
    pub(crate) fn clear(&mut self, waiters: &mut dyn Waiters<A>) {
        while let Some(place) = self.oldest {
            self.remove(place, DropReason::Reset, waiters);
        }
    }

    /// Removes and returns all entries, for the element that replaces this one. They count no waiting packets
    /// any more: the new element must count its packets again.
    pub(crate) fn take(&mut self) -> Table<A> {
        let empty = Table { changes: self.changes + LOG as u64 + 1, ..Table::new(self.limits) };
        let mut taken = std::mem::replace(self, empty);
        taken.waiting = 0;
        taken.entries.iter_mut().for_each(|entry| entry.waiting = 0);
        taken
    }

    /// Replaces all entries by the entries of another table, and keeps this table's limits.
    pub(crate) fn go_on_with(&mut self, other: Table<A>) {
        // The count of changes advances by more than [`LOG`], so that every element checks all its packets.
        let changes = self.changes.max(other.changes) + LOG as u64 + 1;
        *self = Table { limits: self.limits, next_look: self.next_look, changes, ..other };
    }

    /// Returns the text of the handler `table`: per entry a line with IP address, 1 if its Ethernet address
    /// is known, otherwise 0, Ethernet address, and seconds since the last answer.
    pub(crate) fn show(&self, now: i64) -> String {
        let line = |entry: &Entry<A>| {
            let known = entry.is_known && !entry.is_expired(now, self.limits.timeout);
            let age = Timestamp((now - entry.live).saturating_mul(1_000_000));
            format!("{} {} {:#} {age}\n", entry.address.shown(), u8::from(known), entry.mac)
        };
        self.iter().map(line).collect()
    }
}

impl<A: Address> Ranks<A> for Table<A> {
    fn rank(&self, address: A) -> Option<u64> {
        Some(self.ticket(address)?.rank)
    }
}

#[cfg(test)]
mod tests;
