//! # FromXDP
//! Receives packets from a network interface by AF_XDP, without a copy if the driver can.
//!
//! A small program at the interface (XDP) hands received frames to Tidegate, so that the kernel's own network
//! stack does not get them. If the driver can, it writes frames directly into the packet pool; otherwise the
//! kernel copies them there. The program is removed when the element or the process ends. A ToXDP with the
//! same interface shares the queues.
//!
//! Packets get the time of the turn in which they were read, and the MAC header annotation points to their
//! start. Frames are received before the kernel segments them or completes their checksums. Therefore senders
//! on the same machine should not leave the segmentation of large segments to the interface. At the other end
//! of a virtual cable, `ethtool -K IF tso off gso off` achieves that. Large segments would be lost, which
//! `rx_dropped` counts and a message reports. Partial checksums of such senders are completed.
//!
//! With several workers, worker k has the queues whose number modulo the number of workers is k. The
//! interface chooses the queue of a frame. If there are fewer queues than workers, or with QUEUE, all workers
//! receive from each queue; the program then gives each worker the frames of its flows. With `--steering
//! spray`, too, all workers receive from each queue; the program then gives TCP segments to random workers,
//! except for segments that open or close connections. No frames are received until all workers have opened
//! their queues.
//!
//! ## Usage
//! `FromXDP(DEVNAME [, QUEUE, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the interface.
//! - `QUEUE`: the only receive queue; without it, all queues of the interface. Frames of other queues go to
//!   the kernel.
//! - `MODE`: the part of the system that runs the program: `native`, the driver; `skb`, the kernel, for
//!   every interface, but slower; `auto`, the driver if it can. `drv` and `xdp` mean the same as `native`,
//!   `copy` the same as `skb`.
//! - `BURST`: the largest number of packets per turn.
//! - `PROMISC`: true to receive frames for other hosts as well.
//! - `RING`: the number of packets that each ring shared with the kernel has room for, a power of two. Rings
//!   by which a worker receives from another worker's queue may be smaller.
//! - `GONE`: what happens when the interface is removed: `wait` for another interface of its name, whose
//!   queues are then opened with all these arguments, or `stop`: the run ends with an error.
//! - `SHARED`: true if FromDevice and FromXDP of other Tidegate processes may receive from the interface as
//!   well. If false, the second process is refused.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//! - `RSS_KEY`: `secret` or `own`: the interface chooses queues by a secret key as long as its own key, or
//!   keeps the key that it has, which is often publicly known. A secret key is set only with several
//!   workers and queues, under the real clock, and if no other program has some of the queues. The old key
//!   is restored at the end. If the driver does not accept the secret key, a message says so.
//! - `CHECKSUM`: true to complete partial checksums of TCP and UDP.
//! - `ACTIVE`: true to receive. If false, incoming packets are dropped (`inactive`).
//!
//! ## Handlers
//! - `count`: packets received.
//! - `reset_counts`: sets the count to zero.
//! - `mode`: the part of the system that runs the program, `native` or `skb`.
//! - `queues`: the number of queues that belong to this worker.
//! - `rss_key`: `secret` if the interface chooses queues by a secret key, else `own`.
//! - `completed`: packets whose checksum was completed.
//! - `kernel_drops`: packets that the kernel has lost, for any reason.
//! - `rx_ring_full`: packets that the kernel has lost because the ring of received packets was full.
//! - `fill_ring_empty`: the number of times that there was no free slot for a packet.
//! - `rx_dropped`: packets that were longer than a slot; if the kernel copies, packets without a free slot
//!   as well.
//! - `rx_invalid`: slots that the kernel refused; 0 unless there is a bug.
//! - `active`: true if it receives.
//!
//! ## Example
//! ```click
//! FromXDP(eth0, PROMISC true) -> Counter -> ToXDP(eth1)
//! ```
//!
//! ## See also
//! ToXDP, FromDevice

