//! Compares the verifier with brute force. For random pairs of chains, each of a set of 256 packets runs
//! through both chains. If the verifier calls the chains equivalent, the outputs have to be equal; if it
//! calls them different, the outputs for its example packet have to differ.

use std::collections::BTreeMap;

use element::Timestamp;
use fastrand::Rng;
use testkit::chains::{compare_within, read};
use testkit::elements::{TestPacket, collect, offer};
use testkit::samples::PATTERNS;
use testkit::{TestRun, corpus};
use verify::equivalence::{Conclusion, Difference};

/// The number of bits that vary between the packets of a set; the set has two to the power of this number.
const VARIED: usize = 8;

/// The maximum number of diagram nodes. A pair that needs more counts as undecided, which is rare.
const NODES: usize = 1 << 18;

/// The number of pairs of chains that are compared in an ordinary test run.
const CASES: u64 = 150;

/// The destination of one output of an element.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Element(usize),
    Sink(usize),
    Discard,
}

/// A configuration as a graph that the test can change before it becomes text. Element 0 is first; elements
/// that cannot be reached from it are not part of the text.
#[derive(Clone)]
struct Network {
    elements: Vec<(String, Vec<Next>)>,
}

/// Returns one of three Ethernet addresses, few enough that random rules overlap.
fn mac(r: &mut Rng) -> String {
    format!("2:0:0:0:0:{}", r.u8(1..4))
}

fn address(r: &mut Rng) -> String {
    format!("10.0.{}.{}", r.u8(..2), r.u8(1..4))
}

/// Returns a random filter expression, as IPFilter and IPClassifier take it.
fn expression(r: &mut Rng) -> String {
    let simple = |r: &mut Rng| {
        let side = *r.choice(["src", "dst"].iter()).unwrap_or(&"src");
        match r.u8(..11) {
            0 => format!("{side} host {}", address(r)),
            1 => format!("{side} net {}/{}", address(r), r.u8(20..33)),
            2 => "tcp".into(),
            3 => "udp".into(),
            4 => format!("{side} udp port {}", r.u16(79..82)),
            5 => format!("{side} port > {}", r.u16(79..82)),
            6 => format!("ip ttl {}", r.u8(..4)),
            7 => "ip frag".into(),
            8 => format!("ip dscp {}", r.u8(..3)),
            9 => format!("{side} tcp port {}", r.u16(79..82)),
            _ => "ip proto 17".into(),
        }
    };
    let first = simple(r);
    match r.u8(..5) {
        0 => format!("not {first}"),
        1 => format!("{first} and {}", simple(r)),
        2 => format!("{first} or {}", simple(r)),
        _ => first,
    }
}

fn patterns(r: &mut Rng) -> Vec<String> {
    let mut list: Vec<String> =
        (0..r.usize(1..3)).map(|_| r.choice(PATTERNS).unwrap_or("-").to_string()).collect();
    if r.bool() {
        list.push("-".into());
    }
    list
}

