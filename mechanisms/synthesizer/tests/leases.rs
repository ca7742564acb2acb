//! Tests programs that lease flows from translators in a row: one mapping, found by one look-up. Packets, the
//! times at which mappings end, and the values of handlers must be as if all packets had gone through the
//! translators.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use element::effects::HeaderKind;
use fastrand::Rng;
use program::location::ByteLocation;
use program::machine_code::MachineCode;
use program::question::{LeasedProperty, Question};
use program::{ChecksumOperation, Exit, Next, Program, TrafficClass, Write, WrittenValue};
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use testkit::TestRun;
use testkit::chains::{Read, compare_within, read};
use testkit::timed::{frame, write_capture};
use verify::equivalence::Conclusion;
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, RST, SYN};

/// The maximum number of diagram nodes of a proof, so that a failing proof ends.
const NODES: usize = 1 << 22;

/// Returns a configuration with two translators in a row and a filter between them. `more` has further
/// arguments of both translators.
fn chain(input: &str, output: &str, more: &str) -> String {
    format!(
        "FromDump({input}, STOP true) -> before :: Counter -> Strip(14) -> CheckIPHeader
            -> first :: IPRewriter(pattern 192.0.2.1 1024-2047 - - 0 0{more}) -> DecIPTTL
            -> filter :: IPFilter(deny udp && src host 192.0.2.1 && dst port 7, allow all)
            -> second :: IPRewriter(pattern 198.51.100.1 4096-5119 - - 0 0{more}) -> hop :: DecIPTTL
            -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> behind :: Counter -> out :: ToDump({output});
        hop[1] -> expired :: Counter -> Discard;"
    )
}

fn compose(chain: &Read) -> Synthesis {
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output])
        .with_machine_code(MachineCode::Now)
}

fn composed(chain: &Read, synthesis: &Synthesis) -> String {
    lang::flatten(&insert(&chain.graph, &chain.chain, synthesis))
}

/// Returns the class of TCP packets that pass all translators and leave.
fn usual(program: &mut Program) -> &mut TrafficClass {
    let leads = |class: &&mut TrafficClass| {
        let is_tcp = class.transport_checksum.as_ref().is_some_and(|sum| sum.protocol == HeaderKind::Tcp);
        is_tcp && matches!(class.exit, Exit::Output(_))
    };
    program.classes.iter_mut().filter(leads).max_by_key(|class| class.path.len()).unwrap()
}

#[test]
fn translators_in_a_row_are_one_mapping() {
    let chain = read(&chain("in.pcap", "out.pcap", ""));
    let mut synthesis = compose(&chain);
    let verdict = compare_within(NODES, &chain, &read(&composed(&chain, &synthesis))).verdict;
    assert!(matches!(verdict, Conclusion::Equivalent), "{verdict:?}");
    let program = &mut synthesis.regions[0].program;
    let nested: Vec<u16> = program.steps.iter().filter_map(|step| step.after).collect();
    assert!(!nested.is_empty(), "{:?}", program.steps);
    let class = usual(program).clone();
    // Addresses and port must be written once, with values of the second translator; one update accounts
    // for all changes.
    let written = class.writes.iter().filter_map(|write| match write.value {
        WrittenValue::Copy(ByteLocation::Leased(step, _), length) => Some((step, length)),
        _ => None,
    });
    let written: BTreeMap<u16, u8> = written.fold(BTreeMap::new(), |mut all, (step, length)| {
        *all.entry(step).or_default() += length;
        all
    });
    assert!(written.keys().all(|step| program.steps[usize::from(*step)].after.is_some()), "{class:?}");
    let sum = class.transport_checksum.unwrap();
    assert_eq!((sum.protocol, sum.header, sum.words), (HeaderKind::Tcp, 34, vec![26, 28, 30, 32, 34, 36]));
}

