//! Regression tests: pairs of chains that the verifier once called equivalent, as a review found, although
//! they are not. Each pair has another reason.

use testkit::chains::{compare, outputs, read};
use verify::equivalence::Conclusion;
use verify::example::Example;

#[track_caller]
fn are_not_equivalent(a: &str, b: &str) {
    let outcome = compare(&read(a), &read(b));
    assert!(!matches!(outcome.verdict, Conclusion::Equivalent), "{a}\n{b}\n{outcome:?}");
}

#[track_caller]
fn are_equivalent(a: &str, b: &str) {
    let outcome = compare(&read(a), &read(b));
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{a}\n{b}\n{outcome:?}");
}

/// An ICMP error has a destination annotation, so a route look-up downstream may send it by any output.
#[test]
fn made_packets_have_annotations() {
    let chain = |port: usize| {
        format!(
            "FromDump(x) -> CheckIPHeader(14) -> Strip(14) -> ICMPError(10.9.9.9, unreachable)
             -> r :: StaticIPLookup(10.0.0.0/8 {port}, 0.0.0.0/0 1); r[0] -> out :: ToDump(y); r[1] -> Discard;"
        )
    };
    are_not_equivalent(&chain(0), &chain(1));
}

/// A source marks the IP header at an offset that the verifier does not know, so a test for TCP differs
/// from one for UDP.
#[test]
fn sources_mark_headers() {
    let chain = |protocol: &str| {
        format!("FromDump(x, FORCE_IP true) -> IPClassifier({protocol}) -> out :: ToDump(y);")
    };
    are_not_equivalent(&chain("tcp"), &chain("udp"));
}

const TCP: &str =
    "FromDump(x) -> Classifier(14/45 20/0000%3fff 46/50) -> CheckIPHeader(14) -> IPClassifier(tcp) ->";

/// The pseudo-header of TCP's checksum has length and protocol, so a write to the IP length makes the
/// checksum wrong.
#[test]
fn transport_checksums_cover_length_and_protocol() {
    are_not_equivalent(
        &format!("{TCP} CheckTCPHeader -> StoreData(16, \\<0028>) -> out :: ToDump(y);"),
        &format!("{TCP} CheckTCPHeader -> StoreData(16, \\<0028>) -> CheckTCPHeader -> out :: ToDump(y);"),
    );
    are_not_equivalent(
        &format!("{TCP} StoreData(16, \\<0028>) -> SetTCPChecksum -> out :: ToDump(y);"),
        &format!("{TCP} SetTCPChecksum -> StoreData(16, \\<0028>) -> out :: ToDump(y);"),
    );
}

/// Strip(1) and Strip(2) of packets that start with zeros: the first bytes are equal, later bytes are not.
#[test]
fn shifted_packets_are_different() {
    let chain = |bytes: usize| {
        format!(
            "FromDump(x) -> Classifier(0/000000000000) -> l :: CheckLength(79); l[0] -> Discard;
             l[1] -> Strip({bytes}) -> Truncate(40, EXTRA_LENGTH false) -> out :: ToDump(y);"
        )
    };
    are_not_equivalent(&chain(1), &chain(2));
}

/// A write of 0000 over ffff keeps a sum correct, since both represent zero. So the check passes for more
/// packets than those with 0000.
#[test]
fn a_wrong_word_may_leave_a_sum_right() {
    let start = "FromDump(x) -> Classifier(12/0800 14/45) -> MarkIPHeader(14) ->";
    are_not_equivalent(
        &format!(
            "{start} SetIPChecksum -> StoreData(18, \\<0000>) -> CheckIPHeader(14) -> out :: ToDump(y);"
        ),
        &format!(
            "{start} c :: Classifier(18/0000, -); c[1] -> Discard;
             c[0] -> SetIPChecksum -> CheckIPHeader(14) -> out :: ToDump(y);"
        ),
    );
}

/// Computing a correct checksum again changes nothing, except that ffff may become 0000. The verdict is
/// "equivalent" with that assumption.
#[test]
fn the_two_zeros_are_an_assumption() {
    let outcome = compare(
        &read("FromDump(x) -> CheckIPHeader(14) -> out :: ToDump(y);"),
        &read("FromDump(x) -> CheckIPHeader(14) -> SetIPChecksum -> out :: ToDump(y);"),
    );
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{outcome:?}");
    assert!(outcome.assumptions.iter().any(|text| text.contains("ffff")), "{outcome:?}");
}