/// Returns the text of a random element and its number of outputs. `start` is the offset in the frame at
/// which packets start when they arrive at the element, if they have left each element upstream by its first
/// output. Most elements for IP headers are then given the actual offset of the header.
fn element(r: &mut Rng, start: i32) -> (String, usize) {
    let at = 14 - start;
    let straight = at >= 0 && r.u8(..8) > 0;
    let optional = r.usize(1..3);
    match r.u8(..35) {
        0 | 1 => {
            let list = patterns(r);
            (format!("Classifier({})", list.join(", ")), list.len())
        }
        2 | 3 => {
            let mut list: Vec<String> = (0..r.usize(1..3)).map(|_| expression(r)).collect();
            list.push("-".into());
            (format!("IPClassifier({})", list.join(", ")), list.len())
        }
        4 | 5 => {
            let actions = ["allow", "deny", if optional == 2 { "1" } else { "0" }];
            let rule = |r: &mut Rng| {
                let action = *r.choice(actions.iter()).unwrap_or(&"allow");
                format!("{action} {}", expression(r))
            };
            let mut list: Vec<String> = (0..r.usize(1..4)).map(|_| rule(r)).collect();
            list.push(if optional == 2 { "1 all".into() } else { "allow all".into() });
            (format!("IPFilter({})", list.join(", ")), optional)
        }
        6 | 7 => {
            let (offset, value) = (
                *r.choice([0, 1, 2, 8, 9, 10, 12, 13, 16, 20, 22, 23, 24, 33, 36, 58, 59].iter())
                    .unwrap_or(&0),
                r.u8(..4),
            );
            match r.u8(..3) {
                0 => (format!("StoreData({offset}, \\<{value:02x}>)"), 1),
                1 => (format!("StoreData({offset}, \\<{value:02x}{:02x}>)", r.u8(..4)), 1),
                _ => (format!("StoreData({offset}, \\<{value:02x}>, MASK \\<{:02x}>)", r.u8(..4)), 1),
            }
        }
        8 => (format!("SetIPAddress({})", address(r)), 1),
        9 => {
            let side = if r.bool() { "src" } else { "dst" };
            match r.u8(..4) {
                0 => (format!("StoreIPAddress({side})"), optional),
                1 => (format!("StoreIPAddress({})", r.u8(12..34)), optional),
                _ => (format!("StoreIPAddress({}, {side})", address(r)), optional),
            }
        }
        10 => match r.u8(..3) {
            0 => (format!("GetIPAddress({})", [16, 30, 26, 58][r.usize(..4)]), 1),
            1 => ("GetIPAddress(IP src)".into(), 1),
            _ => ("GetIPAddress(IP dst)".into(), 1),
        },
        11 | 12 => (format!("Paint({})", r.u8(..3)), 1),
        13 => (format!("CheckPaint({})", r.u8(..3)), optional),
        14 => ("PaintSwitch".into(), r.usize(1..4)),
        15 => (format!("CheckLength({})", [41, 46, 59, 60, 63, 64][r.usize(..6)]), optional),
        16 => (format!("Strip({})", [14, 4, 12, 34, 60][r.usize(..5)]), 1),
        17 => (format!("Unstrip({})", [14, 4, 12][r.usize(..3)]), 1),
        18 | 19 if at < 0 => (format!("Unstrip({})", -at), 1),
        18 | 19 => {
            let checksum = if r.bool() { "" } else { ", CHECKSUM false" };
            (format!("CheckIPHeader({at}{checksum})"), optional)
        }
        20 if straight => (format!("MarkIPHeader({at})"), 1),
        20 => (format!("MarkIPHeader({})", [0, 14, 18][r.usize(..3)]), 1),
        21 | 22 => ("DecIPTTL".into(), optional),
        23 => (format!("SetIPDSCP({})", r.u8(..3)), 1),
        24 => ("SetIPChecksum".into(), 1),
        25 => (format!("EtherEncap(0x0800, {}, {})", mac(r), mac(r)), 1),
        26 => (format!("EtherRewrite({}, {})", mac(r), mac(r)), 1),
        27 => (format!("VLANEncap({})", r.u8(..3)), 1),
        28 => ("VLANDecap".into(), 1),
        29 => ("Tee".into(), 2),
        30 => ((if r.bool() { "Null" } else { "Counter" }).into(), 1),
        // The next elements make decisions that the verifier knows only as uninterpreted functions.
        31 => (format!("HashSwitch({}, {})", [20, 22, 30, 33][r.usize(..4)], r.usize(1..3)), 2),
        32 => (format!("IPFragmenter({}, true)", [20, 40, 44, 60][r.usize(..4)]), optional),
        33 => (format!("MoveData({}, {}, 2)", [8, 22, 33][r.usize(..3)], [20, 30][r.usize(..2)]), 1),
        _ => ("Queue(100000)".into(), 1),
    }
}

