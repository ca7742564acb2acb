//! Software versions of the offloads that a packet asks a device for: cuts large segments, and completes
//! checksums. For elements that can handle such packets
//! ([`Support::offloads`](crate::effects::Support::offloads)).
//!
//! A large segment that Juggler has made is taken apart into the packets of which it was made: their headers
//! are still in front of their data, and their payloads are neither read nor copied. The sum of each payload
//! follows from the checksum with which its packet arrived, and that of the first payload from the checksum
//! of the large segment. So each packet gets its own checksum again, even if it was wrong, as long as no
//! element on the way makes the checksum of the large segment wrong.

use packet::{PacketChain, VirtioNet};
use wire::LinkType;
use wire::checksum::Sum;
use wire::merge::WholeSegment;
use wire::offload::{Segments, completed, set_checksum};

use crate::{Base, Cx, DropReason, Packet};

/// The length in bytes of the longest headers with which large segments are taken apart; all others are cut.
const MOST_HEADERS: usize = 256;

/// A cutter of large segments, which reuses its memory for the bytes of the segment, and for its packets and
/// the sums of their data.
#[derive(Default)]
pub struct Cutter {
    /// True if large segments of Juggler are taken apart into the packets of which they were made, with
    /// their own checksums
    /// ([`GraphView::restores_checksums`](crate::context::GraphView::restores_checksums)). If false, all
    /// large segments are cut, with new checksums.
    pub restores: bool,
    whole: Vec<u8>,
    one: Vec<u8>,
    pieces: Vec<Packet>,
    sums: Vec<Sum>,
}

/// True if a packet is a large segment: its virtio header asks a device to cut it.
#[inline]
pub fn is_large_segment(packet: &Packet) -> bool {
    packet.annotations().virtio.gso_type & !VirtioNet::ECN != 0
}

/// True if the checksum of a packet is incomplete, and its virtio header asks a device to complete it.
#[inline]
pub fn is_partial(packet: &Packet) -> bool {
    packet.annotations().virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0
}

/// Completes the checksum that was left to a device, and clears the request. The checksum is then right,
/// since its sender is on this machine.
pub fn complete(packet: &mut Packet) {
    let virtio = packet.annotations().virtio;
    let start = usize::from(virtio.checksum_start);
    let checksum = completed(packet.chunks(), start);
    // If the checksum field lies outside of the packet's first slot, the request is invalid and nothing is
    // written.
    let is_set = set_checksum(packet.data_mut(), start, virtio.checksum_offset.into(), checksum);
    packet.set_right_checksum(is_set.is_ok());
    packet.annotations_mut().virtio.flags &= !VirtioNet::NEEDS_CHECKSUM;
}

/// Returns the plan by which a large segment is cut. `head` holds its first bytes, and at least its headers.
fn plan(packet: &Packet, head: &[u8]) -> Option<Segments> {
    let virtio = packet.annotations().virtio;
    let of = |link| Segments::of(head, link, packet.len(), virtio.gso_size.into());
    let own = LinkType::from_number(packet.link());
    // If the link header was stripped, the packet starts with the IP header.
    let links = match packet.offset(Base::Network) {
        Some(0) => [LinkType::RawIp, own],
        _ => [own, LinkType::RawIp],
    };
    let segments = links.into_iter().find_map(|link| of(link).ok())?;
    Some(segments.constant_id(virtio.flags & VirtioNet::CONSTANT_ID != 0))
}

/// True if the transport checksum of a large segment, given as one slice, is wrong.
fn is_damaged(whole: &[u8], segments: &Segments) -> bool {
    let segment = WholeSegment::of(whole, segments.network(), whole.len());
    segment.is_some_and(|segment| segment.has_checksum(whole) && segment.verify([whole]).is_none())
}

/// Gives a packet the metadata and annotations of the large segment that it is part of, without its virtio
/// header.
pub fn describe(segment: &mut Packet, large: &Packet) {
    segment.set_time(large.time());
    segment.set_port(large.port());
    segment.set_link(large.link());
    segment.set_kind(large.kind());
    for base in [Base::Mac, Base::Network, Base::Transport] {
        segment.set_offset(base, large.offset(base));
    }
    let annotations = segment.annotations_mut();
    annotations.clone_from(large.annotations());
    annotations.virtio = VirtioNet::default();
}

