//! The counts of generations of the graph that have ended.

use element::context::Counters;

use crate::report::{PacketTotals, WorkerReport};

/// The counts of elements of earlier generations of the graph that have no heir, and of the exchanges of
/// these generations.
#[derive(Default)]
pub(crate) struct Former {
    totals: PacketTotals,
    exchanged: WorkerReport,
}

impl Former {
    /// Adds the counts of the elements of a generation that has ended.
    pub(crate) fn add(&mut self, counters: &[Counters]) {
        for counters in counters {
            self.totals.packets_in += counters.made;
            self.totals.out += counters.sent;
            self.totals.dropped += counters.dropped();
            for (reason, n) in &counters.drops {
                *self.totals.drops.entry(reason.as_str()).or_insert(0) += n;
            }
        }
    }

    /// Adds the counts of the exchange of a generation that has ended.
    pub(crate) fn add_exchange(&mut self, exchange: WorkerReport) {
        self.exchanged = self.add_exchanged(exchange);
    }

    /// Adds the counts to the sums of the current generation.
    pub(crate) fn add_to(&self, totals: &mut PacketTotals) {
        totals.packets_in += self.totals.packets_in;
        totals.out += self.totals.out;
        totals.dropped += self.totals.dropped;
        for (reason, n) in &self.totals.drops {
            *totals.drops.entry(reason).or_insert(0) += n;
        }
    }

    /// Returns the counts of an exchange with those of the exchanges of earlier generations.
    pub(crate) fn add_exchanged(&self, exchange: WorkerReport) -> WorkerReport {
        let before = &self.exchanged;
        WorkerReport {
            handed: exchange.handed + before.handed,
            taken: exchange.taken + before.taken,
            late: exchange.late + before.late,
            waited: exchange.waited.max(before.waited),
            displaced: exchange.displaced.max(before.displaced),
            ..exchange
        }
    }
}
