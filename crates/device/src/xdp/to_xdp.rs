//! # ToXDP
//! Sends packets to a network interface by AF_XDP, from where they lie.
//!
//! Packets have a link header already. The interface reads them from the packet pool, and the pool gets them back when
//! they have left. Packets that do not lie in one slot of the pool of this element's worker are copied first. With a
//! pull input it pulls as the interface takes packets; what is pushed while it takes nothing is dropped.
//!
//! A FromXDP with the same interface shares its queues; both have to be on one thread. The element works on one worker
//! only. A packet counts as sent when it is in the ring that the kernel reads.
//!
//! ## Usage
//! `ToXDP(DEVNAME [, QUEUE, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the interface.
//! - `QUEUE`: the queue; the first one that FromXDP has, or 0.
//! - `MODE`: `auto`, `native` or `skb`, as with FromXDP; only of interest where there is none with this interface.
//! - `BURST`: packets to pull per turn.
//! - `RING`: packets that the ring has room for, a power of two; that of FromXDP if there is one.
//!
//! ## Handlers
//! - `count`: packets sent.
//! - `drops`: packets that could not be sent.
//! - `copied`: packets that were copied.
//! - `pulls`: how often it has pulled.
//! - `tx_invalid`: packets that the kernel has refused; always 0, if all is well.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToXDP(eth0)
//! ```
//!
//! ## See also
//! FromXDP, ToDevice, Queue

use std::sync::Arc;

use element::class::{ArgInfo, HandlerInfo, Notes, Task};
use element::effects::{Case, Field, Filter, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, Timestamp, manual};
use libc::c_int;
use packet::{BATCH_CAPACITY, SLOT_CAPACITY};

use super::port::{Kicked, Transmitter, open_transmitter};
use super::{Offer, Wanted, read_wanted};
use crate::interface::sys::link;
use crate::interface::{Presence, cannot};
use crate::reason;

/// The class.
pub static CLASS: Class = Class {
    name: "ToXDP",
    ports: "1/0",
    processing: "a",
    manual: manual!("to_xdp.rs"),
    notes: Notes { task: Task::WherePulling, ..Notes::NONE },
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::positional("QUEUE", "unsigned", ""),
        ArgInfo::keyword("MODE", "word", "auto"),
        ArgInfo::keyword("BURST", "int", "32"),
        ArgInfo::keyword("RING", "unsigned", "2048"),
    ],
    handlers: &[
        HandlerInfo::read("count"),
        HandlerInfo::read("drops"),
        HandlerInfo::read("copied"),
        HandlerInfo::read("pulls"),
        HandlerInfo::read("tx_invalid"),
    ],
    // Needs an interface: what it does is tested between network namespaces.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let wanted = read_wanted(args);
    let burst = args.or("BURST", 32i64);
    if burst <= 0 {
        args.error("bad BURST");
    }
    args.finish()?;
    Ok(Box::new(ToXdp {
        wanted,
        burst: (burst.max(1) as usize).min(BATCH_CAPACITY),
        pulls_input: false,
        transmitter: None,
        longest: 0,
        looked: Timestamp::ZERO,
        pause: LEAST_PAUSE,
        is_down: false,
        told: None,
        index: 0,
        pulls: 0,
        count: 0,
        drops: 0,
        copied: 0,
        tx_invalid: 0,
    }))
}

/// Timers: the interface took nothing more, or was down.
const KICK: u32 = 0;
const LOOK: u32 = 1;
/// How long to wait for an interface that takes nothing: at first, and at most.
const LEAST_PAUSE: Timestamp = Timestamp(20_000);
const LONGEST_PAUSE: Timestamp = Timestamp(1_000_000);
/// How often to look whether the interface is up again, or its longest packet has become longer.
const LOOK_PAUSE: Timestamp = Timestamp(100_000_000);
/// An Ethernet header, and one with a VLAN tag.
const HEADER: usize = 14;
const LINK_HEADER: usize = 18;

struct ToXdp {
    wanted: Wanted,
    burst: usize,
    pulls_input: bool,
    transmitter: Option<Transmitter>,
    /// Bytes of the longest frame.
    longest: usize,
    /// When that was last looked at.
    looked: Timestamp,
    pause: Timestamp,
    is_down: bool,
    /// The last failure that was told: the same one is not told again.
    told: Option<i32>,
    /// Number of the interface.
    index: c_int,
    pulls: u64,
    count: u64,
    drops: u64,
    /// These two as they were when the socket was closed.
    copied: u64,
    tx_invalid: u64,
}

impl ToXdp {
    fn say(&self, cx: &mut Cx<'_>, text: std::fmt::Arguments<'_>) {
        let name = cx.declaration();
        cx.message(format_args!("{name}: {}: {text}\n", self.wanted.device));
    }

    /// The sending half of a queue: that of a FromXDP, or one of our own.
    fn open(&self, cx: &mut Cx<'_>) -> Result<Transmitter, String> {
        let device = &self.wanted.device;
        let offers: Vec<Arc<Offer>> = (0..cx.place().elements()).filter_map(|id| cx.service(id)).collect();
        for offer in offers.iter().filter(|offer| offer.device == *device) {
            let is_wanted = |queue: u32| self.wanted.queue.is_none_or(|wanted| wanted == queue);
            let taken = offer.with(|queues| {
                let here =
                    |half: &&mut Option<Transmitter>| half.as_ref().is_some_and(|half| is_wanted(half.queue));
                queues.iter_mut().find(here).and_then(Option::take)
            });
            if let Some(transmitter) = taken {
                return Ok(transmitter);
            }
        }
        open_transmitter(cx, &self.wanted)
    }

