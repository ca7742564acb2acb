//! The look-up of routes for the packets of a batch, once for consecutive packets to the same address.

use classify::prefixes::Address;
use element::{Batch, Cx, DropReason, Packet};
use packet::BATCH_CAPACITY;

use super::gateway::Gateway;
use super::table::RouteTable;
use crate::sorting::{Fate, Sorter};

/// The destinations of the packets of a batch. Consecutive packets to the same address have one destination.
pub(super) struct Destinations<A> {
    /// The address of each destination. Entries from index `count` on have no meaning, here and in `numbers`.
    addresses: Box<[A; BATCH_CAPACITY]>,
    /// The index in the batch of the first packet to each destination. The entry after the last destination
    /// is the number of packets in the batch.
    starts: Box<[u16; BATCH_CAPACITY + 1]>,
    /// The number in the route table of each destination's next hop; `None` if there is no route.
    numbers: Box<[Option<u32>; BATCH_CAPACITY]>,
    /// The number of destinations.
    count: usize,
}

impl<A: Address + Default> Destinations<A> {
    pub(super) fn new() -> Destinations<A> {
        Destinations {
            addresses: Box::new([A::default(); BATCH_CAPACITY]),
            starts: Box::new([0; BATCH_CAPACITY + 1]),
            numbers: Box::new([None; BATCH_CAPACITY]),
            count: 0,
        }
    }

    /// Looks up the next hops of the packets of a batch in `table`, by the destination address that `address`
    /// returns for a packet.
    #[inline]
    pub(super) fn look_up<G: Gateway>(
        &mut self,
        batch: &[Packet],
        table: &RouteTable<A, G>,
        address: impl Fn(&Packet) -> A,
    ) {
        let (mut count, mut last) = (0, None);
        for (index, packet) in batch.iter().enumerate() {
            let address = address(packet);
            if last != Some(address) {
                self.addresses[count % BATCH_CAPACITY] = address;
                self.starts[count % BATCH_CAPACITY] = index as u16;
                (count, last) = (count + 1, Some(address));
            }
        }
        self.starts[count] = batch.len() as u16;
        self.count = count;
        table.lookup_batch(&self.addresses[..count], &mut self.numbers[..count]);
    }

    /// Sends each packet of the batch that was looked up last by the output of its next hop, after the next
    /// hop's gateway has prepared it ([`Gateway::direct`]). Packets without a route are dropped
    /// ([`DropReason::NoRoute`]).
    #[inline]
    pub(super) fn send<G: Gateway>(
        &self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        sorter: &mut Sorter,
        table: &RouteTable<A, G>,
        desk: &mut G::Desk,
    ) -> Option<Batch> {
        sorter.begin();
        let mut first = 0;
        // Consecutive destinations often have the same next hop; their packets are handled together.
        for numbers in self.numbers[..self.count].chunk_by(|one, other| one == other) {
            let after = first + numbers.len();
            let packets = usize::from(self.starts[first])..usize::from(self.starts[after]);
            let hop = numbers.first().copied().flatten().and_then(|number| table.hop(number));
            match hop.and_then(|hop| Some((hop.gateway, usize::try_from(hop.output).ok()?))) {
                Some((gateway, output)) => gateway.direct(desk, cx, output, &mut batch[packets], sorter),
                None => sorter.note(Fate::Drop(DropReason::NoRoute), packets.len()),
            }
            first = after;
        }
        sorter.send_noted(cx, batch)
    }

    /// True if a packet of the batch that was looked up last has no route.
    #[inline]
    pub(super) fn has_unrouted(&self) -> bool {
        self.numbers[..self.count].iter().any(Option::is_none)
    }

    /// Returns the address of each packet without a route, in order.
    pub(super) fn unrouted(&self) -> impl Iterator<Item = A> {
        let found =
            self.addresses.iter().zip(self.numbers.iter()).zip(self.starts.windows(2)).take(self.count);
        let unrouted = found.filter(|((_, number), _)| number.is_none());
        unrouted
            .flat_map(|((&address, _), range)| std::iter::repeat_n(address, usize::from(range[1] - range[0])))
    }
}