/// Changes a program in one way (`spoil`), and expects that it is no longer proven equivalent.
fn caught(what: &str, spoil: impl Fn(&mut Program) -> bool) {
    let chain = read(&chain("in.pcap", "out.pcap", ""));
    let mut synthesis = compose(&chain);
    assert!(spoil(&mut synthesis.regions[0].program), "{what}: there is nothing to spoil");
    let verdict = compare_within(NODES, &chain, &read(&composed(&chain, &synthesis))).verdict;
    assert!(!matches!(verdict, Conclusion::Equivalent), "{what}");
}

#[test]
fn spoiled_mappings_are_caught() {
    caught("a word that the checksum does not account for", |program| {
        usual(program).transport_checksum.as_mut().is_some_and(|sum| sum.words.pop().is_some())
    });
    caught("the checksum of the other protocol", |program| {
        usual(program).transport_checksum.as_mut().is_some_and(|sum| {
            sum.protocol = HeaderKind::Udp;
            true
        })
    });
    caught("no checksum", |program| usual(program).transport_checksum.take().is_some());
    caught("values of the first translator", |program| {
        let first = program.steps.iter().position(|step| step.after.is_none()).unwrap() as u16;
        let mut spoiled = false;
        for write in &mut usual(program).writes {
            if let WrittenValue::Copy(ByteLocation::Leased(step, _), _) = &mut write.value {
                *step = first;
                spoiled = true;
            }
        }
        spoiled
    });
    caught("another value", |program| {
        let mut spoiled = false;
        for write in &mut usual(program).writes {
            if let (ByteLocation::Byte(_), WrittenValue::Copy(ByteLocation::Leased(_, offset), _)) =
                (write.place, &mut write.value)
            {
                *offset = if *offset == 0 { 4 } else { 0 };
                spoiled = true;
            }
        }
        spoiled
    });
    caught("packets that open a connection", |program| {
        let flags = Question::Bytes { offset: 47, length: 1 };
        let mut spoiled = false;
        for node in program.nodes.iter_mut().filter(|node| node.question == flags) {
            let usual = node.next(u128::from(ACK));
            node.parts.iter_mut().for_each(|(_, next)| *next = usual);
            spoiled = true;
        }
        spoiled
    });
    caught("a translator that is not asked", |program| {
        let nested: Vec<u16> =
            (0..).zip(&program.steps).filter_map(|(number, step)| step.after.map(|_| number)).collect();
        let leads: Vec<(u32, Next)> = (0..)
            .zip(&program.nodes)
            .filter_map(|(number, node)| match node.question {
                Question::Leased { step, what: LeasedProperty::Output } if nested.contains(&step) => {
                    Some((number, node.next(1)))
                }
                _ => None,
            })
            .collect();
        for node in &mut program.nodes {
            for (_, next) in &mut node.parts {
                if let Some((_, to)) = leads.iter().find(|(number, _)| *next == Next::Node(*number)) {
                    *next = *to;
                }
            }
        }
        !leads.is_empty()
    });
}

/// Returns a configuration with a translator, followed by an element.
fn and_then(element: &str, input: &str, output: &str) -> String {
    format!(
        "FromDump({input}, STOP true) -> CheckIPHeader(14) -> IPRewriter(pattern 192.0.2.1 1024-2047 - - 0 0)
            -> s :: {element} -> DecIPTTL -> Counter -> out :: ToDump({output});"
    )
}

