//! # ToXDP
//! Sends packets to a network interface by AF_XDP, directly from the packet pool.
//!
//! Packets must have a link header. The interface reads them from the packet pool (the kernel, if the driver
//! cannot), and their slots return to the pool when they have been sent. Packets that do not lie in one slot
//! of the pool of this element's worker are copied first. With a pull input, the element pulls as the
//! interface takes packets. With a push input, packets are dropped while the send ring is full.
//!
//! A FromXDP with the same interface shares its queues. With several workers, each worker sends by a queue
//! of its own: a queue of its FromXDP, or the queue with the worker's number. A worker without a queue
//! hands its packets over to a worker that has a queue, which treats them as pushed packets. A packet
//! counts as sent when it is in the ring that the kernel reads, unless it turns out that it cannot be sent.
//!
//! ## Usage
//! `ToXDP(DEVNAME [, QUEUE, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the interface.
//! - `QUEUE`: the only queue to send by.
//! - `MODE`: `auto`, `native` or `skb`, as with FromXDP; it has an effect only for a queue that no FromXDP
//!   has opened.
//! - `BURST`: the largest number of packets to pull per turn.
//! - `RING`: the number of packets that the send ring has room for, a power of two; for a queue that a
//!   FromXDP has opened, the RING of FromXDP applies.
//! - `GONE`: what happens when the interface is removed: `wait` for another interface of its name, while
//!   packets are dropped, or `stop`: the run ends with an error.
//!
//! ## Handlers
//! - `count`: packets sent.
//! - `drops`: packets that could not be sent.
//! - `copied`: packets that were copied into a slot before they were sent.
//! - `pulls`: the number of pulls.
//! - `tx_invalid`: packets that the kernel has refused; 0 unless there is a bug.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToXDP(eth0)
//! ```
//!
//! ## See also
//! FromXDP, ToDevice, Queue

use std::sync::{Arc, Mutex};

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Field, Filter, Hold, Target};
use element::setup::Common;
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
    manual,
};
use libc::c_int;
use packet::{BATCH_CAPACITY, SLOT_CAPACITY};

use super::interface::Interface;
use super::outlet::{OUTLETS, Outlet};
use super::port::{Kicked, open_transmitter};
use super::{Wanted, read_wanted};
use crate::handover::Claimant;
use crate::interface::out_link::OutLink;
use crate::interface::{Gone, Presence};

/// The element class ToXDP.
pub static CLASS: Class = Class {
    name: "ToXDP",
    ports: "1/0",
    processing: "a",
    manual: manual!("to_xdp.rs"),
    notes: Notes { task: Task::WherePulling, has_queues: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::positional("QUEUE", "unsigned", ""),
        ArgInfo::keyword("MODE", "word", "auto"),
        ArgInfo::keyword("BURST", "int", "32"),
        ArgInfo::keyword("RING", "unsigned", "2048"),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "drops", "pulls", "copied"]),
        StatePart::kept("interface", &[]),
    ],
    // No samples for the generic tests, because the element needs an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let wanted = read_wanted(args);
    let burst = args.value::<i64>("BURST");
    if burst <= 0 {
        args.error("bad BURST");
    }
    let gone = Gone::read(args);
    let interface = Interface::of(args.setup, &wanted.device);
    let senders = args.setup.common.get_or_make(args.id(), Senders::default);
    args.finish()?;
    Ok(Box::new(ToXdp {
        link: OutLink::new(wanted.device.clone(), SLOT_CAPACITY, gone),
        wanted,
        burst: (burst.max(1) as usize).min(BATCH_CAPACITY),
        pulls_input: false,
        common: Arc::clone(&args.setup.common),
        outlet: None,
        interface,
        senders,
        substitute: None,
        in_ring: 0,
        index: 0,
        is_lost: false,
        is_looking: false,
        is_closed: false,
        pulls: 0,
        count: 0,
        drops: 0,
        copied: 0,
        tx_invalid: 0,
    }))
}

