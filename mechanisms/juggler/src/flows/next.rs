//! The fast paths of segments that follow the last arrival in sequence, as nearly all segments do.

use element::{Packet, Timestamp};
use packet::Drain;
use wire::checksum::Sum;
use wire::merge::{NextSegment, SegmentData, WholeSegment};
use wire::tcp::flags;

use super::{FlowPhase, Flows, FlushReason};

impl Flows {
    /// Takes packets from the front of a batch as long as their segments are next after the last run of a
    /// flow, and can be merged with this run. `sum` returns the sum of the data of the first packet as in
    /// [`extend_by`](crate::queue::SegmentRun::extend_by); its last argument is the mark of the run. Does
    /// what [`take`](Self::take) does, but only for frames of the usual layout. Returns the number of
    /// packets.
    #[inline]
    pub fn take_next<E>(
        &mut self,
        index: u32,
        packets: &mut Drain<'_>,
        sum: impl Fn(&[Packet], &NextSegment, u16, u64) -> Result<Option<Sum>, E>,
        now: Timestamp,
    ) -> usize {
        let flow = &mut self.flows[index as usize];
        if flow.phase == FlowPhase::BuildUp || !(self.limits.merges && flow.merges) {
            return 0;
        }
        let expected = flow.expected[0];
        let Some(last) = flow.queue.back_mut().filter(|last| expected == Some(last.end)) else { return 0 };
        let (before, slots) = (last.chain.packets(), last.chain.slots());
        let mark = last.mark;
        // With this number of slots, the flow exceeds its limit.
        let most = slots + 1 + self.limits.slots.saturating_sub(flow.slots);
        last.extend_by(packets, most, |packets, next, start| sum(packets, next, start, mark));
        let (taken, added) = (last.chain.packets() - before, last.chain.slots() - slots);
        if taken > 0 {
            self.extended(index, taken, added, now);
        }
        taken
    }

    /// Accounts for segments, in `slots` slots, by which the last run of a flow was extended, and flushes
    /// segments that need not wait any longer.
    #[inline]
    pub(super) fn extended(&mut self, index: u32, segments: usize, slots: u32, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let Some(last) = flow.queue.back() else { return };
        let is_complete = self.limits.merges && flow.merges && last.is_closed || last.is_urgent();
        flow.expected[0] = Some(last.end);
        flow.slots += slots;
        flow.unrelated = 0;
        self.held += segments;
        if flow.slots > self.limits.slots {
            self.enter_loss_recovery(index, FlushReason::QueueFull, now);
            self.rest(index, now);
        } else if is_complete {
            self.settle(index, now);
        }
    }

    /// Accounts for a segment that is next in a flow without merging, if no segments wait: it need not be
    /// held. Returns false, and does nothing, for other segments.
    #[inline(always)]
    pub fn pass_next(&mut self, index: u32, segment: SegmentData, now: Timestamp) -> bool {
        let flow = &mut self.flows[index as usize];
        let is_next = segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0
            && flow.phase != FlowPhase::BuildUp
            && flow.expected[0] == Some(segment.sequence)
            && flow.queue.is_empty()
            && !(self.limits.merges && flow.merges)
            && segment.sequence == flow.next;
        if is_next {
            let end = segment.sequence.wrapping_add(segment.length.into());
            (flow.next, flow.flushed, flow.expected, flow.unrelated) = (end, now, [Some(end); 2], 0);
        }
        is_next
    }

    /// True if a segment of a flow changes nothing but the next expected number: it is a datagram, or it
    /// follows the last arrival in sequence, and opens or ends no connection.
    #[inline(always)]
    pub fn is_next(&self, index: u32, segment: &WholeSegment) -> bool {
        let opens_or_ends = segment.flags & (flags::SYN | flags::FIN | flags::RST) != 0;
        !segment.is_tcp || !opens_or_ends && self.flows[index as usize].expected[0] == Some(segment.sequence)
    }
}
