//! The results of an analysis: the numbers, with their names in JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::batches::{AckBatch, BatchSize};
use crate::analysis::reordering::Reordering;
use crate::analysis::slicing::Sliceable;
use crate::analysis::switches::Switch;
use crate::analysis::top::TopAddress;
use crate::analysis::totals::{FlowSizes, Kinds};
use crate::histogram::Distribution;

/// The results for a trace. A flow is a directed five-tuple of unfragmented TCP or UDP; bytes are those on
/// the wire. Numbers that are undefined because there are no packets are 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The captures, in the order in which they were read, as one trace.
    pub traces: Vec<TraceSummary>,
    /// Notes for the reader: captures that end early, unknown link types.
    pub notes: Vec<String>,
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of flows.
    pub flows: u64,
    /// The number of TCP flows.
    pub tcp_flows: u64,
    /// The number of TCP flows of more than 10,000,000 bytes.
    pub large_tcp_flows: u64,
    /// The seconds from the earliest to the latest packet.
    pub duration_s: f64,
    /// Packets divided by seconds.
    pub packets_per_s: f64,
    /// Bits divided by seconds.
    pub bits_per_s: f64,
    /// Spatial locality factor: TCP and UDP packets divided by runs of one flow; other packets are skipped.
    pub slf: f64,
    /// Bytes divided by packets.
    pub mean_packet_bytes: f64,
    /// Packets and bytes by protocol: TCP, UDP, fragments, other IP packets, all other packets.
    pub kinds: Kinds,
    /// The number of packets of which not all bytes were captured.
    pub cut_packets: u64,
    /// The number of packets whose time is before the time of a preceding packet.
    pub packets_behind: u64,
    /// The number of packets whose link type is unknown.
    pub unknown_packets: u64,
    /// Bytes per packet.
    pub packet_bytes: Distribution,
    /// Sizes of flows.
    pub flow_sizes: FlowSizes,
    /// Sizes of TCP flows.
    pub tcp_flow_sizes: FlowSizes,
    /// A map from batch size to the changes of flow within batches of TCP and UDP packets.
    pub switches: BTreeMap<u32, Switch>,
    /// A map from window length in microseconds to the sizes of per-flow batches of TCP packets, at most
    /// 32.
    pub batch: BTreeMap<u32, BatchSize>,
    /// A map from window length in microseconds to the sizes of per-flow batches of TCP packets, without
    /// limit.
    pub batch_uncapped: BTreeMap<u32, BatchSize>,
    /// A map from window length in microseconds to batches of TCP packets with the ACK flag, at most 32.
    pub ack_coalescing: BTreeMap<u32, AckBatch>,
    /// TCP and UDP packets of other flows between two packets of a flow.
    pub spatial_distance: Distribution,
    /// Nanoseconds between two packets of a flow.
    pub temporal_distance_ns: Distribution,
    /// TCP flows with a packet in a window of 150 us; windows without TCP flows are left out.
    pub concurrent_flows_150us: Distribution,
    /// TCP flows of more than 10,000,000 bytes in a window of 150 us; windows without such flows are left
    /// out.
    pub concurrent_large_flows_150us: Distribution,
    /// Reordered TCP segments divided by segments with a position in the order.
    pub tcp_reordered_ratio: f64,
    /// The order of TCP segments.
    pub tcp_reordering: Reordering,
    /// Shares of what could be sliced.
    pub sliceable: Sliceable,
    /// The busiest addresses, if requested.
    pub top_ips: Vec<TopAddress>,
}

/// A capture that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The file name as given.
    pub name: String,
    /// The number of packets, including packets that were not selected.
    pub packets: u64,
    /// True if the capture was read to its end.
    pub complete: bool,
}