/// An update that changes nothing still turns the checksum ffff into 0000. With an update in one chain
/// only, the verdict is "equivalent" with the assumption that the two are equal. With updates in both
/// chains the assumption is not needed, whatever they change.
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

    // A packet with checksum ffff shows the difference that the assumption ignores.
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

#[test]
fn spaces_in_quotes_are_part_of_an_argument() {
    let chain = |text: &str| format!("FromDump(x) -> Search(\"{text}\") -> out :: ToDump(y);");
    are_not_equivalent(&chain("a  b"), &chain("a b"));
}

#[test]
fn names_stand_for_what_they_are_given() {
    let chain = |address: &str| {
        format!(
            "AddressInfo(me {address}); FromDump(x) -> CheckIPHeader(14) -> Strip(14)
             -> ICMPError(me, unreachable) -> out :: ToDump(y);"
        )
    };
    are_not_equivalent(&chain("10.0.0.1"), &chain("10.0.0.9"));
}

/// A router whose elements write at offsets that only they know is equivalent to itself.
#[test]
fn a_router_that_fragments_is_itself() {
    let router = read(
        "FromDump(x) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 1);
         r[0] -> IPGWOptions(1.0.0.1) -> DecIPTTL -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
              -> a :: ToDump(y);
         r[1] -> IPFragmenter(600) -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> b :: ToDump(z);",
    );
    let outcome = compare(&router, &router);
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{outcome:?}");
}

/// Pull switches and schedulers decide which packets are pulled. Packets that are not pulled do not arrive,
/// so chains with different schedulers are not equivalent.
#[test]
fn pullers_choose_what_passes() {
    let pulled = |scheduler: &str| {
        format!(
            "FromDump(x) -> c :: Classifier(12/0800, -); c[0] -> Queue -> [0] p :: {scheduler};
             c[1] -> Queue -> [1] p -> Unqueue -> out :: ToDump(y);"
        )
    };
    are_not_equivalent(&pulled("StaticPullSwitch(1)"), &pulled("RoundRobinSched"));
    are_not_equivalent(&pulled("PullSwitch(0)"), &pulled("PullSwitch(1)"));
    let chain =
        |arguments: &str| format!("FromDump(x) -> Queue -> Unqueue({arguments}) -> out :: ToDump(y);");
    are_not_equivalent(&chain("ACTIVE false"), &chain(""));
    are_not_equivalent(&chain("LIMIT 1"), &chain(""));
}

/// EtherSwitch and Hub send a packet to another output than its input; exchanged inputs are not equivalent.
#[test]
fn inputs_make_a_difference() {
    for class in ["EtherSwitch(TIMEOUT 0)", "Hub"] {
        let chain = |from: usize| {
            format!(
                "FromDump(x) -> [{from}] s :: {class}; Idle -> [{}] s; s[0] -> a :: ToDump(y); s[1] -> b :: ToDump(z);",
                1 - from
            )
        };
        are_not_equivalent(&chain(0), &chain(1));
    }
}

/// The data that one checksum covers may contain another checksum. Then the order of setting both matters.
#[test]
fn sums_cover_other_sums() {
    let start = "FromDump(x) -> Classifier(12/0800 14/45 20/0000 23/11 42/45)";
    let inner = "-> MarkIPHeader(42) -> SetIPChecksum -> MarkIPHeader(14)";
    let outer = "-> MarkIPHeader(14) -> SetUDPChecksum";
    are_not_equivalent(
        &format!("{start} {outer} {inner} -> out :: ToDump(y);"),
        &format!("{start} {inner} {outer} -> out :: ToDump(y);"),
    );
    let start =
        "FromDump(x) -> Classifier(12/0800 14/45 20/0000 23/01 42/45) -> MarkIPHeader(14) -> CheckICMPHeader";
    are_not_equivalent(
        &format!("{start} {inner} -> out :: ToDump(y);"),
        &format!("{start} {inner} -> CheckICMPHeader -> out :: ToDump(y);"),
    );
    // The fields of two checksums overlap in the same bytes.
    let start = "FromDump(x) -> Classifier(24/45000024 30/0000 33/11 40/45000014 48/0010)";
    let (one, two) = ("-> MarkIPHeader(40) -> SetIPChecksum", "-> MarkIPHeader(24) -> SetUDPChecksum");
    are_not_equivalent(
        &format!("{start} {one} {two} -> out :: ToDump(y);"),
        &format!("{start} {two} {one} -> out :: ToDump(y);"),
    );
    let start =
        "FromDump(x) -> Classifier(14/45 16/0030 20/0000 23/01 26/45) -> CheckLength(62) -> CheckIPHeader(14)
         -> CheckICMPHeader -> MarkIPHeader(26) -> SetIPChecksum -> MarkIPHeader(14)";
    are_not_equivalent(
        &format!("{start} -> out :: ToDump(y);"),
        &format!("{start} -> CheckICMPHeader -> out :: ToDump(y);"),
    );
}

