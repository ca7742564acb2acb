//! Tests elements whose outcome depends on more than the packet (counters, chance, queues, earlier
//! packets), and packets that elements make.

use testkit::chains::{compare, read};
use verify::equivalence::{Conclusion, Difference};

/// Returns the text of a chain with one entry `in` and three exits.
fn chain(body: &str) -> String {
    let mut text = String::from("in :: FromDump(x.pcap);\n");
    for out in ["a", "b", "c"] {
        if body.contains(&format!("out_{out}")) {
            text += &format!("out_{out} :: ToDump({out}.pcap);\n");
        }
    }
    text + body
}

fn verdict(a: &str, b: &str) -> Conclusion {
    compare(&read(&chain(a)), &read(&chain(b))).verdict
}

fn same(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Equivalent), "{a}\n{b}\n{verdict:?}");
}

/// Asserts that two chains are not proven equivalent: the verdict is "different" or "undecided".
fn not_proven(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(!matches!(verdict, Conclusion::Equivalent), "{a}\n{b}");
}

fn different(a: &str, b: &str) {
    let verdict = verdict(a, b);
    assert!(matches!(verdict, Conclusion::Different(Difference::Packet { .. })), "{a}\n{b}\n{verdict:?}");
}

/// Stateful elements with two outputs, each with an element that behaves differently.
const STATEFUL: &[(&str, &str)] = &[
    ("RoundRobinSwitch", "StrideSwitch(1, 2)"),
    ("RandomSwitch", "RoundRobinSwitch"),
    ("RandomSample(0.5)", "RandomSample(0.25)"),
    ("StrideSwitch(1, 2)", "StrideSwitch(2, 1)"),
    ("HashSwitch(0, 4)", "HashSwitch(4, 4)"),
    ("RatedSplitter(100)", "RatedSplitter(200)"),
    ("Meter(100)", "Meter(200)"),
];

