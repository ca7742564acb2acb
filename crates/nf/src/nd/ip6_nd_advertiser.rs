//! # IP6NDAdvertiser
//! Answers neighbour solicitations (RFC 4861) for configured addresses: its own, or addresses of other
//! hosts.
//!
//! Packets that are not valid solicitations (section 7.1.1), or that ask for other addresses, are dropped.
//! The answer's source is the address that was asked for. As in Click, its flags say that it comes from a
//! router, and that it must not override a known address; for addresses of this host, RFC 4861 (section
//! 7.2.4) recommends OVERRIDE true. A host without an address, which asks whether an address is in use, is
//! answered by a message to all nodes. Of several prefixes that match, the most specific is used.
//!
//! ## Usage
//! `IP6NDAdvertiser(ENTRY, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `ENTRY`: `IP6/MASK [IP6/MASK ...] ETHER`: prefixes or addresses, and the Ethernet address for them.
//! - `OVERRIDE`: if true, answers override the address that hosts know.
//!
//! ## Example
//! ```click
//! Idle -> IP6NDAdvertiser(2001:db8::1 fe80::1 2:0:0:0:0:1, 2001:db8:1::/64 2:0:0:0:0:2) -> Discard
//! ```
//!
//! ## See also
//! IP6NDSolicitor, ARPResponder, AddressInfo

use std::net::Ipv6Addr;

use element::args::{ArgType, Ipv6Prefix, Scope};
use element::class::ArgInfo;
use element::effects::{Case, Emit, Field, Filter, HeaderKind, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use lang::args::split_spaces;
use wire::icmpv6::kind;
use wire::neighbor::{flag, multicast_mac, option};
use wire::{LinkType, MacAddr, ethernet};

use super::{FRAME, frame, message};
use crate::arp::entries::{Entries, Entry};
use crate::editing::when;

/// The element class `IP6NDAdvertiser`.
pub static CLASS: Class = Class {
    name: "IP6NDAdvertiser",
    manual: manual!("ip6_nd_advertiser.rs"),
    args: &[
        ArgInfo::rest("ENTRY", "IP6/MASK [IP6/MASK ...] ETHER"),
        ArgInfo::keyword("OVERRIDE", "bool", "false"),
    ],
    samples: &[
        "2001:db8::1 2:0:0:0:0:9",
        "2001:db8::/32 2:0:0:0:0:9, 2001:db8::1 ::/0 2:0:0:0:0:8, OVERRIDE true",
        "",
    ],
    build: |args| {
        let overrides = args.value::<bool>("OVERRIDE");
        let mut table = Entries::default();
        args.each_of_rest(|args, number, text| match parse(text, &args.place()) {
            Ok(entries) => drop(table.add(&entries)),
            Err(reason) => args.error(format!("argument {number} {reason}")),
        });
        args.finish()?;
        let flags = flag::ROUTER | if overrides { flag::OVERRIDE } else { 0 };
        Ok(Box::new(Ip6NdAdvertiser { table, flags }))
    },
    ..Class::DEFAULT
};

/// Parses one or more prefixes and an Ethernet address, in any order. Returns an entry per prefix; the
/// errors are Click's.
fn parse(text: &str, place: &Scope<'_>) -> Result<Vec<Entry<u128>>, &'static str> {
    let (mut prefixes, mut mac) = (Vec::new(), None);
    for word in split_spaces(text).into_iter().map(|word| word.text) {
        if let Ok(prefix) = Ipv6Prefix::parse(&word, place) {
            prefixes.push(prefix);
        } else if let Ok(address) = MacAddr::parse(&word, place) {
            if mac.replace(address).is_some() {
                return Err("has more than one Ethernet address");
            }
        } else {
            return Err("should be `IP6/MASK ETHADDR'");
        }
    }
    if prefixes.is_empty() {
        return Err("had no IP6 address and masks");
    }
    let mac = mac.ok_or("had no Ethernet address")?;
    let entry = |Ipv6Prefix { address, length }| {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Entry { network: address.to_bits() & mask, mask, mac }
    };
    Ok(prefixes.into_iter().map(entry).collect())
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

struct Ip6NdAdvertiser {
    table: Entries<u128>,
    /// The flags of every advertisement: ROUTER, and OVERRIDE if the argument is true. Solicited
    /// advertisements also get SOLICITED.
    flags: u32,
}

impl Ip6NdAdvertiser {
    /// Returns the frame of the advertisement that answers a solicitation. Returns `None` if the packet is
    /// not a valid solicitation, or asks for an address without an entry.
    fn answer_to(&self, packet: &Packet) -> Option<[u8; FRAME]> {
        let (link, asked) = message(packet.data(), kind::NEIGHBOR_SOLICITATION)?;
        let target = asked.target();
        let mac = self.table.look_up(target.to_bits())?;
        let asker = asked.ip.source_addr();
        let (to, destination, flags) = match asker.is_unspecified() {
            true => (multicast_mac(ALL_NODES), ALL_NODES, self.flags),
            false => (link.source, asker, self.flags | flag::SOLICITED),
        };
        let addresses = [target, destination, target];
        Some(frame([mac, to], kind::NEIGHBOR_ADVERTISEMENT, flags, addresses, (option::TARGET, mac)))
    }

    fn answer(&self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let Some(frame) = self.answer_to(&packet) else {
            cx.drop(packet, DropReason::NoMatch);
            return None;
        };
        let time = packet.time();
        cx.drop(packet, DropReason::Answered);
        let mut answer = cx.packet(&frame)?;
        answer.set_time(time);
        answer.set_link_header(ethernet::Header::LEN);
        answer.set_link(LinkType::Ethernet.number());
        Some(answer)
    }
}

impl Element for Ip6NdAdvertiser {
    fn effects(&self) -> Effects {
        let reads = [Field::Payload, Field::Length];
        let asked = when("solicited", &reads, Target::Drop(DropReason::Answered));
        let advertisement = Emit {
            name: "neighbour advertisement",
            input: None,
            reads: vec![Field::Payload, Field::Length, Field::TimeStamp],
            output: Some(0),
            starts: Some(HeaderKind::Ethernet),
            when: asked.when.clone(),
        };
        let other = Case::new(Filter::TRUE, Target::Drop(DropReason::NoMatch));
        Effects { emits: vec![advertisement], ..Effects::cases(vec![asked, other]) }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.answer(cx, packet));
    }
}
