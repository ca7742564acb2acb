//! Makes the report of one worker from its counters.

use std::collections::BTreeMap;

use element::Core;

use crate::host::WorkerHost;
use crate::report::{ElementReport, PacketTotals, RunReport, WorkerReport};
use crate::worker::Worker;

impl Worker {
    /// Makes a report about all packets of this worker so far.
    pub fn report(&mut self) -> RunReport {
        let (core, mut host) = self.host();
        host.report(core)
    }
}

impl WorkerHost<'_> {
    /// Makes a report about all packets of this worker so far.
    pub(crate) fn report(&mut self, core: &mut Core) -> RunReport {
        self.graph.settle_stand_ins(core);
        let mut totals = PacketTotals::default();
        let mut elements = Vec::with_capacity(self.graph.plan.len());
        for (id, element) in self.graph.plan.graph.elements.iter().enumerate() {
            let counters = &core.counters[id];
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
        if let Some(exchange) = self.exchange {
            let PacketTotals { packets_in, out, held, dropped, .. } = totals;
            let exchanged = self.former.add_exchanged(exchange.report(core.burst));
            workers.push(WorkerReport { packets_in, out, held, dropped, ..exchanged });
        }
        RunReport { elements, totals, workers }
    }
}
