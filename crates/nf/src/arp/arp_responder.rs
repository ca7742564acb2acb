//! # ARPResponder
//! Answers ARP requests (RFC 826) for configured addresses: its own, or addresses of other hosts (proxy
//! ARP).
//!
//! The request is turned into the reply: it keeps its device and VLAN annotation, and has the time stamp 0;
//! other annotations are cleared. Packets that are not requests, or that ask for other addresses, leave by
//! output 1, or are dropped. Of several prefixes that match, the most specific is used; of two equal
//! prefixes, the last.
//!
//! ## Usage
//! `ARPResponder(ENTRY, ...)`
//!
//! ## Arguments
//! - `ENTRY`: `IP/MASK [IP/MASK ...] ETHER`: prefixes or addresses, and the Ethernet address for them; a
//!   single name may have both.
//!
//! ## Handlers
//! - `table`: a line per prefix: the prefix and its Ethernet address.
//! - `lookup`: the Ethernet address for an IPv4 address; empty if there is none.
//! - `add`: adds an entry.
//! - `remove`: removes a prefix.
//!
//! ## Example
//! ```click
//! Idle -> ARPResponder(10.0.0.1 10.0.1.0/24 2:0:0:0:0:1, 10.0.2.0/255.255.255.0 2:0:0:0:0:2) -> Discard
//! ```
//!
//! ## See also
//! ARPQuerier, ARPFaker, AddressInfo, ICMPPingResponder

use std::net::Ipv4Addr;

use classify::IntervalSet;
use element::args::{ArgType, Ipv4Prefix, Scope};
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Number, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Timestamp, manual};
use lang::args::split_spaces;
use packet::{Annotations, PacketKind};
use wire::{LinkType, MacAddr, arp, ethernet};

use super::entries::{self, Entry};
use super::{FRAME, Party, frame, headers, is_operation, prefix_or_address};
use crate::editing::{Fate, annotation, aside, bytes, constant, each_or_aside, header_at, value};

/// The element class `ARPResponder`.
pub static CLASS: Class = Class {
    name: "ARPResponder",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("arp_responder.rs"),
    args: &[ArgInfo::rest("ENTRY", "IP/MASK [IP/MASK ...] ETHER")],
    table: &HANDLERS,
    samples: &[
        "7.7.7.7 2:0:0:0:0:9",
        "7.7.0.0/16 9.9.9.9 2:0:0:0:0:9, 7.7.7.0/24 2:0:0:0:0:8, 0/0 2:0:0:0:0:7 -> 1/2",
        "",
    ],
    reconfigures: true,
    build: |args| {
        let mut table = Entries::default();
        args.each_of_rest(|args, number, text| match parse(text, &args.place()) {
            Ok(entries) => {
                for twice in table.add(&entries) {
                    args.warn(format!("multiple entries for {twice}"));
                }
            }
            Err(reason) => args.error(format!("argument {number}: {reason}")),
        });
        args.finish()?;
        Ok(Box::new(ArpResponder { table }))
    },
    ..Class::DEFAULT
};

type Entries = entries::Entries<u32>;

/// Formats an entry's prefix as `network/length`, or as `network/mask` if the ones of the mask are not
/// contiguous.
impl std::fmt::Display for Entry<u32> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (network, mask) = (Ipv4Addr::from_bits(self.network), Ipv4Addr::from_bits(self.mask));
        let length = self.mask.leading_ones();
        match length + self.mask.trailing_zeros() >= 32 {
            true => write!(f, "{network}/{length}"),
            false => write!(f, "{network}/{mask}"),
        }
    }
}

fn entry_of(prefix: Ipv4Prefix, mac: MacAddr) -> Entry<u32> {
    Entry { network: prefix.network().to_bits(), mask: prefix.mask.to_bits(), mac }
}

