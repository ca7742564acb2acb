//! Gives an element other arguments while the graph runs (the write handler `config`).

use std::sync::Arc;

use element::effects::{FlowMarks, Hold};
use element::{Complaint, Core, Cx, Effects, ElementId, Facts, OutputStream};

use crate::element_order;
use crate::graph_copy::GraphCopy;
use crate::graph_facts;
use crate::host::WorkerHost;
use crate::recompose::Composed;

impl WorkerHost<'_> {
    /// Makes a new element from other arguments, and puts it in the place of the old element, whose state it
    /// gets. On an error, the old element continues unchanged.
    ///
    /// # Errors
    /// If the element is being called, the arguments are wrong, or the new element cannot be initialised: a
    /// message for the user. Also if the new effects would break facts that other elements rely on.
    pub(crate) fn reconfigure(&mut self, core: &mut Core, id: ElementId, config: &str) -> Result<(), String> {
        if self.graph.elements[id].is_none() {
            return Err(format!("'{}' is busy", self.graph.plan.graph.elements[id].name));
        }
        let plan = Arc::clone(&self.graph.plan);
        let (built, warnings) = plan.build(id, &mut self.graph.setup, config);
        let clicks_words = self.control.clicks_words;
        let text = |complaint: Complaint| match complaint.clicks_words {
            Some(words) if clicks_words => words,
            _ => complaint.text,
        };
        let mut new = built.map_err(|errors| {
            let own: Vec<String> = errors.iter().map(|error| error.text.clone()).collect();
            let texts: Vec<String> = errors.into_iter().map(text).filter(|text| !text.is_empty()).collect();
            // Click has no words for some errors, but a failure needs a message.
            if texts.is_empty() { own.join("\n") } else { texts.join("\n") }
        })?;
        let is_stand_in = !new.effects().replaces.is_empty();
        if is_stand_in {
            let composed = self.composed(id, config).ok_or("programs are not changed by hand")?;
            self.graph.check_declarations(&composed.declarations)?;
        }
        let facts = self.graph.check_declaration(core, id, new.effects())?;
        for warning in warnings.into_iter().map(text).filter(|warning| !warning.is_empty()) {
            // Click's words have no name of an element, and contain `warning: `.
            let start = match clicks_words {
                true => String::new(),
                false => format!("{}: warning: ", plan.declaration(id)),
            };
            self.control.sink.write(OutputStream::Messages, format_args!("{start}{warning}\n"));
        }
        let Some(mut old) = self.graph.elements[id].take() else { return Ok(()) };
        let mut cx = Cx::new(core, self, id);
        if let Err(error) = new.initialize(&mut cx) {
            self.graph.elements[id] = Some(old);
            return Err(error);
        }
        if is_stand_in {
            // The old program gives back the flows that translators have leased to it, so that the new
            // program can lease them.
            old.outdated(id);
        }
        if let Some(state) = old.take_state() {
            // The state fits, because the class is the same. An element that does not accept it starts
            // without state.
            let _ = new.put_state(&mut cx, state);
        }
        core.garbage.clear();
        keep_known_runs(&mut core.facts, facts);
        debug_assert_eq!(old.held(), 0, "{} keeps packets back", plan.declaration(id));
        let effects = new.effects();
        let same = std::mem::replace(&mut self.graph.effects[id], effects) == self.graph.effects[id];
        self.graph.elements[id] = Some(new);
        // No stand-in may act for the element any more if its effects have changed. The same holds if it
        // leases flows, because the stand-ins have leases of the old element.
        let is_outdated = !same || self.graph.effects[id].support.leases.is_some();
        if is_stand_in {
            self.graph.renew(id);
        } else if is_outdated {
            self.graph.outdate(id);
            self.note_change(id);
        }
        self.look_for_changes(id);
        self.graph.configs.insert(id, config.to_string());
        Ok(())
    }
}

