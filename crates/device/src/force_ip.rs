//! The implementation of the argument FORCE_IP, for elements that read packets from captures and
//! interfaces: sets the header annotations of IP packets, and detects packets that are not IP.

use element::effects::{Action, Case, DST_IP, Field, Value};
use element::{Base, Packet};
use wire::layers::Network;
use wire::{Layers, LinkType};

/// Sets the network header and transport header annotations, and for IPv4 the destination annotation.
/// Returns false, and changes nothing, if the packet is not IP.
pub(crate) fn mark_ip(packet: &mut Packet) -> bool {
    let layers = Layers::locate(packet.data(), LinkType::from_number(packet.link()));
    let (Some(l3), Network::Ipv4 | Network::Ipv6) = (layers.l3, layers.network) else { return false };
    packet.set_offset(Base::Network, Some(l3 as isize));
    // The transport header annotation is set for later IPv4 fragments as well, whose payload has no
    // transport header. Elements that read the transport header check for fragments first.
    let behind = match layers.network {
        Network::Ipv4 => packet.data().get(l3).map(|first| l3 + usize::from(first & 15) * 4),
        _ => layers.l4,
    };
    packet.set_offset(Base::Transport, behind.map(|behind| behind as isize));
    if layers.network == Network::Ipv4
        && let Some(destination) = packet.data().get(l3 + 16..l3 + 20).and_then(|b| b.try_into().ok())
    {
        packet.set_destination(destination);
    }
    true
}

/// Returns `case`, a case of the effects that a source declares, with the annotations that [`mark_ip`] sets
/// added as fields that the case sets.
pub(crate) fn marking_ip(case: Case) -> Case {
    let pure = |name| Value::Pure { name, reads: Vec::new() };
    case.with(Action::Set(Field::HeaderOffset(Base::Network), pure("where IP starts")))
        .with(Action::Set(Field::HeaderOffset(Base::Transport), pure("after the IP header")))
        .with(Action::Set(DST_IP, pure("destination")))
}
