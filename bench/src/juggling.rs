//! The benchmark `juggler`: TCP segments from memory, in order and reordered, through elements that restore
//! the order and merge segments.
//!
//! The traffic imitates senders of large segments: a flow sends 44 packets at once (64 KiB in full frames),
//! and the last of them has PSH. With many flows, eight of them send at the same time, one packet each in
//! turn. In reordered traffic, a fraction of the packets arrives up to 64 positions late. Sequence numbers
//! continue from one round of the replay to the next, so that no packet looks like a retransmission.

use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use capture::{Writer, WriterOptions};
use element::class::{ArgInfo, Notes};
use element::effects::{Action, Case, Depends, Field, Filter, Support, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element};
use engine::{Options, Worker};
use wire::MacAddr;
use wire::build::Builder;
use wire::checksum::Delta;
use wire::tcp::flags;

use crate::frames::{Start, give};
use crate::runner::{measure_of, running_with, text_of};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The classes of elements that this benchmark adds.
pub(crate) static CLASSES: &[&Class] = &[&SEGMENTS, &ADVANCE];

/// The variants of the elements under test: the name in rows, true if the packets say that an interface has
/// verified their checksums, and the elements, each followed by an arrow.
const VARIANTS: &[(&str, bool, &str)] = &[
    ("none", true, ""),
    ("juggler", true, "Juggler(FLOWS 512) ->"),
    ("juggler that verifies", false, "Juggler(FLOWS 512) ->"),
    ("juggler and segment", false, "Juggler(FLOWS 512) -> Segment ->"),
    ("order alone", false, "Juggler(FLOWS 512, MERGE false) ->"),
];

/// The measured kinds of traffic: number of flows, percentage of late packets, and size of frames in bytes.
const CASES: [(usize, usize, usize); 10] = [
    (1, 0, 1514),
    (1, 5, 1514),
    (1, 20, 1514),
    (1, 50, 1514),
    (256, 0, 1514),
    (256, 5, 1514),
    (256, 20, 1514),
    (256, 50, 1514),
    (1, 0, 64),
    (256, 0, 64),
];

/// The number of packets that a flow sends at once.
const SEND: usize = 44;
/// The number of flows that send at the same time.
const TOGETHER: usize = 8;
/// The largest number of positions by which a packet is late.
const LATEST: usize = 64;
/// The number of bytes of the Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;
/// The offset of the TCP sequence number in a frame (`SEQUENCE`), and that of the TCP checksum (`CHECKSUM`),
/// in bytes.
const SEQUENCE: usize = 38;
const CHECKSUM: usize = 50;

/// Measures a row for each kind of traffic and each element under test. With `--asked`, each kind of
/// traffic is also written to a capture.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (flows, late, frame) in CASES {
        let traffic = Traffic::new(settings.packets, flows, late, frame);
        if let Some(folder) = &settings.asked {
            let file = folder.join(format!("{flows}-{late}-{frame}.pcap"));
            traffic.write(&file, 1000).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        for &(way, is_verified, elements) in VARIANTS {
            let mut worker = worker(settings.packets, &traffic, is_verified, elements)?;
            let params = [
                ("flows", Param::Number(flows as u64)),
                ("late", Param::Number(late as u64)),
                ("frame", Param::Number(frame as u64)),
                ("through", Param::Word(way)),
            ];
            let row = measure_of("juggler", settings, frame, &mut worker, &params)?;
            let count = |name| worker.plan().graph.find(name).map(|id| &worker.core().counters[id]);
            let merged = count("replay").zip(count("sink"));
            let merged = merged.map(|(replay, sink)| replay.emitted as f64 / sink.arrived.max(1) as f64);
            rows.push(Row { merged, ..row });
            worker.finish().map_err(|errors| errors.join("; "))?;
        }
    }
    Ok(rows)
}

