//! # CheckNumberPacket
//! Counts the packets with each number that NumberPacket has written.
//!
//! Packets without a number, or with a number that is not below COUNT, go to output 1, or are dropped.
//!
//! ## Usage
//! `CheckNumberPacket([OFFSET, COUNT, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the number in bytes.
//! - `COUNT`: the number of different numbers to expect, at most 2^28.
//! - `NET_ORDER`: if true, the number is in network byte order; otherwise in the machine's.
//!
//! ## Handlers
//! - `max`, `min`: the most (least) frequent number, and the number of packets with it: `[number] : times`.
//! - `count`: the number of different numbers to expect. Writing it keeps the counts of the numbers below
//!   the new count.
//! - `dump`: the number of packets with each number.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, LENGTH 60) -> NumberPacket -> CheckNumberPacket(COUNT 3) -> Discard
//! ```
//!
//! ## See also
//! NumberPacket, RecordTimestamp, TimestampDiff

use element::args::{ArgType, not_a};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};
use std::any::Any;

use super::{number_at, number_field};
use crate::editing::refused;
use crate::memory::{defaults, refusal};

/// The element class `CheckNumberPacket`.
pub static CLASS: Class = Class {
    name: "CheckNumberPacket",
    ports: "1/1-2",
    processing: "h/h",
    manual: manual!("check_number_packet.rs"),
    args: &[
        ArgInfo::positional("OFFSET", "int", "40"),
        ArgInfo::positional("COUNT", "unsigned", "0"),
        ArgInfo::keyword("NET_ORDER", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("numbers seen", &["max", "min", "dump"])],
    samples: &["1000000 -> 1/2", "1000000, 50"],
    build: |args| {
        let offset = args.value::<i32>("OFFSET");
        let net_order = args.value::<bool>("NET_ORDER");
        let count = args.value::<u32>("COUNT");
        if offset < 0 {
            args.error("Offset must be >= 0");
        }
        if count > MOST {
            args.too_large("COUNT", MOST);
        }
        args.finish()?;
        let seen = defaults(count as usize).map_err(|error| args.error(refusal("COUNT", "numbers", &error)));
        args.finish()?;
        let seen = seen.map_err(|()| element::Invalid)?;
        Ok(Box::new(CheckNumberPacket { offset: offset as usize, net_order, seen }))
    },
    ..Class::DEFAULT
};

/// The maximum COUNT, because memory is reserved for it: four bytes for each number, at most 1 GiB.
const MOST: u32 = 1 << 28;

struct CheckNumberPacket {
    offset: usize,
    net_order: bool,
    /// The number of packets that had each number; the length is COUNT.
    seen: Vec<u32>,
}

impl Element for CheckNumberPacket {
    fn effects(&self) -> Effects {
        let reads = vec![number_field(self.offset), Field::Length];
        let wrong = |reason: DropReason| refused(reason.as_str(), &reads, reason);
        let cases = vec![
            wrong(DropReason::TooShort),
            wrong(DropReason::NoMatch),
            Case::new(Filter::TRUE, Target::Output(0)),
        ];
        Effects::cases(cases).depending_on(Depends::Handler).sharing("numbers seen")
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (offset, net_order, seen) = (self.offset, self.net_order, &mut self.seen);
        let count = seen.len();
        batch.sift(
            |packet| {
                let number = number_at(packet, offset, net_order).ok_or(None)?;
                let place = usize::try_from(number).ok().and_then(|n| seen.get_mut(n));
                let place = place.ok_or(Some(number))?;
                *place = place.saturating_add(1);
                Ok(())
            },
            |packet, number: Option<u64>| {
                if let Some(number) = number {
                    message(cx, number, count);
                }
                let reason = if number.is_some() { DropReason::NoMatch } else { DropReason::TooShort };
                cx.emit_one(1, packet, reason);
            },
        );
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.seen.clone()))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let seen: Vec<u32> = *state.downcast().map_err(|_| "the state of another class")?;
        self.seen.iter_mut().zip(seen).for_each(|(times, before)| *times = before);
        Ok(())
    }
}

const HANDLERS: &[Handler<CheckNumberPacket>] = &[
    Handler::read("max", |e, _, _| {
        let extreme = |found: Option<(usize, &u32)>, none: &str| match found {
            Some((number, times)) => format!("[{number}] : {times}"),
            None => format!("[-1] : {none}"),
        };
        let all = || e.seen.iter().enumerate();
        Ok(
            // `max_by_key` returns the last of several equal maxima, so the reversal makes it the smallest
            // of equally frequent numbers.
            extreme(all().rev().max_by_key(|(_, times)| **times), "-1"),
        )
    }),
    Handler::read("min", |e, _, _| {
        let extreme = |found: Option<(usize, &u32)>, none: &str| match found {
            Some((number, times)) => format!("[{number}] : {times}"),
            None => format!("[-1] : {none}"),
        };
        let all = || e.seen.iter().enumerate();
        Ok(extreme(all().min_by_key(|(_, times)| **times), &i32::MAX.to_string()))
    }),
    Handler::data(
        "count",
        |e| e.seen.len().to_string(),
        |e, cx, value| {
            let count = u32::parse(value, &cx.place()).ok().filter(|&n| n <= MOST);
            let count =
                count.ok_or_else(|| not_a(value, &format!("a whole number from 0 to {MOST}")))? as usize;
            let more = e.seen.try_reserve_exact(count.saturating_sub(e.seen.len()));
            more.map_err(|error| refusal("count", "numbers", &error))?;
            e.seen.resize(count, 0);
            Ok(())
        },
    ),
    Handler::read("dump", |e, _, _| {
        let all = || e.seen.iter().enumerate();
        Ok(all().map(|(number, times)| format!("{number}: {times}\n")).collect())
    }),
];

#[cold]
fn message(cx: &mut Cx<'_>, number: u64, count: usize) {
    cx.warn(format_args!("{number} out of scope (count is {count}) !"));
}
