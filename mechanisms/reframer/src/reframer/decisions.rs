//! The decisions about packets of a known flow for which the look-up alone does not suffice: whether they are
//! held (BYPASS, ELEPHANTS), and for how long (DELAYS, SLO).

use element::{Packet, Timestamp};
use flow::{FlowId, Sketch};

use super::Reframer;
use crate::lists::DELAY_CLASSES;
use crate::settings::{DENSE, SPARSE};

/// The limit of the counter that predicts whether the next packet of a flow arrives in time. The counter
/// saturates at -2 and 1 (two bits); at 0 and above, the prediction is that the packet arrives in time.
/// From either limit, two packets change the prediction.
const SURE: i8 = 2;

impl Reframer {
    /// True if a packet is not to be held, because its flow is not heavy (ELEPHANTS) or a filter matches
    /// (BYPASS). Also chooses the delay of a known flow, where it may change (DELAYS, SLO).
    #[inline(never)]
    pub(super) fn asks_about(
        &mut self,
        packet: &Packet,
        (hash, id): (u32, Option<FlowId>),
        now: Timestamp,
    ) -> bool {
        if let Some(id) = id {
            self.choose_delay(packet, id, now);
        }
        let is_small = |sketch: &mut Box<Sketch>| sketch.add(hash) < self.settings.elephants;
        let is_small = self.sketch.as_mut().is_some_and(is_small);
        is_small || self.settings.bypass.applies_to(packet)
    }

    /// True if a flow is not held any more because too many of its bursts had only one packet
    /// (BYPASS_AFTER_FAIL).
    #[inline(never)]
    pub(super) fn has_failed(&mut self, flow: u32) -> bool {
        let fails = self.settings.bypass_after;
        fails > 0 && self.lists.note(flow).score >= fails
    }

    /// Chooses the delay class of a flow again: by the filters of DELAYS if packets of one flow may match
    /// different rules, otherwise by the prediction under an SLO. A flow that holds packets keeps its class,
    /// so that the first packet of a burst decides.
    pub(super) fn choose_delay(&mut self, packet: &Packet, id: FlowId, now: Timestamp) {
        if self.table.last_seen(id).is_none() {
            return;
        }
        let by_burst = self.settings.delays.by_burst();
        let slo = self.settings.slo.is_set();
        let predicted = if slo { self.guess(id, now) } else { by_burst.then_some(SPARSE) };
        let flow = id.index();
        let has_rule = usize::from(self.lists.note(flow).delay_class) >= DELAY_CLASSES;
        if self.lists.holds(flow) || !by_burst && has_rule {
            return;
        }
        let rule = if by_burst { self.settings.delays.rule_of(packet) } else { None };
        if let Some(delay_class) = rule.map(|rule| DELAY_CLASSES + rule).or(predicted) {
            self.lists.set_delay_class(flow, delay_class as u8);
        }
    }

    /// Updates the counter that predicts, as a branch predictor does, whether the next packet of a flow
    /// arrives in time, and returns the flow's delay class by it. `None` for a flow that has expired.
    pub(super) fn guess(&mut self, id: FlowId, now: Timestamp) -> Option<usize> {
        let before = self.table.last_seen(id)?;
        let in_time = now - before <= self.settings.delay_of(DENSE);
        let note = self.lists.note(id.index());
        note.score = (note.score + if in_time { 1 } else { -1 }).clamp(-SURE, SURE - 1);
        Some(if note.score >= 0 { DENSE } else { SPARSE })
    }
}
