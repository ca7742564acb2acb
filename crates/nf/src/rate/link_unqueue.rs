//! # LinkUnqueue
//! Pulls packets and pushes them with the delay of a link of the given latency and bandwidth.
//!
//! A packet is pulled when the transmission of the packet before it is over. It leaves when its last bit
//! would have arrived at the other end of the link, with that time as its time stamp. The extra length
//! annotation is added to the length of a packet. The time of a transmission is rounded down to whole
//! microseconds.
//!
//! ## Usage
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! ## Arguments
//! - `LATENCY`: the time that each bit takes from end to end.
//! - `BANDWIDTH`: the bandwidth, rounded down to a multiple of 100 bytes per second; or 0 for no limit.
//!
//! ## Handlers
//! - `latency`: the latency. Writing it drops the packets on the link.
//! - `bandwidth`: bytes per second; 0 cannot be written. Writing it drops the packets on the link.
//! - `size`: the number of packets on the link.
//! - `reset`: drops the packets on the link.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> LinkUnqueue(10ms, 1Mbps) -> Discard
//! ```
//!
//! ## See also
//! DelayUnqueue, Queue, Unqueue, RatedUnqueue, BandwidthRatedUnqueue, DelayShaper, SetTimestamp

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use element::args::{ArgType, Bandwidth, parse_seconds};
use element::class::{ArgInfo, Notes};
use element::effects::{Action, Case, Depends, EXTRA_LENGTH, Field, Filter, Hold, Target, Value};
use element::{Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual};
use packet::Annotations;

use crate::schedule::pull_one;
use crate::storage::fifo::Occupancy;

/// The element class `LinkUnqueue`.
pub static CLASS: Class = Class {
    name: "LinkUnqueue",
    processing: "l/h",
    manual: manual!("link_unqueue.rs"),
    notes: Notes::TASK,
    args: &[ArgInfo::required("LATENCY", "seconds"), ArgInfo::required("BANDWIDTH", "bandwidth")],
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &["size"]).with_tables(&["link"])],
    samples: &["1ms, 100Mbps", "10us, 0"],
    build: |args| {
        let latency: Timestamp = args.required("LATENCY");
        let Bandwidth(bandwidth) = args.required("BANDWIDTH");
        if bandwidth < 100 && bandwidth != 0 {
            args.error("bandwidth too small, minimum 100Bps, or 0 to disable bandwidth");
        }
        args.finish()?;
        let occupancy = Arc::new(Occupancy::default());
        args.setup.publish(args.id(), Arc::clone(&occupancy));
        Ok(Box::new(LinkUnqueue {
            latency,
            bandwidth: bandwidth / 100,
            link: VecDeque::with_capacity(64),
            back_to_back: false,
            occupancy,
        }))
    },
    ..Class::DEFAULT
};

struct LinkUnqueue {
    latency: Timestamp,
    /// The bandwidth in units of 100 bytes per second; 0 for no limit.
    bandwidth: u64,
    /// The packets on the link, in the order in which they leave. The time stamp of each packet is the time
    /// at which it leaves.
    link: VecDeque<Packet>,
    /// True if the last pull gave a packet. As long as that packet is on the link, the transmission of the
    /// next packet starts when the transmission of that packet ends, even if the next packet is pulled later.
    /// Otherwise the transmission starts at the time of the pull.
    back_to_back: bool,
    occupancy: Arc<Occupancy>,
}

impl LinkUnqueue {
    /// Returns the time that the transmission of a packet takes, rounded down to whole microseconds; zero
    /// without a bandwidth limit.
    fn duration(&self, packet: &Packet) -> Timestamp {
        let extra = packet.annotations().u32(Annotations::EXTRA_LENGTH);
        let bytes = packet.len() as u64 + u64::from(extra);
        let micros = (bytes * 10_000).checked_div(self.bandwidth).unwrap_or(0);
        Timestamp(micros as i64 * 1_000)
    }

