//! Tests of the details of verdicts: drop reasons, example packets, and assumptions. Pairs of chains with
//! their verdicts are in `cases`.

use testkit::chains::{compare, outputs, read};
use verify::equivalence::{Conclusion, Difference};
use verify::example::Example;

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
    // CheckLength drops with its own reason (too long), Discard with another.
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

/// Compares a chain with one that computes a correct checksum again. This changes nothing, except that ffff
/// may become 0000. The verdict is "equivalent", with the assumption that these two values are equal.
#[test]
fn the_two_zeros_are_an_assumption() {
    let outcome = compare(
        &read("FromDump(x) -> CheckIPHeader(14) -> out :: ToDump(y);"),
        &read("FromDump(x) -> CheckIPHeader(14) -> SetIPChecksum -> out :: ToDump(y);"),
    );
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{outcome:?}");
    assert!(outcome.assumptions.iter().any(|text| text.contains("ffff")), "{outcome:?}");
}

/// An update that changes nothing still turns the checksum ffff into 0000. With an update in one chain only,
/// the verdict is "equivalent" with the assumption that these two values are equal. With updates in both
/// chains the assumption is not needed, whatever the updates change.
#[test]
fn updates_may_turn_one_zero_into_the_other() {
    let chain = |elements: &str| {
        read(&format!(
            "FromDump(x) -> Classifier(15/00%fc) -> CheckIPHeader(14) -> {elements} out :: ToDump(y);"
        ))
    };
    let says_so = |a: &str, b: &str| {
        let outcome = compare(&chain(a), &chain(b));
        assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{a}, {b}: {outcome:?}");
        outcome.assumptions.iter().any(|text| text.contains("ffff"))
    };
    assert!(says_so("SetIPDSCP(0) ->", ""));
    assert!(says_so("SetIPDSCP(0) -> IPPrint(CONTENTS hex) ->", "IPPrint(CONTENTS hex) ->"));
    assert!(!says_so("SetIPDSCP(1) -> SetIPDSCP(2) ->", "SetIPDSCP(2) ->"));
    assert!(!says_so("SetIPDSCP(0) ->", "SetIPDSCP(0) -> Null ->"));
    assert!(!says_so("DecIPTTL -> SetIPDSCP(0) ->", "DecIPTTL ->"));
    assert!(!says_so("DecIPTTL -> SetIPDSCP(3) ->", "SetIPDSCP(3) -> DecIPTTL ->"));
    let set = ["SetIPDSCP(3) ->", "StoreIPAddress(10.0.0.1, dst) ->"];
    assert!(!says_so(&set.concat(), &[set[1], set[0]].concat()));

    // A packet with checksum ffff leaves the two chains with different checksums, which the assumption treats
    // as equal.
    let mut bytes = vec![0; 14];
    bytes.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xff, 0xff, 10, 0, 0, 1, 10, 0, 0, 2]);
    let rest = wire::checksum::Sum::new().bytes(&bytes[14..24]).bytes(&bytes[26..]).checksum();
    bytes[18..20].copy_from_slice(&rest.to_be_bytes());
    let example = Example { bytes, kind: 0, annotations: Vec::new(), depends: Vec::new() };
    let came = |elements: &str| outputs(&chain(elements), 0, &example);
    assert!(came("").iter().any(|(_, packets)| packets.len() == 1));
    assert_ne!(came("SetIPDSCP(0) ->"), came(""));
    assert_eq!(came("DecIPTTL -> SetIPDSCP(0) ->"), came("DecIPTTL ->"));
}

/// Compares two chains that differ in the model by their drop reasons only. The verdict is not "different"
/// unless a run confirms it.
#[test]
fn reasons_are_run_too() {
    let start = "FromDump(x) -> CheckIPHeader(14) -> c :: Classifier(14/45 20/0000%3fff 23/11 34/0035, -); c[1] -> Discard;";
    let a = format!("{start} c[0] -> IPFilter(deny not src udp port 53, allow all) -> out :: ToDump(y);");
    let b = format!(
        "{start} c[0] -> f :: IPClassifier(src udp port 53, -) -> out :: ToDump(y); f[1] -> Discard;"
    );
    let options = verify::equivalence::Options { reasons: true, ..Default::default() };
    let outcome = testkit::chains::compare_with(options, &read(&a), &read(&b));
    assert!(!matches!(outcome.verdict, Conclusion::Different(_)), "{outcome:?}");
}
