//! # StoreIPAddress
//! Writes an address, or the destination address annotation, into the packet.
//!
//! If the source or destination field is written, the IP checksum is updated, and, if the transport header
//! annotation is set, the TCP or UDP checksum. If the address is written at an offset, nothing else is
//! changed, and an annotation of zero is not written. Packets that do not get the address, also because they
//! are too short or have no IPv4 header, leave by output 1, or are dropped.
//!
//! ## Usage
//! `StoreIPAddress(OFFSET)`, `StoreIPAddress(ADDR, OFFSET)`
//!
//! ## Arguments
//! - `ADDR`: the address; if it is left out, the destination address annotation is written.
//! - `OFFSET`: the offset in bytes from the start of the packet, or `src` or `dst` for the field of the
//!   IPv4 header.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StoreIPAddress(10.0.0.1, src) -> Discard
//! ```
//!
//! ## See also
//! GetIPAddress, SetIPAddress, StoreEtherAddress

use std::net::Ipv4Addr;

use element::args::{ArgType, Raw, read_value};
use element::class::ArgInfo;
use element::effects::{Action, Case, DST_IP, Filter, HeaderKind, Predicate, Target, Value, wire_field};
use element::{Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, manual};
use wire::checksum::Delta;
use wire::{FromBytes, ip_protocol, tcp, udp};

use crate::editing::{Fate, aside, bytes, checked, each_or_aside, ipv4, within};
use classify::IntervalSet;

/// The element class `StoreIPAddress`.
pub static CLASS: Class = Class {
    name: "StoreIPAddress",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("store_ip_address.rs"),
    args: &[
        ArgInfo::positional("ADDR", "address", ""),
        ArgInfo::positional("OFFSET", "unsigned, src or dst", ""),
    ],
    samples: &["16", "1.2.3.4, 30 -> 1/2", "10.9.8.7, src", "dst -> 1/2"],
    build: |args| {
        let (address, offset) = address_and_place::<Ipv4Addr>(args)?;
        let place = match offset.to_ascii_lowercase().as_str() {
            "src" => Ok(Place::Source),
            "dst" => Ok(Place::Destination),
            number => u32::parse(number, &args.place()).map(|n| Place::Data(n as usize)),
        };
        if place.is_err() {
            args.error("type mismatch: OFFSET requires integer");
        }
        args.finish()?;
        let address = address.map(|address| address.octets());
        Ok(Box::new(StoreIpAddress { address, place: place.unwrap_or(Place::Source) }))
    },
    ..Class::DEFAULT
};

/// Reads the address, if one is given, and the text of the offset. If there is only one argument, it is the
/// offset.
///
/// # Errors
/// If there is no argument, or if an argument is invalid.
pub(super) fn address_and_place<A: ArgType>(args: &mut Args<'_>) -> Result<(Option<A>, String), Invalid> {
    let (first, second): (Option<Raw>, Option<Raw>) = (args.get("ADDR"), args.get("OFFSET"));
    let (address, offset) = match (first, second) {
        (first, Some(Raw(offset))) => (first, offset),
        (Some(Raw(offset)), None) => (None, offset),
        (None, None) => {
            crate::editing::missing(args, "OFFSET")?;
            return Err(Invalid);
        }
    };
    args.finish()?;
    let mut given = None;
    match address.map(|Raw(text)| read_value("ADDR", &text, &args.place())) {
        Some(Ok(address)) => given = Some(address),
        Some(Err(complaint)) => args.error(complaint),
        None => {}
    }
    Ok((given, offset))
}

#[derive(Clone, Copy)]
enum Place {
    Data(usize),
    Source,
    Destination,
}

struct StoreIpAddress {
    /// The address that is written; `None` to write the destination address annotation.
    address: Option<[u8; 4]>,
    place: Place,
}

