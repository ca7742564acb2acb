// The rules of rules.click, tidied: one rule for both ports, and no rule that never decides. This command proves that
// nothing has changed:
//
//   cargo run --release -- verify configs/verify/rules.click configs/verify/tidied.click

define($IN configs/data/quickstart.pcap, $OUT rules-out.pcap)

FromDump($IN, STOP true)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> rules :: IPFilter(
        allow icmp type echo,
        allow tcp dst port 80 or 443,
        allow udp port 53,
        allow tcp opt ack && not (tcp dst port >= 8000 && src net 10.0.0.0/8),
        deny all)
    -> out :: ToDump($OUT, SNAPLEN 0);

ether[1] -> Discard;
