//! # IPOutputCombo
//! Does in one step what a router does with IPv4 packets that leave by one of its interfaces.
//!
//! The element does the work of `DropBroadcasts -> PaintTee(COLOR) -> IPGWOptions(IPADDR) ->
//! FixIPSrc(IPADDR) -> DecIPTTL -> CheckLength(MTU)`: link-level broadcasts are dropped; if a packet has the
//! paint, a copy of it leaves by output 1; packets with bad options leave by output 2, with the offset of
//! the wrong byte in the parameter problem annotation; packets whose time to live has expired leave by
//! output 3, packets longer than the MTU by output 4, and all others by output 0. All copies of a batch
//! leave before its packets, whereas the separate elements would alternate between them. Packets are not
//! fragmented. The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! ## Arguments
//! - `COLOR`: the paint of packets that arrived by the same interface.
//! - `IPADDR`: the address of the interface.
//! - `MTU`: the length in bytes of the longest packets that leave by output 0.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> out :: IPOutputCombo(1, 10.0.0.1, 1500) -> Discard;
//! out[1] -> ICMPError(10.0.0.1, redirect, host) -> Discard;
//! out[2] -> ICMPError(10.0.0.1, parameterproblem) -> Discard;
//! out[3] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;
//! out[4] -> IPFragmenter(1500) -> Discard
//! ```
//!
//! ## See also
//! DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL, CheckLength, IPFragmenter, IPInputCombo

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::effects::{
    Action, Case, Checksum, Depends, Field, Filter, HeaderKind, Number, Predicate, Support, Target, Value,
    wire_field,
};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, Timestamp, manual};
use packet::{Annotations, BATCH_CAPACITY, PacketKind};

use super::dec_ip_ttl::decrement;
use super::fix_ip_src;
use super::ipgw_options::Gateway;
use crate::annotation::paint_tee::copies_of;
use crate::basic::tee::emit_copies_of;
use crate::editing::{annotation, constant, missing, needs, pure, when, within};
use crate::sorting::{Fate, Sorter};

/// The element class `IPOutputCombo`.
pub static CLASS: Class = Class {
    name: "IPOutputCombo",
    ports: "1/5",
    processing: "h",
    manual: manual!("ip_output_combo.rs"),
    args: &[
        ArgInfo::required("COLOR", "0-255"),
        ArgInfo::required("IPADDR", "address"),
        ArgInfo::required("MTU", "unsigned"),
    ],
    samples: &["1, 10.0.0.1, 1500", "0, 10.0.0.1, 60"],
    build: |args| {
        let colour = args.required("COLOR");
        let address: Option<Ipv4Addr> = args.get("IPADDR");
        let mtu: u32 = args.required("MTU");
        let Some(address) = address else { return missing(args, "IPADDR") };
        args.finish()?;
        let gateway = Gateway::new(address, Vec::new());
        let (sorter, fates) = (Sorter::new(args.outputs()), Vec::with_capacity(BATCH_CAPACITY));
        Ok(Box::new(IpOutputCombo { colour, address, gateway, mtu: mtu as usize, sorter, fates }))
    },
    ..Class::DEFAULT
};

struct IpOutputCombo {
    colour: u8,
    address: Ipv4Addr,
    gateway: Gateway,
    mtu: usize,
    sorter: Sorter,
    /// The fate of each packet of a batch: an output or a drop reason.
    fates: Vec<Fate>,
}

/// The output of copies of packets that leave by the interface by which they arrived. The next constants are
/// the outputs of packets that need an ICMP error or fragmentation.
const SAME_INTERFACE: usize = 1;
const BAD_OPTIONS: usize = 2;
const EXPIRED: usize = 3;
const TOO_LONG: usize = 4;

/// True if a packet arrived as a link-level broadcast or multicast.
fn is_group(packet: &Packet) -> bool {
    matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast)
}

impl IpOutputCombo {
    /// True if a copy of the packet must leave by output 1: the packet leaves by the interface by which it
    /// arrived, so that its sender should be redirected.
    fn came_by_the_same_way(&self, packet: &Packet) -> bool {
        !is_group(packet) && packet.annotations().u8(Annotations::PAINT) == self.colour
    }

