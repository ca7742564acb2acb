//! Tests of the meaning of expressions, of error messages, and of the agreement of all compiled forms with
//! the reference evaluator.

use proptest::prelude::*;

use super::*;

/// The parsers and names for the tests: numbers, addresses, `GATEWAY` and `INSIDE`.
struct Plain;

impl NameLookup for Plain {
    fn integer(&self, word: &str) -> Option<i128> {
        match word.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    }

    fn ipv4(&self, word: &str) -> Option<u32> {
        match word {
            "GATEWAY" => Some(0x0a00_0001),
            _ => word.parse::<std::net::Ipv4Addr>().ok().map(u32::from),
        }
    }

    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)> {
        if word == "INSIDE" {
            return Some((0x0a00_0000, 0xff00_0000));
        }
        let (address, length) = word.split_once('/')?;
        let mask = u32::MAX.checked_shl(32u32.checked_sub(length.parse().ok()?)?).unwrap_or(0);
        Some((self.ipv4(address)?, mask))
    }

    fn ipv6(&self, word: &str) -> Option<u128> {
        word.parse::<std::net::Ipv6Addr>().ok().map(u128::from)
    }

    fn ipv6_prefix(&self, word: &str) -> Option<(u128, u128)> {
        let (address, length) = word.split_once('/')?;
        let mask = u128::MAX.checked_shl(128u32.checked_sub(length.parse().ok()?)?).unwrap_or(0);
        Some((self.ipv6(address)?, mask))
    }

    fn ether(&self, word: &str) -> Option<[u8; 6]> {
        let bytes: Option<Vec<u8>> = word.split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect();
        bytes?.try_into().ok()
    }
}

/// Parses a text, which must have no errors, and returns its condition.
pub(super) fn condition_of(text: &str) -> Condition {
    let (expression, issues) = parse(text, &Plain);
    assert!(issues.iter().all(|issue| issue.is_warning), "{text}: {issues:?}");
    condition(&expression)
}

/// The packet that most tests use: TCP from 10.0.0.1 port 1234 to 192.168.1.2 port 80. It has SYN and ACK
/// set, and window 4096. It has 12 bytes of IP options, time to live 64, TOS 0xb9 (DSCP 46, ECN 1) and
/// identification 0x1234.
const PACKET: [u8; 52] = [
    0x48, 0xb9, 0, 52, 0x12, 0x34, 0x40, 0, 64, 6, 0xaa, 0xbb, 10, 0, 0, 1, 192, 168, 1, 2, //
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, //
    0x04, 0xd2, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 0x10, 0, 0, 0, 0, 0,
];
const MAC: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];

/// Returns the headers of a packet of which only the first `length` bytes from the IP header on are
/// present.
fn cut(packet: &[u8], length: usize) -> HeaderSlices<'_> {
    let network = &packet[..length.min(packet.len())];
    let behind = 4 * usize::from(packet.first().map_or(0, |b| b & 15));
    HeaderSlices { mac: &MAC, network, transport: network.get(behind..).unwrap_or_default() }
}

fn good(text: &str) -> Expression {
    let (expression, issues) = parse(text, &Plain);
    let errors: Vec<_> = issues.iter().filter(|issue| !issue.is_warning).collect();
    assert!(errors.is_empty(), "{text}: {errors:?}");
    expression
}

/// Evaluates an expression in all ways: directly, as tests of header bytes, and compiled. Checks that all
/// results are equal, and returns the result.
fn all_ways(expression: &Expression, headers: &HeaderSlices<'_>) -> bool {
    let expected = expression.holds(&|question| question.holds(headers));
    let condition = condition(expression);
    assert_eq!(condition.holds(&|test| test.holds(headers)), expected, "as tests: {condition:?}");
    let matcher = Matcher::new(std::slice::from_ref(&condition));
    assert_eq!(matcher.first(headers).is_some(), expected, "compiled: {condition:?}");
    expected
}

fn holds(text: &str) -> bool {
    all_ways(&good(text), &cut(&PACKET, 99))
}

fn complaints(text: &str) -> Vec<String> {
    parse(text, &Plain).1.into_iter().map(|issue| issue.text).collect()
}

