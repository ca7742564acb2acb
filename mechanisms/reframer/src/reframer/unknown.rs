//! The order of packets whose flow is unknown: such a packet waits together with all packets between its
//! hosts.

use element::{Batch, Cx, Packet, Timestamp};

use super::Reframer;
use crate::key::{Brief, FlowKey, FlowKind};
use crate::lists::ReleaseReason;

impl Reframer {
    /// Holds a packet in the list of its pair of hosts, so that it does not overtake packets between these
    /// hosts whose flow is unknown. This concerns packets whose own flow is unknown, and all packets between
    /// two hosts while such a packet is held. Returns other packets to the caller. Without room, releases all
    /// held packets and forwards the packet. `brief` is `None` for packets without a flow; `is_hidden` is
    /// true if the packet's own flow is unknown, or not to be overtaken.
    #[inline(never)]
    pub(super) fn hold_unknown(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        (brief, is_hidden): (Option<Brief>, bool),
        packet: Packet,
        now: Timestamp,
    ) -> Option<Packet> {
        let pairs = self.finder.pairs(&packet);
        let holder = pairs.into_iter().flatten().find_map(|key| {
            let id = self.table.lookup(&key, key.hash(&self.finder.hasher))?;
            self.lists.holds(id.index()).then_some(id)
        });
        let flow = match holder {
            Some(id) => {
                // The time of the last use of the entry is set to now, so that the entry does not expire
                // while it holds packets.
                self.table.touch(id, now);
                Some(id.index())
            }
            None if is_hidden => {
                let own = match brief {
                    Some(Brief { kind: FlowKind::Pair, .. }) => {
                        self.finder.locate(&packet).map(|located| located.key)
                    }
                    // The first packet with a connection id.
                    _ => pairs[2],
                };
                let Some(key) = own else { return Some(packet) };
                self.pair_flow(cx, out, (key, &packet), now)
            }
            None => return Some(packet),
        };
        let overflows = flow.is_none() || self.lists.held() >= self.settings.max_held;
        let left = match flow {
            Some(flow) => {
                self.lists.hold(flow, packet, now);
                None
            }
            None => Some(packet),
        };
        if overflows {
            // Releases everything, so that the packet can leave at once without overtaking a packet that
            // arrived earlier.
            self.statistics.overflows += u64::from(flow.is_some());
            self.lists.release_all(ReleaseReason::Capacity, self.settings.priority);
            self.let_go(cx, out);
        }
        if let Some(packet) = left {
            let counted = brief.filter(|brief| brief.counts()).and_then(|_| self.finder.locate(&packet));
            self.pass(cx, out, packet, counted.map(|located| located.key.hash(&self.finder.hasher)));
        }
        None
    }

    /// Returns the index of the flow that stands for all packets between two hosts, of which `packet` is one,
    /// and whose key is `key`. `None` if there is no room for its entry.
    pub(super) fn pair_flow(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        (key, packet): (FlowKey, &Packet),
        now: Timestamp,
    ) -> Option<u32> {
        let hash = key.hash(&self.finder.hasher);
        if let Some(id) = self.table.lookup(&key, hash) {
            self.table.touch(id, now);
            return Some(id.index());
        }
        let brief = Brief { kind: FlowKind::Pair, flags: 0 };
        let flow = self.find_or_open(cx, out, (key, hash), (brief, packet), now, &mut false);
        self.statistics.overflows += u64::from(flow.is_none());
        flow
    }

    /// Opens the flow of a packet of QUIC that a look-up did not find. Returns true if no earlier packet has
    /// done so, so that the packet must not overtake packets of the same five-tuple with other connection
    /// ids.
    #[inline(never)]
    pub(super) fn opens_quic(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        (brief, packet): (Brief, &Packet),
        hash: u32,
        now: Timestamp,
    ) -> bool {
        let Some(key) = self.finder.locate(packet).map(|located| located.key) else { return false };
        if self.table.lookup(&key, hash).is_some() {
            return false;
        }
        // Without room for the flow, the packet waits in the list of its five-tuple all the same, so this is
        // no overflow.
        self.find_or_open(cx, out, (key, hash), (brief, packet), now, &mut false);
        true
    }

    /// Forwards a packet without a flow, or holds it if a packet whose flow is unknown is held between the
    /// same hosts.
    #[inline]
    pub(super) fn take_foreign(&mut self, cx: &mut Cx<'_>, out: &mut Batch, packet: Packet, now: Timestamp) {
        let left = match self.lists.holds_unknown() {
            true => self.hold_unknown(cx, out, (None, false), packet, now),
            false => Some(packet),
        };
        if let Some(packet) = left {
            self.pass(cx, out, packet, None);
        }
    }
}
