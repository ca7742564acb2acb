//! A table of Ethernet addresses by IP address, in the order of their age.
//!
//! A table counts the packets that wait for addresses, and decides which of them have waited for too long
//! or are too many; the elements that hold the packets drop them. The calling element drops its own packets
//! at once ([`Waiters`]), other elements when they read the table's changes ([`Table::changed_since`]).
//! Time is counted in milliseconds, as in Click. The table has no timers: each call first does what has
//! become due, as if timers had done it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::class::ArgInfo;
use element::{Args, Call, Cx, DropReason, ElementId, Timestamp};
use wire::MacAddr;

use crate::hashing::{ByNumber, reseed};

/// The arguments of a table.
pub(crate) const ARGS: [ArgInfo; 5] = [
    ArgInfo::keyword("CAPACITY", "unsigned", "2048"),
    ArgInfo::keyword("ENTRY_CAPACITY", "unsigned", "65536"),
    ArgInfo::keyword("ENTRY_PACKET_CAPACITY", "unsigned", "0"),
    ArgInfo::keyword("CAPACITY_SLIM_FACTOR", "unsigned", "2"),
    ArgInfo::keyword("TIMEOUT", "seconds", "300"),
];

/// The key of a table: an IPv4 or IPv6 address as a number.
pub(crate) trait Address: Copy + Eq + Ord + Hash + Default {
    /// Returns the address in its usual notation.
    fn shown(self) -> impl Display;
}

impl Address for u32 {
    fn shown(self) -> impl Display {
        Ipv4Addr::from_bits(self)
    }
}

impl Address for u128 {
    fn shown(self) -> impl Display {
        Ipv6Addr::from_bits(self)
    }
}

/// The limits on the rate of queries for one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The shortest time between two queries, in milliseconds.
    pub(crate) pause: i64,
    /// The number of queries without an answer after which the time between queries is `long_pause`, in
    /// milliseconds.
    pub(crate) patience: u8,
    pub(crate) long_pause: i64,
}

/// The number of queries that a known neighbour may leave unanswered before another host's answer counts
/// (RFC 1122, section 2.3.2.1).
pub(crate) const QUESTIONS: u8 = 2;

/// The pace of Click's ARPQuerier.
const ARP_PACE: Pace = Pace { pause: 100, patience: 10, long_pause: 2_000 };

/// The bounds of a table (zero for none), and the pace of queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) packets: usize,
    pub(crate) entries: usize,
    pub(crate) packets_per_entry: usize,
    /// A divisor: when there are too many packets, `packets / slim_factor` of those allowed are dropped.
    pub(crate) slim_factor: usize,
    pub(crate) timeout: i64,
    pub(crate) pace: Pace,
    /// True if entries without an answer are evicted before all others, whatever their age.
    pub(crate) keeps_known: bool,
}

impl Limits {
    /// Reads [`ARGS`].
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

/// Converts a span of time to milliseconds; a negative or infinite span becomes zero, which means none.
pub(crate) fn milliseconds(time: Timestamp) -> i64 {
    let milliseconds = time.0.div_euclid(1_000_000);
    if (0..i64::from(u32::MAX)).contains(&milliseconds) { milliseconds } else { 0 }
}

/// Returns the current time in milliseconds.
pub(crate) fn now(cx: &Cx<'_>) -> i64 {
    cx.now().0.div_euclid(1_000_000)
}

/// The identity of the entry that packets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The number of the entry, unique among all tables of the process.
    pub(crate) id: u64,
    /// The position of the entry in the order of age. It may increase.
    pub(crate) rank: u64,
}

/// The order of entries by age.
pub(crate) trait Ranks<A = u32> {
    /// Returns the rank of the entry of an address, if there is an entry.
    fn rank(&self, address: A) -> Option<u64>;
}

/// The holder of the packets about which a table decides.
pub(crate) trait Waiters<A = u32> {
    /// Drops the packets that wait for an address.
    fn give_up(&mut self, address: A, reason: DropReason);

    /// Drops the first packet of the oldest entry that has packets here, and returns the entry's address.
    fn give_up_oldest(&mut self, ranks: &dyn Ranks<A>, reason: DropReason) -> Option<A>;
}

/// A [`Waiters`] for callers that hold no packets.
pub(crate) struct NoWaiters;

impl<A> Waiters<A> for NoWaiters {
    fn give_up(&mut self, _: A, _: DropReason) {}

    fn give_up_oldest(&mut self, _: &dyn Ranks<A>, _: DropReason) -> Option<A> {
        None
    }
}