impl Cutter {
    /// Cuts a large segment, and passes the resulting segments in order to `each`. They have complete
    /// checksums and the annotations of the large segment, without its virtio header. The large segment is
    /// dropped with reason `Segmented`, or with `UnknownSegments` if its headers cannot be parsed. A segment
    /// for which the pool has no slot counts as dropped ([`Cx::packet`]).
    ///
    /// If `restores` is true, the large segment may not be verified yet. If it cannot be taken apart, it is
    /// verified here, and dropped with reason `BadTransportChecksum` if its checksum is wrong, because
    /// cutting would give damaged data right checksums.
    pub fn cut(&mut self, cx: &mut Cx<'_>, packet: Packet, mut each: impl FnMut(&mut Cx<'_>, Packet)) {
        let parted = if self.restores { self.part(packet) } else { Err(packet) };
        let packet = match parted {
            Ok(()) => {
                cx.accounts().count_made(self.pieces.len());
                cx.accounts().count_dropped(1, DropReason::Segmented);
                return self.pieces.drain(..).for_each(|piece| each(cx, piece));
            }
            Err(packet) => packet,
        };
        self.whole.clear();
        packet.chunks().for_each(|chunk| self.whole.extend_from_slice(chunk));
        let Some(segments) = plan(&packet, &self.whole) else {
            return cx.drop(packet, DropReason::UnknownSegments);
        };
        if self.restores && !is_partial(&packet) && is_damaged(&self.whole, &segments) {
            return cx.drop(packet, DropReason::BadTransportChecksum);
        }
        for number in 0..segments.count() {
            self.one.clear();
            segments.write(&self.whole, number, &mut self.one);
            let Some(mut segment) = cx.packet(&self.one) else { continue };
            describe(&mut segment, &packet);
            each(cx, segment);
        }
        cx.drop(packet, DropReason::Segmented);
    }

    /// Takes a large segment of Juggler apart, into `pieces`. Returns all other packets, and large segments
    /// whose checksum is left to a device.
    fn part(&mut self, packet: Packet) -> Result<(), Packet> {
        let virtio = packet.annotations().virtio;
        let is_left = virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0;
        let Some(segments) = plan(&packet, packet.data()).filter(|_| !is_left) else { return Err(packet) };
        let whole = WholeSegment::of(packet.data(), segments.network(), packet.len());
        let sum = whole.and_then(|whole| Some((whole.start, whole.trust(packet.data())?)));
        let Some((start, sum)) = sum else { return Err(packet) };
        let start = usize::from(start);
        if start != segments.header_length() || start > MOST_HEADERS {
            return Err(packet);
        }
        let chain = PacketChain::of_large(packet, virtio.header_length)?;
        self.pieces.clear();
        let mut left = Some(chain);
        while let Some(chain) = left {
            let (piece, rest) = chain.pop();
            self.pieces.push(piece);
            left = rest;
        }
        if self.sum_pieces(&segments, start, virtio, sum).is_none() {
            return self.join(virtio.header_length);
        }
        let Some((first, others)) = self.pieces.split_first_mut() else { return Ok(()) };
        let mut headers = [0; MOST_HEADERS];
        headers[..start].copy_from_slice(&first.data()[..start]);
        for (place, piece) in others.iter_mut().enumerate() {
            let is_moved = piece.strip(virtio.header_length.into()) && piece.unstrip(start);
            debug_assert!(is_moved, "the headers were stripped before, and there is room for others");
            piece.data_mut()[..start].copy_from_slice(&headers[..start]);
            describe(piece, first);
            piece.set_flow_mark(None);
            piece.set_run(0);
            finish(&segments, place + 1, piece, start, self.sums[place + 1]);
        }
        first.annotations_mut().virtio = VirtioNet::default();
        finish(&segments, 0, first, start, self.sums[0]);
        Ok(())
    }

    /// Computes the sum of the data of each piece into `sums`. The first piece has the headers of the large
    /// segment, of `start` bytes; `sum` is the sum of all data. `None` if the pieces are not those into which
    /// the large segment has to be cut.
    fn sum_pieces(&mut self, segments: &Segments, start: usize, virtio: VirtioNet, sum: Sum) -> Option<()> {
        let (.., l4) = segments.transport();
        let l3 = usize::from(virtio.checksum_start).checked_sub(l4 - segments.network())?;
        let length_of = |number: usize| segments.payload(number).len();
        let first = self.pieces.first()?.len().checked_sub(start)?;
        if self.pieces.len() != segments.count() || first != length_of(0) {
            return None;
        }
        self.sums.clear();
        self.sums.push(Sum::new());
        let mut rest = Sum::new();
        for (number, piece) in self.pieces.iter().enumerate().skip(1) {
            let own = WholeSegment::of(piece.data(), l3, piece.len())?;
            if usize::from(own.length) != length_of(number) || own.start != virtio.header_length {
                return None;
            }
            // The headers of the large segment may have grown on the way.
            if piece.headroom() + usize::from(own.start) < start {
                return None;
            }
            let sum = own.trust(piece.data())?;
            self.sums.push(sum);
            rest = rest.followed_by(sum);
        }
        self.sums[0] = sum.before(first, rest);
        Some(())
    }

    /// Makes one large packet of the pieces again, and returns it as an error. All pieces but the first have
    /// headers of this length.
    fn join(&mut self, headers: u16) -> Result<(), Packet> {
        let mut pieces = self.pieces.drain(..);
        let Some(first) = pieces.next() else { return Ok(()) };
        let mut chain = PacketChain::of_headers(first, headers);
        pieces.for_each(|piece| chain.push(piece));
        Err(chain.into_packet())
    }
}

/// Gives a piece the headers that cutting makes: the first `start` bytes are those of the large segment.
fn finish(segments: &Segments, number: usize, piece: &mut Packet, start: usize, sum: Sum) {
    let length = piece.len() - start;
    segments.finish(number, &mut piece.data_mut()[..start], length, sum);
}
