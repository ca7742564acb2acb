//! # FixIPSrc
//! Sets the IPv4 source address of packets whose "fix IP source" annotation is not zero.
//!
//! ICMPError sets this annotation, so that its messages get the address of the interface by which they
//! leave. FixIPSrc clears the annotation, and recomputes the header checksum. All other packets pass
//! unchanged, also IPv6 packets with the annotation (ICMP6Error sets it).
//!
//! ## Usage
//! `FixIPSrc(IPADDR)`
//!
//! ## Arguments
//! - `IPADDR`: the new source address.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> FixIPSrc(10.0.0.1) -> Discard
//! ```
//!
//! ## See also
//! ICMPError, StoreIPAddress

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::effects::{Case, Checksum, Field, Filter, HeaderKind, Predicate, Target, wire_field};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use packet::Annotations;
use wire::{FromBytes, checksum, ipv4};

use crate::editing::{annotation, constant, otherwise, within};

/// The element class `FixIPSrc`.
pub static CLASS: Class = Class {
    name: "FixIPSrc",
    manual: manual!("fix_ip_src.rs"),
    args: &[ArgInfo::required("IPADDR", "address")],
    samples: &["10.0.0.1"],
    build: |args| {
        let address: Option<Ipv4Addr> = args.get("IPADDR");
        let Some(address) = address else { return crate::editing::missing(args, "IPADDR") };
        args.finish()?;
        Ok(Box::new(FixIpSrc { address }))
    },
    ..Class::DEFAULT
};

struct FixIpSrc {
    address: Ipv4Addr,
}

/// The annotation that requests a new source address, if it is not zero.
pub(super) const WISH: Field = Field::Annotation { offset: Annotations::FIX_IP_SRC as u8, length: 1 };

fn fix(packet: &mut Packet, address: Ipv4Addr) -> Option<()> {
    let header = packet.header_mut(Base::Network)?;
    let (ip, _) = ipv4::Header::mut_from_prefix(header).ok()?;
    if ip.version() != 4 {
        return None;
    }
    let length = ip.header_len().max(ipv4::Header::LEN);
    ip.source.set(address.to_bits());
    let length = length.min(header.len());
    checksum::fill_ipv4(&mut header[..length]).ok()
}

/// Returns the filter of the packets that [`fix_where_asked`] changes, among packets with a network header:
/// IPv4 packets with the annotation.
pub(super) fn is_asked() -> Filter {
    Predicate::equals(WISH, 0).not().and([within(wire_field::IP_VERSION_IHL, 0xf0, 0x40, 0x40)])
}

/// Sets the source address of a packet and clears the annotation, if the annotation requests it and the
/// packet has an IPv4 header.
#[inline]
pub(super) fn fix_where_asked(packet: &mut Packet, address: Ipv4Addr) {
    if packet.annotations().u8(Annotations::FIX_IP_SRC) != 0 && fix(packet, address).is_some() {
        packet.annotations_mut().set_u8(Annotations::FIX_IP_SRC, 0);
    }
}

impl Element for FixIpSrc {
    fn effects(&self) -> Effects {
        let clear = constant(annotation(Annotations::FIX_IP_SRC, 1), &[0]);
        let fixed = Case {
            checksum: Checksum::Recomputed(vec![HeaderKind::Ipv4]),
            ..Case::new(Predicate::present(HeaderKind::Ipv4).and([is_asked()]), Target::Output(0))
        };
        let source = constant(wire_field::IP_SRC, &self.address.octets());
        Effects::cases(vec![fixed.with(clear).with(source), otherwise(Vec::new())])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| fix_where_asked(packet, self.address));
    }
}
