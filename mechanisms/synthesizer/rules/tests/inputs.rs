//! Texts of any kind are read or refused, without a panic.

use proptest::prelude::*;
use rules::phrase::whole_phrase;
use rules::question::question;
use rules::read::{RuleFormat, format_of, read};

/// Words of all formats, from which texts are put together.
const WORDS: &[&str] = &[
    "-A",
    "INPUT",
    "-p",
    "tcp",
    "udp",
    "icmp",
    "-m",
    "multiport",
    "--dports",
    "--dport",
    "22",
    "80:90",
    "1,2,3",
    "!",
    "-s",
    "10.0.0.0/8",
    "-j",
    "ACCEPT",
    "DROP",
    "RETURN",
    "-g",
    "web",
    "--icmp-type",
    "8/0",
    "3/400",
    "--ctstate",
    "NEW",
    "-f",
    "--ttl-gt",
    "255",
    "--tcp-flags",
    "SYN",
    "ALL",
    "\"",
    "from",
    "to",
    "any",
    "but",
    "{",
    "}",
    "port",
    "state",
    "new",
    "in",
    "eth*",
    "flags",
    "syn/ack",
    "not",
    "icmp",
    "type",
    "code",
    "300",
    "0-340282366920938463463374607431768211455",
    "fragment",
    "later",
    "allow",
    "deny",
    "src",
    "net",
    "dst",
    "&&",
    "or",
    "(",
    ")",
    "@0.0.0.0/0",
    ":",
    "0x06/0xFF",
    "\u{e4}\u{f6}",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..14).prop_map(|words| words.join(" "))
}

/// JSON of the forms that rules have, with values of all kinds in all places.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &[
            "22",
            "-1",
            "18446744073709551615",
            "null",
            "true",
            "\"tcp\"",
            "\"@a\"",
            "\"10.0.0.0/40\"",
            "\"af99\"",
            "\"\"",
            "[]",
            "{}",
        ][..],
    );
    leaf.prop_map(String::from).prop_recursive(4, 20, 3, |inner| {
        let keys = prop::sample::select(
            &[
                "match", "left", "right", "op", "payload", "protocol", "field", "prefix", "addr", "len",
                "range", "set", "concat", "&", "|", "vmap", "key", "data", "meta", "ct", "jump", "target",
                "accept", "elem", "val", "base", "offset", "reject",
            ][..],
        );
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|parts| format!("[{}]", parts.join(","))),
            prop::collection::vec((keys, inner), 1..4).prop_map(|parts| {
                let pairs: Vec<String> =
                    parts.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_a_reader_panic(lines in prop::collection::vec(text(), 1..4)) {
        let text = lines.join("\n");
        format_of(&text);
        for format in [RuleFormat::Lines, RuleFormat::ClassBench, RuleFormat::Nftables, RuleFormat::Iptables] {
            let _ = read(format, "text", &text, None);
        }
        let table = format!("*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n{text}\nCOMMIT\n");
        let _ = read(RuleFormat::Iptables, "text", &table, Some("INPUT"));
    }

    #[test]
    fn no_json_makes_the_reader_panic(expressions in prop::collection::vec(json(), 1..4)) {
        let text = format!(
            r#"{{"nftables": [{{"chain": {{"family": "ip", "table": "t", "name": "c", "type": "filter"}}}},
                {{"set": {{"family": "ip", "table": "t", "name": "a", "elem": {0}}}}},
                {{"rule": {{"family": "ip", "table": "t", "chain": "c", "expr": [{1}]}}}}]}}"#,
            expressions[0],
            expressions.join(","),
        );
        let _ = read(RuleFormat::Nftables, "text", &text, None);
    }

    /// The words for packets mean the same packets when they are read.
    #[test]
    fn questions_are_read_as_they_are_written(text in text()) {
        if let Ok(products) = question(&text) {
            for product in products {
                let words = whole_phrase(&product);
                prop_assert_eq!(question(&words), Ok(vec![product]), "{}", words);
            }
        }
    }
}
