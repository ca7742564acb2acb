//! The packet counts of the generations of the graph that ended before the current one.

use element::context::Counters;

use crate::report::{PacketTotals, WorkerReport};

/// The packet counts of the elements of earlier generations of the graph that have no heir, and of the
/// exchanges by which these generations handed packets over between workers.
#[derive(Default)]
pub(crate) struct Former {
    totals: PacketTotals,
    exchanged: WorkerReport,
}

impl Former {
    /// Adds the packet counts of the elements of a generation of the graph that has ended. `counters` are
    /// indexed by element number. Elements with an heir have handed their counts on to the heir before,
    /// except for packets that they still held.
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

    /// Adds the counts of the exchange (packets handed over between workers) of a generation of the graph
    /// that has ended.
    pub(crate) fn add_exchange(&mut self, exchange: WorkerReport) {
        self.exchanged = self.add_exchanged(exchange);
    }

    /// Adds the counts of earlier generations of the graph to `totals`, the sums of the current generation.
    pub(crate) fn add_to(&self, totals: &mut PacketTotals) {
        totals.packets_in += self.totals.packets_in;
        totals.out += self.totals.out;
        totals.dropped += self.totals.dropped;
        for (reason, n) in &self.totals.drops {
            *totals.drops.entry(reason).or_insert(0) += n;
        }
    }

    /// Returns the counts of an exchange together with those of the exchanges of earlier generations of the
    /// graph: numbers of packets and working times are added up, of waiting packets and of displacement the
    /// maximum is taken.
    pub(crate) fn add_exchanged(&self, exchange: WorkerReport) -> WorkerReport {
        let before = &self.exchanged;
        WorkerReport {
            handed: exchange.handed + before.handed,
            taken: exchange.taken + before.taken,
            busy_ns: exchange.busy_ns + before.busy_ns,
            late: exchange.late + before.late,
            waited: exchange.waited.max(before.waited),
            displaced: exchange.displaced.max(before.displaced),
            ..exchange
        }
    }
}
