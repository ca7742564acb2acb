//! The state by which one worker follows traced packets.

use std::sync::Arc;

use element::view::PacketFields;
use element::{Batch, Counters};

use super::case::Candidates;
use super::record::Traces;

/// The part of one worker's copy of a graph that follows traced packets.
pub(crate) struct Tracer {
    pub(crate) traces: Arc<Traces>,
    /// The calls of elements that are active now; each was made by the call before it.
    pub(crate) calls: Vec<ActiveCall>,
}

impl Tracer {
    /// Makes the tracer of a copy of a graph.
    pub(crate) fn new(traces: Arc<Traces>) -> Tracer {
        Tracer { traces, calls: Vec::new() }
    }
}

/// A call of an element that is active.
pub(crate) struct ActiveCall {
    /// The traced packets that came in during the call.
    pub(crate) arrived: Vec<Arrived>,
    /// The element's counters before the call.
    pub(crate) counters: Counters,
    /// The number of packets that the element held before the call.
    pub(crate) held: usize,
}

/// A traced packet as it came to an element.
pub(crate) struct Arrived {
    pub(crate) slot: usize,
    pub(crate) packet: u32,
    pub(crate) input: usize,
    pub(crate) view: PacketFields,
    pub(crate) candidates: Candidates,
}

/// The way by which a packet left an element in one call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// By an output.
    Output(usize),
    /// To other workers' copies of the element.
    Over,
}

/// The result of a call of an element, which may be packets that leave.
pub(crate) trait Leaving {
    fn packets(&self) -> Option<&Batch> {
        None
    }
}

impl Leaving for Option<Batch> {
    fn packets(&self) -> Option<&Batch> {
        self.as_ref()
    }
}

/// The result of a call that returns no packets.
pub(crate) struct Other<R>(pub(crate) R);

impl<R> Leaving for Other<R> {}
