//! The output path for packets that leave: counts bursts, numbers runs, sorts and merges TCP segments, and
//! fills batches.

use element::histogram::Log2Histogram;
use element::{Batch, Cx, DropReason, Packet, Timestamp};

use crate::finder::Finder;
use crate::key::FlowKind;
use crate::lists::{Leaving, Output, ReleaseReason, ShortList};
use crate::memory::Memory;
use crate::settings::ReframerSettings;
use crate::statistics::{Burst, Statistics};
use crate::tcp;

/// The value of [`Packet::run`](element::Packet::run) while a packet is held, if its network header is not
/// marked: no element downstream can rely on its run.
pub(crate) const UNMARKED: u32 = 0;
/// The value of [`Packet::run`](element::Packet::run) while a packet is held, if the packet can be in one run
/// with packets of its flow: those that also have this value, and the same offsets of headers.
pub(crate) const PLAIN: u32 = 1;
/// The value for any other packet.
pub(crate) const SPECIAL: u32 = 2;

/// The trait of a held packet ([`Lists::hold`](crate::lists::Lists::hold)) that has the layout by which
/// packets of the usual kind are found to be alike.
pub(crate) const IN_LAYOUT: u8 = 1;
/// The trait of a held packet whose network header is not marked.
pub(crate) const WITHOUT_MARK: u8 = 2;
/// The trait of any other held packet.
pub(crate) const UNLIKE: u8 = 4;

/// A receiver of bursts from the lists: counts them and sends their packets.
pub struct Outgoing<'a, 'c> {
    /// The context, to emit full batches and drop superfluous ACKs.
    pub cx: &'a mut Cx<'c>,
    /// The batch that is being filled; the caller emits it at the end.
    pub batch: &'a mut Batch,
    /// The time at which the packets leave.
    pub now: Timestamp,
    /// True if the settings allow that a burst whose packets are alike is only counted, numbered and sent.
    pub is_plain: bool,
    /// The settings: REORDER, COMPRESS, MAX_TX_BURST and BYPASS_AFTER_FAIL.
    pub settings: &'a ReframerSettings,
    /// The counts that bursts and their packets are added to.
    pub statistics: &'a mut Statistics,
    /// The memory for TCP bursts that are sorted or merged.
    pub sorting: &'a mut Sorting,
    /// Finds the flows of packets.
    pub finder: &'a Finder,
    /// The memory of flows.
    pub memory: &'a mut Memory,
}

/// Memory for one TCP burst that is sorted or merged, reused from burst to burst.
pub struct Sorting {
    burst: Vec<Packet>,
    sorter: tcp::Sorter,
}

impl Sorting {
    /// Creates memory for bursts of up to `length` packets. Longer bursts work too, but make it grow.
    pub fn new(length: usize) -> Sorting {
        Sorting { burst: Vec::with_capacity(length), sorter: tcp::Sorter::new(length) }
    }
}

impl Outgoing<'_, '_> {
    /// Counts the times for which the packets of a burst were held, and numbers their runs. If `is_one_flow`
    /// is true, all packets belong to one flow. Returns the time for which the last packet was held.
    #[inline(always)]
    fn count_and_number(
        &mut self,
        packets: &mut [Option<Packet>],
        arrivals: impl Iterator<Item = Timestamp>,
        is_one_flow: bool,
    ) -> Timestamp {
        let Some(Some(first)) = packets.first() else { return Timestamp::ZERO };
        let (kind, offsets) = (first.run(), first.offsets());
        let run = if kind == PLAIN { self.cx.new_run() } else { 0 };
        let mut is_run = is_one_flow && kind != SPECIAL;
        let mut waited = Timestamp::ZERO;
        for (packet, came) in packets.iter_mut().flatten().zip(arrivals) {
            waited = since(came, self.now);
            self.statistics.holds.see(waited);
            is_run &= packet.run() == kind && packet.offsets() == offsets;
            packet.set_run(run);
        }
        if !is_run {
            self.number(packets.iter_mut().flatten());
        }
        waited
    }

