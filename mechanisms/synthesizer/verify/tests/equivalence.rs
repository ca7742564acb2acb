//! Tests the verifier on a small router: each change without effect is proven equivalent, and for each
//! other change an example packet shows the difference.

use testkit::chains::{compare, read};
use verify::equivalence::{Conclusion, Difference};

/// A small router: a firewall, then a route look-up, then Ethernet headers.
const BASE: &str = "
in :: FromDump(x.pcap);
out0 :: ToDump(a.pcap);
out1 :: ToDump(b.pcap);
c :: Classifier(12/0806, 12/0800, -);
f :: IPFilter(deny src net 10.1.0.0/16, allow tcp dst port 80, allow udp src port > 1023, deny all);
r :: IPClassifier(dst net 10.0.0.0/8, -);
in -> c;
c [0] -> Discard;
c [1] -> Strip(14) -> CheckIPHeader -> f;
c [2] -> Discard;
f -> r;
r [0] -> DecIPTTL -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out0;
r [1] -> DecIPTTL -> EtherEncap(0x0800, 3:3:3:3:3:3, 4:4:4:4:4:4) -> out1;
";

fn verdict(a: &str, b: &str) -> Conclusion {
    let outcome = compare(&read(a), &read(b));
    println!("{} nodes, {:?}", outcome.nodes, outcome.assumptions);
    outcome.verdict
}

fn same(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Equivalent), "{verdict:?}");
}

