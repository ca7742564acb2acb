//! Compares verdicts about random pairs of chains with runs of packets, for chains with extension headers
//! of IPv6. Only the element knows the offset of the transport header there.

use fastrand::Rng;
use testkit::chains::{compare_within, outputs, read};
use verify::equivalence::Conclusion;
use verify::example::Example;

const CASES: u64 = 60;

/// The maximum number of diagram nodes; a pair that needs more is undecided, and says nothing.
const NODES: usize = 1 << 20;

/// Elements that read or write the transport header, elements that test or write fixed offsets at which it
/// may be, and elements that do neither.
const ELEMENTS: &[&str] = &[
    "IP6Mirror",
    "IP6Mirror",
    "DecIP6HLIM",
    "SetIP6DSCP(10)",
    "StoreData(40, \\<0007>)",
    "StoreData(42, \\<0007>)",
    "StoreData(6, \\<11>)",
    "StoreData(23, \\<01>)",
    "StoreData(48, \\<0009>)",
    "Classifier(40/0007)",
    "Classifier(42/0009)",
    "Classifier(48/0009)",
    "Classifier(6/11)",
    "Classifier(24/20)",
    "CheckLength(49)",
    "SetTransportChecksumIP6",
    "Paint(1)",
    "Null",
];

fn chain(elements: &[&str]) -> String {
    let elements: String = elements.iter().map(|element| format!("{element} -> ")).collect();
    format!(
        "in :: FromDump(x) -> Strip(14) -> CheckIP6Header(PROCESS_EH true) -> {elements} out :: ToDump(y);"
    )
}

/// Returns an IPv6 packet in an Ethernet frame: next header, bytes after the IPv6 header, last byte of the
/// destination, hop limit.
fn packet(next: u8, behind: &[u8], destination: u8, hops: u8) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, behind.len() as u8, next, hops]);
    for first in [0x20, destination] {
        bytes.push(first);
        bytes.extend([1; 15]);
    }
    bytes.extend(behind);
    bytes
}

/// Returns packets with UDP, TCP and another protocol, directly after the IPv6 header and after one or two
/// extension headers, whole and truncated.
fn packets() -> Vec<Vec<u8>> {
    let ports = [[0, 7, 0, 9], [0, 9, 0, 7], [0, 1, 0, 2]];
    let mut all = Vec::new();
    for ports in ports {
        let transport = [&ports[..], &[0, 8, 0, 0, 1, 2, 3, 4, 0x50, 0, 0, 0, 0, 0, 0, 0]].concat();
        for next in [17, 6, 58] {
            let one = [&[next, 0, 0, 7, 0, 9, 0, 0][..], &transport].concat();
            let two = [&[60, 0, 0, 9, 0, 7, 0, 0][..], &one].concat();
            for (next, behind) in [(next, &transport), (0, &one), (0, &two), (43, &one)] {
                for (destination, hops) in [(0x20, 64), (0x30, 1)] {
                    let whole = packet(next, behind, destination, hops);
                    all.push(whole[..whole.len() - 13].to_vec());
                    all.push(packet(next, &behind[..behind.len() - 14], destination, hops));
                    all.push(whole);
                }
            }
        }
    }
    all
}

/// Swaps two elements, removes one, or adds one, at random.
fn mutate(r: &mut Rng, elements: &mut Vec<&str>) {
    let place = r.usize(..elements.len());
    match r.u8(..4) {
        0 => drop(elements.remove(place)),
        1 => elements.insert(place, ELEMENTS[r.usize(..ELEMENTS.len())]),
        _ => {
            let other = (place + 1) % elements.len();
            elements.swap(place, other);
        }
    }
}

#[test]
fn verdicts_agree_with_running_packets() {
    // More cases can be run by hand: `FROM=1000 CASES=600 cargo test ...`.
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |n| n.parse().unwrap());
    let (from, cases) = (number("FROM", 0), number("CASES", CASES));
    let packets = packets();
    let (mut equivalent, mut told_apart) = (0, 0);
    for seed in from..from + cases {
        let r = &mut Rng::with_seed(seed);
        let mut elements: Vec<&str> =
            (0..r.usize(2..5)).map(|_| ELEMENTS[r.usize(..ELEMENTS.len())]).collect();
        let a = read(&chain(&elements));
        mutate(r, &mut elements);
        let b = read(&chain(&elements));
        let verdict = compare_within(NODES, &a, &b).verdict;
        let different = packets.iter().find(|bytes| {
            let example =
                Example { bytes: bytes.to_vec(), kind: 0, annotations: Vec::new(), depends: Vec::new() };
            outputs(&a, 0, &example) != outputs(&b, 0, &example)
        });
        let is_equivalent = matches!(verdict, Conclusion::Equivalent);
        equivalent += u64::from(is_equivalent);
        told_apart += u64::from(different.is_some());
        assert!(
            !is_equivalent || different.is_none(),
            "seed {seed}\n{:?}\n{:?}\n{different:02x?}",
            a.chain.nodes.iter().map(|node| &node.key).collect::<Vec<_>>(),
            b.chain.nodes.iter().map(|node| &node.key).collect::<Vec<_>>(),
        );
    }
    println!("{equivalent} equivalent, {told_apart} told apart by packets");
    assert!(equivalent * 6 > cases && told_apart * 6 > cases, "one-sided: {equivalent}, {told_apart}");
}
