//! The flow cache of a program.
//!
//! One look-up finds a packet's flow. The entry has the residual program for packets of this flow: the
//! questions about addresses, ports and protocol, and rule sets over them, were answered when the flow was
//! inserted.
//!
//! A flow may also be leased from the stateful elements that packets bypass ([`element::lease`]). Then the
//! effect of each element on the flow is known, too. So the mappings of any number of nested translators
//! are a single mapping (Property 2 of the SNF paper), and the rules upstream of them are evaluated once
//! per flow. Flows that no element leases, such as denied flows, are cached without leases: they expire
//! when they have been idle for a while.
//!
//! Invariants:
//! - A flow is leased from all elements that its packets pass, or from none.
//! - A flow that is only cached saves questions: its packets have the same destinations and order as
//!   without the cache.
//! - Stateful elements see the packets of a flow in order: after a packet that has to go to an element
//!   itself, all later packets of its connection in the same batch do so too.
//! - A leased flow stays in the table until the lease ends, however long it has been idle. If there is no
//!   room for another flow, the packets of that flow are processed as without the cache.
//! - Unless flows are taken regardless of cost, only a flow with packets in several samples is inserted.
//! - No lock is taken, and no memory allocated, for a packet of a flow that is found.

mod doorkeeper;
mod key;
mod rest;
mod row;
mod take;

use std::collections::HashMap;
use std::sync::Arc;

use element::lease::{Leases, Lessor};
use element::{Packet, Timestamp};
use flow::{EndsKey, FlowId, FlowTable, KeyHasher, MappedKey};
use foldhash::fast::RandomState;
use packet::BATCH_CAPACITY;
use zerocopy::IntoBytes;

use super::question::{Leased, Question};
use super::run::{Runner, Scratch};
use super::{Class, Exit, Next, Passed, Program, cost};
use doorkeeper::Doorkeeper;
use key::{addresses_of, has_ports, is_between, is_constant, key_of, network_of};
use rest::Rests;
pub use row::{ROW, Used};

/// Flows that there is room for. Memory is taken from the system when a flow needs it, so that the table never has to grow.
const CAPACITY: usize = 1 << 20;

/// Packets of a flow in samples after which it is taken: some 128 by then.
const LASTING: u16 = 4;

/// Packets after which a flow is remembered, where flows are taken whatever that costs.
const COMES_AGAIN: u16 = 2;

/// Flows that one batch tries to take on lease at most: others wait for a later one. Where elements refuse them, fewer are
/// tried, and in the end one in so many batches.
const MOST_TRIES: usize = 32;
const BATCHES_PER_TRY: usize = 16;

/// Flows that are remembered at most, and for how long after their last packet, in nanoseconds.
const MOST_REMEMBERED: usize = 1 << 18;
const IDLE: Timestamp = Timestamp(5_000_000_000);

/// Different rests of the program; with more, all flows are taken anew.
const MOST_RESTS: usize = u16::MAX as usize;

/// What is left of a program for packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rest {
    /// Where to begin.
    start: Next,
    /// Lists that were asked once, and the rules that held. The rule of the first one stands with the flow: what is left
    /// of the program is then the same for most flows, and in the nearest cache.
    first: Option<u32>,
    others: Vec<(u32, u32)>,
    /// Whether elements with state may know the flow.
    has_ports: bool,
    /// What became of the packet that the flow was taken on lease for: others that go elsewhere must not overtake such packets,
    /// nor be overtaken. A flow that is only remembered has none.
    end: Option<End>,
}

/// What becomes of packets of a class, as far as their flow's order and the elements that lease it are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    /// By which exit they leave, of those that the program has.
    exit: u32,
    /// How many elements they pass that lease flows.
    steps: u32,
}

impl End {
    /// They are left to the elements.
    const ELEMENTS: End = End { exit: u32::MAX, steps: u32::MAX };
}

/// What stands with no flow.
pub const NO_ROW: &[u8; ROW] = &[0; ROW];

/// The last packet of a flow that time does not end.
const NEVER_IDLE: Timestamp = Timestamp(i64::MAX);

/// What stands with a flow.
#[inline]
fn row_of(table: &FlowTable<MappedKey>, found: Option<FlowId>) -> Option<&[u8; ROW]> {
    table.key(found?)?.value().as_bytes().first_chunk()
}

