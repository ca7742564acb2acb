//! # Juggler
//! Puts TCP back in order and merges segments, although the network has reordered them.
//!
//! The element is placed upstream of a receiver. Segments that arrive too early wait for the missing
//! segments ahead of them, for at most OFO_TIMEOUT. Segments in sequence wait for more segments to be merged
//! with, for at most INSEQ_TIMEOUT. This time starts when the first of them arrives or when their flow last
//! flushed segments, whichever is later. Segments that a flag asks to be delivered, and segments that cannot
//! be part of a larger one, wait only for their turn. Segments that start before the end of the flushed data
//! pass at once, because they are probably retransmissions. Segments without data pass at once, after
//! segments in sequence.
//!
//! Merging is exact: a large segment that is cut again gives the same packets byte for byte. So the headers
//! of merged segments differ in nothing but the fields that cutting restores, and the data of all of them
//! except the last one is of equal size. A segment that is found to be damaged is not merged (CHECKSUM).
//! IPv4 segments of equal identification are merged only if CONSTANT_ID is true. IPv6 extension headers
//! have to be equal. IPv6 segments are not merged if they have destination options, a fragment header that
//! holds the whole packet, or more than 8 bytes of extension headers and VLAN tags. A large segment is a
//! valid packet of up to 64 KiB; its checksums are correct, except as CHECKSUM says. It goes to the machine
//! (KernelTap, ToHost, ToDevice) as it is, and elements on the way count it as one packet. If an element
//! downstream reads lengths, payload or fields that differ between segments, or sends packets to outputs
//! that large segments do not fit, segments leave one by one, in order.
//!
//! Each worker keeps up to FLOWS flows, identified by addresses, ports and VLANs, over IPv4 and IPv6. The
//! sequence number of a flow whose opening was not seen is learned until its first segments leave. If there
//! is no room, a flow is evicted and its waiting segments leave. TCP flows that have released nothing for a
//! second are evicted first, if they have lost a segment or no segments wait. UDP flows follow, then flows
//! without waiting segments, flows whose segments wait in sequence, and flows whose segments wait after a
//! gap. Flows of which a segment has been lost are evicted last. A new UDP flow evicts no TCP flow that waits
//! or has lost a segment within the last second; without room, its datagrams pass. A SYN evicts no flow. No
//! packets are dropped for lack of room in these tables. Fragments, other protocols, UDP without the argument
//! UDP, and segments that are found to be damaged pass. TCP is found after these extension headers of IPv6:
//! hop-by-hop and destination options, routing headers whose last stop is reached, and fragment headers that
//! hold the whole packet. There may be up to 16 of them, of 256 bytes in all. Packets with other extension
//! headers pass.
//!
//! ## Usage
//! `Juggler([KEYWORDS])`
//!
//! ## Arguments
//! - `FLOWS`: the maximum number of flows at a time, in about 2,900 bytes each, with the memory for waiting
//!   segments but without packets; a new flow evicts another one. 8 suffice if each packet takes its own
//!   path, 64 for delays that differ by a millisecond.
//! - `LINE_RATE`: the bandwidth of the network, from which INSEQ_TIMEOUT follows.
//! - `INSEQ_TIMEOUT`: the time for which segments in sequence wait for more; a number without a unit is
//!   microseconds. `auto` is the time for the 45 full frames of a large segment at the line rate, with
//!   preamble, check sequence and interframe gap, plus an eighth: 62 us at 10 Gb/s.
//! - `OFO_TIMEOUT`: the time for which segments wait after a gap: the maximum difference between the delays
//!   of paths, minus the time for which the interface gathers packets.
//! - `MERGE`: true to make large segments. If false, segments in sequence do not wait.
//! - `UDP`: true to merge datagrams of equal size, too. Datagrams stay in order of arrival, but fragments
//!   overtake them.
//! - `NO_MERGE`: flows that are put in order but not merged, as a filter in the language of IPFilter, or
//!   `none`; the filter is applied to the first packet of each flow.
//! - `CHECKSUM`: which transport checksums are verified. `auto` reads the data of segments that the
//!   interface has not verified, if they become part of a large segment that leaves as one, or if they do not
//!   follow the last segment of their flow. Where all large segments come to Segment, which gives each packet
//!   its own checksum again, and without merging, no data is read of segments that arrive in order, except
//!   the first and the last of a connection. `true` verifies all checksums by reading the data, which
//!   is most of the cost of merging. `false` verifies none. A damaged segment then makes the checksum of its
//!   large segment wrong, so that the receiver drops all of its segments; if the interface or the machine
//!   computes that checksum (ToDevice, KernelTap, KernelTun, ToHost), the damage becomes invisible. A segment
//!   that is not verified is put in order by its sequence number, even if that is damaged.
//! - `CONSTANT_ID`: true to merge IPv4 segments, too, that have DF set and equal identifications, which
//!   have no meaning then (RFC 6864). Elements cut such large segments into the packets that arrived;
//!   interfaces and the machine, if they cut them, count the identification up.
//! - `QUEUE`: the maximum memory in bytes of a flow's waiting segments; a segment takes 2368. If the limit
//!   is exceeded, all of them leave.
//!
//! ## Handlers
//! - `flows`, `line_rate`, `merge`, `udp`, `no_merge`, `checksum`, `constant_id`, `queue`: the arguments.
//! - `inseq_timeout`, `ofo_timeout`: the time-outs, which can be changed.
//! - `segments_in`, `segments_out`: the number of TCP segments (and datagrams, if UDP is true) that arrived,
//!   and the number of packets made of them that left.
//! - `merged`: the mean number of segments per packet that left.
//! - `sizes`: the number of packets that left, by the number of their segments: lines with the lower bound
//!   of a class and the number of packets.
//! - `passed`: the number of other packets: fragments, other protocols, UDP if it is not merged.
//! - `damaged`: the number of segments whose checksum was verified and is wrong.
//! - `flushes`: the number of flushes for each reason.
//! - `timeouts`: the number of flushes because of a time-out.
//! - `evictions`: the number of evicted flows, by list; here `active` counts only flows without a gap.
//! - `datagrams`: the number of UDP flows.
//! - `inactive`: the number of TCP flows without waiting segments.
//! - `active`: the number of TCP flows with waiting segments, except flows in `loss_recovery`.
//! - `gap`: the number of these flows that wait after a gap.
//! - `loss_recovery`: the number of TCP flows that still miss a segment after OFO_TIMEOUT has expired or
//!   QUEUE was exceeded.
//! - `lengths`: the distribution of the lengths of the lists, taken after each batch and timer: lines with
//!   the list, a power of two, and the number of lengths from half of it to below it.
//! - `reordered_in`, `reordered_out`: the number of segments that arrived, and that left, after a later one
//!   (RFC 4737, type-P-reordered), even if their flow was evicted in between and opened again within a
//!   second.
//! - `hold_times`: the distribution of the times for which segments were held, counted from the first of the
//!   segments that left together: lines with a power of two, and the number of segments with times from half
//!   of it to below it.
//! - `held`: the number of packets that wait.
//! - `flush`: flushes all packets and removes all flows.
//! - `reset`: sets all counts to zero.
//!
//! ## Example
//! ```click
//! FromDevice(eth0) -> Juggler(OFO_TIMEOUT 500us) -> ToHost(tap0)
//! ```
//!
//! ## See also
//! Segment, RandomPath, Reframer, KernelTap, FromDevice

