//! Tests synthesized chains against the original chains. The verifier has to prove them, and has to find
//! each error that a test puts into a program.

use element::DropReason;
use program::machine_code::MachineCode;
use program::question::Question;
use program::{ChecksumOperation, Exit, Next, Program, WrittenValue, text};
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use testkit::chains::{Read, compare_within, read};
use verify::equivalence::{Conclusion, Difference};

/// Returns limits with which regions of a single element become programs, too.
fn limits() -> PathLimits {
    PathLimits { least: Some(1), ..PathLimits::default() }
}

/// The maximum number of diagram nodes of a proof, so that a failing proof ends.
const NODES: usize = 1 << 22;

fn compose(chain: &Read) -> Synthesis {
    synthesize(&chain.chain, &limits(), &|(node, output)| chain.pushed[node][output])
        .with_machine_code(MachineCode::Now)
}

/// Returns the synthesized chain, after it was printed as text and parsed again.
fn insert_programs(chain: &Read, synthesis: &Synthesis) -> Read {
    read(&lang::flatten(&insert(&chain.graph, &chain.chain, synthesis)))
}

fn prove(chain: &Read, synthesis: &Synthesis) -> Conclusion {
    compare_within(NODES, chain, &insert_programs(chain, synthesis)).verdict
}

/// Synthesizes a chain, and expects that it is proven equivalent.
fn proven(text: &str) -> (Read, Synthesis) {
    let chain = read(text);
    let synthesis = compose(&chain);
    let verdict = prove(&chain, &synthesis);
    assert!(matches!(verdict, Conclusion::Equivalent), "{text}: {verdict:?}");
    (chain, synthesis)
}

const ROUTER: &str =
    "FromDump(in.pcap) -> before :: Counter -> Strip(14) -> check :: CheckIPHeader -> GetIPAddress(16)
    -> routes :: RadixIPLookup(10.0.0.0/8 0, 192.0.2.0/24 198.51.100.1 1, 192.0.2.1/32 2);
routes[0] -> DropBroadcasts -> IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> left_ttl :: DecIPTTL
    -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> left :: ToDump(left.pcap);
routes[1] -> DropBroadcasts -> IPGWOptions(192.0.2.2) -> FixIPSrc(192.0.2.2) -> right_ttl :: DecIPTTL
    -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> right :: ToDump(right.pcap);
routes[2] -> Discard;";

#[test]
fn a_router_is_one_classification_and_one_write() {
    let (_, synthesis) = proven(ROUTER);
    let [region] = &synthesis.regions[..] else { panic!("{} regions", synthesis.regions.len()) };
    // Each node must lead to later questions only, so that no path asks a question twice.
    for node in &region.program.nodes {
        for (_, next) in &node.parts {
            if let Next::Node(behind) = next {
                assert!(node.question < region.program.nodes[*behind as usize].question);
            }
        }
    }
    let usual = region.program.classes.iter().max_by_key(|class| class.path.len()).unwrap();
    assert_eq!(usual.start, 0, "the link header is written in the place of the old one");
    let writes: Vec<usize> = usual.writes.iter().map(|write| write.value.length()).collect();
    assert!(writes.contains(&14) && writes.contains(&1), "{usual:?}");
    assert!(matches!(&usual.checksum, Some(ChecksumOperation::Updated { words, .. }) if words.len() == 1));
}

/// Tests an element that reads a TTL which elements upstream have decremented. The element's filter must
/// become its pre-image under the decrements: ranges of the input TTL. A filter that only the old value
/// satisfies does not hold.
#[test]
fn reads_of_written_fields_are_resolved() {
    let (_, synthesis) = proven(
        "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> a :: DecIPTTL -> b :: DecIPTTL
            -> low :: IPClassifier(ip ttl < 9, -);
        low[0] -> near :: ToDump(near.pcap); low[1] -> far :: ToDump(far.pcap);",
    );
    let program = &synthesis.regions[0].program;
    let ttl = program.nodes.iter().find(|node| node.question == Question::Bytes { offset: 22, length: 1 });
    let ends: Vec<u128> = ttl.unwrap().parts.iter().map(|(last, _)| *last).collect();
    // The last input TTL of each range: of packets that expire at the first DecIPTTL, of packets that expire
    // at the second, and of packets whose TTL after both is below nine, or is nine or more.
    assert_eq!(ends, [1, 2, 10, 255]);
    // If the field was set to a constant, the program must ask no question about it.
    let (_, synthesis) = proven(
        "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> StoreIPAddress(10.0.0.1, dst)
            -> to :: IPClassifier(dst host 10.0.0.1, -);
        to[0] -> mine :: ToDump(mine.pcap); to[1] -> others :: ToDump(others.pcap);",
    );
    let asks = |question: &&Question| matches!(question, Question::Bytes { offset: 30..34, .. });
    assert_eq!(synthesis.regions[0].program.questions().into_keys().find(asks), None);
}

