//! What becomes of packets that leave: statistics, TCP's part, and batches.

use element::{Batch, Cx, DropReason, Packet, Timestamp};
use flow::KeyHasher;

use crate::key::{self, Kind};
use crate::lists::{Leaving, Note, Output};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::tcp;

/// Where packets go that leave.
pub struct Outgoing<'a, 'c> {
    /// Takes full batches, and packets that are dropped.
    pub cx: &'a mut Cx<'c>,
    /// What leaves.
    pub batch: &'a mut Batch,
    /// The time.
    pub now: Timestamp,
    /// What to do with bursts.
    pub settings: &'a Settings,
    /// Counts them.
    pub statistics: &'a mut Statistics,
    /// Bursts whose packets are looked at, and what sorts them.
    pub sorting: &'a mut Sorting,
    /// Gives each flow its name.
    pub hasher: &'a KeyHasher,
    /// Whether packets of the current burst are collected to be looked at.
    pub collects: bool,
    /// Whether they are of several flows.
    pub mixed: bool,
}

/// Memory for bursts whose packets are looked at.
pub struct Sorting {
    burst: Vec<Packet>,
    sorter: tcp::Sorter,
}

impl Sorting {
    /// For bursts of so many packets; longer ones have it grow.
    pub fn new(length: usize) -> Sorting {
        Sorting { burst: Vec::with_capacity(length), sorter: tcp::Sorter::new(length) }
    }
}

impl Outgoing<'_, '_> {
    #[inline(always)]
    fn push(&mut self, packet: Packet) {
        send(self.cx, self.batch, self.settings.max_tx_burst, packet);
    }

    /// Puts segments in order, merges ACKs, and sends what is left on.
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
            // Held in vain, or not.
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

/// How long ago something was that is never ahead; without a look at what does not fit.
#[inline(always)]
fn since(then: Timestamp, now: Timestamp) -> Timestamp {
    Timestamp(now.0.wrapping_sub(then.0))
}

/// Takes what a successor will send on.
pub struct Legacy<'s> {
    /// In the order in which they would have left, and when they came.
    pub packets: Vec<(Packet, Timestamp)>,
    /// How many each burst has, and when its last one came.
    pub bursts: Vec<(u32, Timestamp)>,
    /// Counts their runs.
    pub statistics: &'s mut Statistics,
    /// Gives each flow its name.
    pub hasher: &'s KeyHasher,
    /// Whether the current burst is of several flows.
    pub mixed: bool,
}

impl Output<Packet> for Legacy<'_> {
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

/// Adds a packet to a batch, and sends the batch on in front of it if that is as large as it may become.
#[inline(always)]
pub fn send(cx: &mut Cx<'_>, batch: &mut Batch, limit: usize, packet: Packet) {
    if batch.len() >= limit {
        let next = cx.batch();
        cx.emit(0, std::mem::replace(batch, next));
    }
    // There is room: the limit is at most a batch's capacity.
    if let Err(packet) = batch.push(packet) {
        cx.drop(packet, DropReason::NoBuffer);
    }
}

/// Counts a packet that leaves with those of other flows.
#[inline(never)]
fn see_alone(statistics: &mut Statistics, hasher: &KeyHasher, packet: &Packet) {
    if let Some(located) = key::locate(packet).filter(|located| counts(located.kind as u8)) {
        statistics.locality_out.see(hasher.hash(&located.key).into(), 1);
    }
}

/// Whether runs of a kind of flow count for the spatial locality factor.
fn counts(kind: u8) -> bool {
    [Kind::Tcp as u8, Kind::Udp as u8].contains(&kind)
}
