// The firewall of this crate: at most so many connections from one side.
//
//   cargo run --release -p tidegate-own-nf -- run examples/own-nf/firewall.click LIMIT=20 --threads 2 --steering spray
//
// Run it from the repository's folder. IN=FILE OUT=FILE behind the name are another capture and where its packets go.

define($IN configs/data/quickstart.pcap, $OUT firewall-out.pcap, $LIMIT 100)

FromDump($IN)
    -> CheckIPHeader(14)
    -> side :: IPClassifier(src net 10.0.0.0/8, -)
    -> limit :: ConnectionLimit($LIMIT)
    -> out :: ToDump($OUT, SNAPLEN 0);

side[1] -> [1] limit [1] -> out;

DriverManager(pause, print "open: $(limit.open), refused: $(limit.refused)", stop);
