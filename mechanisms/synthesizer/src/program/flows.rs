//! Flows that a program has on lease from the elements with state that it takes packets past ([`element::lease`]).
//!
//! One look-up finds a packet's flow. With it stands what is left of the program's questions for packets of this flow: those
//! about addresses, ports and protocol, rule sets over them, and what each element does to the flow have been answered when
//! the flow was taken on lease. So the mappings of any number of nested translators are one (Property 2 of the SNF paper), and
//! the rules in front of them are asked once per flow.
//!
//! Invariants:
//! - A flow is on lease from all elements that its packets pass, or from none.
//! - Packets of one flow leave in the order in which they came: behind one that has to come to an element itself, those of the
//!   same batch do so too.
//! - No lock is taken, and nothing allocated, for a packet of a flow that is on lease.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use classify::filter::{Condition, Header, Test, Tree};
use element::lease::{Leases, Lessor, Terms};
use element::{Packet, Timestamp};
use flow::{EndsKey, FlowId, FlowTable, Inserted, KeyHasher, MappedKey};
use packet::BATCH_CAPACITY;
use wire::{FiveTuple, ip_protocol, ipv4};

use super::question::{Leased, Question, Sum};
use super::run::{OTHERWISE, Runner, Scratch, answer};
use super::{Class, Exit, Next, Passed, Program, Value};
use crate::compose::packet::{IPV4, Place};

/// Bytes of values that there is room for beside a flow's key.
pub const ROW: usize = 20;

/// Flows that there is room for at first, and at most.
const FIRST_CAPACITY: usize = 1 << 12;
const LAST_CAPACITY: usize = 1 << 22;

/// Flows that one batch tries to take on lease at most: others wait for a later one. Where elements refuse them, fewer are
/// tried, and in the end one in so many batches.
const MOST_TRIES: usize = 32;
const BATCHES_PER_TRY: usize = 16;

/// Questions that may be left for a flow, and different such rests; with more, all flows are taken on lease anew.
const MOST_LEFT: usize = 4096;
const MOST_RESTS: usize = 1 << 16;

/// Bytes from the start of the IPv4 header to behind those of the transport header that every packet on lease has.
const PLAIN: usize = IPV4 as usize + 8;

/// What is left of a program for packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rest {
    /// Where to begin.
    pub start: Next,
    /// Lists that were asked once, and the rules that held.
    pub rules: Vec<(u32, u32)>,
    /// Where the packet went that the flow was taken on lease for: others that go elsewhere must not overtake such packets, nor
    /// be overtaken.
    exit: Option<Exit>,
    /// How many elements it passed that have leased the flow.
    steps: usize,
}

/// The flows.
pub struct Flows {
    program: Arc<Program>,
    /// By step.
    lessors: Vec<Arc<dyn Lessor>>,
    /// By class: how many steps packets have passed, and whether they come to the first one because their flow is not on
    /// lease.
    passing: Vec<usize>,
    waiting: Vec<bool>,
    /// By list: whether a flow's packets all have one answer.
    constant_lists: Vec<bool>,
    /// Where the IPv4 header starts.
    network: usize,
    used: Used,
    hasher: KeyHasher,
    table: FlowTable<MappedKey>,
    leases: Arc<Leases>,
    /// By place in the table: what each element knows the flow by.
    held: Vec<Option<Held>>,
    rests: Vec<Rest>,
    numbers: HashMap<Rest, u32>,
    next_catch_up: Timestamp,
    /// How many the next batch tries to take, and batches without a try.
    tries: usize,
    idle: usize,
    /// Of the batch: keys, their hashes, flows found, and those of which a packet has to come to an element.
    keys: Vec<EndsKey>,
    hashes: Vec<u32>,
    found: Vec<Option<FlowId>>,
    slow: Vec<FlowId>,
    /// Addresses of packets that have no key: fragments, and those with options.
    odd: Vec<[u8; 8]>,
    /// Places of flows that an unusual packet took on lease.
    misfits: Vec<u32>,
    /// Whether there is no room for another flow, or for another rest.
    is_full: bool,
    is_spent: bool,
}

