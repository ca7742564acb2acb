//! Tests programs that are divided between a switch and software. A simple model of a switch reads the flow
//! entries, and the residual program runs on its packets. Together they must do to each packet what the
//! whole program does.

mod frames;

extern crate synthesizer as synthesizer;

use std::collections::BTreeMap;

use frames::{Machine, at_borders, damage, of_rule, random_frame};
use program::Program;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::openflow::{Division, Options, REST, RangeForm, Refusal};
use testkit::chains::read;

/// Returns the programs at the sources of a configuration, where the layout of packets is certain.
fn programs(text: &str) -> Vec<Program> {
    let chain = read(text);
    let limits = PathLimits { least: Some(0), ..PathLimits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    let programs = synthesis.regions.into_iter().map(|region| region.program);
    programs.filter(|program| program.is_certain).collect()
}

/// Returns the program at the first source.
fn program(text: &str) -> Program {
    programs(text).remove(0)
}

/// Returns the fields of a frame by name, as a switch like Open vSwitch parses them (ovs-fields(7)). Fields
/// that the frame does not have are missing, and count as zero.
fn fields(frame: &[u8]) -> BTreeMap<&'static str, u64> {
    let number = |start: usize, length: usize| {
        let bytes = frame.get(start..start + length).unwrap_or_default();
        bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let mut fields = BTreeMap::from([("in_port", 1)]);
    let mut place = 12;
    if matches!(number(place, 2), 0x8100 | 0x88a8) {
        fields.insert("vlan_vid", 0x1000 | number(14, 2) & 0xfff);
        place += 4;
    }
    let mut kind = number(place, 2);
    place += 2;
    if kind < 0x600 && frame.get(place..place + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) {
        kind = number(place + 6, 2);
        place += 8;
    }
    fields.insert("dl_type", kind);
    let (header, total) = ((number(place, 1) & 15) as usize * 4, number(place + 2, 2) as usize);
    let size = frame.len().saturating_sub(place);
    let is_sane = size >= 20
        && (20..=size).contains(&header)
        && (header..=size).contains(&total)
        && size - total <= 255;
    if kind != 0x800 || !is_sane {
        return fields;
    }
    let (fragment, protocol) = (number(place + 6, 2), number(place + 9, 1));
    fields.extend([
        ("nw_proto", protocol),
        ("nw_src", number(place + 12, 4)),
        ("nw_dst", number(place + 16, 4)),
        ("ip_dscp", number(place + 1, 1) >> 2),
        ("ip_ecn", number(place + 1, 1) & 3),
        ("ip_frag", u64::from(fragment & 0x3fff != 0)),
    ]);
    let least = match protocol {
        6 => 20,
        17 => 8,
        132 => 12,
        _ => return fields,
    };
    // The upper four bits of this byte (data offset) are the length of a TCP header in words of 32 bits.
    let length = if protocol == 6 { number(place + header + 12, 1) as usize >> 4 << 2 } else { least };
    if fragment & 0x3fff == 0 && length >= least && total - header >= length {
        fields.extend([("tp_src", number(place + header, 2)), ("tp_dst", number(place + header + 2, 2))]);
    }
    fields
}

/// A flow entry of a switch: priority, fields with value and mask, and actions.
struct Flow {
    priority: u16,
    fields: Vec<(String, u64, u64)>,
    actions: String,
}

/// A model of a switch: its flow entries, by table.
struct Switch(BTreeMap<u8, Vec<Flow>>);

impl Switch {
    fn new(text: &str) -> Switch {
        let mut tables: BTreeMap<u8, Vec<Flow>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (matched, actions) = line.split_once(",actions=").unwrap();
            let mut flow = Flow { priority: 0, fields: Vec::new(), actions: actions.into() };
            let mut table = 0;
            for part in matched.split(',') {
                let mut field = |name: &str, value| flow.fields.push((name.into(), value, u64::MAX));
                match part.split_once('=') {
                    Some(("table", value)) => table = value.parse().unwrap(),
                    Some(("priority", value)) => flow.priority = value.parse().unwrap(),
                    Some(("ip_frag", "yes")) => field("ip_frag", 1),
                    Some((name, value)) => flow.fields.push(masked(name, value)),
                    None => {
                        field("dl_type", 0x800);
                        match part {
                            "ip" => {}
                            "tcp" => field("nw_proto", 6),
                            "udp" => field("nw_proto", 17),
                            "sctp" => field("nw_proto", 132),
                            other => panic!("{other}"),
                        }
                    }
                }
            }
            tables.entry(table).or_default().push(flow);
        }
        // The entries are in the order of descending priority, so the first match applies.
        tables.values_mut().for_each(|flows| flows.sort_by_key(|flow| std::cmp::Reverse(flow.priority)));
        Switch(tables)
    }

    /// Returns the number of the class with which a frame leaves the switch: the number in its new tag or,
    /// without a tag, the port. `None` if the frame is dropped.
    fn class(&self, frame: &[u8]) -> Option<u16> {
        let mut fields = fields(frame);
        fields.insert("metadata", 0);
        let mut table = 0;
        'tables: loop {
            let holds = |(name, value, mask): &(String, u64, u64)| {
                fields.get(name.as_str()).copied().unwrap_or(0) & mask == value & mask
            };
            let flow = self.0[&table].iter().find(|flow| flow.fields.iter().all(holds))?;
            for action in flow.actions.split(',') {
                if let Some(next) = action.strip_prefix("goto_table:") {
                    let next = next.parse().unwrap();
                    assert!(next > table, "{}", flow.actions);
                    table = next;
                    continue 'tables;
                } else if let Some(written) = action.strip_prefix("write_metadata:") {
                    let (_, value, mask) = masked("", written);
                    let metadata = fields.entry("metadata").or_default();
                    *metadata = *metadata & !mask | value & mask;
                } else if let Some(number) = action.strip_prefix("set_field:") {
                    return Some(number.strip_suffix("->vlan_vid").unwrap().parse::<u16>().unwrap() & 0xfff);
                } else if let Some(port) = action.strip_prefix("output:") {
                    return port.parse().ok();
                } else {
                    assert!(matches!(action, "drop" | "push_vlan:0x8100"), "{action}");
                }
            }
            return None;
        }
    }
}

