//! # CheckIPHeader
//! Checks IPv4 headers, and sets the header annotations of good packets.
//!
//! A packet is good if it has at least 20 bytes, version 4, a header length of at least 20 bytes, a total length
//! that covers the header and lies within the packet, a right checksum, and no bad source address. The network
//! and transport header annotations are set, the destination address annotation becomes the destination, and
//! bytes behind the total length (link padding) are cut off. Bad packets go to output 1, or are dropped.
//!
//! ## Usage
//! `CheckIPHeader([OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: where the IP header starts.
//! - `INTERFACES`: addresses of the router with their prefixes: the broadcast addresses of the prefixes, 0.0.0.0
//!   and 255.255.255.255 are bad sources, and packets to the addresses are good whatever their source.
//! - `BADSRC`: further bad source addresses.
//! - `GOODDST`: further destinations that are good whatever the source.
//! - `CHECKSUM`: whether to check the checksum.
//! - `VERBOSE`: whether to report every bad packet, not only the first.
//! - `DETAILS`: whether to count by reason (the counts are there anyway).
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//! - `drop_details`: bad packets by reason.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> Discard
//! ```
//!
//! ## See also
//! MarkIPHeader, DecIPTTL

use std::net::Ipv4Addr;

use element::args::{Arg, Ipv4Prefix, Place, Raw};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Action, Case, DST_IP, Field, Filter, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::Annotations;
use wire::{FromBytes, checksum, ipv4};

/// The class.
pub static CLASS: Class = Class {
    name: "CheckIPHeader",
    aliases: &["CheckIPHeader2"],
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_ip_header.rs"),
    args: &[
        ArgInfo::positional("OFFSET", "unsigned", "0"),
        ArgInfo::keyword("INTERFACES", "prefixes", ""),
        ArgInfo::keyword("BADSRC", "addresses", ""),
        ArgInfo::keyword("GOODDST", "addresses", ""),
        ArgInfo::keyword("CHECKSUM", "bool", "true"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("DETAILS", "bool", "false"),
    ],
    handlers: &[HandlerInfo::read("count"), HandlerInfo::read("drops"), HandlerInfo::read("drop_details")],
    samples: &[
        "14",
        "14, CHECKSUM false -> 1/2",
        "OFFSET 14, INTERFACES 10.0.0.1/8 1.2.3.4/24, VERBOSE true",
    ],
    build: |args| {
        let offset = args.or("OFFSET", 0u32) as usize;
        if offset > packet::MAX_PACKET {
            args.error(format!("OFFSET: out of range, bound {}", packet::MAX_PACKET));
        }
        let Prefixes(interfaces) = args.or("INTERFACES", Prefixes::default());
        let Addresses(mut bad_sources) = args.or("BADSRC", Addresses::default());
        let Addresses(mut good_destinations) = args.or("GOODDST", Addresses::default());
        for Ipv4Prefix { address, mask } in &interfaces {
            bad_sources.push(address.to_bits() | !mask.to_bits());
            good_destinations.push(address.to_bits());
        }
        if !interfaces.is_empty() {
            bad_sources.extend([0, u32::MAX]);
        }
        bad_sources.sort_unstable();
        good_destinations.sort_unstable();
        let checksum = args.or("CHECKSUM", true);
        let checks =
            Checks { offset, bad_sources, good_destinations, checksum, sets_destination: true, usual: false };
        let report = Tally { verbose: args.or("VERBOSE", false), good: 0, bad: [0; REASONS.len()] };
        args.or("DETAILS", false);
        args.finish()?;
        Ok(Box::new(CheckIpHeader { checks, report }))
    },
    ..Class::DEFAULT
};

/// A list of prefixes separated by spaces.
#[derive(Default)]
struct Prefixes(Vec<Ipv4Prefix>);

impl Arg for Prefixes {
    fn parse(text: &str, place: &Place<'_>) -> Result<Prefixes, String> {
        let Raw(text) = Raw::parse(text, place)?;
        text.split_whitespace()
            .map(|word| Ipv4Prefix::parse(word, place))
            .collect::<Result<_, _>>()
            .map(Prefixes)
    }
}

/// A list of addresses separated by spaces.
#[derive(Default)]
struct Addresses(Vec<u32>);

impl Arg for Addresses {
    fn parse(text: &str, place: &Place<'_>) -> Result<Addresses, String> {
        let words = text.split_whitespace().map(|word| Ipv4Addr::parse(word, place).map(Ipv4Addr::to_bits));
        words.collect::<Result<_, _>>().map(Addresses)
    }
}

/// What can be wrong, in the order in which it is checked.
const REASONS: [(&str, DropReason); 6] = [
    ("tiny packet", DropReason::TooShort),
    ("bad IP version", DropReason::BadIpHeader),
    ("bad IP header length", DropReason::BadIpHeader),
    ("bad IP length", DropReason::BadIpHeader),
    ("bad IP checksum", DropReason::BadIpChecksum),
    ("bad source address", DropReason::BadSource),
];

struct CheckIpHeader {
    checks: Checks,
    report: Tally,
}

/// What is checked.
struct Checks {
    offset: usize,
    /// Sorted.
    bad_sources: Vec<u32>,
    /// Sorted.
    good_destinations: Vec<u32>,
    checksum: bool,
    /// Whether anybody reads the destination address annotation.
    sets_destination: bool,
    /// Whether the checksum is all that there is to look at: no bad sources, no destination wanted.
    usual: bool,
}

/// What came of it.
struct Tally {
    verbose: bool,
    good: u64,
    bad: [u64; REASONS.len()],
}

impl Checks {
    /// Checks one packet and prepares it; the number of what is wrong with it otherwise.
    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        // Nearly all packets have no options, no padding, and nothing wrong with them.
        let offset = self.offset;
        let header = packet.data().get(offset..offset + ipv4::Header::LEN);
        if let Some(Ok(ip)) = header.map(ipv4::Header::ref_from_bytes)
            && ip.version_ihl == 0x45
            && offset + usize::from(ip.total_length.get()) == packet.len()
            && self.usual
            && checksum::ipv4_plain_valid(ip)
        {
            packet.set_headers(offset, offset + ipv4::Header::LEN);
            return Ok(());
        }
        self.check_all(packet)
    }

    /// The same for whatever comes.
    #[inline(never)]
    fn check_all(&self, packet: &mut Packet) -> Result<(), usize> {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(data) else { return Err(0) };
        let header_length = ip.header_len();
        if ip.version() != 4 {
            return Err(1);
        }
        if header_length < ipv4::Header::LEN {
            return Err(2);
        }
        let total = usize::from(ip.total_length.get());
        if total > packet.len() - self.offset || total < header_length {
            return Err(3);
        }
        let Some(header) = data.get(..header_length) else { return Err(3) };
        if self.checksum && !checksum::ipv4_valid(header) {
            return Err(4);
        }
        self.accept(packet, header_length, self.offset + total)
    }

    /// What is done with a sound header of a packet that ends at `end`.
    fn accept(&self, packet: &mut Packet, header_length: usize, end: usize) -> Result<(), usize> {
        if !self.bad_sources.is_empty() && self.is_bad_source(packet) {
            return Err(5);
        }
        packet.set_headers(self.offset, self.offset + header_length);
        packet.truncate(end);
        if self.sets_destination
            && let Some(destination) = packet.data().get(self.offset + 16..).and_then(|d| d.first_chunk())
        {
            let destination = *destination;
            packet.annotations_mut().set_array4(Annotations::DST_IP, destination);
        }
        Ok(())
    }

    #[cold]
    fn is_bad_source(&self, packet: &Packet) -> bool {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(data) else { return false };
        self.bad_sources.binary_search(&ip.source.get()).is_ok()
            && self.good_destinations.binary_search(&ip.destination.get()).is_err()
    }
}

