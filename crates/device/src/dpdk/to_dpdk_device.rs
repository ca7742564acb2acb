//! # ToDPDKDevice
//! Sends packets to a port of DPDK, directly from the packet pool.
//!
//! Packets must have a link header. The port reads them from the packet pool, and their slots return to the
//! pool when they have been sent. Packets are copied first if they do not lie in one slot of the pool of this
//! element's worker, or if the card cannot reach the pool. The driver for AF_XDP makes its own copies.
//!
//! Packets are sent when BURST of them are waiting, and otherwise as soon as the worker has nothing else to
//! do, or after TIMEOUT. With a pull input, they are sent at the end of each turn. While the port takes no
//! packets, up to IQUEUE packets wait in the element. With a pull input, further packets wait upstream; with
//! a push input, they are dropped.
//!
//! Each worker sends to a queue of its own if the port has enough queues. A packet counts as sent when the
//! port has taken it.
//!
//! ## Usage
//! `ToDPDKDevice(PORT [, QUEUE, KEYWORDS])`
//!
//! ## Arguments
//! - `PORT`: the port's number, its name (`net_tap0`) or its PCI address.
//! - `QUEUE`: the first queue; with it, the element has one queue unless N_QUEUES is greater. Without it,
//!   queues that no other element has or, if there are none, shared queues.
//! - `N_QUEUES`: the number of queues; -1 for one per worker, or a single queue with QUEUE.
//! - `IQUEUE`: the largest number of packets that wait in the element, a power of two.
//! - `BLOCKING`: true to retry for a while before packets are dropped.
//! - `BURST`: packets to wait for before they are sent, and to pull per turn.
//! - `TIMEOUT`: the time in milliseconds that packets may wait for others; 0 for no longer than needed,
//!   negative for no limit.
//! - `NDESC`: descriptors of each queue; 0 for the usual number.
//! - `MAXQUEUES`: the largest number of queues without N_QUEUES and QUEUE.
//! - `IPCO`, `TCO`, `UCO`: accepted; elements compute checksums of IP, TCP and UDP themselves, so the card is
//!   not asked to.
//! - `TSO`: accepted; the card is not asked to divide segments, because an element such as Segment does.
//! - `ALLOC`: accepted; the buffers are those of the packet pool.
//! - `SET_VLAN`: accepted; tags are in the frames.
//! - `MAXTHREADS`: accepted; `--threads` and StaticThreadSched determine the workers.
//! - `VERBOSE`: accepted.
//! - `ACTIVE`: accepted.
//! - `ALLOW_NONEXISTENT`: true to drop all packets if there is no such port; otherwise a missing port is an
//!   error.
//! - `GONE`: what happens when the port's device is removed: `wait` for a device of its name, while packets
//!   are dropped, or `stop`: the run ends with an error.
//!
//! ## Handlers
//! - `count`: packets sent.
//! - `dropped`: packets that could not be sent.
//! - `reset_counts`: sets both counts to zero.
//! - `copied`: copies that were made of packets to be sent.
//! - `hw_count`: packets that the port has sent.
//! - `hw_bytes`: bytes that the port has sent.
//! - `hw_errors`: packets that the port could not send.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDPDKDevice(0)
//! ```
//!
//! ## See also
//! FromDPDKDevice, DPDKInfo, ToXDP, ToDevice, Queue

use std::os::fd::AsFd;
use std::sync::Arc;

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Field, Filter, Hold, Target};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Interest, Invalid, Packet, StatePart,
    Timestamp, manual,
};
use nix::sys::eventfd::{EfdFlags, EventFd};
use packet::BATCH_CAPACITY;

use super::away::{Away, Look};
use super::ports::{Port, Ports, Transmitter};
use super::{Refused, Wanted, read_wanted};
use crate::interface::{Gone, LOOK_AGAIN, cannot};
use crate::losses::Losses;

