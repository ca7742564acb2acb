//! Tests of IPFilter and IPClassifier in running configurations: behaviour compared with declaration,
//! errors about arguments, rules from files, and large rule sets.

use std::time::Instant;

use element::effects::{Effects, Field, Filter, Predicate, Target};
use element::{Base, Timestamp};
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{TestRun, corpus, in_clicks_words};

/// True if a filter from the declaration of an element accepts a packet. The tests of the filter's leaves are
/// evaluated here, independently of the code under test.
fn takes(filter: &Filter, input: &TestPacket) -> bool {
    filter.holds(&|leaf| {
        let Predicate::In { field: Field::Bytes { base, offset, length }, mask, set } = leaf else {
            panic!("not a question about bytes: {leaf:?}");
        };
        let header = match base {
            Base::Data => Some(0),
            Base::Mac => input.headers[0],
            Base::Network => input.headers[1],
            Base::Transport => input.headers[2],
        };
        let Some(header) = header else { return false };
        let at = (header + *offset as isize) as usize;
        let bytes = input.bytes.get(at..at + usize::from(*length));
        let number = |b: &[u8]| b.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
        bytes.is_some_and(|bytes| set.contains(number(bytes) & mask))
    })
}

fn declared(effects: &Effects, input: &TestPacket) -> Option<usize> {
    let case = effects.cases.iter().find(|case| takes(&case.when, input)).expect("the cases are total");
    match case.to {
        Target::Output(output) => Some(output),
        Target::Drop(_) => None,
        other => panic!("{other:?}"),
    }
}

const RULES: &[&str] = &[
    "allow udp, 1 tcp dst port 80, 2 ip frag, deny -",
    "2 src or dst port > 1000 and not ip ttl < 64, 1 host 10.0.0.1 ? tcp : udp, 0 ip hl != 5, 1 ip[0] & 0xf0 == 0x40",
    "1 not port 53, 2 ether host 2:0:0:0:0:2, 0 all",
    "0 tcp opt ack and src net 10.0.0.0/16, 1 icmp type echo or ip6 port 53, 2 transp[2:2] & 0xf >= 5",
    "drop ip len > 1000, 1 ip proto != 17 && src host != 10.0.0.1, 2 src and dst net != 10.0.0.0/24",
];

#[test]
fn what_is_declared_is_what_happens() {
    let mut reached = [0; 4];
    for rules in RULES {
        let inputs: Vec<TestPacket> = (0..8).flat_map(corpus::inputs).collect();
        let number = offer(vec![inputs.clone()]);
        let mut text = format!("TestSource({number}, 0) -> f :: IPFilter({rules});");
        (0..3).for_each(|sink| text += &format!("f[{sink}] -> TestSink({number}, {sink});"));
        let worker = testkit::worker(&text, TestRun::default()).unwrap();
        let id = worker.plan().graph.find("f").unwrap();
        let effects = worker.effects()[id].clone();
        drop(worker);
        TestRun::default().text(&text, &[]).unwrap();
        let seen: Vec<Seen> = collect(number);
        for (i, input) in inputs.iter().enumerate() {
            let found = seen.iter().find(|seen| seen.id == i as u32 + 1).map(|seen| seen.sink);
            assert_eq!(declared(&effects, input), found, "{rules}: {:02x?}", &input.bytes);
            reached[found.unwrap_or(3)] += 1;
        }
    }
    assert!(reached.iter().all(|&n| n > 20), "{reached:?}");
}

/// Returns the text of a configuration with an element that has this number of connected outputs.
fn with_outputs(element: &str, outputs: usize) -> String {
    let mut text = format!("Idle -> e :: {element};");
    (0..outputs).for_each(|output| text += &format!("e[{output}] -> Discard;"));
    text
}

/// Returns the error about an element with this number of outputs; empty if there is none.
fn complaint(element: &str, outputs: usize) -> String {
    TestRun::default().text(&with_outputs(element, outputs), &[]).err().unwrap_or_default()
}