fn masked(name: &str, value: &str) -> (String, u64, u64) {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => match text.parse::<std::net::Ipv4Addr>() {
            Ok(address) => u32::from(address).into(),
            Err(_) => text.parse().unwrap(),
        },
    };
    match value.split_once('/') {
        None => (name.into(), number(value), u64::MAX),
        Some((value, bits)) if name.starts_with("nw_") => {
            (name.into(), number(value), u64::from(u32::MAX) << (32 - bits.parse::<u32>().unwrap()))
        }
        Some((value, mask)) => (name.into(), number(value), number(mask)),
    }
}

/// Returns frames for a program: random frames, frames at the borders of its ranges, up to `each` frames for
/// each rule (in lists of more than 1000 rules, for a part of the rules), and a damaged variant of every
/// frame.
fn frames_for(program: &Program, each: usize, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = (0..500).map(|_| random_frame(random)).collect();
    frames.extend((0..10_000).map(|_| at_borders(program, random)));
    for list in &program.lists {
        let step = list.rules.len().div_ceil(1000);
        for rule in (0..list.rules.len()).step_by(step) {
            frames.extend((0..each).filter_map(|_| of_rule(list, rule, random)));
        }
    }
    let mut damaged = frames.clone();
    damaged.iter_mut().for_each(|frame| damage(frame, random));
    frames.append(&mut damaged);
    frames
}

/// Compares switch and software together with the whole program, on many frames. Returns the number of
/// frames of each switch class, or as an error the first frame with another result.
fn differs(
    program: &Program,
    division: &Division,
    flows: &str,
    seed: u64,
) -> Result<BTreeMap<u16, usize>, Vec<u8>> {
    let (switch, mut random) = (Switch::new(flows), fastrand::Rng::with_seed(seed));
    let (mut whole, mut behind) = (Machine::new(program.clone()), Machine::new(division.software_program()));
    let mut classes = BTreeMap::new();
    for frame in frames_for(program, 3, &mut random) {
        let class = switch.class(&frame).expect("nothing is dropped in the switch");
        *classes.entry(class).or_default() += 1;
        if whole.run(&frame, None) != behind.run(&frame, Some(class)) {
            return Err(frame);
        }
    }
    Ok(classes)
}

/// Checks that switch and software together do what the whole program does, with ranges as prefixes and as
/// bits of metadata. Returns the number of flow entries of both forms, for the first source.
fn check(text: &str) -> [usize; 2] {
    let flows = programs(text).into_iter().map(|program| {
        [RangeForm::Prefix, RangeForm::Metadata].map(|ranges| {
            let division = Division::new(&program, &Options { ranges, ..Options::default() }).unwrap();
            let flows = division.flows();
            let classes = differs(&program, &division, &flows, 7)
                .unwrap_or_else(|frame| panic!("{text}: {frame:02x?}\n{flows}"));
            // Some classes may not occur, because few frames belong to them; two thirds of all classes must
            // occur.
            assert!(classes.len() * 3 / 2 >= division.classes(), "{classes:?}");
            assert!(classes[&REST] < classes.values().sum::<usize>() * 2 / 3, "{classes:?}");
            flows.lines().filter(|line| !line.starts_with('#')).count()
        })
    });
    flows.collect::<Vec<_>>()[0]
}

