//! Packets that wait for the Ethernet address of their next hop, in order, by its IPv4 address.

use std::collections::{HashMap, VecDeque};

use element::{Cx, DropReason, Packet};

use super::table::Waiters;
use crate::hashing::ByNumber;

/// The packets of one element.
#[derive(Default)]
pub(super) struct Waiting {
    queues: HashMap<u32, VecDeque<Packet>, ByNumber>,
    /// Memory for further queues.
    spare: Vec<VecDeque<Packet>>,
    packets: usize,
}

impl Waiting {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// How many wait for an address.
    pub(super) fn len_of(&self, address: u32) -> usize {
        self.queues.get(&address).map_or(0, VecDeque::len)
    }

    /// Adds a packet behind those that wait for the same address.
    pub(super) fn push(&mut self, address: u32, packet: Packet) {
        let spare = &mut self.spare;
        self.queues.entry(address).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(packet);
        self.packets += 1;
    }

    /// Takes the packet that has waited longest for an address.
    pub(super) fn pop(&mut self, address: u32) -> Option<Packet> {
        let queue = self.queues.get_mut(&address)?;
        let packet = queue.pop_front();
        if queue.is_empty()
            && let Some(queue) = self.queues.remove(&address)
        {
            self.spare.push(queue);
        }
        self.packets -= usize::from(packet.is_some());
        packet
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
