//! Sliced packets inside of tunnels, into which a network function has put them.
//!
//! Inner packets are inspected in both directions. On the way back, this is done if the outermost packet
//! has no token: the payload then replaces the token inside, and all headers around it are adapted. On the
//! way to the network function, it ensures that no packet from outside looks like a sliced packet.

use element::{Base, DropReason, Packet};
use packet::Pool;
use wire::{LinkType, ipv4};

use crate::headers::{HEADERS, Headers};
use crate::in_tunnel::InTunnel;
use crate::joining::{Fate, attach, count, take_extra_length};
use crate::network::ip_length;
use crate::payloads::State;
use crate::quoted;
use crate::table::Parked;
use crate::token::{MARKER, PayloadPlace, TOKEN};
use crate::tunnel::{Outer, Walk, may_be_fragmented};

/// The minimum number of payload bytes of a datagram that contains a packet with the mark of sliced packets:
/// an IPv4 and a UDP header.
pub(crate) const LEAST: usize = 20 + 8;
/// The maximum length in bytes of a packet whose last bytes are tried as a token, although its contents are
/// not known. Sliced packets with headers around them are not longer, unless they keep a part of their
/// payload.
const MOST: usize = 512;
/// The maximum number of marks of sliced packets (DSCP 63) that are removed from one packet: its own and
/// those of its inner packets.
const MARKS: usize = 8;

/// The result of searching a packet for a sliced packet inside.
pub(crate) enum Inside {
    /// No sliced packet was found.
    Nothing,
    /// A packet with the mark of sliced packets was found, but no valid token.
    Marked,
    /// A sliced packet was found: its headers, the worker and table entry that hold its payload, and the
    /// headers of the tunnel around it.
    Sliced(Headers, PayloadPlace, Outer),
}

/// Starts a walk over the headers of a packet. `l3` is the offset of its outermost IP header, if known.
/// `None` if the link type is not known, or the IP header was stripped.
fn walk(packet: &Packet, l3: Option<usize>) -> Option<Walk<'_>> {
    let (data, length) = (packet.data(), packet.len());
    match (l3, packet.offset(Base::Network)) {
        // The packet starts with an IP header.
        (Some(0), _) => Some(Walk::ip(data, length, 0)),
        (None, Some(stripped)) if stripped < 0 => None,
        _ => Walk::frame(data, length, LinkType::from_number(packet.link())),
    }
}

/// Searches a packet, from the outside to the inside, for a packet with a valid token or, if `marks`, with
/// the mark of sliced packets. The packet at `l3` itself, if known, is known to have no valid token.
#[cold]
pub(crate) fn look(state: &State, marks: bool, packet: &Packet, l3: Option<usize>) -> Inside {
    let data = packet.data();
    let Some(mut walk) = walk(packet, l3) else { return Inside::Nothing };
    let mut is_marked = false;
    while let Some(inner) = walk.next_ip() {
        let end = walk.outer().end();
        let headers = Headers::find(data, inner, end);
        let token =
            headers.filter(|_| Some(inner) != l3).and_then(|headers| state.valid_token(data, &headers));
        if let (Some(headers), Some(place)) = (headers, token) {
            return Inside::Sliced(headers, place, *walk.outer());
        }
        is_marked |= marks
            && match headers {
                Some(headers) => headers.dscp(data) == MARKER,
                None => Headers::is_doubtful(data, inner, end),
            };
    }
    if is_marked { Inside::Marked } else { Inside::Nothing }
}

/// Removes the mark of sliced packets from a packet and from its inner packets, and corrects the checksums
/// around them. At most [`MARKS`] marks are removed, and marks beyond the bytes that slicing declares to
/// write stay.
#[cold]
pub(crate) fn clear_marks(packet: &mut Packet, l3: Option<usize>) {
    let (mut places, mut found) = ([0; MARKS], 0);
    let data = packet.data();
    let Some(mut walk) = walk(packet, l3) else { return };
    while let Some(inner) = walk.next_ip() {
        if Headers::bears_mark(data, inner) && inner + ipv4::Header::LEN <= HEADERS + TOKEN && found < MARKS {
            places[found] = inner;
            found += 1;
        }
    }
    let outer = *walk.outer();
    let before = outer.sums(packet);
    for &place in &places[..found] {
        Headers::clear_mark(packet.data_mut(), place);
    }
    outer.resum(packet, &before);
}

/// Decides what happens to a packet from the network function that has no valid token of its own. An ICMP
/// error gets the original packet in its quotation, and a sliced packet in a tunnel is joined to its payload.
/// A packet in which a token or the mark of sliced packets is found where the payload cannot be joined is
/// dropped. All other packets are forwarded.
#[cold]
pub(crate) fn splice(
    pool: &mut Pool,
    state: &mut State,
    (worker, marks, mtu): (usize, bool, u32),
    l3: Option<usize>,
    packet: Packet,
) -> Fate {
    if let Some(l3) = l3
        && quoted::is_error(packet.data(), l3)
    {
        return quoted::restore(pool, state, worker, l3, packet);
    }
    let (place, inner) = match look(state, marks, &packet, l3) {
        Inside::Sliced(headers, place, outer) => (place, Some((headers, outer))),
        Inside::Marked => {
            state.counts.no_token += 1;
            return Fate::Drop(packet, DropReason::NoToken);
        }
        Inside::Nothing => match last_token(state, &packet, l3) {
            Some(place) => (place, None),
            None => return Fate::Out(packet),
        },
    };
    if usize::from(place.worker) != worker {
        return Fate::Over(place.worker.into(), packet);
    }
    let parked = match state.table.take(place.index, place.generation) {
        Ok(parked) => parked,
        Err(gone) => return Fate::Drop(packet, count(state, gone)),
    };
    match inner.filter(|(_, outer)| !outer.is_sealed()) {
        Some((headers, outer)) => join(pool, state, (&headers, mtu), outer, parked, packet),
        None => {
            pool.free(parked.packet);
            state.counts.hidden += 1;
            Fate::Drop(packet, DropReason::TokenInside)
        }
    }
}

