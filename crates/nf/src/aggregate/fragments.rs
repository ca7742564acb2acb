//! Queues in which AggregateIPFlows holds fragments for FRAGMENT_TIMEOUT, and packets that must not overtake
//! the fragments.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use element::Packet;
use flow::FiveTupleKey;

use crate::memory::reserved;

/// The key of a queue: a protocol and two IPv4 addresses, the smaller one first. All packets of this
/// protocol between these two hosts wait in one queue, in both directions, so that they keep their order.
pub(super) type Pair = (u8, u32, u32);

pub(super) struct Waiting {
    pub(super) packet: Packet,
    /// The identification field of the IP header, which all fragments of a datagram have in common.
    pub(super) id: u16,
    pub(super) is_fragment: bool,
    /// The packet's flow and paint; `None` for a later fragment until the first fragment of its datagram is
    /// found.
    pub(super) flow: Option<(FiveTupleKey, u8)>,
}

/// All waiting packets, in one queue per protocol and pair of hosts.
#[derive(Default)]
pub(super) struct Fragments {
    pairs: HashMap<Pair, VecDeque<Waiting>>,
    /// Empty queues, whose memory is used again for the next pair of hosts.
    spare: Vec<VecDeque<Waiting>>,
    packets: usize,
    /// The queues in the order in which they were added, each with the time stamp, in seconds, of the packet
    /// that was its first packet then. A queue that has been emptied meanwhile may be among them.
    due: VecDeque<(i64, Pair)>,
}

impl Fragments {
    /// Returns the number of waiting packets.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// True if packets of the protocol and the two hosts of `pair` wait.
    pub(super) fn has(&self, pair: Pair) -> bool {
        self.packets > 0 && self.pairs.contains_key(&pair)
    }

    /// Appends a packet to the queue for `pair`.
    ///
    /// # Errors
    /// The packet itself, if there is no memory for it.
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

    /// Removes and returns the first packet of the queue for `pair` if it need not wait longer: it is not a
    /// fragment, or its time stamp is before `second`. `None` otherwise. If the packet's flow is known, all
    /// packets of the queue with the same identification get it. Otherwise the packet gets the known flow of
    /// one of them.
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

    /// Removes the first queue from `due` and returns its key, if the time stamp with which it was added is
    /// before `second`. The caller takes packets out with [`pop_due`](Self::pop_due) and then calls
    /// [`wait_on`](Self::wait_on) for the packets that remain.
    pub(super) fn next_due(&mut self, second: i64) -> Option<Pair> {
        self.due.pop_front_if(|(at, _)| *at < second).map(|(_, pair)| pair)
    }

    /// Adds a queue to `due` again, if packets still wait in it.
    pub(super) fn wait_on(&mut self, pair: Pair) {
        if let Some(first) = self.pairs.get(&pair).and_then(VecDeque::front) {
            self.due.push_back((first.packet.time().parts().0, pair));
        }
    }

    /// Returns the keys of all queues in ascending order; an empty list if there is no memory for it.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let Ok(mut pairs) = reserved(self.pairs.len()) else { return Vec::new() };
        pairs.extend(self.pairs.keys().copied());
        pairs.sort_unstable();
        pairs
    }

    /// Empties all queues and returns their packets, which the caller has to drop.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.packets = 0;
        self.due.clear();
        self.pairs.drain().flat_map(|(_, list)| list).map(|waiting| waiting.packet)
    }
}
