//! What an analysis finds: the numbers, with the names that they have in JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::batches::{AckBatch, BatchSize};
use crate::analysis::reordering::Reordering;
use crate::analysis::slicing::Sliceable;
use crate::analysis::switches::Switch;
use crate::analysis::top::TopAddress;
use crate::analysis::totals::{FlowSizes, Kinds};
use crate::histogram::Distribution;

/// All that is known of a trace. A flow is a directed five-tuple of unfragmented TCP or UDP; bytes are those on the wire.
/// What has no value for want of packets is 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The captures, in the order in which they were read, as one trace.
    pub traces: Vec<TraceSummary>,
    /// What a reader should know: captures that end early, link types that are not known.
    pub notes: Vec<String>,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows.
    pub flows: u64,
    /// Flows of TCP.
    pub tcp_flows: u64,
    /// TCP flows of more than 10,000,000 bytes.
    pub large_tcp_flows: u64,
    /// Seconds from the earliest to the latest packet.
    pub duration_s: f64,
    /// Packets by seconds.
    pub packets_per_s: f64,
    /// Bits by seconds.
    pub bits_per_s: f64,
    /// Spatial locality factor: TCP and UDP packets by runs of one flow; other packets are skipped.
    pub slf: f64,
    /// Bytes by packets.
    pub mean_packet_bytes: f64,
    /// Packets and bytes of each kind.
    pub kinds: Kinds,
    /// Packets of which not all bytes were captured.
    pub cut_packets: u64,
    /// Packets whose time lies before that of one in front of them.
    pub packets_behind: u64,
    /// Packets whose link type is not known.
    pub unknown_packets: u64,
    /// Bytes per packet.
    pub packet_bytes: Distribution,
    /// How large flows are.
    pub flow_sizes: FlowSizes,
    /// How large flows of TCP are.
    pub tcp_flow_sizes: FlowSizes,
    /// By batch size: changes of flow within batches of TCP and UDP packets.
    pub switches: BTreeMap<u32, Switch>,
    /// By window in microseconds: sizes of per-flow batches of TCP packets, at most 32.
    pub batch: BTreeMap<u32, BatchSize>,
    /// The same without a largest size.
    pub batch_uncapped: BTreeMap<u32, BatchSize>,
    /// By window in microseconds: batches of TCP packets with the ACK flag, at most 32.
    pub ack_coalescing: BTreeMap<u32, AckBatch>,
    /// TCP and UDP packets of other flows between two packets of a flow.
    pub spatial_distance: Distribution,
    /// Nanoseconds between two packets of a flow.
    pub temporal_distance_ns: Distribution,
    /// TCP flows with a packet in a window of 150 us, windows without any left out.
    pub concurrent_flows_150us: Distribution,
    /// The same for flows of more than 10,000,000 bytes.
    pub concurrent_large_flows_150us: Distribution,
    /// Reordered TCP segments over segments with a place in the order.
    pub tcp_reordered_ratio: f64,
    /// Order of TCP segments.
    pub tcp_reordering: Reordering,
    /// Shares of what could be sliced.
    pub sliceable: Sliceable,
    /// Busy addresses, if they were asked for.
    pub top_ips: Vec<TopAddress>,
}

/// A capture that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Its name as given.
    pub name: String,
    /// Packets in it, also those that were not selected.
    pub packets: u64,
    /// Whether it was read to its end.
    pub complete: bool,
}