/// Tests an element that writes to a translated port and does not update the checksum. The program must do
/// the same. If the checksum update of a program accounts for this write, the program must not be proven.
#[test]
fn ports_are_written_over_without_their_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    write_capture(&input, &traffic(1, false)[..2000]);
    for element in
        ["StoreData(34, \\<e1>)", "StoreData(36, \\<e1>)", "StoreData(34, \\<e1e2>)", "StoreData(38, \\<07>)"]
    {
        let text = and_then(element, input.to_str().unwrap(), output.to_str().unwrap());
        let chain = read(&text);
        let leased = composed(&chain, &compose(&chain));
        let verdict = compare_within(NODES, &chain, &read(&leased)).verdict;
        assert!(matches!(verdict, Conclusion::Equivalent), "{element}: {verdict:?}");
        let [plain, left] = [&text, &leased].map(|text| run(text, &output, 1, &[]).packets);
        assert!(plain == left, "{element}");
    }
    // Makes a program whose checksum update accounts for the write.
    let [with, without] =
        ["StoreData(36, \\<e1>)", "Null"].map(|element| read(&and_then(element, "in", "out")));
    let mut synthesis = compose(&without);
    let class = usual(&mut synthesis.regions[0].program);
    class.writes.retain(|write| write.place != ByteLocation::Byte(36));
    class.writes.push(Write { place: ByteLocation::Byte(36), value: WrittenValue::Constant(vec![0xe1]) });
    let words = &class.transport_checksum.as_ref().unwrap().words;
    assert!(
        words.contains(&36)
            && !class.writes.iter().any(|write| matches!(write.place, ByteLocation::Byte(35))),
        "{class:?}"
    );
    let verdict = compare_within(NODES, &with, &read(&composed(&with, &synthesis))).verdict;
    assert!(!matches!(verdict, Conclusion::Equivalent));
}

/// An element upstream of a translator writes without an update of the checksum. A program whose update
/// accounts for this write must not be proven.
#[test]
fn writes_in_front_of_translators_have_updates_of_their_own() {
    let chains = ["StoreData(15, \\<28>)", "SetIPDSCP(10)"].map(|element| {
        read(&format!(
            "FromDump(in) -> CheckIPHeader(14) -> s :: {element} -> IPRewriter(pattern 192.0.2.1 1024-2047 - - 0 0)
                -> DecIPTTL -> Counter -> out :: ToDump(out);"
        ))
    });
    let mut synthesis = compose(&chains[1]);
    let program = &mut synthesis.regions[0].program;
    let changed = program.elements.iter().position(|name| name == "s");
    let byte = Write { place: ByteLocation::Byte(15), value: WrittenValue::Constant(vec![0x28]) };
    let write = |class: &mut TrafficClass| {
        for there in class.writes.iter_mut().filter(|write| write.place == ByteLocation::Byte(15)) {
            *there = byte.clone();
        }
        // The chain that the program is compared with has another element `s`, with another declaration, so
        // `s` is removed from the paths of the classes.
        class.path.retain(|passed| Some(passed.element as usize) != changed);
    };
    for step in &mut program.steps {
        write(&mut step.before);
        step.before.checksum = None;
    }
    for class in &mut program.classes {
        write(class);
        // Packets of a class that updates the checksum only for the word that `s` writes go to the translator
        // itself. They must arrive there with an unchanged checksum.
        if matches!(&class.checksum, Some(ChecksumOperation::Updated { words, .. }) if words[..] == [14]) {
            class.checksum = None;
        }
    }
    let class = usual(program);
    assert!(class.writes.contains(&byte));
    assert!(
        matches!(&class.checksum, Some(ChecksumOperation::Updated { words, .. }) if words.contains(&14)),
        "{class:?}"
    );
    let verdict = compare_within(NODES, &chains[0], &read(&composed(&chains[0], &synthesis))).verdict;
    assert!(!matches!(verdict, Conclusion::Equivalent));
}

