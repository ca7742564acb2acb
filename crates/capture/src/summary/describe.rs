//! Writes packets as lines of text or binary records of a summary.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use md5::{Digest, Md5};

use super::options::{Chosen, describe_ip, describe_tcp};
use super::{PacketInfo, SummaryField};

/// A packet of which a summary is to be written.
#[derive(Clone, Copy, Debug)]
pub struct View<'p> {
    /// The bytes of the packet. Of a packet in several pieces, only the first piece.
    pub data: &'p [u8],
    /// The offset of the link-layer header from the first byte of `data`; negative if it was stripped, `None`
    /// if it is not known.
    pub mac: Option<isize>,
    /// The offset of the IP header from the first byte of `data`.
    pub network: Option<isize>,
    /// The offset of the transport header from the first byte of `data`.
    pub transport: Option<isize>,
    /// The values that are not part of the packet's bytes: times, counts, paint, aggregate.
    pub info: PacketInfo,
    /// The number of the thread that writes the summary.
    pub thread: u32,
}

/// The first error found in a packet: a text, and a number that follows it, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(&'static str, Option<u32>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        self.1.map_or(Ok(()), |number| write!(f, "{number}"))
    }
}

/// Properties of a packet that several fields of a summary need. They are found before any field is written.
#[derive(Clone, Copy, Debug)]
struct Facts<'p> {
    view: View<'p>,
    /// The packet from its IP header to the end of its IP length, as far as it is in `data`. Empty if there
    /// is no valid IP header.
    ip: &'p [u8],
    /// The bytes after the IP header. Empty if there are none. In fragments other than the first, these bytes
    /// are payload, so that fields of the transport header do not use them.
    transport: &'p [u8],
    first: bool,
    /// The offset from the first byte of `data` at which the IP header ends.
    behind: usize,
    tailpad: usize,
    extra: u32,
    /// The first error found in the packet, which is returned to the caller. The line of the summary is
    /// written even if there is an error.
    fault: Option<Fault>,
}

