//! The common part of elements that split packets.

use element::{Batch, Cx, DropReason, Packet, Timestamp};
use packet::{Annotations, PacketKind};

/// The decision about a packet.
#[derive(Debug, PartialEq)]
pub(super) enum Choice<P> {
    Pass,
    Refuse,
    /// Split, by this plan.
    Split(P),
}

/// An element that splits packets.
pub(super) trait Fragmenting {
    type Plan;

    fn choose(&self, packet: &Packet) -> Result<Choice<Self::Plan>, DropReason>;

    /// Handles a packet that cannot be fragmented: sends it to another output, or drops it.
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet);

    /// Sends all fragments of a packet.
    fn split(&mut self, cx: &mut Cx<'_>, packet: Packet, plan: &Self::Plan);

    /// Passes, refuses or splits each packet of a batch, as chosen.
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

/// The properties of a packet, other than its bytes, that its fragments inherit.
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

    /// Sends a fragment whose header has this length; returns false if there was no room for the fragment.
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
