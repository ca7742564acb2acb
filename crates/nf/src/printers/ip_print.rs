//! # IPPrint
//! Prints each IPv4 packet in the style of tcpdump.
//!
//! A line has the label, time stamp, aggregate and paint, and the requested fields of the IP header. Then
//! follow addresses, ports, the contents of the TCP, UDP or ICMP header and, for fragments, their offset.
//! Lines go to standard error or to a file. Packets without a network header annotation pass and are not
//! printed.
//!
//! ## Usage
//! `IPPrint([LABEL, KEYWORDS])`
//!
//! ## Arguments
//! - `LABEL`: text at the start of each line.
//! - `CONTENTS`: the form in which the packet's bytes are printed after the line: `NONE`, `HEX` or `ASCII`.
//! - `PAYLOAD`: like CONTENTS, for the bytes after the TCP or UDP header, or after the IP header of other
//!   packets and of later fragments; not together with CONTENTS.
//! - `MAXLENGTH`: the maximum number of bytes to print; -1 for all.
//! - `NBYTES`: another name of MAXLENGTH.
//! - `TIMESTAMP`: if true, prints the time stamp.
//! - `ID`, `TOS`, `TTL`, `LENGTH`: if true, prints these fields of the IP header.
//! - `AGGREGATE`, `PAINT`: if true, prints these annotations.
//! - `VLAN`, `ETHER`: if true, prints the VLAN annotation, and the addresses of the Ethernet header.
//! - `SWAP`: if false, the identifier and sequence number of ICMP echo messages are shown in the machine's
//!   byte order.
//! - `ACTIVE`: if false, prints nothing.
//! - `OUTFILE`: a file to which text is written instead of standard error, on a live run within a second.
//! - `CHANNEL`: a channel for the text instead of standard error. Only ChatterSockets with this channel send
//!   it to their clients; without such an element, the text is lost.
//!
//! ## Handlers
//! - `active`: true if packets are printed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPPrint(in, TTL true) -> Discard
//! ```
//!
//! ## See also
//! Print, ARPPrint, CheckIPHeader

use std::fmt::Write;

use element::args::Raw;
use element::class::ArgInfo;
use element::effects::{Field, PAINT};
use element::{Base, Class, Packet, manual};
use lang::args::unquote;
use packet::Annotations;
use wire::{FromBytes, icmp, icmp_names, ip_protocol, ipv4, tcp};

use super::arp_print::ethernet;
use super::{Contents, Describe, Layout, Printer, Printing, at_most, bytes_from, dump};