/// The element class ToDPDKDevice.
pub static CLASS: Class = Class {
    name: "ToDPDKDevice",
    aliases: &["ToDPDKDeviceXCHG"],
    ports: "1/0",
    processing: "a",
    manual: manual!("to_dpdk_device.rs"),
    notes: Notes { task: Task::WherePulling, has_queues: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("PORT", "port"),
        ArgInfo::positional("QUEUE", "int", "-1"),
        ArgInfo::keyword("N_QUEUES", "int", "-1"),
        ArgInfo::keyword("IQUEUE", "unsigned", "1024"),
        ArgInfo::keyword("BLOCKING", "bool", "false"),
        ArgInfo::keyword("BURST", "int", "32"),
        ArgInfo::keyword("TIMEOUT", "int", "0"),
        ArgInfo::keyword("NDESC", "unsigned", "0"),
        ArgInfo::keyword("MAXQUEUES", "unsigned", "128"),
        ArgInfo::keyword("IPCO", "bool", "false"),
        ArgInfo::keyword("TCO", "bool", "false"),
        ArgInfo::keyword("UCO", "bool", "false"),
        ArgInfo::keyword("TSO", "bool", "false"),
        ArgInfo::keyword("ALLOC", "bool", "true"),
        ArgInfo::keyword("SET_VLAN", "bool", "true"),
        ArgInfo::keyword("MAXTHREADS", "int", "-1"),
        ArgInfo::keyword("VERBOSE", "int", "1"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("ALLOW_NONEXISTENT", "bool", "false"),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "dropped"]),
        StatePart::kept("port", &[]),
        StatePart::drained("packets", &[]),
    ],
    // No samples for the generic tests, because the element needs a port. Tests on virtual ports cover its
    // behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let wanted = read_wanted(args, true);
    let room = args.value::<u32>("IQUEUE");
    if !room.is_power_of_two() || room > 1 << 16 {
        args.error("IQUEUE must be a power of 2");
    }
    let burst = args.value::<i64>("BURST");
    if burst <= 0 {
        args.error("bad BURST");
    }
    let most = args.value::<u16>("MAXQUEUES");
    if most == 0 {
        args.error("MAXQUEUES out of range");
    }
    for name in ["SET_VLAN", "ACTIVE", "IPCO", "TCO", "UCO", "TSO", "ALLOC"] {
        args.value::<bool>(name);
    }
    let room = (room as usize).clamp(1, 1 << 16);
    let element = ToDpdkDevice {
        blocking: args.value("BLOCKING"),
        timeout: args.value::<i64>("TIMEOUT"),
        burst: (burst.max(1) as usize).min(room).min(BATCH_CAPACITY),
        room,
        wanted: Wanted { room, most, ..wanted },
        ports: Ports::of(args.setup),
        pulls_input: false,
        transmitter: None,
        is_stuck: false,
        losses: Losses::default(),
        gone: Gone::read(args),
        is_gone: false,
        away: None,
        told: None,
        looked: Timestamp::ZERO,
        bell: None,
        count: 0,
        dropped: 0,
        copied: 0,
    };
    args.finish()?;
    element.ports.expect(args.setup, &element.wanted);
    Ok(Box::new(element))
}

/// The time until the next attempt to send, if the port has not taken all packets.
const PAUSE: Timestamp = Timestamp(20_000);
/// The number of attempts to send with BLOCKING before packets are dropped: they take about a second if the
/// port takes nothing.
const TRIES: u32 = 1 << 20;
/// The number of successive attempts to send at which the port takes no packet, after which an element that
/// ends drops its waiting packets.
const TRIES_AT_END: u32 = 1 << 13;
/// The tokens of the timers. `SEND` sends waiting packets or pulls; `AGAIN` checks whether a port that was
/// removed is there again.
const SEND: u32 = 0;
const AGAIN: u32 = 1;
/// The length of an Ethernet header in bytes; shorter packets are dropped.
const HEADER: usize = 14;

