//! Trails: frequent paths through a program, each tested as a whole.
//!
//! Asked one by one, each question costs a dispatch, and a mispredicted branch where packets differ. A
//! trail has all conditions of a path as vectors: the required values of the packet's bytes, sixteen at a
//! time, and the ranges of other answers. The conditions do not depend on each other, and one branch
//! decides if the packet is on the trail. Packets on no trail are asked question by question.
//!
//! Trails are recorded from packets that arrive (`Start::record`). Each of the first [`MOST_STARTS`] starts
//! has up to four trails. After 1024 packets of a start, trails that few of its packets take are removed.

use std::collections::BTreeMap;

use element::Packet;
use packet::BATCH_CAPACITY;

use crate::ask::Ask;
use crate::flow_cache::{FlowCache, count};
use crate::graph::{Compiled, CompiledGraph};
use jit::{Conditions, Exactly, Later, RangeCheck};
use program::Next;
use program::machine_code::MachineCode;

/// The maximum number of nodes whose packets have trails. Such a node is called a start, because packets
/// begin there: packets of unknown flows at the start of the program, others at the start of a residual
/// program. Of the residual programs, those that were made first have trails.
const MOST_STARTS: usize = 64;

/// The maximum number of trails that begin at one start.
const MOST_TRAILS: usize = 4;

/// The number of packets at a start after which its trails are reviewed ([`Start::review`]), at the next
/// batch.
const REVIEW: u32 = 1024;
/// The minimum part of packets that makes a trail worth keeping, as its inverse: at least one in 8 of the
/// packets that are tested for a trail has to be on it.
const WORTH_IT: u32 = 8;

/// The number of packets on no trail after which a further trail is recorded; the first trail of a start is
/// recorded from its first packet. The number doubles with each review that removes a trail. A review that
/// keeps all trails sets it back to this number.
const PATIENCE: u32 = 64;
/// The upper limit of `Start::patience`, the number of packets on no trail after which a further trail is
/// recorded.
const MOST_PATIENCE: u32 = 1 << 14;

/// A path through the program as conditions on a packet, and the class or node that the path leads to.
#[derive(Clone, Debug)]
struct Trail {
    /// The number of bytes that the packet must have in its first slot, because conditions read them.
    reach: usize,
    /// The number of bytes of the slot that are read at most, because bytes are read 8 or 16 at a time.
    /// They may extend after the packet's end.
    window: usize,
    /// The range of packet lengths on the path: the lowest length in bytes, and the difference between the
    /// highest and the lowest length.
    length: (u64, u64),
    /// The set of packet types on the path: bit `n` is set for type `n`.
    kinds: u64,
    exactly: Vec<Exactly>,
    checks: Vec<RangeCheck>,
    /// The conditions on annotation bytes: the offset of the byte, its lowest value, and the difference
    /// between its highest and its lowest value.
    annotations: Vec<(u8, u8, u8)>,
    /// The conditions on answers to questions that are not about bytes, annotations, length or packet type:
    /// the question, the lowest answer, and the difference between the highest and the lowest answer.
    others: Vec<(Ask, u64, u64)>,
    /// The indices of the rule lists on the path whose matching rule is known for the flow. The rule is
    /// counted for each packet on the trail.
    counted: Vec<u32>,
    /// The class that the path leads to, or the node at which questions have to be asked one by one.
    end: Next,
    /// The number of packets on the trail since the last review.
    taken: u32,
    /// The machine code for `exactly` and `checks`, once it has been made.
    conditions: Later<Conditions>,
}

impl Trail {
    /// True if a packet meets the trail's conditions on its length and type, and has the tested bytes in its
    /// first slot.
    #[inline(always)]
    fn holds(&self, packet: &Packet) -> bool {
        (packet.data().len() >= self.reach)
            & ((packet.len() as u64).wrapping_sub(self.length.0) <= self.length.1)
            & (self.kinds >> (packet.kind() as u8 & 63) & 1 == 1)
    }

    /// True if a packet is not on the trail, according to its length and type, and to the machine code for
    /// its bytes. Conditions on annotations and other answers are not tested.
    #[inline(always)]
    fn differs(&self, conditions: &Conditions, packet: &Packet) -> bool {
        let bytes = if self.holds(packet) { packet.slot_window(self.window) } else { None };
        bytes.is_none_or(|bytes| conditions.differ(bytes) != 0)
    }

