//! The conditions of rules in the language of IPFilter and IPClassifier.
//!
//! In this language, a test of the transport header implies that the packet is a first fragment, and a test
//! of ports also that it is TCP or UDP. Conditions of programs test bytes only. So a test of the transport
//! header can be written only together (in a conjunction) with tests that the packet is a first fragment and,
//! for ports, that it is TCP or UDP.

use classify::Tree;
use std::net::Ipv4Addr;

use classify::filter::{Condition, DEEPEST, HeaderLayer, Test};

/// Returns a condition as a pattern of IPFilter; `None` if the language cannot express it, or if it is nested
/// too deeply.
pub fn pattern(condition: &Condition) -> Option<String> {
    match condition {
        Tree::Constant(true) => Some("all".to_string()),
        condition => print(condition, Around::default(), 0),
    }
}

/// The facts that hold wherever a part of a condition matters, because the condition tests them in
/// conjunction with the part.
#[derive(Clone, Copy, Default)]
struct Around {
    /// True if the packet is known to be a first fragment.
    is_first: bool,
    /// True if the packet's protocol is known to be TCP or UDP.
    has_ports: bool,
}

impl Around {
    fn with(mut self, parts: &[Condition]) -> Around {
        self.is_first |= parts.iter().any(is_first);
        self.has_ports |=
            parts.iter().any(|part| is_with_ports(part) || protocol(part).is_some_and(has_ports));
        self
    }
}

fn print(condition: &Condition, around: Around, depth: usize) -> Option<String> {
    if depth >= DEEPEST / 2 {
        return None;
    }
    let each = |parts: &mut dyn Iterator<Item = &Condition>, around, word: &str| {
        let parts = parts.map(|part| print(part, around, depth + 1)).collect::<Option<Vec<String>>>()?;
        Some(format!("({})", parts.join(word)))
    };
    match condition {
        Tree::Constant(value) => Some(value.to_string()),
        Tree::Leaf(test) => leaf(test, around),
        Tree::Not(inner) => Some(format!("not {}", enclosed(print(inner, around, depth + 1)?))),
        Tree::All(parts) => {
            let around = around.with(parts);
            let is_port = |part: &Condition| matches!(part, Tree::Leaf(test) if is_port(test));
            // In the language of IPFilter, a test of ports implies that the packet is a first fragment of TCP
            // or UDP. So separate tests for this are omitted if the conjunction tests ports.
            let is_said = around.is_first && around.has_ports && parts.iter().any(is_port);
            let mut kept = parts.iter().filter(|part| !is_said || !is_first(part) && !is_with_ports(part));
            each(&mut kept, around, " and ")
        }
        Tree::Any(parts) => each(&mut parts.iter(), around, " or "),
        Tree::Choose(parts) => {
            let parts = parts.each_ref().map(|part| print(part, around, depth + 1).map(enclosed));
            let [Some(when), Some(then), Some(otherwise)] = parts else { return None };
            Some(format!("(({when} and {then}) or (not {when} and {otherwise}))"))
        }
    }
}

fn enclosed(text: String) -> String {
    if text.starts_with('(') { text } else { format!("({text})") }
}

fn leaf(test: &Test, around: Around) -> Option<String> {
    let Test { header, offset, length, .. } = *test;
    let is_equal = test.low == test.high;
    match header {
        HeaderLayer::Mac => None,
        HeaderLayer::Network
            if matches!(offset, 12 | 16) && length == 4 && is_equal && is_prefix(test.mask) =>
        {
            let (end, address) = (if offset == 12 { "src" } else { "dst" }, Ipv4Addr::from(test.low));
            let sign = if test.outside { "!= " } else { "" };
            Some(match test.mask.count_ones() {
                32 => format!("{end} host {sign}{address}"),
                length => format!("{end} net {sign}{address}/{length}"),
            })
        }
        HeaderLayer::Network => match protocol(&Tree::Leaf(*test)) {
            Some(number) => Some(format!("ip proto {number}")),
            None => relation(&place("ip", test)?, test),
        },
        HeaderLayer::Transport if !around.is_first => None,
        HeaderLayer::Transport if around.has_ports && is_port(test) => {
            relation(if offset == 0 { "src port" } else { "dst port" }, test)
        }
        HeaderLayer::Transport => relation(&place("transp", test)?, test),
    }
}

