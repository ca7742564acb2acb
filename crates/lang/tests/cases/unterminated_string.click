// The quote of the first string is missing, so that the last quote opens a string.
FromDump("x.pcap) -> Discard;
Idle -> Print("b") -> Discard;