/// Creates a worker that replays `traffic`, made of `packets` packets, through `elements`, each of which is
/// followed by an arrow. With `is_verified`, the packets say that an interface has verified their checksums.
fn worker(packets: usize, traffic: &Traffic, is_verified: bool, elements: &str) -> Result<Worker, String> {
    let Traffic { flows, late, frame, .. } = *traffic;
    let source = format!("BenchmarkSegments({packets}, {flows}, {late}, {frame})");
    let (count, bytes) = (traffic.order.len(), traffic.bytes_per_flow());
    let advance = format!("BenchmarkAdvance({count}, {bytes}, {is_verified})");
    let table = if elements.contains("(t)") { "; t :: PayloadTable(ENTRIES 512)" } else { "" };
    let chain = format!("{advance} -> {elements} sink :: Discard{table}");
    running_with(CLASSES, text_of(&source, Start::Frame, &chain), Options::default())
}

/// The chains whose instructions are counted, with full frames: the name, the number of flows, the percentage
/// of late packets, true if an interface has verified the checksums, and the elements, each followed by an
/// arrow (`t` is a PayloadTable). The program runs so slowly while instructions are counted that the usual
/// time-outs would expire, so these are longer.
const COUNTED: &[(&str, usize, usize, bool, &str)] = &[
    ("juggler-none", 1, 0, true, ""),
    ("juggler", 1, 0, true, "Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) ->"),
    ("juggler-sliced", 1, 0, true, "Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) -> Slice(t) -> Splice(t) ->"),
    ("juggler-late", 1, 50, true, "Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) ->"),
    ("juggler-flows", 256, 0, true, "Juggler(FLOWS 512, INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) ->"),
    ("juggler-verifying", 1, 0, false, "Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) ->"),
    ("juggler-cut", 1, 0, false, "Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s) -> Segment ->"),
    ("juggler-order", 1, 0, false, "Juggler(OFO_TIMEOUT 1s, MERGE false) ->"),
    ("juggler-order-late", 1, 50, false, "Juggler(OFO_TIMEOUT 1s, MERGE false) ->"),
];

/// Returns a worker that runs the chain of this name in [`COUNTED`] with about `packets` packets in memory;
/// `None` if there is no such chain.
pub(crate) fn counted(name: &str, packets: usize) -> Option<Result<Worker, String>> {
    let &(_, flows, late, is_verified, elements) = COUNTED.iter().find(|(own, ..)| *own == name)?;
    Some(worker(packets, &Traffic::new(packets, flows, late, 1514), is_verified, elements))
}

/// Writes a capture of frames of maximum size. They belong to `flows` flows, the packets of each flow are in
/// order, and the times are those at which a link of 10 Gb/s would send them.
pub(crate) fn write_capture(file: &Path, packets: usize, flows: usize) -> std::io::Result<()> {
    /// The time in nanoseconds that a link of 10 Gb/s needs for a full frame, with preamble, check sequence
    /// and gap.
    const SPACING: i64 = 1230;
    Traffic::new(packets, flows, 0, 1514).write(file, SPACING)
}

/// The packets of one round of the replay.
struct Traffic {
    flows: usize,
    /// The percentage of packets that are late.
    late: usize,
    frame: usize,
    /// The number of packets that a flow sends at once; fewer than [`SEND`] if flows have fewer packets.
    send: usize,
    /// The packets in order of arrival: the index of each packet's flow, and the packet's index within its
    /// flow.
    order: Vec<(u32, u32)>,
}

impl Traffic {
    /// Creates about `packets` packets, with the same number for each of `flows` flows, of which `late`
    /// percent are late.
    fn new(packets: usize, flows: usize, late: usize, frame: usize) -> Traffic {
        let flows = flows.max(1);
        let send = SEND.min((packets / flows).max(1));
        let rounds = (packets / (flows * send)).max(1);
        let mut sent = Vec::with_capacity(rounds * flows * send);
        for round in 0..rounds {
            for first in (0..flows).step_by(TOGETHER) {
                for number in 0..send {
                    let together = first..flows.min(first + TOGETHER);
                    sent.extend(together.map(|flow| (flow as u32, (round * send + number) as u32)));
                }
            }
        }
        // A late packet gets a new position, right after the packet that was sent at this position.
        let mut random = fastrand::Rng::with_seed(1);
        let place = |(place, packet)| {
            let is_late = random.usize(..100) < late;
            (place + if is_late { random.usize(1..=LATEST) } else { 0 }, is_late, packet)
        };
        let mut placed: Vec<_> = sent.into_iter().enumerate().map(place).collect();
        placed.sort_by_key(|&(place, is_late, _)| (place, is_late));
        let order = placed.into_iter().map(|(.., packet)| packet).collect();
        Traffic { flows, late, frame: frame.max(HEADERS + 1), send, order }
    }