/// Returns the notation of the tested bytes, such as `ip[6:2]`; `None` if they do not lie within an aligned
/// word of 32 bits.
fn place(header: &str, test: &Test) -> Option<String> {
    let Test { offset, length, .. } = *test;
    (offset % 4 + u16::from(length) <= 4).then(|| format!("{header}[{offset}:{length}]"))
}

fn relation(place: &str, test: &Test) -> Option<String> {
    let Test { low, high, mask, outside, length, .. } = *test;
    let all = u32::MAX >> 32u32.checked_sub(8 * u32::from(length))?;
    let place = if mask == all { place.to_string() } else { format!("{place} & {mask:#x}") };
    let says = |sign: &str, value: u32| format!("{place} {sign} {value}");
    Some(match (low, high, outside) {
        // A test that any value passes means that the bytes exist. The language of IPFilter cannot test that.
        (0, high, _) if high >= mask => return None,
        (low, high, false) if low == high => says("==", low),
        (low, high, true) if low == high => says("!=", low),
        (0, high, false) => says("<=", high),
        (0, high, true) => says(">", high),
        (low, high, false) if high >= mask => says(">=", low),
        (low, high, true) if high >= mask => says("<=", low - 1),
        (low, high, false) => format!("({} and {})", says(">=", low), says("<=", high)),
        (low, high, true) => format!("({} or {})", says("<", low), says(">", high)),
    })
}

fn is_prefix(mask: u32) -> bool {
    mask != 0 && mask.leading_ones() + mask.trailing_zeros() == 32
}

fn is_port(test: &Test) -> bool {
    test.header == HeaderLayer::Transport && matches!((test.offset, test.length), (0 | 2, 2))
}

/// True if the condition tests that the fragment offset is zero and nothing else: the packet is a first
/// fragment or unfragmented.
fn is_first(condition: &Condition) -> bool {
    let Tree::Leaf(Test {
        header: HeaderLayer::Network,
        offset: 6,
        length: 2,
        mask,
        low: 0,
        high: 0,
        outside: false,
    }) = condition
    else {
        return false;
    };
    // The mask must have the bits of the fragment offset only. A mask that includes the more-fragments flag
    // also requires that this flag is zero, so such a test is written out.
    *mask == 0x1fff
}

/// Returns the protocol number if the condition is a test for one protocol; otherwise `None`.
fn protocol(condition: &Condition) -> Option<u32> {
    match condition {
        Tree::Leaf(Test {
            header: HeaderLayer::Network,
            offset: 9,
            length: 1,
            mask: 0xff,
            low,
            high,
            outside: false,
        }) if low == high => Some(*low),
        _ => None,
    }
}

fn has_ports(protocol: u32) -> bool {
    matches!(protocol, 6 | 17)
}

