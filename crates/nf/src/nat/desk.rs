//! The translation of one packet: its mapping is found or made, and then the packet is rewritten.

use std::slice;

use element::{Base, Cx, DropReason, Packet, Timestamp};
use flow::{FlowId, Ipv4FlowKey};
use packet::Annotations;
use wire::{ip_protocol, tcp};

use crate::sorting::Fate;

use super::change::{Change, Packed};
use super::flavour::{Flavour, Looked, set_next_hop};
use super::pattern::Outputs;
use super::plain::Rewriting;
use super::spec::Spec;
use super::state::Told;
use super::store::{Chosen, Claim, Fresh, Known, Store, WINDOW, space};
use super::tuple::Tuple;

/// The settings of a translator. Only the specifications can change while it runs.
pub(super) struct Translation {
    pub(super) flavour: Flavour,
    pub(super) specs: Vec<Spec>,
    pub(super) outputs: usize,
    pub(super) sets_next_hop: bool,
    pub(super) reply_annotation: Option<usize>,
    /// True if an FTPPortMapper names this translator. The FTPPortMapper changes mappings of the translator
    /// of control connections, and makes mappings in the translator of data connections, for flows that may
    /// belong to another worker.
    pub(super) is_helped: bool,
    pub(super) sharing: Sharing,
    /// True if a TCP segment without SYN makes no mapping.
    pub(super) needs_syn: bool,
    /// True if the aggregate annotation of packets is set to the number of their mapping (SET_AGGREGATE).
    pub(super) sets_aggregate: bool,
}

/// The settings for the state that all flows of an inside endpoint, or of an inside address, share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    /// True if all flows of an inside endpoint have one outside port (endpoint-independent mapping, RFC
    /// 4787).
    pub(super) is_independent: bool,
    /// True if any host may send to an endpoint's outside port (endpoint-independent filtering, RFC 4787). At
    /// inputs with `drop` or `pass`, packets from hosts to which the endpoint has not sent are translated,
    /// but make no mappings.
    pub(super) filters_independently: bool,
    /// The largest number of mappings per inside address, that is, per source address of the flows; zero for
    /// no limit (SUBSCRIBER_CAPACITY).
    pub(super) most_of_one: u32,
}

impl Translation {
    /// Returns the settings of a translator with these specifications and outputs: without destination
    /// annotation, reply annotation and shared state.
    pub(super) fn new(flavour: Flavour, specs: Vec<Spec>, outputs: usize) -> Translation {
        Translation {
            flavour,
            specs,
            outputs,
            sets_next_hop: false,
            reply_annotation: None,
            is_helped: false,
            sharing: Sharing::default(),
            needs_syn: false,
            sets_aggregate: false,
        }
    }

    /// Makes a mapping for a packet that has none, as its input's specification says. Returns the id of the
    /// key by which packets of this flow are found, and the rewriting of the packet. The error is the
    /// packet's output or drop reason, if there is no mapping; a packet that is translated without a mapping
    /// has then been rewritten.
    #[cold]
    pub(super) fn open(
        &self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        owner: u16,
        input: usize,
        packet: &mut Packet,
    ) -> Result<(FlowId, Change), Fate> {
        let looked = match self.flavour.look(packet) {
            Ok(looked) => looked,
            Err(DropReason::NoHeader) => return Err(Fate::Drop(DropReason::NoHeader)),
            Err(reason) => return Err(self.unmapped(input, reason)),
        };
        let Some(spec) = self.specs.get(input) else { return Err(Fate::Drop(DropReason::NoMapping)) };
        if !looked.opens || self.needs_syn && !may_open(packet, looked.protocol) {
            return Err(self.unmapped(input, DropReason::NoMapping));
        }
        let Sharing { is_independent, filters_independently, .. } = self.sharing;
        if filters_independently
            && let Spec::Drop | Spec::Pass(_) = spec
            && let Some(known) = store.inside_of(space(owner, looked.which), looked.tuple)
        {
            return Err(match change_unsolicited(store, owner, looked, known, cx.now()) {
                Some(change) => self.change_alone(packet, &change, known.annotation),
                None => self.unmapped(input, DropReason::NoMapping),
            });
        }
        let opening = Opening { flavour: self.flavour, owner, input: input as u16, looked, is_independent };
        let opened = opening.choose(cx, store, spec).and_then(|(chosen, outputs)| {
            if filters_independently && opening.is_answer(store, chosen.claim, packet) {
                return Ok(Opened::Alone(chosen.to, outputs.forward));
            }
            opening.add(cx, store, (chosen, outputs)).map(|(id, change)| Opened::Mapping(id, change))
        });
        match opened {
            Ok(Opened::Mapping(id, change)) => {
                if let Some(offset) = self.reply_annotation {
                    store.set_annotation(change.session, packet.annotations().u8(offset));
                }
                Ok((id, change))
            }
            Ok(Opened::Alone(to, output)) => {
                let mut change = Change::new(looked.tuple, to, space(owner, looked.which));
                change.output = output as u16;
                Err(self.change_alone(packet, &change, 0))
            }
            Err(None) => Err(self.unmapped(input, DropReason::NoMapping)),
            Err(Some(reason)) => Err(Fate::Drop(reason)),
        }
    }

