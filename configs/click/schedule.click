// Three classes of traffic share a link of 1 Mbit/s. Control traffic always goes first; the two other classes share the
// rest in the proportion 3 to 1. Each class has a queue of its own, so that no class can fill the queue of another.
//
//   cargo run --release -- run configs/click/schedule.click --clock trace

define($IN configs/data/quickstart.pcap, $RATE 125kBps)

FromDump($IN)
    -> ip :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> class :: IPClassifier(icmp, tcp, -);

ip[1] -> control :: Queue(64);
class[0] -> control;
class[1] -> fast :: Queue(256);
class[2] -> slow :: Queue(256);

first :: PrioSched;
shares :: StrideSched(3, 1);
control -> [0] first;
fast -> [0] shares;
slow -> [1] shares;
shares -> [1] first;

first -> link :: BandwidthRatedUnqueue($RATE) -> sent :: AverageCounter -> Discard;

DriverManager(
    pause,
    print "sent $(sent.count) packets, $(sent.byte_count) bytes, left $(control.length) $(fast.length) $(slow.length)",
    stop)
