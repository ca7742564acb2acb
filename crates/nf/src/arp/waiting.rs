//! Packets that wait for the Ethernet address of their next hop, in order, by its IPv4 address.

use std::collections::HashMap;

use element::{Cx, DropReason, Packet};

use super::table::Waiters;
use crate::hashing::ByNumber;

/// The packets of one element: lists in one array, so that nothing is allocated once it is long enough.
#[derive(Default)]
pub(super) struct Waiting {
    queues: HashMap<u32, Queue, ByNumber>,
    nodes: Vec<Node>,
    /// Places in `nodes` that are not in use.
    free: Vec<usize>,
    packets: usize,
}

/// Those for one address: where the first and the last one are, and how many there are.
#[derive(Clone, Copy)]
struct Queue {
    first: usize,
    last: usize,
    length: usize,
}

struct Node {
    packet: Option<Packet>,
    /// The one behind it, if it is not the last one.
    next: usize,
}

impl Waiting {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// How many wait for an address.
    pub(super) fn len_of(&self, address: u32) -> usize {
        self.queues.get(&address).map_or(0, |queue| queue.length)
    }

    /// Adds a packet behind those that wait for the same address.
    pub(super) fn push(&mut self, address: u32, packet: Packet) {
        let node = Node { packet: Some(packet), next: usize::MAX };
        let place = self.free.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(place) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        let first = Queue { first: place, last: place, length: 0 };
        let queue = self.queues.entry(address).or_insert(first);
        if let Some(last) = self.nodes.get_mut(queue.last).filter(|_| queue.last != place) {
            last.next = place;
        }
        (queue.last, queue.length) = (place, queue.length + 1);
        self.packets += 1;
    }

    /// Takes the packet that has waited longest for an address.
    pub(super) fn pop(&mut self, address: u32) -> Option<Packet> {
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

    /// An address that packets wait for and that is meant.
    pub(super) fn find(&self, mut is_meant: impl FnMut(u32) -> bool) -> Option<u32> {
        self.queues.keys().copied().find(|&address| is_meant(address))
    }
}

/// Lets a table drop packets of the element that is at work.
pub(super) struct Dropping<'a, 'b> {
    pub(super) cx: &'a mut Cx<'b>,
    pub(super) waiting: &'a mut Waiting,
}

impl Waiters for Dropping<'_, '_> {
    fn give_up(&mut self, address: u32, most: usize, reason: DropReason) -> usize {
        let mut dropped = 0;
        while dropped < most
            && let Some(packet) = self.waiting.pop(address)
        {
            self.cx.drop(packet, reason);
            dropped += 1;
        }
        dropped
    }
}
