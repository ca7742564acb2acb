//! The decisions about packets of a known flow for which the look-up alone does not suffice: whether they are
//! held (BYPASS, ELEPHANTS, BYPASS_AFTER_FAIL), and for how long (SLO).

use element::{Packet, Timestamp};
use flow::Sketch;

use super::Reframer;
use super::holding::Known;
use crate::settings::DENSE;

/// The limit of the counter that predicts whether the next packet of a flow arrives in time. The counter
/// saturates at -2 and 1 (two bits); at 0 and above, the prediction is that the packet arrives in time.
/// From either limit, two packets change the prediction.
const SURE: i8 = 2;

impl Reframer {
    /// True if a packet is not to be held, because its flow is not heavy (ELEPHANTS) or a filter matches
    /// (BYPASS). Under an SLO, also updates the prediction for the flow.
    #[inline(never)]
    pub(super) fn asks_about(&mut self, packet: &Packet, known: &Known, now: Timestamp) -> bool {
        if self.settings.slo.is_set() {
            self.guess(known, now);
        }
        let is_small = |sketch: &mut Box<Sketch>| sketch.add(known.hash) < self.settings.elephants;
        let is_small = self.sketch.as_mut().is_some_and(is_small);
        is_small || self.settings.bypass.applies_to(packet)
    }

    /// True if a flow is not held any more because too many of its bursts had only one packet
    /// (BYPASS_AFTER_FAIL). `flow` is its number in the memory.
    pub(super) fn has_failed(&mut self, flow: u32) -> bool {
        let fails = self.settings.bypass_after;
        fails > 0 && self.memory.flow(flow).is_some_and(|flow| flow.score >= fails)
    }

    /// Updates the counter that predicts, as a branch predictor does, whether the next packet of a flow
    /// arrives in time. The prediction decides how long the flow's next list waits. Does nothing for a flow
    /// that is not remembered.
    fn guess(&mut self, known: &Known, now: Timestamp) {
        if let Some((number, before)) = self.memory.see((&known.located.key, known.hash), now)
            && let Some(flow) = self.memory.flow(number)
        {
            let in_time = now - before <= self.settings.delay_of(DENSE);
            flow.score = (flow.score + if in_time { 1 } else { -1 }).clamp(-SURE, SURE - 1);
        }
    }
}
