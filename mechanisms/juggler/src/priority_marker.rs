//! # PriorityMarker
//! Guarantees TCP flows a bandwidth by marking as many of their packets urgent as necessary.
//!
//! The element is placed at the sender: data arrives at input 0, and the reverse traffic at input 1. Each
//! data packet is painted 1, urgent, with probability p, and otherwise 0. ACKs in the reverse traffic say
//! which data has arrived. p changes by ALPHA times the difference between the guaranteed and the
//! acknowledged bytes per second, both as fractions of the line rate, and stays between 0 and 1 (Juggler
//! paper, sections 2.1 and 5.3.1). The guarantee is for all connections through the element together. The
//! receiver has to put the packets in order again that the network reorders because of the priorities.
//!
//! StrictPriority obeys the paint; for switches, PaintSwitch and SetIPDSCP write it into packets. Flows
//! that do not use their guarantee bring p to 1.
//!
//! ## Usage
//! `PriorityMarker(TARGET, LINE_RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `TARGET`: the guaranteed bandwidth.
//! - `LINE_RATE`: the bandwidth of the line.
//! - `ALPHA`: the gain: the fraction of the difference that each measurement adds to p.
//! - `INTERVAL`: the minimum time between two measurements, each at an ACK; 0 for a measurement at each
//!   ACK. ACKs come in bursts, and within a burst the rate is high, so the interval should be no less than
//!   the round-trip time.
//! - `FLOWS`: the maximum number of connections whose ACKs are tracked at a time, in about 80 bytes each;
//!   connections without an ACK for ten seconds make room.
//! - `ANNO`: the annotation to paint, by name or offset.
//!
//! ## Handlers
//! - `p`: the probability.
//! - `rate`: the acknowledged bytes per second in the last measurement.
//! - `acknowledged`: the number of bytes that ACKs have acknowledged, each byte counted once.
//! - `target`: the guaranteed bytes per second. It can be written with a unit.
//! - `urgent`: the number of packets that were painted 1.
//! - `others`: the number of packets that were painted 0.
//! - `reset`: sets p and the counts to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: PriorityMarker(10Gbps, 40Gbps) -> StrictPriority(40Gbps) -> Discard;
//! InfiniteSource(LIMIT 100) -> [1]m[1] -> Discard
//! ```
//!
//! ## See also
//! StrictPriority, Paint, PaintSwitch, SetIPDSCP

use std::any::Any;

use classify::IntervalSet;
use element::args::{AnnotationOffset, ArgType, Bandwidth, Real};
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, State, StateAccess, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, Packet, StatePart, Timestamp, manual};
use flow::{FiveTupleKey, FlowTable, InsertError, Inserted, KeyHasher};
use wire::tcp::flags;

use crate::tcp_header::{READS, locate};