#[test]
fn questions_of_every_kind() {
    for text in [
        "-",
        "any",
        "all",
        "true",
        "ip proto tcp",
        "ip proto 6",
        "tcp",
        "tcpudp",
        "transp",
        "src host 10.0.0.1",
        "src 10.0.0.1",
        "host 10.0.0.1",
        "192.168.1.2",
        "dst GATEWAY || src GATEWAY",
        "src net INSIDE",
        "src INSIDE",
        "dst net 192.168.0.0/16",
        "192.168.0.0 mask 255.255.0.0",
        "src host != 10.0.0.2",
        "src host & 255.255.255.0 == 10.0.0.77",
        "src or dst host 10.0.0.1",
        "src and dst net 0.0.0.0/0",
        "src port 1234",
        "port 80",
        "www",
        "dst www",
        "dst tcp port www",
        "tcp port http",
        "src port > 1023",
        "src port >= 1234 and src port <= 1234",
        "dst port < 1024",
        "dst port & 0x50 == 80",
        "port & 1 == 0",
        "dst port 25 or 80 or 443",
        "ip vers 4",
        "ip hl 8",
        "ip id 0x1234",
        "ip tos 0xb9",
        "ip dscp 46",
        "ip ect",
        "ip ect 1",
        "not ip ce",
        "ip ttl 64",
        "ip ttl > 63",
        "ttl 1 or 64",
        "ip len 52",
        "ip unfrag",
        "unfrag",
        "tcp opt syn",
        "syn ack",
        "syn and ack and not rst",
        "tcp opt 18",
        "tcp win 4096",
        "win >= 4096",
        "ip[8] 64",
        "ip[8:2] 0x4006",
        "ip[12:4] 0x0a000001",
        "ip[8,9] == 0x4006",
        "ip[20] 1",
        "tcp[13] & 2 != 0",
        "transp[0:2] 1234",
        "tcpudp[2:2] 80",
        "ether host 2:0:0:0:0:1",
        "ether src 2:0:0:0:0:1",
        "dst ether host 2:0:0:0:0:2",
        "ether src host & ff:0:0:0:0:0 2:9:9:9:9:9",
        "src 2:0:0:0:0:1",
        "! (udp or icmp)",
        "not not tcp",
        "tcp ? src port 1234 : dst port 53",
        "udp ? dst port 53 : icmp ? false : tcp",
        "(tcp && ((dst port 80)))",
    ] {
        assert!(holds(text), "{text}");
        assert!(["-", "any", "all"].contains(&text) || !holds(&format!("not ({text})")), "not {text}");
    }
}

#[test]
fn what_does_not_hold() {
    for text in [
        "false",
        "udp",
        "icmp type echo",
        "icmp type != 8",
        "udp port 80",
        "src 10.0.0.2",
        "src and dst host 10.0.0.1",
        "host != 10.0.0.1",
        "port != 80",
        "port < 1000",
        "src port <= 1000",
        "ip frag",
        "ip ce",
        "rst",
        "syn fin",
        "dst INSIDE",
        "ip6 tcp",
        "ip6 host ::1",
        "udp ? true : false",
        "ether host 2:0:0:0:0:3",
        "tcp[60] 0",
    ] {
        assert!(!holds(text), "{text}");
    }
    // `not icmp type 8` holds for TCP, although `icmp type != 8` does not: `icmp type != 8` holds only for
    // ICMP packets.
    assert!(holds("not icmp type 8") && holds("tcp or false") && holds("port >= 1000"));
}

#[test]
fn short_packets_and_fragments() {
    let at = |text: &str, length| all_ways(&good(text), &cut(&PACKET, length));
    for length in 0..52 {
        assert_eq!(at("ip ttl 64", length), length > 8);
        assert_eq!(at("ip ttl != 7", length), length > 8);
        assert!(at("not ip ttl 7", length));
        assert_eq!(at("ip proto != udp", length), length > 9);
        assert_eq!(at("src != 9.9.9.9", length), length >= 16);
        assert_eq!(at("dst port 80", length), length >= 36);
        assert_eq!(at("dst port != 81", length), length >= 36);
        assert_eq!(at("not dst port 80", length), length < 36);
        assert_eq!(at("tcp opt syn", length), length > 45);
        assert_eq!(at("unfrag", length), length >= 8);
        assert!(at("-", length));
    }
    let mut later = PACKET;
    later[6..8].copy_from_slice(&[0, 5]);
    let mut first = PACKET;
    first[6..8].copy_from_slice(&[0x20, 0]);
    for text in
        ["port 80", "port != 81", "syn", "tcp[0:2] 1234", "tcp win 4096", "transp[3] 80", "src port > 1"]
    {
        assert!(all_ways(&good(text), &cut(&first, 99)), "{text} of the first fragment");
        assert!(!all_ways(&good(text), &cut(&later, 99)), "{text} of a later fragment");
        assert!(all_ways(&good(&format!("not ({text})")), &cut(&later, 99)));
    }
    for packet in [first, later] {
        assert!(all_ways(&good("ip frag and tcp and 10.0.0.1 and not unfrag"), &cut(&packet, 99)));
    }
}

