//! # Counter
//! Counts packets and bytes, and estimates their rates.
//!
//! ## Usage
//! `Counter([KEYWORDS])`
//!
//! ## Arguments
//! - `COUNT_CALL`: `N HANDLER [VALUE]`: calls the write handler when the count reaches N. On a push path,
//!   the call comes after earlier packets have been sent on and before the Nth packet is; on a pull path,
//!   after the pull. It is made once, and again after a reset.
//! - `BYTE_COUNT_CALL`: like COUNT_CALL, for the byte count; the call is made when the count reaches or
//!   passes N.
//! - `NO_RATE`: if true, rates are not computed.
//! - `BATCH_PRECISE`, `ATOMIC`: accepted, without effect: counts are exact, and each worker has its own.
//!
//! ## Handlers
//! - `count`: the number of packets.
//! - `byte_count`: the number of bytes.
//! - `rate`: packets per second, smoothed over about 16 milliseconds.
//! - `byte_rate`, `bit_rate`: bytes and bits per second, smoothed over about 16 milliseconds.
//! - `reset`, `reset_counts`: sets the counts to zero, and arms the calls again. Rates are not reset.
//! - `count_call`, `byte_count_call`: sets a new call, as in the argument; reading `count_call` returns its
//!   N.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> c :: Counter(COUNT_CALL 50 stop) -> Discard
//! ```
//!
//! ## See also
//! AverageCounter

use std::any::Any;
use std::sync::Arc;

