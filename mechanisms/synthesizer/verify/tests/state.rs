//! Tests elements whose result depends on more than the packet: on counters, random numbers, queues or
//! earlier packets. Two further tests are about writes behind the end of an IP header, and about the input at
//! which a packet enters an Ethernet switch or hub.

use testkit::chains::{compare, read};
use verify::equivalence::{Conclusion, Difference};

/// Returns the text of a chain with one entry `in`, and with those of the exits `out_a`, `out_b` and `out_c`
/// that `body` names.
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

/// Elements with two outputs, each with another element that distributes packets differently. All are
/// stateful, except HashSwitch, whose result depends on the packet alone.
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
        // Stripping four bytes on both outputs equals stripping two bytes twice.
        let late = format!("in -> s :: {element}; s [0] -> Strip(4) -> out_a; s [1] -> Strip(4) -> out_b;");
        same(&late, &late.replace("Strip(4)", "Strip(2) -> Strip(2)"));
    }
}

/// Paints packets upstream of a stateful element. This makes no difference if no element reads the paint, and
/// makes a difference if an element does.
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
        // In the second chain some packets do not reach the element, so its state changes differently, and
        // the element distributes the other packets differently.
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

/// Checks that elements which keep no state, and counters, which only show their counts, do not count as
/// stateful: a single element for two sources equals an element for each source.
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

/// A write after the end of the IP header keeps the header's checksum correct; a write to the header or to
/// its options makes the checksum wrong.
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
}

/// Tests a switch that learns no addresses: it sends a packet to all outputs but the output of the port at
/// which the packet arrived. So a packet at another input leaves by other outputs.
#[test]
fn switches_that_learn_nothing_send_elsewhere() {
    for (class, ports) in
        [("EtherSwitch(TIMEOUT 0)", 2), ("EtherSwitch(TIMEOUT 0)", 3), ("Hub", 3), ("Hub", 4)]
    {
        let chain = |input: usize| {
            let idle =
                (0..ports).filter(|&other| other != input).map(|other| format!("Idle -> [{other}] s;"));
            let out = (0..ports).map(|output| format!("s[{output}] -> o{output} :: ToDump(y{output});"));
            let more: String = idle.chain(out).collect();
            format!("s :: {class}; in -> [{input}] s; {more}")
        };
        for (a, b) in (0..ports).flat_map(|a| (0..a).map(move |b| (a, b))) {
            not_proven(&chain(a), &chain(b));
        }
        same(&chain(0), &chain(0));
    }
}