#[test]
fn ipv6() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 63];
    packet.extend("2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend("fe80::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend([0, 53, 4, 0, 0, 8, 0, 0]);
    let headers = HeaderSlices { mac: &[], network: &packet, transport: &packet[40..] };
    for text in [
        "ip6 src host 2001:db8::1",
        "src 2001:db8::1",
        "ip6 net 2001:db8::/32",
        "dst net fe80::/10",
        "src 10.0.0.1 or 2001:db8::1",
        "ip6 src host != ::1",
        "ip6 proto udp",
        "ip6 udp",
        "ip6 vers 6",
        "ip6[7] 63",
        "ip6 src udp port dns",
        "ip6 port 53 or 54",
        "ip6 src host & ffff:: 2001::",
    ] {
        assert!(all_ways(&good(text), &headers), "{text}");
    }
    assert!(!all_ways(&good("ip6 tcp port 53"), &headers));
    assert_eq!(complaints("ip6 ttl 5"), ["'ip ttl': not a field of ip6"]);
}

#[test]
fn complaints_say_what_is_wrong() {
    for (text, expected) in [
        ("src", "partial directive"),
        ("5", "specify header field or 'port'"),
        ("src net 10.0.0.0/33", "'10.0.0.0/33' is not a prefix: it has 0 to 32 bits"),
        ("ip6 src net ::/129", "'::/129' is not a prefix: it has 0 to 128 bits"),
        ("net 10.0.0.x/8 and tcp", "'10.0.0.x/8' is not a prefix; write one such as 10.0.0.0/8"),
        ("host 300.1.1.1", "'300.1.1.1' is not an address"),
        ("ether host 1:2:3", "'1:2:3' is not an Ethernet address"),
        ("port 80/tcp", "'80/tcp' is not a port"),
        ("ip proto x", "'x' is not a protocol"),
        ("port and tcp", "'port': value missing"),
        ("tcp foo", "'foo' means nothing here"),
        ("foo", "'foo' means nothing here"),
        ("ip ttl foo", "'foo' is not a number"),
        ("src 300.1.1.1", "'300.1.1.1' is not an address"),
        ("dst 10.0.0.0/33", "'10.0.0.0/33' is not a prefix: it has 0 to 32 bits"),
        ("tcp opt foo", "'foo' is not a TCP flag"),
        ("ip proto tcp foo", "'foo' means nothing here"),
        ("tcp )", "garbage after expression at ')'"),
        ("tcp and [", "empty term near '['"),
        ("host 5", "'ip host': address missing"),
        ("net 10.0.0.1", "'ip net': address missing"),
        ("src net 1", "'src ip net': address missing"),
        ("host > 1.2.3.4", "'ip host': operator not supported"),
        ("port", "'port': value missing"),
        ("icmp port 5", "'port': bad protocol 1"),
        ("port 65536", "'port': too large; the most is 65535"),
        ("ip ttl 256", "'ip ttl': too large; the most is 255"),
        ("ip ttl", "'ip ttl': value missing"),
        ("ip ttl & 256 == 0", "'ip ttl': mask too large; the most is 0xFF"),
        ("tcp opt > 5", "'tcp opt': operator or mask not supported"),
        ("udp opt syn", "'tcp opt udp syn' is meaningless; try 'tcp opt syn'"),
        ("echo", "'echo' is ambiguous; try 'port echo', 'icmp type echo'"),
        ("port tcp", "'port': value missing"),
        ("ip frag 5", "'ip frag': value not supported"),
        ("tcp udp", "transport protocol specified twice"),
        ("src dst port 5", "'src' or 'dst' specified twice"),
        ("host port 5", "type specified twice"),
        ("ip[3:2] 5", "field [3:2] does not fit in a single word"),
        ("ip[0:5] 5", "LEN in '[POS:LEN]' out of range, should be between 1 and 4"),
        ("ip[x] 5", "syntax error after '[', expected '[POS]' or '[POS:LEN]'"),
        ("ip[0 5", "missing ']'"),
        ("(tcp", "missing ')'"),
        ("()", "missing expression after '('"),
        ("not", "missing expression after 'not'"),
        ("tcp or", "missing expression"),
        ("tcp ? udp", "missing ':' in ternary expression"),
        ("port > foo", "dangling operator near 'foo'"),
        ("port & 0 == 1", "zero mask ignored"),
        ("ether port 5", "'port': ip only"),
        ("tcpudp > 5", "specify header field or 'port'"),
        ("src tcp", "'src proto': 'src' or 'dst' ignored"),
        ("ip ttl > 255", "relation '> 255' is always false (range 0-255)"),
        ("port >= 0", "relation '>= 0' is always true (range 0-65535)"),
    ] {
        let found = complaints(text);
        assert!(found.iter().any(|found| found == expected), "{text}: {found:?}");
    }
    // One mistake gives one message.
    assert_eq!(complaints("src net 10.0.0.0/33"), ["'10.0.0.0/33' is not a prefix: it has 0 to 32 bits"]);
    assert_eq!(complaints("udp and (src prot 80 or syn)"), ["'prot' means nothing here"]);
    let deep = "(".repeat(100_000) + "tcp";
    assert_eq!(complaints(&deep)[0], "expression nested more than 64 deep");
    let chain = "tcp ? tcp : ".repeat(100_000) + "tcp";
    assert_eq!(complaints(&chain)[0], "expression nested more than 64 deep");
    let conditions =
        |depth: usize| (0..depth).fold("tcp".to_string(), |inner, _| format!("({inner} ? udp : icmp)"));
    assert!(complaints(&conditions(4)).is_empty());
    assert_eq!(complaints(&conditions(60))[0], "condition of '?' nested more than 4 deep");
    let long = "tcp port 80 or ".repeat(20_000) + "not not not not udp";
    assert!(complaints(&long).is_empty());
    let (_, issues) = parse("tcp and port 99999 and udp", &Plain);
    assert_eq!(issues[0].span, 8..18);
}

