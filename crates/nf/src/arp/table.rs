//! Ethernet addresses by IP address, as far as they are known, in the order of their age.
//!
//! A table counts the packets that wait for addresses and decides which of them have waited for too long or are too
//! many; the elements that hold them drop them: the one at work at once ([`Waiters`]), others when they look what has
//! changed ([`Table::changed_since`]). Time is counted in milliseconds, as by Click. Nothing here happens by itself:
//! what is due by the time of a call is done first, as if timers had done it.

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

/// What can be said of a table.
pub(crate) const ARGS: [ArgInfo; 5] = [
    ArgInfo::keyword("CAPACITY", "unsigned", "2048"),
    ArgInfo::keyword("ENTRY_CAPACITY", "unsigned", "65536"),
    ArgInfo::keyword("ENTRY_PACKET_CAPACITY", "unsigned", "0"),
    ArgInfo::keyword("CAPACITY_SLIM_FACTOR", "unsigned", "2"),
    ArgInfo::keyword("TIMEOUT", "seconds", "300"),
];

/// What a table finds Ethernet addresses by: an IPv4 or IPv6 address as a number.
pub(crate) trait Address: Copy + Eq + Ord + Hash + Default {
    /// The address as people read it.
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

/// How often the same address may be asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long after a query the next one may follow.
    pub(crate) pause: i64,
    /// After how many queries without an answer it takes longer, and how long then.
    pub(crate) patience: u8,
    pub(crate) long_pause: i64,
}

/// Questions that who is known does not answer before somebody else's answer counts (RFC 1122, section 2.3.2.1).
pub(crate) const QUESTIONS: u8 = 2;

/// That of Click's ARPQuerier.
const ARP_PACE: Pace = Pace { pause: 100, patience: 10, long_pause: 2_000 };

/// Bounds, zero for none, and the pace of queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) packets: usize,
    pub(crate) entries: usize,
    pub(crate) packets_per_entry: usize,
    /// Of too many packets, one in so many of those allowed is given up.
    pub(crate) slim_factor: usize,
    pub(crate) timeout: i64,
    pub(crate) pace: Pace,
    /// Whether entries without an answer give way to new ones before others do, however old.
    pub(crate) keeps_known: bool,
}

impl Limits {
    /// Reads [`ARGS`].
    pub(crate) fn read(args: &mut Args<'_>) -> Limits {
        let mut number = |name, default: u32| args.or(name, default) as usize;
        let packets = number("CAPACITY", 2048);
        let entries = number("ENTRY_CAPACITY", 65_536);
        let packets_per_entry = number("ENTRY_PACKET_CAPACITY", 0);
        let slim_factor = number("CAPACITY_SLIM_FACTOR", 2);
        if slim_factor == 0 {
            args.error("CAPACITY_SLIM_FACTOR cannot be zero");
        }
        let timeout = milliseconds(args.or("TIMEOUT", Timestamp::from_secs(300)));
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

/// A span of time; negative or endless ones mean none, as zero does.
pub(crate) fn milliseconds(time: Timestamp) -> i64 {
    let milliseconds = time.0.div_euclid(1_000_000);
    if (0..i64::from(u32::MAX)).contains(&milliseconds) { milliseconds } else { 0 }
}

/// A point in time.
pub(crate) fn now(cx: &Cx<'_>) -> i64 {
    cx.now().0.div_euclid(1_000_000)
}

/// Which entry packets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Its number: that of one entry among all tables of the process.
    pub(crate) id: u64,
    /// Its place in the order of age. It may go up.
    pub(crate) rank: u64,
}

/// The order of entries by age.
pub(crate) trait Ranks<A = u32> {
    /// The rank of the entry of an address, if there is one.
    fn rank(&self, address: A) -> Option<u64>;
}

/// Where the packets are that a table decides about.
pub(crate) trait Waiters<A = u32> {
    /// Drops the packets that wait for an address.
    fn give_up(&mut self, address: A, reason: DropReason);

    /// Drops the first packet for the oldest entry that there are some for, and says for which address it was.
    fn give_up_oldest(&mut self, ranks: &dyn Ranks<A>, reason: DropReason) -> Option<A>;
}

/// For those who hold none.
pub(crate) struct Nobody;

impl<A> Waiters<A> for Nobody {
    fn give_up(&mut self, _: A, _: DropReason) {}

