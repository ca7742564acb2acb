//! The flow cache of a program.
//!
//! A single look-up finds a packet's flow. The entry has the residual program for packets of this flow: the
//! questions about addresses, ports and protocol, and rule sets over them, were answered when the flow was
//! inserted.
//!
//! A flow may also be leased from the stateful elements that packets bypass ([`element::lease`]). Then the
//! effect of each element on the flow is known, too. So the mappings of any number of nested translators are
//! a single mapping (Property 2 of the SNF paper). The rules upstream of them are evaluated once per flow.
//! Flows that no element leases, such as denied flows, are cached without leases; they expire after five
//! seconds without packets.
//!
//! For each batch that uses the flow cache, the element `Synthesized` calls [`FlowCache::find`], then the
//! interpreter classifies the packets. Then the element calls [`FlowCache::settle`], which keeps the packets
//! of each flow in order and inserts flows.
//!
//! Invariants:
//! - A flow is leased from all stateful elements that its packets pass, or from none.
//! - A flow that is cached without a lease only saves questions: its packets have the same destinations and
//!   order as without the cache.
//! - Stateful elements see the packets of a flow in order: after a packet that has to go to an element
//!   itself, all later packets of its flow in the same batch do so too, except packets that the program drops
//!   upstream of these elements.
//! - A leased flow stays in the table until the lease ends, however long it has been idle. If there is no
//!   room for another flow, the packets of that flow are processed as without the cache.
//! - Unless the program processes all packets regardless of cost (`USE always`), only a flow with several
//!   packets in samples is inserted.
//! - No lock is taken, and no memory allocated, for a packet of a flow that is leased already.

mod doorkeeper;
mod key;
mod known;
mod leasing;
mod residual;
mod row;

use std::collections::HashMap;
use std::sync::Arc;

use element::lease::{Leases, Lessor};
use element::{Packet, Timestamp};
use flow::{FlowId, FlowTable, Ipv4FlowKey, KeyHasher, MappedKey};
use foldhash::fast::RandomState;
use jit::ROW;
use packet::BATCH_CAPACITY;
use zerocopy::IntoBytes;

use crate::graph::CompiledGraph;
use doorkeeper::Doorkeeper;
use key::{addresses_of, has_ports, is_between, is_constant, key_of, network_of};
use known::class_of;
pub use known::{KnownFlow, count};
use program::question::{LeasedProperty, Question};
use program::{Exit, Next, Passed, Program, TrafficClass, cost};
use residual::Residuals;
pub use row::RowLayout;

/// The maximum number of flows in the table. The operating system provides the memory for an entry when it
/// is first used, so the table never has to grow.
const CAPACITY: usize = 1 << 20;

/// The number of a flow's packets in sampled batches after which the flow is inserted into the table. One
/// batch in 32 is sampled, so such a flow has sent about 128 packets.
const LASTING: u16 = 4;

/// The number of packets after which a flow is cached without a lease, if the program processes all packets
/// regardless of cost.
const COMES_AGAIN: u16 = 2;

/// The maximum number of attempts per batch to lease a flow; other flows have to wait for a later batch.
/// While elements refuse leases, fewer attempts are made.
const MOST_TRIES: usize = 32;
/// The number of sampled batches between two attempts to lease a flow, if all recent attempts have failed.
const BATCHES_PER_TRY: usize = 16;

/// The maximum number of flows that are cached without a lease.
const MOST_REMEMBERED: usize = 1 << 18;
/// The time without packets, in nanoseconds, after which a flow without a lease may expire.
const IDLE: Timestamp = Timestamp(5_000_000_000);

/// The maximum number of different residual programs. If a flow needs a further residual program, all flows
/// and residual programs are removed. Flows that still have packets are then inserted again.
const MOST_RESIDUALS: usize = u16::MAX as usize;

/// The residual program for packets of a flow. Flows for which the questions have equal answers share one
/// residual program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Residual {
    /// The node of the interpreter at which packets of the flow start, or their class.
    start: Next,
    /// The list with the lowest index among the lists that were evaluated when the flow was inserted; `None`
    /// if no list was evaluated, or if the index of its matching rule does not fit into 16 bits. That rule is
    /// stored in the flow's row and not here, so that flows with different rules can share one residual
    /// program.
    first: Option<u32>,
    /// The other lists that were evaluated on insertion, each with the rule that matches all packets of the
    /// flow.
    others: Vec<(u32, u32)>,
    /// True if the flow's key contains ports, so that stateful elements identify the flow by the same fields.
    has_ports: bool,
    /// The [`End`] of the class that the flow was leased for; `None` for a flow without a lease. Packets of
    /// the flow with another end must not overtake packets with this end, nor be overtaken by them.
    end: Option<End>,
}

