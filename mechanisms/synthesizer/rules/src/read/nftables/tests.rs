use super::*;
use crate::phrase::phrase;

/// Returns the JSON of a table with a base chain `input`, a chain `web`, sets and rules, as `nft -j` prints
/// it.
fn json(rules: &[(&str, &str)]) -> String {
    let rules = rules.iter().enumerate().map(|(number, (chain, expressions))| {
        format!(
            r#",{{"rule": {{"family": "inet", "table": "filter", "chain": "{chain}", "handle": {}, "expr": [{expressions}]}}}}"#,
            number + 3
        )
    });
    let rules: String = rules.collect();
    format!(
        r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6", "json_schema_version": 1}}}},
        {{"table": {{"family": "inet", "name": "filter", "handle": 1}}}},
        {{"chain": {{"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter",
                    "hook": "input", "prio": 0, "policy": "drop"}}}},
        {{"chain": {{"family": "inet", "table": "filter", "name": "web", "handle": 2}}}},
        {{"set": {{"family": "inet", "name": "good", "table": "filter", "type": "ipv4_addr", "handle": 9,
                  "flags": ["interval"], "elem": [{{"prefix": {{"addr": "10.0.0.0", "len": 8}}}}, "192.0.2.1"]}}}},
        {{"set": {{"family": "inet", "name": "seen", "table": "filter", "type": "ipv4_addr", "handle": 8,
                  "flags": ["dynamic"]}}}},
        {{"set": {{"family": "inet", "name": "few", "table": "filter", "type": "ipv4_addr", "handle": 7,
                  "stmt": [{{"ct count": {{"val": 3}}}}], "elem": ["10.0.0.1"]}}}}
        {rules}]}}"#
    )
}

fn payload(protocol: &str, field: &str, op: &str, right: &str) -> String {
    format!(
        r#"{{"match": {{"op": "{op}", "left": {{"payload": {{"protocol": "{protocol}", "field": "{field}"}}}}, "right": {right}}}}}"#
    )
}

const ACCEPT: &str = r#"{"accept": null}"#;

fn phrases(rules: &[(&str, &str)]) -> Vec<String> {
    let set = read("fw.json", &json(rules), None).unwrap_or_else(|errors| panic!("{errors:?}"));
    let phrases = |products: &[FieldSets]| products.iter().map(phrase).collect::<Vec<_>>().join(" or ");
    set.rules.iter().map(|rule| format!("{} {}", rule.action, phrases(&rule.products))).collect()
}