mod batch;
mod handlers;

use std::any::Any;

use element::args::Micros;
use element::checksums::is_known_right;
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Depends, Field, Filter, Hold, Order, State, StateAccess, Support, Target, Value,
};
use element::offload::{Cutter, complete, is_large_segment, is_partial};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, StatePart, Timestamp, manual,
};
use flow::{FlowId, KeyHasher};
use packet::VirtioNet;
use wire::checksum::Sum;
use wire::layers::{FLOW_HEADERS, Network};
use wire::merge::WholeSegment;
use wire::tcp::flags;
use wire::{FromBytes, ipv4};

use self::batch::{RecentFlow, Scratch};
use crate::flows::{Counts, EvictionList, Flows, FlushReason, Taken};
use crate::key::{SegmentFlow, WRITTEN};
use crate::outgoing::add;
use crate::queue::{Piece, SegmentRun};
use crate::settings::{AutoMicros, Checks, Settings};
use crate::statistics::Statistics;

/// The element class `Juggler`.
pub static CLASS: Class = Class {
    name: "Juggler",
    processing: "h/h",
    manual: manual!("juggler.rs"),
    args: &[
        ArgInfo::keyword("FLOWS", "unsigned", "64"),
        ArgInfo::keyword("LINE_RATE", "bandwidth", "10Gbps"),
        ArgInfo::keyword("INSEQ_TIMEOUT", "microseconds", "auto"),
        ArgInfo::keyword("OFO_TIMEOUT", "microseconds", "50us"),
        ArgInfo::keyword("MERGE", "bool", "true"),
        ArgInfo::keyword("UDP", "bool", "false"),
        ArgInfo::keyword("NO_MERGE", "pattern", "none"),
        ArgInfo::keyword("CHECKSUM", "auto or bool", "auto"),
        ArgInfo::keyword("CONSTANT_ID", "bool", "false"),
        ArgInfo::keyword("QUEUE", "unsigned", "2097152"),
    ],
    table: &handlers::HANDLERS,
    state: &[
        StatePart::drained(
            "packets",
            &["held", "active", "gap", "loss_recovery", "lengths", "hold_times", "flushes"],
        ),
        StatePart::lost(
            "flows",
            "each flow is known again with its next segment",
            &["datagrams", "inactive"],
        ),
        StatePart::kept(
            "counts",
            &[
                "segments_in",
                "segments_out",
                "merged",
                "sizes",
                "passed",
                "damaged",
                "reordered_in",
                "reordered_out",
                "timeouts",
                "evictions",
            ],
        ),
    ],
    samples: &[
        "",
        "FLOWS 2, OFO_TIMEOUT 5us, INSEQ_TIMEOUT 10us",
        "MERGE false, UDP true",
        "UDP true, NO_MERGE src port 1000, CHECKSUM false, CONSTANT_ID true, QUEUE 4800",
        "CHECKSUM true",
        "INSEQ_TIMEOUT 0, OFO_TIMEOUT 0",
    ],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let settings = Settings {
        flows: args.value::<u32>("FLOWS") as usize,
        line_rate: args.value("LINE_RATE"),
        in_sequence: args.value::<AutoMicros>("INSEQ_TIMEOUT").0,
        out_of_order: args.value::<Micros>("OFO_TIMEOUT").0,
        merges: args.value("MERGE"),
        udp: args.value("UDP"),
        no_merge: args.value("NO_MERGE"),
        checks: args.value("CHECKSUM"),
        constant_id: args.value("CONSTANT_ID"),
        queue: args.value("QUEUE"),
    };
    args.finish()?;
    match Flows::new(settings.limits(false)) {
        Ok(flows) => Ok(Box::new(Juggler::new(settings, flows))),
        Err(error) => {
            args.error(format!("FLOWS: {error}"));
            Err(Invalid)
        }
    }
}