/// The element class `IPPrint`.
pub static CLASS: Class = Class {
    name: "IPPrint",
    manual: manual!("ip_print.rs"),
    args: &[
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::keyword("CONTENTS", "word", "NONE"),
        ArgInfo::keyword("PAYLOAD", "word", "false"),
        ArgInfo::keyword("MAXLENGTH", "int", "1500"),
        ArgInfo::keyword("NBYTES", "int", "").computed("MAXLENGTH"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("ID", "bool", "false"),
        ArgInfo::keyword("TOS", "bool", "false"),
        ArgInfo::keyword("TTL", "bool", "false"),
        ArgInfo::keyword("LENGTH", "bool", "false"),
        ArgInfo::keyword("AGGREGATE", "bool", "false"),
        ArgInfo::keyword("PAINT", "bool", "false"),
        ArgInfo::keyword("VLAN", "bool", "false"),
        ArgInfo::keyword("ETHER", "bool", "false"),
        ArgInfo::keyword("SWAP", "bool", "true"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("OUTFILE", "file", ""),
        ArgInfo::keyword("CHANNEL", "word", ""),
    ],
    table: &Printing::<IpPrint>::HANDLERS,
    samples: &[
        "",
        "x, CONTENTS HEX, ID true, TOS true, TTL true, LENGTH true, AGGREGATE true, PAINT true, VLAN true, ETHER true",
        "PAYLOAD ASCII, MAXLENGTH -1, OUTFILE $OUTPUT",
    ],
    build: |args| {
        let Raw(word) = args.value("CONTENTS");
        let contents = Contents::from_word(args, &word);
        let Raw(word) = args.value("PAYLOAD");
        let word = unquote(&word);
        let payload = Contents::parse(&word).filter(|_| !word.eq_ignore_ascii_case("NONE"));
        let payload = payload.unwrap_or_else(|| {
            let word = word.to_ascii_uppercase();
            args.error(format!("bad payload value '{word}'; should be 'false', 'hex', or 'ascii'"));
            Contents::None
        });
        let wanted = |contents| Some(contents).filter(|contents| *contents != Contents::None);
        let (contents, payload) = (wanted(contents), wanted(payload));
        if contents.is_some() && payload.is_some() {
            args.error("specify at most one of PAYLOAD and CONTENTS");
        }
        let (most, older): (i64, Option<i64>) = (args.value("MAXLENGTH"), args.get("NBYTES"));
        let print = IpPrint {
            label: args.get("LABEL").unwrap_or_default(),
            contents,
            payload,
            most: at_most(older.filter(|_| !args.was_given("MAXLENGTH")).unwrap_or(most)),
            timestamp: args.value("TIMESTAMP"),
            id: args.value("ID"),
            tos: args.value("TOS"),
            ttl: args.value("TTL"),
            length: args.value("LENGTH"),
            aggregate: args.value("AGGREGATE"),
            paint: args.value("PAINT"),
            vlan: args.value("VLAN"),
            ether: args.value("ETHER"),
            swap: args.value("SWAP"),
        };
        let active = args.value::<bool>("ACTIVE");
        let printer = Printer::new(args.get("OUTFILE")).on_channel(args.get("CHANNEL"));
        args.finish()?;
        Ok(Box::new(Printing::new(print, active, printer)))
    },
    ..Class::DEFAULT
};

struct IpPrint {
    label: String,
    contents: Option<Contents>,
    payload: Option<Contents>,
    most: usize,
    timestamp: bool,
    id: bool,
    tos: bool,
    ttl: bool,
    length: bool,
    aggregate: bool,
    paint: bool,
    vlan: bool,
    ether: bool,
    swap: bool,
}

/// The parts of a packet from which its line is made.
struct Parts<'p> {
    ip: &'p ipv4::Header,
    /// The number of bytes after the IP header, computed from its total length field; the packet may have
    /// fewer.
    length: usize,
    /// The bytes after the IP header, without padding of short Ethernet frames: as far as they lie in the
    /// packet's first slot and within the total length that the IP header gives.
    transport: &'p [u8],
    /// The length of the whole packet in bytes, from the start of its data.
    packet: usize,
    swap: bool,
}

impl Parts<'_> {
    fn is_first(&self) -> bool {
        self.ip.fragment_offset() == 0
    }

    /// Appends source and destination: `A > B: `, or `A.PORT > B.PORT: ` if the ports are known.
    fn ends(&self, text: &mut String, ports: Option<(u16, u16)>) {
        let (from, to) = (self.ip.source_addr(), self.ip.destination_addr());
        let _ = match ports {
            Some((source, target)) => write!(text, "{from}.{source} > {to}.{target}: "),
            None => write!(text, "{from} > {to}: "),
        };
    }

    /// Appends source and destination, with the ports. If the packet does not have the ports, appends the
    /// name of the protocol instead and returns false: then nothing else of the transport header can be
    /// printed.
    fn with_ports(&self, text: &mut String, protocol: &str) -> bool {
        let whole = if self.is_first() { self.transport.first_chunk::<4>() } else { None };
        self.ends(text, whole.map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))));
        if whole.is_none() {
            text.push_str(if self.is_first() { "truncated-" } else { "" });
            text.push_str(protocol);
        }
        whole.is_some()
    }

    fn tcp(&self, text: &mut String) {
        if !self.with_ports(text, "tcp") {
            return;
        }
        let bytes = self.transport;
        let Some(&[_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags]) = bytes.first_chunk() else {
            return text.push_str("truncated-tcp");
        };
        let letters =
            [(tcp::flags::SYN, 'S'), (tcp::flags::FIN, 'F'), (tcp::flags::RST, 'R'), (tcp::flags::PSH, 'P')];
        let set = letters.iter().filter(|(bit, _)| flags & bit != 0);
        let before = text.len();
        text.extend(set.map(|(_, letter)| letter));
        if text.len() == before {
            text.push('.');
        }
        let control = [tcp::flags::SYN, tcp::flags::FIN].iter().filter(|&bit| flags & bit != 0).count();
        let header = u32::from(offset >> 4) * 4;
        // With an invalid TCP header length, the payload length may be negative, and is shown as such.
        let length = self.length as i64 - i64::from(header) + control as i64;
        let sequence = u32::from_be_bytes([s0, s1, s2, s3]);
        let end = sequence.wrapping_add(length as u32);
        let (packet, whole) = (self.packet, self.ip.total_length.get());
        let _ = write!(text, " {sequence}:{end}({length},{packet},{whole})");
        if flags & tcp::flags::ACK != 0 {
            let _ = write!(text, " ack {}", u32::from_be_bytes([a0, a1, a2, a3]));
        }
        match bytes.get(14..16) {
            Some(&[w0, w1]) => drop(write!(text, " win {}", u16::from_be_bytes([w0, w1]))),
            _ => text.push_str("truncated-tcp"),
        }
    }

    fn udp(&self, text: &mut String) {
        if !self.with_ports(text, "udp") {
            return;
        }
        match self.transport.first_chunk::<8>() {
            Some(udp) => drop(write!(text, "udp {}", u16::from_be_bytes([udp[4], udp[5]]))),
            None => text.push_str("truncated-udp"),
        }
    }

    fn icmp(&self, text: &mut String) {
        self.ends(text, None);
        if !self.is_first() {
            return text.push_str("icmp");
        }
        let &[kind, code, ..] = self.transport else { return text.push_str("truncated-icmp") };
        let named = icmp_names::code_name(kind, code);
        match kind {
            icmp::kind::ECHO | icmp::kind::ECHO_REPLY => {
                text.push_str(if kind == icmp::kind::ECHO { "icmp echo " } else { "icmp echo-reply " });
                match self.transport.first_chunk::<8>() {
                    Some(&[_, _, _, _, i0, i1, s0, s1]) => {
                        let show = |bytes| {
                            if self.swap { u16::from_be_bytes(bytes) } else { u16::from_ne_bytes(bytes) }
                        };
                        let _ = write!(text, "({}, {})", show([i0, i1]), show([s0, s1]));
                    }
                    None => text.push_str("truncated-icmp"),
                }
            }
            icmp::kind::UNREACHABLE => self.unreachable(text, code, named),
            _ => {
                let _ = match icmp_names::kind_name(kind) {
                    Some(name) => write!(text, "icmp {name}"),
                    None => write!(text, "icmp type {kind}"),
                };
                let _ = match named {
                    Some(name) => write!(text, " {name}"),
                    None if code != 0 => write!(text, " code {code}"),
                    None => Ok(()),
                };
            }
        }
    }

    /// Appends the description of an ICMP unreachable message with this code and the code's name. It shows
    /// the destination, protocol and port of the packet that the message quotes, as far as they explain the
    /// code.
    fn unreachable(&self, text: &mut String, code: u8, name: Option<&str>) {
        let quoted = self.transport.get(icmp::Header::LEN..).unwrap_or_default();
        let header = ipv4::Header::ref_from_prefix(quoted).ok();
        let _ = match header {
            Some((ip, _)) => write!(text, "icmp {} unreachable ", ip.destination_addr()),
            None => write!(text, "icmp unreachable "),
        };
        let _ = match name {
            Some(name) => write!(text, "{name}"),
            None => write!(text, "code {code}"),
        };
        let Some((ip, _)) = header else { return text.push_str(" truncated-icmp") };
        match code {
            2 | 3 => {
                let _ = match ip_name(ip.protocol) {
                    Some(name) => write!(text, " {name}"),
                    None if code == 2 => write!(text, " {}", ip.protocol),
                    None => write!(text, " protocol {}", ip.protocol),
                };
                let ports = quoted.get(ip.header_len()..).and_then(|transport| transport.first_chunk::<4>());
                match ports {
                    _ if code == 2 => {}
                    Some(ports) => drop(write!(text, "/{}", u16::from_be_bytes([ports[2], ports[3]]))),
                    None => text.push_str("truncated-icmp"),
                }
            }
            4 => match self.transport.get(6..8) {
                Some(&[0, 0]) | None => {}
                Some(mtu) => drop(write!(text, " (mtu {})", u16::from_be_bytes([mtu[0], mtu[1]]))),
            },
            _ => {}
        }
    }

    fn fragment(&self, text: &mut String) {
        if self.ip.is_fragment() {
            let (id, offset) = (self.ip.id.get(), self.ip.fragment_offset());
            let more = if self.ip.more_fragments() { "+" } else { "" };
            let _ = write!(text, " (frag {id}:{}@{offset}{more})", self.length);
        }
    }
}

