//! # CoDel
//! Drops packets that have waited too long in queues (controlled delay, RFC 8289).
//!
//! The wait of a packet is the time since its first-timestamp annotation, which SetTimestamp(FIRST true)
//! sets upstream of the queue; packets without the annotation pass. When all waits of two INTERVALs (a short
//! time after earlier drops, of one INTERVAL) were TARGET or longer, CoDel begins to drop packets, more and
//! more often. It stops when a packet has waited less than TARGET or has no annotation, or when no packet is
//! left upstream.
//!
//! ## Usage
//! `CoDel([TARGET, INTERVAL, KEYWORDS])`
//!
//! ## Arguments
//! - `TARGET`: the wait from which on packets may be dropped.
//! - `INTERVAL`: the time for which waits are compared with the target before packets are dropped; see above.
//! - `QUEUES`: the names of the queues that the handlers report; the nearest queues upstream if not given.
//!
//! ## Handlers
//! - `target`, `codel_target`: the target.
//! - `interval`, `codel_interval`: the interval.
//! - `drops`: the number of dropped packets.
//! - `queues`: the names of the queues, one per line.
//! - `stats`: queue length and drops, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5ms, 100ms) -> Unqueue ->
//! Discard
//! ```
//!
//! ## See also
//! Queue, SetTimestamp, RED

use element::args::{Raw, Scope, read_value};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Predicate, Target};
use element::{
    Batch, Class, Complaint, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};
use packet::Annotations;

use crate::annotation::first_timestamp;
use crate::schedule::{collect, pull_one};
use crate::storage::watched::Watched;

/// The element class `CoDel`.
pub static CLASS: Class = Class {
    name: "CoDel",
    processing: "l/l",
    manual: manual!("codel.rs"),
    args: &[
        ArgInfo::positional("TARGET", "seconds", "5ms"),
        ArgInfo::positional("INTERVAL", "seconds", "100ms"),
        ArgInfo::keyword("QUEUES", "elements", ""),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("control", &[]).with_tables(&["time above the target"]),
        StatePart::kept("counts", &["drops", "stats"]),
    ],
    samples: &["", "1us, 2us"],
    build: |args| {
        let texts = ["TARGET", "INTERVAL"].map(|name| args.value(name)).map(|Raw(text)| text);
        let names = args.get::<Raw>("QUEUES").map(|Raw(text)| text).unwrap_or_default();
        args.finish()?;
        let queues = Watched::read(args, &names);
        let mut codel = CoDel {
            texts: texts.clone(),
            target: Timestamp(5_000_000),
            interval: Timestamp(100_000_000),
            queues,
            control: Control::default(),
            drops: 0,
        };
        for (which, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            if let Err(reason) = codel.set(which, text, &args.place()) {
                args.error(reason);
            }
        }
        args.finish()?;
        Ok(Box::new(codel))
    },
    ..Class::DEFAULT
};

/// The state of CoDel's control loop (RFC 8289, section 5).
#[derive(Clone, Default)]
struct Control {
    /// The end of the interval that began with the first wait at or above the target. Packets may be
    /// dropped from that time on. `None` after a wait below the target, and while there are no packets.
    above_until: Option<Timestamp>,
    dropping: bool,
    next_drop: Timestamp,
    /// The number of drops since CoDel began to drop packets, from which the time of the next drop follows.
    /// If CoDel had stopped dropping only a short time before, the count continues from its old value less 2.
    count: u32,
}

struct CoDel {
    /// The texts of TARGET and INTERVAL as configured or written, which the handlers return.
    texts: [String; 2],
    target: Timestamp,
    interval: Timestamp,
    queues: Watched,
    control: Control,
    drops: u64,
}

impl CoDel {
    fn set(&mut self, which: usize, text: &str, place: &Scope<'_>) -> Result<(), Complaint> {
        let time: Timestamp = read_value(["TARGET", "INTERVAL"][which], text, place)?;
        *[&mut self.target, &mut self.interval][which] = time;
        self.texts[which] = text.trim().to_string();
        Ok(())
    }

