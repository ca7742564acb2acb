//! The control of a run: whether it goes on, the text that it writes, and the graph that replaces it.

use std::collections::BTreeMap;

use element::ElementId;
use element::context::PerGraph;

use crate::graph_copy::GraphCopy;
use crate::options::Rebuild;
use crate::streams::Sink;
use crate::wakeups::Wakeups;

/// The control of a run of one graph.
pub(crate) struct Control {
    /// Click's run count: the driver runs while it is positive.
    pub(crate) runcount: i64,
    pub(crate) sink: Box<dyn Sink>,
    /// The configuration as it was written.
    pub(crate) text: String,
    /// The depth of handler calls within handler calls.
    pub(crate) depth: u32,
    /// A function that makes graphs for `hotconfig`.
    pub(crate) rebuild: Option<Rebuild>,
    /// The graph that replaces this graph before the next round.
    pub(crate) next: Option<Box<Next>>,
    /// Elements that replace elements of the same name and class in the previous graph, with the arguments of
    /// the replaced elements.
    pub(crate) predecessors: BTreeMap<ElementId, Vec<String>>,
}

/// A graph that replaces the running graph before the next round.
pub(crate) struct Next {
    pub(crate) graph: GraphCopy,
    pub(crate) wakeups: Wakeups,
    pub(crate) control: Control,
    /// The part of the hot state that belongs to the graph. While the graph is in use, it is in the worker's
    /// hot state.
    pub(crate) hot: PerGraph,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An element or a script stopped the run.
    Stopped,
    /// No work was left.
    Idle,
    /// The user interrupted the run.
    Interrupted,
}

impl Control {
    /// Makes the control of a graph that goes on until it is asked to stop.
    pub(crate) fn new(sink: Box<dyn Sink>, text: String) -> Control {
        Control {
            runcount: 1,
            sink,
            text,
            depth: 0,
            rebuild: None,
            next: None,
            predecessors: BTreeMap::new(),
        }
    }

    /// True if the run goes on.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.runcount > 0
    }

    /// Asks the run to stop, several times. It goes on while it is asked less often than the run count says.
    pub(crate) fn stop(&mut self, times: i64) {
        self.runcount = self.runcount.saturating_sub(times);
    }
}