/// A flow on lease.
struct Held {
    id: FlowId,
    /// Steps, and handles of their elements.
    steps: Vec<(u16, u64)>,
}

impl Flows {
    /// For a program whose steps are those of these elements. `None` where packets' flows are not found at one place, and
    /// where there is no memory for them.
    pub fn new(program: &Arc<Program>, lessors: Vec<Arc<dyn Lessor>>, seed: u64) -> Option<Flows> {
        let network = network_of(program)?;
        let used = Used::new(program);
        let leads_to_waiting = program.nodes.iter().filter_map(|node| match node.question {
            Question::Leased { what: Leased::Output, .. } => Some(node.next(0)),
            _ => None,
        });
        let mut waiting = vec![false; program.classes.len()];
        for next in leads_to_waiting {
            if let Next::Class(class) = next {
                waiting[class as usize] = true;
            }
        }
        let is_step = |passed: &&Passed| {
            let here = (passed.element, passed.input, passed.case);
            program.steps.iter().any(|step| (step.element, step.input, step.case) == here)
        };
        let passes = |class: &Class| match used.has_room(program, class) {
            true => class.path.iter().filter(is_step).count(),
            // It is left to the elements.
            false => usize::MAX,
        };
        Some(Flows {
            passing: program.classes.iter().map(passes).collect(),
            waiting,
            constant_lists: program.lists.iter().map(|list| is_constant(list, network)).collect(),
            network: usize::try_from(network).ok()?,
            used,
            program: program.clone(),
            lessors,
            hasher: KeyHasher::new(seed),
            table: FlowTable::new(FIRST_CAPACITY).ok()?,
            leases: Arc::new(Leases::new(FIRST_CAPACITY)),
            held: (0..FIRST_CAPACITY).map(|_| None).collect(),
            rests: Vec::new(),
            numbers: HashMap::new(),
            next_catch_up: Timestamp(i64::MIN),
            tries: MOST_TRIES,
            idle: 0,
            keys: Vec::with_capacity(BATCH_CAPACITY),
            hashes: Vec::with_capacity(BATCH_CAPACITY),
            found: Vec::with_capacity(BATCH_CAPACITY),
            slow: Vec::with_capacity(BATCH_CAPACITY),
            odd: Vec::with_capacity(BATCH_CAPACITY),
            misfits: Vec::with_capacity(BATCH_CAPACITY),
            is_full: false,
            is_spent: false,
        })
    }

    /// How many are on lease.
    pub fn len(&self) -> usize {
        self.table.stats().entries
    }

    /// Whether packets leave by an output because their flows are not on lease. Those leave last, so that the others, which
    /// came before them if they are of the same flow, do not fall behind.
    pub fn is_late(&self, output: usize) -> bool {
        let waiting = self.program.classes.iter().zip(&self.waiting).filter(|(_, waits)| **waits);
        output == self.program.otherwise
            || waiting.into_iter().any(|(class, _)| class.exit == Exit::Output(output))
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        if self.is_full || self.is_spent || !self.misfits.is_empty() {
            self.clear_up(runner);
        }
        let Flows { keys, hashes, found, table, hasher, network, .. } = self;
        keys.clear();
        hashes.clear();
        for packet in packets {
            let key = match runner.is_laid_out(packet) {
                true => key_of(packet, *network).unwrap_or(EndsKey::NONE),
                false => EndsKey::NONE,
            };
            keys.push(key);
            hashes.push(hasher.hash(&key));
        }
        found.clear();
        found.resize(packets.len(), None);
        table.lookup_batch(keys, hashes, found);
    }

