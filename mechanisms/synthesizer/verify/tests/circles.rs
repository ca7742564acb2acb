//! Tests loops of the graph. If a loop is equal in both chains, the verifier need not follow packets on it,
//! and changes elsewhere are proven or found as usual.

use testkit::chains::{compare, read};
use verify::equivalence::{Conclusion, Difference};

/// A loop that packets leave when their time to live is used up, after more rounds than the verifier
/// follows them. They leave by two paths.
const ROUND: &str = "in :: FromDump(x.pcap); out :: ToDump(y.pcap); other :: ToDump(z.pcap);
in -> c :: Classifier(12/0800, -); c[1] -> Discard;
c[0] -> Strip(14) -> CheckIPHeader -> route :: IPClassifier(dst net 10.0.0.0/8, dst net 11.0.0.0/8, src port 9, -);
route[0] -> ttl :: DecIPTTL -> route;
ttl[1] -> ICMPError(9.9.9.9, timeexceeded) -> SetIPDSCP(3) -> other;
route[1] -> SetIPDSCP(5) -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out;
route[2] -> StoreIPAddress(11.0.0.1, dst) -> [0] route;
route[3] -> other;";

/// An address translator on a loop, and elements that use its state.
const HAIRPIN: &str = "in :: FromDump(x.pcap); back :: FromDump(b.pcap); out :: ToDump(y.pcap);
rw :: IPRewriter(pattern 11.0.0.1 1024-65535 - - 0 1, pass 1);
in -> MarkIPHeader(14) -> [0] rw; back -> MarkIPHeader(14) -> [1] rw;
rw[0] -> here :: IPClassifier(dst host 11.0.0.1, -); here[0] -> [1] rw; here[1] -> SetIPDSCP(1) -> out;
rw[1] -> errors :: ICMPRewriter(rw) -> DecIPTTL -> out;";

fn verdict(a: &str, b: &str) -> Conclusion {
    compare(&read(a), &read(b)).verdict
}

fn same(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Equivalent), "{a}\n{b}\n{verdict:?}");
}

fn not_proven(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(!matches!(verdict, Conclusion::Equivalent), "{a}\n{b}");
}

/// Returns the chain text with one part, which has to exist, replaced.
fn with(chain: &str, from: &str, to: &str) -> String {
    assert!(chain.contains(from), "{from}");
    chain.replacen(from, to, 1)
}

#[test]
fn the_same_circle_does_the_same() {
    same(ROUND, ROUND);
    same(HAIRPIN, HAIRPIN);
    for (from, to) in [
        // Changes without effect upstream of the loop.
        ("Strip(14) -> CheckIPHeader", "CheckIPHeader(14) -> StripToNetworkHeader"),
        ("c[0] -> Strip(14)", "c[0] -> d :: Classifier(30/0b, -); d[0] -> s :: Strip(14); d[1] -> Null -> s"),
        // Changes without effect downstream of the loop.
        ("SetIPDSCP(5) -> e", "Counter -> SetIPDSCP(4) -> SetIPDSCP(5) -> e"),
        ("SetIPDSCP(3)", "SetIPDSCP(2) -> SetIPDSCP(3)"),
        ("1:1:1:1:1:1, 2:2:2:2:2:2) -> out", "1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> Unqueue -> out"),
    ] {
        println!("{from} -> {to}");
        same(ROUND, &with(ROUND, from, to));
    }
    same(HAIRPIN, &with(HAIRPIN, "SetIPDSCP(1)", "SetIPDSCP(2) -> SetIPDSCP(1)"));
    same(HAIRPIN, &with(HAIRPIN, "in -> MarkIPHeader(14)", "in -> Paint(1) -> MarkIPHeader(14) -> Paint(0)"));
}

#[test]
fn other_circles_are_not() {
    for (from, to) in [
        // Different packets enter the loop, or packets enter it modified or at another input.
        ("c[0] -> Strip(14)", "c[0] -> d :: Classifier(30/0b, -); d[0] -> Strip(14); d[1] -> Discard; d[0]"),
        ("-> Strip(14)", "-> d :: Classifier(30/0a05, -); d[0] -> Discard; d[1] -> Strip(14)"),
        ("CheckIPHeader ->", "CheckIPHeader -> SetIPDSCP(7) ->"),
        ("CheckIPHeader ->", "CheckIPHeader -> SetTimestamp(7) ->"),
        ("CheckIPHeader -> route ::", "CheckIPHeader -> ttl; route ::"),
        // An element of the loop differs.
        ("dst net 10.0.0.0/8", "dst net 10.0.0.0/9"),
        ("ttl :: DecIPTTL", "ttl :: DecIPTTL(CALC_CHECKSUM false)"),
        ("ttl :: DecIPTTL", "ttl :: DecIPTTL -> DecIPTTL"),
        ("-> [0] route", "-> ttl"),
        ("route[3] -> other", "route[3] -> StoreIPAddress(10.0.0.1, dst) -> route"),
        // Packets that leave the loop go to another exit, or are modified differently downstream.
        ("SetIPDSCP(5)", "SetIPDSCP(6)"),
        ("SetIPDSCP(3)", "Null"),
        ("SetIPDSCP(3) -> other", "SetIPDSCP(3) -> Discard"),
        ("route[3] -> other", "route[3] -> out"),
        ("2:2:2:2:2:2) -> out", "2:2:2:2:2:2) -> t :: Tee -> out; t[1] -> out"),
    ] {
        if !read_is_possible(&with(ROUND, from, to)) {
            continue;
        }
        println!("{from} -> {to}");
        not_proven(ROUND, &with(ROUND, from, to));
    }
    for (from, to) in [
        ("pass 1)", "drop)"),
        ("here[0] -> [1] rw", "here[0] -> [0] rw"),
        ("back -> MarkIPHeader(14) -> [1] rw", "back -> MarkIPHeader(14) -> [0] rw"),
        (
            "in -> MarkIPHeader(14)",
            "in -> q :: Classifier(23/06, -); q[1] -> Discard; q[0] -> MarkIPHeader(14)",
        ),
        ("SetIPDSCP(1)", "SetIPDSCP(2)"),
        ("-> DecIPTTL -> out", "-> out"),
    ] {
        println!("{from} -> {to}");
        not_proven(HAIRPIN, &with(HAIRPIN, from, to));
    }
}

