//! The metrics that handlers give to a monitoring system: names, kinds and help texts.
//!
//! A handler whose value is one number can be declared as a metric in its table ([`Handler::metric`]). The
//! server for metrics then reads the handler and shows its value as `tidegate_element_NAME`, with the labels
//! `element` and `class`. Classes whose handlers mean the same use the same constant of this module, so that
//! a metric has one help text and can be summed over elements.
//!
//! [`Handler::metric`]: crate::Handler::metric

/// The description of a metric that handlers of elements give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name without `tidegate_element_` and, for a counter, without `_total`. It ends with the unit, if
    /// there is one.
    pub name: &'static str,
    /// The kind of the values.
    pub kind: MetricKind,
    /// The help text: one line.
    pub help: &'static str,
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A count of events, which starts at 0 and increases. Only a write of a handler that resets it, or a new
    /// element, sets it back.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

impl Metric {
    const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Counter, help }
    }

    const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Gauge, help }
    }
}

/// The bytes of packets, of elements that count them.
pub const BYTES: Metric = Metric::counter("bytes", "Bytes of the packets that the element has counted.");
/// The capacity of a queue.
pub const QUEUE_CAPACITY: Metric =
    Metric::gauge("queue_capacity_packets", "Largest number of packets that the queue can hold.");
/// The largest length of a queue so far.
pub const QUEUE_HIGHWATER: Metric =
    Metric::gauge("queue_highwater_packets", "Largest number of packets that the queue has held so far.");
/// The flows that an element keeps state for.
pub const FLOWS: Metric = Metric::gauge("flows", "Flows for which the element keeps state.");
/// The packets that a table without room could not keep state for.
pub const OVERFLOWS: Metric =
    Metric::counter("overflows", "Packets that the element has not kept or counted because it had no room.");
/// The mappings of a translator.
pub const MAPPINGS: Metric = Metric::gauge("mappings", "Address mappings of the translator.");
/// The capacity of a translator.
pub const MAPPING_CAPACITY: Metric =
    Metric::gauge("mapping_capacity", "Largest number of address mappings that the translator can have.");
/// The mappings that a translator could not make.
pub const MAPPING_FAILURES: Metric = Metric::counter(
    "mapping_failures",
    "Flows for which the translator could not make a mapping, for example because no port was free.",
);
/// The memory for packets or fragments that wait.
pub const MEMORY: Metric = Metric::gauge("memory_bytes", "Memory that the element uses for what it holds.");
/// The packets that overtook others.
pub const REORDERED: Metric =
    Metric::counter("reordered_packets", "Packets that came after later packets of their flow.");
/// The flows that were released because their time was over.
pub const TIMEOUTS: Metric =
    Metric::counter("timeouts", "Releases of held packets because the longest holding time was over.");
/// The segments that a merging element got.
pub const SEGMENTS_IN: Metric = Metric::counter("segments_in", "TCP segments that came to the element.");
/// The segments that a merging element has sent.
pub const SEGMENTS_OUT: Metric =
    Metric::counter("segments_out", "TCP segments that left the element, after merging.");
/// The payloads that wait for their headers.
pub const PARKED_PAYLOADS: Metric =
    Metric::gauge("parked_payloads", "Payloads that wait in the table for their headers.");
/// The bytes of packets before payloads were parked.
pub const SLICED_BYTES: Metric =
    Metric::counter("sliced_bytes", "Bytes of the packets whose payloads were parked, before slicing.");
/// The bytes that were sent after payloads were parked.
pub const CROSSED_BYTES: Metric =
    Metric::counter("crossed_bytes", "Bytes of the sliced packets that went to the network functions.");
/// The headers that came back without a payload.
pub const MISSING_PAYLOADS: Metric =
    Metric::counter("missing_payloads", "Headers that came back after their payload had left the table.");
/// The packets that the kernel has dropped before they were received.
pub const KERNEL_DROPS: Metric = Metric::counter(
    "kernel_dropped_packets",
    "Packets that the kernel has dropped at the interface because the receive ring was full.",
);
