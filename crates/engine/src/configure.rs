//! Builds the elements of a plan from their arguments, and checks the order of the elements.

use std::sync::Arc;

use element::setup::Common;
use element::steering::Spreading;
use element::{Args, Complaint, Effects, Element, ElementId, Facts, Setup};
use lang::{Diagnostic, Severity, Span};

use crate::element_order;
use crate::graph_facts;
use crate::plan::Plan;
use crate::problem::Problem;

/// The elements of a graph, configured but not yet running: no file is open, no task is scheduled.
pub struct Configured {
    /// The elements, indexed by element number.
    pub elements: Vec<Box<dyn Element>>,
    /// The declared effects of each element.
    pub effects: Vec<Effects>,
    /// Facts that follow from the effects of all elements together, such as the annotations that any
    /// element reads.
    pub facts: Facts,
    /// The names, services and settings through which elements found each other while they were built.
    pub setup: Setup,
    /// Problems that the user should know, but that do not prevent a run.
    pub warnings: Vec<Problem>,
}

/// The result of building an element: the element, or the errors in its arguments.
pub(crate) type Built = Result<Box<dyn Element>, Vec<Complaint>>;

impl Plan {
    /// Builds every element. `burst` is the number of packets that sources make per call if their
    /// configuration does not say; with `None`, sources have Click's own defaults.
    ///
    /// # Errors
    /// If elements find errors in their arguments: all of these errors, and all warnings. Otherwise, if
    /// elements are in a wrong order: the errors of the first check of the order that fails.
    pub fn configure(&self, burst: Option<usize>) -> Result<Configured, Vec<Problem>> {
        self.configure_copy(Setup::new(burst))
    }

    /// Like [`configure`](Self::configure), for each of `workers` workers. `spreading` is the rule that
    /// spreads packets of one flow over workers, if there is one. Each copy has the same warnings, so the
    /// warnings of one copy are enough for the user.
    ///
    /// # Errors
    /// If elements find errors in their arguments: all of these errors, and all warnings. Otherwise, if
    /// elements are in a wrong order: the errors of the first check of the order that fails.
    pub fn configure_all(
        &self,
        burst: Option<usize>,
        workers: usize,
        spreading: Option<&Arc<dyn Spreading>>,
    ) -> Result<Vec<Configured>, Vec<Problem>> {
        let common = Arc::<Common>::default();
        let setup = |worker| {
            let mut setup = Setup::new(burst);
            (setup.worker, setup.workers, setup.common) = (worker, workers, Arc::clone(&common));
            setup.spreading = spreading.cloned();
            setup
        };
        (0..workers).map(|worker| self.configure_copy(setup(worker))).collect()
    }

    fn configure_copy(&self, mut setup: Setup) -> Result<Configured, Vec<Problem>> {
        for (id, (element, class)) in self.graph.elements.iter().zip(&self.classes).enumerate() {
            setup.elements.push((element.name.clone(), class));
            setup.by_name.insert(element.name.clone(), id);
        }
        let mut order: Vec<ElementId> = (0..self.len()).collect();
        order.sort_by_key(|&id| self.classes[id].phase);
        let mut built: Vec<Option<Box<dyn Element>>> = (0..self.len()).map(|_| None).collect();
        let (mut problems, mut warnings) = (Vec::<(ElementId, Problem)>::new(), Vec::new());
        for id in order {
            let (result, notes) = self.build(id, &mut setup, &self.graph.elements[id].config);
            let told = |severity| move |complaint| (id, self.while_configuring(id, complaint, severity));
            warnings.extend(notes.into_iter().map(|note| told(note.severity())(note)));
            match result {
                Ok(element) => built[id] = Some(element),
                Err(errors) => problems.extend(errors.into_iter().map(told(Severity::Error))),
            }
        }
        if !problems.is_empty() {
            problems.extend(warnings);
            // The problems are sorted by their position in the text of the configuration. The problems of one
            // element stay together.
            problems.sort_by_key(|(id, _)| (self.config_span(*id), *id));
            return Err(problems.into_iter().map(|(_, problem)| problem).collect());
        }
        let mut warnings: Vec<Problem> = warnings.into_iter().map(|(_, problem)| problem).collect();
        let elements: Vec<_> = built.into_iter().flatten().collect();
        let effects: Vec<_> = elements.iter().map(|element| element.effects()).collect();
        let misplaced = element_order::misplaced(&effects, &self.forward);
        if !misplaced.is_empty() {
            return Err(misplaced.into_iter().map(|(id, by, why)| self.misplaced(id, by, &why)).collect());
        }
        let unjoined = element_order::unjoined(&effects, &self.forward);
        if !unjoined.is_empty() {
            return Err(unjoined.into_iter().map(|(id, what, hint)| self.unjoined(id, what, hint)).collect());
        }
        for (id, by) in element_order::reordered(&effects, &self.forward) {
            let (reorders, restores) = (self.declaration(id), self.declaration(by));
            let text = format!("'{reorders}' may reorder packets that '{restores}' has put in order");
            warnings.push(Problem::new(Diagnostic::warning(self.graph.elements[id].span, text)));
        }
        let mut facts = graph_facts::gather(&effects, &self.forward);
        if setup.spreading.as_ref().is_some_and(|spreading| spreading.keeps_order()) {
            // Where the order of spread packets is kept, each of them carries its number in the field of flow
            // marks (see `exchange/order.rs`), so no element may rely on flow marks.
            facts.flow_marks.clear();
        }
        Ok(Configured { elements, effects, facts, setup, warnings })
    }