struct ToDpdkDevice {
    wanted: Wanted,
    ports: Arc<Ports>,
    blocking: bool,
    /// The argument TIMEOUT: the time in milliseconds that packets wait for a full burst. With 0, the timer
    /// is due at once; with a negative number, no timer is set.
    timeout: i64,
    burst: usize,
    room: usize,
    pulls_input: bool,
    transmitter: Option<Transmitter>,
    /// True if the port has taken no packet since all attempts to make room for a packet failed. Even with
    /// BLOCKING, the element then tries once per packet, until the port takes a packet again.
    is_stuck: bool,
    losses: Losses,
    gone: Gone,
    /// True from the time when the port was found to be removed until it is open again. In the meantime,
    /// `away` has the state by which this copy of the element looks for the port.
    is_gone: bool,
    away: Option<Away>,
    /// The last reported reason why the port could not be opened again. The same reason is not reported
    /// twice.
    told: Option<String>,
    /// The time at which the element last checked whether the port was removed.
    looked: Timestamp,
    /// The eventfd by which this element wakes up when a copy of any element has found that the port was
    /// removed.
    bell: Option<Arc<EventFd>>,
    count: u64,
    dropped: u64,
    /// The number of packets that were copied for queues that are closed now. The handler `copied` adds the
    /// count of the open queue.
    copied: u64,
}

impl ToDpdkDevice {
    fn fail(&mut self, cx: &mut Cx<'_>, packet: Packet, why: DropReason) {
        self.dropped += 1;
        let (port, length) = (&self.wanted.port, packet.len());
        let text = match why {
            DropReason::TooLarge => format_args!("a frame of {length} bytes is longer than the port carries"),
            DropReason::TooShort => format_args!("a packet of {length} bytes is too short for a frame"),
            DropReason::SendQueueFull => {
                format_args!("its send queue is full; put a Queue upstream to hold packets")
            }
            DropReason::NoBuffer => {
                format_args!("there is no free buffer for a packet; give DPDK more memory with `-m`")
            }
            _ => format_args!("there is no such port"),
        };
        // While the port is removed, its removal has been reported, so these losses get no message.
        self.losses.count(cx, port, (why, 1), Some(text).filter(|_| !self.is_gone));
        cx.drop(packet, why);
    }

