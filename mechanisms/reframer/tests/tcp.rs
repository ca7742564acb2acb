//! Tests of REORDER and COMPRESS: sorting segments and dropping superfluous ACKs change nothing that matters
//! to a TCP receiver or sender. The models of receiver and sender are written from the RFCs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use testkit::timed::{frame, tcp, through, through_while};
use wire::tcp::{Opt, Segment, flags, options, parse};
use wire::{Layers, LinkType};

/// The first sequence and acknowledgment number: just below 2^32, so that the numbers wrap during a test.
const BASE: u32 = 0xffff_ff00;

fn segment(bytes: &[u8]) -> Segment<'_> {
    let layers = Layers::locate(bytes, LinkType::Ethernet);
    parse(&bytes[layers.l4.unwrap()..layers.end]).unwrap()
}

fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(value.to_be_bytes());
    option.extend(echo.to_be_bytes());
    option
}

fn time_stamps(segment: &Segment<'_>) -> Option<(u32, u32)> {
    options(segment.options).flatten().find_map(|option| match option {
        Opt::TimeStamps { value, echo } => Some((value, echo)),
        _ => None,
    })
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// A model of the receiving half of TCP (RFC 9293, section 3.10.7.4; RFC 7323, section 5.3).
struct Receiver {
    next: u32,
    recent: Option<u32>,
    /// Bytes that arrived before a byte which precedes them, by offset in the stream.
    early: BTreeMap<u32, u8>,
    stream: Vec<u8>,
    refused: usize,
    /// The number of segments that arrived before a segment which precedes them; each causes a duplicate
    /// ACK.
    gaps: usize,
}

impl Receiver {
    fn new() -> Receiver {
        Receiver { next: BASE, recent: None, early: BTreeMap::new(), stream: Vec::new(), refused: 0, gaps: 0 }
    }

    fn take(&mut self, segment: &Segment<'_>) {
        let sequence = segment.header.sequence.get();
        if let Some((value, _)) = time_stamps(segment) {
            if self.recent.is_some_and(|recent| after(recent, value)) {
                self.refused += 1;
                return;
            }
            if !after(sequence, self.next) {
                self.recent = Some(value);
            }
        }
        self.gaps += usize::from(!segment.payload.is_empty() && after(sequence, self.next));
        for (offset, byte) in (0u32..).zip(segment.payload) {
            let place = sequence.wrapping_add(offset).wrapping_sub(BASE);
            if place >= self.next.wrapping_sub(BASE) {
                self.early.insert(place, *byte);
            }
        }
        while let Some(byte) = self.early.remove(&self.next.wrapping_sub(BASE)) {
            self.stream.push(byte);
            self.next = self.next.wrapping_add(1);
        }
    }
}

fn received(frames: &[Vec<u8>]) -> Receiver {
    let mut receiver = Receiver::new();
    frames.iter().for_each(|frame| receiver.take(&segment(frame)));
    receiver
}

/// A model of the sending half of TCP: the state that RFC 5681 and RFC 2018 derive from ACKs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sender {
    acknowledged: Option<u32>,
    window: u16,
    echo: u32,
    /// The number of duplicate ACKs, for each acknowledgment number that was repeated.
    duplicates: Vec<(u32, usize)>,
    /// Window updates (ACKs that repeat the acknowledgment number with another window), as (acknowledgment
    /// number, window).
    updates: Vec<(u32, u16)>,
    sacked: Vec<(u32, u32)>,
    congestion: Vec<u8>,
}

impl Sender {
    fn take(&mut self, segment: &Segment<'_>) {
        let header = segment.header;
        let number = header.acknowledgment.get();
        let blocks = options(segment.options).flatten().filter_map(|option| match option {
            Opt::Sack(blocks) => Some(blocks.iter().collect::<Vec<_>>()),
            _ => None,
        });
        self.sacked.extend(blocks.flatten());
        let marks = header.flags & (flags::ECE | flags::CWR);
        if self.congestion.last() != Some(&marks) {
            self.congestion.push(marks);
        }
        if self.acknowledged == Some(number) && segment.payload.is_empty() {
            if header.window.get() != self.window {
                self.updates.push((number, header.window.get()));
            } else if let Some((last, count)) = self.duplicates.last_mut()
                && *last == number
            {
                *count += 1;
            } else {
                self.duplicates.push((number, 1));
            }
        }
        if self.acknowledged.is_none_or(|acknowledged| !after(acknowledged, number)) {
            self.acknowledged = Some(number);
            self.window = header.window.get();
            self.echo = time_stamps(segment).map_or(0, |(_, echo)| echo);
        }
    }
}

