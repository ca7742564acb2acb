// The firewall of motivating.prop: packets from the translator pass if they are UDP.

FromDevice(down, PROMISC true)
    -> in :: Counter
    -> strip :: Strip(14)
    -> mark :: MarkIPHeader
    -> filter :: IPFilter(allow src net 192.0.2.0/24 && udp, drop all)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter(1500)
    -> encap :: EtherEncap(0x0800, 02:00:00:00:02:02, 02:00:00:00:03:01)
    -> out :: Counter
    -> Queue
    -> ToDevice(up);