    fn give_up_oldest(&mut self, _: &dyn Ranks<A>, _: DropReason) -> Option<A> {
        None
    }
}

/// Longer ago than any pause that a first query would have to wait for.
const LONG_AGO: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<A = u32> {
    pub(crate) address: A,
    pub(crate) mac: MacAddr,
    is_known: bool,
    /// True if the address came as the answer to a query or from the user.
    is_asked: bool,
    /// Whether to ask again as soon as it is used.
    is_doubtful: bool,
    /// Packets that wait for it, whoever holds them.
    waiting: usize,
    ticket: Ticket,
    /// Queries since the last answer.
    queries: u8,
    /// When it was made or last answered.
    live: i64,
    queried: i64,
    older: Option<u32>,
    newer: Option<u32>,
}

impl<A> Entry<A> {
    fn is_expired(&self, now: i64, timeout: i64) -> bool {
        timeout > 0 && self.live + timeout < now
    }

    /// Whether a query may be sent now; it is then taken to be sent.
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

/// So many notes out of date are not worth the work of clearing up.
pub(crate) const UNTIDY: usize = 64;

/// Changes that a table remembers.
const LOG: usize = 64;

/// Tables so far: each counts its entries from a number of its own, so that packets are not taken to wait for another
/// table's.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// What becomes of a packet for an unknown address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// It may wait, and is counted.
    pub(crate) waits: bool,
    /// A query is to be sent.
    pub(crate) query: bool,
}

pub(crate) struct Table<A = u32> {
    limits: Limits,
    places: HashMap<A, u32, ByNumber>,
    entries: Vec<Entry<A>>,
    /// Places in `entries` that are not in use.
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
    /// With [`Limits::keeps_known`], entries that were made without an answer, by address and number, oldest first. Some may
    /// have got one since, or be gone.
    unanswered: VecDeque<(A, u64)>,
    /// Packets that wait for addresses.
    waiting: usize,
    drops: u64,
    /// The number of the next entry or rank.
    next: u64,
    /// Goes up with each change that packets of others may have waited for.
    changes: u64,
    /// The last of them in turn: addresses, and why packets that waited for one are to be dropped if its entry is gone.
    log: [(A, DropReason); LOG],
    /// When old entries are looked for next.
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

    /// Gives the table the seed of the run.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        reseed(&mut self.places, seed);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Packets given up or refused.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// See the field.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// What has changed since then: addresses, and why packets for one are to be dropped if its entry is gone. `None`
    /// if that was too much to be remembered.
    pub(crate) fn changed_since(&self, seen: u64) -> Option<impl Iterator<Item = (A, DropReason)> + use<A>> {
        let log = self.log;
        let is_remembered = self.changes.checked_sub(seen).is_some_and(|n| n <= LOG as u64);
        is_remembered.then(|| (seen..self.changes).map(move |n| log[n as usize % LOG]))
    }

    /// Why the packets for the last address that changed are to be dropped if its entry is gone.
    pub(crate) fn last_reason(&self) -> DropReason {
        self.changes.checked_sub(1).map_or(DropReason::Reset, |n| self.log[n as usize % LOG].1)
    }

    fn note(&mut self, address: A, reason: DropReason) {
        self.log[self.changes as usize % LOG] = (address, reason);
        self.changes += 1;
    }

    /// Packets for an address are on their way, or were dropped by whoever held them.
    pub(crate) fn released(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting = entry.waiting.saturating_sub(packets);
            self.waiting = self.waiting.saturating_sub(packets);
        }
    }

    /// The same, and they are given up.
    pub(crate) fn gave_up(&mut self, address: A, packets: usize) {
        self.released(address, packets);
        self.drops += packets as u64;
    }

    /// Packets that do not count as waiting have been dropped.
    pub(crate) fn dropped(&mut self, packets: usize) {
        self.drops += packets as u64;
    }