#[test]
fn what_only_an_element_knows_is_left_to_it() {
    let (chain, synthesis) = proven(
        "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> t :: DecIPTTL -> p :: Print(x) -> u :: DecIPTTL
            -> q :: Queue(5) -> v :: Unqueue -> w :: DecIPTTL -> x :: Counter -> out :: ToDump(out.pcap);",
    );
    let from: Vec<&str> =
        synthesis.regions.iter().map(|region| chain.chain.nodes[region.from.0].name.as_str()).collect();
    assert_eq!(from.len(), 3, "{from:?}");
    assert!(from.contains(&"p") && from.contains(&"v"), "{from:?}");
    assert!(synthesis.alone.values().any(|why| why.contains("people")));
}

#[test]
fn too_many_classes_end_a_region() {
    let filters = |n: usize| {
        let all: Vec<String> = (0..n)
            .map(|n| {
                format!(
                    "c{n}[0] -> StoreData({}, \\<01>) -> d{n} :: Null; c{n}[1] -> d{n} -> c{} :: Classifier({}/01, -);",
                    60 + n,
                    n + 1,
                    40 + n
                )
            })
            .collect();
        all.concat()
    };
    let text = format!(
        "c0 :: Classifier(39/01, -); FromDump(in.pcap) -> c0; {} c9[0] -> a :: ToDump(a.pcap); c9[1] -> b :: ToDump(b.pcap);",
        filters(9)
    );
    let chain = read(&text);
    let limits = PathLimits { classes: 40, ..limits() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.multiplied.is_empty());
    assert!(synthesis.regions.len() > 1);
    assert!(synthesis.regions.iter().all(|region| region.program.classes.len() <= 40));
    assert!(matches!(prove(&chain, &synthesis), Conclusion::Equivalent));
}

#[test]
fn programs_are_written_and_read_as_they_are() {
    for chain in [ROUTER, LISTED] {
        for region in compose(&read(chain)).regions {
            let written = text::write(&region.program);
            let lines: Vec<String> = lang::args::split(&written).into_iter().map(|arg| arg.text).collect();
            let again = text::read(&lines, region.program.outputs).unwrap();
            assert_eq!(again, region.program);
        }
    }
    for wrong in ["START n0", "c0 at x", "n0 length 5:c0", "r 0 0 yes", "c0 at 0; out 3", "nonsense"] {
        assert!(text::read(&["LAYOUT ANY 0 - -".into(), wrong.into()], 2).is_err(), "{wrong}");
    }
}

/// A firewall with more than 16 rules, so that they stay together as a list.
const LISTED: &str = "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> rules :: IPFilter(
    deny src net 10.1.0.0/16 && udp, allow src net 10.0.0.0/8, deny tcp && dst port 23, allow tcp && dst port 22,
    allow tcp && dst port 80, allow tcp && dst port 443, allow udp && dst port 53, deny udp && src port 53,
    allow udp && dst port 123, allow icmp, deny dst net 192.168.0.0/16, allow src host 1.2.3.4, allow dst host 4.3.2.1,
    deny src net 172.16.0.0/12, allow tcp && src port > 1023 && dst port > 1023, deny src port 7, allow src port 9,
    deny dst port 11, allow dst port 13, deny all)
    -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: ToDump(out.pcap);";

#[test]
fn many_rules_stay_together() {
    let (_, synthesis) = proven(LISTED);
    let program = &synthesis.regions[0].program;
    assert_eq!(program.lists.len(), 1);
    assert!(program.lists[0].rules.len() > 16);
    assert!(program.nodes.iter().any(|node| node.question == Question::List(0)));
}