/// The tokens of the timers. `KICK` lets the element send again after the interface took nothing more.
/// `LOOK` checks an interface that could not send or was removed.
const KICK: u32 = 0;
const LOOK: u32 = 1;
/// The token of the file by which the kernel reports that interfaces were added or removed.
const NEWS: u32 = 0;
/// The time between two checks of an interface that is down or removed.
const LOOK_PAUSE: Timestamp = Timestamp(100_000_000);
/// The length of an Ethernet header in bytes; shorter packets are dropped.
const HEADER: usize = 14;

struct ToXdp {
    wanted: Wanted,
    burst: usize,
    pulls_input: bool,
    /// The objects that the elements of this configuration share.
    common: Arc<Common>,
    /// The queue by which this copy sends. A running element and the element that will replace it have the
    /// same queue.
    outlet: Option<Arc<Outlet>>,
    interface: Arc<Interface>,
    senders: Arc<Senders>,
    /// The worker to which this worker hands its packets, because this copy has no queue. `None` until that
    /// worker has been determined, and for a copy with a queue.
    substitute: Option<usize>,
    link: OutLink,
    /// The number of packets that this element has put into the send ring and the kernel has not taken yet.
    in_ring: usize,
    /// The interface's index in the kernel.
    index: c_int,
    /// True if the kernel has reported that the interface to which the socket is bound was removed.
    is_lost: bool,
    /// True while the timer `LOOK` is set. Further failures do not postpone the timer.
    is_looking: bool,
    /// True if the queue was closed because the interface was removed, and no queue of another interface with
    /// its name has been opened since.
    is_closed: bool,
    pulls: u64,
    count: u64,
    drops: u64,
    copied: u64,
    /// The count `tx_invalid` of sockets that have been closed. The handler adds the count of the open
    /// socket.
    tx_invalid: u64,
}

/// The state that the copies of a ToXDP, one per worker, share: the workers that can send.
#[derive(Default)]
struct Senders(Mutex<Copies>);

#[derive(Default)]
struct Copies {
    /// The number of copies that have tried to get a queue, successfully or not.
    ready: usize,
    /// The workers whose copy of the element has a queue, in the order in which the copies got their queues.
    workers: Vec<usize>,
}

