// The slicer: a firewall sees headers, and payloads wait aside.
//
//   cargo run --release -- run configs/slicer.click --clock trace
//
// Run it from the folder above this one. What crosses to the firewall is in $CROSSED, what leaves behind it in $OUT: the same
// packets as without slicing. On interfaces the firewall may be another program, a namespace or a virtual machine; then a
// Slicer stands on each side of it (docs/slicer.md). Another capture, other rules, other lengths: IN=FILE RULES=FILE
// THRESHOLD=200 behind the name.

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
