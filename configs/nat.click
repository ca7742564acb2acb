// A NAT gateway: hosts of an inner network share one outer address.
//
//   cargo run --release -- run configs/nat.click --clock trace
//
// Run it from the folder above this one. The time stamps of the capture drive time, and with it the time-outs. TCP and UDP
// get ports of the outer address, pings get identifiers, and ICMP errors about either are changed back with the packets that
// they quote. What comes from outside without being an answer is dropped.
//
// The capture was recorded without a gateway, so its answers are for the inner network: `readdress` gives them the outer
// address first, which is right as long as each host gets the ports that it asks for. Another capture, network or address:
// IN=FILE OUT=FILE INNER=10.0.0.0/8 OUTER=192.0.2.1 behind the name.

define($IN configs/data/quickstart.pcap, $OUT nat-out.pcap, $INNER 10.1.0.1/32, $OUTER 192.0.2.1)

IPRewriterPatterns(ports $OUTER 1024-65535 - -);

// RFC 5382 wants connections to hold for two hours and four minutes, also while data go one way only.
nat :: IPRewriter(pattern ports 0 1, drop, TCP_NODATA_TIMEOUT 7440, MAPPING_CAPACITY 1000000);
ping :: ICMPPingRewriter(pattern ports 0 1, drop, MAPPING_CAPACITY nat);

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> IPReassembler
    -> side :: IPClassifier(src net $INNER and dst net $INNER, src net $INNER, dst host $OUTER, dst net $INNER, -);
ether[1] -> Discard;

side[0] -> stays :: Counter -> Discard;
side[1] -> from_inside :: IPClassifier(tcp or udp, icmp type echo, -);
side[2] -> from_outside :: IPClassifier(tcp or udp, icmp type echo-reply, icmp, -);
side[3] -> readdress :: StoreIPAddress($OUTER, dst) -> from_outside;
side[4] -> others :: Counter -> Discard;

from_inside[0] -> [0] nat;
from_inside[1] -> [0] ping;
from_inside[2] -> Discard;

from_outside[0] -> [1] nat;
from_outside[1] -> [1] ping;
from_outside[2] -> errors :: ICMPRewriter(nat ping) -> inside :: Counter;
from_outside[3] -> Discard;

nat[0] -> ttl :: DecIPTTL -> outside :: Counter -> out :: ToDump($OUT, SNAPLEN 0, ENCAP IP);
ping[0] -> ttl;
nat[1] -> inside;
ping[1] -> inside -> out;

DriverManager(
    pause,
    print "to the outside $(outside.count), to the inside $(inside.count), within $(stays.count), others $(others.count)",
    print "mappings $(nat.table_size) and $(ping.table_size), none for $(nat.mapping_failures) flows",
    print "patterns $(nat.patterns)",
    stop)
