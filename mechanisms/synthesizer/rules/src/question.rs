//! Reads packets that are written in the words of [`phrase`](super::phrase), or as an expression of the
//! filter language of IPFilter.

use std::net::Ipv4Addr;

use classify::IntervalSet;
use classify::filter::well_known_port;
use element::Setup;
use element::args::{PlaceNames, Scope, filter_condition};

use crate::conditions::condition_products;
use crate::fields::{PacketField, STATES, name_range};
use crate::phrase::{TCP_FLAGS, first_fragments, protocol_number, whole_packets};
use crate::product::FieldSets;

/// Reads a description of packets, and returns the packets as a union of products.
///
/// # Errors
/// If it is neither a phrase nor an expression of the filter language: the message for the user.
pub fn question(text: &str) -> Result<Vec<FieldSets>, String> {
    let words = split(text);
    let is_phrase = words.iter().any(|word| ["from", "to", "in", "out", "state"].contains(&word.as_str()));
    if is_phrase || words.is_empty() {
        return Phrase { words: &words, at: 0 }.read().map(|product| vec![product]);
    }
    filter(text).or_else(|error| match (Phrase { words: &words, at: 0 }).read() {
        Ok(product) => Ok(vec![product]),
        Err(_) => Err(error),
    })
}

/// Reads an expression of the filter language, or a rule of ClassBench without an action.
///
/// # Errors
/// If it is wrong, or asks for something that rules here cannot ask: the message for the user.
pub fn filter(text: &str) -> Result<Vec<FieldSets>, String> {
    let setup = Setup::default();
    let (condition, complaints) = filter_condition(text, &PlaceNames(Scope::new(&setup, 0)));
    if let Some((complaint, _)) = complaints.iter().find(|(_, is_warning)| !is_warning) {
        return Err(complaint.text.clone());
    }
    condition_products(&condition).map_err(|refusal| refusal.to_string())
}

/// Divides a phrase into words; braces are words of their own, and commas separate words.
fn split(text: &str) -> Vec<String> {
    let spaced = text.replace('{', " { ").replace('}', " } ").replace(", ", " ");
    spaced.split_whitespace().map(|word| word.trim_end_matches(',').to_string()).collect()
}

struct Phrase<'w> {
    words: &'w [String],
    at: usize,
}

/// Returns the error that a word is not a value of some kind.
fn no_value(word: &str, kind: &str) -> String {
    match word {
        "" => format!("{kind} expected at the end"),
        word => format!("'{word}' is not {kind}"),
    }
}

