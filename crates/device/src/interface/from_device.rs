//! # FromDevice
//! Receives packets from a network interface.
//!
//! The kernel's own network stack sees the packets as well, unless SNIFFER is false. If the interface has no
//! addresses, the stack usually does nothing with them. Packets get the time stamp of their reception and the
//! packet type annotation that the kernel gives them. The MAC header annotation points to their start, or the
//! network header annotation, if the interface has no link header. A VLAN tag that the device took out is put
//! back. Packets that ToDevice sends to the same interface are not received here, unless OUTBOUND is true and
//! ToDevice sends them through the queueing discipline.
//!
//! Local senders, and devices with offloads, deliver large segments and partial checksums. They are
//! forwarded unchanged if no downstream element depends on them and each path ends at an element that can
//! send them. Otherwise they become ordinary frames with complete checksums here.
//!
//! With several workers, each worker has a receive ring of its own. The kernel chooses the ring of a packet
//! by a program of Tidegate. The program finds the worker that the packet's flow belongs to or, with
//! spraying, gives TCP segments to any worker (STEERING).
//!
//! ## Usage
//! `FromDevice(DEVNAME [, PROMISC, SNAPLEN, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the interface.
//! - `PROMISC`: true to receive frames for other hosts as well.
//! - `SNAPLEN`: the largest number of bytes of a frame; longer frames are cut, and the extra length
//!   annotation is the number of bytes that were cut. Without it, frames are never cut; Click cuts them at
//!   2046 bytes.
//! - `SNIFFER`: true if the kernel's network stack sees incoming packets as well. If false, the stack gets
//!   nothing from the interface, including ARP, until the process ends, even by `kill -9`; needs Linux 6.6
//!   or later.
//! - `FORCE_IP`: true to emit IP packets only, with network and transport header annotations and, for IPv4,
//!   the destination annotation set; other packets go to output 1 or are dropped.
//! - `METHOD`: `LINUX`; other methods of Click are accepted and mean the same.
//! - `CAPTURE`: an older name for METHOD.
//! - `BPF_FILTER`: not supported; a Classifier or IPClassifier downstream does the same.
//! - `PROTOCOL`: the only protocol (Ethernet type) to receive; 0 for all.
//! - `OUTBOUND`: true to receive the packets that the machine sends by the interface as well.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//! - `ENCAP`: accepted; the encapsulation is taken from the interface.
//! - `BURST`: the largest number of packets per turn. A large segment that is cut here counts as the
//!   packets that it becomes. Packets beyond BURST count for the following turns, so that a Queue
//!   downstream does not get more per turn than ToDevice takes out of it.
//! - `TIMESTAMP`: true to set time stamps.
//! - `ACTIVE`: true to receive. If false, incoming packets are dropped (`inactive`).
//! - `STEERING`: the distribution of packets to workers: `hash` keeps a flow, in both directions, on one
//!   worker; `spray` spreads even a single connection: its segments go to random workers, except for
//!   segments that open and close it. Without it, the engine's setting (`--steering`).
//! - `GONE`: what happens when the interface is removed: `wait` for another interface of the name DEVNAME or
//!   of the removed interface's last name, which is then opened with all these arguments, or `stop`: the run
//!   ends with an error.
//! - `SHARED`: true if FromDevice and FromXDP of other Tidegate processes may receive from the interface as
//!   well. Each FromDevice gets every packet, so that two processes that forward send each packet twice. If
//!   false, the second process is refused. Processes of users other than root and this process's user do
//!   not count.
//! - `OFFLOAD`: true to request the kernel's information about large segments and partial checksums, so
//!   that they can be handled as described above. If false, they come in as packets that are too long or
//!   have wrong checksums.
//!
//! ## Handlers
//! - `count`: packets received.
//! - `reset_counts`: sets the count to zero.
//! - `kernel_drops`: packets that the kernel had no room for, that had waited in a full ring for more than a
//!   quarter of a second, or that were left in the ring of a removed interface.
//! - `encap`: the encapsulation of packets.
//! - `active`: true if it receives.
//!
//! ## Example
//! ```click
//! FromDevice(eth0, PROMISC true) -> Counter -> Queue -> ToDevice(eth1)
//! ```
//!
//! ## See also
//! ToDevice, FromDump, KernelTap

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Leaves, Support};
use element::metrics;
use element::setup::Common;
use element::{Args, Class, Cx, Effects, Element, Handler, Interest, Invalid, StatePart, Timestamp, manual};
use libc::c_int;
use packet::{BATCH_CAPACITY, PacketKind};
use wire::LinkType;