use element::args::{BadInteger, Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{Counting, Field, State, StateAccess};
use element::metrics;
use element::{
    Batch, Call, Class, Cx, DropReason, Effects, Element, Handler, StatePart, Tally, Timestamp, manual,
};

use crate::ewma::Rate;
use crate::trigger::Trigger;

/// The element class `Counter`.
pub static CLASS: Class = Class {
    name: "Counter",
    aliases: &[
        "CounterMP",
        "CounterAtomic",
        "CounterRCU",
        "CounterRCUMP",
        "CounterRW",
        "CounterLock",
        "CounterLockMP",
        "CounterPLockMP",
        "CounterPRW",
        "CounterPRWMP",
        "CounterRWMP",
        "CounterRxWMP",
        "CounterRxWMPPR",
        "CounterRxWMPPW",
    ],
    manual: manual!("counter.rs"),
    args: &[
        ArgInfo::keyword("COUNT_CALL", "N HANDLER [VALUE]", ""),
        ArgInfo::keyword("BYTE_COUNT_CALL", "N HANDLER [VALUE]", ""),
        ArgInfo::keyword("NO_RATE", "bool", "false"),
        ArgInfo::keyword("BATCH_PRECISE", "bool", "false"),
        ArgInfo::keyword("ATOMIC", "unsigned", "0"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "byte_count"]).with_tables(&["count"]),
        StatePart::kept("rates", &["rate", "byte_rate", "bit_rate"]),
        StatePart::kept("calls that were made", &[]),
    ],
    samples: &["", "COUNT_CALL 5 stop"],
    build: |args| {
        let texts = [args.get::<Raw>("COUNT_CALL"), args.get::<Raw>("BYTE_COUNT_CALL")];
        let no_rate = args.value::<bool>("NO_RATE");
        args.value::<bool>("BATCH_PRECISE");
        args.value::<u32>("ATOMIC");
        let names = ["COUNT_CALL", "BYTE_COUNT_CALL"];
        for (name, text) in names.iter().zip(&texts) {
            let Some(Raw(text)) = text else { continue };
            match text.split_whitespace().next().map(parse_integer) {
                Some(Ok(n)) if u64::try_from(n).is_ok() => {}
                Some(Ok(0..) | Err(BadInteger::OutOfRange)) => {
                    args.error(format!("{name} overflow, max {}", u64::MAX));
                }
                _ => args.error(format!("{name} type mismatch")),
            }
        }
        if no_rate && texts.iter().any(Option::is_some) {
            args.warn("NO_RATE cannot be set when handlers are used. It will be ignored");
        }
        args.finish()?;
        let texts = texts.map(|text| text.map(|Raw(text)| text));
        let no_rate = no_rate && texts.iter().all(Option::is_none);
        Ok(Box::new(Counter { texts, no_rate, ..Counter::default() }))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct Counter {
    packets: u64,
    bytes: u64,
    packet_rate: Rate<10>,
    byte_rate: Rate<4>,
    no_rate: bool,
    on_packets: Option<Trigger>,
    on_bytes: Option<Trigger>,
    /// The arguments COUNT_CALL and BYTE_COUNT_CALL, as configured. They are parsed and removed in
    /// `initialize`, when all elements are known.
    texts: [Option<String>; 2],
}

impl Counter {
    fn reset(&mut self) {
        (self.packets, self.bytes) = (0, 0);
        [&mut self.on_packets, &mut self.on_bytes].into_iter().flatten().for_each(|t| t.armed = true);
    }

    fn has_triggers(&self) -> bool {
        self.on_packets.is_some() || self.on_bytes.is_some()
    }

    /// Adds to the counts and rates. Returns the handler calls that the new counts trigger: the call for
    /// packets, and the call for bytes.
    #[inline]
    fn count(&mut self, now: Timestamp, packets: u64, bytes: u64) -> [Option<Arc<Call>>; 2] {
        self.packets += packets;
        self.bytes += bytes;
        if !self.no_rate {
            self.packet_rate.add(packets, now);
            self.byte_rate.add(bytes, now);
        }
        [
            Trigger::check(&mut self.on_packets, self.packets, packets),
            Trigger::check_above(&mut self.on_bytes, self.bytes),
        ]
    }
}

impl Element for Counter {
    fn effects(&self) -> Effects {
        let state =
            State { table: "count", key: Vec::new(), both_directions: false, access: StateAccess::Soft };
        // A triggered handler call must come between two packets. Therefore, the element must see each packet
        // itself and not only the totals of a program that replaces it.
        let calls = self.has_triggers() || self.texts.iter().any(Option::is_some);
        let counts = if calls { Counting::Own } else { Counting::Tallied };
        Effects { state: vec![state], counts, calls, ..Effects::pass() }.observing(&[Field::Length])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let [packets, bytes] = std::mem::take(&mut self.texts);
        for (name, text) in [("count_call", packets), ("byte_count_call", bytes)] {
            if let Some(text) = text {
                CLASS.write(self, cx, name, &text)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        if !self.has_triggers() {
            self.process(cx, &mut batch);
            return Some(batch);
        }
        // Count packets one by one, because the call comes before the packet that triggers it and after the
        // packets ahead of it in the batch.
        let mut going = cx.batch();
        for packet in batch.drain() {
            let calls = self.count(cx.now(), 1, packet.len() as u64);
            if calls.iter().any(Option::is_some) {
                let fresh = cx.batch();
                cx.emit(0, std::mem::replace(&mut going, fresh));
                calls.into_iter().flatten().for_each(|call| cx.handlers().call_later(&call));
            }
            if let Err(packet) = going.push(packet) {
                cx.emit_one(0, packet, DropReason::NoOutput);
            }
        }
        cx.recycle(batch);
        Some(going)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.has_triggers() {
            for packet in batch.iter() {
                let calls = self.count(cx.now(), 1, packet.len() as u64);
                calls.into_iter().flatten().for_each(|call| cx.handlers().call_later(&call));
            }
        } else {
            let bytes = batch.iter().map(|p| p.len() as u64).sum();
            self.count(cx.now(), batch.len() as u64, bytes);
        }
    }

    fn tally(&mut self, tally: &Tally) {
        let Tally { packets, bytes, first, last, .. } = *tally;
        self.packets += packets;
        self.bytes += bytes;
        if !self.no_rate {
            self.packet_rate.add_between(packets, first, last);
            self.byte_rate.add_between(bytes, first, last);
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let spent = [Trigger::spent(&self.on_packets), Trigger::spent(&self.on_bytes)];
        Some(Box::new((self.packets, self.bytes, self.packet_rate, self.byte_rate, spent)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = state.downcast().map_err(|_| "not the state of a Counter")?;
        let [packets, bytes]: [Option<u64>; 2];
        (self.packets, self.bytes, self.packet_rate, self.byte_rate, [packets, bytes]) = *state;
        Trigger::skip(&mut self.on_packets, packets);
        Trigger::skip(&mut self.on_bytes, bytes);
        Ok(())
    }
}

const HANDLERS: &[Handler<Counter>] = &[
    Handler::count("count", |e| e.packets),
    Handler::<Counter>::count("byte_count", |e| e.bytes).metric(metrics::BYTES),
    Handler::<Counter>::read("rate", |e, cx, _| Ok(e.packet_rate.show(cx.now(), 0))).summed(),
    Handler::<Counter>::read("byte_rate", |e, cx, _| Ok(e.byte_rate.show(cx.now(), 0))).summed(),
    Handler::<Counter>::read("bit_rate", |e, cx, _| Ok(e.byte_rate.show(cx.now(), 3))).summed(),
    Handler::act("reset", Counter::reset),
    Handler::act("reset_counts", Counter::reset),
    Handler::data(
        "count_call",
        |e| e.on_packets.as_ref().map_or(String::new(), |trigger| trigger.at.to_string()),
        |e, cx, value| {
            let error = "'count_call' first word should be unsigned (count)";
            e.on_packets = Some(Trigger::parse(value, error, cx, &CLASS)?);
            Ok(())
        },
    ),
    Handler::set("byte_count_call", |e, cx, value| {
        let error = "'byte_count_call' first word should be unsigned (count)";
        e.on_bytes = Some(Trigger::parse(value, error, cx, &CLASS)?);
        Ok(())
    }),
];