    /// What is left of the program for a packet of the batch, if its flow is on lease.
    #[inline]
    pub fn rest(&self, place: usize) -> Option<&Rest> {
        let id = (*self.found.get(place)?)?;
        self.rests.get(self.table.key(id)?.value()[0] as usize)
    }

    /// The values that it gets.
    #[inline]
    pub fn values(&self, place: usize) -> [u8; ROW] {
        let found = self.found.get(place).copied().flatten();
        let mut values = [0; ROW];
        if let Some(key) = found.and_then(|id| self.table.key(id)) {
            for (bytes, word) in values.as_chunks_mut().0.iter_mut().zip(&key.value()[1..]) {
                *bytes = word.to_le_bytes();
            }
        }
        values
    }

    /// Notes which flows were seen, takes others on lease, and keeps the packets of each flow in order.
    pub fn settle(&mut self, runner: &mut Runner, packets: &[Packet], scratch: &mut Scratch, now: Timestamp) {
        let Scratch { classes, held, .. } = scratch;
        self.slow.clear();
        self.odd.clear();
        self.idle += 1;
        let mut tries = if self.tries == 0 { usize::from(self.idle >= BATCHES_PER_TRY) } else { self.tries };
        for (place, packet) in packets.iter().enumerate().take(classes.len()) {
            let class = classes[place] as usize;
            let key = self.keys[place];
            if key == EndsKey::NONE {
                self.odd.extend(addresses_of(packet, self.network));
                continue;
            }
            let is_odd = || !self.odd.is_empty() && self.odd.iter().any(|odd| is_between(odd, &key));
            match self.found[place] {
                Some(id) => {
                    let exit = self.program.classes.get(class).map(|class| class.exit);
                    let passes = self.passing.get(class).copied().unwrap_or(usize::MAX);
                    if passes == 0 && matches!(exit, Some(Exit::Drop(_))) {
                        continue;
                    }
                    // All elements that have leased the flow see a packet, or it comes to them.
                    let fits = self.rest(place).is_some_and(|rest| (rest.exit, rest.steps) == (exit, passes));
                    if fits && !(is_odd() || !self.slow.is_empty() && self.slow.contains(&id)) {
                        self.leases.see(id.index(), now);
                        continue;
                    }
                    self.slow.push(id);
                    self.found[place] = None;
                    held.retain(|(other, ..)| usize::from(*other) != place);
                    let mut hold = |list, rule| held.push((place as u8, list, rule));
                    classes[place] = runner.class_of(packet, None, &mut hold);
                    if !fits && self.waiting.get(classes[place] as usize) == Some(&true) {
                        self.misfits.push(id.index());
                    }
                }
                None if tries > 0 && self.waiting.get(class) == Some(&true) => {
                    // Behind a packet that has to come to an element, others of the batch do so too.
                    if is_odd() || self.keys[..place].contains(&key) {
                        continue;
                    }
                    tries -= 1;
                    self.idle = 0;
                    self.found[place] = self.take(runner, packet, key, self.hashes[place], now);
                    self.tries = match self.found[place] {
                        Some(_) => (2 * self.tries).clamp(1, MOST_TRIES),
                        None => self.tries / 2,
                    };
                    if let Some(rest) = self.rest(place) {
                        held.retain(|(other, ..)| usize::from(*other) != place);
                        let mut hold = |list, rule| held.push((place as u8, list, rule));
                        classes[place] = runner.class_of(packet, Some(rest), &mut hold);
                    }
                }
                None => {}
            }
        }
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
        for (step, handle) in held.steps {
            self.lessors[usize::from(step)].give_back(handle, &self.leases, place as u32);
        }
        self.table.remove(held.id);
    }

