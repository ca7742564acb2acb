// A firewall: a packet passes if the first rule that matches it has the action `allow`.
//
//   cargo run --release -- run configs/firewall.click
//
// Run it from the folder above this one. The rules are in a file, one per line: Click's actions and patterns, or
// ClassBench's lines (`@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF`), whose action is the word before `file`
// below. A look-up among tens of thousands of rules is as fast as among a few. `tidegate check` lists the rules that
// can never decide, and the rules that cover them. The printed output shows how often each rule decided. For another
// capture or other rules, add IN=FILE OUT=FILE RULES=FILE after the name.
//
// With CACHING the rule of the previous packet is used again for a packet of the same flow. This pays if traffic comes
// in bursts, as it does downstream of a Reframer.

define($IN configs/data/quickstart.pcap, $OUT firewall-out.pcap, $RULES configs/data/firewall.rules)

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> checked :: CheckIPHeader(14)
    -> rules :: IPFilter(allow file $RULES, CACHING true)
    -> passed :: Counter
    -> ToDump($OUT, SNAPLEN 0);

// Some rule sets send refused packets to output 1 (`1 all`) instead of denying them.
rules[1] -> Discard;
ether[1] -> others :: Counter -> Discard;

DriverManager(
    pause,
    print "passed $(passed.count), refused $(sub $(checked.count) $(passed.count)), not IPv4 $(others.count)",
    print "of the flow of the packet before: $(rules.cache_hits_count)",
    print "packets by rule, from 0 on; - is no rule:",
    print "$(rules.rule_counts)",
    stop)
