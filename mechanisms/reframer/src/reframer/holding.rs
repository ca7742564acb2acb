//! The functions that hold a packet: they find its flow, begin or continue the flow's list, and release the
//! list if there is a reason.

use element::{Base, Batch, Cx, Packet, Timestamp};
use flow::InsertError;

use super::Reframer;
use crate::key::{self, FlowKind, Located, ShortKey, Usual};
use crate::lists::{DELAY_CLASSES, Flow, Priority, ReleaseReason, UNKNOWN_FLOWS};
use crate::outgoing::{IN_LAYOUT, PLAIN, SPECIAL, UNLIKE, UNMARKED, WITHOUT_MARK};
use crate::per_list::value_of;
use crate::settings::{DENSE, SPARSE};

/// The flow of a packet of the usual kind, or [`Found::NONE`].
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) key: ShortKey,
    pub(super) hash: u32,
    /// TCP or UDP; another kind if the packet is not of the usual kind.
    pub(super) kind: FlowKind,
    /// The byte of TCP flags; 0 for UDP.
    pub(super) flags: u8,
    /// The packet's trait in its list.
    pub(super) traits: u8,
}

impl Found {
    pub(super) const NONE: Found =
        Found { key: ShortKey::NONE, hash: 0, kind: FlowKind::Pair, flags: 0, traits: UNLIKE };

    /// Returns the flow of a packet of the usual kind as a [`Known`].
    #[inline]
    pub(super) fn known(&self) -> Known {
        let Found { key, hash, kind, flags, traits } = *self;
        Known { located: Located { key: key.into(), kind, flags }, hash, traits }
    }

    /// True if the packet is of the usual kind.
    #[inline(always)]
    pub(super) fn is_usual(&self) -> bool {
        self.kind != Found::NONE.kind
    }
}

/// Returns the value of [`Packet::run`] while a packet outside of the layout is held, its trait in a list,
/// and its flow if it is of the usual kind.
#[inline(never)]
fn run_of(packet: &Packet) -> (u32, u8, Option<Usual>) {
    let usual = key::usual(packet);
    match usual {
        _ if packet.offset(Base::Network).is_none() => (UNMARKED, WITHOUT_MARK, usual),
        // In another layout, so that the packets of its list have to be compared.
        Some(Usual { is_plain: true, .. }) => (PLAIN, UNLIKE, usual),
        _ => (SPECIAL, UNLIKE, usual),
    }
}

/// The flow of a packet, with the hash of its key.
pub(super) struct Known {
    pub(super) located: Located,
    pub(super) hash: u32,
    /// The packet's trait in its list.
    pub(super) traits: u8,
}

impl Known {
    /// Returns the hash by which packets of the flow are counted for the SLF; `None` if they do not count.
    pub(super) fn counted(&self) -> Option<u32> {
        self.located.kind.counts().then_some(self.hash)
    }
}

impl Reframer {
    /// True if each of `count` packets of the usual kind can be held without further checks, unless its TCP
    /// flags make it bypass or it begins a list.
    #[inline]
    pub(super) fn is_simple(&mut self, count: usize) -> bool {
        let has_room = self.lists.held() + count <= self.settings.max_held && self.lists.has_room(count);
        has_room && !self.asks && self.settings.max_bytes == 0 && !self.lists.holds_unknown()
    }

    /// Finds the flows of the packets of a batch that are of the usual kind. Notes in all packets whether
    /// they can be in a run with others.
    #[inline]
    pub(super) fn find_usual(&mut self, batch: &mut Batch) {
        let Reframer { finder, layout, found, .. } = self;
        for (packet, found) in batch.iter_mut().zip(found.iter_mut()) {
            let alike = layout.as_ref().and_then(|layout| layout.start_of(packet)).map(Usual::plain);
            let (run, traits, usual) = match alike {
                Some(usual) => (PLAIN, IN_LAYOUT, Some(usual)),
                None => run_of(packet),
            };
            *found = match usual {
                // What the packet carries in a tunnel, or the connection id of QUIC, identifies its flow.
                Some(Usual { key, .. }) if finder.is_watching() && finder.watches(key) => {
                    packet.set_run(if run == UNMARKED { UNMARKED } else { SPECIAL });
                    Found::NONE
                }
                Some(Usual { key, kind, flags, .. }) => {
                    packet.set_run(run);
                    Found { key, hash: finder.hasher.hash(&key), kind, flags, traits }
                }
                None => {
                    packet.set_run(run);
                    Found::NONE
                }
            };
        }
    }

