//! Stand-ins: elements that act in place of other elements, such as a program for the region that it
//! replaces. The other elements stay in the graph.
//!
//! Packets that a stand-in handles bypass the elements that it acts for. When it is asked, it reports how
//! many packets it has handled for each of them. It is asked before a handler is read or written, before
//! state is taken, before the report, and at the end of a run. The element adds these packets to its own
//! counts, and the engine adds them to the counters that its work list would have counted. A stand-in reports
//! to the copies of elements at its own worker.

use std::collections::BTreeSet;

use element::{Core, Effects, Element, ElementId, Tally};

/// The elements of a graph, indexed by element number. An element is `None` while it is being called.
pub(crate) type Elements = [Option<Box<dyn Element>>];

/// The stand-ins of a graph, and the reports and notices that could not be delivered yet.
pub(crate) struct StandIns {
    ids: Vec<ElementId>,
    /// Elements whose effects have changed, so that no stand-in acts for them any more.
    outdated: BTreeSet<ElementId>,
    /// Notices that could not be delivered because the stand-in was being called: the stand-in, and the
    /// element whose effects have changed.
    unaware: Vec<(ElementId, ElementId)>,
    /// Reports that could not be delivered because their element was being called.
    unheard: Vec<(ElementId, Tally)>,
}

impl StandIns {
    pub(crate) fn new(effects: &[Effects]) -> StandIns {
        let stands = |id: &ElementId| !effects[*id].replaces.is_empty();
        let ids = (0..effects.len()).filter(stands).collect();
        StandIns { ids, outdated: BTreeSet::new(), unaware: Vec::new(), unheard: Vec::new() }
    }

    /// Has all stand-ins report what they have done for each element, and adds the reports to the counts of
    /// these elements.
    pub(crate) fn settle(&mut self, elements: &mut Elements, effects: &[Effects], core: &mut Core) {
        if !self.ids.is_empty() {
            self.settle_some(elements, effects, core);
        }
    }

    #[cold]
    fn settle_some(&mut self, elements: &mut Elements, effects: &[Effects], core: &mut Core) {
        for (stand_in, element) in std::mem::take(&mut self.unaware) {
            self.tell_outdated(elements, stand_in, element);
        }
        let StandIns { ids, unheard, .. } = self;
        let mut told = std::mem::take(unheard);
        for &id in &*ids {
            if let Some(stand_in) = &mut elements[id] {
                stand_in.settle(&mut |element, tally| told.push((element, tally)));
            }
        }
        for (id, tally) in told {
            let Some(case) = effects.get(id).and_then(|effects| effects.cases.get(tally.case)) else {
                debug_assert!(false, "for no case of element {id}: {tally:?}");
                continue;
            };
            match &mut elements[id] {
                Some(element) => {
                    element.tally(&tally);
                    core.counters[id].pass(case, core.outputs[id] as usize, tally.packets);
                }
                None => unheard.push((id, tally)),
            }
        }
    }

    /// Notifies stand-ins if effects have changed because a handler of the element `written` was written.
    /// This may concern the element itself, and elements that use its state, if stand-ins act for them.
    /// Updates `effects`, and returns the elements whose effects have changed. An element that is being
    /// called cannot be asked for its effects, so a change is assumed.
    pub(crate) fn look_for_changes(
        &mut self,
        elements: &mut Elements,
        effects: &mut [Effects],
        written: ElementId,
    ) -> Vec<ElementId> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let stood_for = self.ids.iter().flat_map(|&id| &effects[id].replaces).copied();
        let depends = |id: &ElementId| *id == written || effects[*id].beside.contains(&written);
        let mut changed: BTreeSet<_> = stood_for.filter(depends).collect();
        changed.retain(|&id| match &elements[id] {
            Some(element) => {
                let present = element.effects();
                let differs = present != effects[id];
                effects[id] = present;
                differs
            }
            None => true,
        });
        changed.iter().for_each(|&id| self.outdate(elements, effects, id));
        changed.into_iter().collect()
    }

    /// True if stand-ins act for an element.
    pub(crate) fn act_for(&self, effects: &[Effects], id: ElementId) -> bool {
        self.ids.iter().any(|&other| effects[other].replaces.contains(&id))
    }

    /// True if the effects of an element have changed, so that no stand-in acts for it any more.
    pub(crate) fn is_outdated(&self, id: ElementId) -> bool {
        self.outdated.contains(&id)
    }

    /// Records that a stand-in was replaced by one that was made for the present effects of all elements
    /// that it acts for.
    pub(crate) fn renew(&mut self, effects: &[Effects], stand_in: ElementId) {
        self.unaware.retain(|&(other, _)| other != stand_in);
        effects[stand_in].replaces.iter().for_each(|id| _ = self.outdated.remove(id));
    }

    /// Notifies the stand-ins that act for an element that they may no longer do so, because its effects
    /// differ from the start. Each element is announced once.
    pub(crate) fn outdate(&mut self, elements: &mut Elements, effects: &[Effects], id: ElementId) {
        let stand_ins = self.ids.iter().copied();
        let stand_ins: Vec<_> = stand_ins.filter(|&other| effects[other].replaces.contains(&id)).collect();
        if !stand_ins.is_empty() && self.outdated.insert(id) {
            stand_ins.into_iter().for_each(|stand_in| self.tell_outdated(elements, stand_in, id));
        }
    }

    fn tell_outdated(&mut self, elements: &mut Elements, stand_in: ElementId, element: ElementId) {
        match &mut elements[stand_in] {
            Some(own) => own.outdated(element),
            None => self.unaware.push((stand_in, element)),
        }
    }
}