#[test]
fn bad_arguments_are_named() {
    for (element, outputs, expected) in [
        ("IPClassifier(tcp, udp)", 1, "2 patterns for output 0: give one for each, '-' for all others"),
        ("IPClassifier(tcp, port)", 2, "pattern 1: 'port': value missing"),
        ("IPFilter(allow tcp)", 0, "rule 0: 'allow' leads to output 0, which is not connected"),
        ("IPFilter(1 tcp)", 1, "rule 0: there is no output 1; output 0 is the only one"),
        ("IPFilter(-1 tcp)", 1, "rule 0: there is no output -1; output 0 is the only one"),
        (
            "IPFilter(permit tcp)",
            1,
            "rule 0: 'permit' is no action; use allow, deny, drop or the number of an output",
        ),
        ("IPFilter(allow tcp, , deny all)", 1, "rule 1 is empty; leave the comma out"),
        ("IPFilter(file)", 1, "rule 0: 'file' needs the name of one file"),
        ("IPFilter(file /does/not/exist)", 1, "rule 0: file /does/not/exist cannot be read"),
        ("IPFilter(allow tcp, CACHING maybe)", 1, "CACHING: 'maybe' is neither true nor false"),
        ("IPFilter(allow foo)", 1, "rule 0: 'foo' means nothing here"),
        ("IPFilter(allow dst prot 80)", 1, "rule 0: 'prot' means nothing here; did you mean 'port'?"),
        ("IPFilter(deny file /does/not/exist)", 1, "rule 0: file /does/not/exist cannot be read"),
        ("IPFilter(deny file)", 1, "rule 0: 'file' needs the name of one file"),
        ("IPFilter(allow @10.0.0.0/8 any)", 1, "rule 0: destination prefix expected instead of 'any'"),
    ] {
        let found = complaint(element, outputs);
        assert!(found.contains(expected), "{element}: {found}");
    }
    for (element, outputs, expected) in [
        ("IPClassifier(tcp, udp)", 1, "need 1 arguments, one per output port"),
        ("IPClassifier(tcp, port)", 2, "pattern 1: 'port': value missing"),
        ("IPFilter(allow tcp)", 0, "pattern 0: 'allow' is meaningless, element has zero outputs"),
        ("IPFilter(1 tcp)", 1, "pattern 0: slot '1' out of range"),
        ("IPFilter(-1 tcp)", 1, "pattern 0: slot '-1' out of range"),
        ("IPFilter(permit tcp)", 1, "pattern 0: unknown slot ID 'permit'"),
        ("IPFilter(allow tcp, , deny all)", 1, "empty pattern 1"),
        ("IPFilter(file)", 1, "pattern 0: file must have a single argument, the filename"),
        ("IPFilter(file /does/not/exist)", 1, "pattern 0: Could not open file /does/not/exist"),
        ("IPFilter(allow tcp, CACHING maybe)", 1, "CACHING: parse error"),
        ("IPFilter(allow foo)", 1, "pattern 0: empty term near 'foo'"),
        ("IPFilter(deny file /does/not/exist)", 1, "pattern 0: Could not open file /does/not/exist"),
        ("IPFilter(deny file)", 1, "pattern 0: file must have a single argument, the filename"),
        ("IPFilter(allow @10.0.0.0/8 any)", 1, "pattern 0: destination prefix expected instead of 'any'"),
        ("IPFilter(allow ip ttl 256)", 1, "pattern 0: 'ip ttl': out of range, bound 255"),
        ("IPFilter(allow src net 10.0.0.0/33)", 1, "pattern 0: 'src ip net': address missing"),
    ] {
        let found = in_clicks_words(&with_outputs(element, outputs));
        assert!(found.contains(expected), "{element}: {found}");
    }
    // Click stops if the number of patterns differs from the number of outputs.
    let found = in_clicks_words(&with_outputs("IPClassifier(tcp, port)", 1));
    assert_eq!(found.matches("pattern").count(), 0, "{found}");
    assert_eq!(complaint("IPFilter(allow)", 1), "");
    assert_eq!(complaint("IPFilter(drop all)", 0), "");
    assert_eq!(complaint("IPClassifier(\"tcp or udp\", \"-\")", 2), "");
}

