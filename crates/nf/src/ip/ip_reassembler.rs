//! # IPReassembler
//! Reassembles IPv4 packets from their fragments (RFC 791).
//!
//! The reassembled packet has the IP header, link header and annotations of the first fragment (at offset
//! 0), and the time stamp of the fragment that came last. Packets that are no fragments pass unchanged. The
//! network header annotation must be set.
//!
//! If a router has marked a fragment for congestion, the reassembled packet has the mark. If other fragments
//! say that the sender does not know such marks, the packet is dropped (RFC 3168, section 5.3).
//!
//! Fragments belong together if they have the same addresses, protocol, identification and VLANs. The VLANs
//! are the VLAN annotation and the tags between link header and network header, at most two in total.
//! Elements that number aggregates, such as AggregateIPFlows, write to the bytes of the VLAN annotation: in
//! an IPReassembler downstream of such elements, set VLAN to false.
//!
//! Packets whose fragments overlap are dropped with all of their fragments (RFC 5722, and RFC 8200, section
//! 4.5, for IPv6; RFC 1858 and RFC 3128 show what overlaps do to filters for IPv4), and so are packets whose
//! fragments contradict each other about the packet's end. A fragment that arrives a second time with the
//! same bytes is dropped alone. With OVERLAP, later fragments replace the bytes of earlier fragments, as in
//! Click, and a fragment that contradicts the packet's end is dropped alone.
//!
//! An incomplete packet expires 30 seconds after its first fragment arrived. It is evicted when its memory is
//! needed for other packets, or when one of the limits below is reached. In both cases its fragments leave by
//! output 1 as they came (with OVERLAP, some bytes may have been replaced). Without output 1 they are
//! dropped; the drop reasons are `out of time`, `memory limit` and `fragment limit`. Time is the time of the
//! packets' time stamps, or the clock's for packets without one; expired packets are removed only when the
//! next packet arrives. If time goes backwards by more than 30 seconds, incomplete packets expire, too.
//!
//! ## Memory
//! HIMEM bounds all memory for fragments: a fragment takes the slots of its packet, whatever its length or
//! offset, and its share of the tables. A fragment of up to 2,112 bytes takes about 3,000 bytes, so that
//! the default holds about 2,500 fragments. The tables are reserved at the start. Each worker has HIMEM
//! bytes for itself. If the packet pool has few free slots, packets are evicted as if HIMEM were reached.
//!
//! When memory runs out, the source that holds most (rounded down to a power of two) loses the oldest packet
//! that it has not completed. Each packet that a source completes doubles the amount that it can hold before
//! it loses any, up to 64 times; each packet that is evicted or dropped halves this again. An eighth of HIMEM
//! is reserved for remembering the completed packets of sources that hold nothing at the moment. So a flood
//! from other addresses, one or many, does not evict sources that complete packets. A source that has not
//! completed any packet yet has, between its first and last fragment, the time that a flood from many
//! addresses takes to fill the memory: 25 ms at 100,000 fragments per second.
//!
//! ## Forged fragments
//! Nothing in a fragment proves who sent it. A sender who forges another host's addresses and guesses
//! identifications can make any packet fail, or have it assembled from bytes of both senders, if all
//! lengths fit; only a checksum or authentication of the whole packet detects this (RFC 4963). MAX_OPEN
//! bounds the number of identifications between two addresses that forged fragments can occupy at a time.
//! Two attacks remain: a sender who forges MAX_OPEN first fragments between the halves of a packet makes it
//! fail, and a sender who knows identifications in advance makes these packets fail.
//!
//! ## Usage
//! `IPReassembler([KEYWORDS])`
//!
//! ## Arguments
//! - `HIMEM`: the largest number of bytes for fragments, for all packets together; when they are used up,
//!   packets are evicted as described above.
//! - `MAX_MTU_ANNO`: the annotation, two bytes, that gets the length of the longest fragment.
//! - `MAX_OPEN`: the largest number of incomplete packets from one address to another in one VLAN; for a
//!   further packet, the oldest is evicted.
//! - `MAX_FRAGMENTS`: the largest number of fragments that are held for an incomplete packet; a packet with
//!   more is evicted.
//! - `OVERLAP`: if true, fragments may overlap.
//! - `VLAN`: if true, fragments of different VLANs are kept apart.
//!
//! ## Handlers
//! - `dump`: counts, and the fragments that are held.
//! - `memory`: bytes of HIMEM that are in use.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPFragmenter(60) -> CheckIPHeader(OFFSET 0) ->
//! IPReassembler -> Discard
//! ```
//!
//! ## See also
//! IPFragmenter, CheckIPHeader