/// Checks Click's messages for texts with errors: the first error has all of them, the other errors have an
/// empty text.
#[test]
fn complaints_have_clicks_words() {
    for (text, expected) in [
        ("tcp foo", "empty term near 'foo'\ngarbage after expression at 'foo'"),
        ("dst prot 80", "partial directive\nempty term near 'prot'\ngarbage after expression at 'prot'"),
        (
            "src net 10.0.0.0/33",
            "'src ip net': address missing\nempty term near '10.0.0.0/33'\n\
             garbage after expression at '10.0.0.0/33'",
        ),
        ("port 65536", "'port': out of range, bound 65535"),
        ("ip ttl 256 and port 65536", "'ip ttl': out of range, bound 255\n'port': out of range, bound 65535"),
        ("ip ttl & 256 == 0", "'ip ttl': mask out of range, bound 0xFF"),
    ] {
        let (_, issues) = parse(text, &Plain);
        let words: Vec<_> = issues.iter().map(|issue| issue.clicks_words.as_deref()).collect();
        assert_eq!(words[0], Some(expected), "{text}");
        assert!(words[1..].iter().all(|words| *words == Some("")), "{text}: {words:?}");
    }
    for text in ["port", "host 5", "tcp or"] {
        let (_, issues) = parse(text, &Plain);
        assert!(issues.iter().all(|issue| issue.clicks_words.is_none()), "{text}: {issues:?}");
    }
}

proptest! {
    /// Checks texts of random words. The parser with Tidegate's messages and the parser with Click's messages
    /// must find errors in the same texts, and must give the same expression for all other texts.
    #[test]
    fn clicks_words_are_there_for_each_mistake(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "src", "dst", "or", "and", "not", "(", ")", "?", ":", "ip", "ip6", "ether", "tcp", "udp", "icmp", "host",
            "net", "proto", "port", "opt", "frag", "ect", "ttl", "type", "[", "]", "&", "==", "<", "foo", "80",
            "99999", "10.0.0.1", "10.0.0.0/8", "10.0.0.0/33", "::1", "2:0:0:0:0:1", "syn", "echo", "http", "any",
            "mask", "true",
        ]), 0..9),
    ) {
        let text = words.join(" ");
        let errors = |issues: &[Issue]| issues.iter().filter(|issue| !issue.is_warning).count();
        let (own, clicks) = (parse::read(&text, &Plain, false), parse::read(&text, &Plain, true));
        prop_assert_eq!(errors(&own.1) == 0, errors(&clicks.1) == 0, "{:?} {:?}", own.1, clicks.1);
        if errors(&own.1) == 0 {
            prop_assert_eq!(own.0, clicks.0);
        }
    }
}

