//! The graph as an element sees it: its own ports, other elements, and what the declarations of all elements
//! say together.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Call, Cx, Host, Signal};
use crate::{ElementId, Facts};

/// The graph, as the element of a [`Cx`] sees it.
#[derive(Clone, Copy)]
pub struct Graph<'c> {
    host: &'c dyn Host,
    facts: &'c Facts,
    id: ElementId,
}

impl Cx<'_> {
    /// Returns the graph as the element sees it.
    #[inline]
    pub fn graph(&self) -> Graph<'_> {
        Graph { host: &*self.host, facts: &self.core.facts, id: self.id }
    }
}

impl<'c> Graph<'c> {
    /// Returns the summary of the declarations of the whole graph.
    pub fn facts(self) -> &'c Facts {
        self.facts
    }

    /// True if any element looks at an annotation byte of packets that leave by an output. Other annotation
    /// bytes need not be written.
    pub fn annotation_seen(self, output: usize, byte: u8) -> bool {
        let seen = self.facts.annotations_seen.get(self.id).and_then(|outputs| outputs.get(output));
        seen.is_none_or(|seen| seen.checked_shr(byte.into()).is_none_or(|seen| seen & 1 == 1))
    }

    /// True if frames that the element emits may leave some work to a device.
    pub fn may_offload(self) -> bool {
        self.facts.offloads.get(self.id).copied().unwrap_or(false)
    }

    /// True if packets that the element emits may represent many segments. Such packets are valid, but
    /// longer than any interface accepts; their annotations say how to cut them.
    pub fn may_merge(self) -> bool {
        self.facts.large_segments.get(self.id).copied().unwrap_or(false)
    }

    /// True if packets that leave some work to a device may come to the element.
    pub fn receives_offloads(self) -> bool {
        self.facts.receives_offloads.get(self.id).copied().unwrap_or(false)
    }

    /// True if the element has to mark the flows of packets, or may rely on the marks of incoming packets,
    /// depending on its declaration.
    pub fn uses_flow_marks(self) -> bool {
        self.facts.flow_marks.get(self.id).copied().unwrap_or(false)
    }

    /// Returns another element's name.
    pub fn name_of(self, element: ElementId) -> &'c str {
        self.host.name(element).0
    }

    /// True if an output is a push output.
    pub fn output_is_push(self, output: usize) -> bool {
        self.host.is_push(self.id, true, output)
    }

    /// True if an input is a push input.
    pub fn input_is_push(self, input: usize) -> bool {
        self.host.is_push(self.id, false, input)
    }

    /// Returns the service of type `T` that an element has published.
    pub fn service<T: Any + Send + Sync>(self, element: ElementId) -> Option<Arc<T>> {
        self.host.service(element, TypeId::of::<T>()).and_then(|s| s.downcast().ok())
    }

    /// Returns the services of type `T` of the nearest elements downstream (or upstream) that have
    /// published such a service.
    pub fn nearest_services<T: Any + Send + Sync>(self, downstream: bool) -> Vec<(ElementId, Arc<T>)> {
        let found = self.host.nearest(self.id, downstream, TypeId::of::<T>());
        found.into_iter().filter_map(|(id, service)| Some((id, service.downcast().ok()?))).collect()
    }

    /// Returns all elements that packets which leave by an output may come to. It searches the whole graph,
    /// so call it only during initialization.
    pub fn reached(self, output: usize) -> BTreeSet<ElementId> {
        self.host.reached(self.id, output)
    }

    /// Returns the state of a signal at a port, to show to people: see [`Host::signal_sources`].
    pub fn signal_sources(self, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>> {
        self.host.signal_sources(self.id, signal, port)
    }

    /// True if a handler exists.
    pub fn has_handler(self, call: &Call, write: bool) -> bool {
        self.host.has_handler(call, write)
    }
}
