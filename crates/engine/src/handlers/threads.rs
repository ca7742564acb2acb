//! The handlers of FastClick that say which threads process an element's packets. A thread is a worker.

use std::collections::BTreeSet;

use element::ElementId;
use element::ports::Processing;

use crate::graph_copy::GraphCopy;
use crate::placement::Way;

/// The threads that process the packets of each element, by element number. They follow from the plan and
/// from the placement of the elements.
pub(super) struct Threads {
    /// The threads that come by with a packet, which they push into the element or pull from it.
    passing: Vec<BTreeSet<usize>>,
    /// True if packets are pushed all the way from where they enter the graph, by one thread.
    is_fullpush: Vec<bool>,
}

impl Threads {
    pub(super) fn new(graph: &GraphCopy) -> Threads {
        let len = graph.plan.len();
        let passing = (0..len).map(|id| graph.spawning_threads(id)).collect();
        let mut threads = Threads { passing, is_fullpush: vec![true; len] };
        // The graph may have cycles, so the loop goes on until nothing changes. Sets of threads only grow,
        // and flags only become false.
        while (0..len).fold(false, |changes, id| threads.update(graph, id) | changes) {}
        threads
    }

    /// Adds the threads that neighbours hand on to an element. Returns true if something has changed.
    fn update(&mut self, graph: &GraphCopy, id: ElementId) -> bool {
        let plan = &graph.plan;
        let pushed = ends(&plan.inputs[id], &plan.backward[id], Processing::Push);
        let pulled = ends(&plan.outputs[id], &plan.forward[id], Processing::Pull);
        let has_pull =
            [&plan.inputs[id], &plan.outputs[id]].iter().any(|side| side.contains(&Processing::Pull));
        let mut is_fullpush = !has_pull;
        let mut passing = self.passing[id].clone();
        for from in pushed {
            let way = graph.placement.way(from, id);
            is_fullpush &= self.is_fullpush[from] && way == Way::Here && !graph.takes_over(from);
            if graph.takes_over(from) {
                passing.extend(graph.spawning_threads(from));
                continue;
            }
            match way {
                Way::Here | Way::Heir => passing.extend(&self.passing[from]),
                Way::To(_) | Way::ToOwner | Way::Spread | Way::Stay if self.passing[from].is_empty() => {}
                Way::To(there) => passing.extend([there]),
                Way::ToOwner | Way::Spread | Way::Stay => passing.extend(graph.threads_of(id)),
            }
        }
        pulled.for_each(|to| passing.extend(&self.passing[to]));
        let changes = passing != self.passing[id] || is_fullpush != self.is_fullpush[id];
        (self.passing[id], self.is_fullpush[id]) = (passing, is_fullpush);
        changes
    }

    /// Returns the value of the handler `passing_threads` of an element.
    pub(super) fn passing(&self, id: ElementId) -> String {
        show(&self.passing[id])
    }

    /// Returns the value of the handler `is_fullpush` of an element.
    pub(super) fn is_fullpush(&self, id: ElementId) -> bool {
        self.is_fullpush[id]
    }
}

/// Returns the elements that are connected to the ports of one side of an element with this processing.
/// `peers` has the connections of each port.
fn ends<'p>(
    side: &'p [Processing],
    peers: &'p [Vec<(ElementId, usize)>],
    processing: Processing,
) -> impl Iterator<Item = ElementId> + 'p {
    let ports = side.iter().zip(peers).filter(move |(kind, _)| **kind == processing);
    ports.flat_map(|(_, peers)| peers.iter().map(|&(peer, _)| peer))
}

impl GraphCopy {
    /// Returns the threads that do an element's work.
    fn threads_of(&self, id: ElementId) -> impl Iterator<Item = usize> + '_ {
        (0..self.setup.workers).filter(move |&worker| self.placement.is_at(id, worker))
    }

    /// Returns the threads that begin to push or pull packets at an element, because it is a source, a sink
    /// that pulls, or passes packets on by its task. They are also the threads of an element without ports.
    fn spawning_threads(&self, id: ElementId) -> BTreeSet<usize> {
        use Processing::{Pull, Push};
        let begins = match (self.plan.inputs[id].first(), self.plan.outputs[id].first()) {
            (None, None | Some(Push)) | (Some(Pull), None | Some(Push)) => true,
            (Some(Push), Some(Push)) => self.plan.has_task(id),
            _ => false,
        };
        if begins { self.threads_of(id).collect() } else { BTreeSet::new() }
    }

    /// True if packets that come to an element leave it by its task, so that another thread may pass them on.
    fn takes_over(&self, id: ElementId) -> bool {
        !self.plan.inputs[id].is_empty() && !self.spawning_threads(id).is_empty()
    }

    /// Returns the value of the handler `spawning_threads` of an element.
    pub(super) fn show_spawning_threads(&self, id: ElementId) -> String {
        show(&self.spawning_threads(id))
    }
}

/// Returns numbers in FastClick's form: ranges with a hyphen, separated by commas.
fn show(threads: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &thread in threads {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == thread => *last = thread,
            _ => ranges.push((thread, thread)),
        }
    }
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shown_as_ranges() {
        let shown = |threads: &[usize]| show(&threads.iter().copied().collect());
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[3]), "3");
        assert_eq!(shown(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
    }
}
