use super::*;
use crate::diff::diff;
use crate::read::{RuleFormat, iptables, read};
use crate::space::PacketSpace;

const RULES: &str = "\
deny src net 10.0.0.0/8 && dst tcp port 22
allow dst net 192.0.2.0/24 && dst port >= 1024 && dst port < 3000
allow icmp type echo
deny tcp opt syn && not tcp opt ack
allow ip frag
1 not ip proto 47 && src net 198.51.100.0/25
allow transp[2:2] == 53
deny ip ttl < 5 or ip tos 16
";

fn set(text: &str) -> RuleSet {
    read(RuleFormat::Lines, "rules", text, None).unwrap_or_else(|errors| panic!("{errors:?}"))
}

#[test]
fn rules_of_ipfilter_are_read_as_they_were_written() {
    let original = set(RULES);
    let written = write(&original, WrittenFormat::IpFilter).unwrap();
    let again = set(&written);
    let space = PacketSpace::new(1 << 18, None);
    let differences = diff([&original, &again], &space, 3).unwrap();
    assert!(differences.is_empty(), "{written}\n{differences:?}");
    assert!(written.starts_with("deny dst tcp port == 22 && src net 10.0.0.0/8\n"), "{written}");
}

#[test]
fn rules_become_rules_of_nftables() {
    let written = write(&set(&RULES.replace("1 not", "allow not")), WrittenFormat::Nftables).unwrap();
    for line in [
        "type filter hook forward priority 0; policy drop;",
        "ip frag-off & 0x1fff == 0 tcp dport 22 ip saddr 10.0.0.0/8 counter drop comment \"rules:1\"",
        "icmp type 8 counter accept",
        "tcp flags & (syn|ack) == syn ip frag-off & 0x1fff == 0 counter drop",
        "ip frag-off & 0x3fff != 0 counter accept",
        "@th,16,16 53 counter accept",
        "ip ttl 0-4 counter drop",
    ] {
        assert!(written.contains(line), "{line} in\n{written}");
    }
}

#[test]
fn rules_become_entries_of_switches() {
    let few = set("deny src net 10.0.0.0/8 && dst tcp port 22\nallow icmp type echo\n");
    let flows = write(&few, WrittenFormat::OpenFlow).unwrap();
    let lines: Vec<&str> = flows.lines().collect();
    assert_eq!(
        lines,
        [
            "table=0,priority=65535,tcp,nw_src=10.0.0.0/8,tp_dst=22,nw_frag=not_later,actions=drop",
            "table=0,priority=65534,ip,nw_proto=1,nw_frag=not_later,icmp_type=8,actions=normal",
            "table=0,priority=1,ip,actions=drop",
            "table=0,priority=0,actions=normal",
        ]
    );
    let entries: serde_json::Value = serde_json::from_str(&write(&few, WrittenFormat::P4).unwrap()).unwrap();
    let first = &entries["table_entries"][0];
    assert_eq!(first["match"]["hdr.ipv4.srcAddr"], serde_json::json!([0x0a00_0000, 0xff00_0000_u32]));
    assert_eq!(first["match"]["meta.l4_dst_port"], serde_json::json!([22, 22]));
    assert_eq!((&first["priority"], &first["action_name"]), (&2.into(), &"ingress.drop".into()));
}

#[test]
fn what_a_format_does_not_have_is_refused() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp -j REJECT\nCOMMIT\n";
    let original = iptables::read("fw", text, None).unwrap();
    let nftables = write(&original, WrittenFormat::Nftables).unwrap();
    assert!(nftables.contains("iifname \"lo\" counter accept"), "{nftables}");
    assert!(
        nftables.contains("ip protocol tcp counter reject with icmp type port-unreachable"),
        "{nftables}"
    );
    for format in [WrittenFormat::IpFilter, WrittenFormat::OpenFlow, WrittenFormat::P4] {
        let errors = write(&original, format).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.place.line).collect::<Vec<_>>(), [Some(3), Some(4)]);
    }
}

#[test]
fn ports_of_later_fragments_are_written_for_nftables_only() {
    let json = r#"{"nftables": [{"chain": {"family": "ip", "table": "t", "name": "c", "type": "filter", "hook": "output"}},
        {"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [{"match": {"op": "==",
            "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}, {"drop": null}]}}]}"#;
    let original = read(RuleFormat::Nftables, "fw", json, None).unwrap();
    for format in [WrittenFormat::IpFilter, WrittenFormat::OpenFlow, WrittenFormat::P4] {
        let errors = write(&original, format).unwrap_err();
        assert!(errors[0].text.contains("first fragments"), "{errors:?}");
    }
    // The chain keeps its hook.
    let written = write(&original, WrittenFormat::Nftables).unwrap();
    assert!(written.contains("type filter hook output priority 0; policy accept;"), "{written}");
    let ingress = RuleSet { hook: Some("ingress".into()), ..original };
    assert!(write(&ingress, WrittenFormat::Nftables).unwrap_err()[0].text.contains("called at 'ingress'"));
}

#[test]
fn errors_of_rejected_packets_have_the_names_of_nftables() {
    let text =
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -j REJECT --reject-with icmp-proto-unreachable\nCOMMIT\n";
    let written = write(&iptables::read("fw", text, None).unwrap(), WrittenFormat::Nftables).unwrap();
    assert!(written.contains("type filter hook input priority 0; policy drop;"), "{written}");
    assert!(written.contains("reject with icmp type prot-unreachable"), "{written}");
}