impl WorkerHost<'_> {
    /// Finds the elements whose effects have changed because a handler of the element `written` was written,
    /// and has the synthesized programs composed again that replace such an element.
    pub(crate) fn look_for_changes(&mut self, written: ElementId) {
        self.graph.look_for_changes(written).into_iter().for_each(|id| self.note_change(id));
    }

    /// Asks the elements for their effects that were being called when they changed, and has programs
    /// composed again as [`look_for_changes`](Self::look_for_changes) does.
    pub(crate) fn ask_again(&mut self) {
        self.graph.ask_again().into_iter().for_each(|id| self.note_change(id));
    }

    /// Returns the composition whose programs are being put in, if `config` is its program for this element.
    pub(crate) fn composed(&self, id: ElementId, config: &str) -> Option<Arc<Composed>> {
        self.control.recomposer.as_ref()?.composed(&self.graph.plan.graph.elements[id].name, config)
    }

    fn note_change(&self, id: ElementId) {
        if let Some(recomposer) = &self.control.recomposer {
            let effects = self.graph.elements[id].is_some().then(|| &self.graph.effects[id]);
            let name = &self.graph.plan.graph.elements[id].name;
            recomposer.note(name, effects, self.graph.stand_ins_to_renew(id));
        }
    }
}

impl GraphCopy {
    /// Checks that the effects of a new element keep the facts about annotations, offloads, flow marks and
    /// replays that other elements rely on. At the start, elements were configured for certain annotations
    /// that are read, bytes that are written, offloads and flow marks. So the new effects must not need more.
    /// Returns the facts about the graph with the new effects.
    fn check_declaration(&mut self, core: &Core, id: ElementId, new: Effects) -> Result<Facts, String> {
        let old = std::mem::replace(&mut self.effects[id], new);
        let facts = graph_facts::gather(&self.effects, &self.plan.forward);
        // Only elements that take flow marks with the new effects must still be able to rely on them. An
        // element that took marks before and takes none now needs no marks.
        let takers: Vec<ElementId> = (0..self.effects.len())
            .filter(|&id| self.effects[id].support.marks == FlowMarks::Takes)
            .collect();
        let misplaced = element_order::misplaced(&self.effects, &self.plan.forward);
        let unjoined = element_order::unjoined(&self.effects, &self.plan.forward);
        self.effects[id] = old;
        // When the run started, the same check found no problem, so any problem now comes from this change of
        // arguments.
        let misplaced = misplaced.iter().map(|(id, by, why)| self.plan.misplaced(*id, *by, why));
        let unjoined = unjoined.iter().map(|(id, what, hint)| self.plan.unjoined(*id, what, hint));
        if let Some(problem) = misplaced.chain(unjoined).next() {
            return Err(problem.diagnostic.message);
        }
        let (now, was) = (&facts.annotations_read, &core.facts.annotations_read);
        let seen = |facts: &Facts| facts.annotations_seen.iter().flatten().copied().collect::<Vec<u64>>();
        let is_more = |(now, was): (u64, u64)| now & !was != 0;
        if now.iter().zip(was).any(|(&now, &was)| now && !was)
            || seen(&facts).into_iter().zip(seen(&core.facts)).any(is_more)
        {
            return Err("this change reads annotations that no element has set so far".into());
        }
        let lost = |was: &[bool], now: &[bool]| was.iter().zip(now).any(|(&was, &now)| was && !now);
        if lost(&core.facts.offloads, &facts.offloads)
            || lost(&core.facts.large_segments, &facts.large_segments)
        {
            return Err(
                "this change needs checksums or segmentation that were left to the device at start".into()
            );
        }
        let relies = |facts: &Facts, id: ElementId| facts.flow_marks.get(id).is_some_and(|&relies| relies);
        if takers.into_iter().any(|id| relies(&core.facts, id) && !relies(&facts, id)) {
            return Err("this change alters the flow marks that other elements rely on".into());
        }
        let (now, was) = (facts.restore, core.facts.restore);
        let replays = self.effects.iter().any(|effects| effects.hold == Hold::Replay);
        let more = |now: bool, was: bool| now && !was;
        let unkept = more(now.copies, was.copies) || more(now.annotations, was.annotations);
        let farther = was.marked.is_some_and(|was| {
            now.marked.is_none_or(|now| now.bytes > was.bytes || now.transport_bytes > was.transport_bytes)
        });
        if replays && (now.bytes > was.bytes || farther || unkept) {
            return Err("this change writes to parts of packets that are not restored for a replay".into());
        }
        Ok(facts)
    }
}

/// Takes over from the new facts which elements find runs, sequences of packets of one flow. An element
/// relies on the run numbers of incoming packets only if it may do so by the new and by the old facts,
/// because packets with old numbers are on their way.
fn keep_known_runs(facts: &mut Facts, new: Facts) {
    let was = std::mem::replace(&mut facts.runs, new.runs);
    for (id, now) in facts.runs.iter_mut().enumerate() {
        *now = now.map(|now| now && was.get(id) == Some(&Some(true)));
    }
}
