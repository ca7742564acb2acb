//! Tests the linker with the chains of the SNF paper, described by `.prop` files of our own, and with the
//! chain of an Internet provider. A linked chain has to send the same packets as its functions do if they are
//! run one after the other. The same holds for the synthesized chain. The configurations of the SNF chains
//! are not part of the repository; without them, the tests of these chains check nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use element::Timestamp;
use engine::Plan;
use lang::{Graph, Severity, Sources, flatten};
use program::machine_code::MachineCode;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::insert::insert;
use synthesizer::standard::{ELEMENTS, standard};
use synthesizer::topology::{Options, read};
use testkit::elements::{TestPacket, collect, offer};
use testkit::{TestRun, checker, found, registry};
use verify::equivalence::Conclusion;
use wire::build::Builder;
use wire::ethernet::MacAddr;

/// Reads a chain. `place` returns the path of a configuration by its name in the `.prop` file. Returns the
/// graph and the error messages.
fn chain(prop: &Path, place: impl Fn(&str) -> PathBuf) -> (Graph, Vec<String>) {
    let files = |name: &str, _: &str| {
        let text = std::fs::read_to_string(place(name)).map_err(|error| format!("{name}: {error}"))?;
        Ok((name.to_string(), text))
    };
    let mut sources = Sources::new();
    let source = sources.add(prop.display().to_string(), std::fs::read_to_string(prop).unwrap());
    let registry = registry();
    let options = Options { registry: &registry, defines: &[], checks_classes: true, files: &files };
    let (graph, said) = read(&mut sources, source, &options);
    let errors = said.iter().filter(|one| one.severity == Severity::Error);
    (graph, errors.map(|one| one.render(&sources)).collect())
}

/// Reads the configuration of a single function.
fn alone(file: &Path) -> Graph {
    let mut sources = Sources::new();
    let id = sources.add("alone", std::fs::read_to_string(file).unwrap());
    let (graph, said) = lang::parse(&mut sources, id, &lang::Options::default());
    assert!(said.is_empty(), "{}", said[0].render(&sources));
    graph
}

fn interface(config: &str) -> &str {
    let first = config.split(',').next().unwrap_or_default();
    first.trim().trim_start_matches("netmap:")
}

/// Returns the elements of a class that receive from or send to interfaces, as pairs of name and interface.
fn ends(graph: &Graph, class: &str) -> Vec<(String, String)> {
    let elements = graph.elements.iter().filter(|element| element.class == class);
    elements.map(|element| (element.name.clone(), interface(&element.config).to_string())).collect()
}

/// Packets by the name of the interface at which they enter or leave, in order.
type Packets = BTreeMap<String, Vec<Vec<u8>>>;

fn run(graph: &Graph, packets: &Packets) -> Packets {
    run_with(TestRun::default(), graph, packets)
}

fn run_with(how: TestRun, graph: &Graph, packets: &Packets) -> Packets {
    run_and_count(how, graph, packets).0
}

/// Runs a graph on packets. Returns the packets that left, and the total number of packet arrivals at
/// elements.
fn run_and_count(how: TestRun, graph: &Graph, packets: &Packets) -> (Packets, u64) {
    let mut graph = graph.clone();
    let (entries, exits) = (ends(&graph, "FromDevice"), ends(&graph, "ToDevice"));
    let input = |bytes: &Vec<u8>| TestPacket {
        bytes: bytes.clone(),
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    };
    let of = |interface: &String| packets.get(interface).into_iter().flatten().map(input).collect();
    let number = offer(entries.iter().map(|(_, interface)| of(interface)).collect());
    // The scripts of the chains would stop the run, so they are removed.
    let scripts: Vec<bool> = graph.elements.iter().map(|element| element.class == "DriverManager").collect();
    for (ends, class) in [(&entries, "TestSource"), (&exits, "TestPullSink")] {
        for (place, (name, _)) in ends.iter().enumerate() {
            let end = graph.find(name).unwrap();
            graph.elements[end].class = class.into();
            graph.elements[end].config = format!("{number}, {place}");
        }
    }
    let (graph, _) = graph.without(&scripts);
    let outcome = how.text(&flatten(&graph), &[]).unwrap();
    assert!(outcome.report.balances());
    let mut out = Packets::new();
    for packet in collect(number) {
        out.entry(exits[packet.sink].1.clone()).or_default().push(packet.bytes);
    }
    (out, outcome.report.elements.iter().map(|element| element.packets_in).sum())
}

