//! # DelayShaper
//! Lets each packet be pulled when a time has passed since its time stamp.
//!
//! Packets leave with the current time as their time stamp; those without a time stamp are delayed from now on. One
//! packet waits in the element, and whoever pulls sleeps until it may leave.
//!
//! ## Usage
//! `DelayShaper(DELAY)`
//!
//! ## Arguments
//! - `DELAY`: the delay.
//!
//! ## Handlers
//! - `delay`: the delay.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> DelayShaper(10ms) -> Discard
//! ```
//!
//! ## See also
//! BandwidthShaper, DelayUnqueue, SetTimestamp

use element::args::parse_seconds;
use element::class::{ArgInfo, HandlerInfo, Notes};
use element::effects::Value;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, Signal, Timestamp, manual};

use super::delay_unqueue::{delaying, pull_delayed};
use crate::schedule::collect;

/// The class.
pub static CLASS: Class = Class {
    name: "DelayShaper",
    processing: "l/l",
    manual: manual!("delay_shaper.rs"),
    args: &[ArgInfo::required("DELAY", "seconds")],
    handlers: &[HandlerInfo::both("delay")],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &["1ms"],
    build: |args| {
        let delay = args.required("DELAY");
        args.finish()?;
        Ok(Box::new(DelayShaper { delay, waiting: None }))
    },
    ..Class::DEFAULT
};

struct DelayShaper {
    delay: Timestamp,
    waiting: Option<Packet>,
}

impl DelayShaper {
    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.waiting.is_none() {
            self.waiting = pull_delayed(cx, self.delay);
        }
        let now = cx.now();
        match &self.waiting {
            Some(packet) if packet.time() > now => {
                cx.set_timer(0, packet.time());
                cx.set_signal(Signal::Packets, false);
                None
            }
            Some(_) => self.waiting.take().map(|mut packet| {
                packet.set_time(now);
                packet
            }),
            None => {
                if !cx.may_pull(0) {
                    cx.set_signal(Signal::Packets, false);
                }
                None
            }
        }
    }
}

impl Element for DelayShaper {
    fn effects(&self) -> Effects {
        delaying(Value::Now)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_packet(cx))
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.set_signal(Signal::Packets, true);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.waiting.take() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        usize::from(self.waiting.is_some())
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.delay.as_interval())
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, value: &str) -> Result<(), String> {
        self.delay = parse_seconds(value).ok_or("delay must be a timestamp")?;
        Ok(())
    }
}
