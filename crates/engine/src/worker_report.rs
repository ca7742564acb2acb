//! Makes the report of one worker from its counters.

use std::collections::BTreeMap;

use element::context::Counters;

use crate::report::{ElementReport, PacketTotals, RunReport, WorkerReport};
use crate::worker::Worker;

impl Worker {
    /// Makes a report about all packets of this worker so far.
    pub fn report(&mut self) -> RunReport {
        self.graph.settle_stand_ins(&mut self.core);
        let mut totals = PacketTotals::default();
        let mut elements = Vec::with_capacity(self.graph.plan.len());
        for (id, element) in self.graph.plan.graph.elements.iter().enumerate() {
            let counters = &self.core.counters[id];
            let held = self.graph.held(id) as u64;
            let missed = self.graph.elements[id].as_ref().map_or(0, |e| e.missed());
            let mut drops = BTreeMap::new();
            for (reason, n) in &counters.drops {
                drops.insert(reason.as_str(), *n);
                *totals.drops.entry(reason.as_str()).or_insert(0) += n;
            }
            totals.packets_in += counters.made;
            totals.out += counters.sent;
            totals.held += held;
            totals.dropped += counters.dropped();
            totals.missed += missed;
            elements.push(ElementReport {
                name: element.name.clone(),
                class: element.class.clone(),
                packets_in: counters.arrived + counters.made,
                made: counters.made,
                out: counters.emitted + counters.sent,
                held,
                drops,
                missed,
            });
        }
        let mut workers = Vec::new();
        self.former.add_to(&mut totals);
        if let Some(exchange) = &self.exchange {
            let PacketTotals { packets_in, out, held, dropped, .. } = totals;
            let exchanged = self.former.add_exchanged(exchange.report(self.core.burst));
            workers.push(WorkerReport { packets_in, out, held, dropped, ..exchanged });
        }
        RunReport { elements, totals, workers }
    }
}

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

    fn add_to(&self, totals: &mut PacketTotals) {
        totals.packets_in += self.totals.packets_in;
        totals.out += self.totals.out;
        totals.dropped += self.totals.dropped;
        for (reason, n) in &self.totals.drops {
            *totals.drops.entry(reason).or_insert(0) += n;
        }
    }

    /// Returns the counts of an exchange with those of the exchanges of earlier generations.
    fn add_exchanged(&self, exchange: WorkerReport) -> WorkerReport {
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