fn heard(frames: &[Vec<u8>]) -> Sender {
    let mut sender = Sender::default();
    frames.iter().for_each(|frame| sender.take(&segment(frame)));
    sender
}

/// Returns the packets that leave the element, without times, and the number of packets that it dropped.
/// `bursts` are the microseconds between packets, used in rotation.
fn leaves(element: &str, frames: &[Vec<u8>], bursts: &[i64]) -> (Vec<Vec<u8>>, u64) {
    let mut time = 0;
    let arrivals: Vec<_> = frames
        .iter()
        .zip(bursts.iter().cycle())
        .map(|(frame, passes)| {
            time += passes * 1000;
            (time, frame.clone())
        })
        .collect();
    let (outcome, seen) = through(element, &arrivals, &[]);
    let drops = outcome.report.elements.iter().find(|e| e.name == "e").unwrap();
    let drops = drops.drops.iter().map(|(reason, n)| {
        assert_eq!(reason.to_string(), "coalesced");
        *n
    });
    (seen.into_iter().map(|(_, bytes)| bytes).collect(), drops.sum())
}

/// Returns segments of ten bytes in the order in which they were sent: segment `n` for each `n` below
/// `again.len()`, and then a retransmission of each `n` with `again[n]`. If `stamped`, they have time
/// stamps.
fn sent(again: &[bool], stamped: bool) -> Vec<Vec<u8>> {
    let data = |number: u32, time: u32| {
        let sequence = BASE.wrapping_add(10 * number);
        let builder = tcp(1, 16, sequence, 77);
        let builder = if stamped { builder.options(&stamps(time, 1)) } else { builder };
        frame(builder, &[number as u8; 10])
    };
    let first = (0..again.len() as u32).map(|number| data(number, number / 4));
    let more = (0..).zip(again).filter(|(_, again)| **again).map(|(number, _)| data(number, 1000));
    first.chain(more).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_stream_is_the_same_and_in_better_order(
        again in proptest::collection::vec(proptest::bool::weighted(0.2), 1..30),
        swaps in proptest::collection::vec((0usize..60, 1usize..5), 0..20),
        stamped: bool, bursts in proptest::collection::vec(0i64..8, 1..6),
    ) {
        let mut frames = sent(&again, stamped);
        // Retransmissions with time stamps are not swapped: they do not arrive before the receiver has
        // reported a missing segment.
        let movable = if stamped { again.len() } else { frames.len() };
        for (at, by) in swaps {
            if at + by < movable {
                frames.swap(at, at + by);
            }
        }
        let (sorted, dropped) = leaves("Reframer(20, REORDER true, BYPASS none)", &frames, &bursts);
        let (before, after) = (received(&frames), received(&sorted));
        prop_assert_eq!(dropped, 0);
        // With time stamps, the receiver may refuse segments before sorting, and refused segments count no
        // gaps.
        prop_assert!(stamped || after.gaps <= before.gaps, "{} gaps become {}", before.gaps, after.gaps);
        prop_assert!(after.refused <= before.refused, "{} refused become {}", before.refused, after.refused);
        prop_assert!(after.stream.starts_with(&before.stream));
        // If all segments are in one burst, they leave in perfect order.
        let (sorted, _) = leaves("Reframer(1s, MAX_BURST 100, REORDER true, BYPASS none)", &frames, &[0]);
        let all = received(&sorted);
        let expected: Vec<u8> = (0..again.len() as u8).flat_map(|number| [number; 10]).collect();
        prop_assert_eq!((all.stream, all.gaps, all.refused), (expected, 0, 0));
    }

    #[test]
    fn nobody_misses_an_ack_that_goes(
        acks in proptest::collection::vec((0u32..4, 0u8..24, 0u32..3), 1..40),
        stamped: bool, bursts in proptest::collection::vec(0i64..8, 1..6),
    ) {
        let (mut number, mut time) = (BASE, 5);
        let frames: Vec<Vec<u8>> = acks.iter().zip(0u8..).map(|(&(step, kind, passes), place)| {
            number = number.wrapping_add(100 * step);
            time += passes;
            let mut option = if stamped { stamps(time, time / 2) } else { Vec::new() };
            let (mut bits, mut window, mut payload, mut back) = (16, 500, vec![], 0);
            match kind {
                0 => option.extend([1, 1, 5, 10, 0, 0, place, 0, 0, 0, place, 9]),
                1 => payload = vec![place; 3],
                2 => bits |= flags::PSH,
                3 => bits |= flags::ECE,
                4 => window += u16::from(place),
                5 => bits |= flags::FIN,
                6 => back = 150,
                _ => {}
            }
            // The identification makes each packet distinct, even if the segments are equal.
            let builder = tcp(1, bits, 9, number.wrapping_sub(back)).window(window).options(&option);
            frame(builder.id(place.into()), &payload)
        }).collect();
        let (kept, dropped) = leaves("Reframer(20, COMPRESS true, BYPASS none)", &frames, &bursts);
        prop_assert_eq!(kept.len() + dropped as usize, frames.len());
        // The kept packets must be a subsequence of the original packets, unchanged; so their checksums are
        // right as well.
        let mut rest = frames.iter();
        for bytes in &kept {
            prop_assert!(rest.any(|frame| frame == bytes));
        }
        prop_assert_eq!(heard(&kept), heard(&frames));
        prop_assert_eq!(received(&kept).stream, received(&frames).stream);
    }
}

