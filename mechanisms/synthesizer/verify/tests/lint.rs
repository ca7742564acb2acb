//! Tests the findings of the lint about rules, elements, ends of packets and regions. Idle rules are compared
//! with brute force over all packets that the rules distinguish.

use std::collections::BTreeSet;

use element::effects::Written;
use testkit::chains::{Read, read};
use verify::lint::regions::{obstacle, regions};
use verify::lint::{Findings, check};

fn findings(read: &Read) -> Findings {
    let findings = check(&read.chain, None, None, &mut |_| {});
    assert!(!findings.exhausted);
    findings
}

fn names(read: &Read, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|&node| read.chain.nodes[node].name.clone()).collect()
}

/// A rule of a test: allow or deny, with an optional network of source addresses, port and protocol.
#[derive(Clone, Debug)]
struct Rule {
    allow: bool,
    network: Option<(u8, u8)>,
    port: Option<(u16, u16)>,
    tcp: Option<bool>,
}

/// A packet, as far as the rules distinguish packets: the last byte of the source address, the port (8
/// means any other port), and the protocol (`None` is a protocol other than TCP and UDP, which has no
/// port).
type Header = (u8, u16, Option<bool>);

fn headers() -> impl Iterator<Item = Header> {
    let ports = |tcp: Option<bool>| if tcp.is_some() { 0..9 } else { 0..1 };
    (0..16).flat_map(move |address| {
        [Some(true), Some(false), None]
            .into_iter()
            .flat_map(move |tcp| ports(tcp).map(move |port| (address, port, tcp)))
    })
}

impl Rule {
    fn random(random: &mut fastrand::Rng) -> Rule {
        let network = random.bool().then(|| {
            let bits = random.u8(0..=4);
            (random.u8(0..16) & !(15 >> bits), bits)
        });
        let port = random.bool().then(|| {
            let first = random.u16(0..8);
            (first, random.u16(first..8))
        });
        let tcp = random.bool().then(|| random.bool());
        Rule { allow: random.bool(), network, port, tcp }
    }

    fn matches(&self, (address, port, tcp): Header) -> bool {
        self.network.is_none_or(|(network, bits)| address & !(15 >> bits) == network)
            && self.port.is_none_or(|(first, last)| tcp.is_some() && (first..=last).contains(&port))
            && self.tcp.is_none_or(|is_tcp| tcp == Some(is_tcp))
    }

    fn text(&self) -> String {
        let mut words = Vec::new();
        if let Some((network, bits)) = self.network {
            words.push(format!("src net 10.0.0.{network}/{}", 28 + bits));
        }
        if let Some((first, last)) = self.port {
            words.push(format!("dst port >= {first} && dst port <= {last}"));
        }
        if let Some(tcp) = self.tcp {
            words.push(if tcp { "tcp".into() } else { "udp".into() });
        }
        if words.is_empty() {
            words.push("all".into());
        }
        format!("{} {}", if self.allow { "allow" } else { "deny" }, words.join(" && "))
    }
}

/// Compares the lint with brute force for random rules: the lint has to report exactly the rules that decide
/// about no packet. The rules that it names as cover of an idle rule have to take packets of that rule.
#[test]
fn idle_rules_are_those_that_decide_about_no_packet() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut idle_rules = 0;
    for _ in 0..60 {
        let rules: Vec<Rule> = (0..random.usize(2..12)).map(|_| Rule::random(&mut random)).collect();
        let texts: Vec<String> = rules.iter().map(Rule::text).collect();
        // Only unfragmented packets longer than 100 bytes from a network of sixteen addresses reach the
        // rules.
        let chain = read(&format!(
            "FromDump(x) -> Strip(14) -> CheckIPHeader -> IPFilter(deny ip frag, allow src net 10.0.0.0/28)
             -> long :: CheckLength(100) -> Discard;
             long[1] -> rules :: IPFilter({}) -> ToDump(y);",
            texts.join(", ")
        ));
        let found = findings(&chain);
        let first = |header: Header| rules.iter().position(|rule| rule.matches(header));
        let decides: BTreeSet<usize> = headers().filter_map(first).collect();
        let expected: BTreeSet<usize> = (0..rules.len()).filter(|n| !decides.contains(n)).collect();
        let node = chain.graph.find("rules").unwrap();
        let idle: Vec<_> = found.idle.iter().filter(|idle| idle.node == node).collect();
        let got: BTreeSet<usize> = idle.iter().map(|idle| idle.rule.argument).collect();
        assert_eq!(got, expected, "{texts:#?}");
        idle_rules += got.len();
        for idle in idle {
            let rule = &rules[idle.rule.argument];
            let its: Vec<Header> = headers().filter(|&header| rule.matches(header)).collect();
            for cover in &idle.covered_by {
                let takes = |&header: &Header| rules[cover.argument].matches(header);
                assert!(cover.argument < idle.rule.argument && its.iter().any(takes), "{idle:?} {texts:#?}");
            }
            let fates: BTreeSet<bool> =
                its.iter().filter_map(|&h| first(h)).map(|n| rules[n].allow).collect();
            let same = fates == BTreeSet::from([rule.allow]);
            assert_eq!(idle.elsewhere.is_none(), same || its.is_empty(), "{idle:?} {texts:#?}");
        }
    }
    assert!(idle_rules > 30, "{idle_rules}");
}

