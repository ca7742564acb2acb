//! The resolution of numbers, addresses and names in filter expressions, mostly with the rules of other
//! arguments.

use std::net::{Ipv4Addr, Ipv6Addr};

use classify::filter::{self, Condition, Issue, NameLookup, Protocol};
use wire::MacAddr;

use super::{ArgType, Complaint, Ipv4Prefix, Scope, parse_integer};

/// The names of addresses and ports that are visible to the element whose filter is parsed.
pub struct PlaceNames<'p>(pub Scope<'p>);

/// Parses a pattern of the filter language, or a rule in ClassBench's format. Returns the condition, and the
/// complaints about the pattern, each with true if it is only a warning. After an error the condition must
/// not be used.
pub fn filter_condition(pattern: &str, names: &PlaceNames<'_>) -> (Condition, Vec<(Complaint, bool)>) {
    let complaint = |issue: Issue| {
        let complaint = Complaint { clicks_words: issue.clicks_words, ..issue.text.into() };
        (complaint, issue.is_warning)
    };
    if filter::is_classbench(pattern) {
        return match filter::classbench(pattern) {
            Ok(condition) => (condition, Vec::new()),
            Err(issue) => (Condition::Constant(false), vec![complaint(issue)]),
        };
    }
    let (expression, issues) = filter::parse(pattern, names);
    (filter::condition(&expression), issues.into_iter().map(complaint).collect())
}

impl PlaceNames<'_> {
    fn prefix(&self, word: &str) -> Option<Ipv4Prefix> {
        Ipv4Prefix::parse(word, &self.0).ok()
    }
}

impl NameLookup for PlaceNames<'_> {
    fn integer(&self, word: &str) -> Option<i128> {
        parse_integer(word).ok()
    }

    fn ipv4(&self, word: &str) -> Option<u32> {
        if let Ok(address) = word.parse::<Ipv4Addr>() {
            return Some(address.to_bits());
        }
        // A name that means a prefix is also an address, but only if some host bits of the prefix are
        // set or it has no host bits.
        let names_address = |p: &Ipv4Prefix| {
            let host = !p.mask.to_bits();
            host == 0 || p.address.to_bits() & host != 0
        };
        let is_name = !word.contains('/');
        self.prefix(word).filter(|prefix| is_name && names_address(prefix)).map(|p| p.address.to_bits())
    }

    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)> {
        // An address without a length is not taken as a prefix of 32 bits.
        let prefix = self.prefix(word).filter(|p| word.contains('/') || p.mask != Ipv4Addr::BROADCAST);
        prefix.map(|p| (p.address.to_bits(), p.mask.to_bits()))
    }

    fn ipv6(&self, word: &str) -> Option<u128> {
        Ipv6Addr::parse(word, &self.0).ok().map(u128::from)
    }

    fn ipv6_prefix(&self, word: &str) -> Option<(u128, u128)> {
        let (address, length) = word.split_once('/')?;
        let free = 128u32.checked_sub(length.parse().ok()?)?;
        Some((self.ipv6(address)?, u128::MAX.checked_shl(free).unwrap_or(0)))
    }

    fn ether(&self, word: &str) -> Option<[u8; 6]> {
        MacAddr::parse(word, &self.0).ok().map(|address| address.0)
    }

    fn port(&self, word: &str, protocol: Protocol) -> Option<u16> {
        match protocol {
            Protocol::Number(number) => self.0.known_port(word, number),
            _ => None,
        }
    }

    fn nearest<'w>(&self, word: &str, words: &[&'w str]) -> Option<&'w str> {
        lang::nearest(word, words.iter().copied())
    }
}