    /// Takes a packet's flow on lease from all elements that it passes.
    #[cold]
    fn take(
        &mut self,
        runner: &mut Runner,
        packet: &Packet,
        key: EndsKey,
        hash: u32,
        now: Timestamp,
    ) -> Option<FlowId> {
        let id = match self.table.insert(&MappedKey::new(key, [0; 6]), hash, now) {
            Ok(Inserted::New(id)) => id,
            Ok(Inserted::Present(id)) => return Some(id),
            Err(_) => {
                self.is_full = true;
                return None;
            }
        };
        let mut steps = Vec::new();
        let terms = self.terms(runner, packet, id.index(), now, &mut steps);
        // One behind the other, as packets pass them.
        let passed: Vec<u16> = steps.iter().map(|(step, _)| *step).collect();
        self.held[id.index() as usize] = Some(Held { id, steps });
        let taken = terms.and_then(|terms| Some((self.rest_of(runner, packet, &terms)?, terms)));
        let Some((rest, terms)) = taken else {
            self.forget(id.index() as usize);
            return None;
        };
        let mut value = [rest, 0, 0, 0, 0, 0];
        for (number, &(depth, offset)) in self.used.0.iter().enumerate() {
            let terms = passed.get(depth).and_then(|step| terms[usize::from(*step)].as_ref());
            let byte = terms.and_then(|terms| terms.values.get(usize::from(offset)));
            value[1 + number / 4] |= u32::from(byte.copied().unwrap_or(0)) << (8 * (number % 4));
        }
        *self.table.value_mut(id)? = value;
        Some(id)
    }

    /// Asks the elements that a packet passes what they do to its flow; `None` if one of them cannot say, or none is passed.
    fn terms(
        &self,
        runner: &Runner,
        packet: &Packet,
        place: u32,
        now: Timestamp,
        steps: &mut Vec<(u16, u64)>,
    ) -> Option<Vec<Option<Terms>>> {
        let program = &self.program;
        let mut all: Vec<Option<Terms>> = vec![None; program.steps.len()];
        let mut next = program.start;
        while let Next::Node(number) = next {
            let node = program.nodes.get(number as usize)?;
            let answer = match node.question {
                Question::Leased { step, what: Leased::Output } => {
                    let flow = self.flow_at(step, packet, &all)?;
                    let lease = self.leases.begin(place, now);
                    let input = program.steps[usize::from(step)].input;
                    let terms = self.lessors[usize::from(step)].lease(input, &flow, lease)?;
                    steps.push((step, terms.handle));
                    let output = terms.output as u128 + 1;
                    all[usize::from(step)] = Some(terms);
                    output
                }
                Question::Leased { step, what: Leased::Bytes { offset, length } } => {
                    bytes_of(all[usize::from(step)].as_ref()?, offset, length)?
                }
                Question::List(list) => runner.rule_of(list, packet)?.1.into(),
                ref other => answer(other, packet),
            };
            next = node.next(answer);
        }
        (!steps.is_empty()).then_some(all)
    }

    /// The flow that packets are of when they come to a step.
    fn flow_at(&self, step: u16, packet: &Packet, terms: &[Option<Terms>]) -> Option<FiveTuple> {
        let before = &self.program.steps.get(usize::from(step))?.before;
        let network = before.headers[1].unwrap_or(self.program.layout[1])?;
        let transport = before.headers[2].unwrap_or(self.program.layout[2])?;
        let mut bytes = [0; 13];
        let places = (12..20).map(|place| network + place).chain([network + 9]);
        for (byte, place) in bytes.iter_mut().zip(places.chain((0..4).map(|place| transport + place))) {
            *byte = byte_of(before, place, packet, terms)?;
        }
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        Some(FiveTuple::v4((address(0), half(9)), (address(4), half(11)), bytes[8]))
    }

