//! The parts of each owner's packets that go to other workers. The owner of a packet is the worker that owns
//! the packet's flow.
//!
//! This is a feedback controller: after each window, the parts are changed according to the loads in that
//! window, so that the costs of packets need not be known in advance. Parts are fractions from 0 to 1.

use crate::spray::STEP;

/// The load (see [`Usage::busy`]) from which on a worker gives packets away. A less busy worker keeps up.
const BUSY: f32 = 0.8;
/// Loads are compared by their *excess* over the average load of all workers. A busy worker begins to give
/// packets away if the moving average of its excess reaches `UNEVEN`; the last window has the weight `WEIGHT`
/// in this average. Afterwards an excess of `EVEN` or more is corrected.
const UNEVEN: f32 = 1.0 / 16.0;
const WEIGHT: f32 = 1.0 / 8.0;
const EVEN: f32 = 1.0 / 256.0;
/// A worker whose load would be below this without giving packets away gets all its packets back.
const IDLE: f32 = 0.5;
/// The minimum processing time of a packet in nanoseconds from which on packets are given away. Giving away
/// cheaper packets would save nothing, because handing over a packet to another worker takes about as long.
const WORTH: f32 = 50.0;
/// The limits of a trial. If packets take less than `SURELY` nanoseconds, and a worker gives away at least
/// the part `MANY` of them, spreading is on trial for `TRIAL` windows. From then on, the worker's time per
/// incoming packet must be lower than without spreading, by a fraction of at least `GAIN` times the part that
/// is given away. After a failure, nothing is given away for `PAUSE` windows; each further failure doubles
/// the pause, up to `LONGEST_PAUSE`.
const SURELY: f32 = 300.0;
const MANY: f32 = 0.25;
const GAIN: f32 = 0.1;
const TRIAL: u32 = 6;
const PAUSE: u32 = 128;
const LONGEST_PAUSE: u32 = 8192;
/// The weight of the last window in the moving averages of the time per packet.
const FRESH: f32 = 0.25;
/// The number of equal intervals into which the range of [`Row::turn`] (0 to 2^32) is divided. [`Row::first`]
/// has an entry for each interval, which speeds up the search for the worker of a packet.
const PARTS: usize = 64;

/// The work of a worker in a window: its load, its busy time (with packets and with anything else), and the
/// number of packets that it handled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The load: the busy part of the window, plus the time that waiting packets will take as a part of the
    /// window (at most 1 each).
    pub(super) busy: f32,
    /// The busy time in nanoseconds.
    pub(super) nanoseconds: f32,
    /// The number of packets that the worker has handled.
    pub(super) packets: f32,
}

/// For each worker, as the owner of flows: the parts of its packets that it gives to other workers.
pub(super) struct Balance {
    rows: Vec<Row>,
}

/// The parts of one owner's packets that are given away, and the state of its controller.
#[derive(Clone)]
struct Row {
    owner: usize,
    /// The moving average of the excess of the owner's load over the average load.
    excess: f32,
    /// The owner's busy time per incoming packet, in nanoseconds: `whole` if no packets are given away,
    /// `parted` if some are. 0 if not known.
    whole: f32,
    parted: f32,
    /// Three counts of windows: `tried`, the windows since the owner began to give packets away; `pause`, the
    /// windows until it may try again; and `next_pause`, the pause after the next failed trial.
    tried: u32,
    pause: u32,
    next_pause: u32,
    /// For each worker, the fraction of the owner's packets that the owner gives to that worker; 0 for the
    /// owner itself.
    to: Vec<f32>,
    /// For each worker, the upper end of its region in the range of `turn` (2^32), for packets of spread
    /// connections. Regions follow each other in the order of workers; the owner keeps what is above the
    /// last.
    ends: Vec<u32>,
    /// For each of the [`PARTS`] equal intervals of the range of `turn`, the first worker whose region
    /// reaches into it.
    first: [u16; PARTS],
    /// A 32-bit value that selects the worker of the next packet by the region that it lies in. It grows by
    /// [`STEP`], which is 0.618 times 2^32, per packet (modulo 2^32), so that its values are evenly
    /// distributed over regions of any size.
    turn: u32,
}

impl Balance {
    /// Creates a balance for `workers` workers, none of which gives packets away.
    pub(super) fn new(workers: usize) -> Balance {
        let row = |owner| Row {
            owner,
            excess: 0.0,
            whole: 0.0,
            parted: 0.0,
            tried: 0,
            pause: 0,
            next_pause: PAUSE,
            to: vec![0.0; workers],
            ends: vec![0; workers],
            first: [owner as u16; PARTS],
            turn: 0,
        };
        Balance { rows: (0..workers).map(row).collect() }
    }

    /// Returns the fraction of an owner's packets that the owner gives to other workers.
    pub(super) fn given(&self, owner: usize) -> f32 {
        self.rows.get(owner).map_or(0.0, |row| row.to.iter().sum())
    }

