//! Facts about a graph that the engine passes to its elements.

use packet::Restore;

/// A summary of the declarations of all elements of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// For each annotation byte, true if an element reads it. An element that writes a byte only for others
    /// need not write it if this is false.
    pub annotations_read: [bool; 48],
    /// For each element and each of its outputs, the annotation bytes that elements downstream look at, one
    /// bit per byte.
    pub annotations_seen: Vec<Vec<u64>>,
    /// True if any element uses annotations.
    pub annotations_used: bool,
    /// The parts of a packet on loan that have to be restored.
    pub restore: Restore,
    /// For each element, true if it may emit frames that leave some work to a device, because all elements
    /// downstream accept them.
    pub offloads: Vec<bool>,
    /// For each element, true if it may emit packets that represent many segments, with all checksums
    /// complete, because all elements downstream accept them.
    pub large_segments: Vec<bool>,
    /// For each element that accepts such frames or packets, true if some may come to it.
    pub receives_offloads: Vec<bool>,
    /// True if some elements park payloads, and others need the lengths of the whole packets.
    pub tells_lengths: bool,
    /// For each element, true if it sets flow marks that other elements rely on, or if it may rely on flow
    /// marks itself.
    pub flow_marks: Vec<bool>,
}

impl Facts {
    /// True if any packet may leave some work to a device; the packet's annotations then describe this
    /// work.
    pub fn uses_offloads(&self) -> bool {
        self.offloads.contains(&true) || self.large_segments.contains(&true)
    }

    /// True if an element reads one of these annotation bytes.
    pub fn annotation_read(&self, offset: usize, length: usize) -> bool {
        self.annotations_read.iter().skip(offset).take(length).any(|&read| read)
    }
}