/// The element class `PriorityMarker`.
pub static CLASS: Class = Class {
    name: "PriorityMarker",
    ports: "2/2",
    processing: "h/h",
    flow: "xy/xy",
    manual: manual!("priority_marker.rs"),
    args: &[
        ArgInfo::required("TARGET", "bandwidth"),
        ArgInfo::required("LINE_RATE", "bandwidth"),
        ArgInfo::keyword("ALPHA", "real", "0.1"),
        ArgInfo::keyword("INTERVAL", "seconds", "1ms"),
        ArgInfo::keyword("FLOWS", "unsigned", "1024"),
        ArgInfo::keyword("ANNO", "annotation", "PAINT"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("rate", &["rate", "p"]),
        StatePart::kept("counts", &["acknowledged", "urgent", "others"]),
        StatePart::lost("acknowledgment numbers", "each connection starts again with its next ACK", &[])
            .with_tables(&["acknowledged"]),
    ],
    samples: &["1Gbps, 10Gbps", "1Gbps, 1Gbps, ALPHA 1, INTERVAL 0, FLOWS 2, ANNO 20"],
    reconfigures: true,
    build: |args| {
        let Bandwidth(target) = args.required("TARGET");
        let Bandwidth(line) = args.required("LINE_RATE");
        let alpha: f64 = args.value("ALPHA");
        let interval = args.value::<Timestamp>("INTERVAL");
        let capacity: u32 = args.value("FLOWS");
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        if line == 0 {
            args.error("LINE_RATE: must be positive");
        }
        if alpha < 0.0 {
            args.error("ALPHA: must not be negative");
        }
        if interval < Timestamp::ZERO {
            args.error("INTERVAL: must not be negative");
        }
        let table = FlowTable::new(capacity as usize).map_err(|error| args.error(format!("FLOWS: {error}")));
        args.finish()?;
        let Ok(table) = table else { return Err(element::Invalid) };
        let control = Control { target, line, alpha, p: 0.0 };
        let connections =
            Connections { hasher: KeyHasher::default(), table, acknowledged: vec![0; capacity as usize] };
        let meter = Meter { interval, rate: 0.0, since: None, bytes: 0 };
        Ok(Box::new(PriorityMarker {
            control,
            meter,
            connections,
            place,
            wanted: true,
            acknowledged: 0,
            urgent: 0,
            others: 0,
        }))
    },
    ..Class::DEFAULT
};

/// The time after which a connection without ACKs expires, if there is no room for a new connection.
const MEMORY: Timestamp = Timestamp::from_secs(10);
/// The number of connections that are checked for expiry when there is no room for a new connection.
const SEARCH: usize = 64;
/// An upper bound of TCP windows in bytes (RFC 7323, section 2.3). An acknowledgment number that is farther
/// from the last one belongs to another connection.
const LARGEST_WINDOW: u32 = 1 << 30;

/// The controller of p, the probability that a packet is marked urgent: after each measurement, p changes by
/// `alpha` times the difference between target and measured rate, as a fraction of the line rate.
struct Control {
    /// The guaranteed bandwidth in bytes per second.
    target: u64,
    /// The line rate in bytes per second.
    line: u64,
    alpha: f64,
    p: f64,
}

impl Control {
    fn follow(&mut self, rate: f64) {
        let difference = (self.target as f64 - rate) / self.line as f64;
        self.p = (self.p + self.alpha * difference).clamp(0.0, 1.0);
    }
}

/// A meter of acknowledged bytes per second, which measures over at least `interval`.
#[derive(Clone, Copy)]
struct Meter {
    interval: Timestamp,
    /// The rate of the last measurement in bytes per second.
    rate: f64,
    /// The time of the last measurement, or at first of the first ACK; `None` before it.
    since: Option<Timestamp>,
    /// The number of acknowledged bytes since the time `since`.
    bytes: u64,
}

impl Meter {
    /// Adds acknowledged bytes. Returns the new rate in bytes per second if the interval is over, `None`
    /// otherwise.
    fn add(&mut self, bytes: u32, now: Timestamp) -> Option<f64> {
        let elapsed = now - *self.since.get_or_insert(now);
        self.bytes += u64::from(bytes);
        // ACKs at the same time become part of one measurement, because no time has elapsed between them.
        if elapsed < self.interval || elapsed <= Timestamp::ZERO {
            return None;
        }
        self.rate = self.bytes as f64 * 1e9 / elapsed.0 as f64;
        (self.since, self.bytes) = (Some(now), 0);
        Some(self.rate)
    }
}

/// The highest acknowledgment number of each connection, to count each acknowledged byte once.
struct Connections {
    hasher: KeyHasher,
    table: FlowTable<FiveTupleKey>,
    /// The highest acknowledgment number of each connection, at the index of the connection's id in `table`.
    acknowledged: Vec<u32>,
}

impl Connections {
    /// Returns the number of bytes that an ACK is the first to acknowledge. It is 0 for the first ACK of a
    /// connection and after a jump of more than [`LARGEST_WINDOW`]. `None` if the packet is no ACK or is an
    /// RST, or there is no room for its connection.
    fn hear(&mut self, packet: &Packet, now: Timestamp) -> Option<u32> {
        let located = locate(packet)?;
        let tcp = located.tcp.filter(|tcp| tcp.flags & (flags::ACK | flags::RST) == flags::ACK)?;
        let key = FiveTupleKey::new(&located.flow, 0);
        let hash = self.hasher.hash(&key);
        let mut inserted = self.table.insert(&key, hash, now);
        if inserted == Err(InsertError::Full) {
            self.table.expire(now, MEMORY, SEARCH, |_, _| ());
            inserted = self.table.insert(&key, hash, now);
        }
        let inserted = inserted.ok()?;
        self.table.touch(inserted.id(), now);
        let before = &mut self.acknowledged[inserted.id().index() as usize];
        let passed = tcp.acknowledgment.wrapping_sub(*before);
        let is_new = matches!(inserted, Inserted::New(_)) || tcp.flags & flags::SYN != 0;
        // An ACK that a later ACK has overtaken must not lower the highest acknowledgment number.
        let is_late = !is_new && passed.wrapping_neg() <= LARGEST_WINDOW;
        if !is_late {
            *before = tcp.acknowledgment;
        }
        Some(if is_new || passed > LARGEST_WINDOW { 0 } else { passed })
    }
}

struct PriorityMarker {
    control: Control,
    meter: Meter,
    connections: Connections,
    /// The offset in bytes of the annotation that is painted.
    place: usize,
    /// True if any element reads the paint; otherwise the paint is not written.
    wanted: bool,
    acknowledged: u64,
    urgent: u64,
    others: u64,
}

impl Element for PriorityMarker {
    fn effects(&self) -> Effects {
        let paint = Field::Annotation { offset: self.place as u8, length: 1 };
        let chosen = Value::Choose { set: IntervalSet::one(0, 1), key: Vec::new() };
        let data = Case::new(Filter::TRUE, Target::Output(0)).on(0).with(Action::Set(paint, chosen));
        let back = Case::new(Filter::TRUE, Target::Output(1)).on(1);
        let access = StateAccess::EveryPacket;
        let table = State { table: "acknowledged", key: READS.to_vec(), both_directions: false, access };
        Effects { state: vec![table], ..Effects::cases(vec![data, back]) }
            .depending_on(Depends::Random)
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
            .sharing("rate")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.connections.hasher = cx.key_hasher();
        self.wanted = cx.graph().facts().annotation_read(self.place, 1);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        if port == 1 {
            let now = cx.now();
            for packet in batch.iter() {
                let Some(bytes) = self.connections.hear(packet, now) else { continue };
                self.acknowledged += u64::from(bytes);
                if let Some(rate) = self.meter.add(bytes, now) {
                    self.control.follow(rate);
                }
            }
            cx.emit(1, batch);
            return None;
        }
        for packet in batch.iter_mut() {
            let is_urgent = cx.random().f64() < self.control.p;
            if self.wanted {
                packet.annotations_mut().set_u8(self.place, is_urgent.into());
            }
            *if is_urgent { &mut self.urgent } else { &mut self.others } += 1;
        }
        Some(batch)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.control.p, self.meter, [self.acknowledged, self.urgent, self.others])))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state =
            state.downcast::<(f64, Meter, [u64; 3])>().map_err(|_| "not the state of a PriorityMarker")?;
        // Acknowledgment numbers are not taken over: each connection starts again with its next ACK.
        let (p, meter, counts) = *state;
        self.meter = Meter { interval: self.meter.interval, ..meter };
        self.control.p = p;
        [self.acknowledged, self.urgent, self.others] = counts;
        Ok(())
    }
}

