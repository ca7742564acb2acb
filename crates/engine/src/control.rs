//! The control of a run of one graph: the run count that ends it, and the sink for its text.

use std::collections::BTreeMap;

use element::ElementId;

use crate::streams::Sink;

/// The control of a run of one graph. When another graph replaces the graph, the control of the new graph
/// replaces this control.
pub(crate) struct Control {
    /// Click's run count: the driver runs while it is positive.
    pub(crate) runcount: i64,
    pub(crate) sink: Box<dyn Sink>,
    /// The text of the configuration, for the handler `config`. Empty if the text is not known.
    pub(crate) text: String,
    /// The number of handler calls that are active now, each made by the call before it; see `DEEPEST` in
    /// `handlers/mod.rs`.
    pub(crate) depth: u32,
    /// For each element that replaces an element of the same name and class in the previous graph, the
    /// arguments of the replaced element.
    pub(crate) predecessors: BTreeMap<ElementId, Vec<String>>,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An element or a driver script stopped the run, or a worker failed.
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
        Control { runcount: 1, sink, text, depth: 0, predecessors: BTreeMap::new() }
    }

    /// True if the run goes on.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.runcount > 0
    }

    /// Subtracts `times` requests to stop from the run count. The run ends when the count is zero or less.
    pub(crate) fn stop(&mut self, times: i64) {
        self.runcount = self.runcount.saturating_sub(times);
    }
}
