//! What all flows of one end inside have in common: the port that it is known by outside, and how many there may be.
//!
//! With endpoint-independent mapping (RFC 4787, section 4.1), an address and port inside has one address and port outside,
//! wherever its packets go. It keeps them for as long as it has any mapping.

use std::collections::hash_map::{Entry, HashMap};

use super::{Claim, Store, tuple};
use crate::nat::tuple::Tuple;

/// Mappings that are looked at for one that is over, to make room for another one of the same address.
const LOOKS: usize = 64;

/// An address and a port, in a space.
type End = (u32, u32, u16);

/// An end inside.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    outside: (u32, u16),
    mappings: u32,
    /// As of the first mapping.
    outputs: [u16; 2],
    annotation: u8,
}

/// The translation of packets from outside for an end that is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Known {
    pub(in crate::nat) inside: (u32, u16),
    pub(in crate::nat) outputs: [u16; 2],
    pub(in crate::nat) annotation: u8,
}

/// What an end inside that is known has outside.
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Bound {
    pub(in crate::nat) outside: (u32, u16),
    /// Where its packets go, and those of replies.
    pub(in crate::nat) outputs: [u16; 2],
}

#[derive(Default)]
pub(super) struct Endpoints {
    inside: HashMap<End, Endpoint>,
    outside: HashMap<End, (u32, u16)>,
    /// By owner and address, where mappings are limited.
    subscribers: HashMap<(u16, u32), Subscriber>,
}

/// The mappings of an address.
#[derive(Default)]
struct Subscriber {
    sessions: Vec<u32>,
    /// Where those that are over are looked for next.
    next: usize,
}

impl Endpoints {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty() && self.subscribers.is_empty()
    }

    /// Makes room for what another mapping needs, if there is memory for it.
    pub(super) fn try_reserve(&mut self) -> bool {
        self.inside.try_reserve(1).is_ok()
            && self.outside.try_reserve(1).is_ok()
            && self.subscribers.try_reserve(1).is_ok()
    }

    pub(super) fn give_memory_back(&mut self) {
        self.inside.shrink_to_fit();
        self.outside.shrink_to_fit();
        self.subscribers.shrink_to_fit();
    }
}

impl Store {
    /// What the sender of a flow has outside already.
    pub(in crate::nat) fn outside_of(&self, space: u32, flow: Tuple) -> Option<Bound> {
        let end = (space, flow.source, flow.source_port);
        self.endpoints.inside.get(&end).map(|&Endpoint { outside, outputs, .. }| Bound { outside, outputs })
    }

    /// Whether a flow may become this: whoever has the reply so far is its sender too.
    pub(in crate::nat) fn may_become(&self, space: u32, flow: Tuple, to: Tuple) -> bool {
        let other = self.find(Store::reply(to, space), space);
        other.is_none_or(|other| {
            let receiver = (other.to.destination, other.to.destination_port);
            other.is_reply && receiver == (flow.source, flow.source_port)
        })
    }

    /// Whether the sender of a flow that has become this may have that port for all its flows: neither has it another one,
    /// nor anybody else this one.
    pub(super) fn may_bind(&self, space: u32, flow: Tuple, to: Tuple) -> bool {
        match self.outside_of(space, flow) {
            Some(Bound { outside, .. }) => outside == (to.source, to.source_port),
            None => !self.endpoints.outside.contains_key(&(space, to.source, to.source_port)),
        }
    }

    /// Who inside a packet from outside is for, if its receiver is known there.
    pub(in crate::nat) fn inside_of(&self, space: u32, packet: Tuple) -> Option<Known> {
        let end = (space, packet.destination, packet.destination_port);
        let &(address, port) = self.endpoints.outside.get(&end)?;
        let &Endpoint { outputs, annotation, .. } = self.endpoints.inside.get(&(space, address, port))?;
        Some(Known { inside: (address, port), outputs, annotation })
    }

    /// A mapping of an end has come.
    pub(super) fn bind(&mut self, space: u32, (from, to): (Tuple, Tuple), outputs: [u16; 2]) {
        let outside = (to.source, to.source_port);
        let end = (space, from.source, from.source_port);
        let fresh = Endpoint { outside, mappings: 0, outputs, annotation: 0 };
        let endpoint = self.endpoints.inside.entry(end).or_insert(fresh);
        endpoint.mappings += 1;
        if endpoint.mappings == 1 {
            self.endpoints.outside.insert((space, outside.0, outside.1), (from.source, from.source_port));
            self.used.set(Store::pool(to, space, Claim::Endpoint), to.source_port.into());
        }
    }