const HANDLERS: &[Handler<PriorityMarker>] = &[
    Handler::get("p", |e| Real(e.control.p).to_string()),
    Handler::get("rate", |e| format!("{:.0}", e.meter.rate)),
    Handler::count("acknowledged", |e| e.acknowledged),
    Handler::data(
        "target",
        |e| e.control.target.to_string(),
        |e, cx, value| {
            e.control.target = Bandwidth::parse(value, &cx.place())?.0;
            Ok(())
        },
    ),
    Handler::count("urgent", |e| e.urgent),
    Handler::count("others", |e| e.others),
    Handler::act("reset", |e| {
        e.control.p = 0.0;
        (e.acknowledged, e.urgent, e.others) = (0, 0, 0);
    }),
];

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use packet::Pool;
    use wire::build::Builder;

    use super::*;

    fn connections(capacity: usize) -> Connections {
        let table = FlowTable::new(capacity).unwrap();
        Connections { hasher: KeyHasher::default(), table, acknowledged: vec![0; capacity] }
    }

    #[test]
    fn each_byte_counts_once() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut connections = connections(2);
        let mut hear = |port: u16, flags, acknowledgment, seconds| {
            let (a, b) = (SocketAddr::from(([10, 0, 0, 2], 80)), SocketAddr::from(([10, 0, 0, 1], port)));
            let bytes = Builder::tcp(a, b, flags).sequence(1, acknowledgment).build(&[]).unwrap();
            let mut packet = pool.packet(&bytes).unwrap();
            packet.set_offset(element::Base::Network, Some(0));
            let heard = connections.hear(&packet, Timestamp::from_secs(seconds));
            pool.free(packet);
            heard
        };
        let near_the_end = u32::MAX - 999;
        let (syn, ack, reset) = (flags::SYN | flags::ACK, flags::ACK, flags::RST | flags::ACK);
        let heard = [
            hear(1, syn, near_the_end, 1),
            hear(1, ack, near_the_end + 500, 1),
            // A repeated ACK and an ACK that was overtaken acknowledge no new bytes.
            hear(1, ack, near_the_end + 500, 1),
            hear(1, ack, near_the_end + 100, 1),
            // The acknowledgment number wraps at 2^32.
            hear(1, ack, 200, 1),
            hear(1, ack, near_the_end, 1),
            hear(1, flags::PSH, 900, 1),
            hear(1, reset, 900, 1),
            // The first ACK of another connection counts 0, and so does a new connection that reuses the
            // addresses and ports of the first.
            hear(2, ack, 77, 1),
            hear(2, ack, 78, 1),
            hear(1, syn, 5, 1),
            hear(1, ack, 6, 1),
            hear(1, ack, 1 << 31, 1),
            hear(1, ack, (1 << 31) + 3, 1),
            // A third connection finds no room until another has been silent for ten seconds.
            hear(3, ack, 5, 9),
            hear(3, ack, 5, 12),
            hear(3, ack, 9, 12),
        ];
        let bytes = |n| Some(n);
        assert_eq!(heard[..6], [bytes(0), bytes(500), bytes(0), bytes(0), bytes(700), bytes(0)]);
        assert_eq!(heard[6..8], [None, None]);
        assert_eq!(heard[8..14], [bytes(0), bytes(1), bytes(0), bytes(1), bytes(0), bytes(3)]);
        assert_eq!(heard[14..], [None, bytes(0), bytes(4)]);
    }

    #[test]
    fn p_follows_the_law_of_the_paper() {
        let mut control = Control { target: 2_000, line: 10_000, alpha: 0.1, p: 0.0 };
        control.follow(500.0);
        assert!((control.p - 0.015).abs() < 1e-12);
        control.follow(1_000.0);
        assert!((control.p - 0.025).abs() < 1e-12);
        control.follow(9_000.0);
        assert_eq!(control.p, 0.0);
        (0..100).for_each(|_| control.follow(0.0));
        assert_eq!(control.p, 1.0);
    }

    #[test]
    fn rates_are_of_whole_intervals() {
        let mut meter = Meter { interval: Timestamp(1_000), rate: 0.0, since: None, bytes: 0 };
        let rates = [(0, 100), (600, 50), (999, 50), (2_000, 200), (2_000, 10), (3_000, 20)]
            .map(|(time, bytes)| meter.add(bytes, Timestamp(5_000 + time)));
        assert_eq!(rates, [None, None, None, Some(400.0 * 1e9 / 2e3), None, Some(30.0 * 1e9 / 1e3)]);
        let mut meter = Meter { interval: Timestamp::ZERO, ..meter };
        assert_eq!(meter.add(5, Timestamp(8_000)), None);
        assert_eq!(meter.add(5, Timestamp(8_001)), Some(10e9));
    }
}
