// A load balancer: clients use one address, several servers share the work.
//
//   cargo run --release -- run configs/load-balancer.click --clock trace
//
// Run it from the folder above this one. The time stamps of the capture drive time, and so the time-outs. Each flow to
// the common address gets a server by consistent hashing. Its packets leave with the address of that server, and the
// flow keeps its server when servers are added or removed: after thirty requests the second server is removed, as for
// maintenance, and gets no new flows.
//
// The capture was recorded without servers behind the common address, so answers come from that address itself. Answers
// of servers would get the common address as their source. ICMP errors are treated like the packets that they quote.
// All other packets, including pings, are counted and dropped. For another capture or address, add IN=FILE OUT=FILE
// VIP=192.0.2.1 SERVERS=10.0.0.0/24 after the name; the list of servers is below.

define($IN configs/data/quickstart.pcap, $OUT balanced-out.pcap, $VIP 10.1.0.2, $SERVERS 10.2.0.0/24)

lb :: FlowIPLoadBalancer(VIP $VIP, DST 10.2.0.1, DST 10.2.0.2, DST 10.2.0.3, LB_MODE maglev);

requests :: Counter(COUNT_CALL 30 lb.remove_server 10.2.0.2);

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> IPReassembler
    -> error :: IPClassifier(icmp type unreachable or icmp type timeexceeded or icmp type parameterproblem, -)
    -> side :: IPClassifier(dst host $VIP, src net $SERVERS or src host $VIP, -);
error[1] -> data :: IPClassifier(tcp or udp, -) -> side;
data[1] -> others :: Counter -> Discard;
ether[1] -> Discard;

side[0] -> flows :: FlowCounter -> lb -> ttl :: DecIPTTL -> requests -> out :: ToDump($OUT, SNAPLEN 0, ENCAP IP);
side[1] -> FlowIPLoadBalancerReverse(lb) -> answers :: Counter -> out;
side[2] -> others;

DriverManager(
    pause,
    print "requests $(requests.count), answers $(answers.count), others $(others.count)",
    print "server, state, flows, packets, bytes:",
    print "$(lb.servers)",
    print "the largest flows:",
    print "$(flows.top 3)",
    stop)