impl Phrase<'_> {
    fn read(mut self) -> Result<FieldSets, String> {
        let mut product = FieldSets::ALL;
        let mut port = PacketField::DestinationPort;
        let mut reads_transport = false;
        let mut names_fragments = false;
        let is_any = self.is_next("any") && self.words.get(self.at + 1).is_none_or(|word| word != "but");
        if self.is_next("ip") || is_any {
            self.at += 1;
        } else if !["from", "to", "in", "out", "state", ""].contains(&self.peek()) {
            let set = self.list("a protocol", PacketField::Protocol, &protocol)?;
            product = restricted(&product, PacketField::Protocol, &set)?;
        }
        while self.at < self.words.len() {
            let word = self.next();
            let (field, set) = match word.as_str() {
                "from" | "to" => {
                    let is_source = word == "from";
                    port = if is_source { PacketField::SourcePort } else { PacketField::DestinationPort };
                    let field = if is_source { PacketField::Source } else { PacketField::Destination };
                    (field, self.list("an address", field, &address)?)
                }
                "port" | "ports" => (port, self.list("a port", port, &|word| range(word, &named_port))?),
                "icmp" => {
                    product = restricted(&product, PacketField::Protocol, &IntervalSet::one(1, 1))?;
                    (PacketField::SourcePort, self.icmp()?)
                }
                "flags" => (PacketField::TcpFlags, self.flags()?),
                "fragment" => (PacketField::Fragment, self.fragment()?),
                "tos" => self.numbers(PacketField::TypeOfService)?,
                "ttl" => self.numbers(PacketField::TimeToLive)?,
                "length" => self.numbers(PacketField::TotalLength)?,
                "in" => {
                    (PacketField::InInterface, self.list("a name", PacketField::InInterface, &interface)?)
                }
                "out" => {
                    (PacketField::OutInterface, self.list("a name", PacketField::OutInterface, &interface)?)
                }
                "state" => {
                    let field = PacketField::ConnectionState;
                    (field, self.list("a connection state", field, &state)?)
                }
                word => {
                    return Err(format!(
                        "'{word}' is not expected here; write, for example, 'tcp from 10.0.0.0/8 to any port 22'"
                    ));
                }
            };
            reads_transport |= field.is_transport();
            names_fragments |= field == PacketField::Fragment;
            product = restricted(&product, field, &set)?;
        }
        // Only whole packets and first fragments have ports.
        if reads_transport && !names_fragments {
            product = restricted(&product, PacketField::Fragment, &first_fragments())?;
        }
        Ok(product)
    }

    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    fn is_next(&self, word: &str) -> bool {
        self.peek() == word
    }

    fn next(&mut self) -> String {
        let word = self.peek().to_string();
        self.at += 1;
        word
    }

    /// Reads a value, a list of values in braces, `any`, or `any but` one of these.
    fn list(
        &mut self,
        kind: &str,
        field: PacketField,
        value: &dyn Fn(&str) -> Option<(u128, u128)>,
    ) -> Result<IntervalSet, String> {
        let mut is_outside = false;
        let sign = |set: IntervalSet, is_outside| if is_outside { field.complement(&set) } else { set };
        while self.is_next("any") {
            self.at += 1;
            if !self.is_next("but") {
                return Ok(sign(field.all(), is_outside));
            }
            self.at += 1;
            is_outside = !is_outside;
        }
        let mut values = Vec::new();
        let mut one = |phrase: &mut Self| {
            let mut word = phrase.next();
            if word == "protocol" {
                word = phrase.next();
            }
            // Values may also be separated by commas alone.
            for word in word.split(',').filter(|word| !word.is_empty()) {
                values.push(value(word).ok_or_else(|| no_value(word, kind))?);
            }
            if word.is_empty() { Err(no_value("", kind)) } else { Ok(()) }
        };
        if self.is_next("{") {
            self.at += 1;
            while !self.is_next("}") {
                one(self)?;
            }
            self.at += 1;
        } else {
            one(self)?;
        }
        Ok(sign(values.into_iter().collect(), is_outside))
    }

    fn numbers(&mut self, field: PacketField) -> Result<(PacketField, IntervalSet), String> {
        let number = |word: &str| word.parse().ok();
        Ok((field, self.list("a number", field, &|word| range(word, &number))?))
    }

    fn icmp(&mut self) -> Result<IntervalSet, String> {
        if self.next() != "type" {
            return Err("'type' expected after 'icmp'".into());
        }
        let kind = |word: &str| {
            let number = word.parse::<u8>().ok().or_else(|| wire::icmp_names::kind(word));
            number.map(u128::from)
        };
        let kinds = self.list("an ICMP type", PacketField::TypeOfService, &|word| range(word, &kind))?;
        let whole = |&(low, high): &(u128, u128)| (low << 8, high << 8 | 255);
        if !self.is_next("code") {
            return Ok(kinds.intervals().iter().map(whole).collect());
        }
        self.at += 1;
        let codes = self.numbers(PacketField::TypeOfService)?.1.intersection(&IntervalSet::full(8));
        let all = kinds.intervals().iter().flat_map(|&(low, high)| low..=high);
        let with_codes = all.flat_map(|kind| {
            codes.intervals().iter().map(move |&(low, high)| (kind << 8 | low, kind << 8 | high))
        });
        Ok(with_codes.collect())
    }

    fn flags(&mut self) -> Result<IntervalSet, String> {
        let is_not = self.is_next("not");
        self.at += usize::from(is_not);
        let word = self.next();
        let flags = |names: &str| {
            names.split(',').filter(|name| *name != "none").try_fold(0u128, |flags, name| {
                let bit = TCP_FLAGS
                    .iter()
                    .position(|flag| *flag == name)
                    .ok_or_else(|| no_value(name, "a TCP flag"))?;
                Ok::<_, String>(flags | 1 << bit)
            })
        };
        let (value, mask) = match word.split_once('/') {
            Some((value, mask)) => (flags(value)?, flags(mask)?),
            // Without a mask, the flags are set, whatever the others; `none` is about all flags.
            None if word == "none" => (0, 0xff),
            None => (flags(&word)?, flags(&word)?),
        };
        if mask == 0 || value & !mask != 0 {
            return Err(format!("'{word}' has flags that are not in its mask, or no mask"));
        }
        let set = (0..=255).filter(|byte| byte & mask == value).map(|byte| (byte, byte)).collect();
        Ok(if is_not { PacketField::TcpFlags.complement(&set) } else { set })
    }

    fn fragment(&mut self) -> Result<IntervalSet, String> {
        let field = PacketField::Fragment;
        match self.peek() {
            "first" => Ok(first_fragments()),
            "none" => Ok(whole_packets()),
            "later" => Ok(field.complement(&first_fragments())),
            "any" => Ok(field.complement(&whole_packets())),
            "all" => Ok(field.all()),
            "start" => Ok(first_fragments().intersection(&field.complement(&whole_packets()))),
            _ => return Ok(self.numbers(field)?.1),
        }
        .inspect(|_| self.at += 1)
    }
}

fn restricted(product: &FieldSets, field: PacketField, set: &IntervalSet) -> Result<FieldSets, String> {
    product.with(field, set).ok_or_else(|| "no packet is like this".to_string())
}

