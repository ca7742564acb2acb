//! Makes packets from frames that were received from an interface, for FromDevice, KernelTun, KernelTap and
//! FromHost.
//!
//! A sender may leave work to the receiving device: the segmentation of a large segment, and checksums. If a
//! downstream element cannot handle unfinished packets, or a packet is longer than the snap length, the work
//! is done here: a large segment becomes frames of the size that its sender chose, and partial checksums are
//! completed. Work that interfaces do not take is done here in any case: SCTP checksums, and large UDP
//! segments with complete checksums.

use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, Target, Value};
use element::{Base, Batch, Cx, DropReason, Effects, Packet, Timestamp};
use packet::{Annotations, PacketKind, VirtioNet};
use wire::layers::Network;
use wire::offload::{Segments, completed, set_checksum};
use wire::{LinkType, sctp};

use crate::force_ip::{mark_ip, marking_ip};
use crate::losses::Losses;

/// The length in bytes of the largest frame that interfaces take without cutting it: the longest IP packet
/// and an Ethernet header.
const LARGEST: usize = 65535 + 14;
/// The largest number of frames that are made of a large segment. A large segment of 64 KiB becomes fewer
/// frames even if each has only 48 bytes of payload.
const MOST_SEGMENTS: usize = 2048;
/// The number of bytes that are kept of a frame that is dropped, for elements and people that look at
/// drops.
const SHOWN: usize = 64;
/// The offset in bytes of a VLAN tag in an Ethernet frame: it follows the two Ethernet addresses.
const TAG: usize = 12;
const TAG_LENGTH: usize = 4;

/// A received frame, and what the kernel reports about it.
pub(super) struct Received<'a> {
    /// The name of the interface, for messages.
    pub(super) device: &'a str,
    pub(super) bytes: &'a [u8],
    /// The length of the frame on the wire in bytes; more than `bytes` if the kernel has cut the frame.
    pub(super) length: usize,
    pub(super) time: Timestamp,
    pub(super) kind: PacketKind,
    /// A VLAN tag that the device has taken out of the frame: its protocol and its control information. The
    /// tag belongs after the two Ethernet addresses.
    pub(super) vlan: Option<(u16, u16)>,
    pub(super) virtio: VirtioNet,
}

/// The treatment of IP packets: which packets get header annotations, and whether other packets leave by
/// output 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarksIp {
    No,
    /// IP packets get header annotations; other packets are emitted without them.
    Yes,
    /// IP packets get header annotations; other packets leave by output 1, or are dropped if there is no
    /// output 1.
    Only,
}

/// The part of a source that makes packets from received frames.
pub(super) struct Incoming {
    pub(super) snap_length: usize,
    marks_ip: MarksIp,
    pub(super) link: LinkType,
    /// True if packets say of their transport checksums that they are right.
    pub(super) reports_checksums: bool,
    /// The number of packets made, including those that were dropped because they cannot be cut or are not
    /// IP.
    pub(super) count: u64,
    /// A buffer for a frame that is being cut from a large segment.
    scratch: Vec<u8>,
    losses: Losses,
}

impl Incoming {
    pub(super) fn new(snap_length: usize, marks_ip: MarksIp, link: LinkType) -> Incoming {
        // Room for the largest frame, so that the buffer does not grow while packets flow.
        let scratch = Vec::with_capacity(1 << 17);
        Incoming {
            snap_length,
            marks_ip,
            link,
            reports_checksums: true,
            count: 0,
            scratch,
            losses: Losses::default(),
        }
    }

    /// Returns the effects that a source with `outputs` outputs declares if it makes its packets by this
    /// value.
    pub(super) fn effects(&self, outputs: usize) -> Effects {
        // The case matches no input packet, because the packets are new. It tells other elements which fields
        // of the new packets are set.
        let pure = |name| Value::Pure { name, reads: Vec::new() };
        let mut case = Case::new(Filter::FALSE, Target::Output(0))
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

    /// Counts packets that arrived while ACTIVE was false as dropped, and reports them to the user.
    #[cold]
    pub(super) fn count_inactive(&mut self, cx: &mut Cx<'_>, device: &str, packets: usize) {
        cx.accounts().count_made(packets);
        cx.accounts().count_dropped(packets, DropReason::Inactive);
        let text = format_args!("packets come while the element is switched off (ACTIVE false)");
        self.losses.count(cx, device, (DropReason::Inactive, packets), Some(text));
    }

    /// Reports the dropped packets that have not been reported yet, at the end of a run.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, device: &str) {
        self.losses.end(cx, device);
    }