/// What stands in front of a flow's values, in short: which rest of the program is left for its packets, and the rule of the
/// rest's first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gist(u32);

impl Gist {
    /// Nothing is known of a flow.
    const UNKNOWN: Gist = Gist(u32::MAX);

    /// The number of a rest is below [`MOST_RESTS`].
    fn new(rest: usize, rule: u16) -> Gist {
        Gist(rest as u32 | u32::from(rule) << 16)
    }

    #[inline]
    fn of(row: Option<&[u8; ROW]>) -> Gist {
        row.and_then(|row| row.first_chunk()).map_or(Gist::UNKNOWN, |first| Gist(u32::from_ne_bytes(*first)))
    }

    /// The rest, by number; one that there is not if nothing is known.
    #[inline]
    pub fn rest(self) -> usize {
        self.0 as usize & MOST_RESTS
    }

    #[inline]
    fn rule(self) -> u32 {
        self.0 >> 16
    }
}

/// What becomes of packets of a class, as one number: whether they wait for their flow to be taken on lease in the lowest bit,
/// and their end above it.
type Fate = u32;

/// Which fates of packets for which the same is left of the program ask for no more than noting that their flow was seen: those
/// of which these bits are so.
#[derive(Clone, Copy, Debug)]
struct Usual {
    mask: Fate,
    bits: Fate,
}

impl Usual {
    /// Of a flow that all elements see alike: any for which it need not be taken on lease, or those with the end of the flow's
    /// lease. Of one that elements know by something else, none is usual.
    fn of(rest: &Rest, ends: &[End]) -> Usual {
        let fate = rest.end.and_then(|leased| fate_of(&leased, ends, false));
        match (rest.has_ports, rest.end, fate) {
            (true, None, _) => Usual { mask: 1, bits: 0 },
            (true, Some(_), Some(fate)) => Usual { mask: !1, bits: fate },
            _ => Usual { mask: 0, bits: 1 },
        }
    }

    #[inline]
    fn is(self, fate: Fate) -> bool {
        fate & self.mask == self.bits
    }
}

/// An end is numbered by the first class that has it.
fn fate_of(end: &End, ends: &[End], waits: bool) -> Option<Fate> {
    let number = ends.iter().position(|other| other == end)?;
    Some((number as Fate) << 1 | Fate::from(waits))
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Known<'f> {
    rest: &'f Rest,
    /// The rule of the first list.
    rule: u32,
}

impl Known<'_> {
    /// Where to begin.
    #[inline]
    pub fn start(&self) -> Next {
        self.rest.start
    }

    /// The rule of a list that holds for all packets of the flow.
    #[inline]
    pub fn rule_of(&self, list: u32) -> Option<u32> {
        if self.rest.first == Some(list) {
            return Some(self.rule);
        }
        self.rest.others.iter().find(|(other, _)| *other == list).map(|(_, rule)| *rule)
    }
}

/// The flows.
pub struct Flows {
    program: Arc<Program>,
    /// By step; none where elements are not there, so that nothing is on lease.
    lessors: Vec<Arc<dyn Lessor>>,
    /// By class: what becomes of packets, and whether they come to the first step because their flow is not on lease.
    ends: Vec<End>,
    waiting: Vec<bool>,
    /// Both as one.
    fates: Vec<Fate>,
    /// By list: whether a flow's packets all have one answer.
    constant_lists: Vec<bool>,
    /// Tells flows that come again from those that come once.
    doorkeeper: Doorkeeper,
    /// Where the IPv4 header starts.
    network: usize,
    used: Used,
    hasher: KeyHasher,
    table: FlowTable<MappedKey>,
    leases: Arc<Leases>,
    /// By place in the table: what each element knows the flow by.
    held: Vec<Option<Held>>,
    /// How many of the table's flows are on lease.
    leased: usize,
    rests: Vec<Rest>,
    numbers: HashMap<Rest, usize, RandomState>,
    usual: Vec<Usual>,
    makes: Rests,
    next_catch_up: Timestamp,
    /// How many the next batch tries to take, and batches without a try.
    tries: usize,
    idle: usize,
    /// Of the batch: keys, their hashes, flows found, what is known of these, and those of which a packet has to come to an
    /// element.
    keys: Vec<EndsKey>,
    hashes: Vec<u32>,
    found: Vec<Option<FlowId>>,
    gists: Vec<Gist>,
    slow: Vec<FlowId>,
    /// Addresses of packets that have no key: fragments, and those with options.
    odd: Vec<[u8; 8]>,
    /// Places of flows that an unusual packet took on lease.
    misfits: Vec<u32>,
    /// Whether there is no room for another rest.
    is_spent: bool,
    /// Packets of a flow after which it is taken on lease, and after which it is remembered.
    lasting: [u16; 2],
}