impl Tally {
    #[cold]
    fn reject(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: usize) {
        let (text, drop) = REASONS[reason];
        if self.verbose || self.bad.iter().all(|&n| n == 0) {
            let name = cx.name().to_string();
            cx.message(format_args!("{name}: IP header check failed: {text}\n"));
        }
        self.bad[reason] += 1;
        cx.emit_one(1, packet, drop);
    }
}

impl Element for CheckIpHeader {
    fn effects(&self) -> Effects {
        let header = Field::Bytes { base: Base::Data, offset: self.checks.offset as i32, length: 60 };
        let sound = Filter::Opaque { about: "sound IPv4 header", reads: vec![Field::Length, header.clone()] };
        let at = |base: i32, length| Field::Bytes {
            base: Base::Data,
            offset: self.checks.offset as i32 + base,
            length,
        };
        let start = Value::Constant((self.checks.offset as u32).to_be_bytes().to_vec());
        let good = Case::new(sound, Target::Output(0))
            .with(Action::Set(Field::HeaderOffset(Base::Network), start))
            .with(Action::Set(
                Field::HeaderOffset(Base::Transport),
                Value::Pure { name: "behind the IP header", reads: vec![at(0, 1)] },
            ))
            .with(Action::Resize(vec![at(2, 2)]))
            .with(Action::Set(DST_IP, Value::Copy(at(16, 4))));
        Effects::cases(vec![good, Case::new(Filter::Any, Target::Output(1))])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let checks = &mut self.checks;
        checks.sets_destination = cx.facts().annotation_read(Annotations::DST_IP, 4);
        checks.usual = checks.checksum && !checks.sets_destination && checks.bad_sources.is_empty();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { checks, report } = self;
        batch.sift(|packet| checks.check(packet), |packet, reason| report.reject(cx, packet, reason));
        report.good += batch.len() as u64;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(match name {
            "count" => self.report.good.to_string(),
            "drops" => self.report.bad.iter().sum::<u64>().to_string(),
            _ => REASONS.iter().zip(self.report.bad).map(|((text, _), n)| format!("{n}\t{text}\n")).collect(),
        })
    }
}