    /// Processes a packet. Returns the output by which it leaves, or the reason for which it is dropped.
    fn treat(&self, packet: &mut Packet, now: Timestamp) -> Result<usize, DropReason> {
        if is_group(packet) {
            return Err(DropReason::Denied);
        }
        match self.gateway.process(packet, now) {
            Ok(()) => {}
            Err(DropReason::Unsuitable) => return Ok(BAD_OPTIONS),
            Err(reason) => return Err(reason),
        }
        fix_ip_src::fix_where_asked(packet, self.address);
        match decrement(packet, true) {
            Ok(()) if packet.len() > self.mtu => Ok(TOO_LONG),
            Ok(()) => Ok(0),
            Err(DropReason::TtlExpired) => Ok(EXPIRED),
            Err(reason) => Err(reason),
        }
    }
}

impl Element for IpOutputCombo {
    fn effects(&self) -> Effects {
        let header = [wire_field::IP_HEADER, Field::Length];
        let group =
            within(Field::Kind, u128::MAX, PacketKind::Broadcast as u128, PacketKind::Multicast as u128);
        let group = Case::new(group, Target::Drop(DropReason::Denied));
        let recorded = Gateway::recorded;
        let bad = when("bad options", &header, Target::Output(BAD_OPTIONS));
        let problem = pure(annotation(Annotations::ICMP_PARAM, 1), "wrong byte of options", &header);
        let mut cases = vec![group.clone(), needs(HeaderKind::Ipv4), bad.with(recorded()).with(problem)];
        // If the packet has options or gets another source, the checksum is declared as recomputed; otherwise
        // it is only updated for the time to live.
        let plain = within(wire_field::IP_VERSION_IHL, 15, 0, 5);
        let wished = fix_ip_src::is_asked();
        let ttl = wire_field::IP_TTL;
        let expired = || within(wire_field::IP_TTL, 0xff, 0, 1);
        let long = Predicate::at_most(Number::of(Field::Length), Number::constant(self.mtu as i64)).not();
        for (is_plain, is_wished) in [(true, false), (true, true), (false, false), (false, true)] {
            let is = |filter: &Filter, holds: bool| if holds { filter.clone() } else { filter.clone().not() };
            let kind = is(&plain, is_plain).and([is(&wished, is_wished)]);
            let ends = [(expired(), EXPIRED), (long.clone(), TOO_LONG), (Filter::TRUE, 0)];
            for (end, output) in ends {
                let mut case = Case::new(kind.clone().and([end]), Target::Output(output));
                if !is_plain {
                    case = case.with(recorded());
                }
                if is_wished {
                    case = case.with(constant(fix_ip_src::WISH, &[0]));
                    case = case.with(constant(wire_field::IP_SRC, &self.address.octets()));
                }
                if output != EXPIRED {
                    case = case.with(Action::Set(ttl.clone(), Value::Plus(ttl.clone(), -1)));
                }
                case.checksum = match (is_plain && !is_wished, output) {
                    (true, EXPIRED) => Checksum::Untouched,
                    (true, _) => Checksum::Updated(vec![HeaderKind::Ipv4]),
                    (false, _) => Checksum::Recomputed(vec![HeaderKind::Ipv4]),
                };
                cases.push(case);
            }
        }
        let mut copies = copies_of(self.colour, Annotations::PAINT);
        copies.when = group.when.not().and([copies.when]);
        let effects = Effects {
            emits: vec![copies],
            support: Support { keeps_to_header: true, ..Support::default() },
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let now = cx.now();
        emit_copies_of(cx, SAME_INTERFACE, &batch, |packet| self.came_by_the_same_way(packet));
        self.fates.clear();
        for packet in batch.iter_mut() {
            let fate = self.treat(packet, now).map_or_else(Fate::Drop, Fate::Output);
            self.fates.push(fate);
        }
        let mut fates = self.fates.iter().copied();
        // The closure is called once for each packet, in order.
        self.sorter.send(cx, batch, |_, _| fates.next().unwrap_or(Fate::Output(0)))
    }
}
