//! Tests the linker: the graph that it makes of several configurations, and its diagnostics about invalid
//! topologies.

use std::collections::HashMap;

use element::DropReason;
use engine::Plan;
use lang::{Graph, Severity, Sources, flatten};
use proptest::prelude::*;
use synthesizer::topology::{Options, read};
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{TestRun, registry};
use verify::equivalence::Conclusion;

/// Reads a chain from files given as name and text; the first is `chain.prop`. If there is no error, the
/// graph must be valid. Returns the graph, and the first line of each diagnostic.
fn chain(files: &[(&str, &str)]) -> (Graph, Vec<String>) {
    let texts: HashMap<&str, &str> = files.iter().copied().collect();
    let find = |name: &str, from: &str| {
        assert!(from == "chain.prop" || name == "library");
        let text = texts.get(name).ok_or_else(|| format!("{name}: No such file or directory"))?;
        Ok((name.to_string(), text.to_string()))
    };
    let mut sources = Sources::new();
    let source = sources.add("chain.prop", files[0].1);
    let (registry, defines) = (registry(), [("MTU".to_string(), "1400".to_string())]);
    let options = Options { registry: &registry, defines: &defines, checks_classes: true, files: &find };
    let (graph, diagnostics) = read(&mut sources, source, &options);
    let line = |text: String| text.lines().next().unwrap_or_default().to_string();
    let said: Vec<String> = diagnostics.iter().map(|said| line(said.render(&sources))).collect();
    if diagnostics.iter().all(|said| said.severity != Severity::Error) {
        let plan =
            Plan::new(graph.clone(), &registry).unwrap_or_else(|e| panic!("{}", e[0].render(&sources)));
        plan.configure(Some(1)).unwrap_or_else(|e| panic!("{}", e[0].render(&sources)));
    }
    (graph, said)
}

/// Reads a chain with errors, whose graph must be empty. Returns the error messages.
fn errors(files: &[(&str, &str)]) -> Vec<String> {
    let (graph, said) = chain(files);
    assert_eq!(graph, Graph::default());
    said.into_iter().filter(|line| line.contains(": error: ")).collect()
}

const ONE_WAY: &str = "in :: FromDevice(e0) -> n :: Counter -> q :: Queue -> out :: ToDevice(e1)";
const TWO_WAYS: &str =
    "FromDevice(e0) -> a :: Queue -> ToDevice(e1); FromDevice(e1) -> b :: Queue -> ToDevice(e0)";
const PAIR: &str = "[NF_MODULES]\nNF_1 = a\nNF_2 = b\n[NF_TOPO]\nTOPOLOGY = NF_1[e1] -> [e0]NF_2;\n[ENTRY_POINTS]\nDOMAINS = [e0]NF_1\n";

#[test]
fn joined_interfaces_become_a_cable_and_queues_between_vanish() {
    let (graph, said) = chain(&[("chain.prop", PAIR), ("a", ONE_WAY), ("b", ONE_WAY)]);
    assert_eq!(
        flatten(&graph),
        "NF_1/in :: FromDevice(e0);\nNF_1/n :: Counter;\nNF_1/out :: Cable(e1, e0);\nNF_2/n :: Counter;\n\
         NF_2/q :: Queue;\nNF_2/out :: ToDevice(e1);\n\n\
         NF_1/in -> NF_1/n\n    -> NF_1/out\n    -> NF_2/n\n    -> NF_2/q\n    -> NF_2/out;\n"
    );
    assert_eq!(said, ["a:1:41: note: left out, as nothing waits between functions: NF_1/q"]);
}

