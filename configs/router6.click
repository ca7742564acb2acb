// An IPv6 router between two networks, after RFC 8200, RFC 4443 and RFC 4861: docs/router.md describes it, and lists
// the test for each requirement.
//
//   cargo run --release -- run configs/router6.click --clock trace
//
// Run it from the folder above this one. The captures are the input of the two interfaces; the output of each interface
// is written to a capture. To make a router of your own, give the interfaces your addresses (also the prefixes in
// routes, and the bytes given to `Send`), add routes to `rt`, and replace FromDump and ToDump by your own sources and
// sinks. For another capture, MTU or limit on ICMPv6 messages, add LEFT_IN=FILE RIGHT_MTU=1500 ERRORS=100 after the
// name.

define(
    $LEFT_IN configs/data/router6-left.pcap, $LEFT_OUT router6-left-out.pcap, $LEFT_MTU 1500,
    $RIGHT_IN configs/data/router6-right.pcap, $RIGHT_OUT router6-right-out.pcap, $RIGHT_MTU 1280,
    $ERRORS 1000)

// The router's own addresses. On both links it also has the address fe80::fe.
AddressInfo(
    left 2001:db8:1::fe 02:00:00:00:01:fe,
    right 2001:db8:2::fe 02:00:00:00:02:fe,
    link fe80::fe)

// Handles the packets that an interface receives: IPv6 packets leave by output 0, neighbour advertisements by output 1,
// and answers to solicitations by output 2. Messages to hosts on the link leave by output 3: they need no route.
elementclass Receive { $color, $name |
    input -> HostEtherFilter($name)
        -> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
    kind[0] -> IP6NDAdvertiser($name:ip6 fe80::fe $name:eth, OVERRIDE true) -> [2] output;
    kind[1] -> [1] output;
    kind[2] -> Strip(14)
        -> CheckIP6Header(PROCESS_EH true)
        -> Paint($color)
        -> GetIP6Address(24)
        // Sources that are a group, the unspecified address or the loopback address; destinations that are the
        // unspecified address or the loopback address.
        -> scope :: Classifier(8/ff,
            8/00000000000000000000000000000000%fffffffffffffffffffffffffffffffe,
            24/00000000000000000000000000000000%fffffffffffffffffffffffffffffffe,
            8/fe80%ffc0, -);
    kind[3] -> Discard;
    scope[0] -> martians :: Counter -> Discard;
    scope[1] -> martians;
    scope[2] -> martians;
    // Packets from a link-local address may go only to the router itself.
    scope[3] -> near :: LookupIP6Route(left/128 0, right/128 0, link/128 0, fe80::/10 1, ff00::/8 1, ::/0 2);
    near[0] -> output;
    near[1] -> Discard;
    near[2] -> ICMP6Error($name, 1, 2) -> RatedSplitter($ERRORS) -> [3] output;
    scope[4] -> output;
}

// Handles the packets that an interface sends: packets leave by output 0, and messages about packets that cannot be
// sent by output 1. Output 2 has redirects for hosts of the network that have a shorter way. `prefix` is the prefix of
// the network in hexadecimal digits.
elementclass Send { $color, $name, $mtu, $prefix |
    input -> DropBroadcasts
        -> back :: PaintTee($color)
        -> hops :: DecIP6HLIM
        -> size :: CheckLength($mtu)
        -> output;
    back[1] -> here :: Classifier(8/$prefix, -);
    here[0] -> ICMP6Error(link, 137, 0) -> RatedSplitter($ERRORS) -> [2] output;
    here[1] -> Discard;
    hops[1] -> ICMP6Error($name, 3, 0) -> [1] output;
    size[1] -> ICMP6Error($name, 2, 0, PMTU $mtu) -> [1] output;
}

