//! Names: where a flow is in its life, which list it is in, and why segments leave.

/// Why segments leave: the conditions of table 2, and those for which a table must have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Of no flow that is known, and none that is opened by it.
    NoFlow,
    /// With a wrong checksum.
    Damaged,
    /// In sequence, and nothing is to be merged.
    InSequence,
    /// Before what has gone: likely sent again.
    Before,
    /// No further segment has room.
    Full,
    /// A flag asks for delivery.
    Flags,
    /// The next segment differs, or this one can be merged with none.
    Differs,
    /// A segment without data came behind.
    Acknowledgment,
    /// In sequence, and waited long enough.
    InSequenceTimeout,
    /// Behind a gap, and waited long enough.
    OutOfOrderTimeout,
    /// The flow's queue had no room.
    QueueFull,
    /// The flow had to make room for another one.
    Evicted,
    /// The flow's numbers make no sense any more.
    Restarted,
    /// Everything had to go.
    Drain,
}

impl Reason {
    /// All of them.
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

    /// Its name in handlers.
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

/// Where a flow is in its life; before the first one it has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The next sequence number is a guess.
    BuildUp,
    /// Segments wait.
    ActiveMerging,
    /// Nothing waits.
    PostMerging,
    /// A segment is missing that was waited for.
    LossRecovery,
}

/// The lists, in the order in which flows are evicted: those first that lose least by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Flows of datagrams, which have no order that could be lost.
    Datagrams,
    /// Flows of TCP of which nothing waits.
    Inactive,
    /// Flows of TCP that build up or merge, all in sequence.
    Active,
    /// Flows of TCP that build up or merge, with segments behind a gap.
    Gap,
    /// Flows of which a segment is missing.
    LossRecovery,
}

impl List {
    /// All of them, those first from which flows are evicted first.
    pub const ALL: [List; 5] = [List::Datagrams, List::Inactive, List::Active, List::Gap, List::LossRecovery];

    /// Its name in handlers.
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
    /// The list of flows of TCP in this phase.
    pub(crate) fn list(self, has_gap: bool) -> List {
        match self {
            Phase::BuildUp | Phase::ActiveMerging if has_gap => List::Gap,
            Phase::BuildUp | Phase::ActiveMerging => List::Active,
            Phase::PostMerging => List::Inactive,
            Phase::LossRecovery => List::LossRecovery,
        }
    }
}
