//! # CheckUDPHeader
//! Checks UDP headers: length and checksum.
//!
//! A packet with a checksum of zero has no checksum, and is good in this respect. The network and transport
//! header annotations must be set: put CheckIPHeader upstream. Bad packets leave by output 1, or are
//! dropped. With DETAILS, a handler `drop_details` counts them by reason.
//!
//! ## Usage
//! `CheckUDPHeader([KEYWORDS])`
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
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> CheckUDPHeader -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, CheckTCPHeader, CheckICMPHeader, SetUDPChecksum

use element::effects::{Filter, HeaderKind, Predicate, Support};
use element::{Base, Class, Cx, DropReason, Effects, Packet, manual};
use wire::checksum::PseudoHeader;
use wire::{FromBytes, ip_protocol, udp};

use super::check_tcp_header::{self, from_network, ipv4_of, is_known_right};
use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{bytes, checked, ipv4_header_length, ipv4_of_protocol, rest_from, sum_from, within};

/// The element class `CheckUDPHeader`.
pub static CLASS: Class = Class {
    name: "CheckUDPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_udp_header.rs"),
    args: check_tcp_header::ARGS,
    table: &Checker::<CheckUdpHeader>::HANDLERS,
    state: Checker::<CheckUdpHeader>::STATE,
    samples: &["", "CHECKSUM false, DETAILS true, VERBOSE true -> 1/2"],
    build: |args| {
        let checksum = args.value::<bool>("CHECKSUM");
        Checker::boxed(args, &CLASS, CheckUdpHeader { checksum, trusts: false })
    },
    ..Class::DEFAULT
};

struct CheckUdpHeader {
    checksum: bool,
    /// True if devices may say that a checksum is right.
    trusts: bool,
}

impl HeaderCheck for CheckUdpHeader {
    const REASONS: Reasons = &[
        ("not UDP", DropReason::BadTransportHeader),
        ("bad packet length", DropReason::BadTransportHeader),
        ("bad UDP checksum", DropReason::BadTransportChecksum),
    ];
    const MESSAGE: &'static str = "UDP header check failed";
    const SPEAKER: Speaker = Speaker::None;

    fn effects(&self) -> Effects {
        let at = |offset, length| bytes(Base::Transport, offset, length);
        let end = ipv4_header_length(Base::Network, 0).plus(1, at(4, 2), u128::MAX);
        let well_formed = vec![
            ipv4_of_protocol(ip_protocol::UDP),
            Predicate::present(HeaderKind::Udp),
            within(at(4, 2), u128::MAX, udp::Header::LEN as u128, 0xffff),
            Predicate::at_most(end, rest_from(Base::Network)),
        ];
        let mut sound = vec![(Filter::All(well_formed), DropReason::BadTransportHeader)];
        if self.checksum {
            let right = Filter::Leaf(Predicate::RightChecksum {
                header: HeaderKind::Udp,
                base: Base::Transport,
                offset: 0,
            });
            let right = Filter::Any(vec![Predicate::equals(at(6, 2), 0), right]);
            sound.push((right, DropReason::BadTransportChecksum));
        }
        let support = Support { trusts_checksums: self.checksum, ..Support::default() };
        Effects { support, ..checked(sound, Vec::new()) }
    }

    fn prepare(&mut self, cx: &mut Cx<'_>) {
        self.trusts = cx.graph().trusts_checksums();
    }

    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        let (ip, options) = ipv4_of(packet, ip_protocol::UDP).ok_or(0usize)?;
        let header = packet.header(Base::Transport).ok_or(1usize)?;
        let Ok((udp, _)) = udp::Header::ref_from_prefix(header) else { return Err(1) };
        let length = usize::from(udp.length.get());
        if length < udp::Header::LEN || from_network(packet) < length + ip.header_len() {
            return Err(1);
        }
        if self.checksum && udp.checksum.get() != 0 && !(self.trusts && is_known_right(packet, ip)) {
            let pseudo = PseudoHeader::routed(ip, options).sum(ip_protocol::UDP, length);
            let sum = sum_from(packet, Base::Transport, length, pseudo).ok_or(1usize)?;
            if !sum.is_valid() {
                return Err(2);
            }
        }
        Ok(())
    }
}