/// Decodes a token in the last bytes of a packet or of its IP packet. A sliced packet in an unknown tunnel
/// has its token there. `None` if there is no valid token, or the packet is too long to be a sliced packet.
fn last_token(state: &State, packet: &Packet, l3: Option<usize>) -> Option<PayloadPlace> {
    if packet.len() > MOST && !state.leaves_rest {
        return None;
    }
    let cipher = state.cipher.as_ref()?;
    let of_ip = l3.and_then(|l3| Some(l3 + ip_length(packet.data().get(l3..)?)?));
    let mut ends = of_ip.into_iter().filter(|&end| end < packet.len()).chain([packet.len()]);
    ends.find_map(|end| {
        let mut token = [0; TOKEN];
        let start = end.checked_sub(TOKEN)?;
        if packet.read_at(start, &mut token) == TOKEN { cipher.decrypt(token) } else { None }
    })
}

/// Joins a payload to headers inside of the tunnel `outer`, and adapts the headers of the tunnel. A packet
/// that would exceed the MTU leaves to be fragmented, if the tunnel allows that. Otherwise it is dropped, or
/// the original packet goes back to the sender ([`Fate::Back`]). The MTU counts for the segments of a large
/// segment.
fn join(
    pool: &mut Pool,
    state: &mut State,
    (headers, mtu): (&Headers, u32),
    mut outer: Outer,
    mut parked: Parked,
    front: Packet,
) -> Fate {
    let original = parked.original;
    let room = outer.end() - headers.end as usize;
    let trailer = if room >= parked.trailer as usize { parked.trailer } else { 0 };
    let payload = parked.on_wire();
    let is_large = payload < parked.payload_length();
    let end = usize::from(headers.payload) + payload + trailer as usize;
    if !outer.may_end_at(end) {
        pool.free(parked.packet);
        state.counts.changed += 1;
        return Fate::Drop(front, DropReason::TooLong);
    }
    let is_long = mtu > 0 && end - outer.link_header() > mtu as usize;
    if is_long && !outer.may_be_fragmented(front.data()) {
        if !may_be_fragmented(parked.packet.data(), parked.l3.into()) {
            // The original packet leaves by the output for packets that their sender must shorten, because an
            // ICMP error can tell the sender to send shorter packets.
            parked.packet.set_flow_mark(None);
            return Fate::Back(front, parked.packet);
        }
        pool.free(parked.packet);
        return Fate::Drop(front, DropReason::TooLarge);
    }
    if is_large {
        return join_large(pool, state, (headers, is_long), outer, parked, front);
    }
    let before = outer.sums(&front);
    match attach(pool, state, (headers, true), (parked, room), front) {
        Ok(mut packet) => {
            let length = packet.len();
            outer.set_end(packet.data_mut(), length, original.dscp);
            outer.resum(&mut packet, &before);
            state.counts.tunnelled += 1;
            if is_long { Fate::Long(packet) } else { Fate::Out(packet) }
        }
        Err((front, reason)) => Fate::Drop(front, reason),
    }
}

/// Joins a large segment to headers inside of the tunnel `outer`, as the packet that is inside. It is to be
/// cut, and each segment to get a copy of the tunnel's headers. Tunnels and IP headers that number their
/// packets number these copies alike, so large segments are cut before they are sliced from then on.
fn join_large(
    pool: &mut Pool,
    state: &mut State,
    (headers, is_long): (&Headers, bool),
    outer: Outer,
    parked: Parked,
    mut front: Packet,
) -> Fate {
    state.cuts_large = true;
    let (original, inner) = (parked.original, headers.l3.into());
    if headers.end as i32 - i32::from(headers.l3) + original.less > u16::MAX.into() {
        pool.free(parked.packet);
        state.counts.changed += 1;
        return Fate::Drop(front, DropReason::TooLong);
    }
    let Some(mut short) = pool.copy_front(&front, headers.end as usize) else {
        pool.free(parked.packet);
        return Fate::Drop(front, DropReason::NoBuffer);
    };
    let is_stripped = short.strip(headers.l3.into());
    debug_assert!(is_stripped, "the headers are in the first slot");
    let own = headers.without(headers.l3);
    short.set_headers(0, own.l4.into());
    match attach(pool, state, (&own, false), (parked, 0), short) {
        Ok(large) => {
            state.counts.tunnelled += 1;
            // The parts get the annotations of the packet from the network function.
            take_extra_length(&mut front, original.less);
            Fate::Cut(Box::new(InTunnel { outer, front, inner, large, dscp: original.dscp, is_long }))
        }
        Err((short, reason)) => {
            pool.free(short);
            Fate::Drop(front, reason)
        }
    }
}
