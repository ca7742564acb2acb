//! # IPReassembler
//! Puts IPv4 fragments together again (RFC 791).
//!
//! The result has the header, link header and annotations of the first part and the time stamp of the fragment that
//! came last; where fragments overlap, later ones count. Other packets pass unchanged. What has been collected of a
//! packet leaves by output 1, or is dropped, when nothing more has come for 30 seconds, or when there is too much in
//! store. The network header annotation must be set.
//!
//! ## Usage
//! `IPReassembler([KEYWORDS])`
//!
//! ## Arguments
//! - `HIMEM`: most bytes in store; when there are more, the oldest are given up until a quarter is free.
//! - `MAX_MTU_ANNO`: the annotation, two bytes, that gets the length of the longest fragment.
//!
//! ## Handlers
//! - `dump`: counts, and what is in store.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPFragmenter(60) -> CheckIPHeader(OFFSET 0) -> IPReassembler -> Discard
//! ```
//!
//! ## See also
//! IPFragmenter, CheckIPHeader

use std::collections::HashMap;
use std::net::Ipv4Addr;

use element::args::AnnotationOffset;
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{
    Access, Case, Depends, Emit, Field, Filter, Header, Hold, Order, State, Target, wire_field,
};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, Timestamp, manual};
use wire::ipv4::{FRAGMENT_OFFSET, MORE_FRAGMENTS};
use wire::{FromBytes, checksum, ipv4};

use crate::editing::{annotation, ipv4_with_options, length_from};

/// The class.
pub static CLASS: Class = Class {
    name: "IPReassembler",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("ip_reassembler.rs"),
    args: &[
        ArgInfo::keyword("HIMEM", "unsigned", "262144"),
        ArgInfo::keyword("MAX_MTU_ANNO", "annotation", ""),
    ],
    handlers: &[HandlerInfo::read("dump")],
    samples: &["", "HIMEM 1000, MAX_MTU_ANNO 20 -> 1/2"],
    build: |args| {
        let most = args.or("HIMEM", 256u32 * 1024) as usize;
        let longest: Option<AnnotationOffset<2>> = args.get("MAX_MTU_ANNO");
        args.finish()?;
        let longest = longest.map(|AnnotationOffset(place)| place);
        Ok(Box::new(IpReassembler {
            is_spread: args.setup.is_spread(),
            most,
            longest,
            sets: HashMap::default(),
            spare: Vec::new(),
            scratch: Vec::with_capacity(u16::MAX.into()),
            stored: 0,
            reaped: None,
            counts: Counts::default(),
        }))
    },
    ..Class::DEFAULT
};

/// Nothing more is expected after this time.
const PATIENCE: Timestamp = Timestamp::from_secs(30);
/// How often the store is looked through.
const REAPING: Timestamp = Timestamp::from_secs(10);

/// What fragments of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    source: u32,
    destination: u32,
    id: u16,
    protocol: u8,
}

/// What has been collected of one packet.
struct Set {
    /// The packet that stands for all of them: the first part as soon as it has come.
    packet: Packet,
    /// Whether that is so.
    has_first: bool,
    collected: Collected,
    /// Where the payload ends, once that is known.
    end: Option<usize>,
    longest: u16,
    time: Timestamp,
}

/// The payload of a packet as far as it has come; used again for others.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    /// What is there, in order, without overlaps.
    parts: Vec<(usize, usize)>,
}

#[derive(Default)]
struct Counts {
    fragments: u64,
    good: u64,
    failed: u64,
    bad: u64,
}

struct IpReassembler {
    /// Whether fragments may come to other workers than those that they belong to.
    is_spread: bool,
    most: usize,
    longest: Option<usize>,
    sets: HashMap<Key, Set>,
    /// Memory for further sets.
    spare: Vec<Collected>,
    /// The payload of a fragment.
    scratch: Vec<u8>,
    /// Bytes in store.
    stored: usize,
    /// When the store was last looked through.
    reaped: Option<Timestamp>,
    counts: Counts,
}

/// A fragment's place.
struct Part {
    key: Key,
    from: usize,
    to: usize,
    is_last: bool,
    length: u16,
}

impl Collected {
    /// Adds a part; of what is there twice, the later counts.
    fn add(&mut self, from: usize, part: &[u8]) {
        let to = from + part.len();
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(part);
        self.parts.push((from, to));
        self.parts.sort_unstable();
        self.parts.dedup_by(|next, last| {
            let joined = next.0 <= last.1;
            if joined {
                last.1 = last.1.max(next.1);
            }
            joined
        });
    }
}

impl Set {
    fn is_complete(&self) -> bool {
        self.has_first && self.end.is_some_and(|end| self.collected.parts == [(0, end)])
    }

    fn memory(&self) -> usize {
        self.packet.len() + self.collected.bytes.len()
    }
}