use std::any::Any;
use std::net::Ipv4Addr;

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{
    Case, Depends, Emit, Field, Filter, HeaderKind, Hold, Order, Predicate, State, StateAccess, Target,
    wire_field,
};
use element::metrics;
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
    manual,
};
use flow::KeyHasher;
use wire::ipv4::{FRAGMENT_OFFSET, MORE_FRAGMENTS};
use wire::{FromBytes, checksum, ethernet, ipv4, vlan};

use super::reassembly::{Fit, Key, LEAST_BYTES, Piece, Store};
use crate::editing::{annotation, bytes, ipv4_with_options, length_from};
use crate::ethernet::vlan::tci_annotation;

/// The element class `IPReassembler`.
pub static CLASS: Class = Class {
    name: "IPReassembler",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("ip_reassembler.rs"),
    args: &[
        ArgInfo::keyword("HIMEM", "unsigned", "8388608"),
        ArgInfo::keyword("MAX_MTU_ANNO", "annotation", ""),
        ArgInfo::keyword("MAX_OPEN", "unsigned", "64"),
        ArgInfo::keyword("MAX_FRAGMENTS", "unsigned", "128"),
        ArgInfo::keyword("OVERLAP", "bool", "false"),
        ArgInfo::keyword("VLAN", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("fragments", &["memory", "dump"])],
    samples: &["", "HIMEM 20000, MAX_MTU_ANNO 20, OVERLAP true, VLAN false -> 1/2"],
    build: |args| {
        let memory = args.value::<u32>("HIMEM") as usize;
        let longest: Option<AnnotationOffset<2>> = args.get("MAX_MTU_ANNO");
        let most_open = args.value::<u32>("MAX_OPEN");
        let most_fragments = args.value::<u32>("MAX_FRAGMENTS");
        let overlaps = args.value::<bool>("OVERLAP");
        let by_vlan = args.value::<bool>("VLAN");
        if memory < LEAST_BYTES {
            args.error(format!(
                "HIMEM: at least {LEAST_BYTES} bytes are needed, for a packet of two fragments"
            ));
        }
        if most_open == 0 {
            args.error("MAX_OPEN: at least 1");
        }
        if most_fragments < 2 {
            args.error("MAX_FRAGMENTS: at least 2");
        }
        args.finish()?;
        let store =
            Store::new(memory, KeyHasher::default()).map_err(|error| args.error(format!("HIMEM: {error}")));
        args.finish()?;
        let longest = longest.map(|AnnotationOffset(place)| place);
        Ok(Box::new(IpReassembler {
            is_spread: args.setup.is_spread(),
            longest,
            most_open,
            most_fragments,
            overlaps,
            by_vlan,
            store: store.map_err(|()| Invalid)?,
            counts: Counts::default(),
        }))
    },
    ..Class::DEFAULT
};

/// The time after which an incomplete packet expires, counted from the arrival of the fragment that came
/// first.
const PATIENCE: Timestamp = Timestamp::from_secs(30);
/// The largest number of VLAN tags that are read from a frame.
const TAGS: usize = 2;

#[derive(Clone, Copy, Default)]
struct Counts {
    fragments: u64,
    good: u64,
    failed: u64,
    bad: u64,
}

struct IpReassembler {
    /// True if packets of a flow are spread over workers, so that a fragment may arrive at a worker that
    /// does not own its set.
    is_spread: bool,
    longest: Option<usize>,
    most_open: u32,
    most_fragments: u32,
    overlaps: bool,
    by_vlan: bool,
    store: Store,
    counts: Counts,
}

/// A fragment's position in its datagram: it has the bytes `from` to `to` of the datagram's payload.
struct Part {
    key: Key,
    from: usize,
    to: usize,
    /// The offset of the fragment's payload from the start of the packet's data, in bytes.
    at: usize,
    is_last: bool,
}

/// Returns the position of a fragment in its datagram, or `Ok(None)` for a packet that is no fragment. `Err`
/// has the drop reason of a packet without an IPv4 header, or of a fragment that is invalid or cut off.
fn part_of(packet: &Packet, by_vlan: bool) -> Result<Option<Part>, DropReason> {
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
    let start = packet.offset(Base::Network).map(|at| at + header as isize);
    let at = start.and_then(|at| usize::try_from(at).ok()).ok_or(DropReason::NoHeader)?;
    let key = Key {
        source: ip.source.get(),
        destination: ip.destination.get(),
        id: ip.id.get(),
        protocol: ip.protocol,
        vlans: if by_vlan { vlans(packet) } else { [0; 2] },
    };
    Ok(Some(Part { key, from, to, at, is_last: !ip.more_fragments() }))
}

/// Returns the VLANs of a packet, the outer first: the VLAN in the annotation and the VLANs of tags, at most
/// two. A VLAN that is missing is 0.
fn vlans(packet: &Packet) -> [u16; 2] {
    let annotated = [tci_annotation(packet) & 0x0fff];
    let mut found = annotated.into_iter().chain(tagged(packet)).filter(|&id| id != 0);
    std::array::from_fn(|_| found.next().unwrap_or(0))
}

/// Returns the VLANs of the tags in the link header; 0 for tags that are missing.
fn tagged(packet: &Packet) -> [u16; TAGS] {
    let mut ids = [0; TAGS];
    let frame = packet.header(Base::Mac).unwrap_or_default();
    let Ok((header, mut rest)) = ethernet::Header::ref_from_prefix(frame) else { return ids };
    let mut ether_type = header.ether_type.get();
    for id in &mut ids {
        let Ok((tag, behind)) = vlan::Tag::ref_from_prefix(rest) else { break };
        if !vlan::is_tag(ether_type) {
            break;
        }
        *id = tag.id();
        (ether_type, rest) = (tag.ether_type.get(), behind);
    }
    ids
}

impl IpReassembler {
    /// Processes a packet: passes it, holds it or drops it. Returns the packet that leaves by output 0: the
    /// packet itself, or a reassembled packet.
    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let part = match part_of(&packet, self.by_vlan) {
            Ok(None) => return Some(packet),
            Ok(Some(part)) => part,
            Err(reason) => {
                if reason != DropReason::NoHeader {
                    self.counts.fragments += 1;
                    self.counts.bad += 1;
                }
                cx.drop(packet, reason);
                return None;
            }
        };
        self.counts.fragments += 1;
        let time = time_of(cx, &packet);
        self.end_old(cx, time);
        let set = self.hold(cx, packet, &part, time)?;
        if self.store.is_complete(set) {
            return self.join(cx, set, time);
        }
        if self.store.count(set) > self.most_fragments {
            self.give_up(cx, set, DropReason::FragmentLimit);
        }
        if self.store.is_over_full() || cx.pool().is_scarce() {
            self.make_room(cx);
        }
        None
    }

    /// Adds a fragment to its set, the fragments of the same datagram, and returns the index of the set.
    /// Returns `None` if no set could be made for the fragment, or, without OVERLAP, if the fragment overlaps
    /// another or contradicts the datagram's end; the set is then closed, and its fragments are dropped.
    fn hold(&mut self, cx: &mut Cx<'_>, packet: Packet, part: &Part, time: Timestamp) -> Option<u32> {
        let set = match self.store.find(&part.key) {
            Some(set) => set,
            None => {
                if let Some((open, oldest)) = self.store.sets_of_pair(&part.key)
                    && open >= self.most_open
                {
                    self.give_up(cx, oldest, DropReason::FragmentLimit);
                }
                let Some(set) = self.store.open(&part.key, time) else {
                    cx.drop(packet, DropReason::TableFull);
                    return None;
                };
                set
            }
        };
        let [from, to, at] = [part.from, part.to, part.at].map(|n| n as u32);
        let piece = Piece { packet, from, to, at };
        let covered = |packet| cx.drop(packet, DropReason::Coalesced);
        match self.store.add(set, piece, part.is_last, self.overlaps, covered) {
            Fit::Held(_) => Some(set),
            Fit::Known(packet) => {
                cx.drop(packet, DropReason::Coalesced);
                Some(set)
            }
            Fit::Contradiction(packet) => {
                self.counts.bad += 1;
                cx.drop(packet, DropReason::Overlap);
                if !self.overlaps {
                    self.end(set, |packet| cx.drop(packet, DropReason::Overlap));
                    return None;
                }
                Some(set)
            }
        }
    }

    /// Closes a set of fragments that is complete, and returns the reassembled packet. Returns `None` if the
    /// packet would be too long or if there is no memory for it; the fragments are then dropped.
    fn join(&mut self, cx: &mut Cx<'_>, set: u32, time: Timestamp) -> Option<Packet> {
        let length = self.store.length(set) as usize;
        let Piece { mut packet, to, at, .. } = self.store.pop(set)?;
        let mut longest = total_length(&packet);
        let mut marks = congestion(&packet);
        let header = packet.offset(Base::Network).map_or(0, |network| (at as isize - network) as usize);
        if header + length > usize::from(u16::MAX) {
            // The datagram is too long with the header of its first fragment: the headers of the other
            // fragments were shorter.
            self.counts.bad += 1;
            cx.drop(packet, DropReason::BadIpHeader);
            self.end(set, |packet| cx.drop(packet, DropReason::BadIpHeader));
            return None;
        }
        packet.truncate((at + to) as usize);
        let mut whole = Some(packet);
        while let Some(piece) = self.store.pop(set) {
            longest = longest.max(total_length(&piece.packet));
            marks |= congestion(&piece.packet);
            for bytes in piece.bytes() {
                whole = whole.and_then(|whole| cx.append(whole, bytes));
            }
            let reason = if whole.is_some() { DropReason::Coalesced } else { DropReason::NoBuffer };
            cx.drop(piece.packet, reason);
        }
        self.store.close(set, true);
        let mut packet = whole?;
        if marks & (1 << ecn::CE) != 0 && marks & (1 << ecn::NOT_ECT) != 0 {
            // The mark of a router would be lost, or would reach a receiver that does not expect it.
            self.counts.bad += 1;
            cx.drop(packet, DropReason::BadIpHeader);
            return None;
        }
        self.counts.good += 1;
        let bytes = packet.header_mut(Base::Network).unwrap_or_default();
        if let Ok((ip, _)) = ipv4::Header::mut_from_prefix(bytes) {
            ip.total_length.set((header + length) as u16);
            ip.fragment.set(ip.fragment.get() & !(MORE_FRAGMENTS | FRAGMENT_OFFSET));
            if marks & (1 << ecn::CE) != 0 {
                ip.tos |= ecn::CE;
            }
            if let Some(header) = bytes.get_mut(..header) {
                let _ = checksum::fill_ipv4(header);
            }
        }
        packet.set_time(time);
        // The flow mark names the flow of the first fragment's ports. The payload of the whole packet may
        // begin with other ports.
        packet.set_flow_mark(None);
        if let Some(place) = self.longest {
            packet.annotations_mut().set_array(place, longest.to_ne_bytes());
        }
        Some(packet)
    }

    /// Closes a set without reassembling its datagram, and passes each of its fragments to `fragment`.
    fn end(&mut self, set: u32, mut fragment: impl FnMut(Packet)) {
        self.counts.failed += 1;
        while let Some(piece) = self.store.pop(set) {
            fragment(piece.packet);
        }
        self.store.close(set, false);
    }

    /// Evicts a set, the fragments of an incomplete datagram. The fragments leave by output 1; without an
    /// output 1 they are dropped for `reason`.
    fn give_up(&mut self, cx: &mut Cx<'_>, set: u32, reason: DropReason) {
        self.end(set, |packet| cx.emit_one(1, packet, reason));
    }

    /// Evicts the sets (the fragments of incomplete datagrams) that are older than [`PATIENCE`] at the time
    /// `now`, the oldest first. A set that began later than `now` by more than [`PATIENCE`] is evicted, too:
    /// time stamps have gone backwards, and the search, which ends at the first set that stays, would not
    /// reach the sets after it.
    fn end_old(&mut self, cx: &mut Cx<'_>, now: Timestamp) {
        while let Some((set, began)) = self.store.oldest()
            && (now - began > PATIENCE || began - now > PATIENCE)
        {
            self.give_up(cx, set, DropReason::OutOfTime);
        }
    }

    /// Evicts sets (the fragments of incomplete datagrams) until the store is within its limit of memory. At
    /// least one set is evicted even if the store is within its limit, because the packet pool may have few
    /// free slots.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while let Some(set) = self.store.victim() {
            self.give_up(cx, set, DropReason::MemoryLimit);
            if !self.store.is_over_full() {
                break;
            }
        }
    }
}

