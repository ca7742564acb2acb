//! Parses lines and binary records of summaries, and makes packets from them.

use std::net::Ipv4Addr;
use std::ops::Range;

use wire::MacAddr;

use super::build::Input;
use super::options::{Chosen, parse_ip, parse_tcp};
use super::{BuiltPacket, SummaryField, VERSION, field_names, fields};

/// Addresses and ports that packets get unless the fields of their line give others (directive `!flowid`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowDefaults {
    /// The IPv4 source address as a number; 0 if it is not given.
    pub source: u32,
    /// The IPv4 destination address as a number; 0 if it is not given.
    pub destination: u32,
    /// The source port and the destination port; 0 if a port is not given.
    pub ports: [u16; 2],
}

/// The content of a line or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The line or record gives no packet: it is a directive, a comment, an empty line, or a line or record
    /// without any valid value.
    Nothing,
    /// The directive `!binary`: the file continues with binary records.
    Binary,
    /// A packet, which is in the `record` that the caller passed.
    Packet,
}

/// A parser of summaries, called for one line or record after the other. It remembers the directives.
#[derive(Clone, Debug)]
pub struct Parser {
    /// The fields of each line or record, in order. `None` for a field that is unknown or cannot be read,
    /// whose values are skipped.
    fields: Vec<Option<SummaryField>>,
    /// The indexes in `fields` of known fields, in the order in which their values are written into a
    /// packet.
    order: Vec<usize>,
    /// The byte range of each value in the current line or record; reused to save allocations.
    values: Vec<Range<usize>>,
    protocol: u8,
    flow: Option<FlowDefaults>,
    aggregate: Option<u32>,
    minor: u32,
    checksums: bool,
    complained: bool,
    scratch: Vec<u8>,
}

impl Parser {
    /// Makes a parser. Packets have IP protocol `protocol` unless the dump gives another protocol. If
    /// `checksums`, packets are extended to their whole length and get correct checksums.
    pub fn new(protocol: u8, checksums: bool) -> Parser {
        Parser {
            fields: Vec::new(),
            order: Vec::new(),
            values: Vec::new(),
            protocol,
            flow: None,
            aggregate: None,
            minor: VERSION.1,
            checksums,
            complained: false,
            scratch: Vec::new(),
        }
    }

    /// True if the list of fields is known; without it no packet can be made.
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Sets the list of fields, given as after `!data`. Messages about fields that are unknown or cannot be
    /// read are added to `issues`; the values of such fields are skipped.
    pub fn set_fields(&mut self, text: &str, issues: &mut Vec<String>) {
        self.fields.clear();
        for field in fields(text) {
            self.fields.push(match field {
                Ok(field) if field.can_be_read() => Some(field),
                Ok(field) => {
                    issues.push(format!("content type '{}' ignored on input", field.name()));
                    None
                }
                Err(name) => {
                    issues.push(format!("unknown content type '{name}'"));
                    None
                }
            });
        }
        if self.fields.is_empty() {
            issues.push("no contents specified".into());
        }
        let fields = &self.fields;
        self.order = (0..fields.len()).filter(|&i| fields[i].is_some()).collect();
        self.order.sort_by_key(|&i| fields[i].map(SummaryField::order));
    }