/// Reads a single value or a range `low-high`.
fn range(word: &str, value: &dyn Fn(&str) -> Option<u128>) -> Option<(u128, u128)> {
    if let Some(single) = value(word) {
        return Some((single, single));
    }
    let (low, high) = word.split_once('-')?;
    Some((value(low)?, value(high)?)).filter(|(low, high)| low <= high)
}

fn protocol(word: &str) -> Option<(u128, u128)> {
    let number = |word: &str| protocol_number(word).or_else(|| word.parse().ok()).map(u128::from);
    range(word, &number)
}

fn named_port(word: &str) -> Option<u128> {
    let number = word.parse::<u16>().ok().or_else(|| well_known_port(word));
    number.map(u128::from)
}

/// Reads an IPv4 address, a prefix, or a range of addresses.
pub fn address(word: &str) -> Option<(u128, u128)> {
    let single = |word: &str| Some(u128::from(word.parse::<Ipv4Addr>().ok()?.to_bits()));
    if let Some((address, length)) = word.split_once('/') {
        let mask = match length.parse::<u32>() {
            Ok(length) => u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0),
            Err(_) => length.parse::<Ipv4Addr>().ok()?.to_bits(),
        };
        // A mask whose ones are not all at the front is not a range of addresses.
        if mask.leading_ones() != mask.count_ones() {
            return None;
        }
        let low = single(address)? as u32 & mask;
        return Some((low.into(), (low | !mask).into()));
    }
    range(word, &single)
}

/// Reads an interface's name, or a prefix of names with a star.
pub fn interface(word: &str) -> Option<(u128, u128)> {
    match word.strip_suffix('*') {
        Some(prefix) => name_range(prefix, true),
        None => name_range(word, false),
    }
}

/// Reads the name of a connection's state.
pub fn state(word: &str) -> Option<(u128, u128)> {
    let number = STATES.iter().position(|name| name.eq_ignore_ascii_case(word))? as u128;
    Some((number, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrase::whole_phrase;

    #[test]
    fn phrases_are_read_as_they_are_written() {
        for text in [
            "ip from any to any",
            "tcp from any to 10.0.0.0/8 port 22",
            "{tcp, udp} from {10.0.0.1, 192.0.2.0/24} port 1024-65535 to any but 10.0.0.0/8 port any but 53",
            "icmp from any to any icmp type {echo-reply, echo}",
            "icmp from any to any icmp type unreachable code 4",
            "icmp from any to any icmp type any but redirect",
            "ip from 10.0.0.3-10.0.0.9 to any fragment later",
            "tcp from any to any port 22 fragment all",
            "tcp from any to any port 22 fragment start",
            "any but {tcp, protocol 200-255} from any to any",
            "protocol 47-200 from any to any fragment none tos {0, 16} ttl 1-5",
            "tcp from any to any flags syn/fin,syn,rst,ack",
            "tcp from any to any flags not syn/fin,syn,rst,ack state new",
            "ip from any to any in eth0 out any but ppp* state {new, established}",
        ] {
            let read = question(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.iter().map(whole_phrase).collect::<Vec<_>>(), [text]);
        }
    }

    #[test]
    fn both_languages_are_understood() {
        let one = |text: &str| question(text).unwrap();
        assert_eq!(one("tcp to 10.0.0.0/8 port 22"), one("dst net 10.0.0.0/8 and dst tcp port 22"));
        assert_eq!(one("udp from any port domain to any"), one("src udp port 53"));
        assert_eq!(one("ip from 10.1.2.3 to any"), one("src host 10.1.2.3"));
        assert_eq!(one("tcp port 80").len(), 2, "source or destination");
        assert_eq!(one("icmp"), one("icmp from any to any"));
        assert_eq!(one("any"), [FieldSets::ALL]);
        let none = &one("tcp to any flags none")[0];
        assert_eq!(none.set(PacketField::TcpFlags), Some(&IntervalSet::one(0, 0)));
        // Any number of words is read without deep calls.
        let many = format!("ip from {}10.0.0.1 to any", "any but ".repeat(100_001));
        assert_eq!(one(&many), one("ip from any but 10.0.0.1 to any"));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, error) in [
            ("tcp to 10.0.0.0/33 port 22", "'10.0.0.0/33' is not an address"),
            ("tcp to any port 99999", "'99999' is not a port"),
            ("tcp to", "an address expected at the end"),
            ("tpc to any", "'tpc' is not a protocol"),
            ("udp to any icmp type echo", "no packet is like this"),
            ("tcp to any prot 22", "'prot' is not expected here"),
            ("tcp to {10.0.0.1", "an address expected at the end"),
            ("tcp to any flags syn/ack", "'syn/ack' has flags that are not in its mask"),
            ("tcp to any flags syn/none", "or no mask"),
        ] {
            let found = question(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        assert!(question("tcp prot 80").is_err());
    }
}
