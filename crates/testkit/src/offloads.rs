//! Test elements for packets that leave work to a device: large segments, and incomplete checksums.

use std::collections::HashMap;
use std::sync::Mutex;

use element::class::ArgInfo;
use element::effects::{Case, Filter, Support, Target};
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid};
use packet::{Packet, VirtioNet};
use wire::LinkType;
use wire::merge::WholeSegment;
use wire::offload::{Segments, complete};

fn number_of(args: &mut Args<'_>) -> Result<u64, Invalid> {
    let number: u32 = args.required("NUMBER");
    args.finish()?;
    Ok(number.into())
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    packet.chunks().collect::<Vec<_>>().concat()
}

/// Returns the segment in an Ethernet frame with at most one VLAN tag.
fn segment_of(frame: &[u8]) -> Option<WholeSegment> {
    let l3 = if frame.get(12..14)? == [0x81, 0] { 18 } else { 14 };
    WholeSegment::of(frame, l3, frame.len())
}

/// True if the transport checksum of an Ethernet frame is right; `None` if it contains no whole segment.
pub fn is_right(frame: &[u8]) -> Option<bool> {
    let segment = segment_of(frame)?;
    Some(segment.verify([frame]).is_some())
}

static SENT: Mutex<Option<HashMap<u64, Vec<Vec<u8>>>>> = Mutex::new(None);

/// Appends frames to those that are recorded under a number.
pub fn record(number: u64, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut sent = SENT.lock().unwrap();
    sent.get_or_insert_default().entry(number).or_default().extend(frames);
}

/// Returns the frames that are recorded under a number, and removes them.
pub fn take_sent(number: u64) -> Vec<Vec<u8>> {
    SENT.lock().unwrap().get_or_insert_default().remove(&number).unwrap_or_default()
}

/// The class `Exit(NUMBER)` does what an interface does that takes large segments: it completes checksums
/// that are left to it, and cuts large segments into frames with new checksums. A large segment whose
/// checksum is complete and wrong is lost, as for a receiver that gets it as one. The frames are recorded
/// under the number.
pub static EXIT: Class = Class {
    name: "Exit",
    ports: "1/0",
    processing: "h",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Exit(number_of(args)?))),
    ..Class::DEFAULT
};

struct Exit(u64);

impl Element for Exit {
    fn effects(&self) -> Effects {
        let support = Support { offloads: Some(-14), ..Support::default() };
        Effects { support, ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let mut frames = Vec::new();
        for packet in batch.iter() {
            let (mut bytes, virtio) = (bytes_of(packet), packet.annotations().virtio);
            let is_large = virtio.gso_type & !VirtioNet::ECN != 0;
            if virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0 {
                complete(&mut bytes, virtio.checksum_start.into(), virtio.checksum_offset.into()).unwrap();
            } else if is_large && is_right(&bytes) == Some(false) {
                continue;
            }
            if !is_large {
                frames.push(bytes);
                continue;
            }
            // Invalid headers cannot be cut: the interface drops the frame.
            let found = Segments::of(&bytes, LinkType::Ethernet, bytes.len(), virtio.gso_size.into());
            let Ok(segments) = found else { continue };
            let segments = segments.constant_id(virtio.flags & VirtioNet::CONSTANT_ID != 0);
            for number in 0..segments.count() {
                let mut frame = Vec::new();
                segments.write(&bytes, number, &mut frame);
                frames.push(frame);
            }
        }
        record(self.0, frames);
        cx.sent(batch);
        None
    }
}

/// The class `Partial(SIZE)` leaves the checksums of TCP segments to a device, and makes those with more data
/// than SIZE large segments, as a TAP interface does with packets of this machine. Other packets pass.
pub static PARTIAL: Class = Class {
    name: "Partial",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Partial { size: number_of(args)? as u16 })),
    ..Class::DEFAULT
};

struct Partial {
    size: u16,
}

impl Element for Partial {
    fn effects(&self) -> Effects {
        Effects { support: Support { offloads: Some(-14), ..Support::default() }, ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let mut bytes = bytes_of(packet);
            let Some(segment) = segment_of(&bytes).filter(|segment| segment.is_tcp) else { continue };
            let at = usize::from(segment.l4) + 16;
            let word = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            // A complete checksum is the complement of the sums of the pseudo-header and of the rest.
            let complete_sum = word(&bytes);
            bytes[at..at + 2].fill(0);
            complete(&mut bytes, segment.l4.into(), 16).unwrap();
            let sum = (complete_sum ^ 0xffff) + word(&bytes);
            let partial = (sum % 0xffff) as u16;
            packet.data_mut()[at..at + 2].copy_from_slice(&partial.to_be_bytes());
            let is_large = segment.length > self.size;
            let kind =
                if bytes[segment.l3 as usize] >> 4 == 4 { VirtioNet::TCP_V4 } else { VirtioNet::TCP_V6 };
            packet.annotations_mut().virtio = VirtioNet {
                flags: VirtioNet::NEEDS_CHECKSUM,
                gso_type: if is_large { kind } else { 0 },
                header_length: segment.start,
                gso_size: if is_large { self.size } else { 0 },
                checksum_start: segment.l4,
                checksum_offset: 16,
            };
        }
    }
}
