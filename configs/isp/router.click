// The router of isp.prop: to customers downstream of the firewall, to the rest of the provider's domain, to the
// Internet.

define($MAC_DOWN 02:00:00:00:02:01, $FIREWALL 02:00:00:00:01:02,
    $MAC_DOMAIN 02:00:00:00:02:02, $DOMAIN 02:00:00:00:02:fe,
    $MAC_UP 02:00:00:00:02:03, $TRANSLATOR 02:00:00:00:03:01)

// Packets do not leave by the interface by which they came.
FromDevice(down, PROMISC true)
    -> from_firewall :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> GetIPAddress(16)
    -> firewalls :: RadixIPLookup(204.152.184.0/21 2, 204.152.0.0/16 1, 0.0.0.0/0 0);
FromDevice(domain, PROMISC true)
    -> from_domain :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> GetIPAddress(16)
    -> domains :: RadixIPLookup(204.152.184.0/21 1, 204.152.0.0/16 2, 0.0.0.0/0 0);
FromDevice(up, PROMISC true)
    -> from_translator :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> GetIPAddress(16)
    -> translators :: RadixIPLookup(204.152.184.0/21 1, 204.152.0.0/16 0, 0.0.0.0/0 2);
firewalls[2] -> Discard;
domains[2] -> Discard;
translators[2] -> Discard;
from_firewall[1] -> Discard;
from_domain[1] -> Discard;
from_translator[1] -> Discard;

domains[1] -> down :: DropBroadcasts;
translators[1]
    -> down
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_DOWN, $FIREWALL)
    -> Queue
    -> ToDevice(down);

firewalls[1] -> domain :: DropBroadcasts;
translators[0]
    -> domain
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_DOMAIN, $DOMAIN)
    -> Queue
    -> ToDevice(domain);

firewalls[0] -> up :: DropBroadcasts;
domains[0]
    -> up
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_UP, $TRANSLATOR)
    -> Queue
    -> ToDevice(up);
