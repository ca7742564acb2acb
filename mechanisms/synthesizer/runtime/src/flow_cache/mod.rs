//! The flow cache of a program.
//!
//! A single look-up finds a packet's flow. The entry has the residual program for packets of this flow: the
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
mod leasing;
mod residual;
mod row;

use std::collections::HashMap;
use std::sync::Arc;

use element::lease::{Leases, Lessor};
use element::{Packet, Timestamp};
use flow::{EndsKey, FlowId, FlowTable, KeyHasher, MappedKey};
use foldhash::fast::RandomState;
use jit::ROW;
use packet::BATCH_CAPACITY;
use zerocopy::IntoBytes;

use crate::interpreter::{Interpreter, Scratch};
use doorkeeper::Doorkeeper;
use key::{addresses_of, has_ports, is_between, is_constant, key_of, network_of};
use program::question::{Leased, Question};
use program::{Class, Exit, Next, Passed, Program, cost};
use residual::Residuals;
pub use row::Used;

/// The maximum number of flows. The system provides memory for a flow when it is first used, so the table
/// never has to grow.
const CAPACITY: usize = 1 << 20;

/// The number of sampled packets after which a flow is inserted. Since one batch in 32 is a sample, this is
/// after about 128 packets.
const LASTING: u16 = 4;

/// The number of packets after which a flow is cached if flows are taken regardless of cost.
const COMES_AGAIN: u16 = 2;

/// The maximum number of attempts to lease a flow per batch; other flows wait for a later batch. If elements
/// refuse, the number of attempts is reduced.
const MOST_TRIES: usize = 32;
/// The number of sampled batches between two attempts, if the elements have refused all recent attempts.
const BATCHES_PER_TRY: usize = 16;

/// The maximum number of flows that are cached without a lease.
const MOST_REMEMBERED: usize = 1 << 18;
/// The idle time after which a flow that is not leased expires, in nanoseconds.
const IDLE: Timestamp = Timestamp(5_000_000_000);

/// The maximum number of different residual programs. If more are needed, all flows are removed and
/// inserted again.
const MOST_RESIDUALS: usize = u16::MAX as usize;

/// The residual program for packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Residual {
    /// The first question or class.
    start: Next,
    /// The first list that was evaluated on insertion. Its matching rule is stored with the flow, so that
    /// most flows share one residual program, which remains in the fastest cache.
    first: Option<u32>,
    /// The other lists that were evaluated on insertion, each with its matching rule.
    others: Vec<(u32, u32)>,
    /// True if stateful elements may know the flow by its key.
    has_ports: bool,
    /// The exit of the packet for which the flow was leased; `None` for a flow that is not leased. Packets
    /// of the flow with another exit must not overtake packets with this exit, nor be overtaken by them.
    end: Option<End>,
}

/// The properties of a class that matter for the order of a flow and for the elements that lease it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    /// The exit: the index of the first class with the same exit.
    exit: u32,
    /// The number of leasing elements that packets pass.
    steps: u32,
}

impl End {
    /// The end of packets that are left to the elements.
    const ELEMENTS: End = End { exit: u32::MAX, steps: u32::MAX };
}

/// The row of a packet without a flow.
pub const NO_ROW: &[u8; ROW] = &[0; ROW];

/// The time of a flow that does not expire.
const NEVER_IDLE: Timestamp = Timestamp(i64::MAX);

/// Returns the bytes that are stored with a flow.
#[inline]
fn row_of(table: &FlowTable<MappedKey>, found: Option<FlowId>) -> Option<&[u8; ROW]> {
    table.key(found?)?.value().as_bytes().first_chunk()
}

/// The head of a flow's row: the number of the residual program (16 bits), and the matching rule of the
/// program's first list (16 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHead(u32);

impl RowHead {
    /// The row head of an unknown flow.
    const UNKNOWN: RowHead = RowHead(u32::MAX);

    /// Packs the number of a residual program, which is below [`MOST_RESIDUALS`], and a rule.
    fn new(rest: usize, rule: u16) -> RowHead {
        RowHead(rest as u32 | u32::from(rule) << 16)
    }