    /// A mapping of an end is gone.
    pub(super) fn unbind(&mut self, space: u32, from: Tuple) {
        let end = (space, from.source, from.source_port);
        let Some(endpoint) = self.endpoints.inside.get_mut(&end) else { return };
        endpoint.mappings -= 1;
        if endpoint.mappings == 0 {
            let (source, source_port) = endpoint.outside;
            self.endpoints.inside.remove(&end);
            self.endpoints.outside.remove(&(space, source, source_port));
            let to = Tuple { source, source_port, ..Tuple::default() };
            self.used.clear(Store::pool(to, space, Claim::Endpoint), source_port.into());
        }
    }

    /// Keeps a byte for packets to an end.
    pub(super) fn annotate(&mut self, space: u32, from: Tuple, value: u8) {
        if let Some(endpoint) = self.endpoints.inside.get_mut(&(space, from.source, from.source_port)) {
            endpoint.annotation = value;
        }
    }

    /// An owner is to have no more than so many mappings for one address inside; zero for as many as it likes.
    pub(in crate::nat) fn limit_subscribers(&mut self, owner: u16, most: u32) {
        if let Some(owner) = self.owners.get_mut(usize::from(owner)) {
            owner.most_of_one = most;
        }
    }

    /// Whether an address has as many mappings as it may have. Those of it that are over make room first, as far as a few are
    /// looked at.
    pub(super) fn is_exhausted(&mut self, owner: u16, address: u32, now: i64) -> bool {
        let most = self.owners.get(usize::from(owner)).map_or(0, |owner| owner.most_of_one as usize);
        if most == 0 || self.mappings_of(owner, address) < most {
            return false;
        }
        for _ in 0..LOOKS.min(self.mappings_of(owner, address)) {
            let Some(subscriber) = self.endpoints.subscribers.get_mut(&(owner, address)) else { break };
            if subscriber.next >= subscriber.sessions.len() {
                subscriber.next = 0;
            }
            let Some(&place) = subscriber.sessions.get(subscriber.next) else { break };
            if self.is_over(place, now) {
                // Another one takes its seat.
                self.remove(place);
            } else if let Some(subscriber) = self.endpoints.subscribers.get_mut(&(owner, address)) {
                subscriber.next += 1;
            }
        }
        self.mappings_of(owner, address) >= most
    }

    fn mappings_of(&self, owner: u16, address: u32) -> usize {
        let subscriber = self.endpoints.subscribers.get(&(owner, address));
        subscriber.map_or(0, |subscriber| subscriber.sessions.len())
    }

    /// Makes room for a mapping in the list of an address, if there is memory for it and there are such lists.
    pub(super) fn reserve_seat(&mut self, owner: u16, address: u32) -> bool {
        if self.owners.get(usize::from(owner)).is_none_or(|owner| owner.most_of_one == 0) {
            return true;
        }
        match self.endpoints.subscribers.entry((owner, address)) {
            Entry::Occupied(mut subscriber) => subscriber.get_mut().sessions.try_reserve(1).is_ok(),
            Entry::Vacant(place) => {
                let mut subscriber = Subscriber::default();
                let has_memory = subscriber.sessions.try_reserve(1).is_ok();
                if has_memory {
                    place.insert(subscriber);
                }
                has_memory
            }
        }
    }

    /// An address has one mapping more.
    pub(super) fn charge(&mut self, place: u32, address: u32) {
        let Some(session) = self.sessions.get_mut(place as usize) else { return };
        if self.owners.get(usize::from(session.owner)).is_some_and(|owner| owner.most_of_one > 0) {
            let subscriber = self.endpoints.subscribers.entry((session.owner, address)).or_default();
            session.seat = subscriber.sessions.len() as u32;
            subscriber.sessions.push(place);
        }
    }

    /// It has one less.
    pub(super) fn discharge(&mut self, owner: u16, address: u32, seat: u32) {
        let Some(subscriber) = self.endpoints.subscribers.get_mut(&(owner, address)) else { return };
        if (seat as usize) < subscriber.sessions.len() {
            subscriber.sessions.swap_remove(seat as usize);
        }
        match subscriber.sessions.get(seat as usize) {
            Some(&moved) => self.sessions[moved as usize].seat = seat,
            None if subscriber.sessions.is_empty() => {
                self.endpoints.subscribers.remove(&(owner, address));
            }
            None => {}
        }
    }

    /// All sessions have other numbers.
    pub(super) fn charge_all(&mut self) {
        if self.endpoints.subscribers.is_empty() {
            return;
        }
        self.endpoints.subscribers.clear();
        for place in 0..self.sessions.len() as u32 {
            if let Some(address) = self.sender_of(place) {
                self.charge(place, address);
            }
        }
    }

    /// The source address of a mapping's flow.
    fn sender_of(&self, place: u32) -> Option<u32> {
        let session = self.sessions.get(place as usize)?;
        let [forward, reply] = session.keys;
        let key = self.table_of(session).key(forward.or(reply)?)?;
        Some(tuple(key.ends()).source)
    }
}
