// A NAT gateway: hosts of an inner network share one outer address.
//
//   cargo run --release -- run configs/nat.click --clock trace
//
// Run it from the folder above this one. The time stamps of the capture drive time, and with it the time-outs. TCP and UDP
// get ports of the outer address, pings get identifiers, and ICMP errors about either are changed back with the packets that
// they quote. What comes from outside without being an answer is dropped. Another capture, another inner network, another
// outer address: IN=FILE INNER=10.0.0.0/8 OUTER=192.0.2.1 behind the name; OUT=FILE for what leaves.

define($IN configs/data/quickstart.pcap, $OUT nat-out.pcap, $INNER 10.0.0.0/8, $OUTER 192.0.2.1)

IPRewriterPatterns(ports $OUTER 1024-65535 - -);

nat :: IPRewriter(pattern ports 0 1, drop, MAPPING_CAPACITY 1000000);
ping :: ICMPPingRewriter(pattern ports 0 1, drop, MAPPING_CAPACITY nat);

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> IPReassembler
    -> side :: IPClassifier(dst host $OUTER, src net $INNER, -);
ether[1] -> Discard;

// From outside: answers, or errors about what was sent.
side[0] -> in :: IPClassifier(tcp or udp, icmp type echo-reply, icmp, -);
in[0] -> [1] nat;
in[1] -> [1] ping;
in[2] -> errors :: ICMPRewriter(nat ping) -> inside :: Counter;
in[3] -> Discard;

// From inside; what is for the inner network stays there.
side[1] -> local :: IPClassifier(dst net $INNER, tcp or udp, icmp type echo, -);
local[0] -> stays :: Counter -> Discard;
local[1] -> [0] nat;
local[2] -> [0] ping;
local[3] -> Discard;

// Neither from inside nor for us.
side[2] -> others :: Counter -> Discard;

nat[0] -> ttl :: DecIPTTL -> outside :: Counter -> out :: ToDump($OUT, SNAPLEN 0);
ping[0] -> ttl;
nat[1] -> inside;
ping[1] -> inside -> ToDump($OUT, SNAPLEN 0, UNBUFFERED true);

DriverManager(
    pause,
    print "to the outside $(outside.count), to the inside $(inside.count), within $(stays.count), others $(others.count)",
    print "mappings $(nat.table_size) and $(ping.table_size), none for $(nat.mapping_failures) flows",
    stop)