use std::ops::Add;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use element::class::{ArgInfo, ConfigurePhase, Notes, Task};
use element::effects::{Action, Case, Field, Filter, Leaves, Target, Value};
use element::metrics;
use element::setup::Common;
use element::{
    Args, Base, Class, Cx, DropReason, Effects, Element, Handler, Interest, Invalid, StatePart, Timestamp,
    manual,
};
use libc::c_int;
use nix::sys::eventfd::{EfdFlags, EventFd};
use packet::{BATCH_CAPACITY, PacketKind, SLOT_CAPACITY};

use super::interface::Interface;
use super::outlet::{OUTLETS, Outlet};
use super::port::open_queues;
use super::receiver::{Counts, Receiver};
use super::seat::{Layout, Open, SEATS, Seat, Stage};
use super::sys::program::Runner;
use super::{Receives, Wanted, read_wanted};
use crate::frames::complete;
use crate::handover::Claimant;
use crate::interface::awaited::Awaited;
use crate::interface::claim::Claim;
use crate::interface::steering::Steering;
use crate::interface::sys::{fanout, link, socket, take_error};
use crate::interface::{Gone, Presence, cannot};
use crate::losses::Losses;
use crate::rss_key;

/// The element class FromXDP.
pub static CLASS: Class = Class {
    name: "FromXDP",
    ports: "0/1",
    processing: "h",
    manual: manual!("from_xdp.rs"),
    notes: Notes {
        task: Task::Always,
        has_queues: true,
        has_own_key: true,
        is_live: true,
        is_paired: true,
        ..Notes::NONE
    },
    // Initialized ahead of ToXDP, which sends by the queues that this element opens.
    phase: ConfigurePhase::Service,
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::positional("QUEUE", "unsigned", ""),
        ArgInfo::keyword("MODE", "word", "auto"),
        ArgInfo::keyword("BURST", "int", "").computed("the burst of the run"),
        ArgInfo::keyword("PROMISC", "bool", "false"),
        ArgInfo::keyword("RING", "unsigned", "2048"),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
        ArgInfo::keyword("SHARED", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "unsigned", "256"),
        ArgInfo::keyword("RSS_KEY", "word", "secret"),
        ArgInfo::keyword("CHECKSUM", "bool", "true"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "completed"]),
        StatePart::kept(
            "interface",
            &["kernel_drops", "rx_ring_full", "fill_ring_empty", "rx_dropped", "rx_invalid"],
        ),
    ],
    // No samples for the generic tests, because the element needs an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let wanted = Wanted { keeps_key: rss_key::is_kept(args), ..read_wanted(args) };
    let burst: Option<i64> = args.get("BURST");
    if burst.is_some_and(|burst| burst <= 0) {
        args.error("BURST out of range");
    }
    args.value::<u32>("HEADROOM");
    let interface = Interface::of(args.setup, &wanted.device);
    if let Err(error) = interface.expect(args.id(), &wanted) {
        args.error(error);
    }
    // If the element runs at one worker only, the XDP program does not choose workers. The engine spreads the
    // packets over the workers instead.
    let is_everywhere = !args.setup.threads.contains_key(&args.id());
    let spreading = args.setup.spreading.as_deref().filter(|_| is_everywhere && args.setup.workers > 1);
    let steering = Steering::new(None, spreading).unwrap_or(Steering::Hash);
    let from_xdp = FromXdp {
        burst: burst.map(|n| (n as usize).min(BATCH_CAPACITY)),
        promiscuous: args.value("PROMISC"),
        completes: args.value("CHECKSUM"),
        active: args.value("ACTIVE"),
        common: Arc::clone(&args.setup.common),
        seat: None,
        outlets: Vec::new(),
        name: wanted.device.clone(),
        wanted,
        steering,
        receivers: Vec::new(),
        first: 0,
        interface,
        bell: None,
        speaks: false,
        membership: None,
        index: 0,
        is_shared: args.value("SHARED"),
        claim: None,
        state: Presence::Up,
        awaited: None,
        gone: Gone::read(args),
        stage: Stage::Open,
        told: None,
        waits: false,
        has_begun: false,
        losses: Losses::default(),
        count: 0,
        completed: 0,
        counts: Counts::default(),
    };
    args.finish()?;
    args.setup.publish(args.id(), Arc::new(Receives));
    Ok(Box::new(from_xdp))
}