/// Returns the time at which a packet arrived: its time stamp or, without a time stamp, the time of the
/// clock.
fn time_of(cx: &Cx<'_>, packet: &Packet) -> Timestamp {
    if packet.time().is_set() { packet.time() } else { cx.now() }
}

/// Returns the total length in a packet's IPv4 header, in bytes.
fn total_length(packet: &Packet) -> u16 {
    ipv4_with_options(packet).map_or(0, |(ip, _)| ip.total_length.get())
}

/// The values of the field for congestion notification (RFC 3168, section 5) that matter here.
mod ecn {
    /// The sender does not know congestion notification.
    pub(super) const NOT_ECT: u8 = 0;
    /// A router on the way was congested.
    pub(super) const CE: u8 = 3;
}

/// Returns the value of a packet's field for congestion notification, as the bit with this number.
fn congestion(packet: &Packet) -> u8 {
    ipv4_with_options(packet).map_or(0, |(ip, _)| 1 << (ip.tos & 3))
}

/// Takes fragments whose flow another worker owns out of a batch, and sends them to their owners. Packets
/// that are no fragments stay in the batch.
fn send_fragments_home(cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
    let (me, _) = cx.worker();
    let is_fragment = |packet: &Packet| {
        let ip = packet.header(Base::Network).and_then(|ip| ipv4::Header::ref_from_prefix(ip).ok());
        ip.is_some_and(|(ip, _)| ip.is_fragment())
    };
    let mut home = cx.batch();
    batch.sift(
        |packet| if is_fragment(packet) && cx.workers().owner_of(packet) != me { Err(()) } else { Ok(()) },
        // The fragments come from one batch, so they fit into one batch.
        |packet, ()| _ = home.push(packet),
    );
    cx.send_home(port, home);
}