#[test]
fn listings_look_like_clicks() {
    let list = |texts: &[&str]| {
        let conditions: Vec<Condition> = texts.iter().map(|text| condition(&good(text))).collect();
        Listing::new(conditions.iter().enumerate().map(|(i, c)| (c, Some(i)))).to_string()
    };
    assert_eq!(
        list(&["tcp", "udp", "-"]),
        " 0 264/00060000%00ff0000  yes->[0]  no->step 1\n \
         1 264/00110000%00ff0000  yes->[1]  no->[2]\nsafe length 266\nalignment offset 0\n"
    );
    assert_eq!(
        list(&["src tcp port 80"]),
        " 0 264/00060000%00ff0000  yes->step 1  no->[X]\n \
         1 260/00000000%00001fff  yes->step 2  no->[X]\n \
         2 512/00500000%ffff0000  yes->[0]  no->[X]\nsafe length 514\nalignment offset 0\n"
    );
    assert_eq!(
        list(&["ip ttl != 5"]),
        " 0 264/05000000%ff000000  yes->[X]  no->[0]  short->yes\nsafe length 265\nalignment offset 0\n"
    );
    assert_eq!(list(&["-"]), "all->[0]\nsafe length 0\nalignment offset 0\n");
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..4, 60u32..70, 250u32..256, 1020u32..1030, Just(65535)]
}

fn question() -> impl Strategy<Value = String> {
    let ends = prop_oneof![Just(""), Just("src "), Just("dst "), Just("src or dst "), Just("src and dst ")];
    let sign = prop_oneof![
        3 => Just(""), 1 => Just("== "), 1 => Just("!= "), 1 => Just("< "), 1 => Just("<= "), 1 => Just("> "),
        1 => Just(">= ")
    ];
    let equality = prop_oneof![Just(""), Just("!= ")];
    let protocol = prop_oneof![Just(""), Just("tcp "), Just("udp "), Just("dccp ")];
    let mask = prop_oneof![
        4 => Just(String::new()), 1 => (1u32..16).prop_map(|m| format!("& {m} "))
    ];
    let address = (0u8..3, 0u8..3).prop_map(|(a, b)| format!("10.0.{a}.{b}"));
    let field = prop_oneof![
        Just("vers"),
        Just("hl"),
        Just("id"),
        Just("tos"),
        Just("dscp"),
        Just("ttl"),
        Just("len")
    ];
    let transport =
        prop_oneof![Just("tcp"), Just("udp"), Just("transp"), Just("tcpudp"), Just("ip"), Just("ip6")];
    let brackets = prop_oneof![
        Just("[0]"),
        Just("[1:2]"),
        Just("[12:4]"),
        Just("[13]"),
        Just("[2:2]"),
        Just("[9]"),
        Just("[22]")
    ];
    let v6 = prop_oneof![Just("::1"), Just("2001:db8::/32"), Just("a00::/7"), Just("a00:1:a00::/44")];
    prop_oneof![
        (ends.clone(), equality.clone(), address.clone()).prop_map(|(e, s, a)| format!("{e}host {s}{a}")),
        (ends.clone(), equality.clone(), address, 0u8..33)
            .prop_map(|(e, s, a, n)| format!("{e}net {s}{a}/{n}")),
        (ends.clone(), protocol, mask.clone(), sign.clone(), number())
            .prop_map(|(e, p, m, s, n)| format!("{e}{p}port {m}{s}{n}")),
        (field, mask.clone(), sign.clone(), 0u32..16).prop_map(|(f, m, s, n)| format!("ip {f} {m}{s}{n}")),
        (transport, brackets, mask.clone(), sign.clone(), 0u32..256)
            .prop_map(|(t, b, m, s, n)| format!("{t}{b} {m}{s}{n}")),
        (mask, sign.clone(), 0u32..20).prop_map(|(m, s, n)| format!("ip proto {m}{s}{n}")),
        (sign.clone(), 0u32..20).prop_map(|(s, n)| format!("icmp type {s}{n}")),
        (sign, number()).prop_map(|(s, n)| format!("tcp win {s}{n}")),
        (ends.clone(), equality.clone(), v6)
            .prop_map(|(e, s, a)| format!("ip6 {e}{} {s}{a}", if a.contains('/') { "net" } else { "host" })),
        (ends, equality.clone(), 0u8..3, 0u8..3, 0u8..2).prop_map(|(e, s, a, b, m)| {
            let mask = if m == 0 { "" } else { "& ff:ff:0:0:0:0 " };
            format!("{e}ether host {mask}{s}2:0:0:0:{a}:{b}")
        }),
        (equality, prop_oneof![Just("tcpudp"), Just("transp"), Just("udp"), Just("icmp")])
            .prop_map(|(s, p)| format!("ip proto {s}{p}")),
        (0u32..64).prop_map(|flags| format!("tcp opt {flags}")),
        prop_oneof![
            Just("ip frag"),
            Just("unfrag"),
            Just("ip ect"),
            Just("ce"),
            Just("syn ack"),
            Just("true"),
            Just("false"),
            Just("tcp"),
            Just("udp"),
            Just("transp"),
            Just("ip6 tcp port 1"),
            Just("ip ect != 2")
        ]
        .prop_map(String::from),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    question().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) ({b})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
        ]
    })
}