/// A time in milliseconds, at least as long as the pause that precedes the query of a new entry, so that a
/// first query is never delayed.
const LONG_AGO: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<A = u32> {
    pub(crate) address: A,
    pub(crate) mac: MacAddr,
    is_known: bool,
    /// True if the address came as the answer to a query or from the user.
    is_asked: bool,
    /// True if the address must be queried again when it is used next.
    is_doubtful: bool,
    /// The number of packets that wait for the address, in all elements.
    waiting: usize,
    ticket: Ticket,
    /// The number of queries since the last answer.
    queries: u8,
    /// The time at which the entry was made or last answered.
    live: i64,
    queried: i64,
    older: Option<u32>,
    newer: Option<u32>,
}

impl<A> Entry<A> {
    fn is_expired(&self, now: i64, timeout: i64) -> bool {
        timeout > 0 && self.live + timeout < now
    }

    /// True if a query may be sent now. The query is then counted as sent.
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

/// The number of outdated notes that are tolerated before a clean-up.
pub(crate) const UNTIDY: usize = 64;

/// The number of changes that a table remembers.
const LOG: usize = 64;

/// The number of tables made so far. Each table numbers its entries from a start of its own, so that
/// packets of one table never seem to wait for an entry of another.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// The decision about a packet for an unknown address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// True if the packet may wait; it is then counted.
    pub(crate) waits: bool,
    /// True if a query must be sent.
    pub(crate) query: bool,
}

pub(crate) struct Table<A = u32> {
    limits: Limits,
    places: HashMap<A, u32, ByNumber>,
    entries: Vec<Entry<A>>,
    /// Indexes in `entries` that are not in use.
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
    /// With [`Limits::keeps_known`], the address and number of entries that were made without an answer,
    /// oldest first. Some of these may have been answered or removed since.
    unanswered: VecDeque<(A, u64)>,
    /// The number of packets that wait for addresses.
    waiting: usize,
    drops: u64,
    /// The last number that was given to an entry or rank.
    next: u64,
    /// The number of changes so far that can affect packets held by other elements.
    changes: u64,
    /// The last of these changes, as a ring: the address, and the reason with which packets for it are
    /// dropped if its entry was removed.
    log: [(A, DropReason); LOG],
    /// The time of the next search for expired entries.
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

    /// Sets the seed of the hash, which is the same for the whole run.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        reseed(&mut self.places, seed);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of packets that were dropped or refused.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Returns the number of changes so far that can affect packets held by other elements.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the changes since a count: addresses, and the reason with which packets for each are dropped
    /// if its entry was removed. `None` if there were more changes than the table remembers.
    pub(crate) fn changed_since(&self, seen: u64) -> Option<impl Iterator<Item = (A, DropReason)> + use<A>> {
        let log = self.log;
        let is_remembered = self.changes.checked_sub(seen).is_some_and(|n| n <= LOG as u64);
        is_remembered.then(|| (seen..self.changes).map(move |n| log[n as usize % LOG]))
    }

    /// Returns the reason with which packets for the last changed address are dropped if its entry was
    /// removed.
    pub(crate) fn last_reason(&self) -> DropReason {
        self.changes.checked_sub(1).map_or(DropReason::Reset, |n| self.log[n as usize % LOG].1)
    }

    fn note(&mut self, address: A, reason: DropReason) {
        self.log[self.changes as usize % LOG] = (address, reason);
        self.changes += 1;
    }