// Handles packets for the router itself: it answers pings and routing headers with segments left, and sends messages
// that it has no such port or protocol. Answers and messages to link-local addresses leave by output 1, other answers
// by output 0, other messages by output 2. Other packets with extension headers get no answer, because extension
// headers are not parsed.
elementclass Local {
    // Outputs: 0 a routing header with segments left; 1 an echo request, 2 other ICMPv6; 3 fragments; 4 UDP; 5 no data
    // after the header; 6 hop-by-hop options, 7 destination options, 8 a routing header without segments left; 9
    // others.
    input -> kind :: Classifier(6/2b !43/00, 6/3a 40/80, 6/3a, 6/2c, 6/11, 6/3b, 6/00, 6/3c, 6/2b, -);
    kind[0] -> Paint(42, ICMP_PARAMPROB) -> ICMP6Error(left, 4, 0) -> said :: Classifier(24/fe80%ffc0, -);
    said[0] -> RatedSplitter($ERRORS) -> [1] output;
    said[1] -> [2] output;
    kind[1] -> IP6Mirror
        -> StoreData(40, \<81>)
        -> StoreData(7, \<40>)
        -> SetTransportChecksumIP6
        -> GetIP6Address(24)
        -> out :: Classifier(24/fe80%ffc0, -);
    kind[2] -> Discard;
    kind[3] -> Discard;
    kind[4] -> ICMP6Error(left, 1, 4) -> said;
    kind[5] -> Discard;
    kind[6] -> unread :: Discard;
    kind[7] -> unread;
    kind[8] -> unread;
    kind[9] -> Paint(6, ICMP_PARAMPROB) -> ICMP6Error(left, 4, 1) -> said;
    out[0] -> [1] output;
    // The answer starts here: without paint, it is not treated as a packet that leaves where it came from.
    out[1] -> Paint(0) -> output;
}

// Outputs: 0 the router itself, 1 left, 2 right, 3 groups and link-local addresses, 4 no route. The first address of
// each network is the anycast address of its routers.
rt :: LookupIP6Route(
    left/128 0, right/128 0, link/128 0, 2001:db8:1::/128 0, 2001:db8:2::/128 0,
    2001:db8:1::/64 1, 2001:db8:2::/64 2,
    2001:db8:9::/48 2001:db8:2::2 2,
    fe80::/10 3, ff00::/8 3,
    ::/0 4);

// ICMPv6 messages of the router: at most ERRORS a second.
errors :: RatedSplitter($ERRORS) -> sent :: Counter -> rt;
errors[1] -> limited :: Counter -> Discard;

to_left :: ToDump($LEFT_OUT, SNAPLEN 0, ENCAP ETHER);
to_right :: ToDump($RIGHT_OUT, SNAPLEN 0, ENCAP ETHER);
left_nd :: IP6NDSolicitor(left, left);
right_nd :: IP6NDSolicitor(right, right);
left_nd[0] -> to_left;
left_nd[1] -> to_left;
left_nd[2] -> ICMP6Error(left, 1, 3) -> errors;
right_nd[0] -> to_right;
right_nd[1] -> to_right;
right_nd[2] -> ICMP6Error(right, 1, 3) -> errors;

FromDump($LEFT_IN) -> from_left :: Receive(1, left) -> received :: Counter -> rt;
from_left[1] -> [1] left_nd;
from_left[2] -> to_left;
from_left[3] -> [0] left_nd;

FromDump($RIGHT_IN) -> from_right :: Receive(2, right) -> received;
from_right[1] -> [1] right_nd;
from_right[2] -> to_right;
from_right[3] -> [0] right_nd;

// Packets for the router are handled according to the interface by which they came. Packets of the router to itself
// (without paint) are dropped.
rt[0] -> by :: PaintSwitch;
by[0] -> Discard;
by[1] -> local_left :: Local -> rt;
by[2] -> local_right :: Local -> rt;
local_left[1] -> [0] left_nd;
local_left[2] -> errors;
local_right[1] -> [0] right_nd;
local_right[2] -> errors;
rt[1] -> forward_left :: Send(1, left, $LEFT_MTU, 20010db800010000) -> [0] left_nd;
rt[2] -> forward_right :: Send(2, right, $RIGHT_MTU, 20010db800020000) -> [0] right_nd;
rt[3] -> groups :: Counter -> Discard;
rt[4] -> ICMP6Error(left, 1, 0) -> errors;
forward_left[1] -> errors;
forward_left[2] -> [0] left_nd;
forward_right[1] -> errors;
forward_right[2] -> [0] right_nd;

DriverManager(
    pause,
    print "received $(received.count), written to the left $(to_left.count), to the right $(to_right.count)",
    print "messages $(sent.count), above the limit $(limited.count), groups $(groups.count)",
    print "neighbours",
    print "$(left_nd.table)$(right_nd.table)",
    stop)
