// A firewall for one host. Rules are tested from top to bottom, and the first rule that matches decides. Packets that
// pass are counted by rule and written to a capture.
//
//   cargo run --release -- run configs/click/firewall.click

define($IN configs/data/quickstart.pcap, $OUT firewall-out.pcap)

FromDump($IN, STOP true)
    -> ether :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> rules :: IPFilter(
        0 src net 10.0.0.0/8 && icmp type echo,         // pings from inside
        1 tcp opt syn && not tcp opt ack,               // new connections
        2 tcp opt ack,                                  // packets of a connection
        3 udp && (src or dst port 53),                  // DNS
        deny all);

ether[1] -> Discard;

rules[0] -> pings :: Counter -> out :: ToDump($OUT, SNAPLEN 0);
rules[1] -> starts :: Counter -> out;
rules[2] -> connections :: Counter -> out;
rules[3] -> names :: Counter -> out;

DriverManager(
    pause,
    print "pings $(pings.count), connections $(starts.count) + $(connections.count), names $(names.count)",
    print "written $(out.count)",
    stop)
