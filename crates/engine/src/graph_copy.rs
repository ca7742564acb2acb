//! The copy of a graph that one worker has: the elements, their connections and their declared effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use element::context::PerGraph;
use element::ports::Processing;
use element::{Core, Effects, Element, ElementId, Setup};

use crate::configure::Configured;
use crate::placement::{Placement, Way};
use crate::plan::Plan;
use crate::recompose::Declarations;
use crate::stand_ins::{Elements, StandIns};
use crate::tracing::{Tracer, Traces};
use crate::watch::Watch;

/// The copy of a graph that one worker has. An element can be called while the rest of the copy is in use:
/// for the time of the call it is taken out of `elements`.
pub(crate) struct GraphCopy {
    // The work list uses the first three fields for each batch, so they come first.
    /// The elements, indexed by element number. An element is `None` while it is being called.
    pub(crate) elements: Box<Elements>,
    /// For each element, the index in `targets` of its first output.
    first_target: Box<[u32]>,
    /// The targets of all outputs, element by element: the input that each output is connected to.
    targets: Box<[Target]>,
    /// The watchers of packets, while packets are traced or captured.
    pub(crate) watch: Option<Box<Watch>>,
    /// The plan of the graph, which all workers share.
    pub(crate) plan: Arc<Plan>,
    /// The workers that do the work of each element.
    pub(crate) placement: Placement,
    /// The elements whose work is done by this worker, in the order of the graph. `upstream_first` has the
    /// same elements, upstream elements first.
    pub(crate) placed: Arc<[ElementId]>,
    pub(crate) upstream_first: Arc<[ElementId]>,
    /// For each element, true if it has been closed before the end of its generation.
    pub(crate) closed: Box<[bool]>,
    /// The declared effects of the elements, indexed by element number.
    pub(crate) effects: Vec<Effects>,
    /// The stand-ins of the graph: elements that act in place of other elements.
    stand_ins: StandIns,
    /// The names, services and settings that elements share, and the number of this worker.
    pub(crate) setup: Setup,
    /// The number of this generation of the graph in its run, from 0.
    pub(crate) generation: u64,
    /// Set when the worker has changed over to another generation of the graph. By element number: the heir
    /// in that generation to which packets that come to the element go on, and the number of the heir's
    /// inputs, counted from input 0, that packets can be pushed into. `None` for elements without an heir.
    crossings: Vec<Option<(u32, u32)>>,
    /// The current arguments of elements that were given other arguments since the start, by element
    /// number.
    pub(crate) configs: BTreeMap<ElementId, String>,
}

/// The input that a push output is connected to, and the way by which packets get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) element: u32,
    pub(crate) input: u32,
    pub(crate) way: Way,
}

impl Target {
    /// The target of an output without a connection.
    pub(crate) const NOWHERE: Target = Target { element: u32::MAX, input: 0, way: Way::Here };
}

/// Returns the targets of all outputs in one array, and for each element the index of its first output in the
/// array. A push output has exactly one connection (`Plan::check_use`). The target of a pull output is its
/// first connection, and is not used. An output without a connection gets [`Target::NOWHERE`].
fn targets(plan: &Plan, placement: &Placement) -> (Box<[u32]>, Box<[Target]>) {
    let (mut starts, mut targets) = (Vec::new(), Vec::new());
    for (from, outputs) in plan.forward.iter().enumerate() {
        starts.push(targets.len() as u32);
        let first = |ends: &Vec<(ElementId, usize)>| match ends.first() {
            Some(&(to, at)) => Target { element: to as u32, input: at as u32, way: placement.way(from, to) },
            None => Target::NOWHERE,
        };
        targets.extend(outputs.iter().map(first));
        // Output 0 may be looked up even if the element has no output, so it needs an entry.
        if outputs.is_empty() {
            targets.push(Target::NOWHERE);
        }
    }
    (starts.into(), targets.into())
}