const CLIENT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn udp(from: &str, to: &str, ttl: u8) -> Vec<u8> {
    let [from, to]: [SocketAddr; 2] = [from.parse().unwrap(), to.parse().unwrap()];
    Builder::udp(from, to).ttl(ttl).ethernet(CLIENT, GATEWAY).build(b"payload").unwrap()
}

fn tcp(from: &str, to: &str) -> Vec<u8> {
    let [from, to]: [SocketAddr; 2] = [from.parse().unwrap(), to.parse().unwrap()];
    Builder::tcp(from, to, 2).ethernet(CLIENT, GATEWAY).build(&[]).unwrap()
}

/// Returns a line of text for a packet: MAC addresses, time to live, addresses and ports. Panics if a
/// checksum is wrong.
fn line(frame: &[u8]) -> String {
    let ip = &frame[14..];
    let right = checker::check(ip).unwrap();
    assert!(format!("{right:?}").matches("Wrong").count() == 0, "{right:?}");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let port = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    format!(
        "{} > {}, TTL {}, {}:{} > {}:{}",
        hex(&frame[6..12]),
        hex(&frame[..6]),
        ip[8],
        address(12),
        port(20),
        address(16),
        port(22)
    )
}

/// A chain: its name, its number of functions, a UDP packet that it forwards (source and destination), and
/// both as the packet leaves.
type Chain = (&'static str, usize, [&'static str; 2], &'static str);

