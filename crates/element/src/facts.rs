//! The facts about a whole graph that the engine derives from the declarations of all elements.

use packet::Restore;

/// The facts about a whole graph that follow from the declarations of all its elements. Elements read them
/// to leave out work that no other element needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// For each byte of the annotation area, true if any element reads it. If it is false, an element that
    /// would write the byte only for other elements need not write it.
    pub annotations_read: [bool; 48],
    /// For each element and each of its outputs, the annotation bytes that elements downstream of the output
    /// read: bit n is set for byte n.
    pub annotations_seen: Vec<Vec<u64>>,
    /// True if any element reads annotations, or if frames may leave work to a device (the description of
    /// this work is stored next to the annotations).
    pub annotations_used: bool,
    /// The bytes and annotations that a store of replayed packets restores before it lends a packet again,
    /// because elements may have written them.
    pub restore: Restore,
    /// For each element, true if it may emit frames that leave some work to a device, such as large segments
    /// or partial checksums: all elements downstream of it accept such frames.
    pub offloads: Vec<bool>,
    /// For each element, true if it may emit packets that represent many segments, with all checksums
    /// complete: all elements downstream of it accept such packets. For an element that finishes them
    /// ([`finishes_offloads`](crate::effects::Support::finishes_offloads)), true if it gets such packets, and
    /// all elements downstream would accept them.
    pub large_segments: Vec<bool>,
    /// For each element, true if frames that leave some work to a device, or packets that represent many
    /// segments, may come to it.
    pub receives_offloads: Vec<bool>,
    /// True if some elements park the payloads of packets in a table (Slicer) and other elements need the
    /// lengths of whole packets. The elements that park payloads then record the parked length with the
    /// packet.
    pub tells_lengths: bool,
    /// For each element, true if flow marks are in use: an element that can mark the flows of packets has
    /// to do so, and an element that can rely on marks may do so ([`crate::effects::FlowMarks`]). Empty if
    /// no element may rely on marks.
    pub flow_marks: Vec<bool>,
    /// For each element that finds runs ([`crate::Cx::find_runs`]), true if the runs that packets have when
    /// they come to it are right, so that it need not compare the packets again. `None` for other elements.
    /// Empty if no element finds runs.
    pub runs: Vec<Option<bool>>,
    /// For each element that trusts the bit for verified checksums
    /// ([`crate::effects::Support::trusts_checksums`]), true if the bit is right in the packets that come to
    /// the element. Empty if no element trusts it.
    pub right_checksums: Vec<bool>,
    /// For each element, true if all large segments that it may emit are cut again by elements that restore
    /// the checksums of the segments ([`crate::effects::Support::restores_checksums`]). For these elements,
    /// true if they can restore checksums. Empty if no element restores checksums.
    pub restored_checksums: Vec<bool>,
}

impl Facts {
    /// True if any packet may leave some work to a device. Metadata next to the packet's annotations then
    /// describes this work.
    pub fn uses_offloads(&self) -> bool {
        self.offloads.contains(&true) || self.large_segments.contains(&true)
    }

    /// True if any element reads one of the `length` annotation bytes from `offset` on.
    pub fn annotation_read(&self, offset: usize, length: usize) -> bool {
        self.annotations_read.iter().skip(offset).take(length).any(|&read| read)
    }
}