/// The destination of the packets of a class: the properties of the class that matter for the order of a
/// flow's packets, and for the elements that lease the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    /// The output or drop reason of the class, as the index of the first class with the same output or drop
    /// reason.
    exit: u32,
    /// The number of stateful elements that packets of the class bypass on a lease.
    steps: u32,
}

impl End {
    /// The value that stands for the end of packets that go to the elements themselves, and for the end of
    /// classes whose leased values have no room in the row.
    const ELEMENTS: End = End { exit: u32::MAX, steps: u32::MAX };
}

/// The row that is used for a packet whose flow is not in the table: zeros.
pub const NO_ROW: &[u8; ROW] = &[0; ROW];

/// The time of the last packet that is recorded for each leased flow. It lies so far in the future that the
/// flow never expires from the table.
const NEVER_IDLE: Timestamp = Timestamp(i64::MAX);

/// Returns the row of a flow: the bytes that are stored in its table entry; `None` without a flow.
#[inline]
fn row_of(table: &FlowTable<MappedKey>, found: Option<FlowId>) -> Option<&[u8; ROW]> {
    table.key(found?)?.value().as_bytes().first_chunk()
}

/// The first four bytes of a flow's row: the number of the flow's residual program (16 bits), and the index
/// of the rule that matches in the residual program's `first` list (16 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHead(u32);

impl RowHead {
    /// The row head of a packet whose flow is not in the table.
    const UNKNOWN: RowHead = RowHead(u32::MAX);

    /// Packs the number of a residual program, which is below [`MOST_RESIDUALS`], and the index of a rule.
    fn new(residual: usize, rule: u16) -> RowHead {
        RowHead(residual as u32 | u32::from(rule) << 16)
    }

    #[inline]
    fn of(row: Option<&[u8; ROW]>) -> RowHead {
        row.and_then(|row| row.first_chunk())
            .map_or(RowHead::UNKNOWN, |first| RowHead(u32::from_ne_bytes(*first)))
    }

    /// Returns the number of the flow's residual program. For an unknown flow, it is a number that no
    /// program has.
    #[inline]
    pub fn residual(self) -> usize {
        self.0 as usize & MOST_RESIDUALS
    }

    #[inline]
    fn rule(self) -> u32 {
        self.0 >> 16
    }
}

/// The end of a class and its waiting for a lease as one number, for quick comparison. The lowest bit is set
/// if packets of the class wait for a lease of their flow. The other bits are the index of the first equal
/// [`End`] in the list of ends by class.
type Fate = u32;

/// The set of fates (see [`Fate`]) for which a packet needs no other work than a record that its flow was
/// seen. It depends on the residual program of the flow. A fate is in the set if `fate & mask == bits`.
#[derive(Clone, Copy, Debug)]
struct UsualFates {
    mask: Fate,
    bits: Fate,
}

impl UsualFates {
    /// Returns the usual fates for flows with a residual program. Without a lease, these are the fates of all
    /// classes whose packets do not wait for a lease; with a lease, the fate with the end that the flow was
    /// leased for. If the key has no ports, no fate is usual, because elements may identify the flow by other
    /// fields.
    fn of(residual: &Residual, ends: &[End]) -> UsualFates {
        let fate = residual.end.and_then(|leased| fate_of(&leased, ends, false));
        match (residual.has_ports, residual.end, fate) {
            (true, None, _) => UsualFates { mask: 1, bits: 0 },
            (true, Some(_), Some(fate)) => UsualFates { mask: !1, bits: fate },
            _ => UsualFates { mask: 0, bits: 1 },
        }
    }

    #[inline]
    fn is(self, fate: Fate) -> bool {
        fate & self.mask == self.bits
    }
}

/// Returns the fate of a class with the end `end`, as a number: the index of the first equal end in `ends`,
/// and in the lowest bit `waits`, true if packets of the class wait for a lease of their flow. Returns `None`
/// if `ends` does not contain the end.
fn fate_of(end: &End, ends: &[End], waits: bool) -> Option<Fate> {
    let number = ends.iter().position(|other| other == end)?;
    Some((number as Fate) << 1 | Fate::from(waits))
}

