//! Reasons for which packets are dropped. All elements and the engine share one list, so that their reports
//! can be compared and added.

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

            /// Returns the name of the reason in reports and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The packet reached an element whose purpose is to end packets (Discard, Idle, TimedSink), or a
    /// script for packets ended with `exit`.
    Discard = "discard",
    /// The packet matched no rule or pattern of a classifier, or did not meet the condition of another
    /// element.
    NoMatch = "no match",
    /// A rule or setting of a filter or switch denied the packet.
    Denied = "denied",
    /// The element chose an output that does not exist or is not connected, or could choose no output.
    NoOutput = "no output",
    /// A routing table has no route for the packet's destination address.
    NoRoute = "no route",
    /// A queue, or a list of packets that wait, had its largest allowed length.
    QueueFull = "queue full",
    /// The worker to which the packet was to be handed over was too busy: the ring to this worker was full.
    WorkerBusy = "worker busy",
    /// A handler emptied or shortened a queue, or removed the state for which an element held the packet.
    Reset = "reset",
    /// The pool had no free slot for a copy or a new packet.
    NoBuffer = "no buffer",
    /// The IP time to live or hop limit does not allow another hop.
    TtlExpired = "TTL expired",
    /// The packet is shorter than the header, or the number of bytes, that the element needs.
    TooShort = "too short",
    /// The packet is longer than allowed: than a packet or a slot can be, than a configured length, or than
    /// an MTU if it must not be fragmented.
    TooLong = "too long",
    /// The IP header is missing or not valid, for example because of a wrong version, header length or
    /// total length.
    BadIpHeader = "bad IP header",
    /// The checksum of the IP header is wrong.
    BadIpChecksum = "bad IP checksum",
    /// The IP source address is on the element's list of bad addresses.
    BadSource = "bad source address",
    /// A network header other than IP, such as ARP, is not valid.
    BadNetworkHeader = "bad network header",
    /// The transport header is not valid.
    BadTransportHeader = "bad transport header",
    /// The element answered the packet with a reply, or the packet was the reply for which the element was
    /// waiting.
    Answered = "answered",
    /// The frame check sequence (CRC-32) of a frame is wrong.
    BadCrc = "bad CRC",
    /// The headers or options of the packet do not allow the operation of the element, for example because
    /// the packet has the wrong protocol.
    Unsuitable = "unsuitable packet",
    /// The checksum of the transport protocol is wrong.
    BadTransportChecksum = "bad transport checksum",
    /// The packet has no network or transport header annotation, which the element needs, or ends before
    /// the end of this header.
    NoHeader = "no header",
    /// The headers of a large packet, or other bytes that an element needs, extend beyond the packet's first
    /// slot, where elements cannot access them.
    HeadersSplit = "headers beyond first slot",
    /// There is too little room before the packet's data for another header.
    NoHeadroom = "no headroom",
    /// The element was switched off, for example by its argument or handler ACTIVE.
    Inactive = "inactive",
    /// The packet's time stamp is outside of the range that the element's arguments give, or the packet was
    /// held until a timeout.
    OutOfTime = "out of time",
    /// An element that samples dropped the packet, at random or by counting packets.
    Sampled = "sampled",
    /// The packet exceeded the rate that the element enforces.
    OverRate = "over rate",
    /// An active queue management element dropped the packet, because its queue was about to become too
    /// long or packets waited too long in it.
    EarlyDrop = "early drop",
    /// Writing the packet to a file, socket or interface failed.
    WriteError = "write error",
    /// The packet has another link type than the capture to which it was to be written.
    OtherLinkType = "another link type",
    /// The packet is longer than the interface can send, or than the MTU that the element was given, and
    /// cannot be cut into segments.
    TooLarge = "too large for the interface",
    /// A large packet represents many segments, but is in a tunnel or of an unknown kind, so that it cannot
    /// be cut into them.
    UnknownSegments = "segments not understood",
    /// The interface is down or has been removed.
    InterfaceDown = "interface down",
    /// The send queue of the interface is full.
    SendQueueFull = "send queue full",
    /// There is no peer, interface, active server or active output to which the packet can be sent.
    NotConnected = "not connected",
    /// An element still held the packet when the run ended, or when a reload replaced the element.
    Stop = "stop",
    /// The engine stopped passing the packet on: the graph has a loop without end, for example because it
    /// was misconfigured at run time.
    Loop = "loop",
    /// A translator (NAT) has no mapping for the packet, and makes none, for example because packets of this
    /// input must not get a mapping, or another mapping has the same addresses and ports.
    NoMapping = "no mapping",
    /// All ports or addresses from which a translator (NAT) may choose for the flow are in use.
    NoFreePort = "no free port",
    /// A table has its largest allowed number of entries, or gets no memory for another entry, and no entry
    /// may be evicted.
    TableFull = "table full",
    /// An element reached the number of bytes that it may hold, and evicted this packet to hold others.
    MemoryLimit = "memory limit",
    /// The number of fragments of one datagram, or of incomplete datagrams, reached a limit.
    FragmentLimit = "fragment limit",
    /// Fragments of one datagram overlap, or contradict each other about its end.
    Overlap = "overlapping fragments",
    /// The packet's content is in another packet: an ACK in a later ACK, a segment in a large segment, a
    /// fragment in the datagram that it belongs to. Also a duplicate, and a packet that AggregateLast
    /// replaces by a later packet.
    Coalesced = "coalesced",
    /// A large packet was replaced by the segments that it represents.
    Segmented = "segmented",
    /// The packet is a slice (a packet whose payload was parked) that came back after its parked payload had
    /// expired.
    PayloadExpired = "payload expired",
    /// The packet is a slice (a packet whose payload was parked) that came back a second time; its payload
    /// was joined to the first slice that came back.
    PayloadTaken = "payload already joined",
    /// The packet came from outside, but contains a valid token: 16 bytes that only slices made by this
    /// engine contain.
    ForeignToken = "token from outside",
    /// The packet is marked as a slice, but the token that names its parked payload is missing, incomplete or
    /// of another engine.
    NoToken = "no token",
    /// The packet has no security association of IPsec: no route has marked it with one, or no association
    /// has the packet's security parameter index.
    NoAssociation = "no security association",
    /// The digest of the packet is wrong, or the packet is too short to have one.
    BadAuthentication = "wrong digest",
    /// The padding of the packet is not what its protocol prescribes, or longer than the packet.
    BadPadding = "bad padding",
    /// The sequence number of the packet has come before, or is too old to know that.
    Replayed = "replayed",
    /// The packet contains a slice inside of another packet (a tunnel), in a form to which the payload
    /// cannot be joined.
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