/// Two checksums that were computed over different data differ, even if the data is overwritten with equal
/// values later.
#[test]
fn sums_remember_what_they_were_computed_over() {
    let start = "FromDump(x) -> Classifier(12/0800 14/45) -> l :: CheckLength(33); l[0] -> Discard; l[1]";
    let end =
        "-> StoreData(14, \\<45000014>) -> MarkIPHeader(14) -> SetIPChecksum -> Strip(24) -> Truncate(2)
         -> out :: ToDump(y);";
    are_not_equivalent(&format!("{start} -> RandomBitErrors(0.5) {end}"), &format!("{start} {end}"));
    let chain = |options: &str| {
        format!(
            "FromDump(x) -> Classifier(12/0800 14/46) -> l :: CheckLength(37); l[0] -> Discard;
             l[1] -> MarkIPHeader(14) -> StoreData(34, \\<{options}>) -> SetIPChecksum -> StoreData(14, \\<45>)
             -> StoreData(34, \\<0000>) -> out :: ToDump(y);"
        )
    };
    are_not_equivalent(&chain("1111"), &chain("2222"));
}

/// ICMPPingSource has inputs and emits packets of its own, which are compared, too.
#[test]
fn sources_may_have_inputs() {
    let chain = |bytes: usize| {
        format!(
            "s :: ICMPPingSource(1.0.0.1, 1.0.0.2, LIMIT 2) -> t :: Tee; t[0] -> CheckIPHeader -> ICMPPingResponder -> s;
             t[1] -> Strip({bytes}) -> out :: ToDump(y);"
        )
    };
    are_not_equivalent(&chain(1), &chain(2));
}

/// Two equal elements make packets in each chain. Each is paired with one counterpart, so a chain that
/// discards the packets of one of them differs.
#[test]
fn each_made_packet_has_one_counterpart() {
    let start = "FromDump(x) -> CheckIPHeader(14) -> Strip(14) -> t :: Tee(2);";
    are_not_equivalent(
        &format!(
            "{start} t[0] -> ICMPError(1.1.1.1, unreachable) -> out :: ToDump(y);
             t[1] -> ICMPError(1.1.1.1, unreachable) -> out;"
        ),
        &format!(
            "{start} t[0] -> a :: ICMPError(1.1.1.1, unreachable) -> out :: ToDump(y);
             t[1] -> b :: ICMPError(1.1.1.1, unreachable) -> Discard;"
        ),
    );
}

/// Two copies of a packet reach an element that numbers packets: exchanged copies are not equivalent, the
/// unchanged chain is.
#[test]
fn copies_come_in_an_order() {
    let chain = |first: usize| {
        format!(
            "FromDump(x) -> t :: Tee; t[{first}] -> r :: NumberPacket(40);
             t[{}] -> StoreData(0, \\<00>) -> r -> out :: ToDump(y);",
            1 - first
        )
    };
    are_not_equivalent(&chain(0), &chain(1));
    let same = read(&chain(0));
    let outcome = compare(&same, &same);
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{outcome:?}");
}

/// A Counter calls a handler of a Switch after some packets; with different counts the chains are not
/// equivalent.
#[test]
fn calls_turn_switches() {
    let chain = |count: usize| {
        format!(
            "FromDump(x) -> Counter(COUNT_CALL {count} sw.switch 1) -> sw :: Switch(0); sw[0] -> out :: ToDump(y);
             sw[1] -> Discard;"
        )
    };
    are_not_equivalent(&chain(2), &chain(5));
}

