//! Prepares large segments that elements have made for an interface. Such segments have complete checksums,
//! but interfaces expect partial checksums in large segments, as local senders leave them.

use packet::{Packet, VirtioNet};
use wire::LinkType;
use wire::offload::{Segments, start_checksum};

/// Makes the checksum of a large segment partial, so that the interface computes a checksum for each segment
/// that it cuts. Sets the length of the headers and the offsets of the checksum in the annotation `virtio`.
/// If the segment cannot be divided, clears the annotation. Packets that are not large segments, or have a
/// partial checksum already, are unchanged.
#[inline]
pub(super) fn leave_checksum(packet: &mut Packet, link: LinkType) {
    let virtio = packet.annotations().virtio;
    if virtio.gso_type != 0 && virtio.flags & VirtioNet::NEEDS_CHECKSUM == 0 {
        packet.annotations_mut().virtio = left(packet, link, virtio);
    }
}

fn left(packet: &mut Packet, link: LinkType, virtio: VirtioNet) -> VirtioNet {
    let length = packet.len();
    let segments = Segments::of(packet.data(), link, length, virtio.gso_size.into());
    let (Ok(segments), Ok((start, offset))) = (segments, start_checksum(packet.data_mut(), link, length))
    else {
        // The segment cannot be divided, for example because it is too long. Without the annotation, the
        // interface drops it as too long.
        return VirtioNet::default();
    };
    VirtioNet {
        flags: virtio.flags | VirtioNet::NEEDS_CHECKSUM,
        header_length: segments.header_length() as u16,
        checksum_start: start as u16,
        checksum_offset: offset as u16,
        ..virtio
    }
}
