// Holds packets for microseconds so that flows leave in bursts; then counts by protocol, checks headers, decrements the
// time to live, rewrites Ethernet addresses, and writes a capture.
//
//   cargo run --release -- run configs/quickstart.click --clock trace
//
// Run it from the folder above this one. The time stamps of the capture drive time; without `--clock trace` the
// machine's clock does, and packets come as fast as they can be read. For another capture, output file or delay, add
// IN=FILE OUT=FILE DELAY=16us after the name. DELAY=0 shows the chain without holding any packet.

define($IN configs/data/quickstart.pcap, $OUT quickstart-out.pcap, $DELAY 64us)

FromDump($IN)
    -> reframer :: Reframer($DELAY)
    -> ether :: Classifier(12/0800, 12/0806, 12/86dd, -);

ether[0] -> check :: CheckIPHeader(14)
    -> protocol :: Classifier(23/06, 23/11, 23/01, -);
ether[1] -> arp :: Counter -> Discard;
ether[2] -> ip6 :: Counter -> Discard;
ether[3] -> other :: Counter -> Discard;

protocol[0] -> tcp :: Counter -> ttl :: DecIPTTL;
protocol[1] -> udp :: Counter -> ttl;
protocol[2] -> icmp :: Counter -> ttl;
protocol[3] -> other_ip :: Counter -> ttl;

ttl[0] -> EtherRewrite(02:00:00:00:00:03, 02:00:00:00:00:04)
    -> out :: ToDump($OUT, SNAPLEN 0);
ttl[1] -> expired :: Counter -> Discard;

DriverManager(
    pause,
    print "packets in a row of one flow (SLF)",
    print "  as they came           $(reframer.slf_in)",
    print "  after the reframer     $(reframer.slf_out)",
    print "",
    print "held for less than       packets",
    print "$(reframer.hold_times)",
    print "",
    print "TCP $(tcp.count), UDP $(udp.count), ICMP $(icmp.count), other IP $(other_ip.count)",
    print "ARP $(arp.count), IPv6 $(ip6.count), other $(other.count)",
    print "bad header $(check.drops), expired $(expired.count), written $(out.count)",
    stop)
