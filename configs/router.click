// An IPv4 router between two networks, after RFC 1812: docs/router.md describes it, and lists the test for each
// requirement.
//
//   cargo run --release -- run configs/router.click --clock trace
//
// Run it from the folder above this one. The captures are the input of the two interfaces; the output of each interface
// is written to a capture. To make a router of your own of it, give the interfaces your addresses, add routes to `rt`,
// and replace FromDump and ToDump by your own sources and sinks. For another capture, MTU or limit on ICMP messages,
// add LEFT_IN=FILE RIGHT_MTU=1500 ERRORS=100 after the name.

define(
    $LEFT_IN configs/data/router-left.pcap, $LEFT_OUT router-left-out.pcap, $LEFT_MTU 1500,
    $RIGHT_IN configs/data/router-right.pcap, $RIGHT_OUT router-right-out.pcap, $RIGHT_MTU 1280,
    $ERRORS 1000)

// The router's own addresses: each interface has an address with the prefix of its network, and an Ethernet address.
AddressInfo(
    left 10.1.0.254/24 02:00:00:00:01:fe,
    right 10.2.0.254/24 02:00:00:00:02:fe)

// What comes in by an interface: IPv4 packets leave by output 0, ARP replies by 1, answers to ARP requests by 2.
elementclass Receive { $color, $name |
    input -> HostEtherFilter($name)
        -> kind :: Classifier(12/0800, 12/0806 20/0002, 12/0806 20/0001, -);
    kind[0] -> IPInputCombo($color, INTERFACES left right) -> output;
    kind[1] -> [1] output;
    kind[2] -> ARPResponder($name) -> [2] output;
    kind[3] -> Discard;
}

// What leaves by an interface: packets by output 0, messages about those that cannot by output 1. The messages come from
// the address of the interface that they leave by (FixIPSrc), whatever is written here.
elementclass Send { $color, $name, $mtu |
    input -> DropBroadcasts
        -> back :: PaintTee($color)
        -> options :: IPGWOptions($name, OTHERADDRS left right)
        -> FixIPSrc($name)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> output;
    // There is a shorter way for hosts on the network that the packet came from.
    back[1] -> here :: IPClassifier(src net $name:net, -);
    here[0] -> ICMPError($name, redirect, host, BADADDRS left:bcast right:bcast) -> [1] output;
    here[1] -> Discard;
    options[1] -> ICMPError($name, parameterproblem, 0, BADADDRS left:bcast right:bcast) -> [1] output;
    ttl[1] -> ICMPError($name, timeexceeded, transit, BADADDRS left:bcast right:bcast) -> [1] output;
    size[1] -> ICMPError($name, unreachable, needfrag, BADADDRS left:bcast right:bcast, PMTU $mtu) -> [1] output;
}

// What is for the router itself: it answers pings (output 0), and says that there is nothing else (output 1).
elementclass Local {
    input -> IPReassembler
        -> kind :: IPClassifier(icmp type echo, icmp, udp, -);
    kind[0] -> CheckICMPHeader -> ICMPPingResponder -> output;
    kind[1] -> Discard;
    kind[2] -> ICMPError(left, unreachable, port, BADADDRS left:bcast right:bcast) -> [1] output;
    kind[3] -> ICMPError(left, unreachable, protocol, BADADDRS left:bcast right:bcast) -> [1] output;
}

// Addresses that no packet on a wire has: this network, loopback, groups as sources, and what is reserved.
martian :: IPClassifier(
    src net 0.0.0.0/8 or src net 127.0.0.0/8 or src net 224.0.0.0/3
        or dst net 0.0.0.0/8 or dst net 127.0.0.0/8 or (dst net 240.0.0.0/4 and not dst host 255.255.255.255),
    -);

// Outputs: 0 the router itself, 1 left, 2 right, 3 broadcasts and groups, 4 no way to go.
rt :: RadixIPLookup(
    left:ip/32 0, right:ip/32 0,
    10.1.0.0/32 3, left:bcast/32 3, 10.2.0.0/32 3, right:bcast/32 3, 255.255.255.255/32 3, 224.0.0.0/4 3,
    10.1.0.0/24 1, 10.2.0.0/24 2,
    10.9.0.0/16 10.2.0.2 2,
    0.0.0.0/0 4);

// Messages of the router: no more than so many a second, and with precedence over other traffic (internetwork control).
errors :: RatedSplitter($ERRORS) -> SetIPDSCP(48) -> sent :: Counter -> rt;
errors[1] -> limited :: Counter -> Discard;

to_left :: ToDump($LEFT_OUT, SNAPLEN 0, ENCAP ETHER);
to_right :: ToDump($RIGHT_OUT, SNAPLEN 0, ENCAP ETHER);
left_arp :: ARPQuerier(left, GIVE_UP 3) -> to_left;
left_arp[1] -> to_left;
right_arp :: ARPQuerier(right, GIVE_UP 3) -> to_right;
right_arp[1] -> to_right;
// Nobody has that address, or does not answer.
left_arp[2] -> nobody :: ICMPError(left, unreachable, host, BADADDRS left:bcast right:bcast) -> errors;
right_arp[2] -> nobody;

FromDump($LEFT_IN) -> from_left :: Receive(1, left) -> martian;
from_left[1] -> [1] left_arp;
from_left[2] -> to_left;

FromDump($RIGHT_IN) -> from_right :: Receive(2, right) -> martian;
from_right[1] -> [1] right_arp;
from_right[2] -> to_right;

martian[0] -> martians :: Counter -> Discard;
martian[1] -> received :: Counter -> rt;

rt[0] -> local :: Local -> rt;
local[1] -> errors;
rt[1] -> forward_left :: Send(1, left, $LEFT_MTU) -> [0] left_arp;
rt[2] -> forward_right :: Send(2, right, $RIGHT_MTU) -> [0] right_arp;
rt[3] -> groups :: Counter -> Discard;
rt[4] -> ICMPError(left, unreachable, net, BADADDRS left:bcast right:bcast) -> errors;
forward_left[1] -> errors;
forward_right[1] -> errors;

DriverManager(
    pause,
    print "received $(received.count), written to the left $(to_left.count), to the right $(to_right.count)",
    print "messages $(sent.count), above the limit $(limited.count)",
    print "martians $(martians.count), broadcasts and groups $(groups.count)",
    print "neighbours",
    print "$(left_arp.table)$(right_arp.table)",
    stop)