    /// Tests the packets with the indices `places` for the trail. The element of `leave` at the same position
    /// becomes zero if the packet is on the trail, and another number if not. Without machine code, each
    /// condition is tested for all packets before the next condition.
    fn leave(&self, graph: &CompiledGraph, packets: &[Packet], places: &[u8], leave: &mut [u64]) {
        let of = |place: &u8| &packets[usize::from(*place)];
        if let Some(conditions) = self.conditions.get() {
            for (leaves, place) in leave.iter_mut().zip(places) {
                *leaves = u64::from(self.differs(conditions, of(place)));
            }
        } else {
            self.leave_by_tables(packets, places, leave);
        }
        for &(annotation, low, span) in &self.annotations {
            for (leaves, place) in leave.iter_mut().zip(places) {
                let byte = of(place).annotations().bytes().get(usize::from(annotation)).copied();
                *leaves |= u64::from(byte.unwrap_or_default().wrapping_sub(low) > span);
            }
        }
        for &(ask, low, span) in &self.others {
            for (leaves, place) in leave.iter_mut().zip(places).filter(|(leaves, _)| **leaves == 0) {
                let packet = of(place);
                *leaves = u64::from(graph.ask(ask, packet.data(), packet).wrapping_sub(low) > span);
            }
        }
    }

    /// Like [`leave`](Self::leave), but only for the conditions on length, type and bytes, and without
    /// machine code.
    fn leave_by_tables(&self, packets: &[Packet], places: &[u8], leave: &mut [u64]) {
        let of = |place: &u8| &packets[usize::from(*place)];
        for (leaves, place) in leave.iter_mut().zip(places) {
            *leaves = u64::from(!(self.holds(of(place)) & (of(place).slot_rest() >= self.window)));
        }
        for exactly in &self.exactly {
            for (leaves, place) in leave.iter_mut().zip(places) {
                let differs = exactly.differs(of(place).slot_bytes(exactly.place));
                *leaves |= differs as u64 | (differs >> 64) as u64;
            }
        }
        for check in &self.checks {
            for (leaves, place) in leave.iter_mut().zip(places) {
                *leaves |= u64::from(!check.holds(of(place).slot_bytes(check.place.into())));
            }
        }
    }

    /// Counts `packets` packets that are on the trail, and has the trail's machine code made if that is due
    /// by `machine_code`.
    fn take(&mut self, packets: usize, machine_code: MachineCode) {
        self.taken += packets as u32;
        let Trail { conditions, exactly, checks, window, .. } = self;
        conditions.count(packets, machine_code, || {
            let (exactly, checks, window) = (exactly.clone(), checks.clone(), *window);
            move || Conditions::new(&exactly, &checks, window)
        });
    }
}

/// The trails for packets that begin at one node: the start of the program or of a residual program.
#[derive(Clone, Debug, Default)]
struct Start {
    at: Next,
    trails: Vec<Trail>,
    /// The indices of the packets of the batch that begin at this start.
    here: Vec<u8>,
    /// The number of packets that have begun at this start since its last review ([`Start::review`]).
    packets: u32,
    /// The number of packets that began at this start and were on no trail, since its last trail was
    /// recorded.
    astray: u32,
    /// The number of packets on no trail after which the next trail is recorded.
    patience: u32,
}

/// All trails of a program, and the packets of the present batch by their start.
pub(super) struct Trails {
    starts: Vec<Start>,
    /// The number of removals of residual programs' nodes up to the time at which the trails were recorded.
    /// If the present number is higher, the trails are invalid.
    forgotten: u64,
    /// The indices, in `starts`, of the nodes at which at least one packet of the batch begins.
    numbers: Vec<usize>,
    /// The packets of the batch that begin at starts without trails: the node or class, and the index of
    /// the packet.
    elsewhere: Vec<(Next, u8)>,
    leave: [u64; BATCH_CAPACITY],
}

