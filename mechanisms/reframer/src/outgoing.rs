//! The output path for packets that leave: counts bursts, sorts and merges TCP segments, and fills batches.

use element::{Batch, Cx, DropReason, Packet, Timestamp};
use flow::KeyHasher;

use crate::key::{self, FlowKind};
use crate::lists::{Leaving, Note, Output};
use crate::settings::ReframerSettings;
use crate::statistics::Statistics;
use crate::tcp;

/// A receiver of bursts from the lists: counts them and sends their packets.
pub struct Outgoing<'a, 'c> {
    /// The context, to emit full batches and drop superfluous ACKs.
    pub cx: &'a mut Cx<'c>,
    /// The batch that is being filled; the caller emits it at the end.
    pub batch: &'a mut Batch,
    /// The time at which the packets leave.
    pub now: Timestamp,
    /// The settings: REORDER, COMPRESS, MAX_TX_BURST and BYPASS_AFTER_FAIL.
    pub settings: &'a ReframerSettings,
    /// The counts that bursts and their packets are added to.
    pub statistics: &'a mut Statistics,
    /// The memory for TCP bursts that are sorted or merged.
    pub sorting: &'a mut Sorting,
    /// The hasher of flow keys.
    pub hasher: &'a KeyHasher,
    /// True if the packets of the current burst are collected in `sorting` until the burst is complete.
    pub collects: bool,
    /// True if the packets of the current burst belong to several flows between two hosts, so that each
    /// packet is counted for its own flow.
    pub mixed: bool,
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
    #[inline(always)]
    fn push(&mut self, packet: Packet) {
        send(self.cx, self.batch, self.settings.max_tx_burst, packet);
    }

    /// Sorts the segments of the collected burst (REORDER), merges its ACKs (COMPRESS) and sends the
    /// remaining packets. Updates the highest acknowledgment number in `note`.
    #[inline(never)]
    fn finish_tcp(&mut self, note: &mut Note) {
        let mut burst = std::mem::take(&mut self.sorting.burst);
        if self.settings.reorder {
            let late = self.sorting.sorter.sort(&mut burst);
            self.statistics.reordered += u64::from(late > 0);
            self.statistics.mended += late;
        }
        if self.settings.compress {
            let Outgoing { cx, statistics, .. } = self;
            let mut acknowledged = note.has_acknowledged.then_some(note.acknowledged);
            tcp::coalesce(&mut burst, &mut acknowledged, |packet| {
                statistics.coalesced += 1;
                cx.drop(packet, DropReason::Coalesced);
            });
            note.has_acknowledged = acknowledged.is_some();
            note.acknowledged = acknowledged.unwrap_or(0);
        }
        self.statistics.locality_out.see(note.hash.into(), burst.len() as u64);
        burst.drain(..).for_each(|packet| self.push(packet));
        self.sorting.burst = burst;
    }
}

impl Output<Packet> for Outgoing<'_, '_> {
    #[inline(always)]
    fn begin(&mut self, leaving: Leaving, note: &mut Note) {
        if self.settings.bypass_after > 0 {
            // For BYPASS_AFTER_FAIL: a burst of one packet counts as a failure of holding, a longer burst
            // as a success.
            note.score = note.score.saturating_add(if leaving.length == 1 { 1 } else { -1 });
        }
        self.mixed = note.kind == FlowKind::Pair as u8;
        let sorts = self.settings.reorder && leaving.length > 1;
        self.collects = (sorts || self.settings.compress) && note.kind == FlowKind::Tcp as u8;
        if !self.collects && counts(note.kind) {
            self.statistics.locality_out.see(note.hash.into(), leaving.length.into());
        }
    }

    #[inline(always)]
    fn value(&mut self, packet: Packet, came: Timestamp) {
        self.statistics.holds.see(since(came, self.now));
        if self.mixed {
            see_alone(self.statistics, self.hasher, &packet);
        }
        if self.collects { self.sorting.burst.push(packet) } else { self.push(packet) }
    }

    #[inline(always)]
    fn end(&mut self, leaving: Leaving, note: &mut Note, last: Timestamp) {
        self.statistics.release(leaving.reason, leaving.length, since(last, self.now));
        if self.collects {
            self.finish_tcp(note);
        }
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
    /// The length of each burst, and the arrival time of its last packet.
    pub bursts: Vec<(u32, Timestamp)>,
    /// The counts; only the SLF of leaving packets is updated.
    pub statistics: &'s mut Statistics,
    /// The hasher of flow keys.
    pub hasher: &'s KeyHasher,
    /// True if the packets of the current burst belong to several flows between two hosts, so that each
    /// packet is counted for its own flow.
    pub mixed: bool,
}

impl Output<Packet> for StateCollector<'_> {
    fn begin(&mut self, leaving: Leaving, note: &mut Note) {
        self.mixed = note.kind == FlowKind::Pair as u8;
        if counts(note.kind) {
            self.statistics.locality_out.see(note.hash.into(), leaving.length.into());
        }
    }

    fn value(&mut self, packet: Packet, came: Timestamp) {
        if self.mixed {
            see_alone(self.statistics, self.hasher, &packet);
        }
        self.packets.push((packet, came));
    }

    fn end(&mut self, leaving: Leaving, _: &mut Note, last: Timestamp) {
        self.bursts.push((leaving.length, last));
    }
}

/// Adds a packet to a batch, and emits the batch first if it has `limit` packets already.
#[inline(always)]
pub fn send(cx: &mut Cx<'_>, batch: &mut Batch, limit: usize, packet: Packet) {
    if batch.len() >= limit {
        let next = cx.batch();
        cx.emit(0, std::mem::replace(batch, next));
    }
    // The push does not fail, because `limit` is at most the capacity of a batch.
    if let Err(packet) = batch.push(packet) {
        cx.drop(packet, DropReason::NoBuffer);
    }
}

/// Counts for the SLF a packet that leaves in a burst of several flows, so that its own flow must be found.
#[inline(never)]
fn see_alone(statistics: &mut Statistics, hasher: &KeyHasher, packet: &Packet) {
    if let Some(located) = key::locate(packet).filter(|located| counts(located.kind as u8)) {
        statistics.locality_out.see(hasher.hash(&located.key).into(), 1);
    }
}

/// True if packets of this kind of flow ([`FlowKind`] `as u8`) count for the SLF: TCP and UDP.
fn counts(kind: u8) -> bool {
    [FlowKind::Tcp as u8, FlowKind::Udp as u8].contains(&kind)
}
