// The slicer: a firewall gets headers, and payloads are parked meanwhile.
//
//   cargo run --release -- run configs/slicer.click --clock trace
//
// Run it from the folder above this one. $CROSSED has the packets that cross to the firewall, $OUT the packets that
// leave after it: the same packets as without slicing. On interfaces the firewall may be another program, a namespace
// or a virtual machine; then there is a Slicer on each side of it (docs/slicer.md). For another capture, rules or
// length, add IN=FILE RULES=FILE THRESHOLD=200 after the name.

define($IN configs/data/quickstart.pcap, $CROSSED slicer-crossed-out.pcap, $OUT slicer-out.pcap,
    $RULES configs/data/firewall.rules, $THRESHOLD 500)

payloads :: PayloadTable(ENTRIES 4096);

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> Slice(payloads, THRESHOLD $THRESHOLD)
    -> ToDump($CROSSED, SNAPLEN 0)
    -> IPFilter(allow file $RULES)
    -> Splice(payloads)
    -> passed :: Counter
    -> ToDump($OUT, SNAPLEN 0);
ether[1] -> Discard;

DriverManager(
    pause,
    print "sliced $(payloads.sliced), joined $(payloads.spliced), short $(payloads.small), others $(payloads.unsuitable)",
    print "$(payloads.bytes_in) bytes, $(payloads.bytes_crossed) of them crossed",
    print "passed $(passed.count)",
    stop)