    fn look_at_length(&mut self, now: Timestamp) {
        self.looked = now;
        if let Ok(mtu) = link::mtu(&self.wanted.device) {
            self.longest = (mtu + LINK_HEADER).min(SLOT_CAPACITY);
        }
    }

    fn fail(&mut self, cx: &mut Cx<'_>, packet: Packet, why: DropReason) {
        self.drops += 1;
        cx.drop(packet, why);
    }

    /// Puts packets into the ring.
    fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let before = self.count;
        for packet in batch.drain() {
            if packet.len() > self.longest && cx.now() - self.looked > LOOK_PAUSE {
                self.look_at_length(cx.now());
            }
            let why = match (&mut self.transmitter, packet.len()) {
                (Some(_), _) if self.is_down => DropReason::InterfaceDown,
                (Some(_), length) if length > self.longest => DropReason::TooLarge,
                (Some(_), length) if length < HEADER => DropReason::TooShort,
                (Some(transmitter), _) => match transmitter.put(cx.pool(), packet) {
                    Ok(()) => {
                        self.count += 1;
                        continue;
                    }
                    Err(packet) => {
                        let is_full = transmitter.room(1) == 0;
                        self.fail(
                            cx,
                            packet,
                            if is_full { DropReason::SendQueueFull } else { DropReason::NoBuffer },
                        );
                        continue;
                    }
                },
                (None, _) => DropReason::InterfaceDown,
            };
            self.fail(cx, packet, why);
        }
        cx.count_sent((self.count - before) as usize);
        cx.recycle(batch);
    }

    /// Lets the kernel send; false if it takes nothing more now.
    fn kick(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(transmitter) = &mut self.transmitter else { return true };
        let kicked = transmitter.kick();
        transmitter.reap(cx.pool());
        match kicked {
            Kicked::All => self.pause = LEAST_PAUSE,
            Kicked::Full => {
                cx.set_timer(KICK, cx.now() + self.pause);
                self.pause = (self.pause + self.pause).min(LONGEST_PAUSE);
                return false;
            }
            Kicked::Failed(error) => {
                self.is_down = true;
                if self.told != error.raw_os_error() {
                    self.told = error.raw_os_error();
                    self.say(cx, format_args!("{}", reason(&error)));
                }
                cx.set_timer(LOOK, cx.now() + LOOK_PAUSE);
            }
        }
        true
    }

    /// Whether an interface that was down is up again.
    fn look(&mut self, cx: &mut Cx<'_>) {
        match Presence::of(&self.wanted.device, self.index) {
            Presence::Up => {
                self.is_down = false;
                self.kick(cx);
                if !self.is_down {
                    self.told = None;
                    self.say(cx, format_args!("sends again"));
                }
            }
            Presence::Down => cx.set_timer(LOOK, cx.now() + LOOK_PAUSE),
            Presence::Gone => {}
        }
    }
}

impl Element for ToXdp {
    fn effects(&self) -> Effects {
        let sent = Effects::cases(vec![Case::new(Filter::Any, Target::Send)]);
        sent.observing(&[Field::Length, Field::Payload])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let device = &self.wanted.device;
        self.index = link::index(device).map_err(|error| cannot(device, "SIOCGIFINDEX", &error))?;
        self.transmitter = Some(self.open(cx)?);
        self.look_at_length(cx.now());
        self.pulls_input = !cx.input_is_push(0);
        if self.pulls_input {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if let Some(transmitter) = &mut self.transmitter {
            transmitter.reap(cx.pool());
        }
        self.add(cx, batch);
        self.kick(cx);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(transmitter) = &mut self.transmitter else { return false };
        transmitter.reap(cx.pool());
        let room = transmitter.room(self.burst).min(self.burst);
        let mut worked = false;
        if room > 0 {
            self.pulls += 1;
            let batch = cx.pull(0, room);
            worked = !batch.is_empty();
            self.add(cx, batch);
        }
        let goes_on = self.kick(cx);
        if goes_on && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        match token {
            LOOK => self.look(cx),
            _ if self.pulls_input => cx.schedule(),
            _ => {
                self.kick(cx);
            }
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.kick(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.clear_timer(KICK);
        cx.clear_timer(LOOK);
        if let Some(transmitter) = self.transmitter.take() {
            self.copied = transmitter.copied;
            self.tx_invalid = transmitter.statistics().map_or(0, |statistics| statistics.tx_invalid_descs);
            transmitter.close(cx.pool());
        }
        Ok(())
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        let statistics = || self.transmitter.as_ref().and_then(Transmitter::statistics);
        let number = match name {
            "count" => self.count,
            "drops" => self.drops,
            "copied" => self.transmitter.as_ref().map_or(self.copied, |half| half.copied),
            "pulls" => self.pulls,
            _ => statistics().map_or(self.tx_invalid, |statistics| statistics.tx_invalid_descs),
        };
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use testkit::Run;

    #[test]
    fn arguments_that_are_wrong_are_refused() {
        for (arguments, text) in [
            ("eth0, BURST 0", "bad BURST"),
            ("eth0, MODE PIGEON", "invalid mode \"PIGEON\""),
            ("\"\"", "interface not set"),
            ("no-such-device", "no-such-device: SIOCGIFINDEX: No such device"),
        ] {
            let text_of = format!("Idle -> Queue -> ToXDP({arguments})");
            let errors = Run::default().text(&text_of, &[]).unwrap_err();
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }
}