#[test]
fn packets_cross_a_link_one_way() {
    let (graph, said) = chain(&[("chain.prop", PAIR), ("a", TWO_WAYS), ("b", TWO_WAYS)]);
    let text = flatten(&graph);
    assert!(text.contains("NF_1/Cable@3 :: Cable(e1, e0)"), "{text}");
    assert!(text.contains("NF_1/Cable@3\n    -> NF_2/a"), "{text}");
    // Packets that the second function sends back leave the chain at that function. No packets enter at the
    // other interfaces, so the elements that receive from them become Idle.
    assert!(text.contains("NF_2/b\n    -> NF_2/ToDevice@6"), "{text}");
    assert!(text.contains("NF_1/Idle@4 :: Idle") && text.contains("NF_2/Idle@4 :: Idle"), "{text}");
    assert_eq!(
        said,
        [
            "a:1:19: note: left out, as nothing waits between functions: NF_1/a",
            "a:1:47: note: idle, as nothing comes in there: NF_1/FromDevice@4, NF_2/FromDevice@4",
        ]
    );
    // An interface may send into a link and also be an entry point, in the other direction.
    let more = PAIR.replace("[e0]NF_1\n", "[e0]NF_1, [e1]NF_1, [e1]NF_2\n");
    let (graph, _) = chain(&[("chain.prop", &more), ("a", TWO_WAYS), ("b", TWO_WAYS)]);
    assert_eq!(graph.elements.iter().filter(|element| element.class == "FromDevice").count(), 3);
}

#[test]
fn a_way_back_is_a_link_of_its_own() {
    let both = PAIR.replace("[e0]NF_2;", "[e0]NF_2; NF_2[netmap:e0] -> [e1]NF_1");
    let (graph, said) = chain(&[("chain.prop", &both), ("a", TWO_WAYS), ("b", TWO_WAYS)]);
    let text = flatten(&graph);
    assert!(
        text.contains("NF_1/Cable@3 :: Cable(e1, e0)")
            && text.contains("NF_2/Cable@6 :: Cable(netmap:e0, e1)"),
        "{text}"
    );
    assert!(
        text.contains("NF_1/Cable@3\n    -> NF_2/a") && text.contains("NF_2/Cable@6\n    -> NF_1/b"),
        "{text}"
    );
    assert_eq!(
        said,
        [
            "a:1:19: note: left out, as nothing waits between functions: NF_1/a, NF_2/b",
            "b:1:47: note: idle, as nothing comes in there: NF_2/FromDevice@4",
        ]
    );
}

#[test]
fn what_is_pulled_otherwise_keeps_its_queue() {
    let shaped = "FromDevice(e0) -> q :: Queue -> Shaper(1000) -> ToDevice(e1)";
    let (graph, said) = chain(&[("chain.prop", PAIR), ("a", shaped), ("b", ONE_WAY)]);
    let text = flatten(&graph);
    assert!(
        text.contains("NF_1/q\n    -> NF_1/Shaper@3\n    -> NF_1/Unqueue\n    -> NF_1/Cable@4"),
        "{text}"
    );
    assert_eq!(said, [""; 0]);
    // A queue that another element refers to by name stays, too.
    let watched = "FromDevice(e0) -> red :: RED(1, 2, 0.5, QUEUES q) -> q :: Queue -> ToDevice(e1)";
    let (graph, _) = chain(&[("chain.prop", PAIR), ("a", watched), ("b", ONE_WAY)]);
    assert!(flatten(&graph).contains("NF_1/q\n    -> NF_1/Unqueue"), "{}", flatten(&graph));
    // Where packets are pushed into the cable, no Unqueue is inserted.
    let pushed = "FromDPDKDevice(0) -> ToDPDKDevice(1); FromNetmapDevice(e9) -> ToDPDKDevice(1)";
    let prop = PAIR
        .replace("NF_1[e1]", "NF_1[1]")
        .replace("[e0]NF_1\n", "[0]NF_1\n[NF_MODULES]\nNF_3 = b")
        .replace("[e0]NF_2;", "[e0]NF_2; NF_3[e1] -> [e9]NF_1");
    let prop = prop.replace("[0]NF_1", "[0]NF_1, [e0]NF_3");
    let (graph, _) = chain(&[("chain.prop", &prop), ("a", pushed), ("b", ONE_WAY)]);
    let text = flatten(&graph);
    assert!(text.contains("NF_1/FromDPDKDevice@1 -> NF_1/Cable@2") && !text.contains("Netmap"), "{text}");
}

