//! The control of a run: the run count that ends it, the sink for its text, and the graph that replaces its
//! graph.

use std::collections::BTreeMap;

use element::ElementId;
use element::context::PerGraph;

use crate::graph_copy::GraphCopy;
use crate::options::Rebuild;
use crate::streams::Sink;
use crate::wakeups::Wakeups;

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
    /// The function that makes graphs for the handler `hotconfig`.
    pub(crate) rebuild: Rebuilder,
    /// The graph that replaces this graph before the driver's next round, if one has been prepared.
    pub(crate) next: Option<Box<Next>>,
    /// For each element that replaces an element of the same name and class in the previous graph, the
    /// arguments of the replaced element.
    pub(crate) predecessors: BTreeMap<ElementId, Vec<String>>,
}

/// The function that makes graphs for the handler `hotconfig`, if it can be called.
pub(crate) enum Rebuilder {
    /// There is no function, and so no handler.
    None,
    /// The handler can be written.
    Ready(Rebuild),
    /// A graph is being built or initialized, so that the handler exists but cannot be written now.
    Busy,
}

impl From<Option<Rebuild>> for Rebuilder {
    fn from(rebuild: Option<Rebuild>) -> Rebuilder {
        rebuild.map_or(Rebuilder::None, Rebuilder::Ready)
    }
}

/// A graph that replaces the running graph before the next round.
pub(crate) struct Next {
    pub(crate) graph: GraphCopy,
    pub(crate) wakeups: Wakeups,
    pub(crate) control: Control,
    /// The part of the hot state that belongs to this graph. Exchanged with the worker's hot state while
    /// the graph is in use.
    pub(crate) hot: PerGraph,
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
        Control {
            runcount: 1,
            sink,
            text,
            depth: 0,
            rebuild: Rebuilder::None,
            next: None,
            predecessors: BTreeMap::new(),
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
    }
}
