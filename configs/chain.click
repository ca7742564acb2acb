// A service chain downstream of a Reframer: router, address translation, firewall, statistics of flows.
//
//   cargo run --release -- run configs/chain.click --clock trace
//
// Run it from the folder above this one. It is the chain of the Reframer paper. Interleaved packets are held for some
// microseconds and leave flow by flow, so that each function finds its state of a flow in the caches. `before` and
// `after` are the mean numbers of packets in a row of one flow, before and after the Reframer. `tidegate bench chain`
// measures the gain on your machine, and `tidegate advise FILE` says for a capture if a Reframer pays. For
// another capture, delay, network or address, add IN=FILE DELAY=64us INNER=10.0.0.0/8 OUTER=192.0.2.1 after the name.

define($IN configs/data/quickstart.pcap, $DELAY 64us, $INNER 10.1.0.1/32, $OUTER 192.0.2.1)

reframer :: Reframer($DELAY);

nat :: IPRewriter(pattern $OUTER 1024-65535 - - 0 1, drop, MAPPING_CAPACITY 1000000);

// Packets for the inside leave by output 0, packets for the outside by output 1.
routes :: RadixIPLookup($INNER 0, $OUTER/32 0, 0.0.0.0/0 192.0.2.254 1);

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> reframer
    -> CheckIPHeader(14)
    -> routes;
ether[1] -> Discard;

// Packets from inside go to input 0 of the translator, which gives them the outer address. Answers to the outer address
// go to input 1. The capture was recorded without a translator, so its answers get the outer address here first.
routes[1] -> DecIPTTL -> from_inside :: IPClassifier(tcp or udp, -) -> [0] nat;
routes[0] -> DecIPTTL -> from_outside :: IPClassifier(tcp or udp, -) -> StoreIPAddress($OUTER, dst) -> [1] nat;
from_inside[1] -> others :: Counter -> Discard;
from_outside[1] -> others;

nat[0] -> rules :: IPFilter(deny dst net 192.168.0.0/16, allow all, CACHING true) -> flows :: FlowCounter -> Discard;
nat[1] -> flows;

DriverManager(
    pause,
    print "packets in a row of one flow: before $(reframer.slf_in), after $(reframer.slf_out)",
    print "translated $(flows.packets), without a port $(others.count), mappings $(nat.table_size)",
    print "the largest flows:",
    print "$(flows.top 3)",
    stop)
