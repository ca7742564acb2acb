//! Elements that prepend IP headers to packets, and their common parts.
//!
//! An element for IPv4 has an `Outer`, the IPv4 header that it prepends. For each batch, the element makes a
//! `Template` from its `Outer`, with everything that does not differ between packets, and calls
//! `Template::prepend` for each packet. IP6Encap does not use these parts.

pub mod dynamic_udp_ip_encap;
pub mod icmp_ip_encap;
pub mod icmp_ping_encap;
pub mod ip6_encap;
pub mod ip_encap;
pub mod udp_ip6_encap;
pub mod udp_ip_encap;

use std::net::Ipv4Addr;

use classify::filter::ip_protocol;
use element::args::{ArgType, Scope, not_a};
use element::effects::{
    Action, Case, Checksum, DST_IP, Depends, Effects, Field, HeaderKind, Number, Predicate, Target, Value,
    wire_field,
};
use element::{Base, Cx, DropReason, Packet};
use packet::Annotations;
use wire::checksum::Sum;
use wire::{IntoBytes, U16, U32, ipv4};

use crate::editing::{Fate, bytes, constant, header_at, ipv4, otherwise, pure};

/// The destination address of the packets that an element encapsulates.
#[derive(Clone, Copy)]
pub(super) enum Destination {
    /// A fixed address for all packets.
    Fixed(Ipv4Addr),
    /// The address in each packet's destination address annotation.
    Annotation,
}

impl Destination {
    /// Returns the destination as handlers show it: the address or `DST_ANNO`.
    pub(super) fn show(self) -> String {
        match self {
            Destination::Fixed(address) => address.to_string(),
            Destination::Annotation => "DST_ANNO".into(),
        }
    }

    pub(super) fn parse(text: &str, place: &Scope<'_>) -> Option<Destination> {
        match text.trim() {
            "DST_ANNO" => Some(Destination::Annotation),
            text => Ipv4Addr::parse(text, place).ok().map(Destination::Fixed),
        }
    }
}

/// An argument for an IP protocol, as number or name. The number is not checked to be from 0 to 255.
#[derive(Clone, Copy, Default)]
pub(super) struct ProtocolNumber(pub(super) i32);

impl ArgType for ProtocolNumber {
    fn parse(text: &str, place: &Scope<'_>) -> Result<ProtocolNumber, String> {
        match ip_protocol(text.trim()) {
            Some(number) => Ok(ProtocolNumber(number.into())),
            None => i32::parse(text, place)
                .map(ProtocolNumber)
                .map_err(|_| not_a(text, "a protocol; write its number, or its name, such as udp")),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        Some("invalid number".into())
    }
}

/// Returns the action that sets a field to the packet's identification. The element counts it, so the value
/// depends on no field of the packet.
pub(super) fn identification(field: Field) -> Action {
    pure(field, "identification", &[])
}

/// The IPv4 header that an element prepends to all packets, except for the total length, the identification
/// and the checksum.
pub(super) struct Outer {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Destination,
    pub(super) protocol: u8,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) fragment: u16,
}

impl Outer {
    /// Returns a header whose type of service and fragment field are 0.
    pub(super) fn new(source: Ipv4Addr, destination: Destination, protocol: u8, ttl: u8) -> Outer {
        Outer { source, destination, protocol, tos: 0, ttl, fragment: 0 }
    }

    /// Returns the template for the packets of one batch: the IPv4 header with all fields that do not differ
    /// between the packets.
    pub(super) fn template(&self, cx: &Cx<'_>) -> Template {
        let mut header = ipv4::Header {
            version_ihl: 0x45,
            tos: self.tos,
            total_length: U16::new(0),
            id: U16::new(0),
            fragment: U16::new(self.fragment),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::new(0),
            source: U32::new(self.source.to_bits()),
            destination: U32::new(0),
        };
        if let Destination::Fixed(address) = self.destination {
            header.destination.set(address.to_bits());
        }
        Template {
            header,
            sum: Sum::new().bytes(header.as_bytes()),
            destination: self.destination,
            destination_is_read: cx.graph().facts().annotation_read(Annotations::DST_IP, 4),
        }
    }

