//! # CheckTCPHeader
//! Checks TCP headers: length and checksum.
//!
//! The network and transport header annotations must be set: put CheckIPHeader upstream. Bad packets leave
//! by output 1, or are dropped. With DETAILS, a handler `drop_details` counts them by reason.
//!
//! ## Usage
//! `CheckTCPHeader([KEYWORDS])`
//!
//! ## Arguments
//! - `CHECKSUM`: true to check the checksum. The payload is not read if the interface that received the
//!   packet has verified the checksum, and no element upstream may have made it wrong.
//! - `VERBOSE`: true to report every bad packet, not only the first.
//! - `DETAILS`: if true, there is a handler `drop_details`.
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> CheckTCPHeader -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, CheckUDPHeader, CheckICMPHeader, SetTCPChecksum

use element::class::ArgInfo;
use element::effects::{Filter, HeaderKind, Number, Predicate, Support, wire_field};
use element::{Base, Class, Cx, DropReason, Effects, Packet, checksums, manual};
use wire::checksum::PseudoHeader;
use wire::{FromBytes, ip_protocol, ipv4, tcp};

use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{
    bytes, checked, ipv4_of_protocol, ipv4_total, ipv4_with_options, rest_from, sum_from, within,
};

/// The element class `CheckTCPHeader`.
pub static CLASS: Class = Class {
    name: "CheckTCPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_tcp_header.rs"),
    args: ARGS,
    table: &Checker::<CheckTcpHeader>::HANDLERS,
    state: Checker::<CheckTcpHeader>::STATE,
    samples: &["", "CHECKSUM false, DETAILS true, VERBOSE true -> 1/2"],
    build: |args| {
        let checksum = args.value::<bool>("CHECKSUM");
        Checker::boxed(args, &CLASS, CheckTcpHeader { checksum, trusts: false })
    },
    ..Class::DEFAULT
};

/// The arguments of all elements that check transport headers.
pub(super) const ARGS: &[ArgInfo] = &[
    ArgInfo::keyword("CHECKSUM", "bool", "true"),
    ArgInfo::keyword("VERBOSE", "bool", "false"),
    ArgInfo::keyword("DETAILS", "bool", "false"),
];

struct CheckTcpHeader {
    checksum: bool,
    /// True if devices may say that a checksum is right.
    trusts: bool,
}

/// Returns the IP header and options of a packet with this transport protocol. `None` if the protocol
/// differs, if the first slot ends before byte 20 of the IP header, or if the network or transport header
/// annotation is not set. The packet may be a fragment.
pub(super) fn ipv4_of(packet: &Packet, protocol: u8) -> Option<(&ipv4::Header, &[u8])> {
    let (ip, options) = ipv4_with_options(packet)?;
    let marked = packet.offset(Base::Transport).is_some();
    (marked && ip.protocol == protocol).then_some((ip, options))
}

/// Returns the number of bytes from the packet's network header to its end; 0 if the network header
/// annotation is not set.
pub(super) fn from_network(packet: &Packet) -> usize {
    crate::editing::length_from(packet, Base::Network).unwrap_or(0)
}

/// True if a device has found the transport checksum of a packet right. `ip` is the packet's IP header. False
/// for fragments, and for packets with IP options, which may have another destination than the device knows.
#[inline]
pub(super) fn is_known_right(packet: &Packet, ip: &ipv4::Header) -> bool {
    let is_plain = !ip.is_fragment()
        && ip.header_len() == ipv4::Header::LEN
        && packet.transport_follows_network(ipv4::Header::LEN);
    is_plain && packet.offset(Base::Network).is_some_and(|l3| checksums::is_known_right(packet, l3))
}

impl HeaderCheck for CheckTcpHeader {
    const REASONS: Reasons = &[
        ("not TCP", DropReason::BadTransportHeader),
        ("bad packet length", DropReason::BadTransportHeader),
        ("bad TCP checksum", DropReason::BadTransportChecksum),
    ];
    const MESSAGE: &'static str = "TCP header check failed";
    const SPEAKER: Speaker = Speaker::Declaration;

    fn effects(&self) -> Effects {
        let at = |offset, length| bytes(Base::Transport, offset, length);
        let header_length = Number::constant(0).plus(4, at(12, 1), 0xf0);
        let total = || ipv4_total(Base::Network, 0);
        let length = total().plus(-4, wire_field::IP_VERSION_IHL, 0x0f);
        let well_formed = vec![
            ipv4_of_protocol(ip_protocol::TCP),
            Predicate::present(HeaderKind::Tcp),
            within(at(12, 1), 0xf0, 0x50, 0xf0),
            Predicate::at_most(header_length, length),
            Predicate::at_most(total(), rest_from(Base::Network)),
        ];
        let mut sound = vec![(Filter::All(well_formed), DropReason::BadTransportHeader)];
        if self.checksum {
            let right = Filter::Leaf(Predicate::RightChecksum {
                header: HeaderKind::Tcp,
                base: Base::Transport,
                offset: 0,
            });
            sound.push((right, DropReason::BadTransportChecksum));
        }
        let support = Support { trusts_checksums: self.checksum, ..Support::default() };
        Effects { support, ..checked(sound, Vec::new()) }
    }

    fn prepare(&mut self, cx: &mut Cx<'_>) {
        self.trusts = cx.graph().trusts_checksums();
    }

    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        let (ip, options) = ipv4_of(packet, ip_protocol::TCP).ok_or(0usize)?;
        let total = usize::from(ip.total_length.get());
        let length = total.checked_sub(ip.header_len()).ok_or(1usize)?;
        let header = packet.header(Base::Transport).ok_or(1usize)?;
        let Ok((tcp, _)) = tcp::Header::ref_from_prefix(header) else { return Err(1) };
        let header_length = tcp.header_len();
        if header_length < tcp::Header::LEN || length < header_length || from_network(packet) < total {
            return Err(1);
        }
        if self.checksum && !(self.trusts && is_known_right(packet, ip)) {
            let pseudo = PseudoHeader::routed(ip, options).sum(ip_protocol::TCP, length);
            let sum = sum_from(packet, Base::Transport, length, pseudo).ok_or(1usize)?;
            if !sum.is_valid() {
                return Err(2);
            }
        }
        Ok(())
    }
}