#[test]
fn rules_of_files_are_known_by_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules");
    std::fs::write(&file, "allow tcp\n\n  deny udp\nallow udp dst port 53\n").unwrap();
    let filter = format!("IPFilter(deny icmp, file {}, deny all)", file.display());
    let found = findings(&read(&format!("FromDump(x) -> MarkIPHeader(14) -> {filter} -> ToDump(y);")));
    let places: Vec<(Written, &[Written])> =
        found.idle.iter().map(|idle| (idle.rule, &idle.covered_by[..])).collect();
    let line = |line| Written { argument: 1, line: Some(line) };
    assert_eq!(places, [(line(4), &[line(3)][..])]);
    assert_eq!(found.idle[0].elsewhere, Some(line(3)));
}

/// A rule about UDP downstream of a filter for TCP is idle, although no earlier rule covers it.
#[test]
fn rules_about_packets_that_never_come_are_idle() {
    let chain = read(
        "FromDump(x) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(tcp, -);
         c[0] -> f :: IPFilter(allow udp dst port 53, allow tcp dst port 80, deny all) -> ToDump(y);
         c[1] -> Discard;",
    );
    let found = findings(&chain);
    let idle: Vec<_> = found.idle.iter().map(|idle| (idle.rule.argument, idle.covered_by.len())).collect();
    assert_eq!(idle, [(0, 0)]);
}

#[test]
fn elements_that_no_packet_comes_to_are_found() {
    let chain = read(
        "FromDump(x) -> c :: Classifier(12/0800, 12/0800 23/06, -);
         c[0] -> out :: ToDump(y); c[1] -> never :: Counter -> out; c[2] -> Discard;
         island :: Null -> island;",
    );
    assert_eq!(names(&chain, &findings(&chain).unreached), ["never", "island"]);
}

/// Returns a chain in which the element has this number of connected outputs.
fn with_outputs(element: &str, outputs: usize) -> String {
    let ways = (0..outputs).map(|output| format!("f[{output}] -> Counter -> Discard;"));
    format!("FromDump(x) -> f :: {element}; {}", ways.collect::<String>())
}

#[test]
fn work_grows_with_the_outputs_of_an_element_and_not_faster() {
    for element in ["RoundRobinSwitch", "RandomSwitch", "HashSwitch(14, 4)"] {
        let [few, many] = [250, 2000].map(|outputs| {
            let found = findings(&read(&with_outputs(element, outputs)));
            let fates = found.entries[0].fates.len();
            assert!(fates >= outputs, "{element}: {fates} fates");
            found.steps
        });
        assert!(many < 16 * few, "{element}: {few} steps for 250 outputs, {many} for 2000");
    }
}

/// Checks that 2^17 diagram nodes suffice for a chain in which an uninterpreted function rewrites all
/// headers. For this, the variables of the function's bits have to be next to the lengths and fields that
/// they are compared with.
#[test]
fn headers_that_a_function_has_written_take_little_room() {
    let chain = read(
        "p :: PayloadTable; FromDump(x) -> Slice(p) -> Strip(14) -> CheckIPHeader
            -> IPFilter(deny tcp && dst port 23, deny udp && dst port 161, allow all) -> DecIPTTL
            -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Splice(p) -> ToDump(y);",
    );
    let found = check(&chain.chain, None, Some(1 << 17), &mut |_| {});
    assert!(!found.exhausted && found.entries[0].fates.len() > 3, "{found:?}");
}