    /// Returns the effects of an element that prepends the IPv4 header and `inner` bytes of headers after
    /// it. `more` are the actions that write these bytes. `checksum` is the inner header that has a
    /// checksum of its own, if it has one.
    pub(super) fn effects(&self, inner: usize, more: Vec<Action>, checksum: Option<HeaderKind>) -> Effects {
        let length = ipv4::Header::LEN + inner;
        let total = Number::of(Field::Length).plus_constant(length as i64);
        let fits = Predicate::at_most(total.clone(), Number::constant(u16::MAX.into()));
        let too_long = Case::new(fits.not(), Target::Drop(DropReason::TooLong));
        let mut actions = vec![
            Action::Strip(-(length as i32)),
            header_at(Base::Network, 0),
            header_at(Base::Transport, ipv4::Header::LEN),
            constant(bytes(Base::Network, 0, 2), &[0x45, self.tos]),
            Action::Set(wire_field::IP_LENGTH, Value::Number(total)),
            identification(wire_field::IP_ID),
            constant(wire_field::IP_FRAGMENT, &self.fragment.to_be_bytes()),
            constant(wire_field::IP_TTL, &[self.ttl]),
            constant(wire_field::IP_PROTOCOL, &[self.protocol]),
            constant(wire_field::IP_SRC, &self.source.octets()),
        ];
        match self.destination {
            Destination::Fixed(address) => {
                actions.push(constant(DST_IP, &address.octets()));
                actions.push(constant(wire_field::IP_DST, &address.octets()));
            }
            Destination::Annotation => actions.push(Action::Set(wire_field::IP_DST, Value::Copy(DST_IP))),
        }
        actions.extend(more);
        let checksums = std::iter::once(HeaderKind::Ipv4).chain(checksum).collect();
        let encap = Case { checksum: Checksum::Recomputed(checksums), ..otherwise(actions) };
        Effects::cases(vec![too_long, encap]).depending_on(Depends::Counter).depending_on(Depends::Handler)
    }
}

/// The IPv4 header of the packets of a batch, in which the fields that differ between packets are zero.
pub(super) struct Template {
    header: ipv4::Header,
    /// The checksum's sum over `header`, to which the fields of each packet are added.
    sum: Sum,
    destination: Destination,
    /// True if an element reads the destination address annotation; otherwise it need not be set.
    destination_is_read: bool,
}

impl Template {
    /// Returns the destination address annotation of a packet if it is the packet's destination; `None` if
    /// the destination is fixed.
    #[inline]
    pub(super) fn annotated(&self, packet: &Packet) -> Option<[u8; 4]> {
        match self.destination {
            Destination::Fixed(_) => None,
            Destination::Annotation => Some(packet.destination()),
        }
    }

    /// Returns the total length field for a packet to which the IPv4 header and `inner` more bytes of
    /// headers are prepended.
    ///
    /// # Errors
    /// [`DropReason::TooLong`] if it is more than 65,535.
    #[inline]
    pub(super) fn total(packet: &Packet, inner: usize) -> Result<u16, DropReason> {
        u16::try_from(packet.len() + inner + ipv4::Header::LEN).map_err(|_| DropReason::TooLong)
    }

    /// Prepends the IPv4 header with identification `id`, and the header `inner` after it. Sets the network
    /// and transport header annotations, and for a fixed destination that an element reads, the destination
    /// address annotation. Rejects packets that become too long or have too little headroom.
    #[inline]
    pub(super) fn prepend<const N: usize>(&self, packet: &mut Packet, id: u16, inner: &[u8; N]) -> Fate {
        let total = Template::total(packet, N)?;
        let annotated = self.annotated(packet);
        if !packet.unstrip(ipv4::Header::LEN + N) {
            return Err(DropReason::NoHeadroom);
        }
        packet.set_headers(0, ipv4::Header::LEN);
        if N > 0 {
            *packet.header_chunk_mut(Base::Transport).ok_or(DropReason::NoHeader)? = *inner;
        }
        // Fill in the header in place. A copy of a header that has just been assembled would have to wait
        // for the small stores that assembled it.
        let ip = ipv4(packet)?;
        *ip = self.header;
        ip.total_length.set(total);
        ip.id.set(id);
        let mut sum = self.sum.word(total).word(id);
        if let Some(address) = annotated {
            sum = sum.bytes(&address);
            ip.destination = address.into();
        }
        ip.checksum.set(sum.checksum());
        if self.destination_is_read && annotated.is_none() {
            packet.set_destination(self.header.destination.to_bytes());
        }
        Ok(())
    }
}

/// Returns the identification for the next packet and advances `id`: after 65535 follows 1.
pub(super) fn next_id(id: &mut u16) -> u16 {
    let this = *id;
    *id = if this == u16::MAX { 1 } else { this + 1 };
    this
}