/// The tokens of the timers. `LOOK` checks the state of the interface. `REFILL` gives the kernel free slots
/// again after the pool had too few.
const LOOK: u32 = 0;
const REFILL: u32 = 1;
const LOOK_PAUSE: Timestamp = Timestamp(100_000_000);
const REFILL_PAUSE: Timestamp = Timestamp(1_000_000);
/// The token, among the watched files, of the eventfd that wakes this copy. The token of a receiver's socket
/// is the receiver's index in `receivers`.
const BELL: u32 = u32::MAX;
/// The length in bytes of the longest link header that is expected: an Ethernet header with a VLAN tag. The
/// MTU does not include the link header.
const LINK_HEADER: usize = 18;

struct FromXdp {
    /// The interface's name in the configuration. Its present name, after it was renamed, is in `wanted`.
    name: String,
    wanted: Wanted,
    burst: Option<usize>,
    promiscuous: bool,
    completes: bool,
    active: bool,
    /// The objects that the elements of this configuration share.
    common: Arc<Common>,
    /// The seat of this copy, from the first opening of the interface on. By the seat, a running element
    /// passes everything that it has open to the element that replaces it: both have the same seat.
    seat: Option<Arc<Seat>>,
    /// The sending halves of this copy's queues, for the ToXDP elements of this worker.
    outlets: Vec<Arc<Outlet>>,
    /// The rule by which the XDP program chooses the worker that gets a frame, if workers share a queue.
    steering: Steering,
    /// The sockets of the queues that this copy owns, followed by its guest sockets, by which it receives
    /// from queues that other copies own.
    receivers: Vec<Receiver>,
    /// The index of the receiver that is read first in the next turn. The index advances by one each turn, so
    /// that no receiver starves.
    first: usize,
    interface: Arc<Interface>,
    /// The eventfd that wakes this copy; `None` unless copies share their queues. It is written to when the
    /// guest sockets have been opened by which this copy receives from queues of other copies, and when other
    /// copies have taken many slots of this copy's queues.
    bell: Option<Arc<EventFd>>,
    /// True for the copy that reports the removal, the return and other changes of the interface to the user,
    /// because all copies notice the same changes.
    speaks: bool,
    /// A packet socket that keeps the interface in promiscuous mode (PROMISC) or in all multicast groups,
    /// until the socket is closed.
    membership: Option<OwnedFd>,
    /// The interface's index in the kernel. If the interface is removed, another interface of the same name
    /// gets another index.
    index: c_int,
    is_shared: bool,
    /// The claim that keeps other Tidegate processes from receiving from the interface; `None` with SHARED,
    /// while the interface is closed, or if the kernel did not allow a claim.
    claim: Option<Arc<Claim>>,
    state: Presence,
    /// The registration that this element waits for another interface with the configured name; set from the
    /// removal of the interface until another interface has been opened.
    awaited: Option<Awaited>,
    gone: Gone,
    stage: Stage,
    /// The last reported reason why another interface with the configured or the last name of the removed
    /// interface could not be opened. The same reason is not reported twice.
    told: Option<String>,
    /// True if this element has the seat of a running element, and has not taken over yet what that element
    /// has open.
    waits: bool,
    /// True from the first call of `run` on; earlier, no packets may be emitted.
    has_begun: bool,
    losses: Losses,
    count: u64,
    completed: u64,
    /// The counts of sockets that have been closed; open sockets keep their own.
    counts: Counts,
}

impl FromXdp {
    fn say(&self, cx: &mut Cx<'_>, text: std::fmt::Arguments<'_>) {
        cx.warn(format_args!("{}: {text}", self.wanted.device));
    }