    /// Packets for an address wait that did not count so far.
    pub(crate) fn took_over(&mut self, address: A, packets: usize) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.waiting += packets;
            self.waiting += packets;
        }
    }

    /// What packets for an address wait for, if there is an entry.
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

    /// The Ethernet address, if it is known.
    pub(crate) fn known(&self, address: A, now: i64) -> Option<MacAddr> {
        let entry = self.entries.get(*self.places.get(&address)? as usize)?;
        (entry.is_known && !entry.is_expired(now, self.limits.timeout)).then_some(entry.mac)
    }

    /// Whether there is an entry.
    pub(crate) fn contains(&self, address: A) -> bool {
        self.places.contains_key(&address)
    }

    /// The Ethernet address, if it is known, and whether it is time to ask whether it still holds: `poll` after the
    /// last answer, never if that is zero.
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

    /// Lets an address that is known be asked for as soon as it is used.
    pub(crate) fn doubt(&mut self, address: A) {
        if let Some(&place) = self.places.get(&address)
            && let Some(entry) = self.entry(place)
        {
            entry.is_doubtful = true;
        }
    }

    /// Queries for an address since the last answer.
    pub(crate) fn queries(&self, address: A) -> u8 {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.map_or(0, |entry| entry.queries)
    }

    /// True if the next query for a known address is to be broadcast: none was sent so far, or the known neighbour does not answer.
    pub(crate) fn asks_everybody(&self, address: A) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_none_or(|entry| !entry.is_asked || entry.queries > QUESTIONS)
    }

    /// Notes what a reply says, and says whether the reply counts. It does not where another one has answered a question and
    /// still answers, unless `all` replies count; that one is then to be asked again.
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
            // What nobody has asked for takes no place from others.
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

    /// Asks whether a query about an address may be sent now; it is then taken to be sent.
    pub(crate) fn ask(&mut self, address: A, now: i64) -> bool {
        let pace = self.limits.pace;
        let place = self.places.get(&address).copied();
        place.and_then(|place| self.entry(place)).is_some_and(|entry| entry.query(now, pace))
    }

    /// Forgets an address, and gives up what waits for it.
    pub(crate) fn forget(&mut self, address: A, reason: DropReason, waiters: &mut dyn Waiters<A>) {
        if let Some(&place) = self.places.get(&address) {
            self.remove(place, reason, waiters);
        }
    }

    /// Entries, oldest first.
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

    /// Puts an entry in front of a newer one, or at the end.
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
        // Whoever holds them: they wait no longer.
        self.gave_up(address, waiting);
        self.unlink(place);
        self.places.remove(&address);
        self.free.push(place);
        self.note(address, reason);
        waiters.give_up(address, reason);
    }

    /// Gives up old entries, entries for which there is no room beside `coming` new ones, and packets that are too
    /// many.
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
        // There is to be room for at least the packet that has made them too many.
        let enough = (packets - packets / slim_factor).max(1);
        while self.waiting > enough
            && let Some(address) = waiters.give_up_oldest(self, DropReason::QueueFull)
        {
            self.gave_up(address, 1);
        }
    }

    /// Whether an entry is still the one with that number, and without an answer.
    fn is_unanswered(&self, address: A, number: u64) -> bool {
        let entry = self.places.get(&address).and_then(|&place| self.entries.get(place as usize));
        entry.is_some_and(|entry| entry.ticket.id == number && !entry.is_known)
    }

    /// The place of the oldest entry without an answer, which is to be removed.
    fn first_without_answer(&mut self) -> Option<u32> {
        while let Some((address, number)) = self.unanswered.pop_front() {
            if self.is_unanswered(address, number) {
                return self.places.get(&address).copied();
            }
        }
        None
    }

    /// Notes an entry that has no answer.
    fn note_unanswered(&mut self, address: A, number: u64) {
        if !self.limits.keeps_known {
            return;
        }
        if self.unanswered.len() >= 2 * self.len() + UNTIDY {
            let mut all = std::mem::take(&mut self.unanswered);
            all.retain(|&(address, number)| self.is_unanswered(address, number));
            self.unanswered = all;
        }
        // Without memory, the entry gives way later than others.
        if self.unanswered.try_reserve(1).is_ok() {
            self.unanswered.push_back((address, number));
        }
    }

    /// Does what a timer would have done by now.
    pub(crate) fn catch_up(&mut self, now: i64, waiters: &mut dyn Waiters<A>) {
        if self.limits.timeout == 0 {
            return;
        }
        // Whole seconds, as in Click: first after the timeout, then a second later each time.
        let timeout = self.limits.timeout / 1000 * 1000;
        let period = timeout + 1000;
        let next = *self.next_look.get_or_insert(now + timeout);
        if now >= next {
            let last = next + (now - next) / period * period;
            self.next_look = Some(last + period);
            self.slim(last, 0, waiters);
        }
    }

    /// True if there is memory for another entry. Each entry can be removed without asking for memory then.
    fn has_memory_for_another(&mut self) -> bool {
        let has_place = !self.free.is_empty() || self.entries.try_reserve(1).is_ok();
        let removed = self.entries.len() + 1 - self.free.len();
        has_place && self.free.try_reserve(removed).is_ok() && self.places.try_reserve(1).is_ok()
    }

    /// The entry of an address, made if there is none; `None` where there is no memory for it.
    fn ensure(&mut self, address: A, now: i64, waiters: &mut dyn Waiters<A>) -> Option<u32> {
        if let Some(&place) = self.places.get(&address) {
            return Some(place);
        }
        if self.limits.entries > 0 && self.len() >= self.limits.entries {
            self.slim(now, 1, waiters);
        }
        if !self.has_memory_for_another() {
            // What there is memory for is as much as there can be.
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

    /// Asks whether a packet may wait for an address, of whose packets `queued` are waiting in the same element.
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
        // The bound of one entry only keeps further packets out, so that lost queries are still repeated.
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
            // Bounds have just become lower, and it was given up with its entry.
            return Admission { waits: false, query: false };
        }
        // Others may hold all of them.
        let waits = packets == 0 || self.waiting <= packets;
        if !waits {
            self.gave_up(address, 1);
        }
        Admission { waits, query: self.entry(place).is_some_and(|entry| entry.query(now, pace)) }
    }

    /// Keeps an entry that is still asked for this side of expiring. Others that have expired go, so that it is the
    /// oldest one.
    fn refresh(&mut self, place: u32, now: i64, waiters: &mut dyn Waiters<A>) {
        let timeout = self.limits.timeout;
        let Some(entry) = self.entry(place).filter(|entry| entry.is_expired(now, timeout)) else { return };
        entry.live = now - timeout;
        // The address that was known once is not known any more.
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

    /// Notes an address; false where there is no memory for it. The broadcast address stands for none.
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

    /// Forgets everything.
    pub(crate) fn clear(&mut self, waiters: &mut dyn Waiters<A>) {
        while let Some(place) = self.oldest {
            self.remove(place, DropReason::Reset, waiters);
        }
    }

    /// All entries, for an element that goes on in this one's place. Packets that wait do not count there until their
    /// holder says so.
    pub(crate) fn take(&mut self) -> Table<A> {
        let empty = Table { changes: self.changes + LOG as u64 + 1, ..Table::new(self.limits) };
        let mut taken = std::mem::replace(self, empty);
        taken.waiting = 0;
        taken.entries.iter_mut().for_each(|entry| entry.waiting = 0);
        taken
    }

    /// Goes on with the entries of another table.
    pub(crate) fn go_on_with(&mut self, other: Table<A>) {
        // More than is remembered, so that everybody looks at everything.
        let changes = self.changes.max(other.changes) + LOG as u64 + 1;
        *self = Table { limits: self.limits, next_look: self.next_look, changes, ..other };
    }

    /// What the handler `table` shows: address, whether it is known, Ethernet address, age.
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
    /// Calls to the elements whose packets may wait, when something has changed for them.
    calls: Mutex<Vec<Arc<Call>>>,
}

/// The handler that is called then.
pub(crate) const RELEASE: &str = "release";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Shared {
        Shared { table: Mutex::new(Table::new(limits)), calls: Mutex::default() }
    }

    /// The table; taken once per batch.
    pub(crate) fn open(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// An element that uses the table.
    pub(crate) fn join(&self, element: ElementId) {
        let mut calls = lock(&self.calls);
        if calls.iter().all(|call| call.element != Some(element)) {
            let call = Call::new(Some(element), RELEASE, "");
            calls.push(Arc::new(call));
        }
    }

    /// Lets the others look whether their packets may go.
    pub(crate) fn tell_others(&self, cx: &mut Cx<'_>) {
        let own = Some(cx.id());
        for call in lock(&self.calls).iter().filter(|call| call.element != own) {
            cx.call_later(call);
        }
    }
}

#[cfg(test)]
mod tests;
