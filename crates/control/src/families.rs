//! Every metric: its name, kind, labels, help text, and the values that a snapshot gives it.
//!
//! The names follow the conventions of Prometheus: the prefix `tidegate_`, base units (seconds, bytes) at the
//! end, `_total` for counters. The metrics of the process have the names that Prometheus' own libraries use.
//!
//! The number of time series is bounded: with E elements (at most [`MOST_ELEMENTS`]), R drop reasons that
//! have occurred at an element, and W workers, there are at most 4 E + E R + E H + 10 W + 40, where H is the
//! number of handlers of a class that are metrics (at most 5).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

use element::manual::Page;
use element::{Class, ElementId, Metric, MetricKind};
use engine::{ElementReport, MetricValue, Snapshot, WorkerState};

use crate::About;
use crate::process::{self, Process};
use crate::text::{Format, Text};

/// The most elements of a graph that have metrics of their own, in the order of the configuration. The sums
/// over the graph include all elements.
pub const MOST_ELEMENTS: usize = 1000;

/// The prefix of metrics that handlers of elements give.
const OF_ELEMENT: &str = "tidegate_element_";

/// Everything that metrics are made of.
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) about: &'a About,
    pub(crate) process: &'a Process,
    /// The time at which the program was started.
    pub(crate) started: SystemTime,
}

