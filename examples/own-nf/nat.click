// The translator of this crate, between a client and its servers.
//
//   cargo run --release -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
//
// Run it from the repository's folder. IN=FILE OUT=FILE behind the name are another capture and where its packets go.

define($IN configs/data/quickstart.pcap, $OUT nat-out.pcap)

FromDump($IN)
    -> CheckIPHeader(14)
    -> tcp :: IPClassifier(tcp, -)
    -> side :: IPClassifier(src net 10.0.0.0/8, -)
    -> nat :: SprayedNAT(192.0.2.1)
    -> out :: ToDump($OUT, SNAPLEN 0);

side[1] -> [1] nat [1] -> out;
tcp[1] -> Discard;

DriverManager(pause, print "flows: $(nat.flows)", stop);
