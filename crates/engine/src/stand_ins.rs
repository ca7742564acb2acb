//! Stand-ins: elements that act in place of other elements, such as a program for the region that it
//! replaces. The other elements stay in the graph.
//!
//! Packets that a stand-in handles bypass the elements that it acts for. When it is asked, it reports how
//! many packets it has handled for each of them. It is asked before a handler is read or written, before
//! state is taken, before the report, and at the end of a run. The element adds these packets to its own
//! counts, and the engine adds them to the counters that its work list would have counted. A stand-in reports
//! to the copies of elements at its own worker.

use std::collections::{BTreeMap, BTreeSet};

use element::{Core, Effects, Element, ElementId, Tally};

/// The elements of a graph, indexed by element number. An element is `None` while it is being called.
pub(crate) type Elements = [Option<Box<dyn Element>>];

/// The stand-ins of a graph, and the reports and notices that could not be delivered yet.
pub(crate) struct StandIns {
    ids: Vec<ElementId>,
    /// For each stand-in, the elements for which it was made to act, and the elements for which earlier
    /// stand-ins that it has replaced were made to act.
    regions: BTreeMap<ElementId, BTreeSet<ElementId>>,
    /// The elements whose effects have changed since the graph was made, whether or not a stand-in acts for
    /// them.
    changed: BTreeSet<ElementId>,
    /// The elements of `changed` whose effects are not known, because they were being called when they
    /// changed.
    unasked: BTreeSet<ElementId>,
    /// The stand-ins that rely on outdated effects, each with the element whose effects have changed. Such a
    /// stand-in does not act for any element until it is replaced.
    outdated: BTreeSet<(ElementId, ElementId)>,
    /// Notices that could not be delivered because the stand-in was being called: the stand-in, and the
    /// element whose effects have changed.
    unaware: Vec<(ElementId, ElementId)>,
    /// Reports of packets that a stand-in has handled for an element, which could not be delivered because
    /// the element was being called.
    unheard: Vec<(ElementId, Tally)>,
}

impl StandIns {
    pub(crate) fn new(effects: &[Effects]) -> StandIns {
        let stands = |id: &ElementId| !effects[*id].replaces.is_empty();
        let ids: Vec<ElementId> = (0..effects.len()).filter(stands).collect();
        let region = |&id: &ElementId| (id, effects[id].replaces.iter().copied().collect());
        StandIns {
            regions: ids.iter().map(region).collect(),
            ids,
            changed: BTreeSet::new(),
            unasked: BTreeSet::new(),
            outdated: BTreeSet::new(),
            unaware: Vec::new(),
            unheard: Vec::new(),
        }
    }

    /// Has the stand-ins report how many packets they have handled for each element, and adds these numbers
    /// to the counts of the elements. Stand-ins that are being called are left out. Reports for elements that
    /// are being called are kept for the next call.
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

    /// Finds the elements whose effects have changed because a handler of the element `written` was written,
    /// and tells the stand-ins that act for them. These elements may be `written` itself, elements that use
    /// its state, and elements that could not be asked before. Updates `effects`. An element that is being
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
        let depends = |id: &ElementId| *id == written || effects[*id].beside.contains(&written);
        let changed = (0..effects.len()).filter(depends).collect();
        self.ask(elements, effects, changed)
    }

    /// True if elements were being called when they changed, and have not been asked for their effects since.
    #[inline]
    pub(crate) fn has_unasked(&self) -> bool {
        !self.unasked.is_empty()
    }

    /// Asks the elements for their effects that were being called when they changed. Returns these elements,
    /// as [`look_for_changes`](Self::look_for_changes) does.
    pub(crate) fn ask_again(&mut self, elements: &mut Elements, effects: &mut [Effects]) -> Vec<ElementId> {
        self.ask(elements, effects, BTreeSet::new())
    }

    /// Asks the elements of `changed`, and elements that could not be asked before, for their effects.
    /// Returns the elements whose effects have changed, or may have changed.
    fn ask(
        &mut self,
        elements: &mut Elements,
        effects: &mut [Effects],
        mut changed: BTreeSet<ElementId>,
    ) -> Vec<ElementId> {
        let unasked = std::mem::take(&mut self.unasked);
        changed.extend(&unasked);
        changed.retain(|&id| match &elements[id] {
            Some(element) => {
                let present = element.effects();
                let differs = present != effects[id];
                effects[id] = present;
                // An element that could not be asked before counts as changed, too: a change was assumed
                // then, and its actual effects become known now.
                differs || unasked.contains(&id)
            }
            None => self.unasked.insert(id),
        });
        changed.iter().for_each(|&id| self.outdate(elements, effects, id));
        changed.into_iter().collect()
    }

    /// Returns the stand-ins that rely on an element's effects: those that act for it, or acted for it until
    /// its effects changed. If the element writes handlers while packets pass, returns all stand-ins, because
    /// a handler call in the middle of a batch shows in which order elements process the batch.
    fn of(&self, effects: &[Effects], id: ElementId) -> Vec<ElementId> {
        let relies = |other: ElementId| effects[id].calls || effects[other].replaces.contains(&id);
        self.ids.iter().copied().filter(|&other| relies(other)).collect()
    }

    /// Returns the stand-ins that have to be made again because an element has changed. With each, true if
    /// the stand-in relies on the element. False if only an earlier stand-in in the same place acted for the
    /// element: the next stand-in made for this place may act for it again.
    pub(crate) fn to_renew(&self, effects: &[Effects], id: ElementId) -> BTreeMap<ElementId, bool> {
        let had = self.regions.iter().filter(|(_, region)| region.contains(&id));
        let had = had.map(|(&other, _)| (other, false));
        had.chain(self.of(effects, id).into_iter().map(|other| (other, true))).collect()
    }

    /// Returns the elements whose effects have changed since the graph was made. `None` if the effects of one
    /// of them are not known.
    pub(crate) fn changed(&self) -> Option<&BTreeSet<ElementId>> {
        self.unasked.is_empty().then_some(&self.changed)
    }

    /// Records that a stand-in was replaced by one that was made for the present effects of all elements.
    pub(crate) fn renew(&mut self, effects: &[Effects], stand_in: ElementId) {
        self.regions.entry(stand_in).or_default().extend(&effects[stand_in].replaces);
        self.unaware.retain(|&(other, _)| other != stand_in);
        self.outdated.retain(|&(other, _)| other != stand_in);
    }

    /// Records that the effects of an element have changed, and tells the stand-ins that act for the element
    /// that they may no longer do so. Each of them is told once.
    pub(crate) fn outdate(&mut self, elements: &mut Elements, effects: &[Effects], id: ElementId) {
        self.changed.insert(id);
        for stand_in in self.of(effects, id) {
            if self.outdated.insert((stand_in, id)) {
                self.tell_outdated(elements, stand_in, id);
            }
        }
    }

    fn tell_outdated(&mut self, elements: &mut Elements, stand_in: ElementId, element: ElementId) {
        match &mut elements[stand_in] {
            Some(own) => own.outdated(element),
            None => self.unaware.push((stand_in, element)),
        }
    }
}
