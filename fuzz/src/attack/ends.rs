//! The sources and sinks of a random configuration.
//!
//! A source sends bursts at given times, as FromDump does with the trace clock. Each packet has a time
//! stamp of its own, which distinguishes equal packets at the sinks. An exchange has the packets of one run
//! of the configuration: the packets to send, and the packets that have arrived. Sources and sinks find the
//! exchange by its number, which is one of their arguments.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Timestamp};
use packet::{Annotations, PacketKind};
use testkit::elements::{give, send};

/// A packet that a source sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The time at which the source sends the packet. Packets with equal times are a burst.
    pub(super) due: Timestamp,
    /// The time stamp that the packet has; different for each packet.
    pub(super) time: Timestamp,
    pub(super) bytes: Vec<u8>,
    /// The packet type, such as broadcast.
    pub(super) kind: PacketKind,
    /// The annotation bytes that are not zero, as offset and value.
    pub(super) annotations: Vec<(u8, u8)>,
}

/// A packet that arrived at a sink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Came {
    /// The time stamp of the packet.
    pub(super) time: Timestamp,
    pub(super) bytes: Vec<u8>,
    /// The annotation bytes that the sink observes: all of them, or only the bytes of the extra length
    /// annotation.
    pub(super) annotations: Vec<u8>,
}

/// The packets of one run: for each source, the packets to send, and for each sink, the packets that have
/// arrived.
#[derive(Default)]
struct Exchange {
    given: Vec<Arc<Vec<Given>>>,
    came: Vec<Vec<Came>>,
}

static EXCHANGES: LazyLock<Mutex<HashMap<u64, Exchange>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

fn exchanges() -> MutexGuard<'static, HashMap<u64, Exchange>> {
    EXCHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An exchange of packets with a configuration. It is removed when this value is dropped.
pub(super) struct Traffic {
    number: u64,
}

impl Traffic {
    /// Makes packets available to sources: `given[i]` to the source with number `i`.
    pub(super) fn offer(given: &[Arc<Vec<Given>>]) -> Traffic {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        exchanges().insert(number, Exchange { given: given.to_vec(), came: Vec::new() });
        Traffic { number }
    }

    /// Returns the number of this exchange, which sources and sinks need as their first argument.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the packets that have arrived, by number of the sink, in order of arrival. Sinks numbered
    /// above the last sink that received packets are missing.
    pub(super) fn collect(self) -> Vec<Vec<Came>> {
        exchanges()
            .get_mut(&self.number)
            .map(|exchange| std::mem::take(&mut exchange.came))
            .unwrap_or_default()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        exchanges().remove(&self.number);
    }
}

/// The classes `AttackSource` and `AttackSink`.
pub(super) static CLASSES: &[&Class] = &[&SOURCE, &SINK];

/// `AttackSource(EXCHANGE, NUMBER)` sends the offered packets, as FromDump sends the packets of a capture.
static SOURCE: Class = Class {
    name: "AttackSource",
    ports: "0/1",
    processing: "a",
    args: &[ArgInfo::required("EXCHANGE", "unsigned"), ArgInfo::required("NUMBER", "unsigned")],
    notes: Notes { signals_packets: true, follows_captures: true, task: Task::WherePushing, ..Notes::NONE },
    build: |args| {
        let (exchange, number): (u64, usize) = (args.required("EXCHANGE"), args.required("NUMBER"));
        args.finish()?;
        let given = exchanges().get(&exchange).and_then(|exchange| exchange.given.get(number).cloned());
        let given = given.map(|given| given.iter().cloned().collect()).unwrap_or_default();
        Ok(Box::new(Source { given }))
    },
    ..Class::DEFAULT
};

struct Source {
    given: VecDeque<Given>,
}

impl Source {
    /// Takes the next packets to send, at most `most`, all of one burst (with the same `due`).
    fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> Batch {
        let mut batch = cx.batch();
        let due = self.given.front().map(|given| given.due);
        while batch.len() < most
            && let Some(given) = self.given.pop_front_if(|given| Some(given.due) == due)
        {
            let Some(mut packet) = cx.packet(&given.bytes) else { continue };
            packet.set_time(given.time);
            packet.set_kind(given.kind);
            packet.set_offset(Base::Mac, Some(0));
            for (place, byte) in given.annotations {
                packet.annotations_mut().set_u8(place.into(), byte);
            }
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        batch
    }
}

impl Element for Source {
    /// Declares the effects of FromDump.
    fn effects(&self) -> Effects {
        let pure = |name| Value::Pure { name, reads: Vec::new() };
        let case = Case::new(Filter::FALSE, Target::Output(0))
            .with(Action::Set(EXTRA_LENGTH, pure("length on the wire")));
        Effects { cases: vec![case], ..Effects::source("captured packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.graph().output_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn next_time(&self) -> Option<Timestamp> {
        self.given.front().map(|given| given.due)
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = self.take(cx, cx.burst());
        send(cx, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let batch = self.take(cx, max);
        give(cx, batch)
    }
}

/// `AttackSink(EXCHANGE, NUMBER, ANNOTATIONS)` stores the packets that arrive; if ANNOTATIONS is true, with
/// all annotations.
static SINK: Class = Class {
    name: "AttackSink",
    ports: "1/0",
    processing: "h",
    args: &[
        ArgInfo::required("EXCHANGE", "unsigned"),
        ArgInfo::required("NUMBER", "unsigned"),
        ArgInfo::required("ANNOTATIONS", "bool"),
    ],
    build: |args| {
        let (exchange, number) = (args.required("EXCHANGE"), args.required("NUMBER"));
        let annotations = args.required("ANNOTATIONS");
        args.finish()?;
        Ok(Box::new(Sink { exchange, number, annotations }))
    },
    ..Class::DEFAULT
};

struct Sink {
    exchange: u64,
    number: usize,
    annotations: bool,
}

impl Element for Sink {
    /// Declares the effects of ToDump, but does not observe the offset of the link header. A sink that stores
    /// all annotations observes the annotations as well.
    fn effects(&self) -> Effects {
        let mut seen = vec![Field::Length, Field::Payload, Field::TimeStamp, EXTRA_LENGTH];
        if self.annotations {
            seen.push(Field::Annotation { offset: 0, length: 48 });
        }
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]).observing(&seen)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let extra = Annotations::EXTRA_LENGTH;
        let seen = if self.annotations { 0..Annotations::SIZE } else { extra..extra + 4 };
        if let Some(exchange) = exchanges().get_mut(&self.exchange) {
            if exchange.came.len() <= self.number {
                exchange.came.resize(self.number + 1, Vec::new());
            }
            exchange.came[self.number].extend(batch.iter().map(|packet| Came {
                time: packet.time(),
                bytes: packet.chunks().collect::<Vec<_>>().concat(),
                annotations: packet.annotations().bytes()[seen.clone()].to_vec(),
            }));
        }
        cx.sent(batch);
        None
    }
}
