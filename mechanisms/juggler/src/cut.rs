//! Software versions of the offloads that a packet asks a device for: cuts large segments, and completes
//! checksums.

use element::{Base, Cx, DropReason, Packet};
use packet::VirtioNet;
use wire::LinkType;
use wire::offload::{Segments, completed, set_checksum};

/// A cutter of large segments, which reuses its memory for the bytes of the segment.
#[derive(Default)]
pub(crate) struct Cutter {
    whole: Vec<u8>,
    one: Vec<u8>,
}

/// True if a packet is a large segment: its virtio header asks a device to cut it.
#[inline]
pub(crate) fn is_large_segment(packet: &Packet) -> bool {
    packet.annotations().virtio.gso_type & !VirtioNet::ECN != 0
}

/// True if the checksum of a packet is incomplete, and its virtio header asks a device to complete it.
#[inline]
pub(crate) fn is_partial(packet: &Packet) -> bool {
    packet.annotations().virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0
}

/// Completes the checksum that was left to a device, and clears the request.
pub(crate) fn complete(packet: &mut Packet) {
    let virtio = packet.annotations().virtio;
    let start = usize::from(virtio.checksum_start);
    let checksum = completed(packet.chunks(), start);
    // If the checksum field lies outside of the packet's first slot, the request is invalid and nothing is
    // written.
    let _ = set_checksum(packet.data_mut(), start, virtio.checksum_offset.into(), checksum);
    packet.annotations_mut().virtio.flags &= !VirtioNet::NEEDS_CHECKSUM;
}

impl Cutter {
    /// Cuts a large segment, and passes the resulting segments in order to `each`. They have complete
    /// checksums and the annotations of the large segment, without its virtio header. The large segment is
    /// dropped with reason `Segmented`, or with `UnknownSegments` if its headers cannot be parsed. A segment
    /// for which the pool has no slot counts as dropped ([`Cx::packet`]).
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>, packet: Packet, mut each: impl FnMut(&mut Cx<'_>, Packet)) {
        let virtio = packet.annotations().virtio;
        let size = usize::from(virtio.gso_size);
        self.whole.clear();
        packet.chunks().for_each(|chunk| self.whole.extend_from_slice(chunk));
        let of = |link| Segments::of(&self.whole, link, self.whole.len(), size);
        let own = LinkType::from_number(packet.link());
        // If the link header was stripped, the packet starts with the IP header.
        let links = match packet.offset(Base::Network) {
            Some(0) => [LinkType::RawIp, own],
            _ => [own, LinkType::RawIp],
        };
        let Some(segments) = links.into_iter().find_map(|link| of(link).ok()) else {
            return cx.drop(packet, DropReason::UnknownSegments);
        };
        let segments = segments.constant_id(virtio.flags & VirtioNet::CONSTANT_ID != 0);
        for number in 0..segments.count() {
            self.one.clear();
            segments.write(&self.whole, number, &mut self.one);
            let Some(mut segment) = cx.packet(&self.one) else { continue };
            segment.set_time(packet.time());
            segment.set_port(packet.port());
            segment.set_link(packet.link());
            segment.set_kind(packet.kind());
            for base in [Base::Mac, Base::Network, Base::Transport] {
                segment.set_offset(base, packet.offset(base));
            }
            let annotations = segment.annotations_mut();
            annotations.clone_from(packet.annotations());
            annotations.virtio = VirtioNet::default();
            each(cx, segment);
        }
        cx.drop(packet, DropReason::Segmented);
    }
}
