//! Rules in ClassBench's format: `@192.0.2.0/24 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000`.
//!
//! A rule has a source and a destination prefix, a range of source ports and of destination ports, and a
//! protocol under a mask. The format is from Taylor and Turner, "ClassBench: a packet classification
//! benchmark", INFOCOM 2005. Fields after the protocol, such as the flags in some versions of the format, are
//! ignored, as in other tools.
//!
//! A rule becomes a [`Condition`]. Port ranges other than 0 to 65535 are compared with the first four bytes
//! after the IP header, whatever the protocol. A rule with such a range never holds for fragments other than
//! the first.

use crate::Tree;
use std::net::Ipv4Addr;

use super::{Condition, HeaderLayer, Issue, Test};

/// True if a text begins with `@`, as rules in ClassBench's format do.
pub fn is_classbench(text: &str) -> bool {
    text.starts_with('@')
}

/// Parses a rule into a condition that holds for the packets that match the rule.
///
/// # Errors
/// If the rule is wrong: an error with the range of bytes in the text at which something else was expected.
pub fn classbench(text: &str) -> Result<Condition, Issue> {
    let mut words = Words { text, at: text.len() - text.trim_start_matches('@').len() };
    let mut tests = Vec::new();
    for (offset, what) in [(12, "source prefix"), (16, "destination prefix")] {
        let (address, length) = words.next(what, prefix)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        if mask != 0 {
            tests.push(test(HeaderLayer::Network, offset, 4, mask, (address & mask, address & mask)));
        }
    }
    let mut ports = Vec::new();
    for (offset, what) in [(0, "source port"), (2, "destination port")] {
        let low: u16 = words.next(what, number)?;
        words.next(":", |word| (word == ":").then_some(()))?;
        let start = words.at;
        let high: u16 = words.next(what, number)?;
        if low > high {
            return Err(words.issue(start, format!("{what}s from {low} to {high} are none")));
        }
        if (low, high) != (0, u16::MAX) {
            ports.push(test(HeaderLayer::Transport, offset, 2, 0xffff, (low.into(), high.into())));
        }
    }
    let (protocol, mask) = words.next("protocol/mask", masked_byte)?;
    if mask != 0 {
        let value = u32::from(protocol & mask);
        tests.push(test(HeaderLayer::Network, 9, 1, mask.into(), (value, value)));
    }
    if !ports.is_empty() {
        tests.push(test(HeaderLayer::Network, 6, 2, 0x1fff, (0, 0)));
        tests.append(&mut ports);
    }
    Ok(Tree::All(tests).simplified())
}

fn test(header: HeaderLayer, offset: u16, length: u8, mask: u32, (low, high): (u32, u32)) -> Condition {
    Tree::Leaf(Test { header, offset, length, mask, low, high, outside: false })
}

struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn next<T>(&mut self, what: &str, read: impl Fn(&'t str) -> Option<T>) -> Result<T, Issue> {
        let rest = &self.text[self.at..];
        let start = self.at + rest.len() - rest.trim_start().len();
        let word = rest.split_whitespace().next().unwrap_or("");
        self.at = start + word.len();
        read(word).ok_or_else(|| {
            let found = if word.is_empty() { "the end".into() } else { format!("'{word}'") };
            self.issue(start, format!("{what} expected instead of {found}"))
        })
    }

    fn issue(&self, start: usize, text: String) -> Issue {
        Issue { span: start..self.at, text, clicks_words: None, is_warning: false }
    }
}

fn prefix(word: &str) -> Option<(u32, u8)> {
    let (address, length) = word.split_once('/')?;
    let length = length.parse().ok().filter(|&length| length <= 32)?;
    Some((address.parse::<Ipv4Addr>().ok()?.to_bits(), length))
}

fn number(word: &str) -> Option<u16> {
    word.parse().ok()
}

fn masked_byte(word: &str) -> Option<(u8, u8)> {
    let hexadecimal = |digits: &str| {
        let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0X"))?;
        // `from_str_radix` would also accept a sign.
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(digits, 16).ok().filter(|_| are_digits)
    };
    let (value, mask) = word.split_once('/')?;
    Some((hexadecimal(value)?, hexadecimal(mask)?))
}

#[cfg(test)]
mod tests {
    use super::super::HeaderSlices;
    use super::*;

    fn holds(rule: &str, protocol: u8, fragment: u16, ports: [u16; 2]) -> bool {
        let mut ip = [0u8; 20];
        ip[6..8].copy_from_slice(&fragment.to_be_bytes());
        ip[9] = protocol;
        ip[12..20].copy_from_slice(&[10, 1, 2, 3, 192, 0, 2, 7]);
        let transport = ports.map(u16::to_be_bytes).concat();
        let headers = HeaderSlices { mac: &[], network: &ip, transport: &transport };
        classbench(rule).unwrap().holds(&|test| test.holds(&headers))
    }

    #[test]
    fn five_numbers_count() {
        let rule = "@10.1.0.0/16\t192.0.2.7/32 1024 : 65535\t80 : 80 0x06/0xFF 0x1000/0x1000\t";
        assert!(holds(rule, 6, 0, [1024, 80]));
        assert!(!holds(rule, 6, 0, [1023, 80]));
        assert!(!holds(rule, 6, 0, [1024, 81]));
        assert!(!holds(rule, 17, 0, [1024, 80]));
        assert!(!holds(rule, 6, 1, [1024, 80]));
        let any = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00";
        assert!(holds(any, 1, 9, [0, 0]));
        assert!(!holds("@10.2.0.0/16 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00", 6, 0, [1, 1]));
        assert!(holds("@10.0.0.0/8 192.0.2.6/31 0 : 65535 0 : 65535 0x04/0x0C", 6, 0, [1, 1]));
    }

    #[test]
    fn errors_say_where() {
        for (rule, text, span) in [
            ("@10.0.0.0/33 0.0.0.0/0", "source prefix expected instead of '10.0.0.0/33'", 1..12),
            ("@10.0.0.0/8 any", "destination prefix expected instead of 'any'", 12..15),
            ("@10.0.0.0/8 0.0.0.0/0 0 - 65535", ": expected instead of '-'", 24..25),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 65536", "source port expected instead of '65536'", 26..31),
            ("@10.0.0.0/8 0.0.0.0/0 9 : 8", "source ports from 9 to 8 are none", 25..27),
            ("@1.1.1.1/8 0.0.0.0/0 0 : 1 0 : 1", "protocol/mask expected instead of the end", 32..32),
            ("@1.1.1.1/8 0.0.0.0/0 0 : 1 0 : 1 6/255", "protocol/mask expected instead of '6/255'", 33..38),
            (
                "@1.1.1.1/8 0.0.0.0/0 0 : 1 0 : 1 0x+6/0xff",
                "protocol/mask expected instead of '0x+6/0xff'",
                33..42,
            ),
        ] {
            let issue = classbench(rule).unwrap_err();
            assert_eq!((issue.text.as_str(), issue.span), (text, span), "{rule}");
        }
    }
}