const CHAINS: [Chain; 15] = [
    ("acl_251", 3, ["204.152.184.64:5000", "50.0.0.1:161"], "200.0.0.1:5000 > 50.0.0.1:161"),
    ("acl_713", 3, ["223.95.160.232:5000", "175.54.102.165:80"], "200.0.0.1:5000 > 175.54.102.165:80"),
    ("acl_8550", 3, ["239.145.95.65:5000", "237.132.100.111:123"], "200.0.0.1:5000 > 237.132.100.111:123"),
    ("motivating_example", 3, ["10.0.0.9:5000", "200.0.0.2:99"], "11.0.0.1:5000 > 200.0.0.2:99"),
    ("napt_1", 1, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_2", 2, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_3", 3, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_4", 4, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_5", 5, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_6", 6, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_7", 7, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_8", 8, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_dpdk_2", 2, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("napt_dpdk_8", 8, ["10.0.0.9:5000", "50.0.0.1:99"], "200.0.0.1:5000 > 50.0.0.1:99"),
    ("router_10", 10, ["10.0.0.9:5000", "50.0.0.1:99"], "10.0.0.9:5000 > 50.0.0.1:99"),
];

/// Returns every chain of the SNF paper as a linked graph, with the folder of its configurations; `None` if
/// they are not on this machine.
fn all() -> Option<Vec<(Chain, Graph, PathBuf)>> {
    let folder = found::path("rules/snf")?;
    let props = found::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains"));
    let names: Vec<_> = props.iter().map(|prop| prop.file_stem().unwrap().to_string_lossy()).collect();
    assert_eq!(names, CHAINS.map(|(name, ..)| name));
    let chains = props.iter().zip(CHAINS).map(|(prop, about)| {
        let (graph, errors) = chain(prop, |name| folder.join(name));
        assert_eq!(errors, [""; 0], "{}", about.0);
        (about, graph, folder.clone())
    });
    Some(chains.collect())
}

#[test]
fn chains_of_the_snf_paper_are_joined() {
    for ((name, functions, ..), graph, _) in all().unwrap_or_default() {
        let plan = Plan::new(graph.clone(), &registry()).unwrap();
        plan.configure(Some(32)).unwrap();
        let (entries, exits) = (ends(&graph, "FromDevice"), ends(&graph, "ToDevice"));
        let interface = |number: usize, side: usize| {
            let kind = if name.starts_with("router") { "vif" } else { "veth" };
            format!("nf{number}{kind}{side}")
        };
        let interfaces = |ends: &[(String, String)]| -> Vec<String> {
            ends.iter().map(|(_, interface)| interface.clone()).collect()
        };
        assert_eq!(interfaces(&entries), [interface(1, 0)], "{name}");
        // The functions of the napt and router chains also send answers back towards the source. No link of
        // the chain carries answers, so they leave the chain at the function that sends them.
        let answers = if name.starts_with("napt") || name.starts_with("router") { functions } else { 0 };
        let mut expected: Vec<String> = (1..=answers).map(|number| interface(number, 0)).collect();
        expected.push(interface(functions, 1));
        let mut sending = interfaces(&exits);
        sending.sort_by_key(|name| expected.iter().position(|other| other == name));
        assert_eq!(sending, expected, "{name}");
        let cables = graph.elements.iter().filter(|element| element.class == "Cable").count();
        assert_eq!(cables, functions - 1, "{name}");
        let queues = graph.elements.iter().filter(|element| element.class == "Queue").count();
        assert_eq!(queues, exits.len(), "{name}");
    }
}

#[test]
fn packets_leave_chains_of_the_snf_paper_as_all_their_functions_have_changed_them() {
    for ((name, functions, [from, to], ends), graph, _) in all().unwrap_or_default() {
        // A packet with a time to live of 64, a packet with just enough time to live for all functions, a
        // packet with too little, and a packet that is not IP.
        let enough = functions as u8 + 1;
        let packets =
            vec![udp(from, to, 64), udp(from, to, enough), udp(from, to, enough - 1), vec![0xff; 60]];
        let out = run(&graph, &Packets::from([(entry(&graph), packets)]));
        let addresses = match name {
            "router_10" => "ec:f4:bb:d5:fe:0a > ec:f4:bb:d6:06:d8",
            _ => "90:00:00:00:00:01 > 90:00:00:00:01:00",
        };
        let lines: Vec<String> = out.values().flatten().map(|packet| line(packet)).collect();
        let expected = [64 - functions, 1].map(|ttl| format!("{addresses}, TTL {ttl}, {ends}"));
        assert_eq!((out.len(), lines), (1, expected.to_vec()), "{name}");
    }
}

/// Returns the interface at which packets enter a chain with a single entry.
fn entry(graph: &Graph) -> String {
    ends(graph, "FromDevice")[0].1.clone()
}

/// Returns packets for a chain that forwards UDP packets between two addresses: frames of many kinds, flows
/// of which all packets take one path, and packets that are accepted or denied.
fn traffic([from, to]: [&str; 2]) -> Vec<Vec<u8>> {
    let mut packets = testkit::corpus::frames();
    for number in 0..40u16 {
        let with = |address: &str, port: u16| format!("{}:{port}", address.split(':').next().unwrap());
        packets.push(udp(&with(from, 5000 + number / 2), to, (number % 13) as u8));
        packets.push(tcp(&with(from, 6000 + number), to));
        packets.push(udp(&format!("10.{number}.0.1:7000"), &with(to, 1 + number), 64));
    }
    // A packet to the network that it comes from, so that a router sends it back by the interface at which it
    // arrived.
    packets.push(udp("10.0.0.9:1", "10.0.0.5:2", 64));
    packets
}

/// Runs the functions of each chain one after the other, each with the output of the previous one. The
/// linked chain must send the same packets at every interface.
#[test]
fn chains_of_the_snf_paper_do_what_their_functions_do_alone() {
    for ((name, functions, [from, to], _), graph, folder) in all().unwrap_or_default() {
        let prop = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains").join(format!("{name}.prop"));
        let text = std::fs::read_to_string(prop).unwrap();
        let modules = text.lines().filter(|line| line.starts_with("NF_") && line.contains(" = "));
        let files: Vec<PathBuf> =
            modules.filter_map(|line| Some(folder.join(line.split_once(" = ")?.1))).collect();
        assert_eq!(files.len(), functions);
        let packets = traffic([from, to]);
        let mut passing = packets.clone();
        let mut back = Vec::new();
        for file in &files {
            let alone = alone(file);
            let mut left = run(&alone, &Packets::from([(entry(&alone), passing)]));
            let onward = ends(&alone, "ToDevice").pop().unwrap().1;
            passing = left.remove(&onward).unwrap_or_default();
            back.push(left);
        }
        let mut out = run(&graph, &Packets::from([(entry(&graph), packets)]));
        let onward = ends(&graph, "ToDevice").pop().unwrap().1;
        let left = out.remove(&onward).unwrap_or_default();
        assert!(left == passing && left.len() > 50, "{name}: {} and {} packets", left.len(), passing.len());
        // Packets that a function sends back leave the chain at that function.
        let back: Packets = back.into_iter().flatten().collect();
        assert!(out == back, "{name}: {out:?}");
    }
}

/// Synthesizes each chain. A chain in one direction has no loop, so the regions must contain several
/// functions, ending only at translators. The synthesized chain must send the same packets.
#[test]
fn chains_of_the_snf_paper_are_composed() {
    for ((name, functions, addresses, _), graph, _) in all().unwrap_or_default() {
        let read = testkit::chains::read(&flatten(&graph));
        let chain = &read.chain;
        let is_pushed = |(node, output): (usize, usize)| read.pushed[node][output];
        let synthesis =
            synthesize(chain, &PathLimits { least: Some(4), ..PathLimits::default() }, &is_pushed)
                .with_machine_code(MachineCode::Now);
        let reasons = synthesis.alone.values().map(String::as_str);
        let handed = synthesis.regions.iter().flat_map(|region| region.handed.values());
        let mut reasons = reasons.chain(handed.map(|(why, _)| why.as_str()));
        assert!(reasons.all(|why| !why.contains("circle") && !why.contains("come back")), "{name}");
        let translators = graph.elements.iter().filter(|element| element.class == "IPRewriter").count();
        let regions = synthesis.regions.len();
        assert!((1..=translators + 1).contains(&regions), "{name}: {regions} regions");
        // Some path of a region must pass all functions of the chain. In chains of translators, a path
        // through two functions is enough, because a region may end at each translator.
        let function = |element: &str| element.split('/').next().unwrap().to_string();
        let longest = synthesis.regions.iter().map(|region| {
            let program = &region.program;
            let through = program.classes.iter().map(|class| {
                let elements = class.path.iter().map(|passed| &program.elements[passed.element as usize]);
                elements.map(|element| function(element)).collect::<BTreeSet<_>>().len()
            });
            through.max().unwrap_or_default()
        });
        let at_least = match name {
            "router_10" | "acl_251" | "acl_713" | "acl_8550" | "motivating_example" => functions,
            _ => functions.min(2),
        };
        assert!(longest.max().unwrap_or_default() >= at_least, "{name}");
        // Packets are sent one by one. In a batch, packets on different paths could overtake each other,
        // which would change the order of new flows in translators.
        let composed = insert(&read.graph, chain, &synthesis);
        let packets = Packets::from([(entry(&graph), traffic(addresses))]);
        let [plain, composed] = [&graph, &composed]
            .map(|graph| run_with(TestRun { burst: Some(1), ..TestRun::default() }, graph, &packets));
        assert!(plain.values().map(Vec::len).sum::<usize>() > 50, "{name}");
        assert!(plain == composed, "{name}");
    }
}

/// Compiles a chain to elements of Click and FastClick, and expects that it sends the same packets. Returns
/// the configuration, and the number of packet arrivals at elements in the original and in the compiled
/// chain.
fn in_standard_elements(name: &str, graph: &Graph, packets: &Packets, only_gains: bool) -> (Graph, [u64; 2]) {
    let read = testkit::chains::read(&flatten(graph));
    let is_pushed = |(node, output): (usize, usize)| read.pushed[node][output];
    let limits = PathLimits { least: Some(4), leases: false, ..PathLimits::default() };
    let synthesis = synthesize(&read.chain, &limits, &is_pushed).with_machine_code(MachineCode::Now);
    let written = standard(&read.graph, &read.chain, &synthesis, only_gains).graph;
    let there: BTreeSet<&str> = graph.elements.iter().map(|element| element.class.as_str()).collect();
    for element in &written.elements {
        let class = element.class.as_str();
        assert!(ELEMENTS.contains(&class) || there.contains(class), "{name}: {class}");
    }
    let how = || TestRun { burst: Some(1), ..TestRun::default() };
    let (plain, before) = run_and_count(how(), graph, packets);
    let (composed, after) = run_and_count(how(), &written, packets);
    assert!(plain.values().map(Vec::len).sum::<usize>() > 5, "{name}");
    assert!(plain == composed, "{name}");
    (written, [before, after])
}

/// The chains for which it takes too long to prove that their compiled form, in standard elements, does the
/// same.
const NOT_PROVEN: [&str; 8] =
    ["acl_8550", "napt_3", "napt_4", "napt_5", "napt_6", "napt_7", "napt_8", "napt_dpdk_8"];

#[test]
fn chains_of_the_snf_paper_do_the_same_in_standard_elements() {
    for ((name, _, addresses, _), graph, _) in all().unwrap_or_default() {
        let packets = Packets::from([(entry(&graph), traffic(addresses))]);
        let (written, _) = in_standard_elements(name, &graph, &packets, false);
        let composed = written.elements.iter().filter(|element| element.name.starts_with("composed"));
        assert!(composed.count() > 5, "{name}");
        if !NOT_PROVEN.contains(&name) {
            let outcome = testkit::chains::compare(
                &testkit::chains::read(&flatten(&graph)),
                &testkit::chains::read(&flatten(&written)),
            );
            assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{name}: {:?}", outcome.verdict);
        }
    }
}

/// Inserts standard elements only where packets then pass fewer elements. The number of packet arrivals at
/// elements must not rise, and must fall for the chain of ten routers and for access lists.
#[test]
fn chains_of_the_snf_paper_get_shorter_in_standard_elements() {
    for ((name, _, addresses, _), graph, _) in all().unwrap_or_default() {
        let packets = Packets::from([(entry(&graph), traffic(addresses))]);
        let (_, [before, after]) = in_standard_elements(name, &graph, &packets, true);
        // The number of packet arrivals at elements after the compilation, at most. Ten routers get far
        // fewer, because much of their work is done once; translators stay as they are.
        let at_most = match name {
            "router_10" => before / 3,
            _ if name.starts_with("acl") => before * 9 / 10,
            _ => before,
        };
        assert!(after <= at_most, "{name}: {after} steps instead of {before}");
    }
}

#[test]
fn example_chains_do_the_same_in_standard_elements() {
    let (graph, _) = chain(&isp("isp.prop"), isp);
    let mut packets = isp_traffic();
    packets.values_mut().for_each(|packets| packets.extend(testkit::corpus::frames()));
    for only_gains in [false, true] {
        let (written, _) = in_standard_elements("isp", &graph, &packets, only_gains);
        assert!(written.elements.iter().any(|element| element.name.starts_with("composed")));
    }
    let motivating = |name: &str| isp("../motivating").join(name);
    let (graph, _) = chain(&motivating("motivating.prop"), motivating);
    let packets = Packets::from([(entry(&graph), traffic(["10.0.0.9:5000", "203.0.113.2:99"]))]);
    let (written, _) = in_standard_elements("motivating", &graph, &packets, false);
    let outcome = testkit::chains::compare(
        &testkit::chains::read(&flatten(&graph)),
        &testkit::chains::read(&flatten(&written)),
    );
    assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{:?}", outcome.verdict);
}

/// Reads the `.prop` file that came with the SNF chains, which refers to missing files. All of them must be
/// reported in one pass; so must all missing interfaces, if other files are used in their place.
#[test]
fn all_that_is_missing_for_the_file_of_the_snf_paper_is_said_at_once() {
    let Some(folder) = found::path("rules/snf/real-acl") else { return };
    let prop = folder.join("acls.40Gbps.prop");
    let (_, errors) = chain(&prop, |name| folder.join(name));
    let places = ["40:8", "41:8", "42:8"].iter().enumerate().map(|(n, place)| {
        let file = format!("input/chains/osdi16/40Gbps/acls/acl_251/nf{}.click", n + 1);
        format!("acls.40Gbps.prop:{place}: error: NF_{}: {file}: No such file", n + 1)
    });
    let are_said = |errors: &[String], expected: &[String]| {
        errors.len() == expected.len()
            && errors.iter().zip(expected).all(|(said, text)| said.contains(text.as_str()))
    };
    assert!(are_said(&errors, &places.collect::<Vec<_>>()), "{errors:#?}");
    // Uses other files of the same folder in place of the missing files; in these files, the interfaces have
    // other names.
    let beside = |name: &str| {
        let file = match name.rsplit('/').next() {
            Some("nf1.click") => "real_acl_251.nf1.click",
            Some("nf2.click") => "nf2.router.click",
            _ => "nf3.click",
        };
        folder.join(file)
    };
    let (_, errors) = chain(&prop, beside);
    let missing = [
        (1, "60:16", "nf1vif2"),
        (2, "60:29", "nf2vif0"),
        (1, "61:5", "nf1vif3"),
        (2, "61:18", "nf2vif1"),
        (2, "62:5", "nf2vif2"),
        (3, "62:18", "nf3vif0"),
        (2, "63:5", "nf2vif3"),
        (3, "63:18", "nf3vif1"),
        (1, "73:12", "nf1vif0"),
        (1, "73:27", "nf1vif1"),
    ];
    let expected = missing.map(|(n, place, interface)| {
        format!("acls.40Gbps.prop:{place}: error: NF_{n} has no interface '{interface}'")
    });
    assert!(are_said(&errors, &expected), "{errors:#?}");
}

/// Returns the path of a file of the provider's chain in `configs/isp`.
fn isp(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/isp").join(name)
}

/// Returns packets between customers, domain and Internet, and packets that are denied, by the interface at
/// which they enter.
fn isp_traffic() -> Packets {
    let customers = vec![
        // Packets to the Internet, and to the domain.
        tcp("204.152.184.9:5000", "192.0.2.7:443"),
        udp("204.152.184.53:5353", "192.0.2.7:53", 64),
        udp("204.152.185.9:6000", "204.152.3.4:2000", 64),
        // Denied packets: with a foreign source, to the local network, to forbidden ports, and with a time to
        // live that expires; and a packet that is not IP.
        udp("204.152.3.4:6000", "192.0.2.7:2000", 64),
        udp("204.152.184.9:6000", "10.0.0.1:2000", 64),
        tcp("204.152.184.9:6001", "192.0.2.7:25"),
        tcp("204.152.184.9:6001", "204.152.185.9:80"),
        udp("204.152.184.9:6002", "192.0.2.7:2000", 2),
        vec![0xff; 60],
    ];
    let domain = vec![
        udp("204.152.3.4:2000", "204.152.185.9:6000", 64),
        udp("204.152.3.4:2001", "192.0.2.8:5000", 64),
        tcp("204.152.3.4:2002", "204.152.184.80:80"),
        // A packet between hosts of the domain, and a connection to a customer without servers.
        udp("204.152.3.4:2000", "204.152.3.5:2000", 64),
        tcp("204.152.3.4:2003", "204.152.184.7:9000"),
    ];
    let internet = vec![
        // Answers from the Internet, and a request to the only server that can be reached.
        udp("192.0.2.7:53", "198.51.100.1:5353", 64),
        udp("192.0.2.8:5000", "198.51.100.1:2001", 64),
        tcp("192.0.2.9:4000", "198.51.100.1:80"),
        // Packets from the Internet that are no answers, and packets to unknown hosts.
        udp("192.0.2.7:53", "198.51.100.1:5354", 64),
        udp("192.0.2.7:53", "204.152.184.53:5353", 64),
    ];
    Packets::from([("customers".into(), customers), ("domain".into(), domain), ("internet".into(), internet)])
}

#[test]
fn the_providers_chain_serves_three_kinds_of_traffic() {
    let (graph, errors) = chain(&isp("isp.prop"), isp);
    assert_eq!(errors, [""; 0]);
    let interfaces = |class| ends(&graph, class).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(interfaces("FromDevice"), ["customers", "domain", "internet"]);
    assert_eq!(interfaces("ToDevice"), ["customers", "domain", "internet"]);
    let out = run(&graph, &isp_traffic());
    // Packets of one batch may take different paths and leave in another order, so lines are sorted.
    let lines = |interface: &str| {
        let mut lines: Vec<String> = out[interface].iter().map(|packet| line(packet)).collect();
        lines.sort();
        lines
    };
    let to_customers = "02:00:00:00:01:01 > 02:00:00:00:01:fe";
    assert_eq!(
        lines("customers"),
        [
            format!("{to_customers}, TTL 61, 192.0.2.7:53 > 204.152.184.53:5353"),
            format!("{to_customers}, TTL 61, 192.0.2.9:4000 > 204.152.184.80:80"),
            format!("{to_customers}, TTL 62, 204.152.3.4:2000 > 204.152.185.9:6000"),
            format!("{to_customers}, TTL 62, 204.152.3.4:2002 > 204.152.184.80:80"),
        ]
    );
    let to_domain = "02:00:00:00:02:02 > 02:00:00:00:02:fe";
    assert_eq!(
        lines("domain"),
        [
            format!("{to_domain}, TTL 62, 192.0.2.8:5000 > 204.152.3.4:2001"),
            format!("{to_domain}, TTL 62, 204.152.185.9:6000 > 204.152.3.4:2000"),
        ]
    );
    let to_internet = "02:00:00:00:03:02 > 02:00:00:00:03:fe";
    assert_eq!(
        lines("internet"),
        [
            format!("{to_internet}, TTL 61, 198.51.100.1:5000 > 192.0.2.7:443"),
            format!("{to_internet}, TTL 61, 198.51.100.1:5353 > 192.0.2.7:53"),
            format!("{to_internet}, TTL 62, 198.51.100.1:2001 > 192.0.2.8:5000"),
        ]
    );
}

#[test]
fn the_providers_chain_does_what_its_functions_do_alone() {
    let (graph, _) = chain(&isp("isp.prop"), isp);
    let mut traffic = isp_traffic();
    for interface in ["customers", "internet"] {
        traffic.get_mut(interface).unwrap().extend(testkit::corpus::frames());
    }
    let [firewall, router, translator] =
        ["firewall.click", "router.click", "translator.click"].map(|name| alone(&isp(name)));
    let step = |graph: &Graph, inputs: Vec<(&str, Vec<Vec<u8>>)>| {
        run(graph, &inputs.into_iter().map(|(interface, packets)| (interface.to_string(), packets)).collect())
    };
    // Firewall and router keep no state, so packets of the other direction can be sent to them in a later
    // run.
    let mut out = step(&firewall, vec![("customers", traffic["customers"].clone())]);
    let inward = out.remove("up").unwrap();
    let mut there = step(&router, vec![("down", inward), ("domain", traffic["domain"].clone())]);
    let outward = there.remove("up").unwrap();
    let mut outside = step(&translator, vec![("down", outward), ("internet", traffic["internet"].clone())]);
    let mut back = step(&router, vec![("up", outside.remove("down").unwrap())]);
    let customers = [there.remove("down").unwrap(), back.remove("down").unwrap()].concat();
    let mut expected = step(&firewall, vec![("up", customers)]);
    for more in [out, there, outside, back] {
        for (interface, packets) in more {
            expected.entry(interface).or_default().extend(packets);
        }
    }
    let mut joined = run(&graph, &traffic);
    for packets in expected.values_mut().chain(joined.values_mut()) {
        packets.sort();
    }
    assert_eq!(joined.keys().collect::<Vec<_>>(), ["customers", "domain", "internet"]);
    assert!(joined == expected);
}
