//! Compares verdicts about random pairs of chains with runs of packets, for chains with IPv4 options.
//! Options may be at offsets at which other packets have ports.

use fastrand::Rng;
use testkit::chains::{compare, compare_within, outputs, read};
use verify::equivalence::Conclusion;
use verify::example::Example;

const CASES: u64 = 60;

/// The maximum number of diagram nodes in the comparison of two chains. If the comparison needs more nodes,
/// the verdict is undecided, and the test does not check the verdict.
const NODES: usize = 1 << 20;

/// Elements that write options, ports or the header length, elements that test or write fixed offsets at
/// which options or ports may be, and elements that do neither.
const ELEMENTS: &[&str] = &[
    "IPGWOptions(10.0.0.1)",
    "IPGWOptions(10.0.0.1)",
    "IPGWOptions(10.0.0.2)",
    "{ input -> o :: IPOutputCombo(1, 10.0.0.3, 1500) -> output; o[1] -> Discard; o[2] -> Discard; o[3] -> Discard; o[4] -> Discard }",
    "IPFragmenter(24)",
    "IPMirror",
    "IPMirror",
    "DecIPTTL",
    "SetIPChecksum",
    "SetUDPChecksum",
    "CheckIPHeader",
    "MarkIPHeader",
    "StoreData(0, \\<45>)",
    "StoreData(0, \\<46>)",
    "StoreData(0, \\<47>)",
    "StoreData(16, \\<0007>)",
    "StoreData(20, \\<0007>)",
    "StoreData(22, \\<0009>)",
    "StoreData(24, \\<0007>)",
    "StoreData(26, \\<01>)",
    "StripIPHeader -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Strip(14) -> UnstripIPHeader",
    "Classifier(16/0007)",
    "Classifier(20/0007)",
    "Classifier(24/07)",
    "Classifier(28/0a)",
    "IPClassifier(dst port 7)",
    "IPClassifier(src port 9)",
    "Null",
];

fn chain(elements: &[&str]) -> String {
    let elements: String = elements.iter().map(|element| format!("{element} -> ")).collect();
    format!("in :: FromDump(x) -> Strip(14) -> MarkIPHeader -> {elements} out :: ToDump(y);")
}

/// Returns the Internet checksum of a header (RFC 1071).
fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// Returns an IPv4 packet in an Ethernet frame: options, protocol, bytes after the header.
fn packet(options: &[u8], protocol: u8, behind: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip =
        vec![0x40 | (header / 4) as u8, 0, 0, (header + behind.len()) as u8, 0, 0, 0, 0, 9, protocol];
    ip.extend([0, 0, 10, 1, 1, 1, 10, 2, 2, 2]);
    ip.extend(options);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    [&[0; 12][..], &[8, 0], &ip, behind].concat()
}

/// Returns packets with and without options. Some options have the values of ports, and some ports the
/// values of options.
fn packets() -> Vec<Vec<u8>> {
    let options: [&[u8]; 9] = [
        &[],
        &[1, 1, 1, 0],
        &[0, 7, 0, 9],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[1, 7, 7, 4, 0, 0, 0, 0],
        &[7, 7, 8, 9, 9, 9, 9, 0],
        &[7, 7, 3, 9, 9, 9, 9, 0],
        &[7, 11, 8, 0, 0, 7, 0, 9, 0, 0, 0, 0],
        &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let mut all = Vec::new();
    // Headers with a length field below the minimum of five words. Their checksum covers the whole header, or
    // only the length that the field gives. Ports are then read at the offsets of addresses.
    for words in [4, 3, 0] {
        let mut short = packet(&[], 6, &[0; 20]);
        short[14] = 0x40 | words;
        short[30..32].copy_from_slice(&[0, 7]);
        all.push(short.clone());
        short[24..26].fill(0);
        let sum = checksum(&short[14..14 + 4 * usize::from(words)]);
        short[24..26].copy_from_slice(&sum);
        all.push(short);
    }
    for options in options {
        for ports in [[0, 7, 0, 9], [0, 9, 0, 7], [7, 7, 4, 0]] {
            let behind = [&ports[..], &[0, 20, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0, 10, 0, 0, 1]].concat();
            for protocol in [17, 6] {
                let whole = packet(options, protocol, &behind);
                all.push(whole[..whole.len() - 18].to_vec());
                all.push(whole);
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

/// True if two chains of these elements are proven equivalent.
fn are_equivalent(a: &[&str], b: &[&str]) -> bool {
    let outcome = compare(&read(&chain(a)), &read(&chain(b)));
    matches!(outcome.verdict, Conclusion::Equivalent)
}

/// Checks that an element that writes options and an element that tests ports can be exchanged, because ports
/// start where options end.
#[test]
fn options_and_ports_are_apart() {
    let (options, mirror, port) = ("IPGWOptions(10.0.0.1)", "IPMirror", "IPClassifier(dst port 7)");
    assert!(are_equivalent(&[options, port], &[port, options]));
    assert!(are_equivalent(&[options, mirror, options], &[options, mirror, options]));
    assert!(!are_equivalent(&[options, mirror, port], &[options, port, mirror]));
    assert!(!are_equivalent(&[options, mirror, options], &[options, options, mirror]));
}

/// Tests a larger header length, by which ports become options, and a test at a fixed offset, which may read
/// either. Elements that write or move these bytes cannot be exchanged with such a test.
#[test]
fn options_may_be_where_ports_are() {
    let (options, mirror) = ("IPGWOptions(10.0.0.1)", "IPMirror");
    let longer = "StoreData(0, \\<47>)";
    for between in ["Classifier(20/07)", "StoreData(20, \\<0707>)"] {
        assert!(!are_equivalent(&[options, between], &[between, options]), "{between}");
        assert!(!are_equivalent(&[mirror, between], &[between, mirror]), "{between}");
    }
    assert!(!are_equivalent(&[mirror, longer, options], &[longer, options, mirror]));
    assert!(!are_equivalent(&[longer, options, mirror], &[longer, mirror, options]));
}

/// Tests a header length below the minimum, by which ports are read where addresses are. After CheckIPHeader
/// this cannot happen, so an element that writes addresses and one that tests ports can be exchanged.
#[test]
fn ports_may_be_where_addresses_are() {
    let (address, port) = ("StoreData(16, \\<0007>)", "IPClassifier(src tcp port 7)");
    assert!(!are_equivalent(&[address, port], &[port, address]));
    let checked = ["CheckIPHeader", address, port];
    assert!(are_equivalent(&checked, &["CheckIPHeader", port, address]));
}
