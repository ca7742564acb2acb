// A rule set that has grown over time: `check` names the rule that never decides. tidied.click has the tidied rules.
//
//   cargo run --release -- check configs/verify/rules.click
//   cargo run --release -- verify configs/verify/rules.click configs/verify/tidied.click

define($IN configs/data/quickstart.pcap, $OUT rules-out.pcap)

FromDump($IN, STOP true)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> rules :: IPFilter(
        allow icmp type echo,
        allow tcp dst port 80,
        allow tcp dst port 443,
        allow udp port 53,
        allow udp src port 53 && src net 10.0.0.0/8,
        deny src net 10.0.0.0/8 && tcp dst port >= 8000,
        allow tcp opt ack,
        deny all)
    -> out :: ToDump($OUT, SNAPLEN 0);

ether[1] -> Discard;
