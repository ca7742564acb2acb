//! Counts of packets and bytes: in total, by kind of packet and by flow; distributions of the sizes of
//! flows and packets.

use serde::Serialize;

use super::Accumulator;
use crate::flows::{FlowNumbers, entry, prefetch};
use crate::histogram::{Distribution, Histogram, ratio};
use crate::packet::{FlowlessKind, Member, TracePacket};

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// The sum of the packets' lengths on the wire, in bytes.
    pub bytes: u64,
}

impl Amount {
    #[inline]
    fn add(&mut self, packet: &TracePacket) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
    }
}

/// The packets and bytes of each kind of packet. Each packet has exactly one kind, so the sum is the total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// TCP packets that have a flow: unfragmented, with captured ports.
    pub tcp: Amount,
    /// UDP packets that have a flow: unfragmented, with captured ports.
    pub udp: Amount,
    /// Fragments of IP packets of any protocol, including first fragments.
    pub fragments: Amount,
    /// All other IPv4 and IPv6 packets, including malformed and truncated packets.
    pub other_ip: Amount,
    /// Packets that are not IPv4 or IPv6, such as ARP, and packets whose link header could not be read.
    pub not_ip: Amount,
}

/// The accumulator for the counts and sizes of packets and flows.
#[derive(Default)]
pub struct Totals {
    pub(crate) all: Amount,
    pub(crate) kinds: Kinds,
    pub(crate) cut: u64,
    /// The earliest and the latest time of a packet in nanoseconds; `None` without packets.
    pub(crate) span: Option<(i64, i64)>,
    sizes: Histogram,
    /// A table by flow number: the packets and bytes of each flow.
    pub(crate) flows: Vec<Amount>,
}

impl Totals {
    /// Returns the time from the earliest to the latest packet in seconds; 0 without packets.
    pub(crate) fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }

    /// Returns the distributions of flow sizes, of TCP flows only if `tcp_only`, else of all flows.
    pub(crate) fn flow_sizes(&self, flows: &FlowNumbers, tcp_only: bool) -> FlowSizes {
        let chosen = self.flows.iter().enumerate();
        FlowSizes::of(chosen.filter(|(n, _)| !tcp_only || flows.is_tcp(*n as u32)).map(|(_, amount)| amount))
    }
}

impl Accumulator for Totals {
    /// The distribution of packet sizes in bytes. All other results are read from the fields before
    /// `finish`.
    type Result = Distribution;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        prefetch(&self.flows, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        self.all.add(packet);
        self.sizes.add(u64::from(packet.bytes));
        self.cut += u64::from(packet.is_cut);
        self.span = match self.span {
            None => Some((packet.time, packet.time)),
            Some((first, last)) => Some((first.min(packet.time), last.max(packet.time))),
        };
        let kind = match packet.flow {
            Some(flow) => {
                entry(&mut self.flows, flow.number).add(packet);
                if flow.is_tcp() { &mut self.kinds.tcp } else { &mut self.kinds.udp }
            }
            None => match packet.kind {
                FlowlessKind::Fragment => &mut self.kinds.fragments,
                FlowlessKind::OtherIp => &mut self.kinds.other_ip,
                FlowlessKind::NotIp => &mut self.kinds.not_ip,
            },
        };
        kind.add(packet);
    }

    fn finish(self) -> Distribution {
        self.sizes.summary()
    }
}

/// The distributions of the sizes of flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlowSizes {
    /// The distribution of packets per flow.
    pub packets: Distribution,
    /// The distribution of bytes per flow.
    pub bytes: Distribution,
    /// The cumulative distribution at sizes of 1, 2, 3, 4, 6, 8, 12, ... bytes. It starts one step below the
    /// smallest flow, if there is such a step, and ends at the first size that covers all flows.
    pub cdf: Vec<SizeStep>,
}

/// A point of the cumulative distribution of flow sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SizeStep {
    /// The size of a flow in bytes.
    pub up_to: u64,
    /// The share of the flows that have at most `up_to` bytes.
    pub flows: f64,
    /// The share of all bytes that belongs to flows of at most `up_to` bytes.
    pub bytes: f64,
}

/// The number of steps of the cumulative distribution: the largest is 3 times 2^62 bytes.
const STEPS: usize = 127;

impl FlowSizes {
    fn of<'a>(flows: impl Iterator<Item = &'a Amount>) -> FlowSizes {
        let (mut packets, mut bytes) = (Histogram::default(), Histogram::default());
        // The number of flows and their bytes, for each step of the size: two steps per power of two.
        let mut steps = [(0u64, 0u64); STEPS];
        let limit = |step: usize| match step {
            0 => 1,
            _ if step % 2 == 1 => 1u64 << step.div_ceil(2),
            _ => 3u64 << (step / 2 - 1),
        };
        for flow in flows {
            packets.add(flow.packets);
            bytes.add(flow.bytes);
            let step = (0..STEPS).find(|&step| flow.bytes <= limit(step)).unwrap_or(STEPS - 1);
            steps[step].0 += 1;
            steps[step].1 += flow.bytes;
        }
        let all = steps.iter().fold((0, 0), |(flows, bytes), step| (flows + step.0, bytes + step.1));
        let used = |step: &(u64, u64)| step.0 > 0;
        let range = match (steps.iter().position(used), steps.iter().rposition(used)) {
            // Begins a step before the first used step, where both shares are still 0, if there is such a
            // step.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_flow_sizes_ascend() {
        let flows = |sizes: &[u64]| {
            let amounts: Vec<Amount> = sizes.iter().map(|&bytes| Amount { packets: 1, bytes }).collect();
            FlowSizes::of(amounts.iter()).cdf
        };
        let steps = |sizes: &[u64]| -> Vec<(u64, f64)> {
            flows(sizes).iter().map(|step| (step.up_to, step.flows)).collect()
        };
        assert_eq!(steps(&[1, 12]), [(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.5), (6, 0.5), (8, 0.5), (12, 1.0)]);
        assert_eq!(steps(&[2]), [(1, 0.0), (2, 1.0)]);
        assert_eq!(steps(&[3, 5]), [(2, 0.0), (3, 0.5), (4, 0.5), (6, 1.0)]);
        let all = flows(&[1, u64::MAX / 2]);
        assert!(all.windows(2).all(|pair| pair[0].up_to < pair[1].up_to), "{all:?}");
        assert_eq!(all.last().map(|step| (step.up_to, step.flows)), Some((1 << 63, 1.0)));
    }
}