#[test]
fn the_same_state_with_the_same_packets_does_the_same() {
    for (element, _) in STATEFUL {
        let plain = format!("in -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        same(&plain, &plain);
        let renamed = format!("in -> other :: {element}; other [0] -> out_a; other [1] -> out_b;");
        same(&plain, &renamed);
        let longer =
            format!("in -> Null -> s :: {element}; s [0] -> Counter -> out_a; s [1] -> Null -> out_b;");
        same(&plain, &longer);
        // A change on both outputs equals the same change in two steps.
        let late = format!("in -> s :: {element}; s [0] -> Strip(4) -> out_a; s [1] -> Strip(4) -> out_b;");
        same(&late, &late.replace("Strip(4)", "Strip(2) -> Strip(2)"));
    }
}

/// Painting packets upstream of a stateful element has no effect if no element reads the paint, and has one
/// if an element does.
#[test]
fn what_nobody_looks_at_does_not_count() {
    for (element, _) in STATEFUL {
        let plain = format!("in -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        same(&plain, &plain.replace("in ->", "in -> Paint(7) ->"));
        let seen = |colour: u8| {
            format!(
                "in -> Paint({colour}) -> s :: {element}; s [0] -> CheckPaint(7) -> out_a; s [1] -> out_b;"
            )
        };
        same(&seen(7), &seen(7));
        not_proven(&seen(7), &seen(8));
        not_proven(&plain, &plain.replace("in ->", "in -> SetTimestamp(7) ->"));
    }
}

#[test]
fn other_state_is_not_the_same() {
    for (element, other) in STATEFUL {
        let with = |element: &str| format!("in -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        not_proven(&with(element), &with(other));
        not_proven(
            &with(element),
            &with(element).replace("s [0]", "s [x]").replace("s [1]", "s [0]").replace("[x]", "[1]"),
        );
        not_proven(&with(element), "in -> out_a; Idle -> out_b;");
    }
}

#[test]
fn other_packets_make_other_state() {
    for (element, _) in STATEFUL {
        if element.starts_with("Hash") {
            continue;
        }
        // In the second chain half of the packets do not reach the element, so the others are distributed
        // differently.
        let all = format!(
            "in -> s :: {element}; s [0] -> f :: Classifier(12/0800); s [1] -> g :: Classifier(12/0800); f -> out_a; g -> out_b;"
        );
        let some =
            format!("in -> f :: Classifier(12/0800) -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        not_proven(&all, &some);
        // The packets are modified upstream of the element.
        let plain = format!("in -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        not_proven(&plain, &plain.replace("in ->", "in -> Strip(1) ->"));
    }
}

/// Two copies of a packet arrive at a switch one after the other. They may leave by different outputs, so
/// the verifier must not treat them alike.
#[test]
fn copies_do_not_share_their_fate() {
    for element in ["RoundRobinSwitch", "RandomSwitch", "StrideSwitch(1, 1)"] {
        for marks in [["Paint(1)", "Paint(2)"], ["Null", "Paint(2)"]] {
            let [first, second] = marks;
            let switched = format!(
                "in -> t :: Tee; t [0] -> {first} -> s :: {element}; t [1] -> {second} -> s;
                 s [0] -> p :: CheckPaint(2); p [0] -> out_b; p [1] -> out_a;
                 s [1] -> q :: CheckPaint(2); q [0] -> out_a; q [1] -> out_b;"
            );
            not_proven(&switched, "in -> t :: Tee; t [0] -> out_a; t [1] -> out_b;");
            same(&switched, &switched);
        }
        // Both copies have the same contents.
        let twice =
            format!("in -> t :: Tee; t [0] -> s :: {element}; t [1] -> s; s [0] -> out_a; s [1] -> out_b;");
        let both = format!(
            "in -> s :: {element}; s [0] -> t :: Tee; t [0] -> out_a; t [1] -> out_a; s [1] -> u :: Tee; u [0] -> out_b; u [1] -> out_b;"
        );
        not_proven(&twice, &both);
        same(&twice, &twice);
    }
}

/// The choice among two outputs is another function than the choice among four, even if the outputs lead to
/// the same exits.
#[test]
fn the_number_of_ways_matters() {
    for element in ["RoundRobinSwitch", "RandomSwitch", "HashSwitch(0, 4)"] {
        let two = format!("in -> s :: {element}; s [0] -> out_a; s [1] -> out_b;");
        let four = format!("{two} s [2] -> out_b; s [3] -> out_b;");
        let folded = four.replace("s [1] -> out_b", "s [1] -> out_a");
        not_proven(&two, &four);
        not_proven(&two, &folded);
        same(&folded, &folded);
    }
}

/// Counters only show their counts, so one Counter for two sources equals one Counter for each.
#[test]
fn counters_and_switches_for_handlers_are_no_state() {
    for element in ["Counter", "AverageCounter", "SetIPDSCP(3)", "CheckLength(100)"] {
        let two =
            "other :: FromDump(y.pcap); in -> MarkIPHeader(14) -> m :: Null; other -> MarkIPHeader(14) -> m;";
        let common = format!("{two} m -> {element} -> out_a;");
        let own = common
            .replace("m :: Null", &format!("{element} -> out_a"))
            .replace("-> m;", &format!("-> {element} -> out_a;"));
        let own = own.replace(&format!(" m -> {element} -> out_a;"), "");
        same(&common, &own);
    }
}

/// A stateful switch shared by two sources differs from a switch for each source, although each switch
/// does the same with its own packets.
#[test]
fn shared_state_is_not_state_of_ones_own() {
    let shared = "other :: FromDump(y.pcap); s :: RoundRobinSwitch; in -> s; other -> s; s [0] -> out_a; s [1] -> out_b;";
    let own = "other :: FromDump(y.pcap); s :: RoundRobinSwitch; t :: RoundRobinSwitch; in -> s; other -> t;
        s [0] -> out_a; s [1] -> out_b; t [0] -> out_a; t [1] -> out_b;";
    same(shared, shared);
    same(own, own);
    not_proven(shared, own);
}

#[test]
fn random_values_of_copies_are_not_the_same() {
    let made = "in -> MarkIPHeader(14) -> t :: Tee; t [0] -> r :: SetRandIPAddress(10.0.0.0/8); t [1] -> Paint(1) -> r;
        r -> StoreIPAddress(30) -> p :: CheckPaint(1); p [0] -> out_a; p [1] -> out_b;";
    same(made, made);
    let doubled = "in -> MarkIPHeader(14) -> r :: SetRandIPAddress(10.0.0.0/8) -> StoreIPAddress(30) -> t :: Tee; t [0] -> out_a; t [1] -> out_b;";
    not_proven(made, doubled);
}

#[test]
fn queues_only_delay() {
    let plain = "in -> Strip(14) -> out_a;";
    for queue in ["Queue", "Queue(10)", "SimpleQueue", "ThreadSafeQueue", "FrontDropQueue"] {
        same(plain, &format!("in -> {queue} -> Unqueue -> Strip(14) -> out_a;"));
        same(plain, &format!("in -> Strip(14) -> {queue} -> Unqueue -> out_a;"));
        same(plain, &format!("in -> Strip(14) -> {queue} -> out_a;"));
        different(plain, &format!("in -> Strip(13) -> {queue} -> Unqueue -> out_a;"));
    }
}

#[test]
fn errors_are_compared_with_what_becomes_of_them() {
    let router = |error: &str, behind: &str| {
        format!(
            "in -> Strip(14) -> CheckIPHeader -> d :: DecIPTTL -> out_a;
             d [1] -> e :: ICMPError({error}) {behind} -> out_b;"
        )
    };
    let base = router("18.26.4.24, timeexceeded", "");
    same(&base, &base);
    same(&base, &router("18.26.4.24, timeexceeded", "-> Null"));
    same(&base, &router("18.26.4.24,  timeexceeded", "").replace("e ::", "another ::"));
    not_proven(&base, &router("18.26.4.25, timeexceeded", ""));
    not_proven(&base, &router("18.26.4.24, unreachable", ""));
    not_proven(&base, &router("18.26.4.24, timeexceeded", "-> Strip(1)"));
    not_proven(&base, &router("18.26.4.24, timeexceeded", "-> Classifier(0/45 20/0b)"));
    not_proven(&base, &router("18.26.4.24, timeexceeded", "-> SetIPDSCP(3)"));
    // The errors are about modified packets.
    not_proven(&base, &base.replace("d [1] ->", "d [1] -> StoreData(8, \\<07>) ->"));
    // No errors are made.
    not_proven(&base, &base.replace("e :: ICMPError(18.26.4.24, timeexceeded) ", "Discard; Idle "));
}

#[test]
fn circles_that_are_left_are_followed() {
    let circle =
        "in -> MarkIPHeader(14) -> c :: IPClassifier(ip ttl > 0, -); c [0] -> DecIPTTL -> c; c [1] -> out_a;";
    // Each round decrements the time to live, so no packet stays on the loop; DecIPTTL drops packets before
    // that.
    let verdict = verdict(circle, circle);
    assert!(!matches!(verdict, Conclusion::Different(_)), "{verdict:?}");
    let painted = "in -> p :: CheckPaint(3); p [0] -> out_a; p [1] -> Strip(2) -> Paint(3) -> p;";
    same(painted, painted);
    same(painted, "in -> Strip(2) -> out_a;");
    different(painted, "in -> Strip(1) -> out_a;");
}

#[test]
fn endless_circles_are_the_same_or_not_decided() {
    let endless = "in -> p :: CheckPaint(3); p [0] -> out_a; p [1] -> StoreData(0, \\<07>) -> Null -> p;";
    same(endless, endless);
    let verdict = verdict(endless, &endless.replace("Null", "Counter"));
    assert!(matches!(verdict, Conclusion::Undecided { .. }), "{verdict:?}");
}

#[test]
fn state_in_a_circle_is_not_taken_for_known() {
    let body = |element: &str| {
        format!(
            "in -> s :: {element}; s [0] -> out_a; s [1] -> p :: CheckPaint(1); p [0] -> out_b; p [1] -> Paint(1) -> s;"
        )
    };
    not_proven(&body("RoundRobinSwitch"), &body("RandomSwitch"));
    not_proven(&body("RoundRobinSwitch"), "in -> out_a; Idle -> out_b;");
}

/// Copies of a packet at an exit are matched one by one, even if they arrive with several layouts and
/// header marks.
#[test]
fn copies_of_several_kinds_are_matched() {
    let ends = "c :: CheckLength(63); c [0] -> out_a; c [1] -> out_b;";
    let twice = format!("{ends} in -> t :: Tee; t [0] -> c; t [1] -> c;");
    same(&twice, &twice.replace("in ->", "in -> MarkIPHeader(14) ->"));
    same(
        &twice,
        &twice.replace("t [1] -> c", "t [1] -> k :: Classifier(12/0800, -); k [0] -> c; k [1] -> Null -> c"),
    );
    different(
        &twice,
        &twice.replace("t [1] -> c", "t [1] -> k :: Classifier(12/0800, -); k [0] -> c; k [1] -> Discard"),
    );
    different(&twice, &twice.replace("t [1] -> c", "t [1] -> StoreData(3, \\<05>) -> c"));
    let swapped = "in -> t :: Tee; t [0] -> StoreData(3, \\<05>) -> out_a; t [1] -> out_a;";
    same(swapped, &swapped.replace("t [0]", "t [x]").replace("t [1]", "t [0]").replace("[x]", "[1]"));
}

/// A write after the end of the IP header keeps its checksum correct; a write in it, or in its options,
/// makes it wrong.
#[test]
fn what_stands_behind_a_header_has_no_part_in_its_checksum() {
    let check = "MarkIPHeader(14) -> SetIPChecksum ->";
    for place in [34, 46, 59] {
        // The filter makes sure that the packet has the byte that is written.
        let plain = format!("in -> Classifier(14/45 60/00) -> {check}");
        let written = format!("{plain} StoreData({place}, \\<12>) -> CheckIPHeader(14) -> out_a;");
        not_proven(&written, &format!("{plain} Classifier({place}/12) -> CheckIPHeader(14) -> out_a;"));
        same(&written, &written.replace("CheckIPHeader(14)", "CheckIPHeader(14, CHECKSUM false)"));
        // With a longer header, the byte may be an option.
        let optional = written.replace("14/45", "14/4?");
        not_proven(&optional, &optional.replace("CheckIPHeader(14)", "CheckIPHeader(14, CHECKSUM false)"));
    }
    // The byte is part of the fixed header.
    let inside =
        format!("in -> Classifier(14/45) -> {check} StoreData(22, \\<12>) -> CheckIPHeader(14) -> out_a;");
    same(&inside, &format!("in -> Classifier(14/45 22/12) -> {check} CheckIPHeader(14) -> out_a;"));
    // With a changed header length, the checksum would cover other words.
    let longer =
        format!("in -> Classifier(14/45) -> {check} StoreData(14, \\<46>) -> CheckIPHeader(14) -> out_a;");
    not_proven(
        &longer,
        &format!("in -> Classifier(14/45) -> {check} Classifier(14/46) -> CheckIPHeader(14) -> out_a;"),
    );
}

/// A packet with fewer bytes than Strip removes becomes empty and keeps its start. Marked headers keep
/// their offsets, so Unstrip does not restore the packet.
#[test]
fn packets_too_short_to_strip_stay_where_they_are() {
    let whole = "in -> Strip(14) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> out_a;";
    let parted = "in -> k :: CheckLength(13); k [0] -> Strip(14) -> out_a;
        k [1] -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> Strip(14) -> out_a;";
    different(whole, parted);
    same(whole, &parted.replace("Strip(14) -> out_a;\n", "Discard;\n"));
    different("in -> out_a;", "in -> Strip(4) -> Unstrip(4) -> out_a;");
}

/// Effects that declarations cannot express (moving bytes, growing, IP options, filters by address) are
/// functions of the element's arguments and of the fields that exist.
#[test]
fn functions_are_those_of_their_element_and_of_all_that_is_there() {
    // MoveData changes only packets with a byte after the source bytes, here at offsets 4 and 5.
    let moved = "in -> CheckLength(6) -> MoveData(0, 4, 2) -> out_a;";
    same(moved, "in -> CheckLength(6) -> out_a;");
    different(&moved.replace("(6)", "(7)"), "in -> CheckLength(7) -> out_a;");
    // Bytes that are added to a packet were never part of it.
    let grown = "in -> StoreData(58, \\<01>, GROW true) -> out_a;";
    not_proven(grown, &grown.replace("in ->", "in -> Truncate(40) ->"));
    let options =
        |address: &str| format!("in -> Strip(14) -> CheckIPHeader -> IPGWOptions({address}) -> out_a;");
    not_proven(&options("1.2.3.4"), &options("1.2.3.5"));
    same(&options("1.2.3.4"), &options("1.2.3.4"));
    let filter = |address: &str| {
        format!("in -> f :: HostEtherFilter({address}); f [0] -> b :: DropBroadcasts -> out_a; f [1] -> b;")
    };
    not_proven(&filter("1:1:1:1:1:1"), &filter("2:2:2:2:2:2"));
}
