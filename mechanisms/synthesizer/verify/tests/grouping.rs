//! Tests that it does not matter into which paths packets are separated before they reach a stateful
//! element: streams are equal if their packets are.

use testkit::chains::{compare, read};
use verify::equivalence::Conclusion;

fn verdict(a: &str, b: &str) -> Conclusion {
    let chain = |body: &str| {
        format!(
            "rw :: IPRewriter(pattern 11.0.0.1 - - - 0 0); in :: FromDump(x.pcap); out :: ToDump(y.pcap);
             in -> Strip(14) -> {body};"
        )
    };
    compare(&read(&chain(a)), &read(&chain(b))).verdict
}

fn same(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Equivalent), "{a}\n{b}\n{verdict:?}");
}

fn not_proven(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(!matches!(verdict, Conclusion::Equivalent), "{a}\n{b}");
}

const PLAIN: &str = "MarkIPHeader -> rw -> out";

/// Packets are separated and merged again upstream of a rewriter. The rewriter updates checksums at offsets
/// that depend on the header length, which may be too small here. The chains are proven equivalent.
#[test]
fn packets_in_parts_are_the_same_packets() {
    same(PLAIN, "c :: Classifier(0/45, -); c[0] -> m :: MarkIPHeader -> rw -> out; c[1] -> m");
    same(PLAIN, "MarkIPHeader -> c :: Classifier(9/06, 9/11, -); c[0] -> rw -> out; c[1] -> rw; c[2] -> rw");
    let twice = "c :: Classifier(0/04%0f, 0/05%0f, -); c[0] -> MarkIPHeader -> rw -> out;
        c[1] -> m :: MarkIPHeader -> rw; c[2] -> Null -> m";
    same(PLAIN, twice);
    same(
        twice,
        "MarkIPHeader -> c :: IPClassifier(ip ttl < 9, -); c[0] -> rw; c[1] -> Null -> rw; rw -> out",
    );
}

#[test]
fn other_packets_are_not() {
    // Some packets do not reach the rewriter, or reach it with another header mark or another byte.
    not_proven(PLAIN, "c :: Classifier(0/45, -); c[0] -> m :: MarkIPHeader -> rw -> out; c[1] -> Discard");
    not_proven(
        PLAIN,
        "c :: Classifier(0/44, -); c[0] -> MarkIPHeader(4) -> rw -> out; c[1] -> MarkIPHeader -> rw",
    );
    not_proven(
        PLAIN,
        "MarkIPHeader -> c :: IPClassifier(ip ttl 77, -); c[0] -> SetIPDSCP(1) -> rw; c[1] -> rw; rw -> out",
    );
    // Some packets bypass the rewriter, although it would not have changed them.
    not_proven(PLAIN, "MarkIPHeader -> c :: IPClassifier(ip ttl 77, -); c[0] -> out; c[1] -> rw -> out");
}
