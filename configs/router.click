// An IPv4 router between two networks, after RFC 1812: docs/router.md describes it, and lists the test for each
// requirement.
//
//   cargo run --release -- run configs/router.click --clock trace
//
// Run it from the folder above this one. The captures are the input of the two interfaces; the output of each interface
// is written to a capture. To make a router of your own, give the interfaces your addresses, change the networks and
// routes in `rt`, and replace FromDump and ToDump by your own sources and sinks. For another capture, MTU or limit on
// ICMP messages, add LEFT_IN=FILE RIGHT_MTU=1500 ERRORS=100 after the name.

define(
    $LEFT_IN configs/data/router-left.pcap, $LEFT_OUT router-left-out.pcap, $LEFT_MTU 1500,
    $RIGHT_IN configs/data/router-right.pcap, $RIGHT_OUT router-right-out.pcap, $RIGHT_MTU 1280,
    $ERRORS 1000)

// The router's own addresses: each interface has an address with the prefix of its network, and an Ethernet address.
AddressInfo(
    left 10.1.0.254/24 02:00:00:00:01:fe,
    right 10.2.0.254/24 02:00:00:00:02:fe)

// Handles the packets that an interface receives: IPv4 packets leave by output 0, ARP replies by output 1, and answers
// to ARP requests by output 2.
elementclass Receive { $color, $name |
    input -> HostEtherFilter($name)
        -> kind :: Classifier(12/0800, 12/0806 20/0002, 12/0806 20/0001, -);
    kind[0] -> IPInputCombo($color, INTERFACES left right) -> output;
    kind[1] -> [1] output;
    kind[2] -> ARPResponder($name) -> [2] output;
    kind[3] -> Discard;
}

// Handles the packets that an interface sends: packets leave by output 0, and ICMP messages about packets that cannot
// be sent by output 1. FixIPSrc gives a message the address of the interface by which it leaves, whatever its source
// here.
elementclass Send { $color, $name, $mtu |
    input -> DropBroadcasts
        -> back :: PaintTee($color)
        -> options :: IPGWOptions($name, OTHERADDRS left right)
        -> FixIPSrc($name)
        -> ttl :: DecIPTTL
        -> size :: IPFragmenter($mtu)
        -> output;
    // The packet leaves by the interface by which it came: if its sender is on that network, there is a shorter way.
    back[1] -> here :: IPClassifier(src net $name:net, -);
    here[0] -> ICMPError($name, redirect, host, BADADDRS left:bcast right:bcast) -> [1] output;
    here[1] -> Discard;
    options[1] -> ICMPError($name, parameterproblem, 0, BADADDRS left:bcast right:bcast) -> [1] output;
    ttl[1] -> ICMPError($name, timeexceeded, transit, BADADDRS left:bcast right:bcast) -> [1] output;
    size[1] -> ICMPError($name, unreachable, needfrag, BADADDRS left:bcast right:bcast, PMTU $mtu) -> [1] output;
}

// Handles packets for the router itself: answers to pings leave by output 0. Output 1 has ICMP messages that say that
// the router has no such port or protocol.
elementclass Local {
    input -> IPReassembler
        -> kind :: IPClassifier(icmp type echo, icmp, udp, -);
    kind[0] -> CheckICMPHeader -> ICMPPingResponder -> output;
    kind[1] -> Discard;
    kind[2] -> ICMPError(left, unreachable, port, BADADDRS left:bcast right:bcast) -> [1] output;
    kind[3] -> ICMPError(left, unreachable, protocol, BADADDRS left:bcast right:bcast) -> [1] output;
}

// Packets with addresses that are not valid on a wire: this network, loopback, groups as sources, reserved addresses.
martian :: IPClassifier(
    src net 0.0.0.0/8 or src net 127.0.0.0/8 or src net 224.0.0.0/3
        or dst net 0.0.0.0/8 or dst net 127.0.0.0/8 or (dst net 240.0.0.0/4 and not dst host 255.255.255.255),
    -);

// Outputs: 0 the router itself, 1 left, 2 right, 3 broadcasts and groups, 4 no route.
rt :: RadixIPLookup(
    left:ip/32 0, right:ip/32 0,
    10.1.0.0/32 3, left:bcast/32 3, 10.2.0.0/32 3, right:bcast/32 3, 255.255.255.255/32 3, 224.0.0.0/4 3,
    10.1.0.0/24 1, 10.2.0.0/24 2,
    10.9.0.0/16 10.2.0.2 2,
    0.0.0.0/0 4);

// ICMP messages of the router: at most ERRORS a second, with precedence over other traffic (internetwork control).
errors :: RatedSplitter($ERRORS) -> SetIPDSCP(48) -> sent :: Counter -> rt;
errors[1] -> limited :: Counter -> Discard;

to_left :: ToDump($LEFT_OUT, SNAPLEN 0, ENCAP ETHER);
to_right :: ToDump($RIGHT_OUT, SNAPLEN 0, ENCAP ETHER);
left_arp :: ARPQuerier(left, GIVE_UP 3) -> to_left;
left_arp[1] -> to_left;
right_arp :: ARPQuerier(right, GIVE_UP 3) -> to_right;
right_arp[1] -> to_right;
// No host answers for this address within GIVE_UP seconds.
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
