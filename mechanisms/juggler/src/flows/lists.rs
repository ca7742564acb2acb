//! The lists of flows, each in the order in which its flows joined it. They decide which flow is evicted.

use super::{EvictionList, FlowPhase, Flows, NONE};

impl Flows {
    /// Returns the number of flows in a list.
    pub fn length(&self, list: EvictionList) -> usize {
        self.lists[list as usize].2
    }

    #[inline]
    pub(super) fn turn(&mut self, index: u32, phase: FlowPhase) {
        let flow = &mut self.flows[index as usize];
        let was = std::mem::replace(&mut flow.phase, phase);
        // A flow in build-up or active merging stays in the list of gaps until `rest` checks whether the flow
        // still has a gap.
        let list =
            if flow.is_tcp { phase.list(flow.list == EvictionList::Gap) } else { EvictionList::Datagrams };
        // A datagram flow moves to the end of the list whenever it gets its first waiting datagram, so flows
        // without new datagrams are evicted first.
        if list != flow.list || !flow.is_tcp && was == FlowPhase::PostMerging {
            self.move_to(index, list);
        }
    }

    /// Moves a flow to the end of a list, where it is evicted last.
    #[inline]
    pub(super) fn move_to(&mut self, index: u32, list: EvictionList) {
        self.unlink(index);
        self.link(index, list);
    }

    #[inline]
    pub(super) fn link(&mut self, index: u32, list: EvictionList) {
        let (first, last, length) = &mut self.lists[list as usize];
        let flow = &mut self.flows[index as usize];
        (flow.before, flow.behind, flow.list) = (*last, NONE, list);
        let last_was = std::mem::replace(last, index);
        *length += 1;
        match self.flows.get_mut(last_was as usize) {
            Some(before) => before.behind = index,
            None => *first = index,
        }
    }

    #[inline]
    pub(super) fn unlink(&mut self, index: u32) {
        let flow = &self.flows[index as usize];
        let (before, behind) = (flow.before, flow.behind);
        let (first, last, length) = &mut self.lists[flow.list as usize];
        *length -= 1;
        match self.flows.get_mut(before as usize) {
            Some(other) => other.behind = behind,
            None => *first = behind,
        }
        match self.flows.get_mut(behind as usize) {
            Some(other) => other.before = before,
            None => *last = before,
        }
    }
}