/// Parses one or more prefixes or addresses and an Ethernet address, in any order. Returns an entry per
/// prefix; the errors are Click's.
fn parse(text: &str, place: &Scope<'_>) -> Result<Vec<Entry<u32>>, &'static str> {
    let words: Vec<String> = split_spaces(text).into_iter().map(|word| word.text).collect();
    let (mut prefixes, mut mac) = (Vec::new(), None);
    for word in &words {
        if let Ok(prefix) = prefix_or_address(word, place) {
            prefixes.push(prefix);
        } else if let Ok(address) = MacAddr::parse(word, place) {
            if mac.replace(address).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    // A name that was taken as an IPv4 address can also have an Ethernet address (AddressInfo).
    let named = || words.iter().find_map(|word| MacAddr::parse(word, place).ok());
    let mac = mac.or_else(named).ok_or("missing ETH")?;
    Ok(prefixes.into_iter().map(|prefix| entry_of(prefix, mac)).collect())
}

struct ArpResponder {
    table: Entries,
}

impl ArpResponder {
    /// Turns an ARP request in the packet into the reply, in place. With `clears`, clears all annotations
    /// except for the VLAN annotation. Packets that are not requests for a known address get the error
    /// `NoMatch`, and are not changed.
    fn answer(&self, packet: &mut Packet, clears: bool) -> Fate {
        let bytes: &mut [u8; FRAME] = packet.header_chunk_mut(Base::Data).ok_or(DropReason::NoMatch)?;
        let (_, asked) = headers(bytes, arp::REQUEST).ok_or(DropReason::NoMatch)?;
        let mac = self.table.look_up(asked.target_ip.get()).ok_or(DropReason::NoMatch)?;
        let sender = Party { mac, ip: Ipv4Addr::from_bits(asked.target_ip.get()) };
        let target = Party { mac: asked.sender_mac, ip: Ipv4Addr::from_bits(asked.sender_ip.get()) };
        *bytes = frame(arp::REPLY, target.mac, sender, target);
        packet.truncate(FRAME);
        packet.set_link_header(ethernet::Header::LEN);
        packet.set_link(LinkType::Ethernet.number());
        packet.set_offset(Base::Transport, None);
        packet.set_kind(PacketKind::Host);
        packet.set_time(Timestamp(0));
        if clears {
            let annotations = packet.annotations_mut().bytes_mut();
            annotations[..Annotations::VLAN_TCI].fill(0);
            annotations[Annotations::VLAN_TCI + 2..].fill(0);
        }
        Ok(())
    }
}

/// Returns the declared writes that turn a request into a reply with the Ethernet address `mac`.
fn reply(mac: MacAddr) -> Vec<Action> {
    let at = |offset, length| bytes(Base::Data, offset, length);
    let copy = |to: Field, from: Field| Action::Set(to, Value::Copy(from));
    let behind = Annotations::VLAN_TCI + 2;
    let rest = Annotations::SIZE - behind;
    vec![
        copy(at(0, 6), at(22, 6)),
        constant(at(6, 6), &mac.0),
        constant(at(18, 4), &[6, 4, 0, arp::REPLY as u8]),
        constant(at(22, 6), &mac.0),
        copy(at(28, 4), at(38, 4)),
        copy(at(32, 6), at(22, 6)),
        copy(at(38, 4), at(28, 4)),
        Action::Set(Field::Length, Value::Number(Number::constant(FRAME as i64))),
        header_at(Base::Mac, 0),
        header_at(Base::Network, ethernet::Header::LEN),
        constant(Field::HeaderOffset(Base::Transport), &[]),
        constant(Field::Kind, &[PacketKind::Host as u8]),
        constant(Field::TimeStamp, &[0; 8]),
        constant(annotation(0, Annotations::VLAN_TCI as u8), &[0; Annotations::VLAN_TCI]),
        constant(annotation(behind, rest as u8), &vec![0; rest]),
    ]
}

impl Element for ArpResponder {
    fn effects(&self) -> Effects {
        let mut cases: Vec<Case> = Vec::new();
        for entry in &self.table.0 {
            let network = u128::from(entry.network);
            let is_meant = Filter::Leaf(Predicate::In {
                field: bytes(Base::Data, 38, 4),
                mask: entry.mask.into(),
                set: IntervalSet::one(network, network),
            });
            let when = is_operation(arp::REQUEST).and([is_meant]);
            cases.push(Case { actions: reply(entry.mac), ..Case::new(when, Target::Output(0)) });
        }
        cases.push(aside(Filter::TRUE, DropReason::NoMatch));
        Effects::cases(cases).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let clears = cx.graph().facts().annotations_used;
        each_or_aside(cx, batch, |packet| self.answer(packet, clears));
    }
}

const HANDLERS: &[Handler<ArpResponder>] = &[
    Handler::get("table", |e| e.table.0.iter().map(|entry| format!("{entry} {:#}\n", entry.mac)).collect()),
    Handler::read_param("lookup", |e, cx, param| {
        let address: Ipv4Addr = value(cx, param, "expected IP address")?;
        Ok(e.table.look_up(address.to_bits()).map_or(String::new(), |mac| format!("{mac:#}")))
    }),
    Handler::set("add", |e, cx, text| {
        e.table.add(&parse(text, &cx.place())?);
        Ok(())
    }),
    Handler::set("remove", |e, cx, text| {
        let prefix = prefix_or_address(text, &cx.place()).map_err(|_| "expected IP/MASK")?;
        let wanted = entry_of(prefix, MacAddr::default());
        let place = e.table.0.iter().position(|entry| entry.is_same_prefix(&wanted));
        e.table.0.remove(place.ok_or_else(|| format!("{wanted} not found"))?);
        Ok(())
    }),
];
