//! Why a packet was dropped. One list for the whole product, so that reports from different elements agree.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The named fate of a packet that is neither forwarded nor held.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// Every reason there is, in the order of their declaration.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// The name in reports and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// An element whose purpose is to end packets (Discard, Idle).
    Discard = "discard",
    /// No rule or pattern of a classifier matched.
    NoMatch = "no match",
    /// A rule of a filter says so.
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
    /// Shorter than the header that the element works on.
    TooShort = "too short",
    /// Longer than a packet may be.
    TooLong = "too long",
    /// The IP header is not valid (version, header length, total length).
    BadIpHeader = "bad IP header",
    /// The IP header checksum is wrong.
    BadIpChecksum = "bad IP checksum",
    /// The IP source address is on the list of bad ones.
    BadSource = "bad source address",
    /// A network header that is not IPv4's is not valid (ARP).
    BadNetworkHeader = "bad network header",
    /// A transport header is not valid.
    BadTransportHeader = "bad transport header",
    /// A reply was sent in its place, or it was what somebody waited for.
    Answered = "answered",
    /// A frame's checksum is wrong.
    BadCrc = "bad CRC",
    /// The headers or options of a packet do not allow what the element is to do.
    Unsuitable = "unsuitable packet",
    /// A transport checksum is wrong.
    BadTransportChecksum = "bad transport checksum",
    /// A header annotation that the element needs is not set.
    NoHeader = "no header",
    /// A large packet whose headers reach beyond its first slot.
    HeadersSplit = "headers beyond first slot",
    /// No room in front of the packet for another header.
    NoHeadroom = "no headroom",
    /// The element was switched off.
    Inactive = "inactive",
    /// Outside of a chosen range of time.
    OutOfTime = "out of time",
    /// Chosen at random, or every n-th.
    Sampled = "sampled",
    /// Above a configured rate.
    OverRate = "over rate",
    /// A queue was about to become too long, or packets waited too long in it.
    EarlyDrop = "early drop",
    /// A file or interface did not take the packet.
    WriteError = "write error",
    /// Packets of the file start with another link header than this one.
    OtherLinkType = "another link type",
    /// Longer than the interface carries, and not to be cut into segments.
    TooLarge = "too large for the interface",
    /// A large frame that stands for many, in a tunnel or of a kind that is not known, so that nobody can cut it.
    UnknownSegments = "segments not understood",
    /// The interface is down, or gone.
    InterfaceDown = "interface down",
    /// The interface takes nothing more at the moment.
    SendQueueFull = "send queue full",
    /// There is nobody to send to.
    NotConnected = "not connected",
    /// Held when the run was stopped.
    Stop = "stop",
    /// The router was misconfigured at run time (a loop without end).
    Loop = "loop",
    /// A translator has no mapping for the packet, and is not to make one.
    NoMapping = "no mapping",
    /// All ports or addresses that a translator may choose from are in use.
    NoFreePort = "no free port",
    /// A table has as many entries as it may have, and none may give way.
    TableFull = "table full",
    /// An element held as many bytes as it may, and the packet gave way to others.
    MemoryLimit = "memory limit",
    /// As many fragments, or packets of which not all fragments have come, as a limit allows.
    FragmentLimit = "fragment limit",
    /// Fragments of one packet have bytes in common, or contradict each other about its end.
    Overlap = "overlapping fragments",
    /// Merged into another one: an ACK into a later one, segments into a large one.
    Coalesced = "coalesced",
    /// A large segment in whose place those left that it stood for.
    Segmented = "segmented",
    /// A sliced packet came back after its payload's time was over.
    PayloadExpired = "payload expired",
    /// A sliced packet came back a second time; its payload has left with the first.
    PayloadTaken = "payload already joined",
    /// A packet came from outside with a token that only sliced packets have.
    ForeignToken = "token from outside",
    /// A packet is marked as sliced and has no token of ours, or not all of what belongs to it.
    NoToken = "no token",
    /// A sliced packet came back inside of another packet in a way that keeps it from being joined.
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
