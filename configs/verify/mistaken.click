// The rules of rules.click, tidied with a mistake: two rules are exchanged. docs/verify.md shows a packet that
// the two files treat differently.
//
//   cargo run --release -- check configs/verify/mistaken.click

define($IN configs/data/quickstart.pcap, $OUT rules-out.pcap)

FromDump($IN, STOP true)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> rules :: IPFilter(
        allow icmp type echo,
        allow tcp dst port 80 or 443,
        allow udp port 53,
        allow tcp opt ack,
        deny src net 10.0.0.0/8 && tcp dst port >= 8000,
        deny all)
    -> out :: ToDump($OUT, SNAPLEN 0);

ether[1] -> Discard;
