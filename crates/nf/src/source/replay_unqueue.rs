//! # ReplayUnqueue
//! Loads all packets of its inputs into memory first, and then sends them repeatedly.
//!
//! Packets of several inputs are merged by their time stamps, and each packet leaves by the output with its
//! input's number. The packets are lent, not copied: changes by downstream elements are undone before the
//! next round.
//!
//! A reload keeps the packets and the position. It drops the packets if the number of inputs changes, or if
//! the elements of the new configuration change other parts of packets, because these changes could not be
//! undone.
//!
//! ## Usage
//! `ReplayUnqueue([KEYWORDS])`
//!
//! ## Arguments
//! - `STOP`: the number of rounds, in each of which all packets are sent once; -1 for no limit. The driver
//!   is stopped after the last round.
//! - `STOP_TIME`: the seconds of replaying after which the driver is stopped; 0 for no limit.
//! - `LIMIT`: the number of packets to load; negative for all.
//! - `BURST`: the maximum number of packets that the task sends per call.
//! - `ACTIVE`: if true, packets are replayed.
//! - `TIMING`: the speed of replaying, in percent of the speed at which the packets' time stamps advance:
//!   100 for real time, 0 for as fast as possible.
//! - `USE_SIGNAL`, `QUICK_CLONE`, `FREEONTERMINATE`: accepted for compatibility with FastClick, without
//!   effect.
//! - `VERBOSE`: if true, a message reports each round. Messages always report the loading of packets.
//!
//! ## Handlers
//! - `active`: true if packets are replayed.
//! - `loaded`: true if all packets have been loaded.
//! - `count`: the number of packets that were sent.
//! - `stop`: the number of remaining rounds.
//! - `timing`: the speed in percent, as in TIMING.
//! - `reset`: releases the packets and loads new packets from the inputs.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> ReplayUnqueue(STOP 10) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, Unqueue

use element::args::{ArgType, parse_bool};
use element::class::{ArgInfo, Notes};
use element::effects::{Case, Depends, Field, Filter, Hold, Order, Predicate, Target};
use element::{Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual};
use packet::{BATCH_CAPACITY, Restore, Store};
use std::any::Any;

use super::limit_of;
use crate::memory::reserved;