    /// What is left of the program for packets of a packet's flow, as a number; `None` if that is too much.
    fn rest_of(&mut self, runner: &mut Runner, packet: &Packet, terms: &[Option<Terms>]) -> Option<u32> {
        let program = self.program.clone();
        let mut rules = Vec::new();
        // Every node leads to later ones, so what they lead to is known when they are looked at from the last one on.
        let mut fixed: HashMap<u32, Fixed> = HashMap::new();
        let mut work = vec![program.start];
        while let Some(next) = work.pop() {
            let Next::Node(number) = next else { continue };
            if fixed.contains_key(&number) {
                continue;
            }
            if fixed.len() >= MOST_LEFT {
                return None;
            }
            let found = self.fixed(runner, number, packet, terms);
            match &found {
                Fixed::To(next) | Fixed::Rule(_, next) => work.push(*next),
                Fixed::Open => {
                    work.extend(program.nodes[number as usize].parts.iter().map(|(_, next)| *next))
                }
            }
            if let Fixed::Rule(rule, _) = found {
                rules.push(rule);
            }
            fixed.insert(number, found);
        }
        let mut numbers: Vec<u32> = fixed.keys().copied().collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut left: HashMap<u32, Next> = HashMap::new();
        let place = |left: &HashMap<u32, Next>, next: Next| match next {
            Next::Node(number) => left.get(&number).copied().unwrap_or(Next::Class(OTHERWISE)),
            class => class,
        };
        for number in numbers {
            let next = match &fixed[&number] {
                Fixed::To(next) => Some(place(&left, *next)),
                Fixed::Rule((list, _), next) => runner.counted(*list, place(&left, *next)),
                Fixed::Open => {
                    let parts = program.nodes[number as usize].parts.iter();
                    runner.branch(number, parts.map(|(_, next)| place(&left, *next)).collect())
                }
            };
            let Some(next) = next else {
                self.is_spent = true;
                return None;
            };
            left.insert(number, next);
        }
        // Several ways may lead to one list.
        rules.sort_unstable();
        rules.dedup();
        let mut rest = Rest { start: place(&left, program.start), rules, exit: None, steps: 0 };
        let class = runner.class_of(packet, Some(&rest), &mut |_, _| {}) as usize;
        rest.exit = program.classes.get(class).map(|class| class.exit);
        rest.steps = self.passing.get(class).copied().filter(|steps| *steps != usize::MAX)?;
        let next = self.rests.len() as u32;
        if self.rests.len() >= MOST_RESTS {
            self.is_spent = true;
            return None;
        }
        Some(*self.numbers.entry(rest).or_insert_with_key(|rest| {
            self.rests.push(rest.clone());
            next
        }))
    }

    /// Where a question leads for all packets of a flow.
    fn fixed(&self, runner: &Runner, number: u32, packet: &Packet, terms: &[Option<Terms>]) -> Fixed {
        let node = &self.program.nodes[number as usize];
        let network = self.network as i32;
        match node.question {
            Question::Leased { step, what } => {
                let about = terms.get(usize::from(step)).and_then(Option::as_ref);
                let answer = about.and_then(|terms| match what {
                    Leased::Output => Some(terms.output as u128 + 1),
                    Leased::Bytes { offset, length } => bytes_of(terms, offset, length),
                });
                let first = self.program.steps[usize::from(step)].after.is_none();
                match answer {
                    Some(answer) => Fixed::To(node.next(answer)),
                    None if first && what == Leased::Output => Fixed::To(node.next(0)),
                    None => Fixed::To(Next::Class(OTHERWISE)),
                }
            }
            Question::List(list) if self.constant_lists.get(list as usize) == Some(&true) => {
                match runner.rule_of(list, packet) {
                    Some((rule, outcome)) => Fixed::Rule((list, rule), node.next(outcome.into())),
                    None => Fixed::Open,
                }
            }
            Question::Bytes { offset, length } => {
                let mut places = offset - network..offset - network + i32::from(length);
                if places.clone().all(|place| kept_bits(place) == 0xff) {
                    return Fixed::To(node.next(answer(&node.question, packet)));
                }
                // Of the word with the fragment offset only "may be fragmented" and a reserved bit differ.
                if (places.next(), length) == (Some(6), 2) {
                    let mut nexts = [0, 0x4000, 0x8000, 0xc000].into_iter().map(|answer| node.next(answer));
                    let first = nexts.next().unwrap_or_default();
                    return if nexts.all(|next| next == first) { Fixed::To(first) } else { Fixed::Open };
                }
                Fixed::Open
            }
            _ => Fixed::Open,
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
            self.rests.clear();
            self.numbers.clear();
            runner.forget_branches(&self.program);
        }
        if std::mem::take(&mut self.is_full) {
            self.grow();
        }
    }

