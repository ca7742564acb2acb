//! Questions of an element about the graph: its own ports, other elements, and the facts that follow from
//! all declarations.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Call, Cx, Host, Signal};
use crate::{ElementId, Facts};

/// The graph from the point of view of one element. Questions about ports and annotations are about this
/// element.
#[derive(Clone, Copy)]
pub struct GraphView<'c> {
    host: &'c dyn Host,
    facts: &'c Facts,
    id: ElementId,
}

impl Cx<'_> {
    /// Returns the methods that answer the element's questions about the graph.
    #[inline]
    pub fn graph(&self) -> GraphView<'_> {
        GraphView { host: &*self.host, facts: &self.core.facts, id: self.id }
    }
}

impl<'c> GraphView<'c> {
    /// Returns the facts about the graph that follow from the declarations of all elements.
    pub fn facts(self) -> &'c Facts {
        self.facts
    }

    /// True if any element downstream reads the annotation byte `byte` of packets that leave by an output.
    /// If it is false, the byte need not be written.
    pub fn annotation_seen(self, output: usize, byte: u8) -> bool {
        let seen = self.facts.annotations_seen.get(self.id).and_then(|outputs| outputs.get(output));
        seen.is_none_or(|seen| seen.checked_shr(byte.into()).is_none_or(|seen| seen & 1 == 1))
    }

    /// True if the element may emit frames that leave some work to a device ([`Facts::offloads`]).
    pub fn may_offload(self) -> bool {
        self.facts.offloads.get(self.id).copied().unwrap_or(false)
    }

    /// True if the element may emit packets that represent many segments ([`Facts::large_segments`]). Such
    /// packets are valid, but may be longer than an interface accepts; metadata next to their annotations
    /// says how to cut them.
    pub fn may_merge(self) -> bool {
        self.facts.large_segments.get(self.id).copied().unwrap_or(false)
    }

    /// True if packets that leave some work to a device, or that represent many segments, may come to the
    /// element.
    pub fn receives_offloads(self) -> bool {
        self.facts.receives_offloads.get(self.id).copied().unwrap_or(false)
    }

    /// True if the element may trust the bit for verified checksums of its packets. It must have declared
    /// [`trusts_checksums`](crate::effects::Support::trusts_checksums).
    pub fn trusts_checksums(self) -> bool {
        self.facts.right_checksums.get(self.id).copied().unwrap_or(false)
    }

    /// True if all large segments that the element may emit are cut again downstream, and their segments get
    /// the checksums again with which they arrived. For an element that restores checksums
    /// ([`restores_checksums`](crate::effects::Support::restores_checksums)), true if the elements upstream
    /// allow it: none makes the checksum of a large segment wrong.
    pub fn restores_checksums(self) -> bool {
        self.facts.restored_checksums.get(self.id).copied().unwrap_or(false)
    }

    /// True if flow marks are in use at the element. An element that declares
    /// [`FlowMarks::Gives`](crate::effects::FlowMarks::Gives) then has to mark the flows of packets; an
    /// element that declares `FlowMarks::Takes` may rely on the marks of incoming packets.
    pub fn uses_flow_marks(self) -> bool {
        self.facts.flow_marks.get(self.id).copied().unwrap_or(false)
    }

    /// Returns the name of an element.
    pub fn name_of(self, element: ElementId) -> &'c str {
        self.host.name(element).0
    }

    /// True if an output of the element is a push output.
    pub fn output_is_push(self, output: usize) -> bool {
        self.host.is_push(self.id, true, output)
    }

    /// True if an input of the element is a push input.
    pub fn input_is_push(self, input: usize) -> bool {
        self.host.is_push(self.id, false, input)
    }

    /// Returns the service of type `T` that an element has published; `None` if it has published none.
    pub fn service<T: Any + Send + Sync>(self, element: ElementId) -> Option<Arc<T>> {
        self.host.service(element, TypeId::of::<T>()).and_then(|s| s.downcast().ok())
    }

    /// Returns the services of type `T` of the nearest elements downstream (or upstream) that have published
    /// one, along every path from the element, with the elements' numbers.
    pub fn nearest_services<T: Any + Send + Sync>(self, downstream: bool) -> Vec<(ElementId, Arc<T>)> {
        let found = self.host.nearest(self.id, downstream, TypeId::of::<T>());
        found.into_iter().filter_map(|(id, service)| Some((id, service.downcast().ok()?))).collect()
    }

    /// Returns the numbers of all elements to which packets that leave by an output may come. The function
    /// searches the whole graph: call it only during initialization.
    pub fn reached(self, output: usize) -> BTreeSet<ElementId> {
        self.host.reached(self.id, output)
    }

    /// Returns the state of a signal at a port, to show it to users: for each element from which the signal
    /// can come, its number among the elements that give the signal, and true if the signal is on. `None` if
    /// the signal counts as always on ([`Host::signal_sources`]).
    pub fn signal_sources(self, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>> {
        self.host.signal_sources(self.id, signal, port)
    }

    /// True if the handler of a call exists and can be read (or written, if `write` is true).
    pub fn has_handler(self, call: &Call, write: bool) -> bool {
        self.host.has_handler(call, write)
    }

    /// True if reading the handler of a call may run a script, which may change the graph.
    pub fn runs_script(self, call: &Call) -> bool {
        self.host.runs_script(call)
    }
}
