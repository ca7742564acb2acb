//! From the bytes that came from an interface to packets.
//!
//! What a sender has left to a device is done here, unless nobody behind this minds: a large segment becomes frames of
//! the size that its sender chose, and checksums are completed.

use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, Target, Value};
use element::{Base, Batch, Cx, DropReason, Effects, Packet, Timestamp};
use packet::{Annotations, PacketKind, VirtioNet};
use wire::LinkType;
use wire::offload::{Segments, completed, set_checksum};

use super::sys::NEEDS_CHECKSUM;
use crate::force_ip::{mark_ip, marking_ip};

/// Bit of the kind of segments: with congestion notification, which changes nothing for us.
const ECN: u8 = 0x80;
/// Where a VLAN tag stands: behind the addresses.
const TAG: usize = 12;

/// What came.
pub(super) struct Received<'a> {
    pub(super) bytes: &'a [u8],
    /// How many there were, if more than those.
    pub(super) length: usize,
    pub(super) time: Timestamp,
    pub(super) kind: PacketKind,
    /// A VLAN tag that belongs between addresses and type: protocol and control information.
    pub(super) vlan: Option<(u16, u16)>,
    pub(super) virtio: VirtioNet,
}

/// Whether header annotations of IP packets are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarksIp {
    No,
    /// Of those that are IP.
    Yes,
    /// And others leave by output 1.
    Only,
}

/// How packets are made.
pub(super) struct Incoming {
    pub(super) snap_length: usize,
    marks_ip: MarksIp,
    pub(super) link: LinkType,
    /// Packets made.
    pub(super) count: u64,
    /// A frame that is being put together.
    scratch: Vec<u8>,
    tagged: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(snap_length: usize, marks_ip: MarksIp, link: LinkType) -> Incoming {
        // Room for the largest, so that nothing grows while packets flow.
        let room = || Vec::with_capacity(1 << 17);
        Incoming { snap_length, marks_ip, link, count: 0, scratch: room(), tagged: room() }
    }

    /// The declaration of a source that makes packets so.
    pub(super) fn effects(&self, outputs: usize) -> Effects {
        // No packet comes in, but what is set in those that it makes is for others to know.
        let pure = |name| Value::Pure { name, reads: Vec::new() };
        let mut case = Case::new(Filter::One(Vec::new()), Target::Output(0))
            .with(Action::Set(EXTRA_LENGTH, pure("length on the wire")))
            .with(Action::Set(Field::Kind, pure("whom it was for")));
        if self.marks_ip != MarksIp::No {
            case = marking_ip(case);
        }
        let mut effects = Effects { cases: vec![case], ..Effects::source("received packet") };
        if outputs < 2 {
            effects.emits[0].output = Some(0);
        }
        effects
    }

    /// Makes packets of what came, behind those in the batch, which is handed out when it is full.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>) {
        let segments = received.virtio.gso_type & !ECN != 0;
        let whole = received.bytes.len() >= received.length;
        if !segments || !whole || (cx.may_offload() && self.fits(received)) {
            return self.take_one(cx, batch, received);
        }
        let mut tagged = std::mem::take(&mut self.tagged);
        let frame = match received.vlan {
            Some(vlan) => {
                tagged.clear();
                tagged.extend_from_slice(received.bytes.get(..TAG).unwrap_or_default());
                tagged.extend_from_slice(&tag(vlan));
                tagged.extend_from_slice(received.bytes.get(TAG..).unwrap_or_default());
                &tagged[..]
            }
            None => received.bytes,
        };
        self.cut(cx, batch, received, frame);
        self.tagged = tagged;
    }

    /// Whether the frames that this one stands for are not to be cut off.
    fn fits(&self, received: &Received<'_>) -> bool {
        let virtio = &received.virtio;
        match virtio.gso_type & !ECN {
            0 => received.length <= self.snap_length,
            // The length of headers is a hint, which is never larger.
            _ => usize::from(virtio.header_length) + usize::from(virtio.gso_size) <= self.snap_length,
        }
    }

    /// Cuts a large frame into those that it stands for.
    fn cut(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>, frame: &[u8]) {
        let size = usize::from(received.virtio.gso_size);
        let Ok(segments) = Segments::of(frame, self.link, frame.len(), size) else {
            // Not what its header says: as it is, others may know what it is.
            let plain = Received {
                bytes: frame,
                length: frame.len(),
                vlan: None,
                virtio: VirtioNet::default(),
                ..*received
            };
            return self.take_one(cx, batch, &plain);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        for number in 0..segments.count() {
            scratch.clear();
            scratch.extend_from_slice(&frame[..segments.header_length()]);
            scratch.extend_from_slice(&frame[segments.payload(number)]);
            segments.finish(number, &mut scratch);
            let length = scratch.len();
            let one =
                Received { bytes: &scratch, length, vlan: None, virtio: VirtioNet::default(), ..*received };
            self.take_one(cx, batch, &one);
        }
        self.scratch = scratch;
    }

    /// Makes one packet.
    fn take_one(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>) {
        let Some((mut packet, shift)) = self.packet(cx, received) else { return };
        packet.set_time(received.time);
        packet.set_kind(received.kind);
        packet.set_link(self.link.number());
        packet.set_offset(if self.link == LinkType::RawIp { Base::Network } else { Base::Mac }, Some(0));
        let mut virtio = received.virtio;
        let is_left = virtio.flags & NEEDS_CHECKSUM != 0;
        virtio.checksum_start = virtio.checksum_start.saturating_add(shift);
        virtio.header_length = virtio.header_length.saturating_add(shift);
        if cx.may_offload() && self.fits(received) {
            packet.annotations_mut().virtio = virtio;
        } else if is_left && received.bytes.len() >= received.length {
            let start = usize::from(virtio.checksum_start);
            let checksum = completed(packet.chunks(), start);
            // A field outside of the packet is nobody's.
            let _ = set_checksum(packet.data_mut(), start, virtio.checksum_offset.into(), checksum);
        }
        // What stands for many is not cut: each of them fits.
        let most = if virtio.gso_type & !ECN == 0 { self.snap_length } else { usize::MAX };
        let length = received.length.max(received.bytes.len()) + usize::from(shift);
        packet.truncate(most);
        let missing = length - packet.len();
        if missing > 0 {
            packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, missing as u32);
        }
        self.count += 1;
        if self.marks_ip != MarksIp::No && !mark_ip(&mut packet) && self.marks_ip == MarksIp::Only {
            return cx.emit_one(1, packet, DropReason::BadIpHeader);
        }
        if let Err(packet) = batch.push(packet) {
            let mut full = cx.batch_of(packet);
            std::mem::swap(batch, &mut full);
            cx.emit(0, full);
        }
    }

    /// The bytes as a packet, with the VLAN tag where it belongs, and how many bytes it is longer by that.
    fn packet(&self, cx: &mut Cx<'_>, received: &Received<'_>) -> Option<(Packet, u16)> {
        let (Some(vlan), Some((addresses, rest))) =
            (received.vlan, received.bytes.split_first_chunk::<TAG>())
        else {
            return cx.packet(received.bytes).map(|packet| (packet, 0));
        };
        let mut packet = cx.packet(rest)?;
        // Fresh packets have the room.
        let _ = packet.prepend(&tag(vlan)) && packet.prepend(addresses);
        Some((packet, 4))
    }
}

fn tag((protocol, control): (u16, u16)) -> [u8; 4] {
    let ([a, b], [c, d]) = (protocol.to_be_bytes(), control.to_be_bytes());
    [a, b, c, d]
}