#[test]
fn a_queue_may_have_several_in_front_of_it_and_an_interface_several_senders() {
    let merging =
        "FromDevice(e0) -> c :: Classifier(12/0800, -) -> q :: Queue -> ToDevice(netmap:e1); c[1] -> q;
        c2 :: RatedSource -> Queue -> ToDevice(e1)";
    let (graph, _) = chain(&[("chain.prop", PAIR), ("a", merging), ("b", ONE_WAY)]);
    let text = flatten(&graph);
    assert_eq!(text.matches(":: Cable(e1, e0)").count(), 2, "{text}");
    assert!(text.contains("NF_1/c [1] -> NF_1/Cable@4"), "{text}");
}

#[test]
fn names_are_each_functions_own() {
    let named = |address: &str| {
        format!(
            "AddressInfo(here {address}); require(library library); define($TO e1);
             FromDevice(e0) -> Strip(14) -> MarkIPHeader -> StoreIPAddress(here, src) -> Unstrip(14) -> Queue -> ToDevice($TO); x :: Y;"
        )
    };
    let (a, b) = (named("10.0.0.1"), named("10.0.0.2"));
    let library = "elementclass Y { Idle -> IPFragmenter($MTU) -> Discard }";
    let (graph, _) = chain(&[("chain.prop", PAIR), ("a", &a), ("b", &b), ("library", library)]);
    let text = flatten(&graph);
    assert!(text.contains("NF_1/x/IPFragmenter@2 :: IPFragmenter(1400)"), "{text}");
    let seen = run(&graph, &[&[0x45; 60]]);
    assert_eq!(seen[0].bytes[26..30], [10, 0, 0, 2]);
}

/// Runs a graph on packets, with a test source and a test sink in place of its interfaces. Returns the
/// packets that left.
fn run(graph: &Graph, packets: &[&[u8]]) -> Vec<Seen> {
    let input = |bytes: &&[u8]| TestPacket {
        bytes: bytes.to_vec(),
        time: element::Timestamp::from_secs(7),
        annotations: [9; 48],
        headers: [None, Some(14), Some(34)],
    };
    let number = offer(vec![packets.iter().map(input).collect()]);
    let mut graph = graph.clone();
    for element in &mut graph.elements {
        if let Some(class) = ["FromDevice", "ToDevice"].into_iter().find(|class| *class == element.class) {
            element.class = if class == "FromDevice" { "TestSource" } else { "TestPullSink" }.into();
            element.config = format!("{number}, 0");
        }
    }
    let outcome = TestRun::default().text(&flatten(&graph), &[]).unwrap();
    assert!(outcome.report.balances());
    assert!(!outcome.report.elements.iter().any(|e| e.drops.contains_key(DropReason::NotConnected.as_str())));
    collect(number)
}

#[test]
fn packets_cross_as_if_they_were_received() {
    let (graph, _) = chain(&[("chain.prop", PAIR), ("a", ONE_WAY), ("b", ONE_WAY)]);
    let seen = run(&graph, &[&[0xff; 60], &[1; 60], &[2; 60], &[3, 4, 5]]);
    assert_eq!(seen.iter().map(|packet| packet.bytes.len()).collect::<Vec<_>>(), [60, 60, 60, 3]);
    for packet in &seen {
        assert_eq!((packet.annotations, packet.headers), ([0; 48], [Some(0), None, None]));
        assert!(packet.time.parts().0 >= 1_000_000_000);
    }
    let kinds = "FromDevice(e0) -> DropBroadcasts -> Queue -> ToDevice(e1)";
    let (graph, _) = chain(&[("chain.prop", PAIR), ("a", ONE_WAY), ("b", kinds)]);
    assert_eq!(run(&graph, &[&[0xff; 60], &[1; 60], &[2; 60]]).len(), 1);
}

