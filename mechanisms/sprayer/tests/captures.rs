//! Tests with captures: the output of network functions is the same for each policy and number of workers,
//! except for the ports that a translator chooses. The captures lie next to the repository (or in the folder
//! `TIDEGATE_DATA`); without them, only a generated capture is used.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use element::Timestamp;
use element::steering::Spreading;
use sprayer::{Policy, SpreadSettings};
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use wire::build::Builder;
use wire::{LinkType, MacAddr};

/// The maximum number of packets that are used of a capture.
const MOST: usize = 4000;

type Way = (&'static str, Option<fn() -> Arc<dyn Spreading>>);

const WAYS: [Way; 4] = [
    ("rss", None),
    ("spray", Some(|| SpreadSettings::default().spreading())),
    ("flowlet", Some(|| with(Policy::Flowlets(Timestamp(500_000))))),
    ("auto", Some(|| with(Policy::Auto))),
];

fn with(policy: Policy) -> Arc<dyn Spreading> {
    SpreadSettings { policy, ..SpreadSettings::default() }.spreading()
}

/// Returns a run for each number of workers and each policy, with a name for messages.
fn ways() -> impl Iterator<Item = (String, TestRun)> {
    [1, 2, 4].into_iter().flat_map(|workers| {
        WAYS.into_iter().map(move |(name, spreading)| {
            let run = TestRun::trace().on(workers);
            (format!("{name} on {workers}"), spreading.map_or(run, |spreading| run.spread(spreading)))
        })
    })
}

fn captures() -> Vec<(String, Vec<TestPacket>)> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join("traces");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|file| file.is_file()).collect();
    files.sort();
    if files.is_empty() {
        println!("skipped: no captures at {}", folder.display());
    }
    let read = files.iter().filter_map(|file| Some((file.display().to_string(), ip_packets(file)?)));
    read.chain([("made".to_string(), made())]).filter(|(_, packets)| !packets.is_empty()).collect()
}

/// Returns the IPv4 packets of an Ethernet capture, at most [`MOST`]; `None` if it cannot be opened.
fn ip_packets(file: &Path) -> Option<Vec<TestPacket>> {
    let mut reader = capture::Reader::open(file).ok()?;
    let mut packets = Vec::new();
    while packets.len() < MOST {
        let Ok(Some(record)) = reader.next() else { break };
        let is_ip = matches!(record.data.get(12..14), Some([0x08, 0x00]));
        if record.link == LinkType::Ethernet && is_ip {
            packets.push(input(record.data.to_vec(), Timestamp(record.time)));
        }
    }
    Some(packets)
}

fn input(bytes: Vec<u8>, time: Timestamp) -> TestPacket {
    TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), None, None] }
}

/// Returns generated packets: of a few long connections, many short connections, and datagrams.
fn made() -> Vec<TestPacket> {
    let mut random = fastrand::Rng::with_seed(8);
    let mut next: HashMap<u16, u32> = HashMap::new();
    let packets = (0..MOST).map(|number| {
        let flow = if random.bool() { random.u16(0..3) } else { random.u16(3..200) };
        let sent = next.entry(flow).or_insert(0);
        *sent += 1;
        let (from, to) = (([10, 0, 0, flow as u8], 5000 + flow), ([10, 9, 0, (flow % 7) as u8], 80));
        let builder = match (flow % 5, *sent) {
            (4, _) => Builder::udp(from.into(), to.into()),
            (_, 1) => Builder::tcp(from.into(), to.into(), wire::tcp::flags::SYN),
            (_, 30) if flow > 2 => Builder::tcp(from.into(), to.into(), wire::tcp::flags::FIN | 16),
            _ => Builder::tcp(from.into(), to.into(), 16),
        };
        let frame = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&sent.to_be_bytes()).unwrap();
        input(frame, Timestamp(1_000_000_000 + 700 * number as i64))
    });
    packets.collect()
}

/// Returns the packets that leave a chain, in which `SOURCE` and `SINK` are replaced by test elements.
fn run(how: TestRun, packets: &[TestPacket], chain: &str) -> Vec<Seen> {
    run_and_report(how, packets, chain).0
}

/// Runs a chain as [`run`] does. Also returns the number of packets that were late although order was to be
/// kept.
fn run_and_report(how: TestRun, packets: &[TestPacket], chain: &str) -> (Vec<Seen>, u64) {
    let exchange = offer(vec![packets.to_vec()]);
    let text = chain.replace("SOURCE", &format!("TestSource({exchange}, 0)"));
    let text = text.replace("SINK", &format!("TestSink({exchange}, 0)"));
    let outcome = how.text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (collect(exchange), outcome.report.workers.iter().map(|worker| worker.late).sum())
}

