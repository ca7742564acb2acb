//! Queues for fragments whose flow is not yet known.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use element::Packet;
use flow::FiveTupleKey;

use crate::memory::reserved;

/// A protocol and two hosts: packets between them wait in one queue, so that they keep their order.
pub(super) type Pair = (u8, u32, u32);

/// A packet that waits.
pub(super) struct Waiting {
    pub(super) packet: Packet,
    /// The identification of the IP datagram.
    pub(super) id: u16,
    pub(super) is_fragment: bool,
    /// The packet's flow and paint, once they are known.
    pub(super) flow: Option<(FiveTupleKey, u8)>,
}

/// All packets that wait.
#[derive(Default)]
pub(super) struct Fragments {
    pairs: HashMap<Pair, VecDeque<Waiting>>,
    /// Empty queues, which are kept for their memory.
    spare: Vec<VecDeque<Waiting>>,
    packets: usize,
    /// The non-empty queues, by the second in which the first packet of each arrived.
    due: VecDeque<(i64, Pair)>,
}

impl Fragments {
    /// Returns the number of packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// True if packets between two hosts wait.
    pub(super) fn has(&self, pair: Pair) -> bool {
        self.packets > 0 && self.pairs.contains_key(&pair)
    }

    /// Appends a packet to the queue of its hosts.
    ///
    /// # Errors
    /// If there is no memory for the packet, which is returned.
    pub(super) fn push(&mut self, pair: Pair, waiting: Waiting) -> Result<(), Packet> {
        let (spare, due) = (&mut self.spare, &mut self.due);
        let has_memory = self.pairs.try_reserve(1).is_ok() && due.try_reserve(1).is_ok();
        let list = match self.pairs.entry(pair) {
            _ if !has_memory => return Err(waiting.packet),
            Entry::Occupied(list) => list.into_mut(),
            Entry::Vacant(place) => {
                let mut list = spare.pop().unwrap_or_default();
                if list.try_reserve(1).is_err() {
                    return Err(waiting.packet);
                }
                due.push_back((waiting.packet.time().parts().0, pair));
                place.insert(list)
            }
        };
        if list.try_reserve(1).is_err() {
            return Err(waiting.packet);
        }
        list.push_back(waiting);
        self.packets += 1;
        Ok(())
    }

    /// Removes the first packet of a queue if it is not a fragment or arrived before `second`. If the flow
    /// of one fragment of its datagram is known, the others get the same flow.
    pub(super) fn pop_due(&mut self, pair: Pair, second: i64) -> Option<Waiting> {
        let list = self.pairs.get_mut(&pair)?;
        let is_due = |first: &mut Waiting| !first.is_fragment || first.packet.time().parts().0 < second;
        let mut first = list.pop_front_if(is_due)?;
        let mut siblings = list.iter_mut().filter(|other| other.id == first.id);
        match first.flow {
            Some(_) => siblings.for_each(|other| other.flow = first.flow),
            None => first.flow = siblings.find_map(|other| other.flow),
        }
        self.packets -= 1;
        if list.is_empty() {
            let list = self.pairs.remove(&pair).filter(|_| self.spare.try_reserve(1).is_ok());
            self.spare.extend(list);
        }
        Some(first)
    }

    /// Removes and returns the next two hosts from `due` if their first packet arrived before `second`. The
    /// caller releases that packet and then calls [`wait_on`](Self::wait_on) for the packets after it.
    pub(super) fn next_due(&mut self, second: i64) -> Option<Pair> {
        self.due.pop_front_if(|(at, _)| *at < second).map(|(_, pair)| pair)
    }

    /// Puts two hosts into `due` again, if packets between them still wait.
    pub(super) fn wait_on(&mut self, pair: Pair) {
        if let Some(first) = self.pairs.get(&pair).and_then(VecDeque::front) {
            self.due.push_back((first.packet.time().parts().0, pair));
        }
    }

    /// Returns the hosts with waiting packets, in a deterministic order; nothing if there is no memory for
    /// the list.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let Ok(mut pairs) = reserved(self.pairs.len()) else { return Vec::new() };
        pairs.extend(self.pairs.keys().copied());
        pairs.sort_unstable();
        pairs
    }

    /// Removes and returns all packets.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.packets = 0;
        self.due.clear();
        self.pairs.drain().flat_map(|(_, list)| list).map(|waiting| waiting.packet)
    }
}
