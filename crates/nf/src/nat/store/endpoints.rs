//! The state that all flows of an inside endpoint, or of an inside address, share: the outside port, and
//! the limit on mappings.
//!
//! With endpoint-independent mapping (RFC 4787, section 4.1), an inside address and port has one outside
//! address and port for all destinations. The endpoint keeps it as long as it has a mapping. Here an address
//! or endpoint counts as inside if it is the source of the packet that makes a mapping.

use std::collections::hash_map::{Entry, HashMap};

use super::{Claim, Store, tuple};
use crate::nat::tuple::Tuple;

/// The largest number of mappings of an address that are examined for expiry before another mapping is
/// refused.
const LOOKS: usize = 64;

/// The key of an endpoint: space, address, port.
type End = (u32, u32, u16);

/// The outside address and port that all flows of an inside endpoint share, and the number of the endpoint's
/// mappings that use them.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    outside: (u32, u16),
    mappings: u32,
    /// The outputs of the flow and the reply of the endpoint's first mapping. Flows whose own pattern does
    /// not contain the outside port use them, too.
    outputs: [u16; 2],
    annotation: u8,
}

/// The inside endpoint (address and port) to which a packet from outside goes, the outputs for packets of the
/// endpoint's flows and for packets to the endpoint, and the reply annotation of packets to the endpoint.
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Known {
    pub(in crate::nat) inside: (u32, u16),
    pub(in crate::nat) outputs: [u16; 2],
    pub(in crate::nat) annotation: u8,
}

/// The outside address and port that an inside endpoint has.
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Bound {
    pub(in crate::nat) outside: (u32, u16),
    /// The output of packets from the endpoint, and the output of packets to the endpoint.
    pub(in crate::nat) outputs: [u16; 2],
}

#[derive(Default)]
pub(super) struct Endpoints {
    inside: HashMap<End, Endpoint>,
    outside: HashMap<End, (u32, u16)>,
    /// The mappings of each inside address, by the number of the translator and the address. Translators
    /// without a limit have no entries.
    subscribers: HashMap<(u16, u32), Subscriber>,
}

/// The mappings of one inside address that count against SUBSCRIBER_CAPACITY, as the indexes of their
/// sessions.
#[derive(Default)]
struct Subscriber {
    sessions: Vec<u32>,
    /// The index in `sessions` at which the next search for expired mappings continues.
    next: usize,
}

impl Endpoints {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty() && self.subscribers.is_empty()
    }

    /// Returns the number of mappings in the lists of all inside addresses whose mappings are limited.
    #[cfg(test)]
    pub(super) fn mappings(&self) -> usize {
        self.subscribers.values().map(|subscriber| subscriber.sessions.len()).sum()
    }

    /// Reserves memory for another endpoint and another subscriber. Returns false if there is no memory.
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
    /// Returns the outside address and port that the sender (inside endpoint) of a flow already has, with the
    /// outputs for its packets and for packets to it; `None` if it has no outside port.
    pub(in crate::nat) fn outside_of(&self, space: u32, flow: Tuple) -> Option<Bound> {
        let end = (space, flow.source, flow.source_port);
        self.endpoints.inside.get(&end).map(|&Endpoint { outside, outputs, .. }| Bound { outside, outputs })
    }

    /// True if the flow can get the tuple `to`: no mapping has the tuple that the replies would then have, or
    /// a mapping of the same sender has it as its reply.
    pub(in crate::nat) fn may_become(&self, space: u32, flow: Tuple, to: Tuple) -> bool {
        let other = self.find(Store::reply(to, space), space);
        other.is_none_or(|other| {
            let receiver = (other.to.destination, other.to.destination_port);
            other.is_reply && receiver == (flow.source, flow.source_port)
        })
    }

    /// True if the sender of a flow can have the source address and port of `to` for all its flows: it has
    /// them already, or neither the sender nor the port is bound.
    pub(super) fn may_bind(&self, space: u32, flow: Tuple, to: Tuple) -> bool {
        match self.outside_of(space, flow) {
            Some(Bound { outside, .. }) => outside == (to.source, to.source_port),
            None => !self.endpoints.outside.contains_key(&(space, to.source, to.source_port)),
        }
    }

    /// Returns the inside endpoint whose outside address and port are the destination of a packet; `None`
    /// if there is none.
    pub(in crate::nat) fn inside_of(&self, space: u32, packet: Tuple) -> Option<Known> {
        let end = (space, packet.destination, packet.destination_port);
        let &(address, port) = self.endpoints.outside.get(&end)?;
        let &Endpoint { outputs, annotation, .. } = self.endpoints.inside.get(&(space, address, port))?;
        Some(Known { inside: (address, port), outputs, annotation })
    }

    /// Adds a mapping to an inside endpoint. With the first mapping, the endpoint gets its outside address
    /// and port, which are then in use, and its outputs.
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

    /// Removes a mapping from an inside endpoint. With the last mapping, its outside port becomes free.
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

    /// Stores the annotation byte for packets to an endpoint that have no mapping of their own.
    pub(super) fn annotate(&mut self, space: u32, from: Tuple, value: u8) {
        if let Some(endpoint) = self.endpoints.inside.get_mut(&(space, from.source, from.source_port)) {
            endpoint.annotation = value;
        }
    }

    /// True if an inside address has as many mappings as the translator with number `owner` allows. In this
    /// case, some of its mappings are examined first, and removed if they have expired.
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
            if self.is_expired(place, now) {
                // Removing the mapping puts the last session of the list in its place, so the session at the
                // same index is examined next.
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

    /// Reserves memory for one more mapping in the list of the mappings of an inside address, which are
    /// counted against the limit of the translator with number `owner`. Returns false if there is no memory,
    /// and true if the translator has no limit.
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

    /// Adds a session to the list of the mappings of its inside address, if the session's translator limits
    /// their number.
    pub(super) fn charge(&mut self, place: u32, address: u32) {
        let Some(session) = self.sessions.get_mut(place as usize) else { return };
        if self.owners.get(usize::from(session.owner)).is_some_and(|owner| owner.most_of_one > 0) {
            let subscriber = self.endpoints.subscribers.entry((session.owner, address)).or_default();
            session.seat = subscriber.sessions.len() as u32;
            subscriber.sessions.push(place);
        }
    }

    /// Removes the session at index `seat` from the list of the mappings of its inside address. The last
    /// session of the list takes this index.
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

    /// Rebuilds the lists of the sessions of each inside address, after the indexes of sessions have changed.
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

    /// Returns the source address, before translation, of the flow of the mapping with index `place`; `None`
    /// if there is no such mapping.
    pub(super) fn sender_of(&self, place: u32) -> Option<u32> {
        let session = self.sessions.get(place as usize)?;
        let [forward, reply] = session.keys;
        let key = self.table_of(session).key(forward.or(reply)?)?;
        Some(tuple(key.ends()).source)
    }
}