    #[inline]
    fn of(row: Option<&[u8; ROW]>) -> RowHead {
        row.and_then(|row| row.first_chunk())
            .map_or(RowHead::UNKNOWN, |first| RowHead(u32::from_ne_bytes(*first)))
    }

    /// Returns the number of the residual program. For an unknown flow, no program has this number.
    #[inline]
    pub fn rest(self) -> usize {
        self.0 as usize & MOST_RESIDUALS
    }

    #[inline]
    fn rule(self) -> u32 {
        self.0 >> 16
    }
}

/// The end of a class and its waiting flag as one number. The lowest bit is set if packets of the class
/// wait for their flow to be leased. The other bits are the index of the end.
type Fate = u32;

/// The usual fates for packets with one residual program: those packets need nothing but a record that
/// their flow was seen. A fate is usual if its masked bits are equal to `bits`.
#[derive(Clone, Copy, Debug)]
struct UsualResult {
    mask: Fate,
    bits: Fate,
}

impl UsualResult {
    /// Returns the usual fates. If all elements know the flow by its key, a cached flow has all fates
    /// except waiting, and a leased flow has the end of its lease. If elements know the flow by another
    /// key, no fate is usual.
    fn of(rest: &Residual, ends: &[End]) -> UsualResult {
        let fate = rest.end.and_then(|leased| fate_of(&leased, ends, false));
        match (rest.has_ports, rest.end, fate) {
            (true, None, _) => UsualResult { mask: 1, bits: 0 },
            (true, Some(_), Some(fate)) => UsualResult { mask: !1, bits: fate },
            _ => UsualResult { mask: 0, bits: 1 },
        }
    }

    #[inline]
    fn is(self, fate: Fate) -> bool {
        fate & self.mask == self.bits
    }
}

/// Returns the fate for an end. An end is numbered by the first class that has it.
fn fate_of(end: &End, ends: &[End], waits: bool) -> Option<Fate> {
    let number = ends.iter().position(|other| other == end)?;
    Some((number as Fate) << 1 | Fate::from(waits))
}

/// The knowledge about a flow.
#[derive(Clone, Copy, Debug)]
pub struct KnownFlow<'f> {
    rest: &'f Residual,
    /// The matching rule of the first list.
    rule: u32,
}

impl KnownFlow<'_> {
    /// Returns the first question or class of the residual program.
    #[inline]
    pub fn start(&self) -> Next {
        self.rest.start
    }

    /// Returns the rule of a list that matches all packets of the flow.
    #[inline]
    pub fn rule_of(&self, list: u32) -> Option<u32> {
        if self.rest.first == Some(list) {
            return Some(self.rule);
        }
        self.rest.others.iter().find(|(other, _)| *other == list).map(|(_, rule)| *rule)
    }
}

