//! Snapshots of a run, put together from the parts of all workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use element::{ElementId, Metric};
use serde::Serialize;

use crate::inspect::{SnapshotPart, WorkerState};
use crate::merge::merge;
use crate::plan::Plan;
use crate::report::{ElementReport, PacketTotals, RunReport};

/// The state of a run between two rounds of each worker.
pub struct Snapshot {
    /// The number of the generation of the graph: 0 at the start, and one more after each reload.
    pub generation: u64,
    /// The plan of the graph.
    pub plan: Arc<Plan>,
    /// The packets so far, summed over the workers.
    pub report: RunReport,
    /// The state of each worker, by number.
    pub workers: Vec<WorkerState>,
    /// The values of the elements' metrics, in the order of the graph.
    pub values: Vec<MetricValue>,
}

/// The value of a handler that is a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// The number of the element.
    pub element: ElementId,
    /// The name of the handler.
    pub handler: &'static str,
    /// The metric that the handler gives.
    pub metric: Metric,
    /// The value, merged over the workers.
    pub value: f64,
}

/// A snapshot as an object for JSON.
#[derive(Serialize)]
pub struct SnapshotObject<'a> {
    generation: u64,
    totals: &'a PacketTotals,
    elements: Vec<ElementObject<'a>>,
    workers: &'a [WorkerState],
}

#[derive(Serialize)]
struct ElementObject<'a> {
    #[serde(flatten)]
    report: &'a ElementReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    /// The values of the handlers that are metrics, by handler.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<&'static str, f64>,
}

impl Snapshot {
    /// Returns the snapshot as an object for JSON.
    pub fn object(&self) -> SnapshotObject<'_> {
        let mut values: BTreeMap<ElementId, BTreeMap<&'static str, f64>> = BTreeMap::new();
        for value in &self.values {
            values.entry(value.element).or_default().insert(value.handler, value.value);
        }
        let element = |(id, report)| {
            let interface = self.plan.interface(id);
            ElementObject { report, interface, values: values.remove(&id).unwrap_or_default() }
        };
        SnapshotObject {
            generation: self.generation,
            totals: &self.report.totals,
            elements: self.report.elements.iter().enumerate().map(element).collect(),
            workers: &self.workers,
        }
    }

    /// Puts the parts of all workers together. Returns `None` if there is no part, or if workers were on
    /// different generations of the graph because a reload was under way; then the caller asks again.
    pub fn of(parts: Vec<SnapshotPart>) -> Option<Snapshot> {
        let first = parts.first()?;
        let (generation, plan) = (first.generation, Arc::clone(&first.plan));
        if parts.iter().any(|part| part.generation != generation) {
            return None;
        }
        let (mut reports, mut workers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            reports.push(part.report);
            workers.push(part.worker);
            texts.extend(part.values);
        }
        workers.sort_by_key(|worker| worker.worker);
        // The sort is stable, so the texts of one handler stay in the order of the workers.
        texts.sort_by_key(|&(element, handler, _)| (element, handler));
        let mut values = Vec::new();
        for same in texts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (element, handler, _) = same[0];
            let Some(info) = plan.classes[element].each_metric().find(|info| info.name == handler) else {
                continue;
            };
            let texts: Vec<String> = same.iter().map(|(_, _, text)| text.clone()).collect();
            if let (Some(metric), Ok(value)) = (info.metric, merge(&texts, info.merge).trim().parse()) {
                values.push(MetricValue { element, handler, metric, value });
            }
        }
        Some(Snapshot { generation, plan, report: RunReport::sum(reports), workers, values })
    }
}