impl Default for Trails {
    fn default() -> Trails {
        Trails {
            starts: Vec::with_capacity(MOST_STARTS),
            forgotten: 0,
            numbers: Vec::with_capacity(MOST_STARTS),
            elsewhere: Vec::with_capacity(BATCH_CAPACITY),
            leave: [0; BATCH_CAPACITY],
        }
    }
}

/// The input and the results of the search for the classes of a batch.
pub(super) struct Found<'f> {
    pub(super) packets: &'f [Packet],
    pub(super) flows: Option<&'f FlowCache>,
    /// The time at which machine code is made for trails.
    pub(super) machine_code: MachineCode,
    /// The class of each packet; written for packets whose class is found.
    pub(super) classes: &'f mut [u32],
    /// The packets that wait at a list of rules: the index of the packet, and of the list's node.
    pub(super) waiting: &'f mut Vec<(u8, u32)>,
    /// The rules that matched, to be counted: the index of the packet, of the list, and of the rule in the
    /// list.
    pub(super) held: &'f mut Vec<(u8, u32, u32)>,
}

impl Found<'_> {
    /// Asks a packet questions one by one, from `from` up to its class or a list of rules, and stores the
    /// result.
    fn follow(&mut self, graph: &CompiledGraph, from: Next, place: u8) {
        let known = self.flows.and_then(|flows| flows.known(place.into()));
        let held = &mut *self.held;
        let mut counted = |list| count(known, list, &mut |list, rule| held.push((place, list, rule)));
        match graph.follow(from, &self.packets[usize::from(place)], &mut counted) {
            Ok(class) => self.classes[usize::from(place)] = class,
            Err(node) => self.waiting.push((place, node)),
        }
    }

    /// Sets the class of a packet that is on a trail, or, if the trail ends at a node, asks the remaining
    /// questions. Does nothing if `leaves` is true: the packet is not on the trail. Returns `leaves`, so that
    /// the caller tests such packets for the next trail.
    #[inline(always)]
    fn arrive_unless(&mut self, leaves: bool, graph: &CompiledGraph, trail: &Trail, place: u8) -> bool {
        if leaves {
            return true;
        }
        for &list in &trail.counted {
            self.count(list, place);
        }
        match trail.end {
            Next::Class(class) => self.classes[usize::from(place)] = class,
            Next::Node(_) => self.follow(graph, trail.end, place),
        }
        false
    }

    /// Adds to `held` the rule that decides in a list for a packet, if the flow cache knows that rule for the
    /// packet's flow. `place` is the index of the packet.
    fn count(&mut self, list: u32, place: u8) {
        let known = self.flows.and_then(|flows| flows.known(place.into()));
        let held = &mut *self.held;
        count(known, list, &mut |list, rule| held.push((place, list, rule)));
    }
}

impl Trails {
    /// Removes all trails if nodes of residual programs have been removed since the trails were recorded:
    /// node indices in the trails may mean other nodes now. `forgotten` is the present number of removals.
    #[inline]
    pub(super) fn keep(&mut self, forgotten: u64) {
        if std::mem::replace(&mut self.forgotten, forgotten) != forgotten {
            self.starts.clear();
        }
    }

    /// Adds the packet with index `place` to a start. `number` is the number of the start: 0 for the whole
    /// program, or the number of a residual program plus one. `at` is the node or class where its packets
    /// begin.
    #[inline]
    pub(super) fn add(&mut self, number: usize, at: Next, place: u8) {
        match self.starts.get_mut(number) {
            Some(start) if !start.here.is_empty() => start.here.push(place),
            _ if number >= MOST_STARTS => self.elsewhere.push((at, place)),
            _ => self.begin(number, at).push(place),
        }
    }

    /// Returns the list of the batch's packets that begin at start `number`, for the caller to add packets.
    /// `number` is below [`MOST_STARTS`]. If packets of this start now begin at another node (`at`), the
    /// trails of the start are removed; if more than [`REVIEW`] packets have begun there, the trails are
    /// reviewed.
    pub(super) fn begin(&mut self, number: usize, at: Next) -> &mut Vec<u8> {
        if number >= self.starts.len() {
            self.starts.resize_with(number + 1, Start::default);
        }
        let start = &mut self.starts[number];
        if start.here.is_empty() {
            self.numbers.push(number);
            if start.at != at || start.packets > REVIEW {
                start.review(at);
            }
        }
        &mut start.here
    }