use super::awaited::{Awaited, is_awaited};
use super::budget::Budget;
use super::claim::Claim;
use super::incoming::{Incoming, MarksIp, Received};
use super::seat::{Open, SEATS, Seat, Settings};
use super::steering::Steering;
use super::sys::barrier::Barrier;
use super::sys::fanout::{self, Group};
use super::sys::ring::Ring;
use super::sys::{link, take_error};
use super::{Gone, LOOK_AGAIN, Presence, cannot, check_method};
use crate::encapsulation;
use crate::handover::Claimant;

/// The element class FromDevice.
pub static CLASS: Class = Class {
    name: "FromDevice",
    ports: "0/1-2",
    processing: "h",
    manual: manual!("from_device.rs"),
    notes: Notes { task: Task::Always, has_queues: true, is_live: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::positional("PROMISC", "bool", "false"),
        ArgInfo::positional("SNAPLEN", "unsigned", ""),
        ArgInfo::keyword("SNIFFER", "bool", "true"),
        ArgInfo::keyword("FORCE_IP", "bool", "false"),
        ArgInfo::keyword("METHOD", "word", "").computed("LINUX, unless there is a BPF_FILTER"),
        ArgInfo::keyword("CAPTURE", "word", "").computed("METHOD"),
        ArgInfo::keyword("BPF_FILTER", "text", ""),
        ArgInfo::keyword("PROTOCOL", "unsigned", "0"),
        ArgInfo::keyword("OUTBOUND", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "unsigned", "28"),
        ArgInfo::keyword("ENCAP", "word", ""),
        ArgInfo::keyword("BURST", "int", "").computed("the burst of the run"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("STEERING", "hash or spray", ""),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
        ArgInfo::keyword("SHARED", "bool", "false"),
        ArgInfo::keyword("OFFLOAD", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"]), StatePart::kept("interface", &["kernel_drops"])],
    // No samples for the generic tests, because the element needs an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let device: String = args.required("DEVNAME");
    let promiscuous = args.value::<bool>("PROMISC");
    let snap_length: Option<u32> = args.get("SNAPLEN");
    let sniffer = args.value::<bool>("SNIFFER");
    let methods = ["METHOD", "CAPTURE"].map(|name| {
        let method: Option<String> = args.get(name);
        method.inspect(|method| check_method(args, method))
    });
    let method = methods.into_iter().flatten().next_back();
    let filter: Option<String> = args.get("BPF_FILTER");
    let encapsulation = args.get::<String>("ENCAP");
    let burst: Option<i64> = args.get("BURST");
    if device.is_empty() && args.was_given("DEVNAME") {
        args.error("interface not set");
    }
    if snap_length.is_some_and(|length| !(14..=65535).contains(&length)) {
        args.error("SNAPLEN out of range");
    }
    if args.value::<u32>("HEADROOM") > 8190 {
        args.error("HEADROOM out of range");
    }
    if burst.is_some_and(|burst| burst <= 0) {
        args.error("BURST out of range");
    }
    if encapsulation.is_some_and(|name| encapsulation::parse(&name).is_none()) {
        args.error("bad encapsulation type");
    }
    match (filter.as_deref(), method.as_deref()) {
        (None | Some(""), _) => {}
        (_, Some("LINUX" | "NETMAP")) => args.warn("not using METHOD PCAP, BPF filter ignored"),
        _ => args.error("BPF_FILTER: not supported; put a Classifier or an IPClassifier after FromDevice"),
    }
    let steering: Option<String> = args.get("STEERING");
    let steering = Steering::new(steering.as_deref(), args.setup.spreading.as_deref()).unwrap_or_else(|| {
        args.error("STEERING: 'hash' or 'spray' expected");
        Steering::Hash
    });
    let gone = Gone::read(args);
    let marks_ip = if args.value::<bool>("FORCE_IP") { MarksIp::Only } else { MarksIp::No };
    let from_device = FromDevice {
        wanted: device.clone(),
        device,
        gone,
        is_shared: args.value("SHARED"),
        claim: None,
        told: None,
        promiscuous,
        protocol: args.value("PROTOCOL"),
        outbound: args.value("OUTBOUND"),
        burst: burst.map(|n| (n as usize).min(BATCH_CAPACITY)),
        time_stamps: args.value("TIMESTAMP"),
        active: args.value("ACTIVE"),
        offloads: args.value("OFFLOAD"),
        sniffer,
        outputs: args.outputs(),
        steering,
        incoming: Incoming::new(
            snap_length.map_or(usize::MAX, |length| length as usize),
            marks_ip,
            LinkType::Ethernet,
        ),
        budget: Budget::default(),
        common: Arc::clone(&args.setup.common),
        seat: None,
        waits: false,
        ring: None,
        index: 0,
        state: Presence::Up,
        awaited: None,
        earlier_drops: 0,
        joint: args.setup.common.get_or_make(args.id(), Joint::default),
        // The copy at worker 0 has its first turn after the copies at all other workers, so it unblocks the
        // sockets of all copies. An element that is assigned to one worker has a single copy, which unblocks
        // its own socket.
        begins: false,
        is_open: false,
        is_drained: false,
    };
    args.finish()?;
    Ok(Box::new(from_device))
}

/// The tokens of this element: `RECEIVE` of the ring's socket among the watched files, and `LOOK` of the
/// timer for the next check of the interface.
const RECEIVE: u32 = 0;
const LOOK: u32 = 1;
/// The longest time in milliseconds to wait at the end of a run until the kernel has handed over packets
/// that it has received.
const PATIENCE: usize = 20;
/// The time between two checks of an interface that is down.
const PAUSE: Timestamp = Timestamp(100_000_000);

struct FromDevice {
    /// `wanted` is the interface's name in the configuration. `device` is its present name, which differs
    /// after the interface was renamed.
    wanted: String,
    device: String,
    gone: Gone,
    is_shared: bool,
    /// The claim that keeps other Tidegate processes from receiving from the interface; `None` with SHARED,
    /// or if the kernel did not allow a claim.
    claim: Option<Arc<Claim>>,
    /// The last reported reason why another interface with the configured or the last name of the removed
    /// interface could not be opened. The same reason is not reported twice.
    told: Option<String>,
    promiscuous: bool,
    /// The only protocol (Ethernet type) to receive; 0 for all.
    protocol: u16,
    outbound: bool,
    burst: Option<usize>,
    time_stamps: bool,
    active: bool,
    offloads: bool,
    /// True if the kernel's network stack gets the packets as well (SNIFFER).
    sniffer: bool,
    outputs: usize,
    steering: Steering,
    incoming: Incoming,
    budget: Budget,
    /// The objects that the elements of this configuration share.
    common: Arc<Common>,
    /// The seat of this copy at the interface, by which a running element passes its ring to the element that
    /// replaces it: both have the same seat.
    seat: Option<Arc<Seat>>,
    /// True if this element has the seat of a running element, and has not taken over that element's ring
    /// yet.
    waits: bool,
    ring: Option<Ring>,
    /// The interface's index in the kernel. If the interface is removed, another interface of the same name
    /// gets another index.
    index: c_int,
    state: Presence,
    /// The registration that this element waits for another interface with the configured name; `None` while
    /// there is an interface.
    awaited: Option<Awaited>,
    /// The number of packets that were lost in rings that are closed now.
    earlier_drops: u64,
    joint: Arc<Joint>,
    /// True for the copy whose first turn makes all copies receive, and which reports the removal and the
    /// return of the interface.
    begins: bool,
    is_open: bool,
    is_drained: bool,
}

/// The state that the copies of an element, one per worker, share.
#[derive(Default)]
struct Joint {
    group: Group,
    /// The sockets that are blocked until all workers run, each with the index of its interface. Without the
    /// block, packets would fill rings that no worker empties yet, and a socket that has not joined the
    /// fanout group would get all packets of the interface.
    shut: Mutex<Vec<(c_int, OwnedFd)>>,
    /// The barrier that keeps packets from the kernel's network stack (SNIFFER false), with the index of
    /// its interface.
    barrier: Mutex<Option<(c_int, Arc<Barrier>)>>,
}

impl Joint {
    fn shut(&self) -> MutexGuard<'_, Vec<(c_int, OwnedFd)>> {
        self.shut.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn barrier(&self) -> MutexGuard<'_, Option<(c_int, Arc<Barrier>)>> {
        self.barrier.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The state that an element passes to the element of the same name that replaces it in a new configuration:
/// the counts of received and of lost packets. `drops` is 0 if the ring passes to another element, because
/// the count of lost packets then passes on with the ring.
struct Legacy {
    device: String,
    count: u64,
    drops: u64,
}

impl FromDevice {
    fn settings(&self, cx: &Cx<'_>) -> Settings {
        let FromDevice { index, offloads, promiscuous, outbound, steering, .. } = *self;
        let copies = cx.workers().copies(cx.id());
        Settings { index, offloads, promiscuous, outbound, steering, copies }
    }

    /// True if another element has the same seat: the element that will replace this one, or, while this
    /// element waits to take over, the element that it replaces.
    fn shares_seat(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| Arc::strong_count(seat) > 1)
    }

    /// Continues with the ring of the element that this element replaces. Its socket has received without a
    /// gap.
    #[cold]
    fn take_over(&mut self, cx: &mut Cx<'_>) {
        self.waits = false;
        let Some(open) = self.seat.as_ref().and_then(|seat| seat.take()) else { return };
        (self.is_open, self.state) = (true, open.state);
        self.earlier_drops += open.earlier_drops;
        if let Err(error) = self.serve(cx, open.ring) {
            self.say(cx, format_args!("{error}"));
        }
    }

    /// Finds the interface and its link type, and claims it.
    ///
    /// # Errors
    /// If there is no such interface, its type cannot be read, or (with SHARED false) another process has
    /// claimed it.
    fn find(&mut self) -> Result<(), String> {
        let failed = |step: &str, error: &std::io::Error| cannot(&self.device, step, error);
        self.index = link::index(&self.device).map_err(|error| failed("SIOCGIFINDEX", &error))?;
        if !self.is_shared {
            self.claim = Claim::of(&self.device, self.index)?;
        }
        let hardware = link::hardware(&self.device).map_err(|error| failed("SIOCGIFHWADDR", &error))?;
        self.incoming.link = match hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::Ethernet,
            // TUN interfaces and tunnels have no link header.
            _ => LinkType::RawIp,
        };
        // The declaration, which was made before the interface was found, says that frames start with an
        // Ethernet header. Without this header, it does not tell which writes change the IP header.
        self.incoming.reports_checksums = self.incoming.link == LinkType::Ethernet;
        Ok(())
    }

    /// Puts a barrier at the interface, so that the kernel's network stack gets no packets from it, unless
    /// another copy has done so.
    ///
    /// # Errors
    /// If the kernel refuses the barrier; the message contains advice.
    fn seclude(&self) -> Result<(), String> {
        let mut barrier = self.joint.barrier();
        if barrier.as_ref().is_none_or(|(index, _)| *index != self.index) {
            let new = Barrier::at(self.index).map_err(|(step, error)| {
                let text = cannot(&self.device, step, &error);
                match error.raw_os_error() {
                    Some(libc::EPERM | libc::EACCES) => {
                        format!("{text}; SNIFFER false needs CAP_BPF besides")
                    }
                    _ => format!(
                        "{text}; SNIFFER false needs Linux 6.6 or later: without it, firewall rules keep the kernel from \
                         acting on packets"
                    ),
                }
            })?;
            *barrier = Some((self.index, new));
        }
        Ok(())
    }

    /// Opens this copy's ring, whose socket is blocked until [`unshut`](Self::unshut). With several workers,
    /// the socket joins the fanout group of all copies' sockets.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let failed = |step: &str, error: &std::io::Error| cannot(&self.device, step, error);
        let (worker, workers) = cx.workers().copy();
        let ring = Ring::open(self.offloads, workers).map_err(|(step, error)| failed(step, &error))?;
        fanout::shut(ring.socket()).map_err(|error| failed("SO_ATTACH_FILTER", &error))?;
        if !self.outbound {
            fanout::ignore_outgoing(ring.socket());
        }
        ring.bind(self.index).map_err(|error| failed("bind", &error))?;
        if let Err(error) = fanout::join_groups(ring.socket(), self.index, self.promiscuous)
            && self.promiscuous
        {
            cx.warn(format_args!("cannot set promiscuous mode: {}", crate::reason(&error)));
        }
        if workers > 1 {
            let key = cx.workers().steering_key();
            let program = |joined: &[usize]| self.steering.program(joined, workers, &key);
            let joined = self.joint.group.join(ring.socket(), (worker, self.index), self.outbound, program);
            joined.map_err(|error| failed("PACKET_FANOUT", &error))?;
        }
        let socket = ring.socket().try_clone_to_owned().map_err(|error| failed("socket", &error))?;
        let mut shut = self.joint.shut();
        shut.retain(|(index, _)| *index == self.index);
        shut.push((self.index, socket));
        drop(shut);
        if let Some(remark) = &ring.remark {
            self.say(cx, format_args!("{remark}"));
        }
        let seat = Arc::new(Seat::new(self.settings(cx)));
        SEATS.list(&Claimant::new(cx, &self.common), &seat, true);
        self.seat = Some(seat);
        self.serve(cx, ring)
    }

    /// Takes a ring as this copy's own, and watches its socket for packets.
    fn serve(&mut self, cx: &mut Cx<'_>, ring: Ring) -> Result<(), String> {
        cx.files()
            .watch(RECEIVE, ring.socket().as_fd(), Interest::Read)
            .map_err(|error| cannot(&self.device, "poll", &error))?;
        self.ring = Some(ring);
        Ok(())
    }

    /// Makes this copy receive. At the start of a run, the copy that has `begins` unblocks the sockets of all
    /// copies. On a reload, a copy that has not taken over a ring opens one, unless the interface was
    /// removed, and the last such copy unblocks the sockets.
    #[cold]
    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.is_open = true;
        if self.ring.is_some() {
            if self.begins {
                self.unshut(cx);
            }
            return;
        }
        if self.state == Presence::Gone {
            return;
        }
        match self.open(cx) {
            Ok(()) if self.joint.shut().len() >= cx.workers().copies(cx.id()) => self.unshut(cx),
            Ok(()) => {}
            Err(error) => self.say(cx, format_args!("{error}")),
        }
    }

    /// Unblocks the sockets of all copies, so that they receive.
    #[cold]
    fn unshut(&self, cx: &mut Cx<'_>) {
        for (_, socket) in self.joint.shut().drain(..) {
            if let Err(error) = fanout::unshut(socket.as_fd()) {
                self.say(cx, format_args!("SO_DETACH_FILTER: {}", crate::reason(&error)));
            }
        }
    }

    /// Looks for another interface with the configured or the last name of the removed interface, and opens
    /// it. If that fails, sets a timer for the next attempt.
    #[cold]
    fn find_again(&mut self, cx: &mut Cx<'_>) {
        let names = [self.wanted.clone(), self.device.clone()];
        if let Some(name) = names.into_iter().find(|name| link::index(name).is_ok()) {
            match self.open_again(cx, name) {
                Ok(()) => {
                    self.told = None;
                    if self.begins {
                        cx.note(format_args!("{}: is there again", self.device));
                    }
                    (self.state, self.is_open, self.awaited) = (Presence::Up, true, None);
                    return self.look(cx);
                }
                Err(error) if self.told.as_ref() != Some(&error) => {
                    self.say(cx, format_args!("cannot be opened again: {error}"));
                    self.told = Some(error);
                }
                Err(_) => {}
            }
        }
        cx.set_coarse_timer(LOOK, cx.now() + LOOK_AGAIN);
    }

    fn open_again(&mut self, cx: &mut Cx<'_>, name: String) -> Result<(), String> {
        if let Some(mut ring) = self.ring.take() {
            // Packets that are still in the old ring are lost with it, and counted.
            while ring.next().is_some() {
                self.earlier_drops += 1;
            }
            self.earlier_drops += ring.lost();
        }
        self.device = name;
        self.find()?;
        if !self.sniffer {
            self.seclude()?;
        }
        self.open(cx)?;
        // The last copy unblocks the sockets. No worker receives before all can, because each packet goes
        // to the worker of its flow.
        if self.joint.shut().len() >= cx.workers().copies(cx.id()) {
            self.unshut(cx);
        }
        Ok(())
    }

    /// Reads frames from the ring and emits their packets, at most `most` per turn in the long run
    /// ([`Budget`]). Returns the number of frames read, including frames that were not wanted.
    fn receive(&mut self, cx: &mut Cx<'_>, most: usize) -> usize {
        let mut batch = cx.batch();
        let (mut looked, mut inactive) = (0, 0);
        let Some(ring) = &mut self.ring else { return 0 };
        self.budget.begin(most);
        while self.budget.has_some() && (self.is_drained || cx.has_room()) {
            let Some(frame) = ring.next() else { break };
            looked += 1;
            let is_wanted = (self.outbound || frame.kind != libc::PACKET_OUTGOING)
                && (self.protocol == 0 || self.protocol == frame.protocol);
            if !is_wanted || !self.active {
                self.budget.spend(0);
                inactive += usize::from(is_wanted);
                continue;
            }
            let received = Received {
                device: &self.device,
                bytes: frame.bytes,
                length: frame.length,
                time: if self.time_stamps { Timestamp(frame.time) } else { Timestamp::ZERO },
                kind: kind(frame.kind),
                vlan: frame.vlan,
                virtio: frame.virtio,
            };
            let made = self.incoming.take(cx, &mut batch, &received);
            self.budget.spend(made);
        }
        cx.emit(0, batch);
        if inactive > 0 {
            self.incoming.count_inactive(cx, &self.device, inactive);
        }
        looked
    }

    fn say(&self, cx: &mut Cx<'_>, text: std::fmt::Arguments<'_>) {
        cx.warn(format_args!("{}: {text}", self.device));
    }

    /// Checks the interface: follows a new name, reports a change between up and down, and detects its
    /// removal. After a removal, looks for another interface with the configured or the last name.
    fn look(&mut self, cx: &mut Cx<'_>) {
        if self.state == Presence::Gone {
            return self.find_again(cx);
        }
        // The user may have renamed the interface.
        if let Ok(name) = link::name_of(self.index)
            && name != self.device
        {
            cx.note(format_args!("{}: is called {name} now", self.device));
            self.device = name;
        }
        // The kernel unbinds a socket whose interface was removed. An unbound socket shows the removal even
        // if another interface has the name and index now.
        let is_bound = self.ring.as_ref().is_none_or(|ring| ring.bound() == self.index);
        let state = if is_bound { Presence::of(&self.device, self.index) } else { Presence::Gone };
        if state == Presence::Gone {
            if self.begins {
                self.say(cx, format_args!("{}", self.gone.text()));
            }
        } else if state != self.state {
            cx.messages()
                .tell(state.severity(), format_args!("{0}: {1}", self.device, state.text(&self.device)));
        }
        self.state = state;
        match state {
            Presence::Up => cx.schedule(),
            Presence::Down => cx.set_coarse_timer(LOOK, cx.now() + PAUSE),
            Presence::Gone => {
                cx.files().unwatch(RECEIVE);
                // The packets that arrived before the removal are in the ring, and are emitted in the turn
                // that is scheduled here.
                cx.schedule();
                match self.gone {
                    Gone::Wait => self.wait(cx),
                    Gone::Stop => cx.stop(),
                }
            }
        }
    }

    /// Registers that this element waits for another interface with the configured name, and sets a timer to
    /// look for an interface with the configured or the last name.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        self.awaited = Some(Awaited::new(&self.wanted));
        cx.set_coarse_timer(LOOK, cx.now() + LOOK_AGAIN);
    }

    fn drops(&mut self) -> u64 {
        self.earlier_drops + self.ring.as_mut().map_or(0, Ring::lost)
    }
}