#[test]
fn scripts_that_only_tell_are_left_out_and_others_stay() {
    let told = ONE_WAY.to_string() + "; DriverManager(wait, print >> x $(n.count), wait 0.5s, stop);";
    let turned = ONE_WAY.to_string() + "; Script(wait 1, write n.reset_counts)";
    let (graph, said) = chain(&[("chain.prop", PAIR), ("a", &told), ("b", &turned)]);
    assert!(graph.find("NF_1/DriverManager@5").is_none() && graph.find("NF_2/Script@5").is_some());
    assert_eq!(said[1], "a:1:76: note: left out, as they only print and stop: NF_1/DriverManager@5");
}

#[test]
fn all_that_is_wrong_with_a_topology_is_said_at_once() {
    let prop = "[NF_MODULES]\nNF_1 = a\nNF_2 = a\nNF_3 = b\nNF_4 = b\nNF_5 = missing\nNF_6 = also missing\nNF_7 = wrong\n\
        [NF_TOPO]\nTOPOLOGY = NF_1[e1] -> [e0]NF_2;\nNF_1[e1] -> [e0]NF_3;\nNF_2[e7] -> [e1]NF_3;\nNF_3[e0] -> [e1]NF_3;\n\
        NF_2[e1] -> [x]NF_5;\nNF_9[e1] -> [x]NF_8; NF_6[y] -> [z]NF_7\n[ENTRY_POINTS]\nDOMAINS = [e0]NF_1, [netmap:e0]NF_2, [e1]NF_1\n";
    let files =
        [("chain.prop", prop), ("a", ONE_WAY), ("b", TWO_WAYS), ("wrong", "FromDevice(e0 -> Discard;;; ->")];
    let errors = errors(&files);
    assert_eq!(
        errors,
        [
            "chain.prop:5:1: error: nothing connects NF_4",
            "chain.prop:6:8: error: NF_5: missing: No such file or directory",
            "chain.prop:7:8: error: NF_6: also missing: No such file or directory",
            "chain.prop:11:5: error: interface 'e1' of NF_1 is used twice",
            "chain.prop:12:5: error: NF_2 has no interface 'e7'",
            "chain.prop:13:1: error: NF_3 is linked to itself",
            "chain.prop:13:13: error: interface 'e1' of NF_3 is used twice",
            "chain.prop:15:1: error: there is no NF_9",
            "chain.prop:15:16: error: there is no NF_8",
            "chain.prop:17:21: error: interface 'netmap:e0' of NF_2 is used twice",
            "chain.prop:17:38: error: NF_1 receives nothing from 'e1'",
            "wrong:1:11: error: missing ')' at the end of the configuration string",
            "wrong:1:29: error: syntax error near '->'",
        ]
    );
}

#[test]
fn links_need_a_sender_and_a_receiver() {
    let prop =
        PAIR.replace("NF_1[e1] -> [e0]NF_2", "NF_1[e0] -> [e1]NF_2").replace("[e0]NF_1\n", "[e1]NF_1\n");
    assert_eq!(
        errors(&[("chain.prop", &prop), ("a", ONE_WAY), ("b", ONE_WAY)]),
        [
            "chain.prop:5:16: error: NF_1 sends nothing by 'e0'",
            "chain.prop:5:24: error: NF_2 receives nothing from 'e1'",
            "chain.prop:7:11: error: NF_1 receives nothing from 'e1'",
            "b:1:1: error: interface 'e0' of NF_2 is not connected",
        ]
    );
}

