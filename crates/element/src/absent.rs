//! Element classes of Click and FastClick that do not exist here. Each has a text that says what it is for,
//! and what to use instead.

/// A group of classes that do not exist here, and that have the same purpose.
#[derive(Debug)]
pub struct Absent {
    /// The names of the classes, separated by spaces.
    names: &'static str,
    /// The purpose of the classes, as the predicate of a sentence whose subject is one of them.
    pub purpose: &'static str,
    /// The advice what to use instead, as an imperative.
    pub advice: &'static str,
}

impl Absent {
    /// Returns the group of a class that exists in Click or FastClick but not here; `None` for other names.
    pub fn find(name: &str) -> Option<&'static Absent> {
        ABSENT.iter().find(|group| group.names.split(' ').any(|class| class == name))
    }

    /// Returns the error for a use of the class `name`.
    pub fn error(&self, name: &str) -> String {
        format!("element class '{name}' does not exist here: in Click or FastClick, it {}", self.purpose)
    }
}

static ABSENT: &[Absent] = &[
    Absent {
        names: "AssociationRequester AssociationResponder AthdescDecap AthdescEncap AutoRateFallback \
            AvailableRates BeaconScanner BeaconSource BeaconTracker EtherCount ExtraDecap \
            ExtraEncap FilterFailures FilterPhyErr FilterTX MadwifiRate OpenAuthRequester \
            OpenAuthResponder PacketStore Print80211 PrintAiro PrintTXFeedback PrintWifi \
            Prism2Decap Prism2Encap ProbeRequester ProbeResponder ProbeTXRate PushAnno RXStats \
            RadiotapDecap RadiotapEncap ReadAnno SetNoAck SetRTS SetTXPower SetTXRate \
            StationTable WepDecap WepEncap WifiDecap WifiDefrag WifiDupeFilter WifiEncap \
            WifiFragment WifiSeq WirelessInfo",
        purpose: "handles frames of wireless networks (802.11)",
        advice: "the kernel's drivers convert these frames: use FromDevice and ToDevice, which have \
            Ethernet frames",
    },
    Absent {
        names: "ACKResponder ACKResponder2 ACKRetrySender ACKRetrySender2 AiroInfo BottleneckMetric \
            CheckGridHeader DSDVRouteTable DSRArpTable DSRRouteTable E2ELossMetric ETX2Metric \
            ETXMetric EstimateRouterRegion FilterByGridHops FilterByRange FixDstLoc FixSrcLoc \
            FloodingLocQuerier GridEncap GridGatewayInfo GridHeaderInfo GridLocationInfo \
            GridLocationInfo2 GridLogger GridProbeHandler GridProbeReplyReceiver GridProbeSender \
            GridProxy GridRouteTable GridSRForwarder GridTxError HopcountMetric IncrementSeqNo \
            LIRMetric LinkStat LinkTable LinkTestReceiver LinkTester LinkTracker LocFromFile \
            LocQueryResponder LocationTable LookupGeographicGridRoute LookupLocalGridRoute \
            LookupLocalGridRoute2 MovementSimulator PEP PacketLogger PacketLogger2 PingPong \
            PrintGrid RadioSim SendGridHello SendGridLRHello SetGridChecksum SimpleLocQuerier \
            StripDSRHeader ThresholdMetric UnstripDSRHeader UpdateGridRoutes YarvisMetric",
        purpose: "belongs to Grid, a wireless network without infrastructure, and its routing protocols",
        advice: "no element replaces it; static routes are in RadixIPLookup and LookupIP6Route, and \
            their handlers change them",
    },
    Absent {
        names: "B8B10 BIM CheckPattern Scramble SendPattern",
        purpose: "belongs to a software radio",
        advice: "no element replaces it",
    },
    Absent {
        names: "FromSimDevice SimPacketAnalyzer ToSimDevice ToSimTrace",
        purpose: "works only inside the simulator ns",
        advice: "use InfiniteSource or FromDump, Discard or ToDump, and `tidegate click --simtime`",
    },
    Absent {
        names: "SATable",
        purpose: "is the table of security associations of RadixIPsecLookup",
        advice: "leave it out: all elements for IPsec share a table",
    },
    Absent {
        names: "EnsureNetmapBuffer FromNetmapDevice NetmapInfo ToNetmapDevice",
        purpose: "uses an interface by netmap",
        advice: "use FromXDP and ToXDP, FromDPDKDevice and ToDPDKDevice, or FromDevice and ToDevice",
    },
    Absent {
        names: "FromDPDKRing ToDPDKRing",
        purpose: "exchanges packets with another DPDK program by a ring in shared memory",
        advice: "use a pair of virtual interfaces (ip link add type veth) with FromXDP and ToXDP, or \
            Socket",
    },
    Absent {
        names: "FromCPKernel FromLinux FromUserDevice KernelHandlerProxy LinuxIPLookup \
            PollDevice QueueDevice SetPerfCount SkbMgr ToCPKernel ToHostSniffers ToLinux \
            ToUserDevice",
        purpose: "works only in the kernel module of Click",
        advice: "use FromDevice, ToDevice, FromHost and ToHost",
    },
    Absent {
        names: "PerfCountAccum PerfCountInfo RoundTripCycleCount",
        purpose: "counts events of the processor, in the kernel module of Click",
        advice: "use perf(1) on the running program; SetCycleCount and CycleCountAccum measure cycles",
    },
    Absent {
        names: "CTXIDSMatcher FlowHyperScan FlowIDSChunkMatcher FlowRegexMatcher \
            GroupRegexClassifier RegexClassifier RegexMatcher StringClassifier",
        purpose: "searches payloads for texts or regular expressions",
        advice: "use StringMatcher for texts anywhere, Classifier for bytes at fixed offsets, or an element \
            of your own (examples/own-nf)",
    },
    Absent {
        names: "FlowAcquire FlowLock FlowStack",
        purpose: "handles the memory of flows, in which elements of MiddleClick keep their state",
        advice: "leave it out: elements that keep state of flows have tables of their own",
    },
    Absent {
        names: "HTTPIn HTTPOut TCPIn TCPOut TCPStateIN",
        purpose: "follows TCP connections in a context of MiddleClick, so that elements downstream may \
            change the length of their data",
        advice: "leave it out where elements only read: Juggler restores the order of segments; to change \
            the data of connections, use a proxy program on this machine, connected by KernelTap",
    },
    Absent {
        names: "WordMatcher",
        purpose: "finds, masks, replaces or removes words in the data of TCP connections",
        advice: "use Search to find a text in packets; to change the data of connections, use a proxy of \
            the machine, connected by KernelTap",
    },
    Absent {
        names: "CTXASCIIPrint CTXCRC CTXIPRoute MidStat UDPIn UDPOut",
        purpose: "enters or leaves a protocol in a context of MiddleClick, whose elements see streams \
            instead of packets",
        advice: "use CheckIPHeader, StripIPHeader and StripTransportHeader at the start, and Unstrip \
            and SetTCPChecksum or SetUDPChecksum at the end; IPReassembler and Juggler restore \
            datagrams and the order of segments",
    },
    Absent {
        names: "CTXIPLoadBalancer CTXIPLoadBalancerReverse",
        purpose: "balances flows in a context of MiddleClick",
        advice: "use FlowIPLoadBalancer and FlowIPLoadBalancerReverse",
    },
    Absent {
        names: "SimpleTCPReorder SimpleTCPRetransmitter TCPReorder",
        purpose: "restores the order of TCP segments",
        advice: "use Juggler, which does so for all flows",
    },
    Absent {
        names: "IPRewriterMap Shifter",
        purpose: "translates the addresses of flows",
        advice: "use IPRewriter, TCPRewriter or UDPRewriter",
    },
    Absent {
        names: "AddressTranslator ProtocolTranslator46 ProtocolTranslator64",
        purpose: "translates between IPv4 and IPv6 by a draft that RFC 6145 has replaced",
        advice: "no element replaces it; the kernel's translators (Jool) do NAT64",
    },
    Absent {
        names: "FlowMinLoadSwitch",
        purpose: "sends flows to the output with the least load",
        advice: "use FlowSwitch(LB_MODE awrr) or FlowSwitch(LB_MODE least)",
    },
    Absent {
        names: "RSSHashSwitch",
        purpose: "chooses outputs as a card's hash does",
        advice: "use HashSwitch or FlowSwitch",
    },
    Absent {
        names: "AggregateGroup AggregateHash CopyFlowID FlowPaint FlowPrint StoreFlowID",
        purpose: "keeps or shows a mark per flow",
        advice: "use AggregateIPFlows, which numbers flows, AggregatePaint, FlowCounter and Print",
    },
    Absent {
        names: "FlowRateLimiter",
        purpose: "limits the rate of each flow",
        advice: "use IPClassifier with a Shaper or RatedSplitter for each class, or IPRateMonitor",
    },
    Absent {
        names: "FlowIPOutputCombo",
        purpose: "combines elements for the output of a router",
        advice: "use IPOutputCombo",
    },
    Absent {
        names: "FlowRouter",
        purpose: "finds the flow's router of an older flow subsystem",
        advice: "use IPClassifier",
    },
    Absent {
        names: "FlowInfo",
        purpose: "overrides how packets flow through elements of other classes",
        advice: "leave it out: each class declares which packets go where",
    },
    Absent {
        names: "CounterTest CrossRSS DDIOTune FlowRandLoad FlowRuleInstaller FlowWorkPackage \
            KVSKeyGen RandLoad",
        purpose: "makes artificial load or research measurements",
        advice: "use WorkPackage, which makes load per packet",
    },
    Absent {
        names: "DeviceBalancer",
        purpose: "moves the load of an interface between cores while packets come",
        advice: "leave it out: workers get flows by StaticThreadSched, and by `--threads`",
    },
    Absent {
        names: "BalancedThreadSched",
        purpose: "moves tasks between threads",
        advice: "leave it out: elements are placed by StaticThreadSched, and by `--threads`",
    },
    Absent {
        names: "ConsistencyCheck StoreUDPTimeSeqRecord",
        purpose: "finds broken connections",
        advice: "use FlowCounter and CheckNumberPacket",
    },
    Absent {
        names: "AggregateCounterIMP",
        purpose: "is a part of another element",
        advice: "use AggregateCounter",
    },
    Absent {
        names: "IPSummaryDump_Anno IPSummaryDump_ICMP IPSummaryDump_IP IPSummaryDump_Link \
            IPSummaryDump_Payload IPSummaryDump_TCP IPSummaryDump_UDP",
        purpose: "is a part of the summary dumps",
        advice: "use ToIPSummaryDump and FromIPSummaryDump, which have it",
    },
    Absent {
        names: "IPFieldInfo IPNameInfo",
        purpose: "holds names that are always known",
        advice: "leave it out: names of fields, protocols, ports and ICMP types need no element",
    },
    Absent {
        names: "IndexTreesIPLookup",
        purpose: "is a part of the look-up by an index",
        advice: "use RadixIPLookup or DirectIPLookup",
    },
    Absent {
        names: "BufferConverter ChuckCheck CopyTCPSeq DupPath FlowWebGen Reframe SYNFlood SnoopTCP \
            StatelessTCPResponder TCPAck TCPBuffer TCPClientAck TCPConn TCPDemux TCPIPSend TCPReflector TCPStatus ToyTCP WebGen WebServer",
        purpose: "is a simple client or server of TCP or HTTP for tests",
        advice: "use FastTCPFlows and Socket, or a server of the machine, connected by KernelTap",
    },
    Absent {
        names: "TCPFragmenter",
        purpose: "cuts TCP segments to an MTU",
        advice: "use Segment, which cuts segments that a device or a Juggler has merged",
    },
    Absent {
        names: "ForceICMP ForceIP ForceTCP ForceUDP RandomUDPIPEncap",
        purpose: "makes packets valid after random bytes",
        advice: "use UDPIPEncap, IPEncap and SetIPChecksum, SetUDPChecksum or SetTCPChecksum",
    },
    Absent {
        names: "FastUDPFlowsIP6 FastUDPSourceIP6",
        purpose: "makes IPv6 packets of flows",
        advice: "use FastUDPFlows for IPv4, or InfiniteSource with UDPIP6Encap",
    },
    Absent {
        names: "IP6Drop",
        purpose: "drops packets of a fixed condition on IPv6",
        advice: "use Classifier",
    },
    Absent {
        names: "IP6SRDecap IP6SREncap IP6SRProcess",
        purpose: "handles segment routing in IPv6",
        advice: "use Classifier, StoreData and Strip",
    },
    Absent {
        names: "GTPLookup GTPTable",
        purpose: "keeps a table of tunnels of a mobile network",
        advice: "use GTPEncap and GTPDecap with fixed tunnels",
    },
    Absent {
        names: "ERSPANDecap",
        purpose: "removes headers of ERSPAN",
        advice: "use Strip, and StripGREHeader for the GRE header ahead of them",
    },
    Absent {
        names: "RFC2507Comp RFC2507Decomp",
        purpose: "compresses headers (RFC 2507)",
        advice: "no element replaces it",
    },
    Absent {
        names: "RIPSend",
        purpose: "sends routes by the protocol RIP",
        advice: "use a routing daemon of the machine, and the handlers of RadixIPLookup",
    },
    Absent {
        names: "DebugBridge",
        purpose: "prints messages of the spanning tree protocol of switches",
        advice: "use the handler msgs of EtherSpanTree, or Print",
    },
    Absent {
        names: "EtherPauseSource",
        purpose: "sends pause frames",
        advice: "use InfiniteSource with EtherEncap(0x8808, ...)",
    },
    Absent { names: "ARPAdvertiser", purpose: "announces addresses by ARP", advice: "use ARPFaker" },
    Absent {
        names: "FromCapDump FromDAGDump FromFlanDump FromMinDump FromNLANRDump \
            FromNetFlowSummaryDump ToIPFlowDumps ToMinDump",
        purpose: "reads or writes a format of traces of the 1990s",
        advice: "use FromDump and ToDump, or FromIPSummaryDump and ToIPSummaryDump, after a conversion \
            to pcap",
    },
    Absent {
        names: "FromTcpdump",
        purpose: "reads the text that tcpdump prints for packets",
        advice: "use FromDump with the capture that tcpdump has read or written (option -w)",
    },
    Absent {
        names: "MultiReplay Replay",
        purpose: "replays packets of several traces",
        advice: "use ReplayUnqueue",
    },
    Absent {
        names: "FromRawSocket IPFlowRawSockets RawSocket ToRawSocket",
        purpose: "sends and receives IP packets of the machine by raw sockets",
        advice: "use KernelTun, or FromDevice and ToDevice",
    },
    Absent {
        names: "HTTPServer",
        purpose: "answers HTTP requests for handlers",
        advice: "use `tidegate run --metrics`, which serves metrics and a page, or ControlSocket",
    },
    Absent {
        names: "MonitoringReportSocket",
        purpose: "sends measurements to a collector",
        advice: "use the metrics of `tidegate run --metrics`, or Socket",
    },
    Absent {
        names: "CounterFile",
        purpose: "writes counts to a file",
        advice: "use Counter, and a script with `save` or `append`",
    },
    Absent {
        names: "ChangeUID",
        purpose: "sets the user of the process",
        advice: "use the option --uid of `tidegate click`, or start the program as this user",
    },
    Absent {
        names: "UMLSwitch",
        purpose: "connects to switches of User-Mode Linux",
        advice: "use KernelTap",
    },
    Absent {
        names: "XDPLoader",
        purpose: "loads an XDP program",
        advice: "use FromXDP, which loads its own",
    },
    Absent {
        names: "DPDKDeviceClock LinuxClock MBGClock",
        purpose: "is a clock by other hardware",
        advice: "use TSCClock, or leave it out",
    },
    Absent { names: "PrintOld", purpose: "prints packets in an older format", advice: "use Print" },
    Absent {
        names: "PacketMemStats",
        purpose: "shows statistics of packet buffers",
        advice: "use `tidegate run`, whose report has them",
    },
    Absent {
        names: "CheckPacket CompareBlock ComparePackets",
        purpose: "makes packets comparable for tests",
        advice: "use ToDump, and compare the captures",
    },
    Absent {
        names: "PI",
        purpose: "drops packets by a controller of queue lengths (PI)",
        advice: "use RED, AdaptiveRED or CoDel",
    },
    Absent {
        names: "EXPUnqueue",
        purpose: "pulls packets at random intervals",
        advice: "use RatedUnqueue or DelayUnqueue",
    },
    Absent { names: "MinBatch", purpose: "joins packets to batches", advice: "use Batcher" },
    Absent {
        names: "EnsureHeadroom",
        purpose: "makes room ahead of packets",
        advice: "leave it out: every packet has 256 bytes of headroom",
    },
    Absent {
        names: "SpinlockPush",
        purpose: "marks the end of a locked part of a path that is pushed",
        advice: "use SpinlockAcquire and SpinlockRelease",
    },
    Absent {
        names: "FromHandler HandlerTask NullTask UpstreamNotifier",
        purpose: "calls handlers or runs tasks for tests",
        advice: "use Script",
    },
    Absent {
        names: "AtomicTest BatchElementTest BatchTest BigHashMapTest BigintTest BitvectorTest \
            CLPTest ConfParseTest CryptoTest DequeTest DevirtualizeTest ErrorTest FunctionTest \
            HashTableMPTest HashTableTest HeapTest JsonTest ListTest MTDieTest NeighborhoodTest \
            NotifierTest PacketTest QueueThreadTest1 QueueThreadTest2 QueueYankTest RCUTest \
            SchedOrderTest SortTest StringTest TaskThreadTest TestFlowSpace TimerTest \
            TokenBucketTest VectorTest",
        purpose: "tests Click itself",
        advice: "leave it out",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_in_one_group() {
        let names = ABSENT.iter().flat_map(|group| group.names.split(' '));
        let mut names: Vec<&str> = names.collect();
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')));
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