/// The maximum delay of a timer that does not count as late: 10 us.
const LATE: Timestamp = Timestamp(10_000);
/// The result of the look-up for one packet: its segment, the key, hash and (if it was found) id of its
/// flow, and the time.
struct Known<'a> {
    segment: &'a WholeSegment,
    key: &'a SegmentFlow,
    hash: u32,
    seen: Option<FlowId>,
    now: Timestamp,
}

/// An error: the transport checksum of a segment is wrong.
#[derive(Clone, Copy, Debug)]
struct Damaged;

struct Juggler {
    settings: Settings,
    flows: Flows,
    hasher: KeyHasher,
    recent: RecentFlow,
    /// The memory for look-ups; `None` before the first batch and while a batch is processed.
    scratch: Option<Box<Scratch>>,
    cutter: Cutter,
    statistics: Statistics,
    /// The number of segments of the current batch that were forwarded at once because each was the next one.
    /// They are counted together at the end of the batch.
    in_sequence: u64,
    /// `merges` is true if large segments may leave, `is_asked` if packets with unfinished offloads may
    /// arrive, and `leaves_checksums` if checksums may be left to a device.
    merges: bool,
    is_asked: bool,
    leaves_checksums: bool,
    /// True if large segments with incomplete checksums may leave, even if they are cut downstream.
    may_offload: bool,
    /// True if the checksums of segments that are merged are verified by reading the data, except those that
    /// an interface has verified if `trusts` is true.
    reads: bool,
    trusts: bool,
    /// True if packets that are next in their flow stay in their batch: nothing is merged or checked.
    passes_in_place: bool,
    /// True if any element reads annotations: the bytes that are read must be equal in merged segments.
    compares: bool,
    /// True if the timer was late and has been set again; the next time it is not postponed.
    is_second_look: bool,
    /// The time for which the timer is set; `None` if it is not set.
    armed: Option<Timestamp>,
}