    /// Rewrites a packet without a mapping, to or from the outside port of its inside endpoint. Sets the
    /// destination annotation, the aggregate annotation (to 0, the number of no mapping) and, in replies,
    /// the reply annotation, if the translator has them. Returns the packet's output. The packet loses its
    /// run, because the next packet of the run may get another address.
    fn change_alone(&self, packet: &mut Packet, change: &Change, annotation: u8) -> Fate {
        packet.set_run(0);
        self.flavour.apply(packet, change);
        if self.sets_next_hop
            && let Some(address) = self.flavour.next_hop(change)
        {
            set_next_hop(packet, address);
        }
        if let Some(offset) = self.reply_annotation.filter(|_| change.is_reply) {
            packet.annotations_mut().set_u8(offset, annotation);
        }
        if self.sets_aggregate {
            packet.annotations_mut().set_u32(Annotations::AGGREGATE, 0);
        }
        Fate::Output(change.output.into())
    }

    #[inline]
    fn unmapped(&self, input: usize, reason: DropReason) -> Fate {
        match self.specs.get(input) {
            Some(Spec::Pass(output)) => Fate::Output(*output),
            _ => Fate::Drop(reason),
        }
    }

    /// Looks up the mapping of a single packet that was not found when the runs of its window (up to 32 runs
    /// of a batch) were looked up together, because an earlier packet may have made the mapping since. Notes
    /// `now` as the time of the mapping's last packet. Returns `None` if there is no mapping, or if the
    /// mapping has expired.
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
        id.and_then(|id| Some((id, store.see(id, now)?.unpacked())))
    }

    /// Looks up the packets of a window (up to 32 runs of a batch), one per run, by destination address. For
    /// each run that was not found by source address, sets its entry in `found` to the id of the mapping's
    /// key. Only IPAddrRewriter needs this function.
    pub(super) fn find_others<'p>(
        &self,
        store: &mut Store,
        owner: u16,
        runs: impl Iterator<Item = &'p [Packet]>,
        found: &mut [Option<FlowId>; WINDOW],
    ) {
        let (mut keys, mut others) = ([Ipv4FlowKey::NONE; WINDOW], [None; WINDOW]);
        let mut count = 0;
        for (run, key) in runs.zip(&mut keys) {
            if let Some(packet) = run.first() {
                *key = self.flavour.other_key(packet, owner);
            }
            count += 1;
        }
        store.find_all(&keys[..count], &mut others);
        for (found, other) in found.iter_mut().zip(others) {
            *found = found.or(other);
        }
    }

    /// Rewrites the packets of a plain run (whole TCP or UDP packets without IPv4 options) by their mapping,
    /// sets their annotations, and updates the mapping's state. The destination annotation is set if
    /// `sets_next_hop` is true. Returns the output of all packets.
    #[inline(always)]
    pub(super) fn change_plain(
        &self,
        store: &mut Store,
        run: &mut [Packet],
        id: FlowId,
        change: Packed,
        sets_next_hop: bool,
    ) -> Fate {
        let rewriting = Rewriting::of(&change);
        let done = self.flavour.apply_to_run(run, &rewriting, change.state());
        if let Some(rest @ [_, ..]) = run.get_mut(done..) {
            self.change_each(store, rest, id, change);
        }
        if sets_next_hop {
            let [_, destination] = change.addresses();
            run.iter_mut().for_each(|packet| packet.set_destination(destination));
        }
        if let Some(offset) = self.reply_annotation
            && change.is_reply()
        {
            self.mark_replies(store, run, &change.unpacked(), offset);
        }
        if self.sets_aggregate {
            set_aggregates(store, run, &change.unpacked());
        }
        Fate::Output(change.output().into())
    }

    /// Rewrites the packets of a plain run (whole TCP or UDP packets without IPv4 options). Each packet that
    /// may change the state of the mapping is rewritten by itself, and updates the state; the packets between
    /// are rewritten together.
    #[inline(never)]
    fn change_each(&self, store: &mut Store, mut rest: &mut [Packet], id: FlowId, packed: Packed) {
        let (rewriting, mut change) = (Rewriting::of(&packed), packed.unpacked());
        let done = self.flavour.apply_without_data(rest, &rewriting, change.state);
        rest = &mut rest[done..];
        while let Some((packet, others)) = rest.split_first_mut() {
            let told = self.flavour.apply_plain(packet, &rewriting);
            note(store, packet, id, &mut change, told);
            let done = self.flavour.apply_to_run(others, &rewriting, change.state);
            rest = &mut others[done..];
        }
    }

    /// Rewrites one packet of any kind by its mapping, sets its annotations and updates the state, as
    /// [`change_plain`](Self::change_plain) does for a plain run.
    pub(super) fn change(
        &self,
        store: &mut Store,
        packet: &mut Packet,
        id: FlowId,
        change: &mut Change,
        sets_next_hop: bool,
    ) -> Fate {
        let told = self.flavour.apply(packet, change);
        note(store, packet, id, change, told);
        if sets_next_hop && let Some(address) = self.flavour.next_hop(change) {
            set_next_hop(packet, address);
        }
        if let Some(offset) = self.reply_annotation.filter(|_| change.is_reply) {
            self.mark_replies(store, slice::from_mut(packet), change, offset);
        }
        if self.sets_aggregate {
            set_aggregates(store, slice::from_mut(packet), change);
        }
        Fate::Output(change.output.into())
    }

    /// Sets the reply annotation (REPLY_ANNO) of packets in the direction of replies to the value that the
    /// flow's first packet had.
    #[cold]
    fn mark_replies(&self, store: &Store, run: &mut [Packet], change: &Change, offset: usize) {
        let (_, value) = store.details(change.session);
        run.iter_mut().for_each(|packet| packet.annotations_mut().set_u8(offset, value));
    }
}

