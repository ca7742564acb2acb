//! How much of each worker's packets goes to others.
//!
//! A controller: what is given away changes by what the last window has shown, so that it need not know what anything costs.

/// How busy a worker is before anything of it is given away: with less it keeps up.
const BUSY: f32 = 0.8;
/// How much busier than all on average it is then, over the past windows, of which each weighs so much; and what is made even
/// afterwards.
const UNEVEN: f32 = 1.0 / 16.0;
const WEIGHT: f32 = 1.0 / 8.0;
const EVEN: f32 = 1.0 / 256.0;
/// A worker that would be no busier than this without giving anything away gets it back.
const IDLE: f32 = 0.5;
/// Nanoseconds that a packet takes at least where giving it away pays; less of them, and it is given back.
const WORTH: f32 = 130.0;
const NOT_WORTH: f32 = 150.0;
/// What is less than this is nothing.
const LEAST: f32 = 1.0 / 64.0;
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

    /// Changes what a worker gives away, of which so many packets come per nanosecond.
    pub(super) fn adjust(&mut self, owner: usize, rate: f32, usage: &[Usage]) {
        let (Some(row), Some(own)) = (self.rows.get_mut(owner), usage.get(owner)) else { return };
        let given: f32 = row.to.iter().sum();
        let each = match given > 0.0 {
            false => own.nanoseconds / own.packets.max(1.0),
            // What it does itself is mostly giving away; what a packet takes shows elsewhere.
            true => {
                let takers = || usage.iter().zip(&row.to).filter(|(_, part)| **part > 0.0);
                let (time, packets) =
                    takers().fold((0.0, 0.0), |(t, n), (u, _)| (t + u.nanoseconds, n + u.packets));
                if packets > 0.0 { time / packets } else { NOT_WORTH }
            }
        };
        // The time that all of its packets take, of one worker's.
        let demand = rate * each;
        if given > 0.0 && (each < NOT_WORTH || own.busy + demand * given < IDLE) {
            row.to.iter_mut().for_each(|part| *part /= 2.0);
            if given < 2.0 * LEAST {
                row.to.fill(0.0);
                row.excess = 0.0;
            }
            return;
        }
        let mean = usage.iter().map(|usage| usage.busy).sum::<f32>() / usage.len() as f32;
        for (part, other) in row.to.iter_mut().zip(usage) {
            if other.busy > mean + EVEN && other.busy > own.busy + EVEN {
                *part *= 1.0 - (other.busy - mean) / other.busy;
            }
        }
        let excess = own.busy - mean;
        row.excess += WEIGHT * (excess - row.excess);
        let is_uneven = if given > 0.0 { excess >= EVEN } else { row.excess >= UNEVEN && each >= WORTH };
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
        row.turn = row.turn.wrapping_add(0x9e37_79b9);
        let first = usize::from(row.first[(row.turn >> (32 - PARTS.ilog2())) as usize]);
        let ends = row.ends.get(first..).unwrap_or_default();
        ends.iter().position(|&end| row.turn < end).map_or(row.owner, |more| first + more)
    }
}
