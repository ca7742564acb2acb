// Two hosts on an Ethernet switch: one pings the other. Each host finds the other's Ethernet address by ARP, and
// answers ARP requests for its own address; the first ping waits for the ARP answer.
//
//   cargo run --release -- run configs/click/arp.click --clock trace -H answers.count -H one/arp.table -H lan.table

define($PINGS 100)

// Input and output 0 are the wire; input and output 1 are the packets that the host itself sends and receives.
elementclass Host {
    $ip, $mac |
    input [0]
        -> HostEtherFilter($mac)
        -> kinds :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    kinds [0] -> ARPResponder($ip $mac) -> [0] output;
    kinds [1] -> [1] arp :: ARPQuerier($ip, $mac);
    kinds [2] -> Strip(14) -> CheckIPHeader -> [1] output;
    kinds [3] -> Discard;
    input [1] -> GetIPAddress(16) -> arp -> [0] output;
}

lan :: EtherSwitch;
one :: Host(10.0.0.1, 2:0:0:0:0:1);
two :: Host(10.0.0.2, 2:0:0:0:0:2);
one [0] -> [0] lan [0] -> [0] one;
two [0] -> [1] lan [1] -> [0] two;

ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 0.01, LIMIT $PINGS) -> [1] one;
one [1] -> answers :: Counter -> Discard;
two [1] -> ICMPPingResponder -> [1] two;
