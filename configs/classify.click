// Divides one capture into five captures: IPv4 by protocol, ARP, IPv6. All other packets are counted and dropped.
//
//   cargo run --release -- run configs/classify.click

define($IN configs/data/quickstart.pcap)

FromDump($IN, STOP true)
    -> class :: Classifier(12/0800 23/06, 12/0800 23/11, 12/0800 23/01, 12/0806, 12/86dd, -);

class[0] -> ToDump(tcp-out.pcap, SNAPLEN 0);
class[1] -> ToDump(udp-out.pcap, SNAPLEN 0);
class[2] -> ToDump(icmp-out.pcap, SNAPLEN 0);
class[3] -> ToDump(arp-out.pcap, SNAPLEN 0);
class[4] -> ToDump(ip6-out.pcap, SNAPLEN 0);
class[5] -> rest :: Counter -> Discard;