/// Generates the bytes of a packet, its Ethernet header and its length. The values are near the values in
/// generated questions, so that these often hold.
fn packet() -> impl Strategy<Value = (Vec<u8>, [u8; 14], usize)> {
    let byte = prop_oneof![3 => 0u8..4, 1 => any::<u8>()];
    let ip = (
        prop_oneof![6 => Just(0x45u8), 2 => Just(0x46), 1 => Just(0x60), 1 => any::<u8>()],
        prop_oneof![4 => Just([0u8, 0]), 1 => Just([0x20, 0]), 1 => Just([0, 1]), 1 => Just([0x40, 0])],
        prop_oneof![3 => Just(6u8), 3 => Just(17), 2 => Just(1), 1 => Just(33), 1 => any::<u8>()],
        prop::collection::vec(byte.clone(), 64),
        (0u8..3, 0u8..3, 0u8..3, 0u8..3),
    );
    let ports = (number(), number());
    let mac = (0u8..3, 0u8..2, 0u8..3, 0u8..2);
    let length = prop_oneof![3 => Just(64usize), 2 => 0usize..64];
    (ip, ports, mac, length).prop_map(|(ip, ports, mac, length)| {
        let (version, fragment, protocol, mut bytes, (a, b, c, d)) = ip;
        (bytes[0], bytes[9]) = (version, protocol);
        bytes[6..8].copy_from_slice(&fragment);
        bytes[12..20].copy_from_slice(&[10, 0, a, b, 10, 0, c, d]);
        let transport = 4 * usize::from(version & 15).clamp(5, 10);
        bytes[transport..transport + 2].copy_from_slice(&(ports.0 as u16).to_be_bytes());
        bytes[transport + 2..transport + 4].copy_from_slice(&(ports.1 as u16).to_be_bytes());
        if version == 0x60 {
            bytes[6] = protocol;
        }
        let mac = [2, 0, 0, 0, mac.0, mac.1, 2, 0, 0, 0, mac.2, mac.3, 8, 0];
        (bytes, mac, length)
    })
}