    /// Sends waiting packets until the port takes no more, and counts them as sent.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some(transmitter) = &mut self.transmitter else { return };
        let sent = transmitter.flush(cx.pool());
        self.is_stuck &= sent == 0;
        self.count += sent as u64;
        cx.accounts().count_sent(sent);
    }

    /// Checks whether the port's device was removed. If so, reports the removal. Then stops the run (GONE
    /// stop), or drops waiting packets, leaves the port and sets a timer to look for it (GONE wait).
    #[cold]
    fn look(&mut self, cx: &mut Cx<'_>) {
        self.looked = cx.now();
        let Some(port) = self.transmitter.as_ref().map(Transmitter::port).filter(|port| port.is_gone())
        else {
            return;
        };
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        if port.says_gone() || self.gone == Gone::Stop {
            cx.warn(format_args!("{}: {}", self.wanted.port, self.gone.text()));
        }
        if self.gone == Gone::Stop {
            return cx.stop();
        }
        while let Some(transmitter) = &mut self.transmitter
            && let Some(packet) = transmitter.take_back(cx.pool())
        {
            self.fail(cx, packet, DropReason::InterfaceDown);
        }
        self.away = self.transmitter.take().map(|transmitter| {
            self.copied += transmitter.copied();
            transmitter.leave(cx)
        });
        cx.set_coarse_timer(AGAIN, cx.now() + LOOK_AGAIN);
    }

    /// Looks for the port again. If it is there, opens its queue and continues to send; otherwise sets a
    /// timer for the next attempt.
    #[cold]
    fn find_again(&mut self, cx: &mut Cx<'_>, away: Away) {
        match away.send_again(cx, &self.wanted) {
            Look::Back(transmitter) => {
                self.hear(&transmitter);
                if transmitter.port().says_back() {
                    cx.note(format_args!("{}: is there again", self.wanted.port));
                }
                self.transmitter = Some(transmitter);
                (self.is_gone, self.told) = (false, None);
                if self.pulls_input {
                    cx.schedule();
                }
            }
            Look::Away(away, error) => {
                self.away = Some(away);
                if error.is_some() && error != self.told {
                    let text = error.clone().unwrap_or_default();
                    cx.warn(format_args!("{}: cannot be opened again: {text}", self.wanted.port));
                    self.told = error;
                }
                cx.set_coarse_timer(AGAIN, cx.now() + LOOK_AGAIN);
            }
        }
    }

    /// Registers this element's eventfd with the port of the transmitter, so that the element wakes up when
    /// the port is removed.
    fn hear(&self, transmitter: &Transmitter) {
        if let Some(bell) = &self.bell {
            transmitter.port().ring(bell);
        }
    }

    fn waiting(&self) -> usize {
        self.transmitter.as_ref().map_or(0, Transmitter::waiting)
    }

    /// Sends waiting packets to make room for another packet, and returns true if there is room then. Makes
    /// one attempt; with BLOCKING up to `TRIES`, unless the last call failed and nothing has been sent since.
    fn make_room(&mut self, cx: &mut Cx<'_>) -> bool {
        for _ in 0..if self.blocking && !self.is_stuck { TRIES } else { 1 } {
            self.flush(cx);
            if self.waiting() < self.room {
                return true;
            }
            std::hint::spin_loop();
        }
        self.is_stuck = true;
        false
    }

    fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        for packet in batch.drain() {
            let Some(transmitter) = &mut self.transmitter else {
                self.fail(cx, packet, DropReason::InterfaceDown);
                continue;
            };
            let why = match packet.len() {
                length if length > transmitter.longest() => DropReason::TooLarge,
                0..HEADER => DropReason::TooShort,
                _ if transmitter.waiting() >= self.room && !self.make_room(cx) => DropReason::SendQueueFull,
                _ => {
                    let Some(transmitter) = &mut self.transmitter else { continue };
                    match transmitter.put(cx.pool(), packet) {
                        Ok(()) => {}
                        Err(packet) => self.fail(cx, packet, DropReason::NoBuffer),
                    }
                    continue;
                }
            };
            self.fail(cx, packet, why);
        }
        cx.recycle(batch);
    }

    /// Sends the waiting packets if there are at least BURST of them. Sets a timer for the packets that are
    /// left: soon if there are still at least BURST, and otherwise when TIMEOUT has passed; no timer then if
    /// TIMEOUT is negative.
    fn send(&mut self, cx: &mut Cx<'_>) {
        if self.waiting() >= self.burst {
            self.flush(cx);
        }
        let is_left = self.waiting() > 0;
        match self.timeout {
            _ if !is_left => {}
            // The port did not take all packets. The element tries to send the waiting packets again after
            // `PAUSE`, whatever TIMEOUT is.
            _ if self.waiting() >= self.burst => cx.set_coarse_timer(0, cx.now() + PAUSE),
            0 => cx.set_timer(0, cx.now()),
            1.. => cx.set_timer(0, cx.now() + Timestamp(self.timeout.saturating_mul(1_000_000))),
            _ => {}
        }
    }
}