    /// Finds, for each packet that was added, its traffic class or the rule list at which it has to wait, and
    /// stores it in `found`. The lists of added packets are empty afterwards.
    pub(super) fn follow(&mut self, graph: &CompiledGraph, found: &mut Found<'_>) {
        for (at, place) in self.elsewhere.drain(..) {
            found.follow(graph, at, place);
        }
        for number in self.numbers.drain(..) {
            self.starts[number].follow(graph, found, &mut self.leave);
        }
    }
}

impl Start {
    /// Tests the packets at this start for each trail, then asks the packets on no trail question by
    /// question. If many packets have been on no trail, also records the path of one of them as a further
    /// trail. `leave` is working memory.
    fn follow(&mut self, graph: &CompiledGraph, found: &mut Found<'_>, leave: &mut [u64]) {
        let Start { at, trails, here, .. } = self;
        self.packets += here.len() as u32;
        for trail in trails {
            if here.is_empty() {
                break;
            }
            let before = here.len();
            let packets = found.packets;
            match trail.conditions.get().filter(|_| trail.others.is_empty() && trail.annotations.is_empty()) {
                Some(conditions) => here.retain(|&place| {
                    let leaves = trail.differs(conditions, &packets[usize::from(place)]);
                    found.arrive_unless(leaves, graph, trail, place)
                }),
                None => {
                    trail.leave(graph, packets, here, leave);
                    let mut leave = leave.iter();
                    here.retain(|&place| {
                        let leaves = leave.next().is_none_or(|leaves| *leaves != 0);
                        found.arrive_unless(leaves, graph, trail, place)
                    });
                }
            }
            trail.take(before - here.len(), found.machine_code);
        }
        let at = *at;
        while let Some(place) = self.here.pop() {
            self.astray = self.astray.saturating_add(1);
            if self.astray > self.patience && self.trails.len() < MOST_TRAILS {
                self.record(graph, &found.packets[usize::from(place)]);
            }
            found.follow(graph, at, place);
        }
    }

    /// Removes trails that too few packets take. Sorts the others by the number of their packets, so that the
    /// most frequent trail is tested first. If the start has another node (`at`), removes all trails.
    #[cold]
    fn review(&mut self, at: Next) {
        if self.at != at {
            let here = std::mem::take(&mut self.here);
            *self = Start { at, here, ..Start::default() };
            return;
        }
        let mut left = self.packets;
        let before = self.trails.len();
        self.trails.sort_by_key(|trail| std::cmp::Reverse(trail.taken));
        self.trails.retain(|trail| {
            let is_worth_it = trail.taken.saturating_mul(WORTH_IT) >= left;
            left = left.saturating_sub(trail.taken);
            is_worth_it
        });
        // Some trails were removed, because packets differ too much for them. So the number of packets after
        // which the next trail is recorded doubles.
        if self.trails.len() < before {
            self.patience = (2 * self.patience).clamp(PATIENCE, MOST_PATIENCE);
        } else if before > 0 {
            self.patience = PATIENCE;
        }
        for trail in &mut self.trails {
            trail.taken = 0;
        }
        self.packets = 0;
    }

    /// Records the path of a packet as a trail, up to the first question that a trail cannot test. Does
    /// nothing if that is the first question.
    #[cold]
    fn record(&mut self, graph: &CompiledGraph, packet: &Packet) {
        self.astray = 0;
        self.patience = self.patience.max(PATIENCE);
        let mut recording = Recording::default();
        let data = packet.data();
        let mut next = self.at;
        while let Next::Node(number) = next {
            let node = graph.node(number);
            let Some(further) = recording.pass(graph, node, data, packet) else { break };
            next = further;
        }
        if next != self.at {
            self.trails.extend(recording.trail(next));
        }
    }
}