/// Where a fragment belongs; `Ok(None)` for packets that are none.
fn part_of(packet: &Packet) -> Result<Option<Part>, DropReason> {
    let (ip, _) = ipv4_with_options(packet).ok_or(DropReason::NoHeader)?;
    if !ip.is_fragment() {
        return Ok(None);
    }
    let (total, header) = (ip.total_length.get(), ip.header_len());
    let from = ip.fragment_offset();
    let length = usize::from(total).checked_sub(header).filter(|&n| n > 0).ok_or(DropReason::BadIpHeader)?;
    let captured = length_from(packet, Base::Network).is_some_and(|n| n >= usize::from(total));
    let whole_words = !ip.more_fragments() || length.is_multiple_of(8);
    let to = from + length;
    if header < ipv4::Header::LEN || !captured || !whole_words || to + header > usize::from(u16::MAX) {
        return Err(DropReason::BadIpHeader);
    }
    let key = Key {
        source: ip.source.get(),
        destination: ip.destination.get(),
        id: ip.id.get(),
        protocol: ip.protocol,
    };
    Ok(Some(Part { key, from, to, is_last: !ip.more_fragments(), length: total }))
}

impl IpReassembler {
    /// Takes a packet; what leaves by output 0 now, if anything.
    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let part = match part_of(&packet) {
            Ok(None) => return Some(packet),
            Ok(Some(part)) => part,
            Err(reason) => {
                self.counts.bad += u64::from(reason != DropReason::NoHeader);
                cx.drop(packet, reason);
                return None;
            }
        };
        self.counts.fragments += 1;
        let time = if packet.time().is_set() { packet.time() } else { cx.now() };
        self.reap(cx, time);
        self.store(cx, packet, &part, time);
        let complete = self.sets.get(&part.key).is_some_and(Set::is_complete);
        if complete && let Some(set) = self.sets.remove(&part.key) {
            self.stored -= set.memory();
            self.counts.good += 1;
            return self.whole(cx, set);
        }
        if self.stored > self.most {
            self.make_room(cx);
        }
        None
    }

    /// Adds a fragment to its set.
    fn store(&mut self, cx: &mut Cx<'_>, packet: Packet, part: &Part, time: Timestamp) {
        let known_end = self.sets.get(&part.key).and_then(|set| set.end);
        if known_end.is_some_and(|end| part.to > end) {
            self.counts.bad += 1;
            return cx.drop(packet, DropReason::BadIpHeader);
        }
        let Some((ip, _)) = ipv4_with_options(&packet) else {
            return cx.drop(packet, DropReason::NoHeader);
        };
        let start = packet.offset(Base::Network).map(|at| at + ip.header_len() as isize);
        let Some(Ok(start)) = start.map(usize::try_from) else {
            return cx.drop(packet, DropReason::NoHeader);
        };
        self.scratch.resize(part.to - part.from, 0);
        packet.read_at(start, &mut self.scratch);
        let is_first = part.from == 0;
        // The one that stands for the set keeps its headers only.
        let keeps = |mut packet: Packet| {
            packet.truncate(start);
            packet
        };
        let set = match self.sets.remove(&part.key) {
            None => Set {
                packet: keeps(packet),
                has_first: is_first,
                collected: self.spare.pop().unwrap_or_default(),
                end: None,
                longest: 0,
                time,
            },
            Some(mut set) => {
                self.stored -= set.memory();
                let packet = keeps(packet);
                if is_first && !set.has_first {
                    cx.drop(std::mem::replace(&mut set.packet, packet), DropReason::Coalesced);
                    set.has_first = true;
                } else {
                    cx.drop(packet, DropReason::Coalesced);
                }
                set
            }
        };
        let mut set = Set { time, longest: set.longest.max(part.length), ..set };
        set.collected.add(part.from, &self.scratch);
        if part.is_last {
            set.end = Some(part.to);
        }
        self.stored += set.memory();
        self.sets.insert(part.key, set);
    }

    /// The packet of a set with all that has come of it.
    fn whole(&mut self, cx: &mut Cx<'_>, set: Set) -> Option<Packet> {
        let Set { packet, mut collected, longest, time, .. } = set;
        let length_of_payload = collected.bytes.len();
        let joined = cx.append(packet, &collected.bytes);
        collected.bytes.clear();
        collected.parts.clear();
        self.spare.push(collected);
        let mut packet = joined?;
        let Some(bytes) = packet.header_mut(Base::Network) else { return Some(packet) };
        if let Ok((ip, _)) = ipv4::Header::mut_from_prefix(bytes) {
            let length = ip.header_len();
            ip.total_length.set((length + length_of_payload) as u16);
            ip.fragment.set(ip.fragment.get() & !(MORE_FRAGMENTS | FRAGMENT_OFFSET));
            if let Some(header) = bytes.get_mut(..length) {
                // The header has at least 20 bytes.
                let _ = checksum::fill_ipv4(header);
            }
        }
        packet.set_time(time);
        if let Some(place) = self.longest {
            let annotations = packet.annotations_mut();
            for (i, byte) in longest.to_ne_bytes().into_iter().enumerate() {
                annotations.set_u8(place + i, byte);
            }
        }
        Some(packet)
    }

    /// Gives a set up.
    fn give_up(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(set) = self.sets.remove(&key) else { return };
        self.stored -= set.memory();
        if let Some(packet) = self.whole(cx, set) {
            cx.emit_one(1, packet, DropReason::OutOfTime);
        }
    }

    /// Gives up what has waited for too long, now and then.
    fn reap(&mut self, cx: &mut Cx<'_>, now: Timestamp) {
        let last = *self.reaped.get_or_insert(now);
        if now - last < REAPING {
            return;
        }
        self.reaped = Some(now);
        while let Some(key) = self.oldest(|set| now - set.time > PATIENCE) {
            self.give_up(cx, key);
        }
    }

    /// The set that has waited longest of those that are meant.
    fn oldest(&self, which: impl Fn(&Set) -> bool) -> Option<Key> {
        let meant = self.sets.iter().filter(|(_, set)| which(set));
        meant.min_by_key(|(key, set)| (set.time, **key)).map(|(key, _)| *key)
    }

    /// Gives up the oldest sets until a quarter of the store is free.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while self.stored > self.most / 4 * 3 {
            let Some(key) = self.oldest(|_| true) else { return };
            self.counts.failed += 1;
            self.give_up(cx, key);
        }
    }
}