impl Juggler {
    fn new(settings: Settings, flows: Flows) -> Juggler {
        Juggler {
            settings,
            flows,
            hasher: KeyHasher::default(),
            recent: RecentFlow::NONE,
            scratch: None,
            cutter: Cutter::default(),
            statistics: Statistics::default(),
            in_sequence: 0,
            merges: false,
            is_asked: false,
            leaves_checksums: false,
            may_offload: false,
            reads: false,
            trusts: false,
            passes_in_place: false,
            compares: false,
            is_second_look: false,
            armed: None,
        }
    }

    /// Verifies the transport checksum of a segment if CHECKSUM requires it, except the checksums of large
    /// segments and checksums that a device downstream will complete. Completes a checksum that was left to a
    /// device, unless a device downstream will do so. Returns the sum of the segment's data; `None` if it is
    /// not known or not needed. Returns [`Damaged`] if the checksum is wrong. `flow` is the index of the
    /// segment's flow.
    #[inline]
    fn data(
        &self,
        packet: &mut Packet,
        segment: &WholeSegment,
        flow: Option<u32>,
    ) -> Result<Option<Sum>, Damaged> {
        let is_large = self.is_asked && is_large_segment(packet);
        let is_left = self.is_asked && is_partial(packet);
        if is_left {
            // A large segment that is cut downstream gets new checksums there.
            if self.leaves_checksums || is_large && self.may_offload {
                return Ok(None);
            }
            complete(packet);
        }
        if is_large {
            return Ok(None);
        }
        if !is_left && self.must_read(segment, flow) && !self.is_known_right(packet, segment.l3) {
            let sum = segment.verify(packet.chunks());
            return if sum.is_none() && segment.has_checksum(packet.data()) { Err(Damaged) } else { Ok(sum) };
        }
        let is_needed = self.merges && segment.is_plain && !self.leaves_checksums;
        Ok(if is_needed { segment.trust(packet.data()) } else { None })
    }

    /// True if CHECKSUM requires to verify the checksum of a segment of a flow. `auto` requires it for
    /// segments that are merged, unless they get their own checksums again downstream, and for segments whose
    /// headers would change what the flow expects.
    #[inline(always)]
    fn must_read(&self, segment: &WholeSegment, flow: Option<u32>) -> bool {
        match self.settings.checks {
            Checks::All => true,
            Checks::None => false,
            Checks::Auto => {
                let merges = || segment.is_plain && flow.is_none_or(|flow| self.flows.merges(flow));
                segment.is_tcp && !flow.is_some_and(|flow| self.flows.is_next(flow, segment))
                    || self.reads && merges()
            }
        }
    }

    /// True if the interface that received a packet has found its transport checksum right, and CHECKSUM
    /// allows to trust this. The IP header is at offset `l3`.
    #[inline(always)]
    fn is_known_right(&self, packet: &Packet, l3: u16) -> bool {
        self.trusts && is_known_right(packet, l3 as isize)
    }

