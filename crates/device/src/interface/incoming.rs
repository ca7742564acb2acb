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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex};

    use element::class::{ArgInfo, Notes};
    use element::{Class, Element, Registry};
    use engine::{ClockKind, Options, Plan, StandardStreams, Worker};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::build::Builder;
    use wire::ethernet::MacAddr;
    use wire::offload::start_checksum;

    use super::*;

    /// What came out: bytes, what is left to be done, and how much is missing.
    type Seen = (Vec<u8>, VirtioNet, u32);
    /// What comes in, with its tag, and the length at which it is cut.
    type Given = (Vec<u8>, Option<(u16, u16)>, VirtioNet, usize);

    /// One test at a time: elements are made from texts, and find their packets here.
    static TEST: Mutex<()> = Mutex::new(());
    static GIVEN: Mutex<Option<Given>> = Mutex::new(None);
    static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

    struct Source(Incoming);

    impl Element for Source {
        fn effects(&self) -> Effects {
            Effects { offloads: Some(-14), ..self.0.effects(1) }
        }

        fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
            cx.schedule();
            Ok(())
        }

        fn run(&mut self, cx: &mut Cx<'_>) -> bool {
            let Some((bytes, vlan, virtio, cut)) = GIVEN.lock().unwrap().take() else { return false };
            self.0.snap_length = cut;
            let (length, time, kind) = (bytes.len(), Timestamp(1), PacketKind::Host);
            let mut batch = cx.batch();
            self.0.take(cx, &mut batch, &Received { bytes: &bytes, length, time, kind, vlan, virtio });
            cx.emit(0, batch);
            true
        }
    }

    static SOURCE: Class = Class {
        name: "Source",
        ports: "0/1",
        processing: "h",
        notes: Notes::TASK,
        build: |_| Ok(Box::new(Source(Incoming::new(0, MarksIp::No, LinkType::Ethernet)))),
        ..Class::DEFAULT
    };

    struct Sink(Option<i32>);

    impl Element for Sink {
        fn effects(&self) -> Effects {
            let seen = [Field::Payload, EXTRA_LENGTH];
            let sent = Effects::cases(vec![Case::new(Filter::Any, Target::Send)]).observing(&seen);
            Effects { offloads: self.0, ..sent }
        }

        fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
            let mut batch = batch;
            let mut done = cx.batch();
            for packet in batch.drain() {
                let annotations = packet.annotations();
                let missing = annotations.u32(Annotations::EXTRA_LENGTH);
                let bytes = packet.chunks().collect::<Vec<_>>().concat();
                SEEN.lock().unwrap().push((bytes, annotations.virtio, missing));
                drop(done.push(packet));
            }
            cx.sent(done);
            cx.recycle(batch);
            None
        }
    }

    static SINK: Class = Class {
        name: "Sink",
        ports: "1/0",
        processing: "h",
        args: &[ArgInfo::required("OFFLOADS", "bool")],
        build: |args| {
            let offloads = args.required::<bool>("OFFLOADS").then_some(-14);
            args.finish()?;
            Ok(Box::new(Sink(offloads)))
        },
        ..Class::DEFAULT
    };

    /// What packets come of something that comes from an interface.
    fn run(offloads: bool, given: Given) -> Vec<Seen> {
        let _one = TEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *GIVEN.lock().unwrap() = Some(given);
        let mut sources = lang::Sources::new();
        let id = sources.add("test", format!("Source -> Sink({offloads})"));
        let (graph, _) = lang::parse(&mut sources, id, &lang::Options::default());
        let plan = Plan::new(graph, &Registry::new().with(&[&SOURCE, &SINK])).unwrap_or_else(|_| panic!());
        let plan = Arc::new(plan);
        let configured = plan.configure(Some(32)).unwrap_or_else(|_| panic!());
        let clock = ClockKind::Simulated { start: Timestamp(1), tick: Timestamp(1) };
        let options = Options { clock, memory: 64 << 20, ..Options::default() };
        let mut worker =
            Worker::new(plan, configured, Box::new(StandardStreams::default()), options).unwrap();
        worker.initialize().unwrap_or_else(|_| panic!());
        while worker.step(1) {}
        worker.finish().unwrap();
        assert!(worker.report().balances());
        std::mem::take(&mut *SEEN.lock().unwrap())
    }

    fn builder(tag: Option<(u16, u16)>, sequence: u32) -> Builder {
        let [a, b]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let builder =
            Builder::tcp(a, b, 0x10).sequence(sequence, 5).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        tag.into_iter().fold(builder, |builder, (_, control)| builder.vlan(control))
    }

    /// A frame as an interface gives it: without its tag, and with the checksum started only.
    fn unfinished(payload: &[u8], gso_size: u16) -> (Vec<u8>, VirtioNet) {
        let mut frame = builder(None, 1).build(payload).unwrap();
        let length = frame.len();
        let (start, offset) = start_checksum(&mut frame, LinkType::Ethernet, length).unwrap();
        let virtio = VirtioNet {
            flags: NEEDS_CHECKSUM,
            gso_type: if gso_size > 0 { 1 } else { 0 },
            header_length: 54,
            gso_size,
            checksum_start: start as u16,
            checksum_offset: offset as u16,
        };
        (frame, virtio)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whoever_minds_gets_what_would_have_been_on_the_wire(
            payload in vec(any::<u8>(), 1..9000), size in 100u16..1448, control in proptest::option::of(1u16..0x1000), large: bool,
            cut in 60usize..2000,
        ) {
            let tag = control.map(|control| (0x8100, control));
            let size = if large { size } else { 0 };
            let (frame, virtio) = unfinished(&payload, size);
            let chunks: Vec<&[u8]> = if large { payload.chunks(size.into()).collect() } else { vec![&payload] };
            let seen = run(false, (frame, tag, virtio, cut));
            prop_assert_eq!(seen.len(), chunks.len());
            let mut sequence = 1;
            for (number, (chunk, (bytes, _, missing))) in chunks.iter().zip(seen).enumerate() {
                let mut whole = builder(tag, sequence).id(number as u16).build(chunk).unwrap();
                let checksum = whole.len() - chunk.len() - 4;
                if !large && whole[checksum..][..2] == [0, 0] {
                    // The same in one's complement.
                    whole[checksum..][..2].fill(0xff);
                }
                let kept = whole.len().min(cut);
                prop_assert_eq!((&bytes[..], missing as usize), (&whole[..kept], whole.len() - kept));
                sequence += chunk.len() as u32;
            }
        }

        #[test]
        fn whoever_does_not_mind_gets_it_as_it_is(
            payload in vec(any::<u8>(), 1..9000), size in 100u16..1448, control in proptest::option::of(1u16..0x1000),
        ) {
            let tag = control.map(|control| (0x8100, control));
            let (frame, virtio) = unfinished(&payload, size);
            let seen = run(true, (frame.clone(), tag, virtio, 2046));
            let shift = if tag.is_some() { 4 } else { 0 };
            let moved = VirtioNet {
                checksum_start: virtio.checksum_start + shift, header_length: virtio.header_length + shift, ..virtio
            };
            let mut expected = builder(tag, 1).build(&payload).unwrap();
            // As it came, but for the tag.
            expected.splice(expected.len() - frame.len() + 14.., frame[14..].iter().copied());
            prop_assert_eq!(seen, vec![(expected, moved, 0)]);
        }
    }

    #[test]
    fn what_is_not_what_its_header_says_goes_on_as_it_is() {
        let (frame, virtio) = unfinished(&[1; 3000], 1000);
        let mut arp = frame.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        let seen = run(false, (arp.clone(), None, virtio, 65535));
        assert_eq!(seen.iter().map(|(bytes, ..)| bytes).collect::<Vec<_>>(), [&arp]);
        // A checksum beyond the end, segments of nothing.
        let beyond = VirtioNet { checksum_start: 60_000, gso_type: 0, ..virtio };
        assert_eq!(run(false, (frame.clone(), None, beyond, 65535))[0].0, frame);
        let nothing = VirtioNet { gso_size: 0, ..virtio };
        assert_eq!(run(false, (frame.clone(), None, nothing, 65535))[0].0, frame);
    }
}
