//! # DelayUnqueue
//! Pulls packets and pushes each packet when DELAY has passed since its time stamp.
//!
//! Packets leave with the sum of their time stamp and DELAY as their new time stamp. A packet without a
//! time stamp is delayed from the time at which it is pulled. One packet at a time waits in the element;
//! packets after it stay upstream, so that the order is kept.
//!
//! ## Usage
//! `DelayUnqueue(DELAY)`
//!
//! ## Arguments
//! - `DELAY`: the delay.
//!
//! ## Handlers
//! - `delay`: the delay.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> DelayUnqueue(10ms) -> Discard
//! ```
//!
//! ## See also
//! Queue, Unqueue, RatedUnqueue, BandwidthRatedUnqueue, LinkUnqueue, DelayShaper, SetTimestamp

use element::args::parse_seconds;
use element::class::{ArgInfo, Notes};
use element::effects::{Action, Case, Depends, Field, Filter, Hold, Target, Value};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Signal, StatePart, Timestamp, manual,
};
use std::any::Any;

use crate::schedule::{collect, pull_one};

/// The element class `DelayUnqueue`.
pub static CLASS: Class = Class {
    name: "DelayUnqueue",
    processing: "l/h",
    manual: manual!("delay_unqueue.rs"),
    notes: Notes::TASK,
    args: &[ArgInfo::required("DELAY", "seconds")],
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &[])],
    samples: &["1ms"],
    build: |args| {
        let delay = args.required("DELAY");
        args.finish()?;
        Ok(Box::new(Delay::new(delay, true)))
    },
    ..Class::DEFAULT
};

/// The maximum number of packets that the task pushes per call, so that other tasks run, too.
const MOST_PER_TURN: usize = 256;

/// The element of the classes DelayUnqueue and DelayShaper.
pub(super) struct Delay {
    delay: Timestamp,
    /// The packet that waits until its delay is over; its time stamp is the time at which it may leave.
    /// Further packets stay upstream.
    waiting: Option<Packet>,
    /// True for DelayUnqueue, which pushes packets itself; false for DelayShaper, from which packets are
    /// pulled.
    pushes: bool,
}

impl Delay {
    pub(super) fn new(delay: Timestamp, pushes: bool) -> Delay {
        Delay { delay, waiting: None, pushes }
    }

    /// Returns the waiting packet, or else a packet pulled from upstream, if its delay is over. Otherwise
    /// keeps the packet in `waiting` and returns `None`. Also returns `None` if there is no packet upstream.
    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.waiting.is_none() {
            let mut packet = pull_one(cx, 0)?;
            // Like Click, take any time in the first second of 1970 as no time stamp.
            let from = if packet.time().parts().0 == 0 { cx.now() } else { packet.time() };
            packet.set_time(from + self.delay);
            self.waiting = Some(packet);
        }
        self.waiting.take_if(|packet| packet.time() <= cx.now())
    }

    /// Returns the next packet for DelayShaper, with the current time as its time stamp; `None` if no packet
    /// may leave. If a packet still waits, DelayShaper turns off its packet signal, so that the element that
    /// pulls sleeps; a timer turns the signal on again when the packet may leave. If no packet waits, the
    /// packet signal of DelayShaper becomes equal to the signal of the elements upstream.
    fn next_pulled(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.next_packet(cx) {
            Some(mut packet) => {
                packet.set_time(cx.now());
                return Some(packet);
            }
            None => match &self.waiting {
                Some(packet) => {
                    cx.set_timer(0, packet.time());
                    cx.set_signal(Signal::Packets, false);
                }
                None => cx.set_signal(Signal::Packets, cx.may_pull(0)),
            },
        }
        None
    }
}

impl Element for Delay {
    fn effects(&self) -> Effects {
        let value = if self.pushes { Value::Plus(Field::TimeStamp, self.delay.0) } else { Value::Now };
        let delayed = Case::new(Filter::TRUE, Target::Hold(0)).with(Action::Set(Field::TimeStamp, value));
        let effects = Effects { hold: Hold::Delay, ..Effects::cases(vec![delayed]) };
        effects.depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut worked = false;
        // Stop after a number of packets: with an endless source and no delay, other tasks would never run.
        for _ in 0..MOST_PER_TURN {
            let Some(packet) = self.next_packet(cx) else { break };
            cx.emit_one(0, packet, DropReason::NoOutput);
            worked = true;
        }
        match &self.waiting {
            Some(packet) => cx.set_timer(0, packet.time()),
            None if cx.may_pull(0) => cx.schedule(),
            None => {}
        }
        worked
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_pulled(cx))
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        match self.pushes {
            true => cx.schedule(),
            false => cx.set_signal(Signal::Packets, true),
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.waiting.take() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        usize::from(self.waiting.is_some())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.waiting.take()))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        self.waiting = *state.downcast().map_err(|_| "the state of another class")?;
        Ok(())
    }
}

pub(super) const HANDLERS: &[Handler<Delay>] = &[Handler::data(
    "delay",
    |e| e.delay.as_interval(),
    |e, _, value| {
        e.delay = parse_seconds(value).ok_or("delay must be a timestamp")?;
        Ok(())
    },
)];