/// A trail while it is being recorded: the conditions of the questions so far.
struct Recording {
    length: (u64, u64),
    kinds: u64,
    /// By the offset of a byte: the bits that are tested, and their required values.
    bytes: BTreeMap<usize, (u8, u8)>,
    /// The conditions on big-endian numbers in the packet: offset, length in bytes, tested bits, lowest and
    /// highest number.
    ranges: Vec<(usize, usize, u64, u64, u64)>,
    annotations: Vec<(u8, u8, u8)>,
    others: Vec<(Ask, u64, u64)>,
    counted: Vec<u32>,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            length: (0, u64::MAX),
            kinds: u64::MAX,
            bytes: BTreeMap::new(),
            ranges: Vec::new(),
            annotations: Vec::new(),
            others: Vec::new(),
            counted: Vec::new(),
        }
    }
}

impl Recording {
    /// Adds the condition that the answer to the question of `node` leads to the node or class to which this
    /// packet's answer leads. Returns that node or class. Returns `None` if a trail cannot test the question,
    /// so that the trail has to end at the question's node.
    fn pass(&mut self, graph: &CompiledGraph, node: &Compiled, data: &[u8], packet: &Packet) -> Option<Next> {
        if let Ask::Counted(list) = node.ask {
            self.counted.push(list);
            return Some(graph.parts(node).1[0]);
        }
        if matches!(node.ask, Ask::Wide(_) | Ask::List(_)) {
            return None;
        }
        let answer = graph.ask(node.ask, data, packet);
        let (ends, nexts) = graph.parts(node);
        let place = graph.place(node.ask);
        let bits = match (node.ask, place) {
            (Ask::Kind, _) => 8,
            (_, Some((_, length))) => 8 * length as u32,
            _ => 0,
        };
        let (mask, low, high) = range_of(ends, nexts, bits, answer);
        let next = nexts[ends.partition_point(|end| *end < answer).min(nexts.len() - 1)];
        if let Some(sum) = graph.sum(node.ask).filter(|_| low > 0 || high == 0)
            && let Some(decided) = sum.decided_by(answer == 1, |place| self.known(place))
        {
            let (place, length, low, high) = decided;
            self.bytes(place, length, all_of(8 * length as u32), low, high);
            return Some(next);
        }
        match (node.ask, place) {
            (Ask::Length, _) => {
                self.length = (self.length.0.max(low), self.length.1.min(high));
            }
            (Ask::Kind, _) => {
                let kinds = (0..64).filter(|kind| (low..=high).contains(&(kind & mask)));
                self.kinds &= kinds.fold(0, |kinds, kind| kinds | 1 << kind);
            }
            (_, Some((place, length))) => self.bytes(place, length, mask, low, high),
            (Ask::Annotation(place), None) => {
                let (low, high) = (low.min(255) as u8, high.min(255) as u8);
                self.annotations.push((place, low, high - low));
            }
            (ask, None) => self.others.push((ask, low, high - low)),
        }
        Some(next)
    }

    /// Returns the bits of a byte for which the trail requires a value so far, and their required values.
    fn known(&self, place: usize) -> (u8, u8) {
        self.bytes.get(&place).copied().unwrap_or_default()
    }

    fn bytes(&mut self, place: usize, length: usize, mask: u64, low: u64, high: u64) {
        // The range from `low` to `high` is all numbers with the same upper bits if the two differ only in
        // their lowest bits, which are all zero in `low` and all one in `high`. The condition is then on the
        // upper bits alone.
        let run = low ^ high;
        if (run & run.wrapping_add(1)) != 0 || low & run != 0 {
            return self.ranges.push((place, length, mask, low, high));
        }
        let (mask, value) = ((mask & !run).to_be_bytes(), low.to_be_bytes());
        for ((place, mask), value) in (place..).zip(&mask[8 - length..]).zip(&value[8 - length..]) {
            let (bits, byte) = self.bytes.entry(place).or_default();
            (*bits, *byte) = (*bits | mask, *byte | value & mask);
        }
    }

