//! Tests several packets that come from one input packet (a packet and an ICMP error about it) and meet at
//! a stateful element, or at two elements that share state. Their order must be proven equal.

use testkit::chains::{compare, read};
use verify::equivalence::Conclusion;

/// Compares two chains, each with an entry whose packets reach `check`, and the exits `out_a` and `out_b`.
fn verdict(a: &str, b: &str) -> Conclusion {
    let chain = |body: &str| {
        read(&format!(
            "in :: FromDump(x.pcap); out_a :: ToDump(a.pcap); out_b :: ToDump(b.pcap);
             in -> Strip(14) -> check :: CheckIPHeader; {body}"
        ))
    };
    compare(&chain(a), &chain(b)).verdict
}

fn same(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Equivalent), "{a}\n{b}\n{verdict:?}");
}

fn not_proven(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(!matches!(verdict, Conclusion::Equivalent), "{a}\n{b}");
}

/// Exchanges the outputs 0 and 1 of an element in a text.
fn exchanged(text: &str, element: &str) -> String {
    let output = |n: &str| format!("{element}[{n}]");
    let changed = text.replace(&output("0"), &output("x")).replace(&output("1"), &output("0"));
    changed.replace(&output("x"), &output("1"))
}

const ERROR: &str = "ICMPError(9.9.9.9, timeexceeded)";

/// A stateful element that leads to both exits.
const ENDS: &str = "s :: RoundRobinSwitch; s[0] -> out_a; s[1] -> out_b;";

#[test]
fn an_error_comes_before_its_packet_or_behind_it() {
    let chain = format!("{ENDS} check -> t :: Tee; t[0] -> {ERROR} -> s; t[1] -> s;");
    same(&chain, &chain);
    not_proven(&chain, &exchanged(&chain, "t"));
    // Changes upstream that have no effect together do not affect the order.
    same(&chain, &chain.replace("check ->", "check -> Paint(1) -> Paint(0) ->"));
    same(&chain, &chain.replace("t[1] ->", "t[1] -> Counter ->"));
    not_proven(&chain, &chain.replace("t[1] ->", "t[1] -> SetIPDSCP(3) ->"));
    // A packet that waits in a queue may come after a later packet.
    let waits = chain.replace("t[1] ->", "t[1] -> Queue -> Unqueue ->");
    same(&waits, &waits);
    not_proven(&chain, &waits);
    not_proven(&waits, &waits.replace("check ->", "check -> Counter ->"));
    // Two errors about a packet, from different copies.
    let chain = format!(
        "{ENDS} check -> t :: Tee; t[0] -> Discard; t[1] -> u :: Tee; u[0] -> {ERROR} -> s; u[1] -> v :: Tee;
        v[0] -> ICMPError(8.8.8.8, redirect) -> s; v[1] -> Discard;"
    );
    same(&chain, &chain.replace("check ->", "check -> Counter ->"));
    not_proven(&chain, &exchanged(&chain, "u"));
}

#[test]
fn packets_that_never_meet_may_come_by_any_way() {
    let chain = format!("{ENDS} check -> d :: DecIPTTL -> s; d[1] -> {ERROR} -> s;");
    same(&chain, &chain.replace("check ->", "check -> Counter ->"));
    same(&chain, &chain.replace("-> d ::", "-> Paint(1) -> Paint(0) -> d ::"));
    // The first fragment and the other fragments of a packet.
    let chain = format!("{ENDS} check -> IPFragmenter(576) -> s;");
    same(&chain, &chain.replace("check ->", "check -> Counter ->"));
    same(&chain, &chain.replace("-> s;", "-> Null -> s;"));
}

#[test]
fn several_errors_about_copies_come_in_an_order() {
    let chain = format!(
        "{ENDS} check -> t :: Tee; t[0] -> StoreIPAddress(1.2.3.4, src) -> e :: {ERROR}; t[1] -> e -> s;"
    );
    same(&chain, &chain);
    not_proven(&chain, &exchanged(&chain, "t"));
}

#[test]
fn elements_that_use_the_state_of_others_are_passed_in_an_order() {
    let chain = "rw :: IPRewriter(pattern 11.0.0.1 - - - 0 0); check -> t :: Tee;
        t[0] -> rw -> out_a; t[1] -> ICMPRewriter(rw) -> out_b;";
    same(chain, chain);
    same(chain, &chain.replace("check ->", "check -> Counter ->"));
    not_proven(chain, &exchanged(chain, "t"));
    // FTPPortMapper adds entries to the state of the rewriter.
    let mapper = chain.replace("ICMPRewriter(rw)", "FTPPortMapper(rw, rw, 0)");
    same(&mapper, &mapper);
    not_proven(&mapper, &exchanged(&mapper, "t"));
    // The two elements with shared state follow each other.
    let row = "rw :: IPRewriter(pattern 11.0.0.1 - - - 0 0); check -> rw -> ICMPRewriter(rw) -> out_a; Idle -> out_b;";
    same(row, &row.replace("check ->", "check -> Paint(1) -> Paint(0) ->"));
    // The two elements with shared state receive different packets, so the order does not matter.
    let apart = "rw :: IPRewriter(pattern 11.0.0.1 - - - 0 0); check -> c :: IPClassifier(icmp, -);
        c[0] -> ICMPRewriter(rw) -> out_a; c[1] -> rw -> out_b;";
    same(apart, &apart.replace("check ->", "check -> Paint(1) -> Paint(0) ->"));
}