impl Element for IpReassembler {
    fn effects(&self) -> Effects {
        let whole = Filter::All(vec![
            Predicate::present(HeaderKind::Ipv4),
            Filter::Leaf(Predicate::In {
                field: wire_field::IP_FRAGMENT,
                mask: (MORE_FRAGMENTS | FRAGMENT_OFFSET).into(),
                set: classify::IntervalSet::one(0, 0),
            }),
        ]);
        let fragments = Case::new(Filter::TRUE, Target::Hold(0));
        let key = vec![wire_field::IP_SRC, wire_field::IP_DST, wire_field::IP_ID, wire_field::IP_PROTOCOL];
        let mut reads = vec![Field::Payload, Field::Length, Field::TimeStamp, annotation(0, 48)];
        reads.push(HeaderKind::Ipv4.extent());
        if self.by_vlan {
            reads.push(bytes(Base::Mac, ethernet::Header::LEN - 2, 2 + (TAGS * vlan::Tag::LEN) as u16));
        }
        let mut effects = Effects::cases(vec![Case::new(whole, Target::Output(0)), fragments]);
        effects.hold = Hold::Delay;
        effects.order = Order::MayReorder;
        effects.emits = vec![Emit {
            name: "reassembled packet",
            input: None,
            reads,
            output: None,
            starts: Some(HeaderKind::Ipv4),
            when: Filter::TRUE,
        }];
        effects.state =
            vec![State { table: "fragments", key, both_directions: false, access: StateAccess::EveryPacket }];
        // Only fragments go to the worker that owns their flow, and this element sends them there itself;
        // whole packets are handled by any worker.
        effects.finds_state = true;
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
        // A packet that is no fragment also advances the time: incomplete datagrams that are too old at its
        // time expire.
        if let Some(last) = batch.iter().last().filter(|_| self.store.held() > 0) {
            let now = time_of(cx, last);
            self.end_old(cx, now);
        }
        batch.replace_each(|packet| self.take(cx, packet));
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.store.seed(cx.key_hasher());
        Ok(())
    }

