//! The phases of a flow, the lists of flows, and the reasons for flushes.

/// The reason why segments leave: the conditions of the paper's table 2, and conditions of limited memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The segment belongs to no known flow and opens none.
    NoFlow,
    /// The checksum is wrong.
    Damaged,
    /// The segment is in sequence, and nothing is to be merged.
    InSequence,
    /// The segment is before the next expected number: probably a retransmission.
    Before,
    /// No further segment has room.
    Full,
    /// A flag requests delivery.
    Flags,
    /// The next segment differs, or this segment cannot be merged.
    Differs,
    /// A segment without data arrived.
    Acknowledgment,
    /// The segment is in sequence, and `inseq_timeout` has expired.
    InSequenceTimeout,
    /// The segment is after a gap, and `ofo_timeout` has expired.
    OutOfOrderTimeout,
    /// The queue of the flow was full.
    QueueFull,
    /// The flow was evicted.
    Evicted,
    /// The sequence numbers of the flow do not continue.
    Restarted,
    /// All segments were flushed.
    Drain,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 14] = [
        Reason::NoFlow,
        Reason::Damaged,
        Reason::InSequence,
        Reason::Before,
        Reason::Full,
        Reason::Flags,
        Reason::Differs,
        Reason::Acknowledgment,
        Reason::InSequenceTimeout,
        Reason::OutOfOrderTimeout,
        Reason::QueueFull,
        Reason::Evicted,
        Reason::Restarted,
        Reason::Drain,
    ];

    /// Returns the name in handlers.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NoFlow => "no_flow",
            Reason::Damaged => "damaged",
            Reason::InSequence => "in_sequence",
            Reason::Before => "before_sequence",
            Reason::Full => "full",
            Reason::Flags => "flags",
            Reason::Differs => "differs",
            Reason::Acknowledgment => "acknowledgment",
            Reason::InSequenceTimeout => "inseq_timeout",
            Reason::OutOfOrderTimeout => "ofo_timeout",
            Reason::QueueFull => "queue_full",
            Reason::Evicted => "evicted",
            Reason::Restarted => "restarted",
            Reason::Drain => "drain",
        }
    }
}

/// The phase of a flow; in the initial phase a flow has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The next sequence number is an estimate.
    BuildUp,
    /// Segments wait.
    ActiveMerging,
    /// No segments wait.
    PostMerging,
    /// A segment is missing that did not arrive in time.
    LossRecovery,
}

/// The lists, in the order of eviction: lists whose flows lose least are first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Flows of datagrams, which have no order that could be lost.
    Datagrams,
    /// TCP flows without waiting segments.
    Inactive,
    /// TCP flows in build-up or active merging, with all segments in sequence.
    Active,
    /// TCP flows in build-up or active merging, with segments after a gap.
    Gap,
    /// TCP flows with a lost segment.
    LossRecovery,
}

impl List {
    /// All lists, in the order of eviction.
    pub const ALL: [List; 5] = [List::Datagrams, List::Inactive, List::Active, List::Gap, List::LossRecovery];

    /// Returns the name in handlers.
    pub fn as_str(self) -> &'static str {
        match self {
            List::Datagrams => "datagrams",
            List::Inactive => "inactive",
            List::Active => "active",
            List::Gap => "gap",
            List::LossRecovery => "loss_recovery",
        }
    }
}

impl Phase {
    /// Returns the list of TCP flows in this phase.
    pub(crate) fn list(self, has_gap: bool) -> List {
        match self {
            Phase::BuildUp | Phase::ActiveMerging if has_gap => List::Gap,
            Phase::BuildUp | Phase::ActiveMerging => List::Active,
            Phase::PostMerging => List::Inactive,
            Phase::LossRecovery => List::LossRecovery,
        }
    }
}
