// All five mechanisms at once: TCP is put in order and merged, flows leave in bursts, payloads are parked while headers
// go through a firewall, a router and a translator, which become one program; and several cores share the packets.
//
//   cargo run --release -- run configs/all.click --synthesize=all --threads 2 --steering auto
//
// Run it from the folder above this one. `check` instead of `run` shows which elements prevent which mechanism. If you
// delete the line of a mechanism (for the slicer both lines), everything else works as before. For another capture, add
// IN=FILE OUT=FILE after the name.

define($IN configs/data/quickstart.pcap, $OUT all-out.pcap)

payloads :: PayloadTable;

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> Juggler(OFO_TIMEOUT 500us)
    -> Reframer(64us)
    -> Slice(payloads)
    -> crossed :: Counter
    -> Strip(14)
    -> CheckIPHeader
    -> IPFilter(deny tcp && dst port 23, deny udp && dst port 161, allow all)
    -> GetIPAddress(16)
    -> routes :: RadixIPLookup(10.0.0.0/8 0, 192.168.0.0/16 0, 0.0.0.0/0 1);

routes[0] -> inside :: Counter
    -> DecIPTTL
    -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
    -> out :: Null;
routes[1] -> IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)
    -> outside :: Counter
    -> DecIPTTL
    -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2)
    -> out;
out -> Splice(payloads)
    -> dump :: ToDump($OUT, SNAPLEN 0);
ether[1] -> others :: Counter
    -> dump;

DriverManager(
    pause,
    print "inside $(inside.count), outside $(outside.count), not IPv4 $(others.count)",
    print "sliced $(payloads.sliced), joined $(payloads.spliced); $(payloads.bytes_in) bytes, $(payloads.bytes_crossed) of them crossed",
    stop)