/// Sets the source address of a packet (or the destination address, if `source` is false) to `new`, and
/// updates the IPv4 checksum. Also updates the checksum of TCP or UDP, unless the packet is a later fragment
/// or its transport header is cut off or not annotated. The error is the drop reason of a packet without an
/// IPv4 header.
#[inline]
pub(crate) fn store(packet: &mut Packet, new: [u8; 4], source: bool) -> Fate {
    let ip = ipv4(packet)?;
    let field = if source { &mut ip.source } else { &mut ip.destination };
    let delta = Delta::u32(field.get(), u32::from_be_bytes(new));
    *field = new.into();
    ip.checksum.set(delta.apply(ip.checksum.get()));
    let (protocol, first) = (ip.protocol, ip.fragment_offset() == 0);
    match protocol {
        ip_protocol::TCP if first => {
            let bytes = packet.header_chunk_mut::<{ tcp::Header::LEN }>(Base::Transport);
            if let Some(Ok(tcp)) = bytes.map(|bytes| tcp::Header::mut_from_bytes(bytes)) {
                tcp.checksum.set(delta.apply(tcp.checksum.get()));
            }
        }
        ip_protocol::UDP if first => {
            let bytes = packet.header_chunk_mut::<{ udp::Header::LEN }>(Base::Transport);
            if let Some(Ok(udp)) = bytes.map(|bytes| udp::Header::mut_from_bytes(bytes)) {
                udp.checksum.set(delta.apply_udp(udp.checksum.get()));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the cases of packets to which [`store`] is applied, all with the same actions. `case` makes a
/// case for a condition. Protocol and fragment offset decide which transport checksum is updated, so there
/// is a case for TCP, for UDP, and for all other packets with an IPv4 header.
pub(crate) fn stored(actions: &[Action], case: impl Fn(Filter) -> Case) -> Vec<Case> {
    let first = || within(wire_field::IP_FRAGMENT, 0x1fff, 0, 0);
    let of = |header: HeaderKind, protocol: u8| {
        let protocol = Predicate::equals(wire_field::IP_PROTOCOL, protocol.into());
        Predicate::present(HeaderKind::Ipv4).and([protocol, first(), Predicate::present(header)])
    };
    let stored = |when, updated: &[HeaderKind]| {
        let case = actions.iter().cloned().fold(case(when), Case::with);
        case.updating(updated)
    };
    vec![
        stored(of(HeaderKind::Tcp, ip_protocol::TCP), &[HeaderKind::Ipv4, HeaderKind::Tcp]),
        stored(of(HeaderKind::Udp, ip_protocol::UDP), &[HeaderKind::Ipv4, HeaderKind::Udp]),
        stored(Predicate::present(HeaderKind::Ipv4), &[HeaderKind::Ipv4]),
    ]
}

impl Element for StoreIpAddress {
    fn effects(&self) -> Effects {
        let value = match self.address {
            Some(address) => Value::Constant(address.to_vec()),
            None => Value::Copy(DST_IP),
        };
        let field = match self.place {
            Place::Source => wire_field::IP_SRC,
            Place::Destination => wire_field::IP_DST,
            Place::Data(offset) => {
                let place = bytes(Base::Data, offset, 4);
                let there = Filter::Leaf(Predicate::In {
                    field: place.clone(),
                    mask: 0,
                    set: IntervalSet::one(0, 0),
                });
                let given = self.address.is_none().then(|| Predicate::equals(DST_IP, 0).not());
                let given = given.map(|given| (given, DropReason::Unsuitable));
                let sound = given.into_iter().chain([(there, DropReason::TooShort)]).collect();
                return checked(sound, vec![Action::Set(place, value)]);
            }
        };
        let mut cases = stored(&[Action::Set(field, value)], |when| Case::new(when, Target::Output(0)));
        cases.push(aside(Filter::TRUE, DropReason::NoHeader));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (given, place) = (self.address, self.place);
        each_or_aside(cx, batch, |packet| {
            let address = given.unwrap_or_else(|| packet.destination());
            match place {
                Place::Source => store(packet, address, true),
                Place::Destination => store(packet, address, false),
                Place::Data(_) if given.is_none() && address == [0; 4] => Err(DropReason::Unsuitable),
                Place::Data(offset) => {
                    let room = packet.data_mut().get_mut(offset..).and_then(|data| data.first_chunk_mut());
                    *room.ok_or(DropReason::TooShort)? = address;
                    Ok(())
                }
            }
        });
    }
}
