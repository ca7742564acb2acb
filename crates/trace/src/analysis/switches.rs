//! The number of flow switches: changes from one flow to another that an application would see within a
//! batch (Reframer, figure 8).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Accumulator;
use crate::flows::{entry, prefetch};
use crate::packet::{Member, TracePacket};

/// The analyzed batch sizes, in packets.
pub const BATCHES: [u32; 4] = [32, 64, 256, 1024];

/// The number of flow switches over the whole trace, for one batch size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// The number of packets, except the first of each batch, that belong to another flow than the packet
    /// before.
    pub as_is: u64,
    /// The number of flow switches if each batch were sorted by flow: for each batch, the number of its
    /// flows minus one.
    pub ordered: u64,
}

/// The accumulator that cuts the TCP and UDP packets into batches of each size and counts the flow switches
/// in them. Switches from one batch to the next do not count.
#[derive(Default)]
pub struct Switches {
    packets: u64,
    last: u32,
    counts: [Switch; BATCHES.len()],
    /// A table by flow number: for each batch size, the batch in which the flow was last seen, counted from
    /// 1.
    seen: Vec<[u64; BATCHES.len()]>,
}

impl Accumulator for Switches {
    type Result = BTreeMap<u32, Switch>;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        prefetch(&self.seen, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        let Some(flow) = packet.flow else { return };
        let seen = entry(&mut self.seen, flow.number);
        for ((size, count), seen) in BATCHES.iter().zip(&mut self.counts).zip(seen) {
            let is_first = self.packets.is_multiple_of(u64::from(*size));
            let batch = self.packets / u64::from(*size) + 1;
            count.as_is += u64::from(!is_first && flow.number != self.last);
            count.ordered += u64::from(!is_first && *seen != batch);
            *seen = batch;
        }
        self.last = flow.number;
        self.packets += 1;
    }

    fn finish(self) -> BTreeMap<u32, Switch> {
        BATCHES.into_iter().zip(self.counts).collect()
    }
}