impl Senders {
    fn with<T>(&self, work: impl FnOnce(&mut Copies) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl ToXdp {
    /// Returns a queue to send by: a queue that an element at this worker has open, or a newly opened one.
    /// Returns `None` if this copy gets no queue and other copies may have one. If no other copy has a queue,
    /// the last copy to call this opens one or fails.
    ///
    /// # Errors
    /// If the kernel refuses to open the queue, or the queue is open with other arguments.
    fn open(&self, cx: &mut Cx<'_>) -> Result<Option<Arc<Outlet>>, String> {
        let (copy, copies) = cx.workers().copy();
        let mut found = self.claim(cx)?;
        let own = self.wanted.queue.unwrap_or(copy as u32);
        if found.is_none() && own as usize % copies == copy && !self.interface.receives(own) {
            found = self.open_alone(cx, own)?;
        }
        let is_last = self.senders.with(|copies_of| {
            copies_of.ready += 1;
            copies_of.ready == copies && copies_of.workers.is_empty()
        });
        if found.is_none() && is_last {
            // No copy has a queue. The attempt to open one succeeds, or makes the kernel return an error that
            // says what is wrong.
            found = self.open_alone(cx, self.wanted.queue.unwrap_or(0))?;
        }
        if found.is_some() {
            self.senders.with(|copies| copies.workers.push(cx.worker().0));
        }
        Ok(found)
    }

    /// Claims a queue of the interface that an element of this worker has open: a FromXDP of this graph, or
    /// an element of the graph that this graph replaces. Returns `None` if there is no such queue, or none
    /// with the number in QUEUE.
    ///
    /// # Errors
    /// If the queue is open with another MODE or RING, which cannot be changed.
    fn claim(&self, cx: &mut Cx<'_>) -> Result<Option<Arc<Outlet>>, String> {
        let by = Claimant::new(cx, &self.common);
        let is_wanted = |outlet: &Outlet| {
            outlet.index == self.index && self.wanted.queue.is_none_or(|wanted| wanted == outlet.queue)
        };
        let found = OUTLETS.claim(&by, is_wanted);
        if let Some(outlet) = found.as_ref().filter(|outlet| !outlet.fits(&self.wanted)) {
            return Err(format!(
                "{}: the running configuration sends by queue {} with another MODE or RING, which a reload cannot \
                 change; stop the run and start it again",
                self.wanted.device, outlet.queue
            ));
        }
        Ok(found)
    }

    /// Opens a queue for sending only, and lists it for the element that may replace this one.
    fn open_alone(&self, cx: &mut Cx<'_>, queue: u32) -> Result<Option<Arc<Outlet>>, String> {
        let transmitter = open_transmitter(cx, &self.wanted, queue)?;
        Ok(transmitter.map(|transmitter| {
            let outlet = Outlet::new(self.index, transmitter, Some(&self.wanted));
            OUTLETS.list(&Claimant::new(cx, &self.common), &outlet, true);
            outlet
        }))
    }

    /// Returns the worker to which this worker's packets are handed over. Returns `None` if this copy has a
    /// queue, if there are no other copies, or while the queue is closed because the interface was removed.
    /// Also returns `None` for copy 0 while no other worker with a queue is known.
    fn substitute(&mut self, cx: &Cx<'_>) -> Option<usize> {
        let (copy, copies) = cx.workers().copy();
        if self.outlet.is_some() || copies == 1 || self.is_closed {
            return None;
        }
        if self.substitute.is_none() {
            let other = |copies: &mut Copies| {
                let at = copy % copies.workers.len().max(1);
                copies.workers.get(at).copied().filter(|&other| other != copy)
            };
            self.substitute = self.senders.with(other);
        }
        // No other worker with a queue is known yet. The packets go to worker 0, which starts last and so
        // knows the workers with a queue: it passes the packets on.
        self.substitute.or((copy != 0).then_some(0))
    }

    fn fail(&mut self, cx: &mut Cx<'_>, packet: Packet, why: DropReason) {
        self.drops += 1;
        self.link.count_lost(cx, (why, 1), packet.len());
        cx.drop(packet, why);
    }

    /// Puts the packets of a batch into the send ring, without making the kernel send. Drops packets that are
    /// shorter than a link header or longer than the interface carries. Also drops packets for which there is
    /// no room or no slot. All packets are dropped while the interface is down or this copy has no queue.
    fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let outlet = self.outlet.clone();
        let mut half = outlet.as_ref().map(|outlet| outlet.half());
        for packet in batch.drain() {
            let fits = self.link.carries(cx.now(), packet.len());
            let why = match (&mut half, packet.len()) {
                (Some(_), _) if self.link.is_down => DropReason::InterfaceDown,
                (Some(_), _) if !fits => DropReason::TooLarge,
                (Some(_), length) if length < HEADER => DropReason::TooShort,
                (Some(half), _) => match half.put(cx.pool(), packet) {
                    Ok(()) => {
                        self.count += 1;
                        self.in_ring += 1;
                        continue;
                    }
                    Err(packet) => {
                        let is_full = half.room(1) == 0;
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
        self.copied += half.map_or(0, |mut half| std::mem::take(&mut half.copied));
        cx.recycle(batch);
    }

    /// Makes the kernel send the packets in the ring, takes back the slots of packets that were sent, and
    /// counts sent and lost packets. Returns false if the kernel takes nothing more at the moment; then the
    /// timer `KICK` is set.
    fn kick(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(outlet) = &self.outlet else { return true };
        let mut half = outlet.half();
        let kicked = half.kick();
        half.reap(cx.pool());
        // Packets of the element that this element replaces may be ahead in the ring, so at most `in_ring` of
        // the packets in the ring belong to this element.
        let left = half.pending().min(self.in_ring);
        let taken = self.in_ring - left;
        let refused = std::mem::take(&mut half.refused).min(taken);
        drop(half);
        self.in_ring = left;
        self.lose(cx, refused);
        cx.accounts().count_sent(taken - refused);
        match kicked {
            Kicked::All if refused > 0 => {
                if !self.link.may_recover(cx) {
                    self.look_soon(cx);
                }
            }
            Kicked::All => self.link.recover(cx),
            Kicked::Full => {
                cx.set_coarse_timer(KICK, cx.now() + self.link.next_pause());
                return false;
            }
            Kicked::Failed(error) => {
                self.link.is_down = true;
                // The socket has lost its interface for good, even if another interface has the same name
                // and index now.
                self.is_lost |= matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV));
                if !self.is_lost {
                    self.link.tell(cx, &error);
                }
                self.look_soon(cx);
            }
        }
        true
    }

    /// Sets the timer `LOOK` for a check of the interface in a tenth of a second, unless the timer is
    /// already set.
    fn look_soon(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.is_looking, true) {
            cx.set_coarse_timer(LOOK, cx.now() + LOOK_PAUSE);
        }
    }

    /// Counts packets as dropped that were counted as sent when they entered the send ring, but were not
    /// sent.
    fn lose(&mut self, cx: &mut Cx<'_>, packets: usize) {
        self.count -= packets as u64;
        self.drops += packets as u64;
        if packets > 0 {
            self.link.count_lost(cx, (DropReason::InterfaceDown, packets), 0);
        }
        cx.accounts().count_dropped(packets, DropReason::InterfaceDown);
    }

    /// Checks an interface that was down or removed. If it is up and has a carrier, the packets in the send
    /// ring are sent; if it was removed, the queue is closed and another interface of its name is sought;
    /// otherwise another check is scheduled.
    fn look(&mut self, cx: &mut Cx<'_>) {
        if self.is_closed {
            return self.open_again(cx);
        }
        match Presence::of(&self.link.device, self.index) {
            _ if self.is_lost => {
                self.close_queue(cx);
                (self.is_lost, self.is_closed) = (false, true);
                self.open_again(cx);
            }
            Presence::Up if self.link.has_carrier() => {
                // If packets can be sent again, `kick` reports that the interface has recovered.
                self.kick(cx);
            }
            Presence::Up | Presence::Down => self.look_soon(cx),
            Presence::Gone => {
                self.close_queue(cx);
                self.is_closed = true;
                self.open_again(cx);
            }
        }
    }

    /// Opens a queue at another interface that has the name of the removed interface, and reports the
    /// recovery. If there is no such interface or no queue yet, schedules another attempt.
    #[cold]
    fn open_again(&mut self, cx: &mut Cx<'_>) {
        let (copy, copies) = cx.workers().copy();
        if let Some(index) = self.link.find_again(cx) {
            self.index = index;
            let own = self.wanted.queue.unwrap_or(copy as u32);
            let is_own = own as usize % copies == copy && !self.interface.receives(own);
            let opened = self.claim(cx).and_then(|found| match found {
                None if is_own => self.open_alone(cx, own),
                found => Ok(found),
            });
            self.outlet = opened.unwrap_or_else(|error| {
                self.link.say(cx, format_args!("cannot be opened again: {error}"));
                None
            });
        }
        if self.outlet.is_none() {
            return self.look_soon(cx);
        }
        self.begin();
        self.is_closed = false;
        self.link.look(cx.now());
        self.link.recover(cx);
        if self.pulls_input {
            cx.schedule();
        }
    }

    fn begin(&self) {
        self.outlet.iter().for_each(|outlet| outlet.begin());
    }

    fn close_queue(&mut self, cx: &mut Cx<'_>) {
        let left = std::mem::take(&mut self.in_ring);
        self.lose(cx, left);
        if let Some(outlet) = self.outlet.take() {
            self.tx_invalid += outlet.half().statistics().map_or(0, |statistics| statistics.tx_invalid_descs);
            outlet.end();
            Outlet::release(outlet, cx.pool());
        }
    }
}

impl Element for ToXdp {
    fn effects(&self) -> Effects {
        let sent = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        Effects { hold: Hold::Fifo { may_drop: true }, ..sent.observing(&[Field::Length, Field::Payload]) }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match self.link.find_first(cx, NEWS)? {
            Some(index) => {
                self.index = index;
                self.outlet = self.open(cx)?;
                self.begin();
            }
            None => {
                self.is_closed = true;
                self.look_soon(cx);
            }
        }
        self.link.look(cx.now());
        self.pulls_input = !cx.graph().input_is_push(0);
        if self.pulls_input {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if let Some(worker) = self.substitute(cx) {
            cx.hand_over(worker, 0, batch);
            return None;
        }
        if let Some(outlet) = &self.outlet {
            outlet.half().reap(cx.pool());
        }
        self.add(cx, batch);
        self.kick(cx);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let room = match &self.outlet {
            Some(outlet) => {
                let mut half = outlet.half();
                half.reap(cx.pool());
                half.room(self.burst).min(self.burst)
            }
            None => self.burst,
        };
        let mut worked = false;
        if room > 0 {
            self.pulls += 1;
            let batch = cx.pull(0, room);
            worked = !batch.is_empty();
            match self.substitute(cx) {
                Some(worker) => cx.hand_over(worker, 0, batch),
                None => self.add(cx, batch),
            }
        }
        let goes_on = self.kick(cx);
        if goes_on && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        match token {
            LOOK => {
                self.is_looking = false;
                self.look(cx);
            }
            _ if self.pulls_input => cx.schedule(),
            _ => {
                self.kick(cx);
            }
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if !self.link.hears_news() {
            return;
        }
        self.is_lost |= self.outlet.as_ref().is_some_and(|outlet| outlet.half().is_unbound());
        if self.is_closed || self.is_lost {
            self.look(cx);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.kick(cx);
        let left = std::mem::take(&mut self.in_ring);
        if self.outlet.as_ref().is_some_and(|outlet| outlet.is_shared()) {
            // The successor of this element makes the kernel send the packets in the ring.
            cx.accounts().count_sent(left);
            return;
        }
        // The socket is closed next, so packets that the kernel has not taken by now cannot be sent and
        // count as dropped.
        self.lose(cx, left);
    }

    fn held(&self) -> usize {
        self.in_ring
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.files().unwatch(NEWS);
        cx.clear_timer(KICK);
        cx.clear_timer(LOOK);
        self.close_queue(cx);
        self.link.end(cx)
    }

    element::keeps!(count, drops, pulls, copied);
}

const HANDLERS: &[Handler<ToXdp>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("drops", |e| e.drops),
    Handler::count("copied", |e| e.copied),
    Handler::count("pulls", |e| e.pulls),
    Handler::count("tx_invalid", |e| {
        let statistics = e.outlet.as_ref().and_then(|outlet| outlet.half().statistics());
        e.tx_invalid + statistics.map_or(0, |statistics| statistics.tx_invalid_descs)
    }),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn arguments_that_are_wrong_are_refused() {
        for (arguments, text) in [
            ("eth0, BURST 0", "bad BURST"),
            ("eth0, MODE PIGEON", "invalid mode \"PIGEON\""),
            ("\"\"", "interface not set"),
            ("no-such-device", "no-such-device: SIOCGIFINDEX: No such device"),
        ] {
            let text_of = format!("Idle -> Queue -> ToXDP({arguments})");
            let errors = TestRun::default().text(&text_of, &[]).unwrap_err();
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }
}
