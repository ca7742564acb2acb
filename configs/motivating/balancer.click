// The load balancer of motivating.prop: flows are assigned to two servers in turn.

servers :: RoundRobinIPMapper(- - 198.51.100.1 - 0 0, - - 198.51.100.2 - 0 0);

FromDevice(down, PROMISC true)
    -> in :: Counter
    -> strip :: Strip(14)
    -> mark :: MarkIPHeader
    -> balance :: IPRewriter(servers)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter(1500)
    -> encap :: EtherEncap(0x0800, 02:00:00:00:03:02, 02:00:00:00:03:fe)
    -> out :: Counter
    -> Queue
    -> ToDevice(servers);
