//! Tests of matchers with rule sets of all kinds, at their full size, compared with a linear search that
//! shares no code with the matcher.

use std::fmt::Write;
use std::path::Path;

use classify::filter::{
    Condition, Expression, HeaderSlices, Matcher, NameLookup, action, classbench, condition, parse,
};
use testkit::found;

/// A rule as value and mask of each address, range of each port, and value and mask of the protocol. It is
/// parsed without the crate's code.
#[derive(Clone, Debug)]
struct Rule {
    nets: [(u32, u32); 2],
    ports: [(u16, u16); 2],
    protocol: (u8, u8),
    /// True if the rule holds only for TCP and UDP, because it is a rule of IPFilter that asks for ports.
    needs_ports: bool,
}

/// The five-tuple of a packet: source and destination address, source and destination port, protocol.
type Tuple = ([u32; 2], [u16; 2], u8);

impl Rule {
    const ANY: Rule =
        Rule { nets: [(0, 0); 2], ports: [(0, u16::MAX); 2], protocol: (0, 0), needs_ports: false };

    fn holds(&self, (addresses, ports, protocol): &Tuple) -> bool {
        (0..2).all(|end| addresses[end] & self.nets[end].1 == self.nets[end].0)
            && (0..2).all(|end| self.ports[end].0 <= ports[end] && ports[end] <= self.ports[end].1)
            && protocol & self.protocol.1 == self.protocol.0
            && (!self.needs_ports || matches!(protocol, 6 | 17))
    }

    /// Returns a random five-tuple for which the rule holds.
    fn tuple(&self, random: &mut fastrand::Rng) -> Tuple {
        let addresses = self.nets.map(|(value, mask)| value | random.u32(..) & !mask);
        let ports = self.ports.map(|(low, high)| match random.u8(..4) {
            0 => low,
            1 => high,
            _ => random.u16(low..=high),
        });
        let protocol = match self.protocol {
            (_, 0) if self.needs_ports => [6, 17][random.usize(..2)],
            (_, 0) => [1, 6, 17, 47, random.u8(..)][random.usize(..5)],
            (value, mask) => value | random.u8(..) & !mask,
        };
        (addresses, ports, protocol)
    }
}

fn net(prefix: &str) -> (u32, u32) {
    let (address, length) = prefix.split_once('/').unwrap_or((prefix, "32"));
    let mask = u32::MAX.checked_shl(32 - length.parse::<u32>().unwrap()).unwrap_or(0);
    (address.parse::<std::net::Ipv4Addr>().unwrap().to_bits() & mask, mask)
}

/// Parses a line of a rule file in ClassBench's format.
fn of_classbench(line: &str) -> Rule {
    let words: Vec<&str> = line[1..].split_whitespace().collect();
    let hexadecimal = |text: &str| u8::from_str_radix(&text[2..], 16).unwrap();
    let (protocol, mask) = words[8].split_once('/').unwrap();
    let port = |n: usize| words[n].parse().unwrap();
    let mask = hexadecimal(mask);
    Rule {
        nets: [net(words[0]), net(words[1])],
        ports: [(port(2), port(4)), (port(5), port(7))],
        protocol: (hexadecimal(protocol) & mask, mask),
        needs_ports: false,
    }
}

/// Parses the pattern of a rule for IPFilter, as the rule sets contain it: `src net ... && dst port >
/// 1023`.
fn of_filter(pattern: &str) -> Rule {
    let mut rule = Rule::ANY;
    for clause in pattern.split("&&").map(str::trim).filter(|clause| !matches!(*clause, "" | "all")) {
        let words: Vec<&str> = clause.split_whitespace().collect();
        let end = usize::from(words[0] == "dst");
        match words[..] {
            ["src" | "dst", "net" | "host", prefix] => rule.nets[end] = net(prefix),
            ["tcp"] => rule.protocol = (6, 0xff),
            ["udp"] => rule.protocol = (17, 0xff),
            ["icmp"] => rule.protocol = (1, 0xff),
            ["ip", "proto", number] => rule.protocol = (number.parse().unwrap(), 0xff),
            ["src" | "dst", "port", ref relation @ ..] => {
                let number = |port: &str| port.parse::<u16>().unwrap();
                let (low, high) = match relation {
                    [">", port] => (number(port) + 1, u16::MAX),
                    ["<", port] => (0, number(port) - 1),
                    [port] => (number(port), number(port)),
                    _ => panic!("{pattern}"),
                };
                let (least, most) = rule.ports[end];
                rule.ports[end] = (low.max(least), high.min(most));
                rule.needs_ports = true;
            }
            _ => panic!("{pattern}"),
        }
    }
    rule
}

/// The parsers for patterns: numbers, IPv4 addresses and prefixes, no names.
struct NoNames;

impl NameLookup for NoNames {
    fn integer(&self, word: &str) -> Option<i128> {
        word.parse().ok()
    }

    fn ipv4(&self, word: &str) -> Option<u32> {
        word.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
    }

    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)> {
        word.contains('/').then(|| net(word))
    }

    fn ipv6(&self, _: &str) -> Option<u128> {
        None
    }

    fn ipv6_prefix(&self, _: &str) -> Option<(u128, u128)> {
        None
    }

    fn ether(&self, _: &str) -> Option<[u8; 6]> {
        None
    }
}

/// A rule set, parsed for the linear search and compiled to a matcher.
struct Set {
    rules: Vec<Rule>,
    matcher: Matcher,
}