    /// Takes a segment of a flow: opens the flow if necessary, and holds or forwards the packet. Segments
    /// that leave because of it are appended to `flows.released`, or to `out` if the packet is forwarded
    /// after them.
    #[inline(always)]
    fn take(&mut self, cx: &mut Cx<'_>, out: &mut Batch, mut packet: Packet, known: Known<'_>) {
        let Known { segment, key, hash, seen, now } = known;
        self.statistics.segments[0] += 1;
        let is_large = self.is_asked && is_large_segment(&packet);
        let mut merges = self.merges && !is_large && segment.is_plain;
        if self.is_asked && self.leaves_checksums && is_partial(&packet) {
            // Merging needs an unfinished checksum to be the segment's own, and not that of an inner
            // packet.
            merges &= is_own(&packet.annotations().virtio, segment);
        }
        let found = self.flows.find(key, hash, seen);
        let Ok(data) = self.data(&mut packet, segment, found) else {
            self.statistics.damaged += 1;
            found.into_iter().for_each(|flow| self.flows.give_way(flow, now));
            self.pass(cx, out, packet, FlushReason::Damaged);
            // The packet passes. Its sequence number may be damaged like the data, so it moves the flow's
            // next expected sequence number only if it equals that number. Captures contain undamaged
            // segments with wrong checksums: a capturing host has merged them, or their sender has left the
            // checksum to a device.
            return found.into_iter().for_each(|flow| self.flows.pass_by(flow, segment, now));
        };
        // If a device computes the checksum of the large segment, the checksum of the data is not needed.
        let data = data.filter(|_| !self.leaves_checksums);
        let flow = match found {
            Some(flow) => Some(flow),
            None => self.open(&packet, segment, key, hash, now),
        };
        let mark = if self.merges && self.compares { mark_of(cx, &packet) } else { 0 };
        let may_repeat_id = self.settings.constant_id && has_no_use_for_id(&packet, segment);
        let piece = Piece { packet, segment, data, merges, may_repeat_id, mark };
        match flow {
            Some(flow) if segment.is_tcp => match self.flows.take(flow, piece, now) {
                Taken::Held => {}
                Taken::InSequence(packet) => {
                    if !self.flows.released.is_empty() {
                        self.let_go(cx, out);
                    }
                    self.in_sequence += 1;
                    add(cx, out, packet);
                }
                Taken::NoMemory(packet) => self.pass(cx, out, packet, FlushReason::NoFlow),
            },
            Some(flow) => {
                if let Some(packet) = self.flows.take_unordered(flow, piece, now) {
                    self.pass(cx, out, packet, FlushReason::NoFlow);
                }
            }
            None => self.pass(cx, out, piece.packet, FlushReason::NoFlow),
        }
    }

    /// Forwards a packet at once, after the segments that are already released, and counts it.
    #[inline]
    fn pass(&mut self, cx: &mut Cx<'_>, out: &mut Batch, packet: Packet, reason: FlushReason) {
        if !self.flows.released.is_empty() {
            self.let_go(cx, out);
        }
        self.statistics.pass(reason, 1);
        add(cx, out, packet);
    }

    /// Opens a flow for a segment with data or a SYN. Returns the index of the flow, in which the packet may
    /// wait; `None` if the packet is to be forwarded at once: a SYN, an RST, a segment without data, or a
    /// segment for whose flow there is no room or memory.
    fn open(
        &mut self,
        packet: &Packet,
        segment: &WholeSegment,
        key: &SegmentFlow,
        hash: u32,
        now: Timestamp,
    ) -> Option<u32> {
        let has = |flag: u8| segment.flags & flag != 0;
        let opens = segment.is_tcp && has(flags::SYN) && !has(flags::RST);
        if has(flags::RST) || !opens && segment.length == 0 || opens && !self.flows.has_room() {
            return None;
        }
        let merges = !self.settings.no_merge.has(packet, segment);
        if opens {
            // A SYN opens a flow only if there is room, and evicts none, because it may be part of a SYN
            // flood.
            let next = segment.sequence.wrapping_add(segment.sequence_length());
            self.flows.open_connection(key, hash, next, merges, now);
            return None;
        }
        self.flows.open(key, hash, segment.sequence, segment.is_tcp, merges, now)
    }

