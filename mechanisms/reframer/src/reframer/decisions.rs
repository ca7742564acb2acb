//! The decisions about packets of a known flow for which the look-up alone does not suffice: whether they are
//! held (BYPASS, ELEPHANTS), and for how long (DELAYS, SLO).

use element::{Packet, Timestamp};
use flow::{FlowId, Sketch};

use super::Reframer;
use crate::lists::{DELAY_CLASSES, UNKNOWN_FLOWS};
use crate::settings::{DENSE, SPARSE};

/// The limit of the counter that predicts whether the next packet of a flow arrives in time. The counter
/// saturates at -2 and 1 (two bits); at 0 and above, the prediction is that the packet arrives in time.
/// From either limit, two packets change the prediction.
const SURE: i8 = 2;

impl Reframer {
    /// True if a packet is not to be held, because its flow is not heavy (ELEPHANTS) or a filter matches
    /// (BYPASS). Under an SLO, also updates the prediction for the flow.
    #[inline(never)]
    pub(super) fn asks_about(
        &mut self,
        packet: &Packet,
        (hash, id): (u32, Option<FlowId>),
        now: Timestamp,
    ) -> bool {
        if self.settings.slo.is_set() {
            self.guess(id, now);
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

    /// Chooses the delay class of a flow by the filters of DELAYS, for a burst that begins with `packet`. The
    /// flow holds no packets.
    #[inline(never)]
    pub(super) fn choose_delay(&mut self, flow: u32, packet: &Packet) {
        let note = self.lists.note(flow);
        let is_unknown = usize::from(note.delay_class) == UNKNOWN_FLOWS;
        let predicted = if self.settings.slo.is_set() && note.score >= 0 { DENSE } else { SPARSE };
        let rule = self.settings.delays.rule_of(packet);
        if !is_unknown {
            let delay_class = rule.map_or(predicted, |rule| DELAY_CLASSES + rule);
            self.lists.set_delay_class(flow, delay_class as u8);
        }
    }

    /// Updates the counter that predicts, as a branch predictor does, whether the next packet of a flow
    /// arrives in time, and chooses the flow's delay class by it, unless a filter of DELAYS has chosen it.
    /// Does nothing for a flow that is not in the table.
    fn guess(&mut self, id: Option<FlowId>, now: Timestamp) {
        if let Some(id) = id
            && let Some(before) = self.table.last_seen(id)
        {
            let in_time = now - before <= self.settings.delay_of(DENSE);
            let note = self.lists.note(id.index());
            note.score = (note.score + if in_time { 1 } else { -1 }).clamp(-SURE, SURE - 1);
            let delay_class = if note.score >= 0 { DENSE } else { SPARSE };
            if usize::from(note.delay_class) < DELAY_CLASSES {
                self.lists.set_delay_class(id.index(), delay_class as u8);
            }
        }
    }
}
