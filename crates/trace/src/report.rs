//! The results of an analysis. The names of the fields are the keys of the JSON output.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::batches::{AckBatch, BatchSize};
use crate::analysis::reordering::Reordering;
use crate::analysis::slicing::Sliceable;
use crate::analysis::switches::Switch;
use crate::analysis::top::TopAddress;
use crate::analysis::totals::{FlowSizes, Kinds};
use crate::histogram::Distribution;

/// The results of the analysis of a trace. A flow is a directed five-tuple of unfragmented TCP or UDP.
/// Bytes are counted on the wire. Values that are undefined because there are no packets are 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceReport {
    /// The captures that form the trace, in the order in which they were read.
    pub traces: Vec<TraceSummary>,
    /// Notes for the user about the captures: damage, ignored bytes after compressed data, unknown link
    /// types, and captures that could not be read a second time.
    pub notes: Vec<String>,
    /// The number of packets that the filter selects. All other numbers are about these packets, except
    /// [`unknown_packets`](Self::unknown_packets) and [`traces`](Self::traces).
    pub packets: u64,
    /// The number of bytes on the wire.
    pub bytes: u64,
    /// The number of flows, TCP and UDP.
    pub flows: u64,
    /// The number of TCP flows.
    pub tcp_flows: u64,
    /// The number of TCP flows of more than 10,000,000 bytes.
    pub large_tcp_flows: u64,
    /// The time from the earliest to the latest packet, in seconds.
    pub duration_s: f64,
    /// Packets per second, over the whole duration.
    pub packets_per_s: f64,
    /// Bits per second on the wire, over the whole duration.
    pub bits_per_s: f64,
    /// The spatial locality factor (SLF): TCP and UDP packets divided by their runs. Other packets are
    /// skipped and do not end a run.
    pub slf: f64,
    /// The mean number of bytes per packet.
    pub mean_packet_bytes: f64,
    /// Packets and bytes by kind of packet: TCP, UDP, fragments, other IP packets, all other packets.
    pub kinds: Kinds,
    /// The number of packets of which not all bytes were captured.
    pub cut_packets: u64,
    /// The number of packets whose time is before the time of a preceding packet of the same capture, or of
    /// a capture that it continues.
    pub packets_behind: u64,
    /// The number of packets whose link type is unknown, so that they belong to no flow; packets that the
    /// filter does not select count, too.
    pub unknown_packets: u64,
    /// The distribution of packet sizes in bytes.
    pub packet_bytes: Distribution,
    /// The distributions of the sizes of all flows.
    pub flow_sizes: FlowSizes,
    /// The distributions of the sizes of TCP flows.
    pub tcp_flow_sizes: FlowSizes,
    /// A map from batch size to the number of flow switches within batches of TCP and UDP packets.
    pub switches: BTreeMap<u32, Switch>,
    /// A map from window length in microseconds to the sizes of the batches that holding packets would
    /// produce: TCP packets of one flow within the window, at most 32.
    pub batch: BTreeMap<u32, BatchSize>,
    /// A map like `batch`, without a limit on the number of packets in a batch.
    pub batch_uncapped: BTreeMap<u32, BatchSize>,
    /// A map like `batch`, only for TCP packets with the ACK flag: the gain of merging ACKs.
    pub ack_coalescing: BTreeMap<u32, AckBatch>,
    /// The distribution of the number of TCP and UDP packets of other flows between two consecutive packets
    /// of a flow.
    pub spatial_distance: Distribution,
    /// The distribution of the time between two consecutive packets of a flow, in nanoseconds.
    pub temporal_distance_ns: Distribution,
    /// The distribution of the number of TCP flows that have a packet in the same window of 150 us. Windows
    /// without TCP packets are left out.
    pub concurrent_flows_150us: Distribution,
    /// A distribution like `concurrent_flows_150us`, only for TCP flows of more than 10,000,000 bytes.
    pub concurrent_large_flows_150us: Distribution,
    /// Reordered TCP segments divided by all segments that occupy sequence numbers.
    pub tcp_reordered_ratio: f64,
    /// The counts of reordered and retransmitted TCP segments.
    pub tcp_reordering: Reordering,
    /// The shares of packets and bytes that could be sliced.
    pub sliceable: Sliceable,
    /// The addresses with the most TCP flows, if [`Options::top_addresses`](crate::Options::top_addresses)
    /// asks for any.
    pub top_ips: Vec<TopAddress>,
}

/// The name and the number of packets of a capture that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The file name as given by the user.
    pub name: String,
    /// The number of packets read, including packets that the filter does not select.
    pub packets: u64,
    /// True if the capture was read to its end, false if damage ended the reading.
    pub complete: bool,
}