    fn payload(&self) -> usize {
        self.frame - HEADERS
    }

    fn bytes_per_flow(&self) -> usize {
        self.payload() * self.order.iter().filter(|(flow, _)| *flow == 0).count()
    }

    fn frame(&self, (flow, number): (u32, u32)) -> Vec<u8> {
        let of = |net: u32, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(net | flow)), port);
        let is_last = (number as usize + 1).is_multiple_of(self.send);
        let flags = flags::ACK | if is_last { flags::PSH } else { 0 };
        let [source, destination] = [1, 2].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
        let do_not_fragment = 0x4000;
        Builder::tcp(of(0x0a00_0000, 1024), of(0x0b00_0000, 80), flags)
            .sequence(number.wrapping_mul(self.payload() as u32), 1)
            .id(number as u16)
            .fragment(do_not_fragment)
            .ethernet(source, destination)
            .build(&vec![flow as u8; self.payload()])
            .expect("a frame fits into an IP packet")
    }

    /// Writes a capture of the packets, one every `spacing` nanoseconds.
    fn write(&self, file: &Path, spacing: i64) -> std::io::Result<()> {
        let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
        let mut writer = Writer::new(BufWriter::new(File::create(file)?), options);
        for (number, &packet) in self.order.iter().enumerate() {
            let frame = self.frame(packet);
            writer.write(spacing * number as i64, frame.len() as u32, [&frame[..]])?;
        }
        writer.flush()
    }
}

/// The class of a source that supplies the packets of one round.
static SEGMENTS: Class = Class {
    name: "BenchmarkSegments",
    ports: "0/1",
    processing: "l/l",
    args: &[
        ArgInfo::required("PACKETS", "unsigned"),
        ArgInfo::required("FLOWS", "unsigned"),
        ArgInfo::required("LATE", "unsigned"),
        ArgInfo::required("FRAME", "unsigned"),
    ],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    build: |args| {
        let (packets, flows) = (args.required("PACKETS"), args.required("FLOWS"));
        let (late, frame): (usize, usize) = (args.required("LATE"), args.required("FRAME"));
        args.finish()?;
        Ok(Box::new(Segments { traffic: Traffic::new(packets, flows, late, frame.min(1514)), next: 0 }))
    },
    ..Class::DEFAULT
};

struct Segments {
    traffic: Traffic,
    next: usize,
}

impl Element for Segments {
    fn effects(&self) -> Effects {
        Effects::source("segment")
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        give(cx, max, || {
            let &packet = self.traffic.order.get(self.next)?;
            self.next += 1;
            Some(self.traffic.frame(packet))
        })
    }
}

/// The class of an element that increases the TCP sequence number of each packet by the number of bytes that
/// the packet's flow has sent in earlier rounds of the replay. All flows send the same number of bytes in a
/// round. With VERIFIED, the packets then say that an interface has verified their checksums.
static ADVANCE: Class = Class {
    name: "BenchmarkAdvance",
    args: &[
        ArgInfo::required("PACKETS", "unsigned"),
        ArgInfo::required("BYTES", "unsigned"),
        ArgInfo::required("VERIFIED", "bool"),
    ],
    build: |args| {
        let (packets, bytes) = (args.required("PACKETS"), args.required("BYTES"));
        let is_verified = args.required("VERIFIED");
        args.finish()?;
        Ok(Box::new(Advance { packets, bytes, is_verified, number: 0, sent: 0 }))
    },
    ..Class::DEFAULT
};

struct Advance {
    /// The number of packets in a round.
    packets: usize,
    /// The number of bytes that each flow sends in one round of the replay.
    bytes: u32,
    is_verified: bool,
    /// The number of packets that have passed through the element in the current round of the replay.
    number: usize,
    /// The number of bytes that each flow has sent in earlier rounds of the replay, modulo 2^32.
    sent: u32,
}