    /// Makes room for twice as many. All flows come by again before.
    fn grow(&mut self) {
        let capacity = self.table.stats().capacity;
        if capacity >= LAST_CAPACITY || self.len() < capacity {
            return;
        }
        let Ok(table) = FlowTable::new(2 * capacity) else { return };
        self.give_all_back();
        self.table = table;
        self.leases = Arc::new(Leases::new(2 * capacity));
        self.held.resize_with(2 * capacity, || None);
    }
}

/// What is known of a question for all packets of a flow.
enum Fixed {
    /// It leads there.
    To(Next),
    /// This rule holds.
    Rule((u32, u32), Next),
    /// It depends on the packet.
    Open,
}

/// The key of a packet that may be on lease: IPv4 without options, whole, TCP or UDP.
#[inline]
fn key_of(packet: &Packet, network: usize) -> Option<EndsKey> {
    let bytes = packet.data().get(network..)?.first_chunk::<PLAIN>()?;
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let is_plain = bytes[0] == 0x45
        && half(6) & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS) == 0
        && usize::from(half(2)) >= PLAIN
        && matches!(bytes[9], ip_protocol::TCP | ip_protocol::UDP);
    is_plain.then(|| EndsKey::new((word(12), half(20)), (word(16), half(22)), bytes[9].into()))
}

/// The addresses of a packet that has no key.
fn addresses_of(packet: &Packet, network: usize) -> Option<[u8; 8]> {
    packet.data().get(network + 12..)?.first_chunk().copied()
}

/// Whether a flow is between these addresses.
fn is_between(addresses: &[u8; 8], key: &EndsKey) -> bool {
    let [(source, _), (destination, _)] = key.ends();
    let [a, b, c, d, e, f, g, h] = *addresses;
    (source, destination) == (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// The bits of a byte, counted from the IPv4 header, that are the same in all packets of a flow.
fn kept_bits(place: i32) -> u8 {
    match place {
        0 | 7 | 9 | 12..24 => 0xff,
        6 => 0x3f,
        _ => 0,
    }
}

/// Where the IPv4 header of packets starts that may be on lease, if all first steps agree.
fn network_of(program: &Program) -> Option<i32> {
    let mut firsts = program.steps.iter().filter(|step| step.after.is_none()).map(|step| {
        let headers = [1, 2].map(|header| step.before.headers[header].unwrap_or(program.layout[header]));
        match headers {
            [Some(network), Some(transport)] if network >= 0 && transport == network + IPV4 => Some(network),
            _ => None,
        }
    });
    let first = firsts.next()??;
    firsts.all(|other| other == Some(first)).then_some(first)
}

/// How many steps packets have passed when they come to one.
fn depth(program: &Program, step: u16) -> usize {
    let before = |step: u16| program.steps.get(usize::from(step)).and_then(|step| step.after);
    std::iter::successors(before(step), |step| before(*step)).count()
}

/// The values that stand with a flow, in order: how many steps packets have passed before, and the place of the byte among the
/// step's. Of steps that packets pass at the same place, one counts for each flow.
pub struct Used(Vec<(usize, u8)>);

impl Used {
    /// The values that classes write; those with the longest ways have them first, as far as there is room.
    pub fn new(program: &Program) -> Used {
        let mut classes: Vec<&Class> = program.classes.iter().collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.path.len()));
        let mut used = Vec::new();
        for class in classes {
            let mut more = values_of(program, class);
            more.retain(|value| !used.contains(value));
            if used.len() + more.len() <= ROW {
                used.extend(more);
            }
        }
        used.sort_unstable();
        Used(used)
    }

    /// Where a byte of the values of a step stands, if there is room for it.
    pub fn place_of(&self, program: &Program, step: u16, offset: u8) -> Option<u8> {
        let value = (depth(program, step), offset);
        self.0.binary_search(&value).ok().map(|place| place as u8)
    }

    /// Whether there is room for all that a class writes.
    pub fn has_room(&self, program: &Program, class: &Class) -> bool {
        values_of(program, class).iter().all(|value| self.0.binary_search(value).is_ok())
    }
}