    fn trail(self, end: Next) -> Option<Trail> {
        let behind_bytes = self.bytes.keys().next_back().map_or(0, |place| place + 1);
        let behind_ranges = self.ranges.iter().map(|(place, length, ..)| place + length);
        let reach = behind_ranges.chain([behind_bytes]).max().unwrap_or_default();
        let mut exactly = Vec::new();
        let mut done = 0;
        for (&place, (mask, _)) in &self.bytes {
            if place < done || *mask == 0 {
                continue;
            }
            let first = place;
            let byte = |at: usize| self.bytes.get(&(first + at)).copied().unwrap_or_default();
            let (mask, bits) = (std::array::from_fn(|at| byte(at).0), std::array::from_fn(|at| byte(at).1));
            let (mask, bits) = (u128::from_ne_bytes(mask), u128::from_ne_bytes(bits));
            exactly.push(Exactly { place: first, mask, bits });
            done = first + 16;
        }
        let mut checks = Vec::new();
        for (place, length, mask, low, high) in self.ranges {
            let shift = ((8 - length) * 8) as u8;
            checks.push(RangeCheck { place: u16::try_from(place).ok()?, shift, mask, low, span: high - low });
        }
        let ends = exactly.iter().map(|exactly: &Exactly| exactly.place + 16);
        let window = ends.chain(checks.iter().map(|check| usize::from(check.place) + 8)).max().unwrap_or(0);
        Some(Trail {
            reach,
            window,
            length: (self.length.0, self.length.1.checked_sub(self.length.0)?),
            kinds: self.kinds,
            exactly,
            checks,
            annotations: self.annotations,
            others: self.others,
            counted: self.counted,
            end,
            taken: 0,
            conditions: Later::default(),
        })
    }
}

/// Returns a condition that holds for `number` and for other numbers with the same successor: a mask, and the
/// lowest and highest masked number. `ends` has the last number of each range, `nexts` the successor of each
/// range. `bits` is the width of the numbers, or 0 if the mask has to include all bits.
fn range_of(ends: &[u64], nexts: &[Next], bits: u32, number: u64) -> (u64, u64, u64) {
    let mask = if bits == 0 { u64::MAX } else { relevant(ends, nexts, bits) };
    let number = number & mask;
    let part = ends.partition_point(|end| *end < number).min(nexts.len() - 1);
    let same = |other: &&Next| **other == nexts[part];
    let first = part - nexts[..part].iter().rev().take_while(same).count();
    let last = part + nexts[part + 1..].iter().take_while(same).count();
    let low = if first == 0 { 0 } else { ends[first - 1] + 1 };
    // The last range ends at the highest answer of the question.
    let most = if bits == 0 { u64::MAX } else { all_of(bits) };
    let high = if last + 1 == nexts.len() { most } else { ends[last].min(most) };
    (mask, low, high)
}

