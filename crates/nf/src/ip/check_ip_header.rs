//! # CheckIPHeader
//! Checks IPv4 headers, and sets the header annotations of good packets.
//!
//! A packet is good if it has at least 20 bytes, version 4, a header length of at least 20 bytes, a total
//! length that covers the header and lies within the packet, a correct checksum, and no bad source address.
//! In good packets, the network and transport header annotations are set, the destination address
//! annotation becomes the destination, and bytes after the total length (link padding) are cut off. Bad
//! packets leave by output 1, or are dropped.
//!
//! ## Usage
//! `CheckIPHeader([OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the IP header.
//! - `INTERFACES`: addresses of the router with their prefixes: the broadcast addresses of the prefixes,
//!   0.0.0.0 and 255.255.255.255 are bad sources, and packets to the addresses are good with any source.
//! - `BADSRC`: further bad source addresses.
//! - `GOODDST`: further destinations to which packets are good with any source.
//! - `CHECKSUM`: true to check the checksum.
//! - `VERBOSE`: true to report every bad packet, not only the first.
//! - `DETAILS`: if true, there is a handler `drop_details`: bad packets by reason.
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader2, CheckIP6Header, MarkIPHeader, DecIPTTL

use std::net::Ipv4Addr;

use classify::IntervalSet;
use element::args::{ArgType, Ipv4Prefix, Raw, Scope};
use element::class::ArgInfo;
use element::effects::{Action, DST_IP, Field, Filter, HeaderKind, Number, Predicate, Value};
use element::{Args, Base, Class, Cx, DropReason, Effects, Element, Invalid, Packet, manual};
use packet::Annotations;
use wire::{FromBytes, checksum, ipv4};

use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{bytes, checked, header_at, header_behind, ipv4_header_length, ipv4_total, within};

/// The element class `CheckIPHeader`.
pub static CLASS: Class = DESCRIPTION;

pub(super) const DESCRIPTION: Class = Class {
    name: "CheckIPHeader",
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
    table: &Checker::<Checks>::HANDLERS,
    state: Checker::<Checks>::STATE,
    samples: &[
        "14",
        "14, CHECKSUM false -> 1/2",
        "OFFSET 14, INTERFACES 10.0.0.1/8 1.2.3.4/24, VERBOSE true, DETAILS true",
    ],
    build: |args| build(args, &CLASS),
    ..Class::DEFAULT
};

/// Makes a CheckIPHeader or a CheckIPHeader2, which differ only in the default of CHECKSUM.
pub(super) fn build(args: &mut Args<'_>, class: &'static Class) -> Result<Box<dyn Element>, Invalid> {
    let offset = args.value::<u32>("OFFSET") as usize;
    if offset > packet::MAX_PACKET {
        args.too_large("OFFSET", packet::MAX_PACKET);
    }
    let checksum = args.value("CHECKSUM");
    let checks = Checks::read(args, offset, checksum);
    Checker::boxed(args, class, checks)
}

/// A list of IPv4 prefixes in an argument, separated by spaces.
#[derive(Default)]
struct Prefixes(Vec<Ipv4Prefix>);

impl ArgType for Prefixes {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Prefixes, String> {
        let Raw(text) = Raw::parse(text, place)?;
        text.split_whitespace()
            .map(|word| Ipv4Prefix::parse(word, place))
            .collect::<Result<_, _>>()
            .map(Prefixes)
    }
}

/// A list of IPv4 addresses in an argument, separated by spaces.
#[derive(Default)]
pub(crate) struct Addresses(pub(crate) Vec<u32>);

impl ArgType for Addresses {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Addresses, String> {
        let words = text.split_whitespace().map(|word| Ipv4Addr::parse(word, place).map(Ipv4Addr::to_bits));
        words.collect::<Result<_, _>>().map(Addresses)
    }
}

/// The settings of an element that checks IPv4 headers.
pub(super) struct Checks {
    offset: usize,
    /// The source addresses that make a packet bad, sorted. They include the broadcast addresses of the
    /// interfaces.
    bad_sources: Vec<u32>,
    /// The destinations to which packets are good whatever their source is, sorted.
    good_destinations: Vec<u32>,
    checksum: bool,
    /// True if an element of the graph reads the destination address annotation. Otherwise it is not set.
    sets_destination: bool,
    /// True if [`check`](HeaderCheck::check) may use its fast path: the checksum is checked, and there are no
    /// bad sources.
    usual: bool,
}

impl Checks {
    /// Reads the arguments about good and bad addresses. `offset` is the offset of the IP header, and
    /// `checksum` is true if the checksum is checked.
    pub(super) fn read(args: &mut Args<'_>, offset: usize, checksum: bool) -> Checks {
        let Prefixes(interfaces) = args.get("INTERFACES").unwrap_or_default();
        let Addresses(mut bad_sources) = args.get("BADSRC").unwrap_or_default();
        let Addresses(mut good_destinations) = args.get("GOODDST").unwrap_or_default();
        for Ipv4Prefix { address, mask } in &interfaces {
            bad_sources.push(address.to_bits() | !mask.to_bits());
            good_destinations.push(address.to_bits());
        }
        if !interfaces.is_empty() {
            bad_sources.extend([0, u32::MAX]);
        }
        bad_sources.sort_unstable();
        good_destinations.sort_unstable();
        Checks { offset, bad_sources, good_destinations, checksum, sets_destination: true, usual: false }
    }