impl Element for Advance {
    fn effects(&self) -> Effects {
        let field = |offset: usize, length| Field::Bytes { base: Base::Data, offset: offset as i32, length };
        let (sequence, checksum) = (field(SEQUENCE, 4), field(CHECKSUM, 2));
        let reads = vec![sequence.clone(), checksum.clone()];
        let moved = |name| Value::Pure { name, reads: reads.clone() };
        let case = Case::new(Filter::TRUE, Target::Output(0))
            .with(Action::Set(sequence, moved("sequence number")))
            .with(Action::Set(checksum, moved("checksum")));
        let support = Support { sets_checksum_bit: true, ..Support::default() };
        Effects { support, ..Effects::cases(vec![case]).depending_on(Depends::Counter) }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            if self.number == self.packets {
                (self.number, self.sent) = (0, self.sent.wrapping_add(self.bytes));
            }
            self.number += 1;
            packet.set_right_checksum(self.is_verified);
            let Some(header) = packet.data_mut().get_mut(SEQUENCE..CHECKSUM + 2) else { continue };
            let (sequence, rest) = header.split_at_mut(4);
            let (Ok(sequence), Some(checksum)) = (<&mut [u8; 4]>::try_from(sequence), rest.last_chunk_mut())
            else {
                continue;
            };
            let before = u32::from_be_bytes(*sequence);
            let after = before.wrapping_add(self.sent);
            *sequence = after.to_be_bytes();
            *checksum = Delta::u32(before, after).apply(u16::from_be_bytes(*checksum)).to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::{Layers, LinkType, checksum};

    use super::*;
    use crate::runner::drive;

    #[test]
    fn traffic_is_reordered_as_much_as_is_said() {
        for (flows, late) in [(1, 0), (1, 20), (256, 0), (256, 50)] {
            let traffic = Traffic::new(50_000, flows, late, 1514);
            let mut next = vec![0; flows];
            let mut behind = 0;
            for &(flow, number) in &traffic.order {
                let next = &mut next[flow as usize];
                behind += usize::from(number < *next);
                *next = (*next).max(number + 1);
            }
            let count = traffic.order.len();
            assert!(next.iter().all(|&next| next as usize == count / flows), "{flows} {late}");
            assert!(traffic.order.iter().collect::<std::collections::HashSet<_>>().len() == count);
            // Fewer packets are out of order than late: a late packet is still in order if no packet that its
            // flow sent after it overtakes it.
            let most = count * late / 100;
            assert!(
                behind <= most * 11 / 10 && behind >= most * 7 / 10,
                "{flows} {late}: {behind} of {count}"
            );
        }
    }

    #[test]
    fn sequence_numbers_go_on_and_checksums_are_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.pcap");
        let traffic = Traffic::new(100, 2, 0, 100);
        assert_eq!((traffic.order.len(), traffic.bytes_per_flow()), (88, 2024));
        let chain = format!("BenchmarkAdvance(88, 2024, false) -> ToDump(\"{}\")", file.display());
        let mut worker = running_with(
            CLASSES,
            text_of("BenchmarkSegments(100, 2, 0, 100)", Start::Frame, &chain),
            Options::default(),
        )
        .unwrap();
        drive(&mut worker, 300).unwrap();
        worker.finish().unwrap();
        let mut reader = capture::Reader::open(&file).unwrap();
        let mut next = [0, 0];
        while let Some(record) = reader.next().unwrap() {
            let end = Layers::locate(record.data, LinkType::Ethernet).end;
            assert!(checksum::tcp_packet_valid(&record.data[14..end], 20), "{next:?}");
            let flow = usize::from(record.data[29]);
            let sequence = u32::from_be_bytes(*record.data[SEQUENCE..].first_chunk().unwrap());
            assert_eq!(sequence, next[flow]);
            next[flow] += 46;
        }
        assert!(next.iter().all(|&next| next >= 46 * 100), "{next:?}");
    }
}