/// Returns a configuration with an IPFilter that has `more` additional rules. If more than 16 rules are
/// undecided, the program evaluates them as a list.
fn filter(more: usize) -> String {
    let more =
        (0..more).map(|n| format!("drop dst host 203.0.113.{n} && udp dst port {n}, ")).collect::<String>();
    FILTER.replace("MORE", &more)
}

const FILTER: &str = "FromDump(in.pcap) -> Strip(14) -> MarkIPHeader -> f :: IPFilter(MORE
    drop src net 10.0.0.0/8, allow udp && src port > 1024 && dst port > 33434 && dst port < 33600,
    drop tcp && not (dst port > 22 && dst port < 1024) && src net 172.16.0.0/12, allow ip proto 47 && ip dscp 10,
    drop tcp opt syn && src net 172.16.0.0/12, allow tcp && dst port 80, drop icmp type echo && dst net 192.168.0.0/16,
    allow dst port 53, allow dst net 204.152.184.0/21, drop all)
    -> t :: DecIPTTL -> a :: ToDump(a.pcap); f[1] -> b :: ToDump(b.pcap);";

#[test]
fn rules_in_a_switch() {
    let both = check(&filter(20));
    let division = Division::new(&program(&filter(20)), &Options::default()).unwrap();
    let fewest = division.flows().lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(Some(&fewest), both.iter().min());
}

#[test]
fn questions_in_a_switch() {
    check(&filter(0));
    check(
        "FromDump(in.pcap) -> c :: Classifier(12/0800, -) -> Strip(14) -> h :: CheckIPHeader -> GetIPAddress(16)
            -> r :: RadixIPLookup(10.0.0.0/8 0, 0.0.0.0/1 1, 0.0.0.0/0 2);
        c[1] -> o :: ToDump(o.pcap); r[0] -> x :: DecIPTTL -> a :: ToDump(a.pcap);
        r[1] -> p :: IPClassifier(tcp dst port < 1024, udp, -); p[0] -> q :: ToDump(q.pcap); p[1] -> b :: ToDump(b.pcap);
        p[2] -> s :: ToDump(s.pcap); r[2] -> Discard;",
    );
}

/// Divides the functions of the provider's example, in both directions.
#[test]
fn examples_in_a_switch() {
    for name in ["firewall", "router", "translator"] {
        let path = format!("{}/../../configs/isp/{name}.click", env!("CARGO_MANIFEST_DIR"));
        check(&std::fs::read_to_string(path).unwrap());
    }
}

/// Divides a program with one port per class and no tags. The model returns the port as the class, because
/// ports are numbered like classes.
#[test]
fn a_port_for_each_class() {
    let program = program(&filter(0));
    let all = Division::new(&program, &Options::default()).unwrap().classes();
    for ports in [2, 4, 9, all, all + 3] {
        let to: Vec<String> = (1..=ports).map(|port| port.to_string()).collect();
        let Ok(division) = Division::new(&program, &Options { to, ..Options::default() }) else {
            assert_eq!(ports, 2, "there is nothing that two classes tell");
            continue;
        };
        let flows = division.flows();
        assert!(!flows.contains("vlan_vid->") && !flows.contains("push_vlan"), "{flows}");
        let classes = differs(&program, &division, &flows, 3).unwrap_or_else(|frame| panic!("{frame:02x?}"));
        // With fewer ports than classes, the switch decides less and leaves more to the software.
        assert!(classes.keys().all(|&class| usize::from(class) <= ports), "{classes:?}");
        assert!(ports < all || division.classes() == all);
    }
}