    /// Takes a batch with large segments if no large segments may leave: cuts them first, and takes the
    /// resulting segments.
    #[cold]
    fn take_cut(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, out: &mut Batch) {
        let mut cutter = std::mem::take(&mut self.cutter);
        let mut pieces = cx.batch();
        for packet in batch.drain() {
            let mut take = |cx: &mut Cx<'_>, piece: Packet| {
                if let Err(piece) = pieces.push(piece) {
                    self.take_all(cx, &mut pieces, out);
                    // The push does not fail, because `take_all` has emptied the batch.
                    drop(pieces.push(piece));
                }
            };
            match is_large_segment(&packet) {
                true => cutter.cut(cx, packet, &mut take),
                false => take(cx, packet),
            }
        }
        self.take_all(cx, &mut pieces, out);
        cx.recycle(pieces);
        self.cutter = cutter;
    }

    /// Moves the released segments to `out`: a run as a large packet if it can form one and merging is
    /// allowed, otherwise one by one. Packets of a large segment but one count as dropped with the reason
    /// `Coalesced`.
    #[inline]
    fn let_go(&mut self, cx: &mut Cx<'_>, out: &mut Batch) {
        let now = cx.now();
        let mut released = std::mem::take(&mut self.flows.released);
        for (run, reason) in released.drain(..) {
            let segments = run.chain.packets();
            if self.merges && run.is_one && segments > 1 {
                self.statistics.release(&run, reason, 1, now);
                add(cx, out, large(run));
                cx.accounts().count_dropped(segments - 1, DropReason::Coalesced);
                continue;
            }
            self.statistics.release(&run, reason, segments as u64, now);
            let mut chain = Some(run.chain);
            while let Some(left) = chain {
                let (packet, rest) = left.pop();
                add(cx, out, packet);
                chain = rest;
            }
        }
        self.flows.released = released;
    }

    /// Does the work at the end of a batch, a timer or a flush: flushes segments that are due, counts the
    /// lengths of the lists and sets the timer.
    fn finish(&mut self, cx: &mut Cx<'_>, out: &mut Batch) {
        self.flows.finish(cx.now());
        self.let_go(cx, out);
        for list in EvictionList::ALL {
            self.statistics.lengths[list as usize].add(self.length(list), 1);
        }
        self.arm(cx);
    }

    fn arm(&mut self, cx: &mut Cx<'_>) {
        let due = self.flows.next_due();
        if due != self.armed {
            match due {
                Some(at) => cx.set_timer(0, at),
                None => cx.clear_timer(0),
            }
            self.armed = due;
        }
    }

    /// Returns the number of flows in a list, as handlers show it: the number for `Active` includes the flows
    /// in `Gap`.
    fn length(&self, list: EvictionList) -> u64 {
        let with_gap = if list == EvictionList::Active { self.flows.length(EvictionList::Gap) } else { 0 };
        (self.flows.length(list) + with_gap) as u64
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        self.flows.clear(FlushReason::Drain);
        let mut out = cx.batch();
        self.finish(cx, &mut out);
        cx.emit(0, out);
    }

    /// Returns the packet fields that are read to find flows and to merge segments, for the declaration.
    fn reads(&self) -> Vec<Field> {
        let bytes = |base| Field::Bytes { base, offset: 0, length: FLOW_HEADERS };
        let mut reads =
            vec![bytes(Base::Data), bytes(Base::Mac), bytes(Base::Network), Field::Length, Field::Payload];
        reads.extend([Base::Data, Base::Mac, Base::Network].map(Field::HeaderOffset));
        reads
    }
}