#[test]
fn plain_acks_are_merged_and_others_are_not() {
    let ack = |number: u32| tcp(1, 16, 9, number).window(500);
    let kept = |builders: &[wire::build::Builder]| {
        let frames: Vec<_> = builders.iter().map(|builder| frame(builder.clone(), &[])).collect();
        let (kept, dropped) = leaves("Reframer(20, COMPRESS true, BYPASS none)", &frames, &[0]);
        assert_eq!(kept.len() + dropped as usize, frames.len());
        kept.iter().map(|bytes| segment(bytes).header.acknowledgment.get()).collect::<Vec<_>>()
    };
    assert_eq!(kept(&[1, 2, 3, 4, 5].map(ack)), [1, 5]);
    // Three duplicate ACKs make TCP retransmit (RFC 5681, section 3.2), so all of them are kept.
    assert_eq!(kept(&[1, 2, 2, 2, 2, 3, 4].map(ack)), [1, 2, 2, 2, 2, 4]);
    // An ACK that repeats its number with a larger window is kept.
    assert_eq!(kept(&[ack(1), ack(2), ack(2).window(900), ack(3)]), [1, 2, 2, 3]);
    // ACKs are not merged if they differ in TOS, ECE (0x50), URG (0x30) or sequence number.
    assert_eq!(kept(&[ack(1), ack(2).tos(8), ack(3)]), [1, 2, 3]);
    assert_eq!(kept(&[ack(1), tcp(1, 0x50, 9, 2).window(500), ack(3)]), [1, 2, 3]);
    assert_eq!(kept(&[ack(1), tcp(1, 0x30, 9, 2).window(500), ack(3)]), [1, 2, 3]);
    assert_eq!(kept(&[ack(1), tcp(1, 16, 8, 2).window(500), ack(3)]), [1, 2, 3]);
    // Acknowledgment numbers that wrap are merged.
    assert_eq!(kept(&[u32::MAX - 5, u32::MAX - 1, 4, 8].map(ack)), [u32::MAX - 5, 8]);
}

#[test]
fn an_ack_stands_for_a_limited_number_of_acks() {
    let frames: Vec<_> = (1..=20).map(|number| frame(tcp(1, 16, 9, number), &[])).collect();
    for (arguments, expected) in [("", vec![1, 9, 17, 20]), (", MAX_ACKS 19", vec![1, 20])] {
        let element = format!("Reframer(20, COMPRESS true, BYPASS none{arguments})");
        let (kept, dropped) = leaves(&element, &frames, &[0]);
        let numbers: Vec<_> = kept.iter().map(|bytes| segment(bytes).header.acknowledgment.get()).collect();
        assert_eq!((numbers, kept.len() + dropped as usize), (expected, 20));
    }
    let (kept, _) = leaves("Reframer(20, COMPRESS true, BYPASS none, MAX_ACKS 1)", &frames, &[0]);
    assert_eq!(kept, frames);
}