/// Returns packets with their times in nanoseconds. Their flows begin, continue, pause for longer or
/// shorter than mappings last, and end in each way. Packets come in batches (equal times), unless they are
/// `apart`.
fn traffic(seed: u64, apart: bool) -> Vec<(i64, Vec<u8>)> {
    let mut random = Rng::with_seed(seed);
    let mut time = 0i64;
    let mut packets = Vec::new();
    for _ in 0..6000 {
        time += match random.u16(..) {
            0..300 => random.i64(0..3_000_000_000),
            300..20_000 => random.i64(0..6_000_000),
            _ if apart => random.i64(1..2_000_000),
            // An equal time: the packet is in one batch with the previous packet.
            _ => 0,
        };
        let flow = random.u16(..40);
        let from = SocketAddr::from(([10, 0, 0, flow as u8 % 5 + 1], 2000 + flow));
        let to = SocketAddr::from((
            [203, 0, 113, flow as u8 % 3 + 1],
            if flow.is_multiple_of(11) { 7 } else { 80 },
        ));
        let payload = vec![flow as u8; random.usize(..40)];
        let packet = if flow.is_multiple_of(2) {
            Builder::udp(from, to)
        } else {
            let flags = match random.u8(..24) {
                0 => SYN,
                1 => FIN | ACK,
                2 => RST,
                _ => ACK,
            };
            Builder::tcp(from, to, flags)
        };
        let mut bytes = frame(packet, &payload);
        // Some packets have a time to live that ends in the chain.
        if random.u8(..20) == 0 {
            let (ttl, old) = (1 + random.u8(..3), bytes[22]);
            let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
            let change = wire::checksum::Delta::u16(
                u16::from_be_bytes([old, bytes[23]]),
                u16::from_be_bytes([ttl, bytes[23]]),
            );
            bytes[24..26].copy_from_slice(&change.apply(sum).to_be_bytes());
            bytes[22] = ttl;
        }
        packets.push((time, bytes));
    }
    packets
}

/// The results of a run: the packets that it has written to a file, and the values of handlers.
struct Left {
    packets: Vec<Vec<u8>>,
    values: Vec<String>,
}

const HANDLERS: [&str; 10] = [
    "first.tcp_table",
    "second.udp_table",
    "first.nmappings",
    "second.mapping_failures",
    "before.count",
    "filter.rule_counts",
    "second.size",
    "behind.count",
    "behind.byte_count",
    "expired.count",
];

fn run(text: &str, output: &Path, burst: usize, handlers: &[&str]) -> Left {
    let outcome = TestRun { burst: Some(burst), ..TestRun::trace() }.text(text, handlers).unwrap();
    let mut reader = capture::Reader::open(output).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        packets.push(packet.data.to_vec());
    }
    let values = outcome.values.into_iter().map(|value| value.unwrap_or_else(|error| error));
    Left { packets, values: values.collect() }
}

/// Groups packets by addresses, ports and protocol, each group in order.
fn by_flow(packets: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Vec<&Vec<u8>>> {
    let mut flows: BTreeMap<Vec<u8>, Vec<&Vec<u8>>> = BTreeMap::new();
    for packet in packets {
        let mut key = packet[26..38].to_vec();
        key.push(packet[23]);
        flows.entry(key).or_default().push(packet);
    }
    flows
}

/// Arguments of translators for long and short time-outs, and for small tables.
const SETTINGS: [&str; 5] = [
    "",
    ", TCP_TIMEOUT 1, TCP_NODATA_TIMEOUT 1, TCP_DONE_TIMEOUT 1, UDP_TIMEOUT 1, UDP_STREAMING_TIMEOUT 1, TCP_GUARANTEE 0,
        UDP_GUARANTEE 0, REAP_INTERVAL 1",
    ", MAPPING_CAPACITY 38, TCP_GUARANTEE 0, UDP_GUARANTEE 0",
    ", TCP_TIMEOUT 2, UDP_STREAMING_TIMEOUT 3, MAPPING_CAPACITY 39, TCP_GUARANTEE 1, UDP_GUARANTEE 1, REAP_INTERVAL 2",
    ", TCP_TIMEOUT 2, UDP_STREAMING_TIMEOUT 3, REAP_INTERVAL 2",
];

#[test]
fn mappings_live_as_long_as_without_leases() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    for (seed, more) in (1..).zip(SETTINGS) {
        // If a table is full, the mapping that is evicted depends on which flow of a batch reaches the
        // translator first, so these packets come one by one.
        write_capture(&input, &traffic(seed, more.contains("MAPPING_CAPACITY")));
        let text = chain(input.to_str().unwrap(), output.to_str().unwrap(), more);
        let chain = read(&text);
        let synthesis = compose(&chain);
        let leased = composed(&chain, &synthesis);
        let program = &synthesis.regions[0].program;
        let takes = |write: &Write| matches!(write.value, WrittenValue::Copy(ByteLocation::Leased(..), _));
        let passing: Vec<bool> = program.classes.iter().map(|class| class.writes.iter().any(takes)).collect();
        for burst in [1, 32, 256] {
            let plain = run(&text, &output, burst, &HANDLERS);
            let handlers = [&["synthesized.classes"], &HANDLERS[..]].concat();
            let left = run(&leased, &output, burst, &handlers);
            // Enough packets must have used leases; otherwise the test would show nothing.
            let counts = left.values[0].lines().filter_map(|line| line.split_once(' '));
            let counts: Vec<u64> = counts.map(|(_, count)| count.parse().unwrap()).collect();
            let passing: u64 =
                (passing.iter().zip(&counts)).filter(|(passes, _)| **passes).map(|(_, n)| n).sum();
            assert!(passing > 500, "{more}: {passing} packets of flows on lease");
            assert_eq!(plain.values, left.values[1..], "{more} with bursts of {burst}");
            assert!(plain.packets.len() > 4000);
            match burst {
                1 => assert!(plain.packets == left.packets, "{more}: other packets"),
                _ => assert_eq!(by_flow(&plain.packets), by_flow(&left.packets), "{more}"),
            }
        }
    }
}