impl Element for ToDpdkDevice {
    fn effects(&self) -> Effects {
        let sent = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        Effects { hold: Hold::Fifo { may_drop: true }, ..sent.observing(&[Field::Length, Field::Payload]) }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match self.ports.send(cx, &self.wanted) {
            Ok(transmitter) => {
                let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
                let bell =
                    Arc::new(event.map_err(|error| cannot(&self.wanted.port, "eventfd", &error.into()))?);
                cx.files()
                    .watch(SEND, bell.as_fd(), Interest::Aside)
                    .map_err(|error| cannot(&self.wanted.port, "poll", &error))?;
                self.bell = Some(bell);
                self.hear(&transmitter);
                self.transmitter = Some(transmitter);
            }
            Err(Refused::Missing(_)) if self.wanted.may_be_missing => {}
            Err(Refused::Missing(text) | Refused::Failed(text)) => return Err(text),
        }
        self.pulls_input = !cx.graph().input_is_push(0);
        if self.pulls_input {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.add(cx, batch);
        self.send(cx);
        if cx.now() - self.looked > LOOK_AGAIN {
            self.look(cx);
        }
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut worked = false;
        if self.waiting() + self.burst <= self.room {
            let batch = cx.pull(0, self.burst);
            worked = !batch.is_empty();
            self.add(cx, batch);
        }
        if cx.now() - self.looked > LOOK_AGAIN {
            self.look(cx);
        }
        // Pulled packets are sent at the end of the turn, and do not wait for further packets.
        self.flush(cx);
        if self.waiting() > 0 {
            cx.set_coarse_timer(0, cx.now() + PAUSE);
        } else if worked || cx.may_pull(0) {
            cx.schedule();
        }
        worked
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Some(bell) = &self.bell {
            let _ = bell.read();
        }
        self.look(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == AGAIN {
            return self.away.take().into_iter().for_each(|away| self.find_again(cx, away));
        }
        if self.pulls_input {
            return cx.schedule();
        }
        self.flush(cx);
        if self.waiting() > 0 {
            cx.set_coarse_timer(0, cx.now() + PAUSE);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        // Waiting packets are sent for as long as the port takes some. After `TRIES_AT_END` attempts in a row
        // at which the port took none, the rest is dropped, so that a stuck port does not delay the worker.
        let mut refused = 0;
        while self.waiting() > 0 && refused < TRIES_AT_END {
            let before = self.waiting();
            self.flush(cx);
            refused = if self.waiting() < before { 0 } else { refused + 1 };
        }
        self.transmitter.iter().for_each(Transmitter::drain);
        while let Some(transmitter) = &mut self.transmitter
            && let Some(packet) = transmitter.take_back(cx.pool())
        {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.clear_timer(SEND);
        cx.clear_timer(AGAIN);
        self.losses.end(cx, &self.wanted.port);
        if let Some(transmitter) = self.transmitter.take() {
            self.copied += transmitter.copied();
            transmitter.close(cx);
        }
        if let Some(away) = self.away.take() {
            away.close(cx);
        }
        cx.files().unwatch(SEND);
        self.gone.end(&self.wanted.port, self.is_gone)
    }

    fn held(&self) -> usize {
        self.waiting()
    }

    element::keeps!(count, dropped);
}

const HANDLERS: &[Handler<ToDpdkDevice>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("dropped", |e| e.dropped),
    Handler::act("reset_counts", |e| (e.count, e.dropped) = (0, 0)),
    Handler::count("copied", |e| e.copied + e.transmitter.as_ref().map_or(0, Transmitter::copied)),
    Handler::read("hw_count", |e, _, _| e.of_port(Port::tx_count)),
    Handler::read("hw_bytes", |e, _, _| e.of_port(Port::tx_bytes)),
    Handler::read("hw_errors", |e, _, _| e.of_port(Port::tx_errors)),
];

impl ToDpdkDevice {
    /// Returns the value of a read handler of the port; `0` if there is no port.
    fn of_port(&self, read: fn(&Port) -> Result<String, String>) -> Result<String, String> {
        self.transmitter.as_ref().map_or(Ok("0".into()), |transmitter| read(transmitter.port()))
    }
}

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn arguments_that_are_wrong_are_refused() {
        for (arguments, text) in [
            ("", "PORT: required argument missing"),
            ("0, IQUEUE 1000", "IQUEUE must be a power of 2"),
            ("0, IQUEUE 0", "IQUEUE must be a power of 2"),
            ("0, BURST 0", "bad BURST"),
            ("0, QUEUE -2", "QUEUE out of range"),
        ] {
            let errors =
                TestRun::default().text(&format!("Idle -> ToDPDKDevice({arguments})"), &[]).unwrap_err();
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }
}