#[test]
fn merging_can_be_switched_off_and_on() {
    let ack = |number: u32| frame(tcp(1, 16, 9, number).window(500), &[]);
    // Each burst leaves well before the next millisecond. The second ACK passes while COMPRESS is off, so the
    // element does not know that the third ACK repeats its number, and must keep it.
    let arrivals: Vec<_> = [(0, 1), (1000, 2), (2000, 2), (2000, 3), (2000, 4)]
        .map(|(time, number)| (time * 1000, ack(number)))
        .to_vec();
    let script = "wait 500us, write e.compress false, wait 1ms, write e.compress true";
    let (_, seen) = through_while("Reframer(20, COMPRESS true)", &arrivals, script, &[]);
    let kept: Vec<_> = seen.iter().map(|(_, bytes)| segment(bytes).header.acknowledgment.get()).collect();
    assert_eq!(kept, [1, 2, 2, 4]);
}

#[test]
fn a_new_connection_has_numbers_of_its_own() {
    let segments = [(16, 5000), (2, 0), (16, 100), (16, 200), (16, 300)];
    let frames = segments.map(|(bits, number)| frame(tcp(1, bits, 9, number).window(500), &[]));
    let (kept, _) = leaves("Reframer(20, COMPRESS true, BYPASS none)", &frames, &[0]);
    let kept: Vec<_> = kept.iter().map(|bytes| segment(bytes).header.acknowledgment.get()).collect();
    // After the SYN the acknowledgment numbers start again, so the first ACK is kept, as in every
    // connection; later ACKs are merged.
    assert_eq!(kept, [5000, 0, 100, 300]);
}

#[test]
fn acks_that_are_not_held_count_for_those_that_are() {
    let ack = |bits, number| frame(tcp(1, bits, 9, number).window(500), &[]);
    // With BYPASS, the SYN leaves alone, and the numbers start again as above.
    let frames =
        [(16, 5000), (16, 5100), (2, 0), (16, 6000), (16, 6100)].map(|(bits, number)| ack(bits, number));
    let (kept, _) = leaves("Reframer(20, COMPRESS true)", &frames, &[0, 0, 1000, 2000, 2000]);
    assert_eq!(kept, frames);
    // An ACK with the number of a segment that has passed is a duplicate, which the sender counts.
    let frames = [(16, 1000), (24, 2000), (16, 2000), (16, 3000)].map(|(bits, number)| ack(bits, number));
    let element = "Reframer(20, COMPRESS true, BYPASS \"tcp opt psh\")";
    let (kept, _) = leaves(element, &frames, &[0, 1000, 2000, 2000]);
    assert_eq!(kept, frames);
}

#[test]
fn a_damaged_ack_replaces_nothing() {
    let acks = [1, 2, 3].map(|number| frame(tcp(1, 16, 9, number), &[]));
    for damaged in [25, 50] {
        let mut frames = acks.to_vec();
        frames[2][damaged] ^= 1;
        let (kept, _) = leaves("Reframer(20, COMPRESS true, BYPASS none)", &frames, &[0]);
        assert_eq!(kept, frames, "byte {damaged}");
    }
}

#[test]
fn acks_over_ipv6_are_merged() {
    let end = |host: u16, port| std::net::SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], port));
    let ack = |number| frame(wire::build::Builder::tcp(end(1, 5), end(2, 80), 16).sequence(9, number), &[]);
    let (kept, dropped) = leaves("Reframer(20, COMPRESS true)", &[1, 2, 3, 4].map(ack), &[0]);
    assert_eq!((kept, dropped), (vec![ack(1), ack(4)], 2));
}

#[test]
fn segments_that_came_late_are_counted() {
    let data = |number: u32| frame(tcp(1, 16, 1 + 10 * number, 9), &[number as u8; 10]);
    let count = |order: &[u32]| {
        let frames: Vec<_> = order.iter().map(|&number| (0, data(number))).collect();
        let element = format!("Reframer(20, MAX_BURST {}, REORDER true, BYPASS none)", order.len());
        let (outcome, seen) = through(&element, &frames, &["e.mended", "e.reordered"]);
        assert!(seen.is_sorted_by_key(|(_, bytes)| bytes[54]), "{order:?}");
        outcome.values.iter().map(|value| value.as_deref().unwrap().parse().unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(count(&[1, 2, 3, 4]), [0, 0]);
    // Segments 1 and 2 arrive after 3, and 4 arrives after 5: three late segments in one burst.
    assert_eq!(count(&[3, 1, 2, 5, 4, 6]), [3, 1]);
}