    /// Opens the queues of the interface that belong to this copy, and registers their sockets with the XDP
    /// program. The last copy to do so attaches the program.
    ///
    /// # Errors
    /// If there is no such Ethernet interface, another process has claimed it, or the kernel refuses a queue
    /// or the program.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let device = self.wanted.device.clone();
        self.index = link::index(&device).map_err(|error| cannot(&device, "SIOCGIFINDEX", &error))?;
        self.interface.begin_open(self.index)?;
        let hardware = link::hardware(&device).map_err(|error| cannot(&device, "SIOCGIFHWADDR", &error))?;
        if hardware != libc::ARPHRD_ETHER && hardware != libc::ARPHRD_LOOPBACK {
            return Err(format!("{device}: is no Ethernet interface; use FromDevice"));
        }
        if !self.is_shared {
            self.claim = Claim::of(&device, self.index)?;
        }
        let (copy, copies) = cx.workers().copy();
        if self.shares(copies) {
            let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
            let bell = Arc::new(event.map_err(|error| cannot(&device, "eventfd", &error.into()))?);
            cx.files()
                .watch(BELL, bell.as_fd(), Interest::Read)
                .map_err(|error| cannot(&device, "poll", &error))?;
            self.bell = Some(bell);
        }
        let (receivers, transmitters) =
            open_queues(cx, &self.wanted, self.index, (copy, copies), self.bell.as_ref())?;
        self.receivers = receivers;
        let by = Claimant::new(cx, &self.common);
        let number = match &self.seat {
            Some(seat) => seat.number,
            None => {
                let number = self.interface.number(cx.id());
                let layout = Layout::new(&self.wanted, self.steering, (copy, copies));
                let seat = self.seat.insert(Seat::new(&self.interface, number, layout));
                SEATS.list(&by, seat, true);
                number
            }
        };
        for transmitter in transmitters.into_iter().flatten() {
            let outlet = Outlet::new(self.index, transmitter, None);
            OUTLETS.list(&by, &outlet, false);
            self.outlets.push(outlet);
        }
        for place in 0..self.receivers.len() {
            self.watch(cx, place)?;
        }
        let shares = self.bell.as_ref().map(|bell| (self.steering, bell));
        self.interface.serve(cx, (number, &self.wanted), self.index, &self.receivers, shares)?;
        if self.speaks {
            self.greet(cx);
        }
        Ok(())
    }

    /// Does the work that one copy does for all: sets promiscuous mode (PROMISC) or joins all multicast
    /// groups, and warns if the MTU allows frames that are longer than a slot.
    fn greet(&mut self, cx: &mut Cx<'_>) {
        let joined = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).and_then(|socket| {
            fanout::join_groups(socket.as_fd(), self.index, self.promiscuous)?;
            Ok(socket)
        });
        match joined {
            Ok(socket) => self.membership = Some(socket),
            Err(error) if self.promiscuous => {
                self.say(cx, format_args!("cannot set promiscuous mode: {}", crate::reason(&error)));
            }
            Err(_) => {}
        }
        if link::mtu(&self.wanted.device).is_ok_and(|mtu| mtu + LINK_HEADER > SLOT_CAPACITY) {
            self.say(cx, format_args!("frames of more than {SLOT_CAPACITY} bytes will be lost"));
        }
    }

    /// Checks the interface and sets the timer for the next check, unless GONE is `stop` and the interface
    /// was removed. After a removal, the copies close their guest sockets at each other's queues, then their
    /// own queues, and then open another interface. This copy takes the next of these stages as soon as all
    /// copies have finished the present one. A timer is needed because sockets do not become readable when
    /// their interface is removed.
    fn look(&mut self, cx: &mut Cx<'_>) {
        match self.stage {
            Stage::Open => self.look_after(cx),
            Stage::Left(round) if self.interface.have_left() => {
                self.close_queues(cx);
                self.interface.close();
                self.stage = Stage::Closed(round);
            }
            Stage::Closed(round) if self.interface.is_over(round) => self.find_again(cx),
            Stage::Left(_) | Stage::Closed(_) => {}
        }
        if self.gone == Gone::Wait || self.state != Presence::Gone {
            cx.set_coarse_timer(LOOK, cx.now() + LOOK_PAUSE);
        }
    }

    /// Reacts to the removal of the interface: stops the run (GONE stop), or emits the packets that have
    /// arrived and closes this copy's guest sockets at the queues of other copies (GONE wait).
    #[cold]
    fn abandon(&mut self, cx: &mut Cx<'_>) {
        if self.speaks {
            self.say(cx, format_args!("{}", self.gone.text()));
        }
        self.unwatch(cx);
        if self.gone == Gone::Stop {
            return cx.stop();
        }
        // Packets that arrived before the removal are still in the receive rings.
        while self.receive(cx, BATCH_CAPACITY) > 0 {}
        self.leave(cx);
        self.stage = Stage::Left(self.interface.leave());
        self.awaited = Some(Awaited::new(&self.name));
    }

    /// Looks for another interface that has the configured or the last name of the removed interface, and
    /// opens it. If opening fails, all copies close their queues before the next attempt.
    #[cold]
    fn find_again(&mut self, cx: &mut Cx<'_>) {
        let names = [self.name.clone(), self.wanted.device.clone()];
        let Some(name) = names.into_iter().find(|name| link::index(name).is_ok()) else {
            if self.interface.is_being_left() {
                // Other copies have found an interface, and have left it again before this copy saw it. This
                // copy has nothing open, so it registers at once that its guest sockets and its queues are
                // closed.
                self.stage = Stage::Closed(self.interface.leave());
                self.interface.close();
            }
            return;
        };
        self.wanted.device = name;
        match self.open(cx) {
            Ok(()) => {
                (self.stage, self.state, self.told) = (Stage::Open, Presence::Up, None);
                self.awaited = None;
                if self.speaks {
                    cx.note(format_args!("{}: is there again", self.wanted.device));
                }
                cx.schedule();
            }
            Err(error) => {
                // The other copies may have opened their queues meanwhile. Those queues lack this copy's
                // guest sockets, so that all copies have to close them and try again.
                self.leave(cx);
                self.stage = Stage::Left(self.interface.leave());
                if self.told.as_ref() != Some(&error) {
                    self.say(cx, format_args!("cannot be opened again: {error}"));
                    self.told = Some(error);
                }
            }
        }
    }

    fn close_queues(&mut self, cx: &mut Cx<'_>) {
        self.unwatch(cx);
        (self.membership, self.bell, self.claim) = (None, None, None);
        self.counts = self.counts();
        self.receivers.drain(..).for_each(|receiver| receiver.close(cx.pool()));
        self.outlets.drain(..).for_each(|outlet| Outlet::release(outlet, cx.pool()));
    }

    /// Takes the seat of the running element that receives from the interface as this element would, if there
    /// is one, so that this element continues with everything that the running element has open. Returns
    /// false if this element has to open the interface itself.
    fn take_seat(&mut self, cx: &mut Cx<'_>) -> bool {
        let index = link::index(&self.name).ok();
        let layout = Layout::new(&self.wanted, self.steering, cx.workers().copy());
        let by = Claimant::new(cx, &self.common);
        let fits = |seat: &Seat| seat.layout == layout && seat.interface.is(&self.name, index);
        let Some(seat) = SEATS.claim(&by, fits) else { return false };
        self.interface = Arc::clone(&seat.interface);
        self.seat = Some(seat);
        self.waits = true;
        true
    }

    /// Continues with everything that the element had open that this element replaces.
    #[cold]
    fn take_over(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.waits = false;
        let Some(open) = self.seat.as_ref().and_then(|seat| seat.take()) else { return Ok(()) };
        self.wanted.device = open.device;
        (self.index, self.receivers, self.outlets) = (open.index, open.receivers, open.outlets);
        (self.bell, self.membership, self.claim) = (open.bell, open.membership, open.claim);
        (self.state, self.awaited, self.stage, self.told) = (open.state, open.awaited, open.stage, open.told);
        self.counts = open.counts;
        for place in 0..self.receivers.len() {
            self.watch(cx, place)?;
        }
        if let Some(bell) = &self.bell {
            let watched = cx.files().watch(BELL, bell.as_fd(), Interest::Read);
            watched.map_err(|error| cannot(&self.wanted.device, "poll", &error))?;
        }
        if self.stage == Stage::Open {
            if self.is_shared {
                self.claim = None;
            } else if self.claim.is_none() {
                self.claim = Claim::of(&self.wanted.device, self.index)?;
            }
            if self.speaks && open.promiscuous != self.promiscuous {
                self.greet(cx);
            }
        }
        self.look(cx);
        cx.schedule();
        Ok(())
    }

    /// True if another element has the same seat: the element that will replace this one, or, while this
    /// element waits to take over, the element that it replaces.
    fn shares_seat(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| Arc::strong_count(seat) > 1)
    }

    /// Stores everything that this element has open in its seat, for the element that replaces it.
    fn hand_over(&mut self, cx: &mut Cx<'_>) {
        self.unwatch(cx);
        let Some(seat) = self.seat.take() else { return };
        seat.leave(Open {
            device: self.wanted.device.clone(),
            index: self.index,
            receivers: std::mem::take(&mut self.receivers),
            outlets: std::mem::take(&mut self.outlets),
            bell: self.bell.take(),
            membership: self.membership.take(),
            promiscuous: self.promiscuous,
            claim: self.claim.take(),
            state: self.state,
            awaited: self.awaited.take(),
            stage: self.stage,
            told: self.told.take(),
            counts: std::mem::take(&mut self.counts),
        });
    }

    /// Checks an interface that was not removed at the last check: follows a new name, reports a change
    /// between up and down, reports frames that are too long, and detects its removal.
    fn look_after(&mut self, cx: &mut Cx<'_>) {
        // The user may have renamed the interface.
        if let Ok(name) = link::name_of(self.index)
            && name != self.wanted.device
        {
            if self.speaks {
                cx.note(format_args!("{}: is called {name} now", self.wanted.device));
            }
            self.wanted.device = name;
        }
        // A socket whose interface was removed has a pending error, which can be read once. The error shows
        // the removal even if another interface has the removed interface's name and index now.
        let was_removed = self.receivers.iter().any(|receiver| take_error(receiver.socket()).is_some());
        let state = match was_removed || self.interface.is_being_left() {
            true => Presence::Gone,
            false => Presence::of(&self.wanted.device, self.index),
        };
        let is_news = state != self.state;
        self.state = state;
        if state == Presence::Gone {
            return self.abandon(cx);
        }
        if is_news && self.speaks {
            let device = &self.wanted.device;
            cx.messages().tell(state.severity(), format_args!("{device}: {}", state.text(device)));
        }
        if self.receivers.iter().any(Receiver::drops_long_packets) && self.interface.has_to_tell() {
            let device = &self.wanted.device;
            self.say(
                cx,
                format_args!(
                    "frames of more than {SLOT_CAPACITY} bytes are lost; where senders leave segments to their interface, \
                     `ethtool -K IF tso off gso off` there, and `ethtool -K {device} gro off` here"
                ),
            );
        }
    }

    /// Reads at most `most` packets from the receive rings, all receivers in turn, and emits them. Returns
    /// the number of packets read, including packets that were dropped because ACTIVE is false.
    fn receive(&mut self, cx: &mut Cx<'_>, most: usize) -> usize {
        let queues = self.receivers.len();
        let mut batch = cx.batch();
        let mut made = 0;
        for turn in 0..queues {
            let receiver = &mut self.receivers[(self.first + turn) % queues];
            while made < most {
                let Some(mut packet) = receiver.next(cx.pool()) else { break };
                made += 1;
                cx.accounts().count_made(1);
                if !self.active {
                    let text = format_args!("packets come while the element is switched off (ACTIVE false)");
                    let device = &self.wanted.device;
                    self.losses.count(cx, device, (DropReason::Inactive, 1), Some(text));
                    cx.drop(packet, DropReason::Inactive);
                    continue;
                }
                packet.set_time(cx.now());
                packet.set_kind(PacketKind::of_frame(packet.data()));
                packet.set_offset(Base::Mac, Some(0));
                self.completed += u64::from(self.completes && complete(packet.data_mut()));
                self.count += 1;
                if let Err(packet) = batch.push(packet) {
                    cx.drop(packet, DropReason::NoBuffer);
                }
            }
        }
        self.first = (self.first + 1) % queues.max(1);
        cx.emit(0, batch);
        made
    }

    fn unwatch(&mut self, cx: &mut Cx<'_>) {
        for place in 0..self.receivers.len() {
            cx.files().unwatch(place as u32);
        }
        cx.files().unwatch(BELL);
        cx.clear_timer(LOOK);
        cx.clear_timer(REFILL);
    }

    /// Returns the sums of the kernel's counts for all sockets of this copy, open and closed.
    fn counts(&self) -> Counts {
        self.receivers.iter().map(Receiver::counts).fold(self.counts, Counts::add)
    }

    /// True if each copy receives from all queues that the element uses: with `--steering spray`, or if there
    /// are fewer queues than copies. False with one copy.
    fn shares(&self, copies: usize) -> bool {
        let queues = match self.wanted.queue {
            Some(_) => 1,
            // Drivers that do not report the number of their queues rarely have more than one.
            None => link::receive_queues(&self.wanted.device).unwrap_or(1),
        };
        copies > 1 && (self.steering != Steering::Hash || (queues as usize) < copies)
    }

    fn watch(&mut self, cx: &mut Cx<'_>, place: usize) -> Result<(), String> {
        let watched = cx.files().watch(place as u32, self.receivers[place].socket(), Interest::Read);
        watched.map_err(|error| cannot(&self.wanted.device, "poll", &error))
    }

    /// Watches the guest sockets that have been opened for this copy at the queues of other copies.
    fn visit(&mut self, cx: &mut Cx<'_>) {
        let Some(number) = self.seat.as_ref().map(|seat| seat.number) else { return };
        for guest in self.interface.guests_of(number, cx.workers().copy().0) {
            self.receivers.push(guest);
            if let Err(error) = self.watch(cx, self.receivers.len() - 1) {
                self.say(cx, format_args!("{error}"));
            }
        }
    }

    /// Closes this copy's guest sockets at the queues of other copies, and keeps their counts. The kernel
    /// releases a queue only after all guest sockets at it have been closed, even if its owner has closed it
    /// before.
    fn leave(&mut self, cx: &mut Cx<'_>) {
        let guests = self.receivers.iter().filter(|receiver| receiver.owned().is_none());
        self.counts = guests.map(Receiver::counts).fold(self.counts, Counts::add);
        for guest in self.receivers.extract_if(.., |receiver| receiver.owned().is_none()) {
            guest.close(cx.pool());
        }
    }
}

