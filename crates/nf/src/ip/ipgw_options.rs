//! # IPGWOptions
//! Processes IPv4 options as a gateway must: writes its address and the time into record route and time
//! stamp options (RFC 791).
//!
//! Packets with invalid options leave by output 1, or are dropped; their parameter problem annotation is the
//! offset of the wrong byte in the header, for ICMPError. The header checksum is recomputed if there is a
//! record route or time stamp option and all options are valid. The network header annotation must be set.
//!
//! ## Usage
//! `IPGWOptions(MYADDR [, OTHERADDRS])`
//!
//! ## Arguments
//! - `MYADDR`: the address that is recorded.
//! - `OTHERADDRS`: further addresses of this gateway, separated by spaces.
//!
//! ## Handlers
//! - `drops`: packets with bad options.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPGWOptions(10.0.0.1) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, ICMPError

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::effects::{
    Action, Case, Checksum, Depends, Field, Filter, HeaderKind, Predicate, Support, Target, wire_field,
};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};
use packet::Annotations;
use wire::ipv4::option;
use wire::{FromBytes, checksum, ipv4};

use super::check_ip_header::Addresses;
use crate::editing::{annotation, needs, pure, refused};

/// The element class `IPGWOptions`.
pub static CLASS: Class = Class {
    name: "IPGWOptions",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("ipgw_options.rs"),
    args: &[ArgInfo::required("MYADDR", "address"), ArgInfo::positional("OTHERADDRS", "addresses", "")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["10.0.0.1", "10.0.0.1, 10.0.1.1 10.0.2.1 -> 1/2"],
    build: |args| {
        let address: Option<Ipv4Addr> = args.get("MYADDR");
        let Addresses(own) = args.get("OTHERADDRS").unwrap_or_default();
        let Some(address) = address else { return crate::editing::missing(args, "MYADDR") };
        args.finish()?;
        Ok(Box::new(IpgwOptions { gateway: Gateway::new(address, own), drops: 0 }))
    },
    ..Class::DEFAULT
};

struct IpgwOptions {
    gateway: Gateway,
    drops: u64,
}

/// A gateway, which writes its address into record route and time stamp options.
pub(super) struct Gateway {
    address: [u8; 4],
    /// All addresses of the gateway, including `address`. A time stamp option may request the time of any of
    /// them.
    own: Vec<u32>,
}

/// An error in the options: the offset of the wrong byte in the IP header.
struct Problem(u8);

impl Gateway {
    /// Makes a gateway that records `address` and also has the addresses `own`.
    pub(super) fn new(address: Ipv4Addr, mut own: Vec<u32>) -> Gateway {
        own.push(address.to_bits());
        Gateway { address: address.octets(), own }
    }

    /// Returns an action that declares the changes of options by a gateway.
    pub(super) fn recorded() -> Action {
        let options = Field::Bytes { base: Base::Network, offset: 20, length: 40 };
        pure(options, "record route and time", &[wire_field::IP_HEADER, Field::Length])
    }

    /// Processes the options of an IP header, which start at offset 20. Returns true if there was a record
    /// route or time stamp option, so that the checksum must be recomputed.
    fn handle(&self, header: &mut [u8], now: Timestamp) -> Result<bool, Problem> {
        let mut writes = false;
        let mut at = ipv4::Header::LEN;
        while let Some(&kind) = header.get(at) {
            // The offset fits, because a header has at most 60 bytes.
            let problem = |place: usize| Problem(place as u8);
            match kind {
                option::END => break,
                option::NOP => at += 1,
                _ => {
                    let length = usize::from(*header.get(at + 1).ok_or(problem(at + 1))?);
                    let option = header.get_mut(at..at + length).filter(|option| option.len() >= 2);
                    let option = option.ok_or(problem(at + 1))?;
                    let done = match kind {
                        option::RECORD_ROUTE => self.record_route(option),
                        option::TIME_STAMP => self.record_time(option, now),
                        _ => {
                            at += length;
                            continue;
                        }
                    };
                    done.map_err(|place| problem(at + place))?;
                    writes = true;
                    at += length;
                }
            }
        }
        Ok(writes)
    }

    /// Writes the address to the next free entry of a record route option. A full option stays unchanged.
    /// The error is the offset of the wrong byte in the option.
    fn record_route(&self, option: &mut [u8]) -> Result<(), usize> {
        const POINTER: usize = 2;
        let free =
            option.get(POINTER).and_then(|&pointer| usize::from(pointer).checked_sub(1)).ok_or(2usize)?;
        let end = option.len();
        match option.get_mut(free..).and_then(|rest| rest.first_chunk_mut()) {
            Some(place) if free > POINTER => {
                *place = self.address;
                option[POINTER] += 4;
                Ok(())
            }
            // The option's list of addresses is full.
            _ if free == end => Ok(()),
            _ => Err(POINTER),
        }
    }

    /// Writes the time to the next free entry of a time stamp option, with the address if the option's flags
    /// request it. If the option is full, its overflow counter is incremented; a counter at its maximum is an
    /// error. Some options list the addresses whose time is wanted (flags 3). The time is then written only
    /// if the next address is the gateway's, and a full option is an error. The error is the offset of the
    /// wrong byte in the option.
    fn record_time(&self, option: &mut [u8], now: Timestamp) -> Result<(), usize> {
        const POINTER: usize = 2;
        const FLAGS: usize = 3;
        let free = option.get(POINTER).and_then(|&pointer| usize::from(pointer).checked_sub(1));
        let free = free.filter(|&free| free >= 4).ok_or(POINTER)?;
        let flags = option.get(FLAGS).copied().ok_or(FLAGS)?;
        let time = milliseconds_of_day(now).to_be_bytes();
        let rest = option.get_mut(free..).unwrap_or_default();
        let used = match flags & 15 {
            0 => rest.first_chunk_mut().map(|place| {
                *place = time;
                4
            }),
            1 => rest.first_chunk_mut().map(|place: &mut [u8; 8]| {
                place[..4].copy_from_slice(&self.address);
                place[4..].copy_from_slice(&time);
                8
            }),
            3 => {
                let place: &mut [u8; 8] = rest.first_chunk_mut().ok_or(FLAGS)?;
                let [a, b, c, d, ..] = *place;
                if !self.own.contains(&u32::from_be_bytes([a, b, c, d])) {
                    return Ok(());
                }
                place[4..].copy_from_slice(&time);
                Some(8)
            }
            _ => return Err(FLAGS),
        };
        match used {
            Some(n) => option[POINTER] += n,
            // The upper half of the flags byte counts the gateways that found no free entry.
            None if flags >> 4 == 15 => return Err(FLAGS),
            None => option[FLAGS] += 0x10,
        }
        Ok(())
    }

    /// Processes the options of a packet. If they are invalid, sets the parameter problem annotation and
    /// returns [`DropReason::Unsuitable`]. Without an IP header it returns [`DropReason::NoHeader`].
    pub(super) fn process(&self, packet: &mut Packet, now: Timestamp) -> Result<(), DropReason> {
        let header = packet.header_mut(Base::Network).ok_or(DropReason::NoHeader)?;
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(header) else { return Err(DropReason::NoHeader) };
        let length = ip.header_len();
        if length <= ipv4::Header::LEN {
            return Ok(());
        }
        let length = length.min(header.len());
        match self.handle(&mut header[..length], now) {
            Ok(writes) => {
                if writes {
                    let _ = checksum::fill_ipv4(&mut header[..length]);
                }
                Ok(())
            }
            Err(Problem(place)) => {
                packet.annotations_mut().set_u8(Annotations::ICMP_PARAM, place);
                Err(DropReason::Unsuitable)
            }
        }
    }
}

/// Returns the milliseconds since midnight, universal time.
fn milliseconds_of_day(now: Timestamp) -> u32 {
    (now.0.div_euclid(1_000_000).rem_euclid(86_400_000)) as u32
}

impl Element for IpgwOptions {
    fn effects(&self) -> Effects {
        let header = wire_field::IP_HEADER;
        let plain = Filter::Leaf(Predicate::In {
            field: wire_field::IP_VERSION_IHL,
            mask: 15,
            set: classify::IntervalSet::one(0, 5),
        });
        let recorded = Gateway::recorded();
        let problem = pure(
            annotation(Annotations::ICMP_PARAM, 1),
            "wrong byte of options",
            &[header.clone(), Field::Length],
        );
        // The options ahead of the invalid option have been changed already.
        let bad = refused("bad options", &[header, Field::Length], DropReason::Unsuitable);
        let handled = Case {
            checksum: Checksum::Recomputed(vec![HeaderKind::Ipv4]),
            ..crate::editing::otherwise(vec![recorded.clone()])
        };
        let cases = vec![
            needs(HeaderKind::Ipv4),
            Case::new(plain, Target::Output(0)),
            bad.with(recorded).with(problem),
            handled,
        ];
        Effects { support: Support { keeps_to_header: true, ..Support::default() }, ..Effects::cases(cases) }
            .depending_on(Depends::Time)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { gateway, drops } = self;
        let now = cx.now();
        batch.sift(
            |packet| gateway.process(packet, now),
            |packet, reason| {
                *drops += u64::from(reason == DropReason::Unsuitable);
                match reason {
                    DropReason::Unsuitable => cx.emit_one(1, packet, reason),
                    _ => cx.drop(packet, reason),
                }
            },
        );
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<IpgwOptions>] = &[Handler::count("drops", |e| e.drops)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gateway() -> Gateway {
        Gateway { address: [10, 0, 0, 1], own: vec![0x0a00_0001, 0x0a00_0002] }
    }

    /// Processes options, and returns true if the checksum must be recomputed, and the options afterwards;
    /// or the offset of the wrong byte in the header.
    fn handled(options: &[u8]) -> Result<(bool, Vec<u8>), u8> {
        let mut header = vec![0; 20];
        header.extend_from_slice(options);
        let now = Timestamp(86_400_000_000_000 * 20_000 + 5_000_000);
        match gateway().handle(&mut header, now) {
            Ok(writes) => Ok((writes, header[20..].to_vec())),
            Err(Problem(place)) => Err(place),
        }
    }

    #[test]
    fn routes_are_recorded() {
        assert_eq!(handled(&[1, 0, 7, 0]), Ok((false, vec![1, 0, 7, 0])));
        assert_eq!(handled(&[7, 7, 4, 0, 0, 0, 0, 0]), Ok((true, vec![7, 7, 8, 10, 0, 0, 1, 0])));
        let full = [7, 7, 8, 9, 9, 9, 9, 0];
        assert_eq!(handled(&full), Ok((true, full.to_vec())));
        assert_eq!(handled(&[7, 7, 6, 9, 9, 9, 9, 0]), Err(22), "no room, but not full");
        assert_eq!(handled(&[7, 7, 3, 9, 9, 9, 9, 0]), Err(22));
        assert_eq!(handled(&[1, 7, 1, 0]), Err(22), "a length of one");
        assert_eq!(handled(&[7, 9, 4, 0]), Err(21), "longer than the header");
    }

    #[test]
    fn times_are_recorded() {
        assert_eq!(handled(&[68, 8, 5, 0, 0, 0, 0, 0]), Ok((true, vec![68, 8, 9, 0, 0, 0, 0, 5])));
        let own = [68, 12, 5, 3, 10, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(handled(&own), Ok((true, vec![68, 12, 13, 3, 10, 0, 0, 2, 0, 0, 0, 5])));
        let other = [68, 12, 5, 3, 10, 0, 0, 3, 0, 0, 0, 0];
        assert_eq!(handled(&other), Ok((true, other.to_vec())));
        let with_address = handled(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(with_address, Ok((true, vec![68, 12, 13, 1, 10, 0, 0, 1, 0, 0, 0, 5])));
        assert_eq!(handled(&[68, 4, 5, 0x10]), Ok((true, vec![68, 4, 5, 0x20])), "overflow is counted");
        assert_eq!(handled(&[68, 4, 5, 0xf0]), Err(23));
        assert_eq!(handled(&[68, 4, 5, 3]), Err(23));
        assert_eq!(handled(&[68, 8, 4, 0, 0, 0, 0, 0]), Err(22));
    }

    proptest! {
        #[test]
        fn any_options_are_answered(options in prop::collection::vec(prop_oneof![0u8..12, Just(68), any::<u8>()], 0..40)) {
            if let Err(place) = handled(&options) {
                prop_assert!((20..=20 + options.len()).contains(&usize::from(place)));
            }
        }
    }
}
