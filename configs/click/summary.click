// Writes one line of text for each IP packet: time, addresses, ports, protocol and length, in the format that IP
// summary tools read.
//
//   cargo run --release -- run configs/click/summary.click

define($IN configs/data/quickstart.pcap, $OUT summary-out.txt)

FromDump($IN, STOP true)
    -> ip :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> ToIPSummaryDump($OUT, FIELDS timestamp ip_src sport ip_dst dport ip_proto ip_len);
ip[1] -> Discard;
