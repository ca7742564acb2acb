//! Joins returned headers and their parked payload, whether plain or inside of a tunnel, and returns
//! the outcome for a packet that comes back.

use element::{DropReason, Packet};
use packet::{Annotations, Pool, VirtioNet};

use crate::headers::Headers;
use crate::in_tunnel::InTunnel;
use crate::offloads::give_back;
use crate::payloads::State;
use crate::table::{Missing, Parked};
use crate::token::TOKEN;

/// The fate of a packet that returns from the network function.
pub(crate) enum Fate {
    /// The packet is forwarded by the normal output.
    Out(Packet),
    /// The packet of the network function is a tunnel around the short packet of a large segment. The joined
    /// segment is cut, and each part leaves in a tunnel of its own.
    Cut(Box<InTunnel>),
    /// The packet is handed over to the worker with this index, which has its payload.
    Over(usize, Packet),
    /// The packet exceeds the MTU, and leaves by the output for packets to be fragmented.
    Long(Packet),
    /// The joined packet would exceed the MTU in its tunnel, and must not be fragmented there. The first
    /// packet, from the network function, is freed. The second packet is the original from the sender; it
    /// leaves by the output for packets that their sender must shorten.
    Back(Packet, Packet),
    /// The packet is dropped for this reason.
    Drop(Packet, DropReason),
}

/// Counts a sliced packet that returned, but whose payload is not in the table any more. Returns the reason
/// for which the packet is dropped.
pub(crate) fn count(state: &mut State, gone: Missing) -> DropReason {
    let (counter, reason) = match gone {
        Missing::Expired => (&mut state.counts.late, DropReason::PayloadExpired),
        Missing::Taken => (&mut state.counts.repeated, DropReason::PayloadTaken),
    };
    *counter += 1;
    reason
}

/// Joins the returned headers in `front` with their parked payload and restores the headers. If `is_inside`,
/// the headers are inside of a tunnel, whose headers the caller adapts; a checksum that was left to a
/// device is then completed. `room` is the number of bytes after the IP packet in `front`,
/// up to the end of the tunnel's data if there is a tunnel.
///
/// # Errors
/// Returns `front`, and the reason for which it must be dropped, if it cannot be joined. Its payload is
/// freed.
#[inline(always)]
pub(crate) fn attach(
    pool: &mut Pool,
    state: &mut State,
    (headers, is_inside): (&Headers, bool),
    (mut parked, room): (Parked, usize),
    front: Packet,
) -> Result<Packet, (Packet, DropReason)> {
    if headers.payload_length() != TOKEN + parked.rest as usize {
        // The network function has added or removed bytes at an unknown offset, so the parked payload cannot
        // be joined to the headers.
        pool.free(parked.packet);
        state.counts.changed += 1;
        return Err((front, DropReason::Unsuitable));
    }
    let length = usize::from(headers.payload);
    if parked.trailer > 0 && room < parked.trailer as usize {
        parked.packet.truncate(parked.packet.len() - parked.trailer as usize);
    }
    if parked.rest > 0 {
        put_back(&mut parked, &front, length + TOKEN);
    }
    let is_unfinished = parked.original.is_unfinished;
    let virtio = if is_unfinished { parked.packet.annotations().virtio } else { VirtioNet::default() };
    let must_fill_in = is_unfinished && is_inside || headers.has_filled_in(front.data(), &parked.original);
    let payload = if must_fill_in { Some(parked.sum()) } else { None };
    match pool.join(front, length, parked.packet, parked.payload.into()) {
        Ok(mut packet) => {
            let was_marked = headers.restore(packet.data_mut(), &parked.original, payload);
            if is_unfinished && !is_inside {
                give_back(&mut packet, headers, virtio, parked.original.less);
            }
            state.counts.unmarked += u64::from(!was_marked);
            if pool.uses_annotations() {
                take_extra_length(&mut packet, parked.original.less);
            }
            state.counts.spliced += 1;
            Ok(packet)
        }
        Err([front, packet]) => {
            pool.free(packet);
            state.counts.changed += 1;
            Err((front, DropReason::NoHeadroom))
        }
    }
}

/// Copies the part of a payload that the sliced packet kept, which starts at offset `skipped` of `front`,
/// to its place in the parked packet, because the network function may have changed it.
#[inline(never)]
fn put_back(parked: &mut Parked, front: &Packet, mut skipped: usize) {
    let mut place = usize::from(parked.payload) + parked.removed as usize;
    let end = place + parked.rest as usize;
    for chunk in front.chunks() {
        let rest = chunk.get(skipped..).unwrap_or_default();
        skipped = skipped.saturating_sub(chunk.len());
        place += parked.packet.write_at(place, &rest[..rest.len().min(end - place)]);
    }
}

/// Subtracts `less`, the number of bytes by which slicing had made the packet shorter, from the extra length
/// annotation. The annotation stays as it is if it is smaller, as in a packet that has left the engine in
/// between.
pub(crate) fn take_extra_length(packet: &mut Packet, less: i32) {
    let annotations = packet.annotations_mut();
    annotations.parked = 0;
    let length = annotations.u32(Annotations::EXTRA_LENGTH);
    annotations.set_u32(Annotations::EXTRA_LENGTH, length.checked_sub(less.max(0) as u32).unwrap_or(length));
}