/// Makes an IPv4 packet without link header, with its header offsets.
fn input(source: [u8; 4], destination: [u8; 4], protocol: u8, ports: [u16; 2]) -> TestPacket {
    let mut payload = ports.map(u16::to_be_bytes).concat();
    payload.resize(20, 0);
    let mut bytes = corpus::ipv4(64, protocol, &[], &payload);
    bytes[12..16].copy_from_slice(&source);
    bytes[16..20].copy_from_slice(&destination);
    TestPacket { bytes, time: Timestamp(1), annotations: [0; 48], headers: [None, Some(0), Some(20)] }
}

/// Runs packets through a configuration. Returns the sink number of each packet that comes out, and the
/// values of `handlers` at the end.
fn sinks(configuration: &str, inputs: Vec<TestPacket>, handlers: &[&str]) -> (Vec<usize>, Vec<String>) {
    let number = offer(vec![inputs]);
    let mut text = configuration.replace("SOURCE", &format!("TestSource({number}, 0)"));
    (0..4)
        .for_each(|sink| text = text.replace(&format!("SINK{sink}"), &format!("TestSink({number}, {sink})")));
    let run = TestRun { burst: None, ..TestRun::default() };
    let outcome = run.text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    let seen = collect(number).iter().map(|seen| seen.sink).collect();
    (seen, outcome.values.into_iter().map(Result::unwrap).collect())
}

#[test]
fn names_files_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules");
    std::fs::write(&file, "deny src BAD\n\n  allow dst net INSIDE && tcp  \r\n1 dst gw\n").unwrap();
    let text = format!(
        "AddressInfo(BAD 10.0.0.66, INSIDE 10.1.0.0/16, gw 10.2.0.1/24 2:2:2:2:2:2);
         SOURCE -> f :: IPFilter(file {}, 1 udp src port dns, CACHING true); f[0] -> SINK0; f[1] -> SINK1;",
        file.display()
    );
    let inputs = vec![
        input([10, 0, 0, 66], [10, 1, 0, 1], 6, [1, 2]),
        input([10, 0, 0, 1], [10, 1, 9, 1], 6, [1, 2]),
        input([10, 0, 0, 1], [10, 1, 9, 1], 6, [1, 2]),
        input([10, 0, 0, 1], [10, 2, 0, 1], 17, [1, 2]),
        input([10, 0, 0, 1], [10, 2, 0, 2], 17, [1, 2]),
        input([10, 0, 0, 1], [10, 2, 0, 2], 17, [53, 2]),
    ];
    let handlers =
        ["f.cache_hits_count", "f.cache_misses_count", "f.cache_total_count", "f.cache_misses_ratio"];
    let (seen, values) = sinks(&text, inputs, &handlers);
    assert_eq!(seen, [0, 0, 1, 1]);
    assert_eq!(values[..3], ["1", "5", "6"]);
    assert!(values[3].starts_with("83.333"));
    let (_, values) = sinks("SOURCE -> f :: IPFilter(allow all) -> SINK0", Vec::new(), &handlers);
    assert_eq!(values, ["-1"; 4]);
}

