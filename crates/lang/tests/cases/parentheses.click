// References in parentheses, and a parameter without a name.
define($n 3, $list "a b", $file dump);
elementclass Part { $index, $ | input -> Paint($(index)) -> output }
Idle -> Part($(n), unused) -> Print("q$(n)_$(other)") -> IPFilter(allow dst port $(n), deny all) -> Discard;
Script(print "$(add $(n) $n) $(list) $( n ) '$(n)'", print '$(n)');
FromDump($(file).pcap) -> Discard;
