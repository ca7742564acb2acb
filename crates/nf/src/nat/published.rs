//! The service of translators for other elements: to look up the mapping of a packet that an ICMP error
//! quotes, to make mappings, to share a capacity, and to lease flows.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use std::net::IpAddr;

use element::lease::{Lease, Leases, Lessor, Terms};
use element::{ElementId, Timestamp};
use flow::FlowId;
use wire::FiveTuple;

use crate::quotation::Behind;

use super::flavour::Flavour;
use super::spaces::{IDENTIFIERS, ONLY, UDP_BESIDE};
use super::spec::Spec;
use super::store::{Store, mark, space};
use super::tuple::Tuple;

/// The location of a translator's mappings: the store, and the number `owner` of the translator among the
/// translators that share the store. The store may have been made by another translator.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) store: Arc<Mutex<Store>>,
    pub(super) owner: u16,
}

/// The service that a translator publishes. Other elements look up its mappings, make mappings, or share
/// its capacity.
pub(super) struct Published {
    pub(super) flavour: Flavour,
    /// The location of the mappings if the translator has its own capacity.
    pub(super) own: Home,
    /// The location of the mappings if the translator shares the capacity of another. It is set when the
    /// element is initialized.
    pub(super) shared: OnceLock<Home>,
    /// The translator whose capacity this translator shares; `None` if it has its own capacity.
    pub(super) shares: Option<ElementId>,
    pub(super) outputs: usize,
    /// True if all flows of an inside endpoint have one outside port.
    pub(super) is_independent: bool,
    /// True if any host may send to the outside port of an inside endpoint.
    pub(super) filters_independently: bool,
    /// The specifications for packets without a mapping, by number of the input.
    pub(super) specs: Mutex<Vec<Spec>>,
    /// True if the translator sets the destination annotation.
    pub(super) sets_next_hop: bool,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The data with which an ICMP error is translated: the mapping of the packet that the error quotes.
pub(super) struct Quoted {
    /// The new tuple of packets that answer the quoted packet. Reversed, it is the quoted packet's tuple
    /// before translation. An address that the mapping does not change is zero.
    pub(super) to: Tuple,
    /// True if the mapping also changes ports or identifiers; `to` then has the new values.
    pub(super) has_ports: bool,
    pub(super) output: usize,
    pub(super) is_reply: bool,
    pub(super) annotation: u8,
}

impl Published {
    /// Returns the location of the mappings that the translator uses: its own store, or the store that it
    /// shares.
    pub(super) fn home(&self) -> &Home {
        self.shared.get().unwrap_or(&self.own)
    }

    /// Returns the data to translate an ICMP error, from the mapping of the packet that the error quotes.
    /// `protocol` and `tuple` are those of a packet that answers the quoted packet. Without a mapping,
    /// returns the data of [`find_alone`](Self::find_alone). Returns `None` if that has no data either, if
    /// the mapping was made by a packet of another protocol, or if the error quotes too few bytes.
    pub(super) fn find(
        &self,
        (protocol, behind): (u8, Behind),
        tuple: Tuple,
        now: Timestamp,
    ) -> Option<Quoted> {
        use wire::ip_protocol::{ICMP, TCP, UDP};
        if self.flavour.has_ports() && behind == Behind::Nothing {
            return None;
        }
        let home = self.home();
        let mut store = locked(&home.store);
        store.catch_up(now);
        let find = |tuple, which| store.find_at(tuple, space(home.owner, which), now);
        let addresses = Tuple { source_port: 0, destination_port: 0, ..tuple };
        let found = match self.flavour {
            Flavour::Both => match protocol {
                TCP => find(tuple, ONLY),
                UDP => find(tuple, UDP_BESIDE),
                _ => None,
            },
            Flavour::Tcp | Flavour::Udp => find(tuple, ONLY),
            Flavour::Address => find(Tuple { destination: 0, ..addresses }, ONLY)
                .or_else(|| find(Tuple { source: 0, ..addresses }, ONLY)),
            Flavour::Pair => find(addresses, ONLY),
            Flavour::Ping { .. } if protocol == ICMP => {
                let identifier = tuple.source_port;
                let marked = mark(identifier);
                let reply = Tuple { source_port: marked, destination_port: identifier, ..tuple };
                find(reply, IDENTIFIERS)
            }
            Flavour::Ping { .. } => None,
        };
        let Some(change) = found else { return self.find_alone(&store, protocol, tuple) };
        let (made_by, annotation) = store.details(change.session);
        let has_ports = self.flavour.has_ports();
        let (to, is_reply) = (change.to, change.is_reply);
        let quoted = Quoted { to, has_ports, output: change.output.into(), is_reply, annotation };
        (!has_ports || made_by == protocol).then_some(quoted)
    }

    /// Returns the data for packets of an inside endpoint with independent filtering, if the endpoint has
    /// no mapping for this peer. Such an endpoint may have received the quoted packet without a mapping.
    /// Returns `None` without independent filtering, or if the endpoint is not known.
    fn find_alone(&self, store: &Store, protocol: u8, tuple: Tuple) -> Option<Quoted> {
        if !self.filters_independently || !self.flavour.protocols().contains(&protocol) {
            return None;
        }
        let which = self.flavour.which(protocol);
        let bound = store.outside_of(space(self.home().owner, which), tuple)?;
        let (source, source_port) = bound.outside;
        let to = Tuple { source, source_port, ..tuple };
        let [output, _] = bound.outputs;
        Some(Quoted { to, has_ports: true, output: output.into(), is_reply: false, annotation: 0 })
    }
}

impl Lessor for Published {
    fn lease(&self, _input: usize, flow: &FiveTuple, lease: Lease) -> Option<Terms> {
        use wire::ip_protocol::{TCP, UDP};
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (flow.source(), flow.destination()) else {
            return None;
        };
        let which = match (self.flavour, flow.protocol()) {
            (Flavour::Both, UDP) => UDP_BESIDE,
            (Flavour::Both | Flavour::Tcp | Flavour::Udp, TCP) | (Flavour::Udp, UDP) => ONLY,
            _ => return None,
        };
        let tuple = Tuple {
            source: source.to_bits(),
            destination: destination.to_bits(),
            source_port: flow.source_port(),
            destination_port: flow.destination_port(),
        };
        let home = self.home();
        let key = Store::key(tuple, space(home.owner, which));
        let (id, change) = locked(&home.store).lease(&key, lease)?;
        let to = change.to;
        let mut values = [to.source.to_be_bytes(), to.destination.to_be_bytes()].concat();
        values.extend(to.source_port.to_be_bytes());
        values.extend(to.destination_port.to_be_bytes());
        if self.sets_next_hop {
            values.extend(to.destination.to_be_bytes());
        }
        Some(Terms { handle: id.to_bits(), output: change.output.into(), values })
    }

    fn give_back(&self, handle: u64, leases: &Arc<Leases>, place: u32) {
        if let Some(id) = FlowId::from_bits(handle) {
            locked(&self.home().store).give_back(id, leases, place);
        }
    }

    fn catch_up(&self, now: Timestamp) -> Timestamp {
        locked(&self.home().store).catch_up_elsewhere(now)
    }
}