/// Sets the aggregate annotation of packets to the number of their mapping.
#[cold]
fn set_aggregates(store: &Store, run: &mut [Packet], change: &Change) {
    let number = store.number_of(change.session);
    run.iter_mut().for_each(|packet| packet.annotations_mut().set_u32(Annotations::AGGREGATE, number));
}

/// True if a packet is the first of a TCP connection, or not TCP.
fn may_open(packet: &Packet, protocol: u8) -> bool {
    let flags = packet.header(Base::Transport).and_then(|header| header.get(13));
    protocol != ip_protocol::TCP || flags.is_some_and(|flags| flags & tcp::flags::SYN != 0)
}

/// Updates the state of a mapping, in the store and in `change`, by the information that a packet gives (such
/// as TCP flags and payload). If an element has changed the length of the connection's data, also shifts the
/// packet's sequence numbers.
#[inline]
fn note(store: &mut Store, packet: &mut Packet, id: FlowId, change: &mut Change, told: Told) {
    store.note(id, change, told);
    if change.state.is_shifted() {
        shift(store, packet, change);
    }
}

/// Shifts the sequence numbers of a TCP segment, because an element has changed the length of the
/// connection's data. A separate function keeps this code out of the hot path.
#[cold]
#[inline(never)]
fn shift(store: &mut Store, packet: &mut Packet, change: &mut Change) {
    if let Some(segment) = packet.header_mut(Base::Transport) {
        store.shift(change, segment);
    }
}

/// The result of applying an input's specification to a packet without a mapping.
enum Opened {
    Mapping(FlowId, Change),
    /// The packet is translated without a mapping: its new tuple (addresses and ports), and the number of its
    /// output.
    Alone(Tuple, usize),
}