#[test]
fn matches_become_products() {
    let meta = |key: &str, right: &str| {
        format!(r#"{{"match": {{"op": "==", "left": {{"meta": {{"key": "{key}"}}}}, "right": {right}}}}}"#)
    };
    let state =
        r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}"#;
    let syn = r#"{"match": {"op": "==", "left": {"&": [{"payload": {"protocol": "tcp", "field": "flags"}},
        {"|": ["fin", "syn", "rst", "ack"]}]}, "right": "syn"}}"#;
    let pairs = r#"{"match": {"op": "==", "left": {"concat": [{"payload": {"protocol": "ip", "field": "daddr"}},
        {"payload": {"protocol": "tcp", "field": "dport"}}]}, "right": {"set": [{"concat": ["10.0.0.1", 80]}]}}}"#;
    let versions = r#"{"match": {"op": "==", "left": {"concat": [{"meta": {"key": "nfproto"}},
        {"payload": {"protocol": "tcp", "field": "dport"}}]},
        "right": {"set": [{"concat": ["ipv6", 80]}, {"concat": ["ipv4", 22]}]}}}"#;
    let masked = r#"{"match": {"op": "==", "left": {"&": [{"payload": {"protocol": "tcp", "field": "flags"}},
        255]}, "right": {"set": ["syn", "fin"]}}}"#;
    for (expression, expected) in [
        (payload("tcp", "dport", "==", "22"), "tcp from any to any port 22"),
        (
            payload("tcp", "dport", "==", r#"{"set": [22, {"range": [80, 90]}]}"#),
            "tcp from any to any port {22, 80-90}",
        ),
        (payload("udp", "sport", "!=", "53"), "udp from any port any but 53 to any"),
        (payload("udp", "sport", ">=", "1024"), "udp from any port 1024-65535 to any"),
        (payload("th", "dport", "==", "53"), "ip from any to any port 53"),
        (payload("ip", "saddr", "==", r#""@good""#), "ip from {10.0.0.0/8, 192.0.2.1} to any"),
        (
            payload("ip", "saddr", "!=", r#"{"prefix": {"addr": "10.0.0.0", "len": 8}}"#),
            "ip from any but 10.0.0.0/8 to any",
        ),
        (payload("icmp", "type", "==", r#""echo-request""#), "icmp from any to any icmp type echo"),
        (payload("icmp", "code", "==", "4") + ", " + &payload("icmp", "type", "==", "3"), "icmp from any to any icmp type unreachable code 4"),
        (r#"{"match": {"op": "==", "left": {"payload": {"base": "th", "offset": 16, "len": 16}}, "right": 53}}"#.into(), "ip from any to any port 53"),
        (payload("ip", "dscp", "==", r#""ef""#), "ip from any to any tos 184-187"),
        (meta("l4proto", r#"{"set": ["tcp", "udp"]}"#), "{tcp, udp} from any to any"),
        (meta("iifname", r#""eth*""#), "ip from any to any in eth*"),
        (meta("nfproto", r#""ipv4""#), "ip from any to any"),
        (state.to_string(), "ip from any to any state {established, related}"),
        (meta("nfproto", r#""ipv6""#).replace("==", "!="), "ip from any to any"),
        (meta("protocol", r#""ip6""#).replace("==", "!="), "ip from any to any"),
        (meta("protocol", r#"{"set": ["ip", "ip6"]}"#), "ip from any to any"),
        (versions.to_string(), "tcp from any to any port 22"),
        (payload("tcp", "flags", "==", r#"{"set": ["syn", "fin"]}"#), "tcp from any to any flags 1-2"),
        (payload("tcp", "flags", "==", r#"["syn", "fin"]"#), "tcp from any to any flags fin,syn/fin,syn,rst,psh,ack,urg,ecn,cwr"),
        (masked.to_string(), "tcp from any to any flags 1-2"),
        (syn.to_string(), "tcp from any to any flags syn/fin,syn,rst,ack"),
        (pairs.to_string(), "tcp from any to 10.0.0.1 port 80"),
    ] {
        let rule = format!("{expression}, {{\"counter\": {{\"packets\": 0, \"bytes\": 0}}}}, {ACCEPT}");
        assert_eq!(phrases(&[("input", &rule)]), [format!("accept {expected}")], "{expression}");
    }
}

#[test]
fn maps_and_chains_are_followed() {
    let map = r#"{"vmap": {"key": {"payload": {"protocol": "tcp", "field": "dport"}},
        "data": {"set": [[22, {"accept": null}], [80, {"jump": {"target": "web"}}], [23, {"reject": {"type": "tcp reset"}}]]}}}"#;
    let from = format!("{}, {}", payload("ip", "saddr", "==", "\"10.0.0.1\""), r#"{"drop": null}"#);
    assert_eq!(
        phrases(&[("input", map), ("web", &from), ("web", ACCEPT)]),
        [
            "accept tcp from any to any port 22",
            "drop tcp from 10.0.0.1 to any port 80",
            "accept tcp from any to any port 80",
            "reject with tcp-reset tcp from any to any port 23",
        ]
    );
}

#[test]
fn rules_for_ipv6_are_left_out() {
    let six = format!("{}, {ACCEPT}", payload("ip6", "saddr", "==", "\"2001:db8::1\""));
    let meta =
        r#"{"match": {"op": "!=", "left": {"meta": {"key": "nfproto"}}, "right": "ipv4"}}, {"drop": null}"#;
    let map =
        r#"{"vmap": {"key": {"meta": {"key": "nfproto"}}, "data": {"set": [["ipv6", {"drop": null}]]}}}"#;
    let rules = [("input", &six[..]), ("input", ACCEPT), ("input", meta), ("input", map)];
    let set = read("fw.json", &json(&rules), None).unwrap();
    assert_eq!((set.rules.len(), set.default), (1, RuleAction::Drop));
    assert_eq!(set.notes, ["fw.json: rules that match no IPv4 packets were left out: 2"]);
    assert_eq!(set.rules[0].place.to_string(), "fw.json: inet filter input handle 4");
}

#[test]
fn what_has_no_exact_meaning_is_refused() {
    let limited = r#"{"set": {"op": "add", "elem": {"payload": {"protocol": "ip", "field": "saddr"}}, "set": "@seen",
        "stmt": [{"limit": {"rate": 3, "per": "minute"}}]}}"#;
    let state = |op: &str, right: &str| {
        format!(r#"{{"match": {{"op": "{op}", "left": {{"ct": {{"key": "state"}}}}, "right": {right}}}}}"#)
    };
    for (expression, message) in [
        (r#"{"limit": {"rate": 3, "per": "minute"}}"#.to_string(), "the statement 'limit' depends on time"),
        (r#"{"masquerade": null}"#.to_string(), "the statement 'masquerade' has no meaning"),
        (payload("ip", "id", "==", "5"), "the field 'ip id' has no meaning"),
        (r#""notrack""#.into(), "the statement 'notrack' has no meaning"),
        (limited.into(), "the statement 'limit' in a 'set' depends on time"),
        (
            payload("ip", "saddr", "==", r#"{"set": [{"elem": {"val": "10.0.0.1", "quota": {}}}]}"#),
            "the statement 'quota' of an element",
        ),
        (payload("ip", "saddr", "==", "\"@few\""), "the statement 'ct count' of the set @few"),
        (state("==", r#"["new", "established"]"#), "no connection has several states"),
        (state("!=", r#"["new", "established"]"#), "no connection has several states"),
        (state("<", r#""new""#), "have no order"),
        (
            r#"{"match": {"op": "!=", "left": {"&": [{"ct": {"key": "state"}}, 8]}, "right": 0}}"#.into(),
            "a mask of connection states",
        ),
        (
            r#"{"reject": {"type": "icmp", "expr": "nothing"}}"#.into(),
            "the statement 'reject' has no meaning",
        ),
        (payload("ip", "saddr", "==", "\"@seen\""), "the elements of @seen change at run time"),
        (payload("ip", "saddr", "==", "\"@none\""), "there is no set @none"),
        (payload("tcp", "dport", "==", "\"sssh\""), "\"sssh\" is not a value"),
    ] {
        let rule = format!("{expression}, {ACCEPT}");
        let errors = read("fw.json", &json(&[("input", &rule)]), None).unwrap_err();
        assert!(errors[0].text.contains(message), "{expression}: {errors:?}");
        assert_eq!(errors[0].place.name, "inet filter input handle 3");
    }
    assert!(read("fw", "{", None).unwrap_err()[0].text.contains("this is not JSON"));
    assert!(read("fw", "{}", None).unwrap_err()[0].text.contains("no list 'nftables'"));
    let other = read("fw", &json(&[("input", ACCEPT)]), Some("output")).unwrap_err();
    assert!(other[0].text.contains("there are: inet filter input"), "{other:?}");
}

#[test]
fn statements_without_parameters_can_be_texts() {
    let reset = r#"{"reject": {"type": "tcp reset"}}"#;
    assert_eq!(
        phrases(&[("input", reset), ("input", r#""counter", "drop""#)]),
        ["reject with tcp-reset tcp from any to any", "drop ip from any to any"]
    );
}
