//! The addresses with the most TCP flows: the sizes of their flows, and the sizes of the batches that would
//! form if packets of these flows were held (Reframer, table 1 and figure 9).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use serde::Serialize;

use super::batches::{BatchSize, Batcher, CAP};
use super::totals::Amount;
use crate::flows::FlowNumbers;
use crate::histogram::{Distribution, Histogram};
use crate::packet::TracePacket;

/// The results for one of the addresses with the most TCP flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopAddress {
    /// The address.
    pub address: IpAddr,
    /// The TCP flows whose source is the address.
    pub tx: Direction,
    /// The TCP flows whose destination is the address.
    pub rx: Direction,
}

/// The results for the TCP flows that an address sends, or for the flows that it receives.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Direction {
    /// The number of flows.
    pub flows: u64,
    /// The distribution of packets per flow.
    pub packets: Distribution,
    /// The distribution of bytes per flow.
    pub bytes: Distribution,
    /// A map from window length in microseconds to the sizes of per-flow batches, with at most [`CAP`]
    /// packets per batch.
    pub batch: BTreeMap<u32, BatchSize>,
}

/// The accumulator for batches of the flows of the chosen addresses. It runs in the second pass, because
/// the addresses are known only after the first.
pub(crate) struct Top {
    addresses: Vec<(IpAddr, [Batcher; 2])>,
    /// A table by flow number: the indices in `addresses` of the flow's source and destination. `None` for
    /// addresses that are not chosen and flows that are not TCP.
    of_flow: Vec<[Option<u16>; 2]>,
}

impl Top {
    /// Chooses the `count` addresses at which the most TCP flows start or end. Of addresses with equally
    /// many flows, the smaller address comes first.
    pub(crate) fn choose(flows: &FlowNumbers, count: u16) -> Top {
        let mut ends: HashMap<IpAddr, u64> = HashMap::new();
        let tcp = || flows.iter().enumerate().filter(|(number, _)| flows.is_tcp(*number as u32));
        for (_, tuple) in tcp() {
            *ends.entry(tuple.source()).or_default() += 1;
            *ends.entry(tuple.destination()).or_default() += 1;
        }
        let mut ends: Vec<(IpAddr, u64)> = ends.into_iter().collect();
        ends.sort_unstable_by_key(|&(address, count)| (Reverse(count), address));
        ends.truncate(count.into());
        let places: HashMap<IpAddr, u16> = ends.iter().map(|end| end.0).zip(0..).collect();
        let mut of_flow = vec![[None; 2]; flows.len()];
        for (number, tuple) in tcp() {
            of_flow[number] = [tuple.source(), tuple.destination()].map(|end| places.get(&end).copied());
        }
        let batchers = || [Batcher::new(CAP), Batcher::new(CAP)];
        Top { addresses: ends.into_iter().map(|(address, _)| (address, batchers())).collect(), of_flow }
    }

    #[inline]
    pub(crate) fn observe(&mut self, packet: &TracePacket) {
        let Some(flow) = packet.flow else { return };
        let ends = self.of_flow.get(flow.number as usize).copied().unwrap_or_default();
        for (direction, place) in ends.into_iter().enumerate() {
            if let Some((_, batchers)) = place.and_then(|place| self.addresses.get_mut(usize::from(place))) {
                batchers[direction].take(flow.ordinal, packet.time);
            }
        }
    }

    /// Closes all open batches; see [`Batcher::restart`].
    pub(crate) fn restart(&mut self) {
        self.addresses.iter_mut().flat_map(|(_, batchers)| batchers).for_each(Batcher::restart);
    }

    pub(crate) fn finish(self, sizes: &[Amount]) -> Vec<TopAddress> {
        let mut amounts: Vec<[(Histogram, Histogram); 2]> = Vec::new();
        amounts.resize_with(self.addresses.len(), Default::default);
        for (amount, ends) in sizes.iter().zip(&self.of_flow) {
            for (direction, place) in ends.iter().enumerate() {
                if let Some(both) = place.and_then(|place| amounts.get_mut(usize::from(place))) {
                    both[direction].0.add(amount.packets);
                    both[direction].1.add(amount.bytes);
                }
            }
        }
        let rows = self.addresses.into_iter().zip(amounts);
        rows.map(|((address, [from, to]), [sent, received])| {
            let direction = |batcher: Batcher, (packets, bytes): (Histogram, Histogram)| Direction {
                flows: packets.count(),
                packets: packets.summary(),
                bytes: bytes.summary(),
                batch: batcher.finish(),
            };
            TopAddress { address, tx: direction(from, sent), rx: direction(to, received) }
        })
        .collect()
    }
}