/// A flow on lease.
struct Held {
    id: FlowId,
    /// Steps, and handles of their elements.
    steps: Vec<(u16, u64)>,
}

impl Flows {
    /// For a program whose steps are those of these elements, or with none of them, where nothing is on lease. `None` where
    /// finding the flow costs more than can be spared, where packets' flows are not found at one place, and where there is no memory
    /// for them.
    pub fn new(program: &Arc<Program>, lessors: Vec<Arc<dyn Lessor>>, seed: u64) -> Option<Flows> {
        let network = network_of(program)?;
        let used = Used::new(program);
        // Whoever comes to a later step is on lease.
        let is_first =
            |step: u16| program.steps.get(usize::from(step)).is_some_and(|step| step.after.is_none());
        let leads_to_waiting = program.nodes.iter().filter_map(|node| match node.question {
            Question::Leased { step, what: Leased::Output } if is_first(step) => Some(node.next(0)),
            _ => None,
        });
        let mut waiting = vec![false; program.classes.len()];
        for next in leads_to_waiting {
            if let Next::Class(class) = next {
                waiting[class as usize] = !lessors.is_empty();
            }
        }
        let is_step = |passed: &&Passed| cost::is_step(program, passed);
        let exits: Vec<Exit> = program.classes.iter().map(|class| class.exit).collect();
        let end = |class: &Class| match used.has_room(program, class) {
            true => End {
                exit: exits.iter().position(|exit| *exit == class.exit).unwrap_or_default() as u32,
                steps: class.path.iter().filter(is_step).count() as u32,
            },
            false => End::ELEMENTS,
        };
        let constant_lists: Vec<bool> = program.lists.iter().map(|list| is_constant(list, network)).collect();
        if lessors.is_empty() && !constant_lists.contains(&true) {
            return None;
        }
        let ends: Vec<End> = program.classes.iter().map(end).collect();
        let fates = ends.iter().zip(&waiting).map(|(end, waits)| fate_of(end, &ends, *waits));
        let fates = fates.collect::<Option<_>>()?;
        Some(Flows {
            ends,
            waiting,
            fates,
            constant_lists,
            doorkeeper: Doorkeeper::new(),
            network: usize::try_from(network).ok()?,
            used,
            program: program.clone(),
            lessors,
            hasher: KeyHasher::new(seed),
            table: FlowTable::new(CAPACITY).ok()?,
            leases: Arc::new(Leases::new(CAPACITY)),
            held: Vec::new(),
            leased: 0,
            rests: Vec::new(),
            numbers: HashMap::default(),
            usual: Vec::new(),
            makes: Rests::default(),
            next_catch_up: Timestamp(i64::MIN),
            tries: MOST_TRIES,
            idle: 0,
            keys: Vec::with_capacity(BATCH_CAPACITY),
            hashes: Vec::with_capacity(BATCH_CAPACITY),
            found: Vec::with_capacity(BATCH_CAPACITY),
            gists: Vec::with_capacity(BATCH_CAPACITY),
            slow: Vec::with_capacity(BATCH_CAPACITY),
            odd: Vec::with_capacity(BATCH_CAPACITY),
            misfits: Vec::with_capacity(BATCH_CAPACITY),
            is_spent: false,
            lasting: if program.always { [0, COMES_AGAIN] } else { [LASTING; 2] },
        })
    }

    /// How many are on lease.
    pub fn leased(&self) -> usize {
        self.leased
    }

    /// How many are only remembered.
    pub fn remembered(&self) -> usize {
        self.table.stats().entries - self.leased
    }

