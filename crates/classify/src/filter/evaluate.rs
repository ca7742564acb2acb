//! The reference evaluator of primitives: it reads the fields of each primitive from the headers, as the
//! manual describes. Tests compare all compiled forms with it, so the evaluator does not use the tests of
//! header bytes from which the compiled forms are made.

use super::{HeaderSlices, Primitive, Protocol, Relation, Sides, Version};

impl Primitive {
    /// True if the primitive holds for a packet. A comparison with bytes that the packet lacks does not hold,
    /// even with `!=`.
    pub fn holds(&self, headers: &HeaderSlices<'_>) -> bool {
        match *self {
            Primitive::Host { version, ends, address, mask, opposite } => {
                let (at, length) = if version == Version::V4 { (12, 4) } else { (8, 16) };
                let read = |at: usize| headers.network.get(at..at + length).map(big_endian);
                let equal = |found: u128| found & mask == address & mask;
                // With mask 0 no byte is compared, so the comparison also holds for a packet that lacks the
                // address.
                let found = [at, at + length].map(|at| if mask == 0 { Some(0) } else { read(at) });
                version_fits(version, headers) && both_ends(ends, opposite, found, equal)
            }
            Primitive::Ether { ends, address, mask, opposite } => {
                let all = big_endian(&mask);
                let read = |at: usize| headers.mac.get(at..at + 6).map(big_endian);
                let found = [6, 0].map(|at| if all == 0 { Some(0) } else { read(at) });
                both_ends(ends, opposite, found, |found| found & all == big_endian(&address) & all)
            }
            Primitive::ProtocolNumber { version, relation } => {
                version_fits(version, headers) && related(relation, protocol_of(version, headers))
            }
            Primitive::ProtocolSet { version, protocol, opposite } => {
                let known = protocol == Protocol::Any || protocol_of(version, headers).is_some();
                version_fits(version, headers) && known && is(protocol, version, headers) != opposite
            }
            Primitive::Fragment { fragment } => {
                headers.network.get(6..8).is_some_and(|f| (big_endian(f) & 0x3fff != 0) == fragment)
            }
            Primitive::Port { version, protocol, ends, relation } => {
                let read = |at: usize| headers.transport.get(at..at + 2).map(big_endian);
                let found = match relation {
                    Relation::Always(_) => [Some(0); 2],
                    Relation::Compare { .. } => [read(0), read(2)],
                };
                // A question about either port without negation holds if the source or the destination port
                // fits. Its negation (`!=`, `<`, `<=`) holds only if neither port fits.
                let plain = |port: u128| relation.holds(port as u32) != relation.is_opposite();
                starts_with(protocol, version, headers)
                    && both_ends(ends, relation.is_opposite(), found, plain)
            }
            Primitive::TcpFlags { version, flags } => {
                let found = if flags == 0 { Some(0) } else { headers.transport.get(13).copied() };
                starts_with(Protocol::TCP, version, headers)
                    && found.is_some_and(|found| found & flags == flags)
            }
            Primitive::Field { version, place, relation } => {
                let (header, starts) = match place.protocol {
                    None => (headers.network, version_fits(version, headers)),
                    Some(protocol) => (headers.transport, starts_with(protocol, version, headers)),
                };
                let (first, end) = (place.bit as usize, place.bit as usize + usize::from(place.bits));
                let bytes = header.get(first / 8..end.div_ceil(8));
                let below = end.div_ceil(8) * 8 - end;
                let number = bytes.map(|b| (big_endian(b) >> below) as u32 & place.largest());
                starts && related(relation, number)
            }
        }
    }
}

fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

fn related(relation: Relation, number: Option<u32>) -> bool {
    match relation {
        Relation::Always(value) => value,
        Relation::Compare { .. } => number.is_some_and(|number| relation.holds(number)),
    }
}

/// Combines the values of the source and of the destination (such as their ports) as `ends` requires: either,
/// both, or one of them. A value is `None` if the packet lacks it. `plain` tells if a value fits the question
/// without negation; `opposite` negates the whole question.
fn both_ends(ends: Sides, opposite: bool, found: [Option<u128>; 2], plain: impl Fn(u128) -> bool) -> bool {
    let [source, destination] = found.map(|found| found.is_some_and(|found| plain(found) != opposite));
    match (ends, opposite) {
        (Sides::Source, _) => source,
        (Sides::Destination, _) => destination,
        (Sides::Either, false) | (Sides::Both, true) => source || destination,
        (Sides::Both, false) | (Sides::Either, true) => source && destination,
    }
}

fn version_fits(version: Version, headers: &HeaderSlices<'_>) -> bool {
    version == Version::V4 || headers.network.first().is_some_and(|first| first >> 4 == 6)
}

fn protocol_of(version: Version, headers: &HeaderSlices<'_>) -> Option<u32> {
    let at = if version == Version::V4 { 9 } else { 6 };
    headers.network.get(at).copied().map(u32::from)
}

fn is(protocol: Protocol, version: Version, headers: &HeaderSlices<'_>) -> bool {
    let found = protocol_of(version, headers);
    match protocol {
        Protocol::Number(number) => found == Some(number.into()),
        Protocol::TcpOrUdp => matches!(found, Some(6 | 17)),
        Protocol::Any => true,
    }
}

/// True if the packet has the protocol and, over IPv4, is not a fragment other than the first. In an IPv6
/// fragment, the protocol field has the number of the fragment header. So the protocol of such a fragment is
/// not TCP, UDP or ICMP, but it is in the set `transp` of all protocols.
fn starts_with(protocol: Protocol, version: Version, headers: &HeaderSlices<'_>) -> bool {
    let first = match version {
        Version::V4 => headers.network.get(6..8).is_some_and(|f| big_endian(f) & 0x1fff == 0),
        Version::V6 => true,
    };
    first && version_fits(version, headers) && is(protocol, version, headers)
}
