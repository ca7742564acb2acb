//! The cases of the benchmark `soak`: elements with tables, and the floods that fill the tables.

use trace::flood::Flood;

/// An element with a table, under a flood that fills the table.
#[derive(Clone, Copy, Debug)]
pub struct FloodCase {
    /// The name of the class.
    pub class: &'static str,
    /// The flood whose frames each create an entry.
    pub flood: Flood,
    /// The elements downstream of the source of the flood. `$bound` is replaced by the argument that bounds
    /// the table, or by nothing for the default.
    pub chain: &'static str,
    /// The name of the argument that bounds the table.
    pub bound: &'static str,
    /// The number of bytes in a unit of the argument, if the bound is in bytes; 0 if it is a number of
    /// entries.
    pub bytes: u64,
    /// The handler (element and name) that reports the number of entries; empty if there is none.
    pub entries: &'static str,
    /// The number of workers. Packets of one flow are spread over them.
    pub workers: usize,
}

const fn case(
    class: &'static str,
    flood: Flood,
    bound: &'static str,
    entries: &'static str,
    chain: &'static str,
) -> FloodCase {
    FloodCase { class, flood, chain, bound, bytes: 0, entries, workers: 1 }
}

const RANGE: &str = "-> MarkIPHeader(14)
    -> e :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0$bound) -> Discard";