    /// Sets the flow of the following packets, given as after `!flowid`: source address and port, destination
    /// address and port, and optionally a protocol. Messages about errors are added to `issues`; after an
    /// error in an address or port, packets have no such flow.
    pub fn set_flow(&mut self, text: &str, issues: &mut Vec<String>) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let address = |word: &str| match word {
            "-" => Some(0),
            word => word.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits),
        };
        let port = |word: &str| if word == "-" { Some(0) } else { word.parse().ok() };
        self.flow = match words[..] {
            [source, sport, destination, dport, ..] => (|| {
                let ports = [port(sport)?, port(dport)?];
                Some(FlowDefaults { source: address(source)?, destination: address(destination)?, ports })
            })(),
            _ => None,
        };
        if self.flow.is_none() {
            issues.push("bad !flowid specification".into());
        } else if let Some(protocol) = words.get(4) {
            self.set_protocol(protocol, "!flowid", issues);
        }
    }

    fn set_protocol(&mut self, text: &str, what: &str, issues: &mut Vec<String>) {
        let mut words = text.split_whitespace();
        let (Some(word), None) = (words.next(), words.next()) else {
            return issues.push(format!("bad {what}"));
        };
        let named = match word {
            "tcp" => Some(6),
            "udp" => Some(17),
            "icmp" => Some(1),
            "igmp" => Some(2),
            "ipip" => Some(4),
            "dccp" => Some(33),
            word => protocol(word),
        };
        match named {
            Some(protocol) => self.protocol = protocol as u8,
            None => issues.push(format!("bad protocol in {what}")),
        }
    }

    /// Parses a line. A packet is written to `record`, and messages about errors are added to `issues`.
    pub fn line(&mut self, line: &str, record: &mut BuiltPacket, issues: &mut Vec<String>) -> Parsed {
        let line = line.trim_end_matches(['\n', '\r', '\0']);
        match line.as_bytes() {
            [] | [b'#', ..] => return Parsed::Nothing,
            [b'!', ..] => return self.directive(line, issues),
            _ => {}
        }
        self.split(line);
        record.start(self.protocol, self.flow);
        record.info.aggregate = self.aggregate.unwrap_or(0);
        let mut good = 0;
        for i in 0..self.order.len() {
            let place = self.order[i];
            let (Some(field), Some(value)) = (self.fields[place], self.values.get(place)) else { continue };
            let text = &line[value.clone()];
            if text != "-" {
                good += usize::from(self.set(field, text, record));
            }
        }
        self.done(good > 0, line.trim().is_empty(), record, issues)
    }

    /// Parses a binary record, given without its length field. A packet is written to `record`, and
    /// messages about errors are added to `issues`.
    pub fn binary(&mut self, bytes: &[u8], record: &mut BuiltPacket, issues: &mut Vec<String>) -> Parsed {
        self.values.clear();
        let mut at = 0;
        for field in &self.fields {
            let left = bytes.len().saturating_sub(at);
            let length = match field.map(SummaryField::width) {
                None => 0,
                Some(Ok(Some(width))) => width,
                Some(Ok(None)) => bytes.get(at).map_or(left + 1, |&length| 1 + usize::from(length)),
                Some(Err(())) => left + 1,
            };
            // If the record ends within a value, this value and all values after it are left out.
            let end = if length <= left { at + length } else { bytes.len() };
            self.values.push(if length <= left { at..end } else { end..end });
            at = end;
        }
        record.start(self.protocol, self.flow);
        record.info.aggregate = self.aggregate.unwrap_or(0);
        let mut good = 0;
        for &place in &self.order {
            let Some(field) = self.fields[place] else { continue };
            let value = &bytes[self.values[place].clone()];
            if value.is_empty() {
                continue;
            }
            record.set(field, binary_value(field, value));
            good += 1;
        }
        self.done(good > 0, false, record, issues)
    }

    fn done(
        &mut self,
        good: bool,
        blank: bool,
        record: &mut BuiltPacket,
        issues: &mut Vec<String>,
    ) -> Parsed {
        if !good {
            if !blank && !std::mem::replace(&mut self.complained, true) {
                let known = self.has_fields();
                issues.push(if known { "packet parse error" } else { "no '!data' provided" }.into());
            }
            return Parsed::Nothing;
        }
        record.finish(self.checksums);
        Parsed::Packet
    }

    fn directive(&mut self, line: &str, issues: &mut Vec<String>) -> Parsed {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match name {
            "!data" | "!contents" => self.set_fields(rest, issues),
            "!flowid" => self.set_flow(rest, issues),
            "!proto" => self.set_protocol(rest, "!proto", issues),
            "!aggregate" => match rest.trim().parse() {
                Ok(number) => self.aggregate = Some(number),
                Err(_) => {
                    self.aggregate = None;
                    issues.push("bad !aggregate specification".into());
                }
            },
            "!binary" => {
                if !rest.trim().is_empty() {
                    issues.push("bad !binary specification".into());
                }
                return Parsed::Binary;
            }
            "!IPSummaryDump" => {
                let version = rest.trim().split_once('.');
                let version =
                    version.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
                match version {
                    Some((major, minor)) if major == VERSION.0 && minor <= VERSION.1 => self.minor = minor,
                    Some((major, minor)) => {
                        issues.push(format!("unexpected IPSummaryDump version {major}.{minor}"));
                    }
                    None => {}
                }
            }
            _ => {}
        }
        Parsed::Nothing
    }

    /// Finds the values of a line, which are words or strings in double quotes, and stores their byte
    /// ranges in `values`.
    fn split(&mut self, line: &str) {
        self.values.clear();
        let bytes = line.as_bytes();
        let mut at = 0;
        while self.values.len() < self.fields.len() {
            at += bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
            if at == bytes.len() {
                break;
            }
            let start = at;
            let mut quoted = false;
            while at < bytes.len() && (quoted || !bytes[at].is_ascii_whitespace()) {
                match bytes[at] {
                    b'\\' if quoted => at += 1,
                    b'"' => quoted = !quoted,
                    _ => {}
                }
                at += 1;
            }
            at = at.min(bytes.len());
            while !line.is_char_boundary(at) {
                at += 1;
            }
            self.values.push(start..at);
        }
    }

    /// Parses the text of a field's value, and writes the value into the packet. Returns false if the text
    /// is not a value of the field.
    fn set(&mut self, field: SummaryField, text: &str, record: &mut BuiltPacket) -> bool {
        self.scratch.clear();
        let bytes = &mut self.scratch;
        let good = match field {
            SummaryField::IpOptions => text == "." || parse_ip(bytes, text),
            SummaryField::TcpOptions => text == "." || parse_tcp(bytes, text, Chosen::All),
            SummaryField::TcpOtherOptions => text == "." || parse_tcp(bytes, text, Chosen::Others),
            SummaryField::TcpSack => text == "." || parse_tcp(bytes, text, Chosen::Sack),
            SummaryField::Payload => {
                unquote(bytes, text);
                true
            }
            SummaryField::EtherSource | SummaryField::EtherDestination => {
                bytes.extend(text.parse::<MacAddr>().ok().into_iter().flat_map(|address| address.0));
                !bytes.is_empty()
            }
            _ => {
                let number = self.number(field, text, record);
                if let Some(number) = number {
                    record.set(field, Input::Number(number));
                }
                return number.is_some();
            }
        };
        if good {
            record.set(field, Input::Bytes(&self.scratch));
        }
        good
    }

    fn number(&self, field: SummaryField, text: &str, record: &BuiltPacket) -> Option<u64> {
        let limit = |most: u64| integer(text).filter(|&number| number <= most);
        match field {
            SummaryField::Timestamp
            | SummaryField::NanoTimestamp
            | SummaryField::FirstTimestamp
            | SummaryField::FirstNanoTimestamp => time(text),
            SummaryField::IpSource | SummaryField::IpDestination => {
                text.parse::<Ipv4Addr>().ok().map(|a| a.to_bits().into())
            }
            SummaryField::IpFragment | SummaryField::IpFragmentOffset => self.fragment(text),
            SummaryField::IpProtocol => protocol(text),
            SummaryField::IpEcn => match text {
                "no" => Some(0),
                "ect1" | "ECT(1)" => Some(1),
                "ect2" | "ECT(0)" => Some(2),
                "ce" | "CE" => Some(3),
                _ => limit(3),
            },
            SummaryField::TcpFlags => match text {
                "." => Some(0),
                _ if text.starts_with(|c: char| c.is_ascii_digit()) => limit(0xfff),
                _ => text.chars().try_fold(0, |flags, c| {
                    let place = match c {
                        'W' => 7,
                        'X' => 6,
                        'Y' => 7,
                        c => "FSRPAUECN".find(c)?,
                    };
                    Some(flags | 1 << place)
                }),
            },
            SummaryField::IcmpType | SummaryField::IcmpTypeName => field_names::icmp_type_number(text),
            SummaryField::IcmpCode | SummaryField::IcmpCodeName => match record.icmp_type() {
                Some(kind) => field_names::icmp_code_number(kind, text),
                None => limit(255),
            },
            SummaryField::Link | SummaryField::Paint | SummaryField::Direction => match text {
                ">" | "L" => Some(0),
                "<" | "R" | "X" => Some(1),
                _ => integer(text),
            },
            SummaryField::EtherType => hexadecimal(text).filter(|number| *number <= 0xffff),
            _ => match field.width() {
                Ok(Some(1)) => limit(0xff),
                Ok(Some(2)) => limit(0xffff),
                Ok(Some(4)) => limit(0xffff_ffff),
                _ => integer(text),
            },
        }
    }

    /// Parses a fragment field: `F` (first fragment), `f` (later fragment), `.` (no fragment), `!` ("don't
    /// fragment"), or an offset in bytes with `+` for more fragments and `!` for "don't fragment". Returns
    /// the word of flags and offset in the IP header.
    fn fragment(&self, text: &str) -> Option<u64> {
        match text {
            "." => return Some(0),
            "!" => return Some(0x4000),
            "F" => return Some(0x2000),
            // `f` does not say the offset of the later fragment; 100 (units of 8 bytes) is arbitrary.
            "f" => return Some(100),
            _ => {}
        }
        let digits = text.trim_end_matches(['+', '!']);
        let offset = integer(digits).filter(|&offset| offset < 1 << 16)?;
        // Version 1.0 of the format has offsets in units of 8 bytes, later versions in bytes.
        let offset = if self.minor > 0 { offset / 8 } else { offset };
        let flag = |sign, bit| if text[digits.len()..].contains(sign) { bit } else { 0 };
        Some(offset & 0x1fff | flag('+', 0x2000) | flag('!', 0x4000))
    }
}