/// Runs 9,000 flows downstream of rules that are evaluated once per flow, mixed with packets that have to
/// go to the elements. Packets must be the same, in the same order; more than 4,096 flows must be on lease.
#[test]
fn many_flows_come_and_stay_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let mut random = Rng::with_seed(7);
    let mut packets = Vec::new();
    for number in 0..60_000u32 {
        let flow = random.u16(..9_000);
        let from = SocketAddr::from(([10, 0, (flow >> 8) as u8, flow as u8], 1000 + flow % 40));
        let to = SocketAddr::from(([203, 0, 113, 1], 80));
        let mut bytes = frame(Builder::udp(from, to), &number.to_be_bytes());
        if random.u8(..50) == 0 {
            // The synthesized program has to leave a first fragment to the elements.
            let more = wire::checksum::Delta::u16(0, 0x2000);
            let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
            bytes[20] |= 0x20;
            bytes[24..26].copy_from_slice(&more.apply(sum).to_be_bytes());
        }
        // Packets with equal times form a batch.
        packets.push((i64::from(number / 40) * 40_000, bytes));
    }
    write_capture(&input, &packets);
    let rules: Vec<String> = (0..38).map(|rule| format!("allow udp && src port {}", 1000 + rule)).collect();
    // With `#`, a translator allocates ports in sequence. Random ports would depend on the translator that
    // draws first.
    let text = chain(input.to_str().unwrap(), output.to_str().unwrap(), "")
        .replace("1024-2047", "1024-65535#")
        .replace("4096-5119", "4096-65535#")
        .replace("-> first ::", &format!("-> rules :: IPFilter({}, deny all) -> first ::", rules.join(", ")));
    let chain = read(&text);
    let leased = composed(&chain, &compose(&chain));
    let handlers = ["rules.rule_counts", "before.count", "behind.count", "second.nmappings"];
    for burst in [1, 32, 256] {
        let plain = run(&text, &output, burst, &handlers);
        let left = run(&leased, &output, burst, &[&["synthesized.flows"], &handlers[..]].concat());
        assert_eq!(plain.values, left.values[1..]);
        let flows: usize = left.values[0].parse().unwrap();
        assert!(flows > 4096, "{flows} flows on lease");
        assert!(plain.packets == left.packets, "bursts of {burst}: other packets, or in another order");
    }
}