/// All cases of the benchmark, in the order in which they are measured.
pub const CASES: &[FloodCase] = &[
    case("IPRewriter", Flood::Syn, "MAPPING_CAPACITY", "e.size", RANGE),
    FloodCase { workers: 2, ..case("IPRewriter", Flood::Syn, "MAPPING_CAPACITY", "e.size", RANGE) },
    case(
        "TCPRewriter",
        Flood::Syn,
        "MAPPING_CAPACITY",
        "e.size",
        "-> MarkIPHeader(14)
        -> e :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0$bound) -> Discard",
    ),
    case(
        "UDPRewriter",
        Flood::Udp,
        "MAPPING_CAPACITY",
        "e.size",
        "-> MarkIPHeader(14)
        -> e :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0$bound) -> Discard",
    ),
    case(
        "IPAddrRewriter",
        Flood::Udp,
        "MAPPING_CAPACITY",
        "e.size",
        "-> MarkIPHeader(14) -> e :: IPAddrRewriter(keep 0 0$bound) -> Discard",
    ),
    case(
        "IPAddrPairRewriter",
        Flood::Udp,
        "MAPPING_CAPACITY",
        "e.size",
        "-> MarkIPHeader(14) -> e :: IPAddrPairRewriter(keep 0 0$bound) -> Discard",
    ),
    case(
        "ICMPPingRewriter",
        Flood::Ping,
        "MAPPING_CAPACITY",
        "e.size",
        "-> MarkIPHeader(14) -> e :: ICMPPingRewriter(keep 0 0$bound) -> Discard",
    ),
    case(
        "FlowIPLoadBalancer",
        Flood::Syn,
        "CAPACITY",
        "e.connections",
        "-> MarkIPHeader(14) -> e :: FlowIPLoadBalancer(VIP 198.51.100.1, DST 10.9.0.1, DST 10.9.0.2$bound) -> Discard",
    ),
    case(
        "FlowL2LoadBalancer",
        Flood::Syn,
        "CAPACITY",
        "e.connections",
        "-> MarkIPHeader(14) -> e :: FlowL2LoadBalancer(DST 2:0:0:0:9:1, DST 2:0:0:0:9:2$bound) -> Discard",
    ),
    case(
        "FlowSwitch",
        Flood::Syn,
        "CAPACITY",
        "e.connections",
        "-> MarkIPHeader(14) -> e :: FlowSwitch(LB_MODE rr$bound); e[0], e[1] => Discard, Discard",
    ),
    case(
        "EtherSwitch",
        Flood::Mac,
        "CAPACITY",
        "e.count",
        "-> [0] e :: EtherSwitch($bound); Idle -> [1] e; e[0], e[1] => Discard, Discard",
    ),
    case(
        "ListenEtherSwitch",
        Flood::Mac,
        "CAPACITY",
        "e.count",
        "-> [0] e :: ListenEtherSwitch($bound); Idle -> [1] e;
        e[0], e[1], e[2] => Discard, Discard, Discard",
    ),
    case(
        "ARPTable",
        Flood::Arp,
        "ENTRY_CAPACITY",
        "e.count",
        "-> [1] q :: ARPQuerier(10.255.255.254, 2:0:0:0:0:1, TABLE e) -> Discard; Idle -> [0] q;
        e :: ARPTable($bound)",
    ),
    case(
        "ARPQuerier",
        Flood::Receiver,
        "ENTRY_CAPACITY",
        "",
        "-> Strip(14) -> GetIPAddress(16)
        -> [0] e :: ARPQuerier(10.255.255.254, 2:0:0:0:0:1$bound) -> Discard; Idle -> [1] e",
    ),
    case(
        "IP6NDSolicitor",
        Flood::Receiver6,
        "ENTRY_CAPACITY",
        "",
        "-> Strip(14) -> MarkIP6Header -> GetIP6Address(24)
        -> [0] e :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1$bound) -> Discard; Idle -> [1] e",
    ),
    FloodCase {
        bytes: 1,
        ..case(
            "IPReassembler",
            Flood::Fragment,
            "HIMEM",
            "",
            "-> Strip(14) -> CheckIPHeader -> e :: IPReassembler($bound) -> Discard",
        )
    },
    case(
        "AggregateIPAddrPair",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> e :: AggregateIPAddrPair($bound) -> Discard",
    ),
    case(
        "AggregateIPFlows",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> e :: AggregateIPFlows($bound) -> Discard",
    ),
    case(
        "AggregateIPFlows",
        Flood::LastFragment,
        "FRAGMENT_CAPACITY",
        "",
        "-> MarkIPHeader(14) -> e :: AggregateIPFlows(FRAGMENTS true$bound) -> Discard",
    ),
    case(
        "AggregateCounter",
        Flood::Udp,
        "CAPACITY",
        "e.nagg",
        "-> MarkIPHeader(14) -> AggregateIP(ip src) -> e :: AggregateCounter($bound) -> Discard",
    ),
    case(
        "AggregatePacketCounter",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> AggregateIP(ip src) -> e :: AggregatePacketCounter(ANNO NONE$bound) -> Discard",
    ),
    case(
        "AggregateFirst",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> AggregateIP(ip src) -> e :: AggregateFirst($bound) -> Discard",
    ),
    case(
        "AggregateLast",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> AggregateIP(ip src) -> e :: AggregateLast($bound) -> Discard",
    ),
    FloodCase {
        bytes: 1024,
        ..case(
            "IPRateMonitor",
            Flood::Udp,
            "MEMORY",
            "",
            "-> MarkIPHeader(14) -> e :: IPRateMonitor(PACKETS, 1, 1$bound) -> Discard",
        )
    },
    case(
        "FlowCounter",
        Flood::Udp,
        "CAPACITY",
        "e.open",
        "-> MarkIPHeader(14) -> e :: FlowCounter($bound) -> Discard",
    ),
    FloodCase {
        workers: 2,
        ..case(
            "FlowCounter",
            Flood::Syn,
            "CAPACITY",
            "e.open",
            "-> MarkIPHeader(14) -> e :: FlowCounter($bound) -> Discard",
        )
    },
    case(
        "Reframer",
        Flood::Udp,
        "CAPACITY",
        "",
        // Only with this priority (or COMPRESS, SLO, QUIC_ID) are flows remembered that hold no packets.
        "-> MarkIPHeader(14) -> e :: Reframer(64us, PRIORITY SHORTEST_FLOW, BYPASS none, MIN_BURST 0$bound) \
         -> Discard",
    ),
    case("Juggler", Flood::Gap, "FLOWS", "", "-> MarkIPHeader(14) -> e :: Juggler($bound) -> Discard"),
    case(
        "FlowDelay",
        Flood::Udp,
        "CAPACITY",
        "",
        "-> MarkIPHeader(14) -> e :: FlowDelay(10ms, 2ms$bound) -> Discard",
    ),
    case(
        "PathSelector",
        Flood::Syn,
        "FLOWS",
        "e.flows",
        "-> MarkIPHeader(14) -> e :: PathSelector(TSO$bound); e[0], e[1] => Discard, Discard",
    ),
    case(
        "Slicer",
        Flood::Payload,
        "ENTRIES",
        "",
        "-> [0] e :: Slicer($bound); Idle -> [1] e; e[0], e[1] => Discard, Discard",
    ),
];