#[test]
fn what_was_found_before_there_was_no_room_is_kept() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut number = |most| random.u32(0..most);
    let rules = (0..300).map(|_| {
        let (net, host, port, ttl) = (number(256), number(256), number(65_536), number(256));
        format!("allow src net 10.{net}.{host}.0/24 && dst host 10.{host}.{net}.1 && dst port {port} && ip ttl {ttl}, ")
    });
    let chain = read(&format!(
        "FromDump(x) -> Null -> ToDump(y);
         FromDump(z) -> Strip(14) -> CheckIPHeader -> IPFilter({}deny all) -> ToDump(v);",
        rules.collect::<String>()
    ));
    let found = check(&chain.chain, None, Some(8000), &mut |_| {});
    assert!(found.exhausted, "{found:?}");
    assert_eq!(names(&chain, &found.unknown), ["FromDump@4"]);
    assert_eq!(found.entries.len(), 1);
    assert_eq!(names(&chain, &[found.entries[0].fates[0].node]), ["ToDump@3"]);
}

/// Downstream of an opaque element, each rule may decide and each element may be reached, so no rule is
/// reported as idle and no element as unreached.
#[test]
fn nothing_is_said_of_packets_that_are_not_known() {
    let chain = read(
        "FromDump(x) -> Script(TYPE PACKET, return 0) -> c :: IPClassifier(tcp, tcp dst port 80, -);
         c[0] -> Discard; c[1] -> Discard; c[2] -> Discard;",
    );
    let found = findings(&chain);
    assert!(found.idle.is_empty() && found.unreached.is_empty(), "{found:?}");
    assert_eq!(names(&chain, &found.entries[0].opaque), ["Script@2"]);
}

/// The start of a chain in which only CheckIP6Header knows the offset of the transport header.
const EXTENSIONS: &str =
    "FromDump(x) -> Classifier(12/86dd) -> Strip(14) -> CheckIP6Header(PROCESS_EH true) -> ";

/// Tests packets of which only the offset of the transport header is unknown. Elements that no IPv6 address
/// or version leads to are still found unreached.
#[test]
fn packets_with_a_header_somewhere_are_known_otherwise() {
    let chain = read(&format!(
        "{EXTENSIONS} c :: Classifier(24/20, 24/2001, -); c[0] -> short :: Classifier(0/40%f0, -);
         c[1] -> never :: Counter -> Discard; c[2] -> Discard; short[0] -> four :: Counter -> Discard;
         short[1] -> Discard;"
    ));
    let found = findings(&chain);
    assert_eq!(names(&chain, &found.unreached), ["never", "Discard@8", "four", "Discard@11"]);
}

/// Packets with a transport header at an unknown offset stay known on a loop, so an idle rule on it is
/// found.
#[test]
fn packets_with_a_header_somewhere_come_round() {
    let chain = read(&format!(
        "{EXTENSIONS} Null -> rt :: Classifier(24/20, 24/2001, 24/3f, -); rt[0] -> hops :: DecIP6HLIM -> rt;
         hops[1] -> Discard; rt[1] -> never :: Discard; rt[2] -> Paint(1) -> rt; rt[3] -> ToDump(y);"
    ));
    let found = findings(&chain);
    assert!(!found.round.is_empty());
    assert_eq!(names(&chain, &found.unreached), ["never"]);
    let idle: Vec<_> = found.idle.iter().map(|idle| idle.rule.argument).collect();
    assert_eq!(idle, [1]);
}

/// IP6Mirror writes ports at an unknown offset. It may change a byte that was tested upstream, so both
/// outputs of a later test can be reached.
#[test]
fn what_is_written_somewhere_may_be_anything() {
    let chain = read(&format!(
        "{EXTENSIONS} Classifier(6/11 40/0050) -> IP6Mirror -> c :: Classifier(40/0050, -);
         c[0] -> same :: Discard; c[1] -> swapped :: Discard;"
    ));
    assert_eq!(names(&chain, &findings(&chain).unreached), Vec::<String>::new());
}

/// The ICMP errors that an element makes reach the elements downstream of it.
#[test]
fn packets_that_elements_make_reach_what_is_behind() {
    let chain = read(
        "FromDump(x) -> MarkIPHeader(14) -> ttl :: DecIPTTL -> Discard;
         ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> error :: Counter -> ToDump(y);",
    );
    let found = findings(&chain);
    assert_eq!(names(&chain, &found.unreached), Vec::<String>::new());
}

