// The firewall of isp.prop, between the customers, who have 204.152.184.0/21, and the rest of the provider's network.

define($MAC_DOWN 02:00:00:00:01:01, $CUSTOMERS 02:00:00:00:01:fe,
    $MAC_UP 02:00:00:00:01:02, $ROUTER 02:00:00:00:02:01)

// From customers.
outbound :: IPFilter(
    deny not src net 204.152.184.0/21,
    deny dst net 204.152.184.0/21,
    deny dst net 10.0.0.0/8 or dst net 172.16.0.0/12 or dst net 192.168.0.0/16,
    deny dst net 127.0.0.0/8 or dst net 169.254.0.0/16,
    deny dst net 224.0.0.0/4,
    deny ip frag,
    allow dst net 204.152.0.0/16 and (tcp or udp),
    allow src host 204.152.184.25 and tcp and dst port 25,
    deny tcp and dst port 25,
    deny (tcp or udp) and dst port >= 135 and dst port <= 139,
    deny tcp and dst port 445,
    deny udp and dst port 1900,
    allow src host 204.152.184.53 and udp and dst port 53,
    deny udp and dst port 53,
    deny udp and dst port 161,
    allow udp and dst port 123,
    allow tcp or udp,
    deny all);

// To customers.
inbound :: IPFilter(
    deny src net 204.152.184.0/21,
    deny not dst net 204.152.184.0/21,
    deny src net 10.0.0.0/8 or src net 172.16.0.0/12 or src net 192.168.0.0/16,
    deny src net 127.0.0.0/8 or src net 169.254.0.0/16,
    deny ip frag,
    allow dst host 204.152.184.25 and tcp and dst port 25,
    allow dst host 204.152.184.53 and udp and dst port 53,
    allow dst host 204.152.184.80 and tcp and (dst port 80 or dst port 443),
    deny (tcp or udp) and dst port >= 135 and dst port <= 139,
    deny tcp and dst port 445,
    deny dst net 204.152.184.0/24 and tcp opt syn and not tcp opt ack,
    allow tcp and dst port 22 and src net 204.152.0.0/16,
    deny tcp and dst port 22,
    allow tcp or udp,
    deny all);

FromDevice(customers, PROMISC true)
    -> from_customers :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> outbound
    -> DropBroadcasts
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_UP, $ROUTER)
    -> Queue
    -> ToDevice(up);

FromDevice(up, PROMISC true)
    -> from_router :: Classifier(12/0800, -)
    -> Strip(14)
    -> CheckIPHeader
    -> inbound
    -> DropBroadcasts
    -> DecIPTTL
    -> EtherEncap(0x0800, $MAC_DOWN, $CUSTOMERS)
    -> Queue
    -> ToDevice(customers);

from_customers[1] -> Discard;
from_router[1] -> Discard;