    fn held(&self) -> usize {
        self.store.held()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        while let Some((set, _)) = self.store.oldest() {
            self.end(set, |packet| cx.drop(packet, DropReason::Stop));
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let (limit, hasher) = (self.store.limit(), KeyHasher::default());
        let empty = Store::new(LEAST_BYTES, hasher).ok()?;
        Some(Box::new((limit, std::mem::replace(&mut self.store, empty), self.counts)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (limit, store): (usize, Store);
        (limit, store, self.counts) = *state.downcast().map_err(|_| "the state of another class")?;
        let before = std::mem::replace(&mut self.store, store);
        if limit != before.limit() {
            while let Some((set, _)) = self.store.oldest() {
                self.end(set, |packet| cx.drop(packet, DropReason::Stop));
            }
            self.store = before;
            return Err("it has another HIMEM now, so its fragments are dropped".into());
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<IpReassembler>] = &[
    Handler::<IpReassembler>::read("dump", |e, _, _| {
        let Counts { fragments, good, failed, bad } = e.counts;
        let mut text = format!(
            "frags seen total:    {fragments}\ngood reassemblies:   {good}\nfailed reassemblies: {failed}\nbad fragments seen:  {bad}\ncached chunk data:\n"
        );
        let mut sets: Vec<_> = e.store.iter().collect();
        sets.sort_unstable_by_key(|(key, _)| (key.source, key.destination, key.id, key.protocol, key.vlans));
        for (key, pieces) in sets {
            let [source, destination] = [key.source, key.destination].map(Ipv4Addr::from_bits);
            text += &format!(" ({source}, 0, {destination}, 0) {}", key.id);
            let mut pieces = pieces.map(|piece| (piece.from, piece.to)).peekable();
            while let Some((from, mut to)) = pieces.next() {
                while let Some((_, end)) = pieces.next_if(|(start, _)| *start == to) {
                    to = end;
                }
                text += &format!(" ({from},{to})");
            }
            text.push('\n');
        }
        Ok(text)
    })
    .summed(),
    Handler::<IpReassembler>::count("memory", |e| e.store.memory() as u64).metric(metrics::MEMORY),
];