/// Changes a program in one way (`spoil`), and expects that the verifier finds a packet for which it
/// differs.
fn caught(text: &str, what: &str, spoil: impl Fn(&mut Program) -> bool) {
    let chain = read(text);
    let mut synthesis = compose(&chain);
    assert!(spoil(&mut synthesis.regions[0].program), "{what}: there is nothing to spoil");
    match prove(&chain, &synthesis) {
        Conclusion::Different(Difference::Packet { .. }) => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// Returns the class with the longest path among the classes whose packets leave.
fn usual(program: &mut Program) -> &mut program::TrafficClass {
    let class = program.classes.iter_mut().filter(|class| matches!(class.exit, Exit::Output(_)));
    class.max_by_key(|class| class.path.len()).unwrap()
}

#[test]
fn a_missing_write_is_caught() {
    caught(ROUTER, "TTL", |program| {
        let class = usual(program);
        let before = class.writes.len();
        class.writes.retain(|write| !matches!(write.value, WrittenValue::Plus(..)));
        before > class.writes.len()
    });
    caught(ROUTER, "link header", |program| {
        let class = usual(program);
        let before = class.writes.len();
        class.writes.retain(|write| write.value.length() != 14);
        before > class.writes.len()
    });
}

#[test]
fn a_swapped_port_is_caught() {
    caught(ROUTER, "outputs", |program| {
        let outputs: Vec<usize> = program
            .classes
            .iter()
            .filter(|class| class.path.len() > 8)
            .filter_map(|class| match class.exit {
                Exit::Output(output) => Some(output),
                Exit::Drop(_) => None,
            })
            .collect();
        let (a, b) = (outputs[0], *outputs.iter().find(|output| **output != outputs[0]).unwrap());
        for class in &mut program.classes {
            class.exit = match class.exit {
                Exit::Output(output) if output == a => Exit::Output(b),
                Exit::Output(output) if output == b => Exit::Output(a),
                other => other,
            };
        }
        true
    });
}

#[test]
fn a_wrong_priority_is_caught() {
    caught(LISTED, "priority", |program| {
        program.lists[0].rules.swap(0, 1);
        true
    });
}

/// Removes the class for exceptional packets (an expired TTL, options, a wrong checksum) by sending them to
/// the class of usual packets. The verifier must find a packet for which the program then differs.
#[test]
fn a_lost_exception_is_caught() {
    for question in [
        Question::Bytes { offset: 22, length: 1 },
        Question::Bytes { offset: 14, length: 1 },
        Question::RightChecksum { offset: 14 },
    ] {
        caught(ROUTER, &question.to_string(), |program| {
            let mut spoiled = false;
            for node in program.nodes.iter_mut().filter(|node| node.question == question) {
                // By default, the usual successor is the successor of the last range of answers. For the
                // header length, it is the successor of a header without options.
                let usual = node.parts[node.parts.len() - 1].1;
                let usual = match question {
                    Question::Bytes { offset: 14, .. } => node.next(0x45),
                    _ => usual,
                };
                node.parts.iter_mut().for_each(|(_, next)| *next = usual);
                spoiled = true;
            }
            spoiled
        });
    }
}

#[test]
fn a_lost_length_is_caught() {
    let text =
        "FromDump(in.pcap) -> Strip(14) -> short :: CheckLength(100) -> Null -> out :: ToDump(out.pcap);
        short[1] -> StoreData(0, abc) -> long :: ToDump(long.pcap);";
    caught(text, "length", |program| {
        let node = program.nodes.iter_mut().find(|node| node.question == Question::Length).unwrap();
        let usual = node.next(60);
        node.parts.iter_mut().for_each(|(_, next)| *next = usual);
        true
    });
}

#[test]
fn a_wrong_checksum_is_caught() {
    caught(ROUTER, "not updated", |program| usual(program).checksum.take().is_some());
    caught(ROUTER, "for another word", |program| match &mut usual(program).checksum {
        Some(ChecksumOperation::Updated { words, .. }) => {
            // The update of the checksum accounts for another word than the class writes. The program is then
            // declared to write an unknown checksum, and only a run shows that it is wrong.
            words[0] -= 2;
            true
        }
        _ => false,
    });
}

/// Changes a program as SNF's Algorithm 2 does in its printed form: a written field counts as outside of a
/// filter unless all of its possible values are inside. Packets whose written value is inside would then be
/// dropped if other possible values are outside, and the verifier must find such a packet.
#[test]
fn the_printed_algorithm_would_be_caught() {
    caught(
        "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> a :: DecIPTTL -> low :: IPClassifier(ip ttl < 9, -);
        low[0] -> near :: ToDump(near.pcap); low[1] -> far :: ToDump(far.pcap);",
        "partial overlap",
        |program| {
            // The written value, TTL - 1, is below nine for some packets only. By the rule in the printed
            // algorithm, no packet matches the filter.
            let ttl = Question::Bytes { offset: 22, length: 1 };
            let class = program.classes.len() as u32;
            let mut dropped = program.classes[0].clone();
            dropped.exit = Exit::Drop(DropReason::NoMatch);
            dropped.writes.clear();
            dropped.checksum = None;
            dropped.end = None;
            dropped.start = 0;
            dropped.headers = [None; 3];
            program.classes.push(dropped);
            let mut spoiled = false;
            for node in program.nodes.iter_mut().filter(|node| node.question == ttl) {
                for (_, next) in node.parts.iter_mut().skip(1) {
                    *next = Next::Class(class);
                    spoiled = true;
                }
            }
            spoiled
        },
    );
}

/// Synthesizes and proves each configuration in the folder `configs`, except for a list of configurations
/// that are not proven.
#[test]
fn examples_are_proven() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // In these configurations, scripts write handlers, packets are on loops, or payloads are parked.
    let known = ["load-balancer.click", "nat.click", "slicer.click", "all.click"];
    for entry in std::fs::read_dir(root.join("configs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".click") || known.contains(&name.as_str()) {
            continue;
        }
        // Files of rules are named from the repository's root.
        let data = root.join("configs/data").display().to_string();
        let chain = read(&std::fs::read_to_string(&path).unwrap().replace("configs/data", &data));
        let synthesis = compose(&chain);
        let verdict = prove(&chain, &synthesis);
        assert!(matches!(verdict, Conclusion::Equivalent), "{name}: {verdict:?}");
    }
}

/// Runs programs that name no replaced elements, or elements that are not in the graph, or none at which the
/// packets of a class are dropped. Each dropped packet must be counted once.
#[test]
fn every_drop_of_a_program_is_counted_once() {
    for (program, at) in [
        ("START c0, c0 at 0; drop denied", "s"),
        ("PASSING f, START c0, c0 at 0; drop denied", "s"),
        ("PASSING f, START c0, c0 at 0; drop denied; via 0.0.0@0", "f"),
        ("PASSING nobody f, START c0, c0 at 0; drop denied; via 1.0.0@0", "f"),
        ("PASSING f nobody, START c0, c0 at 0; drop denied; via 1.0.0@0", "s"),
        ("START n0, n0 length 59:c0 *:c1, c0 at 0; drop denied, c1 at 0; out 0", "s"),
        ("PASSING f, START n0, n0 length 59:c0 *:c1, c0 at 0; drop denied; via 0.0.0@0, c1 at 0; out 0", "f"),
        (
            "PASSING f, START n0, n0 length 59:c0 *:c1, c0 at 0; drop denied; via 0.0.0@0, c1 at 0; drop denied",
            "sf",
        ),
        // The packets of the rule are counted by the element `f`, so their drop is counted by it, too.
        ("PASSING f, START n0, n0 list0 *:c0, l0 of 0 0 at 0 20, r 0 0 yes, c0 at 0; drop denied", "f"),
        ("PASSING nobody, START n0, n0 list0 *:c0, l0 of 0 0 at 0 20, r 0 0 yes, c0 at 0; drop denied", "s"),
    ] {
        let text = format!(
            "InfiniteSource(LENGTH 60, LIMIT 3) -> t :: Tee(2);
             t[0] -> s :: Synthesized(LAYOUT ANY ?- - -, USE always, {program}) -> Discard;
             t[1] -> Truncate(50) -> s; Idle -> f :: IPFilter(deny all) -> Discard;"
        );
        let outcome = testkit::TestRun::default().text(&text, &[]).unwrap();
        assert!(outcome.report.balances(), "{program}: {:?}", outcome.report);
        let elements = outcome.report.elements.iter();
        let dropping = elements.filter(|element| !element.drops.is_empty() && element.class != "Discard");
        assert_eq!(dropping.map(|element| &*element.name).collect::<String>(), at, "{program}");
    }
}