    /// Numbers the runs of packets that may differ in what identifies a flow downstream.
    #[inline(never)]
    fn number<'p>(&mut self, packets: impl Iterator<Item = &'p mut Packet>) {
        let mut before: Option<&Packet> = None;
        for packet in packets {
            self.cx.number_run(before, packet);
            before = Some(packet);
        }
    }

    /// Updates the memory of a flow whose burst leaves. `number` is the flow's number in the memory.
    #[inline(never)]
    fn remember(&mut self, number: u32, leaving: &Leaving) {
        let Some(flow) = self.memory.flow(number) else { return };
        flow.sent = flow.sent.saturating_add(leaving.length);
        let is_alone = leaving.length == 1;
        if self.settings.bypass_after > 0 && !(is_alone && leaving.reason == ReleaseReason::Bypass) {
            // For BYPASS_AFTER_FAIL: a burst of one packet that was held counts as a failure of holding, a
            // longer burst as a success.
            flow.score = flow.score.saturating_add(if is_alone { 1 } else { -1 });
        }
    }

    /// Sends the packets of a burst, none of which is `None`.
    #[inline(always)]
    fn send(&mut self, packets: impl ExactSizeIterator<Item = Option<Packet>>) {
        if self.batch.len() + packets.len() > self.settings.max_tx_burst {
            return self.send_in_pieces(packets.flatten());
        }
        for packet in packets.flatten() {
            put(self.cx, self.batch, packet);
        }
    }

    /// Sends the packets of a burst that do not all fit into the batch: the first packets fill the batch,
    /// which is emitted, and the others follow in new batches.
    #[inline(never)]
    fn send_in_pieces(&mut self, packets: impl Iterator<Item = Packet>) {
        packets.for_each(|packet| send(self.cx, self.batch, self.settings.max_tx_burst, packet));
    }

    /// Sorts the segments of a burst (REORDER), merges its ACKs (COMPRESS) and sends the remaining packets.
    #[inline(never)]
    fn finish_tcp(&mut self, flow: Option<u32>, hash: u32, packets: &mut [Option<Packet>]) {
        let mut burst = std::mem::take(&mut self.sorting.burst);
        burst.extend(packets.iter_mut().filter_map(Option::take));
        if self.settings.reorder {
            let late = self.sorting.sorter.sort(&mut burst);
            self.statistics.reordered += u64::from(late > 0);
            self.statistics.mended += late;
        }
        if self.settings.compress {
            let Outgoing { cx, statistics, settings, memory, .. } = self;
            // Without memory of the flow, each burst is treated as its first.
            let mut unknown = None;
            let flow = flow.and_then(|number| memory.flow(number));
            let acknowledged = flow.map_or(&mut unknown, |flow| &mut flow.acknowledged);
            tcp::coalesce(&mut burst, settings.max_acks, acknowledged, |packet| {
                statistics.coalesced += 1;
                cx.drop(packet, DropReason::Coalesced);
            });
        }
        self.statistics.locality_out.see(hash.into(), burst.len() as u64);
        self.number(burst.iter_mut());
        self.send(burst.drain(..).map(Some));
        self.sorting.burst = burst;
    }

    /// Counts, numbers and sends a burst whose packets are alike. Returns false, without having done so, if
    /// the burst is to be sent by [`send_any`](Self::send_any).
    #[inline(always)]
    fn send_alike(&mut self, list: ShortList, reason: ReleaseReason, packets: &mut [Option<Packet>]) -> bool {
        let is_numbered = list.traits == IN_LAYOUT;
        let is_alike = is_numbered || list.traits == WITHOUT_MARK;
        let length = packets.len();
        if !is_alike || !self.is_plain || self.batch.len() + length > self.settings.max_tx_burst {
            return false;
        }
        let ShortList { first, last, hash, kind, .. } = list;
        let last = Timestamp(first.0 + i64::from(last.wrapping_sub(first.0 as u32)));
        let (longest, shortest) = (since(first, self.now), since(last, self.now));
        if !Log2Histogram::is_one_class(longest.0 as u64, shortest.0 as u64) {
            return false;
        }
        self.statistics.holds.add(longest.0 as u64, length as u64);
        self.statistics.release(reason, length as u32, shortest);
        self.statistics.see_burst(length as u32);
        if kind.counts() {
            self.statistics.locality_out.see(hash.into(), length as u64);
        }
        let run = if is_numbered { self.cx.new_run() } else { 0 };
        for packet in packets {
            if let Some(mut packet) = packet.take() {
                packet.set_run(run);
                put(self.cx, self.batch, packet);
            }
        }
        true
    }

    /// Counts, numbers and sends any burst.
    #[inline(never)]
    fn send_any(&mut self, leaving: Leaving, packets: &mut [Option<Packet>], times: &[u32]) {
        let is_one_flow = leaving.kind != FlowKind::Pair;
        let waited = self.count_and_number(packets, leaving.arrivals(times), is_one_flow);
        self.statistics.release(leaving.reason, leaving.length, waited);
        if self.settings.delays.exist() {
            let longest = since(leaving.first, self.now);
            self.statistics.see_class(leaving.delay_class, leaving.length, longest);
            if !self.settings.is_sampled(leaving.delay_class.into()) {
                self.statistics.leave_out(leaving.reason, leaving.length);
            }
        } else {
            self.statistics.see_burst(leaving.length);
        }
        let sorts = self.settings.reorder && leaving.length > 1;
        if (sorts || self.settings.compress) && leaving.kind == FlowKind::Tcp {
            return self.finish_tcp(leaving.flow, leaving.hash, packets);
        }
        if is_one_flow {
            if leaving.kind.counts() {
                self.statistics.locality_out.see(leaving.hash.into(), leaving.length.into());
            }
        } else {
            packets.iter().flatten().for_each(|packet| see_alone(self.statistics, self.finder, packet));
        }
        self.send(packets.iter_mut().map(|packet| packet.take()));
    }
}

