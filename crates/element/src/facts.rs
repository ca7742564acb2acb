//! What the engine tells elements about the graph that they are in.

use packet::Restore;

/// What the declarations of all elements of a graph say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether anybody reads each annotation byte; who only writes for others can spare the work.
    pub annotations_read: [bool; 48],
    /// By element and output: annotation bytes that those look at whom its packets may come to, a bit each.
    pub annotations_seen: Vec<Vec<u64>>,
    /// Whether anybody touches annotations at all.
    pub annotations_used: bool,
    /// What lent packets need to have put back.
    pub restore: Restore,
    /// Which elements may emit frames in which something is left for a device to do, because nobody behind them minds.
    pub offloads: Vec<bool>,
    /// Which elements may emit packets that stand for many segments, with all checksums complete, because nobody behind them
    /// minds.
    pub large_segments: Vec<bool>,
    /// Which elements that take such packets may get some.
    pub work_comes: Vec<bool>,
    /// Whether some elements leave payloads aside, and others want to know how long packets were.
    pub tells_lengths: bool,
    /// Which elements give marks of flows that others rely on, and which may rely on some.
    pub flow_marks: Vec<bool>,
}

impl Facts {
    /// Whether there may be packets anywhere in which something is left for a device to do: their annotations say so.
    pub fn leave_work(&self) -> bool {
        self.offloads.contains(&true) || self.large_segments.contains(&true)
    }

    /// Whether anybody reads one of these annotation bytes.
    pub fn annotation_read(&self, offset: usize, length: usize) -> bool {
        self.annotations_read.iter().skip(offset).take(length).any(|&read| read)
    }
}
