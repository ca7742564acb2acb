// A NAT gateway: hosts of an inner network share one outer address.
//
//   cargo run --release -- run configs/nat.click --clock trace
//
// Run it from the folder above this one. The time stamps of the capture drive time, and so the time-outs. TCP and UDP
// get ports of the outer address, pings get identifiers. ICMP errors about either, from inside and from outside, are
// translated together with the packets that they quote. Packets from outside that are no answers are dropped. Packets
// from inside to the outer address come back to the inside with outer addresses and ports as sources (hairpinning). As
// for packets from outside, the receiver must have sent before. docs/nat.md lists the requirements of RFCs, and the
// test for each.
//
// The capture was recorded without a gateway, so its answers are addressed to the inner network. `readdress` first
// gives them the outer address; this works as long as each flow keeps its own port. For another capture, network,
// address, MTU or limit on the gateway's own messages, add IN=FILE OUT=FILE INNER=10.0.0.0/8 OUTER=192.0.2.1
// OUTER_MTU=1500 ERRORS=100 after the name. With OPEN=false, only hosts to which an inner host has sent may send to it;
// HOST_CAPACITY=1000 gives each host fewer mappings.

define($IN configs/data/quickstart.pcap, $OUT nat-out.pcap, $INNER 10.1.0.1/32, $OUTER 192.0.2.1,
    $INNER_MTU 1500, $OUTER_MTU 1500, $ERRORS 1000, $OPEN true, $HOST_CAPACITY 10000)

IPRewriterPatterns(ports $OUTER 1024-65535 - -);

// TCP_NODATA_TIMEOUT: RFC 5382 requires that connections hold for two hours and four minutes, also while only one side
// sends data. INDEPENDENT_MAPPING: each port of an inside host has one outer port, whatever its peers are.
// INDEPENDENT_FILTERING: any host may send to an outer port that is in use (OPEN). SUBSCRIBER_CAPACITY: each host has a
// maximum number of mappings. Packets from outside without a mapping leave by output 2 (input 1), and, after they have
// waited, by output 3 (input 2).
nat :: IPRewriter(pattern ports 0 1, pass 2, pass 3, TCP_NODATA_TIMEOUT 7440, MAPPING_CAPACITY 1000000,
    INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING $OPEN, SUBSCRIBER_CAPACITY $HOST_CAPACITY);
ping :: ICMPPingRewriter(pattern ports 0 1, drop, MAPPING_CAPACITY nat,
    INDEPENDENT_MAPPING true, SUBSCRIBER_CAPACITY $HOST_CAPACITY, OTHER_QUERIES true);

// Translated packets go to the outside, or, for the outer address, back to the inside (hairpinning).
to_outside :: IPClassifier(dst host $OUTER, -);
to_inside :: DecIPTTL;

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> IPReassembler
    -> side :: IPClassifier(src net $INNER and dst net $INNER, src net $INNER, dst host $OUTER, dst net $INNER, -);
ether[1] -> Discard;

side[0] -> stays :: Counter -> Discard;
// The time to live is decremented before the translation, so that expired packets do not make mappings.
side[1] -> hops :: DecIPTTL -> from_inside :: IPClassifier(tcp or udp,
    (icmp type echo or icmp type 13 or icmp type 17) and not dst host $OUTER, icmp, -);
side[2] -> from_outside :: IPClassifier(tcp or udp,
    icmp type echo-reply or icmp type 14 or icmp type 18, icmp, -);
side[3] -> readdress :: StoreIPAddress($OUTER, dst) -> from_outside;
side[4] -> others :: Counter -> Discard;

from_inside[0] -> [0] nat;
from_inside[1] -> [0] ping;
// Errors from inside get the outer address as their source, because inside addresses are unknown outside.
from_inside[2] -> errors_out :: ICMPRewriter(nat ping) -> StoreIPAddress($OUTER, src) -> to_outside;
from_inside[3] -> Discard;

from_outside[0] -> [1] nat;
from_outside[1] -> [1] ping;
from_outside[2] -> errors_in :: ICMPRewriter(nat ping) -> to_inside;
from_outside[3] -> Discard;

nat[0] -> to_outside;
ping[0] -> to_outside;
to_outside[0] -> hairpins :: Counter -> from_outside;
to_outside[1] -> size_out :: IPFragmenter($OUTER_MTU) -> outside :: Counter -> out :: ToDump($OUT, SNAPLEN 0, ENCAP IP);

// A SYN from outside for which no mapping exists is answered with port unreachable, but only after six seconds, because
// both hosts may be opening a connection to each other (RFC 5382). The paint 9 marks packets that have waited. If the
// inside host has opened the connection meanwhile, there is no answer, and the SYN is dropped.
nat[1] -> late :: CheckPaint(9);
late[0] -> Discard;
late[1] -> to_inside;
nat[2] -> strangers :: IPClassifier(tcp opt syn and not tcp opt ack, -);
strangers[0] -> Paint(9) -> Queue(1000) -> DelayUnqueue(6) -> [2] nat;
strangers[1] -> Discard;
ping[1] -> to_inside -> size_in :: IPFragmenter($INNER_MTU) -> inside :: Counter -> out;

// The gateway's own messages, at most ERRORS a second. They quote packets in the form that the packets had here, so
// messages about translated packets must be translated like other errors. The paint says which way a message takes.
hops[1] -> ICMPError($OUTER, timeexceeded) -> Paint(0) -> limit :: RatedSplitter($ERRORS) -> way :: PaintSwitch;
size_out[1] -> ICMPError($OUTER, unreachable, needfrag, PMTU $OUTER_MTU) -> Paint(1) -> limit;
to_inside[1] -> ICMPError($OUTER, timeexceeded) -> Paint(2) -> limit;
size_in[1] -> ICMPError($OUTER, unreachable, needfrag, PMTU $INNER_MTU) -> Paint(2) -> limit;
nat[3] -> ICMPError($OUTER, unreachable, port) -> Paint(3) -> limit;
way[0] -> inside;
way[1] -> errors_in;
way[2] -> errors_out;
way[3] -> told :: IPClassifier(dst host $OUTER, -);
told[0] -> errors_in;
told[1] -> outside;
limit[1] -> limited :: Counter -> Discard;

DriverManager(
    pause,
    print "to the outside $(outside.count), to the inside $(inside.count), within $(stays.count), others $(others.count)",
    print "mappings $(nat.table_size) and $(ping.table_size), none for $(nat.mapping_failures) flows",
    print "patterns $(nat.patterns)",
    stop)
