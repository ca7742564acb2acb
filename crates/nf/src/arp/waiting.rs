//! Queues of packets that wait for the Ethernet address of their next hop, one queue per IP address.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use element::{Cx, DropReason, Packet, Timestamp};

use super::table::{Address, Ranks, Ticket, Waiters};
use crate::hashing::{ByNumber, reseed};

/// The packets that wait in one element for Ethernet addresses. The queues are linked lists in one array, so
/// that no memory is allocated once the array is large enough.
pub(crate) struct Waiting<A = u32> {
    queues: HashMap<A, Queue, ByNumber>,
    /// A heap of the IP addresses for which packets wait, by the rank (age) of their entries in the table of
    /// neighbours, oldest on top. An item is outdated if its address has no queue, or a queue of another
    /// rank.
    ages: BinaryHeap<Reverse<(u64, A)>>,
    /// A heap of the addresses by the time when their first packet will have waited too long, earliest on
    /// top. Items can be outdated. Empty if `patience`, the longest time that packets wait, is `None`.
    dues: BinaryHeap<Reverse<(Timestamp, A)>>,
    patience: Option<Timestamp>,
    nodes: Vec<Node>,
    /// The indexes in `nodes` that are free.
    free: Vec<usize>,
    packets: usize,
}

/// The packets that wait for one IP address: the indexes in `nodes` of the first and last node, and the
/// number of packets.
#[derive(Clone, Copy)]
struct Queue {
    first: usize,
    last: usize,
    length: usize,
    /// The identity of the entry, in the table of neighbours, for whose Ethernet address the packets wait.
    ticket: Ticket,
}

struct Node {
    packet: Option<Packet>,
    since: Timestamp,
    /// The index of the next node in the queue; meaningless in the last node.
    next: usize,
}

/// The number of items by which a heap may exceed twice the number of queues, before outdated items are
/// removed.
const UNTIDY: usize = 64;

impl<A: Ord> Default for Waiting<A> {
    fn default() -> Waiting<A> {
        let (queues, ages, dues) = (HashMap::default(), BinaryHeap::new(), BinaryHeap::new());
        Waiting { queues, ages, dues, patience: None, nodes: Vec::new(), free: Vec::new(), packets: 0 }
    }
}