impl GraphCopy {
    /// Makes the copy of a graph whose elements are not initialised yet, and the part of the worker's
    /// [`Core`] that belongs to this copy.
    pub(crate) fn new(plan: Arc<Plan>, configured: Configured) -> (GraphCopy, PerGraph) {
        let Configured { elements, effects, facts, setup, .. } = configured;
        let outputs = plan.outputs.iter().map(|side| side.len() as u32).collect();
        let placement = Placement::new(&plan, &effects, &setup, setup.workers);
        let (first_target, targets) = targets(&plan, &placement);
        let is_here = |id: &ElementId| placement.is_at(*id, setup.worker);
        let placed = (0..plan.len()).filter(is_here).collect();
        let upstream_first = plan.order().iter().copied().filter(is_here).collect();
        let closed = vec![false; plan.len()].into();
        let graph = GraphCopy {
            elements: elements.into_iter().map(Some).collect(),
            first_target,
            targets,
            placement,
            placed,
            upstream_first,
            closed,
            stand_ins: StandIns::new(&effects),
            effects,
            setup,
            configs: BTreeMap::new(),
            generation: 0,
            crossings: Vec::with_capacity(plan.len()),
            watch: None,
            plan,
        };
        (graph, PerGraph::new(outputs, facts))
    }

    /// Begins to follow packets for `traces`.
    pub(crate) fn trace(&mut self, traces: &Arc<Traces>) {
        self.watch_mut().tracer = Some(Tracer::new(Arc::clone(traces)));
    }

    /// Returns the number of this worker.
    #[inline]
    pub(crate) fn worker(&self) -> usize {
        self.setup.worker
    }

    /// Returns the input that an output is connected to, or `None` if there is no connection.
    #[inline]
    pub(crate) fn target(&self, element: u32, output: u32) -> Option<Target> {
        let target = self.targets[(self.first_target[element as usize] + output) as usize];
        (target.element != Target::NOWHERE.element).then_some(target)
    }

    /// Has packets that come to an element with an heir go on at the heir, in the graph of `new`. `heirs` are
    /// the heirs by element number. No memory is allocated.
    pub(crate) fn lead_to_heirs(&mut self, heirs: impl Iterator<Item = Option<ElementId>>, new: &Plan) {
        // Packets cannot be pushed into an input that pulls. Packets for inputs that an heir does not have go
        // on in the old graph.
        let pushed = |heir: ElementId| new.inputs[heir].iter().take_while(|&&side| side == Processing::Push);
        let crossing = |heir: ElementId| (heir as u32, pushed(heir).count() as u32);
        self.crossings.extend(heirs.map(|heir| heir.map(crossing)));
        for number in 0..self.targets.len() {
            let to = self.targets[number];
            if let Some(heir) = self.crossing(to) {
                self.targets[number] = heir;
            }
        }
    }

    /// Returns the heir's input, in the next generation of the graph, at which packets for the input `to` go
    /// on. `None` if they go on in this generation.
    fn crossing(&self, to: Target) -> Option<Target> {
        let &(element, inputs) = self.crossings.get(to.element as usize)?.as_ref()?;
        (to.input < inputs).then_some(Target { element, way: Way::Heir, ..to })
    }

    /// Returns the input for packets that other workers have handed over for the input `to`. This is the same
    /// input of the heir, if this worker has changed over, the element has an heir, and packets can be pushed
    /// into this input of the heir; otherwise `to` itself.
    #[inline]
    pub(crate) fn arrival(&self, to: Target) -> Target {
        let here = Target { way: Way::Here, ..to };
        if self.crossings.is_empty() { here } else { self.crossing(to).unwrap_or(here) }
    }

    /// Puts an element back into `elements`, from where it was taken for a call.
    #[inline]
    pub(crate) fn put_back(&mut self, id: ElementId, element: Box<dyn Element>) {
        // The element's entry is `None`. `forget` saves the check whether there is an old element to be
        // dropped.
        std::mem::forget(self.elements[id].replace(element));
    }

    /// Returns the number of packets that an element holds, or 0 while the element is being called.
    pub(crate) fn held(&self, id: ElementId) -> usize {
        self.elements[id].as_ref().map_or(0, |element| element.held())
    }

    /// Returns the current arguments of the elements that were given other arguments since the start, by
    /// element number.
    pub(crate) fn changed_configs(&self) -> &BTreeMap<ElementId, String> {
        &self.configs
    }

    /// Returns the current arguments of an element as the handler `config` shows them. While the element is
    /// being called, they are the arguments as given or written.
    pub(crate) fn shown_config(&self, id: ElementId) -> String {
        let own = self.elements[id].as_deref().and_then(|element| element.configuration());
        own.unwrap_or_else(|| self.config(id).to_string())
    }

