//! The common part of the elements that split packets into fragments.

use element::{Batch, Cx, DropReason, Packet, Timestamp};
use packet::{Annotations, PacketKind};

/// The decision about a packet: to pass it unchanged, to refuse it because it may not be fragmented, or to
/// split it.
#[derive(Debug, PartialEq)]
pub(super) enum Choice<P> {
    Pass,
    Refuse,
    /// The packet is split. The plan has the numbers that the split needs.
    Split(P),
}

/// An element that splits packets that are too long into fragments.
pub(super) trait Fragmenting {
    type Plan;

    fn choose(&self, packet: &Packet) -> Result<Choice<Self::Plan>, DropReason>;

    /// Processes a packet that is too long but may not be fragmented: emits it to another output, or drops
    /// it.
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet);

    /// Splits a packet, and emits its fragments; the packet itself becomes the first fragment. Drops a packet
    /// that cannot be split.
    fn split(&mut self, cx: &mut Cx<'_>, packet: Packet, plan: &Self::Plan);

    /// Passes, refuses or splits each packet of a batch as [`choose`](Self::choose) decides; if it fails,
    /// the packet is dropped. Returns the batch itself if all of its packets pass.
    fn fragment(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Option<Batch> {
        let passes = |packet: &Packet| matches!(self.choose(packet), Ok(Choice::Pass));
        let Some(first) = batch.iter().position(|packet| !passes(packet)) else { return Some(batch) };
        for (number, packet) in batch.drain().enumerate() {
            if number < first {
                cx.emit_one(0, packet, DropReason::NoOutput);
                continue;
            }
            match self.choose(&packet) {
                Ok(Choice::Pass) => cx.emit_one(0, packet, DropReason::NoOutput),
                Ok(Choice::Refuse) => self.refuse(cx, packet),
                Ok(Choice::Split(plan)) => self.split(cx, packet, &plan),
                Err(reason) => cx.drop(packet, reason),
            }
        }
        cx.recycle(batch);
        None
    }
}

/// The metadata of a packet that its fragments inherit: time stamp, packet type and annotations.
pub(super) struct Marks {
    time: Timestamp,
    kind: PacketKind,
    annotations: [u8; Annotations::SIZE],
}

impl Marks {
    pub(super) fn of(packet: &Packet) -> Marks {
        let annotations = *packet.annotations().bytes();
        Marks { time: packet.time(), kind: packet.kind(), annotations }
    }

    /// Emits a fragment with these bytes, whose IP header has `header_length` bytes. Returns false if the
    /// pool has no room for the fragment.
    pub(super) fn send(&self, cx: &mut Cx<'_>, bytes: &[u8], header_length: usize) -> bool {
        let Some(mut fragment) = cx.packet(bytes) else { return false };
        fragment.set_headers(0, header_length);
        fragment.set_time(self.time);
        fragment.set_kind(self.kind);
        *fragment.annotations_mut().bytes_mut() = self.annotations;
        cx.emit_one(0, fragment, DropReason::NoOutput);
        true
    }
}