/// Network functions that choose no values at run time make the same output packet of each input packet, with
/// any number of workers and in any order.
#[test]
fn the_same_packets_come_out() {
    let chains = [
        ("router", "SOURCE -> Strip(14) -> CheckIPHeader -> r :: StaticIPLookup(10.0.0.0/8 0, 0.0.0.0/0 1);
            r[0] -> DecIPTTL -> SINK; r[1] -> DecIPTTL -> SINK2"),
        ("firewall", "SOURCE -> Strip(14) -> CheckIPHeader
            -> IPFilter(deny dst port 443, allow tcp, allow udp && src port > 1023, deny all) -> SINK"),
        ("balancer", "SOURCE -> Strip(14) -> CheckIPHeader
            -> FlowIPLoadBalancer(VIP 10.9.0.1, DST 10.7.0.1, DST 10.7.0.2, DST 10.7.0.3, LB_MODE hash_agg) -> SINK"),
        ("monitor", "SOURCE -> Strip(14) -> CheckIPHeader -> FlowCounter(BIDIRECTIONAL true) -> SINK"),
    ];
    for (capture, packets) in captures() {
        for (name, chain) in chains {
            let chain = chain.replace("SINK2", "SINK");
            let multiset = |seen: Vec<Seen>| {
                let mut all = BTreeMap::new();
                seen.into_iter().for_each(|seen| *all.entry((seen.id, seen.bytes)).or_insert(0) += 1);
                all
            };
            let expected = multiset(run(TestRun::trace(), &packets, &chain));
            for (way, how) in ways() {
                assert!(multiset(run(how, &packets, &chain)) == expected, "{capture}: {name}: {way}");
            }
        }
    }
}

/// With order kept, the packets of each flow leave in order of arrival, although all workers handle some of
/// them.
#[test]
fn order_is_kept_where_it_shall_be() {
    let keep: [fn() -> Arc<dyn Spreading>; 3] = [
        || SpreadSettings { keeps_order: true, ..SpreadSettings::default() }.spreading(),
        || {
            SpreadSettings {
                keeps_order: true,
                policy: Policy::Flowlets(Timestamp(0)),
                ..SpreadSettings::default()
            }
            .spreading()
        },
        || {
            SpreadSettings { keeps_order: true, policy: Policy::Auto, ..SpreadSettings::default() }
                .spreading()
        },
    ];
    let firewall = "SOURCE -> Strip(14) -> CheckIPHeader -> IPFilter(deny dst port 443, allow all) -> SINK";
    // Connections that were open before the capture began are unknown at first: their packets go to the
    // worker that owns them.
    let keeper = "SOURCE -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(tcp or udp, -); c[1] -> SINK;
        c[0] -> [0] nat :: IPRewriter(keep 0 1, drop) -> SINK; Idle -> [1] nat[1] -> SINK";
    for ((capture, packets), chain) in
        captures().iter().flat_map(|capture| [firewall, keeper].map(|chain| (capture, chain)))
    {
        let flows = |seen: Vec<Seen>| {
            let mut all: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
            seen.into_iter().for_each(|seen| all.entry(flow(&seen)).or_default().push(seen.bytes));
            all
        };
        let expected = flows(run(TestRun::trace(), packets, chain));
        for workers in [1, 2, 4] {
            for how in [TestRun::trace(), TestRun::real()] {
                for spreading in keep {
                    let (seen, late) = run_and_report(how.on(workers).spread(spreading), packets, chain);
                    // In real time, the operating system may suspend a worker for long. The other workers do
                    // not wait for it without limit, so packets may then be late.
                    let is_trace = how.clock == TestRun::trace().clock;
                    assert!(late == 0 || !is_trace, "{capture}: {late} late on {workers} workers");
                    assert!(late > 0 || flows(seen) == expected, "{capture}: {workers} workers, {how:?}");
                }
            }
        }
    }
}

/// A translator chooses ports, so the packets must be the same except for ports, which can be renamed one
/// to one.
#[test]
fn translations_are_the_same_but_for_the_ports() {
    // Packets are reassembled first, because fragments have no ports that would identify their flow's
    // worker.
    let chain = "SOURCE -> Strip(14) -> CheckIPHeader -> IPReassembler -> c :: IPClassifier(tcp or udp, -);
        c[0] -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop); c[1] -> Discard;
        nat[0] -> SINK; Idle -> [1] nat[1] -> Discard";
    for (capture, packets) in captures() {
        let mut expected = run(TestRun::trace(), &packets, chain);
        expected.sort_by_key(without_port);
        for (way, how) in ways() {
            let mut seen = run(how, &packets, chain);
            seen.sort_by_key(without_port);
            let at = || format!("{capture}: {way}");
            assert_eq!(seen.len(), expected.len(), "{}", at());
            let mut names = (HashMap::new(), HashMap::new());
            for (one, other) in expected.iter().zip(&seen) {
                assert_eq!(without_port(one), without_port(other), "{}", at());
                // Reassembled packets (id 0) may differ in the port only, so the packets of two runs cannot
                // be matched one to one.
                if one.id == 0 {
                    continue;
                }
                let [a, b] = [one, other].map(flow);
                assert_eq!(names.0.entry(a.clone()).or_insert(b.clone()), &b, "{}", at());
                assert_eq!(names.1.entry(b).or_insert(a.clone()), &a, "{}", at());
            }
        }
    }
}

/// Returns protocol, addresses and ports of a packet; fragments after the first have no ports.
fn flow(seen: &Seen) -> Vec<u8> {
    let start = usize::from(seen.bytes[0] & 15) * 4;
    let is_later = u16::from_be_bytes([seen.bytes[6], seen.bytes[7]]) & 0x1fff != 0;
    let ports = if is_later { &[][..] } else { seen.bytes.get(start..start + 4).unwrap_or_default() };
    [&seen.bytes[9..10], &seen.bytes[12..20], ports].concat()
}

/// Returns a packet's id and its bytes, with source port and transport checksum set to 0.
fn without_port(seen: &Seen) -> (u32, Vec<u8>) {
    let mut bytes = seen.bytes.clone();
    let start = usize::from(bytes[0] & 15) * 4;
    let sum = if bytes[9] == 6 { start + 16 } else { start + 6 };
    for at in [start, start + 1, sum, sum + 1] {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = 0;
        }
    }
    (seen.id, bytes)
}