    /// Finds the flows of a batch.
    pub fn find(&mut self, runner: &mut Runner, packets: &[Packet], now: Timestamp) {
        if now >= self.next_catch_up {
            self.next_catch_up =
                self.lessors.iter().map(|lessor| lessor.catch_up(now)).min().unwrap_or(Timestamp(i64::MAX));
        }
        if self.leases.has_ended() {
            self.forget_ended();
        }
        if self.is_spent || !self.misfits.is_empty() {
            self.clear_up(runner);
        }
        self.table.expire(now, IDLE, packets.len(), |_, _| {});
        let Flows { keys, hashes, found, gists, table, hasher, network, .. } = self;
        let key = |packet: &Packet| match runner.is_laid_out(packet) {
            true => key_of(packet, *network).unwrap_or(EndsKey::NONE),
            false => EndsKey::NONE,
        };
        keys.clear();
        keys.extend(packets.iter().map(key));
        hashes.clear();
        hashes.extend(keys.iter().map(|key| hasher.hash(key)));
        found.clear();
        found.resize(packets.len(), None);
        table.lookup_batch(keys, hashes, found);
        gists.clear();
        gists.extend(found.iter().map(|found| Gist::of(row_of(table, *found))));
    }

    /// By packet of the batch: what is known of its flow.
    #[inline]
    pub fn gists(&self) -> &[Gist] {
        &self.gists
    }

