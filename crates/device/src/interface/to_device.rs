//! # ToDevice
//! Sends packets to a network interface.
//!
//! Packets must have a link header. With a pull input, the element pulls as the interface takes packets:
//! while the interface takes nothing, a burst waits in the element, and further packets wait upstream. With a
//! push input, packets are dropped while the interface takes nothing. While the interface is down or has no
//! carrier, packets are dropped in both cases.
//!
//! Large segments and partial checksums that FromDevice, FromHost or KernelTap have forwarded are sent
//! unchanged, if the element has no outputs. If such packets may arrive, or with QDISC_BYPASS false, all
//! packets pass through the interface's queueing discipline. Otherwise they go to the interface directly, and
//! programs that watch the interface (FromDevice with OUTBOUND, tcpdump) do not see them.
//!
//! ## Usage
//! `ToDevice(DEVNAME [, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the interface.
//! - `BURST`: the largest number of packets to pull per turn.
//! - `METHOD`: `LINUX`; other methods of Click are accepted and mean the same.
//! - `DEBUG`: true to report when the interface takes nothing.
//! - `QDISC_BYPASS`: true to send packets to the interface directly, if that is possible.
//! - `GONE`: what happens when the interface is removed: `wait` for another interface of its name, while
//!   packets are dropped or leave by output 1, or `stop`: the run ends with an error. The removal is noticed
//!   by the kernel's messages or, without them, when there is something to send.
//! - `SET_ERROR_ANNO`: accepted because old versions of Click have it, without effect.
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted for the same reason; overflows are counted.
//!
//! Packets that were sent leave by output 0, and packets that could not be sent leave by output 1, if there
//! are such outputs.
//!
//! ## Handlers
//! - `debug`: the value of DEBUG.
//! - `pulls`: the number of pulls.
//! - `signal`: true if there may be something to pull.
//! - `q`: true if packets wait for the interface.
//! - `count`: packets sent.
//! - `drops`: packets that could not be sent.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(eth0)
//! ```
//!
//! ## See also
//! FromDevice, ToDump, KernelTap, Queue

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Field, Filter, Hold, Predicate, Support, Target};
use element::setup::Common;
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, manual,
};
use libc::c_int;
use packet::BATCH_CAPACITY;
use wire::LinkType;

use super::large::leave_checksum;
use super::out_link::OutLink;
use super::sys::sender::Sender;
use super::sys::take_error;
use super::{Gone, cannot, check_method};
use crate::handover::{Claimant, Registry};