/// Returns a hash of the annotation bytes that any element reads. Packets with different hashes are not
/// merged.
fn mark_of(cx: &Cx<'_>, packet: &Packet) -> u64 {
    let bytes = packet.annotations().bytes().iter().zip(&cx.graph().facts().annotations_read);
    // The hash function is FNV-1a.
    bytes.filter(|(_, read)| **read).fold(0xcbf2_9ce4_8422_2325, |hash, (byte, _)| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// True if the unfinished checksum is the segment's own, and not that of another packet in or around it.
fn is_own(virtio: &VirtioNet, segment: &WholeSegment) -> bool {
    let offset = if segment.is_tcp { 16 } else { 6 };
    (virtio.checksum_start, virtio.checksum_offset) == (segment.l4, offset)
}

/// True if a packet is IPv4 with DF set, so that its identification has no meaning (RFC 6864).
#[inline]
fn has_no_use_for_id(packet: &Packet, segment: &WholeSegment) -> bool {
    let header = packet.data().get(segment.l3.into()..).map(ipv4::Header::ref_from_prefix);
    segment.network == Network::Ipv4 && matches!(header, Some(Ok((header, _))) if header.dont_fragment())
}

/// Makes one large packet of the segments of a run: chains the data after the first headers, adjusts the
/// headers, and describes the segments in the virtio header so that they can be cut again.
fn large(run: SegmentRun) -> Packet {
    let SegmentRun { chain, first, last_flags, data, length, repeats_id, .. } = run;
    let mut packet = chain.into_packet();
    // The first segment's checksum may be right and the others' wrong.
    packet.set_right_checksum(false);
    first.enlarge(packet.data_mut(), length as usize, last_flags, data);
    let kind = match (first.is_tcp, first.network) {
        (true, Network::Ipv4) => VirtioNet::TCP_V4,
        (true, _) => VirtioNet::TCP_V6,
        (false, _) => VirtioNet::UDP,
    };
    let announces = first.is_tcp && first.flags & flags::CWR != 0;
    let left = if data.is_none() { VirtioNet::NEEDS_CHECKSUM } else { 0 };
    packet.annotations_mut().virtio = VirtioNet {
        flags: left | if repeats_id { VirtioNet::CONSTANT_ID } else { 0 },
        gso_type: if announces { kind | VirtioNet::ECN } else { kind },
        header_length: first.start,
        gso_size: first.length,
        checksum_start: first.l4,
        checksum_offset: if first.is_tcp { 16 } else { 6 },
    };
    packet
}

/// The state that a new instance takes over when the graph is changed: the waiting packets, which it emits
/// at once, and the counts.
struct Inherited {
    waiting: Vec<(SegmentRun, FlushReason)>,
    statistics: Statistics,
    counts: Counts,
}

impl Element for Juggler {
    fn effects(&self) -> Effects {
        let mut case = Case::new(Filter::TRUE, Target::Hold(0));
        if self.settings.merges {
            let headers = Field::Bytes { base: Base::Data, offset: 0, length: WRITTEN };
            case = case.with(Action::Set(
                headers,
                Value::Pure { name: "part of a large segment", reads: self.reads() },
            ));
        }
        let table = State {
            table: "flows",
            key: self.reads(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        let effects = Effects {
            hold: Hold::PerFlow,
            state: vec![table],
            order: Order::Restores,
            support: Support {
                offloads: Some(-14),
                trusts_checksums: self.settings.checks == Checks::Auto,
                ..Support::default()
            },
            ..Effects::cases(vec![case])
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.hasher = cx.key_hasher();
        self.merges = self.settings.merges && cx.graph().may_merge();
        self.is_asked = cx.graph().receives_offloads();
        let restores = cx.graph().restores_checksums();
        self.may_offload = cx.graph().may_offload();
        self.leaves_checksums = self.may_offload && !restores;
        self.reads = match self.settings.checks {
            Checks::Auto => self.merges && !restores,
            Checks::All => true,
            Checks::None => false,
        };
        self.trusts = cx.graph().trusts_checksums();
        self.passes_in_place = !(self.merges || self.is_asked || self.reads);
        self.compares = cx.graph().facts().annotations_read.contains(&true);
        self.flows.set_limits(self.settings.limits(self.merges));
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let mut out = cx.batch();
        if self.passes_in_place {
            let passed = self.pass_in_place(&batch, cx.now());
            if passed < batch.len() {
                // `out` is empty, so that it has room.
                batch.part(&mut out, |place| place >= passed);
            }
            std::mem::swap(&mut batch, &mut out);
        }
        match self.is_asked && !cx.graph().may_merge() && batch.iter().any(is_large_segment) {
            true => self.take_cut(cx, &mut batch, &mut out),
            false => self.take_all(cx, &mut batch, &mut out),
        }
        cx.recycle(batch);
        self.finish(cx, &mut out);
        Some(out)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let now = cx.now();
        let late = self.armed.take().is_some_and(|due| now - due > LATE);
        if late && !std::mem::replace(&mut self.is_second_look, true) {
            // The thread was delayed, so it has not polled its interfaces either, and missing segments may
            // have arrived there. The time-out is postponed once by 1 us.
            let at = now + Timestamp(1000);
            cx.set_timer(0, at);
            self.armed = Some(at);
            return;
        }
        self.is_second_look = false;
        let mut out = cx.batch();
        self.finish(cx, &mut out);
        cx.emit(0, out);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
    }

    fn held(&self) -> usize {
        self.flows.held()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        self.flows.clear(FlushReason::Drain);
        let waiting = std::mem::take(&mut self.flows.released);
        let counts = std::mem::take(&mut self.flows.counts);
        Some(Box::new(Inherited { waiting, statistics: std::mem::take(&mut self.statistics), counts }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = state.downcast::<Inherited>().map_err(|_| "not the state of a Juggler")?;
        (self.statistics, self.flows.counts) = (state.statistics, state.counts);
        for (run, reason) in state.waiting {
            self.statistics.release(&run, reason, run.chain.packets() as u64, cx.now());
            let mut chain = Some(run.chain);
            while let Some(left) = chain {
                let (packet, rest) = left.pop();
                cx.emit_one(0, packet, DropReason::NoOutput);
                chain = rest;
            }
        }
        Ok(())
    }
}

impl Juggler {
    fn flushed(&self, reason: FlushReason) -> u64 {
        self.statistics.flushes[reason as usize]
    }

    /// Applies changed time-outs, also to segments that wait already.
    fn renew_limits(&mut self, cx: &mut Cx<'_>) {
        self.flows.set_limits(self.settings.limits(self.merges));
        self.arm(cx);
    }
}