/// A metric, with the function that writes its samples.
struct Family {
    /// The name without the `_total` of counters.
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
    write: fn(&View<'_>, &mut Text),
}

const fn family(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
    write: fn(&View<'_>, &mut Text),
) -> Family {
    Family { name, kind, labels, help, write }
}

const ELEMENT: &[&str] = &["element", "class"];
const WORKER: &[&str] = &["worker"];

use MetricKind::{Counter, Gauge};

/// The metrics that every run has, in the order of the text.
const FAMILIES: &[Family] = &[
    family(
        "tidegate_build_info",
        Gauge,
        &["version", "commit"],
        "Always 1; the labels are the version of the program and the commit that it was built from.",
        |view, text| text.sample(&[("version", &view.about.version), ("commit", &view.about.commit)], 1),
    ),
    family(
        "tidegate_configuration_info",
        Gauge,
        &["configuration"],
        "Always 1; the label is the name of the configuration.",
        |view, text| text.sample(&[("configuration", &view.about.configuration)], 1),
    ),
    family(
        "tidegate_reloads",
        Counter,
        &[],
        "Reloads that have replaced the configuration since the start.",
        |view, text| text.sample(&[], view.snapshot.generation),
    ),
    family("tidegate_elements", Gauge, &[], "Elements of the running graph.", |view, text| {
        text.sample(&[], view.snapshot.plan.classes.len());
    }),
    family(
        "tidegate_elements_without_metrics",
        Gauge,
        &[],
        "Elements that have no metrics of their own because the graph is too large.",
        |view, text| text.sample(&[], view.snapshot.plan.classes.len().saturating_sub(MOST_ELEMENTS)),
    ),
    family("tidegate_workers", Gauge, &[], "Worker threads.", |view, text| {
        text.sample(&[], view.snapshot.workers.len());
    }),
    family(
        "tidegate_packets",
        Counter,
        &[],
        "Packets that have entered the graph: received, read from files, copied or generated.",
        |view, text| text.sample(&[], view.snapshot.report.totals.packets_in),
    ),
    family(
        "tidegate_sent_packets",
        Counter,
        &[],
        "Packets that have left the graph, sent or written to files.",
        |view, text| text.sample(&[], view.snapshot.report.totals.out),
    ),
    family(
        "tidegate_dropped_packets",
        Counter,
        &["reason"],
        "Packets that were dropped in the graph, by reason.",
        |view, text| {
            for (reason, count) in &view.snapshot.report.totals.drops {
                text.sample(&[("reason", reason)], count);
            }
        },
    ),
    family("tidegate_held_packets", Gauge, &[], "Packets that elements hold.", |view, text| {
        text.sample(&[], view.snapshot.report.totals.held);
    }),
    family(
        "tidegate_element_packets",
        Counter,
        ELEMENT,
        "Packets that have come into the element by its inputs, or were made by it.",
        |view, text| each(view, text, |element| Some(element.packets_in)),
    ),
    family(
        "tidegate_element_sent_packets",
        Counter,
        ELEMENT,
        "Packets that have left the element by its outputs, or have left the graph at it.",
        |view, text| each(view, text, |element| Some(element.out)),
    ),
    family(
        "tidegate_element_made_packets",
        Counter,
        ELEMENT,
        "Packets that the element has made: received, read, copied or generated. Only of elements that make \
         packets.",
        |view, text| each(view, text, |element| Some(element.made).filter(|&made| made > 0)),
    ),
    family(
        "tidegate_element_held_packets",
        Gauge,
        ELEMENT,
        "Packets that the element holds.",
        |view, text| each(view, text, |element| Some(element.held)),
    ),
    family(
        "tidegate_element_drops",
        Counter,
        &["element", "class", "reason"],
        "Packets that the element has dropped, by reason. A series begins with the first drop for the reason.",
        |view, text| {
            for (id, element) in shown(view) {
                for (reason, count) in &element.drops {
                    let labels =
                        [("element", &*element.name), ("class", class(view, id)), ("reason", reason)];
                    text.sample(&labels, count);
                }
            }
        },
    ),
    family(
        "tidegate_worker_packets",
        Counter,
        WORKER,
        "Packets that have entered the graph at the worker.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.packets_in as f64)),
    ),
    family(
        "tidegate_worker_busy_seconds",
        Counter,
        WORKER,
        "Time for which the worker has worked on packets; its rate is the load of the worker, from 0 to 1.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.busy_ns as f64 / 1e9)),
    ),
    family(
        "tidegate_worker_dropped_packets",
        Counter,
        WORKER,
        "Packets that were dropped at the worker.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.dropped as f64)),
    ),
    family(
        "tidegate_worker_handed_packets",
        Counter,
        WORKER,
        "Packets that the worker has handed over to other workers.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.handed as f64)),
    ),
    family(
        "tidegate_worker_taken_packets",
        Counter,
        WORKER,
        "Packets that the worker has taken over from other workers.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.taken as f64)),
    ),
    family(
        "tidegate_worker_late_packets",
        Counter,
        WORKER,
        "Packets that were passed on out of order although order is kept, because they came too late.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.late as f64)),
    ),
    family(
        "tidegate_worker_ring_packets",
        Gauge,
        WORKER,
        "Packets that wait for the worker in the rings from other workers.",
        |view, text| of_workers(view, text, |worker| Some(worker.in_rings as f64)),
    ),
    family(
        "tidegate_worker_ring_highwater_packets",
        Gauge,
        WORKER,
        "Largest number of packets that the worker has found in its rings at once.",
        |view, text| of_workers(view, text, |worker| Some(worker.report.waited as f64)),
    ),
    family(
        "tidegate_worker_buffers_used",
        Gauge,
        WORKER,
        "Packet buffers of the worker in use.",
        |view, text| of_workers(view, text, |worker| Some(worker.buffers_used as f64)),
    ),
    family(
        "tidegate_worker_buffers",
        Gauge,
        WORKER,
        "Largest number of packet buffers that the worker can have.",
        |view, text| of_workers(view, text, |worker| Some(worker.buffers as f64)),
    ),
    family(
        "process_cpu_seconds",
        Counter,
        &[],
        "Processor time of the process, of user and system together.",
        |view, text| one(text, view.process.cpu_seconds),
    ),
    family("process_resident_memory_bytes", Gauge, &[], "Resident memory of the process.", |view, text| {
        one(text, view.process.resident_bytes);
    }),
    family("process_virtual_memory_bytes", Gauge, &[], "Address space of the process.", |view, text| {
        one(text, view.process.virtual_bytes);
    }),
    family("process_threads", Gauge, &[], "Threads of the process.", |view, text| {
        one(text, view.process.threads);
    }),
    family("process_open_fds", Gauge, &[], "Open file descriptors of the process.", |view, text| {
        one(text, view.process.open_files);
    }),
    family("process_max_fds", Gauge, &[], "Largest number of open file descriptors.", |view, text| {
        one(text, view.process.most_files);
    }),
    family(
        "process_start_time_seconds",
        Gauge,
        &[],
        "Start of the process, in seconds since 1970.",
        |view, text| text.sample(&[], process::seconds(view.started)),
    ),
];

/// Returns the elements that have metrics of their own.
fn shown<'a>(view: &View<'a>) -> impl Iterator<Item = (ElementId, &'a ElementReport)> + use<'a> {
    view.snapshot.report.elements.iter().enumerate().take(MOST_ELEMENTS)
}

/// Returns the name of an element's class, without the package or alias that the configuration may write.
fn class<'a>(view: &View<'a>, id: ElementId) -> &'a str {
    view.snapshot.plan.classes[id].name
}

