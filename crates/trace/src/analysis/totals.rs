//! Packets and bytes: in total, by kind, by flow; sizes of flows and packets.

use serde::Serialize;

use super::Accumulator;
use crate::flows::Flows;
use crate::histogram::{Distribution, Histogram, ratio};
use crate::packet::{Kind, Member, Packet};

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Amount {
    #[inline]
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
    }
}

/// Packets by kind; each packet has one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// Unfragmented TCP whose ports were captured.
    pub tcp: Amount,
    /// Unfragmented UDP whose ports were captured.
    pub udp: Amount,
    /// Fragments of IP packets, of any protocol.
    pub fragments: Amount,
    /// All other IPv4 and IPv6 packets, including malformed and truncated packets.
    pub other_ip: Amount,
    /// ARP and all other packets.
    pub not_ip: Amount,
}

/// Counts all packets and bytes.
#[derive(Default)]
pub struct Totals {
    pub(crate) all: Amount,
    pub(crate) kinds: Kinds,
    pub(crate) cut: u64,
    /// The earliest and the latest time.
    pub(crate) span: Option<(i64, i64)>,
    sizes: Histogram,
    /// The counts by flow number.
    pub(crate) flows: Vec<Amount>,
}

impl Totals {
    /// Returns the seconds from the earliest to the latest packet.
    pub(crate) fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }

    /// Returns the sizes of the TCP flows, or of all flows.
    pub(crate) fn flow_sizes(&self, flows: &Flows, tcp_only: bool) -> FlowSizes {
        let chosen = self.flows.iter().enumerate();
        FlowSizes::of(chosen.filter(|(n, _)| !tcp_only || flows.is_tcp(*n as u32)).map(|(_, amount)| amount))
    }
}

impl Accumulator for Totals {
    /// The distribution of packet sizes; all other results are read from the fields.
    type Result = Distribution;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        super::prefetch(&self.flows, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &Packet) {
        self.all.add(packet);
        self.sizes.add(u64::from(packet.bytes));
        self.cut += u64::from(packet.is_cut);
        self.span = match self.span {
            None => Some((packet.time, packet.time)),
            Some((first, last)) => Some((first.min(packet.time), last.max(packet.time))),
        };
        let kind = match packet.flow {
            Some(flow) => {
                super::entry(&mut self.flows, flow.number).add(packet);
                if flow.is_tcp() { &mut self.kinds.tcp } else { &mut self.kinds.udp }
            }
            None => match packet.kind {
                Kind::Fragment => &mut self.kinds.fragments,
                Kind::OtherIp => &mut self.kinds.other_ip,
                Kind::NotIp => &mut self.kinds.not_ip,
            },
        };
        kind.add(packet);
    }

    fn finish(self) -> Distribution {
        self.sizes.summary()
    }
}

/// The distributions of flow sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlowSizes {
    /// Packets per flow.
    pub packets: Distribution,
    /// Bytes per flow.
    pub bytes: Distribution,
    /// Shares of flows and of bytes in flows up to a size, at 1, 1.5, 2, 3, 4, 6, 8, 12, ... bytes.
    pub cdf: Vec<SizeStep>,
}

/// A step of the distribution of flow sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SizeStep {
    /// The size of a flow in bytes.
    pub up_to: u64,
    /// The share of the flows that are no larger.
    pub flows: f64,
    /// The share of all bytes that is in these flows.
    pub bytes: f64,
}

impl FlowSizes {
    fn of<'a>(flows: impl Iterator<Item = &'a Amount>) -> FlowSizes {
        let (mut packets, mut bytes) = (Histogram::default(), Histogram::default());
        // Two steps for each power of two.
        let mut steps = [(0u64, 0u64); 128];
        let limit = |step: usize| match step % 2 {
            0 => 1u64 << (step / 2),
            _ => (1u64 << (step / 2)) + (1u64 << (step / 2) >> 1),
        };
        for flow in flows {
            packets.add(flow.packets);
            bytes.add(flow.bytes);
            let step = (0..128).find(|&step| flow.bytes <= limit(step)).unwrap_or(127);
            steps[step].0 += 1;
            steps[step].1 += flow.bytes;
        }
        let all = steps.iter().fold((0, 0), |(flows, bytes), step| (flows + step.0, bytes + step.1));
        let used = |step: &(u64, u64)| step.0 > 0;
        let range = match (steps.iter().position(used), steps.iter().rposition(used)) {
            // Starts a step earlier, where both shares are still 0.
            (Some(first), Some(last)) => first.saturating_sub(1)..last + 1,
            _ => 0..0,
        };
        let mut sum = (0, 0);
        let cdf = range.map(|step| {
            sum = (sum.0 + steps[step].0, sum.1 + steps[step].1);
            let (flows, bytes) = (ratio(sum.0 as f64, all.0 as f64), ratio(sum.1 as f64, all.1 as f64));
            SizeStep { up_to: limit(step), flows, bytes }
        });
        FlowSizes { cdf: cdf.collect(), packets: packets.summary(), bytes: bytes.summary() }
    }
}