impl Output<Packet> for Outgoing<'_, '_> {
    #[inline]
    fn list(&mut self, leaving: Leaving, packets: &mut [Option<Packet>], times: &[u32]) {
        if let Some(number) = leaving.flow {
            self.remember(number, &leaving);
        }
        let Leaving { first, hash, kind, traits, reason, .. } = leaving;
        let last = times.get(packets.len().wrapping_sub(1)).copied().unwrap_or(first.0 as u32);
        if !self.send_alike(ShortList { first, last, hash, kind, traits }, reason, packets) {
            self.send_any(leaving, packets, times);
        }
    }

    #[inline(always)]
    fn short_list(&mut self, list: ShortList, packets: &mut [Option<Packet>]) -> bool {
        self.send_alike(list, ReleaseReason::Timeout, packets)
    }
}

/// Returns the time from `then` to `now`, without an overflow check, because `then` is never after `now`.
#[inline(always)]
fn since(then: Timestamp, now: Timestamp) -> Timestamp {
    Timestamp(now.0.wrapping_sub(then.0))
}

/// A receiver of bursts that collects their packets for a new instance of the element, which sends them.
pub struct StateCollector<'s> {
    /// The packets, in the order in which they would have left, with their arrival times.
    pub packets: Vec<(Packet, Timestamp)>,
    /// The bursts, in the same order.
    pub bursts: Vec<Burst>,
    /// The counts; only the SLF of leaving packets is updated.
    pub statistics: &'s mut Statistics,
    /// Finds the flows of packets.
    pub finder: &'s Finder,
}

impl Output<Packet> for StateCollector<'_> {
    fn list(&mut self, leaving: Leaving, packets: &mut [Option<Packet>], times: &[u32]) {
        if leaving.kind.counts() {
            self.statistics.locality_out.see(leaving.hash.into(), leaving.length.into());
        }
        if leaving.kind == FlowKind::Pair {
            packets.iter().flatten().for_each(|packet| see_alone(self.statistics, self.finder, packet));
        }
        self.packets.extend(packets.iter_mut().filter_map(Option::take).zip(leaving.arrivals(times)));
        let last = self.packets.last().map_or(leaving.first, |&(_, came)| came);
        let Leaving { first, length, delay_class, .. } = leaving;
        self.bursts.push(Burst { length, delay_class, came: [first, last] });
    }
}

/// Adds a packet to a batch. If the batch has `limit` packets already, emits it first, so that the packet
/// begins a new batch.
#[inline(always)]
pub fn send(cx: &mut Cx<'_>, batch: &mut Batch, limit: usize, packet: Packet) {
    if batch.len() >= limit {
        let next = cx.batch();
        cx.emit(0, std::mem::replace(batch, next));
    }
    put(cx, batch, packet);
}

/// Adds a packet to a batch that has room.
#[inline(always)]
fn put(cx: &mut Cx<'_>, batch: &mut Batch, packet: Packet) {
    // The push does not fail, because a batch has at most MAX_TX_BURST packets, at most its capacity.
    if let Err(packet) = batch.push(packet) {
        cx.drop(packet, DropReason::NoBuffer);
    }
}

/// Counts for the SLF a packet that leaves in a burst of several flows, so that its own flow must be found.
#[inline(never)]
fn see_alone(statistics: &mut Statistics, finder: &Finder, packet: &Packet) {
    if let Some(located) = finder.locate(packet).filter(|located| located.kind.counts()) {
        statistics.locality_out.see(located.key.hash(&finder.hasher).into(), 1);
    }
}