#[test]
fn circles_of_functions_are_found() {
    let prop = "[NF_MODULES]\nNF_1 = a\nNF_2 = a\nNF_3 = a\nNF_4 = b\n[NF_TOPO]\nTOPOLOGY = NF_1[e1] -> [e0]NF_2; NF_2[e1] -> [e0]NF_3; \
        NF_3[e1] -> [e0]NF_1; NF_2[e2] -> [e0]NF_4\n[ENTRY_POINTS]\nDOMAINS = [e1]NF_4\n";
    let three = ONE_WAY.to_string() + "; Idle -> ToDevice(e2)";
    let said = errors(&[("chain.prop", prop), ("a", &three), ("b", TWO_WAYS)]);
    assert_eq!(said, ["chain.prop:7:28: error: links lead in a circle: NF_1 -> NF_2 -> NF_3 -> NF_1"]);
    // A link back by two other interfaces does not lead back to the interface that packets came from, so it
    // closes a loop.
    let prop =
        PAIR.replace("[e0]NF_2;", "[e0]NF_2; NF_2[e1] -> [e0]NF_1").replace("= [e0]NF_1\n", "= [e1]NF_1\n");
    let said = errors(&[("chain.prop", &prop), ("a", TWO_WAYS), ("b", TWO_WAYS)]);
    assert_eq!(said, ["chain.prop:5:28: error: links lead in a circle: NF_1 -> NF_2 -> NF_1"]);
    // Links back between three functions form no loop. But if the three form a ring, packets could circulate
    // in both directions.
    let ring = "FromDevice(l) -> Queue -> ToDevice(r); FromDevice(r) -> Queue -> ToDevice(l); \
        FromDevice(in) -> Queue -> ToDevice(out)";
    let prop = |last: &str| {
        format!(
            "[NF_MODULES]\nNF_1 = a\nNF_2 = a\nNF_3 = a\n[NF_TOPO]\nTOPOLOGY = NF_2[l] -> [r]NF_1; NF_1[r] -> [l]NF_2; \
             NF_2[r] -> [l]NF_3; NF_3[l] -> [r]NF_2; {last}\n[ENTRY_POINTS]\nDOMAINS = [in]NF_1, [in]NF_2, [in]NF_3\n"
        )
    };
    let (_, said) = chain(&[("chain.prop", &prop("")), ("a", ring)]);
    assert!(!said.iter().any(|line| line.contains(": error: ")), "{said:?}");
    let said = errors(&[("chain.prop", &prop("NF_3[r] -> [l]NF_1; NF_1[l] -> [r]NF_3")), ("a", ring)]);
    assert_eq!(said, ["chain.prop:6:26: error: links lead in a circle: NF_2 -> NF_1 -> NF_3 -> NF_2"]);
}

#[test]
fn elements_at_joined_interfaces_have_one_place_and_no_other_outputs() {
    let wrong = "FromDevice(e0) -> q :: Queue -> ToDevice(e1); FromDevice(e0) -> q";
    let sending = "FromDevice(e0) -> Queue -> t :: ToDevice(e1) -> Discard";
    let forcing = "f :: FromDevice(e0, FORCE_IP true) -> Queue -> ToDevice(e1); f[1] -> Discard";
    let said = |a: &str, b: &str| chain(&[("chain.prop", PAIR), ("a", a), ("b", b)]).1;
    let good = |b| said(ONE_WAY, b);
    assert!(
        good(wrong).iter().any(|l| l.ends_with("NF_2 receives from 'e0' in several places")),
        "{:?}",
        good(wrong)
    );
    let lines = said(sending, ONE_WAY);
    assert!(lines.iter().any(|l| l.ends_with("'t' is joined, and its outputs are connected")), "{lines:?}");
    let lines = good(forcing);
    assert!(lines.iter().any(|l| l.ends_with("'f' is joined, and its output 1 is connected")), "{lines:?}");
    assert!(lines.iter().any(|l| l.ends_with("'f' is joined, which leaves out FORCE_IP")), "{lines:?}");
}

#[test]
fn errors_of_configurations_are_said_once_with_their_own_places() {
    let prop = PAIR.replace("NF_2 = b", "NF_2 = a");
    let errors = errors(&[("chain.prop", &prop), ("a", "FromDevice(e0) -> Counterr -> ToDevice(e1)")]);
    assert_eq!(errors, ["a:1:19: error: undeclared element 'Counterr'"]);
}

/// The function in the middle passes packets on as they come, so packets are pushed through it without the
/// queue of the function upstream.
#[test]
fn packets_are_pushed_on_where_a_queue_has_vanished() {
    let prop = "[NF_MODULES]\nNF_1 = a\nNF_2 = a\nNF_3 = b\n[NF_TOPO]\n\
        TOPOLOGY = NF_1[e1] -> [e1]NF_3; NF_3[e0] -> [e0]NF_2;\n[ENTRY_POINTS]\nDOMAINS = [e0]NF_1\n";
    let direct = "FromDPDKDevice(e1) -> ToDPDKDevice(e0)";
    let (graph, _) = chain(&[("chain.prop", prop), ("a", ONE_WAY), ("b", direct)]);
    assert!(graph.elements.iter().all(|element| element.class != "Unqueue"), "{}", flatten(&graph));
}

