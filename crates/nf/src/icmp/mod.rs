//! Elements for ICMP: errors about packets, and echo requests and replies.

pub mod icmp6_error;
pub mod icmp_error;
pub mod icmp_ping_responder;
pub mod icmp_ping_source;

use element::effects::{Case, Depends, Effects, Emit, Field, Filter, HeaderKind, Target};
use element::{Base, Cx, DropReason, Packet};
use packet::Annotations;

use crate::editing::{annotation, when};

/// Appends as much of a packet, from its network header on, as fits into a message of `longest` bytes in
/// all.
fn quote(message: &mut Vec<u8>, packet: &Packet, longest: usize) {
    let Some(first) = packet.header(Base::Network) else { return };
    let mut room = longest.saturating_sub(message.len());
    for chunk in std::iter::once(first).chain(packet.chunks().skip(1)) {
        let step = chunk.len().min(room);
        message.extend_from_slice(&chunk[..step]);
        room -= step;
    }
}

/// Drops a packet, and returns a new packet with the bytes of the message about it. The message starts with
/// an IP header of `header_length` bytes. Returns `None` if there is no memory for it.
fn answer(cx: &mut Cx<'_>, packet: Packet, message: &[u8], header_length: usize) -> Option<Packet> {
    cx.drop(packet, DropReason::Answered);
    let mut message = cx.packet(message)?;
    message.set_headers(0, header_length);
    message.set_time(cx.now());
    Some(message)
}

/// Returns the effects of an element that answers packets with messages: the messages' name, the header
/// with which they start, and the annotation that gives their destination.
fn declared(name: &'static str, starts: HeaderKind, destination: Field) -> Effects {
    let header = vec![Field::HeaderOffset(Base::Network), Field::Payload, Field::Length, Field::Kind];
    let none = when("no error may be sent about it", &header, Target::Drop(DropReason::Unsuitable));
    let mut reads = header;
    reads.extend([annotation(Annotations::ICMP_PARAM, 1), destination]);
    let when = none.when.clone().not();
    let message = Emit { name, input: None, reads, output: Some(0), starts: Some(starts), when };
    let answered = Case::new(Filter::TRUE, Target::Drop(DropReason::Answered));
    let effects = Effects { emits: vec![message], ..Effects::cases(vec![none, answered]) };
    effects.depending_on(Depends::Time)
}
