//! Large segments with complete checksums, as elements make them, prepared for an interface: the interface
//! expects partial checksums, as senders leave them.

use packet::{Packet, VirtioNet};
use wire::LinkType;
use wire::offload::{Segments, start_checksum};

/// Leaves the checksum of a large segment to the interface, which computes a checksum for each segment that
/// it cuts. Updates the positions of the headers.
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
        // The segment is too long for any interface, and is dropped there.
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