    /// Checks a packet in full, if the fast path of [`check`](HeaderCheck::check) does not apply. The error
    /// is the index of the reason in `REASONS`.
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

    /// Accepts a packet with a valid header unless its source is bad: sets annotations, and cuts off the
    /// bytes from the offset `end` on. The error is the index of the reason in `REASONS`.
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
            packet.set_destination(destination);
        }
        Ok(())
    }

    /// Checks a packet like [`check_all`](Self::check_all), faster for a packet with a valid header without
    /// options and with padding, which short packets have in Ethernet frames.
    #[inline(never)]
    fn check_padded(&self, packet: &mut Packet) -> Result<(), usize> {
        let header = packet.data().get(self.offset..self.offset + ipv4::Header::LEN);
        if let Some(Ok(ip)) = header.map(ipv4::Header::ref_from_bytes)
            && ip.version_ihl == 0x45
            && self.usual
            && checksum::ipv4_plain_valid(ip)
        {
            let end = self.offset + usize::from(ip.total_length.get());
            if (self.offset + ipv4::Header::LEN..packet.len()).contains(&end) {
                return self.accept(packet, ipv4::Header::LEN, end);
            }
        }
        self.check_all(packet)
    }

    #[cold]
    fn is_bad_source(&self, packet: &Packet) -> bool {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(data) else { return false };
        self.bad_sources.binary_search(&ip.source.get()).is_ok()
            && self.good_destinations.binary_search(&ip.destination.get()).is_err()
    }
}

impl HeaderCheck for Checks {
    const REASONS: Reasons = &[
        ("tiny packet", DropReason::TooShort),
        ("bad IP version", DropReason::BadIpHeader),
        ("bad IP header length", DropReason::BadIpHeader),
        ("bad IP length", DropReason::BadIpHeader),
        ("bad IP checksum", DropReason::BadIpChecksum),
        ("bad source address", DropReason::BadSource),
    ];
    const MESSAGE: &'static str = "IP header check failed";
    const SPEAKER: Speaker = Speaker::Name;

    fn effects(&self) -> Effects {
        let at = |place, length| bytes(Base::Data, self.offset + place, length);
        let offset = self.offset as i64;
        let total = ipv4_total(Base::Data, self.offset);
        let header_length = ipv4_header_length(Base::Data, self.offset);
        let whole = Predicate::reaches(Base::Data, self.offset as i32, ipv4::Header::LEN as u16);
        let well_formed = vec![
            within(at(0, 1), 0xf0, 0x40, 0x40),
            within(at(0, 1), 0x0f, 5, 15),
            Predicate::at_most(total.clone(), Number::of(Field::Length).plus_constant(-offset)),
            Predicate::at_most(header_length.clone(), total.clone()),
        ];
        let mut sound =
            vec![(whole, DropReason::TooShort), (Filter::All(well_formed), DropReason::BadIpHeader)];
        if self.checksum {
            let (header, base, offset) = (HeaderKind::Ipv4, Base::Data, self.offset as i32);
            sound.push((
                Filter::Leaf(Predicate::RightChecksum { header, base, offset }),
                DropReason::BadIpChecksum,
            ));
        }
        if !self.bad_sources.is_empty() {
            let one_of = |field, addresses: &[u32]| {
                let each = addresses.iter().map(|&address| IntervalSet::one(address.into(), address.into()));
                let set = each.fold(IntervalSet::empty(), |all, one| all.union(&one));
                Filter::Leaf(Predicate::In { field, mask: u128::MAX, set })
            };
            let good = one_of(at(16, 4), &self.good_destinations);
            let right = Filter::Any(vec![one_of(at(12, 4), &self.bad_sources).not(), good]);
            sound.push((right, DropReason::BadSource));
        }
        let good = vec![
            header_at(Base::Network, self.offset),
            header_behind(Base::Transport, header_length.plus_constant(offset)),
            Action::Set(Field::Length, Value::Number(total.plus_constant(offset))),
            Action::Set(DST_IP, Value::Copy(at(16, 4))),
        ];
        checked(sound, good)
    }

    fn prepare(&mut self, cx: &mut Cx<'_>) {
        self.sets_destination = cx.graph().facts().annotation_read(Annotations::DST_IP, 4);
        self.usual = self.checksum && self.bad_sources.is_empty();
    }

    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        // Fast path for a packet with a valid header without options, and without padding.
        let offset = self.offset;
        let header = packet.data().get(offset..offset + ipv4::Header::LEN);
        if let Some(Ok(ip)) = header.map(ipv4::Header::ref_from_bytes)
            && ip.version_ihl == 0x45
            && offset + usize::from(ip.total_length.get()) == packet.len()
            && self.usual
            && checksum::ipv4_plain_valid(ip)
        {
            let destination = ip.destination;
            packet.set_headers(offset, offset + ipv4::Header::LEN);
            if self.sets_destination {
                packet.set_destination(destination.to_bytes());
            }
            return Ok(());
        }
        self.check_padded(packet)
    }
}