/// Sends fragments to the workers that all of their packet come to.
fn send_fragments_home(cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
    let (me, _) = cx.worker();
    let is_fragment = |packet: &Packet| {
        let ip = packet.header(Base::Network).and_then(|ip| ipv4::Header::ref_from_prefix(ip).ok());
        ip.is_some_and(|(ip, _)| ip.is_fragment())
    };
    let mut home = cx.batch();
    batch.sift(
        |packet| if is_fragment(packet) && cx.owner_of(packet) != me { Err(()) } else { Ok(()) },
        // No more packets than came in one batch, so they fit into one.
        |packet, ()| _ = home.push(packet),
    );
    cx.send_home(port, home);
}

impl Element for IpReassembler {
    fn effects(&self) -> Effects {
        let whole = Filter::All(vec![
            Filter::Present(Header::Ipv4),
            Filter::In {
                field: wire_field::IP_FRAGMENT,
                mask: (MORE_FRAGMENTS | FRAGMENT_OFFSET).into(),
                set: classify::IntervalSet::one(0, 0),
            },
        ]);
        let fragments = Case::new(Filter::Any, Target::Hold(0));
        let key = vec![wire_field::IP_SRC, wire_field::IP_DST, wire_field::IP_ID, wire_field::IP_PROTOCOL];
        let mut reads = vec![Field::Payload, Field::Length, Field::TimeStamp, annotation(0, 48)];
        reads.push(Header::Ipv4.extent());
        let mut effects = Effects::cases(vec![Case::new(whole, Target::Output(0)), fragments]);
        effects.hold = Hold::Delay;
        effects.order = Order::MayReorder;
        effects.emits = vec![Emit {
            name: "reassembled packet",
            input: None,
            reads,
            output: None,
            starts: Some(Header::Ipv4),
            when: Filter::Any,
        }];
        effects.state =
            vec![State { table: "fragments", key, both_directions: false, access: Access::EveryPacket }];
        // Only fragments are anybody's.
        effects.is_spread = true;
        effects.opaque = Some("joins packets");
        effects.depending_on(Depends::Time)
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        if self.is_spread {
            send_fragments_home(cx, port, &mut batch);
        }
        self.process(cx, &mut batch);
        Some(batch)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.take(cx, packet));
    }

    fn held(&self) -> usize {
        self.sets.len()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for (_, set) in self.sets.drain() {
            cx.drop(set.packet, DropReason::Stop);
        }
        self.stored = 0;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        let Counts { fragments, good, failed, bad } = self.counts;
        let mut text = format!(
            "frags seen total:    {fragments}\ngood reassemblies:   {good}\nfailed reassemblies: {failed}\nbad fragments seen:  {bad}\ncached chunk data:\n"
        );
        let mut sets: Vec<_> = self.sets.iter().collect();
        sets.sort_unstable_by_key(|(key, _)| **key);
        for (key, set) in sets {
            let [source, destination] = [key.source, key.destination].map(Ipv4Addr::from_bits);
            text += &format!(" ({source}, 0, {destination}, 0) {}", key.id);
            for (from, to) in &set.collected.parts {
                text += &format!(" ({from},{to})");
            }
            text.push('\n');
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against one flag per byte.
        #[test]
        fn parts_are_what_has_come(parts in prop::collection::vec((0usize..60, 1usize..20), 0..12)) {
            let mut collected = Collected::default();
            let mut model = [None; 80];
            for (number, &(from, length)) in parts.iter().enumerate() {
                collected.add(from, &vec![number as u8; length]);
                model[from..from + length].fill(Some(number as u8));
            }
            for (place, expected) in model.iter().enumerate() {
                let covered = collected.parts.iter().any(|(from, to)| (*from..*to).contains(&place));
                prop_assert_eq!(covered, expected.is_some());
                if let Some(number) = expected {
                    prop_assert_eq!(collected.bytes[place], *number);
                }
            }
            prop_assert!(collected.parts.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
