//! The record of traced packets: their steps, and the slots by which they are recognised.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use element::effects::Written;
use element::view::{Change, PacketFields};
use element::{ElementId, Packet, Timestamp};

use super::order::TraceOrder;

/// The most steps that are recorded. Tracing then ends, so that packets in a loop do not use up all memory.
const MOST_STEPS: usize = 10_000;

/// The time after which tracing ends, once as many packets as wanted have been traced and the last of them
/// has made its last step. A packet may be held for ever.
const LONGEST_WAIT: Timestamp = Timestamp::from_secs(10);

/// A step of a traced packet: what one element did with the packet.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStep {
    /// The number of the packet, from 1. Packets that elements make from traced packets, such as copies,
    /// have numbers of their own.
    pub packet: u32,
    /// The number of the packet from which the element has made this one.
    pub made_from: Option<u32>,
    /// The worker that called the element.
    pub worker: usize,
    /// The batch time of the call in which the packet left the element or ended there.
    pub time: Timestamp,
    /// The number of the element in its graph.
    pub element: ElementId,
    /// The name of the element.
    pub name: String,
    /// The class of the element.
    pub class: String,
    /// The input by which the packet came in. `None` for packets that the element made, or had held.
    pub input: Option<usize>,
    /// True if the element had held the packet, and now gave it away.
    pub was_held: bool,
    /// The case of the element's declaration that applied, if it can be told.
    pub case: Option<CaseTaken>,
    /// The packet as it came in; as it left, if the element made it.
    pub view: PacketFields,
    /// The fields that the element has changed.
    pub changes: Vec<Change>,
    /// The outcome for the packet.
    pub outcome: StepOutcome,
}

/// The case of a declaration that an element has applied to a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseTaken {
    /// The position in the configuration at which the user wrote the case.
    pub written: Option<Written>,
    /// The user's text of the rule, if an argument contains it.
    pub rule: Option<String>,
    /// The tables of state that the case asks, each with true if the packet's entry was there, and false if
    /// not.
    /// `None` if another case with the same outcome is for the opposite: the element may have made the entry.
    pub state: Vec<(&'static str, Option<bool>)>,
    /// True if another case of the declaration may have applied: the packet alone does not decide.
    pub is_likely: bool,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The packet left by an output, and went to the input of another element. `None` if the output is not
    /// connected; the packet was then dropped.
    Left {
        /// The number of the output.
        output: usize,
        /// The element and the input that the output is connected to.
        to: Option<(ElementId, usize)>,
    },
    /// The packet was handed over to other workers' copies of the element.
    HandedOver,
    /// The element holds the packet.
    Held,
    /// The element holds the packet, or has dropped it for one of these reasons: it has dropped as many
    /// packets as came in, and its counts do not tell which.
    HeldOrDropped(Vec<&'static str>),
    /// The packet left the graph: the element has written it to a file or an interface.
    Sent,
    /// The packet was dropped. If several packets ended in one call, the reasons of all of them are listed.
    Dropped(Vec<&'static str>),
    /// The packet ended in the element, which counted neither a drop nor a sent packet in this call: its
    /// bytes went on in another packet.
    Consumed,
    /// The packet ended without a call in which it was seen: the element, or the engine, dropped it later.
    Lost,
}

/// A traced packet that has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Alive {
    pub(crate) packet: u32,
    /// The element at which the packet was seen last.
    pub(crate) element: ElementId,
    /// True if this element may hold the packet.
    pub(crate) is_held: bool,
}

/// The traces of a run, which all workers share.
#[derive(Default)]
pub struct Traces {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(crate) struct Inner {
    /// The packets that are wanted. `None` before the first order.
    order: Option<TraceOrder>,
    alive: HashMap<usize, Alive>,
    steps: Vec<TraceStep>,
    /// The number of traced packets.
    packets: u32,
    last: Timestamp,
    has_ended: bool,
}

impl Traces {
    /// Begins to trace other packets. What was recorded before is deleted.
    pub fn begin(&self, order: TraceOrder) {
        *self.lock() = Inner { order: Some(order), ..Inner::default() };
    }

    /// Ends tracing. What was recorded stays.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.has_ended = true;
        inner.alive.clear();
    }

    /// True if packets are wanted or followed.
    pub fn is_active(&self) -> bool {
        let inner = self.lock();
        inner.order.is_some() && !inner.has_ended
    }

    /// Returns the steps of all packets so far, packet by packet.
    pub fn steps(&self) -> Vec<TraceStep> {
        let mut steps = self.lock().steps.clone();
        steps.sort_by_key(|step| step.packet);
        steps
    }

    /// True if tracing has ended because as many steps were recorded as can be.
    pub fn is_full(&self) -> bool {
        self.lock().steps.len() >= MOST_STEPS
    }

    /// Returns the number of packets that are still wanted.
    pub fn wanted(&self) -> u64 {
        let inner = self.lock();
        inner.order.as_ref().filter(|_| !inner.has_ended).map_or(0, TraceOrder::left)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    /// True if no packet is wanted or followed any more, at the time `now`.
    pub(crate) fn is_over(&mut self, now: Timestamp) -> bool {
        let is_full = self.steps.len() >= MOST_STEPS;
        let has_all = self.order.as_ref().is_none_or(|order| order.left() == 0);
        let is_idle = self.alive.is_empty() || now - self.last > LONGEST_WAIT;
        self.has_ended |= is_full || has_all && is_idle;
        if self.has_ended {
            self.alive.clear();
        }
        self.has_ended
    }

    pub(crate) fn alive(&self, slot: usize) -> Option<Alive> {
        self.alive.get(&slot).copied()
    }

    /// True if a packet that has entered the graph at an element is to be traced.
    pub(crate) fn wants(&mut self, element: &str, packet: &Packet) -> bool {
        !self.has_ended && self.order.as_mut().is_some_and(|order| order.wants(element, packet))
    }

    /// Returns the number of a packet that is traced from now on.
    pub(crate) fn number(&mut self) -> u32 {
        self.packets += 1;
        self.packets
    }

    /// Records a step of the packet in a slot. The packet is followed further if it has not ended.
    pub(crate) fn record(&mut self, slot: usize, step: TraceStep) {
        match step.outcome {
            StepOutcome::Left { to: Some(_), .. }
            | StepOutcome::HandedOver
            | StepOutcome::Held
            | StepOutcome::HeldOrDropped(_) => {
                let is_held = matches!(step.outcome, StepOutcome::Held | StepOutcome::HeldOrDropped(_));
                self.alive.insert(slot, Alive { packet: step.packet, element: step.element, is_held });
            }
            _ => {
                self.alive.remove(&slot);
            }
        }
        self.last = step.time;
        self.steps.push(step);
    }

    /// Records that the packet that was followed in a slot has ended unseen: another packet uses the slot.
    pub(crate) fn lose(&mut self, slot: usize) {
        let Some(alive) = self.alive.remove(&slot) else { return };
        if let Some(last) = self.steps.iter_mut().rev().find(|step| step.packet == alive.packet) {
            let step =
                TraceStep { outcome: StepOutcome::Lost, changes: Vec::new(), case: None, ..last.clone() };
            self.steps.push(step);
        }
    }
}
