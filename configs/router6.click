// An IPv6 router between two networks, after RFC 8200, RFC 4443 and RFC 4861: docs/router.md describes it, and lists
// the test for each requirement.
//
//   cargo run --release -- run configs/router6.click --clock trace
//
// Run it from the folder above this one. The captures are the input of the two interfaces; the output of each interface
// is written to a capture. To make a router of your own of it, give the interfaces your addresses (also the prefixes in
// routes, and the bytes in `Send`), add routes to `rt`, and replace FromDump and ToDump by your own sources and sinks.
// For another capture, MTU or limit on ICMPv6 messages, add LEFT_IN=FILE RIGHT_MTU=1500 ERRORS=100 after the name.

define(
    $LEFT_IN configs/data/router6-left.pcap, $LEFT_OUT router6-left-out.pcap, $LEFT_MTU 1500,
    $RIGHT_IN configs/data/router6-right.pcap, $RIGHT_OUT router6-right-out.pcap, $RIGHT_MTU 1280,
    $ERRORS 1000)

// The router's own addresses. On both links it is fe80::fe, too.
AddressInfo(
    left 2001:db8:1::fe 02:00:00:00:01:fe,
    right 2001:db8:2::fe 02:00:00:00:02:fe,
    link fe80::fe)

// What comes in by an interface: IPv6 packets leave by output 0, neighbour advertisements by 1, answers to solicitations
// by 2. Messages to hosts on the link leave by 3: they need no route.
elementclass Receive { $color, $name |
    input -> HostEtherFilter($name)
        -> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
    kind[0] -> IP6NDAdvertiser($name:ip6 fe80::fe $name:eth, OVERRIDE true) -> [2] output;
    kind[1] -> [1] output;
    kind[2] -> Strip(14)
        -> CheckIP6Header(PROCESS_EH true)
        -> Paint($color)
        -> GetIP6Address(24)
        // Sources that are groups, nobody and the loopback; destinations that are nobody and the loopback.
        -> scope :: Classifier(8/ff,
            8/00000000000000000000000000000000%fffffffffffffffffffffffffffffffe,
            24/00000000000000000000000000000000%fffffffffffffffffffffffffffffffe,
            8/fe80%ffc0, -);
    kind[3] -> Discard;
    scope[0] -> martians :: Counter -> Discard;
    scope[1] -> martians;
    scope[2] -> martians;
    // What comes from a link-local address goes to the router, or nowhere.
    scope[3] -> near :: LookupIP6Route(left/128 0, right/128 0, link/128 0, fe80::/10 1, ff00::/8 1, ::/0 2);
    near[0] -> output;
    near[1] -> Discard;
    near[2] -> ICMP6Error($name, 1, 2) -> RatedSplitter($ERRORS) -> [3] output;
    scope[4] -> output;
}

// What leaves by an interface: packets by output 0, messages about those that cannot by output 1. `prefix` is that of the
// network as bytes: its hosts are told, by output 2, of shorter ways.
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

// What is for the router itself: it answers pings, and says that there is nothing else. Answers and messages to hosts that
// have only an address of their link leave by output 1; other answers by output 0, other messages by output 2. Nothing is said of what stands behind extension headers, which are not looked into.
elementclass Local {
    // A route with segments left; an echo request, and other ICMPv6; fragments; UDP; what has nothing behind its header, or
    // options or a route that has been followed; all else.
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
    // It does not go back where it came from: it starts here.
    out[1] -> Paint(0) -> output;
}

// Outputs: 0 the router itself, 1 left, 2 right, 3 groups and link-local addresses, 4 no way to go. The first address of
// each network stands for any router there.
rt :: LookupIP6Route(
    left/128 0, right/128 0, link/128 0, 2001:db8:1::/128 0, 2001:db8:2::/128 0,
    2001:db8:1::/64 1, 2001:db8:2::/64 2,
    2001:db8:9::/48 2001:db8:2::2 2,
    fe80::/10 3, ff00::/8 3,
    ::/0 4);

// Messages of the router: no more than so many a second.
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

// What is for the router is answered where it came from; it sends nothing to itself.
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