fn all_of(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The maximum number of multiples of a bit's value that are tested to decide if the successor depends on the
/// bit. A bit with more multiples is assumed to matter.
const MOST_TRIES: u64 = 4096;

/// Returns a mask of the bits of a number that the number's successor depends on. The mask may include
/// further bits, but includes all bits that matter. `ends` has the last number of each range, `nexts` the
/// successor of each range.
fn relevant(ends: &[u64], nexts: &[Next], bits: u32) -> u64 {
    let leads = |number: u64| nexts[ends.partition_point(|end| *end < number).min(nexts.len() - 1)];
    let all = all_of(bits);
    // The numbers at which the successor changes.
    let pairs = nexts.windows(2).zip(ends);
    let changes: Vec<u64> =
        pairs.filter(|(pair, end)| pair[0] != pair[1] && **end < all).map(|(_, end)| end + 1).collect();
    let Some(low) = changes.iter().map(|change| change.trailing_zeros()).min() else { return 0 };
    let mut mask = all & !all_of(low);
    for place in low..bits {
        let bit = 1 << place;
        // The successors of two numbers that differ only in the bit change at multiples of the bit and at
        // `changes`. So it suffices to test these numbers, each with and without the bit.
        if all / bit >= MOST_TRIES {
            continue;
        }
        let multiples = (0..=all / bit).map(|times| times * bit);
        let both = changes.iter().flat_map(|change| [*change, change ^ bit]);
        if both.chain(multiples).all(|number| leads(number) == leads(number ^ bit)) {
            mask &= !bit;
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates the ranges of a node for answers of `bits` bits: their last answers and their successors.
    fn parts(bits: u32) -> impl Strategy<Value = (Vec<u64>, Vec<Next>)> {
        let made = proptest::collection::vec((0..all_of(bits), 0u32..3), 0..12).prop_map(move |parts| {
            let mut ends: Vec<u64> = parts.iter().map(|(end, _)| *end).chain([all_of(bits)]).collect();
            ends.sort_unstable();
            ends.dedup();
            let nexts = (0..ends.len()).map(|n| Next::Class(parts.get(n).map_or(0, |(_, class)| *class)));
            let nexts = nexts.collect();
            (ends, nexts)
        });
        // Ranges whose successors depend on some of the bits only.
        let masked = (any::<u64>(), 0u64..4).prop_map(move |(mask, classes)| {
            let class =
                |number: u64| Next::Class(((number & mask).count_ones() as u64 % (classes + 1)) as u32);
            let ends: Vec<u64> = (0..=all_of(bits)).collect();
            let nexts = ends.iter().map(|number| class(*number)).collect();
            (ends, nexts)
        });
        prop_oneof![made, masked]
    }

    proptest! {
        #[test]
        fn a_range_leads_where_its_number_does((ends, nexts) in prop_oneof![parts(8), parts(12)], number: u64) {
            let all = *ends.last().unwrap();
            let (bits, number) = (all.count_ones(), number & all);
            let leads = |number: u64| nexts[ends.partition_point(|end| *end < number)];
            let (mask, low, high) = range_of(&ends, &nexts, bits, number);
            prop_assert!((low..=high).contains(&(number & mask)));
            for other in 0..=all {
                if (low..=high).contains(&(other & mask)) {
                    prop_assert_eq!(leads(other), leads(number), "{} for {}", other, number);
                }
            }
        }

        #[test]
        fn bits_that_do_not_count_are_found(mask in 0u64..256, class in 0u32..2) {
            let ends: Vec<u64> = (0..256).collect();
            let nexts: Vec<Next> =
                ends.iter().map(|number| Next::Class(u32::from(number & mask == 0) ^ class)).collect();
            prop_assert_eq!(relevant(&ends, &nexts, 8), mask);
        }

        /// A trail is recorded from one packet. It must contain that packet, and contain a second packet
        /// exactly if the second packet meets all recorded conditions. The machine code of the trail must
        /// give the same results.
        #[test]
        fn checks_ask_what_was_asked(
            asked in proptest::collection::vec((0usize..30, 1usize..=8, any::<u64>(), 0u64..3, 0u64..5), 1..6),
            first in proptest::collection::vec(0u8..4, 64),
            changes in proptest::collection::vec((0usize..40, 0u8..4), 0..4),
        ) {
            let mut second = first.clone();
            for (place, byte) in changes {
                second[place] = byte;
            }
            let mut recording = Recording::default();
            let mut expected = true;
            for (place, length, mask, below, above) in asked {
                let mask = mask & all_of(8 * length as u32);
                let number = |bytes: &[u8]| {
                    bytes[place..place + length].iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)) & mask
                };
                let (low, high) = (number(&first).saturating_sub(below), number(&first).saturating_add(above));
                // Masked numbers have no bits outside of the mask, so a range cannot begin with such a
                // number.
                if low & !mask != 0 {
                    continue;
                }
                expected &= (low..=high).contains(&number(&second));
                recording.bytes(place, length, mask, low, high);
            }
            let trail = recording.trail(Next::Class(0)).unwrap();
            let is_on = |bytes: &[u8]| {
                let differs = |exactly: &Exactly| exactly.differs(bytes[exactly.place..].first_chunk());
                let holds = |check: &RangeCheck| check.holds(bytes[usize::from(check.place)..].first_chunk());
                trail.exactly.iter().all(|exactly| differs(exactly) == 0) && trail.checks.iter().all(holds)
            };
            prop_assert!(is_on(&first));
            prop_assert_eq!(is_on(&second), expected);
            let conditions = Conditions::new(&trail.exactly, &trail.checks, trail.window);
            prop_assert_eq!(conditions.is_some(), jit::EXISTS);
            if let Some(conditions) = conditions {
                prop_assert_eq!(conditions.differ(&first), 0);
                prop_assert_eq!(conditions.differ(&second) == 0, expected);
                if let Some(fewer) = first.get(..trail.window.wrapping_sub(1)) {
                    prop_assert_ne!(conditions.differ(fewer), 0);
                }
            }
        }
    }
}
