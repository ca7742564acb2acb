//! The common part of elements that change the type of service byte of IPv4 headers.

use element::effects::{Action, HeaderKind, Value, wire_field};
use element::{Effects, Packet};
use wire::checksum::Delta;
use wire::ipv4;

use crate::editing::{Fate, ipv4, needs, otherwise};

/// Changes the type of service byte of a packet to `new` of its old value, and updates the header checksum.
/// The error is the drop reason of a packet without an IPv4 header.
#[inline]
pub(super) fn change(packet: &mut Packet, new: impl FnOnce(u8) -> u8) -> Fate {
    let ip = ipv4(packet)?;
    set(ip, new(ip.tos));
    unset_run_unless_ipv4(packet);
    Ok(())
}

/// Sets the type of service byte of a header, and updates the header checksum.
#[inline]
pub(super) fn set(ip: &mut ipv4::Header, tos: u8) {
    // The checksum is a sum of 16-bit words. The word with the type of service byte also contains the version
    // and header length, which do not change.
    ip.checksum.set(Delta::u16(ip.tos.into(), tos.into()).apply(ip.checksum.get()));
    ip.tos = tos;
}

/// Unsets the run number ([`Packet::run`]) of a packet whose IP version is not 4. A run is consecutive
/// packets of one flow. If an element writes fields of an IPv4 header into IPv6 packets, it writes into their
/// addresses, so that packets of one run may get different addresses.
#[inline]
pub(super) fn unset_run_unless_ipv4(packet: &mut Packet) {
    if packet.network_bytes(0).is_none_or(|&[first]| first >> 4 != 4) {
        packet.set_run(0);
    }
}

/// Declares an element that sets the bits in `mask` of the type of service byte to the bits of `value`.
pub(super) fn effects(mask: u8, value: u8) -> Effects {
    let set = Action::Set(wire_field::IP_TOS, Value::Bits { mask: vec![mask], value: vec![value] });
    Effects::cases(vec![needs(HeaderKind::Ipv4), otherwise(vec![set]).updating(&[HeaderKind::Ipv4])])
}
