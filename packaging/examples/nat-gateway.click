// A NAT gateway: the hosts behind one interface share the address of the other interface.
//
//   tidegate check nat-gateway.click
//   tidegate run nat-gateway.click LAN=eth1 WAN=eth0
//
// Both interfaces have to be up, and belong to this configuration: the kernel has no address on them and does not
// forward. Change the values here, or give them as arguments. Hosts inside use LAN_ADDRESS as their default gateway.
// docs/service.md describes the way to a gateway that starts with the machine, and docs/nat.md the translation. The
// gateway has no DHCP, no DNS and no IPv6.

define(
    $LAN lan0,                      // the interface to the hosts inside
    $LAN_ADDRESS 192.168.1.1/24,    // the gateway's address there, and the network
    $WAN wan0,                      // the interface to the outside
    $WAN_ADDRESS 192.0.2.2/24,      // the address that the hosts share, and the network
    $WAN_GATEWAY 192.0.2.1,         // the next hop for all other networks
    $FORWARD_PORT 0,                // a TCP port of WAN_ADDRESS that leads to a host inside; 0 for none
    $FORWARD_HOST 192.168.1.10,     // the host, and the port there
    $FORWARD_TO 80,
    $LAN_MTU 1500, $WAN_MTU 1500,
    $ERRORS 1000,                   // the most ICMP messages a second that the gateway sends
    $HOST_CAPACITY 10000)           // the most mappings of one host inside

AddressInfo(lan $LAN_ADDRESS, wan $WAN_ADDRESS);

// An interface with its ARP. Input: IP packets, with the next hop as destination annotation. Output: IP packets that
// arrive, with checked headers.
elementclass Link { $INTERFACE, $ADDRESS |
    AddressInfo(own $ADDRESS);
    FromDevice($INTERFACE) -> type :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    input -> arp :: ARPQuerier($ADDRESS, $INTERFACE:eth) -> out :: Queue(1000) -> ToDevice($INTERFACE);
    type[0] -> ARPResponder(own:ip $INTERFACE:eth) -> out;
    type[1] -> [1] arp;
    type[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
    type[3] -> others :: Counter -> Discard
}

inside :: Link($LAN, $LAN_ADDRESS);
outside :: Link($WAN, $WAN_ADDRESS);

// Packets leave through these elements.
to_lan :: DecIPTTL -> size_in :: IPFragmenter($LAN_MTU) -> lan_out :: GetIPAddress(16) -> inside;
to_wan :: IPClassifier(dst host wan, -);
to_wan[1] -> size_out :: IPFragmenter($WAN_MTU)
    -> wan_out :: StaticIPLookup(wan:ipnet 0, 0/0 $WAN_GATEWAY 0) -> outside;

// The translators: RFC 4787 and RFC 5382, see docs/nat.md. Output 0: to the outside. Output 1: to the inside. Input 0:
// from the inside. Input 1: from the outside. Input 2: to the forwarded port. INDEPENDENT_FILTERING: any host outside
// may send to a port from which a host inside has sent.
IPRewriterPatterns(ports wan 1024-65535 - -);
nat :: IPRewriter(pattern ports 0 1, drop, pattern - - $FORWARD_HOST $FORWARD_TO 1 0,
    TCP_NODATA_TIMEOUT 7440, MAPPING_CAPACITY 1000000, INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING true, SUBSCRIBER_CAPACITY $HOST_CAPACITY);
ping :: ICMPPingRewriter(pattern ports 0 1, drop, MAPPING_CAPACITY nat,
    INDEPENDENT_MAPPING true, SUBSCRIBER_CAPACITY $HOST_CAPACITY);
nat[0] -> to_wan;
nat[1] -> to_lan;
ping[0] -> to_wan;
ping[1] -> to_lan;

// From inside. The time to live is decremented before the translation, so that expired packets make no mappings.
inside -> from_lan :: IPClassifier((dst host lan or dst host wan) and icmp type echo,
    dst net lan:ipnet, src net lan:ipnet, -);
from_lan[0] -> ICMPPingResponder -> lan_out;
from_lan[1] -> Discard;
from_lan[2] -> hops :: DecIPTTL
    -> from_inside :: IPClassifier(tcp or udp, icmp type echo, icmp, -);
from_lan[3] -> Discard;
from_inside[0] -> [0] nat;
from_inside[1] -> [0] ping;
from_inside[2] -> errors_out :: ICMPRewriter(nat ping) -> StoreIPAddress(wan, src) -> to_wan;
from_inside[3] -> Discard;

// From outside, and from inside to the outer address (hairpinning).
// For a further forwarded port, add a rule in front of the last one in forwards, a `pattern` after the one in nat, and a
// connection from the rule's output to the pattern's input.
forwards :: IPClassifier(dst host wan and tcp dst port $FORWARD_PORT and not tcp dst port 0, -);
forwards[0] -> [2] nat;
outside -> forwards;
forwards[1] -> from_outside :: IPClassifier(dst host wan and (tcp or udp), dst host wan and icmp type echo-reply,
    dst host wan and icmp type echo, dst host wan and icmp, -);
to_wan[0] -> forwards;
from_outside[0] -> [1] nat;
from_outside[1] -> [1] ping;
from_outside[2] -> ICMPPingResponder -> wan_out;
from_outside[3] -> errors_in :: ICMPRewriter(nat ping) -> to_lan;
from_outside[4] -> Discard;

// The gateway's own ICMP messages. The paint is the way that a message takes: to the inside as it is, or translated
// like the packet that it quotes.
hops[1] -> ICMPError(lan, timeexceeded) -> Paint(0) -> limit :: RatedSplitter($ERRORS) -> way :: PaintSwitch;
size_out[1] -> ICMPError(wan, unreachable, needfrag, PMTU $WAN_MTU) -> Paint(1) -> limit;
to_lan[1] -> ICMPError(wan, timeexceeded) -> Paint(2) -> limit;
size_in[1] -> ICMPError(wan, unreachable, needfrag, PMTU $LAN_MTU) -> Paint(2) -> limit;
limit[1] -> Discard;
way[0] -> lan_out;
way[1] -> errors_in;
way[2] -> errors_out;