/// A flow for which a mapping is to be made: the data of its first packet, the input, and the translator.
pub(super) struct Opening {
    pub(super) flavour: Flavour,
    pub(super) owner: u16,
    pub(super) input: u16,
    pub(super) looked: Looked,
    /// True if all flows of the sender's endpoint have one outside port.
    pub(super) is_independent: bool,
}

impl Opening {
    /// Makes the mapping that the specification `spec` of the input requests for a new flow. Returns the id
    /// of the key by which the flow's packets are found in the store, and the rewriting of these packets. The
    /// error is the drop reason, or `None` if the specification requests no mapping.
    pub(super) fn open(
        &self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        spec: &Spec,
    ) -> Result<(FlowId, Change), Option<DropReason>> {
        let chosen = self.choose(cx, store, spec)?;
        self.add(cx, store, chosen)
    }

    /// Chooses the flow's new tuple (addresses and ports), and the outputs of its packets. If no port or
    /// address is free, removes expired mappings and tries again. The error is the drop reason, or `None` if
    /// the specification requests no mapping.
    fn choose(
        &self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        spec: &Spec,
    ) -> Result<(Chosen, Outputs), Option<DropReason>> {
        let &Opening { flavour, owner, input, looked, is_independent } = self;
        let (flow, now) = ((space(owner, looked.which), looked.tuple), cx.now());
        let mut choose = |store: &Store| match spec {
            Spec::Drop | Spec::Pass(_) => None,
            Spec::Keep(outputs) => Some((Chosen { to: looked.tuple, claim: Claim::Nothing }, *outputs)),
            Spec::Pattern(target) => target.rewrite(cx, store, flow, is_independent),
            Spec::Mapper(mapper) => mapper.map(cx, store, flow, is_independent),
        };
        if let Spec::Drop | Spec::Pass(_) = spec {
            return Err(None);
        }
        let mut chosen = choose(store);
        if chosen.is_none() && store.make_room(now) {
            chosen = choose(store);
        }
        let reason = match chosen {
            Some((chosen, outputs)) if flavour.fits(chosen.to) => return Ok((chosen, outputs)),
            Some(_) => DropReason::NoMapping,
            None => DropReason::NoFreePort,
        };
        store.count_failure(owner, input);
        Err(Some(reason))
    }

    /// True if the flow's first packet only answers another host, and the sender already has an outside port,
    /// which the flow would share. With independent filtering the packet is then translated without a
    /// mapping.
    fn is_answer(&self, store: &Store, claim: Claim, packet: &Packet) -> bool {
        claim == Claim::Endpoint
            && self.flavour.only_answers(packet)
            && store.outside_of(space(self.owner, self.looked.which), self.looked.tuple).is_some()
    }

    /// Adds the mapping with the tuple (addresses and ports) in `chosen` to the store. Returns the id of the
    /// key by which the flow's packets are found, and the rewriting of these packets. The error is the drop
    /// reason.
    fn add(
        &self,
        cx: &Cx<'_>,
        store: &mut Store,
        (chosen, Outputs { forward, reply }): (Chosen, Outputs),
    ) -> Result<(FlowId, Change), Option<DropReason>> {
        let &Opening { flavour, owner, input, looked, .. } = self;
        let (kind, policy) = flavour.kind(looked.protocol);
        let (space, outputs) = (space(owner, looked.which), [forward as u16, reply as u16]);
        let protocol = looked.protocol;
        let fresh = Fresh { space, from: looked.tuple, chosen, input, outputs, kind, policy, protocol };
        store.add(&fresh, cx.now()).map_err(Some)
    }
}

/// Returns the rewriting of a packet from outside to the outside port of a known inside endpoint, for a
/// sender without a mapping. Returns `None` if the endpoint has another mapping for this sender, with another
/// outside address or port, because the sender would see two ports.
fn change_unsolicited(
    store: &Store,
    owner: u16,
    looked: Looked,
    known: Known,
    now: Timestamp,
) -> Option<Change> {
    let (space, (destination, destination_port)) = (space(owner, looked.which), known.inside);
    let to = Tuple { destination, destination_port, ..looked.tuple };
    if store.find_at(to.reversed(), space, now).is_some() {
        return None;
    }
    let mut change = Change::new(looked.tuple, to, space);
    (change.output, change.is_reply) = (known.outputs[1], true);
    Some(change)
}
