// The translator of isp.prop: packets to the Internet leave from one address, and a customer's web server can be
// reached from the Internet at this address. Only TCP and UDP pass.

define($MAC_DOWN 02:00:00:00:03:01, $ROUTER 02:00:00:00:02:03,
    $MAC_UP 02:00:00:00:03:02, $INTERNET 02:00:00:00:03:fe, $OUTER 198.51.100.1,
    $SERVER 204.152.184.80, $MTU 1500)

nat :: IPRewriter(pattern $OUTER 1024-65535 - - 0 1, drop, pattern - - $SERVER 80 1 0);

FromDevice(down, PROMISC true)
    -> from_router :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> out :: IPClassifier(tcp or udp, -)
    -> [0] nat;

FromDevice(internet, PROMISC true)
    -> from_internet :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> in :: IPClassifier(dst host $OUTER and tcp and dst port 80, dst host $OUTER and (tcp or udp), -)
    -> [2] nat;

nat[0]
    -> DecIPTTL
    -> IPFragmenter($MTU)
    -> EtherEncap(0x0800, $MAC_UP, $INTERNET)
    -> Queue
    -> ToDevice(internet);

nat[1]
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_DOWN, $ROUTER)
    -> Queue
    -> ToDevice(down);

from_router[1] -> Discard;
from_internet[1] -> Discard;
out[1] -> Discard;
in[1] -> [1] nat;
in[2] -> Discard;
