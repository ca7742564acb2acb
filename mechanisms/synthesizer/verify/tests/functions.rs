//! Tests uninterpreted functions of elements: equal packets have equal results, regardless of the paths and
//! writes by which they became equal.

use testkit::chains::{compare, read};
use verify::equivalence::Conclusion;

/// Compares two chains, each with one entry `in` and the exits `out_a` and `out_b`.
fn verdict(a: &str, b: &str) -> Conclusion {
    let chain = |body: &str| {
        read(&format!("in :: FromDump(x.pcap); out_a :: ToDump(a.pcap); out_b :: ToDump(b.pcap); {body}"))
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

/// Elements that decide, write, truncate or make packets by functions that the declaration does not give.
const ELEMENTS: &[&str] = &[
    "HashSwitch(20, 4)",
    "IPFragmenter(576)",
    "IPFragmenter(100, false)",
    "IPGWOptions(10.0.0.1)",
    "MoveData(40, 20, 4) -> HashSwitch(40, 4)",
];

/// Returns a chain in which packets with a time to live of 4 pass `first` and other packets pass `second`
/// before they meet at `element`.
fn parted(element: &str, first: &str, second: &str) -> String {
    format!(
        "in -> MarkIPHeader(14) -> c :: Classifier(22/04, -); c[0] -> {first} -> n :: Null -> {};
         c[1] -> {second} -> n; f[0] -> out_a; f[1] -> out_b;",
        named(element)
    )
}

/// Names the element `f`; of several elements in a row, the last one.
fn named(element: &str) -> String {
    match element.rsplit_once("-> ") {
        Some((front, last)) => format!("{front}-> f :: {last}"),
        None => format!("f :: {element}"),
    }
}

#[test]
fn parts_do_not_matter() {
    for element in ELEMENTS {
        let plain = parted(element, "Null", "Null");
        // The write stores the value that is already there, so nothing changes.
        same(&plain, &parted(element, "StoreData(22, \\<04>)", "Null"));
        let written = parted(element, "StoreData(22, \\<05>)", "StoreData(22, \\<05>)");
        same(
            &written,
            &parted(element, "StoreData(22, \\<05>)", "StoreData(22, \\<06>) -> StoreData(22, \\<05>)"),
        );
        // The packets take three paths, instead of two, on which they become equal before they meet.
        let thirds = "d :: Classifier(23/11, -); d[0] -> e :: StoreData(20, \\<4000>); d[1] -> e; e";
        same(&parted(element, "StoreData(20, \\<4000>)", "Null"), &parted(element, thirds, "Null"));
    }
}

#[test]
fn what_is_seen_matters() {
    for element in ELEMENTS {
        let plain = parted(element, "Null", "Null");
        let written = |first, second| parted(element, first, second);
        // The write happens on the first path only, on the second path only, or on both.
        let store = "StoreData(20, \\<20>)";
        for (first, second) in [(store, "Null"), ("Null", store), (store, store)] {
            not_proven(&plain, &written(first, second));
        }
        not_proven(&written(store, "Null"), &written("Null", store));
        not_proven(&written(store, store), &written(store, "StoreData(20, \\<20>) -> StoreData(21, \\<07>)"));
    }
    let fragmenter = |mtu: &str| parted(&format!("IPFragmenter({mtu})"), "Null", "Null");
    not_proven(&fragmenter("576"), &fragmenter("577"));
}

/// The function that chooses a translated source differs from the function that chooses a destination. So
/// filters downstream that test both have an effect.
#[test]
fn choices_for_two_fields_are_two() {
    let chain = |behind: &str| {
        format!(
            "in -> MarkIPHeader(14) -> rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1);
             rw[1] -> out_b; rw[0] -> {behind};"
        )
    };
    let plain = chain("out_a");
    for [source, destination] in [["host 1.2.3.4", "host 1.2.3.5"], ["port 80", "port 81"]] {
        let filter = format!("IPClassifier(src {source} and dst {destination}, -)");
        let filtered = chain(&format!("c :: {filter}; c[0] -> Discard; c[1] -> out_a"));
        not_proven(&plain, &filtered);
        same(&filtered, &filtered.replace("c[1] -> out_a", "c[1] -> Null -> out_a"));
    }
}

/// Sends two copies of each packet, one of which may be changed, to the element. The element's function may
/// then have two different values for one input packet. Chains are equivalent if the arguments of both values
/// are equal.
#[test]
fn copies_are_told_apart() {
    for element in ELEMENTS {
        let copies = |first: &str, second: &str| {
            format!(
                "in -> MarkIPHeader(14) -> t :: Tee; t[0] -> {first} -> n :: Null -> {}; t[1] -> {second} -> n;
                 f[0] -> out_a; f[1] -> out_b;",
                named(element)
            )
        };
        let store = "StoreData(20, \\<20>)";
        same(&copies("Null", store), &copies("Null", store));
        not_proven(&copies("Null", store), &copies("Null", "Null"));
        not_proven(&copies("Null", store), &copies(store, store));
        not_proven(&copies("Null", store), &copies("Null", "StoreData(20, \\<21>)"));
    }
    // If the element has no state, the order of the copies does not matter.
    let copies = "in -> MarkIPHeader(14) -> t :: Tee; t[0] -> n :: Null -> f :: IPFragmenter(576) -> out_a;
        t[1] -> StoreData(22, \\<03>) -> n; Idle -> out_b;";
    same(copies, &copies.replace("t[0]", "t[x]").replace("t[1]", "t[0]").replace("t[x]", "t[1]"));
}