fn binary_value(field: SummaryField, value: &[u8]) -> Input<'_> {
    match field {
        SummaryField::EtherSource | SummaryField::EtherDestination => return Input::Bytes(value),
        _ if field.width() == Ok(None) => return Input::Bytes(&value[1..]),
        _ => {}
    }
    let number = value.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
    let (seconds, parts) = (number >> 32, number & 0xffff_ffff);
    Input::Number(match field {
        SummaryField::Timestamp | SummaryField::FirstTimestamp => seconds * 1_000_000_000 + parts * 1_000,
        SummaryField::NanoTimestamp | SummaryField::FirstNanoTimestamp => seconds * 1_000_000_000 + parts,
        // A binary record has one of the letters of the text form, see [`Parser::fragment`].
        SummaryField::IpFragment => match number as u8 {
            b'F' => 0x2000,
            b'f' => 100,
            b'!' => 0x4000,
            _ => 0,
        },
        _ => number,
    })
}

/// Parses a number: decimal, or hexadecimal with `0x`.
fn integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits),
        None => text.parse().ok(),
    }
}

/// Parses a hexadecimal number without prefix.
fn hexadecimal(digits: &str) -> Option<u64> {
    // `from_str_radix` would also accept a sign.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

/// Parses an IP protocol: `T` (TCP), `U` (UDP), `I` (ICMP) or a number.
fn protocol(text: &str) -> Option<u64> {
    match text {
        "T" => Some(6),
        "U" => Some(17),
        "I" => Some(1),
        text => text.parse::<u8>().ok().map(u64::from),
    }
}

/// Parses a time in seconds, with an optional fraction and an optional power of ten, or with a unit behind it
/// such as `ms`. Returns nanoseconds; digits after the ninth decimal are ignored.
fn time(text: &str) -> Option<u64> {
    const UNITS: [(&str, i32); 5] = [("ns", -9), ("us", -6), ("ms", -3), ("sec", 0), ("s", 0)];
    let found = UNITS.iter().find_map(|&(unit, power)| Some((text.strip_suffix(unit)?, power)));
    let (text, unit) = found.unwrap_or((text, 0));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let whole = whole.strip_prefix('+').unwrap_or(whole);
    if !digits(whole) || !digits(fraction) || mantissa.len() > 64 || whole.len() + fraction.len() == 0 {
        return None;
    }
    let power = exponent.parse::<i32>().ok().filter(|power| power.abs() <= 32)? + unit + 9;
    // The first `place` digits are the nanoseconds.
    let place = whole.len() as i32 + power;
    let all = whole.chars().chain(fraction.chars()).chain(std::iter::repeat('0'));
    let nanoseconds: String = all.take(usize::try_from(place).unwrap_or(0)).collect();
    let nanoseconds = nanoseconds.trim_start_matches('0');
    if nanoseconds.is_empty() {
        Some(0)
    } else {
        nanoseconds.parse().ok().filter(|&n| n < (1 << 33) * 1_000_000_000)
    }
}

/// Appends the contents of a string in double quotes to `out`: `\<hex>` gives bytes, and other characters
/// after a backslash mean the same as in C. A word without quotes is appended as it is.
fn unquote(out: &mut Vec<u8>, text: &str) {
    let Some(inside) = text.strip_prefix('"').map(|t| t.strip_suffix('"').unwrap_or(t)) else {
        return out.extend(text.as_bytes());
    };
    let mut rest = inside.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            out.push(first);
            continue;
        }
        let Some((&escaped, after)) = rest.split_first() else { break };
        let mut number = |digits: &[u8], radix: u32, at: usize| {
            let value = digits.iter().filter_map(|&digit| char::from(digit).to_digit(radix));
            out.push(value.fold(0, |value, digit| value * radix + digit) as u8);
            rest.get(at + digits.len()..).unwrap_or_default()
        };
        rest = match escaped {
            b'0'..=b'7' => {
                let length = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                number(&rest[..length], 8, 0)
            }
            b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => {
                let length = after.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                number(&after[..length], 16, 1)
            }
            b'<' => {
                let end = after.iter().position(|&b| b == b'>').unwrap_or(after.len());
                let digits: Vec<u8> =
                    after[..end].iter().filter_map(|&b| (b as char).to_digit(16)).map(|d| d as u8).collect();
                out.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
                after.get(end + 1..).unwrap_or_default()
            }
            _ => {
                out.push(match escaped {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    other => other,
                });
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::View;

    /// Parses all packets of a dump; returns them and the messages about errors.
    fn read(text: &str, checksums: bool) -> (Vec<BuiltPacket>, Vec<String>) {
        let mut parser = Parser::new(6, checksums);
        let (mut record, mut records, mut issues) = (BuiltPacket::default(), Vec::new(), Vec::new());
        for line in text.lines() {
            if parser.line(line, &mut record, &mut issues) == Parsed::Packet {
                records.push(record.clone());
            }
        }
        (records, issues)
    }

    fn view(record: &BuiltPacket) -> View<'_> {
        View {
            data: &record.bytes,
            mac: record.mac.map(|at| at as isize),
            network: record.network.map(|at| at as isize),
            transport: record.transport().map(|at| at as isize),
            info: record.info,
            thread: 0,
        }
    }

    #[test]
    fn packets_have_what_the_dump_says() {
        let (records, issues) =
            read("!data src sport dst dport proto len\n1.0.0.1 80 2.0.0.2 53 U 100", false);
        assert_eq!(issues, [""; 0]);
        let expected =
            [0x45, 0, 0, 100, 0, 0, 0, 0, 100, 17, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2, 0, 80, 0, 53, 0, 80, 0, 0];
        assert_eq!(records[0].bytes, expected);
        assert_eq!(records[0].info.extra_length, 72);
        let flow = "!flowid 1.0.0.1 10 2.0.0.2 20 T\n!data tcp_flags tcp_seq payload\nSA 258 \"a\\<00ff>\"";
        let (records, _) = read(flow, true);
        let tcp = &records[0].bytes[20..];
        assert_eq!(tcp[..16], [0, 10, 0, 20, 0, 0, 1, 2, 0, 0, 0, 0, 0x50, 0x12, 0, 0]);
        assert_eq!(tcp[20..], [b'a', 0, 0xff]);
        assert!(wire::checksum::ipv4_valid(&records[0].bytes[..20]));
    }

    #[test]
    fn lines_read_back() {
        let fields = "timestamp ip_src ip_dst ip_frag ip_fragoff ip_len ip_proto ip_hl ip_id ip_tos ip_dscp ip_ecn \
            ip_ttl ip_opt sport dport tcp_seq tcp_ack tcp_off tcp_flags tcp_opt tcp_window tcp_urp udp_len \
            icmp_type icmp_code icmp_flowid icmp_seq icmp_nextmtu payload payload_len count direction aggregate \
            first_timestamp";
        let listed: Vec<SummaryField> = super::fields(fields).into_iter().map(Result::unwrap).collect();
        for line in [
            "1.500000 1.0.0.1 2.0.0.2 . 0 45 T 20 7 1 0 ect1 9 . 80 90 5 6 20 PA . 7 8 - - - - - - \"hello\" 5 1 > 3 0.000000",
            "2.000000001 1.0.0.1 2.0.0.2 ! 0! 49 T 20 7 185 46 ect1 9 . 80 90 5 6 28 SEN mss1400;sackok 7 8 - - - - - - \"\\001\" 1 2 < 3 1.000000",
            "3.000000 1.0.0.1 2.0.0.2 F 0+ 31 U 20 7 0 0 no 9 . 80 90 - - - - - - - 11 - - - - - \"a\\\"b\" 3 1 5 0 0.000000",
            "3.000000 1.0.0.1 2.0.0.2 f 800 22 99 20 7 0 0 no 9 . - - - - - - - - - - - - - - - \"ab\" 2 1 > 0 0.000000",
            "3.000000 1.0.0.1 2.0.0.2 . 0 32 I 24 7 3 0 ce 9 148=0:0 - - - - - - - - - - 8 0 77 78 - \"\\010\\000\\000\\000\\000M\\000N\" 8 1 > 0 0.000000",
        ] {
            let (records, issues) = read(&format!("!data {fields}\n{line}"), false);
            assert_eq!((records.len(), &issues[..]), (1, &[][..]), "{line}");
            let mut again = String::new();
            assert_eq!(view(&records[0]).describe(&listed, true, &mut again), None);
            assert_eq!(again, line);
            // Only fields that binary records can contain are written. A binary record starts with its own
            // length.
            let binary: Vec<SummaryField> = listed.iter().copied().filter(|f| f.width().is_ok()).collect();
            let mut bytes = Vec::new();
            view(&records[0]).describe_binary(&binary, true, &mut bytes);
            assert_eq!(bytes[..4], (bytes.len() as u32).to_be_bytes());
        }
    }

    /// In a packet without an IP header, all bytes are payload, the Ethernet header included, as in Click.
    #[test]
    fn packets_of_other_protocols_read_back() {
        let arp = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6][..], &[7; 28]].concat();
        let view = View {
            data: &arp,
            mac: Some(0),
            network: Some(14),
            transport: None,
            info: Default::default(),
            thread: 0,
        };
        let names = "eth_dst eth_src eth_type payload_len payload";
        let listed: Vec<SummaryField> = super::fields(names).into_iter().map(Result::unwrap).collect();
        let mut line = String::new();
        view.describe(&listed, true, &mut line);
        let (records, issues) = read(&format!("!data {names}\n{line}"), false);
        assert_eq!((records[0].bytes.clone(), &issues[..]), (arp, &[][..]), "{line}");
    }

    #[test]
    fn strings_have_the_escapes_of_c() {
        let bytes = |text: &str| {
            let mut out = Vec::new();
            unquote(&mut out, text);
            out
        };
        assert_eq!(bytes(r#""\101\0z\x41\n\"\q\<00ff>x""#), b"A\0zA\n\"q\0\xffx");
        assert_eq!(bytes(r"\n"), b"\\n");
    }

    #[test]
    fn times_have_powers_and_units() {
        let expected = [
            ("1.5", Some(1_500_000_000)),
            ("1e3", Some(1_000_000_000_000)),
            ("25e-1", Some(2_500_000_000)),
            (".5", Some(500_000_000)),
            ("5.", Some(5_000_000_000)),
            ("+5s", Some(5_000_000_000)),
            ("1.5ms", Some(1_500_000)),
            ("3us", Some(3_000)),
            ("0.00000000019", Some(0)),
            ("-1", None),
            ("", None),
            ("s", None),
            ("1e99", None),
        ];
        for (text, nanoseconds) in expected {
            assert_eq!(time(text), nanoseconds, "{text}");
        }
    }

    #[test]
    fn numbers_with_a_sign_are_refused() {
        for (name, text) in [
            ("eth_type", "+800"),
            ("eth_src", "+2-0-0-0-0-1"),
            ("eth_dst", "x-2-0-0-0-0-1"),
            ("ip_len", "0x+9"),
        ] {
            let issues = read(&format!("!data {name}\n{text}"), false).1;
            assert_eq!(issues, ["packet parse error"], "{name} {text}");
        }
    }

    #[test]
    fn binary_records_read_back() {
        let names = "ntimestamp ip_src sport ip_proto ip_len eth_src tcp_opt ip_frag count";
        let listed: Vec<SummaryField> = super::fields(names).into_iter().map(Result::unwrap).collect();
        let line = "7.000000009 1.2.3.4 99 T 60 02-00-00-00-00-01 mss9;wscale2 F 3";
        let (records, _) = read(&format!("!data {names}\n{line}"), false);
        let mut bytes = Vec::new();
        view(&records[0]).describe_binary(&listed, true, &mut bytes);
        let mut parser = Parser::new(17, false);
        let (mut record, mut issues) = (BuiltPacket::default(), Vec::new());
        parser.set_fields(names, &mut issues);
        assert_eq!(parser.binary(&bytes[4..], &mut record, &mut issues), Parsed::Packet);
        assert_eq!((record.bytes, record.info), (records[0].bytes.clone(), records[0].info));
    }

    #[test]
    fn what_is_bad_is_said() {
        let ip = |change: fn(&mut Vec<u8>)| {
            let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2];
            bytes.extend([0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 2, 0, 5, 0, 0, 0, 0]);
            change(&mut bytes);
            let view = View {
                data: &bytes,
                mac: None,
                network: Some(0),
                transport: None,
                info: Default::default(),
                thread: 0,
            };
            let mut line = String::new();
            let bad = view.describe(
                &[SummaryField::IpSource, SummaryField::TcpFlags, SummaryField::UdpLength],
                true,
                &mut line,
            );
            (bad.map_or(String::new(), |bad| bad.to_string()), line)
        };
        let says = |bad: &str, line: &str| (bad.to_string(), line.to_string());
        assert_eq!(ip(|_| ()), says("", "1.0.0.1 S -"));
        assert_eq!(ip(|b| b[0] = 0x65), says("IP version 6", "- - -"));
        assert_eq!(ip(|b| b[0] = 0x44), says("IP header length 4", "- - -"));
        assert_eq!(ip(|b| b[3] = 10), says("IP length 10", "- - -"));
        assert_eq!(ip(|b| b[3] = 60), says("truncated IP missing 20", "1.0.0.1 S -"));
        assert_eq!(ip(|b| b[32] = 0x40), says("TCP header length 4", "1.0.0.1 - -"));
        assert_eq!(ip(|b| b[7] = 1), says("fragmented TCP header", "1.0.0.1 - -"));
        assert_eq!(ip(|b| b.truncate(2)), says("truncated IP header", "- - -"));
        assert_eq!(ip(|b| b.truncate(14)), says("truncated IP missing 26", "- - -"));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let (_, issues) =
            read("!data foo ip_src\n!flowid 1.1.1.1\n!proto x y\n!aggregate z\n- zzz\n- yyy", false);
        let expected = [
            "unknown content type 'foo'",
            "bad !flowid specification",
            "bad !proto",
            "bad !aggregate specification",
            "packet parse error",
        ];
        assert_eq!(issues, expected);
        assert_eq!(read("1.2.3.4", false).1, ["no '!data' provided"]);
    }

    proptest! {
        #[test]
        fn no_dump_panics(lines in prop::collection::vec("[!-~ ]{0,60}", 0..6), names in prop::collection::vec(
            0usize..50, 1..12), values in prop::collection::vec(prop_oneof![
                "[0-9]{1,6}", Just("1.2.3.4".to_string()), Just("f".to_string()), Just("T".to_string()),
                Just("SA".to_string()), Just("rr{1.2.3.4^".to_string()), Just("\"a b".to_string()),
                Just("mss5;sack1-2".to_string()), "[ -~]{0,12}"
            ], 0..14), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut text = lines.join("\n");
            let all: Vec<SummaryField> = [
                "timestamp", "ts_usec", "count", "wire_len", "eth_src", "eth_type", "ip_frag", "ip_fragoff", "ip_hl",
                "ip_src", "ip_tos", "ip_ecn", "ip_proto", "ip_opt", "ip_len", "sport", "tcp_seq", "tcp_off",
                "tcp_flags", "tcp_urp", "tcp_opt", "tcp_sack", "udp_len", "icmp_type", "icmp_code_name", "icmp_seq",
                "icmp_nextmtu", "payload", "payload_len", "ip_capture_len",
            ].iter().map(|name| SummaryField::named(name).unwrap()).collect();
            let chosen: Vec<SummaryField> = names.iter().map(|&i| all[i % all.len()]).collect();
            let list: Vec<&str> = chosen.iter().map(|field| field.name()).collect();
            text += &format!("\n!data {}\n{}", list.join(" "), values.join(" "));
            for checksums in [false, true] {
                for record in read(&text, checksums).0 {
                    let mut out = String::new();
                    view(&record).describe(&all, true, &mut out);
                    prop_assert!(!out.contains('\n'));
                }
            }
            let mut parser = Parser::new(1, true);
            let (mut record, mut issues) = (BuiltPacket::default(), Vec::new());
            parser.set_fields(&list.join(" "), &mut issues);
            parser.binary(&bytes, &mut record, &mut issues);
            let view = View { data: &bytes, network: Some(3), transport: Some(23), ..view(&record) };
            let mut out = Vec::new();
            view.describe_binary(&all, true, &mut out);
        }
    }
}