    /// Changes the fractions of its packets that an owner gives to other workers, at the end of a window of
    /// `passed` nanoseconds. In this window, `came` packets of this owner arrived; `usage` is the work of
    /// each worker.
    pub(super) fn adjust(&mut self, owner: usize, came: f32, passed: f32, usage: &[Usage]) {
        let (Some(row), Some(own)) = (self.rows.get_mut(owner), usage.get(owner)) else { return };
        let given: f32 = row.to.iter().sum();
        row.look(own.nanoseconds / came.max(1.0), own);
        // The load that all packets of the owner would cause, if it gave none away.
        let demand = came / passed * row.whole;
        let is_idle = own.busy + demand * given < IDLE;
        if given > 0.0 && (is_idle || row.is_useless(given)) {
            if !is_idle {
                row.pause = row.next_pause;
                row.next_pause = (2 * row.next_pause).min(LONGEST_PAUSE);
            }
            row.to.fill(0.0);
            row.excess = 0.0;
            return;
        }
        let mean = usage.iter().map(|usage| usage.busy).sum::<f32>() / usage.len() as f32;
        for (part, other) in row.to.iter_mut().zip(usage) {
            if other.busy > mean + EVEN && other.busy > own.busy + EVEN {
                *part *= 1.0 - (other.busy - mean) / other.busy;
            }
        }
        let mut given: f32 = row.to.iter().sum();
        if given < EVEN {
            row.to.fill(0.0);
            given = 0.0;
        }
        let excess = own.busy - mean;
        row.excess += WEIGHT * (excess - row.excess);
        let is_uneven = if given > 0.0 { excess >= EVEN } else { row.excess >= UNEVEN && row.may_try() };
        if own.busy < BUSY || !is_uneven {
            return;
        }
        let room = |other: &Usage| (mean - other.busy).max(0.0);
        let all_room: f32 = usage.iter().map(room).sum();
        let more = excess / demand.max(own.busy) / all_room.max(f32::MIN_POSITIVE);
        row.to.iter_mut().zip(usage).for_each(|(part, other)| *part += more * room(other));
        let given: f32 = row.to.iter().sum();
        if given > 1.0 {
            row.to.iter_mut().for_each(|part| *part /= given);
        }
    }

    /// Turns the fractions of its packets that an owner gives to other workers into regions of the range of
    /// `turn`. Packets of spread connections are assigned to workers by these regions. The spread connections
    /// have the fraction `chosen` of the owner's packets.
    pub(super) fn apply(&mut self, owner: usize, chosen: f32) {
        let Some(row) = self.rows.get_mut(owner) else { return };
        let (mut end, scale) = (0.0, (1u64 << 32) as f32 / chosen.max(f32::MIN_POSITIVE));
        for (to, part) in row.ends.iter_mut().zip(&row.to) {
            end += part * scale;
            *to = end as u32;
        }
        let mut worker = 0;
        for (part, first) in row.first.iter_mut().enumerate() {
            let from = (part as u32) << (32 - PARTS.ilog2());
            while row.ends.get(worker).is_some_and(|&end| end <= from) {
                worker += 1;
            }
            *first = worker as u16;
        }
    }

    /// Returns the worker for the next packet of a spread connection of this owner.
    #[inline]
    pub(super) fn next(&mut self, owner: usize) -> usize {
        let Some(row) = self.rows.get_mut(owner) else { return owner };
        row.turn = row.turn.wrapping_add(STEP);
        let first = usize::from(row.first[(row.turn >> (32 - PARTS.ilog2())) as usize]);
        let ends = row.ends.get(first..).unwrap_or_default();
        ends.iter().position(|&end| row.turn < end).map_or(row.owner, |more| first + more)
    }
}

impl Row {
    /// Records `each`, the owner's busy time in nanoseconds per incoming packet in the window that ended: in
    /// `parted` while the owner gives packets away, otherwise in `whole`. Counts the windows of a trial up,
    /// and those of a pause down.
    fn look(&mut self, each: f32, own: &Usage) {
        self.pause = self.pause.saturating_sub(1);
        let follow = |value: &mut f32| *value += if *value > 0.0 { FRESH * (each - *value) } else { each };
        if self.to.iter().all(|&part| part == 0.0) {
            (self.tried, self.parted) = (0, 0.0);
            return follow(&mut self.whole);
        }
        self.tried += 1;
        follow(&mut self.parted);
        // The cost of packets may have decreased since the owner kept all packets and `whole` was measured.
        // It is at most the owner's busy time divided by the number of packets that the owner has handled
        // itself.
        if own.packets > 0.0 {
            self.whole = self.whole.min(own.nanoseconds / own.packets);
        }
    }

    /// True if a trial is over and has failed: although the owner gives away the fraction `given` of its
    /// packets, its busy time per incoming packet has not decreased enough.
    fn is_useless(&self, given: f32) -> bool {
        let is_judged = self.tried >= TRIAL && self.whole < SURELY && given >= MANY;
        is_judged && self.parted > (1.0 - GAIN * given) * self.whole
    }

    /// True if packets are expensive enough to be given away, and no pause after a failed trial is running.
    fn may_try(&self) -> bool {
        self.whole >= WORTH && self.pause == 0
    }
}