/// Runs packets of many flows, most of them denied, and then packets of a single flow for a long time. The
/// answers of rule sets for the idle flows must expire; without the pause, they must still be cached.
#[test]
fn flows_that_are_not_on_lease_are_remembered_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let mut random = Rng::with_seed(9);
    let mut packets = Vec::new();
    for number in 0..8_000u32 {
        let flow = if number < 6_000 { random.u16(..300) } else { 0 };
        let from = SocketAddr::from(([10, 0, (flow >> 8) as u8, flow as u8], 1000 + flow % 60));
        let to = SocketAddr::from(([203, 0, 113, 1], 80));
        let packet = match flow % 3 {
            0 => Builder::udp(from, to),
            1 => Builder::tcp(from, to, ACK),
            _ => Builder::icmp(from.ip(), to.ip(), 8, 0, [flow, 0]),
        };
        // Some packets are first fragments.
        let packet = if random.u8(..30) == 0 { packet.fragment(0x2000) } else { packet };
        let bytes = frame(packet, &[flow as u8; 8]);
        let pause = if number < 6_000 { 0 } else { 20_000_000_000 };
        packets.push((pause + i64::from(number / 40) * 40_000_000, bytes));
    }
    write_capture(&input, &packets);
    let rules: Vec<String> = (0..30).map(|rule| format!("deny udp && src port {}", 1000 + rule)).collect();
    let rules = format!(
        "rules :: IPFilter({}, deny tcp && src port > 1000 && src port < 1031, allow all)",
        rules.join(", ")
    );
    let with = chain(input.to_str().unwrap(), output.to_str().unwrap(), "");
    let with = with.replace("1024-2047", "1024-2047#").replace("4096-5119", "4096-5119#");
    let without = with
        .replace("first :: IPRewriter(pattern 192.0.2.1 1024-2047# - - 0 0)", "first :: Null")
        .replace("second :: IPRewriter(pattern 198.51.100.1 4096-5119# - - 0 0)", "second :: Null");
    for (text, is_leased) in [(with, true), (without, false)] {
        let text = text.replace("-> first ::", &format!("-> {rules} -> first ::"));
        let chain = read(&text);
        let composed = composed(&chain, &compose(&chain));
        let handlers = ["rules.rule_counts", "before.count", "behind.byte_count", "expired.count"];
        let more = ["synthesized.remembered", "synthesized.flows"];
        for burst in [1, 32, 256] {
            let plain = run(&text, &output, burst, &handlers);
            let left = run(&composed, &output, burst, &[&more[..], &handlers[..]].concat());
            assert_eq!(plain.values, left.values[2..]);
            assert!(plain.packets == left.packets, "bursts of {burst}: other packets, or in another order");
            // All flows but the last have been idle for too long, so they have expired.
            assert!(["0", "1"].contains(&&*left.values[0]), "{} are remembered", left.values[0]);
            assert_eq!(left.values[1] != "0", is_leased);
        }
        // The run ends before the pause, so the flows are still cached.
        let (early, _) = packets.split_at(6_000);
        write_capture(&input, early);
        let left = run(&composed, &output, 32, &more);
        let remembered: usize = left.values[0].parse().unwrap();
        assert!((100..=300).contains(&remembered), "{remembered} are remembered");
        write_capture(&input, &packets);
    }
}