/// The value of a field of a packet.
enum Value<'p> {
    Number(u64),
    Address(u32),
    Letter(char),
    Ether(&'p [u8]),
    Options(&'p [u8]),
    Payload(&'p [u8]),
    Digest([u8; 16]),
    Time(i64),
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    bytes.get(at..at + length).map(|bytes| bytes.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
}

impl<'p> View<'p> {
    /// Appends a line with the values of `fields`, without a line break, to `out`. Fields that the packet
    /// does not have become `-`. Returns the first error of the packet. If `careful`, a packet shorter than
    /// its IP length is an error, too.
    pub fn describe(self, fields: &[SummaryField], careful: bool, out: &mut String) -> Option<Fault> {
        let mut facts = self.facts(careful);
        for (i, &field) in fields.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            match facts.value(field) {
                Some(value) => facts.write(field, value, out),
                None => out.push('-'),
            }
        }
        facts.fault
    }

    /// Appends a binary record with its four-byte length to `out`. Fields that the packet does not have
    /// become zeros. Returns errors as [`describe`](Self::describe) does.
    pub fn describe_binary(self, fields: &[SummaryField], careful: bool, out: &mut Vec<u8>) -> Option<Fault> {
        let mut facts = self.facts(careful);
        let start = out.len();
        out.extend([0; 4]);
        for &field in fields {
            let value = facts.value(field);
            let Ok(width) = field.width() else { continue };
            match (width, value) {
                (None, Some(Value::Options(options))) => {
                    out.push(options.len() as u8);
                    out.extend(options);
                }
                (None, _) => out.push(0),
                (Some(6), Some(Value::Ether(address))) => out.extend(address),
                (_, Some(Value::Digest(digest))) => out.extend(digest),
                (Some(_), Some(Value::Time(time))) => {
                    let (seconds, nanoseconds) =
                        (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
                    let fine =
                        matches!(field, SummaryField::NanoTimestamp | SummaryField::FirstNanoTimestamp);
                    let parts = if fine { nanoseconds } else { nanoseconds / 1_000 };
                    out.extend((seconds as u32).to_be_bytes());
                    out.extend((parts as u32).to_be_bytes());
                }
                (Some(width), value) => {
                    let number = match value {
                        Some(Value::Number(number)) => number,
                        Some(Value::Address(address)) => address.into(),
                        Some(Value::Letter(letter)) => letter.into(),
                        _ => 0,
                    };
                    let bytes = u128::from(number).to_be_bytes();
                    out.extend(&bytes[16 - width.min(16)..]);
                }
            }
        }
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        facts.fault
    }

    fn facts(self, careful: bool) -> Facts<'p> {
        let length = self.data.len();
        let mut facts = Facts {
            view: self,
            ip: &[],
            transport: &[],
            first: true,
            behind: 0,
            tailpad: 0,
            extra: self.info.extra_length,
            fault: None,
        };
        let network = self.network.and_then(|at| usize::try_from(at).ok()).filter(|&at| at <= length);
        let Some(at) = network else { return facts };
        let ip = &self.data[at..];
        let total = number(ip, 2, 2).unwrap_or(0);
        let header = 4 * u32::from(ip.first().map_or(0, |b| b & 15));
        let version = ip.first().map_or(0, |b| u32::from(b >> 4));
        let fault = match () {
            () if ip.len() < 4 => Some(("truncated IP header", None)),
            () if version != 4 => Some(("IP version ", Some(version))),
            () if header < 20 => Some(("IP header length ", Some(header / 4))),
            () if total < header => Some(("IP length ", Some(total))),
            () => None,
        };
        if let Some((text, number)) = fault {
            facts.fault = Some(Fault(text, number));
            return facts;
        }
        let there = ip.len() as u32;
        if there > total {
            facts.tailpad = (there - total) as usize;
            facts.extra = facts.extra.saturating_add(there - total);
        } else if careful && there.saturating_add(facts.extra) < total {
            facts.fault = Some(Fault("truncated IP missing ", Some(total - there - facts.extra)));
        }
        facts.ip = &ip[..ip.len() - facts.tailpad];
        // `extra` is the number of missing bytes beyond the IP length. It is 0 unless the IP length field has
        // its largest value (0xffff), with which the packet may be longer than the field can say.
        let full = (facts.ip.len() as u32).saturating_add(facts.extra);
        facts.extra = if facts.extra > 0 && total == 0xffff { full.saturating_sub(0xffff) } else { 0 };
        facts.first = number(ip, 6, 2).is_none_or(|f| f & 0x1fff == 0);
        facts.behind = at + header as usize;
        facts.transport = facts.ip.get(header as usize..).unwrap_or_default();
        if facts.protocol() == Some(6) && facts.first && facts.transport.len() > 12 {
            let offset = u32::from(facts.transport[12] >> 4);
            if offset < 5 && facts.fault.is_none() {
                facts.fault = Some(Fault("TCP header length ", Some(offset)));
            }
        }
        facts
    }
}

impl<'p> Facts<'p> {
    fn protocol(&self) -> Option<u8> {
        self.ip.get(9).copied()
    }

    fn missing(&mut self, text: &'static str) {
        self.fault.get_or_insert(Fault(text, None));
    }

    /// Returns the `length` bytes at offset `at` of the IP header as a number; `None`, with an error noted in
    /// `fault`, if these bytes are missing.
    fn ip(&mut self, at: usize, length: usize) -> Option<u32> {
        let found = number(self.ip, at, length);
        if found.is_none() {
            self.missing(if self.ip.is_empty() { "no IP header" } else { "truncated IP header capture" });
        }
        found
    }

    /// Returns the `length` bytes at offset `at` of the transport header as a number; `None` if the packet
    /// has a protocol that is not in `protocols`. Missing bytes, a later fragment and a wrong TCP data offset
    /// also give `None`, with an error noted in `fault`.
    fn transport(&mut self, protocols: &[u8], at: usize, length: usize) -> Option<u32> {
        if self.ip.is_empty() {
            self.missing("no IP header");
            return None;
        }
        // A packet of another protocol does not have this field. That is not an error.
        if self.protocol().is_some_and(|protocol| !protocols.contains(&protocol)) {
            return None;
        }
        let bad_offset = protocols == [6] && self.transport.len() > 12 && self.transport[12] >> 4 < 5;
        let found = number(self.transport, at, length).filter(|_| self.first && !bad_offset);
        if found.is_none() {
            let missing = (at + length).saturating_sub(self.transport.len()) as u32;
            let captured = self.view.info.extra_length >= missing;
            let texts = match protocols {
                [6] => ["fragmented TCP header", "truncated TCP header capture", "truncated TCP header"],
                [17] => ["fragmented UDP header", "truncated UDP header capture", "truncated UDP header"],
                [1] => ["fragmented ICMP header", "truncated ICMP header capture", "truncated ICMP header"],
                _ => [
                    "fragmented TCP/UDP header",
                    "truncated TCP/UDP header capture",
                    "truncated TCP/UDP header",
                ],
            };
            self.missing(texts[if !self.first { 0 } else { 2 - usize::from(captured) }]);
        }
        found
    }

    /// Returns the offset of the payload from the first byte of `data`, and its length in bytes according to
    /// the headers. Without a valid IP header, all of `data` is payload.
    fn payload(&self) -> (usize, u32) {
        if self.ip.is_empty() {
            return (0, (self.view.data.len() - self.tailpad) as u32);
        }
        let total = number(self.ip, 2, 2).unwrap_or(0);
        let header = match self.protocol() {
            Some(6) if self.first => {
                self.transport.get(12).map_or(20, |byte| 4 * usize::from(byte >> 4).max(5))
            }
            Some(17 | 136) if self.first => 8,
            _ => 0,
        };
        let ip_header = 4 * usize::from(self.ip[0] & 15);
        (self.behind + header, total.saturating_sub((ip_header + header) as u32))
    }

    /// Returns the payload, as far as it is in `data`. `None` if it begins beyond `data`.
    fn payload_bytes(&self) -> Option<&'p [u8]> {
        let (at, length) = self.payload();
        let end = (at + length as usize).min(self.view.data.len() - self.tailpad);
        if length == 0 { Some(&[]) } else { self.view.data.get(at..end) }
    }

    fn ether(&mut self, at: usize, length: usize) -> Option<&'p [u8]> {
        let start = self.view.mac.or(self.view.network.is_none_or(|at| at >= 0).then_some(0));
        let network = self.view.network.unwrap_or(self.view.data.len() as isize);
        let found = start.filter(|start| start + 14 == network).and_then(|start| usize::try_from(start).ok());
        let found = found.and_then(|start| self.view.data.get(start + at..start + at + length));
        if found.is_none() {
            self.missing("Ethernet header");
        }
        found
    }

    /// Returns the option bytes of a header with 20 fixed bytes and `length` bytes in all; `None` if they
    /// are truncated.
    fn options(header: &'p [u8], length: usize) -> Option<&'p [u8]> {
        if length <= 20 { Some(&[]) } else { header.get(20..length) }
    }

    fn value(&mut self, field: SummaryField) -> Option<Value<'p>> {
        let info = self.view.info;
        let count = |n: u32| Some(Value::Number(n.into()));
        let icmp_flow = |facts: &mut Self, at| {
            let kind = facts.transport(&[1], 0, 1)?;
            [0, 8, 13, 14, 15, 16].contains(&kind).then_some(())?;
            facts.transport(&[1], at, 2)
        };
        let numbers = match field {
            SummaryField::Timestamp | SummaryField::NanoTimestamp => return Some(Value::Time(info.time)),
            SummaryField::FirstTimestamp | SummaryField::FirstNanoTimestamp => {
                return Some(Value::Time(info.first_time));
            }
            SummaryField::Seconds => Some(info.time.div_euclid(1_000_000_000) as u32),
            SummaryField::Microseconds => Some((info.time.rem_euclid(1_000_000_000) / 1_000) as u32),
            SummaryField::AllMicroseconds => return Some(Value::Number(info.time.max(0) as u64 / 1_000)),
            SummaryField::Count => Some(info.extra_packets.saturating_add(1)),
            SummaryField::Link | SummaryField::Paint | SummaryField::Direction => Some(info.paint.into()),
            SummaryField::Aggregate => Some(info.aggregate),
            SummaryField::WireLength => Some(self.view.data.len() as u32),
            SummaryField::Thread => Some(self.view.thread),
            SummaryField::EtherDestination => return self.ether(0, 6).map(Value::Ether),
            SummaryField::EtherSource => return self.ether(6, 6).map(Value::Ether),
            SummaryField::EtherType => self.ether(12, 2).map(|bytes| number(bytes, 0, 2).unwrap_or(0)),
            SummaryField::IpSource => return self.ip(12, 4).map(Value::Address),
            SummaryField::IpDestination => return self.ip(16, 4).map(Value::Address),
            SummaryField::IpTos => self.ip(1, 1),
            SummaryField::IpDscp => self.ip(1, 1).map(|tos| tos >> 2),
            SummaryField::IpEcn => self.ip(1, 1).map(|tos| tos & 3),
            SummaryField::IpTtl => self.ip(8, 1),
            SummaryField::IpId => self.ip(4, 2),
            SummaryField::IpChecksum => self.ip(10, 2),
            SummaryField::IpProtocol => self.ip(9, 1),
            SummaryField::IpHeaderLength => self.ip(0, 1).map(|first| 4 * (first & 15)),
            SummaryField::IpFragmentOffset => self.ip(6, 2),
            SummaryField::IpFragment => {
                return self.ip(6, 2).map(|word| {
                    Value::Letter(match (word & 0x1fff, word & 0x2000, word & 0x4000) {
                        (0, 0, 0) => '.',
                        (0, 0, _) => '!',
                        (0, _, _) => 'F',
                        _ => 'f',
                    })
                });
            }
            SummaryField::IpOptions => {
                let length = self.ip(0, 1).map(|first| 4 * (first & 15) as usize)?;
                let options = Self::options(self.ip, length);
                if options.is_none() {
                    self.missing("truncated IP header capture");
                }
                return options.map(Value::Options);
            }
            SummaryField::IpLength => {
                let length = (self.view.data.len() - self.tailpad) as u32;
                Some(number(self.ip, 2, 2).unwrap_or(length).saturating_add(self.extra))
            }
            SummaryField::IpCaptureLength if self.ip.is_empty() => Some(self.view.data.len() as u32),
            SummaryField::IpCaptureLength => Some(self.ip.len() as u32),
            SummaryField::SourcePort => self.transport(&[6, 17, 33, 136], 0, 2),
            SummaryField::DestinationPort => self.transport(&[6, 17, 33, 136], 2, 2),
            SummaryField::TcpSequence => self.transport(&[6], 4, 4),
            SummaryField::TcpAcknowledgment => self.transport(&[6], 8, 4),
            SummaryField::TcpOffset => self.transport(&[6], 12, 1).map(|byte| 4 * (byte >> 4)),
            SummaryField::TcpFlags => self.transport(&[6], 12, 2).map(|word| word & 0xfff),
            SummaryField::TcpWindow => self.transport(&[6], 14, 2),
            SummaryField::TcpUrgent => self.transport(&[6], 18, 2),
            SummaryField::TcpOptions | SummaryField::TcpOtherOptions | SummaryField::TcpSack => {
                let length = self.transport(&[6], 12, 1).map(|byte| 4 * (byte >> 4) as usize)?;
                let options = Self::options(self.transport, length);
                if options.is_none() {
                    self.transport(&[6], length - 1, 1);
                }
                return options.map(Value::Options);
            }
            SummaryField::UdpLength => self.transport(&[17], 4, 2),
            SummaryField::IcmpType | SummaryField::IcmpTypeName => self.transport(&[1], 0, 1),
            SummaryField::IcmpCode | SummaryField::IcmpCodeName => self.transport(&[1], 1, 1),
            SummaryField::IcmpFlowId => icmp_flow(self, 4),
            SummaryField::IcmpSequence => icmp_flow(self, 6),
            SummaryField::IcmpNextMtu => match self.transport(&[1], 0, 2)? {
                // Type 3 (destination unreachable), code 4 (fragmentation needed): the message has the MTU
                // of the next hop.
                0x0304 => self.transport(&[1], 6, 2),
                _ => None,
            },
            SummaryField::PayloadLength => Some(self.payload().1.saturating_add(self.extra)),
            SummaryField::Payload => return self.payload_bytes().map(Value::Payload),
            SummaryField::PayloadMd5 | SummaryField::PayloadMd5Hex => {
                return self.payload_bytes().map(|payload| Value::Digest(Md5::digest(payload).into()));
            }
        };
        numbers.and_then(count)
    }

    fn write(&self, field: SummaryField, value: Value<'_>, out: &mut String) {
        // Errors can be ignored: writing to a string cannot fail.
        let _ = match (field, value) {
            (_, Value::Address(address)) => write!(out, "{}", Ipv4Addr::from_bits(address)),
            (_, Value::Letter(letter)) => write!(out, "{letter}"),
            (_, Value::Time(time)) => write_time(out, time),
            (_, Value::Ether(address)) => address.iter().enumerate().try_for_each(|(i, byte)| {
                let separator = if i > 0 { "-" } else { "" };
                write!(out, "{separator}{byte:02X}")
            }),
            (SummaryField::IpOptions, Value::Options(options)) => {
                describe_ip(out, options);
                Ok(())
            }
            (_, Value::Options(options)) => {
                let chosen = match field {
                    SummaryField::TcpSack => Chosen::Sack,
                    SummaryField::TcpOtherOptions => Chosen::Others,
                    _ => Chosen::All,
                };
                describe_tcp(out, options, chosen);
                Ok(())
            }
            (_, Value::Payload(payload)) => {
                quote(out, payload);
                Ok(())
            }
            (SummaryField::PayloadMd5Hex, Value::Digest(digest)) => {
                digest.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            (_, Value::Digest(digest)) => {
                out.extend(digest_letters(digest));
                Ok(())
            }
            (SummaryField::EtherType, Value::Number(number)) => write!(out, "{number:04X}"),
            (SummaryField::IpProtocol, Value::Number(number)) => match number {
                1 => write!(out, "I"),
                6 => write!(out, "T"),
                17 => write!(out, "U"),
                _ => write!(out, "{number}"),
            },
            (SummaryField::IpEcn, Value::Number(number)) => {
                write!(out, "{}", ["no", "ect1", "ect2", "ce"][number as usize & 3])
            }
            (SummaryField::IpFragmentOffset, Value::Number(word)) => {
                let more = if word & 0x2000 != 0 { "+" } else { "" };
                let whole = if word & 0x4000 != 0 { "!" } else { "" };
                write!(out, "{}{more}{whole}", (word & 0x1fff) * 8)
            }
            (SummaryField::TcpFlags, Value::Number(0)) => write!(out, "."),
            (SummaryField::TcpFlags, Value::Number(24)) => write!(out, "PA"),
            (SummaryField::TcpFlags, Value::Number(flags)) => {
                out.extend(
                    "FSRPAUECN".chars().enumerate().filter(|(i, _)| flags >> i & 1 == 1).map(|(_, c)| c),
                );
                Ok(())
            }
            (SummaryField::Direction, Value::Number(0)) => write!(out, ">"),
            (SummaryField::Direction, Value::Number(1)) => write!(out, "<"),
            (SummaryField::IcmpTypeName, Value::Number(kind)) => match super::field_names::icmp_type(kind) {
                Some(name) => write!(out, "{name}"),
                None => write!(out, "{kind}"),
            },
            (SummaryField::IcmpCodeName, Value::Number(code)) => {
                let kind = self.transport.first().copied().unwrap_or(0);
                match super::field_names::icmp_code(kind, code) {
                    Some(name) => write!(out, "{name}"),
                    None => write!(out, "{code}"),
                }
            }
            (_, Value::Number(number)) => write!(out, "{number}"),
        };
    }
}

/// Writes a time in nanoseconds as seconds with six decimals, or with nine if six would lose digits.
fn write_time(out: &mut String, time: i64) -> fmt::Result {
    let (sign, time) = (if time < 0 { "-" } else { "" }, time.unsigned_abs());
    let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
    match nanoseconds % 1_000 {
        0 => write!(out, "{sign}{seconds}.{:06}", nanoseconds / 1_000),
        _ => write!(out, "{sign}{seconds}.{nanoseconds:09}"),
    }
}

/// Writes bytes as a string in double quotes. `\`, `"` and `$` get a backslash; tabs and line breaks become
/// `\t`, `\n` and `\r`, other bytes that are not printable ASCII a backslash and three octal digits.
fn quote(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for &byte in bytes {
        // Errors can be ignored: writing to a string cannot fail.
        let _ = match byte {
            b'\\' | b'"' | b'$' => write!(out, "\\{}", char::from(byte)),
            b'\t' => write!(out, "\\t"),
            b'\n' => write!(out, "\\n"),
            b'\r' => write!(out, "\\r"),
            b' '..=b'~' => write!(out, "{}", char::from(byte)),
            _ => write!(out, "\\{byte:03o}"),
        };
    }
    out.push('"');
}

/// Returns the 128 bits of an MD5 hash as 22 characters of six bits each, lowest bits first, as Click writes
/// them.
fn digest_letters(digest: [u8; 16]) -> impl Iterator<Item = char> {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = u128::from_le_bytes(digest);
    (0..128).step_by(6).map(move |at| char::from(LETTERS[(bits >> at) as usize & 63]))
}
