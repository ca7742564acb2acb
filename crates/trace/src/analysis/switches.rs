//! The number of changes from one flow to another that an application would see (Reframer, figure 8).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Accumulator;
use crate::packet::{Member, Packet};

/// The analyzed batch sizes.
pub const BATCHES: [u32; 4] = [32, 64, 256, 1024];

/// Flow switches in batches of one size, over the whole trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// The number of changes of flow from one packet of a batch to the next.
    pub as_is: u64,
    /// The number of changes if each batch is sorted by flow: the number of its flows minus one.
    pub ordered: u64,
}

/// Cuts the TCP and UDP packets into batches and counts changes of flow in them.
#[derive(Default)]
pub struct Switches {
    packets: u64,
    last: u32,
    counts: [Switch; BATCHES.len()],
    /// The batch, counted from 1, in which each flow was last seen; one number per batch size.
    seen: Vec<[u64; BATCHES.len()]>,
}

impl Accumulator for Switches {
    type Result = BTreeMap<u32, Switch>;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        super::prefetch(&self.seen, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &Packet) {
        let Some(flow) = packet.flow else { return };
        let seen = super::entry(&mut self.seen, flow.number);
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
