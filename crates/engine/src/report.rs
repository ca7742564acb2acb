//! The report of a run, which accounts for every packet.

use std::collections::BTreeMap;

use serde::Serialize;

/// The report of a run, at its end or while it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The report of each element, in the order of the graph, summed over workers.
    pub elements: Vec<ElementReport>,
    /// The sums for the whole graph.
    pub totals: PacketTotals,
    /// The report of each worker, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerReport>,
}

/// The report of one of several workers. At the end of a run, `in + taken = out + held + dropped + handed`.
/// During a run, packets may also wait for their order, in no element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// The number of packets that entered the graph at this worker: read, generated or copied.
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// The number of packets that left the graph at this worker.
    pub out: u64,
    /// The number of packets that this worker's elements hold.
    pub held: u64,
    /// The number of packets dropped at this worker.
    pub dropped: u64,
    /// The number of packets handed over to other workers.
    pub handed: u64,
    /// The number of packets taken from other workers.
    pub taken: u64,
    /// The largest number of packets that this worker has found in the rings from other workers at once.
    pub waited: u64,
    /// The time that this worker has spent on tasks and packets of other workers, in nanoseconds. 0 under the
    /// trace clock.
    pub busy_ns: u64,
    /// The number of packets that were passed on without keeping their order, although order is kept: packets
    /// with larger numbers no longer waited for them, or their number was too far ahead of the others. 0 if
    /// order is not kept.
    pub late: u64,
    /// The largest number of packets by which a packet that this worker has processed was overtaken. `None`
    /// if packets of a flow are not spread, or their order is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced: Option<u64>,
    /// The limit of `displaced`. `None` if packets come from interfaces, which cannot wait, or if `displaced`
    /// is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced_most: Option<u64>,
}

/// The report of one element: `in = out + held + dropped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ElementReport {
    /// The name of the element.
    pub name: String,
    /// The class of the element.
    pub class: String,
    /// The number of packets that came in through inputs or were made by the element (read, copied,
    /// generated).
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// The number of packets in `packets_in` that the element made.
    pub made: u64,
    /// The number of packets that left through outputs, or left the graph at this element.
    pub out: u64,
    /// The number of packets that the element holds.
    pub held: u64,
    /// For each reason, the number of packets dropped.
    pub drops: BTreeMap<&'static str, u64>,
    /// The number of packets that came to the element's interface and were lost before they were received.
    /// No other count includes them.
    pub missed: u64,
}

/// The sums for the whole graph. At the end of a run, `in = out + held + dropped`. During a run of several
/// workers, packets may also be under way between workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketTotals {
    /// The number of packets that entered the graph: read from files and interfaces, copied, generated.
    #[serde(rename = "in")]
    pub packets_in: u64,
    /// The number of packets that left the graph.
    pub out: u64,
    /// The number of packets that elements hold.
    pub held: u64,
    /// The number of packets dropped.
    pub dropped: u64,
    /// For each reason, the number of packets dropped.
    pub drops: BTreeMap<&'static str, u64>,
    /// The number of packets that came to interfaces and were lost before they were received. No other
    /// count includes them.
    pub missed: u64,
}

impl ElementReport {
    /// Returns the number of packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// True if every packet is accounted for: `in = out + held + dropped`.
    pub fn balances(&self) -> bool {
        self.packets_in == self.out + self.held + self.dropped()
    }
}

impl RunReport {
    /// Adds up the reports of workers that have copies of the same graph. Without reports, the sum is
    /// empty.
    pub(crate) fn sum(reports: impl IntoIterator<Item = RunReport>) -> RunReport {
        let mut reports = reports.into_iter();
        let Some(mut sum) = reports.next() else {
            return RunReport { elements: Vec::new(), totals: PacketTotals::default(), workers: Vec::new() };
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

    /// True if every packet is accounted for, at each element and in the sums.
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