fn kind(number: u8) -> PacketKind {
    match number {
        libc::PACKET_BROADCAST => PacketKind::Broadcast,
        libc::PACKET_MULTICAST => PacketKind::Multicast,
        libc::PACKET_OTHERHOST => PacketKind::OtherHost,
        libc::PACKET_OUTGOING => PacketKind::Outgoing,
        _ => PacketKind::Host,
    }
}

impl Element for FromDevice {
    fn effects(&self) -> Effects {
        let offloads = self.offloads.then_some(-14);
        let is_spread = matches!(self.steering, Steering::Spray(_));
        let leaves = if is_spread { Leaves::Spread } else { Leaves::Here };
        Effects {
            support: Support { offloads, ..Support::default() },
            leaves,
            ..self.incoming.effects(self.outputs)
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.begins = cx.workers().copy().0 == 0;
        if let Err(error) = self.find() {
            let is_away = link::index(&self.device).is_err() && is_awaited(&self.wanted);
            if !(is_away && cx.is_heir() && self.gone == Gone::Wait) {
                return Err(error);
            }
            // The element that this element replaces waits for the interface. This element continues to
            // wait rather than fail.
            self.state = Presence::Gone;
            self.wait(cx);
            return Ok(());
        }
        if !self.sniffer {
            self.seclude()?;
        }
        let settings = self.settings(cx);
        let by = Claimant::new(cx, &self.common);
        self.seat = SEATS.claim(&by, |seat| seat.settings == settings);
        self.waits = self.seat.is_some();
        // Opening a ring can take a tenth of a second, in which the running element could not empty its own
        // ring. If this element replaces a running element, the ring is therefore opened only in the first
        // turn, and only if the running element's ring cannot be taken over.
        if !self.waits && !cx.is_heir() {
            self.open(cx)?;
        }
        cx.schedule();
        if !link::is_up(&self.device).unwrap_or(true) {
            self.look(cx);
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waits {
            self.take_over(cx);
        }
        if !self.is_open {
            self.begin(cx);
        }
        let looked = self.receive(cx, self.burst.unwrap_or(cx.burst()));
        // `is_ready` also gives a block back to the kernel at once if all its packets have been read.
        if self.ring.as_mut().is_some_and(Ring::is_ready) {
            cx.schedule();
        }
        looked > 0
    }

    fn ready(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let Some(ring) = &mut self.ring else { return };
        if ring.is_ready() {
            return cx.schedule();
        }
        if take_error(ring.socket()).is_some() {
            self.look(cx);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.look(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        cx.unschedule();
        if self.shares_seat() || std::mem::replace(&mut self.is_drained, true) {
            // The packets in the ring are left to the element that replaces this one, which takes over the
            // ring.
            return;
        }
        if self.waits {
            self.take_over(cx);
        }
        let Some(Ok(())) = self.ring.as_ref().map(|ring| fanout::shut(ring.socket())) else { return };
        // The packets that arrived before the socket was blocked are in the ring, but the kernel may not have
        // handed over the last block yet.
        for _ in 0..PATIENCE {
            while self.receive(cx, usize::MAX) > 0 {}
            if !self.ring.as_mut().is_some_and(Ring::has_rest) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.files().unwatch(RECEIVE);
        self.incoming.end(cx, &self.device);
        self.joint.shut().clear();
        *self.joint.barrier() = None;
        if let Some(seat) = self.seat.take_if(|seat| Arc::strong_count(seat) > 1)
            && let Some(ring) = self.ring.take()
        {
            let earlier_drops = std::mem::take(&mut self.earlier_drops);
            seat.leave(Open { ring, earlier_drops, state: self.state });
        }
        self.earlier_drops = self.drops();
        (self.ring, self.seat, self.claim, self.awaited) = (None, None, None, None);
        self.gone.end(&self.device, self.state == Presence::Gone)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let drops = if self.shares_seat() { 0 } else { self.drops() };
        Some(Box::new(Legacy { device: self.device.clone(), count: self.incoming.count, drops }))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Ok(legacy) = state.downcast::<Legacy>() else { return Err("state of another element".into()) };
        if legacy.device == self.device {
            self.incoming.count += legacy.count;
            self.earlier_drops += legacy.drops;
        }
        Ok(())
    }

    fn missed(&self) -> u64 {
        self.earlier_drops
    }
}

const HANDLERS: &[Handler<FromDevice>] = &[
    Handler::count("count", |e| e.incoming.count),
    Handler::act("reset_counts", |e| e.incoming.count = 0),
    Handler::<FromDevice>::read("kernel_drops", |e, _, _| Ok(e.drops().to_string()))
        .summed()
        .metric(metrics::KERNEL_DROPS),
    Handler::get("encap", |e| encapsulation::name(e.incoming.link)),
    Handler::flag("active", |e| &mut e.active, "type mismatch"),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    fn errors(arguments: &str) -> String {
        TestRun::default().text(&format!("FromDevice({arguments}) -> Discard"), &[]).unwrap_err()
    }

    #[test]
    fn arguments_that_are_wrong_are_refused_in_clicks_words() {
        for (arguments, text) in [
            ("eth0, SNAPLEN 13", "SNAPLEN out of range"),
            ("eth0, SNAPLEN 65536", "SNAPLEN out of range"),
            ("eth0, HEADROOM 8191", "HEADROOM out of range"),
            ("eth0, BURST 0", "BURST out of range"),
            ("eth0, METHOD CARRIER_PIGEON", "bad METHOD"),
            ("eth0, ENCAP PIGEON", "bad encapsulation type"),
            ("eth0, GONE PIGEON", "GONE: 'PIGEON' is neither wait nor stop"),
            ("eth0, STEERING PIGEON", "STEERING: 'hash' or 'spray' expected"),
            ("eth0, BPF_FILTER tcp", "BPF_FILTER: not supported"),
            ("\"\"", "interface not set"),
            ("", "DEVNAME: required argument missing"),
        ] {
            let errors = errors(arguments);
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let errors = errors("no-such-device, METHOD PCAP");
        assert!(errors.contains("no-such-device: SIOCGIFINDEX: No such device; `ip link` shows"), "{errors}");
    }
}