/// Tests a flow that is cached, and then leased at the first of several of its packets in a batch. The later
/// packets of the batch must not set a time at which the entry of the leased flow expires.
#[test]
fn a_flow_that_others_of_the_batch_are_of_stays_on_lease() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let to = SocketAddr::from(([203, 0, 113, 1], 80));
    let packet = |time, port, payload: &[u8]| {
        (time, frame(Builder::tcp(SocketAddr::from(([10, 0, 0, 1], port)), to, ACK), payload))
    };
    // Eight packets at a time have equal times, so they form a batch.
    let packets_of = |start: i64, port, payload: &'static [u8]| {
        (0..512).map(move |number| packet(start + number / 8, port, payload))
    };
    // Only packets with data make the mapping long-lived, so the flow cannot be leased before them. While the
    // flow is idle, packets of another flow arrive, at the end in full batches.
    let mut packets: Vec<(i64, Vec<u8>)> =
        packets_of(0, 1000, b"").chain(packets_of(1_000, 1000, b"said")).collect();
    packets.extend((0..20).flat_map(|second| packets_of(second * 1_000_000_000 + 10_000, 1001, b"said")));
    packets.extend((0..600).map(|_| packet(20_000_000_000, 1001, b"said")));
    write_capture(&input, &packets);
    let rules: Vec<String> = (0..38).map(|rule| format!("allow tcp && src port {}", 1000 + rule)).collect();
    let text = chain(input.to_str().unwrap(), output.to_str().unwrap(), "")
        .replace("-> first ::", &format!("-> rules :: IPFilter({}, deny all) -> first ::", rules.join(", ")));
    let chain = read(&text);
    let composed = composed(&chain, &compose(&chain));
    for burst in [1, 32, 256] {
        let left = run(&composed, &output, burst, &["synthesized.flows", "synthesized.remembered"]);
        assert_eq!(left.values, ["2", "0"], "bursts of {burst}");
    }
}

/// Runs packets with more different answers of rule sets than there can be residual programs. Then all
/// residual programs are removed, and the trails that begin at their nodes must be removed, too.
#[test]
fn answers_that_are_forgotten_lead_nowhere_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    // Each flow has a pair of ports of its own, which matches another pair of rules.
    let frame_of = |flow: u32, net: u8| {
        let from = SocketAddr::from(([10, 0, 0, 1], 1000 + (flow % 256) as u16));
        let to = SocketAddr::from(([10, net, 0, 1], 1000 + (flow / 256) as u16));
        frame(Builder::udp(from, to), b"")
    };
    let first = (0..300).map(|_| frame_of(0, 1));
    let others = (1..65_530).flat_map(|flow| [frame_of(flow, 1), frame_of(flow, 1)]);
    let last = (65_530..65_560).flat_map(|flow| (0..100).map(move |_| frame_of(flow, 2)));
    let packets: Vec<(i64, Vec<u8>)> =
        first.chain(others).chain(last).zip(0..).map(|(frame, number)| (number * 1000, frame)).collect();
    write_capture(&input, &packets);
    let ports = |which: &str| -> String {
        (0..300).map(|rule| format!("allow udp && {which} port {}, ", 1000 + rule)).collect()
    };
    let hosts: String = (0..20).map(|host| format!("deny src host 10.9.0.{host}, ")).collect();
    let text = format!(
        "FromDump({}, STOP true) -> Strip(14) -> CheckIPHeader -> IPFilter({hosts} allow all)
            -> from :: IPFilter({} deny all) -> to :: IPFilter({} deny all)
            -> kinds :: IPClassifier(dst net 10.1.0.0/16, dst net 10.2.0.0/16)
            -> one :: Counter -> Discard; kinds[1] -> two :: Counter -> Discard;",
        input.display(),
        ports("src"),
        ports("dst")
    );
    let chain = read(&text);
    let composed = composed(&chain, &compose(&chain));
    let handlers = ["one.count", "two.count", "from.rule_counts", "to.rule_counts"];
    let values = |text: &str, handlers: &[&str]| {
        let outcome = TestRun { burst: Some(1), ..TestRun::trace() }.text(text, handlers).unwrap();
        outcome.values.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let left = values(&composed, &[&handlers[..], &["synthesized.remembered"]].concat());
    assert_eq!(left[..4], values(&text, &handlers));
    // All entries of the flow cache were removed once, so only the last flows are cached.
    let remembered: usize = left[4].parse().unwrap();
    assert!((1..100).contains(&remembered), "{remembered} are remembered");
}