/// The element class `ReplayUnqueue`.
pub static CLASS: Class = Class {
    name: "ReplayUnqueue",
    aliases: &["MultiReplayUnqueue"],
    ports: "1-/=",
    processing: "l/h",
    flow: "#/#",
    manual: manual!("replay_unqueue.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::keyword("STOP", "int", "-1"),
        ArgInfo::keyword("STOP_TIME", "seconds", "0"),
        ArgInfo::keyword("LIMIT", "int", "-1"),
        ArgInfo::keyword("BURST", "unsigned", "").burst_of_run("64"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("TIMING", "unsigned", "0"),
        ArgInfo::keyword("USE_SIGNAL", "bool", "true"),
        ArgInfo::keyword("QUICK_CLONE", "bool", "false"),
        ArgInfo::keyword("FREEONTERMINATE", "bool", "true"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("packets", &["loaded"]),
        StatePart::kept("counts", &["count", "stop", "active"]),
    ],
    samples: &["STOP 3", "STOP 2, BURST 5 -> 2/2"],
    build: |args| {
        for name in ["USE_SIGNAL", "QUICK_CLONE", "FREEONTERMINATE"] {
            args.value::<bool>(name);
        }
        let rounds = args.value("STOP");
        let replay = ReplayUnqueue {
            all_rounds: rounds,
            rounds,
            stop_time: args.value("STOP_TIME"),
            most: limit_of(args.value("LIMIT")),
            burst: args.value::<usize>("BURST").clamp(1, BATCH_CAPACITY),
            active: args.value("ACTIVE"),
            timing: args.value::<u32>("TIMING"),
            verbose: args.value("VERBOSE"),
            tape: Tape { incoming: (0..args.inputs()).map(|_| Vec::new()).collect(), ..Tape::default() },
            count: 0,
        };
        args.finish()?;
        Ok(Box::new(replay))
    },
    ..Class::DEFAULT
};

/// The packets that are replayed, and the position in them.
#[derive(Default)]
struct Tape {
    /// The packets that have been loaded, in one list per input, until all are moved into the store.
    incoming: Vec<Vec<Packet>>,
    /// True from the first pull until all packets have been loaded.
    loading: bool,
    /// All loaded packets, in the order in which they are sent in each round; `None` until loading is
    /// complete.
    store: Option<Box<Store>>,
    /// The parts of packets that the store restores, which depend on the elements of the graph. `None` until
    /// loading is complete.
    restore: Option<Restore>,
    /// The number of the output of each packet in the store; empty if there is only one output.
    outputs: Vec<u32>,
    /// The index in the store of the packet to send next.
    next: usize,
    /// The time at which replaying started.
    started: Option<Timestamp>,
    /// The time at which the current round started; TIMING counts from it.
    round_started: Timestamp,
    /// The time stamp of the first packet.
    first_time: Timestamp,
}

struct ReplayUnqueue {
    /// The number of rounds as configured.
    all_rounds: i64,
    /// The number of remaining rounds; negative for no limit.
    rounds: i64,
    stop_time: Timestamp,
    most: u64,
    burst: usize,
    active: bool,
    timing: u32,
    verbose: bool,
    tape: Tape,
    count: u64,
}

impl ReplayUnqueue {
    /// Loads packets from the inputs. Returns true when loading is complete: there are LIMIT packets, or no
    /// input has more packets, or the pool or the memory has no room for more.
    fn load(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut dry = true;
        for input in 0..self.tape.incoming.len() {
            loop {
                // If no memory can be reserved, no more packets can be loaded from this input, so its loading
                // is complete.
                if self.tape.incoming[input].try_reserve(BATCH_CAPACITY).is_err() {
                    break;
                }
                let have: usize = self.tape.incoming.iter().map(Vec::len).sum();
                let room = self.most.saturating_sub(have as u64).min(BATCH_CAPACITY as u64) as usize;
                if room == 0 {
                    return true;
                }
                let mut batch = cx.pull(input, room);
                if batch.is_empty() {
                    cx.recycle(batch);
                    // The pull gave no packet. If the input still signals packets, but the packet pool has no
                    // room, no more packets can arrive, so loading of this input is complete, too.
                    dry &= !cx.may_pull(input) || !cx.has_room();
                    break;
                }
                self.tape.incoming[input].extend(batch.drain());
                cx.recycle(batch);
            }
        }
        dry
    }

    /// Reports, in FastClick's words, that loading is complete, with the number of packets and of an input
    /// that has no more packets; -1 if LIMIT was reached before.
    fn report_loaded(&mut self, cx: &mut Cx<'_>) {
        self.tape.loading = false;
        let count: usize = self.tape.incoming.iter().map(Vec::len).sum();
        let dry = if count as u64 >= self.most { -1 } else { 0 };
        let name = cx.name().to_owned();
        cx.messages()
            .message(format_args!("{name} : Successfully loaded {count} packets. Input {dry} dried out.\n"));
    }

    /// Merges the packets of several inputs by time stamp, and moves them into the store. Packets with the
    /// same time stamp are in the order of their inputs. Packets of a single input stay in the order in which
    /// they arrived.
    fn fill_store(&mut self, cx: &mut Cx<'_>) {
        let mut store = cx.stores().store();
        self.tape.restore = Some(cx.graph().facts().restore);
        let count: usize = self.tape.incoming.iter().map(Vec::len).sum();
        if let [packets] = &mut self.tape.incoming[..] {
            self.tape.first_time = packets.first().map_or(Timestamp::ZERO, Packet::time);
            packets.drain(..).for_each(|packet| cx.stores().keep(&mut store, packet));
        } else if let (Ok(mut all), Ok(outputs)) = (reserved(count), reserved(count)) {
            self.tape.outputs = outputs;
            for (input, packets) in self.tape.incoming.iter_mut().enumerate() {
                all.extend(
                    packets
                        .drain(..)
                        .enumerate()
                        .map(|(place, packet)| (packet.time(), input, place, packet)),
                );
            }
            all.sort_unstable_by_key(|&(time, input, place, _)| (time, input, place));
            self.tape.outputs.extend(all.iter().map(|&(_, input, ..)| input as u32));
            self.tape.first_time = all.first().map_or(Timestamp::ZERO, |&(time, ..)| time);
            all.into_iter().for_each(|(.., packet)| cx.stores().keep(&mut store, packet));
        } else {
            // There is no memory to sort the packets by time, so all of them are dropped.
            for packet in self.tape.incoming.iter_mut().flat_map(|packets| packets.drain(..)) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        self.tape.store = Some(Box::new(store));
        self.tape.next = 0;
    }

    /// True if the packet with index `number` in the store may be sent now: with TIMING, its time stamp gives
    /// the time of sending. Otherwise sets a timer for that time.
    fn is_due(&self, cx: &mut Cx<'_>, store: &Store, number: usize) -> bool {
        let Some(time) = store.time(number) else { return false };
        let offset = (time - self.tape.first_time).0.max(0);
        let due =
            self.tape.round_started + Timestamp(offset.saturating_mul(100) / i64::from(self.timing.max(1)));
        if due > cx.now() {
            cx.set_timer(0, due);
            return false;
        }
        true
    }

    /// Sends packets of the store from index `next` on, at most BURST, and returns their number. Stops
    /// earlier at a packet that is not due by TIMING, or that cannot be lent now, for example because an
    /// element downstream still has it.
    fn send(&mut self, cx: &mut Cx<'_>) -> usize {
        let Some(mut store) = self.tape.store.take() else { return 0 };
        let end = store.len().min(self.tape.next + self.burst);
        let first = self.tape.next;
        if self.timing == 0 && self.tape.outputs.is_empty() {
            let mut batch = cx.batch();
            self.tape.next += cx.stores().lend_into(&mut store, first..end, &mut batch);
            cx.emit(0, batch);
        } else {
            for number in first..end {
                let mut batch = cx.batch();
                let due = self.timing == 0 || self.is_due(cx, &store, number);
                if !due || cx.stores().lend_into(&mut store, number..number + 1, &mut batch) == 0 {
                    cx.recycle(batch);
                    break;
                }
                self.tape.next += 1;
                cx.emit(self.tape.outputs.get(number).map_or(0, |&output| output as usize), batch);
            }
        }
        self.tape.store = Some(store);
        let sent = self.tape.next - first;
        self.count += sent as u64;
        sent
    }

    /// Ends a round, in which all packets were sent once. Returns true if another round follows; otherwise
    /// makes the element inactive, stops the driver, and returns false.
    fn next_round(&mut self, cx: &mut Cx<'_>) -> bool {
        self.tape.next = 0;
        self.tape.round_started = cx.now();
        let left = self.rounds;
        self.rounds -= i64::from(self.rounds > 0);
        if self.verbose {
            let name = cx.declaration();
            cx.messages().message(format_args!("{name}: Replay loop ({left} loops left)\n"));
            if self.rounds == 0 {
                cx.messages().message(format_args!("{name}: stopped because there is 0 loops left\n"));
            }
        }
        let empty = self.tape.store.as_ref().is_none_or(|store| store.is_empty());
        if self.rounds != 0 && !empty {
            return true;
        }
        self.finish(cx);
        false
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        cx.stop();
    }
}

impl Element for ReplayUnqueue {
    fn effects(&self) -> Effects {
        // The element holds each packet and sends it once per round; each time, the packet leaves as it
        // arrived.
        let inputs = self.tape.incoming.len();
        if inputs == 1 {
            let effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Hold(0))]);
            return Effects { hold: Hold::Replay, ..effects }.depending_on(Depends::Handler);
        }
        let merged =
            Filter::Leaf(Predicate::Opaque { about: "merged by time", reads: vec![Field::TimeStamp] });
        let cases = (0..inputs).map(|n| Case::new(merged.clone(), Target::Hold(n)).on(n)).collect();
        let effects = Effects { order: Order::MayReorder, ..Effects::cases(cases) };
        Effects { hold: Hold::Replay, ..effects }.depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // As in FastClick, the task is scheduled once also if the element is not active.
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        if self.rounds == 0 {
            self.finish(cx);
            return false;
        }
        if self.tape.store.is_none() {
            let before: usize = self.tape.incoming.iter().map(Vec::len).sum();
            if !self.tape.loading {
                self.tape.loading = true;
                let (name, inputs) = (cx.name().to_owned(), self.tape.incoming.len());
                cx.messages().message(format_args!("Loading {name} with {inputs} inputs.\n"));
            }
            if !self.load(cx) {
                cx.schedule();
                return self.tape.incoming.iter().map(Vec::len).sum::<usize>() > before;
            }
            self.report_loaded(cx);
            self.fill_store(cx);
        }
        let started = *self.tape.started.get_or_insert_with(|| cx.now());
        if self.tape.next == 0 && !self.tape.round_started.is_set() {
            self.tape.round_started = cx.now();
        }
        if self.stop_time.is_set() && cx.now() - started >= self.stop_time {
            self.finish(cx);
            return false;
        }
        let sent = self.send(cx);
        let at_end = self.tape.store.as_ref().is_none_or(|store| self.tape.next >= store.len());
        if at_end && !self.next_round(cx) {
            return sent > 0;
        }
        if sent > 0 || self.timing == 0 {
            cx.schedule();
        }
        sent > 0
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.schedule();
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        for packet in self.tape.incoming.iter_mut().flat_map(|packets| packets.drain(..)) {
            cx.drop(packet, DropReason::Stop);
        }
        if let Some(store) = &mut self.tape.store {
            cx.stores().release(store, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        let incoming: usize = self.tape.incoming.iter().map(Vec::len).sum();
        incoming + self.tape.store.as_ref().map_or(0, |store| store.len())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let empty =
            Tape { incoming: self.tape.incoming.iter().map(|_| Vec::new()).collect(), ..Tape::default() };
        let tape = std::mem::replace(&mut self.tape, empty);
        Some(Box::new((tape, self.count, (self.all_rounds, self.rounds, self.active))))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (mut tape, rounds, active, all_rounds): (Tape, i64, bool, i64);
        (tape, self.count, (all_rounds, rounds, active)) =
            *state.downcast().map_err(|_| "the state of another class")?;
        let is_restored = tape.store.is_none() || tape.restore == Some(cx.graph().facts().restore);
        if tape.incoming.len() != self.tape.incoming.len() || !is_restored {
            if let Some(store) = &mut tape.store {
                cx.stores().release(store, DropReason::Stop);
            }
            tape.incoming.into_iter().flatten().for_each(|packet| cx.drop(packet, DropReason::Stop));
            return Err(
                "it has other inputs, or other elements change its packets: the packets are dropped".into()
            );
        }
        self.tape = tape;
        if all_rounds == self.all_rounds {
            (self.rounds, self.active) = (rounds, active);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<ReplayUnqueue>] = &[
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("type mismatch")?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::get("loaded", |e| e.tape.store.is_some().to_string()),
    Handler::count("count", |e| e.count),
    Handler::data(
        "stop",
        |e| e.rounds.to_string(),
        |e, cx, value| {
            e.rounds = i64::parse(value, &cx.place())?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "timing",
        |e| e.timing.to_string(),
        |e, cx, value| {
            e.timing = u32::parse(value, &cx.place())?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("reset", |e, cx, _| {
        if let Some(mut store) = e.tape.store.take() {
            cx.stores().release(&mut store, DropReason::Reset);
        }
        (e.tape.next, e.tape.outputs) = (0, Vec::new());
        (e.tape.started, e.tape.round_started) = (None, Timestamp::ZERO);
        e.start(cx);
        Ok(())
    }),
];

impl ReplayUnqueue {
    fn start(&self, cx: &mut Cx<'_>) {
        if self.active {
            cx.schedule();
        }
    }
}