/// The flow cache.
pub struct FlowCache {
    program: Arc<Program>,
    /// By step: the element that leases flows. The vector is empty if elements are missing in the graph;
    /// then no flow is leased.
    lessors: Vec<Arc<dyn Lessor>>,
    /// By class: the end.
    ends: Vec<End>,
    /// By class: true if packets reach the class because their flow is not leased at a first step.
    waiting: Vec<bool>,
    /// By class: end and waiting flag in one number.
    fates: Vec<Fate>,
    /// By list: true if all packets of a flow match the same rule.
    constant_lists: Vec<bool>,
    /// The filter that distinguishes recurring flows from single packets.
    doorkeeper: Doorkeeper,
    /// The offset of the IPv4 header.
    network: usize,
    used: Used,
    hasher: KeyHasher,
    table: FlowTable<MappedKey>,
    leases: Arc<Leases>,
    /// By index in the table: the lease of the flow.
    held: Vec<Option<LeasedFlow>>,
    /// The number of flows in the table that are leased.
    leased: usize,
    /// The residual programs.
    rests: Vec<Residual>,
    /// The number of each residual program.
    numbers: HashMap<Residual, usize, RandomState>,
    /// By residual program: the usual fates.
    usual: Vec<UsualResult>,
    makes: Residuals,
    /// The time at which the elements next have work to do on leased flows.
    next_catch_up: Timestamp,
    /// The number of flows that the next batch tries to lease.
    tries: usize,
    /// The number of sampled batches since the last try.
    idle: usize,
    /// By packet of the batch: the key.
    keys: Vec<EndsKey>,
    /// By packet of the batch: the hash of the key.
    hashes: Vec<u32>,
    /// By packet of the batch: the flow that was found.
    found: Vec<Option<FlowId>>,
    /// By packet of the batch: the row head of the flow.
    row_heads: Vec<RowHead>,
    /// The flows of the batch of which a packet has to go to an element.
    slow: Vec<FlowId>,
    /// The addresses of packets of the batch whose flow elements may know by another key: fragments, packets
    /// with options, and packets of other protocols than TCP and UDP.
    odd: Vec<[u8; 8]>,
    /// The table indices of leased flows of which a packet has another end than the packet for which the
    /// flow was leased. These leases end before the next batch.
    misfits: Vec<u32>,
    /// True if there is no room for another residual program.
    is_spent: bool,
    /// The numbers of packets after which a flow is leased, and after which it is cached.
    lasting: [u16; 2],
}

/// A leased flow.
struct LeasedFlow {
    id: FlowId,
    /// The steps, each with the handle of the flow in its element.
    steps: Vec<(u16, u64)>,
}

impl FlowCache {
    /// Makes the flow cache of a program. `lessors` has the element of each step; if it is empty, no flow
    /// is leased. Returns `None` if the cache could save nothing, if the packets' IPv4 headers are not at a
    /// common offset, or if memory is exhausted.
    pub fn new(program: &Arc<Program>, lessors: Vec<Arc<dyn Lessor>>, seed: u64) -> Option<FlowCache> {
        let network = network_of(program)?;
        let used = Used::new(program);
        // Packets that reach a later step belong to a leased flow.
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
        Some(FlowCache {
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
            makes: Residuals::default(),
            next_catch_up: Timestamp(i64::MIN),
            tries: MOST_TRIES,
            idle: 0,
            keys: Vec::with_capacity(BATCH_CAPACITY),
            hashes: Vec::with_capacity(BATCH_CAPACITY),
            found: Vec::with_capacity(BATCH_CAPACITY),
            row_heads: Vec::with_capacity(BATCH_CAPACITY),
            slow: Vec::with_capacity(BATCH_CAPACITY),
            odd: Vec::with_capacity(BATCH_CAPACITY),
            misfits: Vec::with_capacity(BATCH_CAPACITY),
            is_spent: false,
            lasting: if program.always { [0, COMES_AGAIN] } else { [LASTING; 2] },
        })
    }

    /// Returns the number of leased flows.
    pub fn leased(&self) -> usize {
        self.leased
    }

    /// Returns the number of flows that are cached without a lease.
    pub fn remembered(&self) -> usize {
        self.table.stats().entries - self.leased
    }

    /// Finds the flows of the packets of a batch.
    pub fn find(&mut self, runner: &mut Interpreter, packets: &[Packet], now: Timestamp) {
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
        let FlowCache { keys, hashes, found, row_heads, table, hasher, network, .. } = self;
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
        row_heads.clear();
        row_heads.extend(found.iter().map(|found| RowHead::of(row_of(table, *found))));
    }

    /// Returns the row heads of the flows, by packet of the batch.
    #[inline]
    pub fn row_heads(&self) -> &[RowHead] {
        &self.row_heads
    }