/// Each example packet of a possible end, when it is run, ends at the exit or with the drop reason that the
/// lint says.
#[test]
fn examples_meet_their_fates() {
    let chain = read(
        "FromDump(x) -> c :: Classifier(12/0800, 12/0806, 12/86dd, -); c[0] -> Strip(14) -> CheckIPHeader
         -> f :: IPFilter(deny src 10.0.0.1, allow tcp dst port 80, allow udp, deny all)
         -> ttl :: DecIPTTL -> out :: ToDump(y);
         c[1] -> arp :: ToDump(z); c[2] -> six :: ToDump(w); c[3] -> other :: ToDump(v);",
    );
    let found = findings(&chain);
    let [entry] = &found.entries[..] else { panic!("{found:?}") };
    let leaves: Vec<_> = entry.fates.iter().filter(|fate| fate.reason.is_none()).collect();
    assert_eq!((leaves.len(), entry.fates.len()), (4, 9), "{found:?}");
    for fate in &entry.fates {
        let example = fate.example.as_ref().unwrap();
        let outputs = testkit::chains::outputs(&chain, entry.node, example);
        let came: Vec<&str> = outputs
            .iter()
            .filter(|(_, packets)| !packets.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        match fate.reason {
            None => assert_eq!(came, [chain.chain.nodes[fate.node].name.as_str()], "{fate:?}"),
            Some(reason) => {
                assert!(came.is_empty(), "{fate:?} came to {came:?}");
                let end = (chain.chain.nodes[fate.node].name.clone(), reason.to_string());
                assert_eq!(testkit::chains::drops(&chain, entry.node, example), [end], "{fate:?}");
            }
        }
    }
}

/// The lint considers that a queue may be full: packets may leave by the queue's second output, so the
/// element there is a possible end.
#[test]
fn queues_may_be_full() {
    let chain = read("FromDump(x) -> q :: Queue(2) -> Unqueue -> ToDump(y); q[1] -> full :: Discard;");
    let found = findings(&chain);
    let ends: Vec<&str> =
        found.entries[0].fates.iter().map(|fate| chain.chain.nodes[fate.node].name.as_str()).collect();
    assert!(ends.contains(&"full"), "{ends:?}");
}

#[test]
fn regions_end_at_what_cannot_be_composed() {
    let chain = read(
        "in :: FromDump(x) -> a :: Strip(14) -> b :: CheckIPHeader -> q :: Queue -> u :: Unqueue -> c :: DecIPTTL
         -> s :: RandomSample(0.5) -> d :: Counter -> out :: ToDump(y);
         b[1] -> e :: Discard;",
    );
    let regions: Vec<Vec<String>> =
        regions(&chain.chain).iter().map(|region| names(&chain, region)).collect();
    assert_eq!(regions, [vec!["a", "b", "e"], vec!["u", "c"], vec!["d"]]);
    let why = |name: &str| obstacle(&chain.chain, chain.graph.find(name).unwrap());
    assert_eq!(why("q").as_deref(), Some("queue"));
    assert_eq!(why("s").as_deref(), Some("depends on chance"));
    assert_eq!((why("in"), why("out"), why("b")), (None, None, None));
}

/// Tests bytes that were stripped upstream of a loop and become visible again downstream of it, with Unstrip.
/// The lint must not call the test of these bytes idle.
#[test]
fn what_is_in_front_may_come_back_on_a_circle() {
    let chain = read(
        "FromDump(x) -> Classifier(12/0800 14/45) -> CheckIPHeader(14) -> Strip(14) -> StoreData(8, \\<40>)
         -> SetIPChecksum -> l :: DecIPTTL -> c :: Classifier(8/05, -); c[1] -> l;
         c[0] -> Unstrip(14) -> d :: Classifier(12/0800, -); d[0] -> good :: Counter -> out :: ToDump(y);
         d[1] -> Discard;",
    );
    let found = findings(&chain);
    assert!(found.unreached.is_empty() && found.idle.is_empty(), "{found:?}");
    assert!(!found.entries[0].round.is_empty(), "{found:?}");
}

/// Packets that come round on a loop too often are replaced by arbitrary packets. The analysis therefore
/// ends, and elements or rules downstream that packets may reach are not reported as unreached or idle.
#[test]
fn circles_end() {
    let chain = read(
        "FromDump(x) -> p :: CheckPaint(200); p[0] -> late :: Counter -> Discard;
         p[1] -> StoreData(14, \\<01>) -> c :: Classifier(14/01, 14/02, -); c[0] -> Script(TYPE PACKET, return 0) -> p;
         c[1] -> never :: Counter -> Discard; c[2] -> Discard;",
    );
    let found = findings(&chain);
    assert!(!found.exhausted && !found.round.is_empty(), "{found:?}");
    assert!(!names(&chain, &found.unreached).contains(&"late".to_string()), "{found:?}");
    let arp =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../configs/click/arp.click"));
    let arp = read(&arp.unwrap());
    let found = findings(&arp);
    assert!(!found.exhausted && found.unreached.is_empty() && found.idle.is_empty(), "{found:?}");
}