/// Tests a list whose outcomes would need more switch classes than there are. No flow entry for it must
/// remain in the switch, and later lists must be translated as if it did not exist.
#[test]
fn lists_that_are_given_up_leave_nothing() {
    let rules = |kind: &str| {
        (0..20).map(|n| format!("drop {kind} host 203.0.113.{n} && udp dst port {n}, ")).collect::<String>()
    };
    let text = format!(
        "FromDump(in.pcap) -> Strip(14) -> MarkIPHeader
            -> f :: IPFilter({} 0 dst net 10.0.0.0/8, 1 dst net 172.16.0.0/12, 2 dst net 192.168.0.0/16, 3 all);
        f[0] -> g :: IPFilter({} allow tcp && dst port 80, allow src net 10.0.0.0/8, drop all) -> a :: ToDump(a.pcap);
        f[1] -> b :: ToDump(b.pcap); f[2] -> c :: ToDump(c.pcap); f[3] -> d :: ToDump(d.pcap);",
        rules("dst"),
        rules("src")
    );
    let program = program(&text);
    let mut given_up = 0;
    for ports in 3..8 {
        let to: Vec<String> = (1..=ports).map(|port| port.to_string()).collect();
        let Ok(division) = Division::new(&program, &Options { to, ..Options::default() }) else { continue };
        let flows = division.flows();
        given_up += usize::from(flows.contains("too many classes"));
        differs(&program, &division, &flows, 3)
            .unwrap_or_else(|frame| panic!("{ports}: {frame:02x?}\n{flows}"));
    }
    assert!(given_up > 0);
}

/// Changes the flow entries in wrong ways: priorities in reverse order, another prefix, another port. Each
/// error must be detected, so that the other tests are known to be strict.
#[test]
fn faults_are_found() {
    let program = program(&filter(20));
    let division =
        Division::new(&program, &Options { ranges: RangeForm::Metadata, ..Options::default() }).unwrap();
    let flows = division.flows();
    assert!(differs(&program, &division, &flows, 3).is_ok());
    let rules = flows.lines().find_map(|line| line.strip_prefix("# table ")?.split_once(':')).unwrap().0;
    let turned: Vec<String> = flows
        .lines()
        .map(|line| match line.strip_prefix(&format!("table={rules},priority=")) {
            Some(rest) if !rest.starts_with("0,") => {
                let (priority, rest) = rest.split_once(',').unwrap();
                format!("table={rules},priority={},{rest}", 1000 - priority.parse::<u16>().unwrap())
            }
            _ => line.to_string(),
        })
        .collect();
    assert!(differs(&program, &division, &turned.join("\n"), 3).is_err());
    for (right, wrong) in
        [("nw_dst=204.152.184.0/21", "nw_dst=204.152.184.0/24"), ("tp_dst=80,", "tp_dst=81,")]
    {
        assert!(flows.contains(right));
        assert!(differs(&program, &division, &flows.replace(right, wrong), 3).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_not_for_a_switch_is_refused() {
    let refusal = |text: &str| Division::new(&program(text), &Options::default()).err();
    let lengths = "FromDump(in.pcap) -> c :: CheckLength(100); c[0] -> a :: ToDump(a.pcap); c[1] -> b :: ToDump(b.pcap);";
    assert_eq!(refusal(lengths), Some(Refusal::Nothing));
    let marked = Program { layout: [Some(0), Some(14), Some(34)], ..program(&filter(20)) };
    assert_eq!(Division::new(&marked, &Options::default()).err(), Some(Refusal::Layout));
}

#[test]
fn what_is_dropped_anyway_may_be_dropped_in_the_switch() {
    let text =
        "FromDump(in.pcap) -> Strip(14) -> MarkIPHeader -> f :: IPFilter(allow tcp && dst port 80, drop all)
        -> a :: ToDump(a.pcap);";
    let whole = program(text);
    let division = Division::new(&whole, &Options { discards: true, ..Options::default() }).unwrap();
    let switch = Switch::new(&division.flows());
    let (mut machine, mut random) = (Machine::new(whole), fastrand::Rng::with_seed(1));
    let mut dropped = 0;
    for _ in 0..1000 {
        let frame = random_frame(&mut random);
        if switch.class(&frame).is_none() {
            dropped += 1;
            assert!(matches!(machine.run(&frame, None).exit, program::Exit::Drop(_)));
        }
    }
    assert!(dropped > 100);
}

/// Divides the access lists of three Internet service providers. There must be fewer than 200 more flow
/// entries than rules.
#[test]
fn the_lists_of_providers() {
    let Some(folder) = testkit::found::path("rules/snf/real-acl") else { return };
    for (rules, most) in [(251, 400), (713, 900), (8550, 8700)] {
        let text = std::fs::read_to_string(folder.join(format!("real_acl_{rules}.nf1.click"))).unwrap();
        let text = text.replace("netmap:", "");
        let program = program(&text);
        let division = Division::new(&program, &Options::default()).unwrap();
        let flows = division.flows();
        assert!(flows.lines().count() < most, "{}", flows.lines().count());
        let classes =
            differs(&program, &division, &flows, 1).unwrap_or_else(|frame| panic!("{rules}: {frame:02x?}"));
        assert_eq!(classes.len(), 3, "{classes:?}");
    }
}