impl<A: Address> Waiting<A> {
    /// Seeds the hash function, so that an attacker cannot make addresses collide.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        reseed(&mut self.queues, seed);
    }

    /// Sets the longest time that packets wait (`None` for no limit), also for packets that already wait.
    pub(crate) fn set_patience(&mut self, patience: Option<Timestamp>) {
        self.patience = patience;
        self.note_dues();
    }

    /// Returns the number of packets that wait in this element.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Returns the number of packets that wait for an address in this element.
    pub(crate) fn len_of(&self, address: A) -> usize {
        self.queues.get(&address).map_or(0, |queue| queue.length)
    }

    /// Returns the identity of the entry, in the table of neighbours, for which the packets of an IP address
    /// wait; `None` if no packets wait for the address.
    pub(crate) fn ticket(&self, address: A) -> Option<Ticket> {
        Some(self.queues.get(&address)?.ticket)
    }

    /// Reserves memory for another packet, and for its removal. Returns false if there is none.
    fn has_memory_for_another(&mut self) -> bool {
        let has_place = !self.free.is_empty() || self.nodes.try_reserve(1).is_ok();
        let taken = self.nodes.len() + 1 - self.free.len();
        has_place
            && self.free.try_reserve(taken).is_ok()
            && self.queues.try_reserve(1).is_ok()
            && self.ages.try_reserve(1).is_ok()
            && self.dues.try_reserve(1).is_ok()
    }

    /// Adds a packet at the end of the queue of its address. `ticket` identifies the table's entry; the
    /// wait starts at `now`.
    ///
    /// # Errors
    /// If there is no memory; the error is the packet.
    pub(crate) fn push(
        &mut self,
        address: A,
        ticket: Ticket,
        packet: Packet,
        now: Timestamp,
    ) -> Result<(), Packet> {
        if !self.has_memory_for_another() {
            return Err(packet);
        }
        let node = Node { packet: Some(packet), since: now, next: usize::MAX };
        let place = self.free.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(place) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        let first = Queue { first: place, last: place, length: 0, ticket };
        let queue = self.queues.entry(address).or_insert(first);
        let is_first = queue.length == 0;
        if let Some(last) = self.nodes.get_mut(queue.last).filter(|_| queue.last != place) {
            last.next = place;
        }
        (queue.last, queue.length) = (place, queue.length + 1);
        self.packets += 1;
        if is_first {
            self.note_age(ticket.rank, address);
            if let Some(patience) = self.patience {
                if self.dues.len() >= 2 * self.queues.len() + UNTIDY {
                    self.note_dues();
                } else {
                    self.dues.push(Reverse((now + patience, address)));
                }
            }
        }
        Ok(())
    }

    fn note_dues(&mut self) {
        self.dues.clear();
        if let Some(patience) = self.patience {
            let first = |queue: &Queue| self.nodes.get(queue.first).map(|node| node.since);
            let due = |(&address, queue): (&A, &Queue)| Some(Reverse((first(queue)? + patience, address)));
            self.dues.extend(self.queues.iter().filter_map(due));
        }
    }

    /// Returns a time before which no packet will have waited too long; `None` only if no packets wait, or if
    /// packets may wait for any time.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.dues.peek().map(|&Reverse((due, _))| due)
    }

    /// Removes a packet that has waited too long by `now`, and returns it with the address for which it
    /// waited. Returns `None` if there is none.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(A, Packet)> {
        let patience = self.patience?;
        while let Some(&Reverse((due, address))) = self.dues.peek() {
            if due > now {
                return None;
            }
            let first = self.queues.get(&address).and_then(|queue| self.nodes.get(queue.first));
            let first = first.map(|node| node.since + patience);
            if first.is_some_and(|first| first <= now) {
                return Some((address, self.pop(address)?));
            }
            self.dues.pop();
            self.dues.extend(first.map(|first| Reverse((first, address))));
        }
        None
    }

    fn note_age(&mut self, rank: u64, address: A) {
        if self.ages.len() >= 2 * self.queues.len() + UNTIDY {
            self.ages.clear();
            self.ages
                .extend(self.queues.iter().map(|(&address, queue)| Reverse((queue.ticket.rank, address))));
        } else {
            self.ages.push(Reverse((rank, address)));
        }
    }

    /// Removes and returns the packet that has waited longest for an address; `None` if none waits for it.
    pub(crate) fn pop(&mut self, address: A) -> Option<Packet> {
        let queue = self.queues.get_mut(&address)?;
        let place = queue.first;
        let node = self.nodes.get_mut(place)?;
        let packet = node.packet.take()?;
        (queue.first, queue.length) = (node.next, queue.length - 1);
        if queue.length == 0 {
            self.queues.remove(&address);
        }
        self.free.push(place);
        self.packets -= 1;
        Some(packet)
    }

    /// Returns the address with the oldest entry, by `ranks`, among the addresses for which packets wait.
    /// Returns `None` if no packets wait.
    pub(crate) fn oldest(&mut self, ranks: &dyn Ranks<A>) -> Option<A> {
        while let Some(&Reverse((rank, address))) = self.ages.peek() {
            let queue = self.queues.get_mut(&address).filter(|queue| queue.ticket.rank == rank);
            let now = queue.as_ref().and_then(|_| ranks.rank(address)).unwrap_or(rank);
            match queue {
                Some(_) if now == rank => return Some(address),
                // The rank of the entry has increased since this item was put into the heap. It never
                // decreases, so the item's new position is further down.
                Some(queue) => {
                    queue.ticket.rank = now;
                    self.ages.pop();
                    self.ages.push(Reverse((now, address)));
                }
                None => _ = self.ages.pop(),
            }
        }
        None
    }

    /// Returns each address for which packets wait, with their number, in any order.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (A, usize)> {
        self.queues.iter().map(|(&address, queue)| (address, queue.length))
    }

    /// Returns the addresses for which packets wait, with the ranks of their entries, oldest first. Returns
    /// `None` if there is no memory for the list.
    pub(crate) fn addresses(&self, ranks: &dyn Ranks<A>) -> Option<Vec<(u64, A)>> {
        let aged =
            |(&address, queue): (&A, &Queue)| (ranks.rank(address).unwrap_or(queue.ticket.rank), address);
        let mut all = crate::memory::reserved(self.queues.len()).ok()?;
        all.extend(self.queues.iter().map(aged));
        all.sort_unstable();
        Some(all)
    }
}

/// An implementation of [`Waiters`] that drops the packets of the calling element.
pub(crate) struct Dropping<'a, 'b, A = u32> {
    pub(crate) cx: &'a mut Cx<'b>,
    pub(crate) waiting: &'a mut Waiting<A>,
}

impl<A: Address> Waiters<A> for Dropping<'_, '_, A> {
    fn give_up(&mut self, address: A, reason: DropReason) {
        while let Some(packet) = self.waiting.pop(address) {
            self.cx.drop(packet, reason);
        }
    }

    fn give_up_oldest(&mut self, ranks: &dyn Ranks<A>, reason: DropReason) -> Option<A> {
        let address = self.waiting.oldest(ranks)?;
        let packet = self.waiting.pop(address)?;
        self.cx.drop(packet, reason);
        Some(address)
    }
}