    /// Pulls the next packet; returns `None` if there is none. The first bool is true if the packet's wait is
    /// known (the packet has a first-timestamp annotation). The second bool is true if the packet may be
    /// dropped, because all waits of an interval were at or above the target.
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<(Packet, bool, bool)> {
        let now = cx.now();
        let Some(packet) = pull_one(cx, 0) else {
            self.control.above_until = None;
            return None;
        };
        let since = first_timestamp(&packet);
        if since.parts().0 == 0 {
            return Some((packet, false, false));
        }
        if now - since < self.target {
            self.control.above_until = None;
            return Some((packet, true, false));
        }
        let until = *self.control.above_until.get_or_insert(now + self.interval);
        Some((packet, true, now >= until))
    }

    /// Returns the time of the next drop: `time` plus the interval divided by the square root of the number
    /// of drops.
    fn next_after(&self, time: Timestamp) -> Timestamp {
        time + Timestamp((self.interval.0 as f64 / f64::from(self.control.count.max(1)).sqrt()) as i64)
    }

    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now();
        let Some((mut packet, known, mut late)) = self.dequeue(cx) else {
            self.control.dropping = false;
            return None;
        };
        if !known {
            self.control.dropping = false;
            return Some(packet);
        }
        if self.control.dropping {
            if !late {
                self.control.dropping = false;
            }
            while self.control.dropping && now >= self.control.next_drop {
                self.drop(cx, packet);
                self.control.count += 1;
                let Some(next) = self.dequeue(cx) else {
                    self.control.dropping = false;
                    return None;
                };
                (packet, _, late) = next;
                match late {
                    true => self.control.next_drop = self.next_after(self.control.next_drop),
                    false => self.control.dropping = false,
                }
            }
            return Some(packet);
        }
        let above_for = now - self.control.above_until.unwrap_or(now);
        let recently = now - self.control.next_drop < self.interval;
        if late && (recently || above_for >= self.interval) {
            self.drop(cx, packet);
            self.control.dropping = true;
            // If the last dropping state (a time in which packets were dropped more and more often) ended a
            // short time ago, the new one starts with nearly the same drop rate, which is likely to be right
            // again.
            self.control.count = match recently && self.control.count > 2 {
                true => self.control.count - 2,
                false => 1,
            };
            self.control.next_drop = self.next_after(now);
            return self.dequeue(cx).map(|(packet, ..)| packet);
        }
        Some(packet)
    }

    fn drop(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += 1;
        cx.drop(packet, DropReason::EarlyDrop);
    }
}

impl Element for CoDel {
    fn effects(&self) -> Effects {
        let offset = Annotations::FIRST_TIMESTAMP as u8;
        let late = Filter::Leaf(Predicate::Opaque {
            about: "waits above the target",
            reads: vec![Field::Annotation { offset, length: 8 }],
        });
        let drop = Case::new(late, Target::Drop(DropReason::EarlyDrop));
        let effects = Effects::cases(vec![drop, Case::new(Filter::TRUE, Target::Output(0))]);
        let effects = effects.depending_on(Depends::Time).depending_on(Depends::Counter);
        effects.depending_on(Depends::Handler).sharing("time above the target")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues.find(cx, false)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_packet(cx))
    }

    element::keeps!(control, drops);
}

const HANDLERS: &[Handler<CoDel>] = &[
    Handler::data("target", |e| e.texts[0].clone(), |e, cx, value| Ok(e.set(0, value, &cx.place())?)),
    Handler::argument(
        "codel_target",
        "TARGET",
        |e| e.texts[0].clone(),
        |e, cx, value| Ok(e.set(0, value, &cx.place())?),
    ),
    Handler::data("interval", |e| e.texts[1].clone(), |e, cx, value| Ok(e.set(1, value, &cx.place())?)),
    Handler::argument(
        "codel_interval",
        "INTERVAL",
        |e| e.texts[1].clone(),
        |e, cx, value| Ok(e.set(1, value, &cx.place())?),
    ),
    Handler::count("drops", |e| e.drops),
    Handler::get("queues", |e| e.queues.list()),
    Handler::get("stats", |e| format!("{} current queue\n{} drops\n", e.queues.length(), e.drops)),
];
