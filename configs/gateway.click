// A gateway: firewall, router, translator of addresses and ports.
//
//   cargo run --release -- run configs/gateway.click --clock trace
//
// Run it from the folder above this one. It is the chain of the SNF paper, with each function written as if it were
// alone: each function reads the header again, and two of them change the header and its checksum. `tidegate check`
// lists the elements that can be composed into one program, and the elements that prevent more. For another capture,
// network, address or rules, add IN=FILE OUT=FILE INNER=10.0.0.0/8 OUTER=192.0.2.1 RULES=FILE after the name.

define($IN configs/data/quickstart.pcap, $OUT gateway-out.pcap, $INNER 10.1.0.1/32, $OUTER 192.0.2.1,
    $RULES configs/data/firewall.rules, $MTU 1500)

elementclass Firewall {
    input -> rules :: IPFilter(allow file $RULES) -> output;
    rules[1] -> Discard
}

// Packets for the inside leave by output 0, packets for the outside by output 1.
elementclass Router {
    input -> routes :: RadixIPLookup($INNER 0, $OUTER/32 0, 0.0.0.0/0 192.0.2.254 1);
    routes[0] -> DropBroadcasts -> DecIPTTL -> [0] output;
    routes[1] -> DropBroadcasts -> DecIPTTL -> [1] output
}

// Packets from inside come by input 0 and leave by output 0, packets from outside by input and output 1. Packets of
// protocols other than TCP and UDP are dropped.
elementclass Translator {
    nat :: IPRewriter(pattern $OUTER 1024-65535 - - 0 1, drop, MAPPING_CAPACITY 1000000);
    input[0] -> out :: IPClassifier(tcp or udp, -) -> [0] nat;
    input[1] -> in :: IPClassifier(tcp or udp, -) -> [1] nat;
    out[1] -> Discard;
    in[1] -> Discard;
    nat[0] -> [0] output;
    nat[1] -> [1] output
}

firewall :: Firewall; router :: Router; translator :: Translator;

FromDump($IN) -> ether :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> firewall -> router;
ether[1] -> Discard;

// The capture was recorded without a translator: answers get the outer address first.
router[0] -> StoreIPAddress($OUTER, dst) -> [1] translator;
router[1] -> [0] translator;

translator[0] -> outside :: Counter -> IPFragmenter($MTU) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:fe)
    -> out :: ToDump($OUT, SNAPLEN 0);
translator[1] -> inside :: Counter -> IPFragmenter($MTU) -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> out;

DriverManager(
    pause,
    print "to the outside $(outside.count), to the inside $(inside.count)",
    print "$(translator/nat.table_size) mappings",
    stop)
