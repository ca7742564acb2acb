// Count by protocol, check headers, decrement the time to live, rewrite Ethernet, write.
//
//   cargo run --release -- run configs/quickstart.click
//
// Run it from the folder above this one. Other captures and files: IN=FILE OUT=FILE behind the name.

define($IN configs/data/quickstart.pcap, $OUT quickstart-out.pcap)

FromDump($IN, STOP true)
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
    print "TCP      $(tcp.count)",
    print "UDP      $(udp.count)",
    print "ICMP     $(icmp.count)",
    print "other IP $(other_ip.count)",
    print "ARP      $(arp.count)",
    print "IPv6     $(ip6.count)",
    print "other    $(other.count)",
    print "bad header $(check.drops), expired $(expired.count), written $(out.count)",
    stop)