/// The values that a class writes, each once.
fn values_of(program: &Program, class: &Class) -> Vec<(usize, u8)> {
    let mut used = Vec::new();
    for write in &class.writes {
        let (from, length) = match write.value {
            Value::Constant(_) => continue,
            Value::Copy(from, length) | Value::Plus(from, length, _) => (from, length),
            Value::Masked(from, ..) => (from, 1),
        };
        if let Place::Leased(step, offset) = from {
            let depth = depth(program, step);
            used.extend((0..length).map(|more| (depth, offset.saturating_add(more))));
        }
    }
    used.sort_unstable();
    used.dedup();
    used
}

/// Whether all packets of a flow have the same answer to a list.
fn is_constant(list: &super::List, network: i32) -> bool {
    let ends_with_packet = match &list.end {
        None => true,
        // Where the IPv4 header says that the packet ends: behind what is looked at.
        Some(end) => {
            let length = Question::Bytes { offset: network + 2, length: 2 };
            *end == Sum::of(length).plus_constant(network.into())
        }
    };
    let laid_out = list.headers == [network, network + IPV4];
    laid_out && ends_with_packet && list.rules.iter().all(|rule| depends_on_flow(&rule.condition))
}

fn depends_on_flow(condition: &Condition) -> bool {
    match condition {
        Tree::Constant(_) => true,
        Tree::Not(inner) => depends_on_flow(inner),
        Tree::All(parts) | Tree::Any(parts) => parts.iter().all(depends_on_flow),
        Tree::Choose(parts) => parts.iter().all(depends_on_flow),
        Tree::Leaf(Test { header, offset, length, mask, .. }) => {
            let first = match header {
                Header::Mac => return false,
                Header::Network => i32::from(*offset),
                Header::Transport => IPV4 + i32::from(*offset),
            };
            let bytes = mask.to_be_bytes();
            let counting = bytes.iter().rev().take(usize::from(*length)).rev();
            (first..).zip(counting).all(|(place, mask)| mask & !kept_bits(place) == 0)
        }
    }
}

/// A byte of the packet when it comes to a step.
fn byte_of(before: &Class, place: i32, packet: &Packet, terms: &[Option<Terms>]) -> Option<u8> {
    let came = |place: Place| match place {
        Place::Byte(place) => packet.data().get(usize::try_from(place).ok()?).copied(),
        Place::Leased(step, offset) => {
            terms.get(usize::from(step))?.as_ref()?.values.get(usize::from(offset)).copied()
        }
        Place::Annotation(_) => None,
    };
    for write in &before.writes {
        let Place::Byte(first) = write.place else { continue };
        let within = place - first;
        if !(0..write.value.length() as i32).contains(&within) {
            continue;
        }
        return match &write.value {
            Value::Constant(bytes) => bytes.get(within as usize).copied(),
            Value::Copy(from, _) => came(from.behind(within)),
            Value::Plus(..) | Value::Masked(..) => None,
        };
    }
    came(Place::Byte(place))
}

fn bytes_of(terms: &Terms, offset: u8, length: u8) -> Option<u128> {
    let bytes = terms.values.get(usize::from(offset)..usize::from(offset) + usize::from(length))?;
    Some(bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}