/// Returns the number of bytes by which an element moves the start of packets towards their end; negative
/// if it prepends bytes.
fn moved(text: &str) -> i32 {
    let argument = || text.trim_end_matches(')').split('(').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    match text.split('(').next() {
        Some("Strip") => argument(),
        Some("Unstrip") => -argument(),
        Some("EtherEncap") => -14,
        Some("VLANEncap") => -4,
        _ => 0,
    }
}

fn end(r: &mut Rng) -> Next {
    match r.usize(..7) {
        0 => Next::Discard,
        n => Next::Sink(n % 3),
    }
}

impl Network {
    fn random(r: &mut Rng) -> Network {
        let n = r.usize(3..9);
        let mut elements: Vec<(String, Vec<Next>)> = Vec::new();
        let mut start = 0;
        for place in 0..n {
            let (text, outputs) = match place {
                // The first element usually marks the IP header, because most elements need one.
                0 if r.u8(..4) > 0 => {
                    let marked = ["CheckIPHeader(14)", "MarkIPHeader(14)", "Strip(14)"];
                    (marked[r.usize(..3)].to_string(), 1)
                }
                _ => element(r, start),
            };
            start += moved(&text);
            let next = |output: usize, r: &mut Rng| match place + 1 {
                // The first output usually leads to the next element, so that chains are long.
                behind if behind < n && (output == 0 || r.bool()) => {
                    let far = if output == 0 && r.u8(..4) > 0 { behind } else { r.usize(behind..n) };
                    Next::Element(far)
                }
                _ => end(r),
            };
            let outputs = (0..outputs).map(|output| next(output, r)).collect();
            elements.push((text, outputs));
        }
        Network { elements }
    }

    fn reached(&self) -> Vec<usize> {
        let mut reached = vec![false; self.elements.len()];
        let mut work = vec![0];
        while let Some(element) = work.pop() {
            if !std::mem::replace(&mut reached[element], true) {
                work.extend(self.elements[element].1.iter().filter_map(|next| match next {
                    Next::Element(next) => Some(*next),
                    _ => None,
                }));
            }
        }
        (0..reached.len()).filter(|&element| reached[element]).collect()
    }

    /// Inserts elements at an output, the last of `texts` first in the path of the packets.
    fn insert(&mut self, element: usize, output: usize, texts: &[String]) {
        for text in texts {
            let next = self.elements[element].1[output];
            self.elements.push((text.clone(), vec![next]));
            self.elements[element].1[output] = Next::Element(self.elements.len() - 1);
        }
    }

    /// Makes a random small change, which may be without effect on packets.
    fn mutate(&mut self, r: &mut Rng) {
        let reached = self.reached();
        let at = *r.choice(reached.iter()).unwrap_or(&0);
        let outputs = self.elements[at].1.len();
        let output = r.usize(..outputs);
        match r.u8(..11) {
            0 | 1 => {
                let new = (0..200).map(|_| element(r, 0)).find(|(_, n)| *n == outputs);
                self.elements[at].0 = new.map_or("Null".to_string(), |(text, _)| text);
            }
            2 => self.insert(at, output, &[(if r.bool() { "Null" } else { "Counter" }).into()]),
            3 => self.insert(at, output, &["Queue(100000)".into()]),
            4 => self.elements[at].1.rotate_left(1),
            5 => {
                let n = r.u8(1..15);
                self.insert(at, output, &[format!("Unstrip({n})"), format!("Strip({n})")]);
            }
            6 => {
                // Duplicates the element: its first output leads to the copy.
                let (text, outputs) = self.elements[at].clone();
                self.elements.push((text, outputs));
                self.elements[at].1[0] = Next::Element(self.elements.len() - 1);
            }
            7 => {
                // Swaps the element with the next one, if each has one output.
                if let [Next::Element(next)] = self.elements[at].1[..]
                    && self.elements[next].1.len() == 1
                {
                    let text = self.elements[at].0.clone();
                    let other = std::mem::replace(&mut self.elements[next].0, text);
                    self.elements[at].0 = other;
                }
            }
            8 => self.insert(at, output, &["SetIPChecksum".into()]),
            9 => self.elements[at].1[output] = end(r),
            _ => {
                // Gives this output its own copy of the next element, which other outputs may share.
                if let Next::Element(next) = self.elements[at].1[output] {
                    self.elements.push(self.elements[next].clone());
                    self.elements[at].1[output] = Next::Element(self.elements.len() - 1);
                }
            }
        }
    }