/// Only the drop reasons differ in the model. The verdict is not "different" unless a run confirms it.
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

/// An exit that prints IP addresses depends on the offset at which the IP header was marked.
#[test]
fn exits_may_see_marks() {
    let chain = |place: usize| {
        format!("FromDump(x) -> MarkIPHeader({place}) -> out :: ToIPSummaryDump(y, FIELDS ip_src ip_dst);")
    };
    are_not_equivalent(&chain(14), &chain(18));
}

/// A switch that learns nothing sends a packet to all outputs but the output of its own port, so other
/// inputs give other outputs.
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
            format!("s :: {class}; FromDump(x) -> [{input}] s; {more}")
        };
        for (a, b) in (0..ports).flat_map(|a| (0..a).map(move |b| (a, b))) {
            are_not_equivalent(&chain(a), &chain(b));
        }
        let outcome = compare(&read(&chain(0)), &read(&chain(0)));
        assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{class} {ports}: {outcome:?}");
    }
    // A Hub with three ports of which only one output is used equals a wire.
    are_equivalent(
        "FromDump(x) -> h :: Hub; Idle -> [1] h; Idle -> [2] h;
         h[0] -> Discard; h[1] -> out :: ToDump(y); h[2] -> Discard;",
        "FromDump(x) -> out :: ToDump(y);",
    );
}

const EXTENSIONS: &str =
    "FromDump(x) -> Classifier(12/86dd) -> Strip(14) -> CheckIP6Header(PROCESS_EH true) ->";

/// A transport header at an offset that only the element knows is at the same offset in both chains. So the
/// order of two disjoint tests of its bytes does not matter.
#[test]
fn headers_somewhere_are_in_the_same_place() {
    let chain = |first: &str, second: &str| {
        format!(
            "{EXTENSIONS} DecIP6HLIM -> c :: Classifier({first}, {second}, -); c[0] -> out :: ToDump(y);
             c[1] -> out; c[2] -> SetIP6DSCP(10) -> out;"
        )
    };
    are_equivalent(&chain("24/20", "24/30"), &chain("24/30", "24/20"));
    are_not_equivalent(&chain("24/20", "24/30"), &chain("24/20", "24/31"));
}

/// The bytes of a transport header at an unknown offset may also be read or written at a fixed offset, so
/// such an element cannot be exchanged with one that writes the header.
#[test]
fn headers_somewhere_may_be_what_is_asked_about() {
    let mirrored =
        |before: &str, behind: &str| format!("{EXTENSIONS} {before} IP6Mirror -> {behind} out :: ToDump(y);");
    for element in ["Classifier(40/0050)", "StoreData(40, \\<0050>)"] {
        are_not_equivalent(&mirrored(&format!("{element} ->"), ""), &mirrored("", &format!("{element} ->")));
    }
    are_not_equivalent(&mirrored("", ""), &mirrored("", "").replace("PROCESS_EH true", ""));
}

/// DecIPTTL updates a checksum that StoreData has made wrong. It stays wrong, so a check downstream drops
/// the packet.
#[test]
fn updates_do_not_mend_a_checksum() {
    let start = "FromDump(x) -> CheckIPHeader(14) -> StoreData(22, \\<0303>) ->";
    let wrong = format!("{start} DecIPTTL -> out :: ToDump(y);");
    are_not_equivalent(&wrong, &wrong.replace("DecIPTTL", "DecIPTTL -> SetIPChecksum"));
    are_not_equivalent(&wrong, &wrong.replace("DecIPTTL", "DecIPTTL -> CheckIPHeader(14)"));
    // The write without update may also be between two updates.
    let between = wrong.replace("StoreData", "DecIPTTL -> StoreData");
    are_not_equivalent(&between, &between.replace("-> out", "-> SetIPChecksum -> out"));
    are_equivalent(&between, &between.replace("-> out", "-> Counter -> out"));
    let mended = between.replace("-> out", "-> SetIPChecksum -> out");
    are_equivalent(&mended, &mended.replace("-> out", "-> CheckIPHeader(14) -> out"));
}
