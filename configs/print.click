// Prints each ARP packet, and the first bytes of each ICMP packet, with time stamps.
//
//   cargo run --release -- run configs/print.click

define($IN configs/data/quickstart.pcap)

FromDump($IN, STOP true)
    -> class :: Classifier(12/0806, 12/0800 23/01, -);

class[0] -> Print(arp, 42, TIMESTAMP true) -> Discard;
class[1] -> Print(icmp, 14, TIMESTAMP true) -> Strip(14) -> Print(ip, 20) -> Discard;
class[2] -> Discard;