    /// Makes the error for an element `id` that gets packets without their payloads, which the element `by`
    /// has parked in a table (Slicer), and that needs the payloads. `why` says what it needs.
    pub(crate) fn misplaced(&self, id: ElementId, by: ElementId, why: &str) -> Problem {
        let element = &self.graph.elements[id];
        let text = format!(
            "'{}' is downstream of '{}', which parks payloads: {why}",
            self.declaration(id),
            self.declaration(by)
        );
        Problem::new(Diagnostic::error(element.span, text).with_hint(format!(
            "join payloads before it, or park them after it: '{}' is for elements that need only headers",
            self.declaration(by)
        )))
    }

    /// Makes the error for an element that parks payloads in a table (Slicer) although no element joins them
    /// with their packets again, or that joins payloads although no element parks them. `what` is the text
    /// after the element's name.
    pub(crate) fn unjoined(&self, id: ElementId, what: &str, hint: &str) -> Problem {
        let text = format!("'{}' {what}", self.declaration(id));
        Problem::new(Diagnostic::error(self.graph.elements[id].span, text).with_hint(hint))
    }

    /// Builds one element from the arguments in `config`. Returns the element or its errors, and the
    /// warnings.
    pub(crate) fn build(&self, id: ElementId, setup: &mut Setup, config: &str) -> (Built, Vec<Complaint>) {
        let given = lang::args::split(config).into_iter().map(|arg| arg.text).collect();
        let shape = (self.inputs[id].len(), self.outputs[id].len());
        let pushes = self.outputs[id].first().is_none_or(|&p| p == element::ports::Processing::Push);
        let mut args = Args::new(setup, self.classes[id], id, shape, pushes, given);
        let result = (self.classes[id].build)(&mut args);
        let (errors, warnings) = args.into_reports();
        let result = match result {
            Ok(element) if errors.is_empty() => Ok(element),
            _ if errors.is_empty() => Err(vec!["unspecified error".into()]),
            _ => Err(errors),
        };
        (result, warnings)
    }

    /// Returns the span of an element's arguments, or the span of the element if it has no arguments.
    fn config_span(&self, id: ElementId) -> Span {
        let element = &self.graph.elements[id];
        element.config_span.unwrap_or(element.span)
    }

    /// Returns the span of one argument of an element. If `argument` is `None`, or the argument is empty or
    /// missing, returns the span of all arguments.
    pub(crate) fn argument_span(&self, id: ElementId, argument: Option<usize>) -> Span {
        let element = &self.graph.elements[id];
        let given = |number: usize| lang::args::split(&element.config).into_iter().nth(number);
        let argument = argument.and_then(given).filter(|argument| !argument.range.is_empty());
        argument.map_or(self.config_span(id), |argument| element.config_place(argument.range))
    }

    fn while_configuring(&self, id: ElementId, complaint: Complaint, severity: Severity) -> Problem {
        let mut diagnostic = Diagnostic::error(self.argument_span(id, complaint.argument), complaint.text);
        (diagnostic.severity, diagnostic.clicks_words) =
            (severity, complaint.clicks_words.map(String::into_boxed_str));
        if severity == Severity::Error {
            let usage = format!("`tidegate elements {}` shows the arguments", self.classes[id].name);
            diagnostic = diagnostic.with_hint(usage);
        }
        Problem {
            context: Some(format!("While configuring '{}'", self.declaration(id))),
            context_span: Some(self.graph.elements[id].span),
            diagnostic,
        }
    }
}
