//! Tests on real captures: packets that have passed Slice, a network function and Splice equal the packets
//! that the network function makes of whole packets, and the network function sees valid packets. The
//! captures lie next to the repository (or in the folder `TIDEGATE_DATA`), and are skipped if absent.

mod frames;

use std::path::Path;

use element::Timestamp;
use frames::around;
use testkit::checker::{ChecksumResult, check, ip};
use testkit::elements::{Seen, collect, offer};
use testkit::{TestRun, found};

/// Network functions that read headers only, as chains of elements for Ethernet frames.
const FUNCTIONS: &[&str] = &[
    "Null",
    "EtherMirror",
    "VLANEncap(VLAN_ID 7)",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> DecIPTTL -> j :: Null; c [1] -> j",
    "c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader(CHECKSUM false)
        -> f :: IPFilter(deny dst port 53, deny src net 10.1.0.0/16, allow all) -> Unstrip(14) -> j :: Null;
     c [1] -> j",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> i :: IPClassifier(tcp or udp, -)
        -> rw :: IPRewriter(pattern 9.8.7.6 1024-65535 - - 0 0) -> j :: Null; i [1] -> j; c [1] -> j",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> i :: IPClassifier(tcp or udp, -)
        -> IPFilter(deny dst port 80, allow all) -> rw :: UDPRewriter(pattern 9.8.7.6 - - 7 0 0) -> j :: Null; i [1] -> j; c [1] -> j",
    "c :: BandwidthMeter(50KBps) -> j :: Null; c [1] -> Discard",
    "c :: BandwidthRatedSplitter(50KBps) -> j :: Null; c [1] -> Discard",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> SrTCM(20KBps, 4000, 4000) -> j :: Null; c [1] -> j",
];

/// Pairs of arguments: of the PayloadTable, and of Slice.
const WAYS: &[(&str, &str)] = &[
    ("ENTRIES 4", ""),
    ("MARKER none", "THRESHOLD 100"),
    ("", "THRESHOLD 60, BYTES 160"),
    ("MARKER none", "FRACTION 0.3"),
    ("ENTRIES 1, TTL 1000", "THRESHOLD 0, TAIL false"),
];

/// Sends a capture through a chain; `head` is the statements ahead of it. Returns the packets that leave
/// the chain, and the values of handlers; `None` if the capture cannot be read.
fn run(capture: &Path, head: &str, chain: &str, handlers: &[&str]) -> Option<(Vec<Seen>, Vec<String>)> {
    let number = offer(Vec::new());
    let text =
        format!("{head} source :: FromDump(\"{}\") -> {chain} -> TestSink({number}, 0)", capture.display());
    let outcome =
        TestRun::trace().text(&text, handlers).inspect_err(|text| check_is_unreadable(text)).ok()?;
    assert!(outcome.report.balances(), "{}", capture.display());
    Some((collect(number), outcome.values.into_iter().map(Result::unwrap).collect()))
}

/// Asserts that an error message is about an unreadable capture, not about the configuration.
fn check_is_unreadable(text: &str) {
    assert!(text.contains("FromDump") && !text.contains("syntax"), "{text}");
}

fn mark(seen: &Seen) -> (Timestamp, [Option<isize>; 3], [u8; 48]) {
    (seen.time, seen.headers, seen.annotations)
}

fn bytes(seen: &[Seen]) -> Vec<&[u8]> {
    seen.iter().map(|seen| &seen.bytes[..]).collect()
}

#[test]
fn joined_packets_are_what_the_function_makes_of_whole_ones() {
    let Some(folder) = found::path("traces") else { return };
    let (mut captures, mut joined) = (0, 0);
    for file in found::files(&folder) {
        let mut found_some = false;
        // Some captures in the folder `odd` have no Ethernet headers, so functions that need them are left
        // out.
        let is_odd = file.components().any(|part| part.as_os_str() == "odd");
        let fits =
            |function: &str| !is_odd || !["EtherMirror", "VLANEncap"].iter().any(|f| function.starts_with(f));
        for (number, function) in FUNCTIONS.iter().enumerate().filter(|(_, function)| fits(function)) {
            let (head, chain) = around("", function, "");
            let Some((whole, _)) = run(&file, &head, &chain, &[]) else { break };
            found_some = true;
            for (table, slice) in [WAYS[number % WAYS.len()], WAYS[(number + 3) % WAYS.len()]] {
                let what = format!("{} {function} {table} {slice}", file.display());
                let (head, chain) = around(&format!("Slice(t, {slice}) -> "), function, " -> Splice(t)");
                let head = format!("t :: PayloadTable({table}); {head}");
                let handlers = ["t.spliced", "t.late", "t.repeated", "t.no_token"];
                let (sliced, values) = run(&file, &head, &chain, &handlers).unwrap();
                assert_eq!(values[1..], ["0", "0", "0"], "{what}");
                joined += values[0].parse::<u64>().unwrap();
                assert!(bytes(&whole) == bytes(&sliced), "{what}");
                let differ = whole.iter().zip(&sliced).find(|(a, b)| mark(a) != mark(b));
                assert!(
                    differ.is_none(),
                    "{what}: annotations: {:?}",
                    differ.map(|(a, b)| (mark(a), mark(b)))
                );
            }
        }
        captures += u32::from(found_some);
    }
    assert!(captures > 8 && joined > 10_000, "{captures} {joined}");
}

#[test]
fn functions_see_valid_packets() {
    let Some(folder) = found::path("traces") else { return };
    let mut sliced = 0;
    for file in found::files(&folder) {
        for &(table, slice) in WAYS {
            let Some((whole, _)) = run(&file, "", "Null", &[]) else { break };
            let head = format!("t :: PayloadTable({table}); s :: Tee; s[1] -> Splice(t) -> Discard;");
            let (seen, values) =
                run(&file, &head, &format!("Slice(t, {slice}) -> s"), &["t.sliced"]).unwrap();
            sliced += values[0].parse::<u64>().unwrap();
            assert_eq!(whole.len(), seen.len());
            for (before, after) in whole.iter().zip(&seen) {
                let (Some(before), Some(after)) = (ip(1, &before.bytes), ip(1, &after.bytes)) else {
                    continue;
                };
                let (Some(before), Some(after)) = (check(before), check(after)) else { continue };
                let is_damage =
                    |after, before| after == ChecksumResult::Wrong && before != ChecksumResult::Wrong;
                assert!(!is_damage(after.header, before.header), "{}: header", file.display());
                assert!(!is_damage(after.transport, before.transport), "{}: transport", file.display());
            }
        }
    }
    assert!(sliced > 10_000, "{sliced}");
}