    /// Returns the current arguments of an element as they were given at the start or written last.
    pub(crate) fn config(&self, id: ElementId) -> &str {
        self.configs.get(&id).unwrap_or(&self.plan.graph.elements[id].config)
    }

    /// Records that a write of `value` to the handler `handler` of an element has succeeded. If the handler
    /// sets an argument, the value becomes the text of this argument in the element's current arguments.
    pub(crate) fn note_argument(&mut self, id: ElementId, handler: &str, value: &str) {
        let class = self.plan.classes[id];
        let info = class.each_handler().find(|info| info.name == handler);
        if let Some(argument) = info.and_then(|info| info.argument) {
            let config = class.with_argument(self.config(id), argument, value);
            self.configs.insert(id, config);
        }
    }

    /// Returns the flat configuration, with the current arguments of its elements.
    pub(crate) fn flat(&self) -> String {
        let mut graph = self.plan.graph.clone();
        for (id, element) in graph.elements.iter_mut().enumerate() {
            element.config = self.shown_config(id);
        }
        lang::flatten(&graph)
    }

    /// Has all stand-ins report to the elements that they act for how many packets they have handled. See
    /// [`StandIns::settle`].
    pub(crate) fn settle_stand_ins(&mut self, core: &mut Core) {
        self.stand_ins.settle(&mut self.elements, &self.effects, core);
    }

    /// Returns the elements whose effects have changed because a handler of the element `written` was
    /// written. See [`StandIns::look_for_changes`].
    pub(crate) fn look_for_changes(&mut self, written: ElementId) -> Vec<ElementId> {
        self.stand_ins.look_for_changes(&mut self.elements, &mut self.effects, written)
    }

    /// True if elements that were being called when they changed still have to be asked for their effects.
    /// See [`StandIns::has_unasked`].
    #[inline]
    pub(crate) fn has_unasked(&self) -> bool {
        self.stand_ins.has_unasked()
    }

    /// Asks the elements for their effects that were being called when they changed. See
    /// [`StandIns::ask_again`].
    pub(crate) fn ask_again(&mut self) -> Vec<ElementId> {
        self.stand_ins.ask_again(&mut self.elements, &mut self.effects)
    }

    /// Returns the names of the stand-ins that have to be made again because an element has changed. With
    /// each comes true if it relies on the element. See [`StandIns::to_renew`].
    pub(crate) fn stand_ins_to_renew(&self, id: ElementId) -> impl Iterator<Item = (&str, bool)> {
        let stand_ins = self.stand_ins.to_renew(&self.effects, id).into_iter();
        stand_ins.map(|(stand_in, relies)| (self.plan.graph.elements[stand_in].name.as_str(), relies))
    }

    /// Checks that a stand-in that was made from the declarations `known` knows the present effects of all
    /// elements at this worker. `known` has the elements that have changed since the start.
    ///
    /// # Errors
    /// If an element has other effects: a message for the user.
    pub(crate) fn check_declarations(&self, known: &Declarations) -> Result<(), String> {
        let Some(changed) = self.stand_ins.changed() else {
            return Err("an element that was being called has changed".into());
        };
        let elements = &self.plan.graph.elements;
        let known_here = known.keys().filter_map(|name| self.plan.graph.find(name));
        let known_here = known_here.filter(|&id| self.placement.is_at(id, self.worker()));
        let known = |id: &ElementId| known.get(&elements[*id].name).map(Arc::as_ref);
        let differs = |id: &ElementId| known(id) != Some(&self.effects[*id]);
        match changed.iter().copied().chain(known_here).find(differs) {
            Some(id) => Err(format!("'{}' has changed since", elements[id].name)),
            None => Ok(()),
        }
    }

    /// Records that a stand-in was replaced: see [`StandIns::renew`].
    pub(crate) fn renew(&mut self, stand_in: ElementId) {
        self.stand_ins.renew(&self.effects, stand_in);
    }

    /// Notifies the stand-ins of an element that they may no longer act for it, because its effects have
    /// changed. See [`StandIns::outdate`].
    pub(crate) fn outdate(&mut self, id: ElementId) {
        self.stand_ins.outdate(&mut self.elements, &self.effects, id);
    }
}
