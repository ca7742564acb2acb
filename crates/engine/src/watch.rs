//! The watchers of packets in one worker's copy of a graph.

use crate::capturing::Tap;
use crate::tracing::Tracer;

/// The watchers of packets in one worker's copy of a graph. The copy has them only while there is something
/// to watch, so a graph that is not watched pays for all of them with one comparison per call of an element.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) tracer: Option<Tracer>,
    /// The capture of packets at an input or output.
    pub(crate) tap: Option<Tap>,
}