/// The element class ToDevice.
pub static CLASS: Class = Class {
    name: "ToDevice",
    ports: "1/0-2",
    processing: "a/h",
    manual: manual!("to_device.rs"),
    notes: Notes { task: Task::WherePulling, has_queues: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::keyword("BURST", "int", "").burst_of_run("1"),
        ArgInfo::keyword("METHOD", "word", "LINUX"),
        ArgInfo::keyword("DEBUG", "bool", "false"),
        ArgInfo::keyword("QDISC_BYPASS", "bool", "true"),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
        ArgInfo::keyword("SET_ERROR_ANNO", "bool", "false"),
        ArgInfo::keyword("IGNORE_QUEUE_OVERFLOWS", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("packets", &["q"]),
        StatePart::kept("counts", &["count", "drops", "pulls"]),
        StatePart::kept("interface", &[]),
    ],
    // No samples for the generic tests, because the element needs an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let device: String = args.required("DEVNAME");
    let method: String = args.value("METHOD");
    check_method(args, &method);
    let burst = args.value::<i64>("BURST");
    if device.is_empty() && args.was_given("DEVNAME") {
        args.error("interface not set");
    }
    if burst <= 0 {
        args.error("bad BURST");
    }
    for name in ["SET_ERROR_ANNO", "IGNORE_QUEUE_OVERFLOWS"] {
        args.value::<bool>(name);
    }
    let gone = Gone::read(args);
    let to_device = ToDevice {
        link: OutLink::new(device, usize::MAX, gone),
        burst: (burst.max(1) as usize).min(BATCH_CAPACITY),
        debug: args.value("DEBUG"),
        bypass: args.value("QDISC_BYPASS"),
        outputs: args.outputs(),
        pulls_input: false,
        common: Arc::clone(&args.setup.common),
        line: None,
        waiting: VecDeque::with_capacity(BATCH_CAPACITY),
        offloads: false,
        pulls: 0,
        count: 0,
        drops: 0,
    };
    args.finish()?;
    Ok(Box::new(to_device))
}

/// The token of the file by which the kernel reports that interfaces were added or removed.
const NEWS: u32 = 0;

/// The sockets that ToDevice elements of this process have open.
static LINES: Registry<Line> = Registry::new();

/// A socket that sends to an interface. A running element and the element that will replace it have the same
/// socket: to close a packet socket takes the kernel milliseconds, in which a worker would stand still.
struct Line {
    /// The interface's index in the kernel, and the settings of the socket: true if packets have virtio-net
    /// headers (`offloads`), and true if packets bypass the queueing discipline (`bypass`).
    opened: (c_int, bool, bool),
    sender: Mutex<Sender>,
}

impl Line {
    fn sender(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct ToDevice {
    link: OutLink,
    burst: usize,
    debug: bool,
    /// True if packets go to the interface directly, past its queueing discipline (QDISC_BYPASS).
    bypass: bool,
    outputs: usize,
    pulls_input: bool,
    /// The objects that the elements of this configuration share.
    common: Arc<Common>,
    line: Option<Arc<Line>>,
    /// The packets that the interface has not taken yet, in order.
    waiting: VecDeque<Packet>,
    /// True if upstream elements may send packets whose checksum or segmentation is left to an interface.
    offloads: bool,
    pulls: u64,
    count: u64,
    drops: u64,
}

/// The state that an element passes to the element of the same name that replaces it in a new
/// configuration: the device, the waiting packets, and the counts of pulls, sent packets and drops.
struct Legacy {
    device: String,
    waiting: VecDeque<Packet>,
    counts: [u64; 3],
}

/// The result of an attempt to send all waiting packets.
#[derive(PartialEq, Eq)]
enum Flushed {
    All,
    /// The interface takes no more packets at the moment; packets still wait.
    Full,
}

impl ToDevice {
    /// Returns the length in bytes of the longest frame that will be on the wire for a packet: the packet
    /// itself, or the longest segment that a large segment is divided into.
    fn longest(&self, packet: &Packet) -> usize {
        match self.offloads {
            true if packet.annotations().virtio.gso_type != 0 => {
                let virtio = &packet.annotations().virtio;
                usize::from(virtio.header_length) + usize::from(virtio.gso_size)
            }
            _ => packet.len(),
        }
    }

    /// Returns the socket by which the running configuration sends to the interface with this index, or opens
    /// a socket. On an error, returns the name of the step that failed and the reason.
    fn open(&self, cx: &mut Cx<'_>, index: c_int) -> Result<Arc<Line>, (&'static str, io::Error)> {
        let (by, opened) = (Claimant::new(cx, &self.common), (index, self.offloads, self.bypass));
        let is_same = |line: &Line| line.opened == opened && line.sender().bound() == index;
        if let Some(line) = LINES.claim(&by, is_same) {
            return Ok(line);
        }
        let sender = Mutex::new(Sender::open(index, self.offloads, self.bypass)?);
        let line = Arc::new(Line { opened, sender });
        LINES.list(&by, &line, true);
        Ok(line)
    }

    /// Opens another interface that has the name of the removed interface. Returns false if
    /// [`OutLink::find_again`] finds none, or the interface cannot be opened.
    #[cold]
    fn open_again(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(index) = self.link.find_again(cx) else { return false };
        match self.open(cx, index) {
            Ok(line) => self.line = Some(line),
            Err((_, error)) => {
                self.link.tell(cx, &error);
                return false;
            }
        }
        self.link.look(cx.now());
        true
    }

    /// Counts a packet as not sent, and emits it at output 1, or drops it if there is no output 1.
    fn fail(&mut self, cx: &mut Cx<'_>, packet: Packet, why: DropReason) {
        self.drops += 1;
        // Only drops are reported to the user. A packet that leaves by output 1 is not dropped.
        if self.outputs < 2 {
            let length = self.longest(&packet);
            self.link.count_lost(cx, (why, 1), length);
        }
        cx.emit_one(1, packet, why);
    }

    /// Sends waiting packets until the interface takes no more. If the interface is down or was removed,
    /// all waiting packets are dropped or leave by output 1.
    fn flush(&mut self, cx: &mut Cx<'_>) -> Flushed {
        if !self.bypass && !self.waiting.is_empty() && !self.link.is_connected(cx) {
            self.fail_all(cx);
        }
        while !self.waiting.is_empty() {
            let Some(line) = &self.line else {
                if !self.open_again(cx) {
                    self.fail_all(cx);
                }
                continue;
            };
            let result = line.sender().send(self.waiting.iter());
            let error = match result {
                Ok(0) => break,
                Ok(sent) => {
                    self.finish(cx, sent);
                    self.link.recover(cx);
                    continue;
                }
                Err(error) => error,
            };
            let number = error.raw_os_error().unwrap_or(0);
            let why = match number {
                libc::EINTR => continue,
                libc::ENXIO | libc::ENODEV if self.open_again(cx) => continue,
                libc::EAGAIN | libc::ENOBUFS if self.link.may_recover(cx) => return Flushed::Full,
                libc::EAGAIN | libc::ENOBUFS => DropReason::InterfaceDown,
                libc::EMSGSIZE => DropReason::TooLarge,
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV => DropReason::InterfaceDown,
                _ => DropReason::WriteError,
            };
            match why {
                // This failure concerns a single packet; the interface itself works.
                DropReason::TooLarge => {
                    // The kernel refuses the length, so the MTU has become smaller since it was read.
                    self.link.look(cx.now());
                }
                // The user gets no message, because the state of the interface was reported when it went
                // down.
                DropReason::InterfaceDown if self.link.is_down => {}
                DropReason::InterfaceDown if matches!(number, libc::ENXIO | libc::ENODEV) => {
                    self.link.is_down = true
                }
                _ => {
                    self.link.is_down = why == DropReason::InterfaceDown;
                    self.link.tell(cx, &error);
                }
            }
            if let Some(packet) = self.waiting.pop_front() {
                self.fail(cx, packet, why);
            }
            if why == DropReason::InterfaceDown {
                // The next packets would fail as well, so they are not tried.
                self.fail_all(cx);
            }
        }
        Flushed::All
    }

    /// Drops all waiting packets, or emits them at output 1, because the interface is down or was removed.
    #[cold]
    fn fail_all(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.waiting.pop_front() {
            self.fail(cx, packet, DropReason::InterfaceDown);
        }
    }

    /// Removes the first `sent` waiting packets, which have been sent, and emits them at output 0 if there
    /// is one.
    fn finish(&mut self, cx: &mut Cx<'_>, sent: usize) {
        self.count += sent as u64;
        let mut done = cx.batch();
        for packet in self.waiting.drain(..sent.min(self.waiting.len())) {
            // The push does not fail, because a batch holds at least as many packets as one call sends.
            drop(done.push(packet));
        }
        if self.outputs > 0 { cx.emit(0, done) } else { cx.sent(done) }
    }

    /// Appends packets to the waiting packets. Packets that are longer than the interface carries are
    /// dropped at once, or leave by output 1.
    fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        for mut packet in batch.drain() {
            if self.offloads {
                leave_checksum(&mut packet, LinkType::Ethernet);
            }
            let length = self.longest(&packet);
            if self.link.carries(cx.now(), length) {
                self.waiting.push_back(packet);
            } else {
                self.fail(cx, packet, DropReason::TooLarge);
            }
        }
        cx.recycle(batch);
    }
}

impl Element for ToDevice {
    fn effects(&self) -> Effects {
        let seen = [Field::Length, Field::Payload];
        if self.outputs == 0 {
            let sent = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]).observing(&seen);
            return Effects {
                support: Support { offloads: Some(-14), ..Support::default() },
                hold: Hold::Fifo { may_drop: true },
                ..sent
            };
        }
        let taken = Filter::Leaf(Predicate::Opaque { about: "taken by the interface", reads: Vec::new() });
        let cases = vec![
            Case::new(taken, Target::Output(0)),
            Case::new(Filter::TRUE, Target::Output(1)).or_drop(DropReason::WriteError),
        ];
        Effects { hold: Hold::Fifo { may_drop: true }, ..Effects::cases(cases).observing(&seen) }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let index = self.link.find_first(cx, NEWS)?;
        // The packet socket needs a virtio-net header with each packet only if unfinished packets may
        // arrive.
        self.offloads = cx.graph().facts().uses_offloads();
        self.bypass &= !self.offloads;
        if let Some(index) = index {
            let opened = self.open(cx, index);
            let line = opened.map_err(|(step, error)| cannot(&self.link.device, step, &error))?;
            self.line = Some(line);
        }
        self.link.look(cx.now());
        self.pulls_input = !cx.graph().input_is_push(0);
        if self.pulls_input {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.add(cx, batch);
        if self.flush(cx) == Flushed::Full {
            while let Some(packet) = self.waiting.pop_front() {
                self.fail(cx, packet, DropReason::SendQueueFull);
            }
        }
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = self.count;
        if self.waiting.is_empty() {
            self.pulls += 1;
            let batch = cx.pull(0, self.burst);
            self.add(cx, batch);
        }
        let worked = !self.waiting.is_empty();
        if self.flush(cx) == Flushed::Full {
            let pause = self.link.next_pause();
            if self.debug {
                let name = cx.declaration();
                cx.messages().message(format_args!("{name} backing off for {}\n", pause.as_interval()));
            }
            cx.set_coarse_timer(0, cx.now() + pause);
            return self.count > before;
        }
        if worked || cx.may_pull(0) {
            cx.schedule();
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.schedule();
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _token: u32) {
        // The kernel's messages are read before the interface is checked: a change after the check then
        // causes a further message.
        if !self.link.hears_news() {
            return;
        }
        let is_bound = self.line.as_ref().is_some_and(|line| line.sender().bound() == self.link.index());
        if !is_bound {
            self.link.is_down = true;
            self.open_again(cx);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        for packet in std::mem::take(&mut self.waiting) {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.files().unwatch(NEWS);
        // The socket is closed here. Its pending error is taken out of it unreported, because the failure of
        // an interface that went down has been reported already.
        let last = self.line.take().and_then(Arc::into_inner);
        last.map(|line| take_error(line.sender().socket()));
        self.link.end(cx)
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let waiting = std::mem::take(&mut self.waiting);
        let (device, counts) = (self.link.device.clone(), [self.pulls, self.count, self.drops]);
        Some(Box::new(Legacy { device, waiting, counts }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Ok(legacy) = state.downcast::<Legacy>() else { return Err("state of another element".into()) };
        let Legacy { device, waiting, counts } = *legacy;
        if device == self.link.device {
            [self.pulls, self.count, self.drops] = counts;
            self.waiting.extend(waiting);
        } else {
            waiting.into_iter().for_each(|packet| cx.drop(packet, DropReason::Stop));
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<ToDevice>] = &[
    Handler::flag("debug", |e| &mut e.debug, "type mismatch"),
    Handler::count("pulls", |e| e.pulls),
    Handler::read("signal", |e, cx, _| Ok((e.pulls_input && cx.may_pull(0)).to_string())),
    Handler::<ToDevice>::get("q", |e| (!e.waiting.is_empty()).to_string()).most(),
    Handler::count("count", |e| e.count),
    Handler::count("drops", |e| e.drops),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn arguments_that_are_wrong_are_refused_in_clicks_words() {
        for (arguments, text) in [
            ("eth0, BURST 0", "bad BURST"),
            ("eth0, METHOD CARRIER_PIGEON", "bad METHOD"),
            ("\"\"", "interface not set"),
            ("no-such-device", "no-such-device: SIOCGIFINDEX: No such device"),
        ] {
            let text_of = format!("Idle -> Queue -> ToDevice({arguments})");
            let errors = TestRun::default().text(&text_of, &[]).unwrap_err();
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }
}