impl Element for FromXdp {
    fn effects(&self) -> Effects {
        let kind = Value::Pure { name: "whom it was for", reads: Vec::new() };
        let case = Case::new(Filter::FALSE, Target::Output(0)).with(Action::Set(Field::Kind, kind));
        let leaves = if self.steering == Steering::Hash { Leaves::Here } else { Leaves::Spread };
        let mut effects = Effects { cases: vec![case], leaves, ..Effects::source("received packet") };
        effects.emits[0].output = Some(0);
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.speaks = cx.workers().copy().0 == 0;
        if self.take_seat(cx) {
            // The first turn takes over what the running element has open.
            cx.schedule();
            return Ok(());
        }
        self.open(cx)?;
        self.look(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true)
            && self.waits
            && let Err(error) = self.take_over(cx)
        {
            self.say(cx, format_args!("{error}"));
        }
        let made = self.receive(cx, self.burst.unwrap_or(cx.burst()));
        for receiver in &mut self.receivers {
            if !receiver.refill(cx.pool()) {
                cx.set_coarse_timer(REFILL, cx.now() + REFILL_PAUSE);
            }
        }
        if self.receivers.iter_mut().any(Receiver::is_ready) {
            cx.schedule();
        }
        made > 0
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if let Some(bell) = self.bell.as_ref().filter(|_| token == BELL) {
            let _ = bell.read();
            self.visit(cx);
        }
        cx.schedule();
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        match token {
            LOOK => self.look(cx),
            // The task is scheduled because `run` gives the kernel free slots.
            _ => cx.schedule(),
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        cx.unschedule();
        if self.shares_seat() {
            // The packets in the receive rings are left to the element that replaces this one, which takes
            // over the rings.
            return;
        }
        if self.waits
            && let Err(error) = self.take_over(cx)
        {
            self.say(cx, format_args!("{error}"));
        }
        let Some(seat) = &self.seat else { return };
        // From here on, no worker receives further packets. Packets that arrived before are in the receive
        // rings and are emitted.
        self.interface.detach(seat.number);
        self.unwatch(cx);
        cx.unschedule();
        if self.has_begun {
            while self.receive(cx, BATCH_CAPACITY) > 0 {}
        }
        self.leave(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.losses.end(cx, &self.wanted.device);
        if self.shares_seat() {
            match self.waits {
                // The running element keeps the seat; this element has not taken anything over.
                true => self.seat = None,
                false => self.hand_over(cx),
            }
            return Ok(());
        }
        self.awaited = None;
        if let Some(seat) = self.seat.take() {
            self.interface.detach(seat.number);
            self.interface.end(seat.number);
        }
        self.close_queues(cx);
        self.gone.end(&self.wanted.device, self.state == Presence::Gone)
    }

    fn missed(&self) -> u64 {
        self.counts().lost
    }

    element::keeps!(count, completed);
}

const HANDLERS: &[Handler<FromXdp>] = &[
    Handler::count("count", |e| e.count),
    Handler::act("reset_counts", |e| e.count = 0),
    Handler::get("mode", |e| {
        if e.interface.runner() == Some(Runner::Kernel) { "skb" } else { "native" }.into()
    }),
    Handler::count("queues", |e| {
        e.receivers.iter().filter(|receiver| receiver.owned().is_some()).count() as u64
    }),
    Handler::get("rss_key", |e| rss_key::word(e.interface.has_secret_key()).into()),
    Handler::count("completed", |e| e.completed),
    Handler::<FromXdp>::count("kernel_drops", |e| e.counts().lost).metric(metrics::KERNEL_DROPS),
    Handler::count("rx_ring_full", |e| e.counts().ring_full),
    Handler::count("fill_ring_empty", |e| e.counts().fill_ring_empty),
    Handler::count("rx_dropped", |e| e.counts().dropped),
    Handler::count("rx_invalid", |e| e.counts().invalid),
    Handler::flag("active", |e| &mut e.active, "type mismatch"),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    fn errors(arguments: &str) -> String {
        TestRun::default().text(&format!("FromXDP({arguments}) -> Discard"), &[]).unwrap_err()
    }

    #[test]
    fn arguments_that_are_wrong_are_refused() {
        for (arguments, text) in [
            ("eth0, MODE PIGEON", "invalid mode \"PIGEON\" must be (auto|native|skb|xdp|drv|copy)"),
            ("eth0, 256", "QUEUE out of range"),
            ("eth0, RING 100", "RING: a power of two from 64 to 16384 expected"),
            ("eth0, BURST 0", "BURST out of range"),
            ("eth0, RSS_KEY mine", "RSS_KEY: secret or own expected, not \"mine\""),
            ("\"\"", "interface not set"),
            ("", "DEVNAME: required argument missing"),
            ("no-such-device", "no-such-device: SIOCGIFINDEX: No such device; `ip link` shows"),
        ] {
            let errors = errors(arguments);
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }
}