    /// Notes that packets for an address no longer wait: they were sent, or their holder has dropped them.
    pub(crate) fn released(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting = entry.waiting.saturating_sub(packets);
            self.waiting = self.waiting.saturating_sub(packets);
        }
    }

    /// Notes that packets for an address no longer wait, and counts them as dropped.
    pub(crate) fn gave_up(&mut self, address: A, packets: usize) {
        self.released(address, packets);
        self.drops += packets as u64;
    }

    /// Counts dropped packets that did not count as waiting.
    pub(crate) fn dropped(&mut self, packets: usize) {
        self.drops += packets as u64;
    }

    /// Counts packets for an address as waiting that did not count before.
    pub(crate) fn took_over(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting += packets;
            self.waiting += packets;
        }
    }

    /// Returns the ticket of the entry that packets for an address wait for, if there is an entry.
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

    /// Returns the Ethernet address if it is known.
    pub(crate) fn known(&self, address: A, now: i64) -> Option<MacAddr> {
        let entry = self.entries.get(*self.places.get(&address)? as usize)?;
        (entry.is_known && !entry.is_expired(now, self.limits.timeout)).then_some(entry.mac)
    }

    /// True if the address has an entry.
    pub(crate) fn contains(&self, address: A) -> bool {
        self.places.contains_key(&address)
    }

    /// Returns the Ethernet address if it is known, and true if a query must now check that it is still
    /// valid. Such queries begin `poll` milliseconds after the last answer; never if `poll` is zero.
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

    /// Marks a known address so that it is queried when it is used next.
    pub(crate) fn doubt(&mut self, address: A) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.is_doubtful = true;
        }
    }

    /// Returns the number of queries for an address since the last answer.
    pub(crate) fn queries(&self, address: A) -> u8 {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.map_or(0, |entry| entry.queries)
    }

    /// True if the next query for a known address must be broadcast: the address was learnt from an
    /// unsolicited reply, or the known neighbour does not answer.
    pub(crate) fn must_broadcast(&self, address: A) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_none_or(|entry| !entry.is_asked || entry.queries > QUESTIONS)
    }

    /// Learns an address from a reply. Returns true if the reply counts. It does not count if another
    /// neighbour has answered a query and still answers, unless `all` replies count; that neighbour is then
    /// queried again.
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
            // An unsolicited reply does not evict an entry.
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

    /// Returns true if a query about an address may be sent now. The query is then counted as sent.
    pub(crate) fn ask(&mut self, address: A, now: i64) -> bool {
        let pace = self.limits.pace;
        let place = self.places.get(&address).copied();
        place.and_then(|place| self.entry(place)).is_some_and(|entry| entry.query(now, pace))
    }

    /// Removes the entry of an address, and drops the packets that wait for it.
    pub(crate) fn forget(&mut self, address: A, reason: DropReason, waiters: &mut dyn Waiters<A>) {
        if let Some(&place) = self.places.get(&address) {
            self.remove(place, reason, waiters);
        }
    }

    /// Returns the entries, oldest first.
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

    /// Links an entry into the order of age, directly before a newer entry, or as the newest.
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
        // The packets wait no longer, whichever element holds them.
        self.gave_up(address, waiting);
        self.unlink(place);
        self.places.remove(&address);
        self.free.push(place);
        self.note(address, reason);
        waiters.give_up(address, reason);
    }

    /// Removes expired entries, entries for which there is no room if `coming` entries are to be added, and
    /// packets that are too many.
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
        // Leaves room for at least one packet, the packet that has exceeded the bound.
        let enough = (packets - packets / slim_factor).max(1);
        while self.waiting > enough
            && let Some(address) = waiters.give_up_oldest(self, DropReason::QueueFull)
        {
            self.gave_up(address, 1);
        }
    }

    /// True if an entry still has this number, and no answer.
    fn is_unanswered(&self, address: A, number: u64) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_some_and(|entry| entry.ticket.id == number && !entry.is_known)
    }

    /// Returns the index of the oldest entry without an answer, which the caller must remove.
    fn first_without_answer(&mut self) -> Option<u32> {
        while let Some((address, number)) = self.unanswered.pop_front() {
            if self.is_unanswered(address, number) {
                return self.places.get(&address).copied();
            }
        }
        None
    }

    /// Records that entry `number` still waits for an answer, so that it is evicted before entries that have
    /// one.
    fn note_unanswered(&mut self, address: A, number: u64) {
        if !self.limits.keeps_known {
            return;
        }
        if self.unanswered.len() >= 2 * self.len() + UNTIDY {
            let mut all = std::mem::take(&mut self.unanswered);
            all.retain(|&(address, number)| self.is_unanswered(address, number));
            self.unanswered = all;
        }
        // Without memory for the note, the entry is evicted later than others.
        if self.unanswered.try_reserve(1).is_ok() {
            self.unanswered.push_back((address, number));
        }
    }

    /// Does what a timer would have done by now.
    pub(crate) fn catch_up(&mut self, now: i64, waiters: &mut dyn Waiters<A>) {
        if self.limits.timeout == 0 {
            return;
        }
        // Whole seconds, as in Click: the first search is after the timeout, each further search a second
        // more than the timeout after the previous.
        let timeout = self.limits.timeout / 1000 * 1000;
        let period = timeout + 1000;
        let next = *self.next_look.get_or_insert(now + timeout);
        if now >= next {
            let last = next + (now - next) / period * period;
            self.next_look = Some(last + period);
            self.slim(last, 0, waiters);
        }
    }

    /// True if there is memory for another entry. The memory that removing this entry needs is then
    /// reserved, too.
    fn has_memory_for_another(&mut self) -> bool {
        let has_place = !self.free.is_empty() || self.entries.try_reserve(1).is_ok();
        let removed = self.entries.len() + 1 - self.free.len();
        has_place && self.free.try_reserve(removed).is_ok() && self.places.try_reserve(1).is_ok()
    }

    /// Returns the index of the entry of an address, which is made if there is none; `None` if there is no
    /// memory for it.
    fn ensure(&mut self, address: A, now: i64, waiters: &mut dyn Waiters<A>) -> Option<u32> {
        if let Some(&place) = self.places.get(&address) {
            return Some(place);
        }
        if self.limits.entries > 0 && self.len() >= self.limits.entries {
            self.slim(now, 1, waiters);
        }
        if !self.has_memory_for_another() {
            // The available memory is the bound, so an entry is evicted.
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

    /// Decides if a packet may wait for an address; `queued` packets for it already wait in the same
    /// element.
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
        // The bound of one entry only keeps further packets out; queries are still repeated, because they
        // may have been lost.
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
            // The bounds have just become lower, and the packet was dropped with its entry.
            return Admission { waits: false, query: false };
        }
        // Other elements may hold all packets that wait, so that none could be dropped.
        let waits = packets == 0 || self.waiting <= packets;
        if !waits {
            self.gave_up(address, 1);
        }
        Admission { waits, query: self.entry(place).is_some_and(|entry| entry.query(now, pace)) }
    }

    /// Keeps an expired entry that is still queried from being removed. Other expired entries are removed,
    /// so that this entry becomes the oldest.
    fn refresh(&mut self, place: u32, now: i64, waiters: &mut dyn Waiters<A>) {
        let timeout = self.limits.timeout;
        let Some(entry) = self.entry(place).filter(|entry| entry.is_expired(now, timeout)) else { return };
        entry.live = now - timeout;
        // The Ethernet address has expired.
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

    /// Sets the Ethernet address of an address; the broadcast address means that it is not known. Returns
    /// false if there is no memory for the entry.
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

    /// Removes all entries.
    pub(crate) fn clear(&mut self, waiters: &mut dyn Waiters<A>) {
        while let Some(place) = self.oldest {
            self.remove(place, DropReason::Reset, waiters);
        }
    }

    /// Takes all entries for an element that replaces this element. Packets that wait do not count there
    /// until their holder reports them.
    pub(crate) fn take(&mut self) -> Table<A> {
        let empty = Table { changes: self.changes + LOG as u64 + 1, ..Table::new(self.limits) };
        let mut taken = std::mem::replace(self, empty);
        taken.waiting = 0;
        taken.entries.iter_mut().for_each(|entry| entry.waiting = 0);
        taken
    }

    /// Continues with the entries of another table.
    pub(crate) fn go_on_with(&mut self, other: Table<A>) {
        // The count advances by more than the log holds, so that every element checks all its packets.
        let changes = self.changes.max(other.changes) + LOG as u64 + 1;
        *self = Table { limits: self.limits, next_look: self.next_look, changes, ..other };
    }

    /// Returns the text of the handler `table`: address, 1 if it is known, Ethernet address, age.
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

/// A table that several elements use: the service of ARPTable.
pub(crate) struct Shared {
    table: Mutex<Table>,
    /// Calls to the elements that may hold waiting packets, made when something has changed for them.
    calls: Mutex<Vec<Arc<Call>>>,
}

/// The name of the handler that these calls run.
pub(crate) const RELEASE: &str = "release";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Shared {
        Shared { table: Mutex::new(Table::new(limits)), calls: Mutex::default() }
    }

    /// Locks and returns the table; called once per batch.
    pub(crate) fn open(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Registers an element that uses the table.
    pub(crate) fn join(&self, element: ElementId) {
        let mut calls = lock(&self.calls);
        if calls.iter().all(|call| call.element != Some(element)) {
            let call = Call::new(Some(element), RELEASE, "");
            calls.push(Arc::new(call));
        }
    }

    /// Makes the other elements check whether their packets can leave.
    pub(crate) fn tell_others(&self, cx: &mut Cx<'_>) {
        let own = Some(cx.id());
        for call in lock(&self.calls).iter().filter(|call| call.element != own) {
            cx.handlers().call_later(call);
        }
    }
}

#[cfg(test)]
mod tests;