    /// Makes packets of a received frame and appends them to the batch. A full batch is emitted, and a new
    /// one begun. Returns the number of packets made.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>) -> u64 {
        let before = self.count;
        self.make(cx, batch, received);
        self.count.saturating_sub(before)
    }

    fn make(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>) {
        if received.virtio.gso_type & !VirtioNet::ECN == 0 {
            let leaves = cx.graph().may_offload() && received.length <= self.snap_length;
            return self.take_one(cx, batch, received, leaves);
        }
        let Some(segments) = self.segments(received) else { return self.refuse(cx, received) };
        // A large segment goes on uncut only if none of its segments would be longer than the snap length.
        let tag = if received.vlan.is_some() { TAG_LENGTH } else { 0 };
        let fits = segments.longest() + tag <= self.snap_length
            && received.bytes.len() + tag <= LARGEST + TAG_LENGTH;
        // Interfaces refuse a large UDP segment whose checksum is complete, so it is cut here.
        let is_taken = segments.transport().1 || received.virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0;
        if fits && is_taken && cx.graph().may_offload() {
            // The kernel's header length is the length of the frame's linear part, which may include
            // payload. Elements downstream need the length of the headers alone.
            let header_length = segments.header_length() as u16;
            let virtio = VirtioNet { header_length, ..received.virtio };
            return self.take_one(cx, batch, &Received { virtio, ..*received }, true);
        }
        // The frames get new checksums. They are as right as that of the segment: it was verified, or its
        // sender is on this machine.
        let is_right = received.virtio.flags & (VirtioNet::NEEDS_CHECKSUM | VirtioNet::DATA_VALID) != 0;
        let flags = if is_right { VirtioNet::DATA_VALID } else { 0 };
        let mut scratch = std::mem::take(&mut self.scratch);
        for number in 0..segments.count() {
            scratch.clear();
            segments.write(received.bytes, number, &mut scratch);
            let one = Received {
                bytes: &scratch,
                length: scratch.len(),
                virtio: VirtioNet { flags, ..VirtioNet::default() },
                ..*received
            };
            self.take_one(cx, batch, &one, false);
        }
        self.scratch = scratch;
    }

    /// Returns how a large segment from the kernel (GSO) is divided into frames. Returns `None` if it cannot
    /// be divided: the segment has been cut, it would become more than [`MOST_SEGMENTS`] frames, its kind or
    /// its segment size is not valid, or its headers are not as declared, as with segments inside a tunnel.
    fn segments(&self, received: &Received<'_>) -> Option<Segments> {
        let virtio = &received.virtio;
        if received.bytes.len() < received.length {
            return None;
        }
        let (bytes, size) = (received.bytes, usize::from(virtio.gso_size));
        let segments = Segments::of(bytes, self.link, bytes.len(), size).ok()?;
        let (network, is_tcp, start) = segments.transport();
        let is_partial = virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0;
        let is_kind = match virtio.gso_type & !VirtioNet::ECN {
            VirtioNet::TCP_V4 => is_tcp && network == Network::Ipv4,
            VirtioNet::TCP_V6 => is_tcp && network == Network::Ipv6,
            VirtioNet::UDP => !is_tcp,
            _ => false,
        };
        let is_here = !is_partial || usize::from(virtio.checksum_start) == start;
        (is_kind && is_here && segments.count() <= MOST_SEGMENTS).then_some(segments)
    }

    /// Drops a large segment that cannot be divided, and reports it to the user.
    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, received: &Received<'_>) {
        let text = format_args!(
            "large segments in tunnels, of more than 128 KiB or of unknown kinds cannot be cut; let their sender cut \
             them: `ethtool -K IF tso off tx-udp_tnl-segmentation off`, `ip link set IF gso_max_size 65536`"
        );
        self.losses.count(cx, received.device, (DropReason::UnknownSegments, 1), Some(text));
        self.count += 1;
        if let Some(packet) = cx.packet(&received.bytes[..received.bytes.len().min(SHOWN)]) {
            cx.drop(packet, DropReason::UnknownSegments);
        }
    }

    /// Makes a packet of a frame, sets its annotations, and appends it to the batch; with [`MarksIp::Only`],
    /// a packet that is not IP leaves by output 1 or is dropped. With `leaves`, an unfinished checksum or
    /// segmentation is left to an interface that the packet leaves by; otherwise a partial checksum is
    /// completed. An SCTP checksum is completed in both cases. In a frame that the kernel has cut, no
    /// checksum is completed. The packet says that its checksum is right if the kernel says so, or if it is
    /// completed here.
    fn take_one(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, received: &Received<'_>, leaves: bool) {
        let Some((mut packet, shift)) = self.packet(cx, received) else { return };
        packet.set_time(received.time);
        packet.set_kind(received.kind);
        packet.set_link(self.link.number());
        packet.set_offset(if self.link == LinkType::RawIp { Base::Network } else { Base::Mac }, Some(0));
        let mut virtio = received.virtio;
        let is_left = virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0;
        let mut is_right = virtio.flags & VirtioNet::DATA_VALID != 0 && !is_left;
        virtio.flags &= !VirtioNet::DATA_VALID;
        virtio.checksum_start = virtio.checksum_start.saturating_add(shift);
        virtio.header_length = virtio.header_length.saturating_add(shift);
        let is_sctp = is_left
            && usize::from(virtio.checksum_offset) == sctp::CHECKSUM
            && received.bytes.len() >= received.length
            && complete_sctp(&mut packet, self.link, virtio.checksum_start.into());
        if is_sctp {
            // The SCTP checksum has been completed. An SCTP checksum cannot be left to an interface, because
            // a virtio-net header does not show that the checksum is SCTP's.
        } else if leaves {
            packet.annotations_mut().virtio = virtio;
        } else if is_left && received.bytes.len() >= received.length {
            let start = usize::from(virtio.checksum_start);
            let checksum = completed(packet.chunks(), start);
            // If the offset of the checksum that the kernel reports is outside the packet, nothing is set.
            let is_set = set_checksum(packet.data_mut(), start, virtio.checksum_offset.into(), checksum);
            is_right = is_set.is_ok();
        }
        packet.set_right_checksum(is_right && self.reports_checksums);
        // A large segment is not cut at the snap length, because each segment that it becomes is short
        // enough.
        let most = if virtio.gso_type & !VirtioNet::ECN == 0 { self.snap_length } else { usize::MAX };
        let length = received.length.max(received.bytes.len()) + usize::from(shift);
        packet.truncate(most);
        let missing = length - packet.len();
        if missing > 0 {
            packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, missing as u32);
        }
        self.count += 1;
        if self.marks_ip != MarksIp::No && !mark_ip(&mut packet) && self.marks_ip == MarksIp::Only {
            if cx.outputs() < 2 {
                let text = format_args!("there are packets that are not IP (FORCE_IP true)");
                self.losses.count(cx, received.device, (DropReason::BadIpHeader, 1), Some(text));
            }
            return cx.emit_one(1, packet, DropReason::BadIpHeader);
        }
        if let Err(packet) = batch.push(packet) {
            let mut full = cx.batch_of(packet);
            std::mem::swap(batch, &mut full);
            cx.emit(0, full);
        }
    }

    /// Copies the frame into a packet, with the VLAN tag in its place. Returns the packet and the length of
    /// the inserted tag in bytes; `None` if there is no memory for a packet.
    fn packet(&self, cx: &mut Cx<'_>, received: &Received<'_>) -> Option<(Packet, u16)> {
        let (Some(vlan), Some((addresses, rest))) =
            (received.vlan, received.bytes.split_first_chunk::<TAG>())
        else {
            return cx.packet(received.bytes).map(|packet| (packet, 0));
        };
        let mut packet = cx.packet(rest)?;
        // The calls cannot fail, because a new packet has headroom.
        let _ = packet.prepend(&tag(vlan)) && packet.prepend(addresses);
        Some((packet, TAG_LENGTH as u16))
    }
}