fn headers<'p>(bytes: &'p [u8], mac: &'p [u8], length: usize) -> HeaderSlices<'p> {
    let network = &bytes[..length];
    let behind = 4 * usize::from(bytes[0] & 15).clamp(5, 10);
    HeaderSlices {
        mac: &mac[..length.min(14)],
        network,
        transport: network.get(behind..).unwrap_or_default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn compiled_rules_agree_with_the_straightforward_evaluator(
        texts in prop::collection::vec(expression(), 1..6),
        packets in prop::collection::vec(packet(), 12),
    ) {
        let expressions: Vec<Expression> = texts.iter().map(|text| good(text)).collect();
        let conditions: Vec<Condition> = expressions.iter().map(condition).collect();
        let matcher = Matcher::new(&conditions);
        let listing = Listing::new(conditions.iter().enumerate().map(|(i, c)| (c, Some(i))));
        for (bytes, mac, length) in &packets {
            let headers = headers(bytes, mac, *length);
            for (expression, condition) in expressions.iter().zip(&conditions) {
                let expected = expression.holds(&|question| question.holds(&headers));
                prop_assert_eq!(condition.holds(&|test| test.holds(&headers)), expected, "{:?}", condition);
            }
            let expected = expressions.iter().position(|e| e.holds(&|question| question.holds(&headers)));
            prop_assert_eq!(matcher.first(&headers), expected);
            // A listing tests whole words, so its result is compared only for packets that have all bytes of
            // these words.
            if *length == 64 {
                prop_assert_eq!(listing.walk(&headers), expected, "{}", listing);
            }
        }
    }
}

/// Checks that a matcher finds the same conditions as a linear search: packet by packet, in batches, and
/// with a cache of the last flow.
fn all_are_found(conditions: &[Condition], packets: &[(Vec<u8>, [u8; 14], usize)]) {
    let matcher = Matcher::new(conditions);
    // Each third packet comes three times in a row, so that the cached flow is found again.
    let times = |i: usize| if i.is_multiple_of(3) { 3 } else { 1 };
    let packets = packets.iter().enumerate().flat_map(|(i, packet)| std::iter::repeat_n(packet, times(i)));
    let all: Vec<HeaderSlices<'_>> =
        packets.map(|(bytes, mac, length)| headers(bytes, mac, *length)).collect();
    let linear =
        |headers: &HeaderSlices<'_>| conditions.iter().position(|c| c.holds(&|test| test.holds(headers)));
    let expected: Vec<Option<usize>> = all.iter().map(linear).collect();
    let one_by_one: Vec<Option<usize>> = all.iter().map(|headers| matcher.first(headers)).collect();
    assert_eq!(one_by_one, expected);
    for mut recent in [None, Some(Recent::default())] {
        // The cache keeps the last flow between batches.
        let mut found = Vec::new();
        for batch in all.chunks(45) {
            matcher.first_of_each(batch.iter().copied(), recent.as_mut(), |rule| found.push(rule));
        }
        assert_eq!(found, expected);
        if let Some(Recent { hits, misses, .. }) = recent {
            assert_eq!(hits + misses, all.len() as u64);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn many_rules_agree_with_a_linear_search(
        rules in prop::collection::vec((0u8..4, 0u8..8, 0u8..33, 0u8..8, 0u8..33, number()), 20..400),
        packets in prop::collection::vec(packet(), 50),
    ) {
        let conditions: Vec<Condition> = rules.iter().map(|&(kind, a, n, b, m, port)| {
            let text = match kind {
                0 => format!("src net 10.0.{a}.{b}/{n} and dst net 10.0.{b}.{a}/{m} and tcp"),
                1 => format!("dst net 10.0.{a}.{b}/{n} and src port > {}", port.min(60000)),
                2 => format!("src host 10.0.{a}.{b} and not dst port {port}"),
                _ => format!("host 10.0.{a}.{b} and udp or dst port {port}"),
            };
            condition(&good(&text))
        }).collect();
        all_are_found(&conditions, &packets);
    }

    #[test]
    fn many_rules_of_every_kind_agree_with_a_linear_search(
        texts in prop::collection::vec(expression(), 17..80),
        packets in prop::collection::vec(packet(), 50),
    ) {
        let conditions: Vec<Condition> = texts.iter().map(|text| condition(&good(text))).collect();
        all_are_found(&conditions, &packets);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        parse(&text, &Plain);
    }

    #[test]
    fn no_words_panic(words in prop::collection::vec(prop_oneof![
        Just("src"), Just("dst"), Just("and"), Just("or"), Just("not"), Just("("), Just(")"), Just("?"), Just(":"),
        Just("tcp"), Just("udp"), Just("port"), Just("80"), Just("ip"), Just("["), Just("]"), Just("0:2"),
        Just("&"), Just(">"), Just("!="), Just("10.0.0.1"), Just("mask"), Just("net"), Just("host"), Just("ether"),
        Just("ip6"), Just("::1"), Just("echo"), Just("proto"), Just("syn"), Just("ttl"), Just("-1"),
    ], 0..14)) {
        let text = words.join(" ");
        let (expression, issues) = parse(&text, &Plain);
        for issue in &issues {
            prop_assert!(text.get(issue.span.clone()).is_some(), "{:?}", issue);
        }
        if issues.iter().all(|issue| issue.is_warning) {
            all_ways(&expression, &cut(&PACKET, 99));
        }
    }
}