/// Rules from a file in the format of ClassBench, with and without an action of their own. The handler
/// `rule_counts` says how many packets each rule has decided.
#[test]
fn rules_of_classbench_and_how_often_they_decide() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules");
    // With this many rules, another look-up algorithm is used than with a few.
    let mut rules: String = (10..60)
        .map(|net| {
            format!("@10.{net}.0.0/16\t192.0.2.0/24\t0 : 65535\t80 : 443\t0x06/0xFF\t0x0000/0x0200\t\n")
        })
        .collect();
    rules += "1 @0.0.0.0/0 0.0.0.0/0 0 : 65535 53 : 53 0x00/0x00\n";
    for (rules, decided) in [(rules.as_str(), 50), (rules.split_inclusive('\n').next_back().unwrap(), 0)] {
        std::fs::write(&file, rules).unwrap();
        let allowed = |net| input([10, net, 1, 1], [192, 0, 2, 1], 6, [1, 443]);
        let inputs = vec![
            allowed(59),
            allowed(59),
            input([10, 59, 1, 1], [192, 0, 2, 1], 6, [1, 444]),
            input([10, 59, 1, 1], [192, 0, 2, 1], 17, [1, 53]),
            allowed(10),
            allowed(60),
            allowed(59),
        ];
        for caching in ["", ", CACHING true"] {
            let text = format!(
                "SOURCE -> f :: IPFilter(2 file {}{caching}); f[0] -> Discard; f[1] -> SINK1; f[2] -> SINK2",
                file.display()
            );
            let (seen, values) = sinks(&text, inputs.clone(), &["f.rule_counts"]);
            if decided == 0 {
                assert_eq!((seen, &*values[0]), (vec![1], "0 1\n- 6\n"), "{caching}");
            } else {
                assert_eq!(seen, [2, 2, 1, 2, 2], "{caching}");
                assert_eq!(values, ["0 1\n49 3\n50 1\n- 2\n"], "{caching}");
            }
        }
    }
}

#[test]
fn patterns_can_be_written() {
    let text = "SOURCE -> c :: IPClassifier(tcp, udp); c[0] -> SINK0; c[1] -> SINK1;
        b :: Classifier(0/45, -); Idle -> b; b[0] -> Discard; b[1] -> Discard;
        Script(write c.pattern0 icmp, write b.pattern0 12/0806);";
    let udp = || input([1, 1, 1, 1], [2, 2, 2, 2], 17, [1, 2]);
    let icmp = || input([1, 1, 1, 1], [2, 2, 2, 2], 1, [1, 2]);
    let tcp = || input([1, 1, 1, 1], [2, 2, 2, 2], 6, [1, 2]);
    let handlers = ["c.pattern0", "c.pattern1", "b.pattern0", "b.program"];
    let (seen, values) = sinks(text, vec![udp(), icmp(), tcp()], &handlers);
    assert_eq!((seen, &values[..3]), (vec![1, 0], &["icmp", "udp", "12/0806"].map(String::from)[..]));
    assert!(values[3].starts_with(" 0  12/08060000%ffff0000  yes->[0]  no->[1]\n"), "{}", values[3]);
}

#[test]
fn large_rule_sets() {
    let Some(folder) = testkit::found::path("rules") else { return };
    let file = folder.join("reframer/fw-rules");
    let text = format!("SOURCE -> f :: IPFilter(file {}); f[0] -> SINK0; f[1] -> SINK1;", file.display());
    let packet = |destination| input([1, 2, 3, 4], destination, 6, [1, 2]);
    let lines = std::fs::read_to_string(&file).unwrap();
    let words = lines.lines().filter_map(|line| line.strip_prefix("allow dst net "));
    let listed: Vec<[u8; 4]> = words
        .filter_map(|prefix| prefix.trim().strip_suffix("/32"))
        .map(|address| address.parse::<std::net::Ipv4Addr>().unwrap().octets())
        .collect();
    assert!(listed.len() > 11_000);
    let start = Instant::now();
    let some = listed.iter().step_by(97).copied();
    let inputs: Vec<TestPacket> = some.clone().map(packet).chain([packet([240, 0, 0, 1])]).collect();
    let expected: Vec<usize> = some.map(|_| 0).chain([1]).collect();
    assert_eq!(sinks(&text, inputs, &[]).0, expected);
    println!("{} rules of reframer: {:?}", listed.len(), start.elapsed());

    // Rules of SNF's firewall. For every thirteenth rule, a packet is made that matches the rule, so that
    // it or an earlier rule decides.
    let configuration = std::fs::read_to_string(folder.join("snf/real-acl/real_acl_8550.nf1.click")).unwrap();
    let lines = configuration.lines().map(|line| line.trim().trim_end_matches(','));
    let rules: Vec<&str> =
        lines.filter(|line| line.starts_with("allow  ") || line.starts_with("drop  ")).collect();
    assert!(rules.len() > 8_000);
    let facts: Vec<Fact> = rules.iter().map(|rule| Fact::read(rule)).collect();
    let inputs: Vec<TestPacket> = facts.iter().step_by(13).map(Fact::packet).collect();
    // Some rules test ports of protocols that have none, and match no packet.
    let first = |input: &TestPacket| facts.iter().find(|fact| fact.covers(input));
    let allowed = inputs.iter().map(|input| first(input).is_some_and(|fact| fact.allows));
    let expected = allowed.filter(|&allows| allows).count();
    assert!(expected > 400);
    let start = Instant::now();
    let text = format!("SOURCE -> IPFilter({}) -> SINK0;", rules.join(",\n"));
    assert_eq!(sinks(&text, inputs, &[]).0.len(), expected);
    println!("{} rules of SNF: {:?}", rules.len(), start.elapsed());
}

