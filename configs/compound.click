// A compound element with parameters, used twice with different addresses. Expired packets leave by its second output;
// a user who only needs the first output can ignore it.
//
//   cargo run --release -- run configs/compound.click

define($IN configs/data/quickstart.pcap)

elementclass Hop {
    SRC $src, DST $dst, OFFSET $offset |
    input -> CheckIPHeader($offset)
        -> ttl :: DecIPTTL
        -> EtherRewrite($src, $dst)
        -> output;
    ttl[1] -> [1] output;
}

// Packets arrive at the second router as the first one sent them.
FromDump($IN, STOP true)
    -> ip :: Classifier(12/0800, -)
    -> first :: Hop(SRC 02:00:00:00:00:03, DST 02:00:00:00:00:04, OFFSET 14)
    -> second :: Hop(SRC 02:00:00:00:00:05, DST 02:00:00:00:00:06, OFFSET 14)
    -> ToDump(hops-out.pcap, SNAPLEN 0);

ip[1] -> Discard;
first[1] -> expired :: Counter -> Discard;
second[1] -> expired;

DriverManager(pause, print "expired on the way: $(expired.count)", stop)
