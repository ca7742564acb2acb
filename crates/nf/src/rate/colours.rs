//! Common parts of SrTCM (RFC 2697) and TrTCM (RFC 2698): colours, the arrival of tokens at a rate, and the
//! element that applies a marker to packets.

use classify::IntervalSet;
use element::args::{AnnotationOffset, ArgType, Args};
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Depends, Field, Filter, Predicate, State, StateAccess, Support, Target, Value,
};
use element::{
    Base, Batch, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, Timestamp, WholeLengths,
};
use std::any::Any;
use wire::ipv6;

use super::limit::parse_rate;
use crate::editing::{annotation, length_from, when};

/// The colours of packets. The value of a colour (0, 1, 2) is the paint in the annotation and, with more than
/// one output, the number of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Colour {
    Green,
    Yellow,
    Red,
}

impl Colour {
    /// Returns the colour of a paint; every paint other than green and yellow is red.
    fn of_paint(paint: u8) -> Colour {
        match paint {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

/// The arrival of tokens at `rate` tokens per second. A fraction of a token is kept in this struct, so that
/// the token buckets hold whole tokens, as in the RFCs.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    pub(super) rate: u64,
    /// The fraction of the next token that has arrived, in billionths of a token.
    rest: u64,
    at: Option<Timestamp>,
}

/// Nanoseconds per second.
const SECOND: u128 = 1_000_000_000;

impl Ticks {
    pub(super) fn new(rate: u64) -> Ticks {
        Ticks { rate, rest: 0, at: None }
    }

    /// Continues with the time and the fraction of a token of the element that is replaced in a reload.
    pub(super) fn go_on(&mut self, before: &Ticks) {
        (self.rest, self.at) = (before.rest, before.at);
    }

    /// Returns the number of whole tokens that have arrived since the last call; 0 on the first call, and
    /// if the clock has gone back.
    #[inline]
    pub(super) fn take(&mut self, now: Timestamp) -> u64 {
        let before = *self.at.get_or_insert(now);
        if now <= before {
            return 0;
        }
        self.at = Some(now);
        let passed = (now.0 - before.0).cast_unsigned();
        let parts = u128::from(passed) * u128::from(self.rate) + u128::from(self.rest);
        self.rest = (parts % SECOND) as u64;
        u64::try_from(parts / SECOND).unwrap_or(u64::MAX)
    }
}

/// A token-bucket algorithm (SrTCM or TrTCM) that determines the colours of packets.
pub(super) trait Marker: Clone + Send + 'static {
    /// Continues with the tokens of the marker that is replaced in a reload, up to the sizes of this marker's
    /// buckets.
    fn go_on(&mut self, before: &Self);

    /// Adds the tokens that have arrived until `now`.
    fn refill(&mut self, now: Timestamp);

    /// Returns the colour of a packet with `bytes` bytes, and takes the packet's tokens from the buckets.
    /// `before` is the colour with which the packet arrived; green if the marker ignores that colour.
    fn mark(&mut self, bytes: u64, before: Colour) -> Colour;

    /// Returns the number of tokens in the committed bucket and in the excess (SrTCM) or peak (TrTCM)
    /// bucket.
    fn tokens(&self) -> [u64; 2];

    /// Checks the parameters of a marker after they were set or changed. Returns the marker, whose buckets
    /// keep their tokens, up to their sizes.
    ///
    /// # Errors
    /// If the marker's RFC does not allow these parameters.
    fn sound(self) -> Result<Self, String>;
}

/// The arguments that SrTCM and TrTCM share.
pub(super) const COMMON: [ArgInfo; 2] =
    [ArgInfo::keyword("COLOR_AWARE", "bool", "false"), ArgInfo::keyword("ANNO", "annotation", "PAINT")];

/// Makes the element that applies a marker.
///
/// # Errors
/// If there was any error in the arguments, or if `marker` is an error. The errors are reported to `args`;
/// the error of `marker` is reported only if the other arguments have no error.
pub(super) fn build<M: Marker>(
    args: &mut Args<'_>,
    marker: Result<M, String>,
) -> Result<Box<dyn Element>, Invalid> {
    let aware = args.value::<bool>("COLOR_AWARE");
    let AnnotationOffset::<1>(place) = args.value("ANNO");
    // Missing arguments are reported first, and alone: the default values in their place would make `marker`
    // an error about a contradiction that the configuration does not have.
    args.finish()?;
    let marker = marker.map_err(|error| args.error(error)).map_err(|()| Invalid)?;
    Ok(Box::new(Painter { marker, aware, place, outputs: args.outputs(), counts: [[0; 2]; 3] }))
}

/// The element that applies a marker.
pub(super) struct Painter<M> {
    pub(super) marker: M,
    /// True if the marker considers the colours with which packets arrive (COLOR_AWARE).
    aware: bool,
    /// The offset of the annotation byte with the colour.
    place: usize,
    outputs: usize,
    /// For each colour (green, yellow, red), the numbers of packets and of bytes.
    counts: [[u64; 2]; 3],
}

/// Returns the length of the IP packet in bytes, without link header and padding. If the IP header does not
/// give a length, returns the bytes from the network header on; if no network header is marked, all bytes.
#[inline]
fn ip_length(packet: &Packet) -> u64 {
    let rest = length_from(packet, Base::Network).unwrap_or(packet.len());
    let told = || {
        let ip: &[u8; 6] = packet.header(Base::Network)?.first_chunk()?;
        let number = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
        match ip[0] >> 4 {
            4 => Some(number(2)),
            // The length field of a jumbogram is 0.
            6 if number(4) > 0 => Some(number(4) + ipv6::Header::LEN),
            _ => None,
        }
    };
    told().map_or(rest, |told| told.min(rest)) as u64
}

impl<M: Marker> Painter<M> {
    /// Determines a packet's colour, writes it to the annotation, and counts the packet.
    #[inline]
    fn paint(&mut self, packet: &mut Packet, lengths: WholeLengths) -> Colour {
        let bytes = ip_length(packet) + lengths.aside(packet) as u64;
        let before = match self.aware {
            true => Colour::of_paint(packet.annotations().u8(self.place)),
            false => Colour::Green,
        };
        let colour = self.marker.mark(bytes, before);
        packet.annotations_mut().set_u8(self.place, colour as u8);
        let [packets, sum] = &mut self.counts[colour as usize];
        *packets += 1;
        *sum += bytes;
        colour
    }
}

impl<M: Marker> Element for Painter<M> {
    fn effects(&self) -> Effects {
        let place = annotation(self.place, 1);
        let ip = |offset, length| Field::Bytes { base: Base::Network, offset, length };
        let mut reads = vec![Field::Length, Field::HeaderOffset(Base::Network), ip(0, 1), ip(2, 4)];
        reads.extend(self.aware.then(|| place.clone()));
        let case = |case: Case, colour: Colour| {
            let paint = Action::Set(place.clone(), Value::Constant(vec![colour as u8]));
            case.with(paint).or_drop(DropReason::OverRate)
        };
        let to = |colour: Colour| Target::Output(if self.outputs == 1 { 0 } else { colour as usize });
        let mut cases = Vec::new();
        if self.aware {
            // A packet that arrives red stays red.
            let red = Filter::Leaf(Predicate::In {
                field: place.clone(),
                mask: 0xff,
                set: IntervalSet::one(2, 0xff),
            });
            cases.push(case(Case::new(red, to(Colour::Red)), Colour::Red));
        }
        cases.push(case(when("red", &reads, to(Colour::Red)), Colour::Red));
        if self.aware {
            let yellow = Predicate::equals(place.clone(), 1);
            cases.push(case(Case::new(yellow, to(Colour::Yellow)), Colour::Yellow));
        }
        cases.push(case(when("yellow", &reads, to(Colour::Yellow)), Colour::Yellow));
        cases.push(case(Case::new(Filter::TRUE, to(Colour::Green)), Colour::Green));
        let state = State {
            table: "tokens",
            key: Vec::new(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        let effects = Effects {
            state: vec![state],
            support: Support { whole_length: true, ..Support::default() },
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.marker.refill(cx.now());
        let (splits, lengths) = (self.outputs > 1, cx.lengths());
        batch.sift(
            |packet| match self.paint(packet, lengths) {
                colour @ (Colour::Yellow | Colour::Red) if splits => Err(colour),
                _ => Ok(()),
            },
            |packet, colour| cx.emit_one(colour as usize, packet, DropReason::OverRate),
        );
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.marker.clone(), self.counts)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let before: M;
        (before, self.counts) = *state.downcast().map_err(|_| "the state of another class")?;
        self.marker.go_on(&before);
        Ok(())
    }
}

/// The handlers of both markers.
impl<M: Marker> Painter<M> {
    pub(super) const GREEN: Handler<Self> = Handler::count("green", |e| e.packets(Colour::Green));
    pub(super) const YELLOW: Handler<Self> = Handler::count("yellow", |e| e.packets(Colour::Yellow));
    pub(super) const RED: Handler<Self> = Handler::count("red", |e| e.packets(Colour::Red));
    pub(super) const GREEN_BYTES: Handler<Self> = Handler::count("green_bytes", |e| e.bytes(Colour::Green));
    pub(super) const YELLOW_BYTES: Handler<Self> =
        Handler::count("yellow_bytes", |e| e.bytes(Colour::Yellow));
    pub(super) const RED_BYTES: Handler<Self> = Handler::count("red_bytes", |e| e.bytes(Colour::Red));
    pub(super) const TOKENS: Handler<Self> = Handler::<Self>::read("tokens", |e, cx, _| {
        e.marker.refill(cx.now());
        let [first, second] = e.marker.tokens();
        Ok(format!("{first} {second}"))
    });
    pub(super) const RESET: Handler<Self> = Handler::act("reset", |e| e.counts = [[0; 2]; 3]);

    fn packets(&self, colour: Colour) -> u64 {
        self.counts[colour as usize][0]
    }

    fn bytes(&self, colour: Colour) -> u64 {
        self.counts[colour as usize][1]
    }

    /// Parses a rate, and sets it by `set`.
    pub(super) fn set_rate(&mut self, cx: &Cx<'_>, text: &str, set: fn(&mut M, u64)) -> Result<(), String> {
        let rate = parse_rate(cx, text, true).map_err(|_| "expected bandwidth")?;
        self.change(cx, |marker| set(marker, rate))
    }

    /// Handles a write to the handler of a bucket size: parses `text` as a number of bytes, and sets it with
    /// `set` in the marker.
    pub(super) fn set_size(&mut self, cx: &Cx<'_>, text: &str, set: fn(&mut M, u64)) -> Result<(), String> {
        let size = u64::parse(text, &cx.place()).map_err(|_| "expected a number of bytes")?;
        self.change(cx, |marker| set(marker, size))
    }

    fn change(&mut self, cx: &Cx<'_>, change: impl FnOnce(&mut M)) -> Result<(), String> {
        // Before the rate changes, the tokens that have arrived until now at the old rate are added.
        self.marker.refill(cx.now());
        let mut marker = self.marker.clone();
        change(&mut marker);
        self.marker = marker.sound()?;
        Ok(())
    }
}

/// Helpers for tests that compare a marker with the rule of its RFC, written literally: tokens arrive one
/// by one.
#[cfg(test)]
pub(super) mod model {
    use super::*;

    /// The arrival times of tokens at `rate` tokens per second: the `n`-th token arrives `n / rate` seconds
    /// after the start.
    pub(in super::super) struct Clock {
        rate: u64,
        arrived: u128,
    }

    impl Clock {
        pub(in super::super) fn new(rate: u64) -> Clock {
            Clock { rate, arrived: 0 }
        }

        /// Returns true if a further token has arrived `elapsed` nanoseconds after the start, and counts
        /// it. Repeated calls thus return true once per token.
        pub(in super::super) fn tick(&mut self, elapsed: i64) -> bool {
            let due = (self.arrived + 1) * SECOND <= elapsed as u128 * u128::from(self.rate);
            self.arrived += u128::from(due);
            due
        }
    }

    /// A packet of a test: the nanoseconds since the packet before it, its length in bytes, and its colour
    /// on arrival.
    pub(in super::super) type Step = (i64, u64, Colour);

    /// Returns a proptest strategy for sequences of 1 to 59 packets.
    pub(in super::super) fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
        use proptest::prelude::*;
        let colour = (0u8..3).prop_map(Colour::of_paint);
        let gap = prop_oneof![Just(0), 0i64..2_000_000, 0i64..400_000_000];
        prop::collection::vec((gap, 0u64..1600, colour), 1..60)
    }

    /// Sends packets through a marker and through `rule`, and compares the colour and the tokens after each
    /// packet. `rule` gets the nanoseconds since the start, the packet's length in bytes and its colour on
    /// arrival.
    ///
    /// # Errors
    /// If the marker and the rule differ; the text describes the first difference.
    pub(in super::super) fn agree<M: Marker>(
        mut marker: M,
        mut rule: impl FnMut(i64, u64, Colour) -> (Colour, [u64; 2]),
        steps: &[Step],
    ) -> Result<(), String> {
        let start = Timestamp::from_secs(1_000);
        marker.refill(start);
        let mut elapsed = 0;
        for (number, &(gap, bytes, before)) in steps.iter().enumerate() {
            elapsed += gap;
            marker.refill(start + Timestamp(elapsed));
            let got = (marker.mark(bytes, before), marker.tokens());
            let expected = rule(elapsed, bytes, before);
            if got != expected {
                return Err(format!("step {number} at {elapsed}: {got:?} instead of {expected:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_in_whole_and_none_is_lost() {
        let mut ticks = Ticks::new(3);
        let at = |ms: i64| Timestamp(5_000_000_000 + ms * 1_000_000);
        let taken: Vec<u64> =
            [0, 300, 334, 666, 667, 1000, 500, 1000, 1334].map(|ms| ticks.take(at(ms))).into();
        assert_eq!(taken, [0, 0, 1, 0, 1, 1, 0, 0, 1]);
        let mut fastest = Ticks::new(u64::MAX);
        fastest.take(Timestamp(0));
        assert_eq!(fastest.take(Timestamp::MAX), u64::MAX);
    }
}
