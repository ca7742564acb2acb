//! Tests of translators, compared with a straightforward model and with the requirements of RFCs.
//!
//! Packets come from a capture with their times. With [`gateway`], packets for the outer address arrive at
//! input 1 of the translator, all others at input 0.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use testkit::elements::{Seen, collect, offer};
use testkit::plain::{end, tcp, udp, write_capture};
use testkit::{RunResults, TestRun, in_clicks_words};
use wire::build::Builder;
use wire::checksum;
use wire::tcp::flags::{ACK, FIN, RST, SYN};

mod endpoints;
mod floods;
mod ftp;
mod gateway;
mod log;
mod model;
mod rfc;

/// The document `docs/nat.md` names every test in `sources` whose name begins with `rfc`, and names no test
/// that does not exist in `sources`.
#[test]
fn the_document_has_every_requirement() {
    let document = include_str!("../../../../docs/nat.md");
    let sources = [
        include_str!("main.rs"),
        include_str!("endpoints.rs"),
        include_str!("floods.rs"),
        include_str!("ftp.rs"),
        include_str!("gateway.rs"),
        include_str!("log.rs"),
        include_str!("model.rs"),
        include_str!("rfc.rs"),
        include_str!("../../src/nat/store/tests.rs"),
    ];
    let tests: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("fn ").skip(1))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    // In the document, names of tests are words in backquotes with more than three underscores.
    let is_test = |name: &&str| name.matches('_').count() > 3 && !name.contains(|c: char| c.is_uppercase());
    let named: Vec<&str> = document.split('`').skip(1).step_by(2).filter(is_test).collect();
    let missing: Vec<_> =
        tests.iter().filter(|test| test.starts_with("rfc") && !named.contains(test)).collect();
    let wrong: Vec<_> = named.iter().filter(|name| !tests.contains(name)).collect();
    assert!(named.len() > 20, "{named:?}");
    assert!(missing.is_empty() && wrong.is_empty(), "not in the document: {missing:?}, no tests: {wrong:?}");
}

const NAPT: &str = "pattern 192.0.2.1 1024-65535 - - 0 1, drop";
const INSIDE: [u8; 4] = [10, 0, 0, 1];
const REMOTE: [u8; 4] = [2, 0, 0, 2];
const OUTER: [u8; 4] = [192, 0, 2, 1];

fn echo(from: [u8; 4], to: [u8; 4], kind: u8, identifier: u16) -> Vec<u8> {
    Builder::icmp(from.into(), to.into(), kind, 0, [identifier, 1]).build(b"ping").unwrap()
}

/// Makes an ICMP error of `router` about the packet `about`, of which it quotes the first `quoted` bytes.
fn error(router: [u8; 4], about: &[u8], quoted: usize) -> Vec<u8> {
    let to: [u8; 4] = about[12..16].try_into().unwrap();
    let quoted = &about[..quoted.min(about.len())];
    Builder::icmp(router.into(), to.into(), 3, 1, [0, 0]).build(quoted).unwrap()
}

/// Makes the answer to a packet: source and destination are exchanged, and an ICMP message becomes an echo
/// reply.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes[12..20].rotate_left(4);
    match bytes[9] {
        1 => {
            bytes[20] = 0;
            let _ = checksum::fill_icmp(&mut bytes[20..]);
        }
        _ => bytes[20..24].rotate_left(2),
    }
    bytes
}

/// True if all checksums of a packet equal a full computation.
fn is_sound(packet: &[u8]) -> bool {
    let mut fresh = packet.to_vec();
    refill(&mut fresh);
    fresh == packet
}

