// A firewall: packets pass if the first rule that matches them says so.
//
//   cargo run --release -- run configs/firewall.click
//
// Run it from the folder above this one. The rules are in a file: Click's actions and patterns, a line each, or ClassBench's
// lines (`@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF`), whose action is the word in front of `file` below. Tens of
// thousands of them are looked up as quickly as a few. `tidegate check` says which rules can never decide, and because of
// which others; the report says how often each did. Another capture or other rules: IN=FILE OUT=FILE RULES=FILE behind
// the name.
//
// CACHING takes the rule of the packet before for packets of the same flow, which pays where traffic comes in bursts, as it
// does behind a Reframer.

define($IN configs/data/quickstart.pcap, $OUT firewall-out.pcap, $RULES configs/data/firewall.rules)

FromDump($IN)
    -> ether :: Classifier(12/0800, -)
    -> checked :: CheckIPHeader(14)
    -> rules :: IPFilter(allow file $RULES, CACHING true)
    -> passed :: Counter
    -> ToDump($OUT, SNAPLEN 0);

// Some rule sets send what they refuse to output 1, by `1 all`, rather than deny it.
rules[1] -> Discard;
ether[1] -> others :: Counter -> Discard;

DriverManager(
    pause,
    print "passed $(passed.count), refused $(sub $(checked.count) $(passed.count)), not IPv4 $(others.count)",
    print "of the flow of the packet before: $(rules.cache_hits_count)",
    print "packets by rule, from 0 on; - is no rule:",
    print "$(rules.rule_counts)",
    stop)