fn read_is_possible(text: &str) -> bool {
    testkit::chains::try_read(text).is_some()
}

/// Packets leave a loop with their headers where they were, or where an element of the loop marked them.
/// StripToNetworkHeader equals `Strip(14)` only if all headers are at offset 14.
#[test]
fn headers_may_be_in_several_places() {
    let chain = |front: &str, behind: &str| {
        format!(
            "in :: FromDump(x.pcap); out :: ToDump(y.pcap); r :: IPClassifier(ip ttl > 200, -);
             in -> {front}; r[0] -> DecIPTTL -> r; r[1] -> l :: CheckLength(13); l[0] -> Discard;
             l[1] -> {behind} -> out;"
        )
    };
    let one = "MarkIPHeader(14) -> r";
    let two =
        "k :: Classifier(0/02, -); k[0] -> MarkIPHeader(14) -> r; k[1] -> Strip(14) -> MarkIPHeader -> r";
    let (strip, to_header) = ("Strip(14)", "StripToNetworkHeader");
    same(&chain(one, strip), &chain(one, to_header));
    not_proven(&chain(two, strip), &chain(two, to_header));
    same(&chain(two, to_header), &chain(two, "Counter -> StripToNetworkHeader"));
    // Each round moves the header four bytes further from the packet's start, so Strip and
    // StripToNetworkHeader differ.
    let moved = |behind: &str| chain(one, behind).replace("DecIPTTL -> r", "DecIPTTL -> Unstrip(4) -> r");
    not_proven(&moved(strip), &moved(to_header));
    same(&moved(strip), &moved(strip));
}

/// Two copies of a packet enter a loop with a stateful element. Their order matters there, so exchanging
/// them is not proven equivalent.
#[test]
fn copies_come_in_an_order() {
    let chain = |first: &str, second: &str| {
        format!(
            "in :: FromDump(x.pcap); out :: ToDump(y.pcap); in -> t :: Tee;
             t[0] -> {first} -> s :: RoundRobinSwitch; t[1] -> {second} -> s;
             s[0] -> Queue -> Unqueue -> d :: IPClassifier(ip ttl < 9, -); s[1] -> out; d[0] -> s; d[1] -> out;"
        )
        .replace("in -> t", "in -> MarkIPHeader(14) -> t")
    };
    not_proven(&chain("Paint(1)", "Paint(2)"), &chain("Paint(2)", "Paint(1)"));
}

/// A packet that leaves a loop meets a copy that has not been on it at a stateful element. An equal chain
/// is proven equivalent, exchanged copies are not.
#[test]
fn copies_may_meet_behind_a_circle() {
    let chain = |round: usize, past: usize| {
        format!(
            "in :: FromDump(x.pcap); out :: ToDump(y.pcap); other :: ToDump(z.pcap);
             r :: IPClassifier(ip ttl > 200, -); s :: RoundRobinSwitch;
             in -> MarkIPHeader(14) -> t :: Tee; t[{round}] -> Paint(1) -> r; t[{past}] -> s;
             r[0] -> DecIPTTL -> r; r[1] -> s; s[0] -> out; s[1] -> other;"
        )
    };
    same(&chain(0, 1), &chain(0, 1));
    not_proven(&chain(0, 1), &chain(1, 0));
}

/// The result of ICMPRewriter depends on the packets that arrive at the rewriter whose state it uses. If
/// other packets arrive there, the chains are not proven equivalent.
#[test]
fn who_uses_the_state_of_others_depends_on_what_comes_to_them() {
    let chain = |to_rewriter: &str| {
        format!(
            "in :: FromDump(x.pcap); out :: ToDump(y.pcap); rw :: IPRewriter(pattern 11.0.0.1 - - - 0 0);
             in -> MarkIPHeader(14) -> c :: IPClassifier(icmp, -); c[0] -> ICMPRewriter(rw) -> out;
             c[1] -> {to_rewriter} -> rw -> Discard;"
        )
    };
    same(&chain("Null"), &chain("Counter"));
    not_proven(&chain("Null"), &chain("q :: IPClassifier(dst host 1.2.3.4, -); q[0] -> Discard; q[1]"));
}

/// A difference downstream of a loop is found with an example packet that leaves the loop after few rounds.
#[test]
fn differences_are_still_found() {
    let changed = with(ROUND, "SetIPDSCP(5)", "SetIPDSCP(6)");
    let verdict = verdict(ROUND, &changed);
    assert!(matches!(verdict, Conclusion::Different(Difference::Packet { .. })), "{verdict:?}");
}
