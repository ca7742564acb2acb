//! Work that senders have left to devices: large segments, which stand for many packets on the wire, and
//! checksums that are not complete yet.
//!
//! A large TCP segment is parked as one: its headers cross to the network function once, as one short packet
//! with a complete checksum, and the joined packet is a large segment again. A TCP segment whose checksum is
//! left to a device is parked likewise, without reading its payload. All other packets with such work are cut
//! or completed before they are sliced, and also large segments that cannot be parked. Packets that cross to
//! the network function never leave work to others.

use element::context::GraphView;
use element::offload::{Cutter, complete, is_large_segment, is_partial};
use element::{Batch, Cx, Packet};
use packet::VirtioNet;

use crate::headers::Headers;

/// The offset of the checksum field in a TCP header, in bytes.
const TCP_CHECKSUM: u16 = 16;

/// True if a packet is a large segment or has an incomplete checksum.
#[inline]
pub(crate) fn is_unfinished(packet: &Packet) -> bool {
    is_large_segment(packet) || is_partial(packet)
}

/// Returns the maximum number of payload bytes that a packet has on the wire: that of one segment for a large
/// segment, otherwise `payload`, the length of its payload.
#[inline]
pub(crate) fn payload_on_wire(packet: &Packet, payload: usize) -> usize {
    match is_large_segment(packet) {
        true => payload.min(packet.annotations().virtio.gso_size.into()),
        false => payload,
    }
}

/// The treatment of packets that leave work to a device, in one element.
#[derive(Default)]
pub(crate) struct Offloads {
    /// True if such packets may come to the element.
    are_received: bool,
    /// True if large segments and packets with incomplete checksums may leave the element.
    may_offload: bool,
    /// True if large segments with complete checksums may leave, or short packets in their place.
    may_merge: bool,
    cutter: Cutter,
    /// The packets that leave a batch, or have been cut of its packets, while the batch is processed.
    pub(crate) packets: Vec<Packet>,
}

impl Offloads {
    /// Asks the graph what may come to the element and leave it.
    pub(crate) fn new(graph: GraphView<'_>) -> Offloads {
        Offloads {
            are_received: graph.receives_offloads(),
            may_offload: graph.may_offload(),
            may_merge: graph.may_merge(),
            cutter: Cutter::default(),
            packets: Vec::new(),
        }
    }

    /// True if any of the packets that have come to the element leaves work to a device.
    #[inline]
    pub(crate) fn are_in(&self, packets: &[Packet]) -> bool {
        self.are_received && packets.iter().any(is_unfinished)
    }

    /// True if the elements downstream treat the packets of a large segment alike, so that a short packet may
    /// stand for them.
    pub(crate) fn may_park_large(&self) -> bool {
        self.may_merge
    }

    /// Does the work that a packet leaves to a device. Passes the packet or, of a large segment, all segments
    /// to `each`, in order.
    pub(crate) fn finish(
        &mut self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        mut each: impl FnMut(&mut Cx<'_>, Packet),
    ) {
        if is_large_segment(&packet) {
            return self.cutter.cut(cx, packet, each);
        }
        if is_partial(&packet) {
            complete(&mut packet);
        }
        each(cx, packet);
    }

    /// Does the work that a packet leaves to a device, as far as the elements downstream cannot handle it.
    /// Passes the packet or its segments to `each`, in order.
    pub(crate) fn let_go(
        &mut self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        mut each: impl FnMut(&mut Cx<'_>, Packet),
    ) {
        if self.may_offload {
            return each(cx, packet);
        }
        if !(self.may_merge && is_large_segment(&packet)) {
            return self.finish(cx, packet, each);
        }
        if is_partial(&packet) {
            complete(&mut packet);
        }
        each(cx, packet);
    }
}

/// True if a packet that leaves work to a device is sliced as it is: it is a TCP segment, and the work left
/// is about its own headers, not about those of an inner packet.
pub(crate) fn can_park(packet: &Packet, headers: &Headers) -> bool {
    let virtio = packet.annotations().virtio;
    let is_own = (virtio.checksum_start, virtio.checksum_offset) == (headers.l4, TCP_CHECKSUM);
    headers.is_tcp && (!is_partial(packet) || is_own)
}

/// Gives a joined packet the work back that its sender has left to a device. `headers` are its headers, which
/// the network function may have moved. `original` is what the packet said before it was sliced, and `more`
/// the number of bytes by which the packet is longer than `headers` say.
pub(crate) fn give_back(packet: &mut Packet, headers: &Headers, original: VirtioNet, more: i32) {
    let mut virtio = original;
    if virtio.gso_type & !VirtioNet::ECN != 0 {
        let kind = if headers.is_ipv6 { VirtioNet::TCP_V6 } else { VirtioNet::TCP_V4 };
        virtio.gso_type = kind | virtio.gso_type & VirtioNet::ECN;
    }
    if virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0 {
        (virtio.checksum_start, virtio.header_length) = (headers.l4, headers.payload);
        headers.start_checksum(packet.data_mut(), more);
    }
    packet.annotations_mut().virtio = virtio;
}

/// Moves packets to the end of a batch. Emits full batches at `output`; the last packets stay in `batch`.
pub(crate) fn deliver(cx: &mut Cx<'_>, output: usize, packets: &mut Vec<Packet>, batch: &mut Batch) {
    for packet in packets.drain(..) {
        if let Err(packet) = batch.push(packet) {
            let mut full = cx.batch_of(packet);
            std::mem::swap(batch, &mut full);
            cx.emit(output, full);
        }
    }
}