/// A connection is closed by a packet that has to go to the translator itself. This packet must not overtake
/// earlier packets of the connection in its batch, by whichever output of the program the earlier packets
/// leave.
#[test]
fn who_closes_a_connection_stays_behind_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let to = SocketAddr::from(([203, 0, 113, 1], 80));
    for network in 0..4u8 {
        let from = SocketAddr::from(([10, network, 0, 1], 1000));
        let segment = |number: u8, flags| frame(Builder::tcp(from, to, flags), &[number; 20]);
        let mut packets = vec![(0, segment(100, SYN))];
        packets.extend((1..20).map(|n| (1_000_000 * i64::from(n), segment(100 + n, ACK))));
        // Packets with equal times form a batch.
        let last = [segment(0, ACK), segment(1, ACK), segment(2, FIN | ACK), segment(3, ACK)];
        packets.extend(last.into_iter().map(|segment| (100_000_000, segment)));
        write_capture(&input, &packets);
        let parts: String = (0..4)
            .map(|n| {
                format!(
                    "sources[{n}] -> SetIPDSCP({n}) -> nat;
                    marks[{n}] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:{n}) -> Queue -> Unqueue -> out;"
                )
            })
            .collect();
        let chain = read(&format!(
            "FromDump({}, STOP true) -> Strip(14) -> CheckIPHeader
                -> sources :: IPClassifier(src net 10.0.0.0/16, src net 10.1.0.0/16, src net 10.2.0.0/16, -);
            nat :: IPRewriter(pattern 192.0.2.1 1024-2047 - - 0 0) -> IPRewriter(pattern 198.51.100.1 4096-5119 - - 0 0)
                -> marks :: IPClassifier(ip dscp 0, ip dscp 1, ip dscp 2, -);
            out :: ToDump({}); {parts}",
            input.display(),
            output.display()
        ));
        let left = run(&composed(&chain, &compose(&chain)), &output, 32, &[]);
        let numbers: Vec<u8> = left.packets.iter().filter_map(|packet| packet.last().copied()).collect();
        let sent: Vec<u8> = packets.iter().filter_map(|(_, packet)| packet.last().copied()).collect();
        assert_eq!(numbers, sent, "from network {network}");
    }
}

/// Runs a program that compares costs. Packets of short flows must go to the elements, except for samples,
/// and flows that last must be leased. Packets must be the same.
#[test]
fn only_flows_that_last_are_taken_where_costs_count() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let to = SocketAddr::from(([203, 0, 113, 1], 80));
    let packet = |number: u32, flow: u32| {
        let from = SocketAddr::from(([10, 0, (flow >> 8) as u8, flow as u8], 1000));
        (i64::from(number / 32) * 1000, frame(Builder::udp(from, to), &number.to_be_bytes()))
    };
    let short = (0..12_000).map(|number| packet(number, number / 4));
    let lasting = (12_000..60_000).map(|number| packet(number, 5_000 + number % 40));
    let packets: Vec<_> = short.chain(lasting).collect();
    // The chain is so long that a program costs less for leased flows.
    let text = chain(input.to_str().unwrap(), output.to_str().unwrap(), "")
        .replace("1024-2047", "1024-65535#")
        .replace("4096-5119", "4096-65535#")
        .replace("-> behind ::", &format!("{} -> behind ::", "-> Null ".repeat(20)));
    let chain = read(&text);
    let mut synthesis = compose(&chain);
    synthesis.regions.iter_mut().for_each(|region| region.program.always = false);
    let composed = composed(&chain, &synthesis);
    let handlers = ["before.count", "behind.count", "second.nmappings", "filter.rule_counts"];
    let more = ["synthesized.sampled", "synthesized.flows"];
    for (come, is_sampled) in [(12_000, true), (60_000, false)] {
        write_capture(&input, &packets[..come]);
        let plain = run(&text, &output, 32, &handlers);
        let left = run(&composed, &output, 32, &[&more[..], &handlers[..]].concat());
        assert_eq!(plain.values, left.values[2..]);
        assert!(plain.packets == left.packets, "other packets, or in another order");
        assert_eq!(left.values[0], is_sampled.to_string());
        let flows: usize = left.values[1].parse().unwrap();
        assert!(if is_sampled { flows < 20 } else { flows >= 38 }, "{flows} flows on lease");
    }
}
