//! The output path: statistics, the part for TCP, and batches.

use element::{Batch, Cx, DropReason, Packet, Timestamp};
use flow::KeyHasher;

use crate::key::{self, Kind};
use crate::lists::{Leaving, Note, Output};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::tcp;

/// The output for packets that leave.
pub struct Outgoing<'a, 'c> {
    /// The context, which takes full batches and dropped packets.
    pub cx: &'a mut Cx<'c>,
    /// The batch that collects packets that leave.
    pub batch: &'a mut Batch,
    /// The current time.
    pub now: Timestamp,
    /// The settings, which say how bursts are processed.
    pub settings: &'a Settings,
    /// The counts.
    pub statistics: &'a mut Statistics,
    /// The memory for bursts whose packets are inspected, and their sorter.
    pub sorting: &'a mut Sorting,
    /// The hasher of flow keys.
    pub hasher: &'a KeyHasher,
    /// True if packets of the current burst are collected to be inspected.
    pub collects: bool,
    /// True if the packets of the current burst belong to several flows.
    pub mixed: bool,
}

/// The memory for bursts whose packets are inspected.
pub struct Sorting {
    burst: Vec<Packet>,
    sorter: tcp::Sorter,
}

impl Sorting {
    /// Creates memory for bursts of `length` packets; longer bursts make it grow.
    pub fn new(length: usize) -> Sorting {
        Sorting { burst: Vec::with_capacity(length), sorter: tcp::Sorter::new(length) }
    }
}

impl Outgoing<'_, '_> {
    #[inline(always)]
    fn push(&mut self, packet: Packet) {
        send(self.cx, self.batch, self.settings.max_tx_burst, packet);
    }

    /// Sorts segments, merges ACKs, and sends the remaining packets.
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
            // A burst of one packet counts as a failure of holding, a longer burst as a success.
            note.score = note.score.saturating_add(if leaving.length == 1 { 1 } else { -1 });
        }
        self.mixed = note.kind == Kind::Pair as u8;
        let sorts = self.settings.reorder && leaving.length > 1;
        self.collects = (sorts || self.settings.compress) && note.kind == Kind::Tcp as u8;
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

/// An output that collects the packets which a successor will send.
pub struct StateCollector<'s> {
    /// The packets, in the order in which they would have left, with their arrival times.
    pub packets: Vec<(Packet, Timestamp)>,
    /// The length of each burst, and the arrival time of its last packet.
    pub bursts: Vec<(u32, Timestamp)>,
    /// The counts, for the runs of these packets.
    pub statistics: &'s mut Statistics,
    /// The hasher of flow keys.
    pub hasher: &'s KeyHasher,
    /// True if the packets of the current burst belong to several flows.
    pub mixed: bool,
}

impl Output<Packet> for StateCollector<'_> {
    fn begin(&mut self, leaving: Leaving, note: &mut Note) {
        self.mixed = note.kind == Kind::Pair as u8;
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
    // The push cannot fail: the limit is at most a batch's capacity.
    if let Err(packet) = batch.push(packet) {
        cx.drop(packet, DropReason::NoBuffer);
    }
}

/// Counts a packet that leaves in a burst of several flows.
#[inline(never)]
fn see_alone(statistics: &mut Statistics, hasher: &KeyHasher, packet: &Packet) {
    if let Some(located) = key::locate(packet).filter(|located| counts(located.kind as u8)) {
        statistics.locality_out.see(hasher.hash(&located.key).into(), 1);
    }
}

/// True if runs of a kind of flow count for the spatial locality factor.
fn counts(kind: u8) -> bool {
    [Kind::Tcp as u8, Kind::Udp as u8].contains(&kind)
}
