//! Conditions of declarations, evaluated on a packet.
//!
//! The trace of a packet uses them to find the case of a declaration that an element has applied.

use packet::Packet;
use wire::checksum::ipv4_valid;

use super::{Field, Filter, HeaderKind, Number, Predicate};

/// Returns whether a packet matches a filter. `None` if that follows from something else than the packet,
/// such as the element's state, or if the filter checks a checksum of a transport header.
pub fn accepts(filter: &Filter, packet: &Packet) -> Option<bool> {
    let known = filter.replace(&mut |predicate| match answer(predicate, packet) {
        Some(value) => Filter::Constant(value),
        None => Filter::Leaf(predicate.clone()),
    });
    match known.simplified() {
        Filter::Constant(value) => Some(value),
        _ => None,
    }
}

fn answer(predicate: &Predicate, packet: &Packet) -> Option<bool> {
    match predicate {
        Predicate::In { field, mask, set } => {
            Some(bits(field, packet).is_some_and(|value| set.contains(value & mask)))
        }
        Predicate::Present(header) => {
            let there = |place: isize| reaches(packet, place, header.least_length().into());
            Some(packet.offset(header.base()).is_some_and(there))
        }
        Predicate::RightChecksum { header: HeaderKind::Ipv4, base, offset } => {
            let place = packet.offset(*base)? + *offset as isize;
            let mut header = [0; 60];
            let got = packet.read_at(usize::try_from(place).ok()?, &mut header);
            let length = usize::from(header[0] & 0xf) * 4;
            header[..got].get(..length).map(ipv4_valid)
        }
        // A number with the offset of a header that was stripped is not computed: the offset is negative.
        Predicate::AtMost(a, b) if [a, b].iter().any(|number| has_stripped(number, packet)) => None,
        Predicate::AtMost(a, b) => Some(match (number(a, packet), number(b, packet)) {
            (Some(a), Some(b)) => a <= b,
            _ => false,
        }),
        Predicate::RightChecksum { .. } | Predicate::State { .. } | Predicate::Opaque { .. } => None,
    }
}

fn has_stripped(number: &Number, packet: &Packet) -> bool {
    let is_stripped = |field: &Field| match field {
        Field::HeaderOffset(base) => packet.offset(*base).is_some_and(|offset| offset < 0),
        _ => false,
    };
    number.variables().any(is_stripped)
}

fn number(number: &Number, packet: &Packet) -> Option<i64> {
    let is_there = number.variables().all(|field| bits(field, packet).is_some());
    is_there.then(|| number.value(|field| bits(field, packet).unwrap_or(0)))
}

fn reaches(packet: &Packet, place: isize, length: usize) -> bool {
    usize::try_from(place).is_ok_and(|place| place + length <= packet.len())
}

/// Returns the value of a field as a big-endian number; of a field of more than 16 bytes, its last 16 bytes.
/// `None` if the packet is too short to have it.
fn bits(field: &Field, packet: &Packet) -> Option<u128> {
    match field {
        Field::Bytes { base, offset, length } => {
            let place = packet.offset(*base)? + *offset as isize;
            let length = usize::from(*length);
            if !reaches(packet, place, length) {
                return None;
            }
            let (mut last, shown) = ([0; 16], length.min(16));
            packet.read_at(place as usize + length - shown, &mut last[16 - shown..]);
            Some(u128::from_be_bytes(last))
        }
        Field::Annotation { offset, length } => {
            let annotations = packet.annotations();
            let bytes = (*offset..offset.saturating_add(*length)).map(|at| annotations.u8(at.into()));
            Some(bytes.fold(0, |value, byte| value << 8 | u128::from(byte)))
        }
        Field::HeaderOffset(base) => u128::try_from(packet.offset(*base)?).ok(),
        Field::Length => Some(packet.len() as u128),
        Field::Kind => Some(packet.kind() as u128),
        Field::InputPort => Some(packet.port().into()),
        Field::TimeStamp => Some(packet.time().0 as u64 as u128),
        Field::Payload => None,
    }
}

#[cfg(test)]
mod tests {
    use packet::{Base, Pool};

    use super::super::wire_field::*;
    use super::*;

    #[test]
    fn filters_are_answered_from_the_packet() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend([0, 53, 4, 210, 0, 8, 0, 0]);
        let mut packet = pool.packet(&ip).unwrap();
        let ttl = Predicate::equals(IP_TTL, 64);
        assert_eq!(accepts(&ttl, &packet), Some(false), "the network header is not marked");
        packet.set_headers(0, 20);
        let state: Filter = Predicate::State { table: "flows", hit: true }.into();
        let sum: Filter =
            Predicate::RightChecksum { header: HeaderKind::Ipv4, base: Base::Network, offset: 0 }.into();
        assert_eq!(accepts(&ttl, &packet), Some(true));
        assert_eq!(accepts(&Predicate::equals(SRC_PORT, 53), &packet), Some(true));
        assert_eq!(accepts(&Predicate::present(HeaderKind::Udp), &packet), Some(true));
        assert_eq!(accepts(&Predicate::present(HeaderKind::Tcp), &packet), Some(false), "too short");
        assert_eq!(accepts(&Predicate::reaches(Base::Network, 0, 28), &packet), Some(true));
        assert_eq!(accepts(&Predicate::reaches(Base::Network, 0, 29), &packet), Some(false));
        assert_eq!(accepts(&sum, &packet), Some(false));
        assert_eq!(accepts(&state, &packet), None);
        assert_eq!(accepts(&state.clone().and([ttl.clone().not()]), &packet), Some(false));
        let ends = Number::constant(20).plus(1, Field::HeaderOffset(Base::Network), u128::MAX);
        let at_most = |number: &Number, most| Predicate::at_most(number.clone(), Number::constant(most));
        assert_eq!(accepts(&at_most(&ends, 20), &packet), Some(true));
        assert_eq!(accepts(&at_most(&ends, 19), &packet), Some(false));
        assert!(packet.strip(20));
        assert_eq!(accepts(&at_most(&ends, 0), &packet), None, "the header was stripped");
        pool.free(packet);
    }
}