    /// Returns the text of the configuration with the classes `source` and `sink` at its ends; `$` in
    /// `sink` is replaced by the number of the sink.
    fn text(&self, source: &str, sink: &str) -> String {
        let mut declared = format!("in :: {source};\n");
        let mut connected = String::from("in -> e0;\n");
        let mut sinks = Vec::new();
        for element in self.reached() {
            let (class, outputs) = &self.elements[element];
            declared += &format!("e{element} :: {class};\n");
            let mut from = format!("e{element}");
            if class.starts_with("Queue") {
                connected += &format!("e{element} -> u{element} :: Unqueue;\n");
                from = format!("u{element}");
            }
            for (output, next) in outputs.iter().enumerate() {
                let to = match next {
                    Next::Element(next) => format!("e{next}"),
                    Next::Sink(sink) => {
                        sinks.push(*sink);
                        format!("out{sink}")
                    }
                    Next::Discard => "Discard".into(),
                };
                connected += &format!("{from} [{output}] -> {to};\n");
            }
        }
        sinks.sort_unstable();
        sinks.dedup();
        for number in sinks {
            declared += &format!("out{number} :: {};\n", sink.replace('$', &number.to_string()));
        }
        declared + &connected
    }

    fn to_verify(&self) -> String {
        self.text("FromDump(x.pcap)", "ToDump(out$.pcap)")
    }

    /// Runs packets through the chain. Returns for each input packet, by its number, the packets that
    /// arrived, as sink and bytes, sorted.
    fn run(&self, packets: &[Vec<u8>]) -> BTreeMap<u32, Vec<(usize, Vec<u8>)>> {
        let inputs = packets.iter().map(|bytes| TestPacket {
            bytes: bytes.clone(),
            time: Timestamp(1),
            annotations: [0; 48],
            headers: [Some(0), None, None],
        });
        let number = offer(vec![inputs.collect()]);
        let text = self.text(&format!("TestSource({number}, 0)"), &format!("TestSink({number}, $)"));
        TestRun::default().text(&text, &[]).map_err(|wrong| format!("{text}{wrong}")).unwrap();
        let mut by_packet: BTreeMap<u32, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
        for seen in collect(number) {
            by_packet.entry(seen.id).or_default().push((seen.sink, seen.bytes));
        }
        by_packet.values_mut().for_each(|came| came.sort());
        by_packet
    }
}

/// The bits that may vary between packets, as offset in the frame and mask. They are in the Ethernet header,
/// version, lengths, type of service, fragment, time to live, protocol, addresses, ports and payload.
/// `CHECKSUM` makes the IP checksum wrong; `LENGTH` appends four bytes.
const PLACES: &[(usize, u8)] = &[
    (0, 1),
    (5, 1),
    (12, 0x80),
    (13, 0x06),
    (14, 0x40),
    (14, 0x01),
    (14, 0x0f),
    (15, 0x04),
    (16, 0x80),
    (17, 0x04),
    (17, 0x20),
    (20, 0x20),
    (21, 0x01),
    (22, 0x01),
    (22, 0x02),
    (22, 0x40),
    (23, 0x17),
    (26, 0xf5),
    (28, 1),
    (29, 1),
    (29, 2),
    (30, 0xea),
    (32, 1),
    (33, 1),
    (33, 2),
    (35, 1),
    (37, 1),
    (37, 2),
    CHECKSUM,
    LENGTH,
    (58, 1),
];
const CHECKSUM: (usize, u8) = (24, 1);
const LENGTH: (usize, u8) = (usize::MAX, 0);