fn each(view: &View<'_>, text: &mut Text, value: impl Fn(&ElementReport) -> Option<u64>) {
    for (id, element) in shown(view) {
        if let Some(value) = value(element) {
            text.sample(&[("element", &*element.name), ("class", class(view, id))], value);
        }
    }
}

fn of_workers(view: &View<'_>, text: &mut Text, value: impl Fn(&WorkerState) -> Option<f64>) {
    for worker in &view.snapshot.workers {
        if let Some(value) = value(worker) {
            text.sample(&[("worker", &worker.worker.to_string())], value);
        }
    }
}

fn one(text: &mut Text, value: Option<f64>) {
    if let Some(value) = value {
        text.sample(&[], value);
    }
}

/// Returns the text of all metrics.
pub(crate) fn render(view: &View<'_>, format: Format) -> String {
    let mut text = Text::new(format);
    for family in FAMILIES {
        text.head(family.name, family.kind, family.help);
        (family.write)(view, &mut text);
    }
    let mut by_metric: BTreeMap<&str, Vec<&MetricValue>> = BTreeMap::new();
    for value in view.snapshot.values.iter().filter(|value| value.element < MOST_ELEMENTS) {
        by_metric.entry(value.metric.name).or_default().push(value);
    }
    for (name, values) in by_metric {
        let Metric { kind, help, .. } = values[0].metric;
        text.head(&format!("{OF_ELEMENT}{name}"), kind, help);
        for value in values {
            let element = &view.snapshot.plan.graph.elements[value.element].name;
            let mut labels = vec![("element", &**element), ("class", class(view, value.element))];
            let interface = view.snapshot.plan.interface(value.element);
            labels.extend(interface.as_ref().map(|interface| ("interface", &**interface)));
            text.sample(&labels, value.value);
        }
    }
    text.finish()
}

/// Returns the tables of all metrics for the documentation, in Markdown: first the metrics that every run
/// has, then the metrics of these classes' handlers.
pub fn tables(classes: impl Iterator<Item = &'static Class>) -> String {
    let mut text = String::from("| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n");
    for family in FAMILIES {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let name = shown_name(family.name, family.kind);
        let _ =
            writeln!(text, "| `{name}` | {} | {} | {} |", word(family.kind), labels.join(", "), family.help);
    }
    let mut metrics: BTreeMap<&str, (Metric, Vec<String>)> = BTreeMap::new();
    for class in classes {
        let items = Page::parse(class.manual).items("Handlers");
        for info in class.each_metric() {
            debug_assert!(items.iter().any(|(name, _)| name == info.name));
            if let Some(metric) = info.metric {
                let (_, users) = metrics.entry(metric.name).or_insert((metric, Vec::new()));
                users.push(format!("{}.{}", class.name, info.name));
            }
        }
    }
    text.push_str("\n| metric | kind | handlers | meaning |\n| --- | --- | --- | --- |\n");
    for (name, (metric, users)) in metrics {
        let name = shown_name(&format!("{OF_ELEMENT}{name}"), metric.kind);
        let (kind, users) = (word(metric.kind), users.join(", "));
        let _ = writeln!(text, "| `{name}` | {kind} | {users} | {} |", metric.help);
    }
    text
}

fn shown_name(name: &str, kind: MetricKind) -> String {
    format!("{name}{}", if kind == Counter { "_total" } else { "" })
}

fn word(kind: MetricKind) -> &'static str {
    match kind {
        Counter => "counter",
        Gauge => "gauge",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_end_as_the_conventions_say() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            assert!(!family.name.ends_with("_total"), "{}", family.name);
            assert!(family.help.ends_with('.') && family.help.len() > 10, "{}", family.help);
            assert!(family.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
    }
}
