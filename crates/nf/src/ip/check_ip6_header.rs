//! # CheckIP6Header
//! Checks IPv6 headers, and sets the header annotations of good packets.
//!
//! A packet is good if it has at least 40 bytes, version 6, a payload that does not extend beyond the
//! packet's end, and no bad source address; `ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff` is always a bad
//! source. In good packets, the network and transport header annotations are set, and bytes after the
//! payload are cut off. Bad packets leave by output 1, or are dropped.
//!
//! ## Usage
//! `CheckIP6Header([BADADDRS, OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `BADADDRS`: bad source addresses, separated by spaces.
//! - `OFFSET`: the offset of the IPv6 header.
//! - `PROCESS_EH`: if true, the transport header annotation points after the extension headers; otherwise
//!   it points directly after the IPv6 header of 40 bytes.
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIP6Header, DecIP6HLIM

use std::net::Ipv6Addr;

use element::args::{ArgType, Scope};
use element::class::ArgInfo;
use element::effects::{Action, Field, Filter, Number, Predicate, Value};
use element::{Base, Class, DropReason, Effects, Packet, StatePart, manual};
use wire::{FromBytes, ipv6};

use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{bytes, header_at, or_aside, pure, within};
use classify::IntervalSet;

/// The element class `CheckIP6Header`.
pub static CLASS: Class = Class {
    name: "CheckIP6Header",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_ip6_header.rs"),
    args: &[
        ArgInfo::positional("BADADDRS", "addresses", ""),
        ArgInfo::positional("OFFSET", "unsigned", "0"),
        ArgInfo::keyword("PROCESS_EH", "bool", "false"),
    ],
    table: &Checker::<CheckIp6Header>::HANDLERS,
    state: &[StatePart::kept("counts", &["count", "drops"])],
    samples: &["OFFSET 14", "2020::2020 ::1, 14, PROCESS_EH true -> 1/2"],
    build: |args| {
        let Addresses(mut bad_sources) = args.get("BADADDRS").unwrap_or_default();
        bad_sources.push(u128::MAX);
        let offset = args.value::<u32>("OFFSET") as usize;
        if offset > packet::MAX_PACKET {
            args.too_large("OFFSET", packet::MAX_PACKET);
        }
        let extensions = args.value::<bool>("PROCESS_EH");
        Checker::boxed(args, &CLASS, CheckIp6Header { offset, bad_sources, extensions })
    },
    ..Class::DEFAULT
};

/// A list of IPv6 addresses in an argument, separated by spaces.
#[derive(Default)]
struct Addresses(Vec<u128>);

impl ArgType for Addresses {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Addresses, String> {
        let words = lang::args::unquote(text);
        let words = words.split_whitespace().map(|word| Ipv6Addr::parse(word, place).map(Ipv6Addr::to_bits));
        words.collect::<Result<_, _>>().map(Addresses).map_err(|_| "expects IP6ADDRESS -a ".into())
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

struct CheckIp6Header {
    offset: usize,
    bad_sources: Vec<u128>,
    extensions: bool,
}

impl HeaderCheck for CheckIp6Header {
    const REASONS: Reasons = &[("", DropReason::BadIpHeader)];
    const MESSAGE: &'static str = "IP6 header check failed";
    const SPEAKER: Speaker = Speaker::None;

    fn effects(&self) -> Effects {
        let at = |place, length| bytes(Base::Data, self.offset + place, length);
        let offset = self.offset as i64;
        let end = Number::of(at(4, 2)).plus_constant(offset + ipv6::Header::LEN as i64);
        let each = self.bad_sources.iter().map(|&address| IntervalSet::one(address, address));
        let bad = each.fold(IntervalSet::empty(), |all, one| all.union(&one));
        let sound = Predicate::reaches(Base::Data, self.offset as i32, ipv6::Header::LEN as u16).and([
            within(at(0, 1), 0xf0, 0x60, 0x60),
            Predicate::at_most(end.clone(), Number::of(Field::Length)),
            Filter::Leaf(Predicate::In { field: at(8, 16), mask: u128::MAX, set: bad }).not(),
        ]);
        // The length of extension headers is not bounded. So the declaration says that the offset of the
        // transport header depends on the whole payload.
        let transport = Field::HeaderOffset(Base::Transport);
        let transport = match self.extensions {
            true => pure(transport, "after the IPv6 headers", &[Field::Payload]),
            false => header_at(Base::Transport, self.offset + ipv6::Header::LEN),
        };
        let end = Action::Set(Field::Length, Value::Number(end));
        let good = vec![header_at(Base::Network, self.offset), transport, end];
        or_aside(sound, DropReason::BadIpHeader, good)
    }

    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Ok((ip, rest)) = ipv6::Header::ref_from_prefix(data) else { return Err(0) };
        let end = self.offset + ipv6::Header::LEN + usize::from(ip.payload_length.get());
        let bad_source = self.bad_sources.contains(&u128::from_be_bytes(ip.source));
        if ip.version() != 6 || end > packet.len() || bad_source {
            return Err(0);
        }
        let mut behind = ipv6::Header::LEN;
        if self.extensions {
            let rest = &rest[..rest.len().min(usize::from(ip.payload_length.get()))];
            let lengths = ipv6::extensions(ip.next_header, rest).flatten().map(|header| header.bytes.len());
            behind += lengths.sum::<usize>();
        }
        packet.set_headers(self.offset, self.offset + behind);
        packet.truncate(end);
        Ok(())
    }
}
