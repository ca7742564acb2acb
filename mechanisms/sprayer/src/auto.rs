//! The policy that spreads connections of overloaded workers over less busy workers.
//!
//! If there are many flows of similar size, one worker per flow is even and cheapest (FAJITA, 2024, found
//! no gain from spraying there). So nothing is spread until a worker is almost always busy while others are
//! not. Then its largest connections are spread: as many connections as necessary, and as many of their
//! packets as make all workers equally busy. If that saves the worker no time, because processing its
//! packets takes hardly longer than handing them over, spreading ends again.
//!
//! Each instance decides for the packets that arrive at one worker. Workers report their load
//! ([`WorkerLoad`]). After each [`WINDOW`] the policy decides which part of each owner's packets goes to
//! which worker ([`balance`]). Which connections are large is known from one packet sampled per batch
//! ([`connections`]).

mod balance;
mod connections;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use element::steering::{Dispatch, Spread, Work, WorkerLoad, flow_number};
use element::{Batch, Packet, Timestamp};

use crate::spray::Spray;
use balance::{Balance, Usage};
use connections::Connections;

/// The minimum length of a window: the time for which workers are observed before a decision.
const WINDOW: Timestamp = Timestamp(500_000);
/// The minimum number of packets that arrive in a window; with fewer, the workers are observed for longer
/// before the decision.
const LEAST: u64 = 128;
/// The number of packets that may wait for a worker without counting as load, because they only keep it
/// busy between two batches.
const STOCK: u64 = 64;

/// The policy that spreads connections of busy workers, for the packets that arrive at one worker.
pub struct Auto {
    spray: Spray,
    loads: Arc<[WorkerLoad]>,
    connections: Connections,
    balance: Balance,
    /// A cache for consecutive packets of one flow: the number of the last packet's flow, and its owner if
    /// the flow is spread.
    last: Option<(u32, Option<usize>)>,
    /// The number of batches so far. It selects the packet of a batch that is sampled, so that each position
    /// in a batch has its turn.
    batches: usize,
    /// The work of each worker up to the time at which the window began.
    before: Vec<Work>,
    /// The time at which the window began.
    began: Timestamp,
    /// The work of each worker in the window, computed at its end.
    usage: Vec<Usage>,
    /// The number of packets that have arrived in the window.
    came: u64,
}

impl Auto {
    /// Creates the policy. `loads` are the loads that the workers report, one per worker. `spray` says which
    /// packets any worker may handle, and selects the worker if a flow may use only a few workers.
    pub fn new(spray: Spray, loads: Arc<[WorkerLoad]>) -> Auto {
        let workers = loads.len().max(1);
        Auto {
            spray,
            connections: Connections::new(workers),
            balance: Balance::new(workers),
            last: None,
            batches: 0,
            before: vec![Work::default(); workers],
            began: Timestamp::ZERO,
            usage: vec![Usage::default(); workers],
            came: 0,
            loads,
        }
    }

    /// Ends the window at `now`: computes the work of each worker in it, and changes the parts of packets
    /// and the connections that are spread.
    #[cold]
    #[inline(never)]
    fn decide(&mut self, now: Timestamp) {
        let passed = (now - self.began).0.max(1) as f32;
        let is_first = !self.began.is_set();
        for ((load, before), usage) in self.loads.iter().zip(&mut self.before).zip(&mut self.usage) {
            let work = load.at(now);
            // The busy time may be less than before: the time since a worker's last report counts as work,
            // and may turn out to have been idle.
            usage.nanoseconds = work.busy.saturating_sub(before.busy) as f32;
            usage.packets = work.packets.saturating_sub(before.packets) as f32;
            let each = usage.nanoseconds / usage.packets.max(1.0);
            let backlog = work.waiting.saturating_sub(STOCK) as f32;
            usage.busy = (usage.nanoseconds / passed).min(1.0) + (backlog * each / passed).min(1.0);
            *before = work;
        }
        if !is_first {
            let came = self.came as f32;
            for owner in 0..self.usage.len() {
                let share = self.connections.share_of(owner);
                if share == 0.0 && self.balance.given(owner) == 0.0 {
                    continue;
                }
                self.balance.adjust(owner, came * share, passed, &self.usage);
                let chosen = self.connections.choose(owner, self.balance.given(owner));
                self.balance.apply(owner, chosen);
            }
        }
        (self.began, self.came) = (now, 0);
    }
}

impl Spread for Auto {
    #[inline]
    fn look(&mut self, batch: &Batch, now: Timestamp, owner: &dyn Dispatch) -> bool {
        self.came += batch.len() as u64;
        self.batches = self.batches.wrapping_add(1);
        let sample = batch.get(self.batches % batch.len().max(1));
        if let Some(packet) = sample
            && let Some(number) = flow_number(packet, 0)
        {
            self.connections.count(number, owner.worker_of(packet), self.spray.is_regular(packet));
        }
        if self.came >= LEAST && now - self.began >= WINDOW {
            self.decide(now);
        }
        self.last = None;
        self.connections.are_chosen()
    }

    #[inline]
    fn worker_of(&mut self, packet: &Packet, _now: Timestamp, owner: &dyn Dispatch) -> usize {
        let from = flow_number(packet, 0).and_then(|number| match self.last {
            Some((last, from)) if last == number => from,
            _ => {
                let from = self.connections.chosen(number);
                self.last = Some((number, from));
                from
            }
        });
        match from {
            Some(from) if self.spray.is_regular(packet) => match self.balance.next(from) {
                worker if worker == from || self.spray.is_for_all() => worker,
                _ => self.spray.next(packet, owner),
            },
            _ => owner.worker_of(packet),
        }
    }

    #[inline]
    fn may_stay(&self, packet: &Packet) -> bool {
        self.spray.is_regular(packet)
    }
}