    /// Pulls packets until a pulled packet is still being transmitted, or no packets are left upstream, or
    /// `MOST_PER_TURN` packets are on the link. Returns true if it pulled any packet.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let through = cx.now() + self.latency;
        let mut worked = false;
        // If no memory can be reserved for another packet, further packets stay upstream.
        while self.link.back().is_none_or(|last| last.time() <= through) && self.link.try_reserve(1).is_ok() {
            let Some(mut packet) = pull_one(cx, 0) else {
                self.back_to_back = false;
                break;
            };
            let start = match self.link.back() {
                Some(last) if self.back_to_back => last.time(),
                _ => through,
            };
            packet.set_time(start + self.duration(&packet));
            self.link.push_back(packet);
            (self.back_to_back, worked) = (true, true);
            // Without latency and bandwidth limit, each transmission ends at once, so the loop would only end
            // when no packets are left upstream. So the number of packets on the link is bounded.
            if self.link.len() >= MOST_PER_TURN {
                break;
            }
        }
        worked
    }

    fn clear(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
        for packet in self.link.drain(..) {
            cx.drop(packet, reason);
        }
        self.occupancy.set(0);
    }
}

/// The number of packets on the link at which the task stops pulling, so that other tasks run.
const MOST_PER_TURN: usize = 256;

impl Element for LinkUnqueue {
    fn effects(&self) -> Effects {
        let leaves = Value::Pure { name: "link", reads: vec![Field::Length, EXTRA_LENGTH] };
        let delayed = Case::new(Filter::TRUE, Target::Hold(0)).with(Action::Set(Field::TimeStamp, leaves));
        Effects { hold: Hold::Delay, ..Effects::cases(vec![delayed]) }
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
            .sharing("link")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let mut worked = self.fill(cx);
        while self.link.front().is_some_and(|first| first.time() <= now) {
            let Some(packet) = self.link.pop_front() else { break };
            cx.emit_one(0, packet, DropReason::NoOutput);
            worked = true;
        }
        self.occupancy.set(self.link.len());
        let may_pull = cx.may_pull(0);
        match (self.link.front(), self.link.back()) {
            (Some(first), Some(last)) => {
                // `room` is the time from which on another packet may be pulled. The timer is set even if the
                // task is also scheduled: under the trace clock, time advances with packets and timers, but
                // not while a task runs without finding work.
                let room = if may_pull { last.time() - self.latency } else { Timestamp::MAX };
                let next = if room > now { first.time().min(room) } else { first.time() };
                cx.set_timer(0, next);
                if room <= now {
                    cx.schedule();
                }
            }
            _ if may_pull => cx.schedule(),
            _ => {}
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.schedule();
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.clear(cx, DropReason::Stop);
    }

    fn held(&self) -> usize {
        self.link.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.link), self.back_to_back)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.link, self.back_to_back) = *state.downcast().map_err(|_| "the state of another class")?;
        self.occupancy.set(self.link.len());
        Ok(())
    }
}

const HANDLERS: &[Handler<LinkUnqueue>] = &[
    Handler::data(
        "latency",
        |e| e.latency.as_interval(),
        |e, cx, value| {
            e.latency = parse_seconds(value).ok_or("latency must be a timestamp")?;
            e.reset(cx)
        },
    ),
    Handler::data(
        "bandwidth",
        |e| (e.bandwidth * 100).to_string(),
        |e, cx, value| {
            let Bandwidth(rate) = Bandwidth::parse(value, &cx.place()).map_err(|_| "invalid bandwidth")?;
            if rate < 100 {
                return Err("bandwidth too small, minimum 100Bps".into());
            }
            e.bandwidth = rate / 100;
            e.reset(cx)
        },
    ),
    Handler::count("size", |e| e.link.len() as u64),
    Handler::set("reset", |e, cx, _| e.reset(cx)),
];

impl LinkUnqueue {
    /// Drops the packets on the link, clears the timer, and schedules the task, which pulls new packets.
    fn reset(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.clear(cx, DropReason::Reset);
        cx.clear_timer(0);
        cx.schedule();
        Ok(())
    }
}
