//! The phases of a flow, the lists that flows are in, and the reasons for which segments are flushed.

/// The reason for which segments leave: the conditions of table 2 of the Juggler paper, and conditions of
/// limited memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlushReason {
    /// The segment belongs to no known flow: it is a SYN or an RST, has no data, or no flow could be opened
    /// for it. Also a segment or datagram that there is no memory to hold.
    NoFlow,
    /// The transport checksum is wrong, so the packet is forwarded as it is.
    Damaged,
    /// The segment is in sequence, and its flow is not merged, so it does not wait for further segments.
    InSequence,
    /// The segment starts before the next expected sequence number, probably as a retransmission, or is too
    /// far from it to belong to the flow.
    Before,
    /// The large segment cannot grow: it has reached a limit of size, or its last segment is shorter.
    Full,
    /// A flag of the segment requests delivery (PSH, URG), or opens or ends the connection.
    Flags,
    /// The segment cannot be merged with the next segment, or not at all.
    Differs,
    /// A segment without data, SYN, FIN or RST leaves at once, after the waiting segments in sequence, which
    /// are flushed for this reason. Segments in sequence are also flushed ahead of a segment with a wrong
    /// checksum.
    Acknowledgment,
    /// The segments are in sequence, and `inseq_timeout` has expired.
    InSequenceTimeout,
    /// `ofo_timeout` has expired for a segment after a gap: all waiting segments of its flow are flushed.
    OutOfOrderTimeout,
    /// The waiting segments of the flow exceeded QUEUE, the limit of their memory.
    QueueFull,
    /// The flow was evicted to make room for another flow.
    Evicted,
    /// The sequence numbers of the flow do not continue: a new connection has probably begun.
    Restarted,
    /// All flows were flushed: at the end of the run, by a handler, or for a new instance of the element.
    Drain,
}

impl FlushReason {
    /// All reasons, in the order of the handler `flushes`; `reason as usize` is the index.
    pub const ALL: [FlushReason; 14] = [
        FlushReason::NoFlow,
        FlushReason::Damaged,
        FlushReason::InSequence,
        FlushReason::Before,
        FlushReason::Full,
        FlushReason::Flags,
        FlushReason::Differs,
        FlushReason::Acknowledgment,
        FlushReason::InSequenceTimeout,
        FlushReason::OutOfOrderTimeout,
        FlushReason::QueueFull,
        FlushReason::Evicted,
        FlushReason::Restarted,
        FlushReason::Drain,
    ];

    /// Returns the name of the reason in the handler `flushes`.
    pub fn as_str(self) -> &'static str {
        match self {
            FlushReason::NoFlow => "no_flow",
            FlushReason::Damaged => "damaged",
            FlushReason::InSequence => "in_sequence",
            FlushReason::Before => "before_sequence",
            FlushReason::Full => "full",
            FlushReason::Flags => "flags",
            FlushReason::Differs => "differs",
            FlushReason::Acknowledgment => "acknowledgment",
            FlushReason::InSequenceTimeout => "inseq_timeout",
            FlushReason::OutOfOrderTimeout => "ofo_timeout",
            FlushReason::QueueFull => "queue_full",
            FlushReason::Evicted => "evicted",
            FlushReason::Restarted => "restarted",
            FlushReason::Drain => "drain",
        }
    }
}

/// The phase of a flow, as in the Juggler paper. The initial phase is missing, because the flow then has no
/// entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowPhase {
    /// Nothing was flushed since the next sequence number was learned. The number is an estimate, which
    /// decreases if an earlier segment arrives.
    BuildUp,
    /// Segments wait, to be merged or for missing segments.
    ActiveMerging,
    /// No segments wait.
    PostMerging,
    /// A missing segment did not arrive before a time-out expired or the limit of memory was reached. The
    /// retransmission of this segment ends the phase.
    LossRecovery,
}

/// The lists of flows, in the order of eviction: flows that lose least by eviction are in the first list.
/// Flows in `LossRecovery` and `Inactive` that have flushed nothing for `REPAIR_TIME` may be evicted before
/// all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionList {
    /// Flows of UDP datagrams, which have no order that could be lost.
    Datagrams,
    /// TCP flows in post merging, without waiting segments.
    Inactive,
    /// TCP flows in build-up or active merging, whose waiting segments form one run that is in sequence.
    Active,
    /// TCP flows in build-up or active merging, with segments after a gap or, in build-up, with adjacent
    /// segments that cannot be merged.
    Gap,
    /// TCP flows in loss recovery: a missing segment did not arrive in time.
    LossRecovery,
}

impl EvictionList {
    /// All lists, in the order of eviction; `list as usize` is the index.
    pub const ALL: [EvictionList; 5] = [
        EvictionList::Datagrams,
        EvictionList::Inactive,
        EvictionList::Active,
        EvictionList::Gap,
        EvictionList::LossRecovery,
    ];

    /// Returns the name of the list in handlers.
    pub fn as_str(self) -> &'static str {
        match self {
            EvictionList::Datagrams => "datagrams",
            EvictionList::Inactive => "inactive",
            EvictionList::Active => "active",
            EvictionList::Gap => "gap",
            EvictionList::LossRecovery => "loss_recovery",
        }
    }
}

impl FlowPhase {
    /// Returns the list for a TCP flow in this phase. `has_gap` is true if segments of the flow wait after a
    /// gap.
    pub(crate) fn list(self, has_gap: bool) -> EvictionList {
        match self {
            FlowPhase::BuildUp | FlowPhase::ActiveMerging if has_gap => EvictionList::Gap,
            FlowPhase::BuildUp | FlowPhase::ActiveMerging => EvictionList::Active,
            FlowPhase::PostMerging => EvictionList::Inactive,
            FlowPhase::LossRecovery => EvictionList::LossRecovery,
        }
    }
}
