//! Reasons for which packets are dropped. There is one list for the whole product, so that reports of
//! different elements agree.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The reason for which a packet was neither forwarded nor held.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// All reasons, in the order of their declaration.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// The name in reports and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The packet reached an element whose purpose is to end packets (Discard, Idle).
    Discard = "discard",
    /// No rule or pattern of a classifier matched.
    NoMatch = "no match",
    /// A rule of a filter denied the packet.
    Denied = "denied",
    /// The element chose an output that does not exist.
    NoOutput = "no output",
    /// A routing table has no route for the address.
    NoRoute = "no route",
    /// A queue was full.
    QueueFull = "queue full",
    /// The worker that the packet belongs to was too busy to take it.
    WorkerBusy = "worker busy",
    /// A queue was emptied or shortened by a handler.
    Reset = "reset",
    /// The pool had no free slot for a copy or a new packet.
    NoBuffer = "no buffer",
    /// The IP time to live reached zero.
    TtlExpired = "TTL expired",
    /// The packet is shorter than the header that the element works on.
    TooShort = "too short",
    /// The packet is longer than a packet may be.
    TooLong = "too long",
    /// The IP header is not valid (version, header length, total length).
    BadIpHeader = "bad IP header",
    /// The IP header checksum is wrong.
    BadIpChecksum = "bad IP checksum",
    /// The IP source address is on the list of bad addresses.
    BadSource = "bad source address",
    /// A network header other than IPv4 is not valid (ARP).
    BadNetworkHeader = "bad network header",
    /// A transport header is not valid.
    BadTransportHeader = "bad transport header",
    /// The packet was answered by a reply, or it was the reply that an element was waiting for.
    Answered = "answered",
    /// A frame's checksum is wrong.
    BadCrc = "bad CRC",
    /// The headers or options of the packet do not allow the operation of the element.
    Unsuitable = "unsuitable packet",
    /// A transport checksum is wrong.
    BadTransportChecksum = "bad transport checksum",
    /// A header annotation that the element needs is not set.
    NoHeader = "no header",
    /// The headers of a large packet extend beyond its first slot.
    HeadersSplit = "headers beyond first slot",
    /// There is no room before the packet for another header.
    NoHeadroom = "no headroom",
    /// The element was switched off.
    Inactive = "inactive",
    /// The packet's time is outside of a chosen range.
    OutOfTime = "out of time",
    /// The packet was chosen at random, or as every n-th packet.
    Sampled = "sampled",
    /// The packet exceeded a configured rate.
    OverRate = "over rate",
    /// A queue was about to become too long, or packets waited too long in it.
    EarlyDrop = "early drop",
    /// A file or interface did not take the packet.
    WriteError = "write error",
    /// The packets of the file start with a different link header.
    OtherLinkType = "another link type",
    /// The packet is longer than the interface carries, and cannot be cut into segments.
    TooLarge = "too large for the interface",
    /// A large packet that represents many segments is in a tunnel or of an unknown kind, so that it cannot
    /// be cut.
    UnknownSegments = "segments not understood",
    /// The interface is down or has been removed.
    InterfaceDown = "interface down",
    /// The interface takes no further packets at the moment.
    SendQueueFull = "send queue full",
    /// There is no peer to send to.
    NotConnected = "not connected",
    /// The packet was held when the run was stopped.
    Stop = "stop",
    /// The router was misconfigured at run time (a loop without end).
    Loop = "loop",
    /// A translator has no mapping for the packet, and must not make one.
    NoMapping = "no mapping",
    /// All ports or addresses that a translator may choose from are in use.
    NoFreePort = "no free port",
    /// A table has the largest allowed number of entries, and none may be evicted.
    TableFull = "table full",
    /// An element held the largest allowed number of bytes, and the packet was evicted in favour of others.
    MemoryLimit = "memory limit",
    /// The number of fragments, or of packets with missing fragments, has reached a limit.
    FragmentLimit = "fragment limit",
    /// Fragments of one packet overlap, or contradict each other about its end.
    Overlap = "overlapping fragments",
    /// The packet was merged into another: an ACK into a later ACK, segments into a large segment.
    Coalesced = "coalesced",
    /// A large segment was replaced by the segments that it represented.
    Segmented = "segmented",
    /// A sliced packet came back after its payload had expired.
    PayloadExpired = "payload expired",
    /// A sliced packet came back a second time; its payload has left with the first.
    PayloadTaken = "payload already joined",
    /// A packet came from outside with a token that only sliced packets have.
    ForeignToken = "token from outside",
    /// A packet is marked as sliced, but has no token of this engine or only a part of it.
    NoToken = "no token",
    /// A sliced packet came back inside of another packet in a form that cannot be joined.
    TokenInside = "token inside of another packet",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
    }
}
