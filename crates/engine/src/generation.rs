//! A generation of the graph at one worker: the copy of the graph, and everything that belongs to it.
//!
//! A run begins with the first generation. Each reload makes the next one. A worker has the current
//! generation in its own fields, where the work list finds it. Other generations wait in a [`Generation`]:
//! the next one before the worker changes over to it, and the old one until its last packet has left.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use element::context::PerGraph;
use element::{Core, ElementId, OutputStream};

use crate::configure::Configured;
use crate::control::Control;
use crate::exchange::Exchange;
use crate::former::Former;
use crate::graph_copy::GraphCopy;
use crate::host::WorkerHost;
use crate::plan::Plan;
use crate::reload::Reloads;
use crate::streams::Sink;
use crate::wakeups::Wakeups;
use crate::worker::{Worker, captures};

/// A generation of the graph at one worker that is not the worker's current one: the next generation, before
/// the worker changes over to it, or the old generation, until its last packet has left.
pub(crate) struct Generation {
    pub(crate) graph: GraphCopy,
    wakeups: Wakeups,
    pub(crate) control: Control,
    /// The part of the worker's [`Core`] that belongs to this generation.
    pub(crate) hot: PerGraph,
    /// The rings by which this generation passes packets to and from its copies at other workers. `None` with
    /// a single worker.
    pub(crate) exchange: Option<Exchange>,
    captures: Vec<ElementId>,
    manager: Option<ElementId>,
    /// For each element of the generation before, by its number, its heir: the element of this generation
    /// that continues with its state. Found when this generation is initialised, and empty once the worker
    /// has changed over.
    pub(crate) heirs: Vec<Option<ElementId>>,
    /// Values that elements have no use for any more. They are dropped with the generation.
    pub(crate) garbage: Vec<Box<dyn Any + Send>>,
}

/// A text sink that drops all text. It is the placeholder in each generation of the graph that is not
/// current; the worker's real sink stays with the current generation.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _stream: OutputStream, _text: fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

impl Generation {
    /// Makes a generation from configured elements. Its elements are not initialised, and it has no rings to
    /// other workers ([`Exchange`]) and no generation number yet.
    pub(crate) fn new(plan: Arc<Plan>, configured: Configured, text: String) -> Generation {
        let captures = captures(&plan);
        let (graph, hot) = GraphCopy::new(plan, configured);
        let wakeups = Wakeups::new(&graph.plan, &graph.setup);
        let control = Control::new(Box::new(Nowhere), text);
        Generation {
            graph,
            wakeups,
            control,
            hot,
            exchange: None,
            captures,
            manager: None,
            heirs: Vec::new(),
            garbage: Vec::new(),
        }
    }

    /// Calls `work` while this generation's part of the worker's [`Core`] is in `core`, with the text sink
    /// (where elements print) of the worker's current generation. Handlers of other workers cannot be called
    /// meanwhile, and no reload can begin.
    pub(crate) fn in_use<T>(
        &mut self,
        core: &mut Core,
        control: &mut Control,
        reloads: &Reloads,
        work: impl FnOnce(&mut Core, &mut WorkerHost<'_>) -> T,
    ) -> T {
        core.exchange(&mut self.hot);
        std::mem::swap(&mut control.sink, &mut self.control.sink);
        self.control.clicks_words = control.clicks_words;
        self.control.is_simulated = control.is_simulated;
        let mut reloads = Reloads::busy(reloads);
        let Generation { graph, wakeups, control: own, exchange, .. } = &mut *self;
        let host = &mut WorkerHost {
            graph,
            wakeups,
            control: own,
            team: &None,
            reloads: &mut reloads,
            exchange,
            former: &Former::default(),
            busy: 0,
        };
        let result = work(core, host);
        std::mem::swap(&mut control.sink, &mut self.control.sink);
        core.exchange(&mut self.hot);
        result
    }
}

impl Worker {
    /// Exchanges the worker's current generation of the graph for another one. The text sink, where elements
    /// print, is not exchanged: the generation that becomes current gets it.
    pub(crate) fn exchange_generation(&mut self, other: &mut Generation) {
        std::mem::swap(&mut self.graph, &mut other.graph);
        std::mem::swap(&mut self.wakeups, &mut other.wakeups);
        std::mem::swap(&mut self.control, &mut other.control);
        std::mem::swap(&mut self.control.sink, &mut other.control.sink);
        std::mem::swap(&mut self.control.traces, &mut other.control.traces);
        std::mem::swap(&mut self.control.captures, &mut other.control.captures);
        std::mem::swap(&mut self.exchange, &mut other.exchange);
        std::mem::swap(&mut self.captures, &mut other.captures);
        std::mem::swap(&mut self.manager, &mut other.manager);
        self.core.exchange(&mut other.hot);
    }
}