/// Returns the name of a protocol if Click has a name for it; `None` otherwise, so that lines are the same
/// as Click's.
fn ip_name(protocol: u8) -> Option<&'static str> {
    ip_protocol::name(protocol).filter(|_| matches!(protocol, 1 | 2 | 4 | 6 | 17 | 33 | 47 | 132))
}

impl IpPrint {
    fn prefix(&self, packet: &Packet, text: &mut String) {
        if !self.label.is_empty() {
            let _ = write!(text, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(text, "{}: ", packet.time());
        }
        let annotations = packet.annotations();
        if self.aggregate {
            let _ = write!(text, "#{}", annotations.u32(Annotations::AGGREGATE));
        }
        if self.vlan {
            let bytes = [0, 1].map(|i| annotations.u8(Annotations::VLAN_TCI + i));
            let _ = write!(text, " VLAN:{}", u16::from_be_bytes(bytes));
        }
        if self.paint {
            let lead = if self.aggregate { "." } else { "paint " };
            let _ = write!(text, "{lead}{}", annotations.u8(Annotations::PAINT));
        }
        if self.aggregate || self.paint || self.vlan {
            text.push_str(": ");
        }
        if self.ether {
            ethernet(text, packet, Base::Mac);
        }
    }

    /// Appends the dump that CONTENTS or PAYLOAD asks for; `payload` is the offset, from the start of the
    /// packet, of the first byte that PAYLOAD prints.
    fn dump_contents(&self, packet: &Packet, text: &mut String, payload: usize) {
        let (contents, start) = match (self.contents, self.payload) {
            (Some(contents), _) => (contents, 0),
            (None, Some(contents)) => (contents, payload),
            (None, None) => return,
        };
        let layout = match contents {
            Contents::Ascii => Layout { group: 8, line: Some(48), leads: false },
            _ => Layout { group: 4, line: Some(24), leads: false },
        };
        dump(text, bytes_from(packet, start, self.most), contents, layout);
    }
}

impl Describe for IpPrint {
    fn seen(&self) -> Vec<Field> {
        let aggregate = Field::Annotation { offset: Annotations::AGGREGATE as u8, length: 4 };
        let vlan = Field::Annotation { offset: Annotations::VLAN_TCI as u8, length: 2 };
        let seen = [
            (true, Field::Length),
            (true, Field::Payload),
            (true, Field::HeaderOffset(Base::Network)),
            (self.timestamp, Field::TimeStamp),
            (self.aggregate, aggregate),
            (self.vlan, vlan),
            (self.paint, PAINT),
        ];
        seen.into_iter().filter(|(seen, _)| *seen).map(|(_, field)| field).collect()
    }