    /// Takes a packet for which the short path in [`push`](Element::push) does not suffice.
    #[inline(never)]
    pub(super) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        found: &Found,
        packet: Packet,
        now: Timestamp,
    ) {
        let known = if found.is_usual() {
            found.known()
        } else {
            let Some(located) = self.finder.locate(&packet) else {
                return self.take_without_flow(cx, out, packet, now);
            };
            Known { located, hash: located.key.hash(&self.finder.hasher), traits: found.traits }
        };
        let located = &known.located;
        if located.kind.counts() {
            self.statistics.locality_in.see(known.hash.into(), 1);
        }
        let is_hidden = match located.kind {
            FlowKind::Pair => true,
            FlowKind::Quic => self.opens_quic(cx, out, &known, now),
            _ => false,
        };
        if !is_hidden && !self.lists.holds_unknown() {
            return self.take_known(cx, out, &known, self.list_of(&known), packet, now);
        }
        if let Some(packet) = self.hold_unknown(cx, out, (Some(&known), is_hidden), packet, now) {
            self.take_known(cx, out, &known, self.list_of(&known), packet, now);
        }
    }

    /// Holds a packet in the list of its flow, or forwards it if it may not or cannot be held. Releases the
    /// list if there is a reason. `list` is the list of the flow, if it holds packets.
    pub(super) fn take_known(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        known: &Known,
        list: Option<u32>,
        packet: Packet,
        now: Timestamp,
    ) {
        let Known { located: Located { key, flags, .. }, hash, traits } = known;
        let mut bypasses =
            self.asks && self.asks_about(&packet, known, now) || flags & self.bypassed_flags != 0;
        let mut flow = list.and_then(|list| self.lists.flow(list));
        if list.is_none() && !bypasses && self.remembers {
            match self.recall(cx, out, known, now) {
                Some((number, is_new)) => {
                    bypasses = is_new && self.settings.first_passes;
                    flow = Some(number);
                }
                None => return self.pass_without_room(cx, out, known, packet),
            }
        }
        bypasses |= flow.is_some_and(|flow| self.has_failed(flow));
        if list.is_none() && bypasses {
            // COMPRESS has to know the acknowledgment numbers of all packets of a flow. So for a flow that is
            // remembered, a bypassing packet is a list of its own.
            let is_compressed = self.settings.compress;
            flow = flow.or_else(|| Some(self.memory.see((key, *hash), now)?.0)).filter(|_| is_compressed);
            if flow.is_none() || !self.has_room_for_list(cx, out) {
                return self.pass_in_order(cx, out, known, packet);
            }
        }
        let overflows = self.lists.held() >= self.settings.max_held;
        let size = packet.len();
        let (list, length) = match list {
            Some(list) => (list, self.lists.hold(list, packet, *traits, now)),
            None if self.has_room_for_list(cx, out) => (self.begin(known, flow, packet, now), 1),
            None => return self.pass_without_room(cx, out, known, packet),
        };
        let is_full = length >= self.settings.max_burst || self.fills(list, length == 1, size);
        let reason = match () {
            () if bypasses => ReleaseReason::Bypass,
            () if overflows => {
                self.statistics.overflows += 1;
                ReleaseReason::Capacity
            }
            () if is_full => ReleaseReason::Full,
            () => return,
        };
        self.lists.release(list, reason, self.settings.priority);
    }

    /// Returns the list of a flow, if it holds packets.
    #[inline]
    pub(super) fn list_of(&self, known: &Known) -> Option<u32> {
        self.lists.find(&known.located.key, known.hash)
    }

    /// Begins the list of a flow with a packet, and returns the number of the list. `flow` is the number of
    /// the flow in the memory. The caller knows that there is room.
    pub(super) fn begin(&mut self, known: &Known, flow: Option<u32>, packet: Packet, now: Timestamp) -> u32 {
        let Known { located: Located { key, kind, .. }, hash, traits } = known;
        let memory = flow.and_then(|flow| Some((flow, *self.memory.flow(flow)?)));
        // Under an SLO, a new flow starts with the prediction that its next packet arrives in time.
        let is_dense = self.settings.slo.is_set() && memory.is_none_or(|(_, flow)| flow.score >= 0);
        let delay_class = match self.settings.delays.rule_of(&packet) {
            _ if *kind == FlowKind::Pair => UNKNOWN_FLOWS,
            Some(rule) => DELAY_CLASSES + rule,
            None => {
                if is_dense {
                    DENSE
                } else {
                    SPARSE
                }
            }
        };
        let is_by_number = self.settings.priority == Priority::ShortestFlow;
        let remembered =
            memory.map(|(number, flow)| (number, if is_by_number { flow.sent } else { flow.seen }));
        let flow = Flow { kind: *kind, traits: *traits, delay_class: delay_class as u8, remembered };
        self.lists.begin(key, *hash, flow, packet, now)
    }

    /// True if there is room for a list. Where there is none, first lets the packets leave that are due.
    #[inline]
    pub(super) fn has_room_for_list(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> bool {
        self.lists.has_room_for_any() || {
            self.let_go(cx, out);
            self.lists.has_room_for_any()
        }
    }

    /// Returns the number of a flow in the memory, and true if the flow was not remembered before. `None` if
    /// there is no room for it.
    #[inline(never)]
    pub(super) fn recall(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        known: &Known,
        now: Timestamp,
    ) -> Option<(u32, bool)> {
        let flow = (&known.located.key, known.hash);
        if let Some((number, _)) = self.memory.see(flow, now) {
            return Some((number, false));
        }
        let mut added = self.memory.add(flow, now);
        // Only a full table is helped by forgetting flows. The other error is that a bucket of the table is
        // full, and to forget flows of other buckets does not help.
        if added == Err(InsertError::Full) {
            // Packets that are due must leave first, so that no flow is forgotten that holds packets.
            self.let_go(cx, out);
            self.memory.make_room(now, self.lists.delay(UNKNOWN_FLOWS));
            added = self.memory.add(flow, now);
        }
        Some((added.ok()?, true))
    }

    /// True if a list holds at least MAX_BYTES bytes with a packet of `size` bytes, its first if `is_first`
    /// is true.
    #[inline]
    pub(super) fn fills(&mut self, list: u32, is_first: bool, size: usize) -> bool {
        let limit = self.settings.max_bytes;
        limit > 0 && self.add_bytes(list, is_first, size) >= limit
    }

    /// Adds a packet to the bytes of a list, and returns the sum. Without memory for the sum, returns the
    /// bytes of the packet alone.
    #[inline(never)]
    pub(super) fn add_bytes(&mut self, list: u32, is_first: bool, size: usize) -> u32 {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let Some(sum) = value_of(&mut self.bytes, list) else { return size };
        *sum = if is_first { size } else { sum.saturating_add(size) };
        *sum
    }

    /// Forwards a packet for which there is no room.
    pub(super) fn pass_without_room(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        known: &Known,
        packet: Packet,
    ) {
        self.statistics.overflows += 1;
        self.pass_in_order(cx, out, known, packet);
    }

    /// Forwards a packet whose flow holds no packets. Packets that were released and have not left yet, of
    /// which some may be of its flow, leave first.
    pub(super) fn pass_in_order(&mut self, cx: &mut Cx<'_>, out: &mut Batch, known: &Known, packet: Packet) {
        if self.lists.has_released() {
            self.let_go(cx, out);
        }
        self.pass(cx, out, packet, known.counted());
    }
}