/// The flow cache of one program at one worker.
pub struct FlowCache {
    program: Arc<Program>,
    /// By index of the step in the program: the stateful element that leases flows. Empty if any of these
    /// elements is not in the graph or leases no flows; then no flow is leased.
    lessors: Vec<Arc<dyn Lessor>>,
    /// By class: the output or drop reason, and the number of bypassed stateful elements, which matter for
    /// the order of packets.
    ends: Vec<End>,
    /// By class: true if packets of the class wait for a lease. They reached the class because the first
    /// stateful element on their path has not leased their flow.
    waiting: Vec<bool>,
    /// By class: `ends` and `waiting` as one number.
    fates: Vec<Fate>,
    /// By list of rules: true if all packets with one key match the same rule of the list, so that the rule
    /// can be cached.
    constant_lists: Vec<bool>,
    /// Counts of packets of flows that are not in the table. Unless the program processes all packets
    /// regardless of cost (`USE always`), only flows that last are inserted.
    doorkeeper: Doorkeeper,
    /// The offset of the IPv4 header in packets of the program's layout.
    network: usize,
    row_layout: RowLayout,
    hasher: KeyHasher,
    table: FlowTable<MappedKey>,
    leases: Arc<Leases>,
    /// By the flow's index in the table: its lease, if it has one.
    held: Vec<Option<LeasedFlow>>,
    /// The number of flows in the table that are leased.
    leased: usize,
    /// The residual programs; their index is the number in a row head.
    residuals: Vec<Residual>,
    /// The index of each residual program in `residuals`, to find an equal program.
    numbers: HashMap<Residual, usize, RandomState>,
    /// By residual program: the fates (see [`Fate`]) of packets that need no other work than a record that
    /// their flow was seen.
    usual: Vec<UsualFates>,
    makes: Residuals,
    /// The time at which the elements next have work to do on leased flows ([`Lessor::catch_up`]).
    next_catch_up: Timestamp,
    /// The maximum number of flows that the next sampled batch tries to lease. It halves with each attempt
    /// that fails, and doubles with each lease.
    tries: usize,
    /// The number of sampled batches since the last attempt to lease a flow.
    idle: usize,
    /// By packet of the batch: the key; [`Ipv4FlowKey::NONE`] for a packet without a key.
    keys: Vec<Ipv4FlowKey>,
    /// By packet of the batch: the hash of the key.
    hashes: Vec<u32>,
    /// By packet of the batch: the flow that was found, if any.
    found: Vec<Option<FlowId>>,
    /// By packet of the batch: the head of the flow's row.
    row_heads: Vec<RowHead>,
    /// The leased flows of which a packet of the batch goes to the elements that have leased the flow, and
    /// does not bypass these elements. Later packets of these flows in the batch have to go there, too.
    slow: Vec<FlowId>,
    /// The addresses of those packets of the batch whose flow elements may know by another key: fragments,
    /// packets with options, packets of other protocols than TCP and UDP, and packets with another layout
    /// than the program's. Later packets between these addresses have to go to the elements, too.
    odd: Vec<[u8; 8]>,
    /// The table indices of leased flows of which a packet had another [`End`] than the flow was leased for.
    /// Their leases end before the next batch.
    misfits: Vec<u32>,
    /// True if there is no room for another residual program, so that all flows are removed before the next
    /// batch.
    is_spent: bool,
    /// The number of counted packets of a flow after which the flow is leased (first number), or cached
    /// without a lease (second number).
    lasting: [u16; 2],
}

/// A flow on lease: its entry in the table, and its leases at the stateful elements.
struct LeasedFlow {
    id: FlowId,
    /// The steps that packets of the flow pass, each with the handle by which its element knows the lease.
    steps: Vec<(u16, u64)>,
}