    fn describe(&mut self, packet: &Packet, text: &mut String) -> Option<()> {
        let offset = packet.offset(Base::Network)?;
        self.prefix(packet, text);
        let bytes = packet.header(Base::Network).unwrap_or_default();
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(bytes) else {
            text.push_str("truncated-ip");
            return Some(());
        };
        let fields = [
            (self.id, "id", ip.id.get()),
            (self.ttl, "ttl", ip.ttl.into()),
            (self.tos, "tos", ip.tos.into()),
            (self.length, "length", ip.total_length.get()),
        ];
        for (_, name, value) in fields.iter().filter(|(wanted, ..)| *wanted) {
            let _ = write!(text, "{name} {value} ");
        }
        let header = ip.header_len();
        let length = usize::from(ip.total_length.get()).saturating_sub(header);
        let transport = bytes.get(header..).unwrap_or_default();
        let transport = &transport[..length.min(transport.len())];
        let parts = Parts { ip, length, transport, packet: packet.len(), swap: self.swap };
        match ip.protocol {
            ip_protocol::TCP => parts.tcp(text),
            ip_protocol::UDP => parts.udp(text),
            ip_protocol::ICMP => parts.icmp(text),
            other => {
                parts.ends(text, None);
                let _ = write!(text, "ip-proto-{other}");
            }
        }
        parts.fragment(text);
        let inner = match ip.protocol {
            _ if !parts.is_first() => 0,
            ip_protocol::TCP => transport.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4),
            ip_protocol::UDP => 8,
            _ => 0,
        };
        self.dump_contents(packet, text, (offset + (header + inner) as isize).max(0) as usize);
        Some(())
    }
}
