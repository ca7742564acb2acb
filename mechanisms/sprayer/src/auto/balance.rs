//! How much of each worker's packets goes to others.
//!
//! A controller: what is given away changes by what the last window has shown, so that it need not know what anything costs.

use crate::spray::STEP;

/// How busy a worker is before anything of it is given away: with less it keeps up.
const BUSY: f32 = 0.8;
/// How much busier than all on average it is then, over the past windows, of which each weighs so much; and what is made even
/// afterwards.
const UNEVEN: f32 = 1.0 / 16.0;
const WEIGHT: f32 = 1.0 / 8.0;
const EVEN: f32 = 1.0 / 256.0;
/// A worker that would be no busier than this without giving anything away gets it back.
const IDLE: f32 = 0.5;
/// Nanoseconds that a packet takes at least: nothing is handed over in less.
const WORTH: f32 = 50.0;
/// Where packets take less than this, it is watched whether a worker that gives many of them away needs less of its time for each
/// that comes in: less by so much of what it gives away. It is tried for so many windows; if that has not been, not again
/// for some, each time twice as many.
const SURELY: f32 = 300.0;
const MANY: f32 = 0.25;
const GAIN: f32 = 0.1;
const TRIAL: u32 = 6;
const PAUSE: u32 = 128;
const LONGEST_PAUSE: u32 = 8192;
/// How much the last window weighs in what packets take.
const FRESH: f32 = 0.25;
/// Parts of the ways of a worker's packets that are found at once.
const PARTS: usize = 64;

/// What a worker has done in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The part of the time that it has worked.
    pub(super) busy: f32,
    /// That time.
    pub(super) nanoseconds: f32,
    /// Packets that it has handled.
    pub(super) packets: f32,
}

/// What workers give to each other.
pub(super) struct Balance {
    rows: Vec<Row>,
}

/// What is given away of one worker's packets.
#[derive(Clone)]
struct Row {
    owner: usize,
    /// How much busier than all on average the worker has been.
    excess: f32,
    /// Nanoseconds of the worker's time for each of its packets while nothing is given away, and while something is.
    whole: f32,
    parted: f32,
    /// Windows since something has been given away, until it is tried again, and until then the next time.
    tried: u32,
    pause: u32,
    next_pause: u32,
    /// The part of its packets that each worker gets.
    to: Vec<f32>,
    /// Where each packet of those connections that are spread goes to, as parts of 2^32 up to and with each worker.
    ends: Vec<u32>,
    /// For each of so many parts of that, the first worker in it.
    first: [u16; PARTS],
    /// What chooses the next one. Steps by the golden ratio are even over all stretches, whatever the parts are.
    turn: u32,
}

impl Balance {
    /// For so many workers.
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

    /// The part of a worker's packets that goes to others.
    pub(super) fn given(&self, owner: usize) -> f32 {
        self.rows.get(owner).map_or(0.0, |row| row.to.iter().sum())
    }

    /// Changes what a worker gives away, of which so many packets have come, in so many nanoseconds.
    pub(super) fn adjust(&mut self, owner: usize, came: f32, passed: f32, usage: &[Usage]) {
        let (Some(row), Some(own)) = (self.rows.get_mut(owner), usage.get(owner)) else { return };
        let given: f32 = row.to.iter().sum();
        row.look(own.nanoseconds / came.max(1.0), own);
        // The time that all of its packets take, of one worker's.
        let demand = came / passed * row.whole;
        let is_idle = own.busy + demand * given < IDLE;
        if given > 0.0 && (is_idle || row.is_vain(given)) {
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

    /// Gives it away of connections that have so much of the worker's packets.
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

    /// The worker for the next packet of a connection that is spread.
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
    /// Notes what each of the worker's packets takes of its time.
    fn look(&mut self, each: f32, own: &Usage) {
        self.pause = self.pause.saturating_sub(1);
        let follow = |value: &mut f32| *value += if *value > 0.0 { FRESH * (each - *value) } else { each };
        if self.to.iter().all(|&part| part == 0.0) {
            (self.tried, self.parted) = (0, 0.0);
            return follow(&mut self.whole);
        }
        self.tried += 1;
        follow(&mut self.parted);
        // Packets may have come to take less meanwhile: no more than all the time is of those that it keeps.
        if own.packets > 0.0 {
            self.whole = self.whole.min(own.nanoseconds / own.packets);
        }
    }

    /// Whether giving so much away has been of no use.
    fn is_vain(&self, given: f32) -> bool {
        let is_judged = self.tried >= TRIAL && self.whole < SURELY && given >= MANY;
        is_judged && self.parted > (1.0 - GAIN * given) * self.whole
    }

    /// Whether giving away may be of use.
    fn may_try(&self) -> bool {
        self.whole >= WORTH && self.pause == 0
    }
}