/// Computes the checksums of a packet's IPv4 header and of its transport header in full. A UDP checksum of
/// zero stays.
fn refill(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = !fold(words(&packet[..length]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut pseudo: u32 = words(&packet[12..20]) + u32::from(packet[9]);
    pseudo += (packet.len() - length) as u32;
    let (at, protocol) = match packet[9] {
        6 => (length + 16, 6),
        17 => (length + 6, 17),
        _ => (length + 2, 1),
    };
    if protocol == 17 && packet[at..at + 2] == [0, 0] {
        return;
    }
    packet[at..at + 2].fill(0);
    let start = if protocol == 1 { 0 } else { pseudo };
    let sum = !fold(start + words(&packet[length..]));
    let sum = if protocol == 17 && sum == 0 { 0xffff } else { sum };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Runs packets, each with its time in milliseconds, from the source `in` through a configuration with an
/// element `rw`. Returns the results of the run, and the packets that leave `rw` by its `outputs` outputs.
fn run(
    config: &str,
    outputs: usize,
    packets: &[(i64, Vec<u8>)],
    handlers: &[&str],
) -> (RunResults, Vec<Seen>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_capture(&path, packets);
    let exchange = offer(Vec::new());
    let mut text = format!("in :: FromDump({}, FORCE_IP true);\n{config}\n", path.display());
    for output in 0..outputs {
        text += &format!("rw [{output}] -> TestSink({exchange}, {output});\n");
    }
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(exchange))
}

/// Returns the configuration of a gateway with a translator `rw`. Packets for the outer address arrive at
/// its input 1, all others at input 0.
fn gateway(class: &str, config: &str) -> String {
    format!(
        "in -> c :: IPClassifier(dst host 192.0.2.1, -); c[1] -> [0] rw :: {class}({config}); c[0] -> [1] rw;"
    )
}

/// Runs packets through a gateway that translates flows, pings, and ICMP errors about both. Returns the
/// packets that leave.
fn with_errors(packets: &[(i64, Vec<u8>)]) -> Vec<Seen> {
    let config = "in -> p :: IPClassifier(icmp type echo or 13 or 15 or 17 or icmp type echo-reply, icmp, -);
        p[2] -> c :: IPClassifier(dst host 192.0.2.1, -); c[1] -> [0] nat :: IPRewriter(pattern 192.0.2.1 3000-4000# - - 0 1, drop, REAP_INTERVAL 1);
        c[0] -> [1] nat; nat[0] -> rw :: Null; nat[1] -> rw;
        p[0] -> d :: IPClassifier(dst host 192.0.2.1, -);
        d[1] -> [0] ping :: ICMPPingRewriter(pattern 192.0.2.1 700-800# - - 0 1, drop, REAP_INTERVAL 1, OTHER_QUERIES true); d[0] -> [1] ping;
        ping[0] -> rw; ping[1] -> rw;
        p[1] -> ICMPRewriter(nat ping) -> rw;";
    run(config, 1, packets, &[]).1
}

fn value(outcome: &RunResults, n: usize) -> &str {
    outcome.values[n].as_deref().unwrap()
}

/// Returns source and destination endpoint of a packet.
fn ends(bytes: &[u8]) -> (SocketAddr, SocketAddr) {
    let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (end(address(12), port(20)), end(address(16), port(22)))
}

// The tests `mappings_are_listed_as_in_click` and `every_specification_does_what_it_says` check behaviour
// that Click documents: the text of lists of mappings, and the effect of each input specification, such as
// `drop` or `pattern`.

#[test]
fn mappings_are_listed_as_in_click() {
    let packet = udp(end([1, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    let segment = tcp(end([1, 0, 0, 1], 21), end([2, 0, 0, 2], 80), SYN, b"");
    let handlers =
        ["rw.udp_table", "rw.tcp_table", "rw.patterns", "rw.table_size", "rw.pattern1", "rw.capacity"];
    let config = gateway("IPRewriter", "pattern 192.0.2.1 1024-65535# - - 0 1, drop");
    let (outcome, seen) = run(&config, 2, &[(0, packet), (0, segment)], &handlers);
    assert_eq!(
        value(&outcome, 0),
        "(2.0.0.2, 30, 192.0.2.1, 1024) => (2.0.0.2, 30, 1.0.0.1, 20) [0 *1] i0 exp300\n\
         (1.0.0.1, 20, 2.0.0.2, 30) => (192.0.2.1, 1024, 2.0.0.2, 30) [*0 1] i0 exp300\n"
    );
    assert_eq!(
        value(&outcome, 1),
        "(2.0.0.2, 80, 192.0.2.1, 1025) => (2.0.0.2, 80, 1.0.0.1, 21) [0 *1] i0 exp300\n\
         (1.0.0.1, 21, 2.0.0.2, 80) => (192.0.2.1, 1025, 2.0.0.2, 80) [*0 1] i0 exp300\n"
    );
    assert_eq!(value(&outcome, 2), "192.0.2.1 1024-65535 - - [2]\n<drop>\n");
    assert_eq!([3, 4, 5].map(|n| value(&outcome, n)), ["2", "<drop>\n", "1048576"]);
    assert!(seen.iter().all(|seen| is_sound(&seen.bytes) && seen.annotations[..4] == [2, 0, 0, 2]));
}

#[test]
fn every_specification_does_what_it_says() {
    let there = udp(end([1, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    let icmp = echo([1, 0, 0, 1], [2, 0, 0, 2], 8, 5);
    for (spec, output, fate) in [
        ("drop", None, None),
        ("discard", None, None),
        ("pass 1", Some(("<nochange>\n", 1)), Some(([1, 0, 0, 1], 20, [2, 0, 0, 2], 30))),
        ("nochange", Some(("<nochange>\n", 0)), Some(([1, 0, 0, 1], 20, [2, 0, 0, 2], 30))),
        ("keep 1 0", Some(("<keep> [1]\n", 1)), Some(([1, 0, 0, 1], 20, [2, 0, 0, 2], 30))),
        ("pattern 9.9.9.9 7 - - 1 0", Some(("9.9.9.9 7 - - [1]\n", 1)), Some(([9; 4], 7, [2, 0, 0, 2], 30))),
        (
            "pattern - - 8.8.8.8 53 0 0",
            Some(("- - 8.8.8.8 53 [1]\n", 0)),
            Some(([1, 0, 0, 1], 20, [8; 4], 53)),
        ),
        (
            "pattern 9.9.9.9 10-30 - - 0 0",
            Some(("9.9.9.9 10-30 - - [1]\n", 0)),
            Some(([9; 4], 20, [2, 0, 0, 2], 30)),
        ),
        ("pattern named 0 1", Some(("9.9.9.9 70-80 - - [1]\n", 0)), Some(([9; 4], 70, [2, 0, 0, 2], 30))),
        ("m", Some(("<mapper> [1]\n", 1)), Some(([1, 0, 0, 1], 20, [7; 4], 1))),
    ] {
        let config = format!(
            "IPRewriterPatterns(named 9.9.9.9 70-80# - -); m :: RoundRobinIPMapper(- - 7.7.7.7 1 1 0, - - 7.7.7.8 2 0 0);
             in -> rw :: IPRewriter({spec});"
        );
        let (outcome, seen) = run(&config, 2, &[(0, there.clone()), (1, icmp.clone())], &["rw.patterns"]);
        let passes = spec.starts_with("pass") || spec.starts_with("nochange");
        assert_eq!(seen.len(), usize::from(output.is_some()) + usize::from(passes), "{spec}: {seen:?}");
        let Some((pattern, output)) = output else { continue };
        assert_eq!((value(&outcome, 0), seen[0].sink), (pattern, output), "{spec}");
        let (a, p, b, q) = fate.unwrap();
        assert_eq!(ends(&seen[0].bytes), (end(a, p), end(b, q)), "{spec}");
        assert!(is_sound(&seen[0].bytes));
    }
}

#[test]
fn mistakes_are_reported() {
    let text_of = |config: &str| {
        format!("Idle -> rw :: {config} -> Discard; other :: Counter; Idle -> other -> Discard")
    };
    let error = |config: &str| TestRun::default().text(&text_of(config), &[]).unwrap_err();
    for (config, expected) in [
        ("IPRewriter", "0 specifications for input 0: give one for each"),
        ("IPRewriter(drop, drop)", "2 specifications for input 0: give one for each"),
        ("IPRewriter(drop 1)", "input spec 0: syntax error, expected 'drop'"),
        ("IPRewriter(pass x)", "input spec 0: syntax error, expected 'nochange [OUTPUT]'"),
        ("IPRewriter(pass 1)", "input spec 0: output port out of range"),
        ("IPRewriter(keep 0)", "input spec 0: bad forward port"),
        ("IPRewriter(keep 0 x)", "input spec 0: bad reply port"),
        ("IPRewriter(keep 0 1)", "input spec 0: output port out of range"),
        ("IPRewriter(pattern 1.0.0.1 0 0)", "input spec 0: no such pattern '1.0.0.1'"),
        ("IPRewriter(pattern - 0)", "input spec 0: syntax error"),
        ("IPRewriter(pattern x 1 - - 0 0)", "input spec 0: bad source address"),
        ("IPRewriter(pattern - 0-99999 - - 0 0)", "input spec 0: bad source port"),
        ("IPRewriter(other)", "input spec 0: element is not an IPMapper"),
        ("IPRewriter(nobody)", "input spec 0: unknown specification"),
        ("IPRewriter(drop, MAPPING_CAPACITY nobody)", "bad MAPPING_CAPACITY"),
        ("IPRewriter(drop, MAPPING_CAPACITY other)", "bad MAPPING_CAPACITY"),
        ("IPRewriter(drop, UDP_TIMEOUT -1)", "UDP_TIMEOUT: a time must not be negative"),
        ("ICMPRewriter(nobody)", "nobody not an IP rewriter"),
        ("ICMPRewriter(nobody:1)", " nobody not an IP rewriter"),
        ("ICMPRewriter(other)", "other not an IP rewriter"),
    ] {
        let text = error(config);
        assert!(text.contains(expected), "{config}: {text}");
    }
    for (config, expected) in [
        ("IPRewriter", "need 1 arguments, one per input port"),
        ("IPRewriter(drop, drop)", "need 1 arguments, one per input port"),
        ("IPRewriter(drop, UDP_TIMEOUT -1)", "UDP_TIMEOUT: invalid number"),
        ("IPRewriter(drop 1)", "input spec 0: syntax error, expected 'drop'"),
    ] {
        let text = in_clicks_words(&text_of(config));
        assert!(text.contains(expected), "{config}: {text}");
    }
}

#[test]
fn a_pattern_without_a_range_takes_the_reply_over() {
    let [a, b] = [1, 2].map(|host| udp(end([10, 0, 0, host], 20), end([2, 0, 0, 2], 30)));
    let reply = udp(end([2, 0, 0, 2], 30), end(OUTER, 7));
    let config = gateway("IPRewriter", "pattern 192.0.2.1 7 - - 0 1, drop");
    let (outcome, seen) =
        run(&config, 2, &[(0, a), (1, b), (2, reply)], &["rw.table_size", "rw.mapping_failures"]);
    assert_eq!(ends(&seen[2].bytes).1, end([10, 0, 0, 2], 20));
    assert_eq!([value(&outcome, 0), value(&outcome, 1)], ["1", "0"]);
}

#[test]
fn ports_come_back_and_run_out() {
    let to = end([2, 0, 0, 2], 30);
    let new = |port: u16| udp(end([10, 0, 0, 1], port), to);
    let config = "pattern 192.0.2.1 100-102# - - 0 1, drop, UDP_TIMEOUT 10, REAP_INTERVAL 10";
    let packets: Vec<_> = (0..4).map(|n| (n, new(1000 + n as u16))).chain([(21_000, new(2000))]).collect();
    let handlers = ["rw.size", "rw.mapping_failures"];
    let (outcome, seen) = run(&gateway("IPRewriter", config), 2, &packets, &handlers);
    let ports: Vec<u16> = seen.iter().map(|seen| ends(&seen.bytes).0.port()).collect();
    assert_eq!(ports, [100, 101, 102, 100]);
    assert_eq!([value(&outcome, 0), value(&outcome, 1)], ["1", "1"]);
    let drops = &outcome.report.elements.iter().find(|e| e.name == "rw").unwrap().drops;
    assert_eq!(format!("{drops:?}").matches("no free port").count(), 1, "{drops:?}");
}

#[test]
fn existing_sessions_live_on_when_the_table_is_full() {
    let new = |port: u16| udp(end([10, 0, 0, 1], port), end([2, 0, 0, 2], 30));
    let config = gateway("IPRewriter", "keep 0 1, drop, MAPPING_CAPACITY 2");
    // MAPPING_CAPACITY is 2, and a mapping may not be evicted in the five seconds after its last packet
    // (GUARANTEE). So flow 3, which needs a third mapping in the first second, is refused. At 7 s, the least
    // recently used mapping is evicted for flow 4.
    let packets: Vec<_> = [(0, 1), (1, 2), (2, 3), (3, 1), (4000, 2), (7000, 4), (7001, 2)]
        .map(|(t, port)| (t, new(port)))
        .into();
    let handlers = ["rw.size", "rw.mapping_failures", "rw.udp_table"];
    let (outcome, seen) = run(&config, 2, &packets, &handlers);
    let ports: Vec<u16> = seen.iter().map(|seen| ends(&seen.bytes).0.port()).collect();
    assert_eq!(ports, [1, 2, 1, 2, 4, 2]);
    assert_eq!([value(&outcome, 0), value(&outcome, 1)], ["2", "1"]);
    assert!(!value(&outcome, 2).contains("10.0.0.1, 1,"));
}

#[test]
fn addresses_alone_are_translated_for_every_protocol() {
    let there = Builder::ip([10, 0, 0, 1].into(), [2, 0, 0, 2].into(), 47).build(b"gre").unwrap();
    let back = Builder::ip([2, 0, 0, 2].into(), [1, 0, 0, 5].into(), 50).build(b"esp").unwrap();
    let datagram = udp(end([10, 0, 0, 1], 20), end([3, 0, 0, 3], 30));
    let config = "in -> c :: IPClassifier(src net 10/8, -); c[0] -> [0] rw :: IPAddrRewriter(pattern 1.0.0.5-1.0.0.6# - 0 1, pass 1);
        c[1] -> [1] rw;";
    let (outcome, seen) = run(config, 2, &[(0, there), (1, back), (2, datagram)], &["rw.table"]);
    assert_eq!(
        value(&outcome, 0),
        "0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200\n10.0.0.1 => 1.0.0.5 [*0 1] i0 exp7200\n"
    );
    assert_eq!((&seen[0].bytes[12..16], &seen[1].bytes[16..20]), (&[1, 0, 0, 5][..], &[10, 0, 0, 1][..]));
    assert_eq!(seen[1].annotations[..4], [10, 0, 0, 1]);
    assert!(is_sound(&seen[2].bytes) && ends(&seen[2].bytes).0 == end([1, 0, 0, 5], 20));
    let pair = "in -> c :: IPClassifier(src net 10/8, -); c[0] -> [0] rw :: IPAddrPairRewriter(pattern 1.0.0.5 9.9.9.9 0 1, drop);
        c[1] -> [1] rw;";
    let there = udp(end([10, 0, 0, 1], 20), end([3, 0, 0, 3], 30));
    let back = udp(end([9; 4], 30), end([1, 0, 0, 5], 20));
    let (outcome, seen) = run(pair, 2, &[(0, there), (1, back)], &["rw.table"]);
    assert_eq!(
        value(&outcome, 0),
        "(9.9.9.9, 1.0.0.5) => (3.0.0.3, 10.0.0.1) [0 *1] i0 exp7200\n\
         (10.0.0.1, 3.0.0.3) => (1.0.0.5, 9.9.9.9) [*0 1] i0 exp7200\n"
    );
    assert_eq!(ends(&seen[1].bytes), (end([3, 0, 0, 3], 30), end([10, 0, 0, 1], 20)));
    assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
}

/// A pattern with ports does not fit a translator of addresses: no mapping is made.
#[test]
fn a_pattern_for_other_translators_counts_as_a_failure() {
    let packet = udp(end([10, 0, 0, 1], 20), end([3, 0, 0, 3], 30));
    for class in ["IPAddrRewriter", "IPAddrPairRewriter"] {
        let config = format!("in -> rw :: {class}(pattern 1.0.0.5 1024-2047 - - 0 0);");
        let packets = [(0, packet.clone()), (1, packet.clone())];
        let (outcome, seen) = run(&config, 1, &packets, &["rw.mapping_failures", "rw.size"]);
        assert_eq!((value(&outcome, 0), value(&outcome, 1), seen.len()), ("2", "0", 0), "{class}");
    }
}

/// The source address of the third packet has one mapping, and its destination address is that of another
/// mapping; the mapping of the source address decides. This has to be so even if a packet in the same batch
/// made that mapping.
#[test]
fn translators_of_one_address_do_the_same_whatever_comes_together() {
    let [first, other] = [end([10, 0, 1, 2], 20), end([10, 255, 0, 1], 30)];
    let packets = [udp(first, end([2; 4], 30)), udp(other, end([3; 4], 30)), udp(other, first)];
    for times in [[0, 1, 2], [0, 0, 0], [0, 1, 1], [0, 0, 1]] {
        let packets: Vec<_> = times.into_iter().zip(packets.clone()).collect();
        let config = "in -> rw :: IPAddrRewriter(keep 0 1, drop); Idle -> [1] rw;";
        let (_, seen) = run(config, 2, &packets, &[]);
        assert_eq!(seen.iter().map(|seen| seen.sink).collect::<Vec<_>>(), [0; 3], "{times:?}");
    }
}

#[test]
fn udp_without_a_checksum_stays_so_and_others_never_become_so() {
    let mut bare = udp(end([1, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    bare[26..28].fill(0);
    let config = gateway("IPRewriter", "pattern 192.0.2.1 1024-65535# - - 0 1, drop");
    let (_, seen) = run(&config, 2, &[(0, bare)], &[]);
    assert_eq!(seen[0].bytes[26..28], [0, 0]);
    // A computed UDP checksum of zero is sent as all ones (RFC 768).
    let mut found = false;
    for port in 1..=u16::MAX {
        let packet = udp(end(OUTER, 1024), end([2, 0, 0, 2], port));
        if packet[26..28] == [0xff, 0xff] {
            let inner = udp(end([1, 0, 0, 1], 20), end([2, 0, 0, 2], port));
            let (_, seen) = run(&config, 2, &[(0, inner)], &[]);
            assert_eq!(seen[0].bytes, packet);
            found = true;
            break;
        }
    }
    assert!(found, "no port makes such a checksum");
}

#[test]
fn mappers_choose_in_turn_and_by_source() {
    let from = |host: u8, port: u16| udp(end([10, 0, 0, host], port), end(OUTER, 80));
    let config =
        "m :: RoundRobinIPMapper(- - 10.1.0.1 80 0 1, - - 10.1.0.2 80 0 1); in -> rw :: IPRewriter(m);";
    let packets: Vec<_> = (0..4).map(|n| (n, from(1, 1000 + n as u16 / 2 * 7))).collect();
    let (_, seen) = run(config, 2, &packets, &[]);
    let servers: Vec<u8> = seen.iter().map(|seen| seen.bytes[19]).collect();
    assert_eq!(servers, [1, 1, 2, 2], "a known flow stays where it is");
    let config = "m :: SourceIPHashMapper(50 3, - - 10.1.0.1 80 0 1 1, - - 10.1.0.2 80 0 1 2); in -> rw :: IPRewriter(m);";
    let packets: Vec<_> = (0..60u8).map(|n| (i64::from(n), from(n / 2, 1000 + u16::from(n)))).collect();
    let (_, seen) = run(config, 2, &packets, &[]);
    let servers: Vec<u8> = seen.iter().map(|seen| seen.bytes[19]).collect();
    assert!(servers.chunks(2).all(|pair| pair[0] == pair[1]));
    assert!(servers.contains(&1) && servers.contains(&2));
}

#[test]
fn translators_whose_capacities_name_each_other_share_one() {
    let config = "in -> c :: RoundRobinSwitch; c[0] -> rw :: UDPRewriter(keep 0 0, CAPACITY b);
        c[1] -> b :: UDPRewriter(keep 0 0, CAPACITY d) -> Discard; c[2] -> d :: UDPRewriter(keep 0 0, CAPACITY b) -> Discard;";
    let packets: Vec<_> = (0..6).map(|n| (n, udp(end(INSIDE, 5000 + n as u16), end(REMOTE, 53)))).collect();
    let (outcome, _) = run(config, 1, &packets, &["rw.size", "b.size", "d.size", "d.table_size"]);
    assert_eq!([0, 1, 2, 3].map(|n| value(&outcome, n)), ["6", "6", "6", "2"]);
}

#[test]
fn translators_can_share_a_capacity_and_be_changed_while_they_run() {
    let new = |port: u16| udp(end([10, 0, 0, 1], port), end([2, 0, 0, 2], 30));
    let config = "in -> c :: IPClassifier(src udp port < 10, -);
        c[0] -> rw :: UDPRewriter(keep 0 1, MAPPING_CAPACITY other); c[1] -> other :: UDPRewriter(keep 0 0, CAPACITY 3);
        other -> Discard;";
    let packets: Vec<_> = [1, 11, 2, 12, 3].iter().zip(0..).map(|(&port, n)| (n, new(port))).collect();
    let handlers =
        ["rw.size", "other.size", "rw.table_size", "other.table_size", "rw.mapping_failures", "rw.capacity"];
    let (outcome, _) = run(config, 2, &packets, &handlers);
    let values: Vec<&str> = (0..6).map(|n| value(&outcome, n)).collect();
    assert_eq!(values, ["3", "3", "2", "1", "1", "3"]);
    let scripts = |script: &str| {
        let config = format!("in -> rw :: IPRewriter(keep 0 1); DriverManager(pause, {script}, stop)");
        let packets: Vec<_> = [1, 11, 2, 12, 3].iter().zip(0..).map(|(&port, n)| (n, new(port))).collect();
        run(&config, 2, &packets, &[]).0
    };
    let outcome = scripts(
        "print rw.size, write rw.capacity 2, print rw.size, print rw.capacity, write rw.clear, print rw.size",
    );
    assert_eq!(outcome.output, "5\n2\n2\n0\n");
    let outcome = scripts(
        "print rw.pattern0, write rw.pattern0 pattern 1.0.0.1 5-9 - - 1 0, print rw.patterns, print rw.table_size",
    );
    assert_eq!(outcome.output, "<keep> [5]\n1.0.0.1 5-9 - -\n0\n");
    let outcome = scripts("write rw.pattern0 keep 7 7, print rw.pattern0");
    assert!(outcome.messages.contains("input spec 0: output port out of range"), "{}", outcome.messages);
    assert_eq!(outcome.output, "<keep> [5]\n");
}

#[test]
fn connections_can_be_looked_up() {
    let segment = tcp(end([1, 0, 0, 1], 21), end([2, 0, 0, 2], 80), SYN, b"");
    for (class, handler) in [("IPRewriter", "tcp_lookup"), ("TCPRewriter", "lookup")] {
        let config = format!(
            "in -> rw :: {class}(pattern 9.9.9.9 5 - - 0 1); DriverManager(pause,
             print $(rw.{handler} 1.0.0.1 21 2.0.0.2 80), print $(rw.{handler} 2.0.0.2 80 9.9.9.9 5),
             print $(rw.{handler} 1.0.0.1 22 2.0.0.2 80), stop)"
        );
        let (outcome, _) = run(&config, 2, &[(0, segment.clone())], &[]);
        assert_eq!(outcome.output, "9.9.9.9 5 2.0.0.2 80\n2.0.0.2 80 1.0.0.1 21\n\n", "{}", outcome.messages);
    }
}

#[test]
fn errors_about_packets_with_other_addresses_only_are_translated() {
    let packet = udp(end([10, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    let changed = udp(end([1, 0, 0, 5], 20), end([2, 0, 0, 2], 30));
    for class in ["IPAddrRewriter", "IPAddrPairRewriter"] {
        let config = format!(
            "in -> p :: IPClassifier(icmp, -); p[1] -> nat :: {class}(pattern 1.0.0.5 - 0 0) -> Discard;
             p[0] -> rw :: ICMPRewriter(nat);"
        );
        let (_, seen) = run(&config, 1, &[(0, packet.clone()), (1, error([7; 4], &changed, 28))], &[]);
        assert_eq!(seen[0].bytes, error([7; 4], &packet, 28), "{class}");
    }
    // An ICMP error about a packet without a mapping leaves by output 1 of ICMPRewriter, if that output is
    // connected.
    let config = "in -> p :: IPClassifier(icmp, -); p[1] -> nat :: IPRewriter(pass 0) -> Discard;
        p[0] -> rw :: ICMPRewriter(nat);";
    let (_, seen) = run(config, 2, &[(0, packet), (1, error([7; 4], &changed, 28))], &[]);
    assert_eq!(seen.iter().map(|seen| seen.sink).collect::<Vec<_>>(), [1]);
}

#[test]
fn the_reply_gets_the_annotation_of_the_first_packet() {
    let there = udp(end([10, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    let back = udp(end([2, 0, 0, 2], 30), end(OUTER, 20));
    let config = "in -> c :: IPClassifier(dst host 192.0.2.1, -);
        c[1] -> Paint(7) -> [0] rw :: IPRewriter(pattern 192.0.2.1 1-99 - - 0 1, drop, REPLY_ANNO PAINT, DST_ANNO false);
        c[0] -> Paint(9) -> [1] rw;";
    let (_, seen) = run(config, 2, &[(0, there), (1, back)], &[]);
    assert_eq!([seen[0].annotations[16], seen[1].annotations[16]], [7, 7]);
    assert_eq!(seen[1].annotations[..4], OUTER, "as it came");
}

#[test]
fn fragments_pass_whoever_has_marked_their_headers() {
    let mut fragment = udp(end([10, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    fragment[6..8].copy_from_slice(&4u16.to_be_bytes());
    refill(&mut fragment[..]);
    for class in ["IPRewriter", "UDPRewriter", "TCPRewriter", "ICMPPingRewriter"] {
        for between in ["", "MarkIPHeader ->", "CheckIPHeader ->"] {
            let config = format!("in -> {between} rw :: {class}(pass 1);");
            let (_, seen) = run(&config, 2, &[(0, fragment.clone())], &[]);
            let seen: Vec<_> = seen.iter().map(|seen| (seen.sink, &seen.bytes)).collect();
            assert_eq!(seen, [(1, &fragment)], "{class}, {between}");
        }
    }
}

#[test]
fn an_error_about_number_zero_gets_number_zero_back() {
    let ping = echo([10, 0, 0, 1], [2, 0, 0, 2], 8, 0);
    let datagram = udp(end([10, 0, 0, 1], 0), end([2, 0, 0, 2], 0));
    for (class, pattern, packet) in
        [("ICMPPingRewriter", "700-800#", ping), ("IPRewriter", "3000-4000#", datagram)]
    {
        let config = |rest: &str| {
            format!(
                "in -> p :: IPClassifier(dst host 192.0.2.1, -);
                 p[1] -> nat :: {class}(pattern 192.0.2.1 {pattern} - - 0 0); {rest}"
            )
        };
        let alone = config("nat -> rw :: Null; p[0] -> Discard;");
        let outside = run(&alone, 1, &[(0, packet.clone())], &[]).1[0].bytes.clone();
        assert_ne!(outside, packet);
        let both = config("nat -> Discard; p[0] -> rw :: ICMPRewriter(nat);");
        let (_, seen) = run(&both, 1, &[(0, packet.clone()), (1, error([7; 4], &outside, usize::MAX))], &[]);
        assert_eq!(seen[0].bytes, error([7; 4], &packet, usize::MAX), "{class}");
    }
}

#[test]
fn mappings_that_are_over_are_over_for_everybody() {
    let packet = udp(end([10, 0, 0, 1], 20), end([2, 0, 0, 2], 30));
    let outside = udp(end(OUTER, 3000), end([2, 0, 0, 2], 30));
    let config = "in -> p :: IPClassifier(dst host 192.0.2.1, -);
        p[1] -> nat :: IPRewriter(pattern 192.0.2.1 3000-4000# - - 0 0, UDP_TIMEOUT 10, REAP_INTERVAL 1) -> Discard;
        p[0] -> rw :: ICMPRewriter(nat);";
    let late =
        |at: i64| run(config, 1, &[(0, packet.clone()), (at, error([7; 4], &outside, 28))], &[]).1.len();
    assert_eq!([late(9_900), late(11_000), late(5_000_000)], [1, 0, 0]);
    // ICMP errors about a flow do not refresh its mapping (RFC 5508, requirement 6).
    let errors: Vec<_> = (1..20).map(|n| (n * 1000, error([7; 4], &outside, 28))).collect();
    assert_eq!(run(config, 1, &[vec![(0, packet.clone())], errors].concat(), &[]).1.len(), 9);
    // The translators `rw` and `o` share the capacity of `o`. `rw` removes expired mappings of both
    // (REAP_INTERVAL 1), even if only `o` receives packets.
    let config = "in -> c :: IPClassifier(src udp port 20, -);
        c[0] -> rw :: UDPRewriter(keep 0 0, MAPPING_CAPACITY o, TIMEOUT 2, REAP_INTERVAL 1);
        c[1] -> o :: UDPRewriter(keep 0 0, TIMEOUT 2, REAP_INTERVAL 0) -> Discard;";
    let other = udp(end([10, 0, 0, 1], 21), end([2, 0, 0, 2], 30));
    let others = (1..5).map(|n| (n * 49_000, other.clone()));
    let packets: Vec<_> = std::iter::once((0, packet)).chain(others).collect();
    let (outcome, _) = run(config, 1, &packets, &["o.size", "rw.size", "rw.table_size"]);
    assert_eq!([0, 1, 2].map(|n| value(&outcome, n)), ["1", "1", "0"]);
}

#[test]
fn a_flow_that_is_its_own_reply_is_listed_with_both_outputs() {
    let own = udp(end([1, 0, 0, 1], 20), end([1, 0, 0, 1], 20));
    let (outcome, seen) =
        run("in -> rw :: UDPRewriter(keep 0 1);", 2, &[(0, own.clone()), (1, own)], &["rw.table"]);
    assert_eq!(seen.iter().map(|seen| seen.sink).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(
        value(&outcome, 0),
        "(1.0.0.1, 20, 1.0.0.1, 20) => (1.0.0.1, 20, 1.0.0.1, 20) [0 *1] i0 exp300\n"
    );
}

#[test]
fn odd_packets_do_no_harm() {
    let inside = tcp(end(INSIDE, 5000), end(REMOTE, 80), SYN, b"hello");
    let outside = with_errors(&[(0, inside.clone())])[0].bytes.clone();
    let whole = error([7; 4], &outside, usize::MAX);
    let header_sum = |packet: &mut [u8]| {
        packet[10..12].fill(0);
        let sum = !fold(words(&packet[..20]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    };
    let mut packets = vec![(0, inside.clone())];
    for length in 0..whole.len() {
        for source in [&whole, &inside] {
            let mut cut = source[..length.min(source.len())].to_vec();
            if cut.len() >= 20 {
                let total = cut.len() as u16;
                cut[2..4].copy_from_slice(&total.to_be_bytes());
                header_sum(&mut cut);
                packets.push((length as i64 + 1, cut));
            }
        }
    }
    for at in [20, 28, 28 + 6, 28 + 9] {
        for value in [0, 0x4f, 0x41, 0xff] {
            let mut odd = whole.clone();
            odd[at] = value;
            packets.push((1000, odd));
        }
    }
    let seen = with_errors(&packets);
    assert!(seen.len() > 40, "{}", seen.len());
    for seen in &seen {
        let mut bytes = seen.bytes.clone();
        header_sum(&mut bytes);
        assert_eq!(bytes, seen.bytes);
        // Each packet that leaves has been translated: it comes from the outer address, or goes to the
        // inner host.
        assert!(bytes[12..16] == OUTER || bytes[16..20] == INSIDE, "{bytes:?}");
    }
    // The checksums of the first packet, which is not truncated, equal a full computation.
    assert!(is_sound(&seen[0].bytes));
}
