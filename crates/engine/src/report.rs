//! What became of every packet.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::order::Order;
use crate::worker::Worker;

/// The final report of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every element, in the order of the graph.
    pub elements: Vec<ElementReport>,
    /// The graph as a whole.
    pub totals: Totals,
    /// Each worker, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerReport>,
}

/// One of several workers: `in + taken = out + held + dropped + handed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// Packets that elements of its copy made.
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// Packets that left the graph here.
    pub out: u64,
    /// Packets that elements of its copy hold.
    pub held: u64,
    /// Packets dropped here.
    pub dropped: u64,
    /// Packets handed over to other workers.
    pub handed: u64,
    /// Packets taken over from other workers.
    pub taken: u64,
    /// The most packets that have waited for it at once in the rings from other workers.
    pub waited: u64,
    /// Where order is kept: packets that have left behind others that came after them.
    pub late: u64,
    /// Where packets of flows are spread without their order: by how many packets the worst that this worker has dealt with has come
    /// too late, of those that were spread behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced: Option<u64>,
    /// By how many packets one may come too late. `None` where packets come from interfaces, which cannot wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced_most: Option<u64>,
}

/// One element: `in = out + held + dropped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ElementReport {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that came in or were made (read, copied, generated).
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// Packets among them that were made by the element.
    pub made: u64,
    /// Packets that left through outputs or left the graph.
    pub out: u64,
    /// Packets that it holds.
    pub held: u64,
    /// Dropped packets by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets that have come to its interface and were lost there; they are in no other count.
    pub missed: u64,
}

/// The graph as a whole: `in = out + held + dropped`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets that elements made: read from files and interfaces, copied, generated.
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// Packets that left the graph.
    pub out: u64,
    /// Packets that elements hold.
    pub held: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Dropped packets by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets that have come to interfaces and were lost there; they are in no other count.
    pub missed: u64,
}

impl ElementReport {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Whether every packet is accounted for.
    pub fn balances(&self) -> bool {
        self.packets_in == self.out + self.held + self.dropped()
    }
}

impl Report {
    /// The reports of several workers on their copies of one graph as one.
    pub(crate) fn sum(reports: impl IntoIterator<Item = Report>) -> Report {
        let mut reports = reports.into_iter();
        let Some(mut sum) = reports.next() else {
            return Report { elements: Vec::new(), totals: Totals::default(), workers: Vec::new() };
        };
        for report in reports {
            sum.workers.extend(report.workers);
            for (to, from) in sum.elements.iter_mut().zip(report.elements) {
                to.packets_in += from.packets_in;
                to.made += from.made;
                to.out += from.out;
                to.held += from.held;
                to.missed += from.missed;
                add(&mut to.drops, from.drops);
            }
            let (to, from) = (&mut sum.totals, report.totals);
            to.packets_in += from.packets_in;
            to.out += from.out;
            to.held += from.held;
            to.dropped += from.dropped;
            to.missed += from.missed;
            add(&mut to.drops, from.drops);
        }
        sum
    }

    /// Whether every packet is accounted for, in each element and in all.
    pub fn balances(&self) -> bool {
        let t = &self.totals;
        t.packets_in == t.out + t.held + t.dropped && self.elements.iter().all(ElementReport::balances)
    }
}

fn add(to: &mut BTreeMap<&'static str, u64>, from: BTreeMap<&'static str, u64>) {
    for (reason, n) in from {
        *to.entry(reason).or_insert(0) += n;
    }
}

impl Worker {
    /// What has become of every packet so far.
    pub fn report(&mut self) -> Report {
        self.inner.settle_stand_ins(&mut self.core);
        let mut totals = Totals::default();
        let mut elements = Vec::with_capacity(self.inner.plan.len());
        for (id, element) in self.inner.plan.graph.elements.iter().enumerate() {
            let counters = &self.core.counters[id];
            let held = self.inner.elements[id].as_ref().map_or(0, |e| e.held()) as u64;
            let missed = self.inner.elements[id].as_ref().map_or(0, |e| e.missed());
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
        if let Some(links) = &self.links {
            let Totals { packets_in, out, held, dropped, .. } = totals;
            let (displaced, most) = links.displaced(self.core.burst).unzip();
            workers.push(WorkerReport {
                packets_in,
                out,
                held,
                dropped,
                handed: links.handed,
                taken: links.taken,
                waited: links.waited,
                late: links.order.as_ref().map_or(0, Order::late),
                displaced,
                displaced_most: most.flatten(),
            });
        }
        Report { elements, totals, workers }
    }
}