/// A rule of SNF's firewall, parsed independently of Tidegate's own parser: network and mask of source and
/// destination, protocol, port ranges.
#[derive(Default)]
struct Fact {
    allows: bool,
    nets: [(u32, u32); 2],
    protocol: Option<u8>,
    ports: [Option<(u16, u16)>; 2],
}

impl Fact {
    fn read(rule: &str) -> Fact {
        let mut fact = Fact { allows: rule.starts_with("allow"), ..Fact::default() };
        let clauses = rule.split_once("  ").map_or("", |(_, rest)| rest);
        for clause in clauses.split("&&") {
            let words: Vec<&str> = clause.split_whitespace().collect();
            let end = usize::from(words[0] == "dst");
            match words[..] {
                ["src" | "dst", "net", prefix] => {
                    let (address, length) = prefix.split_once('/').unwrap();
                    let free = 32 - length.parse::<u32>().unwrap();
                    let mask = u32::MAX.checked_shl(free).unwrap_or(0);
                    fact.nets[end] = (address.parse::<std::net::Ipv4Addr>().unwrap().to_bits() & mask, mask);
                }
                ["ip", "proto", number] => fact.protocol = Some(number.parse().unwrap()),
                ["src" | "dst", "port", ref relation @ ..] => {
                    let number = |port: &str| port.parse::<u16>().unwrap();
                    let (low, high) = match relation {
                        [">", port] => (number(port) + 1, u16::MAX),
                        ["<", port] => (0, number(port) - 1),
                        [port] => (number(port), number(port)),
                        _ => panic!("{rule}"),
                    };
                    let (least, most) = fact.ports[end].unwrap_or((0, u16::MAX));
                    fact.ports[end] = Some((low.max(least), high.min(most)));
                }
                _ => panic!("{rule}"),
            }
        }
        fact
    }

    fn packet(&self) -> TestPacket {
        let port = |end: usize| self.ports[end].map_or(9, |(low, _)| low);
        let protocol = self.protocol.unwrap_or(6);
        let [source, destination] = self.nets.map(|(address, _)| address.to_be_bytes());
        input(source, destination, protocol, [port(0), port(1)])
    }

    fn covers(&self, input: &TestPacket) -> bool {
        let number =
            |at: usize, n: usize| input.bytes[at..at + n].iter().fold(0, |v, &b| v << 8 | u32::from(b));
        let protocol = number(9, 1) as u8;
        (0..2).all(|end| {
            let (address, mask) = self.nets[end];
            let port = number(20 + 2 * end, 2) as u16;
            number(12 + 4 * end, 4) & mask == address
                && self.ports[end]
                    .is_none_or(|(low, high)| [6, 17].contains(&protocol) && (low..=high).contains(&port))
        }) && self.protocol.is_none_or(|p| p == protocol)
    }
}
