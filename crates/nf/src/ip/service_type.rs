//! The common part of elements that rewrite the type of service byte.

use element::effects::{Action, Header, Value, wire_field};
use element::{Effects, Packet};
use wire::checksum::Delta;
use wire::ipv4;

use crate::editing::{Fate, ipv4, needs, otherwise};

/// Changes the type of service byte and updates the header checksum.
#[inline]
pub(super) fn change(packet: &mut Packet, new: impl FnOnce(u8) -> u8) -> Fate {
    let ip = ipv4(packet)?;
    set(ip, new(ip.tos));
    Ok(())
}

/// Sets the type of service byte and updates the header checksum.
#[inline]
pub(super) fn set(ip: &mut ipv4::Header, tos: u8) {
    // The 16-bit word also contains the version and header length, which do not change.
    ip.checksum.set(Delta::u16(ip.tos.into(), tos.into()).apply(ip.checksum.get()));
    ip.tos = tos;
}

/// Returns the effects of an element that sets the bits of `mask` in the byte.
pub(super) fn effects(mask: u8, value: u8) -> Effects {
    let set = Action::Set(wire_field::IP_TOS, Value::Bits { mask: vec![mask], value: vec![value] });
    Effects::cases(vec![needs(Header::Ipv4), otherwise(vec![set]).updating(&[Header::Ipv4])])
}