#[test]
fn cables_are_known_to_the_proofs() {
    let verdict = |a: &str, b: &str| {
        let ends =
            |text: &str| testkit::chains::read(&format!("FromDevice(a) -> {text} -> Queue -> ToDevice(b)"));
        testkit::chains::compare(&ends(a), &ends(b)).verdict
    };
    let equivalent = [
        ("Paint(7) -> Cable -> s :: PaintSwitch; s[1] -> Discard; s", "Cable"),
        ("Cable -> SetPacketType(HOST) -> DropBroadcasts", "SetPacketType(HOST)"),
        (
            "Strip(14) -> MarkIPHeader -> EtherEncap(0x800, 1:0:0:0:0:1, 2:0:0:0:0:2) -> Cable -> DropBroadcasts",
            "Strip(14) -> EtherEncap(0x800, 1:0:0:0:0:1, 2:0:0:0:0:2)",
        ),
        (
            "l :: CheckLength(5); l[0] -> Discard; l[1] -> Cable -> DropBroadcasts",
            "l :: CheckLength(5); l[0] -> Discard; l[1] -> c :: Classifier(0/01%01, -); c[0] -> Discard; c[1]",
        ),
    ];
    for (a, b) in equivalent {
        assert!(matches!(verdict(a, b), Conclusion::Equivalent), "{a} and {b}: {:?}", verdict(a, b));
    }
    let different = verdict("Cable -> DropBroadcasts", "Cable");
    assert!(matches!(different, Conclusion::Different(_)), "{different:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Links functions in random topologies. The result must be errors, or a graph that can be run and
    /// whose interfaces are ends of the chain.
    #[test]
    fn any_topology_is_wrong_or_runs(
        links in proptest::collection::vec(((0usize..4, 0usize..3), (0usize..4, 0usize..3)), 0..5),
        entries in proptest::collection::vec((0usize..4, 0usize..3), 1..3),
        files in proptest::collection::vec(0usize..4, 1..5),
    ) {
        const SHAPED: &str = "FromDevice(e0) -> q :: Queue -> Shaper(9) -> ToDevice(e2); FromDevice(e2) -> Discard";
        const DIRECT: &str = "FromDPDKDevice(e1) -> ToDPDKDevice(e0)";
        let function = |number: usize| 1 + number % files.len();
        let texts = [("a", ONE_WAY), ("b", TWO_WAYS), ("c", SHAPED), ("d", DIRECT)];
        let mut prop = "[NF_MODULES]\n".to_string();
        for (number, &file) in files.iter().enumerate() {
            prop += &format!("NF_{} = {}\n", number + 1, texts[file].0);
        }
        prop += "[NF_TOPO]\nTOPOLOGY =";
        for &((a, x), (b, y)) in &links {
            prop += &format!(" NF_{}[e{x}] -> [e{y}]NF_{};", function(a), function(b));
        }
        prop += "\n[ENTRY_POINTS]\nDOMAINS = ";
        prop += &entries.iter().map(|(nf, x)| format!("[e{x}]NF_{}", function(*nf))).collect::<Vec<_>>().join(", ");
        let all: Vec<_> = [("chain.prop", prop.as_str())].into_iter().chain(texts).collect();
        let (graph, said) = chain(&all);
        if said.iter().any(|line| line.contains(": error: ")) {
            prop_assert_eq!(graph, Graph::default());
            return Ok(());
        }
        let receives = |class: &str| class.starts_with("From");
        let receivers = graph.elements.iter().filter(|element| receives(&element.class)).count();
        prop_assert_eq!(receivers, entries.len());
        let mut names: Vec<&str> = graph.elements.iter().map(|element| element.name.as_str()).collect();
        names.sort_unstable();
        prop_assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