impl Set {
    fn read(patterns: &[&str]) -> Set {
        let compiled = |pattern: &&str| -> Condition {
            if pattern.starts_with('@') {
                return classbench(pattern).unwrap();
            }
            let (expression, issues): (Expression, _) = parse(pattern, &NoNames);
            assert!(issues.iter().all(|issue| issue.is_warning), "{pattern}: {issues:?}");
            condition(&expression)
        };
        let read = |pattern: &&str| {
            if pattern.starts_with('@') { of_classbench(pattern) } else { of_filter(pattern) }
        };
        let conditions: Vec<Condition> = patterns.iter().map(compiled).collect();
        Set { rules: patterns.iter().map(read).collect(), matcher: Matcher::new(&conditions) }
    }

    fn linear(&self, tuple: &Tuple) -> Option<usize> {
        self.rules.iter().position(|rule| rule.holds(tuple))
    }

    fn compiled(&self, tuples: &[Tuple]) -> Vec<Option<usize>> {
        let packets: Vec<[u8; 24]> = tuples.iter().map(packet).collect();
        let headers =
            packets.iter().map(|p| HeaderSlices { mac: &[], network: &p[..20], transport: &p[20..] });
        let mut found = Vec::with_capacity(packets.len());
        self.matcher.first_of_each(headers, None, |rule| found.push(rule));
        found
    }
}

fn packet((addresses, ports, protocol): &Tuple) -> [u8; 24] {
    let mut packet = [0; 24];
    (packet[0], packet[9]) = (0x45, *protocol);
    packet[12..16].copy_from_slice(&addresses[0].to_be_bytes());
    packet[16..20].copy_from_slice(&addresses[1].to_be_bytes());
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    packet
}

/// Returns the patterns of a rule file, which is in ClassBench's format, a list of rules for IPFilter, or a
/// configuration with IPFilter.
fn patterns(text: &str) -> Vec<&str> {
    fn pattern(line: &str) -> Option<&str> {
        let line = line.trim().trim_end_matches(',');
        let (word, rest) = action(line);
        let is_rule = matches!(word, "allow" | "deny" | "drop");
        if line.starts_with('@') { Some(line) } else { is_rule.then(|| rest.trim()) }
    }
    text.lines().filter_map(pattern).collect()
}

/// Compares matcher and linear search for 10^6 random headers. Three of four headers are made to match a
/// random rule. Of the other headers, some match but for one changed field, and some are arbitrary.
fn agrees(name: &Path, text: &str) {
    let patterns = patterns(text);
    let set = Set::read(&patterns);
    let mut random = fastrand::Rng::with_seed(7);
    let mut matched = 0;
    let mut different = String::new();
    for _ in 0..10 {
        let tuples: Vec<Tuple> = (0..100_000)
            .map(|i| {
                let rule = &set.rules[random.usize(..set.rules.len())];
                let mut tuple = rule.tuple(&mut random);
                match i % 16 {
                    0 => tuple = Rule::ANY.tuple(&mut random),
                    1 => tuple.0[0] ^= 1 << random.u32(..32),
                    2 => tuple.1[random.usize(..2)] = random.u16(..),
                    3 => tuple.2 = random.u8(..),
                    _ => {}
                }
                tuple
            })
            .collect();
        for (tuple, found) in tuples.iter().zip(set.compiled(&tuples)) {
            // The linear search must find the same rule.
            let expected = set.linear(tuple);
            matched += usize::from(expected.is_some());
            if found != expected {
                writeln!(different, "{tuple:?}: {found:?}, not {expected:?}").unwrap();
            }
        }
    }
    assert!(different.is_empty(), "{}: {different:.2000}", name.display());
    assert!(matched > 600_000, "{}: {matched}", name.display());
    println!("{}: {} rules, {} KiB", name.display(), patterns.len(), set.matcher.size() >> 10);
}

#[test]
fn every_rule_set_agrees_with_a_linear_search() {
    let Some(folder) = found::path("rules") else { return };
    let mut files = found::files(&folder.join("classbench"));
    files.push(folder.join("reframer/fw-rules"));
    files.extend(["acl1", "acl1_1K"].map(|name| folder.join("wustl").join(name)));
    let acl = found::files(&folder.join("snf/real-acl"));
    files.extend(acl.into_iter().filter(|file| file.extension().is_some_and(|e| e == "click")));
    let texts = files.iter().map(|file| (file, std::fs::read_to_string(file).unwrap()));
    let sets: Vec<_> = texts.filter(|(_, text)| patterns(text).len() > 100).collect();
    assert!(sets.len() >= 15, "{}", sets.len());
    // The largest sets are tested first, so that both threads finish at about the same time.
    let mut sets: Vec<_> = sets.iter().collect();
    sets.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((file, text)) =
                    sets.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    agrees(file, text);
                }
            });
        }
    });
}

#[test]
fn traces_of_headers_find_the_expected_rules() {
    let Some(folder) = found::path("rules/wustl") else { return };
    for name in ["acl1", "acl1_1K"] {
        let rules = std::fs::read_to_string(folder.join(name)).unwrap();
        let set = Set::read(&patterns(&rules));
        let trace = std::fs::read_to_string(folder.join(format!("{name}_trace"))).unwrap();
        let mut expected = Vec::new();
        let mut tuples: Vec<Tuple> = Vec::new();
        for line in trace.lines() {
            let words: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let [source, destination, source_port, destination_port, protocol, rule] = words[..] else {
                panic!("{line}")
            };
            tuples.push((
                [source, destination],
                [source_port as u16, destination_port as u16],
                protocol as u8,
            ));
            expected.push((rule as usize).checked_sub(1));
        }
        assert!(tuples.len() > 8000);
        assert!(set.compiled(&tuples) == expected, "{name}");
    }
}