/// Returns 256 packets with all combinations of [`VARIED`] bits, chosen at random from [`PLACES`].
fn packets(r: &mut Rng) -> Vec<Vec<u8>> {
    let mut places = PLACES.to_vec();
    r.shuffle(&mut places);
    // The checksum and the time to live matter to nearly every chain, so they usually vary.
    if r.u8(..4) > 0 {
        places.retain(|place| ![CHECKSUM, (22, 1)].contains(place));
        places.splice(0..0, [CHECKSUM, (22, 1)]);
    }
    places.truncate(VARIED);
    let mut base = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    base.extend(corpus::ipv4(1, 17, &[], &[0, 80, 0, 80, 0, 26, 0, 0]));
    base[33] = 2;
    base[29] = 1;
    base[32] = 0;
    base.resize(60, 0x11);
    base[17] = 46;
    (0..1usize << places.len())
        .map(|number| {
            let mut packet = base.clone();
            let chosen =
                |place| places.iter().position(|p| *p == place).is_some_and(|bit| number >> bit & 1 == 1);
            for (bit, &place) in places.iter().enumerate() {
                if number >> bit & 1 == 1 && place != CHECKSUM && place != LENGTH {
                    packet[place.0] ^= place.1;
                }
            }
            let header = usize::from(packet[14] & 15) * 4;
            if let 20..=46 = header {
                packet[24..26].fill(0);
                let sum = wire::checksum::Sum::new().bytes(&packet[14..14 + header]).checksum();
                packet[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            if chosen(CHECKSUM) {
                packet[24] ^= 1;
            }
            if chosen(LENGTH) {
                packet.extend([0x22; 4]);
            }
            packet
        })
        .collect()
}

#[derive(Default, Debug)]
struct Tally {
    equivalent: usize,
    different: usize,
    undecided: usize,
    /// The number of pairs that the verifier calls different and for which a packet of the small set shows a
    /// difference, too.
    seen: usize,
}

fn check(seed: u64, tally: &mut Tally) {
    let r = &mut Rng::with_seed(seed);
    let a = Network::random(r);
    let mut b = a.clone();
    match r.u8(..20) {
        0 => b = Network::random(r),
        n => (0..1 + n / 15).for_each(|_| b.mutate(r)),
    }
    let (left, right) = (a.to_verify(), b.to_verify());
    let verdict = compare_within(NODES, &read(&left), &read(&right)).verdict;
    let packets = packets(r);
    let told_apart = {
        let (a, b) = (a.run(&packets), b.run(&packets));
        (1..=packets.len() as u32).find(|id| a.get(id) != b.get(id))
    };
    let packet = told_apart.map(|id| &packets[id as usize - 1]);
    let case = || format!("seed {seed}\n{left}---\n{right}---\n{packet:02x?}\n{verdict:?}");
    match &verdict {
        Conclusion::Equivalent => {
            tally.equivalent += 1;
            assert!(told_apart.is_none(), "a packet differs: {}", case());
        }
        Conclusion::Different(Difference::Packet { example, .. }) => {
            tally.different += 1;
            tally.seen += usize::from(told_apart.is_some());
            let one = std::slice::from_ref(&example.bytes);
            assert_ne!(a.run(one), b.run(one), "the example does not differ: {}", case());
        }
        Conclusion::Different(entry) => panic!("{entry:?}: {}", case()),
        Conclusion::Undecided { .. } => {
            tally.undecided += 1;
            println!("undecided: {}", case());
        }
    }
}

#[test]
fn verdicts_agree_with_running_packets() {
    // More cases can be run by hand: `FROM=1000 CASES=5000 cargo test ...`.
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |n| n.parse().unwrap());
    let (from, cases) = (number("FROM", 0), number("CASES", CASES));
    let mut tally = Tally::default();
    for seed in from..from + cases {
        check(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.undecided * 10 <= cases as usize, "too often undecided: {tally:?}");
    assert!(
        tally.equivalent * 5 > cases as usize && tally.seen * 10 > cases as usize,
        "one-sided: {tally:?}"
    );
}