/// True if the condition tests that the protocol is TCP or UDP, and nothing else.
fn is_with_ports(condition: &Condition) -> bool {
    let Tree::Any(parts) = condition else { return false };
    let numbers: Vec<Option<u32>> = parts.iter().map(protocol).collect();
    numbers == [Some(6), Some(17)] || numbers == [Some(17), Some(6)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use classify::filter::{self, HeaderSlices, NameLookup};
    use proptest::prelude::*;

    struct Plain;

    impl NameLookup for Plain {
        fn integer(&self, word: &str) -> Option<i128> {
            match word.strip_prefix("0x") {
                Some(digits) => i128::from_str_radix(digits, 16).ok(),
                None => word.parse().ok(),
            }
        }

        fn ipv4(&self, word: &str) -> Option<u32> {
            word.parse::<Ipv4Addr>().ok().map(u32::from)
        }

        fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)> {
            let (address, length) = word.split_once('/')?;
            Some((self.ipv4(address)?, u32::MAX.checked_shl(32 - length.parse::<u32>().ok()?).unwrap_or(0)))
        }

        fn ipv6(&self, _word: &str) -> Option<u128> {
            None
        }

        fn ipv6_prefix(&self, _word: &str) -> Option<(u128, u128)> {
            None
        }

        fn ether(&self, word: &str) -> Option<[u8; 6]> {
            (word == "2:0:0:0:0:1").then_some([2, 0, 0, 0, 0, 1])
        }
    }

    fn condition_of(text: &str) -> Condition {
        let (expression, issues) = filter::parse(text, &Plain);
        assert!(issues.iter().all(|issue| issue.is_warning), "{text}: {issues:?}");
        filter::condition(&expression)
    }

    fn question() -> impl Strategy<Value = String> {
        let sign = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
        let end = || prop::sample::select(vec!["src", "dst", "src or dst", "src and dst"]);
        prop_oneof![
            (end(), 0u8..4, 0u32..=32)
                .prop_map(|(end, host, length)| format!("{end} net 10.0.0.{host}/{length}")),
            (end(), sign(), 0u16..3).prop_map(|(end, sign, port)| format!("{end} port {sign} {port}")),
            (end(), 1u16..4, 0u16..3)
                .prop_map(|(end, mask, port)| format!("{end} tcp port & {mask} == {port}")),
            (sign(), 0u8..4).prop_map(|(sign, ttl)| format!("ip ttl {sign} {ttl}")),
            prop::sample::select(vec![
                "tcp",
                "udp",
                "icmp",
                "ip proto 4",
                "ip frag",
                "syn",
                "ip dscp 1",
                "true",
                "false"
            ])
            .prop_map(String::from),
            (sign(), 0u8..4).prop_map(|(sign, value)| format!("transp[1:1] {sign} {value}")),
            (sign(), 0u8..4).prop_map(|(sign, value)| format!("icmp type {sign} {value}")),
            (sign(), 0u32..4).prop_map(|(sign, value)| format!("ip[4:2] & 0x3 {sign} {value}")),
        ]
    }

    fn condition() -> impl Strategy<Value = Condition> {
        question().prop_map(|text| condition_of(&text)).prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                inner.clone().prop_map(Condition::not),
                prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::All),
                prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Any),
                [inner.clone(), inner.clone(), inner].prop_map(|parts| Tree::Choose(Box::new(parts))),
            ]
        })
    }

    /// Generates an IPv4 header and a transport header with small values, so that tests have all outcomes.
    /// Some headers are truncated.
    fn packet() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let byte = || prop::sample::select(vec![0u8, 1, 2, 3, 4, 6, 10, 17, 0x20]);
        (prop::collection::vec(byte(), 20), prop::collection::vec(byte(), 0..20), 0usize..30, any::<bool>())
            .prop_map(|(mut network, transport, cut, is_whole)| {
                network.splice(12..15, [10, 0, 0]);
                network.splice(16..19, [10, 0, 0]);
                if is_whole {
                    network.splice(6..8, [0, 0]);
                }
                network.truncate(cut.max(3));
                (network, transport)
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_printed_means_the_same(condition in condition(), packets in prop::collection::vec(packet(), 40)) {
            let condition = condition.simplified();
            let Some(printed) = pattern(&condition) else { return Ok(()) };
            let again = condition_of(&printed);
            for (network, transport) in &packets {
                let headers = HeaderSlices { mac: &[], network, transport };
                let holds = |condition: &Condition| condition.holds(&|test: &Test| test.holds(&headers));
                prop_assert_eq!(holds(&condition), holds(&again), "{} on {:?}", printed, headers);
            }
        }
    }

    #[test]
    fn rules_of_firewalls_are_read_with_ease() {
        let text =
            |rule: &str| pattern(&condition_of(rule)).unwrap_or_else(|| panic!("{:?}", condition_of(rule)));
        assert_eq!(text("src net 10.0.0.0/8"), "src net 10.0.0.0/8");
        assert_eq!(
            text("dst host 1.2.3.4 && tcp && dst port 22"),
            "(dst host 1.2.3.4 and ip proto 6 and dst port == 22)"
        );
        assert_eq!(
            text("udp && src port > 1023 && dst port >= 33434 && dst port <= 33600"),
            "(ip proto 17 and src port >= 1024 and dst port >= 33434 and dst port <= 33600)"
        );
        assert_eq!(text("ip frag"), "ip[6:2] & 0x3fff != 0");
        assert_eq!(text("icmp type 8"), "(ip proto 1 and ip[6:2] & 0x1fff == 0 and transp[0:1] == 8)");
        assert_eq!(text("-"), "all");
        assert_eq!(pattern(&condition_of("src ether host 2:0:0:0:0:1")), None);
    }
}