    /// What is known of the flow of a packet of the batch.
    #[inline]
    pub fn known(&self, place: usize) -> Option<Known<'_>> {
        let gist = self.gists.get(place)?;
        Some(Known { rest: self.rests.get(gist.rest())?, rule: gist.rule() })
    }

    /// Where to begin with a rest of the program, if there is one by that number: few different ones are of most flows.
    #[inline]
    pub fn start(&self, rest: usize) -> Option<Next> {
        self.rests.get(rest).map(|rest| rest.start)
    }

    /// What stands with the flow of a packet of the batch: its values, and others before them.
    #[inline]
    pub fn row(&self, place: usize) -> &[u8; ROW] {
        row_of(&self.table, self.found.get(place).copied().flatten()).unwrap_or(NO_ROW)
    }

    /// Instructions that the program saves for a packet as far as to the first element that leases flows, if it saves any there.
    pub fn saved_without(&self) -> Option<i64> {
        if !self.program.lists.is_empty() {
            return None;
        }
        let classes = self.program.classes.iter().zip(&self.waiting).filter(|(_, waits)| **waits);
        let longest = classes.map(|(class, _)| class).max_by_key(|class| class.path.len())?;
        Some(cost::saved(&self.program, longest)).filter(|saved| *saved > 0)
    }

    /// Notes which flows were seen, and keeps the packets of each flow in order. Of a sample, it takes flows that last. How many
    /// look-ups in lists of rules were spared.
    pub fn settle(
        &mut self,
        runner: &mut Runner,
        packets: &[Packet],
        scratch: &mut Scratch,
        now: Timestamp,
        is_sample: bool,
    ) -> usize {
        let Scratch { classes, held, .. } = scratch;
        self.slow.clear();
        self.odd.clear();
        self.idle += usize::from(is_sample);
        let tries = if self.tries == 0 { usize::from(self.idle >= BATCHES_PER_TRY) } else { self.tries };
        let mut tries = if is_sample { tries } else { 0 };
        let [lasting, coming_again] = self.lasting;
        let mut next = 0;
        loop {
            if self.slow.is_empty() && self.odd.is_empty() {
                next = self.see_usual(next, classes, now);
            }
            let (place, packet) = match packets.get(next) {
                Some(packet) if next < classes.len() => (next, packet),
                _ => break,
            };
            next += 1;
            let class = classes[place] as usize;
            let key = self.keys[place];
            if !has_ports(&key) {
                self.odd.extend(addresses_of(packet, self.network));
                if let Some(id) = self.found[place] {
                    self.table.touch_later(id, now);
                }
                continue;
            }
            let end = self.ends.get(class).copied().unwrap_or(End::ELEMENTS);
            let waits = self.waiting.get(class) == Some(&true);
            let is_odd = || !self.odd.is_empty() && self.odd.iter().any(|odd| is_between(odd, &key));
            match (self.found[place], self.known(place)) {
                (Some(id), Some(Known { rest: Rest { end: Some(leased), .. }, .. })) => {
                    let exit = self.program.classes.get(class).map(|class| class.exit);
                    if end.steps == 0 && matches!(exit, Some(Exit::Drop(_))) {
                        continue;
                    }
                    // All elements that have leased the flow see a packet, or it comes to them.
                    let fits = *leased == end;
                    if fits && !is_odd() && !self.slow.contains(&id) {
                        self.leases.see(id.index(), now);
                        continue;
                    }
                    self.slow.push(id);
                    (self.found[place], self.gists[place]) = (None, Gist::UNKNOWN);
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = runner.class_of(packet, None, &mut hold);
                    if !fits && self.waiting.get(classes[place] as usize) == Some(&true) {
                        self.misfits.push(id.index());
                    }
                }
                (remembered, _) => {
                    // A packet before it in the batch may have taken the flow on lease.
                    if let Some(id) = remembered {
                        self.table.touch_later(id, now);
                    }
                    // Behind a packet that has to come to an element, others of the batch do so too.
                    let may_be_leased = tries > 0 && waits && !is_odd() && !self.keys[..place].contains(&key);
                    let hash = self.hashes[place];
                    if !may_be_leased || lasting > 0 && self.doorkeeper.count(hash) < lasting {
                        continue;
                    }
                    tries -= 1;
                    self.idle = 0;
                    let Some(id) = self.lease(runner, packet, key, hash, now) else {
                        self.tries /= 2;
                        self.doorkeeper.forget(hash);
                        continue;
                    };
                    self.tries = (2 * self.tries).clamp(1, MOST_TRIES);
                    self.found[place] = Some(id);
                    self.gists[place] = Gist::of(row_of(&self.table, Some(id)));
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = runner.class_of(packet, self.known(place), &mut hold);
                }
            }
        }
        let (mut spared, mut known) = (0, None);
        for &(place, list, _) in held.iter() {
            let place = usize::from(place);
            if self.found[place].is_some() {
                spared += 1;
                continue;
            }
            // Packets that wait were counted above.
            let is_counted = is_sample
                && self.constant_lists[list as usize]
                && self.keys[place] != EndsKey::NONE
                && self.waiting.get(classes[place] as usize) != Some(&true);
            if is_counted && self.doorkeeper.count(self.hashes[place]) >= coming_again {
                known = Some(place);
            }
        }
        // One in each batch: that takes as long as a hundred packets, which nobody shall be able to ask for with each two.
        if let Some(place) = known {
            self.remember(runner, &packets[place], place, now);
        }
        spared
    }

    /// Notes the flows of packets of a batch from a place on, up to the first packet that more may have to be done for: where that
    /// is.
    fn see_usual(&mut self, from: usize, classes: &[u32], now: Timestamp) -> usize {
        let Flows { found, gists, usual, fates, leases, table, .. } = self;
        let packets = found.iter().zip(&*gists).zip(classes).skip(from);
        let mut place = from;
        for ((found, gist), class) in packets {
            let here = (*found, usual.get(gist.rest()), fates.get(*class as usize));
            let (Some(id), Some(usual), Some(fate)) = here else { break };
            if !usual.is(*fate) {
                break;
            }
            // One way for flows on lease and those that are not: which of them the next packet is of cannot be foreseen.
            leases.see(id.index(), now);
            table.touch_later(id, now);
            place += 1;
        }
        place
    }

    /// Gives all flows back.
    pub fn give_all_back(&mut self) {
        for place in 0..self.held.len() {
            self.forget(place);
        }
    }

    #[cold]
    fn forget_ended(&mut self) {
        for place in self.leases.take_ended() {
            self.forget(place as usize);
        }
    }

    fn forget(&mut self, place: usize) {
        let Some(held) = self.held.get_mut(place).and_then(Option::take) else { return };
        self.give_back(held.steps, place as u32);
        self.table.remove(held.id);
        self.leased -= 1;
    }

    fn give_back(&self, steps: Vec<(u16, u64)>, place: u32) {
        for (step, handle) in steps {
            self.lessors[usize::from(step)].give_back(handle, &self.leases, place);
        }
    }

    /// What has to wait until no packet is on its way.
    #[cold]
    fn clear_up(&mut self, runner: &mut Runner) {
        while let Some(place) = self.misfits.pop() {
            self.forget(place as usize);
        }
        if std::mem::take(&mut self.is_spent) {
            self.give_all_back();
            self.table.expire(Timestamp(i64::MAX), Timestamp(0), usize::MAX, |_, _| {});
            self.rests.clear();
            self.usual.clear();
            self.numbers.clear();
            self.makes.clear();
            runner.forget_branches(&self.program);
        }
    }
}