fn different(a: &str, b: &str) -> String {
    match verdict(a, b) {
        Conclusion::Different(Difference::Packet { what, .. }) => what,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn a_chain_is_itself() {
    same(BASE, BASE);
}

#[test]
fn single_changes_are_found() {
    for (from, to) in [
        ("10.1.0.0/16", "10.1.0.0/17"),
        ("dst port 80", "dst port 81"),
        ("> 1023", "> 1024"),
        ("r [0] -> DecIPTTL", "r [0] -> Null"),
        ("1:1:1:1:1:1", "1:1:1:1:1:9"),
        ("EtherEncap(0x0800, 1", "EtherEncap(0x86dd, 1"),
        ("12/0800,", "12/0801,"),
        ("CheckIPHeader ->", "MarkIPHeader ->"),
        (
            "deny src net 10.1.0.0/16, allow tcp dst port 80",
            "allow tcp dst port 80, deny src net 10.1.0.0/16",
        ),
        ("allow tcp dst port 80, ", ""),
        ("Strip(14)", "Strip(18)"),
        ("f -> r", "f -> SetIPAddress(1.2.3.4) -> StoreIPAddress(dst) -> r"),
    ] {
        assert!(BASE.contains(from), "{from}");
        let changed = BASE.replacen(from, to, 1);
        println!("{from} -> {to}: {}", different(BASE, &changed));
    }
    let swapped = BASE.replace("r [0]", "r [x]").replace("r [1]", "r [0]").replace("r [x]", "r [1]");
    different(BASE, &swapped);
}

#[test]
fn changes_without_effect_are_none() {
    for (from, to) in [
        (
            "allow tcp dst port 80, allow udp src port > 1023",
            "allow udp src port > 1023, allow tcp dst port 80",
        ),
        ("deny all", "deny src 10.1.2.3, deny all"),
        ("Strip(14) -> CheckIPHeader", "CheckIPHeader(14) -> Counter -> StripToNetworkHeader"),
        ("f -> r", "f -> CheckIPHeader -> Paint(3) -> r"),
        ("r [0] -> DecIPTTL -> EtherEncap", "r [0] -> Queue -> Unqueue -> DecIPTTL -> EtherEncap"),
        ("CheckIPHeader -> f", "CheckIPHeader2(0, CHECKSUM true) -> f"),
        ("c [2] -> Discard", "c [2] -> Null -> Counter -> Discard"),
        ("DecIPTTL", "DecIPTTL -> SetIPChecksum"),
    ] {
        assert!(BASE.contains(from), "{from}");
        println!("{from} -> {to}");
        same(BASE, &BASE.replacen(from, to, 1));
    }
    let early = BASE.replace("f -> r;", "f -> DecIPTTL -> r;").replace("] -> DecIPTTL", "]");
    same(BASE, &early);
}

/// Compares drop reasons, too. A packet for an unconnected output is dropped for the element's own reason,
/// so Discard at that output makes a difference.
#[test]
fn reasons_are_those_of_the_elements() {
    let chain = |check: &str| format!("FromDump(x) -> {check} -> out :: ToDump(y);");
    let reasons = |a: &str, b: &str| {
        let (a, b) = (read(&chain(a)), read(&chain(b)));
        let options = verify::equivalence::Options { reasons: true, ..Default::default() };
        testkit::chains::compare_with(options, &a, &b).verdict
    };
    let equal = [
        ("CheckLength(60)", "CheckLength(60)"),
        ("CheckIPHeader(14)", "MarkIPHeader(14) -> CheckIPHeader2(14, CHECKSUM true)"),
    ];
    for (a, b) in equal {
        let verdict = reasons(a, b);
        assert!(matches!(verdict, Conclusion::Equivalent), "{a}, {b}: {verdict:?}");
    }
    // The element drops with its own reason (too long, or no pattern matches), Discard with another.
    let verdict = reasons("CheckLength(60)", "l :: CheckLength(60); l[1] -> Discard; l");
    assert!(matches!(verdict, Conclusion::Different(_)), "{verdict:?}");
}

/// An example packet of a difference is a usual frame of 60 bytes with an IPv4 header, although the chain
/// also makes ICMP errors and fragments.
#[test]
fn examples_are_usual_frames() {
    let chain = |port: u16| {
        format!(
            "FromDump(x) -> Strip(14) -> CheckIPHeader -> IPFilter(deny dst port {port}, allow all) -> GetIPAddress(16)
             -> ttl :: DecIPTTL -> f :: IPFragmenter(1200) -> out :: ToDump(y);
             ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> error :: ToDump(z); f [1] -> Discard;"
        )
    };
    let outcome = compare(&read(&chain(25)), &read(&chain(26)));
    let Conclusion::Different(Difference::Packet { example, .. }) = outcome.verdict else {
        panic!("{outcome:?}")
    };
    assert_eq!((example.bytes.len(), &example.bytes[12..15]), (60, &[8, 0, 0x45][..]), "{example:?}");
    assert!(matches!(example.bytes[36..38], [0, 25 | 26]), "{example:?}");
}

/// IPMirror swaps words that checksums cover. Their sums stay correct, so checking or setting them again
/// changes nothing.
#[test]
fn mirrored_headers_keep_their_checksums() {
    let chain = |end: &str| {
        format!(
            "FromDump(x) -> CheckIPHeader(14) -> IPClassifier(tcp and not ip frag) -> CheckTCPHeader -> IPMirror {end}
             -> out :: ToDump(y);"
        )
    };
    same(&chain(""), &chain("-> CheckIPHeader(14)"));
    same(&chain(""), &chain("-> CheckTCPHeader"));
    same(&chain(""), &chain("-> SetIPChecksum"));
    different(&chain(""), &chain("-> StoreData(28, \\<0a>) -> CheckIPHeader(14)"));
    // Here the words move to offsets outside of the header that the checksum covers.
    let moved = |end: &str| {
        format!(
            "FromDump(x) -> Classifier(12/0800 14/45) -> CheckIPHeader(14) -> Strip(2) {end} -> out :: ToDump(y);"
        )
    };
    same(&moved(""), &moved("-> Unstrip(2) -> CheckIPHeader(14) -> Strip(2)"));
}

/// Two truncations in a row equal the shorter one alone, with respect to the bytes and to the annotation
/// that counts removed bytes.
#[test]
fn cutting_twice_is_cutting_once() {
    let chain = |cut: &str| format!("FromDump(x) -> {cut} -> out :: ToDump(y);");
    same(&chain("Truncate(60) -> Truncate(50)"), &chain("Truncate(50)"));
    same(&chain("Truncate(50) -> Truncate(60)"), &chain("Truncate(50)"));
    different(&chain("Truncate(50)"), &chain("Truncate(60)"));
    let counted = |cut: &str| chain(&format!("{cut} -> CheckLength(100, EXTRA_LENGTH true) -> Paint(1)"));
    same(&counted("Truncate(60) -> Truncate(50)"), &counted("Truncate(50)"));
    different(&counted("Truncate(50)"), &counted("Truncate(50, EXTRA_LENGTH false)"));
}

/// After a write without update, the checksum may be correct only by chance. Whether it is depends on the
/// header alone, so writing the same value twice equals writing it once.
#[test]
fn a_checksum_by_chance_depends_on_its_header_only() {
    let chain = |more: &str| {
        format!(
            "FromDump(x) -> MarkIPHeader(14) -> StoreData(20, \\<0102>) {more} -> CheckIPHeader(14) -> out :: ToDump(y);"
        )
    };
    same(&chain(""), &chain("-> StoreData(20, \\<0102>)"));
    // A write outside of the header does not affect whether the checksum is correct, before or after the
    // check.
    let paid = |store: &str, more: &str| chain(&format!("{store} {more}"));
    same(
        &paid("-> StoreData(0, \\<07>)", ""),
        &chain("").replace("-> out", "-> StoreData(0, \\<07>) -> out"),
    );
}
