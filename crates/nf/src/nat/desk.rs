//! How one packet is dealt with: finding or making its mapping, and making of it what that says.

use element::{Cx, DropReason, Packet, Timestamp};
use flow::{EndsKey, FlowId};

use crate::sorting::Fate;

use super::change::Change;
use super::flavour::{Flavour, set_next_hop};
use super::pattern::Outputs;
use super::spec::Spec;
use super::store::{Chosen, Fresh, Store, WINDOW, space};
use super::tuple::Tuple;

/// How packets are dealt with: everything that stays as it was configured.
pub(super) struct Desk {
    pub(super) flavour: Flavour,
    pub(super) specs: Vec<Spec>,
    pub(super) outputs: usize,
    pub(super) sets_next_hop: bool,
    pub(super) reply_annotation: Option<usize>,
}

impl Desk {
    /// Makes a mapping for a packet that has none: what it is found by, and what the packet is to become. What becomes of
    /// the packet where there is none to be had.
    #[cold]
    pub(super) fn open(
        &self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        owner: u16,
        input: usize,
        packet: &Packet,
    ) -> Result<(FlowId, Change), Fate> {
        let looked = match self.flavour.look(packet) {
            Ok(looked) => looked,
            Err(DropReason::NoHeader) => return Err(Fate::Drop(DropReason::NoHeader)),
            Err(reason) => return Err(self.unmapped(input, reason)),
        };
        let Some(spec) = self.specs.get(input) else { return Err(Fate::Drop(DropReason::NoMapping)) };
        if !looked.opens {
            return Err(self.unmapped(input, DropReason::NoMapping));
        }
        let space = space(owner, looked.which);
        let chosen = match spec {
            Spec::Drop | Spec::Pass(_) => return Err(self.unmapped(input, DropReason::NoMapping)),
            Spec::Keep(outputs) => Some((Chosen { to: looked.tuple, pool: None }, *outputs)),
            Spec::Pattern(target) => {
                let chosen = target.pattern.rewrite(cx, store, space, looked.tuple);
                chosen.map(|chosen| (chosen, target.outputs))
            }
            Spec::Mapper(mapper) => mapper.map(cx, store, space, looked.tuple),
        };
        let Some((chosen, Outputs { forward, reply })) = chosen else {
            store.count_failure(owner, input as u16);
            return Err(Fate::Drop(DropReason::NoFreePort));
        };
        if !self.fits(chosen.to) {
            return Err(Fate::Drop(DropReason::NoMapping));
        }
        let (kind, policy) = self.flavour.kind(looked.protocol);
        let fresh = Fresh {
            space,
            from: looked.tuple,
            chosen,
            input: input as u16,
            outputs: [forward as u16, reply as u16],
            kind,
            policy,
            protocol: looked.protocol,
        };
        let (id, change) = store.add(&fresh, cx.now()).map_err(Fate::Drop)?;
        if let Some(offset) = self.reply_annotation {
            store.set_annotation(change.session, packet.annotations().u8(offset));
        }
        Ok((id, change))
    }

    /// Whether a pattern is one for this translator.
    fn fits(&self, to: Tuple) -> bool {
        match self.flavour {
            Flavour::Address => (to.source_port, to.destination_port, to.destination) == (0, 0, 0),
            Flavour::Pair => (to.source_port, to.destination_port) == (0, 0),
            _ => true,
        }
    }

    #[inline]
    fn unmapped(&self, input: usize, reason: DropReason) -> Fate {
        match self.specs.get(input) {
            Some(Spec::Pass(output)) => Fate::Output(*output),
            _ => Fate::Drop(reason),
        }
    }

    /// The key of a packet that has come now, looked for by itself.
    #[cold]
    pub(super) fn find_again(
        &self,
        store: &mut Store,
        owner: u16,
        packet: &mut Packet,
        now: Timestamp,
    ) -> Option<(FlowId, Change)> {
        let mut id = store.find_key(&self.flavour.key(packet, owner));
        if id.is_none() && self.flavour == Flavour::Address {
            id = store.find_key(&self.flavour.other_key(packet, owner));
        }
        id.and_then(|id| Some((id, store.see(id, now)?)))
    }

    /// Looks for the packets that translators of one address have not found by their senders.
    pub(super) fn find_others(
        &self,
        store: &Store,
        owner: u16,
        window: &[Packet],
        found: &mut [Option<FlowId>; WINDOW],
    ) {
        let (mut keys, mut others) = ([EndsKey::NONE; WINDOW], [None; WINDOW]);
        for (packet, key) in window.iter().zip(&mut keys) {
            *key = self.flavour.other_key(packet, owner);
        }
        store.find_all(&keys[..window.len()], &mut others);
        for (found, other) in found.iter_mut().zip(others) {
            *found = found.or(other);
        }
    }

    /// Makes of a packet what its mapping says; where it goes.
    #[inline(always)]
    pub(super) fn change(
        &self,
        store: &mut Store,
        packet: &mut Packet,
        id: FlowId,
        change: &Change,
        (is_plain, sets_next_hop): (bool, bool),
    ) -> Fate {
        let told = match is_plain {
            true => self.flavour.apply_plain(packet, change),
            false => self.flavour.apply(packet, change),
        };
        store.note(id, change, told);
        if sets_next_hop && let Some(address) = self.flavour.next_hop(change) {
            set_next_hop(packet, address);
        }
        if let Some(offset) = self.reply_annotation.filter(|_| change.is_reply) {
            let (_, value) = store.details(change.session);
            packet.annotations_mut().set_u8(offset, value);
        }
        Fate::Output(change.output.into())
    }
}