impl FlowCache {
    /// Makes the flow cache of a program. `lessors` has the element of each step; if it is empty, no flow
    /// is leased. `seed` is for the hash of keys. Returns `None` if the cache could save nothing, if the
    /// packets' IPv4 headers are not at a common offset, or if memory cannot be allocated.
    pub fn new(program: &Arc<Program>, lessors: Vec<Arc<dyn Lessor>>, seed: u64) -> Option<FlowCache> {
        let network = network_of(program)?;
        let row_layout = RowLayout::new(program);
        // Only packets at the first step of a path may belong to a flow that is not leased. Packets that
        // reach a later step belong to a leased flow, because a flow is leased at all steps or at none.
        let is_first =
            |step: u16| program.steps.get(usize::from(step)).is_some_and(|step| step.after.is_none());
        let leads_to_waiting = program.nodes.iter().filter_map(|node| match node.question {
            Question::Leased { step, what: LeasedProperty::Output } if is_first(step) => Some(node.next(0)),
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
        let end = |class: &TrafficClass| match row_layout.has_room(program, class) {
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
            row_layout,
            program: program.clone(),
            lessors,
            hasher: KeyHasher::new(seed),
            table: FlowTable::new(CAPACITY).ok()?,
            leases: Arc::new(Leases::new(CAPACITY)),
            held: Vec::new(),
            leased: 0,
            residuals: Vec::new(),
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

    /// Returns the number of flows on lease.
    pub fn leased(&self) -> usize {
        self.leased
    }

    /// Returns the number of flows that are cached without a lease.
    pub fn remembered(&self) -> usize {
        self.table.stats().entries - self.leased
    }

    /// Looks up the flows of all packets of a batch. First lets the elements do the work on leased flows that
    /// is due, removes flows whose leases have ended or whose packets had another end, and checks for expired
    /// flows as many table entries as the batch has packets. The results stay valid until the next call.
    pub fn find(&mut self, graph: &mut CompiledGraph, packets: &[Packet], now: Timestamp) {
        if now >= self.next_catch_up {
            self.next_catch_up =
                self.lessors.iter().map(|lessor| lessor.catch_up(now)).min().unwrap_or(Timestamp(i64::MAX));
        }
        if self.leases.has_ended() {
            self.forget_ended();
        }
        if self.is_spent || !self.misfits.is_empty() {
            self.clear_up(graph);
        }
        self.table.expire(now, IDLE, packets.len(), |_, _| {});
        let FlowCache { keys, hashes, found, row_heads, table, hasher, network, .. } = self;
        let key = |packet: &Packet| match graph.is_laid_out(packet) {
            true => key_of(packet, *network).unwrap_or(Ipv4FlowKey::NONE),
            false => Ipv4FlowKey::NONE,
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

    /// Returns the row head of each packet's flow, by packet of the batch.
    #[inline]
    pub fn row_heads(&self) -> &[RowHead] {
        &self.row_heads
    }

    /// Returns the facts about the flow of the packet with index `place` in the batch; `None` for an unknown
    /// flow.
    #[inline]
    pub fn known(&self, place: usize) -> Option<KnownFlow<'_>> {
        let row_head = self.row_heads.get(place)?;
        Some(KnownFlow { residual: self.residuals.get(row_head.residual())?, rule: row_head.rule() })
    }

    /// Returns the node or class at which the residual program with the number `residual` starts; `None` if
    /// no residual program has this number.
    #[inline]
    pub fn start(&self, residual: usize) -> Option<Next> {
        self.residuals.get(residual).map(|residual| residual.start)
    }

    /// Returns the row of the flow of the packet with index `place` in the batch: its row head, then its
    /// leased values. Zeros for an unknown flow.
    #[inline]
    pub fn row(&self, place: usize) -> &[u8; ROW] {
        row_of(&self.table, self.found.get(place).copied().flatten()).unwrap_or(NO_ROW)
    }

    /// Returns the number of instructions that the program saves per packet if it runs without the flow
    /// cache, on the longest path up to an element that leases flows. Returns `None` if it saves none, if no
    /// class waits for a lease, or if the program has rule lists, which would then be evaluated for each
    /// packet.
    pub fn saved_without(&self) -> Option<i64> {
        if !self.program.lists.is_empty() {
            return None;
        }
        let classes = self.program.classes.iter().zip(&self.waiting).filter(|(_, waits)| **waits);
        let longest = classes.map(|(class, _)| class).max_by_key(|class| class.path.len())?;
        Some(cost::saved(&self.program, longest)).filter(|saved| *saved > 0)
    }

    /// Processes the flows of a batch after the interpreter has found the classes of its packets. Records
    /// that the flows were seen. Where the order of a flow requires it, sends packets to the replaced
    /// elements: changes their `classes` so that they leave the program there. In a sampled batch, also
    /// inserts flows that last. `held` has the rules that have matched: the index of the packet in the batch,
    /// the index of the list, and the index of the rule. Returns the number of list look-ups that were saved.
    pub fn settle(
        &mut self,
        graph: &mut CompiledGraph,
        packets: &[Packet],
        classes: &mut [u32],
        held: &mut Vec<(u8, u32, u32)>,
        now: Timestamp,
        is_sample: bool,
    ) -> usize {
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
                (Some(id), Some(KnownFlow { residual: Residual { end: Some(leased), .. }, .. })) => {
                    let exit = self.program.classes.get(class).map(|class| class.exit);
                    if end.steps == 0 && matches!(exit, Some(Exit::Drop(_))) {
                        continue;
                    }
                    // A packet of a leased flow must bypass either all elements that have leased the flow, or
                    // none of them.
                    let fits = *leased == end;
                    if fits && !is_odd() && !self.slow.contains(&id) {
                        self.leases.see(id.index(), now);
                        continue;
                    }
                    self.slow.push(id);
                    (self.found[place], self.row_heads[place]) = (None, RowHead::UNKNOWN);
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = class_of(graph, packet, None, &mut hold);
                    if !fits && self.waiting.get(classes[place] as usize) == Some(&true) {
                        self.misfits.push(id.index());
                    }
                }
                (remembered, _) => {
                    // If the flow was leased for an earlier packet of the batch, the time of the last packet
                    // in its entry lies in the future, so that the entry never expires. `touch_later` does
                    // not set such a time back to `now`.
                    if let Some(id) = remembered {
                        self.table.touch_later(id, now);
                    }
                    // Only the first packet of a flow in the batch can lead to a lease. If an earlier packet
                    // of the flow has gone to an element itself, this packet has to follow it there.
                    let may_be_leased = tries > 0 && waits && !is_odd() && !self.keys[..place].contains(&key);
                    let hash = self.hashes[place];
                    if !may_be_leased || lasting > 0 && self.doorkeeper.count(hash) < lasting {
                        continue;
                    }
                    tries -= 1;
                    self.idle = 0;
                    let Some(id) = self.lease(graph, packet, key, hash, now) else {
                        self.tries /= 2;
                        self.doorkeeper.forget(hash);
                        continue;
                    };
                    self.tries = (2 * self.tries).clamp(1, MOST_TRIES);
                    self.found[place] = Some(id);
                    self.row_heads[place] = RowHead::of(row_of(&self.table, Some(id)));
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = class_of(graph, packet, self.known(place), &mut hold);
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
            // Packets that wait for a lease are not counted here, because the loop above has counted them if
            // they may be leased.
            let is_counted = is_sample
                && self.constant_lists[list as usize]
                && self.keys[place] != Ipv4FlowKey::NONE
                && self.waiting.get(classes[place] as usize) != Some(&true);
            if is_counted && self.doorkeeper.count(self.hashes[place]) >= coming_again {
                known = Some(place);
            }
        }
        // At most one flow per batch is cached without a lease. Caching a flow costs as much as processing
        // about a hundred packets, and a sender must not be able to cause this cost with every second packet.
        if let Some(place) = known {
            self.remember(graph, &packets[place], place, now);
        }
        spared
    }

    /// Records the flows of packets as seen, from packet index `from` on, up to the first packet that may
    /// need more work than that. Returns the index of this packet, or the number of packets if there is no
    /// such packet.
    fn see_usual(&mut self, from: usize, classes: &[u32], now: Timestamp) -> usize {
        let FlowCache { found, row_heads, usual, fates, leases, table, .. } = self;
        let packets = found.iter().zip(&*row_heads).zip(classes).skip(from);
        let mut place = from;
        for ((found, row_head), class) in packets {
            let here = (*found, usual.get(row_head.residual()), fates.get(*class as usize));
            let (Some(id), Some(usual), Some(fate)) = here else { break };
            if !usual.is(*fate) {
                break;
            }
            // Leased and cached flows take the same code path, because a branch would be unpredictable.
            leases.see(id.index(), now);
            table.touch_later(id, now);
            place += 1;
        }
        place
    }

    /// Gives all leased flows back to their elements, and removes them.
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

    /// Ends the leases of the flows in `misfits`. If there is no room for another residual program, also
    /// removes all flows and residual programs. Only allowed between batches, because packets of a batch
    /// refer to flows by their table index.
    #[cold]
    fn clear_up(&mut self, graph: &mut CompiledGraph) {
        while let Some(place) = self.misfits.pop() {
            self.forget(place as usize);
        }
        if std::mem::take(&mut self.is_spent) {
            self.give_all_back();
            self.table.expire(Timestamp(i64::MAX), Timestamp(0), usize::MAX, |_, _| {});
            self.residuals.clear();
            self.usual.clear();
            self.numbers.clear();
            self.makes.clear();
            graph.forget_branches(&self.program);
        }
    }
}
