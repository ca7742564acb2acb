//! The order of packets whose flow is unknown: such a packet waits together with all packets between its
//! hosts.

use element::{Batch, Cx, Packet, Timestamp};

use super::Reframer;
use super::holding::Known;
use crate::key::{FlowKey, FlowKind, Located};
use crate::lists::{Flow, ReleaseReason, UNKNOWN_FLOWS};
use crate::outgoing::UNLIKE;

impl Reframer {
    /// Holds a packet in the list of its pair of hosts, so that it does not overtake packets between these
    /// hosts whose flow is unknown. This concerns packets whose own flow is unknown, and all packets between
    /// two hosts while such a packet is held. Returns other packets to the caller. Without room, releases all
    /// held packets and forwards the packet. `known` is `None` for packets without a flow; `is_hidden` is
    /// true if the packet's own flow is unknown, or if it is the first packet with its connection id of QUIC.
    #[inline(never)]
    pub(super) fn hold_unknown(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        (known, is_hidden): (Option<&Known>, bool),
        packet: Packet,
        now: Timestamp,
    ) -> Option<Packet> {
        let pairs = self.finder.pairs(&packet);
        let holder =
            pairs.into_iter().flatten().find_map(|key| self.lists.find(&key, key.hash(&self.finder.hasher)));
        let overflows = self.lists.held() >= self.settings.max_held;
        let left = match holder {
            Some(list) => {
                self.lists.hold(list, packet, UNLIKE, now);
                None
            }
            None if is_hidden => {
                let own = match known {
                    Some(Known { located: Located { key, kind: FlowKind::Pair, .. }, .. }) => Some(*key),
                    // The packet is the first one with its connection id: it waits with its five-tuple.
                    _ => pairs[2],
                };
                let Some(key) = own else { return Some(packet) };
                self.begin_pair(cx, out, key, packet, now)
            }
            None => return Some(packet),
        };
        if overflows || left.is_some() {
            // Releases everything, so that the packet can leave at once without overtaking a packet that
            // arrived earlier.
            self.statistics.overflows += 1;
            self.lists.release_all(ReleaseReason::Capacity, self.settings.priority);
            self.let_go(cx, out);
        }
        if let Some(packet) = left {
            self.pass(cx, out, packet, known.and_then(Known::counted));
        }
        None
    }

    /// Begins the list of all packets between two hosts with a packet. `key` is the key of the pair. Returns
    /// the packet if there is no room.
    fn begin_pair(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        key: FlowKey,
        packet: Packet,
        now: Timestamp,
    ) -> Option<Packet> {
        if !self.has_room_for_list(cx, out) {
            return Some(packet);
        }
        let delay_class = UNKNOWN_FLOWS as u8;
        let flow = Flow { kind: FlowKind::Pair, traits: UNLIKE, delay_class, remembered: None };
        self.lists.begin(&key, key.hash(&self.finder.hasher), flow, packet, now);
        None
    }

    /// True if a packet of QUIC is the first one with its connection id, so that it must not overtake packets
    /// of the same five-tuple with other ids. Remembers the id. Without room for it, the packet counts as the
    /// first one.
    #[inline(never)]
    pub(super) fn opens_quic(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        known: &Known,
        now: Timestamp,
    ) -> bool {
        let flow = (&known.located.key, known.hash);
        let is_known = self.lists.find(flow.0, flow.1).is_some() || self.memory.knows(flow);
        !is_known && self.recall(cx, out, known, now).is_none_or(|(_, is_new)| is_new)
    }

    /// Forwards a packet without a flow, or holds it if a packet whose flow is unknown is held between the
    /// same hosts.
    #[inline]
    pub(super) fn take_without_flow(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        packet: Packet,
        now: Timestamp,
    ) {
        let left = match self.lists.holds_unknown() {
            true => self.hold_unknown(cx, out, (None, false), packet, now),
            false => Some(packet),
        };
        if let Some(packet) = left {
            self.pass(cx, out, packet, None);
        }
    }
}