/// Completes the checksum of an SCTP packet whose SCTP header is at the offset `start`. SCTP has a CRC
/// instead of the checksum of TCP and UDP. Returns false, and changes nothing, if there is no SCTP header
/// at `start`.
#[cold]
fn complete_sctp(packet: &mut Packet, link: LinkType, start: usize) -> bool {
    let found = sctp::find(packet.data(), link, packet.len()).filter(|range| range.start == start);
    let Some(range) = found else { return false };
    let checksum = sctp::checksum(packet.chunks(), range);
    let field = packet.data_mut().get_mut(start + sctp::CHECKSUM..).and_then(|bytes| bytes.first_chunk_mut());
    field.map(|field| *field = checksum).is_some()
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
    use element::effects::Support;
    use element::{Class, Element, Registry};
    use engine::{ClockKind, Options, Plan, StandardStreams, Worker};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::build::Builder;
    use wire::ethernet::MacAddr;
    use wire::offload::start_checksum;
    use wire::{checksum, ip_protocol};

    use super::*;

    /// An emitted packet: its bytes, the work that is left to an interface, and the extra length
    /// annotation.
    type Seen = (Vec<u8>, VirtioNet, u32);
    /// A frame that is received: its bytes, its VLAN tag, its virtio-net header, and the snap length.
    type Given = (Vec<u8>, Option<(u16, u16)>, VirtioNet, usize);

    /// The lock of the test that is running. Tests pass frames to the element and packets back in the
    /// statics below, so that only one can run at a time.
    static TEST: Mutex<()> = Mutex::new(());
    static GIVEN: Mutex<Option<Given>> = Mutex::new(None);
    static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
    /// For each packet seen, true if it says that its checksum is right.
    static RIGHT: Mutex<Vec<bool>> = Mutex::new(Vec::new());

    struct Source(Incoming);

    impl Element for Source {
        fn effects(&self) -> Effects {
            Effects { support: Support { offloads: Some(-14), ..Support::default() }, ..self.0.effects(1) }
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
            self.0.take(
                cx,
                &mut batch,
                &Received { device: "", bytes: &bytes, length, time, kind, vlan, virtio },
            );
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
            let sent = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]).observing(&seen);
            Effects { support: Support { offloads: self.0, ..Support::default() }, ..sent }
        }

        fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
            let mut batch = batch;
            let mut done = cx.batch();
            for packet in batch.drain() {
                let annotations = packet.annotations();
                let missing = annotations.u32(Annotations::EXTRA_LENGTH);
                let bytes = packet.chunks().collect::<Vec<_>>().concat();
                SEEN.lock().unwrap().push((bytes, annotations.virtio, missing));
                RIGHT.lock().unwrap().push(packet.has_right_checksum());
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

    /// Runs a source and a sink on one received frame. Returns the emitted packets, and the drop reasons
    /// with the number of packets. With `offloads`, the sink can handle unfinished packets.
    fn run_all(offloads: bool, given: Given) -> (Vec<Seen>, Vec<(&'static str, u64)>) {
        let (seen, drops, _) = run_with_checksums(offloads, given);
        (seen, drops)
    }

    /// Does what [`run_all`] does, and also returns, for each packet, true if it says that its checksum is
    /// right.
    fn run_with_checksums(offloads: bool, given: Given) -> (Vec<Seen>, Vec<(&'static str, u64)>, Vec<bool>) {
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
        let report = worker.report();
        assert!(report.balances());
        let drops = report.totals.drops.into_iter().collect();
        let right = std::mem::take(&mut *RIGHT.lock().unwrap());
        (std::mem::take(&mut *SEEN.lock().unwrap()), drops, right)
    }

    #[test]
    fn packets_say_that_checksums_are_right_if_they_were_verified_or_never_sent() {
        let said = |offloads, (frame, virtio): (Vec<u8>, VirtioNet)| {
            let (seen, _, right) = run_with_checksums(offloads, (frame, None, virtio, 65535));
            assert!(seen.iter().all(|(_, virtio, _)| virtio.flags & VirtioNet::DATA_VALID == 0));
            right
        };
        let whole = builder(None, 1).build(&[1; 1000]).unwrap();
        let flagged = |flags, virtio| VirtioNet { flags, ..virtio };
        for offloads in [false, true] {
            let verified = flagged(VirtioNet::DATA_VALID, VirtioNet::default());
            assert_eq!(said(offloads, (whole.clone(), verified)), [true]);
            assert_eq!(said(offloads, (whole.clone(), VirtioNet::default())), [false]);
            // A partial checksum is completed here, or left to another interface.
            assert_eq!(said(offloads, unfinished(&[1; 1000], 0)), [!offloads]);
        }
        // The frames of a large segment are as right as it was.
        let (large, virtio) = unfinished(&[1; 2500], 1000);
        assert_eq!(said(false, (large.clone(), virtio)), [true; 3]);
        assert_eq!(said(false, (large.clone(), flagged(VirtioNet::DATA_VALID, virtio))), [true; 3]);
        assert_eq!(said(false, (large, flagged(0, virtio))), [false; 3]);
    }

    fn run(offloads: bool, given: Given) -> Vec<Seen> {
        run_all(offloads, given).0
    }

    fn builder(tag: Option<(u16, u16)>, sequence: u32) -> Builder {
        let [a, b]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let builder =
            Builder::tcp(a, b, 0x10).sequence(sequence, 5).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        tag.into_iter().fold(builder, |builder, (_, control)| builder.vlan(control))
    }

    /// Builds a frame as an interface delivers it: without a VLAN tag, with a partial checksum, and with
    /// `gso_size` > 0 as a large segment.
    fn unfinished(payload: &[u8], gso_size: u16) -> (Vec<u8>, VirtioNet) {
        let mut frame = builder(None, 1).build(payload).unwrap();
        let length = frame.len();
        let (start, offset) = start_checksum(&mut frame, LinkType::Ethernet, length).unwrap();
        let virtio = VirtioNet {
            flags: VirtioNet::NEEDS_CHECKSUM,
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
                    // A checksum of 0 and a checksum of 0xffff are equal in one's complement.
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
            hint: u16,
        ) {
            let tag = control.map(|control| (0x8100, control));
            let (frame, virtio) = unfinished(&payload, size);
            let seen = run(true, (frame.clone(), tag, VirtioNet { header_length: hint, ..virtio }, 2046));
            let shift = if tag.is_some() { 4 } else { 0 };
            let moved = VirtioNet {
                checksum_start: virtio.checksum_start + shift, header_length: virtio.header_length + shift, ..virtio
            };
            let mut expected = builder(tag, 1).build(&payload).unwrap();
            // The frame is unchanged, except that the tag has been inserted.
            expected.splice(expected.len() - frame.len() + 14.., frame[14..].iter().copied());
            prop_assert_eq!(seen, vec![(expected, moved, 0)]);
        }
    }

    #[test]
    fn how_much_lies_in_one_piece_is_not_how_long_headers_are() {
        // Large segments that the kernel has merged have a linear part with the headers and the first
        // segment.
        for size in [733, 900, 996, 1448] {
            let (frame, virtio) = unfinished(&[1; 9000], size);
            let given = VirtioNet { header_length: 54 + size, ..virtio };
            let seen = run(true, (frame.clone(), None, given, 54 + usize::from(size)));
            assert_eq!(seen, vec![(frame.clone(), virtio, 0)], "{size}");
            let seen = run(true, (frame, None, given, 53 + usize::from(size)));
            assert_eq!(seen.len(), 9000usize.div_ceil(size.into()), "would be cut off: {size}");
        }
    }

    #[test]
    fn what_cannot_be_cut_is_dropped_by_name() {
        let (inner, virtio) = unfinished(&[1; 3000], 1000);
        let [a, b]: [SocketAddr; 2] = [([10, 1, 0, 1], 5000).into(), ([10, 1, 0, 2], 4789).into()];
        let around = |payload: &[u8]| {
            Builder::udp(a, b).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap()
        };
        // A large TCP segment in VXLAN: the first transport header is UDP's, so it does not match the kind
        // of segments.
        let tunnel = around(&[&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat());
        let inside = VirtioNet { checksum_start: virtio.checksum_start + 50, header_length: 104, ..virtio };
        // The frame `tunnel` again, declared as segments of UDP inside VXLAN.
        let inside_udp = VirtioNet { gso_type: VirtioNet::UDP, ..inside };
        let datagram = around(&[3; 3000]);
        let at = |gso_type, gso_size| VirtioNet { gso_type, gso_size, checksum_offset: 6, ..virtio };
        let mut arp = inner.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        for (name, frame, virtio) in [
            ("VXLAN", &tunnel, inside),
            ("UDP in VXLAN", &tunnel, inside_udp),
            ("UDP as TCP", &datagram, at(VirtioNet::TCP_V4, 1000)),
            ("fragments of UDP", &datagram, at(3, 1480)),
            ("TCP as UDP", &inner, at(VirtioNet::UDP, 1000)),
            ("IPv4 as IPv6", &inner, at(VirtioNet::TCP_V6, 1000)),
            ("segments of nothing", &inner, at(VirtioNet::TCP_V4, 0)),
            ("thousands of segments", &inner, at(VirtioNet::TCP_V4, 1)),
            ("ARP", &arp, virtio),
        ] {
            for offloads in [true, false] {
                let all = run_all(offloads, (frame.clone(), None, virtio, 65535));
                assert_eq!(all, (vec![], vec![("segments not understood", 1)]), "{name}");
            }
        }
        // A UDP datagram that is declared as segments of UDP is cut, because its headers are as declared.
        assert_eq!(run(false, (datagram, None, at(VirtioNet::UDP, 1000), 65535)).len(), 3);
    }

    #[test]
    fn datagrams_with_whole_checksums_are_always_cut() {
        let [a, b]: [SocketAddr; 2] = [([10, 1, 0, 1], 5000).into(), ([10, 1, 0, 2], 7000).into()];
        let builder = |id| Builder::udp(a, b).id(id).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let large = builder(0).build(&[3; 2500]).unwrap();
        let merged =
            VirtioNet { gso_type: VirtioNet::UDP, gso_size: 1000, header_length: 42, ..VirtioNet::default() };
        for offloads in [true, false] {
            let seen = run(offloads, (large.clone(), None, merged, 65535));
            let expected = [(0, 1000), (1, 1000), (2, 500)]
                .map(|(id, n)| (builder(id).build(&vec![3; n]).unwrap(), VirtioNet::default(), 0));
            assert_eq!(seen, expected, "{offloads}");
        }
    }

    #[test]
    fn sctp_gets_the_sum_that_it_has() {
        let [a, b]: [SocketAddr; 2] = [([10, 1, 0, 1], 0).into(), ([10, 1, 0, 2], 0).into()];
        let builder = Builder::udp(a, b).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let mut frame = builder.build(&[0; 24]).unwrap();
        frame[23] = ip_protocol::SCTP;
        checksum::fill_ipv4(&mut frame[14..34]).unwrap();
        // The known CRC of 32 bytes of zeros. The link padding after them is not part of it.
        frame[34..].fill(0);
        let whole = [&frame[..42], &[0xaa, 0x36, 0x91, 0x8a], &frame[46..], &[0xee; 6]].concat();
        frame.extend([0xee; 6]);
        let left = VirtioNet {
            flags: VirtioNet::NEEDS_CHECKSUM,
            checksum_start: 34,
            checksum_offset: 8,
            ..VirtioNet::default()
        };
        for offloads in [true, false] {
            let seen = run(offloads, (frame.clone(), None, left, 65535));
            assert_eq!(seen, [(whole.clone(), VirtioNet::default(), 0)], "{offloads}");
        }
        let tagged = run(false, (frame, Some((0x8100, 5)), left, 65535));
        assert_eq!(tagged[0].0[18..], whole[14..]);
    }

    #[test]
    fn a_checksum_beyond_the_end_is_nobodys() {
        let (frame, virtio) = unfinished(&[1; 1000], 0);
        let beyond = VirtioNet { checksum_start: 60_000, ..virtio };
        assert_eq!(run(false, (frame.clone(), None, beyond, 65535))[0].0, frame);
    }
}
