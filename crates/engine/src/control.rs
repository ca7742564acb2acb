//! The control of a run of one graph: the run count that ends it, and the sink for its text.

use std::collections::BTreeMap;
use std::sync::Arc;

use element::ElementId;

use crate::capturing::Captures;
use crate::plan::Plan;
use crate::recompose::{Recomposer, Recomposing};
use crate::streams::Sink;
use crate::tracing::Traces;

/// The control of a run of one graph. When another graph replaces the graph, the control of the new graph
/// replaces this control.
pub(crate) struct Control {
    /// Click's run count: the driver runs while it is positive.
    pub(crate) runcount: i64,
    /// True if a request to stop has brought the run count to zero or less, until the run has ended. If
    /// another graph replaces this one before the driver has looked at the run count, the request holds for
    /// the other graph.
    pub(crate) is_asked_to_stop: bool,
    pub(crate) sink: Box<dyn Sink>,
    /// The traces of packets, if packets can be traced in this run.
    pub(crate) traces: Option<Arc<Traces>>,
    /// The captures of packets, if packets can be captured in this run.
    pub(crate) captures: Option<Arc<Captures>>,
    /// True to report errors of the handler `config` in Click's words ([`crate::Options::clicks_words`]).
    pub(crate) clicks_words: bool,
    /// True unless time is the machine's time.
    pub(crate) is_simulated: bool,
    /// The text of the configuration, for the handler `config`. Empty if the text is not known.
    pub(crate) text: String,
    /// The number of handler calls that are active now, each made by the call before it; see `DEEPEST` in
    /// `handlers/mod.rs`.
    pub(crate) depth: u32,
    /// The elements of the running graph that the elements of this graph will replace; set while a reload
    /// initialises the elements of this graph.
    pub(crate) predecessors: Option<Predecessors>,
    /// The function that composes the synthesized programs of the graph again. `None` if the graph has none.
    pub(crate) recomposer: Option<Arc<Recomposer>>,
    /// The progress of the first worker in composing the graph's synthesized programs again.
    pub(crate) recomposing: Recomposing,
}

/// The elements of the running graph that the elements of the next graph will replace.
pub(crate) struct Predecessors {
    /// The plan of the running graph.
    pub(crate) plan: Arc<Plan>,
    /// The current arguments of elements of the running graph that were given other arguments since the
    /// start, by element number.
    pub(crate) configs: BTreeMap<ElementId, String>,
    /// For each element of the next graph that replaces an element, the number of the replaced element.
    pub(crate) replaced: BTreeMap<ElementId, ElementId>,
}

impl Predecessors {
    /// Returns the arguments of the element that an element of the next graph will replace.
    pub(crate) fn config(&self, heir: ElementId) -> Option<&str> {
        let id = self.replaced.get(&heir)?;
        Some(self.configs.get(id).unwrap_or(&self.plan.graph.elements[*id].config))
    }
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An element, a driver script or a handler call stopped the run, or a worker failed.
    Stopped,
    /// Nothing was left to do: no task, no timer to wait for, no file to wait for, and no packet under way
    /// between workers. Under the trace clock, the captures had also ended.
    Idle,
    /// The user interrupted the run.
    Interrupted,
}

impl Control {
    /// Makes the control of a graph, with a run count of 1. `text` is the configuration as it was written.
    pub(crate) fn new(sink: Box<dyn Sink>, text: String) -> Control {
        Control {
            runcount: 1,
            is_asked_to_stop: false,
            sink,
            traces: None,
            captures: None,
            clicks_words: false,
            is_simulated: false,
            text,
            depth: 0,
            predecessors: None,
            recomposer: None,
            recomposing: Recomposing::default(),
        }
    }

    /// True if the run goes on.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.runcount > 0
    }

    /// Subtracts `times` requests to stop from the run count. The run ends when the count is zero or less.
    pub(crate) fn stop(&mut self, times: i64) {
        self.runcount = self.runcount.saturating_sub(times);
        self.is_asked_to_stop = !self.goes_on();
    }
}