    /// Returns the knowledge about the flow of a packet of the batch.
    #[inline]
    pub fn known(&self, place: usize) -> Option<KnownFlow<'_>> {
        let row_head = self.row_heads.get(place)?;
        Some(KnownFlow { rest: self.rests.get(row_head.rest())?, rule: row_head.rule() })
    }

    /// Returns the start of a residual program, if there is a program with this number. Most flows share
    /// few programs.
    #[inline]
    pub fn start(&self, rest: usize) -> Option<Next> {
        self.rests.get(rest).map(|rest| rest.start)
    }

    /// Returns the row of the flow of a packet of the batch: its row head, then its values.
    #[inline]
    pub fn row(&self, place: usize) -> &[u8; ROW] {
        row_of(&self.table, self.found.get(place).copied().flatten()).unwrap_or(NO_ROW)
    }

    /// Returns the number of instructions that the program saves for a packet up to the first element that
    /// leases flows; `None` if it saves none.
    pub fn saved_without(&self) -> Option<i64> {
        if !self.program.lists.is_empty() {
            return None;
        }
        let classes = self.program.classes.iter().zip(&self.waiting).filter(|(_, waits)| **waits);
        let longest = classes.map(|(class, _)| class).max_by_key(|class| class.path.len())?;
        Some(cost::saved(&self.program, longest)).filter(|saved| *saved > 0)
    }

    /// Records that the flows of the batch were seen, and keeps the packets of each flow in order. In a
    /// sample, also inserts flows that last. Returns the number of list look-ups that were saved.
    pub fn settle(
        &mut self,
        runner: &mut Interpreter,
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
                (Some(id), Some(KnownFlow { rest: Residual { end: Some(leased), .. }, .. })) => {
                    let exit = self.program.classes.get(class).map(|class| class.exit);
                    if end.steps == 0 && matches!(exit, Some(Exit::Drop(_))) {
                        continue;
                    }
                    // A packet has to pass all elements that have leased its flow, or go to the elements
                    // themselves.
                    let fits = *leased == end;
                    if fits && !is_odd() && !self.slow.contains(&id) {
                        self.leases.see(id.index(), now);
                        continue;
                    }
                    self.slow.push(id);
                    (self.found[place], self.row_heads[place]) = (None, RowHead::UNKNOWN);
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = runner.class_of(packet, None, &mut hold);
                    if !fits && self.waiting.get(classes[place] as usize) == Some(&true) {
                        self.misfits.push(id.index());
                    }
                }
                (remembered, _) => {
                    // The flow may have been leased for an earlier packet of the batch: its time must not
                    // be lowered.
                    if let Some(id) = remembered {
                        self.table.touch_later(id, now);
                    }
                    // After a packet that has to go to an element, all later packets of the flow in the
                    // batch have to go there.
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
                    self.row_heads[place] = RowHead::of(row_of(&self.table, Some(id)));
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
            // Packets that wait for a lease were counted above.
            let is_counted = is_sample
                && self.constant_lists[list as usize]
                && self.keys[place] != EndsKey::NONE
                && self.waiting.get(classes[place] as usize) != Some(&true);
            if is_counted && self.doorkeeper.count(self.hashes[place]) >= coming_again {
                known = Some(place);
            }
        }
        // At most one flow per batch is cached: that costs as much as about a hundred packets, and a sender
        // must not be able to cause the cost with every second packet.
        if let Some(place) = known {
            self.remember(runner, &packets[place], place, now);
        }
        spared
    }

    /// Records flows as seen, from one packet of the batch on, up to the first packet that may need more
    /// work. Returns the index of that packet.
    fn see_usual(&mut self, from: usize, classes: &[u32], now: Timestamp) -> usize {
        let FlowCache { found, row_heads, usual, fates, leases, table, .. } = self;
        let packets = found.iter().zip(&*row_heads).zip(classes).skip(from);
        let mut place = from;
        for ((found, row_head), class) in packets {
            let here = (*found, usual.get(row_head.rest()), fates.get(*class as usize));
            let (Some(id), Some(usual), Some(fate)) = here else { break };
            if !usual.is(*fate) {
                break;
            }
            // Leased and cached flows take the same code path: a branch would be unpredictable.
            leases.see(id.index(), now);
            table.touch_later(id, now);
            place += 1;
        }
        place
    }

    /// Returns all leased flows to their elements.
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

    /// Removes flows and residual programs. This is only possible between batches.
    #[cold]
    fn clear_up(&mut self, runner: &mut Interpreter) {
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
