//! # ResetIPChecksum
//! Recomputes the checksum of the IPv4 header and, if asked to, of TCP or UDP.
//!
//! In FastClick, the card computes the checksums; here, the element does, so packets have right checksums at
//! once and on any device. Headers are found as by SetIPChecksum. Packets that are too short for the IP
//! header, or whose header length is below 20 bytes, are dropped.
//!
//! ## Usage
//! `ResetIPChecksum([L4])`
//!
//! ## Arguments
//! - `L4`: if true, the checksum of TCP or UDP is recomputed, too: in packets whose network and transport
//!   header annotations are set, and that are neither fragments nor shorter than their headers say.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> ResetIPChecksum(L4 true) -> Discard
//! ```
//!
//! ## See also
//! SetIPChecksum, SetTCPChecksum, SetUDPChecksum

use element::class::ArgInfo;
use element::effects::{Case, Checksum, HeaderKind, Predicate, wire_field};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::ip_protocol;

use super::{set_ip_checksum, set_tcp_checksum, set_udp_checksum};
use crate::editing::{ipv4_with_options, within};

/// The element class `ResetIPChecksum`.
pub static CLASS: Class = Class {
    name: "ResetIPChecksum",
    manual: manual!("reset_ip_checksum.rs"),
    args: &[ArgInfo::positional("L4", "bool", "false")],
    samples: &["", "true"],
    build: |args| {
        let l4 = args.value("L4");
        args.finish()?;
        Ok(Box::new(ResetIpChecksum { l4 }))
    },
    ..Class::DEFAULT
};

struct ResetIpChecksum {
    l4: bool,
}

/// Sets the checksum of TCP or UDP, if the packet has one that can be computed.
fn set_l4(packet: &mut Packet) {
    let Some((ip, _)) = ipv4_with_options(packet) else { return };
    // A packet whose checksum cannot be computed passes unchanged.
    let _ = match ip.protocol {
        _ if ip.is_fragment() => None,
        ip_protocol::TCP => set_tcp_checksum::set(packet, false),
        ip_protocol::UDP => set_udp_checksum::set(packet),
        _ => None,
    };
}

impl Element for ResetIpChecksum {
    fn effects(&self) -> Effects {
        let mut cases = set_ip_checksum::cases();
        if let (true, Some(marked)) = (self.l4, cases.first().cloned()) {
            let transports = [
                (ip_protocol::TCP, HeaderKind::Tcp, set_tcp_checksum::sound()),
                (ip_protocol::UDP, HeaderKind::Udp, set_udp_checksum::sound()),
            ];
            let case = |(protocol, kind, sound): (u8, _, _)| Case {
                when: marked.when.clone().and([
                    Predicate::equals(wire_field::IP_PROTOCOL, protocol.into()),
                    within(wire_field::IP_FRAGMENT, 0x3fff, 0, 0),
                    sound,
                ]),
                checksum: Checksum::Recomputed(vec![HeaderKind::Ipv4, kind]),
                ..marked.clone()
            };
            cases.splice(0..0, transports.map(case));
        }
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let l4 = self.l4;
        batch.sift(
            |packet| {
                set_ip_checksum::set(packet).ok_or(DropReason::BadIpHeader)?;
                if l4 {
                    set_l4(packet);
                }
                Ok(())
            },
            |packet, reason| cx.drop(packet, reason),
        );
    }
}
