// The translator of motivating.prop: packets of clients in 10.0.0.0/24 leave from one address. Packets without ports do
// not pass.

FromDevice(clients, PROMISC true)
    -> in :: Counter
    -> strip :: Strip(14)
    -> mark :: MarkIPHeader
    -> protocol :: IPClassifier(udp, tcp, -);

nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, pattern 192.0.2.1 1024-65535 - - 0 0, drop);
protocol[0], protocol[1], protocol[2] => [0] nat, [1] nat, [2] nat;

nat -> address :: GetIPAddress(16)
    -> routes :: RadixIPLookup(192.0.2.1/32 0, 10.0.0.0/24 0, 0.0.0.0/0 1);
routes[0] -> Discard;
routes[1]
    -> broadcasts :: DropBroadcasts
    -> source :: FixIPSrc(192.0.2.1)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter(1500)
    -> encap :: EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:01)
    -> out :: Counter
    -> Queue
    -> ToDevice(up);
